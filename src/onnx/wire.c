/* Unpacking by protobuf-c, which trusts a file in three ways that a hostile one may use: it calls itself for each nested
 * message, merges messages that are there twice, and makes a struct of some hundred bytes of an empty message of two. So
 * the bytes are walked over first, with the same descriptors.
 * Source: Protocol Buffers, "Encoding". */
#include "onnx/wire.h"

enum { MAX_DEPTH = 32, SPARE_BYTES = 1 << 20, TIMES_BYTES = 32 };
enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

typedef struct walk {
  const char *wrong; /* NULL: nothing so far */
  uint64_t memory;   /* that unpacking takes, about, */
  uint64_t limit;    /* and may take */
} walk;

static bool walk_fail(walk *w, const char *wrong) {
  w->wrong = wrong;
  return false;
}

static bool read_varint(const uint8_t **at, const uint8_t *end, uint64_t *value_out) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && *at < end; shift += 7) {
    uint8_t byte = *(*at)++;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (byte & 0x80) continue;
    *value_out = value;
    return true;
  }
  return false;
}

/* Past the value of a field. content [bytes]: what is inside, where it has a length. */
static bool pass_value(int wire, const uint8_t **at, const uint8_t *end, const uint8_t **content, uint64_t *bytes) {
  uint64_t n;
  *bytes = 0;
  if (wire == WIRE_VARINT) return read_varint(at, end, &n);
  if (wire == WIRE_64 || wire == WIRE_32) n = wire == WIRE_64 ? 8 : 4;
  else if (wire != WIRE_BYTES || !read_varint(at, end, &n)) return false;
  if (n > (uint64_t)(end - *at)) return false;
  *content = *at;
  *bytes = wire == WIRE_BYTES ? n : 0;
  *at += n;
  return true;
}

static bool walk_message(walk *w, const ProtobufCMessageDescriptor *descriptor, const uint8_t *at, const uint8_t *end,
                         int depth) {
  uint64_t seen = 0; /* bit i: field i */
  if (depth > MAX_DEPTH) return walk_fail(w, "its messages are nested too deeply");
  w->memory += descriptor->sizeof_message + sizeof(void *);
  while (at < end) {
    uint64_t tag, bytes;
    const uint8_t *content = NULL;
    if (!read_varint(&at, end, &tag) || tag > UINT32_MAX || !pass_value((int)(tag & 7), &at, end, &content, &bytes))
      return walk_fail(w, "it is cut short, or no ONNX file");
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(descriptor, (unsigned)(tag >> 3));
    bool is_list = field && field->label == PROTOBUF_C_LABEL_REPEATED;
    bool is_message = field && field->type == PROTOBUF_C_TYPE_MESSAGE && content;
    /* Packed numbers take up to eight bytes each; all else its own and what manages it. */
    w->memory += is_list && content && !is_message ? 8 * bytes : bytes;
    w->memory += 2 * sizeof(void *);
    if (w->memory > w->limit) return walk_fail(w, "it would take far more memory than it has bytes");
    if (!is_message) continue;
    uint64_t bit = UINT64_C(1) << ((field - descriptor->fields) & 63);
    if (!is_list && (seen & bit)) return walk_fail(w, "a part that can be there once is there twice");
    seen |= bit;
    w->memory -= bytes; /* counted again inside */
    if (!walk_message(w, field->descriptor, content, content + bytes, depth + 1)) return false;
  }
  return true;
}

ronde_status ronde__onnx_unpack(const char *path, const void *data, size_t bytes, Onnx__ModelProto **model_out) {
  walk w = {.limit = (uint64_t)bytes * TIMES_BYTES + SPARE_BYTES};
  const uint8_t *begin = data;
  if (!walk_message(&w, &onnx__model_proto__descriptor, begin, begin + bytes, 0))
    return ronde__fail(RONDE_E_INPUT, "%s: %s", path, w.wrong);
  Onnx__ModelProto *model = onnx__model_proto__unpack(NULL, bytes, data);
  if (!model) return ronde__fail(RONDE_E_INPUT, "%s: it is damaged, or no ONNX file", path);
  *model_out = model;
  return RONDE_OK;
}

/* Weights in the files of other systems: recognised by their first bytes, so that the error says how to convert
 * them. */
#include "io/foreign.h"

#include <stdlib.h>
#include <string.h>

static bool foreign_begins(const uint8_t *data, size_t bytes, const char *magic, size_t n) {
  return bytes >= n && memcmp(data, magic, n) == 0;
}

#define BEGINS(magic) foreign_begins(data, bytes, magic, sizeof(magic) - 1)

static bool foreign_ends(const char *text, size_t n, const char *end) {
  size_t m = strlen(end);
  return n >= m && memcmp(text + n - m, end, m) == 0;
}

/* PyTorch, Keras and NumPy write zip archives; the name of the first file in one tells them apart. */
static ronde__foreign zip_kind(const uint8_t *data, size_t bytes) {
  enum { NAME_LENGTH_AT = 26, NAME_AT = 30 };
  if (bytes < NAME_AT) return RONDE__FOREIGN_ZIP;
  size_t n = (size_t)(data[NAME_LENGTH_AT] | data[NAME_LENGTH_AT + 1] << 8);
  const char *name = (const char *)data + NAME_AT;
  if (n > bytes - NAME_AT) return RONDE__FOREIGN_ZIP;
  if (foreign_ends(name, n, "/data.pkl") || foreign_ends(name, n, "/version") || foreign_ends(name, n, "/byteorder"))
    return RONDE__FOREIGN_PYTORCH;
  if (foreign_ends(name, n, ".npy")) return RONDE__FOREIGN_NPZ;
  return foreign_ends(name, n, ".json") || foreign_ends(name, n, ".h5") ? RONDE__FOREIGN_KERAS : RONDE__FOREIGN_ZIP;
}

ronde__foreign ronde__foreign_kind(const void *file, size_t bytes) {
  const uint8_t *data = file;
  if (BEGINS("PK\3\4")) return zip_kind(data, bytes);
  /* A zero there may be the header length of a safetensors file that was cut short. */
  bool counts = bytes < 8 || !data[3];
  if (!counts && data[0] == 0x80 && data[1] >= 2 && data[1] <= 5) return RONDE__FOREIGN_PYTORCH; /* a plain pickle */
  if (BEGINS("\x89HDF\r\n\x1a\n")) return RONDE__FOREIGN_KERAS;
  if (BEGINS("\x93NUMPY")) return RONDE__FOREIGN_NPY;
  if (BEGINS("GGUF")) return RONDE__FOREIGN_GGUF;
  /* A protocol buffer whose field 1 is a small version, followed by the producer's name or by the next number. */
  bool onnx = !counts && data[0] == 0x08 && data[1] >= 1 && data[1] <= 32 && (data[2] == 0x12 || data[2] == 0x1a);
  return onnx ? RONDE__FOREIGN_ONNX : RONDE__FOREIGN_NONE;
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

ronde_status ronde__foreign_fail(const char *path, ronde__foreign kind) {
  const char *shown = RONDE__SHOWN(base_name(path));
  switch (kind) {
  case RONDE__FOREIGN_PYTORCH:
    return ronde__fail(
        RONDE_E_INPUT,
        "%s: a PyTorch file where safetensors is needed; in Python: import torch; from safetensors.torch "
        "import save_file; w = torch.load(\"%s\", map_location=\"cpu\"); save_file({k: v.contiguous() "
        "for k, v in w.items()}, \"%.*s.safetensors\")",
        path, shown, (int)strcspn(shown, "."), shown);
  case RONDE__FOREIGN_NPZ:
    return ronde__fail(
        RONDE_E_INPUT,
        "%s: a NumPy archive where safetensors is needed; in Python: import numpy; from safetensors.numpy "
        "import save_file; save_file(dict(numpy.load(\"%s\")), \"%.*s.safetensors\")",
        path, shown, (int)strcspn(shown, "."), shown);
  case RONDE__FOREIGN_KERAS:
    return ronde__fail(
        RONDE_E_INPUT,
        "%s: a Keras file where safetensors is needed, with PyTorch's names and shapes: write its arrays "
        "by save_file of safetensors.numpy (`ronde models NAME` lists them)",
        path);
  case RONDE__FOREIGN_ONNX:
    return ronde__fail(RONDE_E_INPUT,
                       "%s: an ONNX file where safetensors is needed: --model %s takes network and weights from it",
                       path, path);
  case RONDE__FOREIGN_NPY:
    return ronde__fail(RONDE_E_INPUT, "%s: a single NumPy array where a network's weights (safetensors) are needed",
                       path);
  case RONDE__FOREIGN_GGUF: return ronde__fail(RONDE_E_INPUT, "%s: a GGUF file where safetensors is needed", path);
  case RONDE__FOREIGN_ZIP: return ronde__fail(RONDE_E_INPUT, "%s: a zip archive where safetensors is needed", path);
  case RONDE__FOREIGN_NONE: break;
  }
  return ronde__fail(RONDE_E_INPUT, "%s: not a safetensors file", path);
}

/* What the initializers of a file hold: in the file itself, as a list of numbers or as bytes, or in a file beside it, which
 * must lie in the same folder or below. */
#include "onnx/import.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define IS(tensor, type) ((tensor)->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__##type)

int64_t ronde__onnx_elems(const Onnx__TensorProto *tensor) {
  int64_t n = 1;
  for (size_t d = 0; d < tensor->n_dims; d++)
    if (tensor->dims[d] < 0 || __builtin_mul_overflow(n, tensor->dims[d], &n)) return -1;
  return n;
}

static bool is_external(const Onnx__TensorProto *tensor) {
  return tensor->has_data_location && tensor->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
}

/* ---- in a file beside ---- */

typedef struct outside {
  const char *location;
  uint64_t offset, bytes;
} outside;

static bool read_number(const char *text, uint64_t *number_out) {
  char *end;
  errno = 0;
  if (*text < '0' || *text > '9') return false;
  *number_out = strtoull(text, &end, 10);
  return !*end && !errno;
}

static ronde_status find_outside(const ronde__onnx *file, const Onnx__TensorProto *tensor, uint64_t bytes,
                                 outside *o_out) {
  outside o = {.bytes = bytes};
  bool right = true;
  for (size_t i = 0; i < tensor->n_external_data; i++) {
    const Onnx__StringStringEntryProto *entry = tensor->external_data[i];
    if (!entry->key || !entry->value) continue;
    if (!strcmp(entry->key, "location")) o.location = entry->value;
    else if (!strcmp(entry->key, "offset")) right &= read_number(entry->value, &o.offset);
    else if (!strcmp(entry->key, "length")) right &= read_number(entry->value, &o.bytes) && o.bytes == bytes;
  }
  if (!right || ronde__is_empty(o.location))
    return ronde__fail(RONDE_E_INPUT,
                       "%s: tensor %s: its data lie in another file, but not %llu bytes in a known place", file->path,
                       RONDE__SHOWN(tensor->name), (unsigned long long)bytes);
  *o_out = o;
  return RONDE_OK;
}

/* Whether a path, links followed, is inside the folder. */
static bool is_inside(const char *folder, const char *path) {
  char *root = realpath(folder, NULL), *real = realpath(path, NULL);
  size_t n = root ? strlen(root) : 0;
  bool inside = root && real && !strncmp(root, real, n) && (real[n] == '/' || (n == 1 && *root == '/'));
  free(root);
  free(real);
  return inside;
}

/* Opens the file, in which the bytes must lie. */
static ronde_status open_outside(const ronde__onnx *file, const Onnx__TensorProto *tensor, const outside *o,
                                 int *fd_out) {
  const char *location = RONDE__SHOWN(o->location), *name = RONDE__SHOWN(tensor->name);
  char *path = ronde__format("%s/%s", file->folder, o->location);
  struct stat info;
  if (!path) return ronde__fail(RONDE_E_MEMORY, "%s: no memory for a name", file->path);
  bool exists = *o->location == '/' || access(path, F_OK) == 0;
  bool inside = exists && *o->location != '/' && is_inside(file->folder, path);
  int fd = inside ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
  free(path);
  if (exists && !inside)
    return ronde__fail(RONDE_E_INPUT, "%s: tensor %s: %s is outside the file's folder", file->path, name, location);
  if (fd < 0)
    return ronde__fail(RONDE_E_INPUT, "%s: tensor %s: cannot read %s beside it: %s", file->path, name, location,
                       strerror(errno));
  bool has = !fstat(fd, &info) && S_ISREG(info.st_mode) && o->offset <= (uint64_t)info.st_size &&
             o->bytes <= (uint64_t)info.st_size - o->offset;
  if (!has) {
    close(fd);
    return ronde__fail(RONDE_E_INPUT, "%s: tensor %s: %s has no %llu bytes at offset %llu", file->path, name, location,
                       (unsigned long long)o->bytes, (unsigned long long)o->offset);
  }
  *fd_out = fd;
  return RONDE_OK;
}

static ronde_status read_outside(const ronde__onnx *file, const Onnx__TensorProto *tensor, void *data, uint64_t bytes) {
  outside o;
  int fd;
  RONDE_TRY(find_outside(file, tensor, bytes, &o));
  RONDE_TRY(open_outside(file, tensor, &o, &fd));
  ssize_t n = 0;
  for (uint64_t at = 0; at < bytes; at += (uint64_t)n) {
    n = pread(fd, (char *)data + at, bytes - at, (off_t)(o.offset + at));
    if (n <= 0) break;
  }
  close(fd);
  return n > 0 || bytes == 0 ? RONDE_OK
                             : ronde__fail(RONDE_E_INPUT, "%s: tensor %s: %s became shorter or cannot be read",
                                           file->path, RONDE__SHOWN(tensor->name), RONDE__SHOWN(o.location));
}

/* ---- floats ---- */

ronde_status ronde__onnx_check_floats(const ronde__onnx *file, const Onnx__TensorProto *tensor) {
  int64_t n = ronde__onnx_elems(tensor);
  const char *name = RONDE__SHOWN(tensor->name);
  if (!IS(tensor, FLOAT))
    return ronde__fail(RONDE_E_INPUT, "%s: tensor %s is of type %d, but only f32 (type 1) can be trained", file->path,
                       name, tensor->data_type);
  if (n < 1 || n > INT64_MAX / 4 || tensor->n_dims > RONDE_MAX_RANK)
    return ronde__fail(RONDE_E_INPUT, "%s: tensor %s: its shape is empty, too large or of more than %d dimensions",
                       file->path, name, RONDE_MAX_RANK);
  if (is_external(tensor)) {
    outside o;
    int fd;
    RONDE_TRY(find_outside(file, tensor, (uint64_t)n * 4, &o));
    RONDE_TRY(open_outside(file, tensor, &o, &fd));
    close(fd);
    return RONDE_OK;
  }
  size_t has = tensor->has_raw_data ? tensor->raw_data.len / 4 : tensor->n_float_data;
  if (has != (uint64_t)n || (tensor->has_raw_data && tensor->raw_data.len % 4))
    return ronde__fail(RONDE_E_INPUT, "%s: tensor %s has %zu values, but its shape has %lld", file->path, name, has,
                       (long long)n);
  return RONDE_OK;
}

ronde_status ronde__onnx_read_floats(const ronde__onnx *file, const Onnx__TensorProto *tensor, float *values_out) {
  uint64_t bytes = (uint64_t)ronde__onnx_elems(tensor) * 4;
  if (is_external(tensor)) return read_outside(file, tensor, values_out, bytes);
  memcpy(values_out, tensor->has_raw_data ? (const void *)tensor->raw_data.data : tensor->float_data, bytes);
  return RONDE_OK;
}

bool ronde__onnx_read_number(const Onnx__TensorProto *tensor, double *number_out) {
  float value;
  if (ronde__onnx_elems(tensor) != 1 || is_external(tensor)) return false;
  if (IS(tensor, DOUBLE)) {
    bool raw = tensor->has_raw_data && tensor->raw_data.len == 8;
    if (raw) memcpy(number_out, tensor->raw_data.data, 8);
    else if (tensor->n_double_data == 1) *number_out = tensor->double_data[0];
    return raw || tensor->n_double_data == 1;
  }
  if (!IS(tensor, FLOAT)) return false;
  if (tensor->has_raw_data && tensor->raw_data.len == 4) memcpy(&value, tensor->raw_data.data, 4);
  else if (tensor->n_float_data == 1) value = tensor->float_data[0];
  else return false;
  *number_out = (double)value;
  return true;
}

bool ronde__onnx_is_integer(int64_t type) {
  return type == ONNX__TENSOR_PROTO__DATA_TYPE__INT64 || type == ONNX__TENSOR_PROTO__DATA_TYPE__INT32;
}

bool ronde__onnx_is_zero(const Onnx__TensorProto *tensor) {
  if (!IS(tensor, FLOAT) || is_external(tensor)) return false;
  for (size_t i = 0; i < tensor->n_float_data; i++)
    if (tensor->float_data[i] != 0) return false;
  for (size_t i = 0; tensor->has_raw_data && i < tensor->raw_data.len; i++)
    if (tensor->raw_data.data[i]) return false;
  return true;
}

/* ---- integers ---- */

/* Element i of raw bytes. */
static int64_t raw_integer(const Onnx__TensorProto *tensor, size_t each, int64_t i) {
  const uint8_t *at = tensor->raw_data.data + (size_t)i * each;
  int64_t wide;
  int32_t narrow;
  if (each == 1) return *at != 0;
  if (each == 8) return memcpy(&wide, at, sizeof wide), wide;
  memcpy(&narrow, at, sizeof narrow);
  return narrow;
}

bool ronde__onnx_read_integers(const Onnx__TensorProto *tensor, int max, int64_t *values_out, int *n_out) {
  int64_t n = ronde__onnx_elems(tensor);
  bool wide = IS(tensor, INT64), truths = IS(tensor, BOOL);
  if (n < 0 || n > max || is_external(tensor) || (!wide && !truths && !IS(tensor, INT32))) return false;
  size_t each = wide ? 8 : truths ? 1 : 4, has = wide ? tensor->n_int64_data : tensor->n_int32_data;
  if (tensor->has_raw_data ? tensor->raw_data.len != (size_t)n * each : has != (size_t)n) return false;
  for (int64_t i = 0; i < n; i++) {
    values_out[i] = tensor->has_raw_data ? raw_integer(tensor, each, i)
                    : wide               ? tensor->int64_data[i]
                    : truths             ? tensor->int32_data[i] != 0
                                         : tensor->int32_data[i];
    if (ronde__onnx_batches(values_out[i])) return false; /* it stands for something else here */
  }
  *n_out = (int)n;
  return true;
}

bool ronde__onnx_read_sizes(const Onnx__TensorProto *tensor, ronde__onnx_value *value_out) {
  ronde__onnx_value value = {.kind = RONDE__ONNX_SIZES, .is_scalar = tensor->n_dims == 0};
  if (tensor->n_dims > 1 || !ronde__onnx_read_integers(tensor, RONDE__ONNX_MAX_SIZES, value.size, &value.n))
    return false;
  *value_out = value;
  return true;
}

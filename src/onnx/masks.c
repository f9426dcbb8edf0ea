/* Initializers that are masks, which no training changes: those that are only compared, and the triangles of causal attention.
 * PyTorch's older exporter writes buffers as it writes parameters, so what they hold and who reads them tells them apart. */
#include "onnx/import.h"

#include <string.h>

/* How a value is read, by any of its readers. */
enum { AS_NUMBERS = 1, NOT_AS_A_MASK = 2 };

static bool is_among(const ronde__onnx_node *node, const char *const *types, size_t n) {
  const char *type = node->proto->op_type ? node->proto->op_type : "";
  for (size_t i = 0; i < n; i++)
    if (!strcmp(type, types[i])) return true;
  return false;
}

static bool casts_to(const ronde__onnx_node *node, bool floats) {
  const int64_t to = ronde__onnx_attr_int(node, "to", 0);
  static const char *const types[] = {"Cast"};
  const bool fits = floats ? to == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT
                           : to == ONNX__TENSOR_PROTO__DATA_TYPE__BOOL || ronde__onnx_is_integer(to);
  return fits && is_among(node, types, 1);
}

/* Of its inputs no more than truths, or whole numbers, goes on. */
static bool compares(const ronde__onnx_node *node) {
  static const char *const types[] = {"Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual",
                                      "Not",   "And",  "Or",      "Xor"};
  return is_among(node, types, RONDE__COUNT(types)) || casts_to(node, false);
}

/* Its output has elements of its first input as they are. */
static bool moves(const ronde__onnx_node *node) {
  static const char *const types[] = {"Slice",  "Reshape",   "Squeeze", "Unsqueeze", "Expand",
                                      "Gather", "Transpose", "Flatten", "Identity"};
  return is_among(node, types, RONDE__COUNT(types)) || casts_to(node, true);
}

static bool may_read_mask(const ronde__onnx_node *node) {
  static const char *const types[] = {"Add",   "Sub",    "Mul",       "Neg",  "Where",
                                      "Slice", "Expand", "Unsqueeze", "Cast", "Gather"};
  return is_among(node, types, RONDE__COUNT(types)) || compares(node);
}

static void note_readers(const ronde__onnx *file, uint8_t *read) {
  read[file->output] = AS_NUMBERS | NOT_AS_A_MASK;
  for (int i = file->n_nodes - 1; i >= 0; i--) {
    const ronde__onnx_node *node = &file->nodes[i];
    if (!node->needed) continue;
    const bool goes_on = moves(node) && node->out[0] >= 0 && !(read[node->out[0]] & AS_NUMBERS);
    for (int k = 0; k < node->n_in; k++) {
      if (node->in[k] < 0) continue;
      if (!compares(node) && !(goes_on && k == 0)) read[node->in[k]] |= AS_NUMBERS;
      if (!may_read_mask(node)) read[node->in[k]] |= NOT_AS_A_MASK;
    }
  }
}

/* Whether x [n][n] has one number below the diagonal and another above it, the diagonal having either. */
static bool is_triangle(const float *x, int64_t n) {
  const float below = x[n], above = x[1], on = x[0];
  if (!(below != above) || (on != below && on != above)) return false;
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++)
      if (x[i * n + j] != (j < i ? below : j > i ? above : on)) return false;
  return true;
}

/* Dimensions of 1 in front do not count. */
static ronde_status holds_triangle(const ronde__onnx *file, const Onnx__TensorProto *tensor, bool *yes_out) {
  enum { LEAST = 3, MOST = 2048 }; /* two rows may well be weights */
  const size_t rank = tensor->n_dims;
  const int64_t n = rank >= 2 ? tensor->dims[rank - 1] : 0;
  float *x;
  *yes_out = false;
  if (n < LEAST || n > MOST || ronde__onnx_elems(tensor) != n * n || tensor->dims[rank - 2] != n) return RONDE_OK;
  RONDE_TRY(ronde__onnx_check_floats(file, tensor));
  RONDE__ALLOC(x, (size_t)(n * n) * sizeof *x, file->path);
  ronde_status status = ronde__onnx_read_floats(file, tensor, x);
  *yes_out = status == RONDE_OK && is_triangle(x, n);
  ronde__free(x);
  return status;
}

ronde_status ronde__onnx_find_masks(ronde__onnx *file) {
  uint8_t *read;
  ronde_status status = RONDE_OK;
  RONDE__ALLOC(read, (size_t)file->n_names, file->path);
  note_readers(file, read);
  for (int i = 0; i < file->n_names && status == RONDE_OK; i++) {
    const Onnx__TensorProto *tensor = file->constants[i];
    const bool is_read = tensor && file->producer[i] < 0 && file->n_readers[i] > 0;
    if (!is_read || tensor->data_type != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT) continue;
    file->is_mask[i] = !(read[i] & AS_NUMBERS);
    if (!(read[i] & NOT_AS_A_MASK) && !file->is_mask[i]) status = holds_triangle(file, tensor, &file->is_mask[i]);
  }
  ronde__free(read);
  return status;
}

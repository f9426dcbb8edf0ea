/* What nodes say: attributes, inputs, and what goes wrong with them. */
#include "onnx/import.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *ronde__onnx_node_name(const ronde__onnx_node *node) {
  const Onnx__NodeProto *proto = node->proto;
  if (!ronde__is_empty(proto->name)) return proto->name;
  return proto->n_output ? proto->output[0] : "";
}

ronde_status ronde__onnx_fail(const ronde__onnx_import *im, const ronde__onnx_node *node, const char *format, ...) {
  char text[400];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return ronde__fail(RONDE_E_INPUT, "%s: %s %s: %s", im->file->path, RONDE__SHOWN(node->proto->op_type),
                     RONDE__SHOWN(ronde__onnx_node_name(node)), text);
}

/* ---- attributes ---- */

const Onnx__AttributeProto *ronde__onnx_attr(const ronde__onnx_node *node, const char *name) {
  for (size_t i = 0; i < node->proto->n_attribute; i++) {
    const Onnx__AttributeProto *attribute = node->proto->attribute[i];
    if (attribute->name && !strcmp(attribute->name, name)) return attribute;
  }
  return NULL;
}

int64_t ronde__onnx_attr_int(const ronde__onnx_node *node, const char *name, int64_t otherwise) {
  const Onnx__AttributeProto *attribute = ronde__onnx_attr(node, name);
  return attribute && attribute->has_i ? attribute->i : otherwise;
}

double ronde__onnx_attr_float(const ronde__onnx_node *node, const char *name, double otherwise) {
  const Onnx__AttributeProto *attribute = ronde__onnx_attr(node, name);
  return attribute && attribute->has_f ? (double)attribute->f : otherwise;
}

bool ronde__onnx_attr_is(const ronde__onnx_node *node, const char *name, const char *otherwise, const char *word) {
  const Onnx__AttributeProto *attribute = ronde__onnx_attr(node, name);
  if (!attribute || !attribute->has_s) return !strcmp(otherwise, word);
  return attribute->s.len == strlen(word) && !memcmp(attribute->s.data, word, attribute->s.len);
}

const int64_t *ronde__onnx_attr_ints(const ronde__onnx_node *node, const char *name, size_t *n_out) {
  const Onnx__AttributeProto *attribute = ronde__onnx_attr(node, name);
  *n_out = attribute ? attribute->n_ints : 0;
  return attribute && attribute->n_ints ? attribute->ints : NULL;
}

/* ---- inputs and outputs ---- */

/* Whether it holds integers; all 0 and 1, it may be of truths. */
static bool are_integers(const ronde__onnx_value *value) {
  bool are = false;
  for (int i = 0; value->kind == RONDE__ONNX_SIZES && i < value->n; i++)
    are |= value->size[i] != 0 && value->size[i] != 1;
  return are;
}

int64_t ronde__onnx_cast_to(const ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde__onnx_value *like = ronde__onnx_in(im, node, 1);
  if (strcmp(node->proto->op_type, "CastLike") != 0) return ronde__onnx_attr_int(node, "to", 0);
  if (!like) return 0;
  if (like->kind == RONDE__ONNX_CONSTANT) return like->constant->data_type;
  if (are_integers(like)) return ONNX__TENSOR_PROTO__DATA_TYPE__INT64;
  bool floats = like->kind == RONDE__ONNX_TENSOR || like->kind == RONDE__ONNX_NUMBER ||
                like->kind == RONDE__ONNX_DRAWS || like->kind == RONDE__ONNX_ABSORBED ||
                (like->kind == RONDE__ONNX_KNOWN && !like->known->integers);
  return floats ? ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT : 0;
}

ronde__onnx_value *ronde__onnx_in(const ronde__onnx_import *im, const ronde__onnx_node *node, int i) {
  return i < node->n_in && node->in[i] >= 0 ? &im->values[node->in[i]] : NULL;
}

ronde__onnx_value *ronde__onnx_out(const ronde__onnx_import *im, const ronde__onnx_node *node, int i) {
  return i < node->n_out && node->out[i] >= 0 ? &im->values[node->out[i]] : NULL;
}

/* Of one direction, [T,H] as [T,1,H], and a state [H] as [1,H]; an image of one row [C,1,W] as [C,W], and of one pixel as [C]. */
const ronde_tensor *ronde__onnx_as_in_file(const ronde__onnx_value *value) {
  int64_t dims[RONDE_MAX_RANK];
  int rank = ronde_tensor_dims(value->x, dims);
  const int64_t steps[] = {dims[0], 1, dims[rank - 1]}, row[] = {dims[0], dims[rank - 1]};
  switch (value->order) {
  case RONDE__ONNX_AS_EVER: return value->x;
  case RONDE__ONNX_DIRECTIONS: return ronde_reshape(value->x, 3, steps);
  case RONDE__ONNX_STATE: return ronde_reshape(value->x, 2, steps + 1);
  default: return ronde_reshape(value->x, value->n, row);
  }
}

ronde_status ronde__onnx_in_tensor(const ronde__onnx_import *im, const ronde__onnx_node *node, int i,
                                   const ronde_tensor **x_out) {
  const ronde__onnx_value *value = ronde__onnx_in(im, node, i);
  if (!value) return ronde__onnx_fail(im, node, "input %d is missing", i);
  if (value->kind != RONDE__ONNX_TENSOR)
    return ronde__onnx_fail(im, node, "input %d (%s) is a constant, where only an activation is supported", i,
                            RONDE__SHOWN(im->file->names[node->in[i]]));
  bool is_plain = value->order == RONDE__ONNX_AS_EVER || value->order == RONDE__ONNX_IMAGE;
  if (!is_plain || value->transposed || value->merged || value->at != (im->file->lead ? 0 : RONDE__ONNX_ALIKE))
    return ronde__onnx_fail(im, node, "the batch is not the first dimension of its input %s",
                            RONDE__SHOWN(im->file->names[node->in[i]]));
  *x_out = ronde__onnx_as_in_file(value);
  return *x_out ? RONDE_OK : ronde_graph_status(im->graph);
}

ronde_status ronde__onnx_in_sizes(const ronde__onnx_import *im, const ronde__onnx_node *node, int i,
                                  ronde__onnx_value *sizes_out) {
  const ronde__onnx_value *value = ronde__onnx_in(im, node, i);
  if (value && value->kind == RONDE__ONNX_SIZES) *sizes_out = *value;
  else if (!value || value->kind != RONDE__ONNX_CONSTANT || !ronde__onnx_read_sizes(value->constant, sizes_out))
    return ronde__onnx_fail(im, node, "input %d is not a list of up to %d integers that follows from the file alone", i,
                            RONDE__ONNX_MAX_SIZES);
  return RONDE_OK;
}

ronde_status ronde__onnx_in_number(const ronde__onnx_import *im, const ronde__onnx_node *node, int i, double otherwise,
                                   double *number_out) {
  const ronde__onnx_value *value = ronde__onnx_in(im, node, i);
  const ronde__onnx_known *array = ronde__onnx_array(value);
  if (!value) *number_out = otherwise;
  else if (value->kind == RONDE__ONNX_NUMBER) *number_out = value->number;
  else if (array && array->n == 1) *number_out = array->values[0];
  else if (value->kind != RONDE__ONNX_CONSTANT || !ronde__onnx_read_number(value->constant, number_out))
    return ronde__onnx_fail(im, node, "input %d is not one number that the file gives", i);
  return RONDE_OK;
}

ronde_status ronde__onnx_set(ronde__onnx_import *im, const ronde__onnx_node *node, int i, const ronde_tensor *x) {
  ronde__onnx_value *value = ronde__onnx_out(im, node, i);
  if (!x) return ronde_graph_status(im->graph);
  if (value)
    *value = (ronde__onnx_value){.kind = RONDE__ONNX_TENSOR, .at = im->file->lead ? 0 : RONDE__ONNX_ALIKE, .x = x};
  return RONDE_OK;
}

/* An input since opset 13 or 18, an attribute before. */
ronde_status ronde__onnx_axes(ronde__onnx_import *im, const ronde__onnx_node *node, int i, int rank,
                              unsigned *mask_out) {
  size_t n;
  const int64_t *given = ronde__onnx_attr_ints(node, "axes", &n);
  ronde__onnx_value axes;
  *mask_out = 0;
  if (!given && ronde__onnx_in(im, node, i)) {
    RONDE_TRY(ronde__onnx_in_sizes(im, node, i, &axes));
    given = axes.size;
    n = (size_t)axes.n;
  }
  for (size_t k = 0; k < n; k++) {
    int64_t axis = given[k] < 0 && given[k] >= -rank ? given[k] + rank : given[k];
    if (axis < 0 || axis >= rank) return ronde__onnx_fail(im, node, "axis %" PRId64 " is not there", given[k]);
    *mask_out |= 1u << axis;
  }
  return RONDE_OK;
}

void ronde__onnx_shape_range(const ronde__onnx_node *node, int n, int64_t *first_out, int64_t *end_out) {
  int64_t first = ronde__onnx_attr_int(node, "start", 0), end = ronde__onnx_attr_int(node, "end", n);
  *first_out = ronde__max(0, ronde__min(n, first < 0 ? first + n : first));
  *end_out = ronde__max(*first_out, ronde__min(n, end < 0 ? end + n : end));
}

bool ronde__onnx_is_left_out(const ronde__onnx_import *im, const ronde__onnx_node *node, ronde__onnx_end end) {
  return im->end == end && node->out[0] == im->file->output && im->file->n_readers[node->out[0]] == 1;
}

bool ronde__onnx_is_read(const ronde__onnx_import *im, const ronde__onnx_node *node, int i) {
  return ronde__onnx_out(im, node, i) && im->file->n_readers[node->out[i]] > 0;
}

const ronde__onnx_node *ronde__onnx_only_reader(const ronde__onnx *file, int value) {
  if (value < 0 || file->n_readers[value] != 1 || value == file->output) return NULL;
  return &file->nodes[file->reader[value]];
}

int ronde__onnx_other(const ronde__onnx_node *node, int value) {
  return node->n_in != 2 ? -1 : node->in[0] == value ? node->in[1] : node->in[1] == value ? node->in[0] : -1;
}

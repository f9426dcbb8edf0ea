/* The parts of a file in the making, in memory that ends with it. */
#include "onnx/writer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *out_of_memory(ronde__onnx_writer *w) {
  if (w->status == RONDE_OK) w->status = ronde__fail(RONDE_E_MEMORY, "%s: no memory for an ONNX file", w->path);
  return NULL;
}

/* Keeps a block until the end; takes it over in any case. */
static void *keep(ronde__onnx_writer *w, void *block) {
  int n = w->n_blocks;
  void **blocks = (n & (n - 1)) || !block ? w->blocks : realloc(w->blocks, (n ? 2 * (size_t)n : 1) * sizeof *blocks);
  if (!block || !blocks) {
    free(block);
    return out_of_memory(w);
  }
  w->blocks = blocks;
  return w->blocks[w->n_blocks++] = block;
}

void *ronde__onnx_room(ronde__onnx_writer *w, size_t bytes) {
  return w->status == RONDE_OK ? keep(w, calloc(1, bytes ? bytes : 1)) : NULL;
}

char *ronde__onnx_text(ronde__onnx_writer *w, const char *format, ...) {
  char *text = NULL;
  if (w->status != RONDE_OK) return NULL;
  va_list arguments;
  va_start(arguments, format);
  if (vasprintf(&text, format, arguments) < 0) text = NULL;
  va_end(arguments);
  return keep(w, text);
}

/* A list with room for one more of n pointers. */
static void *grow(ronde__onnx_writer *w, void *list, size_t n) {
  if (n & (n - 1)) return list;
  void *larger = ronde__onnx_room(w, (n ? 2 * n : 1) * sizeof(void *));
  if (larger && n) memcpy(larger, list, n * sizeof(void *));
  return larger;
}

#define APPEND(w, list, n, item)                               \
  do {                                                         \
    void *item_ = (item), *list_ = grow(w, list, n);           \
    if (item_ && list_) (list) = list_, (list)[(n)++] = item_; \
  } while (0)

/* ---- nodes ---- */

static bool is_named(const ronde__onnx_writer *w, const char *name) {
  for (size_t i = 0; i < w->file.n_node; i++)
    if (!strcmp(w->file.node[i]->name, name)) return true;
  return false;
}

/* A name that no node has yet: what one node of the graph became may be several, and layers may share a label. */
static char *name_of(ronde__onnx_writer *w, const char *label) {
  char *name = ronde__onnx_text(w, "%s", label);
  for (int i = 1; name && is_named(w, name); i++) name = ronde__onnx_text(w, "%s.%d", label, i);
  return name;
}

Onnx__NodeProto *ronde__onnx_add(ronde__onnx_writer *w, const char *type, const char *label, const char *output) {
  Onnx__NodeProto *node = ronde__onnx_room(w, sizeof *node);
  if (!node) return NULL;
  onnx__node_proto__init(node);
  node->op_type = ronde__onnx_text(w, "%s", type);
  node->name = name_of(w, label);
  ronde__onnx_add_output(w, node, output);
  APPEND(w, w->file.node, w->file.n_node, node);
  return w->status == RONDE_OK ? node : NULL;
}

Onnx__NodeProto *ronde__onnx_add_step(ronde__onnx_writer *w, const char *type, const char *from, const char *to) {
  Onnx__NodeProto *step = ronde__onnx_add(w, type, to, to);
  ronde__onnx_add_input(w, step, from);
  return step;
}

void ronde__onnx_add_axis(ronde__onnx_writer *w, const char *type, int64_t axis, const char *from, const char *to) {
  Onnx__NodeProto *step = ronde__onnx_add_step(w, type, from, to);
  ronde__onnx_add_input(w, step, ronde__onnx_add_sizes(w, 1, &axis));
}

bool ronde__onnx_is_given(const ronde__onnx_writer *w, const char *name) {
  for (size_t i = w->status == RONDE_OK ? w->file.n_node : 0; i > 0; i--)
    for (size_t k = 0; k < w->file.node[i - 1]->n_output; k++)
      if (!strcmp(w->file.node[i - 1]->output[k], name)) return true;
  return false;
}

void ronde__onnx_add_input(ronde__onnx_writer *w, Onnx__NodeProto *node, const char *name) {
  if (node) APPEND(w, node->input, node->n_input, ronde__onnx_text(w, "%s", name ? name : ""));
}

void ronde__onnx_add_output(ronde__onnx_writer *w, Onnx__NodeProto *node, const char *name) {
  if (node) APPEND(w, node->output, node->n_output, ronde__onnx_text(w, "%s", name ? name : ""));
}

/* NULL after an error. */
static Onnx__AttributeProto *add_attribute(ronde__onnx_writer *w, Onnx__NodeProto *node, const char *name,
                                           Onnx__AttributeProto__AttributeType type) {
  Onnx__AttributeProto *attribute = node ? ronde__onnx_room(w, sizeof *attribute) : NULL;
  if (!attribute) return NULL;
  onnx__attribute_proto__init(attribute);
  attribute->name = ronde__onnx_text(w, "%s", name);
  attribute->has_type = true;
  attribute->type = type;
  APPEND(w, node->attribute, node->n_attribute, attribute);
  return w->status == RONDE_OK ? attribute : NULL;
}

#define TYPE(name) ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##name

void ronde__onnx_add_int(ronde__onnx_writer *w, Onnx__NodeProto *node, const char *name, int64_t value) {
  Onnx__AttributeProto *attribute = add_attribute(w, node, name, TYPE(INT));
  if (!attribute) return;
  attribute->has_i = true;
  attribute->i = value;
}

void ronde__onnx_add_ints(ronde__onnx_writer *w, Onnx__NodeProto *node, const char *name, int n,
                          const int64_t *values) {
  Onnx__AttributeProto *attribute = add_attribute(w, node, name, TYPE(INTS));
  int64_t *copy = attribute ? ronde__onnx_room(w, (size_t)n * sizeof *copy) : NULL;
  if (!copy) return;
  memcpy(copy, values, (size_t)n * sizeof *copy);
  attribute->n_ints = (size_t)n;
  attribute->ints = copy;
}

void ronde__onnx_add_float(ronde__onnx_writer *w, Onnx__NodeProto *node, const char *name, float value) {
  Onnx__AttributeProto *attribute = add_attribute(w, node, name, TYPE(FLOAT));
  if (!attribute) return;
  attribute->has_f = true;
  attribute->f = value;
}

void ronde__onnx_add_word(ronde__onnx_writer *w, Onnx__NodeProto *node, const char *name, const char *value) {
  Onnx__AttributeProto *attribute = add_attribute(w, node, name, TYPE(STRING));
  char *copy = attribute ? ronde__onnx_text(w, "%s", value) : NULL;
  if (!copy) return;
  attribute->has_s = true;
  attribute->s = (ProtobufCBinaryData){strlen(copy), (uint8_t *)copy};
}

/* Of this word alone. */
void ronde__onnx_add_word_list(ronde__onnx_writer *w, Onnx__NodeProto *node, const char *name, const char *value) {
  Onnx__AttributeProto *attribute = add_attribute(w, node, name, TYPE(STRINGS));
  ProtobufCBinaryData *list = attribute ? ronde__onnx_room(w, sizeof *list) : NULL;
  char *copy = list ? ronde__onnx_text(w, "%s", value) : NULL;
  if (!copy) return;
  *list = (ProtobufCBinaryData){strlen(copy), (uint8_t *)copy};
  attribute->n_strings = 1;
  attribute->strings = list;
}

/* ---- initializers ---- */

static Onnx__TensorProto *new_tensor(ronde__onnx_writer *w, int type, int rank, const int64_t *dims) {
  Onnx__TensorProto *tensor = ronde__onnx_room(w, sizeof *tensor);
  int64_t *copy = ronde__onnx_room(w, (size_t)rank * sizeof *copy);
  size_t bytes = type == ONNX__TENSOR_PROTO__DATA_TYPE__INT64 ? 8 : 4;
  for (int d = 0; d < rank; d++) bytes *= (size_t)dims[d];
  void *data = ronde__onnx_room(w, bytes);
  if (!tensor || !copy || !data) return NULL;
  onnx__tensor_proto__init(tensor);
  for (int d = 0; d < rank; d++) copy[d] = dims[d];
  tensor->has_data_type = true;
  tensor->data_type = type;
  tensor->n_dims = (size_t)rank;
  tensor->dims = copy;
  tensor->has_raw_data = true;
  tensor->raw_data = (ProtobufCBinaryData){bytes, data};
  return tensor;
}

void *ronde__onnx_add_tensor(ronde__onnx_writer *w, const char *name, int type, int rank, const int64_t *dims) {
  Onnx__TensorProto *tensor = new_tensor(w, type, rank, dims);
  if (!tensor) return NULL;
  tensor->name = ronde__onnx_text(w, "%s", name);
  APPEND(w, w->file.initializer, w->file.n_initializer, tensor);
  return w->status == RONDE_OK ? tensor->raw_data.data : NULL;
}

float *ronde__onnx_add_fixed(ronde__onnx_writer *w, const char *label, const char *name, int rank,
                             const int64_t *dims) {
  Onnx__AttributeProto *attribute =
      add_attribute(w, ronde__onnx_add(w, "Constant", label, name), "value", TYPE(TENSOR));
  Onnx__TensorProto *tensor = attribute ? new_tensor(w, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, rank, dims) : NULL;
  if (!tensor) return NULL;
  attribute->t = tensor;
  return (float *)(void *)tensor->raw_data.data;
}

static const char *add_constant(ronde__onnx_writer *w, int type, int rank, int64_t n, const void *values,
                                size_t bytes) {
  const char *name = ronde__onnx_text(w, RONDE__RESERVED "constant.%d", w->n_constants++);
  void *data = name ? ronde__onnx_add_tensor(w, name, type, rank, &n) : NULL;
  if (!data) return NULL;
  memcpy(data, values, (size_t)n * bytes);
  return name;
}

const char *ronde__onnx_add_floats(ronde__onnx_writer *w, int rank, int64_t n, const float *values) {
  return add_constant(w, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, rank, n, values, sizeof *values);
}

const char *ronde__onnx_add_sizes(ronde__onnx_writer *w, int64_t n, const int64_t *values) {
  return add_constant(w, ONNX__TENSOR_PROTO__DATA_TYPE__INT64, 1, n, values, sizeof *values);
}

const char *ronde__onnx_add_token(ronde__onnx_writer *w, int32_t token) {
  return add_constant(w, ONNX__TENSOR_PROTO__DATA_TYPE__INT32, 0, 1, &token, sizeof token);
}

/* ---- nodes of the graph ---- */

const ronde__shape *ronde__onnx_shape_in(const ronde__onnx_writer *w, const ronde__node *node) {
  return &w->graph->tensors[node->in[0]]->shape;
}

const char *ronde__onnx_out_name(const ronde__onnx_writer *w, const ronde__node *node, int i) {
  return w->names[node->out[i]];
}

Onnx__NodeProto *ronde__onnx_add_like(ronde__onnx_writer *w, const ronde__node *node, const char *type) {
  Onnx__NodeProto *to = ronde__onnx_add(w, type, node->label, ronde__onnx_out_name(w, node, 0));
  for (int i = 0; i < node->n_inputs; i++) ronde__onnx_add_input(w, to, w->names[node->in[i]]);
  return to;
}

void ronde__onnx_refuse(ronde__onnx_writer *w, const ronde__node *node, const char *why) {
  if (w->status == RONDE_OK) w->status = ronde__fail(RONDE_E_USAGE, "%s: %s: %s", w->path, node->label, why);
}

void ronde__onnx_need_opset(ronde__onnx_writer *w, int64_t opset) { w->opset = w->opset < opset ? opset : w->opset; }

int ronde__onnx_param_at(const ronde__net *net, int param) {
  int n, at = 0;
  const ronde__net_param *params = ronde__net_params(net, &n);
  while (at < n && params[at].index != param) at++;
  return at;
}

float *ronde__onnx_add_floats_of(ronde__onnx_writer *w, const char *name, const ronde__shape *shape) {
  return ronde__onnx_add_tensor(w, name, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, shape->rank, shape->dim);
}

const char *ronde__onnx_give_param(ronde__onnx_writer *w, const ronde__node *node, int i, const char *label) {
  int index = node->param[i];
  const ronde__param *param = &w->graph->params[index];
  const ronde__shape *shape = &param->shape;
  float *values = w->written[index] ? NULL
                  : param->fixed    ? ronde__onnx_add_fixed(w, label, param->name, shape->rank, shape->dim)
                                    : ronde__onnx_add_floats_of(w, param->name, shape);
  if (values) ronde__net_get(w->net, ronde__onnx_param_at(w->net, index), values);
  w->written[index] = true;
  return param->name;
}

void ronde__onnx_add_param(ronde__onnx_writer *w, const ronde__node *node, int i, Onnx__NodeProto *to) {
  ronde__onnx_add_input(w, to, ronde__onnx_give_param(w, node, i, node->label));
}

void ronde__onnx_add_params(ronde__onnx_writer *w, const ronde__node *node, Onnx__NodeProto *to) {
  for (int i = 0; i < node->n_params; i++) ronde__onnx_add_param(w, node, i, to);
}

void ronde__onnx_release(ronde__onnx_writer *w) {
  for (int i = 0; i < w->n_blocks; i++) free(w->blocks[i]);
  free(w->blocks);
}

/* Constants that are operands: numbers, and tensors, which become parameters. An initializer is trained, unless it is a scalar;
 * what a node Constant gives is fixed. */
#include "onnx/import.h"

#include <stdlib.h>
#include <string.h>

bool ronde__onnx_is_sizes(const ronde__onnx_value *value) {
  ronde__onnx_value ignored;
  return value && (value->kind == RONDE__ONNX_SIZES ||
                   (value->kind == RONDE__ONNX_CONSTANT && ronde__onnx_read_sizes(value->constant, &ignored)));
}

bool ronde__onnx_is_number(const ronde__onnx_import *im, const ronde__onnx_node *node, int i, double *number_out) {
  const ronde__onnx_value *value = ronde__onnx_in(im, node, i);
  if (!value) return false;
  if (value->kind == RONDE__ONNX_NUMBER) {
    *number_out = value->number;
    return true;
  }
  const ronde__onnx_known *array = ronde__onnx_array(value);
  if (array && !array->integers && array->n == 1) {
    *number_out = array->values[0];
    return true;
  }
  return value->kind == RONDE__ONNX_CONSTANT && (value->fixed || value->constant->n_dims == 0) &&
         ronde__onnx_read_number(value->constant, number_out);
}

static ronde_status add_fixed(ronde__onnx_import *im, const Onnx__TensorProto *tensor, const char *label,
                              const ronde__shape *shape, ronde_tensor **y_out) {
  float *values;
  RONDE__ALLOC(values, (size_t)ronde__shape_elems(shape) * sizeof *values, im->file->path);
  ronde_status status = ronde__onnx_read_floats(im->file, tensor, values);
  *y_out = status == RONDE_OK ? ronde_parameter(im->graph, label, shape->rank, shape->dim, values, true) : NULL;
  ronde__free(values);
  return status;
}

/* Weights of a file are finite, and a softmax takes a score of -1e30 for no more than -infinity. */
static float bounded(double value) {
  static const double MOST = 1e30;
  return (float)(value > MOST ? MOST : value < -MOST ? -MOST : value);
}

static bool is_same_array(const Onnx__TensorProto *tensor, const ronde__onnx_known *known) {
  if (tensor->n_dims != (size_t)known->rank || tensor->n_float_data != (size_t)known->n) return false;
  for (int d = 0; d < known->rank; d++)
    if (tensor->dims[d] != known->dim[d]) return false;
  for (int64_t i = 0; i < known->n; i++) {
    const float value = bounded(known->values[i]);
    if (memcmp(&tensor->float_data[i], &value, sizeof value) != 0) return false;
  }
  return true;
}

/* An array that follows from the file, as a constant that the file might have had under the name of its value. */
static ronde_status make_constant(ronde__onnx_import *im, const char *name, const ronde__onnx_known *known,
                                  const Onnx__TensorProto **tensor_out) {
  ronde__onnx *file = im->records;
  for (int i = 0; i < im->file->n_made; i++) {
    if (strcmp(im->file->made[i]->name, name) != 0) continue;
    if (!is_same_array(im->file->made[i], known))
      return ronde__fail(RONDE_E_INPUT, "%s: two nodes would have the constant %s", im->file->path, RONDE__SHOWN(name));
    *tensor_out = im->file->made[i];
    return RONDE_OK;
  }
  size_t n = (size_t)known->n, rank = (size_t)known->rank;
  Onnx__TensorProto **all = file ? realloc(file->made, ((size_t)file->n_made + 1) * sizeof *all) : NULL;
  if (all) file->made = all;
  Onnx__TensorProto *tensor = all ? malloc(sizeof *tensor) : NULL;
  if (!tensor) return ronde__fail(RONDE_E_MEMORY, "%s: no memory for an array", im->file->path);
  onnx__tensor_proto__init(tensor);
  all[file->n_made++] = tensor;
  tensor->name = ronde__strdup(name);
  tensor->dims = malloc((rank + 1) * sizeof *tensor->dims);
  tensor->float_data = malloc((n + 1) * sizeof *tensor->float_data);
  if (!tensor->name || !tensor->dims || !tensor->float_data)
    return ronde__fail(RONDE_E_MEMORY, "%s: no memory for an array", im->file->path);
  tensor->data_type = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
  tensor->n_dims = rank;
  tensor->n_float_data = n;
  memcpy(tensor->dims, known->dim, rank * sizeof *tensor->dims);
  for (size_t i = 0; i < n; i++) tensor->float_data[i] = bounded(known->values[i]);
  *tensor_out = tensor;
  return RONDE_OK;
}

/* A tensor as a parameter of its own dims, which training changes unless it is fixed; of a scalar, [1]. */
static ronde_status add_parameter(ronde__onnx_import *im, const ronde__onnx_node *node, const Onnx__TensorProto *tensor,
                                  bool fixed, const ronde_tensor **x_out) {
  ronde__onnx_layer layer = {0};
  ronde__shape shape = {0};
  ronde_tensor *y = NULL;
  RONDE_TRY(ronde__onnx_check_floats(im->file, tensor));
  for (size_t d = 0; d < tensor->n_dims; d++) shape.dim[shape.rank++] = tensor->dims[d];
  if (shape.rank == 0) shape = (ronde__shape){1, {1}};
  layer.label = ronde__strdup(tensor->name ? tensor->name : "");
  if (!layer.label) return ronde__fail(RONDE_E_MEMORY, "%s: no memory for names", im->file->path);
  ronde_status status = ronde__onnx_take_tensor(im, node, tensor, NULL, RONDE__ONNX_AS_IT_IS, &shape, false, &layer);
  if (status == RONDE_OK) status = ronde__onnx_begin(im, &layer);
  if (status == RONDE_OK && fixed) status = add_fixed(im, tensor, layer.label, &shape, &y);
  else if (status == RONDE_OK) y = ronde_parameter(im->graph, layer.label, shape.rank, shape.dim, NULL, false);
  if (status == RONDE_OK) status = ronde__onnx_note_layer(im, node, &layer, y);
  ronde__onnx_layer_release(&layer);
  *x_out = y;
  return status;
}

ronde_status ronde__onnx_parameter(ronde__onnx_import *im, const ronde__onnx_node *node, int i,
                                   const ronde_tensor **x_out) {
  ronde__onnx_value *value = ronde__onnx_in(im, node, i);
  if (value->kind == RONDE__ONNX_KNOWN) {
    const Onnx__TensorProto *made = NULL;
    if (value->known->per_example != 0)
      return ronde__onnx_fail(im, node, "input %d depends on an example's place in the batch", i);
    RONDE_TRY(make_constant(im, im->file->names[node->in[i]], value->known, &made));
    *value = (ronde__onnx_value){.kind = RONDE__ONNX_CONSTANT, .constant = made, .fixed = true};
  }
  if (value->transposed) return ronde__onnx_fail(im, node, "input %d is a transposed constant", i);
  if (!ronde__onnx_is_weight_name(value->constant->name))
    return ronde__onnx_fail(im, node, "the name of input %d cannot be that of a weight", i);
  return add_parameter(im, node, value->constant, value->fixed || value->constant->n_dims == 0, x_out);
}

/* An array of a node's, called by the node. */
static ronde_status make_own(ronde__onnx_import *im, const ronde__onnx_node *node, const char *suffix,
                             const ronde__onnx_known *known, const Onnx__TensorProto **made_out) {
  char *name = ronde__format("%s%s", ronde__onnx_node_name(node), suffix);
  if (!name) return ronde__fail(RONDE_E_MEMORY, "%s: no memory for a name", im->file->path);
  ronde_status status = ronde__onnx_is_weight_name(name)
                            ? make_constant(im, name, known, made_out)
                            : ronde__onnx_fail(im, node, "its name cannot be part of that of a weight");
  free(name);
  return status;
}

ronde_status ronde__onnx_fixed(ronde__onnx_import *im, const ronde__onnx_node *node, const char *suffix,
                               const ronde__onnx_known *known, const ronde_tensor **x_out) {
  const Onnx__TensorProto *made = NULL;
  RONDE_TRY(make_own(im, node, suffix, known, &made));
  return add_parameter(im, node, made, true, x_out);
}

ronde_status ronde__onnx_fixed_tensor(ronde__onnx_import *im, const ronde__onnx_node *node,
                                      const Onnx__TensorProto *tensor, const ronde_tensor **x_out) {
  return add_parameter(im, node, tensor, true, x_out);
}

/* ---- tables ---- */

/* The table that y was looked up in keeps these numbers. */
static ronde_status fix(ronde__onnx_import *im, const Onnx__TensorProto *table, const ronde_tensor *y) {
  float *values;
  RONDE__ALLOC(values, (size_t)ronde__onnx_elems(table) * sizeof *values, im->file->path);
  ronde_status status = ronde__onnx_read_floats(im->file, table, values);
  if (status == RONDE_OK) status = ronde__graph_fix(im->graph, im->graph->nodes[y->producer].param[0], values);
  ronde__free(values);
  return status;
}

ronde_status ronde__onnx_look_up(ronde__onnx_import *im, const ronde__onnx_node *node, const Onnx__TensorProto *table,
                                 bool fixed, const ronde_tensor *tokens, const ronde_tensor **y_out) {
  ronde__onnx_layer layer = {0};
  const ronde_tensor *y = NULL;
  if (!ronde__onnx_is_weight_name(table->name))
    return ronde__onnx_fail(im, node, "the name of its table cannot be that of a weight");
  RONDE_TRY(ronde__onnx_check_floats(im->file, table));
  const ronde__shape shape = {2, {table->dims[0], table->dims[1]}};
  ronde_status status = ronde__onnx_take_tensor(im, node, table, NULL, RONDE__ONNX_AS_IT_IS, &shape, false, &layer);
  if (status == RONDE_OK) status = ronde__onnx_begin(im, &layer);
  if (status == RONDE_OK) y = ronde_embedding(tokens, layer.label, shape.dim[1], 0);
  if (status == RONDE_OK) status = ronde__onnx_note_layer(im, node, &layer, y);
  if (status == RONDE_OK && fixed) status = fix(im, table, y);
  ronde__onnx_layer_release(&layer);
  *y_out = y;
  return status;
}

ronde_status ronde__onnx_look_up_known(ronde__onnx_import *im, const ronde__onnx_node *node, const char *suffix,
                                       const ronde__onnx_known *table, const ronde_tensor *tokens,
                                       const ronde_tensor **y_out) {
  const Onnx__TensorProto *made;
  RONDE_TRY(make_own(im, node, suffix, table, &made));
  return ronde__onnx_look_up(im, node, made, true, tokens, y_out);
}

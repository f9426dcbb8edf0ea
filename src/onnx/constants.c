/* Constants that are operands: numbers, and tensors, which become parameters. An initializer is trained, unless it is a scalar;
 * what a node Constant gives is fixed. */
#include "onnx/import.h"

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

ronde_status ronde__onnx_parameter(ronde__onnx_import *im, const ronde__onnx_node *node, int i,
                                   const ronde_tensor **x_out) {
  const ronde__onnx_value *value = ronde__onnx_in(im, node, i);
  const Onnx__TensorProto *tensor = value->constant;
  ronde__onnx_layer layer = {0};
  ronde__shape shape = {0};
  ronde_tensor *y = NULL;
  RONDE_TRY(ronde__onnx_check_floats(im->file, tensor));
  for (size_t d = 0; d < tensor->n_dims; d++) shape.dim[shape.rank++] = tensor->dims[d];
  if (shape.rank == 0) shape = (ronde__shape){1, {1}};
  if (value->transposed) return ronde__onnx_fail(im, node, "input %d is a transposed constant", i);
  ronde_status status = ronde__onnx_take(im, node, i, "", RONDE__ONNX_AS_IT_IS, &shape, false, &layer);
  if (status == RONDE_OK) status = ronde__onnx_begin(im, &layer);
  if (status == RONDE_OK && (value->fixed || tensor->n_dims == 0))
    status = add_fixed(im, tensor, layer.label, &shape, &y);
  else if (status == RONDE_OK) y = ronde_parameter(im->graph, layer.label, shape.rank, shape.dim, NULL, false);
  if (status == RONDE_OK) status = ronde__onnx_note_layer(im, node, &layer, y);
  ronde__onnx_layer_release(&layer);
  *x_out = y;
  return status;
}

static ronde_status too_many(const ronde__onnx_import *im, const ronde__onnx_node *node, int i) {
  return ronde__onnx_fail(im, node,
                          "input %d (%s) has other dimensions than the rest: the batch must be the first of all", i,
                          RONDE__SHOWN(im->file->names[node->in[i]]));
}

ronde_status ronde__onnx_operand(ronde__onnx_import *im, const ronde__onnx_node *node, int i, int rank,
                                 const ronde_tensor **x_out) {
  const ronde__onnx_value *value = ronde__onnx_in(im, node, i);
  bool is_constant = value && value->kind == RONDE__ONNX_CONSTANT;
  int64_t dims[RONDE_MAX_RANK], wanted[RONDE_MAX_RANK];
  int lead = is_constant ? im->file->lead : 0;
  if (is_constant) RONDE_TRY(ronde__onnx_parameter(im, node, i, x_out));
  else RONDE_TRY(ronde__onnx_in_tensor(im, node, i, x_out));
  int own = ronde_tensor_dims(*x_out, dims), skip = own > rank ? own - rank : 0;
  if (own == 0) return ronde_graph_status(im->graph);
  /* A constant may have the batch's dimension too, which is 1 then. */
  if (own == rank || rank > RONDE_MAX_RANK) return own == rank ? RONDE_OK : too_many(im, node, i);
  if (skip > lead || (skip && dims[0] != 1) || (own < rank && !is_constant && im->file->lead))
    return too_many(im, node, i);
  for (int d = 0; d < rank; d++) wanted[d] = d + own - rank < 0 ? 1 : dims[d + own - rank];
  *x_out = ronde_reshape(*x_out, rank, wanted);
  return *x_out ? RONDE_OK : ronde_graph_status(im->graph);
}

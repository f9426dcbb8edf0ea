/* Operators with weights: convolution, linear layers, normalisations, LSTM. */
#include "onnx/import.h"

#include <stdio.h>
#include <stdlib.h>

/* A constant's dims as a shape; rank 0: input i is no constant, or has too many. */
static ronde__shape dims_of(const ronde__onnx_import *im, const ronde__onnx_node *node, int i) {
  const ronde__onnx_value *value = ronde__onnx_in(im, node, i);
  ronde__shape shape = {0};
  if (!value || value->kind != RONDE__ONNX_CONSTANT || value->constant->n_dims > RONDE_MAX_RANK) return shape;
  const Onnx__TensorProto *tensor = value->constant;
  if (ronde__onnx_elems(tensor) < 1) return shape;
  for (size_t d = 0; d < tensor->n_dims; d++) shape.dim[shape.rank++] = tensor->dims[d];
  if (!value->transposed) return shape;
  return (ronde__shape){2, {shape.dim[1], shape.dim[0]}};
}

/* ---- convolution ---- */

static ronde_status take_conv(ronde__onnx_import *im, const ronde__onnx_node *node, const ronde__shape *weight,
                              ronde__onnx_layer *layer) {
  const ronde__shape bias = {1, {weight->dim[0]}};
  RONDE_TRY(ronde__onnx_take(im, node, 1, "", RONDE__ONNX_AS_IT_IS, weight, false, layer));
  if (ronde__onnx_in(im, node, 2)) {
    ronde__shape given = dims_of(im, node, 2);
    if (!ronde__shape_equal(&given, &bias)) return ronde__onnx_fail(im, node, "its bias has another shape");
    RONDE_TRY(ronde__onnx_take(im, node, 2, "", RONDE__ONNX_AS_IT_IS, &bias, false, layer));
  }
  return ronde__onnx_begin(im, layer);
}

ronde_status ronde__onnx_op_conv(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde__onnx_window window;
  ronde__onnx_layer layer = {0};
  ronde__shape weight = dims_of(im, node, 1);
  int64_t groups = ronde__onnx_attr_int(node, "group", 1);
  RONDE_TRY(ronde__onnx_in_tensor(im, node, 0, &x));
  if (weight.rank != 4 || groups < 1 || groups > INT32_MAX)
    return ronde__onnx_fail(im, node, "its weight is not an initializer of 4 dimensions, or its groups are impossible");
  RONDE_TRY(ronde__onnx_read_window(im, node, x, &weight.dim[2], &window));
  ronde_status status = take_conv(im, node, &weight, &layer);
  if (status == RONDE_OK) {
    ronde_conv2d_options o = {.out_channels = weight.dim[0], .groups = (int)groups, .no_bias = layer.n == 1};
    for (int d = 0; d < 2; d++) {
      o.kernel[d] = window.kernel[d];
      o.stride[d] = window.stride[d];
      o.padding[d] = window.padding[d];
    }
    status = ronde__onnx_end_layer(im, node, &layer, ronde_conv2d(x, layer.label, &o));
  }
  ronde__onnx_layer_release(&layer);
  return status;
}

/* ---- linear ---- */

/* bias_of: the node whose input `bias` is the bias; NULL: there is none. last: the node whose output is set. */
typedef struct linear {
  const ronde__onnx_node *bias_of, *last;
  int bias;
  bool in_rows; /* the weight is [outputs][inputs], as Ronde's, else the other way round */
} linear;

static ronde_status take_linear(ronde__onnx_import *im, const ronde__onnx_node *node, const linear *l,
                                const ronde__shape *weight, ronde__onnx_layer *layer) {
  bool as_it_is = l->in_rows != ronde__onnx_in(im, node, 1)->transposed;
  RONDE_TRY(ronde__onnx_take(im, node, 1, "", as_it_is ? RONDE__ONNX_AS_IT_IS : RONDE__ONNX_TRANSPOSED, weight, false,
                             layer));
  if (l->bias_of) {
    const ronde__shape bias = {1, {weight->dim[0]}};
    RONDE_TRY(ronde__onnx_take(im, l->bias_of, l->bias, "", RONDE__ONNX_AS_IT_IS, &bias, false, layer));
  }
  return ronde__onnx_begin(im, layer);
}

static ronde_status add_linear(ronde__onnx_import *im, const ronde__onnx_node *node, const linear *l) {
  const ronde_tensor *x;
  ronde__onnx_layer layer = {0};
  ronde__shape weight = dims_of(im, node, 1);
  RONDE_TRY(ronde__onnx_in_tensor(im, node, 0, &x));
  if (weight.rank != 2) return ronde__onnx_fail(im, node, "its second factor is not an initializer of 2 dimensions");
  if (!l->in_rows) weight = (ronde__shape){2, {weight.dim[1], weight.dim[0]}};
  bool is_head = im->file->head >= 0 && node == &im->file->nodes[im->file->head];
  int64_t outputs = is_head && im->outputs > 0 ? im->outputs : weight.dim[0];
  ronde_status status = take_linear(im, node, l, &weight, &layer);
  if (status == RONDE_OK)
    status = ronde__onnx_end_layer(im, l->last, &layer, ronde_linear(x, layer.label, outputs, l->bias_of != NULL));
  ronde__onnx_layer_release(&layer);
  return status;
}

/* Whether input i is a vector of that many elements, [1,n] taken for one. */
static bool is_vector(const ronde__onnx_import *im, const ronde__onnx_node *node, int i, int64_t n) {
  ronde__shape shape = dims_of(im, node, i);
  return (shape.rank == 1 && shape.dim[0] == n) || (shape.rank == 2 && shape.dim[0] == 1 && shape.dim[1] == n);
}

ronde_status ronde__onnx_op_gemm(ronde__onnx_import *im, const ronde__onnx_node *node) {
  bool has_bias = ronde__onnx_in(im, node, 2) != NULL, in_rows = ronde__onnx_attr_int(node, "transB", 0) != 0;
  ronde__shape weight = dims_of(im, node, 1);
  if (ronde__onnx_attr_float(node, "alpha", 1) != 1 || (has_bias && ronde__onnx_attr_float(node, "beta", 1) != 1) ||
      ronde__onnx_attr_int(node, "transA", 0))
    return ronde__onnx_fail(im, node, "alpha and beta must be 1, and transA 0");
  if (has_bias && !is_vector(im, node, 2, weight.dim[in_rows ? 0 : 1]))
    return ronde__onnx_fail(im, node, "its bias is not an initializer of one value for each output");
  return add_linear(im, node, &(linear){has_bias ? node : NULL, node, 2, in_rows});
}

/* With the addition of a vector behind it, which is the bias. */
ronde_status ronde__onnx_op_matmul(ronde__onnx_import *im, const ronde__onnx_node *node) {
  ronde__shape weight = dims_of(im, node, 1);
  const ronde__onnx_node *next = ronde__onnx_only_reader(im->file, node->out[0]);
  if (next && next->build == ronde__onnx_op_add && next->n_in == 2 && weight.rank == 2) {
    int bias = next->in[0] == node->out[0] ? 1 : 0;
    if (is_vector(im, next, bias, weight.dim[1])) return add_linear(im, node, &(linear){next, next, bias, false});
  }
  return add_linear(im, node, &(linear){NULL, node, 0, false});
}

/* ---- normalisations ---- */

/* What is left of 1, as ONNX's momentum is the part that stays. In seven digits, so that 0.9 gives 0.1. */
static float momentum_of(const ronde__onnx_node *node) {
  char text[32];
  double stays;
  snprintf(text, sizeof text, "%.7g", ronde__onnx_attr_float(node, "momentum", 0.9));
  return sscanf(text, "%lf", &stays) == 1 ? (float)(1 - stays) : 0;
}

static ronde_status take_norm(ronde__onnx_import *im, const ronde__onnx_node *node, int n, const ronde__shape *shape,
                              ronde__onnx_layer *layer) {
  for (int i = 1; i <= n; i++) {
    ronde__shape given = dims_of(im, node, i);
    if (!ronde__shape_equal(&given, shape))
      return ronde__onnx_fail(im, node, "input %d is not an initializer of the shape that is normalised", i);
    RONDE_TRY(ronde__onnx_take(im, node, i, "", RONDE__ONNX_AS_IT_IS, shape, i > 2, layer));
  }
  return ronde__onnx_begin(im, layer);
}

ronde_status ronde__onnx_op_batch_norm(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde__onnx_layer layer = {0};
  int64_t dims[RONDE_MAX_RANK];
  RONDE_TRY(ronde__onnx_in_tensor(im, node, 0, &x));
  ronde_batch_norm2d_options o = {.eps = (float)ronde__onnx_attr_float(node, "epsilon", 1e-5),
                                  .momentum = momentum_of(node)};
  if (ronde_tensor_dims(x, dims) != 3)
    return ronde__onnx_fail(im, node, "only inputs of 4 dimensions (batch, channels, height, width) are normalised");
  if (!(o.eps > 0) || !(o.momentum > 0) || !(o.momentum <= 1) || !ronde__onnx_attr_int(node, "spatial", 1))
    return ronde__onnx_fail(im, node, "it needs an epsilon above 0 and a momentum from 0 to below 1");
  ronde_status status = take_norm(im, node, 4, &(ronde__shape){1, {dims[0]}}, &layer);
  if (status == RONDE_OK) status = ronde__onnx_end_layer(im, node, &layer, ronde_batch_norm2d(x, layer.label, &o));
  ronde__onnx_layer_release(&layer);
  return status;
}

ronde_status ronde__onnx_op_layer_norm(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde__onnx_layer layer = {0};
  int64_t dims[RONDE_MAX_RANK];
  int dim;
  RONDE_TRY(ronde__onnx_in_tensor(im, node, 0, &x));
  int rank = ronde_tensor_dims(x, dims);
  RONDE_TRY(ronde__onnx_axis(im, node, ronde__onnx_attr_int(node, "axis", -1), rank, &dim));
  ronde_layer_norm_options o = {.dims = rank - dim, .eps = (float)ronde__onnx_attr_float(node, "epsilon", 1e-5)};
  ronde__shape shape = {0};
  for (int d = dim; d < rank; d++) shape.dim[shape.rank++] = dims[d];
  if (!(o.eps > 0)) return ronde__onnx_fail(im, node, "it needs an epsilon above 0");
  if (!ronde__onnx_in(im, node, 2)) return ronde__onnx_fail(im, node, "without a bias it is not supported");
  ronde_status status = take_norm(im, node, 2, &shape, &layer);
  if (status == RONDE_OK) status = ronde__onnx_end_layer(im, node, &layer, ronde_layer_norm(x, layer.label, &o));
  ronde__onnx_layer_release(&layer);
  return status;
}

/* ---- LSTM ---- */

/* x_out: the state; NULL: it is zero. */
static ronde_status read_state(const ronde__onnx_import *im, const ronde__onnx_node *node, int i,
                               const ronde_tensor **x_out) {
  const ronde__onnx_value *value = ronde__onnx_in(im, node, i);
  bool is_state = value && value->kind == RONDE__ONNX_TENSOR && value->order == RONDE__ONNX_STATE;
  bool is_zero = !value || (value->kind == RONDE__ONNX_NUMBER && value->number == 0) ||
                 (value->kind == RONDE__ONNX_CONSTANT && ronde__onnx_is_zero(value->constant));
  *x_out = is_state ? value->x : NULL;
  return is_state || is_zero ? RONDE_OK
                             : ronde__onnx_fail(im, node, "its initial state is neither zero nor [1, batch, hidden]");
}

static ronde_status check_lstm(const ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde__onnx_value *x = ronde__onnx_in(im, node, 0);
  bool is_sequence = x && x->kind == RONDE__ONNX_TENSOR && x->order == RONDE__ONNX_TIME_FIRST;
  if (!is_sequence || ronde__onnx_attr_int(node, "layout", 0))
    return ronde__onnx_fail(im, node, "its input is not [time, batch, features], with layout 0");
  if (!ronde__onnx_attr_is(node, "direction", "forward", "forward") || ronde__onnx_attr(node, "activations") ||
      ronde__onnx_attr(node, "clip") || ronde__onnx_attr_int(node, "input_forget", 0))
    return ronde__onnx_fail(im, node, "only one direction, forward, and the usual gates are supported");
  if (ronde__onnx_in(im, node, 4) || ronde__onnx_in(im, node, 7))
    return ronde__onnx_fail(im, node, "lengths of sequences and peepholes are not supported");
  return RONDE_OK;
}

static ronde_status take_lstm(ronde__onnx_import *im, const ronde__onnx_node *node, int64_t hidden, int64_t features,
                              ronde__onnx_layer *layer) {
  const ronde__shape ih = {2, {4 * hidden, features}}, hh = {2, {4 * hidden, hidden}}, bias = {1, {4 * hidden}};
  const ronde__shape both = {2, {1, 8 * hidden}};
  RONDE_TRY(ronde__onnx_take(im, node, 1, "", RONDE__ONNX_GATES, &ih, false, layer));
  RONDE_TRY(ronde__onnx_take(im, node, 2, "", RONDE__ONNX_GATES, &hh, false, layer));
  if (ronde__onnx_in(im, node, 3)) {
    ronde__shape given = dims_of(im, node, 3);
    if (!ronde__shape_equal(&given, &both)) return ronde__onnx_fail(im, node, "its bias has another shape");
    RONDE_TRY(ronde__onnx_take(im, node, 3, "_ih_l0", RONDE__ONNX_GATES, &bias, false, layer));
    RONDE_TRY(ronde__onnx_take(im, node, 3, "_hh_l0", RONDE__ONNX_GATES_HIGH, &bias, false, layer));
  }
  return ronde__onnx_begin(im, layer);
}

ronde_status ronde__onnx_op_lstm(ronde__onnx_import *im, const ronde__onnx_node *node) {
  ronde__onnx_layer layer = {0};
  ronde__shape w = dims_of(im, node, 1), r = dims_of(im, node, 2);
  ronde_tensor *last_hidden, *last_cell, *all;
  const ronde_tensor *hidden_0, *cell_0;
  RONDE_TRY(check_lstm(im, node));
  RONDE_TRY(read_state(im, node, 5, &hidden_0));
  RONDE_TRY(read_state(im, node, 6, &cell_0));
  if (!hidden_0 != !cell_0) return ronde__onnx_fail(im, node, "only one of its initial states is zero");
  int64_t hidden = r.dim[2];
  if (w.rank != 3 || r.rank != 3 || w.dim[0] != 1 || r.dim[0] != 1 || hidden > INT32_MAX || r.dim[1] != 4 * hidden ||
      w.dim[1] != 4 * hidden || ronde__onnx_attr_int(node, "hidden_size", hidden) != hidden)
    return ronde__onnx_fail(im, node,
                            "its weights are not initializers [1, 4 hidden, features] and "
                            "[1, 4 hidden, hidden]");
  ronde_status status = take_lstm(im, node, hidden, w.dim[2], &layer);
  if (status == RONDE_OK) {
    all = ronde_lstm(ronde__onnx_in(im, node, 0)->x, layer.label, hidden, layer.n > 2, hidden_0, cell_0, &last_hidden,
                     &last_cell);
    status = ronde__onnx_end_layer(im, node, &layer, all);
    if (status == RONDE_OK) status = ronde__onnx_set(im, node, 1, last_hidden);
    if (status == RONDE_OK) status = ronde__onnx_set(im, node, 2, last_cell);
    for (int i = 0; i < 3 && status == RONDE_OK; i++) {
      ronde__onnx_value *y = ronde__onnx_out(im, node, i);
      if (y) y->order = i == 0 ? RONDE__ONNX_DIRECTIONS : RONDE__ONNX_STATE;
    }
  }
  ronde__onnx_layer_release(&layer);
  return status;
}

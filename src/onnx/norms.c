/* Normalisations. */
#include "onnx/import.h"

#include <limits.h>
#include <stdio.h>

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
    ronde__shape given = ronde__onnx_dims_of(im, node, i);
    if (!ronde__shape_equal(&given, shape))
      return ronde__onnx_fail(im, node, "input %d is not an initializer of the shape that is normalised", i);
    RONDE_TRY(ronde__onnx_take(im, node, i, NULL, RONDE__ONNX_AS_IT_IS, shape, i > 2, layer));
  }
  return ronde__onnx_begin(im, layer);
}

ronde_status ronde__onnx_op_batch_norm(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde__onnx_layer layer = {0};
  ronde__onnx_place place = {0};
  int64_t dims[RONDE_MAX_RANK];
  RONDE_TRY(ronde__onnx_in_image(im, node, &x, &place));
  ronde_batch_norm2d_options o = {.eps = (float)ronde__onnx_attr_float(node, "epsilon", 1e-5),
                                  .momentum = momentum_of(node)};
  ronde_tensor_dims(x, dims);
  if (!(o.eps > 0) || !(o.momentum > 0) || !(o.momentum <= 1) || !ronde__onnx_attr_int(node, "spatial", 1))
    return ronde__onnx_fail(im, node, "it needs an epsilon above 0 and a momentum from 0 to below 1");
  ronde_status status = take_norm(im, node, 4, &(ronde__shape){1, {dims[0]}}, &layer);
  if (status == RONDE_OK) status = ronde__onnx_end_layer(im, node, &layer, ronde_batch_norm2d(x, layer.label, &o));
  if (status == RONDE_OK) ronde__onnx_give_place(im, node, &place);
  ronde__onnx_layer_release(&layer);
  return status;
}

ronde_status ronde__onnx_op_layer_norm(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde__onnx_layer layer = {0};
  ronde__onnx_place place = {0};
  int64_t dims[RONDE_MAX_RANK], axis = ronde__onnx_attr_int(node, "axis", -1);
  int dim;
  RONDE_TRY(ronde__onnx_in_place(im, node, 0, &x, &place));
  int rank = ronde_tensor_dims(x, dims);
  RONDE_TRY(ronde__onnx_axis(im, node, axis, &place, &dim));
  if ((axis < 0 ? axis + place.rank : axis) <= place.at)
    return ronde__onnx_fail(im, node, "the batch is one of the dimensions that are normalised");
  ronde_layer_norm_options o = {.dims = rank - dim, .eps = (float)ronde__onnx_attr_float(node, "epsilon", 1e-5)};
  ronde__shape shape = {0};
  for (int d = dim; d < rank; d++) shape.dim[shape.rank++] = dims[d];
  if (!(o.eps > 0)) return ronde__onnx_fail(im, node, "it needs an epsilon above 0");
  if (!ronde__onnx_in(im, node, 2)) return ronde__onnx_fail(im, node, "without a bias it is not supported");
  ronde_status status = take_norm(im, node, 2, &shape, &layer);
  if (status == RONDE_OK) status = ronde__onnx_end_layer(im, node, &layer, ronde_layer_norm(x, layer.label, &o));
  ronde__onnx_value *out = ronde__onnx_out(im, node, 0);
  if (status == RONDE_OK && out) out->at = place.at, out->merged = place.merged;
  ronde__onnx_layer_release(&layer);
  return status;
}

/* Over one dimension, the last; more of them become one first. */
ronde_status ronde__onnx_op_rms_norm(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde__onnx_layer layer = {0};
  ronde__onnx_place place = {0};
  ronde__shape own = {0}, to = {0}, weight = {0};
  int64_t axis = ronde__onnx_attr_int(node, "axis", -1), all = 1;
  float eps = (float)ronde__onnx_attr_float(node, "epsilon", 1e-5);
  int dim;
  RONDE_TRY(ronde__onnx_in_place(im, node, 0, &x, &place));
  own.rank = ronde_tensor_dims(x, own.dim);
  RONDE_TRY(ronde__onnx_axis(im, node, axis, &place, &dim));
  if ((axis < 0 ? axis + place.rank : axis) <= place.at)
    return ronde__onnx_fail(im, node, "the batch is one of the dimensions that are normalised");
  if (!(eps > 0)) return ronde__onnx_fail(im, node, "it needs an epsilon above 0");
  for (int d = 0; d < dim; d++) to.dim[to.rank++] = own.dim[d];
  for (int d = dim; d < own.rank; d++) weight.dim[weight.rank++] = own.dim[d], all *= own.dim[d];
  to.dim[to.rank++] = all;
  ronde__shape given = ronde__onnx_dims_of(im, node, 1);
  if (!ronde__shape_equal(&given, &weight))
    return ronde__onnx_fail(im, node, "its scale is not an initializer of the shape that is normalised");
  bool flat = own.rank - dim == 1;
  if (!flat && !(x = ronde_reshape(x, to.rank, to.dim))) return ronde_graph_status(im->graph);
  ronde_status status =
      ronde__onnx_take(im, node, 1, NULL, RONDE__ONNX_AS_IT_IS, &(ronde__shape){1, {all}}, false, &layer);
  if (status == RONDE_OK) status = ronde__onnx_begin(im, &layer);
  const ronde_tensor *y = status == RONDE_OK ? ronde_rms_norm(x, layer.label, eps) : NULL;
  if (status == RONDE_OK) status = ronde__onnx_note_layer(im, node, &layer, y);
  if (status == RONDE_OK)
    status = ronde__onnx_set_place(im, node, 0, flat ? y : ronde_reshape(y, own.rank, own.dim), &place);
  ronde__onnx_layer_release(&layer);
  return status;
}

/* ---- by groups of channels ---- */

/* Whether input i is a constant that no training changes, all of whose values are this one. */
static ronde_status is_alike(const ronde__onnx_import *im, const ronde__onnx_node *node, int i, float value,
                             bool *alike_out) {
  const ronde__onnx_value *given = ronde__onnx_in(im, node, i);
  *alike_out = given && given->kind == RONDE__ONNX_CONSTANT && given->fixed;
  if (!*alike_out) return RONDE_OK;
  RONDE_TRY(ronde__onnx_check_floats(im->file, given->constant));
  int64_t n = ronde__onnx_elems(given->constant);
  float *values;
  RONDE__ALLOC(values, (size_t)n * sizeof *values, im->file->path);
  ronde_status status = ronde__onnx_read_floats(im->file, given->constant, values);
  for (int64_t k = 0; k < n; k++) *alike_out = *alike_out && values[k] == value;
  ronde__free(values);
  return status;
}

/* Input i, a vector with an element for each of n stretches of the channels of y, as [n,1]. */
static ronde_status read_column(ronde__onnx_import *im, const ronde__onnx_node *node, int i, int64_t n,
                                const ronde_tensor **x_out) {
  RONDE_TRY(ronde__onnx_parameter(im, node, i, x_out));
  *x_out = ronde_reshape(*x_out, 2, (int64_t[]){n, 1});
  return *x_out ? RONDE_OK : ronde_graph_status(im->graph);
}

/* y scale + bias, which are fixed, or have an element for a group of channels. */
static ronde_status scale_by_parts(ronde__onnx_import *im, const ronde__onnx_node *node, const ronde_tensor *y,
                                   int64_t parts) {
  const ronde_tensor *scale, *bias;
  ronde__shape shape = {0};
  shape.rank = ronde_tensor_dims(y, shape.dim);
  if (!y) return ronde_graph_status(im->graph);
  RONDE_TRY(read_column(im, node, 1, parts, &scale));
  RONDE_TRY(read_column(im, node, 2, parts, &bias));
  y = ronde_reshape(y, 2, (int64_t[]){parts, ronde__shape_elems(&shape) / parts});
  y = ronde_add(ronde_multiply(y, scale), bias);
  return ronde__onnx_set(im, node, 0, ronde_reshape(y, shape.rank, shape.dim));
}

/* scale and bias have an element for each channel, or for each group. */
static ronde_status add_group_norm(ronde__onnx_import *im, const ronde__onnx_node *node, const ronde_tensor *x,
                                   int64_t groups, bool by_group) {
  int64_t dims[RONDE_MAX_RANK];
  ronde_tensor_dims(x, dims);
  ronde_group_norm_options o = {.groups = (int)groups, .eps = (float)ronde__onnx_attr_float(node, "epsilon", 1e-5)};
  ronde__onnx_layer layer = {0};
  bool ones, zeros;
  if (!(o.eps > 0)) return ronde__onnx_fail(im, node, "it needs an epsilon above 0");
  if (groups < 1 || groups > INT_MAX || dims[0] % groups)
    return ronde__onnx_fail(im, node, "its groups do not divide the %lld channels of its input", (long long)dims[0]);
  const ronde__shape shape = {1, {by_group ? groups : dims[0]}};
  for (int i = 1; i <= 2; i++) {
    ronde__shape given = ronde__onnx_dims_of(im, node, i);
    if (!ronde__shape_equal(&given, &shape))
      return ronde__onnx_fail(im, node, "input %d is not an initializer of %lld elements", i, (long long)shape.dim[0]);
  }
  RONDE_TRY(is_alike(im, node, 1, 1, &ones));
  RONDE_TRY(is_alike(im, node, 2, 0, &zeros));
  bool fixed = ronde__onnx_in(im, node, 1)->fixed || ronde__onnx_in(im, node, 2)->fixed;
  o.no_affine = fixed || shape.dim[0] != dims[0];
  if (o.no_affine) {
    RONDE_TRY(ronde__graph_name_next(im->graph, ronde__onnx_node_name(node), NULL, 0));
    const ronde_tensor *y = ronde_group_norm(x, NULL, &o);
    return ones && zeros ? ronde__onnx_set(im, node, 0, y) : scale_by_parts(im, node, y, shape.dim[0]);
  }
  ronde_status status = take_norm(im, node, 2, &shape, &layer);
  if (status == RONDE_OK) status = ronde__onnx_end_layer(im, node, &layer, ronde_group_norm(x, layer.label, &o));
  ronde__onnx_layer_release(&layer);
  return status;
}

ronde_status ronde__onnx_op_instance_norm(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  int64_t dims[RONDE_MAX_RANK];
  RONDE_TRY(ronde__onnx_in_tensor(im, node, 0, &x));
  ronde_tensor_dims(x, dims);
  return add_group_norm(im, node, x, dims[0], false);
}

/* Opset 18 has a scale and a bias for each group, 21 for each channel. */
ronde_status ronde__onnx_op_group_norm(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  RONDE_TRY(ronde__onnx_in_tensor(im, node, 0, &x));
  return add_group_norm(im, node, x, ronde__onnx_attr_int(node, "num_groups", 0), im->file->opset < 21);
}

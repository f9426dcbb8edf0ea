/* Operators that change height and width: pooling and enlarging. */
#include "onnx/import.h"

#include <math.h>

static ronde_status read_pool(ronde__onnx_import *im, const ronde__onnx_node *node, const ronde_tensor **x_out,
                              ronde_pool2d_options *options_out) {
  ronde__onnx_window window;
  size_t n;
  const int64_t *kernel = ronde__onnx_attr_ints(node, "kernel_shape", &n);
  RONDE_TRY(ronde__onnx_in_tensor(im, node, 0, x_out));
  if (n != 2) return ronde__onnx_fail(im, node, "its kernel_shape is not two numbers");
  RONDE_TRY(ronde__onnx_read_window(im, node, *x_out, kernel, &window));
  for (int d = 0; d < 2; d++) {
    options_out->kernel[d] = window.kernel[d];
    options_out->stride[d] = window.stride[d];
    options_out->padding[d] = window.padding[d];
  }
  return ronde__graph_name_next(im->graph, ronde__onnx_node_name(node), NULL, 0);
}

ronde_status ronde__onnx_op_max_pool(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde_pool2d_options o = {0};
  if (ronde__onnx_out(im, node, 1) && im->file->n_readers[node->out[1]] > 0)
    return ronde__onnx_fail(im, node, "its indices cannot be read");
  RONDE_TRY(read_pool(im, node, &x, &o));
  return ronde__onnx_set(im, node, 0, ronde_max_pool2d(x, &o));
}

ronde_status ronde__onnx_op_average_pool(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde_pool2d_options o = {.exclude_padding = !ronde__onnx_attr_int(node, "count_include_pad", 0)};
  RONDE_TRY(read_pool(im, node, &x, &o));
  return ronde__onnx_set(im, node, 0, ronde_avg_pool2d(x, &o));
}

/* ---- over all pixels ---- */

static ronde_status begin_global(ronde__onnx_import *im, const ronde__onnx_node *node, const ronde_tensor **x_out,
                                 int64_t dims_out[RONDE_MAX_RANK]) {
  RONDE_TRY(ronde__onnx_in_tensor(im, node, 0, x_out));
  if (ronde_tensor_dims(*x_out, dims_out) != 3)
    return ronde__onnx_fail(im, node, "its input is not of 4 dimensions (batch, channels, height, width)");
  return ronde__graph_name_next(im->graph, ronde__onnx_node_name(node), NULL, 0);
}

ronde_status ronde__onnx_op_global_average_pool(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  int64_t dims[RONDE_MAX_RANK];
  RONDE_TRY(begin_global(im, node, &x, dims));
  return ronde__onnx_set(im, node, 0, ronde_adaptive_avg_pool2d(x, 1, 1));
}

ronde_status ronde__onnx_op_global_max_pool(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  int64_t dims[RONDE_MAX_RANK];
  RONDE_TRY(begin_global(im, node, &x, dims));
  ronde_pool2d_options o = {.kernel = {(int)dims[1], (int)dims[2]}};
  return ronde__onnx_set(im, node, 0, ronde_max_pool2d(x, &o));
}

/* Over height and width alone. The axes are an input since opset 18, and an attribute before. */
ronde_status ronde__onnx_op_reduce_mean(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  int64_t dims[RONDE_MAX_RANK];
  ronde__onnx_value axes = {0};
  size_t n;
  const int64_t *given = ronde__onnx_attr_ints(node, "axes", &n);
  if (!given) RONDE_TRY(ronde__onnx_in_sizes(im, node, 1, &axes));
  for (axes.n = given ? 0 : axes.n; given && axes.n < (int)ronde__min((int64_t)n, RONDE__ONNX_MAX_SIZES); axes.n++)
    axes.size[axes.n] = given[axes.n];
  RONDE_TRY(begin_global(im, node, &x, dims));
  bool seen[4] = {false};
  for (int i = 0; i < axes.n && axes.size[i] >= -4 && axes.size[i] < 4; i++)
    seen[axes.size[i] < 0 ? axes.size[i] + 4 : axes.size[i]] = true;
  if (axes.n != 2 || !seen[2] || !seen[3])
    return ronde__onnx_fail(im, node, "only means over height and width (axes 2 and 3) are supported");
  ronde_tensor *y = ronde_adaptive_avg_pool2d(x, 1, 1);
  return ronde__onnx_set(im, node, 0, ronde__onnx_attr_int(node, "keepdims", 1) || !y ? y : ronde_flatten(y));
}

/* ---- enlarging ---- */

/* Factors by which each pixel is repeated, from those of all dimensions or from the sizes of the output. */
static bool whole_factors(const double scales[4], int factors_out[2]) {
  for (int d = 0; d < 2; d++) {
    double factor = scales[2 + d];
    if (!(factor >= 1) || factor > 65536 || factor != floor(factor)) return false;
    factors_out[d] = (int)factor;
  }
  return scales[0] == 1 && scales[1] == 1;
}

static bool scales_of(const ronde__onnx_value *value, double scales_out[4]) {
  float scales[4];
  const Onnx__TensorProto *tensor = value && value->kind == RONDE__ONNX_CONSTANT ? value->constant : NULL;
  if (!tensor || tensor->data_type != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT || ronde__onnx_elems(tensor) != 4)
    return false;
  if (tensor->has_raw_data && tensor->raw_data.len == sizeof scales) {
    for (size_t i = 0; i < sizeof scales; i++) ((uint8_t *)scales)[i] = tensor->raw_data.data[i];
  } else if (tensor->n_float_data == 4) {
    for (int d = 0; d < 4; d++) scales[d] = tensor->float_data[d];
  } else {
    return false;
  }
  for (int d = 0; d < 4; d++) scales_out[d] = (double)scales[d];
  return true;
}

static ronde_status enlarge(ronde__onnx_import *im, const ronde__onnx_node *node, const double scales[4]) {
  const ronde_tensor *x;
  int64_t dims[RONDE_MAX_RANK];
  int factors[2];
  if (!ronde__onnx_attr_is(node, "mode", "nearest", "nearest") || !whole_factors(scales, factors))
    return ronde__onnx_fail(im, node,
                            "only pixels that are repeated (mode nearest) a whole number of times in height "
                            "and width are supported");
  RONDE_TRY(begin_global(im, node, &x, dims));
  return ronde__onnx_set(im, node, 0, ronde_upsample2d(x, factors[0], factors[1]));
}

/* With these two words each pixel is repeated; with others the borders move. */
static bool repeats(const ronde__onnx_node *node) {
  static const char word[] = "coordinate_transformation_mode";
  bool floors = ronde__onnx_attr_is(node, "nearest_mode", "round_prefer_floor", "floor");
  bool rounds = ronde__onnx_attr_is(node, "nearest_mode", "round_prefer_floor", "round_prefer_floor") ||
                ronde__onnx_attr_is(node, "nearest_mode", "round_prefer_floor", "round_prefer_ceil");
  bool halves = ronde__onnx_attr_is(node, word, "half_pixel", "half_pixel") ||
                ronde__onnx_attr_is(node, word, "half_pixel", "pytorch_half_pixel");
  return (floors && ronde__onnx_attr_is(node, word, "half_pixel", "asymmetric")) || (rounds && halves);
}

ronde_status ronde__onnx_op_resize(ronde__onnx_import *im, const ronde__onnx_node *node) {
  double scales[4] = {1, 1, 0, 0};
  const ronde_tensor *x;
  int64_t dims[RONDE_MAX_RANK];
  ronde__onnx_value sizes;
  bool is_old = im->file->opset < 11; /* the scales are the second input, and there are no modes of coordinates */
  if (!is_old && !repeats(node))
    return ronde__onnx_fail(im, node,
                            "of its ways to place pixels only asymmetric with floor, and half_pixel with "
                            "rounding, are supported");
  if (scales_of(ronde__onnx_in(im, node, is_old ? 1 : 2), scales)) return enlarge(im, node, scales);
  RONDE_TRY(ronde__onnx_in_sizes(im, node, 3, &sizes));
  RONDE_TRY(ronde__onnx_in_tensor(im, node, 0, &x));
  if (ronde_tensor_dims(x, dims) != 3 || sizes.n != 4 || sizes.size[1] != dims[0])
    return ronde__onnx_fail(im, node, "only height and width of images can be enlarged");
  for (int d = 0; d < 2; d++) scales[2 + d] = (double)sizes.size[2 + d] / (double)dims[1 + d];
  return enlarge(im, node, scales);
}

ronde_status ronde__onnx_op_upsample(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const Onnx__AttributeProto *given = ronde__onnx_attr(node, "scales");
  double scales[4] = {0};
  if (given && given->n_floats == 4)
    for (int d = 0; d < 4; d++) scales[d] = (double)given->floats[d];
  else if (!scales_of(ronde__onnx_in(im, node, 1), scales))
    return ronde__onnx_fail(im, node, "its scales are not four floats of the file");
  return enlarge(im, node, scales);
}

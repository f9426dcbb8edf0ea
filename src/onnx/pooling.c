/* Operators that change height and width: pooling and resizing. */
#include "onnx/import.h"

#include <limits.h>
#include <math.h>

static ronde_status read_pool(ronde__onnx_import *im, const ronde__onnx_node *node, const ronde_tensor **x_out,
                              ronde__onnx_place *place_out, ronde_pool2d_options *options_out) {
  ronde__onnx_window window;
  size_t n;
  const int64_t *given = ronde__onnx_attr_ints(node, "kernel_shape", &n);
  RONDE_TRY(ronde__onnx_in_image(im, node, x_out, place_out));
  const bool along_width = place_out->image == 2;
  if (place_out->image == 1 || n != (along_width ? 1 : 2))
    return ronde__onnx_fail(im, node, "its kernel_shape is not a number for each dimension of a pixel");
  const int64_t row[] = {1, given[0]};
  RONDE_TRY(ronde__onnx_read_window(im, node, *x_out, along_width, along_width ? row : given, &window));
  for (int d = 0; d < 2; d++) {
    options_out->kernel[d] = window.kernel[d];
    options_out->stride[d] = window.stride[d];
    options_out->padding[d] = window.padding[d];
    options_out->padding_more[d] = window.padding_more[d];
    options_out->dilation[d] = window.dilation[d];
  }
  options_out->ceil_mode = window.ceil_mode;
  return ronde__graph_name_next(im->graph, ronde__onnx_node_name(node), NULL, 0);
}

ronde_status ronde__onnx_op_max_pool(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde__onnx_place place = {0};
  ronde_pool2d_options o = {0};
  if (ronde__onnx_out(im, node, 1) && im->file->n_readers[node->out[1]] > 0)
    return ronde__onnx_fail(im, node, "its indices cannot be read");
  RONDE_TRY(read_pool(im, node, &x, &place, &o));
  return ronde__onnx_set_place(im, node, 0, ronde_max_pool2d(x, &o), &place);
}

ronde_status ronde__onnx_op_average_pool(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde__onnx_place place = {0};
  ronde_pool2d_options o = {.exclude_padding = !ronde__onnx_attr_int(node, "count_include_pad", 0)};
  RONDE_TRY(read_pool(im, node, &x, &place, &o));
  return ronde__onnx_set_place(im, node, 0, ronde_avg_pool2d(x, &o), &place);
}

/* ---- over all pixels ---- */

ronde_status ronde__onnx_op_global_average_pool(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde__onnx_place place = {0};
  RONDE_TRY(ronde__onnx_in_image(im, node, &x, &place));
  RONDE_TRY(ronde__graph_name_next(im->graph, ronde__onnx_node_name(node), NULL, 0));
  return ronde__onnx_set_place(im, node, 0, ronde_adaptive_avg_pool2d(x, 1, 1), &place);
}

ronde_status ronde__onnx_op_global_max_pool(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde__onnx_place place = {0};
  int64_t dims[RONDE_MAX_RANK];
  RONDE_TRY(ronde__onnx_in_image(im, node, &x, &place));
  ronde_tensor_dims(x, dims);
  ronde_pool2d_options o = {.kernel = {(int)dims[1], (int)dims[2]}};
  RONDE_TRY(ronde__graph_name_next(im->graph, ronde__onnx_node_name(node), NULL, 0));
  return ronde__onnx_set_place(im, node, 0, ronde_max_pool2d(x, &o), &place);
}

/* ---- resizing ---- */

static ronde_status begin_resizing(ronde__onnx_import *im, const ronde__onnx_node *node, const ronde_tensor **x_out,
                                   int64_t dims_out[RONDE_MAX_RANK]) {
  RONDE_TRY(ronde__onnx_in_tensor(im, node, 0, x_out));
  if (ronde_tensor_dims(*x_out, dims_out) != 3)
    return ronde__onnx_fail(im, node, "its input is not of 4 dimensions (batch, channels, height, width)");
  return ronde__graph_name_next(im->graph, ronde__onnx_node_name(node), NULL, 0);
}

/* What a node says of height and width. */
typedef struct resizing {
  ronde_resize2d_options options;
  bool has_scales;
} resizing;

/* All floats of a list of at most 4; false: it is something else. */
static bool read_scales(const ronde__onnx_import *im, const ronde__onnx_value *value, float scales_out[4],
                        size_t *n_out) {
  const ronde__onnx_known *array = ronde__onnx_array(value);
  if (array && !array->integers && array->n >= 1 && array->n <= 4) {
    *n_out = (size_t)array->n;
    for (size_t i = 0; i < *n_out; i++) scales_out[i] = (float)array->values[i];
    return true;
  }
  const Onnx__TensorProto *tensor = value && value->kind == RONDE__ONNX_CONSTANT ? value->constant : NULL;
  if (!tensor || tensor->data_type != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT || ronde__onnx_elems(tensor) < 1 ||
      ronde__onnx_elems(tensor) > 4 || ronde__onnx_check_floats(im->file, tensor) != RONDE_OK)
    return false;
  *n_out = (size_t)ronde__onnx_elems(tensor);
  return ronde__onnx_read_floats(im->file, tensor, scales_out) == RONDE_OK;
}

/* Lists have an element for each dimension, or for each of the attribute axes, height and width. */
static bool are_all_axes(const ronde__onnx_node *node, size_t n) {
  size_t n_axes;
  const int64_t *axes = ronde__onnx_attr_ints(node, "axes", &n_axes);
  if (!axes) return n == 4;
  bool last = n_axes == 2 && n == 2;
  for (size_t d = 0; d < 2 && last; d++) last = axes[d] == (int64_t)d + 2 || axes[d] == (int64_t)d - 2;
  return last;
}

static ronde_status resize_by_scales(const ronde__onnx_import *im, const ronde__onnx_node *node, const float *scales,
                                     size_t n, const int64_t *dims, resizing *r) {
  bool right = are_all_axes(node, n) && (n == 2 || (scales[0] == 1 && scales[1] == 1));
  for (int d = 0; d < 2 && right; d++) {
    double size = floor((double)dims[1 + d] * (double)scales[n - 2 + (size_t)d]);
    right = size >= 1 && size <= INT_MAX;
    if (!right) break;
    if (r->options.coordinates == RONDE_RESIZE_ALIGN_CORNERS &&
        size != (double)dims[1 + d] * (double)scales[n - 2 + (size_t)d])
      return ronde__onnx_fail(
          im, node,
          "with align_corners its scales do not give whole sizes, so that it is not clear where the "
          "last corner is: export it with sizes");
    r->options.size[d] = (int)size;
    r->options.scale[d] = scales[n - 2 + (size_t)d];
  }
  r->has_scales = true;
  return right ? RONDE_OK : ronde__onnx_fail(im, node, "only height and width of images can be resized");
}

static ronde_status resize_to_sizes(const ronde__onnx_import *im, const ronde__onnx_node *node, const int64_t *dims,
                                    resizing *r) {
  ronde__onnx_value sizes;
  RONDE_TRY(ronde__onnx_in_sizes(im, node, 3, &sizes));
  const int64_t *size = sizes.size + sizes.n - 2;
  bool right = are_all_axes(node, (size_t)sizes.n);
  if (right && sizes.n == 4)
    right = sizes.size[1] == dims[0] && (sizes.size[0] == RONDE__ONNX_BATCH || sizes.size[0] == im->file->batch);
  for (int d = 0; d < 2 && right; d++) right = size[d] >= 1 && size[d] <= INT_MAX;
  if (!right) return ronde__onnx_fail(im, node, "only height and width of images can be resized");
  if (!ronde__onnx_attr_is(node, "keep_aspect_ratio_policy", "stretch", "stretch"))
    return ronde__onnx_fail(im, node, "of keep_aspect_ratio_policy only stretch is supported");
  for (int d = 0; d < 2; d++) r->options.size[d] = (int)size[d];
  return RONDE_OK;
}

/* Which of n words an attribute is; -1: none. */
static int word_of(const ronde__onnx_node *node, const char *name, const char *const *words, int n) {
  for (int i = 0; i < n; i++)
    if (ronde__onnx_attr_is(node, name, words[0], words[i])) return i;
  return -1;
}

static ronde_status read_ways(const ronde__onnx_import *im, const ronde__onnx_node *node, bool is_old,
                              ronde_resize2d_options *o) {
  static const char *const modes[] = {"nearest", "linear", "bilinear"};
  static const char *const coordinates[] = {"half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"};
  static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
  int mode = word_of(node, "mode", modes, 3), at = word_of(node, "coordinate_transformation_mode", coordinates, 4);
  int rounding = word_of(node, "nearest_mode", roundings, 4);
  if (mode < 0) return ronde__onnx_fail(im, node, "of its modes only nearest and linear are supported");
  if (at < 0)
    return ronde__onnx_fail(im, node,
                            "of coordinate_transformation_mode only half_pixel, pytorch_half_pixel, align_corners and "
                            "asymmetric are supported");
  if (rounding < 0) return ronde__onnx_fail(im, node, "its nearest_mode is unknown");
  if (ronde__onnx_attr_int(node, "antialias", 0)) return ronde__onnx_fail(im, node, "antialias is not supported");
  if (ronde__onnx_attr_int(node, "exclude_outside", 0))
    return ronde__onnx_fail(im, node, "exclude_outside is not supported");
  o->linear = mode > 0;
  o->coordinates = is_old ? RONDE_RESIZE_ASYMMETRIC : (ronde_resize_coordinates)at;
  o->rounding = is_old ? RONDE_RESIZE_FLOOR : (ronde_resize_rounding)rounding;
  return RONDE_OK;
}

/* Whether each pixel is repeated a whole number of times. */
static bool repeats(const resizing *r, const int64_t *dims) {
  const ronde_resize2d_options *o = &r->options;
  bool rounds = o->rounding == RONDE_RESIZE_ROUND_PREFER_FLOOR || o->rounding == RONDE_RESIZE_ROUND_PREFER_CEIL;
  for (int d = 0; d < 2; d++) {
    bool whole = o->size[d] % dims[1 + d] == 0;
    if (!whole || (r->has_scales && (double)o->scale[d] * (double)dims[1 + d] != (double)o->size[d])) return false;
  }
  return !o->linear &&
         (o->coordinates == RONDE_RESIZE_ASYMMETRIC ? o->rounding == RONDE_RESIZE_FLOOR
                                                    : o->coordinates == RONDE_RESIZE_HALF_PIXEL && rounds);
}

static ronde_status add_resizing(ronde__onnx_import *im, const ronde__onnx_node *node, resizing *r) {
  const ronde_tensor *x;
  int64_t dims[RONDE_MAX_RANK];
  RONDE_TRY(begin_resizing(im, node, &x, dims));
  const int *size = r->options.size;
  if (repeats(r, dims))
    return ronde__onnx_set(im, node, 0, ronde_upsample2d(x, size[0] / (int)dims[1], size[1] / (int)dims[2]));
  return ronde__onnx_set(im, node, 0, ronde_resize2d(x, &r->options));
}

ronde_status ronde__onnx_op_resize(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  int64_t dims[RONDE_MAX_RANK];
  float scales[4];
  size_t n;
  resizing r = {0};
  bool is_old = im->file->opset < 11; /* the scales are the second input, and there is one way to place pixels */
  RONDE_TRY(begin_resizing(im, node, &x, dims));
  RONDE_TRY(read_ways(im, node, is_old, &r.options));
  if (read_scales(im, ronde__onnx_in(im, node, is_old ? 1 : 2), scales, &n))
    RONDE_TRY(resize_by_scales(im, node, scales, n, dims, &r));
  else RONDE_TRY(resize_to_sizes(im, node, dims, &r));
  return add_resizing(im, node, &r);
}

ronde_status ronde__onnx_op_upsample(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const Onnx__AttributeProto *given = ronde__onnx_attr(node, "scales");
  const ronde_tensor *x;
  int64_t dims[RONDE_MAX_RANK];
  float scales[4];
  size_t n = 4;
  resizing r = {0};
  RONDE_TRY(begin_resizing(im, node, &x, dims));
  RONDE_TRY(read_ways(im, node, true, &r.options));
  for (size_t d = 0; given && given->n_floats == 4 && d < 4; d++) scales[d] = given->floats[d];
  if (!(given && given->n_floats == 4) && !read_scales(im, ronde__onnx_in(im, node, 1), scales, &n))
    return ronde__onnx_fail(im, node, "its scales are not four floats of the file");
  RONDE_TRY(resize_by_scales(im, node, scales, n, dims, &r));
  return add_resizing(im, node, &r);
}

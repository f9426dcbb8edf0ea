/* Kernels, strides, dilations and padding, which ONNX has for each side and may leave to a rule. */
#include "onnx/import.h"

#include "ops/axis.h"

/* Of kernels, strides and pads, so that nothing overflows. */
enum { LARGEST = 1 << 28 };

/* Of height and width, or of the width alone, where the height has one. */
static ronde_status read_pair(const ronde__onnx_import *im, const ronde__onnx_node *node, const char *name,
                              bool along_width, int64_t pair_out[2]) {
  size_t n, wanted = along_width ? 1 : 2;
  const int64_t *values = ronde__onnx_attr_ints(node, name, &n);
  pair_out[0] = pair_out[1] = 1;
  if (!values) return RONDE_OK;
  for (size_t d = 0; d < wanted; d++) {
    if (n != wanted || values[d] < 1 || values[d] > LARGEST)
      return ronde__onnx_fail(im, node, "its %s are not a number from 1 on for each dimension of a pixel", name);
    pair_out[2 - wanted + d] = values[d];
  }
  return RONDE_OK;
}

/* SAME: as many outputs as inputs by strides, with the odd padding at the end, or the beginning. */
static void pad_same(ronde__axis *a, bool lower) {
  int64_t outputs = ronde__ceil_div(a->in, a->stride);
  int64_t all = ronde__max(0, (outputs - 1) * a->stride + ronde__axis_extent(a) - a->in);
  a->padding = (int)(lower ? all - all / 2 : all / 2);
  a->end = (int)(all - a->padding);
}

static ronde_status read_pads(const ronde__onnx_import *im, const ronde__onnx_node *node, bool along_width,
                              ronde__axis axes[2]) {
  size_t n, own = along_width ? 1 : 2;
  const int64_t *pads = ronde__onnx_attr_ints(node, "pads", &n);
  bool upper = ronde__onnx_attr_is(node, "auto_pad", "NOTSET", "SAME_UPPER");
  bool lower = ronde__onnx_attr_is(node, "auto_pad", "NOTSET", "SAME_LOWER");
  bool given = ronde__onnx_attr_is(node, "auto_pad", "NOTSET", "NOTSET");
  if (!upper && !lower && !given && !ronde__onnx_attr_is(node, "auto_pad", "NOTSET", "VALID"))
    return ronde__onnx_fail(im, node, "its auto_pad is unknown");
  if (given && pads && n != 2 * own)
    return ronde__onnx_fail(im, node, "its pads are not two for each dimension of a pixel");
  axes += 2 - own;
  for (size_t d = 0; d < own; d++) {
    if (upper || lower) pad_same(&axes[d], lower);
    if (!given || !pads) continue;
    if (pads[d] < 0 || pads[own + d] < 0 || pads[d] > LARGEST || pads[own + d] > LARGEST)
      return ronde__onnx_fail(im, node, "its pads are negative or too large");
    axes[d].padding = (int)pads[d];
    axes[d].end = (int)pads[own + d];
  }
  return RONDE_OK;
}

ronde_status ronde__onnx_read_window(const ronde__onnx_import *im, const ronde__onnx_node *node, const ronde_tensor *x,
                                     bool along_width, const int64_t kernel[2], ronde__onnx_window *window_out) {
  int64_t dims[RONDE_MAX_RANK], stride[2], dilation[2];
  ronde__axis axes[2];
  *window_out = (ronde__onnx_window){.ceil_mode = ronde__onnx_attr_int(node, "ceil_mode", 0) != 0};
  if (ronde_tensor_dims(x, dims) != 3)
    return ronde__onnx_fail(im, node, "its input is not of 4 dimensions (batch, channels, height, width)");
  RONDE_TRY(read_pair(im, node, "strides", along_width, stride));
  RONDE_TRY(read_pair(im, node, "dilations", along_width, dilation));
  for (int d = 0; d < 2; d++) {
    axes[d] = (ronde__axis){
        .in = dims[1 + d], .kernel = (int)kernel[d], .stride = (int)stride[d], .dilation = (int)dilation[d]};
    if (kernel[d] < 1 || kernel[d] > LARGEST || ronde__axis_extent(&axes[d]) > LARGEST)
      return ronde__onnx_fail(im, node, "its kernel has an impossible size");
  }
  RONDE_TRY(read_pads(im, node, along_width, axes));
  for (int d = 0; d < 2; d++) {
    const ronde__axis *a = &axes[d];
    window_out->kernel[d] = a->kernel;
    window_out->stride[d] = a->stride;
    window_out->dilation[d] = a->dilation;
    window_out->padding[d] = a->padding;
    window_out->padding_more[d] = a->end - a->padding;
  }
  return RONDE_OK;
}

/* Kernels, strides and padding. ONNX has a padding of its own for each side and may round sizes up; Ronde pads both sides
 * alike and rounds down. Where both give the same number of outputs they are the same: what is padded at the end and no
 * window reaches does not matter. */
#include "onnx/import.h"

#include <inttypes.h>

/* One axis: of height or width. */
typedef struct axis {
  int64_t in, kernel, stride, begin, end;
} axis;

static ronde_status read_pair(const ronde__onnx_import *im, const ronde__onnx_node *node, const char *name,
                              int64_t pair_out[2]) {
  size_t n;
  const int64_t *values = ronde__onnx_attr_ints(node, name, &n);
  pair_out[0] = pair_out[1] = 1;
  if (!values) return RONDE_OK;
  if (n != 2 || values[0] < 1 || values[1] < 1 || values[0] > INT32_MAX || values[1] > INT32_MAX)
    return ronde__onnx_fail(im, node, "its %s are not two numbers from 1 on", name);
  pair_out[0] = values[0];
  pair_out[1] = values[1];
  return RONDE_OK;
}

/* SAME: as many outputs as inputs by strides, with the odd padding at the end, or the beginning. */
static void pad_same(axis *a, bool lower) {
  int64_t outputs = ronde__ceil_div(a->in, a->stride);
  int64_t all = ronde__max(0, (outputs - 1) * a->stride + a->kernel - a->in);
  a->begin = lower ? all - all / 2 : all / 2;
  a->end = all - a->begin;
}

static ronde_status read_pads(const ronde__onnx_import *im, const ronde__onnx_node *node, axis axes[2]) {
  size_t n;
  const int64_t *pads = ronde__onnx_attr_ints(node, "pads", &n);
  bool upper = ronde__onnx_attr_is(node, "auto_pad", "NOTSET", "SAME_UPPER");
  bool lower = ronde__onnx_attr_is(node, "auto_pad", "NOTSET", "SAME_LOWER");
  bool given = ronde__onnx_attr_is(node, "auto_pad", "NOTSET", "NOTSET");
  if (!upper && !lower && !given && !ronde__onnx_attr_is(node, "auto_pad", "NOTSET", "VALID"))
    return ronde__onnx_fail(im, node, "its auto_pad is unknown");
  if (given && pads && n != 4) return ronde__onnx_fail(im, node, "its pads are not four numbers");
  for (int d = 0; d < 2; d++) {
    if (upper || lower) pad_same(&axes[d], lower);
    if (!given || !pads) continue;
    if (pads[d] < 0 || pads[2 + d] < 0 || pads[d] > INT32_MAX || pads[2 + d] > INT32_MAX)
      return ronde__onnx_fail(im, node, "its pads are negative or too large");
    axes[d].begin = pads[d];
    axes[d].end = pads[2 + d];
  }
  return RONDE_OK;
}

/* Outputs by ONNX's rule. Rounded up, a window may reach beyond the end, but must begin before it. */
static int64_t count(const axis *a, int64_t end, bool ceil_mode) {
  int64_t space = a->in + a->begin + end - a->kernel;
  if (space < 0) return 0;
  int64_t n = (ceil_mode ? ronde__ceil_div(space, a->stride) : space / a->stride) + 1;
  return ceil_mode && (n - 1) * a->stride >= a->in + a->begin ? n - 1 : n;
}

ronde_status ronde__onnx_read_window(const ronde__onnx_import *im, const ronde__onnx_node *node, const ronde_tensor *x,
                                     const int64_t kernel[2], ronde__onnx_window *window_out) {
  int64_t dims[RONDE_MAX_RANK], stride[2], dilation[2];
  bool ceil_mode = ronde__onnx_attr_int(node, "ceil_mode", 0) != 0;
  axis axes[2];
  if (ronde_tensor_dims(x, dims) != 3)
    return ronde__onnx_fail(im, node, "its input is not of 4 dimensions (batch, channels, height, width)");
  RONDE_TRY(read_pair(im, node, "strides", stride));
  RONDE_TRY(read_pair(im, node, "dilations", dilation));
  if (dilation[0] != 1 || dilation[1] != 1)
    return ronde__onnx_fail(im, node, "dilations of %" PRId64 "x%" PRId64 " are not supported", dilation[0],
                            dilation[1]);
  for (int d = 0; d < 2; d++) {
    if (kernel[d] < 1 || kernel[d] > INT32_MAX) return ronde__onnx_fail(im, node, "its kernel has an impossible size");
    axes[d] = (axis){dims[1 + d], kernel[d], stride[d], 0, 0};
  }
  RONDE_TRY(read_pads(im, node, axes));
  for (int d = 0; d < 2; d++) {
    const axis *a = &axes[d];
    int64_t wanted = count(a, a->end, ceil_mode), own = count(a, a->begin, false);
    if (wanted != own)
      return ronde__onnx_fail(im, node,
                              "it pads %" PRId64 " in front and %" PRId64 " behind%s, which gives %" PRId64
                              " outputs of %" PRId64
                              " inputs; Ronde pads both sides alike and rounds down, which gives "
                              "%" PRId64,
                              a->begin, a->end, ceil_mode ? " and rounds up (ceil_mode)" : "", wanted, a->in, own);
    window_out->kernel[d] = (int)a->kernel;
    window_out->stride[d] = (int)a->stride;
    window_out->padding[d] = (int)a->begin;
  }
  return RONDE_OK;
}

/* 2-d convolution (cross-correlation), PyTorch's definition: y[o] = bias[o] + sum over c, kh, kw of
 * weight[o][c][kh][kw] * x[c][oh * stride + kh * dilation - padding][ow * stride + kw * dilation - padding]. */
#include "ops/conv.h"

#include <inttypes.h>
#include <math.h>

static ronde_status conv2d_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                 const char *const *in_labels, ronde__shape *out) {
  char text[96];
  ronde__shape_text(&in[0], text, sizeof text);
  if (in[0].rank != 3)
    return ronde__fail(RONDE_E_USAGE, "%s: a convolution takes CxHxW, but %s gives %s", label, in_labels[0], text);
  if (attr->out_channels < 1) return ronde__fail(RONDE_E_USAGE, "%s: out_channels must be positive", label);
  RONDE_TRY(ronde__window_check(attr, label, in));
  int64_t groups = ronde__conv_n_groups(attr);
  if (groups < 1 || in[0].dim[0] % groups || attr->out_channels % groups)
    return ronde__fail(RONDE_E_USAGE,
                       "%s: %" PRId64 " groups do not divide both its input, %s of %s, and its %" PRId64
                       " output channels",
                       label, groups, text, in_labels[0], attr->out_channels);
  out->rank = 3;
  out->dim[0] = attr->out_channels;
  for (int d = 0; d < 2; d++) {
    out->dim[1 + d] = ronde__window_axis(attr, d, in[0].dim[1 + d]).out;
    if (out->dim[1 + d] < 1)
      return ronde__fail(RONDE_E_USAGE,
                         "%s: the %dx%d kernel is larger than its input: %s gives %s, with padding %dx%d", label,
                         attr->kernel[0], attr->kernel[1], in_labels[0], text, attr->padding[0], attr->padding[1]);
  }
  return RONDE_OK;
}

static int conv2d_params(const ronde__op_attr *attr, const ronde__shape *in,
                         ronde__param_spec specs[RONDE__OP_MAX_PARAMS]) {
  int64_t channels = in[0].dim[0] / ronde__conv_n_groups(attr);
  float bound = (float)(1 / sqrt((double)channels * attr->kernel[0] * attr->kernel[1]));
  specs[0] = (ronde__param_spec){.suffix = "weight",
                                 .shape = {4, {attr->out_channels, channels, attr->kernel[0], attr->kernel[1]}},
                                 .bound = bound};
  if (attr->of_sequence) specs[0].shape = (ronde__shape){3, {attr->out_channels, channels, attr->kernel[1]}};
  specs[1] = (ronde__param_spec){.suffix = "bias", .shape = {1, {attr->out_channels}}, .bound = bound};
  if (attr->kaiming_normal) {
    specs[0].init = RONDE_INIT_NORMAL;
    specs[0].bound = (float)sqrt(2 / (double)(attr->out_channels * attr->kernel[0] * attr->kernel[1]));
  }
  return attr->bias ? 2 : 1;
}

static int64_t conv2d_flops(const ronde__op_attr *attr, const ronde__shape *in, const ronde__shape *out) {
  return 2 * ronde__shape_elems(out) * (in[0].dim[0] / ronde__conv_n_groups(attr)) * attr->kernel[0] * attr->kernel[1];
}

/* Up to FEW channels the batch goes into the lanes: a block would be padding for the most part. */
enum { FEW_IN = 16, FEW_OUT = 32, FEW_OUT_OF_FIRST = 16 };

/* Whether kernels multiply blocks of groups of this width (kernel.h). */
static bool are_grouped_in_blocks(int64_t width, int64_t block) {
  return block % width == 0 && width < block && (width <= 2 || width == 4 || width == 8 || width % RONDE__QUANTUM == 0);
}

/* Groups inside blocks; groups of whole blocks, each a convolution by itself; in LANES, groups of any width. */
static void layouts_of_groups(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out, int64_t groups) {
  int64_t in_width = in[0].dim[0] / groups, out_width = out->dim[0] / groups;
  int64_t in_block = ronde__channel_block(in[0].dim[0]), out_block = ronde__channel_block(out->dim[0]);
  bool inside = in_width == out_width && are_grouped_in_blocks(in_width, in_block);
  bool whole = in_width % in_block == 0 && out_width % out_block == 0;
  ronde__layout layout = inside || whole ? RONDE__BLOCKS : RONDE__LANES;
  ronde__weight_form form = inside ? RONDE__PANELS : whole ? RONDE__BLOCKED : RONDE__PLAIN;
  int64_t n = desc->in[0].n, taps = (int64_t)desc->attr.kernel[0] * desc->attr.kernel[1];
  desc->in[0] = ronde__phys_make(layout, n, in[0].dim[0], in[0].dim[1], in[0].dim[2]);
  desc->out[0] = ronde__phys_make(layout, n, out->dim[0], out->dim[1], out->dim[2]);
  desc->param[0] =
      ronde__weight_layout_make(form, out->dim[0], in_width, taps, desc->out[0].block, whole ? in_block : 1);
  desc->param[1] = ronde__weight_layout_make(whole ? RONDE__PANELS : form, out->dim[0], 1, 1, desc->out[0].block, 1);
}

static void conv2d_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  int64_t groups = ronde__conv_n_groups(&desc->attr);
  if (groups > 1) {
    layouts_of_groups(desc, in, out, groups);
    return;
  }
  ronde__phys *x = &desc->in[0];
  if (x->layout == RONDE__ROWS)
    *x = ronde__phys_make(x->c <= FEW_IN ? RONDE__LANES : RONDE__BLOCKS, x->n, x->c, x->h, x->w);
  bool few_out = out->dim[0] < (desc->need_dinput[0] ? FEW_OUT : FEW_OUT_OF_FIRST);
  if (x->layout == RONDE__LANES && !few_out && desc->need_dinput[0])
    *x = ronde__phys_make(RONDE__BLOCKS, x->n, x->c, x->h, x->w);
  bool lanes_out = x->layout == RONDE__LANES && few_out;
  desc->out[0] =
      ronde__phys_make(lanes_out ? RONDE__LANES : RONDE__BLOCKS, x->n, out->dim[0], out->dim[1], out->dim[2]);
  ronde__weight_layout *w = &desc->param[0];
  *w = ronde__weight_layout_make(RONDE__BLOCKED, out->dim[0], in[0].dim[0],
                                 (int64_t)desc->attr.kernel[0] * desc->attr.kernel[1], desc->out[0].block, x->block);
  if (x->layout == RONDE__LANES) w->form = lanes_out ? RONDE__PLAIN : RONDE__PANELS;
  desc->param[1] =
      ronde__weight_layout_make(lanes_out ? RONDE__PLAIN : RONDE__PANELS, out->dim[0], 1, 1, desc->out[0].block, 1);
}

/* A band of the map in front of the pooling stays in cache, and is never stored whole. */
static bool conv2d_join(ronde__op_desc *desc, ronde__op_kind kind, const ronde__op_attr *attr,
                        const ronde__shape *out) {
  if (!ronde__conv_first.takes(desc) || kind != RONDE__OP_MAX_POOL2D) return false;
  for (int d = 0; d < 2; d++)
    if (attr->padding[d] || attr->padding_more[d] || attr->dilation[d] > 1 || attr->stride[d] != attr->kernel[d])
      return false;
  if (attr->ceil_mode) return false;
  desc->attr.pool =
      (ronde__joined_pool){.kernel = {attr->kernel[0], attr->kernel[1]}, .relu = attr->act == RONDE__ACT_RELU};
  desc->out[0].h = out->dim[1], desc->out[0].w = out->dim[2];
  return true;
}

static bool conv2d_dead_tap(const ronde__op_desc *desc, int64_t t) {
  ronde__axis h = ronde__conv_axis_h(desc), w = ronde__conv_axis_w(desc);
  int64_t h0, h1, w0, w1;
  ronde__axis_outputs_of_tap(&h, (int)t / w.kernel, &h0, &h1);
  ronde__axis_outputs_of_tap(&w, (int)t % w.kernel, &w0, &w1);
  return h0 == h1 || w0 == w1;
}

static const ronde__form *const conv2d_forms[] = {
    &ronde__conv_depthwise,
    &ronde__conv_grouped,
    &ronde__conv_groups,
    RONDE__CONV_FORMS_OF_ONE_GROUP,
    &ronde__conv_first_bf16,
    &ronde__conv_first,
    NULL,
};

const ronde__op ronde__op_conv2d = {
    .name = "convolution",
    .infer = conv2d_infer,
    .params = conv2d_params,
    .flops = conv2d_flops,
    .layouts = conv2d_layouts,
    .join = conv2d_join,
    .backward_reads = {.in = 1},
    .dead_tap = conv2d_dead_tap,
    .forms = conv2d_forms,
};

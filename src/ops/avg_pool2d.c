/* Average over windows, zeros of the padding counted unless exclude_padding (PyTorch's count_include_pad), but not what
 * a last window has beyond the padding (ceil_mode); and the
 * adaptive kind, whose windows follow from the output's size. */
#include "ops/pool2d.h"

static void avg_pool2d_forward_pixel(const ronde__op_desc *desc, const ronde__op_call *call,
                                     const ronde__pool2d_pixel *p) {
  const ronde__window *w = p->window;
  if (p->narrow)
    desc->compute.bf16->avg_window(ronde__operand_from(&desc->in[0], call->in[0], p->from), w->offsets, w->count, p->n,
                                   w->factor, ronde__operand_from(&desc->out[0], call->out[0], p->to));
  else
    desc->compute.kernels->avg_window(call->in[0] + p->from, w->offsets, w->count, p->n, w->factor,
                                      call->out[0] + p->to, false);
}

static void avg_pool2d_backward_pixel(const ronde__op_desc *desc, const ronde__op_call *call,
                                      const ronde__pool2d_pixel *p) {
  bool add = call->accumulate_dinput[0];
  if (p->narrow)
    desc->compute.bf16->avg_gradient(ronde__operand_from(&desc->out[0], call->dout[0], p->from), p->of->at,
                                     p->of->count, p->n, ronde__operand_from(&desc->in[0], call->din[0], p->to), add);
  else
    desc->compute.kernels->avg_gradient(call->dout[0] + p->from, p->of->at, p->of->count, p->n, call->din[0] + p->to,
                                        add);
}

static ronde_status avg_pool2d_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  ronde__pool2d_run(desc, state, call, false, avg_pool2d_forward_pixel);
  return RONDE_OK;
}

static ronde_status avg_pool2d_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  if (call->din[0]) ronde__pool2d_run(desc, state, call, true, avg_pool2d_backward_pixel);
  return RONDE_OK;
}

/* Output i averages the inputs from floor(i in / out) to ceil((i + 1) in / out). */
static ronde__taps adaptive_taps(const ronde__axis *axis, int64_t o) {
  int64_t begin = o * axis->in / axis->out;
  return (ronde__taps){0, (int)(ronde__ceil_div((o + 1) * axis->in, axis->out) - begin), begin};
}

static ronde_status adaptive_prepare(const ronde__op_desc *desc, void **state_out) {
  ronde__axis h = {.in = desc->in[0].h, .out = desc->out[0].h, .stride = 1, .dilation = 1};
  ronde__axis w = {.in = desc->in[0].w, .out = desc->out[0].w, .stride = 1, .dilation = 1};
  return ronde__pool2d_prepare_windows(desc, &h, &w, adaptive_taps, state_out);
}

static ronde_status adaptive_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                   const char *const *in_labels, ronde__shape *out) {
  char text[96];
  ronde__shape_text(&in[0], text, sizeof text);
  if (in[0].rank != 3)
    return ronde__fail(RONDE_E_USAGE, "%s: pooling takes CxHxW, but %s gives %s", label, in_labels[0], text);
  if (attr->kernel[0] < 1 || attr->kernel[1] < 1)
    return ronde__fail(RONDE_E_USAGE, "%s: the output's height and width must be positive", label);
  *out = (ronde__shape){3, {in[0].dim[0], attr->kernel[0], attr->kernel[1]}};
  return RONDE_OK;
}

static const ronde__form adaptive_form = {
    .bf16 = {.in = 1, .out = 1},
    .prepare = adaptive_prepare,
    .release = ronde__pool2d_release,
    .forward = avg_pool2d_forward,
    .backward = avg_pool2d_backward,
    .implementation = ronde__pool2d_implementation,
};

const ronde__op ronde__op_adaptive_avg_pool2d = {
    .name = "adaptive_avg_pool",
    .infer = adaptive_infer,
    .layouts = ronde__pool2d_layouts,
    .forms = (const ronde__form *const[]){&adaptive_form, NULL},
};

static const ronde__form avg_pool2d_form = {
    .bf16 = {.in = 1, .out = 1},
    .prepare = ronde__pool2d_prepare,
    .release = ronde__pool2d_release,
    .forward = avg_pool2d_forward,
    .backward = avg_pool2d_backward,
    .implementation = ronde__pool2d_implementation,
};

const ronde__op ronde__op_avg_pool2d = {
    .name = "avg_pool",
    .infer = ronde__pool2d_infer,
    .layouts = ronde__pool2d_layouts,
    .forms = (const ronde__form *const[]){&avg_pool2d_form, NULL},
};

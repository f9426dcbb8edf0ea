/* Activations whose backward reads their input (kernel/pointwise.inc). They run by themselves: a layer that executed one
 * would have overwritten what backward needs. */
#include "ops/elementwise.h"

#include <math.h>

static ronde_status pointwise_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                    const char *const *in_labels, ronde__shape *out) {
  const ronde__pointwise *f = &attr->pointwise;
  bool is_clip = f->kind == RONDE__POINTWISE_CLIP;
  if (is_clip && !(f->a <= f->b))
    return ronde__fail(RONDE_E_USAGE, "%s: the lower bound %g is not at most the upper bound %g", label, (double)f->a,
                       (double)f->b);
  if (!is_clip && !(isfinite(f->a) && isfinite(f->b)))
    return ronde__fail(RONDE_E_USAGE, "%s: its constants must be finite", label);
  return ronde__elementwise_infer(attr, label, in, in_labels, out);
}

static void forward_of(const ronde__op_desc *desc, const float *x, float *y, int64_t n) {
  desc->compute.kernels->pointwise_forward(&desc->attr.pointwise, x, y, n);
}

static void backward_of(const ronde__op_desc *desc, const float *dy, const float *x, float *dx, int64_t n,
                        bool accumulate) {
  desc->compute.kernels->pointwise_backward(&desc->attr.pointwise, dy, x, dx, n, accumulate);
}

/* Some hard sigmoids and clips do not take 0 to 0, which padded channels hold. */
static bool moves_zero(const ronde__op_desc *desc) {
  const float zero = 0;
  float y;
  desc->compute.kernels->pointwise_forward(&desc->attr.pointwise, &zero, &y, 1);
  return y != 0;
}

static ronde_status pointwise_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  ronde__unary_forward(desc, call, forward_of);
  if (moves_zero(desc)) ronde__elementwise_clear_padding(&desc->out[0], call->out[0]);
  return RONDE_OK;
}

static ronde_status pointwise_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  ronde__unary_backward(desc, call, &desc->in[0], call->in[0], backward_of);
  return RONDE_OK;
}

static const ronde__form pointwise_form = {
    .bf16 = {.in = 1, .out = 1},
    .forward = pointwise_forward,
    .backward = pointwise_backward,
    .implementation = ronde__elementwise_implementation,
};

const ronde__op ronde__op_pointwise = {
    .name = "pointwise",
    .infer = pointwise_infer,
    .layouts = ronde__elementwise_layouts,
    .takes_rows = true,
    .backward_reads = {.in = 1},
    .dinput_in_dout = 1,
    .forms = (const ronde__form *const[]){&pointwise_form, NULL},
};

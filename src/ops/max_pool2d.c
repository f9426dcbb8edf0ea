/* Maximum over windows; the gradient goes to the first place that has it, as in PyTorch. A ReLU in front of it is
 * executed behind it, on the smaller side: max(relu(x)) = relu(max(x)), and where the maximum is positive its place is
 * the same; where it is not, the place is left out, and no gradient goes there. */
#include "ops/pool2d.h"

static ronde_status max_pool2d_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                     const char *const *in_labels, ronde__shape *out) {
  if ((int64_t)attr->kernel[0] * attr->kernel[1] > 256) /* the place of a maximum is kept in a byte */
    return ronde__fail(RONDE_E_USAGE, "%s: a window of %dx%d has more than 256 positions, the most that are supported",
                       label, attr->kernel[0], attr->kernel[1]);
  return ronde__pool2d_infer(attr, label, in, in_labels, out);
}

static size_t max_pool2d_saved_elems(const ronde__op_desc *desc, const void *state) {
  return ronde__pool2d_indices_elems(&desc->out[0]);
}

static void max_pool2d_forward_pixel(const ronde__op_desc *desc, const ronde__op_call *call,
                                     const ronde__pool2d_pixel *p) {
  const ronde__window *w = p->window;
  uint8_t *which = (uint8_t *)call->saved + p->to;
  bool relu = desc->attr.act == RONDE__ACT_RELU;
  if (p->narrow)
    desc->compute.bf16->max_window(ronde__operand_from(&desc->in[0], call->in[0], p->from), w->offsets, w->count, p->n,
                                   relu, ronde__operand_from(&desc->out[0], call->out[0], p->to), which);
  else
    desc->compute.kernels->max_window(call->in[0] + p->from, w->offsets, w->count, p->n, NULL, 0, relu,
                                      call->out[0] + p->to, which);
}

static void max_pool2d_backward_pixel(const ronde__op_desc *desc, const ronde__op_call *call,
                                      const ronde__pool2d_pixel *p) {
  const uint8_t *which = (const uint8_t *)call->saved + p->from;
  bool add = call->accumulate_dinput[0];
  if (p->narrow)
    desc->compute.bf16->max_gradient(ronde__operand_from(&desc->out[0], call->dout[0], p->from), which, p->of->at,
                                     p->of->count, p->n, ronde__operand_from(&desc->in[0], call->din[0], p->to), add);
  else
    desc->compute.kernels->max_gradient(call->dout[0] + p->from, which, p->of->at, p->of->count, p->n,
                                        call->din[0] + p->to, add);
}

static ronde_status max_pool2d_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  ronde__pool2d_run(desc, state, call, false, max_pool2d_forward_pixel);
  return RONDE_OK;
}

static ronde_status max_pool2d_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  if (call->din[0]) ronde__pool2d_run(desc, state, call, true, max_pool2d_backward_pixel);
  return RONDE_OK;
}

static const ronde__form max_pool2d_form = {
    .bf16 = {.in = 1, .out = 1},
    .prepare = ronde__pool2d_prepare,
    .release = ronde__pool2d_release,
    .saved_elems = max_pool2d_saved_elems,
    .forward = max_pool2d_forward,
    .backward = max_pool2d_backward,
    .implementation = ronde__pool2d_implementation,
};

const ronde__op ronde__op_max_pool2d = {
    .name = "max_pool",
    .infer = max_pool2d_infer,
    .layouts = ronde__pool2d_layouts,
    .forms = (const ronde__form *const[]){&max_pool2d_form, NULL},
};

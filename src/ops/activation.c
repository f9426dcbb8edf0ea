/* ReLU, tanh or sigmoid where it could not be fused behind a layer. */
#include "ops/elementwise.h"

static void activation_forward_range(const ronde__op_desc *desc, const ronde__op_call *call, int64_t begin, int64_t n) {
  desc->compute.kernels->act_forward(call->in[0] + begin, call->out[0] + begin, n, desc->attr.act);
}

/* sigmoid(0) is not 0. */
static ronde_status activation_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  ronde__elementwise_run(desc, call, ronde__phys_elems(&desc->out[0]), activation_forward_range);
  if (desc->attr.act == RONDE__ACT_SIGMOID) ronde__elementwise_clear_padding(&desc->out[0], call->out[0]);
  return RONDE_OK;
}

static void activation_backward_range(const ronde__op_desc *desc, const ronde__op_call *call, int64_t begin,
                                      int64_t n) {
  desc->compute.kernels->act_backward(call->dout[0] + begin, call->out[0] + begin, call->din[0] + begin, n,
                                      desc->attr.act, call->accumulate_dinput[0]);
}

static ronde_status activation_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  if (call->din[0]) ronde__elementwise_run(desc, call, ronde__phys_elems(&desc->out[0]), activation_backward_range);
  return RONDE_OK;
}

static const ronde__form activation_form = {
    .forward = activation_forward,
    .backward = activation_backward,
    .implementation = ronde__elementwise_implementation,
};

const ronde__op ronde__op_activation = {
    .name = "activation",
    .infer = ronde__elementwise_infer,
    .layouts = ronde__elementwise_layouts,
    .takes_rows = true,
    .backward_reads = {.out = 1},
    .dinput_in_dout = 1,
    .forms = (const ronde__form *const[]){&activation_form, NULL},
};

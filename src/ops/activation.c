/* ReLU, tanh or sigmoid where it could not be fused behind a layer. */
#include "ops/elementwise.h"

static void forward_of(const ronde__op_desc *desc, const float *x, float *y, int64_t n) {
  desc->compute.kernels->act_forward(x, y, n, desc->attr.act);
}

static void backward_of(const ronde__op_desc *desc, const float *dy, const float *y, float *dx, int64_t n,
                        bool accumulate) {
  desc->compute.kernels->act_backward(dy, y, dx, n, desc->attr.act, accumulate);
}

/* sigmoid(0) is not 0. */
static ronde_status activation_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  ronde__unary_forward(desc, call, forward_of);
  if (desc->attr.act == RONDE__ACT_SIGMOID) ronde__elementwise_clear_padding(&desc->out[0], call->out[0]);
  return RONDE_OK;
}

static ronde_status activation_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  ronde__unary_backward(desc, call, &desc->out[0], call->out[0], backward_of);
  return RONDE_OK;
}

static const ronde__form activation_form = {
    .bf16 = {.in = 1, .out = 1},
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

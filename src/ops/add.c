/* y = a + b */
#include "ops/elementwise.h"

static void add_forward_range(const ronde__op_desc *desc, const ronde__op_call *call, int64_t begin, int64_t n) {
  desc->compute.kernels->add(call->in[0] + begin, call->in[1] + begin, call->out[0] + begin, n);
}

static ronde_status add_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  ronde__elementwise_run(desc, call, ronde__phys_elems(&desc->out[0]), add_forward_range);
  return RONDE_OK;
}

static void add_backward_range(const ronde__op_desc *desc, const ronde__op_call *call, int64_t begin, int64_t n) {
  for (int i = 0; i < 2; i++)
    if (call->din[i] && (call->din[i] != call->dout[0] || call->accumulate_dinput[i]))
      ronde__gradient_add(desc, call->dout[0] + begin, call->din[i] + begin, n, call->accumulate_dinput[i]);
}

static ronde_status add_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  ronde__elementwise_run(desc, call, ronde__phys_elems(&desc->out[0]), add_backward_range);
  return RONDE_OK;
}

static const ronde__form add_form = {
    .forward = add_forward,
    .backward = add_backward,
    .implementation = ronde__elementwise_implementation,
};

const ronde__op ronde__op_add = {
    .name = "add",
    .infer = ronde__elementwise_infer_pair,
    .layouts = ronde__elementwise_layouts_pair,
    .takes_rows = true,
    .dinput_in_dout = 3,
    .forms = (const ronde__form *const[]){&add_form, NULL},
};

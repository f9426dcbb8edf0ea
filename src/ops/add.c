/* y = a + b */
#include "ops/elementwise.h"
#include "ops/widen.h"

static void add_forward_range(const ronde__op_desc *desc, const ronde__op_call *call, int64_t begin, int64_t n) {
  const ronde__phys *y = &desc->out[0];
  const void *a = ronde__operand_at(y, call->in[0], begin), *b = ronde__operand_at(y, call->in[1], begin);
  void *to = ronde__operand_at(y, call->out[0], begin);
  if (y->bf16) desc->compute.bf16->add(a, b, n, to);
  else desc->compute.kernels->add(a, b, to, n);
}

static ronde_status add_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  ronde__elementwise_run(desc, call, ronde__phys_elems(&desc->out[0]), add_forward_range);
  return RONDE_OK;
}

static void add_backward_range(const ronde__op_desc *desc, const ronde__op_call *call, int64_t begin, int64_t n) {
  for (int i = 0; i < 2; i++)
    if (call->din[i] && (call->din[i] != call->dout[0] || call->accumulate_dinput[i]))
      ronde__value_add(desc, &desc->out[0], call->dout[0], begin, call->din[i], begin, n, call->accumulate_dinput[i]);
}

static ronde_status add_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  ronde__elementwise_run(desc, call, ronde__phys_elems(&desc->out[0]), add_backward_range);
  return RONDE_OK;
}

static const ronde__form add_form = {
    .bf16 = {.in = 3, .out = 1},
    .one_format = true,
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

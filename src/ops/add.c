/* y = a + b */
#include "ops/elementwise.h"
#include "ops/widen.h"

static void add_forward_range(const ronde__op_desc *desc, const ronde__op_call *call, int64_t begin, int64_t n) {
  const ronde__phys *a = &desc->in[0], *b = &desc->in[1], *y = &desc->out[0];
  const void *in_a = ronde__operand_at(a, call->in[0], begin), *in_b = ronde__operand_at(b, call->in[1], begin);
  void *to = ronde__operand_at(y, call->out[0], begin);
  if (a->bf16 && b->bf16 && y->bf16) {
    desc->compute.bf16->add(in_a, in_b, n, to);
    return;
  }
  float a_room[RONDE__STRETCH], b_room[RONDE__STRETCH], y_room[RONDE__STRETCH];
  for (int64_t end = begin + n; begin < end; begin += n) {
    n = ronde__is_narrow(desc) ? ronde__min(RONDE__STRETCH, end - begin) : end - begin;
    float *sum = ronde__operand_room(y, call->out[0], begin, y_room);
    desc->compute.kernels->add(ronde__widen(desc, a, call->in[0], begin, n, a_room),
                               ronde__widen(desc, b, call->in[1], begin, n, b_room), sum, n);
    ronde__narrow(desc, y, sum, n, call->out[0], begin);
  }
}

static ronde_status add_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  ronde__elementwise_run(desc, call, ronde__phys_elems(&desc->out[0]), add_forward_range);
  return RONDE_OK;
}

/* The gradient of an input in the other format. */
static void give_gradient(const ronde__op_desc *desc, const ronde__op_call *call, int i, int64_t begin, int64_t n) {
  float room[RONDE__STRETCH];
  for (int64_t end = begin + n; begin < end; begin += n) {
    n = ronde__min(RONDE__STRETCH, end - begin);
    const float *dy = ronde__widen(desc, &desc->out[0], call->dout[0], begin, n, room);
    ronde__operand_add(desc, &desc->in[i], dy, call->din[i], begin, n, call->accumulate_dinput[i]);
  }
}

static void add_backward_range(const ronde__op_desc *desc, const ronde__op_call *call, int64_t begin, int64_t n) {
  for (int i = 0; i < 2; i++) {
    if (!call->din[i] || (call->din[i] == call->dout[0] && !call->accumulate_dinput[i])) continue;
    if (desc->in[i].bf16 != desc->out[0].bf16) give_gradient(desc, call, i, begin, n);
    else
      ronde__value_add(desc, &desc->out[0], call->dout[0], begin, call->din[i], begin, n, call->accumulate_dinput[i]);
  }
}

static ronde_status add_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  ronde__elementwise_run(desc, call, ronde__phys_elems(&desc->out[0]), add_backward_range);
  return RONDE_OK;
}

static const ronde__form add_form = {
    .bf16 = {.in = 3, .out = 1},
    .passes_on = true,
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

/* y = a - b */
#include "ops/elementwise.h"

static void subtract_range(const ronde__op_desc *desc, const ronde__op_call *call, int64_t begin, int64_t n) {
  const float *a = call->in[0] + begin, *b = call->in[1] + begin;
  float *y = call->out[0] + begin;
  for (int64_t i = 0; i < n; i++) y[i] = a[i] - b[i];
}

static ronde_status subtract_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  ronde__elementwise_run(desc, call, ronde__phys_elems(&desc->out[0]), subtract_range);
  return RONDE_OK;
}

/* Both inputs may be one tensor: the second then adds to what the first has written. */
static void subtract_backward_range(const ronde__op_desc *desc, const ronde__op_call *call, int64_t begin, int64_t n) {
  const float *dy = call->dout[0] + begin;
  for (int64_t i = 0; i < n && call->din[0]; i++)
    call->din[0][begin + i] = dy[i] + (call->accumulate_dinput[0] ? call->din[0][begin + i] : 0);
  for (int64_t i = 0; i < n && call->din[1]; i++)
    call->din[1][begin + i] = (call->accumulate_dinput[1] ? call->din[1][begin + i] : 0) - dy[i];
}

static ronde_status subtract_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  ronde__elementwise_run(desc, call, ronde__phys_elems(&desc->out[0]), subtract_backward_range);
  return RONDE_OK;
}

static const ronde__form subtract_form = {
    .forward = subtract_forward,
    .backward = subtract_backward,
    .implementation = ronde__elementwise_implementation,
};

const ronde__op ronde__op_subtract = {
    .name = "subtract",
    .infer = ronde__elementwise_infer_pair,
    .layouts = ronde__elementwise_layouts_pair,
    .takes_rows = true,
    .forms = (const ronde__form *const[]){&subtract_form, NULL},
};

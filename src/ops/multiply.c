/* y = a b, element by element. */
#include "ops/elementwise.h"

static void multiply_range(const ronde__op_desc *desc, const ronde__op_call *call, int64_t begin, int64_t n) {
  const float *a = call->in[0] + begin, *b = call->in[1] + begin;
  float *y = call->out[0] + begin;
  for (int64_t i = 0; i < n; i++) y[i] = a[i] * b[i];
}

static ronde_status multiply_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  ronde__elementwise_run(desc, call, ronde__phys_elems(&desc->out[0]), multiply_range);
  return RONDE_OK;
}

/* Both inputs may be one tensor: the second then adds to what the first has written. */
static void multiply_backward_range(const ronde__op_desc *desc, const ronde__op_call *call, int64_t begin, int64_t n) {
  const float *dy = call->dout[0] + begin;
  for (int j = 0; j < 2; j++) {
    const float *other = call->in[1 - j] + begin;
    float *dx = call->din[j] ? call->din[j] + begin : NULL;
    for (int64_t i = 0; i < n && dx; i++) dx[i] = dy[i] * other[i] + (call->accumulate_dinput[j] ? dx[i] : 0);
  }
}

static ronde_status multiply_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  ronde__elementwise_run(desc, call, ronde__phys_elems(&desc->out[0]), multiply_backward_range);
  return RONDE_OK;
}

static const ronde__form multiply_form = {
    .forward = multiply_forward,
    .backward = multiply_backward,
    .implementation = ronde__elementwise_implementation,
};

const ronde__op ronde__op_multiply = {
    .name = "multiply",
    .infer = ronde__elementwise_infer_pair,
    .layouts = ronde__elementwise_layouts_pair,
    .takes_rows = true,
    .backward_reads = {.in = 3},
    .forms = (const ronde__form *const[]){&multiply_form, NULL},
};

/* Functions of one number (functions.inc), by the C library: they are rare in networks. What is frequent is an activation
 * (activation.c, pointwise.c). */
#include "ops/elementwise.h"

#include <math.h>

static ronde_status function_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                   const char *const *in_labels, ronde__shape *out) {
  if (!(isfinite(attr->function.a) && isfinite(attr->function.b)))
    return ronde__fail(RONDE_E_USAGE, "%s: its constants must be finite", label);
  return ronde__elementwise_infer(attr, label, in, in_labels, out);
}

static void function_values(const ronde__function *f, const float *from, float *to, int64_t n) {
  const float a __attribute__((unused)) = f->a, b __attribute__((unused)) = f->b;
  switch (f->kind) {
#define RONDE_FUNCTION(KIND, name, value, slope) \
  case RONDE__FUNCTION_##KIND:                   \
    for (int64_t i = 0; i < n; i++) {            \
      const float x = from[i];                   \
      to[i] = (value);                           \
    }                                            \
    break;
#include "ops/functions.inc"
#undef RONDE_FUNCTION
  }
}

static void function_slopes(const ronde__function *f, const float *from, float *to, int64_t n) {
  const float a __attribute__((unused)) = f->a, b __attribute__((unused)) = f->b;
  switch (f->kind) {
#define RONDE_FUNCTION(KIND, name, value, slope)       \
  case RONDE__FUNCTION_##KIND:                         \
    for (int64_t i = 0; i < n; i++) {                  \
      const float x __attribute__((unused)) = from[i]; \
      to[i] = (slope);                                 \
    }                                                  \
    break;
#include "ops/functions.inc"
#undef RONDE_FUNCTION
  }
}

static void function_forward_range(const ronde__op_desc *desc, const ronde__op_call *call, int64_t begin, int64_t n) {
  function_values(&desc->attr.function, call->in[0] + begin, call->out[0] + begin, n);
}

/* Padded channels hold 0, of which some functions have no value, or another one. */
static ronde_status function_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  ronde__elementwise_run(desc, call, ronde__phys_elems(&desc->out[0]), function_forward_range);
  ronde__elementwise_clear_padding(&desc->out[0], call->out[0]);
  return RONDE_OK;
}

static void function_backward_range(const ronde__op_desc *desc, const ronde__op_call *call, int64_t begin, int64_t n) {
  enum { CHUNK = 256 };
  float slopes[CHUNK];
  for (int64_t i = begin; i < begin + n; i += CHUNK) {
    int64_t m = ronde__min(CHUNK, begin + n - i);
    const float *dy = call->dout[0] + i;
    float *dx = call->din[0] + i;
    function_slopes(&desc->attr.function, call->in[0] + i, slopes, m);
    for (int64_t k = 0; k < m; k++) dx[k] = dy[k] * slopes[k] + (call->accumulate_dinput[0] ? dx[k] : 0);
  }
}

static ronde_status function_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  if (!call->din[0]) return RONDE_OK;
  ronde__elementwise_run(desc, call, ronde__phys_elems(&desc->out[0]), function_backward_range);
  ronde__elementwise_clear_padding(&desc->in[0], call->din[0]);
  return RONDE_OK;
}

static const char *function_implementation(const ronde__op_desc *desc, const void *state) {
  static const char *const names[] = {
#define RONDE_FUNCTION(KIND, name, value, slope) #name,
#include "ops/functions.inc"
#undef RONDE_FUNCTION
  };
  return names[desc->attr.function.kind];
}

static const ronde__form function_form = {
    .forward = function_forward,
    .backward = function_backward,
    .implementation = function_implementation,
};

const ronde__op ronde__op_function = {
    .name = "function",
    .infer = function_infer,
    .layouts = ronde__elementwise_layouts,
    .backward_reads = {.in = 1},
    .dinput_in_dout = 1,
    .takes_rows = true,
    .forms = (const ronde__form *const[]){&function_form, NULL},
};

/* How long sequences of tokens are that are filled up with padding, as a value. It has no gradient. */
#include "ops/op.h"

static ronde_status lengths_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                  const char *const *in_labels, ronde__shape *out) {
  char text[96];
  ronde__shape_text(&in[0], text, sizeof text);
  if (in[0].rank != 1)
    return ronde__fail(RONDE_E_USAGE, "%s: a sequence of tokens is needed, but %s gives %s", label, in_labels[0], text);
  *out = (ronde__shape){1, {1}};
  return RONDE_OK;
}

static void lengths_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  desc->in[0] = ronde__phys_of_shape(&in[0], desc->in[0].n);
  desc->out[0] = ronde__phys_of_shape(out, desc->in[0].n);
}

static ronde_status lengths_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  int64_t t = ronde__phys_elems(&desc->in[0]) / desc->in[0].n;
  const int32_t *x = (const int32_t *)(const void *)call->in[0];
  for (int64_t n = 0; n < desc->in[0].n; n++) {
    int64_t length = t;
    while (length > 0 && x[n * t + length - 1] == desc->attr.begin[0]) length--;
    call->out[0][n] = (float)length;
  }
  return RONDE_OK;
}

static ronde_status lengths_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  return RONDE_OK;
}

static const char *lengths_implementation(const ronde__op_desc *desc, const void *state) { return "c"; }

static const ronde__form lengths_form = {
    .forward = lengths_forward,
    .backward = lengths_backward,
    .implementation = lengths_implementation,
};

const ronde__op ronde__op_lengths = {
    .name = "lengths",
    .infer = lengths_infer,
    .layouts = lengths_layouts,
    .tokens = 1,
    .forms = (const ronde__form *const[]){&lengths_form, NULL},
};

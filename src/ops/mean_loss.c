/* The mean over the batch of a value that the network computes itself: a loss without a target. */
#include "ops/op.h"

static ronde_status mean_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                               const char *const *in_labels, ronde__shape *out) {
  char text[96];
  *out = (ronde__shape){0};
  if (ronde__shape_equal(&in[0], &(ronde__shape){1, {1}})) return RONDE_OK;
  ronde__shape_text(&in[0], text, sizeof text);
  return ronde__fail(RONDE_E_USAGE, "%s: a loss is one number an example, but %s gives %s", label, in_labels[0], text);
}

static void mean_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  int64_t n = desc->in[0].n;
  desc->in[0] = ronde__phys_of_shape(&in[0], n);
  desc->out[0] = ronde__phys_make(RONDE__ROWS, n, 1, 1, 1);
}

static ronde_status mean_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  for (int64_t n = 0; n < desc->in[0].n; n++) *call->loss_sum += (double)call->in[0][n];
  return RONDE_OK;
}

static ronde_status mean_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  float *dx = call->din[0];
  for (int64_t n = 0; n < desc->in[0].n && dx; n++) dx[n] = call->loss_scale + (call->accumulate_dinput[0] ? dx[n] : 0);
  return RONDE_OK;
}

static const char *mean_implementation(const ronde__op_desc *desc, const void *state) { return "c"; }

static const ronde__form mean_form = {
    .forward = mean_forward,
    .backward = mean_backward,
    .implementation = mean_implementation,
};

const ronde__op ronde__op_mean_loss = {
    .name = "mean_loss",
    .infer = mean_infer,
    .layouts = mean_layouts,
    .is_loss = true,
    .forms = (const ronde__form *const[]){&mean_form, NULL},
};

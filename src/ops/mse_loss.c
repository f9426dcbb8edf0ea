/* Mean over the elements of (prediction - target)^2, summed over the batch; gradient 2 (prediction - target) / elements
 * times loss_scale. */
#include "ops/op.h"

#include <string.h>

static ronde_status mse_loss_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                   const char *const *in_labels, ronde__shape *out) {
  *out = (ronde__shape){0};
  return RONDE_OK;
}

static void mse_loss_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  const ronde__phys *x = &desc->in[0];
  desc->in[1] = ronde__phys_make(RONDE__ROWS, x->n, x->c, x->h, x->w); /* targets come as they are */
  desc->out[0] = ronde__phys_make(RONDE__ROWS, x->n, 1, 1, 1);
}

static ronde_status mse_loss_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  const ronde__phys *x = &desc->in[0], *t = &desc->in[1];
  int64_t pixels = x->h * x->w;
  double sum = 0;
  for (int64_t n = 0; n < x->n; n++)
    for (int64_t c = 0; c < x->c; c++)
      for (int64_t p = 0; p < pixels; p++) {
        double d = (double)call->in[0][ronde__phys_index(x, n, c, p)] - call->in[1][ronde__phys_index(t, n, c, p)];
        sum += d * d;
      }
  *call->loss_sum += sum / (double)(x->c * pixels);
  return RONDE_OK;
}

static ronde_status mse_loss_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  const ronde__phys *x = &desc->in[0], *t = &desc->in[1];
  int64_t pixels = x->h * x->w;
  float factor = (float)(2.0 * call->loss_scale / (double)(x->c * pixels)), *dx = call->din[0];
  if (!dx) return RONDE_OK;
  if (!call->accumulate_dinput[0]) memset(dx, 0, (size_t)ronde__phys_elems(x) * sizeof *dx);
  for (int64_t n = 0; n < x->n; n++)
    for (int64_t c = 0; c < x->c; c++)
      for (int64_t p = 0; p < pixels; p++) {
        int64_t at = ronde__phys_index(x, n, c, p);
        dx[at] += factor * (call->in[0][at] - call->in[1][ronde__phys_index(t, n, c, p)]);
      }
  return RONDE_OK;
}

static const char *mse_loss_implementation(const ronde__op_desc *desc, const void *state) { return "c"; }

static const ronde__form mse_loss_form = {
    .forward = mse_loss_forward,
    .backward = mse_loss_backward,
    .implementation = mse_loss_implementation,
};

const ronde__op ronde__op_mse_loss = {
    .name = "mse_loss",
    .infer = mse_loss_infer,
    .layouts = mse_loss_layouts,
    .backward_reads = {.in = 3},
    .is_loss = true,
    .forms = (const ronde__form *const[]){&mse_loss_form, NULL},
};

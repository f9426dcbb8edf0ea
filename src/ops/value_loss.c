/* Losses against values: the walk over the elements, whose order is fixed. x prediction, t target, n examples, c channels,
 * p pixels. Sums are in f64. */
#include "ops/value_loss.h"

#include <string.h>

ronde_status ronde__value_loss_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                     const char *const *in_labels, ronde__shape *out) {
  *out = (ronde__shape){0};
  return RONDE_OK;
}

void ronde__value_loss_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  const ronde__phys *x = &desc->in[0];
  desc->in[1] = ronde__phys_make(RONDE__ROWS, x->n, x->c, x->h, x->w); /* targets come as they are */
  desc->out[0] = ronde__phys_make(RONDE__ROWS, x->n, 1, 1, 1);
}

ronde_status ronde__value_loss_forward(const ronde__op_desc *desc, const ronde__op_call *call,
                                       const ronde__value_terms *terms) {
  const ronde__phys *x = &desc->in[0], *t = &desc->in[1];
  int64_t pixels = x->h * x->w;
  double sum = 0;
  for (int64_t n = 0; n < x->n; n++)
    for (int64_t c = 0; c < x->c; c++)
      for (int64_t p = 0; p < pixels; p++)
        sum += terms->term((double)call->in[0][ronde__phys_index(x, n, c, p)],
                           (double)call->in[1][ronde__phys_index(t, n, c, p)], (double)desc->attr.delta);
  *call->loss_sum += sum / (double)(x->c * pixels);
  return RONDE_OK;
}

ronde_status ronde__value_loss_backward(const ronde__op_desc *desc, const ronde__op_call *call,
                                        const ronde__value_terms *terms) {
  const ronde__phys *x = &desc->in[0], *t = &desc->in[1];
  int64_t pixels = x->h * x->w;
  float factor = (float)((double)call->loss_scale / (double)(x->c * pixels)), *dx = call->din[0];
  if (!dx) return RONDE_OK;
  if (!call->accumulate_dinput[0]) memset(dx, 0, (size_t)ronde__phys_elems(x) * sizeof *dx);
  for (int64_t n = 0; n < x->n; n++)
    for (int64_t c = 0; c < x->c; c++)
      for (int64_t p = 0; p < pixels; p++) {
        int64_t at = ronde__phys_index(x, n, c, p);
        dx[at] +=
            factor * terms->slopes[0](call->in[0][at], call->in[1][ronde__phys_index(t, n, c, p)], desc->attr.delta);
      }
  return RONDE_OK;
}

const char *ronde__value_implementation(const ronde__op_desc *desc, const void *state) { return "c"; }

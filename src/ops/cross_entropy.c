/* -log softmax(logits)[label], summed over the batch; its gradient, softmax - onehot, times loss_scale. With label
 * smoothing s (in training only) the target is (1 - s) onehot + s / K instead, as PyTorch has it.
 * The forward pass keeps the softmax [N][K]. Sums are in f64. */
#include "ops/op.h"

#include <math.h>
#include <string.h>

static ronde_status cross_entropy_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                        const char *const *in_labels, ronde__shape *out) {
  char text[96];
  ronde__shape_text(&in[0], text, sizeof text);
  if (in[0].rank != 1)
    return ronde__fail(RONDE_E_USAGE, "%s: the cross entropy takes a vector of logits, but %s gives %s", label,
                       in_labels[0], text);
  *out = (ronde__shape){0};
  return RONDE_OK;
}

static void cross_entropy_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  desc->out[0] = ronde__phys_make(RONDE__ROWS, desc->in[0].n, 1, 1, 1);
}

static int64_t classes_of(const ronde__phys *x) { return x->c * x->h * x->w; }

static size_t cross_entropy_saved_elems(const ronde__op_desc *desc, const void *state) {
  return (size_t)(desc->in[0].n * classes_of(&desc->in[0]));
}

/* Where logit k of example n lies. */
static int64_t logit_at(const ronde__phys *x, int64_t n, int64_t k) {
  int64_t pixels = x->h * x->w;
  return ronde__phys_index(x, n, k / pixels, k % pixels);
}

/* exp(p - max) in p, its sum returned. */
static double exponentials(float *p, int64_t classes, float max) {
  double sum = 0;
  for (int64_t k = 0; k < classes; k++) {
    p[k] = expf(p[k] - max);
    sum += p[k];
  }
  return sum;
}

static double smoothing_of(const ronde__op_desc *desc, const ronde__op_call *call) {
  return call->training ? (double)desc->attr.label_smoothing : 0;
}

static ronde_status cross_entropy_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  const ronde__phys *x = &desc->in[0];
  int64_t classes = classes_of(x);
  double loss = 0, smoothing = smoothing_of(desc, call);
  for (int64_t n = 0; n < x->n; n++) {
    float *p = call->saved + n * classes;
    double all = 0;
    int64_t best = 0, label = call->labels[n];
    for (int64_t k = 0; k < classes; k++) {
      p[k] = call->in[0][logit_at(x, n, k)];
      all += p[k];
      if (p[k] > p[best]) best = k;
    }
    float right = p[label], max = p[best];
    double sum = exponentials(p, classes, max);
    double aim = right; /* an infinite logit of another class must not meet a weight of 0 */
    if (smoothing > 0) aim = (1 - smoothing) * right + smoothing * all / (double)classes;
    loss += log(sum) - (aim - max);
    *call->n_correct += best == label;
    float factor = (float)(1 / sum);
    for (int64_t k = 0; k < classes; k++) p[k] *= factor;
  }
  *call->loss_sum += loss;
  return RONDE_OK;
}

static ronde_status cross_entropy_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  const ronde__phys *x = &desc->in[0];
  int64_t classes = classes_of(x);
  float *dx = call->din[0];
  if (!dx) return RONDE_OK;
  float smoothing = (float)smoothing_of(desc, call), others = smoothing / (float)classes;
  if (!call->accumulate_dinput[0]) memset(dx, 0, (size_t)ronde__phys_elems(x) * sizeof *dx);
  for (int64_t n = 0; n < x->n; n++)
    for (int64_t k = 0; k < classes; k++)
      dx[logit_at(x, n, k)] +=
          call->loss_scale * (call->saved[n * classes + k] - (k == call->labels[n] ? 1 - smoothing + others : others));
  return RONDE_OK;
}

static const char *cross_entropy_implementation(const ronde__op_desc *desc, const void *state) { return "c"; }

static const ronde__form cross_entropy_form = {
    .saved_elems = cross_entropy_saved_elems,
    .forward = cross_entropy_forward,
    .backward = cross_entropy_backward,
    .implementation = cross_entropy_implementation,
};

const ronde__op ronde__op_cross_entropy = {
    .name = "cross_entropy",
    .infer = cross_entropy_infer,
    .layouts = cross_entropy_layouts,
    .is_loss = true,
    .wants_labels = true,
    .forms = (const ronde__form *const[]){&cross_entropy_form, NULL},
};

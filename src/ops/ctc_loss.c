/* Connectionist temporal classification: -log of the probability of the labels over all alignments, which are classes of all
 * steps whose runs of equal ones, without blanks, are the labels; divided by their number.
 * Source: Graves et al., "Connectionist temporal classification: labelling unsegmented sequence data with recurrent neural
 * networks", 2006; forwards and backwards in logarithms, f64. The gradient of a logit is its softmax less the chance that an
 * alignment of the labels has its class at that step.
 * Legend: N examples, T steps, K classes, S labels at most; a state is a label or a blank between them, 2 S + 1 in all. The
 * forward pass saves the gradient [N][T][K] of each example's loss. Inputs: logits, target, perhaps lengths. */
#include "ops/elementwise.h"

#include "ops/gemm_list.h"

#include <math.h>
#include <string.h>

static ronde_status ctc_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                              const char *const *in_labels, ronde__shape *out) {
  char text[96];
  ronde__shape_text(&in[0], text, sizeof text);
  if (in[0].rank != 2)
    return ronde__fail(RONDE_E_USAGE, "%s: CTC takes the logits of a sequence TxK, but %s gives %s", label,
                       in_labels[0], text);
  if (attr->labels < 1) return ronde__fail(RONDE_E_USAGE, "%s: labels must be positive", label);
  if (attr->blank < 0 || attr->blank >= in[0].dim[1])
    return ronde__fail(RONDE_E_USAGE, "%s: blank is %lld, but %s gives the logits of %lld classes", label,
                       (long long)attr->blank, in_labels[0], (long long)in[0].dim[1]);
  if (attr->lengths && !ronde__shape_equal(&in[2], &(ronde__shape){1, {1}})) {
    ronde__shape_text(&in[2], text, sizeof text);
    return ronde__fail(RONDE_E_USAGE, "%s: lengths are one number an example, but %s gives %s", label, in_labels[2],
                       text);
  }
  *out = (ronde__shape){0};
  return RONDE_OK;
}

static void ctc_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  int64_t n = desc->in[0].n;
  desc->in[0] = ronde__phys_of_shape(&in[0], n);
  if (desc->attr.lengths) desc->in[2] = ronde__phys_of_shape(&in[2], n);
  desc->out[0] = ronde__phys_make(RONDE__ROWS, n, 1, 1, 1);
}

/* Losses in f64, then gradients. */
static size_t ctc_saved(const ronde__op_desc *desc, const void *state) {
  return (size_t)desc->in[0].n * sizeof(double) / sizeof(float) + (size_t)ronde__phys_elems(&desc->in[0]);
}

typedef struct ctc_job {
  const ronde__op_desc *desc;
  const ronde__op_call *call;
  int64_t t, k, states;
  double *losses;   /* [N] */
  float *gradients; /* [N][T][K] */
} ctc_job;

/* Of a thread: logarithms of the classes [T][K], of the states forwards [T][2 S + 1], backwards in two rows; the chance of
 * each class at a step [K]. */
static size_t ctc_room(int64_t t, int64_t k, int64_t states) { return (size_t)(t * (k + states) + 2 * states + k); }

static size_t ctc_work(const ronde__op_desc *desc, const void *state, bool backward) {
  const ronde__phys *x = &desc->in[0];
  if (backward) return 0;
  return (size_t)desc->threads * ctc_room(x->c, x->w, 2 * desc->attr.labels + 1) * sizeof(double) / sizeof(float);
}

static ctc_job ctc_job_of(const ronde__op_desc *desc, const ronde__op_call *call) {
  const ronde__phys *x = &desc->in[0];
  double *losses = (double *)(void *)call->saved;
  return (ctc_job){desc, call, x->c, x->w, 2 * desc->attr.labels + 1, losses, (float *)(void *)(losses + x->n)};
}

/* One example. */
typedef struct ctc_example {
  const int64_t *labels;
  int64_t n_labels, steps, states, k, blank;
  double *classes, *alpha, *beta[2], *chance;
} ctc_example;

static double log_add(double a, double b) {
  double most = fmax(a, b);
  return isinf(most) ? most : most + log1p(exp(fmin(a, b) - most));
}

static void log_softmax(const float *x, int64_t k, double *out) {
  double most = x[0], sum = 0;
  for (int64_t i = 1; i < k; i++) most = fmax(most, (double)x[i]);
  for (int64_t i = 0; i < k; i++) sum += exp((double)x[i] - most);
  for (int64_t i = 0; i < k; i++) out[i] = (double)x[i] - most - log(sum);
}

static int64_t class_of(const ctc_example *e, int64_t s) { return s % 2 ? e->labels[s / 2] : e->blank; }

/* Whether a label may follow the one before without a blank between them. */
static bool skips(const ctc_example *e, int64_t s) { return s % 2 && s > 1 && class_of(e, s) != class_of(e, s - 2); }

static void ctc_forwards(const ctc_example *e) {
  for (int64_t t = 0; t < e->steps; t++) {
    double *now = e->alpha + t * e->states, *before = now - e->states;
    for (int64_t s = 0; s < e->states; s++) {
      double sum = -INFINITY;
      if (t == 0) sum = s < 2 ? 0 : -INFINITY;
      else sum = before[s];
      if (t > 0 && s > 0) sum = log_add(sum, before[s - 1]);
      if (t > 0 && skips(e, s)) sum = log_add(sum, before[s - 2]);
      now[s] = sum + e->classes[t * e->k + class_of(e, s)];
    }
  }
}

/* log P of the labels. */
static double ctc_total(const ctc_example *e) {
  if (e->steps == 0) return e->n_labels ? -INFINITY : 0;
  const double *last = e->alpha + (e->steps - 1) * e->states;
  return e->states > 1 ? log_add(last[e->states - 1], last[e->states - 2]) : last[0];
}

/* beta: of what follows step t in a state, without that step itself. */
static void ctc_backwards(const ctc_example *e, double total, float *gradient) {
  for (int64_t t = e->steps - 1; t >= 0; t--) {
    double *now = e->beta[t % 2], *next = e->beta[(t + 1) % 2];
    const double *classes = e->classes + t * e->k;
    memset(e->chance, 0, (size_t)e->k * sizeof *e->chance);
    for (int64_t s = 0; s < e->states; s++) {
      const double *of_next = classes + e->k;
      double sum = -INFINITY;
      if (t == e->steps - 1) {
        sum = s + 2 >= e->states ? 0 : -INFINITY;
      } else {
        sum = next[s] + of_next[class_of(e, s)];
        if (s + 1 < e->states) sum = log_add(sum, next[s + 1] + of_next[class_of(e, s + 1)]);
        if (s + 2 < e->states && skips(e, s + 2)) sum = log_add(sum, next[s + 2] + of_next[class_of(e, s + 2)]);
      }
      now[s] = sum;
      e->chance[class_of(e, s)] += exp(e->alpha[t * e->states + s] + sum - total);
    }
    for (int64_t k = 0; k < e->k; k++) gradient[t * e->k + k] = (float)(exp(classes[k]) - e->chance[k]);
  }
}

static void ctc_judge(const ctc_job *j, int64_t n, double *room) {
  const ronde__op_attr *attr = &j->desc->attr;
  ctc_example e = {.labels = j->call->labels + n * attr->labels, .k = j->k};
  e.steps = ronde__rows_there(j->desc, j->call, n, j->t);
  while (e.n_labels < attr->labels && e.labels[e.n_labels] >= 0) e.n_labels++;
  e.blank = attr->blank, e.states = 2 * e.n_labels + 1;
  e.classes = room, e.alpha = e.classes + j->t * j->k, e.beta[0] = e.alpha + j->t * j->states;
  e.beta[1] = e.beta[0] + j->states, e.chance = e.beta[1] + j->states;
  const float *x = j->call->in[0] + n * j->t * j->k;
  float *gradient = j->gradients + n * j->t * j->k;
  for (int64_t t = 0; t < e.steps; t++) log_softmax(x + t * j->k, j->k, e.classes + t * j->k);
  ctc_forwards(&e);
  double total = ctc_total(&e), factor = 1 / (double)ronde__max(1, e.n_labels);
  bool is_zero = isinf(total) && attr->zero_infinity;
  j->losses[n] = is_zero ? 0 : -total * factor;
  if (!j->call->training) return;
  memset(gradient, 0, (size_t)(j->t * j->k) * sizeof *gradient);
  if (is_zero) return;
  ctc_backwards(&e, total, gradient);
  for (int64_t i = 0; i < e.steps * j->k; i++) gradient[i] *= (float)factor;
}

static void ctc_forward_part(void *arg, int thread, int n_threads) {
  const ctc_job *j = arg;
  double *room = (double *)(void *)j->call->work + (size_t)thread * ctc_room(j->t, j->k, j->states);
  int64_t begin, end;
  ronde__thread_chunk(j->desc->in[0].n, thread, n_threads, &begin, &end);
  for (int64_t n = begin; n < end; n++) ctc_judge(j, n, room);
}

static ronde_status ctc_check_labels(const ctc_job *j) {
  const ronde__op_attr *attr = &j->desc->attr;
  for (int64_t n = 0; n < j->desc->in[0].n; n++)
    for (int64_t s = 0; s < attr->labels && j->call->labels[n * attr->labels + s] >= 0; s++) {
      int64_t label = j->call->labels[n * attr->labels + s];
      if (label == attr->blank || label >= j->k)
        return ronde__fail(RONDE_E_INPUT, "CTC: label %lld of example %lld of the batch is %lld: %s", (long long)s,
                           (long long)n, (long long)label,
                           label == attr->blank ? "the blank" : "there is no such class");
    }
  return RONDE_OK;
}

static ronde_status ctc_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  ctc_job j = ctc_job_of(desc, call);
  RONDE_TRY(ctc_check_labels(&j));
  ronde__pool_run(call->pool, ctc_forward_part, &j);
  for (int64_t n = 0; n < desc->in[0].n; n++) *call->loss_sum += j.losses[n];
  return RONDE_OK;
}

static ronde_status ctc_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  ctc_job j = ctc_job_of(desc, call);
  float *dx = call->din[0];
  int64_t all = ronde__phys_elems(&desc->in[0]);
  if (call->din[2] && !call->accumulate_dinput[2]) memset(call->din[2], 0, (size_t)desc->in[0].n * sizeof(float));
  if (!dx) return RONDE_OK;
  for (int64_t i = 0; i < all; i++)
    dx[i] = (call->accumulate_dinput[0] ? dx[i] : 0) + call->loss_scale * j.gradients[i];
  return RONDE_OK;
}

static const char *ctc_implementation(const ronde__op_desc *desc, const void *state) { return "c"; }

static const ronde__form ctc_form = {
    .work_elems = ctc_work,
    .saved_elems = ctc_saved,
    .forward = ctc_forward,
    .backward = ctc_backward,
    .implementation = ctc_implementation,
};

const ronde__op ronde__op_ctc_loss = {
    .name = "ctc_loss",
    .infer = ctc_infer,
    .layouts = ctc_layouts,
    .is_loss = true,
    .wants_labels = true,
    .forms = (const ronde__form *const[]){&ctc_form, NULL},
};

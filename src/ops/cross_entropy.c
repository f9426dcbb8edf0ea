/* -log softmax(logits)[label], summed over the batch; its gradient, softmax - onehot, times loss_scale. With label
 * smoothing s (in training only) the target is (1 - s) onehot + s / K instead, as PyTorch has it.
 * Logits are a vector, or those of each step of a sequence [T,K], which has T labels; of these, what is below 0 counts
 * nowhere, and the others count label_weight each.
 * Legend: a row is what one label stands for; K classes. The forward pass keeps of each row the loss, in f64, the softmax
 * [K], and whether it was classified rightly. Sums are in f64, and over rows in their order. */
#include "ops/elementwise.h"
#include "ops/gemm_list.h"

#include <math.h>
#include <string.h>

static ronde_status cross_entropy_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                        const char *const *in_labels, ronde__shape *out) {
  char text[96];
  ronde__shape_text(&in[0], text, sizeof text);
  if (in[0].rank != 1 && in[0].rank != 2)
    return ronde__fail(RONDE_E_USAGE,
                       "%s: the cross entropy takes a vector of logits, or a sequence of these, but %s gives %s", label,
                       in_labels[0], text);
  *out = (ronde__shape){0};
  return RONDE_OK;
}

static void cross_entropy_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  ronde__phys *x = &desc->in[0];
  int64_t n = x->n / ronde__phys_rows(x, &in[0]);
  desc->attr.length = in[0].dim[in[0].rank - 1];
  if (in[0].rank > 1 && x->n == n) *x = ronde__phys_of_shape(&in[0], n);
  desc->out[0] = ronde__phys_make(RONDE__ROWS, n, 1, 1, 1);
}

static int64_t rows_of(const ronde__op_desc *desc) {
  const ronde__phys *x = &desc->in[0];
  return x->n * (x->c * x->h * x->w / desc->attr.length);
}

static size_t cross_entropy_saved_elems(const ronde__op_desc *desc, const void *state) {
  return (size_t)rows_of(desc) * ((size_t)desc->attr.length + (sizeof(double) + sizeof(int32_t)) / sizeof(float));
}

typedef struct cross_entropy_job {
  const ronde__op_desc *desc;
  const ronde__op_call *call;
  int64_t classes, steps; /* rows of what in[0] has for an example */
  double smoothing;
  double *losses; /* [rows] */
  float *softmax; /* [rows][K] */
  int32_t *right; /* [rows]: whether the largest logit is the label's */
} cross_entropy_job;

static cross_entropy_job job_of(const ronde__op_desc *desc, const ronde__op_call *call) {
  int64_t rows = rows_of(desc);
  double *losses = (double *)(void *)call->saved;
  return (cross_entropy_job){.desc = desc,
                             .call = call,
                             .classes = desc->attr.length,
                             .steps = rows / desc->in[0].n,
                             .smoothing = call->training ? (double)desc->attr.label_smoothing : 0,
                             .losses = losses,
                             .softmax = (float *)(void *)(losses + rows),
                             .right = (int32_t *)(void *)((float *)(void *)(losses + rows) + rows * desc->attr.length)};
}

/* Where logit k of a row lies. */
static int64_t logit_at(const cross_entropy_job *j, int64_t row, int64_t k) {
  const ronde__phys *x = &j->desc->in[0];
  int64_t pixels = x->h * x->w, at = row % j->steps * j->classes + k;
  return ronde__phys_index(x, row / j->steps, at / pixels, at % pixels);
}

/* How many logits of a row lie side by side from number k on. */
static int64_t together(const cross_entropy_job *j, int64_t k) {
  const ronde__phys *x = &j->desc->in[0];
  if (x->layout == RONDE__ROWS) return j->classes - k;
  bool by_blocks = x->layout == RONDE__BLOCKS && x->h * x->w == 1;
  return by_blocks ? ronde__min(x->block - k % x->block, j->classes - k) : 1;
}

static void take_row(const cross_entropy_job *j, int64_t row, float *p) {
  for (int64_t k = 0, n; k < j->classes; k += n) {
    n = together(j, k);
    memcpy(p + k, j->call->in[0] + logit_at(j, row, k), (size_t)n * sizeof *p);
  }
}

/* Whether the label's is the first of the largest logits. */
static bool is_right(const float *p, int64_t label, float max) {
  int64_t k = 0;
  if (p[label] != max) return false;
  while (p[k] != max) k++;
  return k == label;
}

static double sum_of(const float *p, int64_t n) {
  double sum = 0;
  for (int64_t k = 0; k < n; k++) sum += p[k];
  return sum;
}

/* Its loss; whether the largest logit is the label's. */
static double judge_row(const cross_entropy_job *j, int64_t row, bool *right_out) {
  const ronde__kernels *kernels = j->desc->compute.kernels;
  float *p = j->softmax + row * j->classes;
  int64_t label = j->call->labels[row];
  take_row(j, row, p);
  float max = kernels->largest(p, j->classes);
  double aim = p[label]; /* an infinite logit of another class must not meet a weight of 0 */
  if (j->smoothing > 0) aim = (1 - j->smoothing) * aim + j->smoothing * sum_of(p, j->classes) / (double)j->classes;
  *right_out = is_right(p, label, max);
  double sum = kernels->exp_sum(p, max, j->classes);
  kernels->scale(p, (float)(1 / sum), j->classes);
  return log(sum) - (aim - max);
}

static void forward_part(void *arg, int thread, int n_threads) {
  const cross_entropy_job *j = arg;
  int64_t begin, end;
  ronde__thread_chunk(rows_of(j->desc), thread, n_threads, &begin, &end);
  for (int64_t row = begin; row < end; row++) {
    bool right = false;
    j->losses[row] = j->call->labels[row] < 0 ? 0 : judge_row(j, row, &right);
    j->right[row] = right;
  }
}

static ronde_status cross_entropy_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  cross_entropy_job j = job_of(desc, call);
  double loss = 0;
  ronde__pool_run(call->pool, forward_part, &j);
  for (int64_t row = 0; row < rows_of(desc); row++) {
    loss += j.losses[row];
    *call->n_correct += j.right[row] != 0;
  }
  *call->loss_sum += (double)call->label_weight * loss;
  return RONDE_OK;
}

static void clear(const ronde__op_desc *desc, const ronde__op_call *call, int64_t begin, int64_t n) {
  memset(call->din[0] + begin, 0, (size_t)n * sizeof *call->din[0]);
}

/* Rows of ROWS are cleared one by one, while they are in cache; the others before. */
static void backward_part(void *arg, int thread, int n_threads) {
  const cross_entropy_job *j = arg;
  const ronde__op_call *call = j->call;
  bool clears = j->desc->in[0].layout == RONDE__ROWS && !call->accumulate_dinput[0];
  int64_t begin, end;
  float smoothing = (float)j->smoothing, others = smoothing / (float)j->classes, *dx = call->din[0];
  float scale = call->loss_scale * call->label_weight;
  ronde__thread_chunk(rows_of(j->desc), thread, n_threads, &begin, &end);
  for (int64_t row = begin; row < end; row++) {
    const float *p = j->softmax + row * j->classes;
    int64_t label = call->labels[row];
    if (clears) clear(j->desc, call, row * j->classes, j->classes);
    if (label < 0) continue;
    float *of_label = dx + logit_at(j, row, label);
    float slope = *of_label + scale * (p[label] - (1 - smoothing + others));
    for (int64_t k = 0, n; k < j->classes; k += n) {
      float *to = dx + logit_at(j, row, k);
      n = together(j, k);
      for (int64_t i = 0; i < n; i++) to[i] += scale * (p[k + i] - others);
    }
    *of_label = slope;
  }
}

static ronde_status cross_entropy_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  cross_entropy_job j = job_of(desc, call);
  if (!call->din[0]) return RONDE_OK;
  if (!call->accumulate_dinput[0] && desc->in[0].layout != RONDE__ROWS)
    ronde__elementwise_run(desc, call, ronde__phys_elems(&desc->in[0]), clear);
  ronde__pool_run(call->pool, backward_part, &j);
  return RONDE_OK;
}

static const ronde__form cross_entropy_form = {
    .saved_elems = cross_entropy_saved_elems,
    .forward = cross_entropy_forward,
    .backward = cross_entropy_backward,
    .implementation = ronde__elementwise_implementation,
};

const ronde__op ronde__op_cross_entropy = {
    .name = "cross_entropy",
    .infer = cross_entropy_infer,
    .layouts = cross_entropy_layouts,
    .takes_rows = true,
    .is_loss = true,
    .wants_labels = true,
    .forms = (const ronde__form *const[]){&cross_entropy_form, NULL},
};

/* A network on examples: loss and accuracy, and on request what it said of each. */
#include "job/evaluate.h"

#include <math.h>

typedef struct buffers {
  float *x, *targets, *logits;
  int64_t *labels, *ids;
} buffers;

static void release(buffers *b) {
  ronde__free(b->x);
  ronde__free(b->targets);
  ronde__free(b->logits);
  ronde__free(b->labels);
  ronde__free(b->ids);
}

static ronde_status allocate(const ronde_source *source, int64_t chunk, buffers *b) {
  size_t elems = 1;
  for (int d = 0; d < source->rank; d++) elems *= (size_t)source->dims[d];
  RONDE__ALLOC(b->x, (size_t)chunk * elems * sizeof *b->x, "evaluation");
  RONDE__ALLOC(b->ids, (size_t)chunk * sizeof *b->ids, "evaluation");
  if (source->classes) RONDE__ALLOC(b->labels, (size_t)chunk * sizeof *b->labels, "evaluation");
  else RONDE__ALLOC(b->targets, (size_t)(chunk * source->target_elems) * sizeof *b->targets, "evaluation");
  return RONDE_OK;
}

/* Of classes that are equally probable the first is said. y is used up. */
static ronde__verdict judge(float *y, int64_t classes, int64_t label) {
  int64_t best = 0, n_above = 0;
  double sum = 0;
  for (int64_t k = 1; k < classes; k++)
    if (y[k] > y[best]) best = k;
  for (int64_t k = 0; k < classes; k++) n_above += y[k] > y[label] || (y[k] == y[label] && k < label);
  for (int64_t k = 0; k < classes; k++) sum += exp((double)y[k] - y[best]);
  return (ronde__verdict){(int32_t)label, (int32_t)best, (float)(1 / sum), n_above < 5};
}

static ronde_status run(ronde__net *net, const ronde__evaluation *what, int64_t begin, int64_t end, buffers *b,
                        ronde__score *score) {
  for (int64_t i = begin; i < end; i += what->chunk) {
    int64_t n = ronde__min(what->chunk, end - i);
    if (what->cancel && what->cancel(what->user)) return RONDE_E_CANCELLED;
    for (int64_t j = 0; j < n; j++) b->ids[j] = what->ids ? what->ids[i + j] : i + j;
    RONDE_TRY(ronde__data_read(what->data, what->split, b->ids, n, b->x, b->labels, b->targets));
    ronde__net_batch batch = {.n = n, .x = b->x, .labels = b->labels, .targets = b->targets, .predictions = b->logits};
    ronde__net_result result;
    RONDE_TRY(ronde__net_forward(net, &batch, 1, NULL, &result));
    score->loss_sum += result.loss_sum;
    score->n_correct += result.n_correct;
    score->n += n;
    int64_t classes = what->data->source.classes;
    for (int64_t j = 0; j < n && b->logits; j++)
      what->verdicts[i + j] = judge(b->logits + j * classes, classes, b->labels[j]);
  }
  return RONDE_OK;
}

double ronde__score_value(const ronde__score *score, bool has_classes) {
  if (!isfinite(score->loss_sum)) return NAN;
  return (has_classes ? (double)score->n_correct : -score->loss_sum) / (double)score->n;
}

ronde_status ronde__evaluate(ronde__net *net, const ronde__evaluation *what, ronde__score *score_out) {
  buffers b = {0};
  ronde__score score = {0};
  int64_t begin = ronde__shard_begin(what->n, what->rank, what->n_workers);
  int64_t end = ronde__shard_begin(what->n, what->rank + 1, what->n_workers);
  ronde_status status = allocate(&what->data->source, what->chunk, &b);
  if (status == RONDE_OK && what->verdicts)
    if (!(b.logits = ronde__alloc((size_t)(what->chunk * what->data->source.classes) * sizeof *b.logits)))
      status = ronde__fail(RONDE_E_MEMORY, "evaluation: no memory for the outputs");
  if (status == RONDE_OK) status = run(net, what, begin, end, &b, &score);
  release(&b);
  if (status == RONDE_OK) *score_out = score;
  return status;
}

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
  size_t elems = (size_t)ronde__source_elems(source);
  RONDE__ALLOC(b->x, (size_t)chunk * elems * sizeof *b->x, "evaluation");
  RONDE__ALLOC(b->ids, (size_t)chunk * sizeof *b->ids, "evaluation");
  size_t labels = (size_t)ronde__source_labels(source);
  if (labels) RONDE__ALLOC(b->labels, (size_t)chunk * labels * sizeof *b->labels, "evaluation");
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

/* Mean and squared deviations as they come. Source: Welford, "Note on a method for calculating corrected sums of squares
 * and products", 1962. */
static void sum_value(ronde__value_sums *s, double y, double t) {
  double before = t - s->mean;
  s->n++;
  s->n_right += (y > 0) == (t > 0.5);
  s->error += fabs(y - t);
  s->square += (y - t) * (y - t);
  s->mean += before / (double)s->n;
  s->m2 += before * (t - s->mean);
}

/* Source: Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979. */
void ronde__value_sums_add(ronde__value_sums *s, const ronde__value_sums *o) {
  if (o->n == 0) return;
  double n = (double)s->n, m = (double)o->n, apart = o->mean - s->mean;
  s->m2 += o->m2 + apart * apart * n * m / (n + m);
  s->mean += apart * m / (n + m);
  s->n += o->n;
  s->n_right += o->n_right;
  s->error += o->error;
  s->square += o->square;
}

static void judge_chunk(const ronde__evaluation *what, int64_t first, int64_t n, const buffers *b) {
  int64_t classes = what->data->source.classes, targets = what->data->source.target_elems;
  for (int64_t j = 0; j < n && what->verdicts; j++)
    what->verdicts[first + j] = judge(b->logits + j * classes, classes, b->labels[j]);
  for (int64_t j = 0; j < n && what->values; j++)
    for (int64_t k = 0; k < targets; k++)
      sum_value(&what->values[k], (double)b->logits[j * targets + k], (double)b->targets[j * targets + k]);
}

static ronde_status run(ronde__net *net, const ronde__evaluation *what, int64_t begin, int64_t end, buffers *b,
                        ronde__score *score) {
  float weight = ronde__data_label_weight(what->data, what->split, what->ids, what->n);
  for (int64_t i = begin; i < end; i += what->chunk) {
    int64_t n = ronde__min(what->chunk, end - i);
    if (what->cancel && what->cancel(what->user)) return RONDE_E_CANCELLED;
    for (int64_t j = 0; j < n; j++) b->ids[j] = what->ids ? what->ids[i + j] : i + j;
    if (!what->sizes_alone)
      RONDE_TRY(ronde__data_read(what->data, what->split, b->ids, n, b->x, b->labels, b->targets));
    ronde__net_batch batch = {.n = n,
                              .x = b->x,
                              .labels = b->labels,
                              .label_weight = weight,
                              .targets = b->targets,
                              .predictions = b->logits};
    ronde__net_result result;
    RONDE_TRY(ronde__net_forward(net, &batch, 1, NULL, &result));
    score->loss_sum += result.loss_sum;
    score->n_correct += result.n_correct;
    score->n += n;
    judge_chunk(what, i, n, b);
    if (what->hear) RONDE_TRY(what->hear(what->hearer, n, b->x, b->logits, b->labels));
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
  const ronde_source *source = &what->data->source;
  int64_t outputs = what->hear ? what->outputs : source->classes ? source->classes : source->target_elems;
  if (status == RONDE_OK && (what->verdicts || what->values || what->hear))
    if (!(b.logits = ronde__alloc((size_t)(what->chunk * outputs) * sizeof *b.logits)))
      status = ronde__fail(RONDE_E_MEMORY, "evaluation: no memory for the outputs");
  if (status == RONDE_OK) status = run(net, what, begin, end, &b, &score);
  release(&b);
  if (status == RONDE_OK) *score_out = score;
  return status;
}

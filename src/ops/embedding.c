/* Rows of a table by token numbers: y [...][F] = weight [x [...]]. The gradient of a row is the sum over the places where it
 * was met, in their order and in f64, whatever the number of threads; rows that were not met have a gradient of zero,
 * which is not written where the call keeps account of rows.
 * A table that is shared with a linear layer lies as that layer wants it, so that the features of a row are some floats apart.
 * Legend: V rows, F features, P places (examples times tokens of an example). */
#include "ops/elementwise.h"
#include "ops/gemm_list.h"

#include <string.h>

static ronde_status embedding_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                    const char *const *in_labels, ronde__shape *out) {
  if (attr->out_channels < 1) return ronde__fail(RONDE_E_USAGE, "%s: features must be positive", label);
  if (in[0].rank >= RONDE_MAX_RANK)
    return ronde__fail(RONDE_E_USAGE, "%s: %s has %d dimensions, and there is no room for one more", label,
                       in_labels[0], in[0].rank);
  *out = in[0];
  out->dim[out->rank++] = attr->out_channels;
  return RONDE_OK;
}

static int embedding_params(const ronde__op_attr *attr, const ronde__shape *in,
                            ronde__param_spec specs[RONDE__OP_MAX_PARAMS]) {
  specs[0] = (ronde__param_spec){.suffix = "weight",
                                 .shape = {2, {attr->vocabulary, attr->out_channels}},
                                 .bound = attr->deviation > 0 ? attr->deviation : 1,
                                 .init = RONDE_INIT_NORMAL};
  return 1;
}

static void embedding_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  const ronde__op_attr *a = &desc->attr;
  desc->in[0] = ronde__phys_of_shape(&in[0], desc->in[0].n);
  desc->out[0] = ronde__phys_of_shape(out, desc->in[0].n);
  desc->param[0] = ronde__weight_layout_make(RONDE__PLAIN, a->vocabulary, a->out_channels, 1, 1, 1);
}

static int64_t places_of(const ronde__op_desc *desc) { return ronde__phys_elems(&desc->in[0]); }

/* Of neighbouring features of a row. */
static int64_t step_of(const ronde__weight_layout *w) { return w->form == RONDE__PLAIN ? 1 : w->block_o; }

typedef struct embedding_job {
  const ronde__op_desc *desc;
  const ronde__op_call *call;
  const int32_t *first; /* [V + 1]: in `order`, of each row's places */
  const int32_t *order; /* [P]: places by row, those of a row ascending */
} embedding_job;

static const int32_t *tokens_of(const ronde__op_call *call) { return (const int32_t *)(const void *)call->in[0]; }

static void forward_part(void *arg, int thread, int n_threads) {
  const embedding_job *j = arg;
  const ronde__weight_layout *w = &j->desc->param[0];
  int64_t f = j->desc->attr.out_channels, step = step_of(w), begin, end;
  const int32_t *x = tokens_of(j->call);
  ronde__thread_chunk(places_of(j->desc), thread, n_threads, &begin, &end);
  for (int64_t p = begin; p < end; p++) {
    const float *row = j->call->param[0] + ronde__weight_index(w, x[p], 0, 0);
    float *y = j->call->out[0] + p * f;
    if (step == 1) memcpy(y, row, (size_t)f * sizeof *y);
    for (int64_t i = 0; i < f && step > 1; i++) y[i] = row[i * step];
  }
}

static ronde_status embedding_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  embedding_job j = {.desc = desc, .call = call};
  const int32_t *x = tokens_of(call);
  for (int64_t p = 0; p < places_of(desc); p++)
    if (x[p] < 0 || x[p] >= desc->attr.vocabulary)
      return ronde__fail(RONDE_E_INPUT, "token %d of example %lld of a batch is not within the %lld of the vocabulary",
                         x[p], (long long)(p / (places_of(desc) / desc->in[0].n)), (long long)desc->attr.vocabulary);
  ronde__pool_run(call->pool, forward_part, &j);
  return RONDE_OK;
}

/* `first` and `order`, int32 in place of floats. */
static size_t embedding_work(const ronde__op_desc *desc, const void *state, bool backward) {
  return backward ? (size_t)(desc->attr.vocabulary + 1 + places_of(desc)) : 0;
}

/* By counting. */
static void sort_places(const ronde__op_desc *desc, const ronde__op_call *call, int32_t *first, int32_t *order) {
  const int32_t *x = tokens_of(call);
  int64_t rows = desc->attr.vocabulary, places = places_of(desc);
  memset(first, 0, (size_t)(rows + 1) * sizeof *first);
  for (int64_t p = 0; p < places; p++) first[x[p] + 1]++;
  for (int64_t r = 0; r < rows; r++) first[r + 1] += first[r];
  for (int64_t p = 0; p < places; p++) order[first[x[p]]++] = (int32_t)p;
  for (int64_t r = rows; r > 0; r--) first[r] = first[r - 1];
  first[0] = 0;
}

/* Whether the row's gradient is added to what is there. */
static bool adds_to(const ronde__op_call *call, int64_t row) {
  return call->rows ? ronde__row_set_has(call->rows, row) : call->accumulate_dparam[0];
}

static void sum_row(const embedding_job *j, int64_t row) {
  enum { CHUNK = 256 };
  const ronde__op_call *call = j->call;
  const ronde__weight_layout *w = &j->desc->param[0];
  int64_t f = j->desc->attr.out_channels, step = step_of(w);
  float *dw = call->dparam[0] + ronde__weight_index(w, row, 0, 0);
  bool adds = adds_to(call, row);
  if (j->first[row] == j->first[row + 1]) {
    for (int64_t i = 0; i < f && !adds && !call->rows; i++) dw[i * step] = 0;
    return;
  }
  for (int64_t at = 0; at < f; at += CHUNK) {
    double sums[CHUNK] = {0};
    int64_t m = ronde__min(CHUNK, f - at);
    for (int32_t p = j->first[row]; p < j->first[row + 1]; p++) {
      const float *dy = call->dout[0] + j->order[p] * f + at;
      for (int64_t i = 0; i < m; i++) sums[i] += (double)dy[i];
    }
    for (int64_t i = 0; i < m; i++) {
      float *to = dw + (at + i) * step;
      *to = (float)(sums[i] + (adds ? (double)*to : 0));
    }
  }
}

/* A thread has the rows whose places begin in its part of `order`, so that frequent tokens do not fall to one alone. */
static void backward_part(void *arg, int thread, int n_threads) {
  const embedding_job *j = arg;
  int64_t begin, end, rows = j->desc->attr.vocabulary;
  ronde__thread_chunk(places_of(j->desc), thread, n_threads, &begin, &end);
  for (int64_t r = 0; r < rows; r++) {
    bool is_behind = thread == n_threads - 1 && j->first[r] >= end;
    if ((j->first[r] >= begin && j->first[r] < end) || is_behind) sum_row(j, r);
  }
}

static ronde_status embedding_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  int32_t *first = (int32_t *)(void *)call->work, *order = first + desc->attr.vocabulary + 1;
  embedding_job j = {desc, call, first, order};
  size_t elems = (size_t)ronde__weight_elems(&desc->param[0]);
  if (!call->dparam[0]) return RONDE_OK;
  if (step_of(&desc->param[0]) > 1 && !call->accumulate_dparam[0]) /* with what fills up its blocks */
    memset(call->dparam[0], 0, elems * sizeof(float));
  sort_places(desc, call, first, order);
  ronde__pool_run(call->pool, backward_part, &j);
  for (int64_t r = 0; r < desc->attr.vocabulary && call->rows; r++)
    if (first[r] < first[r + 1]) ronde__row_set_add(call->rows, r);
  return RONDE_OK;
}

static const char *embedding_implementation(const ronde__op_desc *desc, const void *state) { return "c"; }

static const ronde__form embedding_form = {
    .work_elems = embedding_work,
    .forward = embedding_forward,
    .backward = embedding_backward,
    .implementation = embedding_implementation,
};

const ronde__op ronde__op_embedding = {
    .name = "embedding",
    .infer = embedding_infer,
    .params = embedding_params,
    .layouts = embedding_layouts,
    .backward_reads = {.in = 1},
    .tokens = 1,
    .any_weights = true,
    .gives_rows = true,
    .forms = (const ronde__form *const[]){&embedding_form, NULL},
};

/* Recurrent layers over a sequence, one layer and one direction. The products of x with its weights are one GEMM for all
 * steps, as are those of the gradients; of h there is one small GEMM a step. All operands are ROWS: x is [N][T][F], the
 * output [N][T][H]; rows are saved as [N][T][4H], and cells as [N][T][H].
 * All examples go through the steps side by side, at the same t. One whose length is L takes part at t < L: backwards it
 * waits in its first state until t = L - 1, forwards it stays in its last one, and its outputs behind its end are zero.
 * Examples are shared out among the threads, for the gradients of the weights the gates are. */
#include "ops/recurrent.h"

#include "ops/elementwise.h"
#include "ops/gemm_list.h"

#include <math.h>
#include <string.h>

enum { ROW = RONDE__RECURRENT_ROW, CHUNK = 64 };

typedef struct recurrent_state {
  const ronde__cell *cell;
  int64_t n, t, f, h, g, piece;
  int n_pieces;
  /* By whether it is the last piece of examples. */
  ronde__gemm_pair rows_of_x[2], dx[2], sums_of_h[2], dh[2];
  uint64_t dh_rows[ROW], dh_weights[ROW]; /* the gates of a row, and of the weights */
  /* Of weights: sums over CHUNK rows of all N T, and over those that are left. */
  ronde__gemm_pair dw_ih, dw_hh, dw_ih_rest, dw_hh_rest;
  ronde__gemm_list ih, hh;
} recurrent_state;

int ronde__recurrent_outputs(const ronde__cell *cell) { return 1 + cell->states; }

static int n_states(const ronde__op_attr *attr) { return attr->n_inputs - 1 - attr->lengths; }

ronde_status ronde__recurrent_infer(const ronde__cell *cell, const ronde__op_attr *attr, const char *label,
                                    const ronde__shape *in, const char *const *in_labels, ronde__shape *out) {
  char text[96];
  if (attr->out_channels < 1) return ronde__fail(RONDE_E_USAGE, "%s: hidden must be positive", label);
  ronde__shape_text(&in[0], text, sizeof text);
  if (in[0].rank != 2)
    return ronde__fail(RONDE_E_USAGE, "%s: %s takes a sequence TxF, but %s gives %s", label, cell->name, in_labels[0],
                       text);
  ronde__shape hidden = {1, {attr->out_channels}}, one = {1, {1}};
  for (int i = 1; i < attr->n_inputs; i++) {
    bool is_length = i > n_states(attr);
    if (ronde__shape_equal(&in[i], is_length ? &one : &hidden)) continue;
    ronde__shape_text(&in[i], text, sizeof text);
    if (is_length)
      return ronde__fail(RONDE_E_USAGE, "%s: lengths are one number an example, but %s gives %s", label, in_labels[i],
                         text);
    return ronde__fail(RONDE_E_USAGE, "%s: its state has %lld values, but %s gives %s", label,
                       (long long)attr->out_channels, in_labels[i], text);
  }
  out[0] = (ronde__shape){2, {in[0].dim[0], attr->out_channels}};
  for (int i = 0; i < cell->states; i++) out[1 + i] = hidden;
  return RONDE_OK;
}

int ronde__recurrent_params(const ronde__cell *cell, const ronde__op_attr *attr, const ronde__shape *in,
                            ronde__param_spec specs[RONDE__OP_MAX_PARAMS]) {
  static const char *const suffixes[] = {"weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"};
  int64_t h = attr->out_channels, columns[] = {in[0].dim[1], h};
  for (int i = 0; i < 4; i++) {
    specs[i] = (ronde__param_spec){.suffix = suffixes[i], .bound = (float)(1 / sqrt((double)h))};
    specs[i].shape = i < 2 ? (ronde__shape){2, {cell->gates * h, columns[i]}} : (ronde__shape){1, {cell->gates * h}};
  }
  return attr->bias ? 4 : 2;
}

int64_t ronde__recurrent_flops(const ronde__cell *cell, const ronde__op_attr *attr, const ronde__shape *in) {
  return 2 * in[0].dim[0] * cell->gates * attr->out_channels * (in[0].dim[1] + attr->out_channels);
}

void ronde__recurrent_layouts(const ronde__cell *cell, ronde__op_desc *desc, const ronde__shape *in,
                              const ronde__shape *out) {
  int64_t n = desc->in[0].n, h = desc->attr.out_channels;
  for (int i = 0; i < desc->attr.n_inputs; i++) desc->in[i] = ronde__phys_of_shape(&in[i], n);
  for (int i = 0; i < 1 + cell->states; i++) desc->out[i] = ronde__phys_of_shape(&out[i], n);
  for (int i = 0; i < 4; i++)
    desc->param[i] =
        (ronde__weight_layout){RONDE__PLAIN, cell->gates * h, i == 0 ? in[0].dim[1] : i == 1 ? h : 1, 1, 1, 1};
}

void ronde__recurrent_release(const ronde__op_desc *desc, void *opaque) {
  recurrent_state *s = opaque;
  if (!s) return;
  ronde__gemm_list_destroy(&s->ih);
  ronde__gemm_list_destroy(&s->hh);
  ronde__free(s);
}

static void recurrent_make_kernels(const ronde__op_desc *desc, recurrent_state *s) {
  int f = (int)s->f, h = (int)s->h, all = (int)s->g * h, row = ROW * h, t = (int)s->t;
  bool adds = s->cell->adds;
  for (int last = 0; last < 2; last++) {
    int m = (int)(last ? s->n - (s->n_pieces - 1) * s->piece : s->piece);
#define SHAPE(...) ronde__gemm_pair_resolve(desc, (ronde__gemm_shape){__VA_ARGS__})
    s->rows_of_x[last] = SHAPE(m * t, all, f, f, all, row, false, false, false);
    s->dx[last] = SHAPE(m * t, f, all, row, f, f, false, false, false);
    s->sums_of_h[last] = SHAPE(m, all, h, h, all, adds ? t * row : all, false, false, false);
    s->dh[last] = SHAPE(m, h, h, t * row, h, h, false, false, false);
  }
  int rest = (int)(s->n * s->t % CHUNK);
  s->dw_ih = SHAPE(h, f, CHUNK, row, f, f, true, false, false);
  s->dw_hh = SHAPE(h, h, CHUNK, row, h, h, true, false, false);
  if (rest == 0) return;
  s->dw_ih_rest = SHAPE(h, f, rest, row, f, f, true, false, false);
  s->dw_hh_rest = SHAPE(h, h, rest, row, h, h, true, false, false);
#undef SHAPE
}

static ronde_status recurrent_make_lists(recurrent_state *s) {
  int64_t chunks = s->n * s->t / CHUNK;
  RONDE_TRY(ronde__gemm_list_create(chunks, &s->ih));
  RONDE_TRY(ronde__gemm_list_create(chunks, &s->hh));
  for (int64_t i = 0; i < chunks; i++) {
    s->ih.a[i] = s->hh.a[i] = (uint64_t)(i * CHUNK * ROW * s->h) * sizeof(float);
    s->ih.b[i] = (uint64_t)(i * CHUNK * s->f) * sizeof(float);
    s->hh.b[i] = (uint64_t)(i * CHUNK * s->h) * sizeof(float);
  }
  for (int64_t g = 0; g < s->g; g++) {
    s->dh_rows[g] = (uint64_t)(s->cell->column[g] * s->h) * sizeof(float);
    s->dh_weights[g] = (uint64_t)(g * s->h * s->h) * sizeof(float);
  }
  return RONDE_OK;
}

ronde_status ronde__recurrent_prepare(const ronde__cell *cell, const ronde__op_desc *desc, void **state_out) {
  const ronde__phys *x = &desc->in[0];
  recurrent_state *s;
  RONDE__ALLOC(s, sizeof *s, "plan of a recurrent layer");
  s->cell = cell, s->g = cell->gates;
  s->n = x->n, s->t = x->c, s->f = x->w, s->h = desc->attr.out_channels;
  s->piece = ronde__ceil_div(s->n, desc->threads);
  s->n_pieces = (int)ronde__ceil_div(s->n, s->piece);
  ronde_status status = recurrent_make_lists(s);
  if (status != RONDE_OK) {
    ronde__recurrent_release(desc, s);
    return status;
  }
  recurrent_make_kernels(desc, s);
  *state_out = s;
  return RONDE_OK;
}

static bool has_cells(const recurrent_state *s) { return s->cell->states > 1; }

/* Rows, behind them cells. */
size_t ronde__recurrent_saved(const ronde__op_desc *desc, const void *opaque) {
  const recurrent_state *s = opaque;
  return (size_t)(s->t * s->n * (ROW + has_cells(s)) * s->h);
}

/* Forward: both weights transposed, bias, the present h, and its sums where they lie apart. Backward: the rows' gradients;
 * h before each step; the gradients of h and of cells. */
size_t ronde__recurrent_work(const ronde__op_desc *desc, const void *opaque, bool backward) {
  const recurrent_state *s = opaque;
  if (backward) return (size_t)(s->t * s->n * (ROW + 1) * s->h + 2 * s->n * s->h);
  return (size_t)((s->f + s->h) * s->g * s->h + ROW * s->h + s->n * s->h + (s->cell->adds ? 0 : s->n * s->g * s->h));
}

typedef struct recurrent_job {
  const ronde__op_desc *desc;
  const recurrent_state *s;
  const ronde__op_call *call;
  const float *w_ih, *w_hh, *bias; /* transposed; bias NULL: none */
  float *now, *sums;               /* h of each example, and its sums */
  float *drows, *before, *dh, *dcell;
} recurrent_job;

static void recurrent_multiply(const ronde__gemm *gemm, const float *a, const float *b, float *c) {
  static const uint64_t none = 0;
  ronde__gemm_run(gemm, a, &none, b, &none, 1, c);
}

/* The k-th step in time. */
static int64_t recurrent_at(const recurrent_job *j, int64_t k) { return j->desc->attr.reverse ? j->s->t - 1 - k : k; }

static int64_t recurrent_length(const recurrent_job *j, int64_t n) {
  const ronde__op_attr *attr = &j->desc->attr;
  if (!attr->lengths) return j->s->t;
  return llrintf(fmaxf(0, fminf(j->call->in[attr->n_inputs - 1][n], (float)j->s->t)));
}

/* The state of an example in front of its first step; NULL: zeros. */
static const float *recurrent_first(const recurrent_job *j, int i, int64_t n) {
  return n_states(&j->desc->attr) ? j->call->in[i] + n * j->s->h : NULL;
}

static float *recurrent_row(const recurrent_job *j, int64_t n, int64_t t) {
  return j->call->saved + (n * j->s->t + t) * ROW * j->s->h;
}
static float *recurrent_cell(const recurrent_job *j, int64_t n, int64_t t) {
  const recurrent_state *s = j->s;
  return j->call->saved + s->t * s->n * ROW * s->h + (n * s->t + t) * s->h;
}

/* The cells before the k-th step; NULL: zeros. */
static const float *recurrent_cell_before(const recurrent_job *j, int64_t n, int64_t k) {
  return k > 0 ? recurrent_cell(j, n, recurrent_at(j, k - 1)) : recurrent_first(j, 2, n);
}

static void copy_or_clear(float *to, const float *from, int64_t n) {
  if (from) memcpy(to, from, (size_t)n * sizeof *to);
  else memset(to, 0, (size_t)n * sizeof *to);
}

static void recurrent_one_step(const recurrent_job *j, int64_t n, int64_t k) {
  const recurrent_state *s = j->s;
  int64_t h = s->h, t = recurrent_at(j, k);
  float *now = j->now + n * h, *y = j->call->out[0] + (n * s->t + t) * h;
  ronde__recurrent_step step = {.h = h, .row = recurrent_row(j, n, t), .bias = j->bias, .y_before = now, .y = y};
  if (j->sums) step.sums = j->sums + n * s->g * h;
  if (has_cells(s)) step.cell_before = recurrent_cell_before(j, n, k), step.cell = recurrent_cell(j, n, t);
  if (t < recurrent_length(j, n)) {
    s->cell->forward(j->desc->compute.kernels, &step);
    memcpy(now, y, (size_t)h * sizeof *now);
    return;
  }
  memset(y, 0, (size_t)h * sizeof *y);
  if (step.cell) copy_or_clear(step.cell, step.cell_before, h);
}

static void recurrent_forward_part(void *arg, int thread, int n_threads) {
  const recurrent_job *j = arg;
  const recurrent_state *s = j->s;
  int64_t begin, end, h = s->h;
  ronde__thread_chunk(s->n_pieces, thread, n_threads, &begin, &end);
  for (int64_t piece = begin; piece < end; piece++) {
    int64_t n0 = piece * s->piece, n1 = n0 + ronde__min(s->piece, s->n - n0);
    bool last = piece == s->n_pieces - 1;
    recurrent_multiply(&s->rows_of_x[last].set, j->call->in[0] + n0 * s->t * s->f, j->w_ih, recurrent_row(j, n0, 0));
    for (int64_t n = n0; n < n1; n++) copy_or_clear(j->now + n * h, recurrent_first(j, 1, n), h);
    for (int64_t k = 0; k < s->t; k++) {
      const float *now = j->now + n0 * h;
      if (j->sums) recurrent_multiply(&s->sums_of_h[last].set, now, j->w_hh, j->sums + n0 * s->g * h);
      else recurrent_multiply(&s->sums_of_h[last].add, now, j->w_hh, recurrent_row(j, n0, recurrent_at(j, k)));
      for (int64_t n = n0; n < n1; n++) recurrent_one_step(j, n, k);
    }
    for (int64_t n = n0; n < n1; n++) {
      memcpy(j->call->out[1] + n * h, j->now + n * h, (size_t)h * sizeof(float));
      if (has_cells(s))
        memcpy(j->call->out[2] + n * h, recurrent_cell(j, n, recurrent_at(j, s->t - 1)), (size_t)h * sizeof(float));
    }
  }
}

ronde_status ronde__recurrent_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  const recurrent_state *s = state;
  int64_t h = s->h, all = s->g * h;
  float *w_ih = call->work, *w_hh = w_ih + s->f * all, *bias = w_hh + h * all, *now = bias + ROW * h;
  desc->compute.kernels->transpose(call->param[RONDE__WEIGHT_IH], s->f, all, s->f, w_ih, all);
  desc->compute.kernels->transpose(call->param[RONDE__WEIGHT_HH], h, all, h, w_hh, all);
  if (desc->attr.bias) s->cell->biases(call->param[RONDE__BIAS_IH], call->param[RONDE__BIAS_HH], h, bias);
  recurrent_job j = {.desc = desc, .s = s, .call = call, .w_ih = w_ih, .w_hh = w_hh, .now = now};
  if (desc->attr.bias) j.bias = bias;
  if (!s->cell->adds) j.sums = now + s->n * h;
  ronde__pool_run(call->pool, recurrent_forward_part, &j);
  return RONDE_OK;
}

/* h before each step of an example, zeros where the example does not take part. */
static void recurrent_find_before(const recurrent_job *j, int64_t n) {
  const recurrent_state *s = j->s;
  int64_t h = s->h, length = recurrent_length(j, n), first = j->desc->attr.reverse ? length - 1 : 0;
  int64_t from = j->desc->attr.reverse ? 1 : -1;
  for (int64_t t = 0; t < s->t; t++) {
    const float *y = t == first ? recurrent_first(j, 1, n) : j->call->out[0] + (n * s->t + t + from) * h;
    copy_or_clear(j->before + (n * s->t + t) * h, t < length ? y : NULL, h);
  }
}

static void recurrent_one_step_back(const recurrent_job *j, int64_t n, int64_t k) {
  const recurrent_state *s = j->s;
  int64_t h = s->h, t = recurrent_at(j, k), at = n * s->t + t;
  ronde__recurrent_step step = {.h = h,
                                .row = recurrent_row(j, n, t),
                                .y_before = j->before + at * h,
                                .dy = j->call->dout[0] ? j->call->dout[0] + at * h : NULL,
                                .dh = j->dh + n * h,
                                .drow = j->drows + at * ROW * h};
  if (t >= recurrent_length(j, n)) {
    memset(step.drow, 0, (size_t)(ROW * h) * sizeof(float));
    return;
  }
  if (has_cells(s))
    step.cell_before = recurrent_cell_before(j, n, k), step.cell = recurrent_cell(j, n, t),
    step.dcell = j->dcell + n * h;
  s->cell->backward(j->desc->compute.kernels, &step);
}

static void recurrent_backward_part(void *arg, int thread, int n_threads) {
  const recurrent_job *j = arg;
  const recurrent_state *s = j->s;
  const ronde__op_call *call = j->call;
  int64_t begin, end, h = s->h;
  ronde__thread_chunk(s->n_pieces, thread, n_threads, &begin, &end);
  for (int64_t piece = begin; piece < end; piece++) {
    int64_t n0 = piece * s->piece, m = ronde__min(s->piece, s->n - n0), row = ROW * h;
    bool last = piece == s->n_pieces - 1;
    copy_or_clear(j->dh + n0 * h, call->dout[1] ? call->dout[1] + n0 * h : NULL, m * h);
    if (has_cells(s)) copy_or_clear(j->dcell + n0 * h, call->dout[2] ? call->dout[2] + n0 * h : NULL, m * h);
    for (int64_t n = n0; n < n0 + m; n++) recurrent_find_before(j, n);
    for (int64_t k = s->t - 1; k >= 0; k--) {
      for (int64_t n = n0; n < n0 + m; n++) recurrent_one_step_back(j, n, k);
      ronde__gemm_run(&s->dh[last].add, j->drows + (n0 * s->t + recurrent_at(j, k)) * row, s->dh_rows,
                      call->param[RONDE__WEIGHT_HH], s->dh_weights, s->g, j->dh + n0 * h);
    }
    const ronde__gemm *gemm = call->accumulate_dinput[0] ? &s->dx[last].add : &s->dx[last].set;
    if (call->din[0])
      recurrent_multiply(gemm, j->drows + n0 * s->t * row, call->param[RONDE__WEIGHT_IH],
                         call->din[0] + n0 * s->t * s->f);
    for (int i = 1; i <= n_states(&j->desc->attr); i++)
      if (call->din[i])
        ronde__gradient_add(j->desc, (i == 1 ? j->dh : j->dcell) + n0 * h, call->din[i] + n0 * h, m * h,
                            call->accumulate_dinput[i]);
  }
}

static void recurrent_weight(const ronde__gemm_pair *of_chunks, const ronde__gemm_list *chunks,
                             const ronde__gemm_pair *of_rest, int64_t rest, int64_t a, int64_t b, const float *d,
                             const float *x, float *dw, bool adds) {
  if (chunks->count) ronde__gemm_sum(of_chunks, chunks, chunks->count, d, x, dw, adds);
  int64_t done = chunks->count * CHUNK;
  if (rest) recurrent_multiply(adds || done ? &of_rest->add : &of_rest->set, d + done * a, x + done * b, dw);
}

/* A gate's rows of both weights, and of both biases. */
static void recurrent_weights_part(void *arg, int thread, int n_threads) {
  const recurrent_job *j = arg;
  const recurrent_state *s = j->s;
  const ronde__op_call *call = j->call;
  const bool *adds = call->accumulate_dparam;
  int64_t begin, end, h = s->h, rows = s->n * s->t;
  ronde__thread_chunk(s->g, thread, n_threads, &begin, &end);
  for (int64_t gate = begin; gate < end; gate++) {
    const float *d[] = {j->drows + gate * h, j->drows + s->cell->column[gate] * h};
    float *dw = call->dparam[RONDE__WEIGHT_IH] ? call->dparam[RONDE__WEIGHT_IH] + gate * h * s->f : NULL;
    if (dw)
      recurrent_weight(&s->dw_ih, &s->ih, &s->dw_ih_rest, rows % CHUNK, ROW * h, s->f, d[0], call->in[0], dw,
                       adds[RONDE__WEIGHT_IH]);
    dw = call->dparam[RONDE__WEIGHT_HH] ? call->dparam[RONDE__WEIGHT_HH] + gate * h * h : NULL;
    if (dw)
      recurrent_weight(&s->dw_hh, &s->hh, &s->dw_hh_rest, rows % CHUNK, ROW * h, h, d[1], j->before, dw,
                       adds[RONDE__WEIGHT_HH]);
    for (int b = RONDE__BIAS_IH; b <= RONDE__BIAS_HH; b++) {
      float *db = call->dparam[b] ? call->dparam[b] + gate * h : NULL;
      if (db && !adds[b]) memset(db, 0, (size_t)h * sizeof *db);
      if (db) j->desc->compute.kernels->column_sums(d[b - RONDE__BIAS_IH], ROW * h, rows, h, db);
    }
  }
}

ronde_status ronde__recurrent_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  const recurrent_state *s = state;
  int64_t rows = s->n * s->t;
  recurrent_job j = {.desc = desc, .s = s, .call = call, .drows = call->work};
  j.before = j.drows + rows * ROW * s->h, j.dh = j.before + rows * s->h, j.dcell = j.dh + s->n * s->h;
  ronde__pool_run(call->pool, recurrent_backward_part, &j);
  ronde__pool_run(call->pool, recurrent_weights_part, &j);
  int length = desc->attr.n_inputs - 1;
  if (desc->attr.lengths && call->din[length] && !call->accumulate_dinput[length])
    memset(call->din[length], 0, (size_t)s->n * sizeof(float));
  return RONDE_OK;
}

const char *ronde__recurrent_implementation(const ronde__op_desc *desc, const void *opaque) {
  const recurrent_state *s = opaque;
  return s->rows_of_x[1].set.implementation;
}

double ronde__recurrent_executed_flops(const ronde__op_desc *desc, const void *opaque, bool backward) {
  const recurrent_state *s = opaque;
  double of_x = 2 * (double)(s->n * s->t * s->g * s->h * s->f), of_h = of_x / (double)s->f * (double)s->h;
  if (!backward) return of_x + of_h;
  return of_x * (desc->need_dinput[0] + !desc->frozen[RONDE__WEIGHT_IH]) + of_h * (1 + !desc->frozen[RONDE__WEIGHT_HH]);
}

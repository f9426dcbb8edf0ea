/* Recurrent layers over a sequence, one layer and one direction. The products of x with its weights are made for all steps
 * at once, as are those of the gradients; of h there is one product a step. Inputs and outputs are ROWS: x is [N][T][F],
 * the output [N][T][H]; cells are saved as [N][T][H].
 * All examples go through the steps side by side, at the same t. One whose length is L takes part at t < L: backwards it
 * waits in its first state until t = L - 1, forwards it stays in its last one, and its outputs behind its end are zero.
 * Steps in which no example of a piece takes part have no products.
 * A matrix of many columns lies in panels of WIDTH columns, the last one narrower, so that each operand of a product is
 * short and contiguous: rows of gates as [panel of H][T][N][ROW][width], weights as [gate][panel][F or H][width], and
 * backward the other way round as [panel][gate, H][width].
 * Examples are shared out among the threads, for the gradients of the weights the panels of the gates are. */
#include "ops/recurrent.h"

#include "ops/elementwise.h"
#include "ops/gemm_list.h"

#include <math.h>
#include <string.h>

enum { ROW = RONDE__RECURRENT_ROW, CHUNK = 64, WIDTH = 64 };

/* ---- panels ---- */

static int64_t panels_of(int64_t columns) { return ronde__ceil_div(columns, WIDTH); }
static int64_t panel_width(int64_t columns, int64_t panel) { return ronde__min(WIDTH, columns - panel * WIDTH); }
static bool is_narrow(int64_t columns, int64_t panel) { return columns - panel * WIDTH < WIDTH; }

/* A sum over all gates' panels: of the whole ones, and of the last ones where these are narrower. By whether it is the last
 * piece of examples. */
typedef struct gates_sum {
  ronde__gemm_pair whole[2], narrow[2];
  ronde__gemm_list wholes, narrows;
} gates_sum;

/* A sum over all N T rows: CHUNK at a time, and what is left. */
typedef struct rows_sum {
  ronde__gemm_pair chunk, rest;
  ronde__gemm_list chunks;
} rows_sum;

typedef struct recurrent_state {
  const ronde__cell *cell;
  int64_t n, t, f, h, g, piece, n_pieces;
  /* By whether it is the last piece of examples, and whether the panel is narrow. */
  ronde__gemm_pair rows_of_x[2][2], sums_of_h[2][2];
  gates_sum dh[2], dx[2];            /* by whether the panel of their columns is narrow */
  rows_sum dw_ih[2][2], dw_hh[2][2]; /* by whether the panel of the gate, and that of the columns, is narrow */
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
  for (int i = 0; i < 2; i++) {
    gates_sum *sums[] = {&s->dh[i], &s->dx[i]};
    for (int k = 0; k < 2; k++) {
      ronde__gemm_list_destroy(&sums[k]->wholes);
      ronde__gemm_list_destroy(&sums[k]->narrows);
      ronde__gemm_list_destroy(&s->dw_ih[i][k].chunks);
      ronde__gemm_list_destroy(&s->dw_hh[i][k].chunks);
    }
  }
  ronde__free(s);
}

/* ---- preparing ---- */

static int examples_of(const recurrent_state *s, bool last) {
  return (int)(last ? s->n - (s->n_pieces - 1) * s->piece : s->piece);
}

static void make_forward(const ronde__op_desc *desc, recurrent_state *s) {
  for (int last = 0; last < 2; last++)
    for (int narrow = 0; narrow < 2; narrow++) {
      int n = (int)(narrow ? s->h % WIDTH : WIDTH), m = examples_of(s, last);
      if (n == 0 || (!narrow && s->h < WIDTH)) continue;
      ronde__gemm_shape x = {.m = m, .n = n, .k = (int)s->f, .lda = s->t * s->f, .ldb = n, .ldc = ROW * n};
      ronde__gemm_shape h = {.m = m, .n = n, .k = (int)s->h, .lda = s->h, .ldb = n};
      h.ldc = (s->cell->adds ? ROW : s->g) * n;
      s->rows_of_x[last][narrow] = ronde__gemm_pair_resolve(desc, x);
      s->sums_of_h[last][narrow] = ronde__gemm_pair_resolve(desc, h);
    }
}

/* Of a panel of n columns. The gate's gradient lies at `column` of a row, or at its own place. */
static ronde_status make_gates_sum(const ronde__op_desc *desc, const recurrent_state *s, int64_t n, int64_t ldc,
                                   const int *column, gates_sum *sum) {
  int64_t wholes = s->h / WIDTH, rest = s->h % WIDTH;
  RONDE_TRY(ronde__gemm_list_create(s->g * wholes, &sum->wholes));
  RONDE_TRY(ronde__gemm_list_create(rest ? s->g : 0, &sum->narrows));
  for (int64_t g = 0; g < s->g; g++) {
    int64_t place = column ? column[g] : g;
    for (int64_t p = 0; p < wholes; p++) {
      sum->wholes.a[g * wholes + p] = (uint64_t)(p * WIDTH * ROW * s->t * s->n + place * WIDTH) * sizeof(float);
      sum->wholes.b[g * wholes + p] = (uint64_t)((g * s->h + p * WIDTH) * n) * sizeof(float);
    }
    if (!rest) continue;
    sum->narrows.a[g] = (uint64_t)(place * rest) * sizeof(float); /* from the last panel on */
    sum->narrows.b[g] = (uint64_t)((g * s->h + wholes * WIDTH) * n) * sizeof(float);
  }
  for (int last = 0; last < 2; last++) {
    ronde__gemm_shape shape = {
        .m = examples_of(s, last), .n = (int)n, .k = WIDTH, .lda = ROW * WIDTH, .ldb = n, .ldc = ldc};
    if (wholes) sum->whole[last] = ronde__gemm_pair_resolve(desc, shape);
    shape.k = (int)rest, shape.lda = ROW * rest;
    if (rest) sum->narrow[last] = ronde__gemm_pair_resolve(desc, shape);
  }
  return RONDE_OK;
}

static ronde_status make_rows_sum(const ronde__op_desc *desc, const recurrent_state *s, int64_t m, int64_t n,
                                  int64_t ldc, rows_sum *sum) {
  int64_t rows = s->n * s->t;
  RONDE_TRY(ronde__gemm_list_create(rows / CHUNK, &sum->chunks));
  for (int64_t i = 0; i < sum->chunks.count; i++) {
    sum->chunks.a[i] = (uint64_t)(i * CHUNK * ROW * m) * sizeof(float);
    sum->chunks.b[i] = (uint64_t)(i * CHUNK * n) * sizeof(float);
  }
  ronde__gemm_shape shape = {
      .m = (int)m, .n = (int)n, .k = CHUNK, .lda = ROW * m, .ldb = n, .ldc = ldc, .trans_a = true};
  if (sum->chunks.count) sum->chunk = ronde__gemm_pair_resolve(desc, shape);
  shape.k = (int)(rows % CHUNK);
  if (shape.k) sum->rest = ronde__gemm_pair_resolve(desc, shape);
  return RONDE_OK;
}

/* Columns of a panel that is narrow, or not; 0: there is none. */
static int64_t width_if(int64_t columns, bool narrow) {
  if (narrow) return columns % WIDTH;
  return columns < WIDTH ? 0 : WIDTH;
}

static ronde_status make_backward(const ronde__op_desc *desc, recurrent_state *s) {
  for (int i = 0; i < 2; i++) {
    int64_t of_h = width_if(s->h, i), of_f = width_if(s->f, i);
    if (of_h) RONDE_TRY(make_gates_sum(desc, s, of_h, of_h, s->cell->column, &s->dh[i]));
    if (of_f) RONDE_TRY(make_gates_sum(desc, s, of_f, s->t * s->f, NULL, &s->dx[i]));
    for (int k = 0; k < 2 && of_h; k++) {
      int64_t columns_f = width_if(s->f, k), columns_h = width_if(s->h, k);
      if (columns_f) RONDE_TRY(make_rows_sum(desc, s, of_h, columns_f, s->f, &s->dw_ih[i][k]));
      if (columns_h) RONDE_TRY(make_rows_sum(desc, s, of_h, columns_h, s->h, &s->dw_hh[i][k]));
    }
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
  s->n_pieces = ronde__ceil_div(s->n, s->piece);
  make_forward(desc, s);
  ronde_status status = make_backward(desc, s);
  if (status != RONDE_OK) ronde__recurrent_release(desc, s);
  else *state_out = s;
  return status;
}

static bool has_cells(const recurrent_state *s) { return s->cell->states > 1; }

/* Rows, behind them cells. */
size_t ronde__recurrent_saved(const ronde__op_desc *desc, const void *opaque) {
  const recurrent_state *s = opaque;
  return (size_t)(s->t * s->n * (ROW + has_cells(s)) * s->h);
}

/* Forward: both weights, the bias twice, the present h, and its sums where they lie apart. Backward: the rows' gradients;
 * h before each step, and x, in panels; the gradients of h and of cells; both weights. */
size_t ronde__recurrent_work(const ronde__op_desc *desc, const void *opaque, bool backward) {
  const recurrent_state *s = opaque;
  int64_t weights = (s->f + s->h) * s->g * s->h;
  if (backward) return (size_t)(s->t * s->n * ((ROW + 1) * s->h + s->f) + 2 * s->n * s->h + weights);
  return (size_t)(weights + 2 * ROW * s->h + s->n * s->h + (s->cell->adds ? 0 : s->n * s->g * s->h));
}

typedef struct recurrent_job {
  const ronde__op_desc *desc;
  const recurrent_state *s;
  const ronde__op_call *call;
  float *w_ih, *w_hh;                     /* in panels */
  float *bias;                            /* [panel][ROW][width]; NULL: none */
  float *now, *sums;                      /* h of each example, and its sums, [panel][N][G][width] */
  float *drows, *before, *x, *dh, *dcell; /* dh: [panel][N][width] */
} recurrent_job;

static void recurrent_multiply(const ronde__gemm *gemm, const float *a, const float *b, float *c) {
  static const uint64_t none = 0;
  ronde__gemm_run(gemm, a, &none, b, &none, 1, c);
}

/* The k-th step in time. */
static int64_t recurrent_at(const recurrent_job *j, int64_t k) { return j->desc->attr.reverse ? j->s->t - 1 - k : k; }

static int64_t recurrent_length(const recurrent_job *j, int64_t n) {
  return ronde__rows_there(j->desc, j->call, n, j->s->t);
}

/* Behind these no example of [n0, n1) takes part; at least 1. */
static int64_t recurrent_steps(const recurrent_job *j, int64_t n0, int64_t n1) {
  int64_t most = 1;
  for (int64_t n = n0; n < n1; n++) most = ronde__max(most, recurrent_length(j, n));
  return most;
}

/* The state of an example in front of its first step; NULL: zeros. */
static const float *recurrent_first(const recurrent_job *j, int i, int64_t n) {
  return n_states(&j->desc->attr) ? j->call->in[i] + n * j->s->h : NULL;
}

/* Of rows or their gradients: those of panel p at step t from example n on. */
static float *recurrent_row(const recurrent_job *j, float *rows, int64_t p, int64_t t, int64_t n) {
  const recurrent_state *s = j->s;
  return rows + ROW * (p * WIDTH * s->t * s->n + (t * s->n + n) * panel_width(s->h, p));
}

/* The same of a matrix [N T][columns]. */
static float *recurrent_panel(const recurrent_job *j, float *x, int64_t columns, int64_t p, int64_t t, int64_t n) {
  return x + p * WIDTH * j->s->t * j->s->n + (t * j->s->n + n) * panel_width(columns, p);
}

static float *recurrent_dh(const recurrent_job *j, int64_t p, int64_t n) {
  return j->dh + p * WIDTH * j->s->n + n * panel_width(j->s->h, p);
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

/* ---- forward ---- */

/* Panels of a gate's rows of both weights, transposed. */
static void recurrent_pack_part(void *arg, int thread, int n_threads) {
  const recurrent_job *j = arg;
  const recurrent_state *s = j->s;
  int64_t panels = panels_of(s->h), begin, end;
  ronde__thread_chunk(s->g * panels, thread, n_threads, &begin, &end);
  for (int64_t i = begin; i < end; i++) {
    int64_t row = i / panels * s->h + i % panels * WIDTH, width = panel_width(s->h, i % panels);
    const float *ih = j->call->param[RONDE__WEIGHT_IH] + row * s->f,
                *hh = j->call->param[RONDE__WEIGHT_HH] + row * s->h;
    j->desc->compute.kernels->transpose(ih, s->f, width, s->f, j->w_ih + row * s->f, width);
    j->desc->compute.kernels->transpose(hh, s->h, width, s->h, j->w_hh + row * s->h, width);
  }
}

static void recurrent_pack_bias(const recurrent_job *j, float *whole) {
  int64_t h = j->s->h;
  j->s->cell->biases(j->call->param[RONDE__BIAS_IH], j->call->param[RONDE__BIAS_HH], h, whole);
  for (int64_t p = 0; p < panels_of(h); p++)
    for (int64_t g = 0, width = panel_width(h, p); g < ROW; g++)
      memcpy(j->bias + p * WIDTH * ROW + g * width, whole + g * h + p * WIDTH, (size_t)width * sizeof *whole);
}

/* One panel of an example. */
static void recurrent_one_step(const recurrent_job *j, int64_t n, int64_t k, int64_t p) {
  const recurrent_state *s = j->s;
  int64_t width = panel_width(s->h, p), t = recurrent_at(j, k), at = p * WIDTH;
  float *now = j->now + n * s->h + at, *y = j->call->out[0] + (n * s->t + t) * s->h + at;
  ronde__recurrent_step step = {.h = width, .row = recurrent_row(j, j->call->saved, p, t, n), .y_before = now, .y = y};
  if (j->bias) step.bias = j->bias + at * ROW;
  if (j->sums) step.sums = j->sums + s->g * (at * s->n + n * width);
  if (has_cells(s)) {
    const float *before = recurrent_cell_before(j, n, k);
    step.cell_before = before ? before + at : NULL;
    step.cell = recurrent_cell(j, n, t) + at;
  }
  if (t < recurrent_length(j, n)) {
    s->cell->forward(j->desc->compute.kernels, &step);
    memcpy(now, y, (size_t)width * sizeof *now);
    return;
  }
  memset(y, 0, (size_t)width * sizeof *y);
  if (step.cell) copy_or_clear(step.cell, step.cell_before, width);
}

/* The products of so many steps with x, by panels, whose weights stay in cache. */
static void recurrent_rows_of_x(const recurrent_job *j, int64_t n0, bool last, int64_t steps) {
  const recurrent_state *s = j->s;
  for (int64_t p = 0; p < panels_of(s->h); p++)
    for (int64_t g = 0, width = panel_width(s->h, p); g < s->g; g++)
      for (int64_t t = 0; t < steps; t++)
        recurrent_multiply(&s->rows_of_x[last][is_narrow(s->h, p)].set, j->call->in[0] + (n0 * s->t + t) * s->f,
                           j->w_ih + (g * s->h + p * WIDTH) * s->f,
                           recurrent_row(j, j->call->saved, p, t, n0) + g * width);
}

static void recurrent_sums_of_h(const recurrent_job *j, int64_t n0, bool last, int64_t t) {
  const recurrent_state *s = j->s;
  const float *now = j->now + n0 * s->h;
  for (int64_t p = 0; p < panels_of(s->h); p++)
    for (int64_t g = 0, width = panel_width(s->h, p); g < s->g; g++) {
      const ronde__gemm_pair *gemm = &s->sums_of_h[last][is_narrow(s->h, p)];
      const float *weights = j->w_hh + (g * s->h + p * WIDTH) * s->h;
      if (j->sums)
        recurrent_multiply(&gemm->set, now, weights, j->sums + s->g * (p * WIDTH * s->n + n0 * width) + g * width);
      else recurrent_multiply(&gemm->add, now, weights, recurrent_row(j, j->call->saved, p, t, n0) + g * width);
    }
}

static void recurrent_forward_part(void *arg, int thread, int n_threads) {
  const recurrent_job *j = arg;
  const recurrent_state *s = j->s;
  int64_t begin, end, h = s->h;
  ronde__thread_chunk(s->n_pieces, thread, n_threads, &begin, &end);
  for (int64_t piece = begin; piece < end; piece++) {
    int64_t n0 = piece * s->piece, n1 = n0 + ronde__min(s->piece, s->n - n0);
    bool last = piece == s->n_pieces - 1;
    int64_t steps = recurrent_steps(j, n0, n1);
    recurrent_rows_of_x(j, n0, last, steps);
    for (int64_t n = n0; n < n1; n++) copy_or_clear(j->now + n * h, recurrent_first(j, 1, n), h);
    for (int64_t k = 0; k < s->t; k++) {
      if (recurrent_at(j, k) < steps) recurrent_sums_of_h(j, n0, last, recurrent_at(j, k));
      for (int64_t p = 0; p < panels_of(h); p++)
        for (int64_t n = n0; n < n1; n++) recurrent_one_step(j, n, k, p);
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
  int64_t all = s->g * s->h;
  recurrent_job j = {.desc = desc, .s = s, .call = call, .w_ih = call->work};
  j.w_hh = j.w_ih + s->f * all;
  float *bias = j.w_hh + s->h * all, *packed = bias + ROW * s->h;
  j.now = packed + ROW * s->h;
  if (desc->attr.bias) {
    j.bias = packed;
    recurrent_pack_bias(&j, bias);
  }
  if (!s->cell->adds) j.sums = j.now + s->n * s->h;
  ronde__pool_run(call->pool, recurrent_pack_part, &j);
  ronde__pool_run(call->pool, recurrent_forward_part, &j);
  return RONDE_OK;
}

/* ---- backward ---- */

/* A panel of all rows of both weights. */
static void recurrent_pack_columns(const float *w, int64_t rows, int64_t columns, int64_t p, float *packed) {
  int64_t width = panel_width(columns, p);
  packed += p * WIDTH * rows;
  for (int64_t r = 0; r < rows; r++) memcpy(packed + r * width, w + r * columns + p * WIDTH, (size_t)width * sizeof *w);
}

static void recurrent_pack_back_part(void *arg, int thread, int n_threads) {
  const recurrent_job *j = arg;
  const recurrent_state *s = j->s;
  int64_t of_h = panels_of(s->h), of_f = j->call->din[0] ? panels_of(s->f) : 0, begin, end;
  ronde__thread_chunk(of_h + of_f, thread, n_threads, &begin, &end);
  for (int64_t i = begin; i < end; i++)
    if (i < of_h) recurrent_pack_columns(j->call->param[RONDE__WEIGHT_HH], s->g * s->h, s->h, i, j->w_hh);
    else recurrent_pack_columns(j->call->param[RONDE__WEIGHT_IH], s->g * s->h, s->f, i - of_h, j->w_ih);
}

static void copy_to_panels(const recurrent_job *j, const float *from, int64_t columns, int64_t t, int64_t n,
                           float *to) {
  for (int64_t p = 0; p < panels_of(columns); p++)
    copy_or_clear(recurrent_panel(j, to, columns, p, t, n), from ? from + p * WIDTH : NULL, panel_width(columns, p));
}

/* What the gradients of weights read of an example: x, and h before each step, zeros where the example does not take part. */
static void recurrent_find_before(const recurrent_job *j, int64_t n) {
  const recurrent_state *s = j->s;
  int64_t length = recurrent_length(j, n), first = j->desc->attr.reverse ? length - 1 : 0;
  int64_t from = j->desc->attr.reverse ? 1 : -1;
  for (int64_t t = 0; t < s->t; t++) {
    const float *y = t == first ? recurrent_first(j, 1, n) : j->call->out[0] + (n * s->t + t + from) * s->h;
    copy_to_panels(j, t < length ? y : NULL, s->h, t, n, j->before);
    copy_to_panels(j, j->call->in[0] + (n * s->t + t) * s->f, s->f, t, n, j->x);
  }
}

static void recurrent_one_step_back(const recurrent_job *j, int64_t n, int64_t k, int64_t p) {
  const recurrent_state *s = j->s;
  int64_t width = panel_width(s->h, p), t = recurrent_at(j, k), at = p * WIDTH;
  ronde__recurrent_step step = {.h = width,
                                .row = recurrent_row(j, j->call->saved, p, t, n),
                                .y_before = recurrent_panel(j, j->before, s->h, p, t, n),
                                .dy = j->call->dout[0] ? j->call->dout[0] + (n * s->t + t) * s->h + at : NULL,
                                .dh = recurrent_dh(j, p, n),
                                .drow = recurrent_row(j, j->drows, p, t, n)};
  if (t >= recurrent_length(j, n)) {
    memset(step.drow, 0, (size_t)(ROW * width) * sizeof(float));
    return;
  }
  if (has_cells(s)) {
    const float *before = recurrent_cell_before(j, n, k);
    step.cell_before = before ? before + at : NULL;
    step.cell = recurrent_cell(j, n, t) + at;
    step.dcell = j->dcell + n * s->h + at;
  }
  s->cell->backward(j->desc->compute.kernels, &step);
}

/* Over all gates of the examples from n0 on at step t; w: the panel of the weights that c has the columns of. */
static void recurrent_sum_gates(const recurrent_job *j, const gates_sum *sum, bool last, int64_t t, int64_t n0,
                                const float *w, float *c, bool adds) {
  int64_t wholes = j->s->h / WIDTH;
  if (sum->wholes.count)
    ronde__gemm_sum(&sum->whole[last], &sum->wholes, sum->wholes.count, recurrent_row(j, j->drows, 0, t, n0), w, c,
                    adds);
  if (sum->narrows.count)
    ronde__gemm_sum(&sum->narrow[last], &sum->narrows, sum->narrows.count, recurrent_row(j, j->drows, wholes, t, n0), w,
                    c, adds || sum->wholes.count);
}

/* Behind so many steps it is zero. */
static void recurrent_give_input(const recurrent_job *j, int64_t n0, int64_t n1, bool last, int64_t steps) {
  const recurrent_state *s = j->s;
  for (int64_t n = n0; n < n1 && !j->call->accumulate_dinput[0]; n++)
    memset(j->call->din[0] + (n * s->t + steps) * s->f, 0, (size_t)((s->t - steps) * s->f) * sizeof(float));
  for (int64_t p = 0; p < panels_of(s->f); p++)
    for (int64_t t = 0; t < steps; t++)
      recurrent_sum_gates(j, &s->dx[is_narrow(s->f, p)], last, t, n0, j->w_ih + p * WIDTH * s->g * s->h,
                          j->call->din[0] + (n0 * s->t + t) * s->f + p * WIDTH, j->call->accumulate_dinput[0]);
}

/* Of the first state, from the panels of dh. */
static void recurrent_give_first(const recurrent_job *j, int64_t n) {
  const recurrent_state *s = j->s;
  const ronde__op_call *call = j->call;
  int states = n_states(&j->desc->attr);
  for (int64_t p = 0; states > 0 && call->din[1] && p < panels_of(s->h); p++)
    ronde__gradient_add(j->desc, recurrent_dh(j, p, n), call->din[1] + n * s->h + p * WIDTH, panel_width(s->h, p),
                        call->accumulate_dinput[1]);
  if (states > 1 && call->din[2])
    ronde__gradient_add(j->desc, j->dcell + n * s->h, call->din[2] + n * s->h, s->h, call->accumulate_dinput[2]);
}

static void recurrent_backward_part(void *arg, int thread, int n_threads) {
  const recurrent_job *j = arg;
  const recurrent_state *s = j->s;
  const ronde__op_call *call = j->call;
  int64_t begin, end, h = s->h;
  ronde__thread_chunk(s->n_pieces, thread, n_threads, &begin, &end);
  for (int64_t piece = begin; piece < end; piece++) {
    int64_t n0 = piece * s->piece, n1 = n0 + ronde__min(s->piece, s->n - n0);
    bool last = piece == s->n_pieces - 1;
    for (int64_t n = n0; n < n1; n++) {
      for (int64_t p = 0; p < panels_of(h); p++)
        copy_or_clear(recurrent_dh(j, p, n), call->dout[1] ? call->dout[1] + n * h + p * WIDTH : NULL,
                      panel_width(h, p));
      if (has_cells(s)) copy_or_clear(j->dcell + n * h, call->dout[2] ? call->dout[2] + n * h : NULL, h);
      recurrent_find_before(j, n);
    }
    int64_t steps = recurrent_steps(j, n0, n1);
    for (int64_t k = s->t - 1; k >= 0; k--) {
      for (int64_t p = 0; p < panels_of(h); p++)
        for (int64_t n = n0; n < n1; n++) recurrent_one_step_back(j, n, k, p);
      for (int64_t p = 0; p < panels_of(h) && recurrent_at(j, k) < steps; p++)
        recurrent_sum_gates(j, &s->dh[is_narrow(h, p)], last, recurrent_at(j, k), n0, j->w_hh + p * WIDTH * s->g * h,
                            recurrent_dh(j, p, n0), true);
    }
    if (call->din[0]) recurrent_give_input(j, n0, n1, last, steps);
    for (int64_t n = n0; n < n1; n++) recurrent_give_first(j, n);
  }
}

/* Of the first rows; those behind them in the same chunk have gradients of zero. */
static void recurrent_sum_rows(const rows_sum *sum, int64_t a, int64_t b, int64_t rows, const float *d, const float *x,
                               float *dw, bool adds) {
  int64_t chunks = ronde__min(sum->chunks.count, ronde__ceil_div(rows, CHUNK)), done = chunks * CHUNK;
  int64_t piece = ronde__gemm_piece(sum->chunks.count, CHUNK); /* as if there were all */
  if (done) ronde__gemm_sum_by(&sum->chunk, &sum->chunks, chunks, piece, d, x, dw, adds);
  if (rows > done) recurrent_multiply(adds || done ? &sum->rest.add : &sum->rest.set, d + done * a, x + done * b, dw);
}

/* A panel of a gate's rows of both weights, and of both biases. */
static void recurrent_weights_of(const recurrent_job *j, int64_t rows, int64_t gate, int64_t p) {
  const recurrent_state *s = j->s;
  const ronde__op_call *call = j->call;
  int64_t width = panel_width(s->h, p), row = gate * s->h + p * WIDTH;
  float *first = recurrent_row(j, j->drows, p, 0, 0);
  const float *d[] = {first + gate * width, first + s->cell->column[gate] * width};
  const struct {
    const rows_sum *sums;
    float *x;
    int64_t columns;
  } of[] = {{s->dw_ih[is_narrow(s->h, p)], j->x, s->f}, {s->dw_hh[is_narrow(s->h, p)], j->before, s->h}};
  for (int i = RONDE__WEIGHT_IH; i <= RONDE__WEIGHT_HH; i++)
    for (int64_t c = 0; call->dparam[i] && c < panels_of(of[i].columns); c++)
      recurrent_sum_rows(&of[i].sums[is_narrow(of[i].columns, c)], ROW * width, panel_width(of[i].columns, c), rows,
                         d[i], recurrent_panel(j, of[i].x, of[i].columns, c, 0, 0),
                         call->dparam[i] + row * of[i].columns + c * WIDTH, call->accumulate_dparam[i]);
  for (int b = RONDE__BIAS_IH; b <= RONDE__BIAS_HH; b++) {
    float *db = call->dparam[b] ? call->dparam[b] + row : NULL;
    if (db && !call->accumulate_dparam[b]) memset(db, 0, (size_t)width * sizeof *db);
    if (db) j->desc->compute.kernels->column_sums(d[b - RONDE__BIAS_IH], ROW * width, rows, width, db);
  }
}

static void recurrent_weights_part(void *arg, int thread, int n_threads) {
  const recurrent_job *j = arg;
  int64_t panels = panels_of(j->s->h), rows = j->s->n * recurrent_steps(j, 0, j->s->n), begin, end;
  ronde__thread_chunk(j->s->g * panels, thread, n_threads, &begin, &end);
  for (int64_t i = begin; i < end; i++) recurrent_weights_of(j, rows, i / panels, i % panels);
}

ronde_status ronde__recurrent_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  const recurrent_state *s = state;
  int64_t rows = s->n * s->t;
  recurrent_job j = {.desc = desc, .s = s, .call = call, .drows = call->work};
  j.before = j.drows + rows * ROW * s->h, j.x = j.before + rows * s->h;
  j.dh = j.x + rows * s->f, j.dcell = j.dh + s->n * s->h;
  j.w_hh = j.dcell + s->n * s->h, j.w_ih = j.w_hh + s->g * s->h * s->h;
  ronde__pool_run(call->pool, recurrent_pack_back_part, &j);
  ronde__pool_run(call->pool, recurrent_backward_part, &j);
  ronde__pool_run(call->pool, recurrent_weights_part, &j);
  ronde__lengths_backward(desc, call);
  return RONDE_OK;
}

const char *ronde__recurrent_implementation(const ronde__op_desc *desc, const void *opaque) {
  const recurrent_state *s = opaque;
  return s->rows_of_x[1][s->h < WIDTH].set.implementation;
}

double ronde__recurrent_executed_flops(const ronde__op_desc *desc, const void *opaque, bool backward) {
  const recurrent_state *s = opaque;
  double of_x = 2 * (double)(s->n * s->t * s->g * s->h * s->f), of_h = of_x / (double)s->f * (double)s->h;
  if (!backward) return of_x + of_h;
  return of_x * (desc->need_dinput[0] + !desc->frozen[RONDE__WEIGHT_IH]) + of_h * (1 + !desc->frozen[RONDE__WEIGHT_HH]);
}

/* Recurrent layers over a sequence, one layer and one direction. The products of x with its weights are made for all steps
 * at once, as are those of the gradients; of h there is one product a step, or two where the last gate's is of what the others
 * make of h. Inputs and outputs are ROWS: x is [N][T][F], the output [N][T][H]; cells are saved as [N][T][H].
 * All examples go through the steps side by side, at the same t. One whose length is L takes part at t < L: backwards it
 * waits in its first state until t = L - 1, forwards it stays in its last one, and its outputs behind its end are zero.
 * Steps in which no example of a piece takes part have no products.
 * Examples are shared out among the threads as they go through the steps; for what is multiplied for all steps at once the panels
 * are, and each thread packs the weights of its own. */
#include "ops/elementwise.h"
#include "ops/recurrent_plan.h"

#include <string.h>

typedef struct recurrent_job {
  const ronde__op_desc *desc;
  const ronde__recurrent_state *s;
  const ronde__op_call *call;
  float *w_hh; /* in panels */
  /* Of the threads, of which those that have nothing to do need no place: a panel of weights, or a piece of one; and gradients of
   * a panel that are told at once. */
  float *w_ih, *pieces;
  float *bias;                            /* [panel][R][width]; NULL: none */
  float *peepholes;                       /* [panel][3][width]; NULL: none */
  float *now, *sums;                      /* h of each example, and its sums, [panel][N][G][width] */
  float *reset;                           /* forward: of each example, [N][H]; backward: of all steps, in panels */
  float *drows, *before, *x, *dh, *dcell; /* dh: [panel][N][width] */
  float *dreset;                          /* like dh */
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
  return ronde__recurrent_states(&j->desc->attr) ? j->call->in[i] + n * j->s->h : NULL;
}

/* Of rows or their gradients: those of panel p at step t from example n on. */
static float *recurrent_row(const recurrent_job *j, float *rows, int64_t p, int64_t t, int64_t n) {
  const ronde__recurrent_state *s = j->s;
  return rows + s->row * (p * RONDE__PANEL * s->t * s->n + (t * s->n + n) * ronde__panel_width(s->h, p));
}

/* The same of a matrix [N T][columns]. */
static float *recurrent_panel(const recurrent_job *j, float *x, int64_t columns, int64_t p, int64_t t, int64_t n) {
  return x + p * RONDE__PANEL * j->s->t * j->s->n + (t * j->s->n + n) * ronde__panel_width(columns, p);
}

/* Of dh, or what lies like it. */
static float *recurrent_dh(const recurrent_job *j, float *dh, int64_t p, int64_t n) {
  return dh + p * RONDE__PANEL * j->s->n + n * ronde__panel_width(j->s->h, p);
}

static float *recurrent_cell(const recurrent_job *j, int64_t n, int64_t t) {
  const ronde__recurrent_state *s = j->s;
  return j->call->saved + s->t * s->n * s->row * s->h + (n * s->t + t) * s->h;
}

/* The cells before the k-th step; NULL: zeros. */
static const float *recurrent_cell_before(const recurrent_job *j, int64_t n, int64_t k) {
  return k > 0 ? recurrent_cell(j, n, recurrent_at(j, k - 1)) : recurrent_first(j, 2, n);
}

static void copy_or_clear(float *to, const float *from, int64_t n) {
  if (from) memcpy(to, from, (size_t)n * sizeof *to);
  else memset(to, 0, (size_t)n * sizeof *to);
}

/* ---- groups of rows ---- */

/* The first row of one, and whether it is the last of its example or step. */
typedef struct row_group {
  int64_t t, n;
  bool last;
} row_group;

/* Of an example, or at a step: those in which some of the first `steps` steps are. */
static int64_t recurrent_groups_of_line(const ronde__recurrent_state *s, int64_t steps) {
  return ronde__ceil_div(s->by_example ? steps : s->n, s->group);
}

static int64_t recurrent_groups(const ronde__recurrent_state *s, int64_t steps) {
  return (s->by_example ? s->n : steps) * recurrent_groups_of_line(s, steps);
}

static row_group recurrent_group(const ronde__recurrent_state *s, int64_t steps, int64_t i) {
  int64_t per_line = recurrent_groups_of_line(s, steps), line = i / per_line, first = i % per_line * s->group;
  bool last = first + s->group >= ronde__recurrent_line(s);
  return s->by_example ? (row_group){first, line, last} : (row_group){line, first, last};
}

/* ---- forward ---- */

/* The products of the first steps with x, of a panel of a gate. */
static void recurrent_rows_of_x(const recurrent_job *j, int64_t p, int64_t g, int64_t steps, float *weights) {
  const ronde__recurrent_state *s = j->s;
  int64_t width = ronde__panel_width(s->h, p);
  const float *from = j->call->param[RONDE__WEIGHT_IH] + (g * s->h + p * RONDE__PANEL) * s->f;
  for (int64_t first = 0; first < s->f; first += s->f_piece) {
    bool end = first + s->f_piece >= s->f;
    j->desc->compute.kernels->transpose(from + first, s->f, width, end ? s->f - first : s->f_piece, weights, width);
    for (int64_t i = 0; i < recurrent_groups(s, steps); i++) {
      row_group at = recurrent_group(s, steps, i);
      const ronde__gemm_pair *gemm = &s->rows_of_x[at.last][ronde__panel_is_narrow(s->h, p)][end];
      recurrent_multiply(first ? &gemm->add : &gemm->set, j->call->in[0] + (at.n * s->t + at.t) * s->f + first, weights,
                         recurrent_row(j, j->call->saved, p, at.t, at.n) + g * width);
    }
  }
}

/* Panels of a gate's rows of both weights, transposed; those of x for their products alone. */
static void recurrent_begin_part(void *arg, int thread, int n_threads) {
  const recurrent_job *j = arg;
  const ronde__recurrent_state *s = j->s;
  int64_t panels = ronde__panels_of(s->h), steps = recurrent_steps(j, 0, s->n), begin, end;
  ronde__thread_chunk(s->g * panels, thread, n_threads, &begin, &end);
  for (int64_t i = begin; i < end; i++) {
    int64_t row = i / panels * s->h + i % panels * RONDE__PANEL, width = ronde__panel_width(s->h, i % panels);
    j->desc->compute.kernels->transpose(j->call->param[RONDE__WEIGHT_HH] + row * s->h, s->h, width, s->h,
                                        j->w_hh + row * s->h, width);
    recurrent_rows_of_x(j, i % panels, i / panels, steps, j->w_ih + thread * s->f_piece * RONDE__PANEL);
  }
}

/* Vectors [n][H] to [panel][n][width]. */
static void recurrent_pack_vectors(const recurrent_job *j, const float *vectors, int64_t n, float *packed) {
  int64_t h = j->s->h;
  for (int64_t p = 0; p < ronde__panels_of(h); p++)
    for (int64_t g = 0, width = ronde__panel_width(h, p); g < n; g++)
      memcpy(packed + p * RONDE__PANEL * n + g * width, vectors + g * h + p * RONDE__PANEL,
             (size_t)width * sizeof *packed);
}

static void recurrent_pack_peepholes(recurrent_job *j, float *packed) {
  if (!j->desc->attr.peepholes) return;
  j->peepholes = packed;
  recurrent_pack_vectors(j, j->call->param[ronde__peepholes_at(&j->desc->attr)], 3, packed);
}

/* One panel of an example. */
static void recurrent_one_step(const recurrent_job *j, int64_t n, int64_t k, int64_t p) {
  const ronde__recurrent_state *s = j->s;
  int64_t width = ronde__panel_width(s->h, p), t = recurrent_at(j, k), at = p * RONDE__PANEL;
  float *now = j->now + n * s->h + at, *y = j->call->out[0] + (n * s->t + t) * s->h + at;
  ronde__recurrent_step step = {.h = width,
                                .clip = j->desc->attr.clip,
                                .row = recurrent_row(j, j->call->saved, p, t, n),
                                .y_before = now,
                                .y = y};
  if (j->bias) step.bias = j->bias + at * s->row;
  if (j->peepholes) step.peepholes = j->peepholes + at * 3;
  if (j->sums) step.sums = j->sums + s->g * (at * s->n + n * width);
  if (ronde__recurrent_has_cells(s)) {
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

/* The first half of a step of one panel of an example: what h is reset to. */
static void recurrent_reset_first(const recurrent_job *j, int64_t n, int64_t t, int64_t p) {
  const ronde__recurrent_state *s = j->s;
  int64_t width = ronde__panel_width(s->h, p), at = p * RONDE__PANEL;
  ronde__recurrent_step step = {.h = width,
                                .clip = j->desc->attr.clip,
                                .row = recurrent_row(j, j->call->saved, p, t, n),
                                .bias = j->bias ? j->bias + at * s->row : NULL,
                                .y_before = j->now + n * s->h + at,
                                .reset = j->reset + n * s->h + at};
  if (t < recurrent_length(j, n)) s->cell->reset(j->desc->compute.kernels, &step);
  else memset(step.reset, 0, (size_t)width * sizeof *step.reset);
}

/* Of the gates from `begin` on; now [N][H]: h, or what it is reset to. */
static void recurrent_sums_of_h(const recurrent_job *j, const float *now, int64_t begin, int64_t end, int64_t n0,
                                bool last, int64_t t) {
  const ronde__recurrent_state *s = j->s;
  now += n0 * s->h;
  for (int64_t p = 0; p < ronde__panels_of(s->h); p++)
    for (int64_t g = begin, width = ronde__panel_width(s->h, p); g < end; g++) {
      const ronde__gemm_pair *gemm = &s->sums_of_h[last][ronde__panel_is_narrow(s->h, p)];
      const float *weights = j->w_hh + (g * s->h + p * RONDE__PANEL) * s->h;
      if (j->sums)
        recurrent_multiply(&gemm->set, now, weights,
                           j->sums + s->g * (p * RONDE__PANEL * s->n + n0 * width) + g * width);
      else recurrent_multiply(&gemm->add, now, weights, recurrent_row(j, j->call->saved, p, t, n0) + g * width);
    }
}

/* All sums of h of the examples [n0,n1) at step t. */
static void recurrent_sum_step(const recurrent_job *j, int64_t n0, int64_t n1, bool last, int64_t t) {
  const ronde__recurrent_state *s = j->s;
  if (!s->cell->reset) {
    recurrent_sums_of_h(j, j->now, 0, s->g, n0, last, t);
    return;
  }
  recurrent_sums_of_h(j, j->now, 0, s->g - 1, n0, last, t);
  for (int64_t p = 0; p < ronde__panels_of(s->h); p++)
    for (int64_t n = n0; n < n1; n++) recurrent_reset_first(j, n, t, p);
  recurrent_sums_of_h(j, j->reset, s->g - 1, s->g, n0, last, t);
}

static void recurrent_forward_part(void *arg, int thread, int n_threads) {
  const recurrent_job *j = arg;
  const ronde__recurrent_state *s = j->s;
  int64_t begin, end, h = s->h;
  ronde__thread_chunk(s->n_pieces, thread, n_threads, &begin, &end);
  for (int64_t piece = begin; piece < end; piece++) {
    int64_t n0 = piece * s->piece, n1 = n0 + ronde__min(s->piece, s->n - n0);
    bool last = piece == s->n_pieces - 1;
    int64_t steps = recurrent_steps(j, n0, n1);
    for (int64_t n = n0; n < n1; n++) copy_or_clear(j->now + n * h, recurrent_first(j, 1, n), h);
    for (int64_t k = 0; k < s->t; k++) {
      if (recurrent_at(j, k) < steps) recurrent_sum_step(j, n0, n1, last, recurrent_at(j, k));
      for (int64_t p = 0; p < ronde__panels_of(h); p++)
        for (int64_t n = n0; n < n1; n++) recurrent_one_step(j, n, k, p);
    }
    for (int64_t n = n0; n < n1; n++) {
      memcpy(j->call->out[1] + n * h, j->now + n * h, (size_t)h * sizeof(float));
      if (ronde__recurrent_has_cells(s))
        memcpy(j->call->out[2] + n * h, recurrent_cell(j, n, recurrent_at(j, s->t - 1)), (size_t)h * sizeof(float));
    }
  }
}

ronde_status ronde__recurrent_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  const ronde__recurrent_state *s = state;
  int64_t all = s->g * s->h;
  recurrent_job j = {.desc = desc, .s = s, .call = call, .w_hh = call->work};
  float *bias = j.w_hh + s->h * all, *packed = bias + s->row * s->h;
  float *peepholes = packed + s->row * s->h;
  j.now = peepholes + (desc->attr.peepholes ? 3 * s->h : 0);
  if (desc->attr.bias) {
    j.bias = packed;
    ronde__cell_biases(s->cell, call->param[RONDE__BIAS_IH], call->param[RONDE__BIAS_HH], s->h, bias);
    recurrent_pack_vectors(&j, bias, s->row, packed);
  }
  recurrent_pack_peepholes(&j, peepholes);
  if (!s->cell->adds) j.sums = j.now + s->n * s->h;
  if (s->cell->reset) j.reset = j.now + s->n * s->h;
  j.w_ih = j.now + (1 + (j.reset != NULL) + (j.sums ? s->g : 0)) * s->n * s->h;
  ronde__pool_run(call->pool, recurrent_begin_part, &j);
  ronde__pool_run(call->pool, recurrent_forward_part, &j);
  return RONDE_OK;
}

/* ---- backward ---- */

/* A panel of all rows of weights. */
static void recurrent_pack_columns(const float *w, int64_t rows, int64_t columns, int64_t p, float *packed) {
  int64_t width = ronde__panel_width(columns, p);
  for (int64_t r = 0; r < rows; r++)
    memcpy(packed + r * width, w + r * columns + p * RONDE__PANEL, (size_t)width * sizeof *w);
}

static void recurrent_pack_back_part(void *arg, int thread, int n_threads) {
  const recurrent_job *j = arg;
  const ronde__recurrent_state *s = j->s;
  int64_t rows = s->g * s->h, begin, end;
  ronde__thread_chunk(ronde__panels_of(s->h), thread, n_threads, &begin, &end);
  for (int64_t p = begin; p < end; p++)
    recurrent_pack_columns(j->call->param[RONDE__WEIGHT_HH], rows, s->h, p, j->w_hh + p * RONDE__PANEL * rows);
}

static void copy_to_panels(const recurrent_job *j, const float *from, int64_t columns, int64_t t, int64_t n,
                           float *to) {
  for (int64_t p = 0; p < ronde__panels_of(columns); p++)
    copy_or_clear(recurrent_panel(j, to, columns, p, t, n), from ? from + p * RONDE__PANEL : NULL,
                  ronde__panel_width(columns, p));
}

/* What the gradients of weights read of an example: x, and h before each step, zeros where the example does not take part. */
static void recurrent_find_before(const recurrent_job *j, int64_t n) {
  const ronde__recurrent_state *s = j->s;
  int64_t length = recurrent_length(j, n), first = j->desc->attr.reverse ? length - 1 : 0;
  int64_t from = j->desc->attr.reverse ? 1 : -1;
  for (int64_t t = 0; t < s->t; t++) {
    const float *y = t == first ? recurrent_first(j, 1, n) : j->call->out[0] + (n * s->t + t + from) * s->h;
    copy_to_panels(j, t < length ? y : NULL, s->h, t, n, j->before);
    copy_to_panels(j, j->call->in[0] + (n * s->t + t) * s->f, s->f, t, n, j->x);
  }
}

static void recurrent_one_step_back(const recurrent_job *j, int64_t n, int64_t k, int64_t p) {
  const ronde__recurrent_state *s = j->s;
  int64_t width = ronde__panel_width(s->h, p), t = recurrent_at(j, k), at = p * RONDE__PANEL;
  ronde__recurrent_step step = {.h = width,
                                .clip = j->desc->attr.clip,
                                .row = recurrent_row(j, j->call->saved, p, t, n),
                                .y_before = recurrent_panel(j, j->before, s->h, p, t, n),
                                .dy = j->call->dout[0] ? j->call->dout[0] + (n * s->t + t) * s->h + at : NULL,
                                .dh = recurrent_dh(j, j->dh, p, n),
                                .drow = recurrent_row(j, j->drows, p, t, n)};
  if (t >= recurrent_length(j, n)) {
    memset(step.drow, 0, (size_t)(s->row * width) * sizeof(float));
    return;
  }
  if (ronde__recurrent_has_cells(s)) {
    const float *before = recurrent_cell_before(j, n, k);
    step.cell_before = before ? before + at : NULL;
    step.cell = recurrent_cell(j, n, t) + at;
    step.dcell = j->dcell + n * s->h + at;
    if (j->peepholes) step.peepholes = j->peepholes + at * 3;
  }
  s->cell->backward(j->desc->compute.kernels, &step);
}

/* Over all gates of the examples from n0 on at step t; w: the panel of the weights that c has the columns of. */
static void recurrent_sum_gates(const recurrent_job *j, const ronde__gates_sum *sum, bool last, int64_t t, int64_t n0,
                                const float *w, float *c, bool adds) {
  int64_t wholes = j->s->h / RONDE__PANEL;
  if (sum->wholes.count)
    ronde__gemm_sum(&sum->whole[last], &sum->wholes, sum->wholes.count, recurrent_row(j, j->drows, 0, t, n0), w, c,
                    adds);
  if (sum->narrows.count)
    ronde__gemm_sum(&sum->narrow[last], &sum->narrows, sum->narrows.count, recurrent_row(j, j->drows, wholes, t, n0), w,
                    c, adds || sum->wholes.count);
}

/* The second half: what comes through the product of what h was reset to. */
static void recurrent_reset_back(const recurrent_job *j, int64_t n, int64_t t, int64_t p) {
  const ronde__recurrent_state *s = j->s;
  int64_t width = ronde__panel_width(s->h, p);
  ronde__recurrent_step step = {.h = width,
                                .clip = j->desc->attr.clip,
                                .row = recurrent_row(j, j->call->saved, p, t, n),
                                .y_before = recurrent_panel(j, j->before, s->h, p, t, n),
                                .reset = recurrent_panel(j, j->reset, s->h, p, t, n),
                                .dreset = recurrent_dh(j, j->dreset, p, n),
                                .dh = recurrent_dh(j, j->dh, p, n),
                                .drow = recurrent_row(j, j->drows, p, t, n)};
  if (t < recurrent_length(j, n)) s->cell->reset_back(j->desc->compute.kernels, &step);
  else memset(step.reset, 0, (size_t)width * sizeof *step.reset);
}

/* The k-th step of the examples [n0,n1), which have so many. */
static void recurrent_step_back(const recurrent_job *j, int64_t n0, int64_t n1, bool last, int64_t steps, int64_t k) {
  const ronde__recurrent_state *s = j->s;
  const int64_t t = recurrent_at(j, k), panels = ronde__panels_of(s->h), all = s->g * s->h;
  for (int64_t p = 0; p < panels; p++)
    for (int64_t n = n0; n < n1; n++) recurrent_one_step_back(j, n, k, p);
  for (int64_t p = 0; p < panels && s->cell->reset && t < steps; p++)
    recurrent_sum_gates(j, &s->dreset[ronde__panel_is_narrow(s->h, p)], last, t, n0, j->w_hh + p * RONDE__PANEL * all,
                        recurrent_dh(j, j->dreset, p, n0), false);
  for (int64_t p = 0; p < panels && s->cell->reset; p++)
    for (int64_t n = n0; n < n1; n++) recurrent_reset_back(j, n, t, p);
  for (int64_t p = 0; p < panels && t < steps; p++)
    recurrent_sum_gates(j, &s->dh[ronde__panel_is_narrow(s->h, p)], last, t, n0, j->w_hh + p * RONDE__PANEL * all,
                        recurrent_dh(j, j->dh, p, n0), true);
}

/* Of the first state, from the panels of dh. */
static void recurrent_give_first(const recurrent_job *j, int64_t n) {
  const ronde__recurrent_state *s = j->s;
  const ronde__op_call *call = j->call;
  int states = ronde__recurrent_states(&j->desc->attr);
  for (int64_t p = 0; states > 0 && call->din[1] && p < ronde__panels_of(s->h); p++)
    ronde__gradient_add(j->desc, recurrent_dh(j, j->dh, p, n), call->din[1] + n * s->h + p * RONDE__PANEL,
                        ronde__panel_width(s->h, p), call->accumulate_dinput[1]);
  if (states > 1 && call->din[2])
    ronde__gradient_add(j->desc, j->dcell + n * s->h, call->din[2] + n * s->h, s->h, call->accumulate_dinput[2]);
}

static void recurrent_backward_part(void *arg, int thread, int n_threads) {
  const recurrent_job *j = arg;
  const ronde__recurrent_state *s = j->s;
  const ronde__op_call *call = j->call;
  int64_t begin, end, h = s->h;
  ronde__thread_chunk(s->n_pieces, thread, n_threads, &begin, &end);
  for (int64_t piece = begin; piece < end; piece++) {
    int64_t n0 = piece * s->piece, n1 = n0 + ronde__min(s->piece, s->n - n0);
    bool last = piece == s->n_pieces - 1;
    for (int64_t n = n0; n < n1; n++) {
      for (int64_t p = 0; p < ronde__panels_of(h); p++)
        copy_or_clear(recurrent_dh(j, j->dh, p, n), call->dout[1] ? call->dout[1] + n * h + p * RONDE__PANEL : NULL,
                      ronde__panel_width(h, p));
      if (ronde__recurrent_has_cells(s))
        copy_or_clear(j->dcell + n * h, call->dout[2] ? call->dout[2] + n * h : NULL, h);
      recurrent_find_before(j, n);
    }
    int64_t steps = recurrent_steps(j, n0, n1);
    for (int64_t k = s->t - 1; k >= 0; k--) recurrent_step_back(j, n0, n1, last, steps, k);
    for (int64_t n = n0; n < n1; n++) recurrent_give_first(j, n);
  }
}

/* Of the first rows; those behind them in the same chunk have gradients of zero. */
static void recurrent_sum_rows(const ronde__rows_sum *sum, int64_t a, int64_t b, int64_t rows, const float *d,
                               const float *x, float *dw, bool adds) {
  int64_t chunks = ronde__min(sum->chunks.count, ronde__ceil_div(rows, RONDE__ROWS_CHUNK));
  int64_t done = chunks * RONDE__ROWS_CHUNK;
  int64_t piece = ronde__gemm_piece(&sum->chunk, sum->chunks.count); /* as if there were all */
  if (done) ronde__gemm_sum_by(&sum->chunk, &sum->chunks, chunks, piece, d, x, dw, adds);
  if (rows > done) recurrent_multiply(adds || done ? &sum->rest.add : &sum->rest.set, d + done * a, x + done * b, dw);
}

/* A panel of a gate's peepholes: i and f look at the cell before a step, o at that behind it; g has none. */
static void recurrent_peepholes_of(const recurrent_job *j, int64_t gate, int64_t p) {
  enum { I, F, G, O };
  const ronde__recurrent_state *s = j->s;
  const int at = ronde__peepholes_at(&j->desc->attr);
  int64_t width = ronde__panel_width(s->h, p), first = p * RONDE__PANEL;
  double sums[RONDE__PANEL] = {0};
  if (!j->desc->attr.peepholes || !j->call->dparam[at] || gate == G) return;
  for (int64_t n = 0; n < s->n; n++)
    for (int64_t k = 0; k < s->t; k++) {
      int64_t t = recurrent_at(j, k);
      const float *cell = gate == O ? recurrent_cell(j, n, t) : recurrent_cell_before(j, n, k);
      const float *d = recurrent_row(j, j->drows, p, t, n) + gate * width;
      for (int64_t i = 0; i < width && cell && t < recurrent_length(j, n); i++)
        sums[i] += (double)d[i] * (double)cell[first + i];
    }
  float *to = j->call->dparam[at] + (gate == O ? 2 : gate) * s->h + first;
  for (int64_t i = 0; i < width; i++) to[i] = (float)(sums[i] + (j->call->accumulate_dparam[at] ? (double)to[i] : 0));
}

/* A panel of a gate's rows of both weights, and of both biases; piece: where that of the weights of x is if it is told at once. */
static void recurrent_weights_of(const recurrent_job *j, int64_t rows, int64_t gate, int64_t p, float *piece) {
  const ronde__recurrent_state *s = j->s;
  const ronde__op_call *call = j->call;
  int64_t width = ronde__panel_width(s->h, p), row = gate * s->h + p * RONDE__PANEL;
  bool narrow = ronde__panel_is_narrow(s->h, p);
  float *first = recurrent_row(j, j->drows, p, 0, 0);
  const float *d[] = {first + gate * width, first + s->cell->column[gate] * width};
  const struct {
    const ronde__rows_sum *sums;
    float *x;
    int64_t columns;
  } of[] = {{s->dw_ih[narrow], j->x, s->f},
            {s->dw_hh[narrow], s->cell->reset && gate == s->g - 1 ? j->reset : j->before, s->h}};
  for (int i = RONDE__WEIGHT_IH; i <= RONDE__WEIGHT_HH; i++) {
    int64_t columns = of[i].columns, begin = row * columns;
    bool is_told = i == RONDE__WEIGHT_IH && j->desc->in_pieces;
    float *dw = is_told ? piece : call->dparam[i] ? call->dparam[i] + begin : NULL;
    for (int64_t c = 0; dw && c < ronde__panels_of(columns); c++)
      recurrent_sum_rows(&of[i].sums[ronde__panel_is_narrow(columns, c)], s->row * width,
                         ronde__panel_width(columns, c), rows, d[i], recurrent_panel(j, of[i].x, columns, c, 0, 0),
                         dw + c * RONDE__PANEL, call->accumulate_dparam[i]);
    if (is_told)
      call->listener.final(call->listener.user,
                           &(ronde__gradient){i, (size_t)begin, (size_t)(begin + width * columns), piece, true, NULL});
  }
  for (int b = RONDE__BIAS_IH; b <= RONDE__BIAS_HH && j->desc->attr.bias; b++) {
    float *db = call->dparam[b] ? call->dparam[b] + row : NULL;
    if (db && !call->accumulate_dparam[b]) memset(db, 0, (size_t)width * sizeof *db);
    if (db) j->desc->compute.kernels->column_sums(d[b - RONDE__BIAS_IH], s->row * width, rows, width, db);
  }
}

/* Adds up some panels of gates for all rows, as many at once as stay in cache; c: of the first row. */
static void recurrent_input_of(const recurrent_job *j, const ronde__gemm_pair gemms[2], const ronde__gemm_list *list,
                               int64_t first_panel, int64_t steps, const float *weights, float *c, bool adds) {
  const ronde__recurrent_state *s = j->s;
  int64_t piece = ronde__gemm_piece(&gemms[0], list->count);
  for (int64_t done = 0; done < list->count; done += piece)
    for (int64_t i = 0; i < recurrent_groups(s, steps); i++) {
      row_group at = recurrent_group(s, steps, i);
      ronde__gemm_run(adds || done ? &gemms[at.last].add : &gemms[at.last].set,
                      recurrent_row(j, j->drows, first_panel, at.t, at.n), list->a + done, weights, list->b + done,
                      ronde__min(piece, list->count - done), c + (at.n * s->t + at.t) * s->f);
    }
}

/* The gradient of a panel of x. Steps behind the last group of rows have none. */
static void recurrent_give_input(const recurrent_job *j, int64_t p, int64_t steps, float *weights) {
  const ronde__recurrent_state *s = j->s;
  const ronde__gates_sum *sum = &s->dx[ronde__panel_is_narrow(s->f, p)];
  float *c = j->call->din[0] + p * RONDE__PANEL;
  bool adds = j->call->accumulate_dinput[0];
  int64_t end = s->by_example ? ronde__min(s->t, recurrent_groups_of_line(s, steps) * s->group) : steps;
  recurrent_pack_columns(j->call->param[RONDE__WEIGHT_IH], s->g * s->h, s->f, p, weights);
  recurrent_input_of(j, sum->whole, &sum->wholes, 0, steps, weights, c, adds);
  recurrent_input_of(j, sum->narrow, &sum->narrows, s->h / RONDE__PANEL, steps, weights, c, adds || sum->wholes.count);
  for (int64_t n = 0; n < s->n && !adds; n++)
    for (int64_t t = end; t < s->t; t++)
      memset(c + (n * s->t + t) * s->f, 0, (size_t)ronde__panel_width(s->f, p) * sizeof *c);
}

static void recurrent_input_part(void *arg, int thread, int n_threads) {
  const recurrent_job *j = arg;
  const ronde__recurrent_state *s = j->s;
  int64_t steps = recurrent_steps(j, 0, s->n), begin, end;
  ronde__thread_chunk(ronde__panels_of(s->f), thread, n_threads, &begin, &end);
  for (int64_t p = begin; p < end; p++)
    recurrent_give_input(j, p, steps, j->w_ih + ronde__min(thread, begin) * s->g * s->h * RONDE__PANEL);
}

static void recurrent_weights_part(void *arg, int thread, int n_threads) {
  const recurrent_job *j = arg;
  const ronde__recurrent_state *s = j->s;
  int64_t panels = ronde__panels_of(s->h), steps = recurrent_steps(j, 0, s->n), begin, end;
  ronde__thread_chunk(s->g * panels, thread, n_threads, &begin, &end);
  for (int64_t i = begin; i < end; i++) {
    recurrent_weights_of(j, s->n * steps, i / panels, i % panels,
                         j->pieces + ronde__min(thread, begin) * RONDE__PANEL * s->f);
    recurrent_peepholes_of(j, i / panels, i % panels);
  }
}

ronde_status ronde__recurrent_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  const ronde__recurrent_state *s = state;
  int64_t rows = s->n * s->t;
  recurrent_job j = {.desc = desc, .s = s, .call = call, .drows = call->work};
  j.before = j.drows + rows * s->row * s->h, j.x = j.before + rows * s->h;
  j.dh = j.x + rows * s->f, j.dcell = j.dh + s->n * s->h;
  j.w_hh = j.dcell + s->n * s->h;
  float *peepholes = j.w_hh + s->g * s->h * s->h;
  j.reset = peepholes + (desc->attr.peepholes ? 3 * s->h : 0), j.dreset = j.reset + rows * s->h;
  j.w_ih = s->cell->reset ? j.dreset + s->n * s->h : j.reset;
  j.pieces = j.w_ih + ronde__min(desc->threads, ronde__panels_of(s->f)) * s->g * s->h * RONDE__PANEL;
  recurrent_pack_peepholes(&j, peepholes);
  ronde__pool_run(call->pool, recurrent_pack_back_part, &j);
  ronde__pool_run(call->pool, recurrent_backward_part, &j);
  if (call->din[0]) ronde__pool_run(call->pool, recurrent_input_part, &j); /* in front of an update of the weights */
  ronde__pool_run(call->pool, recurrent_weights_part, &j);
  ronde__lengths_backward(desc, call);
  return RONDE_OK;
}

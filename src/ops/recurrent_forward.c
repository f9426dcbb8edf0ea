/* Recurrent layers over a sequence, one layer and one direction: the forward pass. The products of x with its weights are made
 * for all steps at once; of h there is one product a step, or two where the last gate's is of what the others make of h.
 * Inputs and outputs are ROWS: x is [N][T][F], the output [N][T][H]; cells are saved as [N][T][H].
 * All examples go through the steps side by side, at the same t. One whose length is L takes part at t < L: backwards it
 * waits in its first state until t = L - 1, forwards it stays in its last one, and its outputs behind its end are zero.
 * Steps in which no example of a piece takes part have no products.
 * Examples are shared out among the threads as they go through the steps; for what is multiplied for all steps at once the panels
 * are, and each thread packs the weights of its own. */
#include "ops/recurrent_job.h"

/* What the products of a group with some gates' weights read and write: a piece of the features of its rows, and all sums of theirs. */
static ronde__ahead recurrent_x_ahead(const ronde__recurrent_state *s, ronde__row_group of, const void *x,
                                      int64_t features) {
  const int64_t row = s->f * s->operands->bytes;
  return ronde__recurrent_ahead(of, (const char *)x + (of.n * s->t + of.t) * row, features * s->operands->bytes,
                                s->by_example ? row : s->t * row);
}

static ronde__ahead recurrent_sums_ahead(const ronde__recurrent_state *s, ronde__row_group of, int64_t p,
                                         const float *sums) {
  const int64_t row = s->row * ronde__panel_width(s->h, p) * (int64_t)sizeof *sums;
  return ronde__recurrent_ahead(of, sums + ronde__recurrent_row(s, p, of.t, of.n), row,
                                s->by_example ? s->n * row : row);
}

/* Of one piece of features, of which x has the first: products with the packed weights, of all groups. The first gate's fetch the
 * next group's sums, the others' its rows of x. */
static void recurrent_piece_of_x(const ronde__recurrent_job *j, const ronde__gates_part *part, int64_t steps,
                                 int64_t first, const void *packed) {
  static const uint64_t none = 0;
  const ronde__recurrent_state *s = j->s;
  const bool end = first + s->f_piece >= s->f;
  const int64_t groups = ronde__recurrent_groups(s, steps), features = end ? s->f - first : s->f_piece;
  const void *x = ronde__recurrent_at(s, s->operands->has_copies ? j->w.x_rows : j->call->in[0], first);
  for (int64_t i = 0; i < groups; i++) {
    const ronde__row_group at = ronde__recurrent_group(s, steps, i);
    const ronde__gemm_pair *pair = &s->rows_of_x[at.last][ronde__panel_is_narrow(s->h, part->p)][end];
    float *sums = j->call->saved + ronde__recurrent_row(s, part->p, at.t, at.n);
    ronde__ahead next[2] = {0};
    if (i + 1 < groups) {
      ronde__row_group then = ronde__recurrent_group(s, steps, i + 1);
      next[0] = recurrent_sums_ahead(s, then, part->p, j->call->saved);
      next[1] = recurrent_x_ahead(s, then, x, features);
    }
    for (int64_t g = part->begin; g < part->end; g++)
      ronde__gemm_run_ahead(first ? &pair->add : &pair->set, ronde__recurrent_at(s, x, (at.n * s->t + at.t) * s->f),
                            &none, ronde__recurrent_at(s, packed, (g - part->begin) * s->f_piece * RONDE__PANEL), &none,
                            1, sums + g * ronde__panel_width(s->h, part->p), &next[g > part->begin]);
  }
}

/* The products of the first steps with x, of some gates of a panel. */
static void recurrent_rows_of_x(const ronde__recurrent_job *j, const ronde__gates_part *part, int64_t steps,
                                void *packed) {
  const ronde__recurrent_state *s = j->s;
  const int64_t width = ronde__panel_width(s->h, part->p);
  for (int64_t first = 0; first < s->f; first += s->f_piece) {
    for (int64_t g = part->begin; g < part->end; g++) {
      const float *w = j->call->param[RONDE__WEIGHT_IH] + (g * s->h + part->p * RONDE__PANEL) * s->f + first;
      s->operands->turn(j->desc, w, s->f, width, ronde__min(s->f_piece, s->f - first),
                        ronde__recurrent_at(s, packed, (g - part->begin) * s->f_piece * RONDE__PANEL));
    }
    recurrent_piece_of_x(j, part, steps, first, packed);
  }
}

static void recurrent_copy_x_part(void *arg, int thread, int n_threads) {
  const ronde__recurrent_job *j = arg;
  int64_t n = j->s->n * j->s->t * j->s->f / RONDE__QUANTUM, begin, end;
  ronde__thread_chunk(n, thread, n_threads, &begin, &end);
  begin *= RONDE__QUANTUM, end *= RONDE__QUANTUM;
  ronde__recurrent_copy(j, j->call->in[0] + begin, end - begin, ronde__recurrent_at(j->s, j->w.x_rows, begin));
}

/* Panels of gates' rows of both weights, transposed; those of x for their products alone. */
static void recurrent_begin_part(void *arg, int thread, int n_threads) {
  const ronde__recurrent_job *j = arg;
  const ronde__recurrent_state *s = j->s;
  int64_t steps = ronde__recurrent_steps(j, 0, s->n), begin, end;
  ronde__thread_chunk(s->g * ronde__panels_of(s->h), thread, n_threads, &begin, &end);
  while (begin < end) {
    const ronde__gates_part part = ronde__recurrent_part(s, begin, end);
    for (int64_t g = part.begin; g < part.end; g++) {
      int64_t row = g * s->h + part.p * RONDE__PANEL;
      s->operands->turn(j->desc, j->call->param[RONDE__WEIGHT_HH] + row * s->h, s->h, ronde__panel_width(s->h, part.p),
                        s->h, ronde__recurrent_at(s, j->w.w_hh, row * s->h));
    }
    recurrent_rows_of_x(j, &part, steps,
                        ronde__recurrent_at(s, j->w.w_ih, thread * s->gates_at_once * s->f_piece * RONDE__PANEL));
    begin += part.end - part.begin;
  }
}

/* One panel of an example. */
static void recurrent_one_step(const ronde__recurrent_job *j, int64_t n, int64_t k, int64_t p) {
  const ronde__recurrent_state *s = j->s;
  int64_t width = ronde__panel_width(s->h, p), t = ronde__recurrent_step_at(j, k), at = p * RONDE__PANEL;
  float *now = j->w.now + n * s->h + at, *y = j->call->out[0] + (n * s->t + t) * s->h + at;
  ronde__recurrent_step step = {.h = width,
                                .clip = j->desc->attr.clip,
                                .row = j->call->saved + ronde__recurrent_row(s, p, t, n),
                                .y_before = now,
                                .y = y};
  if (j->w.bias_panels) step.bias = j->w.bias_panels + at * s->row;
  if (j->w.peepholes) step.peepholes = j->w.peepholes + at * 3;
  if (j->w.sums) step.sums = j->w.sums + s->g * (at * s->n + n * width);
  if (ronde__recurrent_has_cells(s)) {
    const float *before = ronde__recurrent_cell_before(j, n, k);
    step.cell_before = before ? before + at : NULL;
    step.cell = ronde__recurrent_cell(j, n, t) + at;
  }
  if (t < ronde__recurrent_length(j, n)) {
    s->cell->forward(j->desc->compute.kernels, &step);
    memcpy(now, y, (size_t)width * sizeof *now);
    return;
  }
  memset(y, 0, (size_t)width * sizeof *y);
  if (step.cell) ronde__copy_or_clear(step.cell, step.cell_before, width);
}

/* The first half of a step of one panel of an example: what h is reset to. */
static void recurrent_reset_first(const ronde__recurrent_job *j, int64_t n, int64_t t, int64_t p) {
  const ronde__recurrent_state *s = j->s;
  int64_t width = ronde__panel_width(s->h, p), at = p * RONDE__PANEL;
  ronde__recurrent_step step = {.h = width,
                                .clip = j->desc->attr.clip,
                                .row = j->call->saved + ronde__recurrent_row(s, p, t, n),
                                .bias = j->w.bias_panels ? j->w.bias_panels + at * s->row : NULL,
                                .y_before = j->w.now + n * s->h + at,
                                .reset = j->w.reset + n * s->h + at};
  if (t < ronde__recurrent_length(j, n)) s->cell->reset(j->desc->compute.kernels, &step);
  else memset(step.reset, 0, (size_t)width * sizeof *step.reset);
}

/* Of the gates from `begin` on; now [N][H]: h, or what it is reset to, and rows its place as operands. */
static void recurrent_sums_of_h(const ronde__recurrent_job *j, const float *now, void *rows, int64_t begin, int64_t end,
                                int64_t n0, int64_t n1, bool last, int64_t t) {
  const ronde__recurrent_state *s = j->s;
  rows = ronde__recurrent_at(s, rows, n0 * s->h);
  ronde__recurrent_copy(j, now + n0 * s->h, (n1 - n0) * s->h, rows);
  for (int64_t i = 0; i < ronde__panels_of(s->h); i++)
    for (int64_t g = begin, p = ronde__recurrent_turn(s, t, i), width = ronde__panel_width(s->h, p); g < end; g++) {
      const ronde__gemm_pair *gemm = &s->sums_of_h[last][ronde__panel_is_narrow(s->h, p)];
      const void *weights = ronde__recurrent_at(s, j->w.w_hh, (g * s->h + p * RONDE__PANEL) * s->h);
      if (j->w.sums)
        ronde__recurrent_multiply(&gemm->set, rows, weights,
                                  j->w.sums + s->g * (p * RONDE__PANEL * s->n + n0 * width) + g * width);
      else
        ronde__recurrent_multiply(&gemm->add, rows, weights,
                                  j->call->saved + ronde__recurrent_row(s, p, t, n0) + g * width);
    }
}

/* All sums of h of the examples [n0,n1) at step t. */
static void recurrent_sum_step(const ronde__recurrent_job *j, int64_t n0, int64_t n1, bool last, int64_t t) {
  const ronde__recurrent_state *s = j->s;
  if (!s->cell->reset) {
    recurrent_sums_of_h(j, j->w.now, j->w.now_rows, 0, s->g, n0, n1, last, t);
    return;
  }
  recurrent_sums_of_h(j, j->w.now, j->w.now_rows, 0, s->g - 1, n0, n1, last, t);
  for (int64_t p = 0; p < ronde__panels_of(s->h); p++)
    for (int64_t n = n0; n < n1; n++) recurrent_reset_first(j, n, t, p);
  recurrent_sums_of_h(j, j->w.reset, j->w.reset_rows, s->g - 1, s->g, n0, n1, last, t);
}

static void recurrent_forward_part(void *arg, int thread, int n_threads) {
  const ronde__recurrent_job *j = arg;
  const ronde__recurrent_state *s = j->s;
  int64_t begin, end, h = s->h;
  ronde__thread_chunk(s->n_pieces, thread, n_threads, &begin, &end);
  for (int64_t piece = begin; piece < end; piece++) {
    int64_t n0 = piece * s->piece, n1 = n0 + ronde__min(s->piece, s->n - n0);
    bool last = piece == s->n_pieces - 1;
    int64_t steps = ronde__recurrent_steps(j, n0, n1);
    for (int64_t n = n0; n < n1; n++) ronde__copy_or_clear(j->w.now + n * h, ronde__recurrent_first(j, 1, n), h);
    for (int64_t k = 0; k < s->t; k++) {
      if (ronde__recurrent_step_at(j, k) < steps) recurrent_sum_step(j, n0, n1, last, ronde__recurrent_step_at(j, k));
      for (int64_t p = 0; p < ronde__panels_of(h); p++)
        for (int64_t n = n0; n < n1; n++) recurrent_one_step(j, n, k, p);
    }
    for (int64_t n = n0; n < n1; n++) {
      memcpy(j->call->out[1] + n * h, j->w.now + n * h, (size_t)h * sizeof(float));
      if (ronde__recurrent_has_cells(s))
        memcpy(j->call->out[2] + n * h, ronde__recurrent_cell(j, n, ronde__recurrent_step_at(j, s->t - 1)),
               (size_t)h * sizeof(float));
    }
  }
}

ronde_status ronde__recurrent_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  const ronde__recurrent_state *s = state;
  ronde__recurrent_job j = {.desc = desc, .s = s, .call = call};
  ronde__recurrent_lay(desc, s, false, call->work, &j.w);
  if (desc->attr.bias) {
    ronde__cell_biases(s->cell, call->param[RONDE__BIAS_IH], call->param[RONDE__BIAS_HH], s->h, j.w.bias);
    ronde__recurrent_pack_vectors(&j, j.w.bias, s->row, j.w.bias_panels);
  }
  ronde__recurrent_pack_peepholes(&j);
  if (s->operands->has_copies) ronde__pool_run(call->pool, recurrent_copy_x_part, &j);
  ronde__pool_run(call->pool, recurrent_begin_part, &j);
  ronde__pool_run(call->pool, recurrent_forward_part, &j);
  return RONDE_OK;
}

/* Recurrent layers over a sequence, one layer and one direction: the backward pass. Gradients go back through the steps, with one
 * product of h a step; then those of x, of the weights and of the biases are made for all steps at once, panel by panel.
 * Lengths and threads: recurrent_forward.c. */
#include "ops/recurrent_job.h"

/* Panel p of all rows of weights, by panels of a gate's rows. */
static void recurrent_pack_columns(const ronde__recurrent_job *j, const float *w, int64_t columns, int64_t p,
                                   void *packed) {
  const ronde__recurrent_state *s = j->s;
  int64_t width = ronde__panel_width(columns, p);
  for (int64_t i = 0; i < s->g * ronde__panels_of(s->h); i++) {
    int64_t panel = i % ronde__panels_of(s->h), row = i / ronde__panels_of(s->h) * s->h + panel * RONDE__PANEL;
    s->operands->columns(j->desc, w + row * columns + p * RONDE__PANEL, columns, ronde__panel_width(s->h, panel), width,
                         ronde__recurrent_at(s, packed, row * width));
  }
}

static void recurrent_pack_back_part(void *arg, int thread, int n_threads) {
  const ronde__recurrent_job *j = arg;
  const ronde__recurrent_state *s = j->s;
  int64_t rows = s->g * s->h, begin, end;
  ronde__thread_chunk(ronde__panels_of(s->h), thread, n_threads, &begin, &end);
  for (int64_t p = begin; p < end; p++)
    recurrent_pack_columns(j, j->call->param[RONDE__WEIGHT_HH], s->h, p,
                           ronde__recurrent_at(s, j->w.w_hh, p * RONDE__PANEL * rows));
}

/* What the gradients of weights read of an example: x, and h before each step, zeros where the example does not take part. */
static void recurrent_find_before(const ronde__recurrent_job *j, int64_t n) {
  const ronde__recurrent_state *s = j->s;
  int64_t length = ronde__recurrent_length(j, n), first = j->desc->attr.reverse ? length - 1 : 0;
  int64_t from = j->desc->attr.reverse ? 1 : -1;
  for (int64_t t = 0; t < s->t; t++) {
    const float *y = t == first ? ronde__recurrent_first(j, 1, n) : j->call->out[0] + (n * s->t + t + from) * s->h;
    const int64_t rows = s->t * s->n, row = t * s->n + n;
    ronde__panels_set(j->w.before, rows, s->h, row, 0, t < length ? y : NULL, s->h);
    ronde__panels_set(j->w.x, rows, s->f, row, 0, j->call->in[0] + (n * s->t + t) * s->f, s->f);
  }
}

static void recurrent_one_step_back(const ronde__recurrent_job *j, int64_t n, int64_t k, int64_t p) {
  const ronde__recurrent_state *s = j->s;
  int64_t width = ronde__panel_width(s->h, p), t = ronde__recurrent_step_at(j, k), at = p * RONDE__PANEL;
  ronde__recurrent_step step = {.h = width,
                                .clip = j->desc->attr.clip,
                                .row = j->call->saved + ronde__recurrent_row(s, p, t, n),
                                .y_before = ronde__recurrent_panel(j, j->w.before, s->h, p, t, n),
                                .dy = j->call->dout[0] ? j->call->dout[0] + (n * s->t + t) * s->h + at : NULL,
                                .dh = ronde__recurrent_dh(j, j->w.dh, p, n),
                                .drow = j->w.drows + ronde__recurrent_row(s, p, t, n)};
  if (t >= ronde__recurrent_length(j, n)) {
    memset(step.drow, 0, (size_t)(s->row * width) * sizeof(float));
    return;
  }
  if (ronde__recurrent_has_cells(s)) {
    const float *before = ronde__recurrent_cell_before(j, n, k);
    step.cell_before = before ? before + at : NULL;
    step.cell = ronde__recurrent_cell(j, n, t) + at;
    step.dcell = j->w.dcell + n * s->h + at;
    if (j->w.peepholes) step.peepholes = j->w.peepholes + at * 3;
  }
  s->cell->backward(j->desc->compute.kernels, &step);
}

/* Over all gates of the examples from n0 on at step t; w: the panel of the weights that c has the columns of. */
static void recurrent_sum_gates(const ronde__recurrent_job *j, const ronde__gates_sum *sum, bool last, int64_t t,
                                int64_t n0, const void *w, float *c, bool adds) {
  const ronde__recurrent_state *s = j->s;
  int64_t wholes = s->h / RONDE__PANEL;
  if (sum->wholes.count)
    ronde__gemm_sum(&sum->whole[last], &sum->wholes, sum->wholes.count,
                    ronde__recurrent_at(s, j->w.drow_rows, ronde__recurrent_row(s, 0, t, n0)), w, c, adds);
  if (sum->narrows.count)
    ronde__gemm_sum(&sum->narrow[last], &sum->narrows, sum->narrows.count,
                    ronde__recurrent_at(s, j->w.drow_rows, ronde__recurrent_row(s, wholes, t, n0)), w, c,
                    adds || sum->wholes.count);
}

/* The second half: what comes through the product of what h was reset to. */
static void recurrent_reset_back(const ronde__recurrent_job *j, int64_t n, int64_t t, int64_t p) {
  const ronde__recurrent_state *s = j->s;
  int64_t width = ronde__panel_width(s->h, p);
  ronde__recurrent_step step = {.h = width,
                                .clip = j->desc->attr.clip,
                                .row = j->call->saved + ronde__recurrent_row(s, p, t, n),
                                .y_before = ronde__recurrent_panel(j, j->w.before, s->h, p, t, n),
                                .reset = ronde__recurrent_panel(j, j->w.reset, s->h, p, t, n),
                                .dreset = ronde__recurrent_dh(j, j->w.dreset, p, n),
                                .dh = ronde__recurrent_dh(j, j->w.dh, p, n),
                                .drow = j->w.drows + ronde__recurrent_row(s, p, t, n)};
  if (t < ronde__recurrent_length(j, n)) s->cell->reset_back(j->desc->compute.kernels, &step);
  else memset(step.reset, 0, (size_t)width * sizeof *step.reset);
}

/* The gradients of a step's rows, to be multiplied. */
static void recurrent_copy_drows(const ronde__recurrent_job *j, int64_t n0, int64_t n1, int64_t t) {
  const ronde__recurrent_state *s = j->s;
  for (int64_t p = 0; p < ronde__panels_of(s->h); p++) {
    int64_t at = ronde__recurrent_row(s, p, t, n0);
    ronde__recurrent_copy(j, j->w.drows + at, ronde__recurrent_row(s, p, t, n1) - at,
                          ronde__recurrent_at(s, j->w.drow_rows, at));
  }
}

/* The k-th step of the examples [n0,n1), which have so many. */
static void recurrent_step_back(const ronde__recurrent_job *j, int64_t n0, int64_t n1, bool last, int64_t steps,
                                int64_t k) {
  const ronde__recurrent_state *s = j->s;
  const int64_t t = ronde__recurrent_step_at(j, k), panels = ronde__panels_of(s->h), all = s->g * s->h;
  for (int64_t p = 0; p < panels; p++)
    for (int64_t n = n0; n < n1; n++) recurrent_one_step_back(j, n, k, p);
  recurrent_copy_drows(j, n0, n1, t);
  for (int64_t p = 0; p < panels && s->cell->reset && t < steps; p++)
    recurrent_sum_gates(j, &s->dreset[ronde__panel_is_narrow(s->h, p)], last, t, n0,
                        ronde__recurrent_at(s, j->w.w_hh, p * RONDE__PANEL * all),
                        ronde__recurrent_dh(j, j->w.dreset, p, n0), false);
  for (int64_t p = 0; p < panels && s->cell->reset; p++)
    for (int64_t n = n0; n < n1; n++) recurrent_reset_back(j, n, t, p);
  if (s->cell->reset) recurrent_copy_drows(j, n0, n1, t);
  for (int64_t i = 0; i < panels && t < steps; i++) {
    int64_t p = ronde__recurrent_turn(s, t, i);
    recurrent_sum_gates(j, &s->dh[ronde__panel_is_narrow(s->h, p)], last, t, n0,
                        ronde__recurrent_at(s, j->w.w_hh, p * RONDE__PANEL * all),
                        ronde__recurrent_dh(j, j->w.dh, p, n0), true);
  }
}

/* Of the first state, from the panels of dh. */
static void recurrent_give_first(const ronde__recurrent_job *j, int64_t n) {
  const ronde__recurrent_state *s = j->s;
  const ronde__op_call *call = j->call;
  int states = ronde__recurrent_states(&j->desc->attr);
  for (int64_t p = 0; states > 0 && call->din[1] && p < ronde__panels_of(s->h); p++)
    ronde__gradient_add(j->desc, ronde__recurrent_dh(j, j->w.dh, p, n), call->din[1] + n * s->h + p * RONDE__PANEL,
                        ronde__panel_width(s->h, p), call->accumulate_dinput[1]);
  if (states > 1 && call->din[2])
    ronde__gradient_add(j->desc, j->w.dcell + n * s->h, call->din[2] + n * s->h, s->h, call->accumulate_dinput[2]);
}

static void recurrent_backward_part(void *arg, int thread, int n_threads) {
  const ronde__recurrent_job *j = arg;
  const ronde__recurrent_state *s = j->s;
  const ronde__op_call *call = j->call;
  int64_t begin, end, h = s->h;
  ronde__thread_chunk(s->n_pieces, thread, n_threads, &begin, &end);
  for (int64_t piece = begin; piece < end; piece++) {
    int64_t n0 = piece * s->piece, n1 = n0 + ronde__min(s->piece, s->n - n0);
    bool last = piece == s->n_pieces - 1;
    for (int64_t n = n0; n < n1; n++) {
      ronde__panels_set(j->w.dh, s->n, h, n, 0, call->dout[1] ? call->dout[1] + n * h : NULL, h);
      if (ronde__recurrent_has_cells(s))
        ronde__copy_or_clear(j->w.dcell + n * h, call->dout[2] ? call->dout[2] + n * h : NULL, h);
      recurrent_find_before(j, n);
    }
    int64_t steps = ronde__recurrent_steps(j, n0, n1);
    for (int64_t k = s->t - 1; k >= 0; k--) recurrent_step_back(j, n0, n1, last, steps, k);
    for (int64_t n = n0; n < n1; n++) recurrent_give_first(j, n);
  }
}

/* Of the first rows; those behind them in the same chunk have gradients of zero. a, b: elements of a row of what is left. */
static void recurrent_sum_rows(const ronde__recurrent_state *s, const ronde__rows_sum *sum, int64_t a, int64_t b,
                               int64_t rows, const void *d, const void *x, float *dw, bool adds) {
  int64_t chunks = ronde__min(sum->chunks.count, ronde__ceil_div(rows, RONDE__ROWS_CHUNK));
  int64_t done = chunks * RONDE__ROWS_CHUNK;
  int64_t piece = ronde__gemm_piece(&sum->chunk, sum->chunks.count); /* as if there were all */
  if (done) ronde__gemm_sum_by(&sum->chunk, &sum->chunks, chunks, piece, d, x, dw, adds, NULL);
  if (rows > done)
    ronde__recurrent_multiply(adds || done ? &sum->rest.add : &sum->rest.set, ronde__recurrent_at(s, d, done * a),
                              ronde__recurrent_at(s, x, done * b), dw);
}

/* The other operands of the weights' gradients, where they are copies. */
static void recurrent_pack_right_part(void *arg, int thread, int n_threads) {
  const ronde__recurrent_job *j = arg;
  const ronde__recurrent_state *s = j->s;
  const int64_t rows = s->n * s->t, padded = ronde__recurrent_padded(s);
  const struct {
    const float *from;
    void *to;
    int64_t columns;
  } of[] = {{j->w.x, j->w.x_right, s->f}, {j->w.before, j->w.before_right, s->h}, {j->w.reset, j->w.reset_right, s->h}};
  for (size_t i = 0; i < RONDE__COUNT(of) && of[i].from; i++) {
    int64_t begin, end;
    ronde__thread_chunk(ronde__panels_of(of[i].columns), thread, n_threads, &begin, &end);
    for (int64_t p = begin; p < end; p++)
      s->operands->right(j->desc, of[i].from + p * RONDE__PANEL * rows, rows, ronde__panel_width(of[i].columns, p),
                         padded, ronde__recurrent_at(s, of[i].to, p * RONDE__PANEL * padded));
  }
}

/* A panel of a gate's peepholes: i and f look at the cell before a step, o at that behind it; g has none. */
static void recurrent_peepholes_of(const ronde__recurrent_job *j, int64_t gate, int64_t p) {
  enum { I, F, G, O };
  const ronde__recurrent_state *s = j->s;
  const int at = ronde__peepholes_at(&j->desc->attr);
  int64_t width = ronde__panel_width(s->h, p), first = p * RONDE__PANEL;
  double sums[RONDE__PANEL] = {0};
  if (!j->desc->attr.peepholes || !j->call->dparam[at] || gate == G) return;
  for (int64_t n = 0; n < s->n; n++)
    for (int64_t k = 0; k < s->t; k++) {
      int64_t t = ronde__recurrent_step_at(j, k);
      const float *cell = gate == O ? ronde__recurrent_cell(j, n, t) : ronde__recurrent_cell_before(j, n, k);
      const float *d = j->w.drows + ronde__recurrent_row(s, p, t, n) + gate * width;
      for (int64_t i = 0; i < width && cell && t < ronde__recurrent_length(j, n); i++)
        sums[i] += (double)d[i] * (double)cell[first + i];
    }
  float *to = j->call->dparam[at] + (gate == O ? 2 : gate) * s->h + first;
  for (int64_t i = 0; i < width; i++) to[i] = (float)(sums[i] + (j->call->accumulate_dparam[at] ? (double)to[i] : 0));
}

/* The operand that a gate's rows d, of a panel, are in the gradients of weights. */
static const void *recurrent_left(const ronde__recurrent_job *j, const float *d, int64_t rows, int64_t width,
                                  void *left) {
  const ronde__recurrent_state *s = j->s;
  if (!s->operands->has_copies) return d;
  s->operands->left(j->desc, d, s->row * width, rows, width, ronde__recurrent_padded(s), left);
  return left;
}

/* A panel of a gate's rows of both weights, and of both biases. The thread's places: left, for a panel of gates' rows; piece, where the
 * gradient of the weights of x is if it is told at once. */
static void recurrent_weights_of(const ronde__recurrent_job *j, int64_t rows, int64_t gate, int64_t p, void *left,
                                 float *piece) {
  const ronde__recurrent_state *s = j->s;
  const ronde__op_call *call = j->call;
  int64_t width = ronde__panel_width(s->h, p), row = gate * s->h + p * RONDE__PANEL;
  int64_t panel_rows = ronde__recurrent_padded(s);
  bool narrow = ronde__panel_is_narrow(s->h, p);
  const float *first = j->w.drows + ronde__recurrent_row(s, p, 0, 0);
  const float *d[] = {first + gate * width, first + s->cell->column[gate] * width};
  const struct {
    const ronde__rows_sum *sums;
    const void *x;
    int64_t columns;
  } of[] = {{s->dw_ih[narrow], j->w.x_right, s->f},
            {s->dw_hh[narrow], s->cell->reset && gate == s->g - 1 ? j->w.reset_right : j->w.before_right, s->h}};
  const void *of_d = NULL;
  for (int i = RONDE__WEIGHT_IH; i <= RONDE__WEIGHT_HH; i++) {
    int64_t columns = of[i].columns, begin = row * columns;
    bool is_told = i == RONDE__WEIGHT_IH && j->desc->in_pieces;
    float *dw = is_told ? piece : call->dparam[i] ? call->dparam[i] + begin : NULL;
    if (dw && (!of_d || d[i] != d[0])) of_d = recurrent_left(j, d[i], rows, width, left);
    for (int64_t c = 0; dw && c < ronde__panels_of(columns); c++)
      recurrent_sum_rows(s, &of[i].sums[ronde__panel_is_narrow(columns, c)], s->row * width,
                         ronde__panel_width(columns, c), rows, of_d,
                         ronde__recurrent_at(s, of[i].x, c * RONDE__PANEL * panel_rows), dw + c * RONDE__PANEL,
                         call->accumulate_dparam[i]);
    if (is_told)
      call->listener.final(call->listener.user, &(ronde__gradient){i, (size_t)begin, (size_t)(begin + width * columns),
                                                                   piece, true, false, NULL});
  }
  for (int b = RONDE__BIAS_IH; b <= RONDE__BIAS_HH && j->desc->attr.bias; b++) {
    float *db = call->dparam[b] ? call->dparam[b] + row : NULL;
    if (db && !call->accumulate_dparam[b]) memset(db, 0, (size_t)width * sizeof *db);
    if (db) j->desc->compute.kernels->column_sums(d[b - RONDE__BIAS_IH], s->row * width, rows, width, db);
  }
}

/* Adds up some panels of gates for all rows, as many at once as stay in cache; c: of the first row. */
static void recurrent_input_of(const ronde__recurrent_job *j, const ronde__gemm_pair gemms[2],
                               const ronde__gemm_list *list, int64_t first_panel, int64_t steps, const void *weights,
                               float *c, bool adds) {
  const ronde__recurrent_state *s = j->s;
  int64_t piece = ronde__gemm_piece(&gemms[0], list->count);
  for (int64_t done = 0; done < list->count; done += piece)
    for (int64_t i = 0; i < ronde__recurrent_groups(s, steps); i++) {
      ronde__row_group at = ronde__recurrent_group(s, steps, i);
      ronde__gemm_run(adds || done ? &gemms[at.last].add : &gemms[at.last].set,
                      ronde__recurrent_at(s, j->w.drow_rows, ronde__recurrent_row(s, first_panel, at.t, at.n)),
                      list->a + done, weights, list->b + done, ronde__min(piece, list->count - done),
                      c + (at.n * s->t + at.t) * s->f);
    }
}

/* The gradient of a panel of x. Steps behind the last group of rows have none. */
static void recurrent_give_input(const ronde__recurrent_job *j, int64_t p, int64_t steps, void *weights) {
  const ronde__recurrent_state *s = j->s;
  const ronde__gates_sum *sum = &s->dx[ronde__panel_is_narrow(s->f, p)];
  float *c = j->call->din[0] + p * RONDE__PANEL;
  bool adds = j->call->accumulate_dinput[0];
  int64_t end = s->by_example ? ronde__min(s->t, ronde__recurrent_groups_of_line(s, steps) * s->group) : steps;
  recurrent_pack_columns(j, j->call->param[RONDE__WEIGHT_IH], s->f, p, weights);
  recurrent_input_of(j, sum->whole, &sum->wholes, 0, steps, weights, c, adds);
  recurrent_input_of(j, sum->narrow, &sum->narrows, s->h / RONDE__PANEL, steps, weights, c, adds || sum->wholes.count);
  for (int64_t n = 0; n < s->n && !adds; n++)
    for (int64_t t = end; t < s->t; t++)
      memset(c + (n * s->t + t) * s->f, 0, (size_t)ronde__panel_width(s->f, p) * sizeof *c);
}

static void recurrent_input_part(void *arg, int thread, int n_threads) {
  const ronde__recurrent_job *j = arg;
  const ronde__recurrent_state *s = j->s;
  int64_t steps = ronde__recurrent_steps(j, 0, s->n), begin, end;
  ronde__thread_chunk(ronde__panels_of(s->f), thread, n_threads, &begin, &end);
  for (int64_t p = begin; p < end; p++)
    recurrent_give_input(j, p, steps,
                         ronde__recurrent_at(s, j->w.w_ih, ronde__min(thread, begin) * s->g * s->h * RONDE__PANEL));
}

static void recurrent_weights_part(void *arg, int thread, int n_threads) {
  const ronde__recurrent_job *j = arg;
  const ronde__recurrent_state *s = j->s;
  int64_t panels = ronde__panels_of(s->h), steps = ronde__recurrent_steps(j, 0, s->n), begin, end;
  ronde__thread_chunk(s->g * panels, thread, n_threads, &begin, &end);
  int64_t own = ronde__min(thread, begin);
  for (int64_t i = begin; i < end; i++) {
    recurrent_weights_of(j, s->n * steps, i / panels, i % panels,
                         ronde__recurrent_at(s, j->w.left, own * RONDE__PANEL * ronde__recurrent_padded(s)),
                         j->w.pieces + own * RONDE__PANEL * s->f);
    recurrent_peepholes_of(j, i / panels, i % panels);
  }
}

ronde_status ronde__recurrent_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  const ronde__recurrent_state *s = state;
  ronde__recurrent_job j = {.desc = desc, .s = s, .call = call};
  ronde__recurrent_lay(desc, s, true, call->work, &j.w);
  ronde__recurrent_pack_peepholes(&j);
  ronde__pool_run(call->pool, recurrent_pack_back_part, &j);
  ronde__pool_run(call->pool, recurrent_backward_part, &j);
  if (call->din[0]) ronde__pool_run(call->pool, recurrent_input_part, &j); /* in front of an update of the weights */
  if (s->operands->has_copies) ronde__pool_run(call->pool, recurrent_pack_right_part, &j);
  ronde__pool_run(call->pool, recurrent_weights_part, &j);
  ronde__lengths_backward(desc, call);
  return RONDE_OK;
}

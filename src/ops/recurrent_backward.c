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

/* What the gradients of one of the two weights are sums of, by gate. */
typedef struct weight_terms {
  const ronde__rows_sum *sums; /* by whether the panel of columns is narrow */
  int64_t columns;
  const void *d[RONDE__MOST_GATES], *x[RONDE__MOST_GATES]; /* the gradients of rows, and what the rows were made of */
  float *dw[RONDE__MOST_GATES];                            /* NULL: not wanted */
} weight_terms;

/* A thread's places. */
typedef struct weight_places {
  void *left;    /* a panel of all rows of each gate, turned, where rows are copied */
  float *pieces; /* the gradients of the weights of x, where these are told at once */
} weight_places;

/* The operand that a gate's rows d, of a panel, are. */
static const void *recurrent_left(const ronde__recurrent_job *j, const float *d, int64_t rows, int64_t width,
                                  void *left) {
  const ronde__recurrent_state *s = j->s;
  if (!s->operands->has_copies) return d;
  s->operands->left(j->desc, d, s->row * width, rows, width, ronde__recurrent_padded(s), left);
  return left;
}

/* Of weight_hh: of_ih are those of the other one, whose copies serve again. */
static weight_terms recurrent_terms(const ronde__recurrent_job *j, const ronde__gates_part *part, int weight,
                                    int64_t rows, const weight_places *to, const weight_terms *of_ih) {
  const ronde__recurrent_state *s = j->s;
  const bool is_ih = weight == RONDE__WEIGHT_IH, is_told = is_ih && j->desc->in_pieces;
  const int64_t width = ronde__panel_width(s->h, part->p), columns = is_ih ? s->f : s->h;
  weight_terms terms = {.sums = (is_ih ? s->dw_ih : s->dw_hh)[ronde__panel_is_narrow(s->h, part->p)],
                        .columns = columns};
  for (int64_t g = part->begin, i = 0; g < part->end; g++, i++) {
    const bool is_reset = s->cell->reset && g == s->g - 1;
    const int64_t column = is_ih ? g : s->cell->column[g];
    if (is_told) terms.dw[i] = to->pieces + i * width * columns;
    else if (j->call->dparam[weight])
      terms.dw[i] = j->call->dparam[weight] + (g * s->h + part->p * RONDE__PANEL) * columns;
    if (!terms.dw[i]) continue;
    terms.x[i] = is_ih ? j->w.x_right : is_reset ? j->w.reset_right : j->w.before_right;
    if (!is_ih && of_ih->dw[i] && column == g) terms.d[i] = of_ih->d[i];
    else
      terms.d[i] = recurrent_left(j, j->w.drows + ronde__recurrent_row(s, part->p, 0, 0) + column * width, rows, width,
                                  ronde__recurrent_at(s, to->left, i * RONDE__PANEL * ronde__recurrent_padded(s)));
  }
  return terms;
}

/* Chunks of rows. */
typedef struct chunk_span {
  int64_t begin, end;
} chunk_span;

/* Panel c of the columns. What a chunk's rows were made of serves all gates while it is in cache, and that of the next panel is
 * fetched. */
static void recurrent_sum_chunks(const ronde__recurrent_job *j, const ronde__gates_part *part, const weight_terms *of,
                                 int64_t c, chunk_span chunks, bool adds) {
  const ronde__recurrent_state *s = j->s;
  const ronde__rows_sum *sum = &of->sums[ronde__panel_is_narrow(of->columns, c)];
  const int64_t panel = RONDE__PANEL * ronde__recurrent_padded(s),
                step = ronde__gemm_piece(&sum->chunk, sum->chunks.count);
  const int64_t chunk = RONDE__ROWS_CHUNK * RONDE__PANEL;
  ronde__ahead next = {.n = c + 1 < ronde__panels_of(of->columns) && of->x[0],
                       .bytes = (chunks.end - chunks.begin) * chunk * s->operands->bytes};
  if (next.n) next.at[0] = ronde__recurrent_at(s, of->x[0], (c + 1) * panel + chunks.begin * chunk);
  for (int64_t k = chunks.begin; k < chunks.end; k += step)
    for (int64_t i = 0; i < part->end - part->begin; i++)
      if (of->dw[i])
        ronde__gemm_run_ahead(adds || k > 0 ? &sum->chunk.add : &sum->chunk.set, of->d[i], sum->chunks.a + k,
                              ronde__recurrent_at(s, of->x[i], c * panel), sum->chunks.b + k,
                              ronde__min(step, chunks.end - k), of->dw[i] + c * RONDE__PANEL, &next);
}

/* The same of the rows behind all chunks. */
static void recurrent_sum_rest(const ronde__recurrent_job *j, const ronde__gates_part *part, const weight_terms *of,
                               int64_t c, bool adds) {
  const ronde__recurrent_state *s = j->s;
  const ronde__rows_sum *sum = &of->sums[ronde__panel_is_narrow(of->columns, c)];
  const int64_t done = sum->chunks.count * RONDE__ROWS_CHUNK, width = ronde__panel_width(of->columns, c);
  for (int64_t i = 0; i < part->end - part->begin; i++)
    if (of->dw[i])
      ronde__recurrent_multiply(adds || done ? &sum->rest.add : &sum->rest.set,
                                ronde__recurrent_at(s, of->d[i], done * s->row * ronde__panel_width(s->h, part->p)),
                                ronde__recurrent_at(s, of->x[i], c * RONDE__PANEL * s->n * s->t + done * width),
                                of->dw[i] + c * RONDE__PANEL);
}

/* The gradients of both weights. Rows behind the first `rows` have gradients of zero. The rows are gone through in blocks, whose
 * gradients stay in cache while what they were made of goes by. */
static void recurrent_weights_of(const ronde__recurrent_job *j, int64_t rows, const ronde__gates_part *part,
                                 const weight_places *to) {
  const ronde__recurrent_state *s = j->s;
  const int64_t all = ronde__recurrent_padded(s) / RONDE__ROWS_CHUNK;
  const int64_t chunks = ronde__min(all, ronde__ceil_div(rows, RONDE__ROWS_CHUNK)), block = s->operands->chunks;
  const bool has_rest = rows > all * RONDE__ROWS_CHUNK;
  const int64_t blocks = ronde__max(1, ronde__ceil_div(chunks, block));
  for (int64_t i = 0; i < blocks; i++) {
    weight_terms terms[2];
    for (int w = RONDE__WEIGHT_IH; w <= RONDE__WEIGHT_HH; w++) {
      const bool adds = j->call->accumulate_dparam[w];
      terms[w] = recurrent_terms(j, part, w, rows, to, terms);
      for (int64_t c = 0; c < ronde__panels_of(terms[w].columns); c++) {
        recurrent_sum_chunks(j, part, &terms[w], c, (chunk_span){i * block, ronde__min(chunks, (i + 1) * block)}, adds);
        if (has_rest && i == blocks - 1) recurrent_sum_rest(j, part, &terms[w], c, adds);
      }
    }
  }
}

static void recurrent_biases_of(const ronde__recurrent_job *j, int64_t rows, int64_t gate, int64_t p) {
  const ronde__recurrent_state *s = j->s;
  const int64_t width = ronde__panel_width(s->h, p), place = gate * s->h + p * RONDE__PANEL;
  const float *first = j->w.drows + ronde__recurrent_row(s, p, 0, 0);
  const int64_t column[] = {gate, s->cell->column[gate]};
  for (int i = 0; i < 2 && j->desc->attr.bias; i++) {
    const int b = RONDE__BIAS_IH + i;
    float *db = j->call->dparam[b] ? j->call->dparam[b] + place : NULL;
    if (db && !j->call->accumulate_dparam[b]) memset(db, 0, (size_t)width * sizeof *db);
    if (db) j->desc->compute.kernels->column_sums(first + column[i] * width, s->row * width, rows, width, db);
  }
}

/* The gradients of the weights of x, from `pieces`. */
static void recurrent_tell(const ronde__recurrent_job *j, const ronde__gates_part *part, const float *pieces) {
  const ronde__recurrent_state *s = j->s;
  const int64_t elems = ronde__panel_width(s->h, part->p) * s->f;
  for (int64_t g = part->begin; g < part->end; g++, pieces += elems) {
    const size_t begin = (size_t)((g * s->h + part->p * RONDE__PANEL) * s->f);
    j->call->listener.final(j->call->listener.user, &(ronde__gradient){RONDE__WEIGHT_IH, begin, begin + (size_t)elems,
                                                                       pieces, true, false, NULL});
  }
}

static void recurrent_weights_part(void *arg, int thread, int n_threads) {
  const ronde__recurrent_job *j = arg;
  const ronde__recurrent_state *s = j->s;
  const int64_t rows = s->n * ronde__recurrent_steps(j, 0, s->n);
  int64_t begin, end;
  ronde__thread_chunk(s->g * ronde__panels_of(s->h), thread, n_threads, &begin, &end);
  const int64_t place = ronde__min(thread, begin) * s->gates_at_once * RONDE__PANEL;
  const weight_places to = {ronde__recurrent_at(s, j->w.left, place * ronde__recurrent_padded(s)),
                            j->w.pieces + place * s->f};
  while (begin < end) {
    const ronde__gates_part part = ronde__recurrent_part(s, begin, end);
    recurrent_weights_of(j, rows, &part, &to);
    if (j->desc->in_pieces) recurrent_tell(j, &part, to.pieces);
    for (int64_t g = part.begin; g < part.end; g++) {
      recurrent_biases_of(j, rows, g, part.p);
      recurrent_peepholes_of(j, g, part.p);
    }
    begin += part.end - part.begin;
  }
}

/* Panels [p, p + count) of the gradient of x, which are made together; packed: the weights that they are products with. */
typedef struct input_part {
  int64_t p, count;
  void *packed;
} input_part;

/* The rows of a group of the gates' panels [p, end). */
static ronde__ahead recurrent_drows_ahead(const ronde__recurrent_job *j, ronde__row_group of, int64_t p, int64_t end) {
  const ronde__recurrent_state *s = j->s;
  const int64_t row = s->row * RONDE__PANEL * s->operands->bytes;
  ronde__ahead ahead = ronde__recurrent_ahead(of, NULL, row, s->by_example ? s->n * row : row);
  for (ahead.n = 0; p < end && ahead.n < RONDE__AHEAD_RANGES; p++)
    ahead.at[ahead.n++] = ronde__recurrent_at(s, j->w.drow_rows, ronde__recurrent_row(s, p, of.t, of.n));
  return ahead;
}

/* Adds up whole panels of gates, or the narrow one, for all groups, as many at once as stay in cache; c: of the first row. */
static void recurrent_input_of(const ronde__recurrent_job *j, const input_part *part, bool narrow, int64_t steps,
                               float *c, bool adds) {
  const ronde__recurrent_state *s = j->s;
  const ronde__gates_sum *sum = &s->dx[ronde__panel_is_narrow(s->f, part->p)];
  const ronde__gemm_pair *gemms = narrow ? sum->narrow : sum->whole;
  const ronde__gemm_list *list = narrow ? &sum->narrows : &sum->wholes;
  const int64_t panel = narrow ? s->h / RONDE__PANEL : 0, groups = ronde__recurrent_groups(s, steps);
  const int64_t piece = ronde__gemm_piece(&gemms[0], list->count);
  for (int64_t done = 0; done < list->count; done += piece)
    for (int64_t i = 0; i < groups; i++) {
      const ronde__row_group at = ronde__recurrent_group(s, steps, i);
      const int64_t terms = ronde__min(piece, list->count - done);
      ronde__ahead next = {0};
      if (!narrow && i + 1 < groups)
        next = recurrent_drows_ahead(j, ronde__recurrent_group(s, steps, i + 1), done / s->g,
                                     ronde__ceil_div(done + terms, s->g));
      for (int64_t k = 0; k < part->count; k++)
        ronde__gemm_run_ahead(adds || done ? &gemms[at.last].add : &gemms[at.last].set,
                              ronde__recurrent_at(s, j->w.drow_rows, ronde__recurrent_row(s, panel, at.t, at.n)),
                              list->a + done, ronde__recurrent_at(s, part->packed, k * ronde__recurrent_packed(s)),
                              list->b + done, terms, c + (at.n * s->t + at.t) * s->f + k * RONDE__PANEL, &next);
    }
}

/* Steps behind the last group of rows have no gradient. */
static void recurrent_give_input(const ronde__recurrent_job *j, const input_part *part, int64_t steps) {
  const ronde__recurrent_state *s = j->s;
  const int64_t first = part->p * RONDE__PANEL, columns = ronde__min(part->count * RONDE__PANEL, s->f - first);
  float *c = j->call->din[0] + first;
  bool adds = j->call->accumulate_dinput[0];
  int64_t end = s->by_example ? ronde__min(s->t, ronde__recurrent_groups_of_line(s, steps) * s->group) : steps;
  for (int64_t k = 0; k < part->count; k++)
    recurrent_pack_columns(j, j->call->param[RONDE__WEIGHT_IH], s->f, part->p + k,
                           ronde__recurrent_at(s, part->packed, k * ronde__recurrent_packed(s)));
  recurrent_input_of(j, part, false, steps, c, adds);
  recurrent_input_of(j, part, true, steps, c, adds || s->h >= RONDE__PANEL);
  for (int64_t n = 0; n < s->n && !adds; n++)
    for (int64_t t = end; t < s->t; t++) memset(c + (n * s->t + t) * s->f, 0, (size_t)columns * sizeof *c);
}

static void recurrent_input_part(void *arg, int thread, int n_threads) {
  const ronde__recurrent_job *j = arg;
  const ronde__recurrent_state *s = j->s;
  const int64_t steps = ronde__recurrent_steps(j, 0, s->n), wholes = s->f / RONDE__PANEL;
  int64_t begin, end;
  ronde__thread_chunk(ronde__panels_of(s->f), thread, n_threads, &begin, &end);
  input_part part = {
      begin, 0,
      ronde__recurrent_at(s, j->w.w_ih, ronde__min(thread, begin) * s->panels_at_once * ronde__recurrent_packed(s))};
  for (; part.p < end; part.p += part.count) {
    part.count = ronde__max(1, ronde__min(s->panels_at_once, ronde__min(end, wholes) - part.p)); /* 1: the narrow one */
    recurrent_give_input(j, &part, steps);
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

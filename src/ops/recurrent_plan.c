/* The products of a recurrent layer, and the memory that it needs. */
#include "kernel/bf16.h"
#include "ops/recurrent_plan.h"

/* Weights in f32 of so many features, and of a panel of all gates, are half of a small second-level cache. */
enum { MOST_FEATURES = 512 };
/* Of fewer rows libxsmm's products of long sums are faster than the own tile's: 1.18 times with 30 rows (Intel Xeon, AVX-512). */
enum { MANY_ROWS = 48 };
/* Of the gradient of x at once: their weights, 512 terms of them, are half of such a cache, too. */
enum { MOST_PANELS = 4 };

void ronde__recurrent_release(const ronde__op_desc *desc, void *opaque) {
  ronde__recurrent_state *s = opaque;
  if (!s) return;
  for (int i = 0; i < 2; i++) {
    ronde__gates_sum *sums[] = {&s->dh[i], &s->dx[i], &s->dreset[i]};
    for (int k = 0; k < 3; k++) {
      ronde__gemm_list_destroy(&sums[k]->wholes);
      ronde__gemm_list_destroy(&sums[k]->narrows);
    }
    for (int k = 0; k < 2; k++) {
      ronde__gemm_list_destroy(&s->dw_ih[i][k].chunks);
      ronde__gemm_list_destroy(&s->dw_hh[i][k].chunks);
    }
  }
  ronde__free(s);
}

/* ---- preparing ---- */

/* Rows of gates' gradients that are multiplied together: how many, by whether they are the last, and how far they lie apart, in
 * rows. */
typedef struct rows {
  int64_t m[2], apart;
} rows;

static rows rows_of_step(const ronde__recurrent_state *s) {
  return (rows){{s->piece, s->n - (s->n_pieces - 1) * s->piece}, 1};
}

static rows rows_of_group(const ronde__recurrent_state *s) {
  int64_t line = ronde__recurrent_line(s), rest = line - (ronde__ceil_div(line, s->group) - 1) * s->group;
  return (rows){{s->group, rest}, s->by_example ? s->n : 1};
}

/* The size of equal pieces, the last one perhaps smaller, of which none is larger than `most`. */
static int64_t even_piece(int64_t n, int64_t most) { return ronde__ceil_div(n, ronde__ceil_div(n, most)); }

/* Of n columns of a matrix of so many rows in panels: what a product takes for the distance of its rows. */
static int64_t panel_apart(const ronde__recurrent_state *s, int64_t rows, int64_t n) {
  return s->operands->has_copies ? rows : n;
}

/* From a row of x, or of its gradient, to the next of its group. */
static int64_t x_apart(const ronde__recurrent_state *s) { return s->by_example ? s->f : s->t * s->f; }

static void make_forward(const ronde__op_desc *desc, ronde__recurrent_state *s) {
  const rows group = rows_of_group(s), step = rows_of_step(s);
  ronde__gemm_pair (*resolve)(const ronde__op_desc *desc, ronde__gemm_shape shape) =
      s->group < MANY_ROWS ? ronde__gemm_pair_resolve : ronde__gemm_pair_tile;
  const int64_t f_rest = s->f - (ronde__ceil_div(s->f, s->f_piece) - 1) * s->f_piece;
  for (int last = 0; last < 2; last++)
    for (int narrow = 0; narrow < 2; narrow++) {
      int n = (int)(narrow ? s->h % RONDE__PANEL : RONDE__PANEL);
      if (n == 0 || (!narrow && s->h < RONDE__PANEL)) continue;
      ronde__gemm_shape x = {.m = (int)group.m[last],
                             .n = n,
                             .lda = x_apart(s),
                             .ldc = group.apart * s->row * n,
                             .operands = s->operands->form};
      ronde__gemm_shape h = {
          .m = (int)step.m[last], .n = n, .k = (int)s->h, .lda = s->h, .operands = s->operands->form};
      h.ldb = panel_apart(s, s->h, n);
      h.ldc = (s->cell->adds ? s->row : s->g) * n;
      for (int end = 0; end < 2; end++) {
        x.k = (int)(end ? f_rest : s->f_piece);
        x.ldb = panel_apart(s, x.k, n);
        s->rows_of_x[last][narrow][end] = resolve(desc, x);
      }
      s->sums_of_h[last][narrow] = ronde__gemm_pair_resolve(desc, h);
    }
}

/* Over the gates from `begin` on, of a panel of n columns: all gates of one panel behind one another, as they lie in a row. A gate's
 * gradient lies at `column` of a row, or at its own place. */
static ronde_status make_gates_sum(const ronde__op_desc *desc, const ronde__recurrent_state *s, const rows *of,
                                   int64_t begin, int64_t end, int64_t n, int64_t ldc, const int *column,
                                   ronde__gates_sum *sum) {
  int64_t wholes = s->h / RONDE__PANEL, rest = s->h % RONDE__PANEL, count = end - begin, bytes = s->operands->bytes;
  RONDE_TRY(ronde__gemm_list_create(count * wholes, &sum->wholes));
  RONDE_TRY(ronde__gemm_list_create(rest ? count : 0, &sum->narrows));
  for (int64_t i = 0; i < count; i++) {
    int64_t g = begin + i, place = column ? column[g] : g;
    for (int64_t p = 0; p < wholes; p++) {
      sum->wholes.a[p * count + i] = (uint64_t)(bytes * (ronde__recurrent_row(s, p, 0, 0) + place * RONDE__PANEL));
      sum->wholes.b[p * count + i] = (uint64_t)(bytes * (g * s->h + p * RONDE__PANEL) * n);
    }
    if (!rest) continue;
    sum->narrows.a[i] = (uint64_t)(bytes * place * rest); /* from the last panel on */
    sum->narrows.b[i] = (uint64_t)(bytes * (g * s->h + wholes * RONDE__PANEL) * n);
  }
  for (int last = 0; last < 2; last++) {
    ronde__gemm_shape shape = {.m = (int)of->m[last],
                               .n = (int)n,
                               .k = RONDE__PANEL,
                               .lda = of->apart * s->row * RONDE__PANEL,
                               .ldb = panel_apart(s, RONDE__PANEL, n),
                               .ldc = ldc,
                               .operands = s->operands->form};
    if (wholes) sum->whole[last] = column ? ronde__gemm_pair_resolve(desc, shape) : ronde__gemm_pair_tile(desc, shape);
    shape.k = (int)rest, shape.lda = of->apart * s->row * rest, shape.ldb = panel_apart(s, rest, n);
    if (rest) sum->narrow[last] = ronde__gemm_pair_resolve(desc, shape);
  }
  return RONDE_OK;
}

/* m columns of gates' rows by n. */
static ronde_status make_rows_sum(const ronde__op_desc *desc, const ronde__recurrent_state *s, int64_t m, int64_t n,
                                  int64_t ldc, ronde__rows_sum *sum) {
  const int64_t rows = ronde__recurrent_padded(s), bytes = s->operands->bytes;
  const bool copies = s->operands->has_copies;
  RONDE_TRY(ronde__gemm_list_create(rows / RONDE__ROWS_CHUNK, &sum->chunks));
  for (int64_t i = 0; i < sum->chunks.count; i++) {
    int64_t first = i * RONDE__ROWS_CHUNK;
    sum->chunks.a[i] = (uint64_t)(bytes * first * (copies ? RONDE__BF16_PANEL : s->row * m));
    sum->chunks.b[i] = (uint64_t)(bytes * first * (copies ? RONDE__BF16_PANEL : n));
  }
  ronde__gemm_shape shape = {.m = (int)m, .n = (int)n, .k = RONDE__ROWS_CHUNK, .ldc = ldc};
  if (copies) shape.lda = rows, shape.ldb = rows, shape.operands = RONDE__OF_BF16_TILES;
  else shape.lda = s->row * m, shape.ldb = n, shape.trans_a = true;
  if (sum->chunks.count) sum->chunk = ronde__gemm_pair_tile(desc, shape);
  shape.k = (int)(rows % RONDE__ROWS_CHUNK);
  if (shape.k) sum->rest = ronde__gemm_pair_resolve(desc, shape);
  return RONDE_OK;
}

/* Columns of a panel that is narrow, or not; 0: there is none. */
static int64_t width_if(int64_t columns, bool narrow) {
  if (narrow) return columns % RONDE__PANEL;
  return columns < RONDE__PANEL ? 0 : RONDE__PANEL;
}

static ronde_status make_backward(const ronde__op_desc *desc, ronde__recurrent_state *s) {
  const int64_t early = s->cell->reset ? s->g - 1 : s->g;
  const rows group = rows_of_group(s), step = rows_of_step(s);
  for (int i = 0; i < 2; i++) {
    int64_t of_h = width_if(s->h, i), of_f = width_if(s->f, i);
    if (of_h) RONDE_TRY(make_gates_sum(desc, s, &step, 0, early, of_h, of_h, s->cell->column, &s->dh[i]));
    if (of_h && early < s->g)
      RONDE_TRY(make_gates_sum(desc, s, &step, early, s->g, of_h, of_h, s->cell->column, &s->dreset[i]));
    if (of_f) RONDE_TRY(make_gates_sum(desc, s, &group, 0, s->g, of_f, x_apart(s), NULL, &s->dx[i]));
    for (int k = 0; k < 2 && of_h; k++) {
      int64_t columns_f = width_if(s->f, k), columns_h = width_if(s->h, k);
      if (columns_f) RONDE_TRY(make_rows_sum(desc, s, of_h, columns_f, s->f, &s->dw_ih[i][k]));
      if (columns_h) RONDE_TRY(make_rows_sum(desc, s, of_h, columns_h, s->h, &s->dw_hh[i][k]));
    }
  }
  return RONDE_OK;
}

ronde_status ronde__recurrent_prepare(const ronde__op_desc *desc, const ronde__recurrent_operands *operands,
                                      void **state_out) {
  const ronde__cell *cell = ronde__cell_of(&desc->attr);
  const ronde__phys *x = &desc->in[0];
  ronde__recurrent_state *s;
  RONDE__ALLOC(s, sizeof *s, "plan of a recurrent layer");
  s->operands = operands;
  s->cell = cell, s->g = cell->gates, s->row = cell->row;
  s->n = x->n, s->t = x->c, s->f = x->w, s->h = desc->attr.out_channels;
  s->piece = ronde__ceil_div(s->n, desc->threads);
  s->n_pieces = ronde__ceil_div(s->n, s->piece);
  s->by_example = s->t >= s->n;
  s->group = even_piece(ronde__recurrent_line(s), operands->most_rows);
  s->f_piece = ronde__min(s->f, ronde__round_up(even_piece(s->f, MOST_FEATURES), operands->feature));
  s->gates_at_once = ronde__min(s->g, ronde__ceil_div(s->g * ronde__panels_of(s->h), desc->threads));
  s->panels_at_once = ronde__min(MOST_PANELS, ronde__ceil_div(ronde__panels_of(s->f), desc->threads));
  make_forward(desc, s);
  ronde_status status = make_backward(desc, s);
  if (status != RONDE_OK) ronde__recurrent_release(desc, s);
  else *state_out = s;
  return status;
}

/* Rows, behind them cells. */
size_t ronde__recurrent_saved(const ronde__op_desc *desc, const void *opaque) {
  const ronde__recurrent_state *s = opaque;
  return (size_t)(s->t * s->n * (s->row + ronde__recurrent_has_cells(s)) * s->h);
}

/* ---- the memory of a call ---- */

/* What is given out of `base`, or only counted where that is NULL. */
typedef struct cursor {
  float *base;
  int64_t taken;
} cursor;

static void *take(cursor *at, int64_t elems, int64_t bytes) {
  float *taken = at->base ? at->base + at->taken : NULL;
  at->taken += ronde__round_up(ronde__ceil_div(elems * bytes, (int64_t)sizeof(float)), RONDE__QUANTUM);
  return taken;
}

static float *take_floats(cursor *at, int64_t elems) { return take(at, elems, sizeof(float)); }

static void lay_forward(const ronde__op_desc *desc, const ronde__recurrent_state *s, cursor *at,
                        ronde__recurrent_scratch *w) {
  const int64_t bytes = s->operands->bytes, now = s->n * s->h;
  w->w_hh = take(at, s->g * s->h * s->h, bytes);
  w->w_ih = take(at, desc->threads * s->gates_at_once * s->f_piece * RONDE__PANEL, bytes);
  if (desc->attr.bias) w->bias = take_floats(at, s->row * s->h), w->bias_panels = take_floats(at, s->row * s->h);
  if (desc->attr.peepholes) w->peepholes = take_floats(at, 3 * s->h);
  w->now_rows = w->now = take_floats(at, now);
  if (!s->cell->adds) w->sums = take_floats(at, s->g * now);
  if (s->cell->reset) w->reset_rows = w->reset = take_floats(at, now);
  if (!s->operands->has_copies) return;
  w->x_rows = take(at, s->n * s->t * s->f, bytes);
  w->now_rows = take(at, now, bytes);
  if (s->cell->reset) w->reset_rows = take(at, now, bytes);
}

static void lay_backward(const ronde__op_desc *desc, const ronde__recurrent_state *s, cursor *at,
                         ronde__recurrent_scratch *w) {
  const int64_t bytes = s->operands->bytes, now = s->n * s->h, rows = s->n * s->t, padded = ronde__recurrent_padded(s);
  const int64_t weights_threads = ronde__min(desc->threads, s->g * ronde__panels_of(s->h));
  const bool copies = s->operands->has_copies;
  w->w_hh = take(at, s->g * s->h * s->h, bytes);
  w->w_ih = take(at, ronde__min(desc->threads, ronde__panels_of(s->f)) * s->panels_at_once * ronde__recurrent_packed(s),
                 bytes);
  w->pieces = take_floats(at, desc->in_pieces ? weights_threads * s->gates_at_once * RONDE__PANEL * s->f : 0);
  w->left = take(at, copies ? weights_threads * s->gates_at_once * RONDE__PANEL * padded : 0, bytes);
  if (desc->attr.peepholes) w->peepholes = take_floats(at, 3 * s->h);
  w->drow_rows = w->drows = take_floats(at, rows * s->row * s->h);
  w->before_right = w->before = take_floats(at, rows * s->h);
  w->x_right = w->x = take_floats(at, rows * s->f);
  w->dh = take_floats(at, now);
  if (ronde__recurrent_has_cells(s)) w->dcell = take_floats(at, now);
  if (s->cell->reset) {
    w->reset_right = w->reset = take_floats(at, rows * s->h);
    w->dreset = take_floats(at, now);
  }
  if (!copies) return;
  w->drow_rows = take(at, rows * s->row * s->h, bytes);
  w->before_right = take(at, padded * s->h, bytes);
  w->x_right = take(at, padded * s->f, bytes);
  if (s->cell->reset) w->reset_right = take(at, padded * s->h, bytes);
}

int64_t ronde__recurrent_lay(const ronde__op_desc *desc, const ronde__recurrent_state *s, bool backward, float *base,
                             ronde__recurrent_scratch *scratch) {
  cursor at = {.base = base};
  *scratch = (ronde__recurrent_scratch){0};
  if (backward) lay_backward(desc, s, &at, scratch);
  else lay_forward(desc, s, &at, scratch);
  return at.taken;
}

size_t ronde__recurrent_work(const ronde__op_desc *desc, const void *opaque, bool backward) {
  ronde__recurrent_scratch unused;
  return (size_t)ronde__recurrent_lay(desc, opaque, backward, NULL, &unused);
}

const char *ronde__recurrent_implementation(const ronde__op_desc *desc, const void *opaque) {
  const ronde__recurrent_state *s = opaque;
  return s->rows_of_x[1][s->h < RONDE__PANEL][1].set.implementation;
}

double ronde__recurrent_executed_flops(const ronde__op_desc *desc, const void *opaque, bool backward) {
  const ronde__recurrent_state *s = opaque;
  double of_x = 2 * (double)(s->n * s->t * s->g * s->h * s->f), of_h = of_x / (double)s->f * (double)s->h;
  if (!backward) return of_x + of_h;
  return of_x * (desc->need_dinput[0] + !desc->frozen[RONDE__WEIGHT_IH]) + of_h * (1 + !desc->frozen[RONDE__WEIGHT_HH]);
}

/* Batches of hypotheses. Searches end at different lengths: what is left moves together, and the batch shrinks by halves, so
 * that the network is planned for few sizes.
 * Legend: W places of either input, V tokens. */
#include "verbs/translator.h"

#include "data/pairs.h"

#include <string.h>

struct ronde__translator {
  ronde__translator_options options;
  int64_t w, v, width, n; /* n sources are under way */
  ronde__beam **beams;    /* [n_sources] */
  int64_t *told;          /* [n_sources], tokens that were told */
  int32_t *rows;          /* [n_sources width][2][W] */
  float *y;               /* [n_sources width][W][V] */
};

bool ronde__translates(const ronde__job *job, int64_t outputs) {
  const ronde__more_inputs *more = &job->more;
  const ronde__shape *shape = &job->shape;
  int64_t v = job->vocabulary;
  return more->n == 1 && !strcmp(more->at[0].name, RONDE__DECODER_INPUT) && shape->rank == 1 &&
         ronde__shape_equal(&more->at[0].shape, shape) && more->at[0].vocabulary == v && v > RONDE__PAIRS_END &&
         v <= 256 && outputs == shape->dim[0] * v;
}

/* ---- made and ended ---- */

static ronde_status fill(ronde__translator *t) {
  size_t sources = (size_t)t->options.n_sources, n = sources * (size_t)t->width;
  const ronde__beam_options search = {.width = t->width,
                                      .vocabulary = t->v,
                                      .most = t->options.most,
                                      .end = RONDE__PAIRS_END,
                                      .length_penalty = t->options.job->options->length_penalty};
  RONDE__ALLOC(t->beams, sources * sizeof *t->beams, "translation");
  memset(t->beams, 0, sources * sizeof *t->beams);
  RONDE__ALLOC(t->told, sources * sizeof *t->told, "translation");
  RONDE__ALLOC(t->rows, n * (size_t)(2 * t->w) * sizeof *t->rows, "translation");
  RONDE__ALLOC(t->y, n * (size_t)(t->w * t->v) * sizeof *t->y, "translation");
  memset(t->rows, 0, n * (size_t)(2 * t->w) * sizeof *t->rows);
  for (size_t i = 0; i < sources; i++) RONDE_TRY(ronde__beam_create(&search, &t->beams[i]));
  return RONDE_OK;
}

ronde_status ronde__translator_create(const ronde__translator_options *options, ronde__translator **translator_out) {
  ronde__translator *t;
  RONDE__ALLOC(t, sizeof *t, "translation");
  *t = (ronde__translator){.options = *options,
                           .w = options->job->shape.dim[0],
                           .v = options->job->vocabulary,
                           .width = options->job->options->beam};
  ronde_status status = fill(t);
  if (status != RONDE_OK) ronde__translator_destroy(t);
  else *translator_out = t;
  return status;
}

void ronde__translator_destroy(ronde__translator *t) {
  if (!t) return;
  for (int64_t i = 0; t->beams && i < t->options.n_sources; i++) ronde__beam_destroy(t->beams[i]);
  ronde__free(t->beams);
  ronde__free(t->told);
  ronde__free(t->rows);
  ronde__free(t->y);
  ronde__free(t);
}

/* ---- token by token ---- */

/* A source, and what a hypothesis has of its target. */
static void write_row(const ronde__translator *t, const int32_t *source, const ronde__beam *beam, int64_t i,
                      int32_t *row) {
  int64_t n = ronde__beam_length(beam);
  int32_t *target = row + t->w;
  memcpy(row, source, (size_t)t->w * sizeof *row);
  target[0] = RONDE__PAIRS_BEGIN;
  memcpy(target + 1, ronde__beam_tokens(beam, i), (size_t)n * sizeof *target);
  for (int64_t k = n + 1; k < t->w; k++) target[k] = RONDE__PAIRS_PADDING;
}

/* How many there are. */
static int64_t write_rows(ronde__translator *t, const int32_t *sources) {
  int64_t n = 0;
  for (int64_t s = 0; s < t->n; s++)
    for (int64_t i = 0; i < ronde__beam_n(t->beams[s]); i++)
      write_row(t, sources + s * 2 * t->w, t->beams[s], i, t->rows + n++ * 2 * t->w);
  return n;
}

/* As a batch has, of which there are few sizes. What is computed beyond n is left from before, and nobody looks at it. */
static int64_t size_for(const ronde__translator *t, int64_t n) {
  int64_t size = t->n * t->width;
  while (size > 1 && ronde__ceil_div(size, 2) >= n) size = ronde__ceil_div(size, 2);
  return size;
}

/* What will not change any more. */
static void tell(ronde__translator *t, int64_t s) {
  bool is_over = ronde__beam_n(t->beams[s]) == 0;
  if (!t->options.tell || (!is_over && t->width > 1)) return;
  ronde__hypothesis best = ronde__beam_best(t->beams[s]);
  for (; t->told[s] < best.n; t->told[s]++) t->options.tell(t->options.user, s, best.tokens[t->told[s]]);
}

static ronde_status step(ronde__translator *t) {
  const float *y = t->y;
  int64_t row = t->w * t->v;
  for (int64_t s = 0; s < t->n; s++) {
    int64_t n = ronde__beam_n(t->beams[s]);
    if (n == 0) continue;
    if (!ronde__beam_step(t->beams[s], y + ronde__beam_length(t->beams[s]) * t->v, row))
      return ronde__fail(RONDE_E_NUMERIC, "%s: the network's output is NaN or Inf", t->options.job->init_path);
    y += n * row;
    tell(t, s);
  }
  return RONDE_OK;
}

ronde_status ronde__translator_run(ronde__translator *t, int64_t n, const int32_t *rows) {
  t->n = n;
  for (int64_t s = 0; s < n; s++) {
    ronde__beam_begin(t->beams[s]);
    t->told[s] = 0;
  }
  for (int64_t n_rows; (n_rows = write_rows(t, rows)) > 0;) {
    if (t->options.cancel && t->options.cancel(t->options.user)) return RONDE_E_CANCELLED;
    RONDE_TRY(t->options.run(t->options.user, size_for(t, n_rows), t->rows, t->y));
    RONDE_TRY(step(t));
  }
  return RONDE_OK;
}

ronde__hypothesis ronde__translator_result(const ronde__translator *t, int64_t source) {
  return ronde__beam_best(t->beams[source]);
}

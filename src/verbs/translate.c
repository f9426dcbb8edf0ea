/* A text that a network translates. It sees the source whole, and of the target what has been told so far; the likeliest
 * token becomes the next one, until that is the end. Each token costs a pass over the whole window.
 * Legend: W places of either input, V tokens. */
#include "verbs/translate.h"

#include "base/json.h"
#include "data/pairs.h"
#include "job/normalize.h"
#include "state/predictor.h"

#include <math.h>
#include <string.h>

typedef struct translation {
  ronde__job *job;
  ronde_predictor *predictor;
  int64_t w, v, n; /* n tokens are told */
  float *x, *y;    /* [2][W], [W][V] */
  char *told;      /* [W + 1] */
} translation;

/* ---- set-up ---- */

static ronde_status translation_check_options(const ronde__job *job) {
  RONDE_TRY(ronde__config_settle(job->config, RONDE__NEED_CLASSES, false));
  RONDE_TRY(ronde__config_settle(job->config, RONDE__NEED_ARRAYS, false));
  RONDE_TRY(ronde__config_settle(job->config, RONDE__NEED_IMAGE_FILES, false));
  RONDE_TRY(ronde__config_settle(job->config, RONDE__NEED_DRAWN, false));
  if (job->options->input || ronde__is_empty(job->options->prompt))
    return ronde__fail(RONDE_E_USAGE, "%s translates a text: --prompt TEXT says which", job->init_path);
  return RONDE_OK;
}

/* A source and a target of bytes, as pairs:FILE has them. */
static ronde_status translation_check_network(const translation *x) {
  const ronde__more_inputs *more = &x->job->more;
  const ronde__shape *shape = &x->job->shape;
  bool translates = more->n == 1 && !strcmp(more->at[0].name, RONDE__DECODER_INPUT) && shape->rank == 1 &&
                    ronde__shape_equal(&more->at[0].shape, shape) && more->at[0].vocabulary == x->v && x->v <= 256 &&
                    ronde_predictor_outputs(x->predictor) == shape->dim[0] * x->v;
  if (translates) return RONDE_OK;
  return ronde__fail(RONDE_E_USAGE, "%s: it has several inputs, but does not translate bytes", x->job->init_path);
}

static ronde_status translation_open(translation *x) {
  ronde__normalization normalization;
  RONDE_TRY(translation_check_options(x->job));
  RONDE_TRY(ronde__normalize_input(x->job, &normalization));
  RONDE_TRY(ronde__predictor_create(x->job, NULL, NULL, &normalization, &x->predictor));
  x->v = x->job->vocabulary;
  x->w = x->job->shape.dim[0];
  RONDE_TRY(translation_check_network(x));
  RONDE__ALLOC(x->x, (size_t)(2 * x->w) * sizeof *x->x, "translation");
  RONDE__ALLOC(x->y, (size_t)(x->w * x->v) * sizeof *x->y, "translation");
  RONDE__ALLOC(x->told, (size_t)x->w + 1, "translation");
  return RONDE_OK;
}

static void translation_close(translation *x) {
  ronde_predictor_destroy(x->predictor);
  ronde__free(x->x);
  ronde__free(x->y);
  ronde__free(x->told);
}

/* As pairs_set.c writes an example; its target has only begun. */
static ronde_status translation_read_source(translation *x) {
  const char *prompt = x->job->options->prompt;
  int64_t n = (int64_t)strlen(prompt);
  if (n >= x->w)
    return ronde__fail(RONDE_E_USAGE, "--prompt has %lld bytes, and %s reads at most %lld", (long long)n,
                       x->job->init_path, (long long)x->w - 1);
  for (int64_t i = 0; i < n; i++) {
    unsigned char byte = (unsigned char)prompt[i];
    if (byte == RONDE__PAIRS_BEGIN || byte == RONDE__PAIRS_END || byte >= x->v)
      return ronde__fail(RONDE_E_USAGE, "--prompt: byte %lld is %d, which no text that %s translates has",
                         (long long)i + 1, byte, x->job->init_path);
    x->x[i] = (float)byte;
  }
  x->x[n] = RONDE__PAIRS_END;
  for (int64_t i = n + 1; i < 2 * x->w; i++) x->x[i] = RONDE__PAIRS_PADDING;
  x->x[x->w] = RONDE__PAIRS_BEGIN;
  return RONDE_OK;
}

/* ---- token by token ---- */

/* Of equally likely tokens the first. */
static ronde_status translation_next(translation *x, int64_t *token_out) {
  const float *logits = x->y + x->n * x->v;
  int64_t best = 0;
  RONDE_TRY(ronde_predictor_run(x->predictor, 1, x->x, x->y));
  for (int64_t k = 0; k < x->v; k++) {
    if (!isfinite(logits[k]))
      return ronde__fail(RONDE_E_NUMERIC, "%s: the network's output is NaN or Inf", x->job->init_path);
    if (logits[k] > logits[best]) best = k;
  }
  *token_out = best;
  return RONDE_OK;
}

static void translation_tell(const translation *x, int64_t token) {
  if (x->job->hooks.token) x->job->hooks.token(x->job->hooks.user, token);
}

static ronde_status translation_run(translation *x) {
  const ronde_hooks *hooks = &x->job->hooks;
  int64_t most = ronde__min(x->w - 1, x->job->options->tokens);
  RONDE_TRY(translation_read_source(x));
  translation_tell(x, RONDE__PAIRS_BEGIN);
  for (int64_t token = 0; x->n < most; x->n++) {
    if (hooks->cancel && hooks->cancel(hooks->user)) return RONDE_E_CANCELLED;
    RONDE_TRY(translation_next(x, &token));
    if (token == RONDE__PAIRS_END) break;
    x->told[x->n] = (char)token;
    x->x[x->w + x->n + 1] = (float)token;
    translation_tell(x, token);
  }
  return RONDE_OK;
}

static ronde_status translation_report(const translation *x, char **json_out) {
  json_t *tokens = json_array();
  for (int64_t i = 0; i < x->n; i++) json_array_append_new(tokens, json_integer((unsigned char)x->told[i]));
  return ronde__json_give(json_pack("{s:o, s:o, s:o}", "prompt", ronde__json_text(x->job->options->prompt), "text",
                                    ronde__json_text(x->told), "tokens", tokens),
                          "result", json_out);
}

ronde_status ronde__text_translate(ronde__job *job, char **json_out) {
  translation x = {.job = job};
  ronde_status status = translation_open(&x);
  if (status == RONDE_OK) status = translation_run(&x);
  if (status == RONDE_OK && json_out) status = translation_report(&x, json_out);
  translation_close(&x);
  return status;
}

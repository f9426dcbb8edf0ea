/* A text that a network translates: what it has said so far, or several hypotheses of it (translator.h), until its end.
 * Legend: W places of either input. */
#include "verbs/translate.h"

#include "base/json.h"
#include "data/pairs.h"
#include "job/normalize.h"
#include "state/predictor.h"
#include "verbs/translator.h"

#include <string.h>

typedef struct translation {
  ronde__job *job;
  ronde_predictor *predictor;
  ronde__translator *translator;
  int64_t w;
  int32_t *source; /* [2][W] */
  float *x;        /* [beam][2][W], what the predictor takes */
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

static ronde_status translation_open_network(translation *x) {
  ronde__normalization normalization;
  RONDE_TRY(translation_check_options(x->job));
  RONDE_TRY(ronde__normalize_input(x->job, &normalization));
  RONDE_TRY(ronde__predictor_create(x->job, NULL, NULL, &normalization, &x->predictor));
  if (ronde__translates(x->job, ronde_predictor_outputs(x->predictor))) return RONDE_OK;
  return ronde__fail(RONDE_E_USAGE, "%s: it has several inputs, but does not translate bytes", x->job->init_path);
}

/* ronde__translator_options.run: a predictor takes the numbers of tokens as floats. */
static ronde_status translation_predict(void *user, int64_t n, const int32_t *rows, float *y_out) {
  const translation *x = user;
  for (int64_t i = 0; i < n * 2 * x->w; i++) x->x[i] = (float)rows[i];
  return ronde_predictor_run(x->predictor, n, x->x, y_out);
}

static void translation_tell(void *user, int64_t source, int32_t token) {
  const ronde_hooks *hooks = &((const translation *)user)->job->hooks;
  const char byte = (char)token;
  if (hooks->token) hooks->token(hooks->user, token);
  if (hooks->text) hooks->text(hooks->user, &byte, 1);
}

static bool translation_is_cancelled(void *user) {
  const ronde_hooks *hooks = &((const translation *)user)->job->hooks;
  return hooks->cancel && hooks->cancel(hooks->user);
}

static ronde_status translation_open(translation *x) {
  RONDE_TRY(translation_open_network(x));
  x->w = x->job->shape.dim[0];
  const ronde__translator_options options = {.job = x->job,
                                             .n_sources = 1,
                                             .most = ronde__min(x->w - 1, x->job->options->tokens),
                                             .run = translation_predict,
                                             .tell = translation_tell,
                                             .cancel = translation_is_cancelled,
                                             .user = x};
  RONDE__ALLOC(x->source, (size_t)(2 * x->w) * sizeof *x->source, "translation");
  RONDE__ALLOC(x->x, (size_t)(x->job->options->beam * 2 * x->w) * sizeof *x->x, "translation");
  return ronde__translator_create(&options, &x->translator);
}

static void translation_close(translation *x) {
  ronde__translator_destroy(x->translator);
  ronde_predictor_destroy(x->predictor);
  ronde__free(x->source);
  ronde__free(x->x);
}

/* As pairs_set.c writes an example; the target is the translator's. */
static ronde_status translation_read_source(translation *x) {
  const char *prompt = x->job->options->prompt;
  int64_t n = (int64_t)strlen(prompt);
  if (n >= x->w)
    return ronde__fail(RONDE_E_USAGE, "--prompt has %lld bytes, and %s reads at most %lld", (long long)n,
                       x->job->init_path, (long long)x->w - 1);
  for (int64_t i = 0; i < n; i++) {
    unsigned char byte = (unsigned char)prompt[i];
    if (byte == RONDE__PAIRS_BEGIN || byte == RONDE__PAIRS_END || byte >= x->job->vocabulary)
      return ronde__fail(RONDE_E_USAGE, "--prompt: byte %lld is %d, which no text that %s translates has",
                         (long long)i + 1, byte, x->job->init_path);
    x->source[i] = byte;
  }
  x->source[n] = RONDE__PAIRS_END;
  for (int64_t i = n + 1; i < x->w; i++) x->source[i] = RONDE__PAIRS_PADDING;
  return RONDE_OK;
}

/* ---- the translation ---- */

static ronde_status translation_run(translation *x) {
  RONDE_TRY(translation_read_source(x));
  translation_tell(x, 0, RONDE__PAIRS_BEGIN);
  return ronde__translator_run(x->translator, 1, x->source);
}

static ronde_status translation_report(const translation *x, char **json_out) {
  ronde__hypothesis best = ronde__translator_result(x->translator, 0);
  json_t *tokens = json_array();
  char *text = ronde__alloc((size_t)best.n + 1);
  if (!text) return json_decref(tokens), ronde__fail(RONDE_E_MEMORY, "translation: no memory for its text");
  for (int64_t i = 0; i < best.n; i++) {
    text[i] = (char)best.tokens[i];
    json_array_append_new(tokens, json_integer(best.tokens[i]));
  }
  text[best.n] = '\0';
  json_t *result = json_pack("{s:o, s:o, s:o, s:b, s:f, s:f}", "prompt", ronde__json_text(x->job->options->prompt),
                             "text", ronde__json_text(text), "tokens", tokens, "complete", (int)best.is_complete,
                             "log_probability", best.log_p, "score", best.score);
  ronde__free(text);
  return ronde__json_give(result, "result", json_out);
}

ronde_status ronde__text_translate(ronde__job *job, char **json_out) {
  translation x = {.job = job};
  ronde_status status = translation_open(&x);
  if (status == RONDE_OK) status = translation_run(&x);
  if (status == RONDE_OK && json_out) status = translation_report(&x, json_out);
  translation_close(&x);
  return status;
}

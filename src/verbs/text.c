/* A text that a network continues: what it tells at the last place of the text so far is drawn from, becomes the next token, a byte
 * or one of the weights' vocabulary, and so on. Each token costs a pass over as many of the last ones as the network's input has.
 * Sources: sampling by temperature, Ackley, Hinton & Sejnowski, "A learning algorithm for Boltzmann machines", 1985; among the
 * likeliest k, Fan, Lewis & Dauphin, "Hierarchical neural story generation", 2018.
 * Legend: T places of the input, V tokens. */
#include "verbs/text.h"

#include "base/json.h"
#include "base/rng.h"
#include "data/bpe.h"
#include "job/normalize.h"
#include "state/predictor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct choice {
  float logit;
  int64_t token;
} choice;

typedef struct text {
  ronde__job *job;
  ronde_predictor *predictor;
  ronde__bpe *bpe; /* NULL: tokens are bytes */
  int64_t t, v, n; /* of the T places the first n hold tokens */
  float *x, *y;    /* [T], [T][V] */
  choice *choices; /* [V] */
  ronde__rng rng;
  int32_t *told; /* [tokens] */
  char byte;
} text;

/* ---- set-up ---- */

static ronde_status text_check_options(const ronde__job *job) {
  RONDE_TRY(ronde__config_settle(job->config, RONDE__NEED_CLASSES, false));
  RONDE_TRY(ronde__config_settle(job->config, RONDE__NEED_ARRAYS, false));
  RONDE_TRY(ronde__config_settle(job->config, RONDE__NEED_IMAGE_FILES, false));
  if (job->options->input)
    return ronde__fail(RONDE_E_USAGE, "%s continues a text: give --prompt TEXT in place of %s", job->init_path,
                       job->options->input);
  if (!job->options->prompt)
    return ronde__fail(RONDE_E_USAGE, "%s continues a text: --prompt TEXT says how it begins", job->init_path);
  if (job->model && job->model->mask > 0)
    return ronde__fail(RONDE_E_USAGE, "%s: %s tells tokens that are hidden from it, and continues no text",
                       job->init_path, job->model->name);
  if (job->vocabulary > 256 && !ronde__safetensors_meta(job->init, RONDE__META_MERGES))
    return ronde__fail(RONDE_E_USAGE, "%s: only tokens that are bytes make a text, and it knows %lld of them",
                       job->init_path, (long long)job->vocabulary);
  return RONDE_OK;
}

static ronde_status text_check_network(const text *x) {
  int64_t dims[RONDE_MAX_RANK];
  int rank = ronde_predictor_shape(x->predictor, dims);
  if (rank == 1 && ronde_predictor_outputs(x->predictor) == dims[0] * x->v) return RONDE_OK;
  return ronde__fail(RONDE_E_USAGE, "%s: it does not tell a next token at each place of a sequence", x->job->init_path);
}

/* Of the weights. */
static ronde_status text_open_vocabulary(text *x) {
  const char *merges = ronde__safetensors_meta(x->job->init, RONDE__META_MERGES);
  ronde__stream *stream;
  if (!merges) return RONDE_OK;
  RONDE_TRY(ronde__stream_open_memory(x->job->init_path, merges, strlen(merges), &stream));
  ronde_status status = ronde__bpe_read(stream, &x->bpe);
  ronde__stream_close(stream);
  if (status != RONDE_OK || ronde__bpe_size(x->bpe) == x->v) return status;
  return ronde__fail(RONDE_E_INPUT, "%s: its vocabulary has %lld tokens, but the network reads %lld", x->job->init_path,
                     (long long)ronde__bpe_size(x->bpe), (long long)x->v);
}

static ronde_status text_open(text *x) {
  ronde__normalization normalization;
  int64_t dims[RONDE_MAX_RANK];
  RONDE_TRY(text_check_options(x->job));
  RONDE_TRY(ronde__normalize_input(x->job, &normalization));
  RONDE_TRY(ronde__predictor_create(x->job, NULL, NULL, &normalization, &x->predictor));
  x->v = x->job->vocabulary;
  RONDE_TRY(text_check_network(x));
  RONDE_TRY(text_open_vocabulary(x));
  ronde_predictor_shape(x->predictor, dims);
  x->t = dims[0];
  x->rng = ronde__rng_make((uint64_t)x->job->options->token_seed, RONDE__STREAM_TOKENS);
  RONDE__ALLOC(x->x, (size_t)x->t * sizeof *x->x, "text");
  RONDE__ALLOC(x->y, (size_t)(x->t * x->v) * sizeof *x->y, "text");
  RONDE__ALLOC(x->choices, (size_t)x->v * sizeof *x->choices, "text");
  RONDE__ALLOC(x->told, (size_t)x->job->options->tokens * sizeof *x->told, "text");
  return RONDE_OK;
}

static void text_close(text *x) {
  ronde_predictor_destroy(x->predictor);
  ronde__bpe_destroy(x->bpe);
  ronde__free(x->x);
  ronde__free(x->y);
  ronde__free(x->choices);
  ronde__free(x->told);
}

/* Behind the others; where all places are taken the first token goes. */
static void text_append(text *x, int64_t token) {
  if (x->n == x->t) memmove(x->x, x->x + 1, (size_t)--x->n * sizeof *x->x);
  x->x[x->n++] = (float)token;
}

static ronde_status text_read_tokens(text *x) {
  const char *prompt = x->job->options->prompt;
  size_t n = strlen(prompt);
  int32_t *tokens;
  RONDE__ALLOC(tokens, n * sizeof *tokens, "text");
  int64_t n_tokens = ronde__bpe_encode(x->bpe, prompt, (int64_t)n, tokens);
  for (int64_t i = 0; i < n_tokens; i++) text_append(x, tokens[i]);
  ronde__free(tokens);
  return RONDE_OK;
}

static ronde_status text_read_prompt(text *x) {
  const char *prompt = x->job->options->prompt;
  if (x->bpe) return text_read_tokens(x);
  for (int64_t i = 0; prompt[i]; i++) {
    int64_t token = (unsigned char)prompt[i];
    if (token >= x->v)
      return ronde__fail(RONDE_E_INPUT, "--prompt: byte %lld is %lld, but %s knows 0 to %lld", (long long)i,
                         (long long)token, x->job->init_path, (long long)x->v - 1);
    text_append(x, token);
  }
  return RONDE_OK;
}

/* ---- token by token ---- */

/* The logits at the last place that holds a token; the places behind it hold `filler`. */
static ronde_status text_logits(text *x, float filler, const float **logits_out) {
  for (int64_t i = x->n; i < x->t; i++) x->x[i] = filler;
  RONDE_TRY(ronde_predictor_run(x->predictor, 1, x->x, x->y));
  *logits_out = x->y + (x->n - 1) * x->v;
  for (int64_t k = 0; k < x->v; k++)
    if (!isfinite((*logits_out)[k]))
      return ronde__fail(RONDE_E_NUMERIC, "%s: the network's output is NaN or Inf", x->job->init_path);
  return RONDE_OK;
}

/* What lies behind a place must not be seen there: it is not known yet. */
static ronde_status text_check_causal(text *x) {
  const float *logits;
  RONDE_TRY(text_logits(x, 0, &logits));
  for (int64_t k = 0; k < x->v; k++) x->choices[k].logit = logits[k];
  RONDE_TRY(text_logits(x, (float)(x->v - 1), &logits));
  for (int64_t k = 0; k < x->v; k++)
    if (x->choices[k].logit != logits[k])
      return ronde__fail(RONDE_E_USAGE,
                         "%s: what it tells at a place depends on the tokens behind it: it continues no text",
                         x->job->init_path);
  return RONDE_OK;
}

static int text_by_logit(const void *a, const void *b) {
  const choice *x = a, *y = b;
  if (x->logit != y->logit) return x->logit < y->logit ? 1 : -1;
  return x->token < y->token ? -1 : 1;
}

static int64_t text_draw(text *x, const float *logits) {
  const ronde__options *o = x->job->options;
  int64_t n = o->top_k ? ronde__min(o->top_k, x->v) : x->v;
  double sum = 0, at = 0;
  for (int64_t k = 0; k < x->v; k++) x->choices[k] = (choice){logits[k], k};
  qsort(x->choices, (size_t)x->v, sizeof *x->choices, text_by_logit);
  if (o->temperature <= 0) return x->choices[0].token;
  double most = (double)x->choices[0].logit;
  for (int64_t k = 0; k < n; k++) sum += exp(((double)x->choices[k].logit - most) / o->temperature);
  double drawn = (double)ronde__rng_uniform(&x->rng) * sum;
  for (int64_t k = 0; k < n - 1; k++) {
    at += exp(((double)x->choices[k].logit - most) / o->temperature);
    if (drawn < at) return x->choices[k].token;
  }
  return x->choices[n - 1].token;
}

/* What a token stands for, [n], until the next call. */
static const char *text_bytes(text *x, int64_t token, int64_t *n_out) {
  if (x->bpe) return ronde__bpe_token(x->bpe, token, n_out);
  x->byte = (char)token;
  *n_out = 1;
  return &x->byte;
}

static ronde_status text_run(text *x) {
  const ronde_hooks *hooks = &x->job->hooks;
  const float *logits;
  RONDE_TRY(text_read_prompt(x));
  RONDE_TRY(text_check_causal(x));
  for (int64_t i = 0; i < x->job->options->tokens; i++) {
    if (hooks->cancel && hooks->cancel(hooks->user)) return RONDE_E_CANCELLED;
    RONDE_TRY(text_logits(x, 0, &logits));
    int64_t token = text_draw(x, logits);
    text_append(x, token);
    x->told[i] = (int32_t)token;
    int64_t n;
    const char *bytes = text_bytes(x, token, &n);
    if (hooks->token) hooks->token(hooks->user, token);
    if (hooks->text) hooks->text(hooks->user, bytes, n);
  }
  return RONDE_OK;
}

static ronde_status text_tell(text *x, char **json_out) {
  int64_t n_all = 0, n, at = 0, n_told = x->job->options->tokens;
  char *all;
  for (int64_t i = 0; i < n_told; i++, n_all += n) text_bytes(x, x->told[i], &n);
  RONDE__ALLOC(all, (size_t)n_all + 1, "text");
  json_t *tokens = json_array();
  for (int64_t i = 0; i < n_told; i++, at += n) {
    const char *bytes = text_bytes(x, x->told[i], &n);
    memcpy(all + at, bytes, (size_t)n);
    json_array_append_new(tokens, json_integer(x->told[i]));
  }
  json_t *json = json_pack("{s:o, s:o, s:o}", "prompt", ronde__json_text(x->job->options->prompt), "text",
                           ronde__json_text(all), "tokens", tokens);
  ronde__free(all);
  return ronde__json_give(json, "result", json_out);
}

ronde_status ronde__text_continue(ronde__job *job, char **json_out) {
  text x = {.job = job};
  ronde_status status = text_open(&x);
  if (status == RONDE_OK) status = text_run(&x);
  if (status == RONDE_OK && json_out) status = text_tell(&x, json_out);
  text_close(&x);
  return status;
}

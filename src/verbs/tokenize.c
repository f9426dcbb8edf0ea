/* The public call that learns a vocabulary. */
#include "base/json.h"
#include "config/config.h"
#include "data/bpe.h"
#include "data/set.h"
#include "io/file.h"

#include <stdlib.h>
#include <string.h>

typedef struct tokenize {
  const ronde__options *options;
  char *text; /* [n] */
  int64_t n;
  ronde__bpe *bpe;
} tokenize;

/* What is for data that are opened. */
static ronde_status tokenize_check(const ronde_config *config) {
  const ronde__options *o = ronde__config_options(config);
  static const ronde__need lacking[] = {RONDE__NEED_ARRAYS,        RONDE__NEED_COLUMNS,     RONDE__NEED_TEXT,
                                        RONDE__NEED_STORED_IMAGES, RONDE__NEED_IMAGE_FILES, RONDE__NEED_TOKENIZED,
                                        RONDE__NEED_DOWNLOAD};
  if (config->verb != RONDE__VERB_DATA) return ronde__fail(RONDE_E_USAGE, "a configuration of \"data\" is needed");
  for (size_t i = 0; i < RONDE__COUNT(lacking); ++i) RONDE_TRY(ronde__config_settle(config, lacking[i], false));
  if (!o->data) return ronde__fail(RONDE_E_USAGE, "a text is needed: FILE");
  if (!o->output) return ronde__fail(RONDE_E_USAGE, "a file to write to is needed: --output VOCAB");
  return RONDE_OK;
}

static ronde_status tokenize_learn(tokenize *t) {
  const char *name = t->options->data;
  if (!strncmp(name, "text:", strlen("text:"))) name += strlen("text:");
  RONDE_TRY(ronde__text_train_bytes(name, &t->text, &t->n));
  if (t->n == 0) return ronde__fail(RONDE_E_INPUT, "%s: the text is empty", name);
  return ronde__bpe_learn(t->text, t->n, t->options->vocabulary, &t->bpe);
}

static ronde_status tokenize_write(const tokenize *t) {
  char *text = ronde__bpe_text(t->bpe);
  if (!text) return ronde__fail(RONDE_E_MEMORY, "%s: no memory", t->options->output);
  ronde_status status = ronde__file_replace(t->options->output, text, strlen(text));
  free(text);
  return status;
}

static ronde_status tokenize_tell(const tokenize *t, char **json_out) {
  int32_t *tokens;
  RONDE__ALLOC(tokens, (size_t)t->n * sizeof *tokens, "vocabulary");
  int64_t n = ronde__bpe_encode(t->bpe, t->text, t->n, tokens);
  ronde__free(tokens);
  return ronde__json_give(json_pack("{s:o, s:I, s:I, s:I, s:f}", "file", ronde__json_text(t->options->output),
                                    "vocabulary", (json_int_t)ronde__bpe_size(t->bpe), "bytes", (json_int_t)t->n,
                                    "tokens", (json_int_t)n, "bytes_per_token", (double)t->n / (double)n),
                          "result", json_out);
}

ronde_status ronde_data_tokenize(const ronde_config *config, char **json_out) {
  tokenize t = {.options = ronde__config_options(config)};
  RONDE_TRY(tokenize_check(config));
  ronde_status status = tokenize_learn(&t);
  if (status == RONDE_OK && ronde__bpe_size(t.bpe) < t.options->vocabulary)
    ronde__log(RONDE_LOG_WARNING, "%s: no other pair of tokens occurs twice: the vocabulary has %lld tokens, not %lld",
               t.options->output, (long long)ronde__bpe_size(t.bpe), (long long)t.options->vocabulary);
  if (status == RONDE_OK) status = tokenize_write(&t);
  if (status == RONDE_OK) status = tokenize_tell(&t, json_out);
  ronde__bpe_destroy(t.bpe);
  ronde__free(t.text);
  return status;
}

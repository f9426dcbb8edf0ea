/* Vocabularies of byte pairs: the first byte says how long a text in front of the file is. By a vocabulary that is accepted the
 * text comes back from its tokens, and written it says the same again; one that is learnt from the text does too. */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "data/bpe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds) {
  if (!holds) abort();
}

static ronde__bpe *read_vocabulary(const void *data, size_t n) {
  ronde__stream *stream;
  ronde__bpe *bpe = NULL;
  if (ronde__stream_open_memory("input", data, n, &stream) != RONDE_OK) return NULL;
  ronde__bpe_read(stream, &bpe);
  ronde__stream_close(stream);
  return bpe;
}

static void check_text(const ronde__bpe *bpe, const char *text, int64_t n) {
  int32_t *tokens = malloc(((size_t)n + 1) * sizeof *tokens);
  require(tokens != NULL);
  int64_t n_tokens = ronde__bpe_encode(bpe, text, n, tokens), at = 0, length;
  for (int64_t i = 0; i < n_tokens; ++i, at += length) {
    require(tokens[i] >= 0 && tokens[i] < ronde__bpe_size(bpe));
    const char *bytes = ronde__bpe_token(bpe, tokens[i], &length);
    require(length > 0 && length <= n - at && !memcmp(text + at, bytes, (size_t)length));
  }
  require(at == n);
  free(tokens);
}

static void check_vocabulary(const ronde__bpe *bpe, const char *text, int64_t n) {
  char *file = ronde__bpe_text(bpe);
  require(file != NULL);
  ronde__bpe *again = read_vocabulary(file, strlen(file));
  require(again && ronde__bpe_size(again) == ronde__bpe_size(bpe));
  char *file_again = ronde__bpe_text(again);
  require(file_again && !strcmp(file, file_again));
  check_text(bpe, text, n);
  free(file);
  free(file_again);
  ronde__bpe_destroy(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ronde__bpe *bpe;
  if (size == 0) return 0;
  int64_t n = ronde__min(data[0], (int64_t)size - 1);
  const char *text = (const char *)data + 1;
  require(ronde__bpe_learn(text, n, 256 + n, &bpe) == RONDE_OK);
  check_vocabulary(bpe, text, n);
  ronde__bpe_destroy(bpe);
  bpe = read_vocabulary(text + n, size - 1 - (size_t)n);
  if (bpe) check_vocabulary(bpe, text, n);
  ronde__bpe_destroy(bpe);
  return 0;
}

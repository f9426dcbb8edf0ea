/* Pairs of texts, plain or gzip: the first byte says how long a text may be. */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "data/columns.h"
#include "data/pairs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds) {
  if (!holds) abort();
}

static void check_text(const char *text, int64_t window) {
  require(text[0] && (int64_t)strlen(text) < window && !strpbrk(text, "\t\n") && ronde__is_utf8(text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ronde__stream *stream;
  ronde__pairs *pairs;
  ronde__pair_of_texts pair;
  int64_t window = size ? 1 + data[0] % 40 : 1, line = 0;
  bool any = true;
  if (size == 0 || ronde__stream_open_memory("input", data + 1, size - 1, &stream) != RONDE_OK) return 0;
  require(ronde__pairs_open(stream, window, &pairs) == RONDE_OK);
  while (ronde__pairs_next(pairs, &pair, &any) == RONDE_OK && any) {
    check_text(pair.source, window);
    check_text(pair.target, window);
    require(pair.line > line);
    line = pair.line;
  }
  ronde__pairs_close(pairs);
  ronde__stream_close(stream);
  return 0;
}

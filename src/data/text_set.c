/* A text as tokens for language modelling: each byte is one, and what is to be told is the byte behind it. The last tenth of
 * the file is the test split. Either split is cut into windows side by side, as long as --window says; what the last one has
 * beyond the end is ignored. Legend: T bytes of a window. */
#include "data/set.h"

#include <string.h>

/* Where a split's bytes lie in the file. */
typedef struct text_range {
  int64_t begin, end;
} text_range;

static text_range text_part(int64_t bytes, int split) {
  int64_t tested = bytes - bytes / 10;
  return split == RONDE_SPLIT_TRAIN ? (text_range){0, tested} : (text_range){tested, bytes};
}

/* The last byte is told, but tells nothing. */
static int64_t text_windows(text_range part, int64_t window) {
  int64_t n = part.end - part.begin - 1;
  return n > 0 ? ronde__ceil_div(n, window) : 0;
}

static ronde_status text_measure(const ronde__set *set, ronde__stream *stream, ronde__facts *facts) {
  int64_t bytes;
  RONDE_TRY(ronde__stream_measure(stream, INT64_MAX - 1, &bytes));
  *facts = (ronde__facts){.dims = {set->window, 1, 1}, .is_table = 1, .are_tokens = 1, .label_elems = set->window};
  for (int split = 0; split < 2; ++split) facts->n[split] = text_windows(text_part(bytes, split), set->window);
  facts->label_bytes[0] = facts->label_bytes[1] = 1;
  facts->label_offset[RONDE_SPLIT_TEST] = text_part(bytes, RONDE_SPLIT_TEST).begin;
  if (facts->n[RONDE_SPLIT_TRAIN]) return RONDE_OK;
  return ronde__fail(RONDE_E_INPUT, "%s: offset %lld: a text of at least two bytes is needed",
                     ronde__stream_name(stream), (long long)bytes);
}

static ronde_status text_scan(const ronde__set *set, ronde__facts *facts_out) {
  ronde__stream *stream;
  RONDE_TRY(ronde__stream_open(set->x_path[RONDE_SPLIT_TRAIN], &stream));
  ronde_status status = text_measure(set, stream, facts_out);
  ronde__stream_close(stream);
  return status;
}

static ronde_status text_skip(ronde__stream *stream, int64_t bytes) {
  char passed[4096];
  for (int64_t left = bytes; left > 0; left -= (int64_t)sizeof passed)
    RONDE_TRY(ronde__stream_read(stream, passed, ronde__min(left, (int64_t)sizeof passed)));
  return RONDE_OK;
}

static ronde_status text_read(const ronde__set *set, const ronde__facts *facts, int split, ronde__stream *stream,
                              uint8_t *x, int64_t *labels) {
  ronde__facts now;
  int64_t bytes, all = facts->n[split] * set->window;
  RONDE_TRY(text_measure(set, stream, &now));
  if (now.n[0] != facts->n[0] || now.n[1] != facts->n[1])
    return ronde__fail(RONDE_E_INPUT, "%s: the file changed while it was in use", ronde__stream_name(stream));
  RONDE_TRY(ronde__stream_measure(stream, INT64_MAX - 1, &bytes));
  text_range part = text_part(bytes, split);
  int64_t told = part.end - part.begin - 1;
  uint8_t last;
  RONDE_TRY(text_skip(stream, part.begin));
  RONDE_TRY(ronde__stream_read(stream, x, told));
  RONDE_TRY(ronde__stream_read(stream, &last, 1));
  memset(x + told, 0, (size_t)(all - told));
  for (int64_t i = 0; i < all; ++i) labels[i] = i + 1 < told ? x[i + 1] : i + 1 == told ? last : RONDE_IGNORED;
  return RONDE_OK;
}

static ronde_status text_fill(const ronde__set *set, const ronde__facts *facts, ronde_split split, void *x,
                              int64_t *labels, float *targets) {
  ronde__stream *stream;
  RONDE_TRY(ronde__stream_open(set->x_path[RONDE_SPLIT_TRAIN], &stream));
  ronde_status status = text_read(set, facts, split, stream, x, labels);
  ronde__stream_close(stream);
  return status;
}

const ronde__set_kind ronde__text_kind = {text_scan, text_fill};

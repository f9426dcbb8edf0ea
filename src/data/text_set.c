/* A text as tokens for language modelling: each byte is one, or what a vocabulary makes of bytes (bpe.h), and what is to be told
 * is the token behind it. The last tenth of the file's bytes is the test split. Either split is cut into windows as long as
 * --window says, side by side, or overlapping where they begin every --stride tokens: then those that the window in front has
 * told already are read and not told. What the last one has beyond the end is ignored. Legend: T tokens of a window. */
#include "data/bpe.h"
#include "data/set.h"

#include <string.h>

/* Where a split's bytes lie in the file. */
typedef struct text_range {
  int64_t begin, end;
} text_range;

/* A split's tokens: one of the two. */
typedef struct text_tokens {
  uint8_t *bytes;
  int32_t *numbers;
  int64_t n;
} text_tokens;

static text_range text_part(int64_t bytes, int split) {
  int64_t tested = bytes - bytes / 10;
  return split == RONDE_SPLIT_TRAIN ? (text_range){0, tested} : (text_range){tested, bytes};
}

/* The last token is told, but tells nothing. */
static int64_t text_windows(const ronde__set *set, int64_t n) {
  if (n < 2) return 0;
  return 1 + ronde__ceil_div(ronde__max(n - 1 - set->window, 0), set->stride);
}

ronde_status ronde__text_take_stride(const ronde__data_options *options, ronde__set *set) {
  if (set->kind != &ronde__text_kind) return RONDE_OK;
  set->stride = options->stride ? options->stride : set->window;
  if (set->stride <= set->window) return RONDE_OK;
  return ronde__fail(RONDE_E_USAGE, "--stride %lld would leave out tokens between windows of %lld (--window)",
                     (long long)options->stride, (long long)set->window);
}

/* ---- tokens ---- */

ronde_status ronde__text_take_vocabulary(const ronde__data_options *options, ronde__set *set) {
  ronde__stream *stream;
  const char *known = options->merges;
  if (set->kind != &ronde__text_kind || (!options->tokenizer && !known)) return RONDE_OK;
  if (options->tokenizer) RONDE_TRY(ronde__stream_open(options->tokenizer, &stream));
  else RONDE_TRY(ronde__stream_open_memory("the vocabulary of the weights", known, strlen(known), &stream));
  ronde_status status = ronde__bpe_read(stream, &set->bpe);
  ronde__stream_close(stream);
  if (status == RONDE_OK) set->classes = ronde__bpe_size(set->bpe);
  return status;
}

static void text_release(text_tokens *t) {
  ronde__free(t->bytes);
  ronde__free(t->numbers);
}

static ronde_status text_skip(ronde__stream *stream, int64_t bytes) {
  char passed[4096];
  for (int64_t left = bytes; left > 0; left -= (int64_t)sizeof passed)
    RONDE_TRY(ronde__stream_read(stream, passed, ronde__min(left, (int64_t)sizeof passed)));
  return RONDE_OK;
}

static ronde_status text_encode(const ronde__set *set, text_tokens *t) {
  if (!set->bpe) return RONDE_OK;
  RONDE__ALLOC(t->numbers, (size_t)t->n * sizeof *t->numbers, set->name);
  t->n = ronde__bpe_encode(set->bpe, (const char *)t->bytes, t->n, t->numbers);
  return RONDE_OK;
}

/* Those of a file of so many bytes. */
static ronde_status text_take(const ronde__set *set, ronde__stream *stream, int64_t bytes, int split, text_tokens *t) {
  text_range part = text_part(bytes, split);
  *t = (text_tokens){.n = part.end - part.begin};
  RONDE_TRY(ronde__stream_rewind(stream));
  RONDE__ALLOC(t->bytes, (size_t)t->n, set->name);
  ronde_status status = text_skip(stream, part.begin);
  if (status == RONDE_OK) status = ronde__stream_read(stream, t->bytes, t->n);
  if (status == RONDE_OK) status = text_encode(set, t);
  if (status != RONDE_OK) text_release(t);
  return status;
}

static ronde_status text_take_train(ronde__stream *stream, text_tokens *t) {
  const ronde__set of_bytes = {.name = (char *)(uintptr_t)ronde__stream_name(stream)};
  int64_t bytes;
  RONDE_TRY(ronde__stream_measure(stream, INT64_MAX - 1, &bytes));
  return text_take(&of_bytes, stream, bytes, RONDE_SPLIT_TRAIN, t);
}

ronde_status ronde__text_train_bytes(const char *path, char **bytes_out, int64_t *n_out) {
  ronde__stream *stream;
  text_tokens t;
  RONDE_TRY(ronde__stream_open(path, &stream));
  ronde_status status = text_take_train(stream, &t);
  ronde__stream_close(stream);
  RONDE_TRY(status);
  *bytes_out = (char *)t.bytes;
  *n_out = t.n;
  return RONDE_OK;
}

/* ---- the set ---- */

/* How many tokens a split has. */
static ronde_status text_count(const ronde__set *set, ronde__stream *stream, int64_t bytes, int split, int64_t *n_out) {
  text_tokens t;
  text_range part = text_part(bytes, split);
  if (!set->bpe) return *n_out = part.end - part.begin, RONDE_OK;
  RONDE_TRY(text_take(set, stream, bytes, split, &t));
  *n_out = t.n;
  text_release(&t);
  return RONDE_OK;
}

static ronde_status text_measure(const ronde__set *set, ronde__stream *stream, ronde__facts *facts) {
  int64_t bytes, n;
  RONDE_TRY(ronde__stream_measure(stream, INT64_MAX - 1, &bytes));
  *facts = (ronde__facts){
      .dims = {set->window, 1, 1}, .is_table = 1, .are_tokens = 1, .f32 = set->bpe != NULL, .label_elems = set->window};
  for (int split = 0; split < 2; ++split) {
    RONDE_TRY(text_count(set, stream, bytes, split, &n));
    facts->n[split] = text_windows(set, n);
  }
  facts->label_bytes[0] = facts->label_bytes[1] = 1;
  facts->label_offset[RONDE_SPLIT_TEST] = text_part(bytes, RONDE_SPLIT_TEST).begin;
  if (facts->n[RONDE_SPLIT_TRAIN]) return RONDE_OK;
  return ronde__fail(RONDE_E_INPUT, "%s: offset %lld: a text of at least two %s is needed", ronde__stream_name(stream),
                     (long long)bytes, set->bpe ? "tokens" : "bytes");
}

static ronde_status text_scan(const ronde__set *set, ronde__facts *facts_out) {
  ronde__stream *stream;
  RONDE_TRY(ronde__stream_open(set->x_path[RONDE_SPLIT_TRAIN], &stream));
  ronde_status status = text_measure(set, stream, facts_out);
  ronde__stream_close(stream);
  return status;
}

static int64_t text_at(const text_tokens *t, int64_t i) { return t->numbers ? t->numbers[i] : t->bytes[i]; }

/* A window that begins at a token, of which so many were told before: x and labels [T], the last of which may lie beyond the end. */
static void text_write_window(const text_tokens *t, int64_t begin, int64_t told, int64_t window, void *x,
                              int64_t *labels) {
  int64_t n = ronde__min(t->n - 1 - begin, window);
  size_t item = t->numbers ? sizeof *t->numbers : 1;
  memcpy(x, t->numbers ? (const void *)(t->numbers + begin) : t->bytes + begin, (size_t)n * item);
  memset((char *)x + (size_t)n * item, 0, (size_t)(window - n) * item);
  for (int64_t i = 0; i < window; ++i) labels[i] = i >= told && i < n ? text_at(t, begin + i + 1) : RONDE_IGNORED;
}

/* x and labels [windows][T]. */
static void text_write(const ronde__set *set, const text_tokens *t, int64_t windows, char *x, int64_t *labels) {
  int64_t w = set->window, overlap = w - set->stride;
  size_t item = t->numbers ? sizeof *t->numbers : 1;
  for (int64_t i = 0; i < windows; ++i)
    text_write_window(t, i * set->stride, i ? overlap : 0, w, x + (size_t)(i * w) * item, labels + i * w);
}

static ronde_status text_read(const ronde__set *set, const ronde__facts *facts, int split, ronde__stream *stream,
                              void *x, int64_t *labels) {
  text_tokens t;
  int64_t bytes;
  RONDE_TRY(ronde__stream_measure(stream, INT64_MAX - 1, &bytes));
  RONDE_TRY(text_take(set, stream, bytes, split, &t));
  bool same = text_windows(set, t.n) == facts->n[split];
  if (same) text_write(set, &t, facts->n[split], x, labels);
  text_release(&t);
  if (same) return RONDE_OK;
  return ronde__fail(RONDE_E_INPUT, "%s: the file changed while it was in use", ronde__stream_name(stream));
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

/* Pairs of texts as examples for translation. Every tenth pair is a test example, because lists of words are in order. An
 * example is the source and its end, then, as the second input, a beginning and the target; what is to be told is the target
 * and its end. Each of the three is filled up to the window: with padding, the labels with RONDE_IGNORED.
 * Legend: W bytes of the window. */
#include "data/pairs.h"
#include "data/set.h"

#include <string.h>

enum { TEST_EVERY = 10 };

static bool is_test(int64_t pair) { return pair % TEST_EVERY == TEST_EVERY - 1; }

static ronde_status pairs_count(const ronde__set *set, ronde__pairs *pairs, ronde__facts *facts) {
  ronde__pair_of_texts pair;
  bool any = true;
  *facts = (ronde__facts){.dims = {2 * set->window, 1, 1},
                          .is_table = 1,
                          .are_tokens = 1,
                          .label_elems = set->window,
                          .label_bytes = {1, 1}};
  for (int64_t i = 0; any; i += any) {
    RONDE_TRY(ronde__pairs_next(pairs, &pair, &any));
    if (any) ++facts->n[is_test(i) ? RONDE_SPLIT_TEST : RONDE_SPLIT_TRAIN];
  }
  facts->n_skipped = ronde__pairs_n_long(pairs);
  if (facts->n[RONDE_SPLIT_TRAIN]) return RONDE_OK;
  return ronde__fail(RONDE_E_INPUT, "%s: there is no pair of texts that are shorter than --window %lld",
                     set->x_path[RONDE_SPLIT_TRAIN], (long long)set->window);
}

static ronde_status pairs_scan(const ronde__set *set, ronde__facts *facts_out) {
  ronde__stream *stream;
  ronde__pairs *pairs = NULL;
  RONDE_TRY(ronde__stream_open(set->x_path[RONDE_SPLIT_TRAIN], &stream));
  ronde_status status = ronde__pairs_open(stream, set->window, &pairs);
  if (status == RONDE_OK) status = pairs_count(set, pairs, facts_out);
  ronde__pairs_close(pairs);
  ronde__stream_close(stream);
  return status;
}

/* x [2][W] and labels [W] hold padding. */
static void write_pair(const ronde__pair_of_texts *pair, int64_t window, uint8_t *x, int64_t *labels) {
  size_t n_source = strlen(pair->source), n_target = strlen(pair->target);
  uint8_t *target = x + window;
  memcpy(x, pair->source, n_source);
  x[n_source] = RONDE__PAIRS_END;
  target[0] = RONDE__PAIRS_BEGIN;
  memcpy(target + 1, pair->target, n_target);
  for (size_t t = 0; t < n_target; ++t) labels[t] = target[t + 1];
  labels[n_target] = RONDE__PAIRS_END;
}

static ronde_status pairs_read(const ronde__set *set, const ronde__facts *facts, ronde_split split, ronde__pairs *pairs,
                               uint8_t *x, int64_t *labels) {
  ronde__pair_of_texts pair;
  int64_t w = set->window, n = 0;
  bool any = true;
  memset(x, RONDE__PAIRS_PADDING, (size_t)(facts->n[split] * 2 * w));
  for (int64_t i = 0; i < facts->n[split] * w; ++i) labels[i] = RONDE_IGNORED;
  for (int64_t i = 0; any; ++i) {
    RONDE_TRY(ronde__pairs_next(pairs, &pair, &any));
    if (!any || is_test(i) != (split == RONDE_SPLIT_TEST)) continue;
    if (n < facts->n[split]) write_pair(&pair, w, x + n * 2 * w, labels + n * w);
    ++n;
  }
  if (n == facts->n[split]) return RONDE_OK;
  return ronde__fail(RONDE_E_INPUT, "%s: the file changed while it was in use", set->x_path[RONDE_SPLIT_TRAIN]);
}

static ronde_status pairs_fill(const ronde__set *set, const ronde__facts *facts, ronde_split split, void *x,
                               int64_t *labels, float *targets) {
  ronde__stream *stream;
  ronde__pairs *pairs = NULL;
  RONDE_TRY(ronde__stream_open(set->x_path[RONDE_SPLIT_TRAIN], &stream));
  ronde_status status = ronde__pairs_open(stream, set->window, &pairs);
  if (status == RONDE_OK) status = pairs_read(set, facts, split, pairs, x, labels);
  ronde__pairs_close(pairs);
  ronde__stream_close(stream);
  return status;
}

const ronde__set_kind ronde__pairs_kind = {pairs_scan, pairs_fill};

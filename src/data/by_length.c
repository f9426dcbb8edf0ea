/* Batches of examples of similar length, so that little of a batch is padding. The shuffled order of an epoch is cut into
 * stretches of many batches. Each is sorted by length and cut into batches, whose order is shuffled again: so an
 * example's batch is still drawn, from a stretch's worth of neighbours. Within a batch the lengths are spread out evenly,
 * so that workers, which take it in contiguous parts, have equal work.
 * Source: Khomenko et al., "Accelerating recurrent neural network training using sequence bucketing and multi-GPU data
 * parallelization", 2016; the spread: van der Corput, "Verteilungsfunktionen", 1935. */
#include "data/by_length.h"

#include "base/rng.h"

#include <stdlib.h>

/* Batches of a stretch at most; there are four stretches at least, so that epochs have other batches. */
enum { STRETCH = 50, STRETCHES = 4 };

typedef struct entry {
  int64_t id, place;
  int32_t length;
} entry;

/* The batch that may be short is the last one, of the shortest. */
static int longest_first(const void *a, const void *b) {
  const entry *x = a, *y = b;
  if (x->length != y->length) return x->length > y->length ? -1 : 1;
  return (x->place > y->place) - (x->place < y->place);
}

/* A sorted batch in the order of its places' bits read from the lowest on: every part of it has all lengths. */
static void spread(const entry *sorted, int64_t n, int64_t *ids_out) {
  int n_bits = 0;
  while ((int64_t)1 << n_bits < n) n_bits++;
  for (int64_t i = 0, at = 0; at < n; i++) {
    int64_t place = 0;
    for (int b = 0; b < n_bits; b++) place |= (i >> b & 1) << (n_bits - 1 - b);
    if (place < n) ids_out[at++] = sorted[place].id;
  }
}

/* entries [n], order [n / batch]: memory. */
static void order_stretch(ronde__rng *rng, const int32_t *lengths, int64_t batch, int64_t *ids, int64_t n,
                          entry *entries, int64_t *order) {
  int64_t whole = n / batch;
  for (int64_t i = 0; i < n; i++) entries[i] = (entry){ids[i], i, lengths[ids[i]]};
  qsort(entries, (size_t)n, sizeof *entries, longest_first);
  ronde__rng_permutation(rng, order, whole);
  for (int64_t b = 0; b < whole; b++) spread(entries + order[b] * batch, batch, ids + b * batch);
  spread(entries + whole * batch, n - whole * batch, ids + whole * batch);
}

ronde_status ronde__order_by_length(const int32_t *lengths, int64_t batch, uint64_t seed, int64_t epoch, int64_t *ids,
                                    int64_t n) {
  int64_t most = batch * ronde__max(1, ronde__min(STRETCH, n / STRETCHES / batch)), order[STRETCH];
  entry *entries;
  RONDE__ALLOC(entries, (size_t)most * sizeof *entries, "sampler");
  ronde__rng rng = ronde__rng_make(seed, RONDE__STREAM_LENGTHS | (uint32_t)epoch);
  for (int64_t at = 0; at < n; at += most)
    order_stretch(&rng, lengths, batch, ids + at, ronde__min(most, n - at), entries, order);
  ronde__free(entries);
  return RONDE_OK;
}

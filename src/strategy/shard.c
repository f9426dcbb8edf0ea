/* Which pieces of the flat arrays are a rank's, where each updates a part of them.
 * p ranks; a part: a bucket's live elements, or the net's dead ones, which are cut into p chunks. */
#include "strategy/shard.h"

#include <string.h>

static ronde_status grow(ronde__shard *s) {
  int capacity = 2 * s->capacity + 64;
  ronde__range *pieces;
  RONDE__ALLOC(pieces, (size_t)capacity * sizeof *pieces, "sharded");
  if (s->n) memcpy(pieces, s->pieces, (size_t)s->n * sizeof *pieces);
  ronde__free(s->pieces);
  s->pieces = pieces;
  s->capacity = capacity;
  return RONDE_OK;
}

/* What of a stretch, which begins at *packed of its part, lies in the chunk. */
static ronde_status take_stretch(ronde__shard *s, ronde__range stretch, size_t *packed, ronde__range chunk) {
  size_t begin = (size_t)ronde__max((int64_t)*packed, (int64_t)chunk.begin);
  size_t end = (size_t)ronde__min((int64_t)(*packed + stretch.n), (int64_t)(chunk.begin + chunk.n));
  for (size_t some; begin < end; begin += some) {
    some = (size_t)ronde__min((int64_t)(end - begin), RONDE__PAIRWISE_ELEMS);
    if (s->n == s->capacity) RONDE_TRY(grow(s));
    s->pieces[s->n++] = (ronde__range){stretch.begin + (begin - *packed), some};
  }
  *packed += stretch.n;
  return RONDE_OK;
}

static ronde__range chunk_of(size_t n, int rank, int n_ranks) {
  int64_t begin = ronde__shard_begin((int64_t)n, rank, n_ranks),
          end = ronde__shard_begin((int64_t)n, rank + 1, n_ranks);
  return (ronde__range){(size_t)begin, (size_t)(end - begin)};
}

static ronde_status take_bucket(ronde__shard *s, const ronde__bucket *b, int rank, int n_ranks) {
  ronde__range chunk = chunk_of(b->n_live, rank, n_ranks);
  ronde__gaps live = ronde__gaps_of(b->dead, b->n_dead, b->begin, b->end);
  size_t packed = 0;
  for (ronde__range stretch; ronde__gaps_next(&live, &stretch);) RONDE_TRY(take_stretch(s, stretch, &packed, chunk));
  return RONDE_OK;
}

static ronde_status take_dead(ronde__shard *s, const ronde__net *net, int rank, int n_ranks) {
  ronde__range chunk = chunk_of(ronde__dead_elems(net), rank, n_ranks);
  int n_dead;
  const ronde__range *dead = ronde__net_dead(net, &n_dead);
  size_t packed = 0;
  for (int i = 0; i < n_dead; i++) RONDE_TRY(take_stretch(s, dead[i], &packed, chunk));
  return RONDE_OK;
}

static ronde_status take_all(ronde__shard *s, const ronde__buckets *cut, const ronde__net *net, bool with_dead,
                             int rank, int n_ranks) {
  RONDE__ALLOC(s->first, (size_t)(s->n_parts + 1) * sizeof *s->first, "sharded");
  for (int b = 0; b < cut->n; b++) {
    s->first[b] = s->n;
    RONDE_TRY(take_bucket(s, &cut->at[b], rank, n_ranks));
  }
  s->first[cut->n] = s->n;
  if (with_dead) RONDE_TRY(take_dead(s, net, rank, n_ranks));
  s->first[cut->n + 1] = s->n;
  RONDE__ALLOC(s->at, (size_t)(s->n + 1) * sizeof *s->at, "sharded");
  for (int i = 0; i < s->n; i++) s->at[i + 1] = s->at[i] + s->pieces[i].n;
  return RONDE_OK;
}

ronde_status ronde__shard_make(const ronde__buckets *cut, const ronde__net *net, bool with_dead, int rank, int n,
                               ronde__shard *shard_out) {
  ronde__shard s = {.n_parts = cut->n + 1};
  ronde_status status = take_all(&s, cut, net, with_dead, rank, n);
  if (status != RONDE_OK) ronde__shard_free(&s);
  else *shard_out = s;
  return status;
}

void ronde__shard_free(ronde__shard *shard) {
  ronde__free(shard->pieces);
  ronde__free(shard->at);
  ronde__free(shard->first);
  *shard = (ronde__shard){0};
}

ronde__pieces ronde__shard_of(const ronde__shard *s, int part) {
  return (ronde__pieces){s->pieces + s->first[part], s->first[part + 1] - s->first[part]};
}

size_t ronde__dead_elems(const ronde__net *net) {
  int n_dead;
  const ronde__range *dead = ronde__net_dead(net, &n_dead);
  size_t n = 0;
  for (int i = 0; i < n_dead; i++) n += dead[i].n;
  return n;
}

void ronde__dead_gather(const ronde__net *net, const float *flat, float *packed) {
  int n_dead;
  const ronde__range *dead = ronde__net_dead(net, &n_dead);
  for (int i = 0; i < n_dead; packed += dead[i++].n) memcpy(packed, flat + dead[i].begin, dead[i].n * sizeof *packed);
}

void ronde__dead_scatter(const ronde__net *net, const float *packed, float *flat) {
  int n_dead;
  const ronde__range *dead = ronde__net_dead(net, &n_dead);
  for (int i = 0; i < n_dead; packed += dead[i++].n) memcpy(flat + dead[i].begin, packed, dead[i].n * sizeof *packed);
}

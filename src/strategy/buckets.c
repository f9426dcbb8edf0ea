/* Cuts the flat gradients into buckets, counts what is final in each, and packs what is not dead. */
#include "strategy/buckets.h"

#include "base/ghost.h"

#include <inttypes.h>
#include <string.h>

#define LINE 16 /* floats of a cache line: what parameters are padded to */

static void find_dead(const ronde__net *net, ronde__bucket *bucket) {
  int n;
  const ronde__range *dead = ronde__net_dead(net, &n);
  bucket->n_live = bucket->end - bucket->begin;
  for (int i = 0; i < n; i++) {
    if (dead[i].begin < bucket->begin || dead[i].begin >= bucket->end) continue;
    if (bucket->n_dead++ == 0) bucket->dead = &dead[i];
    bucket->n_live -= dead[i].n;
  }
}

/* Elements of both [begin, end) and [other_begin, other_end). */
static size_t overlap(size_t begin, size_t end, size_t other_begin, size_t other_end) {
  size_t first = begin > other_begin ? begin : other_begin, last = end < other_end ? end : other_end;
  return first < last ? last - first : 0;
}

static int64_t n_pieces(const ronde__net_param *p, int64_t bucket_bytes) {
  int64_t bytes = (int64_t)(p->n_elems * sizeof(float)), least = LINE * sizeof(float);
  return p->frozen || p->split ? 0 : ronde__max(1, bytes / ronde__max(bucket_bytes, least));
}

/* Where piece k of n begins: with something live, behind something live. Pieces may be empty for that. */
static size_t cut_at(const ronde__net *net, const ronde__net_param *p, int64_t k, int64_t n) {
  int n_dead;
  const ronde__range *dead = ronde__net_dead(net, &n_dead);
  size_t at = p->offset + (size_t)ronde__shard_begin((int64_t)p->n_elems / LINE, k, n) * LINE;
  size_t end = p->offset + p->n_elems;
  ronde__gaps live = ronde__gaps_of(dead, n_dead, p->offset, end), rest = ronde__gaps_of(dead, n_dead, at, end);
  ronde__range first, next;
  if (k == n) return end;
  if (!ronde__gaps_next(&live, &first) || at <= first.begin) return p->offset;
  return ronde__gaps_next(&rest, &next) ? next.begin : end;
}

/* packed_end: of the parameter. */
static void append(ronde__buckets *b, int param, ronde__range piece, size_t packed_end, bool alone,
                   int64_t bucket_bytes) {
  ronde__bucket *last = &b->at[ronde__max(0, b->n - 1)];
  ronde__bucket_span *span = &b->of_param[param];
  bool follows = b->n > 0 && last->begin == piece.begin + piece.n;
  if (!follows || alone || (int64_t)((last->end - last->begin) * sizeof(float)) >= bucket_bytes) {
    last = &b->at[b->n++];
    *last = (ronde__bucket){.end = piece.begin + piece.n};
  }
  last->begin = piece.begin;
  last->n_packed += overlap(piece.begin, piece.begin + piece.n, 0, packed_end);
  if (span->last < span->first) span->first = b->n - 1;
  span->last = b->n - 1;
}

ronde_status ronde__buckets_make(const ronde__net *net, int64_t bucket_bytes, ronde__buckets *buckets_out) {
  int n_params;
  const ronde__net_param *params = ronde__net_params(net, &n_params);
  ronde__buckets b = {0};
  int64_t most = 0;
  for (int i = 0; i < n_params; i++) most += n_pieces(&params[i], bucket_bytes);
  if (most > RONDE__MAX_BUCKETS)
    return ronde__fail(RONDE_E_USAGE, "--bucket-mb: %g MB would be %" PRId64 " buckets, and %d are the most",
                       (double)bucket_bytes / 1e6, most, RONDE__MAX_BUCKETS);
  RONDE__ALLOC(b.at, (size_t)most * sizeof *b.at, "buckets");
  b.of_param = ronde__alloc((size_t)n_params * sizeof *b.of_param);
  if (!b.of_param) {
    ronde__buckets_free(&b);
    return ronde__fail(RONDE_E_MEMORY, "buckets: no memory for %d parameters", n_params);
  }
  for (int i = n_params - 1; i >= 0; i--) {
    int64_t n = n_pieces(&params[i], bucket_bytes);
    b.of_param[i] = (ronde__bucket_span){0, -1};
    for (int64_t k = n - 1; k >= 0; k--) {
      size_t begin = cut_at(net, &params[i], k, n), end = cut_at(net, &params[i], k + 1, n);
      size_t packed_end = params[i].offset + params[i].n_packed;
      if (begin < end) append(&b, i, (ronde__range){begin, end - begin}, packed_end, n > 1, bucket_bytes);
    }
  }
  for (int i = 0; i < b.n; i++) find_dead(net, &b.at[i]);
  *buckets_out = b;
  return RONDE_OK;
}

void ronde__buckets_free(ronde__buckets *buckets) {
  ronde__free(buckets->at);
  ronde__free(buckets->of_param);
  *buckets = (ronde__buckets){0};
}

void ronde__buckets_begin(ronde__buckets *buckets) {
  for (int b = 0; b < buckets->n; b++) buckets->at[b].n_final = 0;
}

void ronde__buckets_all_final(ronde__buckets *buckets) {
  for (int b = 0; b < buckets->n; b++) buckets->at[b].n_final = buckets->at[b].n_packed;
}

void ronde__buckets_final(ronde__buckets *buckets, const ronde__gradient *g) {
  ronde__bucket_span span = buckets->of_param[g->param];
  for (int b = span.first; b <= span.last; b++)
    buckets->at[b].n_final += overlap(g->begin, g->end, buckets->at[b].begin, buckets->at[b].end);
}

/* Between the dead stretches k - 1 and k. */
static ronde__range live_stretch(const ronde__bucket *b, int k) {
  size_t begin = k > 0 ? b->dead[k - 1].begin + b->dead[k - 1].n : b->begin;
  size_t end = k < b->n_dead ? b->dead[k].begin : b->end;
  return (ronde__range){begin, end - begin};
}

void ronde__bucket_pack(const ronde__bucket *b, float *gradients) {
  size_t at = b->begin;
  if (ronde__is_ghost(gradients)) return;
  for (int k = 0; k <= b->n_dead && b->n_dead; k++) {
    ronde__range live = live_stretch(b, k);
    memmove(gradients + at, gradients + live.begin, live.n * sizeof *gradients);
    at += live.n;
  }
}

static void gather(const ronde__bucket *b, const void *flat, void *packed, size_t size) {
  char *to = packed;
  for (int k = 0; k <= b->n_dead; k++) {
    ronde__range live = live_stretch(b, k);
    memcpy(to, (const char *)flat + live.begin * size, live.n * size);
    to += live.n * size;
  }
}

static void scatter(const ronde__bucket *b, const void *packed, void *flat, size_t size) {
  const char *from = packed;
  for (int k = 0; k <= b->n_dead; k++) {
    ronde__range live = live_stretch(b, k);
    memcpy((char *)flat + live.begin * size, from, live.n * size);
    from += live.n * size;
  }
}

void ronde__bucket_gather(const ronde__bucket *b, const float *flat, float *packed) {
  if (!ronde__is_ghost(flat)) gather(b, flat, packed, sizeof *packed);
}

void ronde__bucket_scatter(const ronde__bucket *b, const float *packed, float *flat) {
  if (!ronde__is_ghost(flat)) scatter(b, packed, flat, sizeof *packed);
}

void ronde__bucket_gather_halves(const ronde__bucket *b, const uint16_t *flat, uint16_t *packed) {
  gather(b, flat, packed, sizeof *packed);
}

void ronde__bucket_scatter_halves(const ronde__bucket *b, const uint16_t *packed, uint16_t *flat) {
  scatter(b, packed, flat, sizeof *packed);
}

void ronde__bucket_clear_dead(const ronde__bucket *b, float *gradients) {
  size_t packed_end = b->begin + b->n_live;
  if (ronde__is_ghost(gradients)) return;
  for (int k = 0; k < b->n_dead && b->dead[k].begin < packed_end; k++) /* behind it nothing was written */
    memset(gradients + b->dead[k].begin, 0, b->dead[k].n * sizeof *gradients);
}

void ronde__bucket_unpack(const ronde__bucket *b, float *gradients) {
  size_t at = b->begin + b->n_live;
  if (ronde__is_ghost(gradients)) return;
  for (int k = b->n_dead; k >= 0 && b->n_dead; k--) {
    ronde__range live = live_stretch(b, k);
    at -= live.n;
    memmove(gradients + live.begin, gradients + at, live.n * sizeof *gradients);
  }
  ronde__bucket_clear_dead(b, gradients);
}

size_t ronde__buckets_longest(const ronde__buckets *buckets) {
  size_t longest = 0;
  for (int b = 0; b < buckets->n; b++)
    if (buckets->at[b].n_live > longest) longest = buckets->at[b].n_live;
  return longest;
}

void ronde__buckets_take_dead(ronde__buckets *buckets) {
  for (ronde__bucket *b = buckets->at; b < buckets->at + buckets->n; b++) {
    b->n_dead = 0;
    b->n_live = b->end - b->begin;
  }
}

ronde__range ronde__bucket_piece(const ronde__bucket *bucket, int index, int n_servers) {
  int64_t n = (int64_t)bucket->n_live, n_lines = ronde__ceil_div(n, LINE);
  int64_t begin = ronde__min(ronde__shard_begin(n_lines, index, n_servers) * LINE, n);
  int64_t end = ronde__min(ronde__shard_begin(n_lines, index + 1, n_servers) * LINE, n);
  return (ronde__range){bucket->begin + (size_t)begin, (size_t)(end - begin)};
}

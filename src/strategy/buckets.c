#include "strategy/buckets.h"

#include <string.h>

#define LINE 16 /* floats of a cache line: what parameters are padded to */

static void find_dead(const ronde__net *net, ronde__bucket *bucket) {
  int n;
  const ronde__stretch *dead = ronde__net_dead(net, &n);
  bucket->n_live = bucket->end - bucket->begin;
  for (int i = 0; i < n; i++) {
    if (dead[i].begin < bucket->begin || dead[i].begin >= bucket->end) continue;
    if (bucket->n_dead++ == 0) bucket->dead = &dead[i];
    bucket->n_live -= dead[i].n;
  }
}

ronde_status ronde__buckets_make(const ronde__net *net, int64_t bucket_bytes, ronde__buckets *buckets_out) {
  int n_params;
  const ronde__net_param *params = ronde__net_params(net, &n_params);
  ronde__buckets b = {0};
  RONDE__ALLOC(b.at, (size_t)n_params * sizeof *b.at, "buckets");
  b.of_param = ronde__alloc((size_t)n_params * sizeof *b.of_param);
  if (!b.of_param) {
    ronde__buckets_free(&b);
    return ronde__fail(RONDE_E_MEMORY, "buckets: no memory for %d parameters", n_params);
  }
  for (int i = n_params - 1; i >= 0; i--) {
    b.of_param[i] = -1;
    if (params[i].frozen) continue;
    ronde__bucket *last = &b.at[ronde__max(0, b.n - 1)];
    if (b.n == 0 || (int64_t)((last->end - last->begin) * sizeof(float)) >= bucket_bytes) {
      last = &b.at[b.n++];
      *last = (ronde__bucket){.end = params[i].offset + params[i].n_elems};
    }
    last->begin = params[i].offset;
    last->n_params++;
    b.of_param[i] = b.n - 1;
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

/* Between the dead stretches k - 1 and k. */
static ronde__stretch live_stretch(const ronde__bucket *b, int k) {
  size_t begin = k > 0 ? b->dead[k - 1].begin + b->dead[k - 1].n : b->begin;
  size_t end = k < b->n_dead ? b->dead[k].begin : b->end;
  return (ronde__stretch){begin, end - begin};
}

void ronde__bucket_pack(const ronde__bucket *b, float *gradients) {
  size_t at = b->begin;
  for (int k = 0; k <= b->n_dead && b->n_dead; k++) {
    ronde__stretch live = live_stretch(b, k);
    memmove(gradients + at, gradients + live.begin, live.n * sizeof *gradients);
    at += live.n;
  }
}

void ronde__bucket_unpack(const ronde__bucket *b, float *gradients) {
  size_t packed_end = b->begin + b->n_live, at = packed_end;
  for (int k = b->n_dead; k >= 0 && b->n_dead; k--) {
    ronde__stretch live = live_stretch(b, k);
    at -= live.n;
    memmove(gradients + live.begin, gradients + at, live.n * sizeof *gradients);
  }
  for (int k = 0; k < b->n_dead && b->dead[k].begin < packed_end; k++) /* behind it nothing was written */
    memset(gradients + b->dead[k].begin, 0, b->dead[k].n * sizeof *gradients);
}

ronde__stretch ronde__bucket_piece(const ronde__bucket *bucket, int index, int n_servers) {
  int64_t n = (int64_t)(bucket->end - bucket->begin), n_lines = ronde__ceil_div(n, LINE);
  int64_t begin = ronde__min(ronde__share_begin(n_lines, index, n_servers) * LINE, n);
  int64_t end = ronde__min(ronde__share_begin(n_lines, index + 1, n_servers) * LINE, n);
  return (ronde__stretch){bucket->begin + (size_t)begin, (size_t)(end - begin)};
}

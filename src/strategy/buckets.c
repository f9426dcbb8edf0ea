#include "strategy/buckets.h"

#define LINE 16 /* floats of a cache line: what parameters are padded to */

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
  *buckets_out = b;
  return RONDE_OK;
}

void ronde__buckets_free(ronde__buckets *buckets) {
  ronde__free(buckets->at);
  ronde__free(buckets->of_param);
  *buckets = (ronde__buckets){0};
}

ronde__stretch ronde__bucket_piece(const ronde__bucket *bucket, int index, int n_servers) {
  int64_t n = (int64_t)(bucket->end - bucket->begin), n_lines = ronde__ceil_div(n, LINE);
  int64_t begin = ronde__min(ronde__share_begin(n_lines, index, n_servers) * LINE, n);
  int64_t end = ronde__min(ronde__share_begin(n_lines, index + 1, n_servers) * LINE, n);
  return (ronde__stretch){bucket->begin + (size_t)begin, (size_t)(end - begin)};
}

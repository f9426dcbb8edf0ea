/* A ring over numbers that are bfloat16 from the start. What a rank gives goes out from where it lies; sums are f32, and each is
 * rounded for the next rank. Source: ring.c.
 * p ranks; n elements of the vector, an even number, cut into chunks of whole pairs. */
#include "comm/collective.h"

enum { HALVES_REDUCE, HALVES_GATHER, BLOCK = 1024 };

typedef struct halves_ring {
  ronde__exchange e;
  int64_t n_pairs;
  int p;
} halves_ring;

size_t ronde__allreduce_halves_scratch(size_t n, int p) {
  return p == 1 ? 0 : 2 * (size_t)ronde__ceil_div((int64_t)n / 2, p);
}

static int64_t halves_begin(const halves_ring *l, int chunk) { return 2 * ronde__shard_begin(l->n_pairs, chunk, l->p); }
static int64_t halves_length(const halves_ring *l, int chunk) {
  return halves_begin(l, chunk + 1) - halves_begin(l, chunk);
}

static ronde_status halves_pass_on(halves_ring *l, const uint16_t *out, int out_chunk, uint16_t *in, int in_chunk) {
  l->e.out = (const float *)out;
  l->e.n_out = halves_length(l, out_chunk) / 2;
  l->e.in = (float *)in;
  l->e.n_in = halves_length(l, in_chunk) / 2;
  return ronde__exchange_run(&l->e);
}

static void halves_add(const ronde__kernels *kernels, const uint16_t *x, const uint16_t *in, uint16_t *sum, int64_t n) {
  float wide[BLOCK];
  for (int64_t i = 0; i < n; i += BLOCK) {
    int64_t length = ronde__min(BLOCK, n - i);
    kernels->bf16_unpack(x + i, wide, length);
    kernels->bf16_pack(wide, in + i, NULL, sum + i, length);
  }
}

ronde_status ronde__allreduce_halves(ronde__transport *transport, const ronde__kernels *kernels, uint32_t tag,
                                     const uint16_t *x, uint16_t *sum, size_t n, float *scratch) {
  int p = transport->size, rank = transport->rank, chunk = (rank + p - 1) % p;
  halves_ring l = {.e = {.transport = transport, .to = (rank + 1) % p, .from = (rank + p - 1) % p},
                   .n_pairs = (int64_t)n / 2,
                   .p = p};
  uint16_t *landing = (uint16_t *)scratch, *partial = (uint16_t *)(scratch + ronde__ceil_div(l.n_pairs, p));
  const uint16_t *out = x + halves_begin(&l, chunk);
  l.e.wire_tag = RONDE__WIRE_TAG(tag, HALVES_REDUCE);
  for (int k = 0; k < p - 1; k++) {
    int next = (chunk + p - 1) % p;
    uint16_t *into = next == rank ? sum + halves_begin(&l, rank) : partial;
    RONDE_TRY(halves_pass_on(&l, out, chunk, landing, next));
    halves_add(kernels, x + halves_begin(&l, next), landing, into, halves_length(&l, next));
    out = into;
    chunk = next;
  }
  l.e.wire_tag = RONDE__WIRE_TAG(tag, HALVES_GATHER);
  for (int k = 0; k < p - 1; k++) {
    int next = (chunk + p - 1) % p;
    RONDE_TRY(halves_pass_on(&l, sum + halves_begin(&l, chunk), chunk, sum + halves_begin(&l, next), next));
    chunk = next;
  }
  return RONDE_OK;
}

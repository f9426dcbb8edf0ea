/* A ring whose messages are bfloat16. Every rank rounds each chunk of the vector exactly once, on its way round or
 * as its final sum. What the rounding lost is added to the same chunk in the next call (error feedback), so that nothing
 * is lost over many calls.
 * Source: Seide et al., "1-bit stochastic gradient descent and its application to data-parallel distributed training",
 * Interspeech 2014 (the feedback); ring.c (the ring).
 * p ranks; n elements of the vector. */
#include "comm/collective.h"

enum { PHASE_REDUCE, PHASE_GATHER };

typedef struct bf16_ring {
  ronde__exchange e;
  const ronde__kernels *kernels;
  float *x, *residual;
  uint16_t *halves[2]; /* of a chunk each: what goes out, and what comes in or goes next */
  int64_t n;
  int p, rank;
} bf16_ring;

/* Floats that hold n elements of bfloat16. */
static int64_t packed_elems(int64_t n) { return ronde__ceil_div(n, 2); }

size_t ronde__allreduce_bf16_scratch(size_t n, int p) {
  return p == 1 ? 0 : 3 * (size_t)packed_elems(ronde__ceil_div((int64_t)n, p));
}

static int64_t bf16_begin(const bf16_ring *l, int chunk) { return ronde__shard_begin(l->n, chunk, l->p); }
static int64_t bf16_length(const bf16_ring *l, int chunk) { return bf16_begin(l, chunk + 1) - bf16_begin(l, chunk); }

static ronde_status bf16_pass_on(bf16_ring *l, int phase, uint32_t tag, const uint16_t *out, int out_chunk,
                                 uint16_t *in, int in_chunk) {
  l->e.wire_tag = RONDE__WIRE_TAG(tag, phase);
  l->e.out = (const float *)out;
  l->e.n_out = packed_elems(bf16_length(l, out_chunk));
  l->e.in = (float *)in;
  l->e.n_in = packed_elems(bf16_length(l, in_chunk));
  return ronde__exchange_run(&l->e);
}

static void bf16_pack_chunk(const bf16_ring *l, int chunk, const uint16_t *in, uint16_t *out) {
  int64_t begin = bf16_begin(l, chunk);
  l->kernels->bf16_pack(l->x + begin, in, l->residual + begin, out, bf16_length(l, chunk));
}

/* In the end halves[0] is the sum of the rank's own chunk. landing: what came, before it is summed. */
static ronde_status bf16_reduce_scatter(bf16_ring *l, uint32_t tag, uint16_t *landing) {
  int chunk = (l->rank + l->p - 1) % l->p;
  bf16_pack_chunk(l, chunk, NULL, l->halves[0]);
  for (int k = 0; k < l->p - 1; k++) {
    int next = (chunk + l->p - 1) % l->p;
    RONDE_TRY(bf16_pass_on(l, PHASE_REDUCE, tag, l->halves[0], chunk, landing, next));
    bf16_pack_chunk(l, next, landing, l->halves[0]);
    chunk = next;
  }
  return RONDE_OK;
}

static ronde_status bf16_allgather(bf16_ring *l, uint32_t tag) {
  int chunk = l->rank;
  l->kernels->bf16_unpack(l->halves[0], l->x + bf16_begin(l, chunk), bf16_length(l, chunk));
  for (int k = 0; k < l->p - 1; k++) {
    int next = (chunk + l->p - 1) % l->p;
    RONDE_TRY(bf16_pass_on(l, PHASE_GATHER, tag, l->halves[k % 2], chunk, l->halves[(k + 1) % 2], next));
    l->kernels->bf16_unpack(l->halves[(k + 1) % 2], l->x + bf16_begin(l, next), bf16_length(l, next));
    chunk = next;
  }
  return RONDE_OK;
}

ronde_status ronde__allreduce_bf16(ronde__transport *transport, const ronde__kernels *kernels, uint32_t tag, float *x,
                                   size_t n, float *residual, float *scratch) {
  int p = transport->size, rank = transport->rank;
  if (p == 1) return RONDE_OK;
  int64_t stride = packed_elems(ronde__ceil_div((int64_t)n, p));
  bf16_ring l = {.e = {.transport = transport, .to = (rank + 1) % p, .from = (rank + p - 1) % p},
                 .kernels = kernels,
                 .x = x,
                 .residual = residual,
                 .halves = {(uint16_t *)scratch, (uint16_t *)(scratch + stride)},
                 .n = (int64_t)n,
                 .p = p,
                 .rank = rank};
  RONDE_TRY(bf16_reduce_scatter(&l, tag, (uint16_t *)(scratch + 2 * stride)));
  return bf16_allgather(&l, tag);
}

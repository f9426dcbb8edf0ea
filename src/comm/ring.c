/* All-reduce round a ring. Each chunk of the vector travels once round and is summed on the way, then travels once more
 * and is copied.
 * p ranks; x [n] the vector, cut into p chunks; k the step.
 * Source: Patarasuk & Yuan, "Bandwidth optimal all-reduce algorithms", JPDC 2009. */
#include "comm/collective.h"

enum { PHASE_REDUCE, PHASE_GATHER };

/* One step: chunk `out` goes to the next rank, chunk `in` comes from the one before. */
static ronde_status ring_step(ronde__exchange *e, float *x, size_t n, int out, int in) {
  int p = e->transport->size;
  int64_t total = (int64_t)n;
  out = (out % p + p) % p, in = (in % p + p) % p;
  int64_t out_begin = ronde__shard_begin(total, out, p), in_begin = ronde__shard_begin(total, in, p);
  e->out = x + out_begin;
  e->n_out = ronde__shard_begin(total, out + 1, p) - out_begin;
  e->in = x + in_begin;
  e->n_in = ronde__shard_begin(total, in + 1, p) - in_begin;
  return ronde__exchange_run(e);
}

static ronde__exchange ring_exchange(ronde__transport *transport, uint32_t tag, int phase) {
  int p = transport->size, rank = transport->rank;
  return (ronde__exchange){.transport = transport,
                           .wire_tag = RONDE__WIRE_TAG(tag, phase),
                           .to = (rank + 1) % p,
                           .from = (rank + p - 1) % p};
}

size_t ronde__ring_scratch(size_t n, int p) {
  return p == 1 ? 0 : ronde__exchange_scratch(ronde__ceil_div((int64_t)n, p));
}

ronde_status ronde__reduce_scatter_ring(ronde__transport *transport, const ronde__kernels *kernels, uint32_t tag,
                                        float *x, size_t n, float *scratch) {
  ronde__exchange e = ring_exchange(transport, tag, PHASE_REDUCE);
  e.kernels = kernels;
  e.scratch = scratch;
  for (int k = 0, rank = transport->rank; k < transport->size - 1; k++)
    RONDE_TRY(ring_step(&e, x, n, rank - 1 - k, rank - 2 - k));
  return RONDE_OK;
}

ronde_status ronde__allgather_chunks_ring(ronde__transport *transport, uint32_t tag, float *x, size_t n) {
  ronde__exchange e = ring_exchange(transport, tag, PHASE_GATHER);
  for (int k = 0, rank = transport->rank; k < transport->size - 1; k++)
    RONDE_TRY(ring_step(&e, x, n, rank - k, rank - 1 - k));
  return RONDE_OK;
}

static size_t ring_scratch(const ronde__transport *transport, size_t n) {
  return ronde__ring_scratch(n, transport->size);
}

static ronde_status ring_allreduce(ronde__transport *transport, const ronde__kernels *kernels, uint32_t tag, float *x,
                                   size_t n, float *scratch) {
  RONDE_TRY(ronde__reduce_scatter_ring(transport, kernels, tag, x, n, scratch));
  return ronde__allgather_chunks_ring(transport, tag, x, n);
}

static int ring_next(const void *ranks, int rank) { return (rank + 1) % ((const ronde__ranks *)ranks)->n; }

static double ring_seconds(const ronde__ranks *ranks, size_t n) {
  double bytes = (double)(n * sizeof(float)) / ranks->n;
  return ranks->n == 1 ? 0 : 2 * (ranks->n - 1) * ronde__round_s(ranks, ring_next, ranks, bytes);
}

const ronde__allreduce ronde__allreduce_ring = {"ring", ring_scratch, ring_allreduce, NULL, ring_seconds};

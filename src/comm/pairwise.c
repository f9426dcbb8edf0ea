/* Reduce-scatter and all-gather by pieces, without a ring: each rank hands each other what is that one's.
 * p ranks; x the vector, of which each piece has an owner; of [p] the pieces of each rank.
 * Source: Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005. */
#include "comm/collective.h"

#include <string.h>

enum { PHASE_OFFER, PHASE_SPREAD };

/* The k-th rank behind this one. */
static int behind(const ronde__transport *transport, int k) { return (transport->rank + k) % transport->size; }

int ronde__pairwise_others(const ronde__transport *transport, const ronde__pieces *of) {
  int n = 0;
  for (int k = 1; k < transport->size; k++) n += of[behind(transport, k)].n;
  return n;
}

static ronde_status send_pieces(ronde__transport *transport, int peer, uint32_t wire_tag, const float *x,
                                ronde__pieces pieces, ronde__request *requests) {
  for (int i = 0; i < pieces.n; i++)
    RONDE_TRY(transport->ops->isend(transport, peer, wire_tag, x + pieces.at[i].begin, pieces.at[i].n * sizeof *x,
                                    &requests[i]));
  return RONDE_OK;
}

ronde_status ronde__pairwise_offer(ronde__transport *transport, uint32_t tag, const float *x, const ronde__pieces *of,
                                   ronde__request *requests) {
  for (int k = 1; k < transport->size; k++) {
    int peer = behind(transport, k);
    RONDE_TRY(send_pieces(transport, peer, RONDE__WIRE_TAG(tag, PHASE_OFFER), x, of[peer], requests));
    requests += of[peer].n;
  }
  return RONDE_OK;
}

/* sum = x + what comes from the peer. */
static ronde_status add_from(ronde__transport *transport, const ronde__kernels *kernels, uint32_t wire_tag, int peer,
                             const float *x, float *sum, float *landing, size_t n) {
  ronde__request request = {NULL};
  bool adds = transport->ops->irecv_add;
  if (adds) RONDE_TRY(transport->ops->irecv_add(transport, peer, wire_tag, kernels->add, x, sum, n, &request));
  else RONDE_TRY(transport->ops->irecv(transport, peer, wire_tag, landing, n * sizeof *landing, &request));
  RONDE_TRY(transport->ops->wait(transport, &request, 1, transport->timeout_ns));
  if (!adds) kernels->add(x, landing, sum, (int64_t)n);
  return RONDE_OK;
}

ronde_status ronde__pairwise_sum(ronde__transport *transport, const ronde__kernels *kernels, uint32_t tag,
                                 const float *x, ronde__pieces own, ronde__take take, void *arg, float *scratch) {
  float *landing = scratch + RONDE__PAIRWISE_ELEMS;
  for (int i = 0; i < own.n; i++) {
    const float *sum = x + own.at[i].begin;
    for (int k = 1; k < transport->size; k++) {
      RONDE_TRY(add_from(transport, kernels, RONDE__WIRE_TAG(tag, PHASE_OFFER), behind(transport, k), sum, scratch,
                         landing, own.at[i].n));
      sum = scratch;
    }
    if (take) take(arg, i, sum);
  }
  return RONDE_OK;
}

/* The chunks of a vector as pieces. */
typedef struct chunks {
  float *x;
  ronde__range *ranges;
  ronde__pieces *of, own;
  ronde__request *requests;
  int n_requests;
} chunks;

static ronde_status cut_chunks(const ronde__transport *transport, size_t n, chunks *c) {
  int p = transport->size, most = (int)(n / (size_t)p / RONDE__PAIRWISE_ELEMS) + 2;
  RONDE__ALLOC(c->ranges, (size_t)(p * most) * sizeof *c->ranges, "pairwise reduce-scatter");
  RONDE__ALLOC(c->of, (size_t)p * sizeof *c->of, "pairwise reduce-scatter");
  for (int r = 0; r < p; r++) {
    ronde__range *ranges = c->ranges + r * most;
    int64_t at = ronde__shard_begin((int64_t)n, r, p), end = ronde__shard_begin((int64_t)n, r + 1, p);
    c->of[r].at = ranges;
    for (int64_t some; at < end; at += some) {
      some = ronde__min(end - at, RONDE__PAIRWISE_ELEMS);
      ranges[c->of[r].n++] = (ronde__range){(size_t)at, (size_t)some};
    }
  }
  c->n_requests = ronde__pairwise_others(transport, c->of);
  RONDE__ALLOC(c->requests, (size_t)c->n_requests * sizeof *c->requests, "pairwise reduce-scatter");
  return RONDE_OK;
}

static void keep_chunk(void *arg, int piece, const float *sum) {
  const chunks *c = arg;
  ronde__range place = c->own.at[piece];
  memcpy(c->x + place.begin, sum, place.n * sizeof *sum);
}

static ronde_status scatter_chunks(ronde__transport *transport, const ronde__kernels *kernels, uint32_t tag, size_t n,
                                   chunks *c, float *scratch) {
  RONDE_TRY(cut_chunks(transport, n, c));
  c->own = c->of[transport->rank];
  RONDE_TRY(ronde__pairwise_offer(transport, tag, c->x, c->of, c->requests));
  RONDE_TRY(ronde__pairwise_sum(transport, kernels, tag, c->x, c->own, keep_chunk, c, scratch));
  return transport->ops->wait(transport, c->requests, c->n_requests, transport->timeout_ns);
}

ronde_status ronde__reduce_scatter_pairwise(ronde__transport *transport, const ronde__kernels *kernels, uint32_t tag,
                                            float *x, size_t n, float *scratch) {
  chunks c = {.x = x};
  if (transport->size == 1) return RONDE_OK;
  ronde_status status = scatter_chunks(transport, kernels, tag, n, &c, scratch);
  if (status != RONDE_OK && c.requests) transport->ops->cancel(transport, c.requests, c.n_requests);
  ronde__free(c.ranges);
  ronde__free(c.of);
  ronde__free(c.requests);
  return status;
}

ronde_status ronde__pairwise_spread(ronde__transport *transport, uint32_t tag, float *x, const ronde__pieces *of,
                                    ronde__request *requests) {
  ronde__pieces own = of[transport->rank];
  uint32_t wire_tag = RONDE__WIRE_TAG(tag, PHASE_SPREAD);
  for (int k = 1; k < transport->size; k++, requests += own.n)
    RONDE_TRY(send_pieces(transport, behind(transport, k), wire_tag, x, own, requests));
  for (int k = 1; k < transport->size; k++) {
    int peer = behind(transport, k);
    for (int i = 0; i < of[peer].n; i++, requests++)
      RONDE_TRY(transport->ops->irecv(transport, peer, wire_tag, x + of[peer].at[i].begin, of[peer].at[i].n * sizeof *x,
                                      requests));
  }
  return RONDE_OK;
}

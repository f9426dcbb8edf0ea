/* Reduce-scatter and all-gather by pieces, without a ring: each rank hands each other what is that one's.
 * p ranks; x the vector, of which each piece has an owner; of [p] the pieces of each rank.
 * Source: Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005. */
#include "comm/collective.h"

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

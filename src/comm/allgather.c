/* An all-gather of equal items by doubling: a rank that holds k items from its own on has 2k after the next round.
 * p ranks; `held` items so far, of ranks rank to rank + held - 1, round the ring of ranks.
 * Source: Bruck, Ho, Kipnis, Upfal & Weathersby, "Efficient algorithms for all-to-all communications in multiport
 * message-passing systems", IEEE TPDS 1997; items stay at their ranks' places here, so nothing is rotated in the end. */
#include "comm/collective.h"

typedef struct round {
  ronde__transport *transport;
  uint32_t wire;
  char *data;
  size_t bytes;
  ronde__request requests[4];
  int n;
} round;

/* Posts n items from the first on, which may go on at rank 0's. */
static ronde_status post(round *r, bool sends, int peer, int first, int n) {
  const ronde__transport_ops *ops = r->transport->ops;
  while (n > 0) {
    int some = (int)ronde__min(n, r->transport->size - first);
    char *at = r->data + (size_t)first * r->bytes;
    size_t bytes = (size_t)some * r->bytes;
    RONDE_TRY(sends ? ops->isend(r->transport, peer, r->wire, at, bytes, &r->requests[r->n])
                    : ops->irecv(r->transport, peer, r->wire, at, bytes, &r->requests[r->n]));
    r->n++;
    n -= some;
    first = 0;
  }
  return RONDE_OK;
}

ronde_status ronde__allgather(ronde__transport *transport, uint32_t tag, void *data, size_t bytes) {
  int p = transport->size, rank = transport->rank;
  if (bytes == 0) return RONDE_OK;
  for (int held = 1, n; held < p; held += n) {
    round r = {.transport = transport, .wire = RONDE__WIRE_TAG(tag, 0), .data = data, .bytes = bytes};
    n = (int)ronde__min(held, p - held);
    int from = (rank + held) % p, to = (rank + p - held) % p;
    ronde_status status = post(&r, false, from, from, n);
    if (status == RONDE_OK) status = post(&r, true, to, rank, n);
    if (status == RONDE_OK) status = transport->ops->wait(transport, r.requests, r.n, transport->timeout_ns);
    if (status != RONDE_OK) {
      transport->ops->cancel(transport, r.requests, r.n);
      return status;
    }
  }
  return RONDE_OK;
}

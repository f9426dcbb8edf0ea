/* An all-gather of equal pieces round a ring: in each step a rank passes on what it got in the one before. */
#include "comm/collective.h"

ronde_status ronde__allgather_ring(ronde__transport *transport, uint32_t tag, void *data, size_t bytes) {
  int p = transport->size, rank = transport->rank;
  int next = (rank + 1) % p, previous = (rank + p - 1) % p;
  uint32_t wire = RONDE__WIRE_TAG(tag, 0);
  if (bytes == 0) return RONDE_OK;
  for (int k = 0; k < p - 1; k++) {
    char *in = (char *)data + (size_t)((rank - k - 1 + p) % p) * bytes;
    const char *out = (char *)data + (size_t)((rank - k + p) % p) * bytes;
    ronde__request requests[2] = {{NULL}, {NULL}};
    ronde_status status = transport->ops->irecv(transport, previous, wire, in, bytes, &requests[0]);
    if (status == RONDE_OK) status = transport->ops->isend(transport, next, wire, out, bytes, &requests[1]);
    if (status == RONDE_OK) status = transport->ops->wait(transport, requests, 2, transport->timeout_ns);
    if (status != RONDE_OK) {
      transport->ops->cancel(transport, requests, 2);
      return status;
    }
  }
  return RONDE_OK;
}

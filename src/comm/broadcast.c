/* A broadcast down a binomial tree.
 * p ranks; v a rank's number counted from the root.
 * Source: Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005. */
#include "comm/collective.h"

/* Ranks are counted from the root: v. The lowest set bit of v leads to its parent; its children are v plus every
 * lower bit. */
ronde_status ronde__broadcast_tree(ronde__transport *transport, uint32_t tag, int root, void *data, size_t bytes) {
  int p = transport->size, v = (transport->rank - root + p) % p, bit = 1;
  uint32_t wire = RONDE__WIRE_TAG(tag, 0);
  ronde__request requests[32] = {{NULL}};
  int n = 0;
  ronde_status status = RONDE_OK;
  if (bytes == 0) return RONDE_OK;
  while (bit < p && !(v & bit)) bit *= 2;
  if (v) {
    status = transport->ops->irecv(transport, (v - bit + root) % p, wire, data, bytes, &requests[0]);
    if (status == RONDE_OK) status = transport->ops->wait(transport, requests, 1, transport->timeout_ns);
  }
  for (bit /= 2; bit > 0 && status == RONDE_OK; bit /= 2)
    if (v + bit < p) {
      status = transport->ops->isend(transport, (v + bit + root) % p, wire, data, bytes, &requests[n]);
      if (status == RONDE_OK) n++;
    }
  if (status == RONDE_OK) status = transport->ops->wait(transport, requests, n, transport->timeout_ns);
  if (status != RONDE_OK) transport->ops->cancel(transport, requests, n);
  return status;
}

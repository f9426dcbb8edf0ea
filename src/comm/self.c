/* One rank alone: there is nobody to send to, so that a message is a mistake of the caller. */
#include <stdatomic.h>

#include "base/limits.h"
#include "comm/transport.h"

typedef struct self {
  ronde__transport head;
  _Atomic bool aborted;
} self;

static ronde_status refuse(ronde__transport *transport, int peer) {
  if (atomic_load(&((self *)transport)->aborted)) return RONDE_E_LOST;
  return ronde__fail(RONDE_E_INTERNAL, "transport self: a message to or from rank %d, but there is only rank 0", peer);
}

static ronde_status self_isend(ronde__transport *transport, int peer, uint32_t tag, const void *data, size_t bytes,
                               ronde__request *request_out) {
  return refuse(transport, peer);
}

static ronde_status self_irecv(ronde__transport *transport, int peer, uint32_t tag, void *data, size_t bytes,
                               ronde__request *request_out) {
  return refuse(transport, peer);
}

/* No request can be under way: each is zero, and done. */
static ronde_status self_test(ronde__transport *transport, ronde__request *request, bool *done_out) {
  if (atomic_load(&((self *)transport)->aborted)) return RONDE_E_LOST;
  *done_out = true;
  return RONDE_OK;
}

static ronde_status self_wait(ronde__transport *transport, ronde__request *requests, int n, uint64_t timeout_ns) {
  return atomic_load(&((self *)transport)->aborted) ? RONDE_E_LOST : RONDE_OK;
}

static void self_cancel(ronde__transport *transport, ronde__request *requests, int n) {}

static void self_abort(ronde__transport *transport) { atomic_store(&((self *)transport)->aborted, true); }

static void self_destroy(ronde__transport *transport) { ronde__free(transport); }

static const ronde__transport_ops self_ops = {
    .name = "self",
    .isend = self_isend,
    .irecv = self_irecv,
    .test = self_test,
    .wait = self_wait,
    .wait_some = self_wait,
    .cancel = self_cancel,
    .abort = self_abort,
    .destroy = self_destroy,
};

ronde_status ronde__transport_self(ronde__transport **transport_out) {
  self *transport;
  RONDE__ALLOC(transport, sizeof *transport, "transport self");
  transport->head = (ronde__transport){.ops = &self_ops, .size = 1, .piece_bytes = RONDE__PIECE_BYTES};
  ronde__transport_limit(&transport->head, RONDE__LOST_AFTER_S * 1000000000ull);
  *transport_out = &transport->head;
  return RONDE_OK;
}

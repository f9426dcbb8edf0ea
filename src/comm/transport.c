/* What all transports share. */
#include "comm/transport.h"

#include "base/limits.h"

void ronde__transport_limit(ronde__transport *transport, uint64_t lost_after_ns) {
  transport->lost_after_ns = lost_after_ns;
  transport->timeout_ns = RONDE__STALL_TIMES * lost_after_ns;
}

void ronde__transport_lose(ronde__transport *transport, const bool *may_lose) {
  for (int r = 0; transport->may_lose && r < transport->size; r++)
    __atomic_store_n(&transport->may_lose[r], may_lose && may_lose[r], __ATOMIC_RELAXED);
}

void ronde__transport_await(ronde__transport *transport, const bool *ranks) {
  for (int r = 0; transport->awaited && r < transport->size; r++)
    __atomic_store_n(&transport->awaited[r], ranks && ranks[r], __ATOMIC_SEQ_CST);
  __atomic_store_n(&transport->may_be_halted, false, __ATOMIC_SEQ_CST);
  /* Whoever is lost meanwhile is seen here, or by ronde__transport_note_lost. */
  if (ronde__transport_is_halted(transport)) __atomic_store_n(&transport->may_be_halted, true, __ATOMIC_SEQ_CST);
}

void ronde__transport_note_lost(ronde__transport *transport, int peer) {
  if (ronde__transport_awaits(transport, peer)) __atomic_store_n(&transport->may_be_halted, true, __ATOMIC_SEQ_CST);
}

bool ronde__transport_is_halted(ronde__transport *transport) {
  bool halted = false;
  for (int r = 0; r < transport->size && !halted; r++)
    halted = r != transport->rank && ronde__transport_awaits(transport, r) && ronde__transport_lost(transport, r);
  return halted;
}

int ronde__transport_local(const ronde__transport *transport) {
  int n = 0;
  for (int r = 0; r < transport->size; r++)
    n += !transport->host_of || transport->host_of[r] == transport->host_of[transport->rank];
  return n;
}

ronde_status ronde__transport_send(ronde__transport *transport, int peer, uint32_t tag, const void *data,
                                   size_t bytes) {
  ronde__request request;
  RONDE_TRY(transport->ops->isend(transport, peer, tag, data, bytes, &request));
  return transport->ops->wait(transport, &request, 1, transport->timeout_ns);
}

ronde_status ronde__transport_receive(ronde__transport *transport, int peer, uint32_t tag, void *data, size_t bytes) {
  ronde__request request;
  RONDE_TRY(transport->ops->irecv(transport, peer, tag, data, bytes, &request));
  return transport->ops->wait(transport, &request, 1, transport->timeout_ns);
}

void ronde__transport_destroy(ronde__transport *transport) {
  if (transport) transport->ops->destroy(transport);
}

/* Exchanges between the ranks of split layers: every rank sends every other its parcel straight away, so a parcel has one
 * step to go. They follow one another in the same order on all ranks, so one tag serves them all. In front of a parcel
 * goes how long its sender took to be ready since all last met, which tells waiting from exchanging. */
#include "strategy/peers.h"

#include <string.h>

enum { PHASE_STAMP, PHASE_PARCEL };

typedef struct posting {
  ronde__peer_ranks *peers;
  int n; /* requests so far */
} posting;

static uint32_t tag_of(int phase) { return RONDE__WIRE_TAG(RONDE__TAG_SPLIT, phase); }

static ronde_status post(posting *p, int peer, int phase, bool sends, void *at, size_t bytes) {
  ronde__transport *t = p->peers->transport;
  if (bytes == 0) return RONDE_OK;
  ronde__request *request = &p->peers->requests[p->n];
  RONDE_TRY(sends ? t->ops->isend(t, peer, tag_of(phase), at, bytes, request)
                  : t->ops->irecv(t, peer, tag_of(phase), at, bytes, request));
  p->n++;
  return RONDE_OK;
}

static ronde_status post_all(posting *p, const ronde__parcel *to, const ronde__parcel *from) {
  ronde__transport *t = p->peers->transport;
  uint64_t *stamps = p->peers->stamps, *own = &stamps[t->size];
  for (int k = 1; k < t->size; k++) {
    int peer = (t->rank + t->size - k) % t->size;
    RONDE_TRY(post(p, peer, PHASE_STAMP, false, &stamps[peer], sizeof *stamps));
    RONDE_TRY(post(p, peer, PHASE_PARCEL, false, from[peer].at, from[peer].n * sizeof(float)));
  }
  for (int k = 1; k < t->size; k++) {
    int peer = (t->rank + k) % t->size;
    RONDE_TRY(post(p, peer, PHASE_STAMP, true, own, sizeof *own));
    RONDE_TRY(post(p, peer, PHASE_PARCEL, true, to[peer].at, to[peer].n * sizeof(float)));
  }
  return RONDE_OK;
}

static ronde_status run(ronde__peer_ranks *peers, const ronde__parcel *to, const ronde__parcel *from) {
  ronde__transport *t = peers->transport;
  posting p = {.peers = peers};
  ronde_status status = post_all(&p, to, from);
  if (status == RONDE_OK) status = t->ops->wait(t, peers->requests, p.n, t->timeout_ns);
  if (status != RONDE_OK) t->ops->cancel(t, peers->requests, p.n);
  return status;
}

static ronde_status peers_exchange(void *user, bool backward, const ronde__parcel *to, const ronde__parcel *from) {
  ronde__peer_ranks *peers = user;
  const ronde__transport *t = peers->transport;
  ronde__phase phase = ronde__prof_phase(peers->prof);
  uint64_t begin = ronde__prof_switch(peers->prof, RONDE__PHASE_EXCHANGE), latest = 0;
  uint64_t own = ronde__time_now(t->time) - *peers->met_ns;
  peers->stamps[t->size] = peers->stamps[t->rank] = own;
  RONDE_TRY(run(peers, to, from));
  uint64_t end = ronde__prof_switch(peers->prof, phase);
  for (int r = 0; r < t->size; r++) {
    if (peers->stamps[r] > latest) latest = peers->stamps[r];
    if (r != t->rank) peers->bytes[backward] += to[r].n * sizeof(float);
  }
  latest += *peers->met_ns;
  if (latest > end) latest = end;
  if (latest > begin) ronde__prof_move(peers->prof, RONDE__PHASE_EXCHANGE, RONDE__PHASE_WAIT, latest - begin);
  *peers->met_ns = end;
  return RONDE_OK;
}

ronde_status ronde__peer_ranks_set(ronde__peer_ranks *peers, ronde__transport *transport, ronde__prof *prof,
                                   uint64_t *met_ns) {
  size_t size = (size_t)transport->size;
  *peers = (ronde__peer_ranks){.transport = transport, .prof = prof, .met_ns = met_ns};
  peers->exchanges = (ronde__peers){transport->rank, transport->size, peers_exchange, peers};
  RONDE__ALLOC(peers->requests, 4 * size * sizeof *peers->requests, "split layers");
  RONDE__ALLOC(peers->stamps, 2 * size * sizeof *peers->stamps, "split layers");
  return RONDE_OK;
}

void ronde__peer_ranks_release(ronde__peer_ranks *peers) {
  ronde__free(peers->requests);
  ronde__free(peers->stamps);
  *peers = (ronde__peer_ranks){0};
}

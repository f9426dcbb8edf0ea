/* Exchanges between the ranks of split layers: every rank sends every other its parcel straight away, so a parcel has one
 * step to go. They begin one after another in the same order on all ranks, so one tag serves them all. In front of a parcel
 * goes how long its sender took to be ready since all last met, which tells waiting from exchanging.
 * Where there are turns, several are under way at once while the rank computes; somebody must then wait for them all the
 * same, because some transports move long messages only for those who wait: that is a thread of their own. */
#include "strategy/peers.h"

#include <string.h>

enum { PHASE_STAMP, PHASE_PARCEL };

struct ronde__peer_exchange {
  ronde__peer_ranks *peers;
  ronde__request *requests; /* [4 * size] */
  uint64_t *stamps;         /* [2 * size]: of all, and the one that is sent */
  int n;                    /* requests so far */
  uint64_t met_ns;          /* that stamps count from */
  uint64_t n_jobs;          /* of the thread, with which it is done */
  bool in_use;
  ronde__peer_exchange *next;
};

/* ---- one exchange ---- */

static ronde_status make_exchange(ronde__peer_ranks *peers, ronde__peer_exchange **made_out) {
  size_t size = (size_t)peers->transport->size;
  ronde__peer_exchange *e;
  RONDE__ALLOC(e, sizeof *e + 2 * size * sizeof *e->stamps + 4 * size * sizeof *e->requests, "split layers");
  e->peers = peers;
  e->stamps = (uint64_t *)(e + 1);
  e->requests = (ronde__request *)(e->stamps + 2 * size);
  e->next = peers->all;
  *made_out = peers->all = e;
  return RONDE_OK;
}

static ronde_status take_exchange(ronde__peer_ranks *peers, ronde__peer_exchange **taken_out) {
  ronde__peer_exchange *e = peers->all;
  while (e && e->in_use) e = e->next;
  if (!e) RONDE_TRY(make_exchange(peers, &e));
  e->in_use = true;
  e->n = 0;
  *taken_out = e;
  return RONDE_OK;
}

static ronde_status post(ronde__peer_exchange *e, int peer, int phase, bool sends, void *at, size_t bytes) {
  ronde__transport *t = e->peers->transport;
  uint32_t tag = RONDE__WIRE_TAG(RONDE__TAG_SPLIT, phase);
  if (bytes == 0) return RONDE_OK;
  RONDE_TRY(sends ? t->ops->isend(t, peer, tag, at, bytes, &e->requests[e->n])
                  : t->ops->irecv(t, peer, tag, at, bytes, &e->requests[e->n]));
  e->n++;
  return RONDE_OK;
}

static ronde_status post_all(ronde__peer_exchange *e, const ronde__parcel *to, const ronde__parcel *from) {
  const ronde__transport *t = e->peers->transport;
  uint64_t *stamps = e->stamps, *own = &stamps[t->size];
  for (int k = 1; k < t->size; k++) {
    int peer = (t->rank + t->size - k) % t->size;
    RONDE_TRY(post(e, peer, PHASE_STAMP, false, &stamps[peer], sizeof *stamps));
    RONDE_TRY(post(e, peer, PHASE_PARCEL, false, from[peer].at, from[peer].n * sizeof(float)));
  }
  for (int k = 1; k < t->size; k++) {
    int peer = (t->rank + k) % t->size;
    RONDE_TRY(post(e, peer, PHASE_STAMP, true, own, sizeof *own));
    RONDE_TRY(post(e, peer, PHASE_PARCEL, true, to[peer].at, to[peer].n * sizeof(float)));
  }
  return RONDE_OK;
}

/* A job of the thread. */
static ronde_status wait_for(void *arg) {
  ronde__peer_exchange *e = arg;
  ronde__transport *t = e->peers->transport;
  return t->ops->wait(t, e->requests, e->n, t->timeout_ns);
}

/* ---- what steps call ---- */

static ronde_status peers_begin(void *user, bool backward, const ronde__parcel *to, const ronde__parcel *from,
                                void **under_way_out) {
  ronde__peer_ranks *peers = user;
  const ronde__transport *t = peers->transport;
  ronde__peer_exchange *e;
  ronde__phase phase = ronde__prof_phase(peers->prof);
  ronde__prof_switch(peers->prof, RONDE__PHASE_EXCHANGE);
  RONDE_TRY(take_exchange(peers, &e));
  *under_way_out = e;
  peers->n_under_way++;
  e->met_ns = *peers->met_ns;
  e->stamps[t->size] = e->stamps[t->rank] = ronde__time_now(t->time) - e->met_ns;
  RONDE_TRY(post_all(e, to, from));
  RONDE_TRY(ronde__comm_thread_submit(peers->thread, wait_for, e));
  e->n_jobs = ronde__comm_thread_submitted(peers->thread);
  for (int r = 0; r < t->size; r++)
    if (r != t->rank) peers->bytes[backward] += to[r].n * sizeof(float);
  ronde__prof_switch(peers->prof, phase);
  return RONDE_OK;
}

/* The ranks have met where nothing is under way any more: only then do all of them count from the same moment again. */
static ronde_status peers_end(void *user, void **under_way) {
  ronde__peer_ranks *peers = user;
  ronde__peer_exchange *e = *under_way;
  ronde__phase phase = ronde__prof_phase(peers->prof);
  uint64_t begin = ronde__prof_switch(peers->prof, RONDE__PHASE_EXCHANGE), latest = 0;
  RONDE_TRY(ronde__comm_thread_reach(peers->thread, e->n_jobs));
  uint64_t end = ronde__prof_switch(peers->prof, phase);
  for (int r = 0; r < peers->transport->size; r++) latest = e->stamps[r] > latest ? e->stamps[r] : latest;
  latest += e->met_ns;
  if (latest > end) latest = end;
  if (latest > begin) ronde__prof_move(peers->prof, RONDE__PHASE_EXCHANGE, RONDE__PHASE_WAIT, latest - begin);
  *under_way = NULL;
  e->in_use = false;
  if (--peers->n_under_way == 0) *peers->met_ns = end;
  return RONDE_OK;
}

/* The group was given up, so the thread does not wait any more. */
static void peers_cancel(void *user, void **under_way) {
  ronde__peer_ranks *peers = user;
  ronde__peer_exchange *e = *under_way;
  ronde__transport *t = peers->transport;
  if (!e) return;
  ronde__comm_thread_destroy(peers->thread);
  peers->thread = NULL;
  t->ops->cancel(t, e->requests, e->n);
  *under_way = NULL;
}

ronde_status ronde__peer_ranks_set(ronde__peer_ranks *peers, ronde__transport *transport, ronde__turn_scheme scheme,
                                   ronde__prof *prof, uint64_t *met_ns) {
  *peers = (ronde__peer_ranks){.transport = transport, .prof = prof, .met_ns = met_ns};
  peers->exchanges = (ronde__peers){.rank = transport->rank,
                                    .size = transport->size,
                                    .scheme = scheme,
                                    .begin = peers_begin,
                                    .end = peers_end,
                                    .cancel = peers_cancel,
                                    .user = peers};
  return ronde__comm_thread_create(transport->time, transport->rank, scheme == RONDE__TURNS_A, &peers->thread);
}

void ronde__peer_ranks_release(ronde__peer_ranks *peers) {
  ronde__comm_thread_destroy(peers->thread);
  for (ronde__peer_exchange *e = peers->all, *next; e; e = next) {
    next = e->next;
    ronde__free(e);
  }
  *peers = (ronde__peer_ranks){0};
}

/* Ranks as processes, over point-to-point MPI; those of one host copy from each other where they may (host.h). Waiting
 * is ours: MPI's own burns the core that the computing thread needs; here a wait for a short message spins for as long
 * as one takes, then sleeps in steps that grow, or until a neighbour rings. What ranks tell each other about themselves
 * (one lives, one leaves, one gives up) goes over a communicator of its own. */
#include "comm/mpi.h"

#ifndef RONDE_HAVE_MPI

ronde_status ronde__transport_mpi(const ronde__mpi_options *options, ronde__transport **transport_out) {
  return ronde__fail(RONDE_E_USAGE, "transport mpi: this build has no MPI; use --transport threads");
}

#else

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/limits.h"
#include "base/wait.h"
#include "comm/mpi_call.h"
#include "comm/mpi_message.h"
#include "comm/mpi_process.h"

enum {
  SPIN_NS = 50000,        /* a short message over TCP and back */
  SLEEP_NS = 50000,       /* while traffic flows */
  BULK_SLEEP_NS = 250000, /* the same where all that is waited for is long, and comes from other hosts */
  LONG_SLEEP_NS = 500000, /* when nothing has come for ... */
  LONG_AFTER_NS = 20000000,
  BELL_SLEEP_NS = 10000000, /* where all that is waited for rings the bell */
  BEAT_NS = 1000000000,     /* between two signs of life, at most */
  BEATS = 8,                /* of which one is to come before a rank is lost */
  SHORT_BYTES = 32 << 10,   /* what is longer is one of several under way, and its latency hidden */
  CONTROL_TAG = 0
};

/* A loss that the others survive is told with the rank that is lost. */
typedef enum notice { NOTICE_LEFT = 1, NOTICE_ABORTED, NOTICE_ALIVE, NOTICE_LOST } notice;
enum { NOTICE_BITS = 3 };

static ronde__mpi_endpoint *endpoint_of(ronde__transport *transport) { return (ronde__mpi_endpoint *)transport; }

static ronde_status mpi_isend(ronde__transport *transport, int peer, uint32_t tag, const void *data, size_t bytes,
                              ronde__request *request_out) {
  ronde__mpi_message wanted = {.peer = peer, .tag = tag, .is_send = true, .data = (char *)data, .bytes = bytes};
  return ronde__mpi_message_post(transport, wanted, request_out);
}

static ronde_status mpi_irecv(ronde__transport *transport, int peer, uint32_t tag, void *data, size_t bytes,
                              ronde__request *request_out) {
  ronde__mpi_message wanted = {.peer = peer, .tag = tag, .data = data, .bytes = bytes};
  return ronde__mpi_message_post(transport, wanted, request_out);
}

/* ---- notices ---- */

static void listen(ronde__mpi_endpoint *self) {
  RONDE__IN_MPI(MPI_Irecv(&self->heard, 1, MPI_INT, MPI_ANY_SOURCE, CONTROL_TAG, self->control, &self->listening));
}

static bool has_heard(ronde__mpi_endpoint *self, MPI_Status *status_out) {
  int done = 0, error;
  RONDE__IN_MPI(error = MPI_Test(&self->listening, &done, status_out));
  return error == MPI_SUCCESS && done;
}

/* This rank may be the one that the others go on without: it stood still for too long. */
static void hear_of_loss(ronde__mpi_endpoint *self, int rank) {
  if (!self->life || !ronde__transport_may_lose(&self->head, rank)) return;
  if (rank != self->head.rank) {
    atomic_store(&self->heard_lost[rank], true);
    ronde__life_give_up(self->life, rank);
  } else if (!atomic_exchange(&self->lost[rank], true)) {
    ronde__mpi_note_failure();
    ronde__log(RONDE_LOG_WARNING, "rank %d was not heard of for too long, and the others go on without it", rank);
  }
}

static void hear(void *user) {
  ronde__mpi_endpoint *self = user;
  if (pthread_mutex_trylock(&self->lock)) return; /* the other thread of this rank is at it */
  MPI_Status status;
  while (has_heard(self, &status)) {
    int rank = status.MPI_SOURCE;
    notice what = (notice)(self->heard & ((1 << NOTICE_BITS) - 1));
    ronde__mpi_beat_heard(&self->beat, rank);
    if (self->life) ronde__life_note_heard(self->life, rank);
    if (what == NOTICE_ABORTED) atomic_store(&self->aborted, true);
    if (what == NOTICE_LOST) hear_of_loss(self, self->heard >> NOTICE_BITS);
    if (what == NOTICE_LEFT) {
      atomic_store(&self->left_ns[rank], ronde__now_ns());
      atomic_store(&self->beat.gone[rank], true);
    }
    if (self->life && (what == NOTICE_LEFT || what == NOTICE_ABORTED)) ronde__life_note_left(self->life, rank);
    listen(self);
  }
  pthread_mutex_unlock(&self->lock);
}

/* Small enough that MPI takes it at once, whether the peer looks or not. */
static void notify_one(const ronde__mpi_endpoint *self, int rank, int word) {
  MPI_Request request;
  int done = 0, error;
  RONDE__IN_MPI(error = MPI_Isend(&word, 1, MPI_INT, rank, CONTROL_TAG, self->control, &request));
  for (uint64_t end = ronde__now_ns() + RONDE__UNDER_WAY_NS; error == MPI_SUCCESS && !done && ronde__now_ns() < end;)
    RONDE__IN_MPI(error = MPI_Test(&request, &done, MPI_STATUS_IGNORE));
}

static void notify(const ronde__mpi_endpoint *self, int word) {
  for (int r = 0; r < self->head.size; r++)
    if (r != self->head.rank && !atomic_load(&self->left_ns[r]) && !atomic_load(&self->lost[r]))
      notify_one(self, r, word);
}

/* Whom this rank goes on without: so do the others. One that has stood still hears it when it comes back, from who has
 * found it lost; to one that has gone nothing is sent, because Open MPI would connect to it once more. */
static void tell_losses(ronde__mpi_endpoint *self) {
  for (int r = 0; r < self->head.size; r++) {
    if (r == self->head.rank || self->told[r] || !atomic_load(&self->lost[r])) continue;
    self->told[r] = true;
    notify(self, NOTICE_LOST | r << NOTICE_BITS);
    if (!atomic_load(&self->heard_lost[r]) && !ronde__life_loss(self->life, r).gone)
      notify_one(self, r, NOTICE_LOST | r << NOTICE_BITS);
  }
}

static void attend(void *user) {
  hear(user);
  tell_losses(user);
}

/* For who must not call MPI. */
static void ask_to_attend(void *user) { ronde__mpi_beat_wake(&((ronde__mpi_endpoint *)user)->beat); }

/* ---- waiting ---- */

/* Of a peer without which the others go on: nothing more will come, and nobody waits. One that is awaited is about to halt
 * this rank. */
static bool drop_lost(ronde__mpi_endpoint *self, ronde__request *request) {
  ronde__mpi_message *m = request->impl;
  if (!atomic_load_explicit(&self->lost[m->peer], memory_order_relaxed)) return false;
  if (ronde__transport_awaits(&self->head, m->peer)) return false;
  ronde__mpi_message_withdraw(self, m, 0);
  request->impl = NULL;
  return true;
}

/* Tests all; done ones are reset. The first error. */
static ronde_status advance(ronde__mpi_endpoint *self, ronde__request *requests, int n, int *n_left_out) {
  ronde_status status = self->hosts.near ? ronde__host_advance(self->hosts.near) : RONDE_OK;
  *n_left_out = 0;
  ronde__mpi_messages_move(self);
  for (int i = 0; i < n; i++) {
    ronde__mpi_message *m = requests[i].impl;
    bool done;
    if (!m) continue;
    ronde_status one = ronde__mpi_message_test(self, m, &done);
    if (status == RONDE_OK) status = one;
    if (!done && drop_lost(self, &requests[i])) continue;
    if (!done) {
      ++*n_left_out;
      continue;
    }
    ronde__mpi_message_release(self, m);
    requests[i].impl = NULL;
  }
  return status;
}

static ronde_status someone_left(ronde__mpi_endpoint *self, const ronde__request *requests, int n) {
  uint64_t now = ronde__now_ns();
  for (int i = 0; i < n; i++) {
    const ronde__mpi_message *m = requests[i].impl;
    uint64_t left = m ? atomic_load(&self->left_ns[m->peer]) : 0;
    if (left && now > left + RONDE__UNDER_WAY_NS)
      return ronde__fail(RONDE_E_LOST, "rank %d has left while a message %s it was still missing", m->peer,
                         m->is_send ? "to" : "from");
  }
  return RONDE_OK;
}

static bool waits_for(const ronde__mpi_endpoint *self, const ronde__request *requests, int n, int rank) {
  bool waits = false;
  for (int i = 0; i < n; i++) {
    const ronde__mpi_message *m = requests[i].impl;
    waits |= m && (m->peer == rank || m->peer == self->head.rank); /* its own: MPI's collective, of all ranks */
  }
  return waits && rank != self->head.rank;
}

/* Adds "rank 2 on host c" to a list; what does not fit is left out. */
static void list_rank(const ronde__mpi_endpoint *self, char *list, size_t size, int rank) {
  size_t used = strlen(list);
  snprintf(list + used, size - used, "%srank %d on host %s", used ? ", " : "", rank, self->hosts.names[rank]);
}

/* Of those that are waited for: a silent one is to blame, not who waits for it in turn. */
static ronde_status someone_silent(const ronde__mpi_endpoint *self, const ronde__request *requests, int n) {
  char silent[512] = "";
  for (int r = 0; r < self->head.size; r++) {
    if (ronde__mpi_beat_silent_ns(&self->beat, r) < self->head.lost_after_ns || !waits_for(self, requests, n, r))
      continue;
    if (ronde__transport_may_lose(&self->head, r)) ronde__life_give_up(self->life, r);
    else list_rank(self, silent, sizeof silent, r);
  }
  return *silent ? ronde__fail(RONDE_E_LOST, "nothing heard from %s for %.3g s", silent,
                               (double)self->head.lost_after_ns * 1e-9)
                 : RONDE_OK;
}

static ronde_status mpi_time_out(const ronde__mpi_endpoint *self, const ronde__request *requests, int n,
                                 uint64_t timeout_ns) {
  char peers[512] = "";
  for (int r = 0; r < self->head.size; r++)
    if (waits_for(self, requests, n, r)) list_rank(self, peers, sizeof peers, r);
  return ronde__fail(RONDE_E_LOST, "no message exchanged for %.3g s with %s", (double)timeout_ns * 1e-9, peers);
}

/* Whatever is heard besides is looked at where there is time: before each sleep. */
static ronde_status look_around(ronde__mpi_endpoint *self, const ronde__request *requests, int n) {
  hear(self);
  if (atomic_load(&self->aborted) || atomic_load(&self->lost[self->head.rank])) return RONDE_E_LOST;
  RONDE_TRY(someone_silent(self, requests, n));
  return someone_left(self, requests, n);
}

static bool all_ring(const ronde__request *requests, int n) {
  bool all = true;
  for (int i = 0; i < n; i++) all &= !requests[i].impl || ((const ronde__mpi_message *)requests[i].impl)->is_near;
  return all;
}

static bool all_bulk(const ronde__mpi_endpoint *self, const ronde__request *requests, int n) {
  const int *host_of = self->hosts.host_of;
  bool all = true;
  for (int i = 0; i < n; i++) {
    const ronde__mpi_message *m = requests[i].impl;
    all &= !m || (m->bytes > SHORT_BYTES && host_of[m->peer] != host_of[self->head.rank]);
  }
  return all;
}

/* Or until the bell is rung again that was heard `seen` times. */
static void nap(ronde__mpi_endpoint *self, const ronde__request *requests, int n, uint32_t seen, uint64_t waited_ns) {
  uint64_t ns = waited_ns >= LONG_AFTER_NS ? LONG_SLEEP_NS : all_bulk(self, requests, n) ? BULK_SLEEP_NS : SLEEP_NS;
  struct timespec length = {0, (long)ns};
  if (!self->hosts.near) {
    nanosleep(&length, NULL);
  } else {
    if (all_ring(requests, n)) ns = BELL_SLEEP_NS;
    ronde__event_wait(ronde__host_bell(self->hosts.near), seen, ronde__now_ns() + ns);
  }
}

static ronde_status give_up(ronde__mpi_endpoint *self, ronde__request *requests, int n, ronde_status status) {
  self->head.ops->cancel(&self->head, requests, n);
  ronde__mpi_note_failure();
  return status;
}

/* Until at most n_over are left. */
static ronde_status mpi_wait_until(ronde__transport *transport, ronde__request *requests, int n, int n_over,
                                   uint64_t timeout_ns) {
  ronde__mpi_endpoint *self = endpoint_of(transport);
  uint64_t begin = 0, moved = 0;
  ronde__patience patience = {0};
  for (;;) {
    int n_left;
    uint32_t seen = self->hosts.near ? ronde__event_count(ronde__host_bell(self->hosts.near)) : 0;
    ronde_status status = advance(self, requests, n, &n_left);
    if (status == RONDE_OK && ronde__transport_halts(&self->head)) status = RONDE_E_LOST;
    if (status == RONDE_OK && n_left <= n_over) return atomic_load(&self->aborted) ? RONDE_E_LOST : RONDE_OK;
    uint64_t now = ronde__now_ns();
    uint64_t ended = atomic_load_explicit(&self->n_chunks_ended, memory_order_relaxed);
    if (!begin) begin = now;
    if (begin == now || ended != moved) patience = ronde__patience_of(timeout_ns, now);
    moved = ended;
    bool spin = now - begin < SPIN_NS && ronde__may_spin() && !all_bulk(self, requests, n);
    if (status == RONDE_OK && !spin) status = look_around(self, requests, n);
    if (status == RONDE_OK && !ronde__patience_left(&patience, now))
      status = mpi_time_out(self, requests, n, timeout_ns);
    if (status != RONDE_OK) return give_up(self, requests, n, status);
    if (!spin) nap(self, requests, n, seen, now - begin);
  }
}

static ronde_status mpi_wait(ronde__transport *transport, ronde__request *requests, int n, uint64_t timeout_ns) {
  return mpi_wait_until(transport, requests, n, 0, timeout_ns);
}

static ronde_status mpi_wait_some(ronde__transport *transport, ronde__request *requests, int n, uint64_t timeout_ns) {
  int n_under_way = 0;
  for (int i = 0; i < n; i++) n_under_way += requests[i].impl != NULL;
  return mpi_wait_until(transport, requests, n, ronde__max(1, n_under_way) - 1, timeout_ns);
}

static ronde_status mpi_test(ronde__transport *transport, ronde__request *request, bool *done_out) {
  ronde__mpi_endpoint *self = endpoint_of(transport);
  int n_left;
  ronde_status status = advance(self, request, 1, &n_left);
  if (status == RONDE_OK && n_left) status = look_around(self, request, 1);
  if (status == RONDE_OK && (atomic_load(&self->aborted) || ronde__transport_halts(&self->head))) status = RONDE_E_LOST;
  if (status != RONDE_OK) return give_up(self, request, 1, status);
  *done_out = n_left == 0;
  return RONDE_OK;
}

/* Where ranks go on after it, what may still come is waited for by mpi_land. */
static void mpi_cancel(ronde__transport *transport, ronde__request *requests, int n) {
  uint64_t end = ronde__now_ns() + (ronde__transport_halts(transport) ? RONDE__HALT_NS : RONDE__CANCEL_NS);
  for (int i = 0; i < n; i++) {
    if (requests[i].impl) ronde__mpi_message_withdraw(endpoint_of(transport), requests[i].impl, end);
    requests[i].impl = NULL;
  }
}

static ronde_status mpi_land(ronde__transport *transport) {
  ronde__mpi_endpoint *self = endpoint_of(transport);
  struct timespec nap = {0, SLEEP_NS};
  for (uint64_t end = ronde__now_ns() + transport->timeout_ns; !ronde__mpi_messages_land(self); nanosleep(&nap, NULL)) {
    RONDE_TRY(look_around(self, NULL, 0));
    if (ronde__now_ns() > end)
      return ronde__fail(RONDE_E_LOST, "transport mpi: a message that was given up has not ended within %.3g s",
                         (double)transport->timeout_ns * 1e-9);
  }
  return RONDE_OK;
}

/* MPI does not tell what it sends: counted is what a ring, which is asked for (set_defaults), must. */
static ronde_status mpi_allreduce(ronde__transport *transport, float *x, size_t n, uint64_t timeout_ns) {
  ronde__mpi_endpoint *self = endpoint_of(transport);
  if (atomic_load_explicit(&self->aborted, memory_order_relaxed)) return RONDE_E_LOST;
  if (n > INT32_MAX) return ronde__fail(RONDE_E_INTERNAL, "transport mpi: an all-reduce of %zu floats is too large", n);
  ronde__mpi_message *m = ronde__mpi_message_take(self, (ronde__mpi_message){.peer = transport->rank, .is_send = true});
  if (!m) return RONDE_E_MEMORY;
  m->bytes = 2 * n * sizeof *x * (size_t)(transport->size - 1) / (size_t)transport->size;
  int error;
  RONDE__IN_MPI(error = MPI_Iallreduce(MPI_IN_PLACE, x, (int)n, MPI_FLOAT, MPI_SUM, self->collective, m->chunks));
  if (error != MPI_SUCCESS) return ronde__mpi_failed(error, "an all-reduce of", m->peer);
  __atomic_fetch_add(&self->head.bytes_received, m->bytes, __ATOMIC_RELAXED);
  ronde__request request = {m};
  return mpi_wait(transport, &request, 1, timeout_ns);
}

/* Where rank 0 was, or who comes first of those that are left. */
static int home_of(const ronde__mpi_endpoint *self) {
  const int *host_of = self->hosts.host_of;
  for (int r = 0; r < self->head.size; r++)
    if (host_of[r] == host_of[0] && !ronde__life_is_lost(self->life, r)) return host_of[0];
  for (int r = 0; r < self->head.size; r++)
    if (!ronde__life_is_lost(self->life, r)) return host_of[r];
  return host_of[self->head.rank];
}

static bool mpi_claim(ronde__transport *transport, int64_t number) {
  ronde__mpi_endpoint *self = endpoint_of(transport);
  uint64_t end = ronde__now_ns() + RONDE__CLAIM_NS;
  struct timespec nap = {0, LONG_SLEEP_NS};
  if (!self->life) return transport->rank == 0;
  while (!ronde__life_any_lost(self->life) && ronde__now_ns() < end) nanosleep(&nap, NULL);
  if (!ronde__life_is_lost(self->life, 0)) return transport->rank == 0;
  if (home_of(self) != self->hosts.host_of[transport->rank]) return false;
  if (!self->hosts.near) return true; /* the state is the same, whoever writes it */
  _Atomic int64_t *claimed = &ronde__host_pulse(self->hosts.near, 0)->claimed;
  int64_t before = atomic_load(claimed);
  while (before < number)
    if (atomic_compare_exchange_weak(claimed, &before, number)) return true;
  return false;
}

static bool mpi_lost(ronde__transport *transport, int peer, ronde__loss *loss_out) {
  ronde__mpi_endpoint *self = endpoint_of(transport);
  if (!atomic_load(&self->lost[peer])) return false;
  if (loss_out && self->life && peer != transport->rank) *loss_out = ronde__life_loss(self->life, peer);
  return true;
}

static void mpi_abort(ronde__transport *transport) {
  ronde__mpi_endpoint *self = endpoint_of(transport);
  if (self->life) ronde__life_leave(self->life);
  if (atomic_exchange(&self->aborted, true)) return;
  ronde__mpi_note_failure();
  notify(self, NOTICE_ABORTED);
  if (self->hosts.near) ronde__host_ring_all(self->hosts.near);
}

/* ---- signs of life ---- */

/* A rank is lost, and this has been said: whatever waits ends, or goes on without it, at once: no call of MPI stands in
 * front of that. */
static void on_lost(void *user) {
  ronde__mpi_endpoint *self = user;
  ronde__mpi_note_failure();
  if (ronde__life_any_lost(self->life)) atomic_store(&self->aborted, true);
  for (int r = 0; r < self->head.size && !ronde__life_any_lost(self->life); r++) {
    if (r == self->head.rank || !ronde__life_is_lost(self->life, r) || atomic_load(&self->lost[r])) continue;
    atomic_store(&self->beat.gone[r], true);
    atomic_store(&self->lost[r], true);
    ronde__transport_note_lost(&self->head, r);
  }
  if (self->hosts.near) ronde__event_signal(ronde__host_bell(self->hosts.near));
  ask_to_attend(self);
}

/* Nothing takes a thread back from MPI: the process must end, so that the others miss it. Once. */
static void watch_calls(void *user, uint64_t ns) {
  ronde__mpi_endpoint *self = user;
  int64_t after_loss = ronde__mpi_has_failed() ? RONDE__STUCK_NS : INT64_MAX;
  int64_t limit = ronde__min(after_loss, (int64_t)self->head.lost_after_ns);
  if (ronde__mpi_called_for_ns(ns) < (uint64_t)limit || atomic_exchange(&self->is_stuck, true)) return;
  ronde__fail(RONDE_E_LOST, "Open MPI has not come back from a call for %.3g s: rank %d on host %s ends",
              (double)limit * 1e-9, self->head.rank, self->hosts.names[self->head.rank]);
  if (self->options.stuck) self->options.stuck(self->options.user);
}

static ronde_status find_pulses(ronde__mpi_endpoint *self) {
  RONDE__ALLOC(self->pulses, (size_t)self->head.size * sizeof *self->pulses, "transport mpi");
  for (int r = 0; r < self->head.size && self->hosts.near; r++) {
    int place = r == self->head.rank ? self->hosts.place : self->hosts.places[r];
    if (place >= 0) self->pulses[r] = ronde__host_pulse(self->hosts.near, place);
  }
  return RONDE_OK;
}

static ronde_status create_life(ronde__mpi_endpoint *self) {
  const ronde__mpi_options *options = &self->options;
  RONDE_TRY(find_pulses(self));
  ronde__life_options life = {
      .transport = &self->head,
      .host_names = (const char(*)[RONDE__HOST_NAME])self->hosts.names,
      .pulses = self->pulses,
      .iface = options->iface,
      .lost_after_ns = (uint64_t)ronde__min((int64_t)options->lost_after_ns, (int64_t)options->timeout_ns),
      .at_most_ns = options->timeout_ns,
      .listen = ask_to_attend,
      .pass = watch_calls,
      .lost = on_lost,
      .user = self};
  return ronde__life_create(&life, &self->life);
}

/* The ranks agree on a key, and on where each is to be heard, by MPI itself. All call together. */
static ronde_status meet_lives(ronde__mpi_endpoint *self) {
  struct {
    uint8_t bytes[RONDE__LIFE_KEY], made;
  } key = {.made = 0};
  ronde__life_offer *offers;
  if (self->options.lost_after_ns == 0 || self->head.size == 1) return RONDE_OK;
  RONDE__ALLOC(offers, (size_t)self->head.size * sizeof *offers, "transport mpi");
  ronde_status status = create_life(self);
  if (status == RONDE_OK) offers[self->head.rank] = ronde__life_offer_of(self->life);
  if (self->head.rank == 0) key.made = ronde__life_make_key(key.bytes);
  MPI_Bcast(&key, sizeof key, MPI_BYTE, 0, self->control);
  MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, offers, sizeof *offers, MPI_BYTE, self->control);
  if (status == RONDE_OK && !key.made)
    status = ronde__fail(RONDE_E_INTERNAL, "transport mpi: the system has no random numbers for the job's key");
  if (status == RONDE_OK) ronde__life_meet(self->life, offers, key.bytes);
  ronde__free(offers);
  return status;
}

/* ---- life ---- */

static void endpoint_free(ronde__mpi_endpoint *self) {
  ronde__mpi_beat_stop(&self->beat);
  ronde__life_destroy(self->life);
  ronde__mpi_beat_free(&self->beat);
  ronde__free(self->pulses);
  ronde__mpi_hosts_release(&self->hosts);
  ronde__mpi_messages_free(self);
  pthread_mutex_destroy(&self->lock);
  ronde__free(self->left_ns);
  ronde__free(self->lost);
  ronde__free(self->told);
  ronde__free(self->heard_lost);
  ronde__free(self->head.may_lose);
  ronde__free(self->head.awaited);
  ronde__free(self);
}

/* Watched over to the end; what is heard from here on is nobody's loss. */
static void mpi_destroy(ronde__transport *transport) {
  ronde__mpi_endpoint *self = endpoint_of(transport);
  if (self->life) ronde__life_leave(self->life);
  ronde__mpi_beat_stop(&self->beat);
  if (!atomic_load(&self->aborted)) notify(self, NOTICE_LEFT);
  RONDE__IN_MPI(MPI_Cancel(&self->listening));
  RONDE__IN_MPI(MPI_Request_free(&self->listening));
  /* Freeing a communicator is collective: where a rank is lost, it is left to the end of the process. */
  if (!ronde__mpi_has_failed()) {
    MPI_Comm_free(&self->data);
    MPI_Comm_free(&self->control);
    MPI_Comm_free(&self->collective);
  }
  endpoint_free(self);
  ronde__mpi_release();
}

static const ronde__transport_ops mpi_ops = {
    .name = "mpi",
    .isend = mpi_isend,
    .irecv = mpi_irecv,
    .test = mpi_test,
    .wait = mpi_wait,
    .wait_some = mpi_wait_some,
    .cancel = mpi_cancel,
    .allreduce = mpi_allreduce,
    .claim = mpi_claim,
    .lost = mpi_lost,
    .abort = mpi_abort,
    .land = mpi_land,
    .destroy = mpi_destroy,
};

static ronde_status set_up(ronde__mpi_endpoint *self) {
  MPI_Comm_dup(MPI_COMM_WORLD, &self->data);
  MPI_Comm_dup(MPI_COMM_WORLD, &self->control);
  MPI_Comm_dup(MPI_COMM_WORLD, &self->collective);
  MPI_Comm_set_errhandler(self->data, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(self->control, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(self->collective, MPI_ERRORS_RETURN);
  MPI_Comm_rank(self->data, &self->head.rank);
  MPI_Comm_size(self->data, &self->head.size);
  size_t n = (size_t)self->head.size;
  RONDE__ALLOC(self->left_ns, n * sizeof *self->left_ns, "transport mpi");
  RONDE__ALLOC(self->lost, n * sizeof *self->lost, "transport mpi");
  RONDE__ALLOC(self->told, n * sizeof *self->told, "transport mpi");
  RONDE__ALLOC(self->heard_lost, n * sizeof *self->heard_lost, "transport mpi");
  RONDE__ALLOC(self->head.may_lose, n * sizeof *self->head.may_lose, "transport mpi");
  RONDE__ALLOC(self->head.awaited, n * sizeof *self->head.awaited, "transport mpi");
  RONDE_TRY(ronde__mpi_hosts_find(self->data, &self->hosts));
  self->head.host_of = self->hosts.host_of;
  if (self->hosts.n > 1) self->head.piece_bytes = RONDE__MPI_CHUNK_BYTES;
  return meet_lives(self);
}

static ronde_status claim_and_set_up(void *arg) {
  RONDE_TRY(ronde__mpi_claim());
  ronde_status status = set_up(arg);
  if (status != RONDE_OK) ronde__mpi_release();
  return status;
}

/* From here on it can be noticed that a rank is lost. */
static ronde_status start_beat(ronde__mpi_endpoint *self) {
  self->beat = (ronde__mpi_beat){.comm = self->control,
                                 .tag = CONTROL_TAG,
                                 .word = NOTICE_ALIVE,
                                 .every_ns = ronde__min(BEAT_NS, self->head.lost_after_ns / BEATS),
                                 .listen = attend,
                                 .user = self};
  listen(self);
  RONDE_TRY(ronde__mpi_beat_start(&self->beat));
  return self->life ? ronde__life_start(self->life) : RONDE_OK;
}

ronde_status ronde__transport_mpi(const ronde__mpi_options *options, ronde__transport **transport_out) {
  ronde__mpi_endpoint *self;
  RONDE__ALLOC(self, sizeof *self, "transport mpi");
  self->head = (ronde__transport){.ops = &mpi_ops, .piece_bytes = RONDE__PIECE_BYTES, .process_each = true};
  ronde__transport_limit(&self->head, options->timeout_ns);
  self->options = *options;
  pthread_mutex_init(&self->lock, NULL);
  uint64_t limit_ns = RONDE__START_TIMES * options->timeout_ns;
  ronde_status status;
  /* What the ranks do not come back from cannot be freed either; the process is about to end. */
  if (!ronde__mpi_within(limit_ns, claim_and_set_up, self, &status)) {
    ronde__mpi_note_failure();
    return ronde__fail(RONDE_E_LOST, "transport mpi: not all ranks have joined within %.3g s", (double)limit_ns * 1e-9);
  }
  if (status == RONDE_OK) status = start_beat(self);
  if (status == RONDE_OK) *transport_out = &self->head;
  else endpoint_free(self);
  return status;
}

#endif

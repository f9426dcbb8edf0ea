/* Messages in virtual time. One task runs at a time (virtual.h), so that nothing is locked. */
#include "comm/sim.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ghost.h"
#include "base/limits.h"
#include "comm/sim_queue.h"
#include "comm/virtual.h"

typedef struct ronde__sim_endpoint endpoint;

typedef ronde__sim_transfer transfer;
typedef ronde__sim_queue queue;

typedef struct group {
  ronde__virtual virtual;
  ronde__sim_options options;
  int n_present;
  bool aborted;
  endpoint *endpoints;
  ronde__virtual_rank *times; /* [n] */
  int *host_of;               /* [n], or NULL */
  ronde__sim_links links;
} group;

struct ronde__sim_endpoint {
  ronde__transport head;
  group *group;
  bool left, told;         /* told: somebody has said that it is dead */
  bool missed;             /* by one who goes on without it: then by all */
  queue *sends, *receives; /* the mailbox: [n], by source */
};

/* What a task waits for. */
typedef struct awaited {
  endpoint *endpoint;
  const ronde__request *requests;
  int n;
} awaited;

static endpoint *endpoint_of(ronde__transport *transport) { return (endpoint *)transport; }

/* ---- mailboxes ---- */

static queue *sim_queue_of(const transfer *t, bool sends) {
  endpoint *mailbox = t->is_send ? &t->owner->group->endpoints[t->peer] : t->owner;
  int source = t->is_send ? t->owner->head.rank : t->peer;
  return sends ? &mailbox->sends[source] : &mailbox->receives[source];
}

static void sim_transfer_withdraw(transfer *t) {
  if (t->is_queued) ronde__sim_queue_remove(sim_queue_of(t, t->is_send), t);
  ronde__sim_transfer_free(t);
}

/* ---- links ---- */

static ronde_status send_off(group *g, transfer *t, queue *mailbox) {
  int from = t->owner->head.rank, to = t->peer;
  RONDE_TRY(ronde__sim_links_send(&g->links, from, to, t->bytes, g->virtual.now_ns, mailbox->arrived_ns, &t->done_ns,
                                  &t->arrives_ns));
  mailbox->arrived_ns = t->arrives_ns;
  ronde__virtual_note(&g->virtual, (uint64_t)from << 32 | (uint64_t)to, (uint64_t)t->tag << 32 ^ t->arrives_ns);
  return RONDE_OK;
}

static void copy(const transfer *send, transfer *receive) {
  const char *data = send->kept ? send->kept : send->data;
  float *sum = (float *)receive->data;
  if (send->bytes != receive->bytes)
    receive->status = ronde__fail(RONDE_E_INTERNAL,
                                  "the message from rank %d to rank %d with tag %#" PRIx32 " has %zu bytes, not %zu",
                                  receive->peer, receive->owner->head.rank, receive->tag, send->bytes, receive->bytes);
  else if (ronde__is_ghost(data) || ronde__is_ghost(receive->data)) return;
  else if (receive->add) receive->add(receive->addend, (const float *)data, sum, (int64_t)(send->bytes / sizeof *sum));
  else if (send->bytes) memcpy(receive->data, data, send->bytes);
}

/* The receiver's memory is the transfer's until it is done: it is filled at once. */
static void sim_meet(transfer *send, transfer *receive) {
  uint64_t now = send->owner->group->virtual.now_ns;
  copy(send, receive);
  receive->done_ns = send->arrives_ns > now ? send->arrives_ns : now;
  if (receive->waiter) ronde__virtual_wake(receive->waiter, receive->done_ns);
  if (send->left_alone) ronde__sim_transfer_free(send);
}

static ronde_status transfer_post(transfer *mine) {
  if (mine->is_send) RONDE_TRY(send_off(mine->owner->group, mine, sim_queue_of(mine, true)));
  transfer *other = ronde__sim_queue_take(sim_queue_of(mine, !mine->is_send), mine->tag);
  if (!other) ronde__sim_queue_append(sim_queue_of(mine, mine->is_send), mine);
  else if (mine->is_send) sim_meet(mine, other);
  else sim_meet(other, mine);
  return RONDE_OK;
}

/* ---- who has stopped ---- */

/* A rank that dies is gone at that moment, which it tells */
static bool is_dead(const endpoint *e) {
  const ronde__virtual_rank *rank = &e->group->times[e->head.rank];
  return rank->goes_on_ns == UINT64_MAX && e->group->virtual.now_ns >= rank->stops_ns;
}

static void say_loss(endpoint *e) {
  static const char *const texts[RONDE__N_ACTIVITIES] = {"starting", "training", "testing", "saving", "ending"};
  const ronde__virtual_rank *rank = &e->group->times[e->head.rank];
  ronde__doing doing = ronde__transport_noted(&e->head);
  if (!e->told)
    ronde__log(RONDE_LOG_WARNING,
               "rank %d on host %d is lost since %.9g s of virtual time (last seen %s, step %" PRId64
               "): the others go on without it",
               e->head.rank, e->head.host_of ? e->head.host_of[e->head.rank] : 0,
               (double)(rank->stops_ns - RONDE__VIRTUAL_BEGIN_NS) * 1e-9, texts[doing.activity], doing.step);
  e->told = true;
}

/* if nobody has: there may be nobody who waits for it; */
static ronde_status say_dead(endpoint *e) {
  if (ronde__transport_may_lose(&e->head, e->head.rank)) say_loss(e);
  if (e->told) return RONDE_E_LOST;
  e->told = true;
  return ronde__fail(RONDE_E_LOST, "rank %d has left at %.9g s of virtual time", e->head.rank,
                     (double)(e->group->times[e->head.rank].stops_ns - RONDE__VIRTUAL_BEGIN_NS) * 1e-9);
}

/* and others hear of it when a message of that moment would have come; of one that has stopped, they hear nothing. 0:
 * neither. */
static uint64_t missed_from_ns(const endpoint *self, int peer) {
  const ronde__virtual_rank *rank = &self->group->times[peer];
  const ronde__sim_options *options = &self->group->options;
  uint64_t late_ns = rank->stops_ns && options->late_ns ? options->late_ns(options->user, peer, self->head.rank) : 0;
  uint64_t silent_ns = rank->stops_ns + self->head.lost_after_ns + late_ns;
  if (!rank->stops_ns) return 0;
  if (rank->goes_on_ns == UINT64_MAX)
    return rank->stops_ns + ronde__sim_links_alpha_ns(&self->group->links, peer, self->head.rank) + late_ns;
  return silent_ns < rank->goes_on_ns ? silent_ns : 0;
}

static void wake_waiting(const group *g, int rank) {
  for (ronde__virtual_task *t = g->virtual.tasks; t; t = t->next)
    if (t->waits && t->subject && (rank < 0 || t->rank->rank == rank)) ronde__virtual_wake(t, g->virtual.now_ns);
}

/* Who has stood still for so long that one goes on without it is dead to all, whatever it does. */
static bool is_missed(endpoint *self, int peer) {
  endpoint *other = &self->group->endpoints[peer];
  uint64_t missed_ns = missed_from_ns(self, peer), now_ns = self->group->virtual.now_ns;
  const ronde__virtual_rank *rank = &self->group->times[peer];
  if (!self->group->options.n_faults || !ronde__transport_may_lose(&self->head, peer)) return false;
  if (peer == self->head.rank) return other->missed || is_dead(self);
  bool dies = rank->goes_on_ns == UINT64_MAX,
       misses = missed_ns && now_ns >= missed_ns && (dies || now_ns < rank->goes_on_ns);
  if (misses && !dies && !other->missed) wake_waiting(self->group, peer);
  other->missed |= misses && !dies;
  if (misses) say_loss(other);
  return misses || other->missed;
}

static bool sim_lost(ronde__transport *transport, int peer, ronde__loss *loss_out) {
  endpoint *self = endpoint_of(transport);
  bool lost = is_missed(self, peer);
  if (!lost || !loss_out) return lost;
  *loss_out = (ronde__loss){ronde__transport_noted(&self->group->endpoints[peer].head),
                            self->group->times[peer].stops_ns, "", false};
  snprintf(loss_out->host, sizeof loss_out->host, "%d", transport->host_of ? transport->host_of[peer] : 0);
  return true;
}

static bool is_halted(endpoint *self) {
  return self->group->options.n_faults && ronde__transport_is_halted(&self->head);
}

/* Whether what is awaited of this peer will never come. */
static ronde_status check_peer(const endpoint *self, const transfer *t) {
  group *g = self->group;
  const ronde__virtual_rank *rank = &g->times[t->peer];
  uint64_t missed_ns = missed_from_ns(self, t->peer), now_ns = g->virtual.now_ns;
  bool missed = missed_ns && now_ns >= missed_ns, is_gone = missed && rank->goes_on_ns == UINT64_MAX;
  if (missed && !is_gone && now_ns < rank->goes_on_ns)
    return ronde__fail(RONDE_E_LOST, "nothing heard from rank %d for %.3g s", t->peer,
                       (double)self->head.lost_after_ns * 1e-9);
  if (is_gone && g->endpoints[t->peer].told) return RONDE_E_LOST;
  g->endpoints[t->peer].told |= is_gone;
  if (is_gone || g->endpoints[t->peer].left)
    return ronde__fail(RONDE_E_LOST, "rank %d has left while a message was under way (tag %#" PRIx32 ")", t->peer,
                       t->tag);
  return RONDE_OK;
}

/* ---- the operations ---- */

static ronde_status sim_post(ronde__transport *transport, transfer wanted, ronde__request *request_out) {
  endpoint *self = endpoint_of(transport);
  if (self->group->aborted) return RONDE_E_LOST;
  if (is_dead(self) || self->missed) return say_dead(self);
  if (is_halted(self)) return RONDE_E_LOST;
  if (wanted.peer < 0 || wanted.peer >= transport->size)
    return ronde__fail(RONDE_E_INTERNAL, "transport sim: there is no rank %d among %d", wanted.peer, transport->size);
  if (wanted.peer != transport->rank && is_missed(self, wanted.peer)) {
    request_out->impl = NULL;
    return RONDE_OK;
  }
  transfer *t = malloc(sizeof *t);
  if (!t) return ronde__fail(RONDE_E_MEMORY, "transport sim: no memory for a message to rank %d", wanted.peer);
  *t = wanted;
  t->owner = self;
  t->done_ns = UINT64_MAX;
  ronde_status status = transfer_post(t);
  if (status == RONDE_OK) request_out->impl = t;
  else free(t);
  return status;
}

static ronde_status sim_isend(ronde__transport *transport, int peer, uint32_t tag, const void *data, size_t bytes,
                              ronde__request *request_out) {
  transfer wanted = {.peer = peer, .tag = tag, .is_send = true, .data = (char *)data, .bytes = bytes};
  return sim_post(transport, wanted, request_out);
}

static ronde_status sim_irecv(ronde__transport *transport, int peer, uint32_t tag, void *data, size_t bytes,
                              ronde__request *request_out) {
  transfer wanted = {.peer = peer, .tag = tag, .data = data, .bytes = bytes};
  return sim_post(transport, wanted, request_out);
}

static ronde_status sim_irecv_add(ronde__transport *transport, int peer, uint32_t tag, ronde__add add, const float *x,
                                  float *sum, size_t n, ronde__request *request_out) {
  transfer wanted = {.peer = peer, .tag = tag, .data = (char *)sum, .bytes = n * sizeof *sum, .add = add, .addend = x};
  return sim_post(transport, wanted, request_out);
}

static void sim_cancel(ronde__transport *transport, ronde__request *requests, int n) {
  for (int i = 0; i < n; i++) {
    if (requests[i].impl) sim_transfer_withdraw(requests[i].impl);
    requests[i].impl = NULL;
  }
}

/* A message that has left and was not received yet outlives its request. */
static ronde_status leave_alone(transfer *t) {
  t->left_alone = true;
  if (ronde__is_ghost(t->data)) return RONDE_OK;
  t->kept = malloc(t->bytes + 1);
  if (!t->kept) {
    sim_transfer_withdraw(t);
    return ronde__fail(RONDE_E_MEMORY, "transport sim: no memory for a message of %zu bytes", t->bytes);
  }
  if (t->bytes) memcpy(t->kept, t->data, t->bytes);
  return RONDE_OK;
}

static ronde_status sim_settle(ronde__transport *transport, ronde__request *request) {
  transfer *t = request->impl;
  ronde_status status = t->status;
  request->impl = NULL;
  if (status == RONDE_OK) *(t->is_send ? &transport->bytes_sent : &transport->bytes_received) += t->bytes;
  if (status == RONDE_OK) transport->messages += t->is_send;
  if (t->is_queued) return leave_alone(t);
  ronde__sim_transfer_free(t);
  return status;
}

static ronde_status advance(ronde__transport *transport, ronde__request *requests, int n, int *n_left_out) {
  endpoint *self = endpoint_of(transport);
  *n_left_out = 0;
  if (self->group->aborted) return RONDE_E_LOST;
  if (is_dead(self) || self->missed) return say_dead(self);
  if (is_halted(self)) return RONDE_E_LOST;
  for (int i = 0; i < n; i++) {
    transfer *t = requests[i].impl;
    if (!t) continue;
    if (t->is_queued && is_missed(self, t->peer)) {
      sim_cancel(transport, &requests[i], 1);
      continue;
    }
    if (t->is_queued) RONDE_TRY(check_peer(self, t));
    if (t->done_ns <= self->group->virtual.now_ns) RONDE_TRY(sim_settle(transport, &requests[i]));
    else ++*n_left_out;
  }
  return RONDE_OK;
}

static ronde_status sim_test(ronde__transport *transport, ronde__request *request, bool *done_out) {
  int n_left;
  ronde_status status = advance(transport, request, 1, &n_left);
  if (status == RONDE_OK) *done_out = n_left == 0;
  else sim_cancel(transport, request, 1);
  return status;
}

static uint64_t soonest(uint64_t a, uint64_t b) { return b && b < a ? b : a; }

static uint64_t to_come(const endpoint *self, uint64_t ns) { return ns > self->group->virtual.now_ns ? ns : 0; }

/* When the rank dies, or hears of a peer that is missing. */
static uint64_t bad_news_ns(const endpoint *self, const ronde__request *requests, int n) {
  const ronde__virtual_rank *own = &self->group->times[self->head.rank];
  uint64_t ns = soonest(UINT64_MAX, own->goes_on_ns == UINT64_MAX ? to_come(self, own->stops_ns) : 0);
  for (int i = 0; i < n && self->group->options.n_faults; i++) {
    const transfer *t = requests[i].impl;
    if (t && t->is_queued) ns = soonest(ns, to_come(self, missed_from_ns(self, t->peer)));
  }
  for (int r = 0; r < self->head.size && self->group->options.n_faults; r++)
    if (ronde__transport_awaits(&self->head, r)) ns = soonest(ns, to_come(self, missed_from_ns(self, r)));
  return ns;
}

/* Who waits for all goes on when the last is done, if that is known of each; who waits for some, at the next. */
static uint64_t due_ns(const ronde__request *requests, int n, bool for_all) {
  uint64_t first = UINT64_MAX, last = 0;
  for (int i = 0; i < n; i++) {
    const transfer *t = requests[i].impl;
    if (!t) continue;
    if (t->done_ns < first) first = t->done_ns;
    if (t->done_ns > last) last = t->done_ns;
  }
  return for_all ? last : first;
}

static void set_waiter(const ronde__request *requests, int n, ronde__virtual_task *waiter) {
  for (int i = 0; i < n; i++)
    if (requests[i].impl) ((transfer *)requests[i].impl)->waiter = waiter;
}

static ronde_status sim_wait_until(ronde__transport *transport, ronde__request *requests, int n, int n_over,
                                   bool for_all, uint64_t timeout_ns) {
  ronde__virtual *virtual = &endpoint_of(transport)->group->virtual;
  awaited subject = {endpoint_of(transport), requests, n};
  uint64_t limit_ns = timeout_ns > UINT64_MAX - virtual->now_ns ? 0 : virtual->now_ns + timeout_ns;
  ronde_status status;
  for (;;) {
    int n_left;
    status = advance(transport, requests, n, &n_left);
    if (status != RONDE_OK || n_left <= n_over) break;
    uint64_t due = soonest(due_ns(requests, n, for_all), bad_news_ns(endpoint_of(transport), requests, n));
    if (due < UINT64_MAX) ronde__virtual_wake(virtual->current, due);
    set_waiter(requests, n, virtual->current);
    bool in_time = ronde__virtual_wait(virtual, &subject, limit_ns);
    set_waiter(requests, n, NULL);
    if (in_time) continue;
    status = ronde__fail(RONDE_E_LOST, "no message has arrived for %.3g s of virtual time", (double)timeout_ns * 1e-9);
    break;
  }
  if (status != RONDE_OK) sim_cancel(transport, requests, n);
  return status;
}

static ronde_status sim_wait(ronde__transport *transport, ronde__request *requests, int n, uint64_t timeout_ns) {
  return sim_wait_until(transport, requests, n, 0, true, timeout_ns);
}

static ronde_status sim_wait_some(ronde__transport *transport, ronde__request *requests, int n, uint64_t timeout_ns) {
  int under_way = 0;
  for (int i = 0; i < n; i++) under_way += requests[i].impl != NULL;
  return sim_wait_until(transport, requests, n, under_way > 0 ? under_way - 1 : 0, false, timeout_ns);
}

/* ---- the end ---- */

static void abort_group(group *g) {
  g->aborted = true;
  wake_waiting(g, -1);
}

/* The dead tell nobody. */
static void sim_abort(ronde__transport *transport) {
  if (!is_dead(endpoint_of(transport)) && !endpoint_of(transport)->missed) abort_group(endpoint_of(transport)->group);
}

typedef struct text {
  char at[768];
  size_t used;
  int n_more;
} text;

/* What does not fit is counted. */
static void say(text *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(text *to, const char *format, ...) {
  char one[128];
  va_list args;
  va_start(args, format);
  size_t n = (size_t)vsnprintf(one, sizeof one, format, args);
  va_end(args);
  if (to->used + n + 2 >= sizeof to->at || to->n_more > 0) {
    to->n_more++;
    return;
  }
  to->used += (size_t)snprintf(to->at + to->used, sizeof to->at - to->used, "%s%s", to->used ? "; " : "", one);
}

static void say_awaited(text *to, const char *who, const awaited *what) {
  for (int i = 0; i < what->n; i++) {
    const transfer *t = what->requests[i].impl;
    if (!t || t->done_ns < UINT64_MAX) continue;
    say(to, "%s waits for rank %d (tag %#" PRIx32 ")", who, t->peer, t->tag);
    return;
  }
}

/* What runs beside a rank and waits for that rank alone is only told of where nobody waits for a message. */
static void say_who_waits(const group *g, text *to, bool for_messages) {
  for (const ronde__virtual_task *t = g->virtual.tasks; t; t = t->next) {
    char who[64];
    bool beside = t->task && t->task->name[0];
    snprintf(who, sizeof who, "rank %d%s%s", t->rank->rank, beside ? "'s " : "", beside ? t->task->name : "");
    if (!t->waits) continue;
    if (for_messages && t->subject) say_awaited(to, who, t->subject);
    else if (!for_messages && t->joined) say(to, "%s waits for rank %d to end", who, t->joined->rank->rank);
    else if (!for_messages && t->event) say(to, "%s waits for another task of its rank", who);
  }
}

static void stuck(ronde__virtual *virtual, void *user) {
  group *g = user;
  text who = {.used = 0};
  char more[32] = "";
  say_who_waits(g, &who, true);
  if (who.used == 0) say_who_waits(g, &who, false);
  if (who.n_more > 0) snprintf(more, sizeof more, "; and %d more", who.n_more);
  ronde__fail(RONDE_E_LOST, "deadlock at %.9f s of virtual time: %s%s",
              (double)(virtual->now_ns - RONDE__VIRTUAL_BEGIN_NS) * 1e-9, who.at, more);
  abort_group(g);
}

static void sim_group_free(group *g) {
  for (int r = 0; g->endpoints && r < g->options.n; r++) {
    endpoint *e = &g->endpoints[r];
    for (int source = 0; e->sends && source < g->options.n; source++) {
      ronde__sim_queue_free(&e->sends[source]);
      ronde__sim_queue_free(&e->receives[source]);
    }
    ronde__free(e->sends);
    ronde__free(e->head.may_lose);
    ronde__free(e->head.awaited);
  }
  ronde__virtual_end(&g->virtual);
  ronde__free(g->endpoints);
  ronde__free(g->times);
  ronde__free(g->host_of);
  ronde__sim_links_free(&g->links);
  ronde__free(g);
}

/* Whoever waits for this rank learns that it has left. */
static void sim_destroy(ronde__transport *transport) {
  group *g = endpoint_of(transport)->group;
  endpoint_of(transport)->left = true;
  wake_waiting(g, -1);
  if (--g->n_present == 0) sim_group_free(g);
}

static const ronde__transport_ops sim_ops = {
    .name = "sim",
    .isend = sim_isend,
    .irecv = sim_irecv,
    .irecv_add = sim_irecv_add,
    .test = sim_test,
    .wait = sim_wait,
    .wait_some = sim_wait_some,
    .cancel = sim_cancel,
    .lost = sim_lost,
    .abort = sim_abort,
    .destroy = sim_destroy,
};

/* ---- the beginning ---- */

static ronde_status make_endpoints(group *g) {
  int n = g->options.n;
  RONDE__ALLOC(g->endpoints, (size_t)n * sizeof *g->endpoints, "transport sim");
  for (int r = 0; r < n; r++) {
    endpoint *e = &g->endpoints[r];
    e->head = (ronde__transport){.ops = &sim_ops,
                                 .time = &g->times[r].head,
                                 .rank = r,
                                 .size = n,
                                 .piece_bytes = RONDE__PIECE_BYTES,
                                 .host_of = g->host_of};
    ronde__transport_limit(&e->head, RONDE__LOST_AFTER_S * 1000000000ull);
    e->group = g;
    RONDE__ALLOC(e->sends, 2 * (size_t)n * sizeof *e->sends, "transport sim");
    e->receives = e->sends + n;
    RONDE__ALLOC(e->head.may_lose, (size_t)n * sizeof *e->head.may_lose, "transport sim");
    RONDE__ALLOC(e->head.awaited, (size_t)n * sizeof *e->head.awaited, "transport sim");
  }
  return RONDE_OK;
}

static void plan_faults(group *g) {
  for (int i = 0; i < g->options.n_faults; i++) {
    const ronde__sim_fault *fault = &g->options.faults[i];
    ronde__virtual_rank *rank = &g->times[fault->rank];
    bool dies = fault->lasts_ns == UINT64_MAX;
    rank->stops_ns = RONDE__VIRTUAL_BEGIN_NS + fault->at_ns;
    rank->goes_on_ns = dies ? UINT64_MAX : rank->stops_ns + fault->lasts_ns;
  }
}

static ronde_status make_group(group *g) {
  int n = g->options.n;
  if (g->options.host_of) {
    RONDE__ALLOC(g->host_of, (size_t)n * sizeof *g->host_of, "transport sim");
    memcpy(g->host_of, g->options.host_of, (size_t)n * sizeof *g->host_of);
  }
  RONDE_TRY(ronde__sim_links_create(&g->options, g->host_of, &g->links));
  RONDE__ALLOC(g->times, (size_t)n * sizeof *g->times, "transport sim");
  g->virtual.stuck = stuck;
  g->virtual.user = g;
  RONDE_TRY(ronde__virtual_begin(&g->virtual, g->options.seed, g->times, n));
  plan_faults(g);
  return make_endpoints(g);
}

ronde_status ronde__transport_sim(const ronde__sim_options *options, ronde__transport **transports_out) {
  if (options->n < 1)
    return ronde__fail(RONDE_E_INTERNAL, "transport sim: %d ranks, but at least 1 is needed", options->n);
  group *g;
  RONDE__ALLOC(g, sizeof *g, "transport sim");
  g->options = *options;
  g->n_present = options->n;
  ronde_status status = make_group(g);
  if (status != RONDE_OK) {
    sim_group_free(g);
    return status;
  }
  for (int r = 0; r < options->n; r++) transports_out[r] = &g->endpoints[r].head;
  return RONDE_OK;
}

ronde__sim_events ronde__sim_events_of(const ronde__transport *transport) {
  const ronde__virtual *virtual = &((const endpoint *)transport)->group->virtual;
  return (ronde__sim_events){virtual->n_events, virtual->digest};
}

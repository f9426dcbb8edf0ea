/* Ranks as threads of one process. Each rank has a mailbox with a queue of waiting sends and one of waiting receives
 * for every source; who comes second finds the other there and copies, outside the lock. */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/wait.h"
#include "comm/copy.h"
#include "comm/transport.h"

typedef struct endpoint endpoint;
typedef struct transfer transfer;

typedef enum state {
  STATE_FREE,
  STATE_QUEUED, /* in a mailbox; changed only under that mailbox's lock */
  STATE_COPYING,
  STATE_DONE
} state;

struct transfer {
  transfer *next; /* in a queue of a mailbox, or among the owner's free ones */
  endpoint *owner;
  int peer;
  uint32_t tag;
  bool is_send;
  char *data; /* only read where is_send */
  size_t bytes;
  ronde__add add; /* of a receive: NULL, or what comes is added to addend, as floats */
  const float *addend;
  ronde_status status;
  _Atomic state state;
};

typedef struct queue {
  transfer *first, *last;
} queue;

enum { TRANSFERS_PER_BLOCK = 32 };

typedef struct block {
  struct block *next;
  transfer transfers[TRANSFERS_PER_BLOCK];
} block;

typedef struct group {
  int size;
  _Atomic int n_present;
  _Atomic bool aborted;
  endpoint *endpoints;
} group;

struct endpoint {
  _Alignas(64) ronde__transport head;
  group *group;
  _Atomic bool left;
  _Atomic int n_waiting; /* threads of this rank in a wait, or gone from one with an error: the rank is not missing */
  _Atomic bool told;     /* somebody has logged that this rank is missing */
  _Alignas(64) ronde__event event; /* a transfer of this rank is done, or the group has changed */
  _Alignas(64) pthread_mutex_t lock;
  queue *sends, *receives; /* the mailbox: [size], by source */
  transfer *free;          /* transfers of this rank; they live as long as the group: a peer may still look at one */
  block *blocks;
};

static endpoint *endpoint_of(ronde__transport *transport) { return (endpoint *)transport; }

/* ---- queues and transfers ---- */

static void queue_append(queue *q, transfer *t) {
  t->next = NULL;
  if (q->first) q->last->next = t;
  else q->first = t;
  q->last = t;
}

static void queue_unlink(queue *q, transfer *before, transfer *t) {
  if (before) before->next = t->next;
  else q->first = t->next;
  if (q->last == t) q->last = before;
}

static transfer *queue_take_tag(queue *q, uint32_t tag) {
  for (transfer *before = NULL, *t = q->first; t; before = t, t = t->next)
    if (t->tag == tag) {
      queue_unlink(q, before, t);
      return t;
    }
  return NULL;
}

static void queue_remove(queue *q, const transfer *gone) {
  for (transfer *before = NULL, *t = q->first; t; before = t, t = t->next)
    if (t == gone) {
      queue_unlink(q, before, t);
      return;
    }
}

static transfer *transfer_take(endpoint *owner) {
  pthread_mutex_lock(&owner->lock);
  if (!owner->free) {
    block *more = ronde__alloc(sizeof *more);
    if (more) {
      more->next = owner->blocks;
      owner->blocks = more;
      for (int i = 0; i < TRANSFERS_PER_BLOCK; i++) {
        more->transfers[i].next = owner->free;
        owner->free = &more->transfers[i];
      }
    }
  }
  transfer *t = owner->free;
  if (t) owner->free = t->next;
  pthread_mutex_unlock(&owner->lock);
  return t;
}

static void transfer_release(transfer *t) {
  endpoint *owner = t->owner;
  pthread_mutex_lock(&owner->lock);
  atomic_store_explicit(&t->state, STATE_FREE, memory_order_relaxed);
  t->next = owner->free;
  owner->free = t;
  pthread_mutex_unlock(&owner->lock);
}

static endpoint *mailbox_of(const transfer *t) { return t->is_send ? &t->owner->group->endpoints[t->peer] : t->owner; }

static queue *threads_queue_of(const transfer *t, bool sends) {
  endpoint *mailbox = mailbox_of(t);
  int source = t->is_send ? t->owner->head.rank : t->peer;
  return sends ? &mailbox->sends[source] : &mailbox->receives[source];
}

static void copy(const transfer *send, transfer *receive) {
  if (send->bytes == receive->bytes) {
    float *sum = (float *)receive->data;
    if (receive->add)
      receive->add(receive->addend, (const float *)send->data, sum, (int64_t)(send->bytes / sizeof *sum));
    else if (send->bytes) ronde__copy_past_cache(receive->data, send->data, send->bytes);
    return;
  }
  receive->status =
      ronde__fail(RONDE_E_INTERNAL, "the message from rank %d to rank %d with tag %#" PRIx32 " has %zu bytes, not %zu",
                  receive->peer, receive->owner->head.rank, receive->tag, send->bytes, receive->bytes);
}

/* Finds the other side in the mailbox and copies, or waits there to be found. */
static void transfer_post(transfer *mine) {
  endpoint *mailbox = mailbox_of(mine);
  pthread_mutex_lock(&mailbox->lock);
  transfer *other = queue_take_tag(threads_queue_of(mine, !mine->is_send), mine->tag);
  if (other) {
    atomic_store_explicit(&other->state, STATE_COPYING, memory_order_relaxed);
  } else {
    atomic_store_explicit(&mine->state, STATE_QUEUED, memory_order_relaxed);
    queue_append(threads_queue_of(mine, mine->is_send), mine);
  }
  pthread_mutex_unlock(&mailbox->lock);
  if (!other) return;
  if (mine->is_send) copy(mine, other);
  else copy(other, mine);
  atomic_store_explicit(&mine->state, STATE_DONE, memory_order_relaxed);
  endpoint *owner = other->owner;
  atomic_store_explicit(&other->state, STATE_DONE, memory_order_release);
  ronde__event_signal(&owner->event);
}

/* Afterwards no peer touches the buffer: out of the mailbox, or its copy under way has ended. */
static void threads_transfer_withdraw(transfer *t) {
  endpoint *mailbox = mailbox_of(t);
  pthread_mutex_lock(&mailbox->lock);
  bool queued = atomic_load_explicit(&t->state, memory_order_relaxed) == STATE_QUEUED;
  if (queued) queue_remove(threads_queue_of(t, t->is_send), t);
  pthread_mutex_unlock(&mailbox->lock);
  while (!queued && atomic_load_explicit(&t->state, memory_order_acquire) != STATE_DONE) sched_yield();
  transfer_release(t);
}

/* ---- the operations ---- */

static ronde_status threads_post(ronde__transport *transport, transfer wanted, ronde__request *request_out) {
  endpoint *self = endpoint_of(transport);
  if (atomic_load_explicit(&self->group->aborted, memory_order_relaxed)) return RONDE_E_LOST;
  if (wanted.peer < 0 || wanted.peer >= transport->size)
    return ronde__fail(RONDE_E_INTERNAL, "transport threads: there is no rank %d among %d", wanted.peer,
                       transport->size);
  transfer *t = transfer_take(self);
  if (!t) return ronde__fail(RONDE_E_MEMORY, "transport threads: no memory for a message to rank %d", wanted.peer);
  t->owner = self;
  t->peer = wanted.peer;
  t->tag = wanted.tag;
  t->is_send = wanted.is_send;
  t->data = wanted.data;
  t->bytes = wanted.bytes;
  t->add = wanted.add;
  t->addend = wanted.addend;
  t->status = RONDE_OK;
  transfer_post(t);
  request_out->impl = t;
  return RONDE_OK;
}

static ronde_status threads_isend(ronde__transport *transport, int peer, uint32_t tag, const void *data, size_t bytes,
                                  ronde__request *request_out) {
  transfer wanted = {.peer = peer, .tag = tag, .is_send = true, .data = (char *)data, .bytes = bytes};
  return threads_post(transport, wanted, request_out);
}

static ronde_status threads_irecv(ronde__transport *transport, int peer, uint32_t tag, void *data, size_t bytes,
                                  ronde__request *request_out) {
  transfer wanted = {.peer = peer, .tag = tag, .data = data, .bytes = bytes};
  return threads_post(transport, wanted, request_out);
}

static ronde_status threads_irecv_add(ronde__transport *transport, int peer, uint32_t tag, ronde__add add,
                                      const float *x, float *sum, size_t n, ronde__request *request_out) {
  transfer wanted = {.peer = peer, .tag = tag, .data = (char *)sum, .bytes = n * sizeof *sum, .add = add, .addend = x};
  return threads_post(transport, wanted, request_out);
}

static void threads_cancel(ronde__transport *transport, ronde__request *requests, int n) {
  for (int i = 0; i < n; i++) {
    if (requests[i].impl) threads_transfer_withdraw(requests[i].impl);
    requests[i].impl = NULL;
  }
}

static ronde_status threads_settle(ronde__transport *transport, ronde__request *request) {
  transfer *t = request->impl;
  ronde_status status = t->status;
  if (status == RONDE_OK) {
    __atomic_fetch_add(t->is_send ? &transport->bytes_sent : &transport->bytes_received, t->bytes, __ATOMIC_RELAXED);
    if (t->is_send) __atomic_fetch_add(&transport->messages, 1, __ATOMIC_RELAXED);
  }
  request->impl = NULL;
  transfer_release(t);
  return status;
}

/* Settles what is done; an error where one of the rest can never be done. */
static ronde_status advance(ronde__transport *transport, ronde__request *requests, int n, int *n_left_out) {
  endpoint *self = endpoint_of(transport);
  *n_left_out = 0;
  if (atomic_load_explicit(&self->group->aborted, memory_order_acquire)) return RONDE_E_LOST;
  for (int i = 0; i < n; i++) {
    transfer *t = requests[i].impl;
    if (!t) continue;
    /* In this order: whoever leaves has finished its copies before. */
    bool peer_left = atomic_load_explicit(&self->group->endpoints[t->peer].left, memory_order_acquire);
    state now = atomic_load_explicit(&t->state, memory_order_acquire);
    if (now == STATE_DONE) RONDE_TRY(threads_settle(transport, &requests[i]));
    else if (now == STATE_QUEUED && peer_left)
      return ronde__fail(RONDE_E_LOST, "rank %d has left while a message was under way (tag %#" PRIx32 ")", t->peer,
                         t->tag);
    else ++*n_left_out;
  }
  return RONDE_OK;
}

static ronde_status threads_test(ronde__transport *transport, ronde__request *request, bool *done_out) {
  int n_left;
  ronde_status status = advance(transport, request, 1, &n_left);
  if (status == RONDE_OK) *done_out = n_left == 0;
  else threads_cancel(transport, request, 1);
  return status;
}

/* Adds "sep N" to a list of ranks; what does not fit is left out. */
static void list_rank(char *list, size_t size, int rank) {
  size_t used = strlen(list);
  snprintf(list + used, size - used, "%s%d", used ? ", " : "", rank);
}

/* Names who is missing, not who waits for the missing one in turn; each missing rank once in the group. */
static ronde_status threads_time_out(endpoint *self, const ronde__request *requests, int n, uint64_t timeout_ns) {
  group *group = self->group;
  char missing[256] = "", peers[256] = "";
  bool any_missing = false;
  for (int r = 0; r < group->size; r++) {
    endpoint *other = &group->endpoints[r];
    if (other == self || atomic_load(&other->n_waiting) > 0) continue;
    any_missing = true;
    if (!atomic_exchange(&other->told, true)) list_rank(missing, sizeof missing, r);
  }
  double seconds = (double)timeout_ns * 1e-9;
  if (any_missing) {
    if (*missing) ronde__fail(RONDE_E_LOST, "nothing heard from rank %s for %.3g s", missing, seconds);
    return RONDE_E_LOST;
  }
  for (int i = 0; i < n; i++)
    if (requests[i].impl) list_rank(peers, sizeof peers, ((transfer *)requests[i].impl)->peer);
  return ronde__fail(RONDE_E_LOST, "no message exchanged with rank %s for %.3g s, though all ranks are waiting", peers,
                     seconds);
}

static int under_way(const ronde__request *requests, int n) {
  int count = 0;
  for (int i = 0; i < n; i++) count += requests[i].impl != NULL;
  return count;
}

/* Until at most n_over are left. */
static ronde_status threads_wait_until(ronde__transport *transport, ronde__request *requests, int n, int n_over,
                                       uint64_t timeout_ns) {
  endpoint *self = endpoint_of(transport);
  ronde__patience patience;
  bool waits = false;
  ronde_status status;
  for (;;) {
    uint32_t seen = ronde__event_count(&self->event);
    int n_left;
    status = advance(transport, requests, n, &n_left);
    if (status == RONDE_OK && n_left <= n_over) break;
    uint64_t now = ronde__now_ns();
    if (status == RONDE_OK && waits && !ronde__patience_left(&patience, now))
      status = threads_time_out(self, requests, n, timeout_ns);
    if (status != RONDE_OK) break;
    if (!waits) {
      atomic_fetch_add(&self->n_waiting, 1);
      patience = ronde__patience_of(timeout_ns, now);
      waits = true;
    }
    ronde__event_wait(&self->event, seen, now + patience.nap_ns);
  }
  if (status != RONDE_OK) threads_cancel(transport, requests, n);
  else if (waits) atomic_fetch_sub(&self->n_waiting, 1);
  return status;
}

static ronde_status threads_wait(ronde__transport *transport, ronde__request *requests, int n, uint64_t timeout_ns) {
  return threads_wait_until(transport, requests, n, 0, timeout_ns);
}

static ronde_status threads_wait_some(ronde__transport *transport, ronde__request *requests, int n,
                                      uint64_t timeout_ns) {
  return threads_wait_until(transport, requests, n, ronde__max(1, under_way(requests, n)) - 1, timeout_ns);
}

static void wake_all(group *group) {
  for (int r = 0; r < group->size; r++) ronde__event_signal(&group->endpoints[r].event);
}

static void threads_abort(ronde__transport *transport) {
  group *group = endpoint_of(transport)->group;
  atomic_store_explicit(&group->aborted, true, memory_order_release);
  wake_all(group);
}

/* ---- life ---- */

static void threads_group_free(group *group) {
  for (int r = 0; r < group->size; r++) {
    endpoint *e = &group->endpoints[r];
    for (block *b = e->blocks, *next; b; b = next) {
      next = b->next;
      ronde__free(b);
    }
    ronde__free(e->sends);
    pthread_mutex_destroy(&e->lock);
  }
  ronde__free(group->endpoints);
  ronde__free(group);
}

static void threads_destroy(ronde__transport *transport) {
  endpoint *self = endpoint_of(transport);
  group *group = self->group;
  for (block *b = self->blocks; b; b = b->next)
    for (int i = 0; i < TRANSFERS_PER_BLOCK; i++) {
      transfer *t = &b->transfers[i];
      if (atomic_load_explicit(&t->state, memory_order_relaxed) != STATE_FREE) threads_transfer_withdraw(t);
    }
  atomic_store_explicit(&self->left, true, memory_order_release);
  wake_all(group);
  if (atomic_fetch_sub(&group->n_present, 1) == 1) threads_group_free(group);
  else ronde__busy_add(-1);
}

static const ronde__transport_ops threads_ops = {
    .name = "threads",
    .isend = threads_isend,
    .irecv = threads_irecv,
    .irecv_add = threads_irecv_add,
    .test = threads_test,
    .wait = threads_wait,
    .wait_some = threads_wait_some,
    .cancel = threads_cancel,
    .abort = threads_abort,
    .destroy = threads_destroy,
};

ronde_status ronde__transport_threads(int n, ronde__transport **transports_out) {
  if (n < 1) return ronde__fail(RONDE_E_INTERNAL, "transport threads: %d ranks, but at least 1 is needed", n);
  group *group;
  RONDE__ALLOC(group, sizeof *group, "transport threads");
  group->endpoints = ronde__alloc(sizeof *group->endpoints * (size_t)n);
  bool complete = group->endpoints != NULL;
  for (int r = 0; complete && r < n; r++) {
    endpoint *e = &group->endpoints[r];
    e->head = (ronde__transport){.ops = &threads_ops, .rank = r, .size = n, .piece_bytes = RONDE__PIECE_BYTES};
    ronde__transport_limit(&e->head, RONDE__LOST_AFTER_S * 1000000000ull);
    e->group = group;
    pthread_mutex_init(&e->lock, NULL);
    group->size = r + 1;
    e->sends = ronde__alloc(2 * sizeof *e->sends * (size_t)n);
    complete = e->sends != NULL;
    if (complete) e->receives = e->sends + n;
  }
  if (!complete) {
    threads_group_free(group);
    return ronde__fail(RONDE_E_MEMORY, "transport threads: no memory for %d ranks", n);
  }
  atomic_store(&group->n_present, n);
  ronde__busy_add(n - 1);
  for (int r = 0; r < n; r++) transports_out[r] = &group->endpoints[r].head;
  return RONDE_OK;
}

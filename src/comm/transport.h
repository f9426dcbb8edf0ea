/* Point-to-point messages between ranks, and the rank's time (base/time.h): the only clock and the only waiting of what
 * belongs to a rank, so that the same code runs on threads, MPI and in virtual time.
 * An endpoint belongs to one rank; the rank's own thread and its communication thread may use it at once. */
#ifndef RONDE_TRANSPORT_H
#define RONDE_TRANSPORT_H

#include "base/time.h"

typedef struct ronde__transport ronde__transport;

/* A transfer under way. A buffer belongs to it until the transfer is done. Zero-initialised requests are done. */
typedef struct ronde__request {
  void *impl;
} ronde__request;

/* What a rank is at, for those who find it lost. */
typedef enum ronde__activity {
  RONDE__STARTING,
  RONDE__TRAINING,
  RONDE__TESTING,
  RONDE__SAVING,
  RONDE__ENDING,
  RONDE__N_ACTIVITIES
} ronde__activity;

typedef struct ronde__doing {
  ronde__activity activity;
  int64_t step; /* the last that it began; 0: none */
} ronde__doing;

/* What is known of a rank that is lost. */
typedef struct ronde__loss {
  ronde__doing doing; /* when it was last heard of */
  uint64_t at_ns;     /* by the time of the rank that asks */
  char host[64];
  bool gone; /* its process has ended, so that it will not come back */
} ronde__loss;

/* y = a + b, [n]; y may be a or b. */
typedef void (*ronde__add)(const float *a, const float *b, float *y, int64_t n);

typedef struct ronde__transport_ops {
  const char *name;
  /* Messages between two ranks match by tag (below 2^31), in order. Lengths must be equal on both sides (else
   * RONDE_E_INTERNAL on the receiver). Neither call blocks. Errors are per peer: RONDE_E_LOST names it. */
  ronde_status (*isend)(ronde__transport *transport, int peer, uint32_t tag, const void *data, size_t bytes,
                        ronde__request *request_out);
  ronde_status (*irecv)(ronde__transport *transport, int peer, uint32_t tag, void *data, size_t bytes,
                        ronde__request *request_out);
  /* Like irecv, but sum [n] becomes x [n] plus the n floats that arrive, straight from the sender's buffer; sum may be x.
   * NULL: not supported. */
  ronde_status (*irecv_add)(ronde__transport *transport, int peer, uint32_t tag, ronde__add add, const float *x,
                            float *sum, size_t n, ronde__request *request_out);
  /* Sets done_out to whether the request is done, and resets a done request to zero. An error is the request's end, as
   * in wait. */
  ronde_status (*test)(ronde__transport *transport, ronde__request *request, bool *done_out);
  /* Until all n are done, each then reset to zero: spins shortly, then sleeps. RONDE_E_LOST when nothing has come
   * for timeout_ns, or when a peer is lost (one line names the ranks that are missing), when the peer has left, or, silently, when the group was aborted;
   * RONDE_E_CANCELLED never. After an error all n are cancelled. Of a lost peer that others go on without (may_lose) there
   * is no error: its requests alone are cancelled and count as done, in this and the other calls, and whoever must know
   * asks `lost`. */
  ronde_status (*wait)(ronde__transport *transport, ronde__request *requests, int n, uint64_t timeout_ns);
  /* The same until at least one of those under way is done; whichever are done are reset to zero. */
  ronde_status (*wait_some)(ronde__transport *transport, ronde__request *requests, int n, uint64_t timeout_ns);
  /* Ends what is not done without waiting for a peer, resets all n to zero: the buffers are the caller's again. Such
   * a transfer may have happened, in part or not at all: only for giving up. */
  void (*cancel)(ronde__transport *transport, ronde__request *requests, int n);
  /* Sums x [n] over the ranks in place, by the transport's own means; blocks as wait does. The same order of calls on
   * all ranks. NULL: it has none. */
  ronde_status (*allreduce)(ronde__transport *transport, float *x, size_t n, uint64_t timeout_ns);
  /* After a loss, for what one of those that are left is to do where rank 0 was: true for rank 0; if that is lost, for the
   * first that calls with this number, from 1, or a larger one, on its host, or else on that of the first left. May
   * wait for up to RONDE__CLAIM_NS to learn who is left. NULL: there is nothing to claim. */
  bool (*claim)(ronde__transport *transport, int64_t number);
  /* Whether the others go on without this peer, which is lost: from when the caller can know of it, for ever. Of itself:
   * they have gone on without it, and its own calls return RONDE_E_LOST. loss_out: NULL is taken. NULL: nobody is. */
  bool (*lost)(ronde__transport *transport, int peer, ronde__loss *loss_out);
  /* Makes every call of every rank of the group return RONDE_E_LOST, now and later: the caller cannot go on, and has
   * said why. */
  void (*abort)(ronde__transport *transport);
  /* Behind a halt, once all peers that are left are in the transport's calls: until nothing that was cancelled can still
   * be written into. NULL: nothing can. */
  ronde_status (*land)(ronde__transport *transport);
  /* Requests that are still under way are cancelled. To the others the rank has left. */
  void (*destroy)(ronde__transport *transport);
} ronde__transport_ops;

/* Of the transports inside a process: two fit the second-level cache. Larger ones cost less, but leave less to overlap.
 */
#define RONDE__PIECE_BYTES ((size_t)256 << 10)

/* The common head of every implementation. */
struct ronde__transport {
  const ronde__transport_ops *ops;
  ronde__time *time; /* the rank's; NULL: the machine's */
  int rank, size;
  size_t piece_bytes;     /* long messages go best in pieces of this size at most */
  bool process_each;      /* every rank is a process of its own */
  const int *host_of;     /* [size]: each rank's host, from 0; NULL: all ranks are on one */
  uint64_t lost_after_ns; /* a process of which nothing is heard for so long is lost, whoever waits for it; */
  uint64_t timeout_ns;    /* and so is, in every wait of a collective, a rank that lives but sends nothing */
  /* [size], of those that have `lost`: see ronde__transport_lose, and ronde__transport_await. Read by all threads */
  bool *may_lose, *awaited;
  bool may_be_halted;                            /* one that is, or was, awaited is lost */
  uint64_t bytes_sent, bytes_received, messages; /* by this endpoint; updated atomically */
  uint64_t doing;                                /* by ronde__transport_note, read by another thread */
};

/* Tells what this rank, whose endpoint it is, begins now. */
static inline void ronde__transport_note(ronde__transport *transport, ronde__doing doing) {
  __atomic_store_n(&transport->doing, (uint64_t)doing.step << 8 | (uint64_t)doing.activity, __ATOMIC_RELAXED);
}
static inline ronde__doing ronde__transport_noted(const ronde__transport *transport) {
  uint64_t word = __atomic_load_n(&transport->doing, __ATOMIC_RELAXED);
  return (ronde__doing){(ronde__activity)(word & 0xff), (int64_t)(word >> 8)};
}

/* From now on the loss of these ranks, may_lose [size], ends only what the others await of them. NULL: every loss is
 * everybody's end, as at first. */
void ronde__transport_lose(ronde__transport *transport, const bool *may_lose);
static inline bool ronde__transport_may_lose(const ronde__transport *transport, int peer) {
  return transport->may_lose && __atomic_load_n(&transport->may_lose[peer], __ATOMIC_RELAXED);
}
/* From now on a rank that is lost and may be lost halts this one if it is one of these, ranks [size]: every call returns
 * RONDE_E_LOST, and nothing is logged, until the next ronde__transport_await. So a collective ends on all ranks, whomever
 * they wait for. NULL: none does, as at first. */
void ronde__transport_await(ronde__transport *transport, const bool *ranks);
static inline bool ronde__transport_awaits(const ronde__transport *transport, int peer) {
  return transport->awaited && __atomic_load_n(&transport->awaited[peer], __ATOMIC_SEQ_CST);
}
/* For implementations: the peer has just become lost. */
void ronde__transport_note_lost(ronde__transport *transport, int peer);
/* Whether one that is awaited is lost. */
bool ronde__transport_is_halted(ronde__transport *transport);
static inline bool ronde__transport_lost(ronde__transport *transport, int peer) {
  return transport->ops->lost && transport->ops->lost(transport, peer, NULL);
}
/* The same as ronde__transport_is_halted, at next to no cost while nobody is lost: for transports that note losses. */
static inline bool ronde__transport_halts(ronde__transport *transport) {
  return __atomic_load_n(&transport->may_be_halted, __ATOMIC_ACQUIRE) && ronde__transport_is_halted(transport);
}

/* One rank alone. */
ronde_status ronde__transport_self(ronde__transport **transport_out);
/* n ranks of one process: transports_out [n], one for each rank's thread, destroyed one by one. A message is copied
 * once, straight from the sender's buffer to the receiver's, by whichever of the two comes second. */
ronde_status ronde__transport_threads(int n, ronde__transport **transports_out);
/* Sets both limits: timeout_ns is RONDE__STALL_TIMES as much. New transports have RONDE__LOST_AFTER_S. */
void ronde__transport_limit(ronde__transport *transport, uint64_t lost_after_ns);
/* Ranks on this rank's host, itself among them. */
int ronde__transport_local(const ronde__transport *transport);
/* One message, waited for as long as the transport's timeout_ns says. */
ronde_status ronde__transport_send(ronde__transport *transport, int peer, uint32_t tag, const void *data, size_t bytes);
ronde_status ronde__transport_receive(ronde__transport *transport, int peer, uint32_t tag, void *data, size_t bytes);
/* NULL is taken. */
void ronde__transport_destroy(ronde__transport *transport);

#endif

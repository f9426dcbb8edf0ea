/* Messages between the processes of one host, for a transport that knows them: what a rank sends is announced in memory
 * that they share, and the receiver copies it straight out of the sender's buffer (cross-memory attach). Each rank has
 * a bell, so that a wait sleeps until something came. A rank's place is its number among those of its host. Both of a
 * rank's threads may call at once. */
#ifndef RONDE_HOST_H
#define RONDE_HOST_H

#include <stdatomic.h>
#include <sys/types.h>

#include "base/wait.h"
#include "comm/pulse.h"

typedef struct ronde__host ronde__host;

/* Zero-initialised is ready; its memory lives until the host is destroyed, as a peer may still look at it. */
typedef struct ronde__host_transfer {
  struct ronde__host_transfer *next;
  int peer; /* a place */
  uint32_t tag;
  bool is_send;
  char *data; /* only read where is_send */
  size_t bytes;
  size_t came; /* a receive: bytes of the message; only where they are as many as `bytes` were they copied */
  int error;   /* of the system, where the sender's memory could not be read: it is gone */
  _Atomic bool done;
  _Atomic uint64_t stamp;                   /* of a send under way, never used again; else 0 */
  uint64_t from, from_stamp, from_stamp_at; /* of a receive that has met its send: there */
  bool copying;
} ronde__host_transfer;

/* Where the shared memory is to be found by the others: a file of the process that made it. */
typedef struct ronde__host_offer {
  pid_t pid;
  int file; /* -1: there is none */
} ronde__host_offer;

/* The host's first rank makes memory for n, and withdraws the offer once all have joined. */
ronde__host_offer ronde__host_make(int n);
void ronde__host_withdraw(ronde__host_offer offer);
/* NULL if this process is not allowed to, or has no memory; nothing is logged, because the caller has other ways. */
ronde__host *ronde__host_join(ronde__host_offer offer, int place, int n);
/* After all have joined: whether this process can read the others' memory. */
bool ronde__host_reaches_all(const ronde__host *host);
/* After all have made sure. NULL is taken. */
void ronde__host_destroy(ronde__host *host);

/* Sends or receives transfer->bytes at transfer->data; does not block. Messages between two places match by tag, in
 * order. */
void ronde__host_post(ronde__host *host, ronde__host_transfer *transfer);
/* Moves on what can, whichever of this rank's threads posted it. RONDE_E_MEMORY. */
ronde_status ronde__host_advance(ronde__host *host);
/* Ends a transfer without waiting for the peer; the buffer is the caller's. */
void ronde__host_cancel(ronde__host *host, ronde__host_transfer *transfer);
/* Rung when something came for this rank, when a transfer of it is done, and by ronde__host_ring_all. */
ronde__event *ronde__host_bell(ronde__host *host);
void ronde__host_ring_all(ronde__host *host);
/* What the rank of that place leaves for the others' threads of signs of life. */
ronde__pulse *ronde__host_pulse(ronde__host *host, int place);

#endif

/* A rank's endpoint over MPI, and its messages: whole ones, those that travel in chunks, and those that another process
 * of this host copies without MPI (host.h). Waiting for them, and what ranks tell each other about themselves, is
 * mpi.c's. */
#ifndef RONDE_MPI_MESSAGE_H
#define RONDE_MPI_MESSAGE_H

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>

#include "comm/life.h"
#include "comm/mpi.h"
#include "comm/mpi_beat.h"
#include "comm/mpi_hosts.h"
#include "comm/transport.h"

enum {
  /* Below the eager limit of TCP. An all-reduce over three hosts takes 1.05 to 1.09 times the link's limit, against
   * 1.14 to 1.18 with 512 KB; parameter servers a third less time than with messages as long as they are. */
  RONDE__MPI_CHUNK_BYTES = 60 << 10,
  RONDE__MPI_WINDOW = 8 /* chunks under way */
};

typedef struct ronde__mpi_message {
  struct ronde__mpi_message *next;       /* among the free ones, or those in chunks */
  MPI_Request chunks[RONDE__MPI_WINDOW]; /* chunk i at i % RONDE__MPI_WINDOW; of a whole message the first */
  int peer;
  uint32_t tag;
  bool is_send, is_near, in_chunks; /* is_near: within the host, without MPI */
  char *data;                       /* only read where is_send */
  size_t bytes, came;               /* came: of a receive */
  ronde__host_transfer near;
  /* In chunks: */
  int64_t n_chunks, n_posted, n_done;
  ronde_status status;
  _Atomic bool done;
  bool broken; /* its peer may be lost, and the others go on then: until that is known */
} ronde__mpi_message;

typedef struct ronde__mpi_endpoint {
  ronde__transport head;
  MPI_Comm data, control, collective;
  pthread_mutex_t lock; /* guards what follows */
  ronde__mpi_message *free;
  ronde__mpi_message *late;         /* receives that were given up, but may still be written into */
  ronde__mpi_message *first, *last; /* in chunks, in the order of posting */
  MPI_Request listening;
  int heard; /* a notice */
  ronde__mpi_hosts hosts;
  ronde__mpi_beat beat;
  ronde__mpi_options options;
  ronde__life *life;     /* NULL: --lost-after 0 */
  ronde__pulse **pulses; /* [size]: of the ranks of this host where they share memory, else NULL */
  _Atomic uint64_t n_chunks_ended;
  _Atomic uint64_t *left_ns; /* [size]: when a rank was heard to leave, 0: it is there */
  _Atomic bool *lost;        /* [size]: without whom the others go on; of itself: they go on without this rank */
  bool *told;                /* [size]: of them, of whose loss the others were told, by the thread that does so */
  _Atomic bool *heard_lost;  /* [size]: another rank has told this one of its loss */
  _Atomic bool aborted, is_stuck;
  _Atomic int n_in_chunks;
} ronde__mpi_endpoint;

/* Logs MPI's error; what: "sending to". RONDE_E_LOST. */
ronde_status ronde__mpi_failed(int error, const char *what, int peer);

/* A message like `wanted`, without a chunk under way; NULL: no memory (logged). It belongs to the endpoint, which takes it
 * back by _release. */
ronde__mpi_message *ronde__mpi_message_take(ronde__mpi_endpoint *self, ronde__mpi_message wanted);
void ronde__mpi_message_release(ronde__mpi_endpoint *self, ronde__mpi_message *m);

/* Begins to send or receive; peer, tag, is_send, data and bytes of `wanted` are set, the rest is zero. */
ronde_status ronde__mpi_message_post(ronde__transport *transport, ronde__mpi_message wanted,
                                     ronde__request *request_out);
/* Moves all messages in chunks on, whoever waits for them: one may be behind another. */
void ronde__mpi_messages_move(ronde__mpi_endpoint *self);
/* Whether the message has ended. Errors: RONDE_E_LOST, and RONDE_E_INTERNAL if its length is not the expected one. */
ronde_status ronde__mpi_message_test(ronde__mpi_endpoint *self, ronde__mpi_message *m, bool *done_out);
/* Takes a message back that has not ended, and releases it; waits no longer than until end_ns. */
void ronde__mpi_message_withdraw(ronde__mpi_endpoint *self, ronde__mpi_message *m, uint64_t end_ns);
/* Whether nothing that was taken back can be written into any more. */
bool ronde__mpi_messages_land(ronde__mpi_endpoint *self);
/* The memory of all that are not in use, at the end. */
void ronde__mpi_messages_free(ronde__mpi_endpoint *self);

#endif

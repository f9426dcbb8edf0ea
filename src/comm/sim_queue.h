/* Messages in virtual time that wait for their other side: sends that nobody has received yet, or receives of what nobody has
 * sent, of one source each. */
#ifndef RONDE_SIM_QUEUE_H
#define RONDE_SIM_QUEUE_H

#include "comm/transport.h"
#include "comm/virtual.h"

typedef struct ronde__sim_transfer {
  struct ronde__sim_transfer *next; /* in a mailbox */
  struct ronde__sim_endpoint *owner;
  int peer;
  uint32_t tag;
  bool is_send, is_queued;
  char *data; /* only read where is_send */
  size_t bytes;
  char *kept;      /* of a send that was done before somebody received it: the message */
  bool left_alone; /* nobody holds its request any more */
  ronde__add add;
  const float *addend; /* of a receive that adds */
  ronde_status status;
  uint64_t done_ns;    /* UINT64_MAX: nobody knows yet */
  uint64_t arrives_ns; /* of a send */
  ronde__virtual_task *waiter;
} ronde__sim_transfer;

typedef struct ronde__sim_queue {
  ronde__sim_transfer *first, **end;
  uint64_t arrived_ns; /* of sends: the last one that has left */
} ronde__sim_queue;

void ronde__sim_queue_append(ronde__sim_queue *q, ronde__sim_transfer *t);
/* The first one with this tag, which is in the queue no more; NULL: there is none. */
ronde__sim_transfer *ronde__sim_queue_take(ronde__sim_queue *q, uint32_t tag);
void ronde__sim_queue_remove(ronde__sim_queue *q, const ronde__sim_transfer *gone);
void ronde__sim_queue_free(ronde__sim_queue *q); /* what is in it */

void ronde__sim_transfer_free(ronde__sim_transfer *t);

#endif

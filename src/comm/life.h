/* Who of the other processes lives, apart from all messages: a thread that no computation, save or slow disk delays.
 * Within a host the system tells it at once when a process ends, and whether one is stopped. Between hosts the first
 * living rank of each host tells every rank of the others, several times within the limit, how the ranks of its host
 * are (life_wire.h); of a host that is not heard, its system is asked whether the process is still there. So a rank that
 * is busy, stopped or slow is not lost, and one that has gone is, whoever waits for it.
 * With all ranks on one host no socket is opened. What is received without the job's key changes nothing. */
#ifndef RONDE_LIFE_H
#define RONDE_LIFE_H

#include "comm/life_net.h"
#include "comm/life_process.h"
#include "comm/life_wire.h"
#include "comm/pulse.h"

typedef struct ronde__life ronde__life;

typedef struct ronde__life_options {
  ronde__transport *transport;  /* whose rank, size, host_of and doing are meant; outlives it */
  const char (*host_names)[64]; /* [size], borrowed */
  ronde__pulse *const *pulses;  /* [size]: of the ranks of this host, its own too; NULL where there is none. Borrowed */
  const char *iface;            /* as in ronde__life_addresses; borrowed until _create returns */
  uint64_t lost_after_ns; /* a host that is silent for so long is lost; for longer where the network is unsteady, */
  uint64_t at_most_ns;    /* but no longer than this */
  /* From the thread: a rank may be missed. What the transport has heard itself is to be looked at soon, so that one that
   * has said goodbye is not (ronde__life_note_left); NULL: nothing. */
  void (*listen)(void *user);
  /* From the thread, now and then: so much time of this process has passed. NULL: nothing. */
  void (*pass)(void *user, uint64_t ns);
  /* From the thread: a rank is lost, which has been logged: by all, but by rank 0 alone where the others go on without it
   * (transport.h, may_lose). Called once in the first case, and each time in the second. */
  void (*lost)(void *user);
  void *user; /* none of the calls may wait: nobody else says that this rank lives */
} ronde__life_options;

/* What a rank tells the others of itself before it starts; bytes alone. */
typedef struct ronde__life_offer {
  ronde__process process;
  ronde__life_place place;
} ronde__life_offer;

/* Opens sockets if there are several hosts. RONDE_E_MEMORY. */
ronde_status ronde__life_create(const ronde__life_options *options, ronde__life **life_out);
ronde__life_offer ronde__life_offer_of(const ronde__life *life);
/* A key that nobody can guess; false: the system has no random numbers. */
bool ronde__life_make_key(uint8_t key_out[RONDE__LIFE_KEY]);
/* offers [size], of all ranks; both are copied. */
void ronde__life_meet(ronde__life *life, const ronde__life_offer *offers, const uint8_t key[RONDE__LIFE_KEY]);
/* Behind that: starts the thread. RONDE_E_MEMORY. */
ronde_status ronde__life_start(ronde__life *life);
/* From any thread: whether this rank has found anybody lost; and whom. */
bool ronde__life_any_lost(const ronde__life *life);
bool ronde__life_is_lost(const ronde__life *life, int rank);
/* Of one that is: what is known of it. */
ronde__loss ronde__life_loss(const ronde__life *life, int rank);
/* Whoever has found by other ways that a rank is lost without which the others go on tells it: the thread will say so.
 * From any thread. */
void ronde__life_give_up(ronde__life *life, int rank);
/* Something that a rank has sent has come by other ways: its host is heard. From any thread. */
void ronde__life_note_heard(ronde__life *life, int rank);
/* The rank has told by other ways that it leaves. From any thread. */
void ronde__life_note_left(ronde__life *life, int rank);
/* This rank ends, and nobody is to miss it; the thread goes on watching. From any thread, more than once. */
void ronde__life_leave(ronde__life *life);
/* Ends the thread too. NULL is taken. */
void ronde__life_destroy(ronde__life *life);

#endif

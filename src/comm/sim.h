/* Ranks in virtual time, in one process: the code of real ranks, one of them running at a time, over links whose times
 * are given. Computing takes no time; only what ranks sleep does (ronde__time_sleep).
 *
 * A link takes alpha_s + bytes beta_s. A rank's port carries one message at a time each way, and so does the port of a
 * host, which all its ranks share for messages to other hosts: a message leaves as soon as the sender's port is free, keeps
 * it for bytes beta_s, begins to arrive alpha_s after it began to leave, or when the receiver's port is free, and keeps that
 * for as long. It leaves whether or not it is awaited; a send is done when the message has left. Times are rounded to ns. */
#ifndef RONDE_SIM_H
#define RONDE_SIM_H

#include "comm/collective.h"

typedef struct ronde__sim_options {
  int n;
  const int *host_of;                                      /* [n], copied; NULL: all are on one host */
  ronde__link_class within, between;                       /* links inside a host, and between hosts; */
  ronde__link_class (*link)(void *user, int from, int to); /* or of each pair. NULL: as they say */
  void *user;
  uint64_t seed; /* of the order of what happens at the same time */
} ronde__sim_options;

/* transports_out [n]. The caller becomes rank 0, which starts the others as tasks by their transports' time, joins
 * them, and destroys all transports. If no rank can continue, this deadlock is logged at once with who waits for whom.
 * Waits for messages then end with RONDE_E_LOST, as after an abort; waits for anything else hang. */
ronde_status ronde__transport_sim(const ronde__sim_options *options, ronde__transport **transports_out);

/* What has happened so far, in any of its ranks: equal in two runs that were the same to the last event. */
typedef struct ronde__sim_events {
  uint64_t n, digest;
} ronde__sim_events;
ronde__sim_events ronde__sim_events_of(const ronde__transport *transport);

#endif

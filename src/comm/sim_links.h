/* What messages take in virtual time: ports and links, and what goes wrong with them by lot.
 *
 * A link takes alpha_s + bytes beta_s. A rank's port carries one message at a time each way, and so does the port of a
 * host, which all its ranks share for messages to other hosts. A message leaves in the first stretch of bytes beta_s in
 * which the sender's port is free, begins to arrive alpha_s after it began to leave, or in the first stretch behind that
 * in which the receiver's port is free, and keeps that for as long. Messages from one rank to another arrive in the
 * order in which they were sent. Where hosts share a switch, a message takes its turn there too, at the switch's own
 * rate. Half duplex: a host's port carries one message at a time of both ways together. Times are rounded to ns.
 * Source of the model: Hockney, Parallel Computing 1994 (see cost.c), with one port as in Bruck et al., IEEE TPDS 1997. */
#ifndef RONDE_SIM_LINKS_H
#define RONDE_SIM_LINKS_H

#include "base/rng.h"
#include "comm/collective.h"

/* A rank that stops at a moment of virtual time (counted from its beginning), for a while or for ever. */
typedef struct ronde__sim_fault {
  int rank;
  uint64_t at_ns, lasts_ns; /* lasts UINT64_MAX: it dies */
} ronde__sim_fault;

typedef struct ronde__sim_options {
  int n;
  const int *host_of;                                            /* [n], copied; NULL: all are on one host */
  ronde__link_class within, between;                             /* links inside a host, and between hosts; */
  ronde__link_class (*link)(const void *user, int from, int to); /* or of each pair of ranks. NULL: as they say */
  const void *user;
  bool half_duplex;
  double switch_beta_s; /* of a switch that all hosts share; 0: it never is what a message waits for */
  double jitter;        /* a latency is longer by up to this part of it, uniformly */
  double delay_chance;  /* of a message that takes delay_s longer, as one that was lost and sent again */
  double delay_s;
  uint64_t seed; /* of the order of what happens at the same time, and of jitter and delays */
  const ronde__sim_fault *faults;
  int n_faults; /* one for a rank at most */
  /* By how much later than from a message of that moment rank `by` learns that `of` is missing. NULL: not at all. */
  uint64_t (*late_ns)(const void *user, int of, int by);
} ronde__sim_options;

/* When something is busy: stretches [begin, end), ascending, none touching the next. */
typedef struct ronde__port {
  uint64_t (*busy)[2];
  int n, capacity;
} ronde__port;

typedef struct ronde__sim_links {
  const ronde__sim_options *options;
  const int *host_of;                                   /* [n], or NULL */
  ronde__port *rank_out, *rank_in, *host_out, *host_in; /* [n], [hosts] */
  ronde__port shared_switch;
  ronde__rng draws;
  int n_hosts;
} ronde__sim_links;

/* options and host_of must outlive it. RONDE_E_MEMORY. */
ronde_status ronde__sim_links_create(const ronde__sim_options *options, const int *host_of, ronde__sim_links *links);
void ronde__sim_links_free(ronde__sim_links *links);
/* A message that is sent at now_ns and must not arrive before earliest_ns: when it has left, and when it has arrived.
 * RONDE_E_MEMORY. */
ronde_status ronde__sim_links_send(ronde__sim_links *links, int from, int to, size_t bytes, uint64_t now_ns,
                                   uint64_t earliest_ns, uint64_t *left_out, uint64_t *arrived_out);
/* A message's latency, without what is drawn. */
uint64_t ronde__sim_links_alpha_ns(const ronde__sim_links *links, int from, int to);

#endif

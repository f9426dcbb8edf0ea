/* Ranks in virtual time, in one process: the code of real ranks, one of them running at a time, over links that take what
 * they are said to take (sim_links.h). What ranks compute takes no time but what they sleep (ronde__time_sleep). A message
 * leaves whether or not it is awaited; a send is done when the message has left.
 *
 * Messages from or into memory without content (base/ghost.h) are lengths alone: they take their time, and nothing is
 * copied. */
#ifndef RONDE_SIM_H
#define RONDE_SIM_H

#include "comm/sim_links.h"

/* transports_out [n]. The caller becomes rank 0, which starts the others as tasks by their transports' time, joins
 * them, and destroys all transports; what the options point to must outlive these. If no rank can continue, this deadlock
 * is logged at once with who waits for whom. Waits for messages then end with RONDE_E_LOST, as after an abort; waits for
 * anything else hang.
 * A rank that dies computes on until its next message, which returns RONDE_E_LOST; who waits for it is told that it has
 * left. Nothing is heard of one that has stopped for longer than its transport's lost_after_ns. */
ronde_status ronde__transport_sim(const ronde__sim_options *options, ronde__transport **transports_out);

/* What has happened so far, in any of its ranks: equal in two runs that were the same to the last event. */
typedef struct ronde__sim_events {
  uint64_t n, digest;
} ronde__sim_events;
ronde__sim_events ronde__sim_events_of(const ronde__transport *transport);

#endif

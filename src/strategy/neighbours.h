/* The neighbours of a stage (graph.h), by messages of a strategy's own tags. What a rank waits for them is in phase wait of
 * its ledger; in an evaluation, which stands apart, in phase eval. */
#ifndef RONDE_NEIGHBOURS_H
#define RONDE_NEIGHBOURS_H

#include "comm/transport.h"
#include "ops/op.h"
#include "prof/prof.h"

typedef struct ronde__neighbour_ranks {
  ronde__transport *transport;
  ronde__prof *prof;          /* may be NULL */
  int rank_of[2];             /* by side; -1: there is nobody */
  ronde__neighbours messages; /* for ronde__net_options.stage; points to this struct, which must stay where it is */
} ronde__neighbour_ranks;

void ronde__neighbour_ranks_set(ronde__neighbour_ranks *ranks, ronde__transport *transport, ronde__prof *prof,
                                int in_front, int behind);

#endif

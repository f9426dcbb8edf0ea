/* The ranks between which layers are split (graph.h), by messages over their transport. What a rank waits in an exchange is
 * in phase exchange of the ledger; what of it until the last has begun it, in phase wait. */
#ifndef RONDE_PEERS_H
#define RONDE_PEERS_H

#include "comm/collective.h"
#include "ops/op.h"
#include "prof/prof.h"

typedef struct ronde__peer_exchange ronde__peer_exchange;

typedef struct ronde__peer_ranks {
  ronde__transport *transport;
  ronde__prof *prof;
  uint64_t *met_ns;           /* when the ranks last knew that all had come: of the worker */
  ronde__comm_thread *thread; /* what is under way goes on beside the computation */
  ronde__peer_exchange *all;  /* made so far, in use or not */
  int n_under_way;
  uint64_t bytes[2];      /* sent forward, and backward */
  ronde__peers exchanges; /* for ronde__net_options.split; points to this struct, which must stay where it is */
} ronde__peer_ranks;

/* What it points at must outlive it. */
ronde_status ronde__peer_ranks_set(ronde__peer_ranks *peers, ronde__transport *transport, ronde__turn_scheme scheme,
                                   ronde__prof *prof, uint64_t *met_ns);
void ronde__peer_ranks_release(ronde__peer_ranks *peers);

#endif

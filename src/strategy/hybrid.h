/* Which layers `hybrid` splits, and in which turns the examples go through them. */
#ifndef RONDE_HYBRID_H
#define RONDE_HYBRID_H

#include "comm/collective.h"
#include "graph/graph.h"

/* What the exchanges of a step take, by the model of collective.h, where n_all examples are a batch: all-reduces of the
 * gradients of linear layers that are not split, and activations and their gradients around those that are. The rest is
 * the same whatever is split. */
ronde_status ronde__hybrid_seconds(const ronde_graph *graph, const ronde__ranks *ranks, int64_t n_all,
                                   const bool *is_split, double *seconds_out);
/* The layers whose split is clearly cheaper than all-reducing: split_out [nodes]. A function of its arguments alone. */
ronde_status ronde__hybrid_choose(const ronde_graph *graph, const ronde__ranks *ranks, int64_t n_all, bool *split_out);
/* Where each rank sends each other so many floats. */
double ronde__hybrid_exchange_s(const ronde__ranks *ranks, int64_t floats);

/* What split layers take in a step, and what of it their rank waits, by a model. */
typedef struct ronde__turns_cost {
  double step_s, wait_s;
} ronde__turns_cost;
/* By each scheme. */
ronde_status ronde__hybrid_turns_cost(const ronde_graph *graph, const ronde__ranks *ranks, int64_t n_all,
                                      const bool *is_split, ronde__turns_cost costs_out[3]);
/* The cheapest. */
ronde__turn_scheme ronde__hybrid_turns(const ronde__ranks *ranks, const ronde__turns_cost costs[3]);
/* Those that the user names, by commas. RONDE_E_USAGE where one cannot be split. */
ronde_status ronde__hybrid_name(const ronde_graph *graph, const char *names, bool *split_out);

#endif

/* Which layers `hybrid` splits. */
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
/* Those that the user names, by commas. RONDE_E_USAGE where one cannot be split. */
ronde_status ronde__hybrid_name(const ronde_graph *graph, const char *names, bool *split_out);

#endif

/* Where a pipeline's stages begin: by what the nodes cost, so that the slowest stage is as fast as it can be. */
#ifndef RONDE_PIPELINE_H
#define RONDE_PIPELINE_H

#include "graph/graph.h"

/* Cuts costs [n_nodes] into n_stages, each with a layer: cuts_out [n_stages + 1] are their first nodes, then n_nodes.
 * RONDE_E_USAGE, naming how many there can be: fewer layers can be apart. */
ronde_status ronde__pipeline_cut(const ronde__node_cost *costs, int n_nodes, int n_stages, int *cuts_out);
/* What a stage of these nodes is taken to take, in seconds: only ratios count. */
double ronde__pipeline_seconds(const ronde__node_cost *costs, int n_nodes, int begin, int end);

#endif

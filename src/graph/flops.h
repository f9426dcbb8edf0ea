/* What a recorded op computes. */
#ifndef RONDE_FLOPS_H
#define RONDE_FLOPS_H

#include "graph/graph.h"

/* Floating-point operations of a node's forward pass of one example: two for each multiply-add. */
int64_t ronde__node_flops(const ronde_graph *graph, const ronde__node *node);

#endif

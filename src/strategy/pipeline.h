/* Where a pipeline's stages begin, and what a step of it takes: by what the nodes take, so that the slowest stage is as
 * fast as it can be, and each fits the memory of its rank. */
#ifndef RONDE_PIPELINE_H
#define RONDE_PIPELINE_H

#include "graph/graph.h"

/* What a node takes, in seconds. */
typedef struct ronde__node_time {
  bool may_begin, is_layer;     /* as in ronde__node_cost */
  double forward_s, backward_s; /* of a micro-batch, */
  double wire_s;                /* and of what crosses a cut in front of the node, there and back */
  double update_s;              /* of a step: its parameters, with their exchange among replicas */
} ronde__node_time;

/* pipeline_time.c: by a model of a core of today, times_out [n_nodes]. n_states: arrays of the optimizer. */
void ronde__pipeline_model(const ronde__node_cost *costs, int n_nodes, int n_states, int n_replicas,
                           ronde__node_time *times_out);
/* The same by what one worker took for `spans->examples`, here for n: forward and backward of a layer, with all behind it
 * up to the next one, count for its node; what travels is as the model has it. node_of [parameters of the graph]. */
ronde_status ronde__pipeline_measured(const ronde__spans *spans, const int *node_of, int64_t n,
                                      const ronde__node_cost *costs, int n_nodes, ronde__node_time *times);

typedef struct ronde__cut_problem {
  const ronde__node_time *times; /* [n_nodes] */
  int n_nodes, n_stages;
  int64_t n_micro; /* micro-batches of a step */
  /* Whether the memory of a rank suffices for stage `stage` of these nodes; a part of what fits fits too. NULL: always. */
  bool (*fits)(void *user, int stage, int begin, int end);
  void *user;
} ronde__cut_problem;

/* Cuts into n_stages, each with a layer: cuts_out [n_stages + 1] are their first nodes, then n_nodes. Where none fits,
 * *fits_out is false, and the cuts are the best of those that do not.
 * RONDE_E_USAGE, naming how many there can be: fewer layers can be apart. */
ronde_status ronde__pipeline_cut(const ronde__cut_problem *problem, int *cuts_out, bool *fits_out);
/* What a stage of these nodes computes in a step. */
double ronde__pipeline_seconds(const ronde__cut_problem *problem, int begin, int end);
/* From the end of a step to the end of the next, once it runs: each stage in the order of 1F1B, as the messages come; and
 * how long a stage waits in it, the mean over the stages. */
ronde_status ronde__pipeline_step(const ronde__cut_problem *problem, const int *cuts, double *step_s_out,
                                  double *bubble_s_out);

#endif

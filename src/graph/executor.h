/* What executes the passes of a net: the plan of its recorded graph (planned.c), or the calls of a graph that is built anew
 * in each pass, with a tape (eager.c). Both run the same ops on the same flat arrays; strategies, kernels and what is
 * saved know neither. In a simulation passes may only take their time (replayed.c). */
#ifndef RONDE_EXECUTOR_H
#define RONDE_EXECUTOR_H

#include "graph/graph.h"

typedef struct ronde__executor {
  /* What the passes of a net share: all that is made once, whatever the batch. For a net whose parameters and buffers
   * have their places. */
  ronde_status (*create)(ronde__net *net, const ronde__net_options *options, void **execution_out);
  void (*destroy)(void *execution); /* NULL: nothing */
  double (*executed_flops)(const void *execution, int64_t n);
  size_t (*arena_bytes)(const void *execution); /* memory of activations and their gradients, of all passes */
  /* A pass: a batch, its activations, and what backward needs of the last forward. */
  ronde_status (*pass_create)(void *execution, void **pass_out);
  void (*pass_destroy)(void *pass);
  /* As ronde__pass_prepare (n_all 0) or ronde__net_prepare_split, ronde__pass_forward, ronde__net_predict. */
  ronde_status (*prepare)(void *pass, int64_t n, int64_t n_all);
  /* As ronde__pass_expect. NULL: it has no stages. */
  ronde_status (*expect)(void *pass, int64_t n, bool *any_out);
  ronde_status (*forward)(void *pass, const ronde__net_batch *batch, float loss_scale, const ronde__net_hooks *hooks,
                          ronde__net_result *result_out);
  ronde_status (*predict)(void *pass, int64_t n, const float *x, float *y_out);
  /* Marks the parameters that it reached [n_params]; the others' gradients are the net's to set to zero. */
  ronde_status (*backward)(void *pass, bool accumulate, const ronde__net_hooks *hooks, bool *touched);
  /* As ronde__net_pass_empty, where a synchronised op is in the network. NULL: there is none. */
  ronde_status (*pass_empty)(void *pass, bool backward, const ronde__net_hooks *hooks);
  /* Where the gradient of a parameter lies that no step has reached, where gradients are transient. NULL: they never
   * are. */
  float *(*gradient)(const void *pass, int param);
} ronde__executor;

/* net.c: ronde__net_create with this executor. */
ronde_status ronde__net_open(const ronde_graph *graph, const ronde__net_options *options,
                             const ronde__executor *executor, ronde__net **net_out);

extern const ronde__executor ronde__executor_planned, ronde__executor_eager, ronde__executor_replayed;

#endif

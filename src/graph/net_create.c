/* The choice of what executes a net: the only file that knows the executors. */
#include "graph/executor.h"

ronde_status ronde__net_create(const ronde_graph *graph, const ronde__net_options *options, ronde__net **net_out) {
  const ronde__executor *executor = options->replay   ? &ronde__executor_replayed
                                    : options->define ? &ronde__executor_eager
                                                      : &ronde__executor_planned;
  return ronde__net_open(graph, options, executor, net_out);
}

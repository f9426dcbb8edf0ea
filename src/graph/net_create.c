/* The choice of what executes a net: the only file that knows both executors. */
#include "graph/executor.h"

ronde_status ronde__net_create(const ronde_graph *graph, const ronde__net_options *options, ronde__net **net_out) {
  return ronde__net_open(graph, options, options->define ? &ronde__executor_eager : &ronde__executor_planned, net_out);
}

/* The choice of what executes a net: the only file that knows the executors. */
#include "graph/executor.h"

ronde_status ronde__net_create(const ronde_graph *graph, const ronde__net_options *options, ronde__net **net_out) {
  if (options->split.peers && (options->define || options->stage.neighbours))
    return ronde__fail(RONDE_E_INTERNAL, "layers of an eager network, or of a stage, cannot be split");
  if (options->define && options->stage.neighbours)
    return ronde__fail(RONDE_E_USAGE, "a network that is defined anew in each pass cannot be cut into stages");
  const ronde__executor *executor = options->replay   ? &ronde__executor_replayed
                                    : options->define ? &ronde__executor_eager
                                                      : &ronde__executor_planned;
  return ronde__net_open(graph, options, executor, net_out);
}

/* What a graph costs node by node, for who cuts it into stages, and what a stage of it takes: both by plans, which are
 * given up again, without memory for parameters or activations. */
#include "graph/plan.h"

static ronde__plan_options options_of(const ronde__net_options *o, int64_t n) {
  return (ronde__plan_options){.n = n,
                               .training = o->training,
                               .compute = o->compute,
                               .threads = ronde__pool_threads(o->pool),
                               .transient_gradients = o->transient_gradients,
                               .stage = o->stage};
}

/* Layers that share a parameter are in one stage: nothing begins between the first and the last of them. */
static ronde_status keep_shared_together(const ronde__plan *plan, ronde__node_cost *costs) {
  int *first;
  RONDE__ALLOC(first, (size_t)plan->n_params * sizeof *first, "stages");
  for (int i = 0; i < plan->n_params; i++) first[i] = -1;
  for (int i = 0; i < plan->n_steps; i++) {
    const ronde__plan_step *step = &plan->steps[i];
    for (int j = 0; j < step->desc.n_params; j++) {
      int *begin = &first[step->param[j]];
      if (*begin < 0) *begin = step->node;
      for (int node = *begin + 1; node <= step->node; node++) costs[node].may_begin = false;
    }
  }
  ronde__free(first);
  return RONDE_OK;
}

/* A parameter is updated where it is used first. */
static void add_trained(const ronde__plan *plan, const ronde_graph *graph, ronde__node_cost *costs, int *node_of) {
  for (int i = 0; i < plan->n_params; i++) node_of[i] = -1;
  for (int i = 0; i < plan->n_steps; i++) {
    const ronde__plan_step *step = &plan->steps[i];
    for (int j = 0; j < step->desc.n_params; j++) {
      int param = step->param[j];
      if (node_of[param] < 0 && !graph->params[param].frozen)
        costs[step->node].trained += (double)ronde__weight_elems(&step->desc.param[j]);
      if (node_of[param] < 0) node_of[param] = step->node;
    }
  }
}

ronde_status ronde__graph_costs(const ronde_graph *graph, const ronde__net_options *options, int64_t n,
                                ronde__node_cost *costs, int *node_of) {
  ronde__plan_options of_plan = options_of(options, n);
  ronde__plan *plan;
  RONDE_TRY(ronde__plan_create(graph, &of_plan, &plan));
  for (int i = 0; i < graph->n_nodes; i++) costs[i] = (ronde__node_cost){0};
  for (int i = 0; i < plan->n_steps; i++) {
    const ronde__plan_step *step = &plan->steps[i];
    ronde__node_cost *cost = &costs[step->node];
    cost->may_begin = true;
    cost->is_layer |= step->desc.n_params > 0;
    cost->flops[0] += step->forward_flops;
    cost->bytes[0] += ronde__plan_step_bytes(step, false, 0);
    cost->flops[1] += step->has_backward ? step->backward_flops : 0;
    cost->bytes[1] += step->has_backward ? ronde__plan_step_bytes(step, true, 0) : 0;
  }
  for (int i = 1; i < graph->n_nodes; i++) costs[i].crossing_bytes = (double)ronde__plan_crossing_bytes(plan, i);
  ronde_status status = keep_shared_together(plan, costs);
  add_trained(plan, graph, costs, node_of);
  ronde__plan_destroy(plan);
  return status;
}

static ronde_status count_params(const ronde__plan *plan, const ronde_graph *graph, ronde__stage_size *size) {
  ronde__weight_layout *layouts;
  RONDE__ALLOC(layouts, (size_t)graph->n_params * sizeof *layouts, "stages");
  ronde__plan_weight_layouts(plan, graph, layouts);
  for (int i = 0; i < plan->n_params; i++) {
    size_t n = (size_t)ronde__weight_elems(&layouts[i]);
    size->parameters += n;
    if (!graph->params[plan->param_of[i]].frozen) size->trained += n;
  }
  ronde__free(layouts);
  return RONDE_OK;
}

static double sent_bytes(const ronde__plan_step *step) {
  bool sends = step->op == &ronde__op_send, returns = step->op == &ronde__op_receive && step->has_backward;
  const ronde__phys *x = sends ? &step->desc.in[0] : &step->desc.out[0];
  return sends || returns ? (double)ronde__phys_bytes(x) : 0;
}

ronde_status ronde__stage_measure(const ronde_graph *graph, const ronde__net_options *options, int64_t n,
                                  ronde__stage_size *size_out) {
  static const ronde__neighbours nobody;
  ronde__plan_options of_plan = options_of(options, n);
  ronde__plan *plan;
  ronde__stage_size size = {0};
  if (options->stage.end) of_plan.stage.neighbours = &nobody;
  RONDE_TRY(ronde__plan_create(graph, &of_plan, &plan));
  for (int i = 0; i < plan->n_steps; i++) {
    const ronde__plan_step *step = &plan->steps[i];
    size.flops += step->forward_flops + (step->has_backward ? step->backward_flops : 0);
    size.sent_bytes += sent_bytes(step);
    if (ronde__plan_keeps_turned(plan, step))
      size.kept_bytes += (size_t)ronde__weight_elems(&step->desc.param[0]) * sizeof(float);
  }
  size.arena_bytes = plan->arena_bytes;
  ronde_status status = count_params(plan, graph, &size);
  ronde__plan_destroy(plan);
  if (status == RONDE_OK) *size_out = size;
  return status;
}

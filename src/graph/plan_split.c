/* Linear layers of a plan that are split over ranks by output feature. A rank computes its features of the examples of all
 * ranks, so the gradient of its part of the weights is whole, and never travels; what does are activations and their
 * gradients (src/ops/shares.h). Behind a split layer a value stays split for as long as nodes work on features one by
 * one: between two split layers only features are gathered, and no example goes home.
 * Source: Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014, scheme (a). */
#include "graph/plan.h"
#include "ops/shares.h"

bool ronde__node_keeps_features(const ronde__node *node) {
  return node->kind == RONDE__OP_DROPOUT || node->kind == RONDE__OP_POINTWISE || node->kind == RONDE__OP_ACTIVATION;
}

bool ronde__graph_can_split(const ronde_graph *graph, int node) {
  const ronde__node *own = &graph->nodes[node];
  if (own->kind != RONDE__OP_LINEAR) return false;
  for (int i = 0; i < graph->n_nodes; i++)
    for (int j = 0; i != node && j < graph->nodes[i].n_params; j++)
      if (graph->nodes[i].param[j] == own->param[0]) return false;
  return true;
}

ronde__range ronde__net_part(const ronde__net_param *param, int rank, int n_ranks) {
  int64_t blocks = ronde__ceil_div(param->layout.o, param->layout.block_o);
  size_t slab = param->n_packed / (size_t)blocks, begin = (size_t)ronde__shard_begin(blocks, rank, n_ranks),
         end = (size_t)ronde__shard_begin(blocks, rank + 1, n_ranks);
  return (ronde__range){param->offset + begin * slab, (end - begin) * slab};
}

static int between_ranks(ronde__plan *plan, const ronde__plan_options *options, const ronde__op *op, int value,
                         const ronde__phys *to, const ronde__plan_step *user) {
  for (int i = 0; i < plan->n_steps; i++) {
    ronde__plan_step *step = &plan->steps[i];
    if (step->op != op || step->in[0] != value) continue;
    step->for_loss |= user->for_loss, step->for_output |= user->for_output;
    return step->out[0];
  }
  const ronde__value *from = &plan->values[value];
  ronde__plan_step *step = &plan->steps[plan->n_steps++];
  *step = ronde__step_between_ranks(op, &from->phys, to, from->has_gradient, options);
  step->for_loss = user->for_loss;
  step->for_output = user->for_output;
  step->node = user->node;
  step->in[0] = value;
  return step->out[0] = ronde__plan_add_value(plan, *to, false, from->has_gradient);
}

int ronde__plan_own_examples(ronde__plan *plan, const ronde__plan_options *options, const ronde__shape *shape,
                             int value, const ronde__plan_step *user) {
  ronde__phys to = ronde__phys_make(RONDE__BLOCKS, plan->n, shape->dim[0], 1, 1);
  return between_ranks(plan, options, &ronde__op_own_examples, value, &to, user);
}

int ronde__plan_gather(ronde__plan *plan, const ronde__plan_options *options, const ronde__shape *shape, int value,
                       const ronde__plan_step *user) {
  const ronde__value *from = &plan->values[value];
  ronde__phys to = from->split
                       ? ronde__phys_make(RONDE__BLOCKS, plan->n_all, shape->dim[0], 1, 1)
                       : ronde__phys_make(from->phys.layout, plan->n_all, from->phys.c, from->phys.h, from->phys.w);
  const ronde__op *op = from->split ? &ronde__op_gather_features : &ronde__op_gather_examples;
  return between_ranks(plan, options, op, value, &to, user);
}

int64_t ronde__plan_first_channel(const ronde__plan_options *options, const ronde__shape *shape) {
  const ronde__peers *peers = options->split.peers;
  ronde__phys all = ronde__phys_make(RONDE__BLOCKS, 1, shape->dim[0], 1, 1);
  return ronde__share_begin(peers, ronde__phys_blocks(&all), peers->rank) * all.block;
}

void ronde__plan_split_linear(const ronde__plan_options *options, ronde__plan_step *step) {
  const ronde__peers *peers = options->split.peers;
  ronde__op_desc *desc = &step->desc;
  int64_t blocks = ronde__phys_blocks(&desc->out[0]);
  size_t first = (size_t)ronde__share_begin(peers, blocks, peers->rank);
  desc->out[0].n = options->n_all;
  desc->out[0] = ronde__share_of_features(peers, &desc->out[0], peers->rank);
  for (int j = 0; j < desc->n_params; j++) {
    step->param_at[j] = first * (size_t)(ronde__weight_elems(&desc->param[j]) / blocks);
    desc->param[j].o = desc->out[0].c;
  }
}

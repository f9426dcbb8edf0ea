/* Linear layers of a plan that are split over ranks by output feature. A rank computes its features of the examples of all
 * ranks, so the gradient of its part of the weights is whole, and never travels; what does are activations and their
 * gradients (src/ops/exchange.c). Behind a split layer a value stays split for as long as nodes work on features one by
 * one: between two split layers only features are gathered, and no example goes home.
 * The examples go through in turns (plan_turns.c has their order). Each turn has values and steps of its own, but the
 * values of all turns lie behind one another in one whole, because a step of its own makes the weight's gradient of all of
 * them. Source: Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014. */
#include "graph/plan.h"
#include "ops/shares.h"

bool ronde__node_keeps_features(const ronde__node *node) {
  return node->kind == RONDE__OP_DROPOUT || node->kind == RONDE__OP_POINTWISE || node->kind == RONDE__OP_ACTIVATION;
}

bool ronde__graph_can_split(const ronde_graph *graph, int node) {
  const ronde__node *own = &graph->nodes[node];
  if (own->kind != RONDE__OP_LINEAR || graph->tensors[own->in[0]]->shape.rank > 1) return false;
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

static ronde__turn turn_of(const ronde__plan_options *options, int number) {
  return (ronde__turn){options->split.peers, options->n_all, number};
}

int ronde__plan_add_whole(ronde__plan *plan, const ronde__plan_options *options, ronde__phys phys, bool has_gradient) {
  int n_turns = ronde__n_turns(options->split.peers), whole = ronde__plan_add_value(plan, phys, false, has_gradient);
  if (n_turns == 1) return whole;
  plan->values[whole].turns = plan->n_values;
  for (int t = 0; t < n_turns; t++) {
    ronde__turn turn = turn_of(options, t);
    phys.n = ronde__turn_rows(&turn);
    if (phys.layout == RONDE__LANES) phys.block = phys.n;
    int part = ronde__plan_add_value(plan, phys, false, has_gradient);
    plan->values[part].whole = whole;
  }
  return whole;
}

/* What a turn's step has of a value. */
static int in_turn(const ronde__plan *plan, int value, int turn) {
  return plan->values[value].turns < 0 ? value : plan->values[value].turns + turn;
}

/* ---- exchanges ---- */

static void add_exchange(ronde__plan *plan, const ronde__plan_options *options, const ronde__plan_step *common,
                         int number) {
  ronde__plan_step begin = *common, end;
  ronde__op_desc *desc = &begin.desc;
  desc->turn = turn_of(options, number);
  if (ronde__turn_rows(&desc->turn) == 0) return;
  begin.op = &ronde__op_exchange_begin;
  begin.under_way = plan->n_under_way++;
  begin.in[0] = in_turn(plan, begin.value, number);
  begin.out[0] = in_turn(plan, begin.result, number);
  desc->in[0] = plan->values[begin.in[0]].phys;
  desc->out[0] = plan->values[begin.out[0]].phys;
  desc->n_inputs = desc->n_outputs = 1;
  int64_t packed = ronde__max(1, ronde__exchange_packed_elems(desc));
  desc->n_outputs = 2;
  desc->out[1] = ronde__phys_make(RONDE__ROWS, 1, packed, 1, 1);
  begin.out[1] = ronde__plan_add_value(plan, desc->out[1], false, desc->need_dinput[0]);
  end = begin;
  end.op = &ronde__op_exchange_end;
  end.desc.n_inputs = 2, end.desc.n_outputs = 1;
  end.desc.in[0] = desc->out[1], end.desc.in[1] = desc->in[0];
  end.in[0] = begin.out[1], end.in[1] = begin.in[0];
  plan->steps[plan->n_steps++] = begin;
  plan->steps[plan->n_steps++] = end;
}

static int between_ranks(ronde__plan *plan, const ronde__plan_options *options, ronde__spread from, ronde__spread to,
                         int value, const ronde__phys *result, const ronde__plan_step *user) {
  int found = -1, last = 0;
  for (int i = 0; i < plan->n_steps; i++) {
    ronde__plan_step *step = &plan->steps[i];
    if (step->exchange > last) last = step->exchange;
    if (!ronde__step_exchanges(step) || step->value != value || step->desc.to != to) continue;
    step->for_loss |= user->for_loss, step->for_output |= user->for_output;
    found = step->result;
  }
  if (found >= 0) return found;
  bool gradient = plan->values[value].has_gradient;
  ronde__plan_step step = {.for_loss = user->for_loss,
                           .for_output = user->for_output,
                           .node = user->node,
                           .split = true,
                           .exchange = last + 1,
                           .value = value};
  step.desc = (ronde__op_desc){
      .compute = options->compute, .threads = options->threads, .from = from, .to = to, .need_dinput = {gradient}};
  step.result = to == RONDE__WHOLE ? ronde__plan_add_whole(plan, options, *result, gradient)
                                   : ronde__plan_add_value(plan, *result, false, gradient);
  for (int t = 0; t < ronde__n_turns(options->split.peers); t++) add_exchange(plan, options, &step, t);
  return step.result;
}

int ronde__plan_own_examples(ronde__plan *plan, const ronde__plan_options *options, const ronde__shape *shape,
                             int value, const ronde__plan_step *user) {
  ronde__phys to = ronde__phys_make(RONDE__BLOCKS, plan->n, shape->dim[0], 1, 1);
  return between_ranks(plan, options, RONDE__FEATURES, RONDE__EXAMPLES, value, &to, user);
}

int ronde__plan_gather(ronde__plan *plan, const ronde__plan_options *options, const ronde__shape *shape, int value,
                       const ronde__plan_step *user) {
  const ronde__value *from = &plan->values[value];
  ronde__phys to = from->split
                       ? ronde__phys_make(RONDE__BLOCKS, plan->n_all, shape->dim[0], 1, 1)
                       : ronde__phys_make(from->phys.layout, plan->n_all, from->phys.c, from->phys.h, from->phys.w);
  return between_ranks(plan, options, from->split ? RONDE__FEATURES : RONDE__EXAMPLES, RONDE__WHOLE, value, &to, user);
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

/* ---- turns ---- */

static void add_turn(ronde__plan *plan, const ronde__plan_options *options, const ronde__plan_step *whole, int number) {
  ronde__plan_step step = *whole;
  step.desc.turn = turn_of(options, number);
  if (ronde__turn_rows(&step.desc.turn) == 0) return;
  for (int i = 0; i < step.desc.n_inputs; i++) {
    step.in[i] = in_turn(plan, whole->in[i], number);
    step.desc.in[i] = plan->values[step.in[i]].phys;
  }
  for (int i = 0; i < step.desc.n_outputs; i++) {
    step.out[i] = in_turn(plan, whole->out[i], number);
    step.desc.out[i] = plan->values[step.out[i]].phys;
  }
  plan->steps[plan->n_steps++] = step;
}

/* The weight's gradient of all turns, which no turn's step makes then. */
static void add_weights(ronde__plan *plan, const ronde__plan_options *options, ronde__plan_step *step) {
  ronde__plan_step weights = *step;
  bool trains = false;
  for (int i = 0; i < step->desc.n_params; i++) {
    trains |= !step->desc.frozen[i];
    step->desc.frozen[i] = true;
  }
  if (!trains || !step->has_backward) return;
  weights.op = &ronde__op_linear_weights;
  weights.for_loss = weights.for_output = false;
  weights.desc.turn = turn_of(options, RONDE__ALL_TURNS);
  weights.desc.attr.act = RONDE__ACT_NONE;
  weights.desc.need_dinput[0] = false;
  plan->steps[plan->n_steps++] = weights;
}

void ronde__plan_add_turns(ronde__plan *plan, const ronde__plan_options *options, const ronde__plan_step *step) {
  ronde__plan_step of_turns = *step;
  int n_turns = ronde__n_turns(options->split.peers);
  if (n_turns > 1 && step->desc.n_params) add_weights(plan, options, &of_turns);
  for (int t = 0; t < n_turns; t++) add_turn(plan, options, &of_turns, t);
}

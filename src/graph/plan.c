/* Lays out a recorded graph for one batch size: what is fused or joined, the layouts, each step's form, the gradients'
 * order. */
#include "graph/plan.h"
#include "ops/shares.h"

#include <string.h>

/* What is known of the graph while it is laid out; freed afterwards. */
typedef struct builder {
  const ronde_graph *graph;
  const ronde__plan_options *options;
  ronde__plan *plan;
  int *value_of;                /* [tensors]: the value that holds a tensor as its producer left it, -1: not yet */
  int *n_uses;                  /* [tensors] */
  bool *wants_gradient;         /* [tensors]: it depends on a parameter that trains */
  bool *for_loss, *for_output;  /* [tensors] */
  int *fused_into;              /* [nodes]: the node that executes this activation, sum or pooling, -1: itself */
  int *sum;                     /* [nodes]: the sum that a normalisation executes too, in the sum's place; -1: none */
  ronde__activation *act;       /* [nodes]: the activation that a node executes beside its own work */
  ronde__weight_layout *stored; /* [params]: as the steps so far want it; o 0: none uses it */
  int node;                     /* which is being added */
} builder;

/* ---- facts about the graph ---- */

/* Whether something holds of any output of a node. */
static bool is_any(const ronde__node *node, const bool *of_tensors) {
  for (int i = 0; i < node->n_outputs; i++)
    if (of_tensors[node->out[i]]) return true;
  return false;
}

static void mark_needed(const ronde_graph *graph, int tensor, bool *needed) {
  if (tensor >= 0) needed[tensor] = true;
  for (int i = graph->n_nodes - 1; i >= 0; i--)
    if (is_any(&graph->nodes[i], needed))
      for (int j = 0; j < graph->nodes[i].n_inputs; j++) needed[graph->nodes[i].in[j]] = true;
}

/* Nodes that neither the loss nor the output needs are no part of the plan. */
static bool is_needed(const builder *b, const ronde__node *node) {
  return is_any(node, b->for_loss) || is_any(node, b->for_output);
}

static int only_reader(const builder *b, int tensor) {
  const ronde_graph *graph = b->graph;
  for (int i = 0; i < graph->n_nodes; i++)
    for (int j = 0; j < graph->nodes[i].n_inputs && is_needed(b, &graph->nodes[i]); j++)
      if (graph->nodes[i].in[j] == tensor) return i;
  return -1;
}

/* A sum is executed by a normalisation in front of it whose output nobody else reads, the later one of two; -1: none.
 * What is normalised cannot be the other operand, as it would get two gradients from one step. */
static int norm_of_sum(const builder *b, const ronde__node *sum) {
  const ronde_graph *graph = b->graph;
  int norm = -1;
  for (int i = 0; i < 2; i++) {
    int producer = graph->tensors[sum->in[i]]->producer;
    if (producer <= norm || graph->nodes[producer].kind != RONDE__OP_BATCH_NORM2D) continue;
    if (b->n_uses[sum->in[i]] != 1 || sum->in[i] == graph->output) continue;
    if (graph->nodes[producer].in[0] != sum->in[1 - i]) norm = producer;
  }
  return norm;
}

/* The place of a maximum that a ReLU cuts off must fit beside those of the window. */
static bool executes_relu(const ronde__node *reader) {
  return reader->kind == RONDE__OP_MAX_POOL2D && reader->attr.kernel[0] * reader->attr.kernel[1] <= RONDE__NO_PLACE;
}

/* An activation whose input nobody else reads is executed by the layer in front of it; a ReLU whose output only a max
 * pooling reads, by the pooling. */
static int executor_of(const builder *b, int index) {
  const ronde_graph *graph = b->graph;
  const ronde__node *node = &graph->nodes[index];
  int producer = graph->tensors[node->in[0]]->producer;
  if (node->attr.act == RONDE__ACT_RELU && b->n_uses[node->out[0]] == 1 && node->out[0] != graph->output) {
    int reader = only_reader(b, node->out[0]);
    if (executes_relu(&graph->nodes[reader])) return reader;
  }
  if (producer < 0 || b->n_uses[node->in[0]] != 1 || node->in[0] == graph->output) return -1;
  if (graph->nodes[producer].kind == RONDE__OP_ADD && b->fused_into[producer] >= 0) producer = b->fused_into[producer];
  ronde__op_kind kind = graph->nodes[producer].kind;
  bool layer = kind == RONDE__OP_CONV2D || kind == RONDE__OP_LINEAR ||
               (kind == RONDE__OP_BATCH_NORM2D && node->attr.act == RONDE__ACT_RELU);
  return layer && b->act[producer] == RONDE__ACT_NONE ? producer : -1;
}

static void study(builder *b) {
  const ronde_graph *graph = b->graph;
  mark_needed(graph, graph->loss, b->for_loss);
  mark_needed(graph, graph->output, b->for_output);
  for (int i = 0; i < graph->n_nodes; i++) {
    const ronde__node *node = &graph->nodes[i];
    if (!is_needed(b, node)) continue;
    bool depends = false;
    for (int j = 0; j < node->n_params; j++) depends |= !graph->params[node->param[j]].frozen;
    for (int j = 0; j < node->n_inputs; j++) {
      depends |= b->wants_gradient[node->in[j]];
      b->n_uses[node->in[j]]++;
    }
    for (int j = 0; j < node->n_outputs; j++) b->wants_gradient[node->out[j]] = depends && b->options->training;
  }
  for (int i = 0; i < graph->n_nodes; i++) b->fused_into[i] = b->sum[i] = -1;
  for (int i = 0; i < graph->n_nodes; i++) {
    const ronde__node *node = &graph->nodes[i];
    if (!is_needed(b, node)) continue;
    if (node->kind == RONDE__OP_ADD) {
      b->fused_into[i] = norm_of_sum(b, node);
      if (b->fused_into[i] >= 0) b->sum[b->fused_into[i]] = i;
    } else if (node->kind == RONDE__OP_ACTIVATION) {
      b->fused_into[i] = executor_of(b, i);
      if (b->fused_into[i] >= 0) b->act[b->fused_into[i]] = node->attr.act;
    }
  }
}

/* ---- steps and values ---- */

static int add_reorder(builder *b, int value, const ronde__phys *from, const ronde__phys *to,
                       const ronde__plan_step *user) {
  ronde__plan *plan = b->plan;
  ronde__plan_step *step = &plan->steps[plan->n_steps++];
  *step = ronde__step_of_reorder(from, to, plan->values[value].has_gradient, b->options);
  step->for_loss = user->for_loss;
  step->for_output = user->for_output;
  step->node = step->desc.layer = b->node;
  step->in[0] = value;
  return step->out[0] = ronde__plan_add_value(plan, *to, false, plan->values[value].has_gradient);
}

/* The value of a tensor in the wanted form: as it is, or behind a reorder (one that is there already is used again), or
 * two, by way of ROWS. */
static int value_in_form(builder *b, int value, const ronde__phys *wanted, const ronde__plan_step *user) {
  ronde__plan *plan = b->plan;
  ronde__phys from = plan->values[value].phys, to = *wanted;
  if (ronde__phys_alike(&from, wanted)) return value;
  for (int i = 0; i < plan->n_steps; i++) {
    ronde__plan_step *step = &plan->steps[i];
    if (step->op == ronde__ops[RONDE__OP_REORDER] && step->in[0] == value &&
        ronde__phys_alike(&step->desc.out[0], wanted)) {
      step->for_loss |= user->for_loss, step->for_output |= user->for_output;
      return step->out[0];
    }
  }
  if (ronde__phys_match(&from, &to)) return add_reorder(b, value, &from, &to, user);
  ronde__phys rows = ronde__phys_make(RONDE__ROWS, from.n, from.c, from.h, from.w);
  return value_in_form(b, value_in_form(b, value, &rows, user), wanted, user);
}

static void bind_target(builder *b, const ronde__node *node, const ronde__phys *prediction) {
  if (b->plan->target < 0)
    b->plan->target = ronde__plan_add_value(b->plan, ronde__phys_of_target(prediction), true, false);
  b->value_of[node->in[1]] = b->plan->target;
}

/* The node that alone reads what this one gives, past activations that are executed elsewhere; -1: none. */
static int follower(const builder *b, const ronde__node *node) {
  const ronde_graph *graph = b->graph;
  int tensor = node->out[0], reader;
  do {
    if (b->n_uses[tensor] != 1 || tensor == graph->output) return -1;
    reader = only_reader(b, tensor);
    tensor = graph->nodes[reader].out[0];
  } while (graph->nodes[reader].kind == RONDE__OP_ACTIVATION && b->fused_into[reader] >= 0);
  return reader;
}

/* Lets a step whose layouts are chosen execute the node behind it too, where its op can. */
static void join_follower(builder *b, int index, const ronde__node *node, ronde__plan_step *step) {
  int next = step->op->join ? follower(b, node) : -1;
  if (next < 0) return;
  const ronde__node *behind = &b->graph->nodes[next];
  ronde__op_attr attr = behind->attr;
  attr.act = b->act[next];
  if (step->op->join(&step->desc, behind->kind, &attr, &b->graph->tensors[behind->out[0]]->shape))
    b->fused_into[next] = index;
}

/* Where several nodes use a parameter, the first of them that is not content with any order says how it is stored. */
static ronde_status lay_out_step(builder *b, const ronde__node *node, ronde__plan_step *step) {
  const ronde__weight_layout *stored[RONDE__OP_MAX_PARAMS];
  for (int i = 0; i < node->n_params; i++) stored[i] = b->stored[node->param[i]].o ? &b->stored[node->param[i]] : NULL;
  if (!ronde__step_lay_out(b->graph, node, stored, step))
    return ronde__fail(RONDE_E_USAGE,
                       "%s: an earlier layer stores the shared %s in another order than this layer's input allows; "
                       "share it between layers whose inputs are both vectors, or both images of equal size",
                       node->label, b->graph->params[node->param[0]].name);
  for (int i = 0; i < node->n_params && !step->op->any_weights; i++) b->stored[node->param[i]] = step->desc.param[i];
  return RONDE_OK;
}

/* Of those that are content with any: what a layer behind them has said. */
static void settle_weights(builder *b) {
  for (int i = 0; i < b->plan->n_steps; i++) {
    ronde__plan_step *step = &b->plan->steps[i];
    for (int j = 0; j < step->desc.n_params && step->op->any_weights; j++)
      if (b->stored[step->param[j]].o) step->desc.param[j] = b->stored[step->param[j]];
  }
}

/* The value of an input as a step that is laid out for the rank's own examples finds it; of one that works on a rank's
 * features alone, these. */
static int offered(builder *b, const ronde__node *node, int i, bool splits, const ronde__plan_step *step) {
  ronde__plan *plan = b->plan;
  int value;
  if (step->op->is_loss && i == 1) bind_target(b, node, &step->desc.in[0]);
  value = b->value_of[node->in[i]];
  if (!plan->values[value].split || splits || ronde__node_keeps_features(node)) return value;
  return ronde__plan_own_examples(plan, b->options, &b->graph->tensors[node->in[i]]->shape, value, step);
}

/* A linear layer of which each rank has some outputs: it reads all examples. */
static void split(builder *b, const ronde__node *node, ronde__plan_step *step) {
  const ronde__shape *shape = &b->graph->tensors[node->in[0]]->shape;
  step->in[0] = ronde__plan_gather(b->plan, b->options, shape, step->in[0], step);
  step->desc.in[0] = b->plan->values[step->in[0]].phys;
  ronde__plan_split_linear(b->options, step);
}

static ronde_status add_step(builder *b, int index, const ronde__node *node) {
  const ronde_graph *graph = b->graph;
  ronde__plan *plan = b->plan;
  ronde__plan_step step = ronde__step_of_node(node, index, b->options);
  ronde__op_desc *desc = &step.desc;
  bool splits = ronde__plan_splits(b->options, index), is_split;
  int from[RONDE__OP_MAX_INPUTS];
  step.for_loss = is_any(node, b->for_loss);
  step.for_output = is_any(node, b->for_output);
  step.node = b->node;
  for (int i = 0; i < node->n_params; i++) desc->frozen[i] = graph->params[node->param[i]].frozen;
  if (b->act[index]) desc->attr.act = b->act[index];
  for (int i = 0; i < node->n_inputs; i++) {
    from[i] = offered(b, node, i, splits, &step);
    const ronde__value *value = &plan->values[from[i]];
    desc->in[i] = value->split
                      ? value->phys
                      : ronde__phys_offered(&value->phys, &graph->tensors[node->in[i]]->shape, plan->n, step.op);
    desc->need_dinput[i] = value->has_gradient;
  }
  is_split = node->n_inputs > 0 && plan->values[from[0]].split;
  if (splits && is_split)
    desc->in[0] = ronde__phys_of_shape_in(RONDE__BLOCKS, &graph->tensors[node->in[0]]->shape, plan->n);
  RONDE_TRY(lay_out_step(b, node, &step));
  if (!splits) join_follower(b, index, node, &step);
  for (int i = 0; i < node->n_inputs; i++)
    step.in[i] = is_split ? from[i] : value_in_form(b, from[i], &desc->in[i], &step);
  if (splits) split(b, node, &step);
  else if (is_split) desc->first_channel = ronde__plan_first_channel(b->options, &graph->tensors[node->in[0]]->shape);
  step.split = splits || is_split;
  memcpy(step.param, node->param, sizeof step.param);
  memcpy(step.buffer, node->buffer, sizeof step.buffer);
  if (step.op->is_view) return b->value_of[node->out[0]] = step.in[0], RONDE_OK;
  for (int i = 0; i < node->n_outputs; i++) {
    bool gradient = b->wants_gradient[node->out[i]] && b->for_loss[node->out[i]];
    step.has_backward |= gradient;
    step.out[i] = step.split ? ronde__plan_add_whole(plan, b->options, desc->out[i], gradient)
                             : ronde__plan_add_value(plan, desc->out[i], false, gradient && !step.op->is_loss);
    plan->values[step.out[i]].split = step.split;
    b->value_of[node->out[i]] = step.out[i];
  }
  if (step.split) ronde__plan_add_turns(plan, b->options, &step);
  else plan->steps[plan->n_steps++] = step;
  return RONDE_OK;
}

/* A normalisation and the sum behind it, as one. */
static ronde__node joined(const ronde_graph *graph, int norm, int sum) {
  ronde__node node = graph->nodes[norm];
  const int *in = graph->nodes[sum].in;
  node.in[node.n_inputs++] = in[in[0] == node.out[0]];
  node.out[0] = graph->nodes[sum].out[0];
  return node;
}

static ronde_status add_node(builder *b, int index) {
  const ronde__node *node = &b->graph->nodes[index];
  int executor = b->fused_into[index];
  b->node = index;
  if (executor < 0) return b->sum[index] < 0 ? add_step(b, index, node) : RONDE_OK;
  if (b->sum[executor] == index) {
    ronde__node both = joined(b->graph, executor, index);
    return add_step(b, executor, &both);
  }
  b->value_of[node->out[0]] = b->value_of[node->in[0]];
  return RONDE_OK;
}

/* ---- backward: who writes a gradient first, and where ---- */

/* The step is the last reader of its output's gradient: the gradient of an input which it writes first can take that
 * place, so that it is not copied, or only turned over in cache. A shortcut's is passed on unchanged, so it comes
 * first. */
static void share_gradient(ronde__plan *plan, const ronde__plan_step *step) {
  for (int j = step->desc.n_inputs - 1; j >= 0; j--) {
    if (!(step->op->dinput_in_dout >> j & 1) || !step->desc.need_dinput[j] || step->accumulate_dinput[j]) continue;
    if (!ronde__phys_equal(&step->desc.in[j], &step->desc.out[0])) continue;
    plan->values[step->in[j]].gradient_home = plan->values[step->out[0]].gradient_home;
    return;
  }
}

/* Who has written a gradient so far, in backward order: 0 nobody, ALL_ROWS a step, else the turns of that exchange, each of
 * which writes rows of its own. */
enum { ALL_ROWS = -1 };

static void write_gradient(ronde__plan_step *step, int input, int *written) {
  int *by = &written[step->in[input]];
  bool is_turn = ronde__step_exchanges(step) && (*by == 0 || *by == step->exchange);
  step->accumulate_dinput[input] = *by != 0 && !is_turn;
  *by = is_turn ? step->exchange : ALL_ROWS;
}

static ronde_status order_gradients(ronde__plan *plan) {
  int *written;
  RONDE__ALLOC(written, (size_t)plan->n_values * sizeof *written, "plan");
  for (int i = 0; i < plan->n_values; i++) plan->values[i].gradient_home = i;
  for (int i = plan->n_steps - 1; i >= 0; i--) {
    ronde__plan_step *step = &plan->steps[i];
    if (step->op == ronde__ops[RONDE__OP_REORDER] || ronde__step_exchanges(step))
      step->has_backward = step->desc.need_dinput[0] && written[step->out[0]];
    if (step->op == &ronde__op_receive) step->has_backward = written[step->out[0]];
    for (int j = 0; j < step->desc.n_inputs && step->has_backward; j++)
      if (step->desc.need_dinput[j]) write_gradient(step, j, written);
    if (step->has_backward) share_gradient(plan, step);
  }
  ronde__free(written);
  return RONDE_OK;
}

/* Of the steps that have none yet. */
static ronde_status choose_forms(ronde__plan *plan) {
  for (int i = 0; i < plan->n_steps; i++)
    if (!plan->steps[i].desc.form) RONDE_TRY(ronde__form_choose(plan->steps[i].op, &plan->steps[i].desc));
  return RONDE_OK;
}

/* A step that alone makes a parameter's gradient may hand it out in pieces. */
static void study_params(ronde__plan *plan, const ronde__plan_options *options) {
  for (int i = 0; i < plan->n_params; i++) plan->params[i] = (ronde__plan_param){.reader = -1, .first = -1, .last = -1};
  for (int i = plan->n_steps - 1; i >= 0; i--)
    for (int j = 0; j < plan->steps[i].desc.n_params && plan->steps[i].for_loss; j++)
      plan->params[plan->steps[i].param[j]].reader = i;
  for (int i = plan->n_steps - 1; i >= 0; i--)
    for (int j = 0; j < plan->steps[i].desc.n_params && plan->steps[i].has_backward; j++) {
      if (plan->steps[i].desc.frozen[j]) continue;
      ronde__plan_param *param = &plan->params[plan->steps[i].param[j]];
      if (param->first < 0) param->first = i;
      param->last = i;
    }
  for (int i = 0; i < plan->n_steps; i++) {
    ronde__plan_step *step = &plan->steps[i];
    bool transient = options->transient_gradients || (step->split && options->split.fuses);
    if (!transient || !step->desc.n_params || !step->has_backward || !step->desc.form->gives_pieces ||
        step->desc.frozen[0])
      continue;
    ronde__plan_param *param = &plan->params[step->param[0]];
    step->desc.in_pieces = param->in_pieces = param->first == param->last;
  }
}

/* ---- the whole ---- */

static ronde_status builder_create(builder *b) {
  int tensors = b->graph->n_tensors, nodes = b->graph->n_nodes;
  size_t bytes =
      (size_t)tensors * (2 * sizeof(int) + 3 * sizeof(bool)) + (size_t)nodes * (2 * sizeof(int) + sizeof *b->act);
  int *memory;
  RONDE__ALLOC(memory, bytes, "plan");
  b->value_of = memory;
  b->n_uses = memory + tensors;
  b->fused_into = memory + 2 * tensors;
  b->sum = b->fused_into + nodes;
  b->act = (ronde__activation *)(b->sum + nodes);
  b->wants_gradient = (bool *)(b->act + nodes);
  b->for_loss = b->wants_gradient + tensors;
  b->for_output = b->for_loss + tensors;
  for (int i = 0; i < tensors; i++) b->value_of[i] = -1;
  RONDE__ALLOC(b->stored, (size_t)b->graph->n_params * sizeof *b->stored, "plan");
  return RONDE_OK;
}

/* One input is read where the caller has it; several are taken from his rows. */
static void add_inputs(builder *b) {
  ronde__plan *plan = b->plan;
  const ronde_graph *graph = b->graph;
  bool several = graph->n_inputs > 1;
  for (int i = 0; i < graph->n_inputs; i++) {
    const ronde_tensor *x = graph->tensors[graph->inputs[i]];
    int value = ronde__plan_add_value(plan, ronde__phys_of_shape(&x->shape, plan->n), !several, false);
    if (several) plan->taken[plan->n_taken++] = value;
    else plan->input = value;
    b->value_of[x->id] = value;
  }
}

static ronde_status lay_out(builder *b) {
  ronde__plan *plan = b->plan;
  const ronde_graph *graph = b->graph;
  study(b);
  add_inputs(b);
  for (int i = 0; i < graph->n_nodes; i++)
    if (is_needed(b, &graph->nodes[i])) RONDE_TRY(add_node(b, i));
  settle_weights(b);
  if (b->options->n_all) RONDE_TRY(ronde__plan_order_turns(plan));
  plan->output = b->options->n_all ? -1 : b->value_of[graph->output];
  RONDE_TRY(choose_forms(plan));
  RONDE_TRY(ronde__plan_choose_bf16(plan));
  RONDE_TRY(order_gradients(plan));
  if (b->options->stage.neighbours) {
    RONDE_TRY(ronde__plan_stage(plan, graph, b->options));
    RONDE_TRY(choose_forms(plan));
    RONDE_TRY(order_gradients(plan));
  }
  study_params(plan, b->options);
  for (int i = 0; i < plan->n_steps; i++) RONDE_TRY(ronde__plan_step_prepare(&plan->steps[i], b->options));
  return ronde__plan_place_memory(plan, graph, b->options->transient_gradients);
}

ronde_status ronde__plan_create(const ronde_graph *graph, const ronde__plan_options *options, ronde__plan **plan_out) {
  /* In front of an input there may be two reorders, and an exchange between ranks, of two steps and two values a turn. */
  size_t n_turns = options->n_all ? (size_t)ronde__n_turns(options->split.peers) : 0;
  size_t max_steps = (size_t)graph->n_nodes * (2 + n_turns + 2 * (1 + n_turns) * RONDE__OP_MAX_INPUTS),
         max_values = (size_t)graph->n_nodes * (1 + n_turns) * (RONDE__OP_MAX_OUTPUTS + 3 * RONDE__OP_MAX_INPUTS) + 2 +
                      RONDE_MAX_INPUTS;
  ronde__plan *plan;
  RONDE__ALLOC(plan, sizeof *plan, "plan");
  *plan = (ronde__plan){.n = options->n,
                        .n_all = options->n_all,
                        .n_params = graph->n_params,
                        .n_buffers = graph->n_buffers,
                        .input = -1,
                        .target = -1,
                        .output = -1};
  builder b = {.graph = graph, .options = options, .plan = plan};
  ronde_status status = RONDE_OK;
  if (!(plan->steps = ronde__alloc(max_steps * sizeof *plan->steps)) ||
      !(plan->values = ronde__alloc(max_values * sizeof *plan->values)) ||
      !(plan->params = ronde__alloc((size_t)graph->n_params * sizeof *plan->params)) ||
      !(plan->param_of = ronde__alloc((size_t)graph->n_params * sizeof *plan->param_of)) ||
      !(plan->buffer_of = ronde__alloc((size_t)graph->n_buffers * sizeof *plan->buffer_of)))
    status = ronde__fail(RONDE_E_MEMORY, "plan: no memory for %zu steps", max_steps);
  for (int i = 0; i < graph->n_params && status == RONDE_OK; i++) plan->param_of[i] = i;
  for (int i = 0; i < graph->n_buffers && status == RONDE_OK; i++) plan->buffer_of[i] = i;
  if (status == RONDE_OK) status = builder_create(&b);
  if (status == RONDE_OK) status = lay_out(&b);
  ronde__free(b.stored);
  ronde__free(b.value_of);
  if (status != RONDE_OK) ronde__plan_destroy(plan);
  else *plan_out = plan;
  return status;
}

void ronde__plan_destroy(ronde__plan *plan) {
  if (!plan) return;
  for (int i = 0; plan->steps && i < plan->n_steps; i++) ronde__plan_step_release(&plan->steps[i]);
  ronde__free(plan->steps);
  ronde__free(plan->values);
  ronde__free(plan->params);
  ronde__free(plan->param_of);
  ronde__free(plan->buffer_of);
  ronde__free(plan);
}

static ronde__weight_layout plain_layout(const ronde__shape *shape) {
  return ronde__weight_layout_make(RONDE__PLAIN, ronde__shape_elems(shape), 1, 1, 1, 1);
}

void ronde__plan_weight_layouts(const ronde__plan *plan, const ronde_graph *graph, ronde__weight_layout *layouts_out) {
  for (int i = 0; i < plan->n_params; i++) layouts_out[i] = plain_layout(&graph->params[plan->param_of[i]].shape);
  for (int i = 0; i < plan->n_steps; i++)
    for (int j = 0; j < plan->steps[i].desc.n_params; j++)
      layouts_out[plan->steps[i].param[j]] = plan->steps[i].desc.param[j];
}

void ronde__plan_buffer_layouts(const ronde__plan *plan, const ronde_graph *graph, ronde__weight_layout *layouts_out) {
  for (int i = 0; i < plan->n_buffers; i++) layouts_out[i] = plain_layout(&graph->buffers[plan->buffer_of[i]].shape);
  for (int i = 0; i < plan->n_steps; i++)
    for (int j = 0; j < plan->steps[i].desc.n_buffers; j++)
      if (!graph->buffers[plan->buffer_of[plan->steps[i].buffer[j]]].is_counter)
        layouts_out[plan->steps[i].buffer[j]] = plan->steps[i].desc.buffer;
}

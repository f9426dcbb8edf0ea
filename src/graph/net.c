#include "graph/executor.h"
#include "graph/plan.h"

#include "base/rng.h"

#include <math.h>
#include <string.h>

struct ronde__net {
  const ronde_graph *graph;
  ronde__net_options options;
  ronde__net_param *params;
  int n_params;
  size_t n_elems, n_trained;
  float *values, *gradients;
  ronde__net_buffer *buffers;
  float *buffer_values;
  size_t n_buffer_elems;
  const ronde__executor *executor;
  void *execution; /* the executor's */
  /* of planned execution */
  ronde__plan **plans;
  int n_plans;
  char *arena;
  size_t arena_bytes;
  double *part; /* [part_elems]: what this replica tells the others about the present step */
  size_t part_elems;
  /* of the last forward, for backward */
  const ronde__plan *plan;
  ronde__net_batch batch;
  float loss_scale;
  bool *touched; /* [n_params]: its gradient has a contribution of this backward */
};

enum { PARAM_ALIGNMENT = 16, MAX_PLANS = 16 };

static ronde_status plan_for(ronde__net *net, int64_t n, ronde__plan **plan_out) {
  for (int i = 0; i < net->n_plans; i++)
    if (net->plans[i]->n == n) return *plan_out = net->plans[i], RONDE_OK;
  const ronde__net_options *o = &net->options;
  ronde__plan_options options = {.n = n,
                                 .training = o->training,
                                 .kernels = o->kernels,
                                 .gemm = o->gemm,
                                 .threads = ronde__pool_threads(o->pool),
                                 .prof = o->prof,
                                 .transient_gradients = o->transient_gradients,
                                 .taker_name = o->taker_name};
  ronde__plan *plan;
  RONDE_TRY(ronde__plan_create(net->graph, &options, &plan));
  if (plan->arena_bytes > net->arena_bytes) {
    char *arena = ronde__pages_map(plan->arena_bytes);
    if (!arena) {
      ronde_status status = ronde__fail(RONDE_E_MEMORY, "batch of %lld: no memory for %zu bytes of activations",
                                        (long long)n, plan->arena_bytes);
      ronde__plan_destroy(plan);
      return status;
    }
    ronde__pages_unmap(net->arena, net->arena_bytes);
    net->arena = arena;
    net->arena_bytes = plan->arena_bytes;
  }
  /* Batch sizes are few; a caller that keeps changing them pays for the oldest plan. */
  if (net->n_plans == MAX_PLANS) {
    ronde__plan_destroy(net->plans[0]);
    memmove(net->plans, net->plans + 1, (size_t)--net->n_plans * sizeof *net->plans);
  }
  *plan_out = net->plans[net->n_plans++] = plan;
  return RONDE_OK;
}

static void place_params(ronde__net *net, const ronde__weight_layout *layouts, bool frozen) {
  for (int i = 0; i < net->n_params; i++) {
    const ronde__param *p = &net->graph->params[i];
    if (p->frozen != frozen) continue;
    int64_t elems = ronde__weight_elems(&layouts[i]);
    net->params[i] = (ronde__net_param){.name = p->name,
                                        .shape = p->shape,
                                        .layout = layouts[i],
                                        .offset = net->n_elems,
                                        .n_elems = (size_t)ronde__round_up(elems, PARAM_ALIGNMENT),
                                        .n_packed = (size_t)elems,
                                        .frozen = frozen};
    net->n_elems += net->params[i].n_elems;
    if (!frozen) net->n_trained = net->n_elems;
  }
}

static void place_buffers(ronde__net *net, const ronde__weight_layout *layouts) {
  const ronde_graph *graph = net->graph;
  for (int i = 0; i < graph->n_buffers; i++) {
    const ronde__buffer *b = &graph->buffers[i];
    net->buffers[i] = (ronde__net_buffer){.name = b->name,
                                          .shape = b->shape,
                                          .layout = layouts[i],
                                          .offset = net->n_buffer_elems,
                                          .is_counter = b->is_counter};
    if (!b->is_counter)
      net->n_buffer_elems += (size_t)ronde__round_up(ronde__weight_elems(&layouts[i]), PARAM_ALIGNMENT);
  }
}

static size_t part_elems(const ronde__plan_step *step) {
  return step->op->part_elems ? step->op->part_elems(&step->desc) : 0;
}

static void find_longest_part(ronde__net *net, const ronde__plan *plan) {
  for (int i = 0; i < plan->n_steps; i++)
    if (part_elems(&plan->steps[i]) > net->part_elems) net->part_elems = part_elems(&plan->steps[i]);
}

/* Layouts do not depend on the batch size: a plan for one example shows them. */
static ronde_status place_state(ronde__net *net) {
  const ronde_graph *graph = net->graph;
  ronde__weight_layout *layouts;
  ronde__plan_options options = {.n = 1,
                                 .training = net->options.training,
                                 .kernels = net->options.kernels,
                                 .gemm = net->options.gemm,
                                 .threads = 1};
  ronde__plan *plan;
  RONDE__ALLOC(layouts, (size_t)(graph->n_params + graph->n_buffers) * sizeof *layouts, "network");
  ronde_status status = ronde__plan_create(graph, &options, &plan);
  if (status == RONDE_OK) {
    ronde__plan_weight_layouts(plan, graph, layouts);
    ronde__plan_buffer_layouts(plan, graph, layouts + graph->n_params);
    place_params(net, layouts, false);
    place_params(net, layouts, true);
    place_buffers(net, layouts + graph->n_params);
    find_longest_part(net, plan);
    ronde__plan_destroy(plan);
  }
  ronde__free(layouts);
  return status;
}

/* Logical values: padding stays 0. */
static void set_initial_buffers(ronde__net *net) {
  for (int i = 0; i < net->graph->n_buffers; i++) {
    const ronde__net_buffer *b = &net->buffers[i];
    for (int64_t j = 0; j < ronde__shape_elems(&b->shape) && !b->is_counter; j++)
      net->buffer_values[b->offset + (size_t)ronde__weight_index(&b->layout, j, 0, 0)] = net->graph->buffers[i].initial;
  }
}

static ronde_status allocate(ronde__net *net) {
  RONDE__ALLOC(net->params, (size_t)net->graph->n_params * sizeof *net->params, "network");
  RONDE__ALLOC(net->touched, (size_t)net->graph->n_params * sizeof *net->touched, "network");
  net->n_params = net->graph->n_params;
  RONDE__ALLOC(net->buffers, (size_t)net->graph->n_buffers * sizeof *net->buffers, "network");
  RONDE_TRY(place_state(net));
  RONDE__ALLOC(net->buffer_values, net->n_buffer_elems * sizeof(float), "network");
  set_initial_buffers(net);
  RONDE__ALLOC(net->part, net->part_elems * sizeof *net->part, "network");
  size_t bytes = net->n_elems * sizeof(float);
  net->values = ronde__pages_map(bytes);
  bool keeps_gradients = net->options.training && !net->options.transient_gradients;
  if (keeps_gradients) net->gradients = ronde__pages_map(net->n_trained * sizeof(float));
  if (!net->values || (keeps_gradients && !net->gradients))
    return ronde__fail(RONDE_E_MEMORY, "network: no memory for %zu bytes of parameters", bytes);
  return RONDE_OK;
}

void ronde__net_destroy(ronde__net *net) {
  if (!net) return;
  if (net->executor) net->executor->destroy(net->execution);
  ronde__pages_unmap(net->values, net->n_elems * sizeof(float));
  ronde__pages_unmap(net->gradients, net->n_trained * sizeof(float));
  ronde__free(net->touched);
  ronde__free(net->params);
  ronde__free(net->buffers);
  ronde__free(net->buffer_values);
  ronde__free(net->part);
  ronde__free(net);
}

const ronde_graph *ronde__net_graph(const ronde__net *net) { return net->graph; }

const ronde__net_param *ronde__net_params(const ronde__net *net, int *n_out) {
  *n_out = net->n_params;
  return net->params;
}

size_t ronde__net_n_elems(const ronde__net *net) { return net->n_elems; }
size_t ronde__net_n_trained(const ronde__net *net) { return net->n_trained; }
float *ronde__net_values(ronde__net *net) { return net->values; }
float *ronde__net_gradients(ronde__net *net) { return net->gradients; }

static float *gradient_at(const ronde__net *net, int param) {
  if (net->gradients) return net->gradients + net->params[param].offset;
  return (float *)(net->arena + net->plan->params[param].gradient_offset);
}

const float *ronde__net_gradient(const ronde__net *net, int param) {
  return !net->gradients && net->plan->params[param].in_pieces ? NULL : gradient_at(net, param);
}

void ronde__net_get(const ronde__net *net, int param, float *logical_out) {
  ronde__weight_unpack(&net->params[param].layout, net->values + net->params[param].offset, logical_out);
}

void ronde__net_set(ronde__net *net, int param, const float *logical) {
  ronde__weight_pack(&net->params[param].layout, logical, net->values + net->params[param].offset);
}

void ronde__net_get_gradient(const ronde__net *net, int param, float *logical_out) {
  ronde__weight_unpack(&net->params[param].layout, net->gradients + net->params[param].offset, logical_out);
}

ronde__net_buffer *ronde__net_buffers(ronde__net *net, int *n_out) {
  *n_out = net->graph->n_buffers;
  return net->buffers;
}

float *ronde__net_buffer_values(ronde__net *net, size_t *n_elems_out) {
  *n_elems_out = net->n_buffer_elems;
  return net->buffer_values;
}

void ronde__net_get_buffer(const ronde__net *net, int buffer, float *logical_out) {
  ronde__weight_unpack(&net->buffers[buffer].layout, net->buffer_values + net->buffers[buffer].offset, logical_out);
}

void ronde__net_set_buffer(ronde__net *net, int buffer, const float *logical) {
  ronde__weight_pack(&net->buffers[buffer].layout, logical, net->buffer_values + net->buffers[buffer].offset);
}

static float initial_value(const ronde__param *param, ronde__rng *rng) {
  switch (param->init) {
  case RONDE__INIT_NORMAL: return ronde__rng_normal(rng) * param->bound;
  case RONDE__INIT_CONSTANT: return param->bound;
  default: return (2 * ronde__rng_uniform(rng) - 1) * param->bound;
  }
}

ronde_status ronde__net_init(ronde__net *net, uint64_t seed) {
  for (int i = 0; i < net->n_params; i++) {
    int64_t n = ronde__shape_elems(&net->params[i].shape);
    float *logical;
    RONDE__ALLOC(logical, (size_t)n * sizeof *logical, net->params[i].name);
    ronde__rng rng = ronde__rng_make(seed, RONDE__STREAM_INIT | (uint32_t)i);
    for (int64_t j = 0; j < n; j++) logical[j] = initial_value(&net->graph->params[i], &rng);
    ronde__net_set(net, i, logical);
    ronde__free(logical);
  }
  return RONDE_OK;
}

/* ---- planned execution ---- */

static ronde_status planned_create(ronde__net *net, const ronde__net_options *options, void **execution_out) {
  RONDE__ALLOC(net->plans, MAX_PLANS * sizeof *net->plans, "network");
  *execution_out = net;
  return RONDE_OK;
}

static void planned_destroy(void *execution) {
  ronde__net *net = execution;
  if (!net) return;
  for (int i = 0; i < net->n_plans; i++) ronde__plan_destroy(net->plans[i]);
  ronde__pages_unmap(net->arena, net->arena_bytes);
  ronde__free(net->plans);
}

static ronde_status planned_prepare(void *execution, int64_t n) {
  ronde__plan *plan;
  return plan_for(execution, n, &plan);
}

static float *value_at(const ronde__net *net, const ronde__plan *plan, int value) {
  if (value == plan->input) return (float *)net->batch.x;
  if (value == plan->target) return (float *)net->batch.targets;
  return (float *)(net->arena + plan->values[value].offset);
}

static void bind(ronde__net *net, const ronde__plan *plan, const ronde__plan_step *step, bool backward,
                 ronde__op_call *call) {
  *call = (ronde__op_call){.labels = net->batch.labels,
                           .loss_scale = net->loss_scale,
                           .pool = net->options.pool,
                           .training = net->batch.training,
                           .seed = net->batch.seed,
                           .step = net->batch.step,
                           .first_example = net->batch.first_example,
                           .part = net->part};
  for (int i = 0; i < step->desc.n_inputs; i++) {
    call->in[i] = value_at(net, plan, step->in[i]);
    call->accumulate_dinput[i] = step->accumulate_dinput[i];
    if (backward && step->desc.need_dinput[i])
      call->din[i] = (float *)(net->arena + plan->values[step->in[i]].gradient_offset);
  }
  call->out = value_at(net, plan, step->out);
  if (backward && plan->values[step->out].has_gradient)
    call->dout = (float *)(net->arena + plan->values[step->out].gradient_offset);
  for (int i = 0; i < step->desc.n_params; i++) {
    call->param[i] = net->values + net->params[step->param[i]].offset;
    if (backward && !step->desc.frozen[i]) call->dparam[i] = gradient_at(net, step->param[i]);
  }
  for (int i = 0; i < step->desc.n_buffers; i++)
    if (!net->buffers[step->buffer[i]].is_counter)
      call->buffer[i] = net->buffer_values + net->buffers[step->buffer[i]].offset;
  call->saved = (float *)(net->arena + step->saved_offset);
  call->work = (float *)(net->arena + step->work_offset[backward]);
}

static void run_op(ronde__net *net, const ronde__plan_step *step, const ronde__op_call *call, bool backward) {
  uint64_t begin = net->options.prof ? ronde__now_ns() : 0;
  (backward ? step->op->backward : step->op->forward)(&step->desc, step->state, call);
  if (net->options.prof)
    ronde__prof_op_add(net->options.prof, backward ? step->backward_slot : step->forward_slot, begin, ronde__now_ns(),
                       backward ? step->backward_flops : step->forward_flops);
}

static bool is_shared(const ronde__net *net, const ronde__plan_step *step, const ronde__net_hooks *hooks) {
  return net->batch.training && hooks && hooks->share && part_elems(step) > 0;
}

/* The first half of a synchronised op. In the table its two halves are two calls: the exchange between them has a phase
 * of its own. */
static ronde_status share(ronde__net *net, const ronde__plan_step *step, bool backward, const ronde__net_hooks *hooks,
                          ronde__op_call *call) {
  uint64_t begin = net->options.prof ? ronde__now_ns() : 0;
  step->op->contribute(&step->desc, step->state, call, backward);
  if (net->options.prof)
    ronde__prof_op_add(net->options.prof, backward ? step->backward_slot : step->forward_slot, begin, ronde__now_ns(),
                       0);
  return hooks->share(hooks->user, call->part, part_elems(step), &call->parts);
}

static ronde_status run_forward(ronde__net *net, const ronde__plan *plan, bool with_loss, const ronde__net_hooks *hooks,
                                ronde__net_result *result) {
  for (int i = 0; i < plan->n_steps; i++) {
    const ronde__plan_step *step = &plan->steps[i];
    if (!(with_loss ? step->for_loss : step->for_output)) continue;
    ronde__op_call call;
    bind(net, plan, step, false, &call);
    call.loss_sum = &result->loss_sum;
    call.n_correct = &result->n_correct;
    for (int j = 0; j < step->desc.n_params && hooks && hooks->param_needed; j++)
      hooks->param_needed(hooks->user, step->param[j]);
    if (is_shared(net, step, hooks)) RONDE_TRY(share(net, step, false, hooks, &call));
    run_op(net, step, &call, false);
  }
  return RONDE_OK;
}

ronde_status ronde__net_pass_empty(ronde__net *net, bool backward, const ronde__net_hooks *hooks) {
  ronde__plan *plan;
  if (net->part_elems == 0) return RONDE_OK;
  RONDE_TRY(plan_for(net, net->n_plans ? net->plans[0]->n : 1, &plan));
  net->batch = (ronde__net_batch){.training = true};
  for (int i = 0; i < plan->n_steps; i++) {
    const ronde__plan_step *step = &plan->steps[backward ? plan->n_steps - 1 - i : i];
    if (!(backward ? step->has_backward : step->for_loss) || !is_shared(net, step, hooks)) continue;
    ronde__op_call call;
    bind(net, plan, step, backward, &call);
    memset(call.part, 0, part_elems(step) * sizeof *call.part);
    RONDE_TRY(hooks->share(hooks->user, call.part, part_elems(step), &call.parts));
    if (backward) continue;
    step->op->absorb(&step->desc, &call);
    for (int j = 0; j < step->desc.n_buffers; j++)
      net->buffers[step->buffer[j]].count += net->buffers[step->buffer[j]].is_counter;
  }
  return RONDE_OK;
}

static ronde_status planned_forward(void *execution, const ronde__net_batch *batch, float loss_scale,
                                    const ronde__net_hooks *hooks, ronde__net_result *result_out) {
  ronde__net *net = execution;
  ronde__plan *plan;
  RONDE_TRY(plan_for(net, batch->n, &plan));
  ronde__net_result result = {0};
  net->plan = plan;
  net->batch = *batch;
  net->loss_scale = loss_scale;
  RONDE_TRY(run_forward(net, plan, true, hooks, &result));
  for (int i = 0; i < net->graph->n_buffers && batch->training; i++)
    net->buffers[i].count += net->buffers[i].is_counter;
  *result_out = result;
  return RONDE_OK;
}

/* A step adds to the gradient of a tied parameter that an earlier one has begun; its other parameters start from zero
 * then. */
static bool adds_to_gradients(ronde__net *net, const ronde__plan_step *step) {
  int n_begun = 0;
  for (int j = 0; j < step->desc.n_params; j++) n_begun += net->touched[step->param[j]];
  for (int j = 0; j < step->desc.n_params && n_begun; j++)
    if (!net->touched[step->param[j]] && !step->desc.frozen[j])
      memset(gradient_at(net, step->param[j]), 0, net->params[step->param[j]].n_packed * sizeof(float));
  return n_begun > 0;
}

typedef struct piece_user {
  const ronde__net *net;
  const ronde__net_hooks *hooks;
  int param;
} piece_user;

static void take_piece(void *user, size_t begin, const float *gradient, size_t n) {
  const piece_user *p = user;
  p->hooks->gradient_piece(p->hooks->user, p->param, p->net->params[p->param].offset + begin, gradient, n);
}

static ronde_status planned_backward(void *execution, bool accumulate, const ronde__net_hooks *hooks, bool *touched) {
  ronde__net *net = execution;
  const ronde__plan *plan = net->plan;
  for (int i = plan->n_steps - 1; i >= 0; i--) {
    const ronde__plan_step *step = &plan->steps[i];
    if (!step->has_backward) continue;
    ronde__op_call call;
    piece_user user = {net, hooks, step->param[0]};
    bind(net, plan, step, true, &call);
    call.accumulate_dparam = accumulate || adds_to_gradients(net, step);
    call.taker = (ronde__op_taker){take_piece, &user};
    if (is_shared(net, step, hooks)) RONDE_TRY(share(net, step, true, hooks, &call));
    run_op(net, step, &call, true);
    for (int j = step->desc.n_params - 1; j >= 0; j--) {
      int param = step->param[j];
      if (step->desc.frozen[j]) continue;
      touched[param] = true;
      if (plan->params[param].last == i && hooks && hooks->gradient_ready) hooks->gradient_ready(hooks->user, param);
    }
  }
  return RONDE_OK;
}

static ronde_status planned_predict(void *execution, int64_t n, const float *x, float *y_out) {
  ronde__net *net = execution;
  ronde__plan *plan;
  RONDE_TRY(plan_for(net, n, &plan));
  ronde__net_result ignored = {0};
  net->batch = (ronde__net_batch){.n = n, .x = x};
  RONDE_TRY(run_forward(net, plan, false, NULL, &ignored));
  const ronde__phys *from = &plan->values[plan->output].phys;
  ronde__phys to = ronde__phys_make(RONDE__ROWS, n, from->c, from->h, from->w);
  ronde__reorder(from, value_at(net, plan, plan->output), &to, y_out, false);
  return RONDE_OK;
}

size_t ronde__net_part_elems(const ronde__net *net) { return net->part_elems; }

static double planned_flops(const void *execution, int64_t n) {
  const ronde__net *net = execution;
  double flops = 0;
  for (int i = 0; i < net->n_plans; i++)
    if (net->plans[i]->n == n)
      for (int j = 0; j < net->plans[i]->n_steps; j++) {
        const ronde__plan_step *step = &net->plans[i]->steps[j];
        flops += step->forward_flops + (step->has_backward ? step->backward_flops : 0);
      }
  return flops;
}

static size_t planned_bytes(const void *execution) { return ((const ronde__net *)execution)->arena_bytes; }

static const ronde__executor executor_planned = {
    .create = planned_create,
    .destroy = planned_destroy,
    .prepare = planned_prepare,
    .forward = planned_forward,
    .predict = planned_predict,
    .executed_flops = planned_flops,
    .backward = planned_backward,
    .arena_bytes = planned_bytes,
};

/* ---- either ---- */

ronde_status ronde__net_create(const ronde_graph *graph, const ronde__net_options *options, ronde__net **net_out) {
  ronde__net *net;
  RONDE__ALLOC(net, sizeof *net, "network");
  *net = (ronde__net){.graph = graph, .options = *options};
  ronde_status status = allocate(net);
  net->executor = options->define ? &ronde__executor_eager : &executor_planned;
  if (status == RONDE_OK) status = net->executor->create(net, options, &net->execution);
  if (status != RONDE_OK) ronde__net_destroy(net);
  else *net_out = net;
  return status;
}

ronde_status ronde__net_prepare(ronde__net *net, int64_t n) { return net->executor->prepare(net->execution, n); }

ronde_status ronde__net_forward(ronde__net *net, const ronde__net_batch *batch, float loss_scale,
                                const ronde__net_hooks *hooks, ronde__net_result *result_out) {
  return net->executor->forward(net->execution, batch, loss_scale, hooks, result_out);
}

/* Parameters that this pass did not reach: their gradient is zero, and final. */
static void finish_gradients(ronde__net *net, bool accumulate, const ronde__net_hooks *hooks) {
  for (int i = net->n_params - 1; i >= 0; i--) {
    if (net->touched[i] || net->params[i].frozen) continue;
    if (!accumulate) memset(gradient_at(net, i), 0, net->params[i].n_packed * sizeof(float));
    if (hooks && hooks->gradient_ready) hooks->gradient_ready(hooks->user, i);
  }
}

ronde_status ronde__net_backward(ronde__net *net, bool accumulate, const ronde__net_hooks *hooks) {
  memset(net->touched, 0, (size_t)net->n_params * sizeof *net->touched);
  RONDE_TRY(net->executor->backward(net->execution, accumulate, hooks, net->touched));
  finish_gradients(net, accumulate, hooks);
  return RONDE_OK;
}

ronde_status ronde__net_predict(ronde__net *net, int64_t n, const float *x, float *y_out) {
  return net->executor->predict(net->execution, n, x, y_out);
}

ronde__net_memory ronde__net_memory_use(const ronde__net *net) {
  size_t bytes = net->n_elems * sizeof(float);
  return (ronde__net_memory){bytes, net->gradients ? net->n_trained * sizeof(float) : 0,
                             net->executor->arena_bytes(net->execution)};
}

double ronde__net_executed_flops(const ronde__net *net, int64_t n) {
  return net->executor->executed_flops(net->execution, n);
}

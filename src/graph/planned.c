/* Execution by plans: the recorded graph is laid out once for each batch size; each pass has one arena for all sizes. */
#include "graph/executor.h"
#include "graph/plan.h"

#include <stdlib.h>
#include <string.h>

/* A parameter as backward reads it, and the plan whose backward has made that; NULL: none has. */
typedef struct kept_weight {
  float *at;
  const ronde__plan *by;
} kept_weight;

/* What the passes of a net share. */
typedef struct planned {
  ronde__net *net;
  ronde__net_options options;
  const ronde__net_param *params; /* of the net, like the arrays */
  ronde__net_buffer *buffers;
  int n_buffers;
  float *values, *gradients, *buffer_values;
  ronde__plan **plans;
  int n_plans;
  size_t arena_bytes;  /* of all passes */
  double *part;        /* what this replica tells the others about the present step */
  kept_weight *turned; /* [n_params] */
  int n_params;
} planned;

typedef struct planned_pass {
  planned *shared;
  char *arena;
  size_t arena_bytes;
  /* of the last forward, for backward; plan NULL: it failed, or there was none */
  ronde__plan *plan;
  ronde__net_batch batch;
  float loss_scale;
  void **under_way, **coming; /* [n_under_way]: what sends, receives and exchanges have begun to send, and to receive */
  int n_under_way;
  bool next;    /* what the present forward has received lies at next_offset; */
  bool expects; /* what the next one needs is coming to the other place; */
  bool arrives; /* and what the present one needs came like that */
} planned_pass;

enum { MAX_PLANS = 16 };

/* ---- what passes share ---- */

/* Batch sizes are few; a caller that keeps changing them pays for the oldest plan that no pass will return to. */
static void forget_a_plan(planned *p) {
  for (int i = 0; i < p->n_plans; i++) {
    if (p->plans[i]->n_passes > 0) continue;
    for (int j = 0; j < p->n_params; j++)
      if (p->turned[j].by == p->plans[i]) p->turned[j].by = NULL;
    ronde__plan_destroy(p->plans[i]);
    memmove(p->plans + i, p->plans + i + 1, (size_t)(--p->n_plans - i) * sizeof *p->plans);
    return;
  }
}

static ronde_status make_turned(planned *p, const ronde__plan *plan) {
  for (int i = 0; i < plan->n_steps && p->options.keeps_turned; i++) {
    const ronde__plan_step *step = &plan->steps[i];
    if (!ronde__plan_keeps_turned(plan, step) || p->turned[step->param[0]].at) continue;
    RONDE__ALLOC(p->turned[step->param[0]].at, (size_t)ronde__weight_elems(&step->desc.param[0]) * sizeof(float),
                 "network");
  }
  return RONDE_OK;
}

static ronde_status add_plan(planned *p, int64_t n, int64_t n_all, ronde__plan **plan_out) {
  const ronde__net_options *o = &p->options;
  ronde__plan_options options = {.n = ronde__max(1, n),
                                 .n_all = n_all,
                                 .training = o->training,
                                 .compute = o->compute,
                                 .threads = ronde__pool_threads(o->pool),
                                 .prof = o->prof,
                                 .transient_gradients = o->transient_gradients,
                                 .taker_name = o->taker_name,
                                 .taker_bytes = o->taker_bytes,
                                 .rows_of = o->rows_by_layer ? ronde__net_graph(p->net) : NULL,
                                 .stage = o->stage,
                                 .split = o->split};
  if (p->n_plans >= MAX_PLANS) forget_a_plan(p);
  ronde__plan **plans = realloc(p->plans, (size_t)(p->n_plans + 1) * sizeof *plans);
  if (!plans) return ronde__fail(RONDE_E_MEMORY, "network: no memory for %d plans", p->n_plans + 1);
  p->plans = plans;
  RONDE_TRY(ronde__plan_create(ronde__net_graph(p->net), &options, plan_out));
  plans[p->n_plans++] = *plan_out;
  return make_turned(p, *plan_out);
}

static ronde_status plan_for(planned *p, int64_t n, int64_t n_all, ronde__plan **plan_out) {
  for (int i = 0; i < p->n_plans; i++)
    if (p->plans[i]->n == ronde__max(1, n) && p->plans[i]->n_all == n_all) return *plan_out = p->plans[i], RONDE_OK;
  return add_plan(p, n, n_all, plan_out);
}

static void planned_destroy(void *execution) {
  planned *p = execution;
  if (!p) return;
  for (int i = 0; i < p->n_plans; i++) ronde__plan_destroy(p->plans[i]);
  free(p->plans);
  for (int i = 0; i < p->n_params; i++) ronde__free(p->turned[i].at);
  ronde__free(p->turned);
  ronde__free(p->part);
  ronde__free(p);
}

static ronde_status planned_create(ronde__net *net, const ronde__net_options *options, void **execution_out) {
  planned *p;
  RONDE__ALLOC(p, sizeof *p, "network");
  int n_params;
  size_t n_buffer_elems;
  *p = (planned){.net = net,
                 .options = *options,
                 .params = ronde__net_params(net, &n_params),
                 .values = ronde__net_values(net),
                 .gradients = ronde__net_gradients(net),
                 .buffer_values = ronde__net_buffer_values(net, &n_buffer_elems),
                 .part = ronde__alloc(ronde__net_partial_elems(net) * sizeof(double)),
                 .turned = ronde__alloc((size_t)n_params * sizeof(kept_weight))};
  p->buffers = ronde__net_buffers(net, &p->n_buffers);
  if (!p->part || !p->turned) {
    planned_destroy(p);
    return ronde__fail(RONDE_E_MEMORY, "network: no memory for its passes");
  }
  p->n_params = n_params;
  *execution_out = p;
  return RONDE_OK;
}

/* ---- a pass ---- */

/* No backward will follow what was before; one of this plan may, where it is not NULL. */
static void hold_plan(planned_pass *p, ronde__plan *plan) {
  if (p->plan) p->plan->n_passes--;
  if (plan) plan->n_passes++;
  p->plan = plan;
}

static void unmap_arena(planned_pass *p) {
  ronde__pages_unmap(p->arena, p->arena_bytes);
  p->shared->arena_bytes -= p->arena_bytes;
  p->arena = NULL;
  p->arena_bytes = 0;
}

/* The arena is the pass's own again when all of it has been sent. */
static ronde_status wait_for_sends(planned_pass *p) {
  const ronde__neighbours *to = p->shared->options.stage.neighbours;
  for (int i = 0; i < p->n_under_way && to; i++) RONDE_TRY(to->wait(to->user, &p->under_way[i]));
  return RONDE_OK;
}

/* What was begun to be received belongs to a pass that nobody ends; with kept, but what the present one expects. */
static void give_up_coming(planned_pass *p, const ronde__plan *plan, bool kept) {
  const ronde__neighbours *from = p->shared->options.stage.neighbours;
  for (int i = kept ? plan->n_received : 0; i < p->n_under_way; i++)
    if (p->coming[i]) from->cancel(from->user, &p->coming[i]);
}

/* Exchanges are under way within a pass alone. */
static void give_up_under_way(planned_pass *p) {
  const ronde__neighbours *to = p->shared->options.stage.neighbours;
  const ronde__peers *peers = p->shared->options.split.peers;
  for (int i = 0; i < p->n_under_way; i++)
    if (to) to->cancel(to->user, &p->under_way[i]);
    else peers->cancel(peers->user, &p->under_way[i]);
  give_up_coming(p, NULL, false);
  ronde__free(p->under_way);
  p->under_way = p->coming = NULL;
  p->n_under_way = 0;
}

/* For as many as the plan has. */
static ronde_status make_under_way(planned_pass *p, const ronde__plan *plan) {
  if (plan->n_under_way <= p->n_under_way) return RONDE_OK;
  give_up_under_way(p);
  RONDE__ALLOC(p->under_way, 2 * (size_t)plan->n_under_way * sizeof *p->under_way, "pass");
  p->coming = p->under_way + plan->n_under_way;
  p->n_under_way = plan->n_under_way;
  return RONDE_OK;
}

/* Begins something new: the plan for n examples, of n_all where layers are split, and room for it. What the last forward has left is lost. */
static ronde_status planned_open(planned_pass *p, int64_t n, int64_t n_all, ronde__plan **plan_out) {
  ronde__plan *plan, *before = p->plan;
  hold_plan(p, NULL);
  RONDE_TRY(wait_for_sends(p));
  RONDE_TRY(plan_for(p->shared, n, n_all, &plan));
  p->expects &= plan == before;
  give_up_coming(p, plan, p->expects);
  RONDE_TRY(make_under_way(p, plan));
  if (plan->arena_bytes > p->arena_bytes) {
    char *arena = ronde__pages_map(plan->arena_bytes);
    if (!arena)
      return ronde__fail(RONDE_E_MEMORY, "batch of %lld: no memory for %zu bytes of activations", (long long)n,
                         plan->arena_bytes);
    unmap_arena(p);
    p->arena = arena;
    p->arena_bytes = plan->arena_bytes;
    p->shared->arena_bytes += p->arena_bytes;
  }
  *plan_out = plan;
  return RONDE_OK;
}

static ronde_status planned_pass_create(void *execution, void **pass_out) {
  planned_pass *p;
  RONDE__ALLOC(p, sizeof *p, "pass");
  p->shared = execution;
  *pass_out = p;
  return RONDE_OK;
}

static void planned_pass_destroy(void *pass) {
  planned_pass *p = pass;
  hold_plan(p, NULL);
  give_up_under_way(p);
  unmap_arena(p);
  ronde__free(p);
}

static ronde_status planned_prepare(void *pass, int64_t n, int64_t n_all) {
  ronde__plan *plan;
  return planned_open(pass, n, n_all, &plan);
}

static float *received_at(const planned_pass *p, const ronde__value *value, bool next) {
  return (float *)(p->arena + value->offset + (next ? value->next_offset : 0));
}

static ronde_status planned_expect(void *pass, int64_t n, bool *any_out) {
  planned_pass *p = pass;
  const ronde__plan *plan = p->plan;
  const ronde__neighbours *from = p->shared->options.stage.neighbours;
  *any_out = plan && plan->n == n && !p->expects;
  for (int i = 0; *any_out && i < plan->n_received; i++) {
    const ronde__plan_step *step = &plan->steps[i];
    const ronde__value *value = &plan->values[step->out[0]];
    p->expects = true;
    RONDE_TRY(from->expect(from->user, RONDE__IN_FRONT, step->desc.message, received_at(p, value, !p->next),
                           ronde__phys_floats(&value->phys), &p->coming[step->under_way]));
  }
  return RONDE_OK;
}

static float *value_at(const planned_pass *p, const ronde__plan *plan, int value) {
  if (value == plan->input) return (float *)p->batch.x;
  if (value == plan->target) return (float *)p->batch.targets;
  return received_at(p, &plan->values[value], p->next);
}

static float *gradient_at(const planned_pass *p, int param) {
  if (p->shared->gradients) return p->shared->gradients + p->shared->params[param].offset;
  return (float *)(p->arena + p->plan->params[param].gradient_offset);
}

/* Examples of the batch of all ranks in front of the rank's own. */
static int64_t before_own(const planned_pass *p) {
  const ronde__peers *peers = p->shared->options.split.peers;
  return ronde__shard_begin(p->batch.n_all, peers->rank, peers->size);
}

/* What is split is executed by all ranks, whoever has examples. */
static bool is_executed(const planned_pass *p, const ronde__plan_step *step) { return p->batch.n > 0 || step->split; }

/* What is sent forward in training comes back. */
static bool expects_gradient(const planned_pass *p, const ronde__plan_step *step) {
  return step->op == &ronde__op_send && step->has_backward && p->batch.training;
}

static void planned_bind(planned_pass *p, const ronde__plan *plan, const ronde__plan_step *step, bool backward,
                         ronde__op_call *call) {
  *call = (ronde__op_call){.labels = p->batch.labels,
                           .label_weight = p->batch.label_weight > 0 ? p->batch.label_weight : 1,
                           .loss_scale = p->loss_scale,
                           .pool = p->shared->options.pool,
                           .training = p->batch.training,
                           .seed = p->batch.seed,
                           .step = p->batch.step,
                           .first_example = p->batch.first_example - (step->split ? before_own(p) : 0),
                           .partial = p->shared->part,
                           .under_way = p->under_way ? &p->under_way[step->under_way] : NULL,
                           .coming = p->coming ? &p->coming[step->under_way] : NULL,
                           .expected = p->arrives};
  for (int i = 0; i < step->desc.n_inputs; i++) {
    call->in[i] = value_at(p, plan, step->in[i]);
    call->accumulate_dinput[i] = step->accumulate_dinput[i];
    if ((backward || expects_gradient(p, step)) && step->desc.need_dinput[i])
      call->din[i] = (float *)(p->arena + plan->values[step->in[i]].gradient_offset);
  }
  for (int i = 0; i < step->desc.n_outputs; i++) {
    const ronde__value *out = &plan->values[step->out[i]];
    call->out[i] = value_at(p, plan, step->out[i]);
    if (backward && out->has_gradient) call->dout[i] = (float *)(p->arena + out->gradient_offset);
  }
  for (int i = 0; i < step->desc.n_params; i++) {
    call->param[i] = p->shared->values + p->shared->params[step->param[i]].offset + step->param_at[i];
    if (backward && !step->desc.frozen[i]) call->dparam[i] = gradient_at(p, step->param[i]) + step->param_at[i];
  }
  for (int i = 0; i < step->desc.n_buffers; i++)
    if (!p->shared->buffers[step->buffer[i]].is_counter)
      call->buffer[i] = p->shared->buffer_values + p->shared->buffers[step->buffer[i]].offset;
  call->saved = (float *)(p->arena + step->saved_offset);
  call->work = (float *)(p->arena + step->work_offset[backward]);
}

/* For the per-op table. */
static uint64_t op_clock(const planned_pass *p) {
  return p->shared->options.prof ? ronde__prof_now(p->shared->options.prof) : 0;
}

static ronde_status run_forward_op(planned_pass *p, const ronde__plan_step *step, const ronde__op_call *call) {
  uint64_t begin = op_clock(p);
  RONDE_TRY(step->desc.form->forward(&step->desc, step->state, call));
  ronde__prof_op_add(p->shared->options.prof, step->forward_slot, begin, op_clock(p), step->forward_flops);
  return RONDE_OK;
}

static bool is_shared(const planned_pass *p, const ronde__plan_step *step, const ronde__net_hooks *hooks) {
  return p->batch.training && hooks && hooks->gather_partials && ronde__plan_step_partial_elems(step) > 0;
}

/* The first half of a synchronised op. In the table its two halves are two calls: the exchange between them has a phase
 * of its own. */
static ronde_status planned_share(planned_pass *p, const ronde__plan_step *step, bool backward,
                                  const ronde__net_hooks *hooks, ronde__op_call *call) {
  uint64_t begin = op_clock(p);
  RONDE_TRY(step->desc.form->contribute(&step->desc, step->state, call, backward));
  ronde__prof_op_add(p->shared->options.prof, backward ? step->backward_slot : step->forward_slot, begin, op_clock(p),
                     0);
  return hooks->gather_partials(hooks->user, call->partial, ronde__plan_step_partial_elems(step), &call->partials);
}

/* Several inputs lie side by side in each row of x. */
static void take_inputs(const planned_pass *p, const ronde__plan *plan) {
  const ronde_graph *graph = ronde__net_graph(p->shared->net);
  for (int i = 0; i < plan->n_taken; i++)
    if (plan->taken[i] >= 0)
      ronde__graph_take_input(graph, i, p->batch.n, p->batch.x, value_at(p, plan, plan->taken[i]));
}

static ronde_status planned_run_forward(planned_pass *p, const ronde__plan *plan, bool with_loss,
                                        const ronde__net_hooks *hooks, ronde__net_result *result) {
  take_inputs(p, plan);
  for (int i = 0; i < plan->n_steps; i++) {
    const ronde__plan_step *step = &plan->steps[i];
    bool for_output = step->for_output && (!with_loss || p->batch.predictions);
    if (!for_output && !(with_loss && step->for_loss)) continue;
    if (!is_executed(p, step)) continue;
    ronde__op_call call;
    planned_bind(p, plan, step, false, &call);
    call.loss_sum = &result->loss_sum;
    call.n_correct = &result->n_correct;
    if (ronde__loss_is_apart(step, hooks)) {
      RONDE_TRY(ronde__loss_ask(ronde__net_graph(p->shared->net), step, &call, hooks, result));
      continue;
    }
    for (int j = 0; j < step->desc.n_params && hooks && hooks->param_needed; j++)
      if (plan->params[step->param[j]].reader == i) RONDE_TRY(hooks->param_needed(hooks->user, step->param[j]));
    if (is_shared(p, step, hooks)) RONDE_TRY(planned_share(p, step, false, hooks, &call));
    RONDE_TRY(run_forward_op(p, step, &call));
  }
  return RONDE_OK;
}

static ronde_status planned_pass_empty(void *pass, bool backward, const ronde__net_hooks *hooks) {
  planned_pass *p = pass;
  ronde__plan *plan;
  RONDE_TRY(planned_open(p, p->shared->n_plans ? p->shared->plans[0]->n : 1, 0, &plan));
  p->batch = (ronde__net_batch){.training = true};
  for (int i = 0; i < plan->n_steps; i++) {
    const ronde__plan_step *step = &plan->steps[backward ? plan->n_steps - 1 - i : i];
    if (!(backward ? step->has_backward : step->for_loss) || !is_shared(p, step, hooks)) continue;
    ronde__op_call call;
    planned_bind(p, plan, step, backward, &call);
    memset(call.partial, 0, ronde__plan_step_partial_elems(step) * sizeof *call.partial);
    RONDE_TRY(hooks->gather_partials(hooks->user, call.partial, ronde__plan_step_partial_elems(step), &call.partials));
    if (backward) continue;
    RONDE_TRY(step->desc.form->absorb(&step->desc, &call));
    for (int j = 0; j < step->desc.n_buffers; j++)
      p->shared->buffers[step->buffer[j]].count += p->shared->buffers[step->buffer[j]].is_counter;
  }
  return RONDE_OK;
}

static void planned_copy_prediction(const planned_pass *p, const ronde__plan *plan, float *y_out) {
  const ronde__phys *from = &plan->values[plan->output].phys;
  ronde__phys to = ronde__phys_make(RONDE__ROWS, from->n, from->c, from->h, from->w);
  ronde__reorder(from, value_at(p, plan, plan->output), &to, y_out, false);
}

static ronde_status planned_forward(void *pass, const ronde__net_batch *batch, float loss_scale,
                                    const ronde__net_hooks *hooks, ronde__net_result *result_out) {
  planned_pass *p = pass;
  ronde__plan *plan;
  RONDE_TRY(planned_open(p, batch->n, batch->n_all, &plan));
  ronde__net_result result = {0};
  p->batch = *batch;
  p->next ^= p->expects;
  p->arrives = p->expects;
  p->expects = false;
  p->loss_scale = loss_scale;
  RONDE_TRY(planned_run_forward(p, plan, true, hooks, &result));
  if (batch->predictions && plan->output >= 0) planned_copy_prediction(p, plan, batch->predictions);
  hold_plan(p, plan);
  for (int i = 0; i < p->shared->n_buffers && batch->training; i++)
    p->shared->buffers[i].count += p->shared->buffers[i].is_counter;
  *result_out = result;
  return RONDE_OK;
}

/* Kept gradients of dead taps were zero from the start, where no other step shares the parameter; of transient ones
 * nobody reads them. */
static bool leaves_dead(const planned_pass *p, const ronde__plan_step *step) {
  const ronde__plan_param *param = &p->plan->params[step->param[0]];
  return step->op->dead_tap && param->first == param->last;
}

/* Backward of one step; what hears of its gradients. */
typedef struct running {
  planned_pass *p;
  const ronde__plan_step *step;
  const ronde__net_hooks *hooks;
  bool *touched;
  size_t untold[RONDE__OP_MAX_PARAMS]; /* of each parameter's gradient: elements from the first on */
  uint64_t begin;                      /* of the op's time, which what listens has no part in */
} running;

/* Where several steps share a parameter, the last of them finishes its gradient. */
static bool finishes(const running *r, int j) {
  return r->p->plan->params[r->step->param[j]].last == r->step - r->p->plan->steps && !r->step->desc.frozen[j];
}

/* Where the gradient of the op's parameter j begins in the flat arrays. */
static size_t flat_place(const running *r, int j) {
  return r->p->shared->params[r->step->param[j]].offset + r->step->param_at[j];
}

/* An op's event becomes the network's. */
static void planned_tell(const running *r, const ronde__gradient *of_op) {
  if (!r->hooks || !r->hooks->gradient || !finishes(r, of_op->param)) return;
  ronde__gradient gradient = *of_op;
  gradient.param = r->step->param[of_op->param];
  size_t at = flat_place(r, of_op->param);
  gradient.begin += at;
  gradient.end += at;
  gradient.rows = ronde__net_rows(r->p->shared->net, gradient.param);
  r->hooks->gradient(r->hooks->user, &gradient);
}

/* In the table, the op's parts are calls of their own. Transient gradients whose op may still read the parameter are
 * told when it has ended. */
static void on_final(void *user, const ronde__gradient *gradient) {
  running *r = user;
  if (gradient->concurrent) planned_tell(r, gradient);
  if (gradient->concurrent || !r->p->shared->gradients) return;
  ronde__prof_op_add(r->p->shared->options.prof, r->step->backward_slot, r->begin, op_clock(r->p), 0);
  r->untold[gradient->param] = gradient->begin;
  planned_tell(r, gradient);
  r->begin = op_clock(r->p);
}

static int on_touches(void *user, int j, size_t begin, const void **at_out) {
  const running *r = user;
  if (!r->hooks || !r->hooks->gradient_touches || !finishes(r, j)) return 0;
  return r->hooks->gradient_touches(r->hooks->user, flat_place(r, j) + begin, at_out);
}

static void tell_rest(running *r) {
  for (int j = r->step->desc.n_params - 1; j >= 0; j--) {
    int param = r->step->param[j];
    if (r->step->desc.frozen[j]) continue;
    r->touched[param] = true;
    const float *data = gradient_at(r->p, param) + r->step->param_at[j];
    if (r->untold[j]) planned_tell(r, &(ronde__gradient){j, 0, r->untold[j], data, false, false, NULL});
    if (r->hooks && r->hooks->layer_done && finishes(r, j)) r->hooks->layer_done(r->hooks->user, param);
  }
}

static ronde_status run_backward_op(running *r, ronde__op_call *call) {
  const ronde__plan_step *step = r->step;
  for (int j = 0; j < step->desc.n_params; j++) r->untold[j] = (size_t)ronde__weight_elems(&step->desc.param[j]);
  if (step->desc.in_pieces) r->untold[0] = 0;
  call->listener = (ronde__gradient_listener){on_final, r};
  call->touches = on_touches;
  r->begin = op_clock(r->p);
  RONDE_TRY(step->desc.form->backward(&step->desc, step->state, call));
  ronde__prof_op_add(r->p->shared->options.prof, step->backward_slot, r->begin, op_clock(r->p), step->backward_flops);
  tell_rest(r);
  return RONDE_OK;
}

/* Until the next backward that begins a sum of gradients, the weights are the same. */
static void bind_turned(planned_pass *p, const ronde__plan_step *step, bool accumulate, ronde__op_call *call) {
  kept_weight *kept = &p->shared->turned[step->param[0]];
  if (!step->desc.form->turns_weight || !step->desc.need_dinput[0] || !kept->at) return;
  call->turned = kept->at;
  call->is_turned = accumulate && kept->by == p->plan;
  kept->by = p->plan;
}

static ronde_status planned_run_backward(planned_pass *p, bool accumulate, const ronde__net_hooks *hooks,
                                         bool *touched) {
  const ronde__plan *plan = p->plan;
  for (int i = plan->n_steps - 1; i >= 0; i--) {
    const ronde__plan_step *step = &plan->steps[i];
    if (!step->has_backward || !is_executed(p, step)) continue;
    ronde__op_call call;
    planned_bind(p, plan, step, true, &call);
    if (ronde__loss_is_apart(step, hooks)) {
      ronde__loss_take(step, &call, hooks);
      continue;
    }
    /* To the gradient of a shared parameter that a step before has begun, this one adds. */
    for (int j = 0; j < step->desc.n_params; j++) call.accumulate_dparam[j] = accumulate || touched[step->param[j]];
    call.leaves_dead = leaves_dead(p, step);
    if (step->desc.n_params > 0) call.rows = ronde__net_rows(p->shared->net, step->param[0]);
    bind_turned(p, step, accumulate, &call);
    if (is_shared(p, step, hooks)) RONDE_TRY(planned_share(p, step, true, hooks, &call));
    running r = {.p = p, .step = step, .hooks = hooks, .touched = touched};
    RONDE_TRY(run_backward_op(&r, &call));
  }
  return RONDE_OK;
}

static ronde_status planned_backward(void *pass, bool accumulate, const ronde__net_hooks *hooks, bool *touched) {
  planned_pass *p = pass;
  if (!p->plan) return ronde__fail(RONDE_E_INTERNAL, "backward needs a forward pass that has ended");
  ronde_status status = planned_run_backward(p, accumulate, hooks, touched);
  if (status != RONDE_OK) hold_plan(p, NULL);
  return status;
}

static ronde_status planned_predict(void *pass, int64_t n, const float *x, float *y_out) {
  planned_pass *p = pass;
  ronde__plan *plan;
  RONDE_TRY(planned_open(p, n, 0, &plan));
  ronde__net_result ignored = {0};
  p->batch = (ronde__net_batch){.n = n, .x = x};
  p->arrives = p->expects = false;
  RONDE_TRY(planned_run_forward(p, plan, false, NULL, &ignored));
  if (plan->output >= 0) planned_copy_prediction(p, plan, y_out);
  return RONDE_OK;
}

static double planned_executed_flops(const void *execution, int64_t n) {
  const planned *p = execution;
  double flops = 0;
  for (int i = 0; i < p->n_plans; i++)
    if (p->plans[i]->n == n && (p->plans[i]->n_all > 0) == (p->options.split.peers != NULL))
      for (int j = 0; j < p->plans[i]->n_steps; j++) {
        const ronde__plan_step *step = &p->plans[i]->steps[j];
        flops += step->forward_flops + (step->has_backward ? step->backward_flops : 0);
      }
  return flops;
}

static size_t planned_arena_bytes(const void *execution) { return ((const planned *)execution)->arena_bytes; }

static float *planned_gradient(const void *pass, int param) { return gradient_at(pass, param); }

const ronde__executor ronde__executor_planned = {
    .create = planned_create,
    .destroy = planned_destroy,
    .executed_flops = planned_executed_flops,
    .arena_bytes = planned_arena_bytes,
    .pass_create = planned_pass_create,
    .pass_destroy = planned_pass_destroy,
    .prepare = planned_prepare,
    .expect = planned_expect,
    .forward = planned_forward,
    .predict = planned_predict,
    .backward = planned_backward,
    .pass_empty = planned_pass_empty,
    .gradient = planned_gradient,
};

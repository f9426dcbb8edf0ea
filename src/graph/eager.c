/* Eager execution: the calls of a model function execute as they are made, each on the kernels that a plan would use,
 * unfused, with memory taken then. Nothing is known of what comes next; a loss alone waits until the function has said
 * which one it means. What a training pass leaves for its backward is the tape. */
#include "graph/tape.h"

#include <stdlib.h>
#include <string.h>

/* ---- values ---- */

static ronde_status add_external(ronde__tape *t, ronde__phys phys, const float *data, int *index_out) {
  ronde__tape_value value = {.phys = phys, .data = (float *)data, .external = true};
  return ronde__tape_value_add(t, &value, index_out);
}

/* One input is read where the caller has it; of several, which the recorded graph has too, it is taken from his rows. */
static ronde_status add_input(ronde__tape *t, const ronde_graph *graph, int input) {
  const ronde_graph *recorded = ronde__net_graph(t->shared->net);
  int tensor = graph->inputs[input];
  ronde__tape_value value = {.phys = ronde__phys_of_shape(&graph->tensors[tensor]->shape, t->batch.n)};
  if (recorded->n_inputs == 1) return add_external(t, value.phys, t->batch.x, &t->value_of[tensor]);
  RONDE_TRY(ronde__tape_take(t, ronde__phys_elems(&value.phys), &value.data));
  if (!t->only_shapes) ronde__graph_take_input(recorded, input, t->batch.n, t->batch.x, value.data);
  ronde_status status = ronde__tape_value_add(t, &value, &t->value_of[tensor]);
  if (status != RONDE_OK) ronde__blocks_give(t->shared->blocks, value.data);
  return status;
}

/* Rows for the graph's tensors, which grow in number as calls are made. */
static ronde_status follow_tensors(ronde__tape *t, const ronde_graph *graph) {
  int *value_of = ronde__tape_room(t->value_of, graph->n_tensors, &t->capacity.tensors, sizeof *t->value_of);
  if (!value_of) return RONDE_E_MEMORY;
  t->value_of = value_of;
  while (t->n_tensors < graph->n_tensors) value_of[t->n_tensors++] = -1;
  for (int i = 0; i < graph->n_inputs; i++)
    if (value_of[graph->inputs[i]] < 0) RONDE_TRY(add_input(t, graph, i));
  return RONDE_OK;
}

static ronde_status bind_target(ronde__tape *t, const ronde__node *loss, const ronde__phys *prediction) {
  ronde__phys phys = ronde__phys_of_target(prediction);
  return add_external(t, phys, t->batch.targets, &t->value_of[loss->in[1]]);
}

/* ---- parameters and buffers: those of the net, by name ---- */

static bool is_param(const ronde__net_param *own, const ronde__param *p) {
  return strcmp(own->name, p->name) == 0 && ronde__shape_equal(&own->shape, &p->shape);
}

static bool is_buffer(const ronde__net_buffer *own, const ronde__buffer *b) {
  return strcmp(own->name, b->name) == 0 && ronde__shape_equal(&own->shape, &b->shape);
}

static ronde_status unknown(const ronde__tape *t, const char *name, const ronde__shape *shape) {
  char text[128];
  ronde__shape_text(shape, text, sizeof text);
  return ronde__fail(
      RONDE_E_USAGE,
      "%s (%s) was not there when the network was recorded: a pass may leave parameters out, but not add any", name,
      text);
}

/* Usually they come in the net's own order. */
static ronde_status follow_params(ronde__tape *t, const ronde_graph *graph) {
  int n, *param_of = ronde__tape_room(t->param_of, graph->n_params, &t->capacity.params, sizeof *param_of);
  const ronde__net_param *own = ronde__net_params(t->shared->net, &n);
  if (graph->n_params && !param_of) return RONDE_E_MEMORY;
  for (t->param_of = param_of; t->n_params < graph->n_params; t->n_params++) {
    const ronde__param *p = &graph->params[t->n_params];
    int at = t->n_params ? param_of[t->n_params - 1] + 1 : 0;
    if (at >= n || !is_param(&own[at], p))
      for (at = 0; at < n && !is_param(&own[at], p);) at++;
    if (at == n) return unknown(t, p->name, &p->shape);
    param_of[t->n_params] = at;
  }
  return RONDE_OK;
}

static ronde_status follow_buffers(ronde__tape *t, const ronde_graph *graph) {
  int n, *buffer_of = ronde__tape_room(t->buffer_of, graph->n_buffers, &t->capacity.buffers, sizeof *buffer_of);
  const ronde__net_buffer *own = ronde__net_buffers(t->shared->net, &n);
  if (graph->n_buffers && !buffer_of) return RONDE_E_MEMORY;
  for (t->buffer_of = buffer_of; t->n_buffers < graph->n_buffers; t->n_buffers++) {
    const ronde__buffer *b = &graph->buffers[t->n_buffers];
    int at = t->n_buffers ? buffer_of[t->n_buffers - 1] + 1 : 0;
    if (at >= n || !is_buffer(&own[at], b))
      for (at = 0; at < n && !is_buffer(&own[at], b);) at++;
    if (at == n) return unknown(t, b->name, &b->shape);
    buffer_of[t->n_buffers] = at;
  }
  return RONDE_OK;
}

static ronde_status repack(ronde__tape *t, int64_t n, const ronde__weight_layout *from, const float *src,
                           const ronde__weight_layout *to, float *dst) {
  float *logical;
  RONDE_TRY(ronde__tape_take(t, n, &logical));
  ronde__weight_unpack(from, src, logical);
  ronde__weight_pack(to, logical, dst);
  ronde__blocks_give(t->shared->blocks, logical);
  return RONDE_OK;
}

/* Weights are stored as the recorded graph's layouts want them; where a pass leads another way to a layer, the layer
 * may want another form. */
static ronde_status copy_foreign_params(ronde__tape *t, ronde__tape_entry *entry) {
  const ronde__plan_step *step = &entry->step;
  int n;
  const ronde__net_param *params = ronde__net_params(t->shared->net, &n);
  for (int i = 0; i < step->desc.n_params; i++)
    entry->is_foreign |= !ronde__weight_layout_equal(&step->desc.param[i], &params[step->param[i]].layout);
  for (int i = 0; i < step->desc.n_params && entry->is_foreign && !t->only_shapes; i++) {
    const ronde__net_param *p = &params[step->param[i]];
    RONDE_TRY(ronde__tape_take(t, ronde__weight_elems(&step->desc.param[i]), &entry->param[i]));
    RONDE_TRY(repack(t, ronde__shape_elems(&p->shape), &p->layout, ronde__net_values(t->shared->net) + p->offset,
                     &step->desc.param[i], entry->param[i]));
  }
  return RONDE_OK;
}

static ronde_status copy_foreign_buffers(ronde__tape *t, ronde__tape_entry *entry, bool back) {
  const ronde__plan_step *step = &entry->step;
  const ronde__weight_layout *wanted = &step->desc.buffer;
  int n;
  size_t n_elems;
  const ronde__net_buffer *buffers = ronde__net_buffers(t->shared->net, &n);
  float *values = ronde__net_buffer_values(t->shared->net, &n_elems);
  for (int i = 0; i < step->desc.n_buffers && !t->only_shapes; i++) {
    const ronde__net_buffer *b = &buffers[step->buffer[i]];
    int64_t elems = ronde__shape_elems(&b->shape);
    if (b->is_counter || ronde__weight_layout_equal(wanted, &b->layout)) continue;
    if (back) {
      RONDE_TRY(repack(t, elems, wanted, entry->buffer[i], &b->layout, values + b->offset));
      continue;
    }
    RONDE_TRY(ronde__tape_take(t, ronde__weight_elems(wanted), &entry->buffer[i]));
    RONDE_TRY(repack(t, elems, &b->layout, values + b->offset, wanted, entry->buffer[i]));
  }
  return RONDE_OK;
}

/* ---- calls ---- */

static ronde_status eager_run_forward(ronde__tape *t, ronde__tape_entry *entry) {
  const ronde__plan_step *step = &entry->step;
  const ronde__net_hooks *hooks = t->hooks;
  ronde__prof *prof = t->shared->options.prof;
  ronde__op_call call;
  ronde__tape_bind(t, entry, &call);
  if (ronde__loss_is_apart(step, hooks))
    return ronde__loss_ask(ronde__net_graph(t->shared->net), step, &call, hooks, &t->result);
  for (int i = 0; i < step->desc.n_params && hooks && hooks->param_needed; i++) {
    if (!t->was_needed[step->param[i]]) RONDE_TRY(hooks->param_needed(hooks->user, step->param[i]));
    t->was_needed[step->param[i]] = true;
  }
  RONDE_TRY(ronde__tape_take(t, (int64_t)(step->work_bytes[0] / sizeof(float)), &call.work));
  call.loss_sum = &t->result.loss_sum;
  call.n_correct = &t->result.n_correct;
  uint64_t begin = prof ? ronde__prof_now(prof) : 0;
  ronde_status status = step->desc.form->forward(&step->desc, step->state, &call);
  if (prof && status == RONDE_OK)
    ronde__prof_op_add(prof, step->forward_slot, begin, ronde__prof_now(prof), step->forward_flops);
  ronde__blocks_give(t->shared->blocks, call.work);
  return status;
}

static ronde__plan_options plan_options(const ronde__tape *t) {
  const ronde__net_options *o = &t->shared->options;
  return (ronde__plan_options){.n = t->batch.n,
                               .training = o->training,
                               .compute = o->compute,
                               .threads = ronde__pool_threads(o->pool),
                               .prof = o->prof};
}

/* A new value for an output of a step. */
static ronde_status add_output(ronde__tape *t, ronde__plan_step *step, int output) {
  ronde__tape_value out = {.phys = step->desc.out[output], .wants_gradient = step->has_backward && !step->op->is_loss};
  RONDE_TRY(ronde__tape_take(t, ronde__phys_elems(&out.phys), &out.data));
  ronde_status status = ronde__tape_value_add(t, &out, &step->out[output]);
  if (status != RONDE_OK) ronde__blocks_give(t->shared->blocks, out.data);
  return status;
}

/* Prepares and executes a step whose op, desc and in are set; its outputs are new values. */
static ronde_status call_op(ronde__tape *t, ronde__tape_entry *entry) {
  ronde__plan_step *step = &entry->step;
  ronde__plan_options options = plan_options(t);
  RONDE_TRY(ronde__prepared_get(t->shared->prepared, &options, step));
  ronde__tape_entry *entries = ronde__tape_room(t->entries, t->n_entries + 1, &t->capacity.entries, sizeof *t->entries);
  if (!entries) return RONDE_E_MEMORY;
  t->entries = entries;
  for (int i = 0; i < step->desc.n_outputs; i++) RONDE_TRY(add_output(t, step, i));
  /* From here on the tape owns what the entry takes. */
  entries[t->n_entries] = *entry;
  entry = &entries[t->n_entries++];
  step = &entry->step;
  RONDE_TRY(ronde__tape_take(t, (int64_t)(step->saved_bytes / sizeof(float)), &entry->saved));
  RONDE_TRY(copy_foreign_params(t, entry));
  RONDE_TRY(copy_foreign_buffers(t, entry, false));
  if (t->only_shapes) return RONDE_OK;
  RONDE_TRY(eager_run_forward(t, entry));
  return t->batch.training ? copy_foreign_buffers(t, entry, true) : RONDE_OK;
}

static ronde_status add_reorder(ronde__tape *t, int value, const ronde__phys *from, const ronde__phys *to,
                                int *value_out) {
  bool wants = t->values[value].wants_gradient;
  ronde__plan_options options = plan_options(t);
  ronde__tape_entry entry = {.step = ronde__step_of_reorder(from, to, wants, &options)};
  entry.step.in[0] = value;
  entry.step.has_backward = wants;
  RONDE_TRY(call_op(t, &entry));
  *value_out = t->entries[t->n_entries - 1].step.out[0];
  return RONDE_OK;
}

/* The value in the wanted form: as it is, or behind a reorder (one that was made already is used again), or two, by way of
 * ROWS. */
static ronde_status in_form(ronde__tape *t, int value, const ronde__phys *wanted, int *value_out) {
  const ronde__op *op = ronde__ops[RONDE__OP_REORDER];
  ronde__phys from = t->values[value].phys, to = *wanted;
  *value_out = value;
  if (ronde__phys_alike(&from, wanted)) return RONDE_OK;
  for (int i = 0; i < t->n_entries; i++) {
    const ronde__plan_step *step = &t->entries[i].step;
    if (step->op == op && step->in[0] == value && ronde__phys_alike(&step->desc.out[0], wanted))
      return *value_out = step->out[0], RONDE_OK;
  }
  if (ronde__phys_match(&from, &to)) return add_reorder(t, value, &from, &to, value_out);
  ronde__phys rows = ronde__phys_make(RONDE__ROWS, from.n, from.c, from.h, from.w);
  RONDE_TRY(in_form(t, value, &rows, value_out));
  return in_form(t, *value_out, wanted, value_out);
}

static ronde_status run_node(ronde__tape *t, const ronde_graph *graph, int index) {
  const ronde__node *node = &graph->nodes[index];
  int n_params;
  const ronde__net_param *params = ronde__net_params(t->shared->net, &n_params);
  const ronde__weight_layout *stored[RONDE__OP_MAX_PARAMS];
  ronde__plan_options options = plan_options(t);
  ronde__tape_entry entry = {.step = ronde__step_of_node(node, index, &options)};
  ronde__plan_step *step = &entry.step;
  ronde__op_desc *desc = &step->desc;
  /* Layouts follow from which gradients are wanted: in evaluation too, so that weights keep their form. */
  for (int i = 0; i < node->n_params; i++) {
    step->param[i] = t->param_of[node->param[i]];
    desc->frozen[i] = params[step->param[i]].frozen;
    stored[i] = &params[step->param[i]].layout;
    step->has_backward |= t->shared->options.training && !desc->frozen[i];
  }
  for (int i = 0; i < node->n_inputs; i++) {
    if (step->op->is_loss && i == 1) RONDE_TRY(bind_target(t, node, &desc->in[0]));
    const ronde__tape_value *value = &t->values[t->value_of[node->in[i]]];
    desc->in[i] = ronde__phys_offered(&value->phys, &graph->tensors[node->in[i]]->shape, t->batch.n, step->op);
    desc->need_dinput[i] = value->wants_gradient;
    step->has_backward |= value->wants_gradient;
  }
  ronde__step_lay_out(graph, node, stored, step); /* where that cannot be, the parameters are copied */
  for (int i = 0; i < node->n_inputs; i++) RONDE_TRY(in_form(t, t->value_of[node->in[i]], &desc->in[i], &step->in[i]));
  for (int i = 0; i < node->n_buffers; i++) step->buffer[i] = t->buffer_of[node->buffer[i]];
  if (!step->op->is_view) RONDE_TRY(call_op(t, &entry));
  for (int i = 0; i < node->n_outputs; i++)
    t->value_of[node->out[i]] = step->op->is_view ? step->in[0] : t->entries[t->n_entries - 1].step.out[i];
  return RONDE_OK;
}

/* ---- the graph's listener ---- */

static ronde_status eager_added(void *user, const ronde_graph *graph, int index) {
  ronde__tape *t = user;
  RONDE_TRY(follow_tensors(t, graph));
  RONDE_TRY(follow_params(t, graph));
  RONDE_TRY(follow_buffers(t, graph));
  return ronde__ops[graph->nodes[index].kind]->is_loss ? RONDE_OK : run_node(t, graph, index);
}

static void copy_out(const ronde__tape *t, int value, float *values_out) {
  const ronde__phys *from = &t->values[value].phys;
  ronde__phys to = ronde__phys_make(RONDE__ROWS, from->n, from->c, from->h, from->w);
  ronde__reorder(from, t->values[value].data, &to, values_out, false);
}

static ronde_status eager_values(void *user, const ronde_tensor *x, float *values_out) {
  ronde__tape *t = user;
  RONDE_TRY(follow_tensors(t, x->graph));
  if (t->value_of[x->id] < 0)
    return ronde__fail(RONDE_E_USAGE,
                       "%s: a target has no values in a pass, and a loss has none before its pass has ended", x->label);
  copy_out(t, t->value_of[x->id], values_out);
  return RONDE_OK;
}

/* ---- passes ---- */

static void drop_tape(ronde__tape *t) {
  ronde__tape_clear(t);
  t->shared->n_kept -= t->is_kept;
  t->is_kept = false;
}

static void eager_begin(ronde__tape *t, const ronde__net_batch *batch, float loss_scale,
                        const ronde__net_hooks *hooks) {
  drop_tape(t);
  if (t->shared->n_kept == 0) ronde__prepared_trim(t->shared->prepared);
  int n_params;
  ronde__net_params(t->shared->net, &n_params);
  memset(t->was_needed, 0, (size_t)n_params * sizeof *t->was_needed);
  t->batch = *batch;
  t->loss_scale = loss_scale;
  t->hooks = hooks;
  t->result = (ronde__net_result){0};
  t->is_kept = batch->training && t->shared->options.training;
  t->shared->n_kept += t->is_kept;
  t->only_shapes = false;
}

static ronde_status run_loss(ronde__tape *t, const ronde_graph *graph) {
  return run_node(t, graph, graph->tensors[graph->loss]->producer);
}

/* Counters of the normalisations that took part; executed operations. */
static void eager_count(ronde__tape *t) {
  int n;
  ronde__net_buffer *buffers = ronde__net_buffers(t->shared->net, &n);
  double flops = 0;
  for (int i = 0; i < t->n_entries; i++) {
    const ronde__plan_step *step = &t->entries[i].step;
    flops += step->forward_flops + (t->entries[i].reached ? step->backward_flops : 0);
    for (int j = 0; j < step->desc.n_buffers; j++)
      buffers[step->buffer[j]].count += buffers[step->buffer[j]].is_counter;
  }
  t->shared->flops_per_example = flops / (double)t->batch.n;
}

/* Lets the model function run; output_out (may be NULL) gets the output's values. */
static ronde_status eager_define(ronde__tape *t, bool wants_loss, float *output_out) {
  ronde__graph_listener listener = {eager_added, eager_values, t};
  ronde_graph *graph;
  RONDE_TRY(ronde_graph_create(&graph));
  graph->listener = &listener;
  graph->pass = (ronde_pass){true, t->batch.training, (int64_t)t->batch.step, t->batch.n};
  ronde_status status = t->shared->options.define(t->shared->options.define_user, graph);
  if (status == RONDE_OK && output_out) copy_out(t, t->value_of[graph->output], output_out);
  if (status == RONDE_OK && wants_loss) status = run_loss(t, graph);
  ronde_graph_destroy(graph);
  if (status == RONDE_OK) ronde__tape_finish(t, t->is_kept ? t->n_entries - 1 : -1);
  else drop_tape(t);
  return status;
}

static ronde_status eager_forward(void *pass, const ronde__net_batch *batch, float loss_scale,
                                  const ronde__net_hooks *hooks, ronde__net_result *result_out) {
  ronde__tape *t = pass;
  eager_begin(t, batch, loss_scale, hooks);
  RONDE_TRY(eager_define(t, true, batch->predictions));
  if (batch->training) eager_count(t);
  *result_out = t->result;
  return RONDE_OK;
}

static ronde_status eager_predict(void *pass, int64_t n, const float *x, float *y_out) {
  ronde__tape *t = pass;
  eager_begin(t, &(ronde__net_batch){.n = n, .x = x}, 1, NULL);
  return eager_define(t, false, y_out);
}

static ronde_status eager_backward(void *pass, bool accumulate, const ronde__net_hooks *hooks, bool *touched) {
  ronde__tape *t = pass;
  if (!t->is_kept) return ronde__fail(RONDE_E_INTERNAL, "backward needs a forward pass of training that has ended");
  ronde_status status = ronde__tape_backward(t, accumulate, hooks, touched);
  drop_tape(t);
  return status;
}

/* The recorded graph shows which ops to expect. */
static ronde_status eager_prepare(void *pass, int64_t n, int64_t n_all) {
  ronde__tape *t = pass;
  const ronde_graph *graph = ronde__net_graph(t->shared->net);
  eager_begin(t, &(ronde__net_batch){.n = n, .training = t->shared->options.training}, 1, NULL);
  t->only_shapes = true;
  ronde_status status = RONDE_OK;
  for (int i = 0; i < graph->n_nodes && status == RONDE_OK; i++) status = eager_added(t, graph, i);
  if (status == RONDE_OK) status = run_loss(t, graph);
  drop_tape(t);
  return status;
}

static double eager_executed_flops(const void *execution, int64_t n) {
  return ((const ronde__eager *)execution)->flops_per_example * (double)n;
}

static size_t eager_arena_bytes(const void *execution) {
  return ronde__blocks_mapped(((const ronde__eager *)execution)->blocks);
}

static void eager_destroy(void *execution) {
  ronde__eager *e = execution;
  if (!e) return;
  ronde__prepared_destroy(e->prepared);
  ronde__blocks_destroy(e->blocks);
  ronde__free(e);
}

static ronde_status eager_create(ronde__net *net, const ronde__net_options *options, void **execution_out) {
  ronde__eager *e;
  RONDE__ALLOC(e, sizeof *e, "tape");
  *e = (ronde__eager){.net = net, .options = *options};
  ronde_status status = ronde__prepared_create(&e->prepared);
  if (status == RONDE_OK) status = ronde__blocks_create(&e->blocks);
  if (status != RONDE_OK) eager_destroy(e);
  else *execution_out = e;
  return status;
}

static void eager_pass_destroy(void *pass) {
  ronde__tape *t = pass;
  drop_tape(t);
  free(t->values);
  free(t->entries);
  free(t->value_of);
  free(t->param_of);
  free(t->buffer_of);
  ronde__free(t->finisher);
  ronde__free(t->was_needed);
  ronde__free(t);
}

static ronde_status eager_allocate(ronde__tape *t) {
  int n_params;
  ronde__net_params(t->shared->net, &n_params);
  RONDE__ALLOC(t->finisher, (size_t)n_params * sizeof *t->finisher, "tape");
  RONDE__ALLOC(t->was_needed, (size_t)n_params * sizeof *t->was_needed, "tape");
  return RONDE_OK;
}

static ronde_status eager_pass_create(void *execution, void **pass_out) {
  ronde__tape *t;
  RONDE__ALLOC(t, sizeof *t, "tape");
  t->shared = execution;
  ronde_status status = eager_allocate(t);
  if (status != RONDE_OK) eager_pass_destroy(t);
  else *pass_out = t;
  return status;
}

const ronde__executor ronde__executor_eager = {
    .create = eager_create,
    .destroy = eager_destroy,
    .executed_flops = eager_executed_flops,
    .arena_bytes = eager_arena_bytes,
    .pass_create = eager_pass_create,
    .pass_destroy = eager_pass_destroy,
    .prepare = eager_prepare,
    .forward = eager_forward,
    .predict = eager_predict,
    .backward = eager_backward,
};

/* The loss apart from the network, where one rank judges the outputs of all: its op by itself for who judges; and what
 * takes its place in the passes of a replica that is judged.
 * n examples; outputs: what the loss reads of the network, in ROWS: of each example its prediction, and behind it, where the loss
 * reads that too, its length. */
#include "graph/prepared.h"

#include <string.h>

struct ronde__loss {
  const ronde_graph *graph;
  const ronde__kernels *kernels;
  ronde__prof *prof;
  ronde__prepared *prepared;
  float *memory; /* [capacity]: what the op saves, its scratch, the gradient */
  size_t capacity;
};

static const ronde__node *node_of(const ronde_graph *graph) {
  return &graph->nodes[graph->tensors[graph->loss]->producer];
}

static const ronde__shape *outputs_shape(const ronde_graph *graph) {
  return &graph->tensors[node_of(graph)->in[0]]->shape;
}

static bool has_lengths(const ronde_graph *graph) { return node_of(graph)->n_inputs > 2; }
static int64_t predicted_elems(const ronde_graph *graph) { return ronde__shape_elems(outputs_shape(graph)); }
int64_t ronde__loss_elems(const ronde_graph *graph) { return predicted_elems(graph) + has_lengths(graph); }

int64_t ronde__loss_labels(const ronde_graph *graph) {
  const ronde__shape *shape = outputs_shape(graph);
  if (node_of(graph)->attr.labels) return node_of(graph)->attr.labels;
  return ronde__ops[node_of(graph)->kind]->wants_labels && shape->rank == 2 ? shape->dim[0] : 1;
}

/* ---- the side that judges ---- */

ronde_status ronde__loss_create(const ronde_graph *graph, const ronde__kernels *kernels, ronde__prof *prof,
                                ronde__loss **loss_out) {
  ronde__loss *loss;
  RONDE__ALLOC(loss, sizeof *loss, "loss");
  *loss = (ronde__loss){.graph = graph, .kernels = kernels, .prof = prof};
  ronde_status status = ronde__prepared_create(&loss->prepared);
  if (status != RONDE_OK) ronde__loss_destroy(loss);
  else *loss_out = loss;
  return status;
}

void ronde__loss_destroy(ronde__loss *loss) {
  if (!loss) return;
  ronde__prepared_destroy(loss->prepared);
  ronde__free(loss->memory);
  ronde__free(loss);
}

static ronde_status prepare(ronde__loss *loss, int64_t n, ronde__plan_step *step_out) {
  const ronde__node *node = node_of(loss->graph);
  ronde__plan_options options = {
      .n = n, .training = true, .compute = {.kernels = loss->kernels}, .threads = 1, .prof = loss->prof};
  ronde__plan_step step = ronde__step_of_node(node, 0, &options);
  step.desc.in[0] = ronde__phys_of_shape(outputs_shape(loss->graph), n);
  step.desc.in[1] = ronde__phys_of_target(&step.desc.in[0]);
  if (has_lengths(loss->graph)) step.desc.in[2] = ronde__phys_of_shape(&(ronde__shape){1, {1}}, n);
  step.desc.need_dinput[0] = step.has_backward = true;
  ronde__step_lay_out(loss->graph, node, NULL, &step);
  RONDE_TRY(ronde__prepared_get(loss->prepared, &options, &step));
  *step_out = step;
  return RONDE_OK;
}

/* Room for a step's memory, one piece behind the other; *apart_out: of predictions and lengths by themselves. */
static ronde_status reserve(ronde__loss *loss, const ronde__plan_step *step, ronde__op_call *call, float **apart_out) {
  size_t saved = step->saved_bytes / sizeof(float), work = step->work_bytes[0] / sizeof(float);
  if (step->work_bytes[1] / sizeof(float) > work) work = step->work_bytes[1] / sizeof(float);
  size_t predicted = (size_t)ronde__phys_elems(&step->desc.in[0]), n = saved + work + predicted;
  if (has_lengths(loss->graph)) n += predicted + (size_t)step->desc.in[0].n;
  if (n > loss->capacity) {
    ronde__free(loss->memory);
    loss->capacity = 0;
    RONDE__ALLOC(loss->memory, n * sizeof(float), "loss");
    loss->capacity = n;
  }
  call->saved = loss->memory;
  call->work = loss->memory + saved;
  call->din[0] = loss->memory + saved + work;
  *apart_out = call->din[0] + predicted;
  return RONDE_OK;
}

/* Takes rows [n][elems + 1] apart into [n][elems] and, behind all of these, the last elements [n]. */
static void take_apart(int64_t n, int64_t elems, const float *rows, float *apart) {
  for (int64_t i = 0; i < n; i++) {
    memcpy(apart + i * elems, rows + i * (elems + 1), (size_t)elems * sizeof *apart);
    apart[n * elems + i] = rows[i * (elems + 1) + elems];
  }
}

ronde_status ronde__loss_run(ronde__loss *loss, const ronde__net_batch *batch, float loss_scale, float *outputs,
                             ronde__net_result *result_out) {
  ronde__plan_step step;
  ronde__net_result result = {0};
  float *apart = NULL;
  int64_t elems = predicted_elems(loss->graph), row = ronde__loss_elems(loss->graph);
  ronde__op_call call = {.in = {outputs, (float *)batch->targets},
                         .labels = batch->labels,
                         .label_weight = batch->label_weight > 0 ? batch->label_weight : 1,
                         .loss_scale = loss_scale,
                         .training = true,
                         .loss_sum = &result.loss_sum,
                         .n_correct = &result.n_correct};
  RONDE_TRY(prepare(loss, batch->n, &step));
  RONDE_TRY(reserve(loss, &step, &call, &apart));
  if (row > elems) {
    take_apart(batch->n, elems, outputs, apart);
    call.in[0] = apart;
    call.in[2] = apart + batch->n * elems;
  }
  const ronde__form *form = step.desc.form;
  uint64_t begin = ronde__prof_now(loss->prof);
  RONDE_TRY(form->forward(&step.desc, step.state, &call));
  ronde__prof_op_add(loss->prof, step.forward_slot, begin, ronde__prof_now(loss->prof), step.forward_flops);
  begin = ronde__prof_switch(loss->prof, RONDE__PHASE_BACKWARD);
  RONDE_TRY(form->backward(&step.desc, step.state, &call));
  for (int64_t i = 0; i < batch->n; i++)
    memcpy(outputs + i * row, call.din[0] + i * elems, (size_t)elems * sizeof *outputs);
  ronde__prof_op_add(loss->prof, step.backward_slot, begin, ronde__prof_now(loss->prof), step.backward_flops);
  *result_out = result;
  return RONDE_OK;
}

/* ---- the side that is judged ---- */

/* The loss may read rows of examples for examples. */
static int64_t examples_of(const ronde__plan_step *step) { return step->desc.out[0].n; }

static ronde__phys rows_of(const ronde__phys *x) { return ronde__phys_make(RONDE__ROWS, x->n, x->c, x->h, x->w); }

/* A network that is defined anew in each pass may mean another one. */
static bool is_recorded(const ronde_graph *recorded, const ronde__plan_step *step) {
  const ronde__node *node = node_of(recorded);
  const ronde__phys *x = &step->desc.in[0];
  return ronde__ops[node->kind] == step->op && memcmp(&node->attr, &step->desc.attr, sizeof node->attr) == 0 &&
         x->n * x->c * x->h * x->w == examples_of(step) * predicted_elems(recorded);
}

/* Spreads rows [n][elems] to [n][elems + 1], each with its length behind it. */
static void add_lengths(int64_t n, int64_t elems, const float *lengths, float *rows) {
  for (int64_t i = n - 1; i >= 0; i--) {
    memmove(rows + i * (elems + 1), rows + i * elems, (size_t)elems * sizeof *rows);
    rows[i * (elems + 1) + elems] = lengths[i];
  }
}

ronde_status ronde__loss_ask(const ronde_graph *recorded, const ronde__plan_step *step, const ronde__op_call *call,
                             const ronde__net_hooks *hooks, ronde__net_result *result_out) {
  if (!is_recorded(recorded, step))
    return ronde__fail(RONDE_E_USAGE,
                       "the loss of this pass is not the one that the network was recorded with: where another rank "
                       "computes it, it must be the same in every pass");
  ronde__phys rows = rows_of(&step->desc.in[0]);
  ronde__reorder(&step->desc.in[0], call->in[0], &rows, hooks->outputs, false);
  if (has_lengths(recorded)) add_lengths(examples_of(step), predicted_elems(recorded), call->in[2], hooks->outputs);
  return hooks->loss(hooks->user, examples_of(step), result_out);
}

void ronde__loss_take(const ronde__plan_step *step, const ronde__op_call *call, const ronde__net_hooks *hooks) {
  ronde__phys rows = rows_of(&step->desc.in[0]);
  int64_t n = examples_of(step), elems = ronde__phys_elems(&rows) / n;
  bool spread = step->desc.n_inputs > 2;
  for (int64_t i = 1; i < n && spread; i++)
    memmove(hooks->outputs + i * elems, hooks->outputs + i * (elems + 1), (size_t)elems * sizeof *hooks->outputs);
  if (spread && call->din[2] && !call->accumulate_dinput[2]) memset(call->din[2], 0, (size_t)n * sizeof(float));
  if (call->din[0]) ronde__reorder(&rows, hooks->outputs, &step->desc.in[0], call->din[0], call->accumulate_dinput[0]);
}

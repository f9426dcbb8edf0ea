/* A step of a plan: its kernels, sizes and rows in the ledger. */
#include "graph/plan.h"

#include <stdio.h>

/* A fused step has a name of its own in the per-op table: its time is never apportioned. */
static void joint_name(const ronde__plan_step *step, char *name, size_t size) {
  static const char *const acts[] = {"", "relu", "tanh", "sigmoid"};
  static const char *const functions[] = {
#define RONDE_POINTWISE(KIND, text) #text,
#include "kernel/pointwise.inc"
#undef RONDE_POINTWISE
  };
  const ronde__op_attr *attr = &step->desc.attr;
  if (step->op == ronde__ops[RONDE__OP_POINTWISE]) {
    snprintf(name, size, "%s", functions[attr->pointwise.kind]);
    return;
  }
  bool alone = step->op == ronde__ops[RONDE__OP_ACTIVATION];
  bool sum = step->op == ronde__ops[RONDE__OP_BATCH_NORM2D] && step->desc.n_inputs > 1;
  snprintf(name, size, "%s%s%s%s%s%s%s%s", alone ? "" : step->op->name, sum ? "+add" : "",
           attr->act && !alone ? "+" : "", acts[attr->act], attr->pool.relu ? "+relu" : "",
           attr->pool.kernel[0] ? "+max_pool" : "", attr->pointwise_behind ? "+" : "",
           attr->pointwise_behind ? functions[attr->pointwise.kind] : "");
}

double ronde__plan_step_bytes(const ronde__plan_step *step, bool backward, double taker_bytes) {
  const ronde__op_desc *desc = &step->desc;
  ronde__operands again = ronde__op_backward_reads(step->op, desc);
  double bytes = 0, elems = 0, taken = 0;
  for (int i = 0; i < desc->n_outputs; i++)
    bytes += (double)ronde__phys_bytes(&desc->out[i]) * (1 + (backward && again.out >> i & 1));
  for (int i = 0; i < desc->n_inputs; i++) {
    bool reads = !backward || (again.in >> i & 1);
    bool writes = backward && desc->need_dinput[i];
    bytes += (double)ronde__phys_bytes(&desc->in[i]) * (reads + writes);
  }
  for (int i = 0; i < desc->n_params; i++) {
    double n = (double)ronde__weight_elems(&desc->param[i]);
    bool is_taken = i == 0 && desc->in_pieces; /* it is updated where it was made, and not written */
    elems += n * (1 + (backward && !desc->frozen[i] && !is_taken));
    if (backward && is_taken) taken += n * taker_bytes;
  }
  return bytes + elems * sizeof(float) + taken;
}

/* A form's name, where there are several, and what its kernels are: "winograd f(4,3) xsmm". */
static void implementation_name(const ronde__plan_step *step, char *name, size_t size) {
  const ronde__form *form = step->desc.form;
  snprintf(name, size, "%s%s%s", form->name ? form->name : "", form->name ? " " : "",
           form->implementation(&step->desc, step->state));
}

static void add_row(ronde__plan_step *step, const ronde__plan_options *options, bool backward) {
  const ronde__op_desc *desc = &step->desc;
  const ronde_graph *graph = options->rows_of;
  bool taken = backward && desc->in_pieces && options->taker_name;
  char joint[64], name[192], implementation[64];
  joint_name(step, joint, sizeof joint);
  implementation_name(step, implementation, sizeof implementation);
  snprintf(name, sizeof name, "%s%s%s%s%s", graph ? graph->nodes[desc->layer].label : "", graph ? " " : "", joint,
           taken ? "+" : "", taken ? options->taker_name : "");
  int slot =
      ronde__prof_op_slot(options->prof, name, backward ? RONDE__PHASE_BACKWARD : RONDE__PHASE_FORWARD, implementation);
  if (graph) ronde__prof_op_bytes(options->prof, slot, ronde__plan_step_bytes(step, backward, options->taker_bytes));
  *(backward ? &step->backward_slot : &step->forward_slot) = slot;
}

ronde_status ronde__plan_step_prepare(ronde__plan_step *step, const ronde__plan_options *options) {
  const ronde__op_desc *desc = &step->desc;
  const ronde__form *form = desc->form;
  if (form->prepare) RONDE_TRY(form->prepare(desc, &step->state));
  for (int back = 0; back < 2 && form->work_elems; back++)
    if (!back || step->has_backward) step->work_bytes[back] = form->work_elems(desc, step->state, back) * sizeof(float);
  if (form->saved_elems) step->saved_bytes = form->saved_elems(desc, step->state) * sizeof(float);
  if (form->executed_flops) {
    step->forward_flops = form->executed_flops(desc, step->state, false);
    step->backward_flops = form->executed_flops(desc, step->state, true);
  }
  step->forward_slot = step->backward_slot = -1;
  if (!options->prof || desc->neighbours || ronde__step_exchanges(step))
    return RONDE_OK; /* what travels is no computation */
  if (form->forward) add_row(step, options, false);
  if (step->has_backward) add_row(step, options, true);
  return RONDE_OK;
}

size_t ronde__plan_step_partial_elems(const ronde__plan_step *step) {
  const ronde__form *form = step->desc.form;
  return form->partial_elems ? form->partial_elems(&step->desc) : 0;
}

bool ronde__plan_keeps_turned(const ronde__plan *plan, const ronde__plan_step *step) {
  if (!step->desc.form->turns_weight || !step->has_backward || !step->desc.need_dinput[0]) return false;
  int n = 0;
  for (int i = 0; i < plan->n_steps; i++)
    for (int j = 0; j < plan->steps[i].desc.n_params; j++) n += plan->steps[i].param[j] == step->param[0];
  return n == 1;
}

void ronde__plan_step_release(ronde__plan_step *step) {
  const ronde__form *form = step->desc.form; /* NULL where the plan was given up before it was chosen */
  if (form && form->release) form->release(&step->desc, step->state);
}

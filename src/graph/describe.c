/* From the graph to steps: the one place in which the description of an op is made, for plans and eager passes alike. */
#include "graph/plan.h"

ronde__phys ronde__phys_of_target(const ronde__phys *prediction) {
  return ronde__phys_make(RONDE__ROWS, prediction->n, prediction->c, prediction->h, prediction->w);
}

ronde__phys ronde__phys_offered(const ronde__phys *held, const ronde__shape *shape, int64_t n,
                                const ronde__op *reader) {
  ronde__phys own = ronde__phys_of_shape(shape, n);
  if (shape->rank == 0) return *held;
  if (held->n != n) return reader->takes_rows && held->layout != RONDE__ROWS ? *held : own;
  if (shape->rank == 1) return *held; /* a flattened image, or a vector */
  if (held->layout == RONDE__BLOCKS && held->c != own.c) return own;
  return ronde__phys_make(held->layout, n, own.c, own.h, own.w);
}

bool ronde__phys_match(ronde__phys *from, ronde__phys *to) {
  if (from->n == to->n) return true;
  if (from->layout == RONDE__ROWS) *from = ronde__phys_make(RONDE__ROWS, to->n, to->c, to->h, to->w);
  else if (to->layout == RONDE__ROWS) *to = ronde__phys_make(RONDE__ROWS, from->n, from->c, from->h, from->w);
  return from->n == to->n;
}

static void set_options(ronde__op_desc *desc, const ronde__plan_options *options) {
  desc->compute = options->compute;
  desc->threads = options->threads;
}

ronde__plan_step ronde__step_of_node(const ronde__node *node, int layer, const ronde__plan_options *options) {
  ronde__plan_step step = {.op = ronde__ops[node->kind]};
  step.desc = (ronde__op_desc){.attr = node->attr,
                               .n_inputs = node->n_inputs,
                               .n_outputs = node->n_outputs,
                               .n_params = node->n_params,
                               .n_buffers = node->n_buffers,
                               .layer = layer};
  set_options(&step.desc, options);
  return step;
}

ronde__plan_step ronde__step_of_send(const ronde__phys *x, bool gradient, int message,
                                     const ronde__plan_options *options) {
  ronde__plan_step step = {.op = &ronde__op_send, .has_backward = gradient};
  step.desc = (ronde__op_desc){.n_inputs = 1,
                               .in = {*x},
                               .need_dinput = {gradient},
                               .neighbours = options->stage.neighbours,
                               .message = message};
  set_options(&step.desc, options);
  return step;
}

ronde__plan_step ronde__step_of_receive(const ronde__phys *y, int message, const ronde__plan_options *options) {
  ronde__plan_step step = {.op = &ronde__op_receive};
  step.desc =
      (ronde__op_desc){.n_outputs = 1, .out = {*y}, .neighbours = options->stage.neighbours, .message = message};
  set_options(&step.desc, options);
  return step;
}

static bool are_stored_so(const ronde__op_desc *desc, const ronde__weight_layout *const *stored) {
  for (int i = 0; i < desc->n_params; i++)
    if (stored[i] && !ronde__weight_layout_equal(&desc->param[i], stored[i])) return false;
  return true;
}

bool ronde__step_lay_out(const ronde_graph *graph, const ronde__node *node, const ronde__weight_layout *const *stored,
                         ronde__plan_step *step) {
  ronde__shape in[RONDE__OP_MAX_INPUTS], out[RONDE__OP_MAX_OUTPUTS];
  for (int i = 0; i < node->n_inputs; i++) in[i] = graph->tensors[node->in[i]]->shape;
  for (int i = 0; i < node->n_outputs; i++) out[i] = graph->tensors[node->out[i]]->shape;
  const ronde__op_desc offered = step->desc;
  step->op->layouts(&step->desc, in, out);
  for (int i = 0; i < node->n_params && step->op->any_weights; i++)
    if (stored[i]) step->desc.param[i] = *stored[i];
  if (are_stored_so(&step->desc, stored)) return true;
  ronde__op_desc own = step->desc;
  for (ronde__layout layout = RONDE__ROWS; layout <= RONDE__BLOCKS; layout++) {
    const ronde__phys *x = &offered.in[0];
    step->desc = offered;
    step->desc.in[0] = ronde__phys_make(layout, x->n, x->c, x->h, x->w);
    step->op->layouts(&step->desc, in, out);
    if (are_stored_so(&step->desc, stored)) return true;
  }
  step->desc = own;
  return false;
}

ronde__plan_step ronde__step_of_reorder(const ronde__phys *from, const ronde__phys *to, bool need_dinput,
                                        const ronde__plan_options *options) {
  ronde__plan_step step = {.op = ronde__ops[RONDE__OP_REORDER]};
  step.desc =
      (ronde__op_desc){.n_inputs = 1, .n_outputs = 1, .in = {*from}, .out = {*to}, .need_dinput = {need_dinput}};
  set_options(&step.desc, options);
  return step;
}

int ronde__plan_add_value(ronde__plan *plan, ronde__phys phys, bool external, bool has_gradient) {
  plan->values[plan->n_values] = (ronde__value){.phys = phys,
                                                .external = external,
                                                .has_gradient = has_gradient,
                                                .gradient_home = plan->n_values,
                                                .whole = plan->n_values,
                                                .turns = -1};
  return plan->n_values++;
}

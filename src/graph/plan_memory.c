/* Where a plan's values, gradients and scratch lie, by when they live. */
#include "graph/plan.h"

typedef struct lifetimes {
  ronde__arena_block *blocks;
  int n;
} lifetimes;

static void add_block(lifetimes *l, size_t bytes, int first, int last, size_t *offset_out) {
  if (bytes) l->blocks[l->n++] = (ronde__arena_block){bytes, first, last, offset_out};
}

/* Transient gradients live from the step that begins them to the end of the one that finishes them; those that no step
 * makes, after the last. */
static void add_gradients(lifetimes *l, ronde__plan *plan, const ronde_graph *graph) {
  for (int i = 0; i < plan->n_steps; i++)
    for (int j = 0; j < plan->steps[i].desc.n_params; j++) {
      ronde__plan_param *param = &plan->params[plan->steps[i].param[j]];
      if (param->in_pieces || param->last != i) continue;
      add_block(l, (size_t)ronde__weight_elems(&plan->steps[i].desc.param[j]) * sizeof(float),
                2 * plan->n_steps - 1 - param->first, 2 * plan->n_steps - 1 - i, &param->gradient_offset);
    }
  for (int i = 0; i < plan->n_params; i++)
    if (plan->params[i].last < 0 && !graph->params[plan->param_of[i]].frozen)
      add_block(l, (size_t)ronde__shape_elems(&graph->params[plan->param_of[i]].shape) * sizeof(float),
                2 * plan->n_steps, 2 * plan->n_steps, &plan->params[i].gradient_offset);
}

/* What is sent, forward or backward, may still be on its way when the pass has ended. What comes is there before it is
 * needed: the gradient of what was sent from that moment on, and what is received while the pass has what came before. */
static void keep_messages(ronde__plan *plan, int *first, int *last, int *gradient_first, int *gradient_last) {
  for (int i = 0; i < plan->n_steps; i++) {
    const ronde__plan_step *step = &plan->steps[i];
    int home = plan->values[step->in[0]].gradient_home;
    if (step->op == &ronde__op_send) last[step->in[0]] = 2 * plan->n_steps;
    if (step->op == &ronde__op_send && step->has_backward)
      gradient_first[home] = (int)ronde__min(gradient_first[home], i);
    if (step->op == &ronde__op_receive) {
      ronde__value *value = &plan->values[step->out[0]];
      first[step->out[0]] = 0;
      last[step->out[0]] = 2 * plan->n_steps;
      value->next_offset = (size_t)ronde__round_up((int64_t)ronde__phys_bytes(&value->phys), 64);
    }
    if (step->op == &ronde__op_receive && step->has_backward)
      gradient_last[plan->values[step->out[0]].gradient_home] = 2 * plan->n_steps;
  }
}

/* The value in whose memory a value's gradient lies: of turns, that of all of them, which are alike. */
static int gradient_place(const ronde__plan *plan, int value) {
  const ronde__value *v = &plan->values[value];
  for (int t = 0; v->turns >= 0; t++) {
    const ronde__value *turn = &plan->values[v->turns + t];
    if (turn->phys.n > 0) return plan->values[turn->gradient_home].whole;
  }
  return plan->values[v->gradient_home].whole;
}

/* Turns lie behind one another. */
static void place_turns(ronde__plan *plan, const ronde__value *whole) {
  size_t before = 0;
  for (int t = 0; before < (size_t)ronde__phys_elems(&whole->phys); t++) {
    ronde__value *turn = &plan->values[whole->turns + t];
    turn->offset = whole->offset + before * sizeof(float);
    turn->gradient_offset = whole->gradient_offset + before * sizeof(float);
    before += (size_t)ronde__phys_elems(&turn->phys);
  }
}

/* Time: step i runs forward at i, backward at 2 * n_steps - 1 - i. */
ronde_status ronde__plan_place_memory(ronde__plan *plan, const ronde_graph *graph, bool transient_gradients) {
  int s = plan->n_steps, v = plan->n_values;
  int *life;
  lifetimes l = {0};
  RONDE__ALLOC(life, (size_t)v * 4 * sizeof *life, "memory plan");
  l.blocks = ronde__alloc((size_t)(2 * v + 3 * s + plan->n_params) * sizeof *l.blocks);
  if (!l.blocks) {
    ronde__free(life);
    return ronde__fail(RONDE_E_MEMORY, "memory plan: no memory for %d steps", s);
  }
  int *first = life, *last = life + v, *gradient_first = life + 2 * v, *gradient_last = life + 3 * v;
  for (int i = 0; i < v; i++) first[i] = gradient_first[i] = 2 * s, last[i] = gradient_last[i] = -1;
  for (int i = 0; i < s; i++) {
    ronde__plan_step *step = &plan->steps[i];
    int back = 2 * s - 1 - i;
    ronde__operands again = ronde__op_backward_reads(step->op, &step->desc);
    for (int j = 0; j < step->desc.n_outputs; j++) {
      bool kept = step->has_backward && again.out >> j & 1;
      int out = plan->values[step->out[j]].whole;
      first[out] = (int)ronde__min(first[out], i);
      last[out] = (int)ronde__max(last[out], kept ? back : i);
    }
    for (int j = 0; j < step->desc.n_inputs; j++) {
      bool kept = step->has_backward && again.in >> j & 1;
      int in = plan->values[step->in[j]].whole;
      last[in] = (int)ronde__max(last[in], kept ? back : i);
    }
    if (step->has_backward) {
      for (int j = 0; j < step->desc.n_outputs; j++) {
        int home = gradient_place(plan, step->out[j]);
        gradient_last[home] = (int)ronde__max(gradient_last[home], back);
      }
      for (int j = 0; j < step->desc.n_inputs; j++) {
        if (!step->desc.need_dinput[j]) continue;
        int home = gradient_place(plan, step->in[j]);
        gradient_first[home] = (int)ronde__min(gradient_first[home], back);
      }
    }
    add_block(&l, step->saved_bytes, i, step->has_backward ? back : i, &step->saved_offset);
    add_block(&l, step->work_bytes[0], i, i, &step->work_offset[0]);
    add_block(&l, step->work_bytes[1], back, back, &step->work_offset[1]);
  }
  if (plan->output >= 0) last[plan->output] = (int)ronde__max(last[plan->output], s);
  keep_messages(plan, first, last, gradient_first, gradient_last);
  for (int i = 0; i < plan->n_taken; i++) {
    if (last[plan->taken[i]] < 0) plan->taken[i] = -1;
    else first[plan->taken[i]] = 0;
  }
  for (int i = 0; i < v; i++) {
    ronde__value *value = &plan->values[i];
    size_t bytes = ronde__phys_bytes(&value->phys);
    if (value->whole != i) continue;
    if (!value->external && first[i] <= last[i])
      add_block(&l, value->next_offset + bytes, first[i], last[i], &value->offset);
    if (gradient_place(plan, i) == i && value->has_gradient && gradient_first[i] <= gradient_last[i])
      add_block(&l, bytes, gradient_first[i], gradient_last[i], &value->gradient_offset);
  }
  if (transient_gradients) add_gradients(&l, plan, graph);
  ronde_status status = ronde__arena_place(l.blocks, l.n, &plan->arena_bytes);
  for (int i = 0; i < v; i++) plan->values[i].gradient_offset = plan->values[gradient_place(plan, i)].gradient_offset;
  for (int i = 0; i < v; i++)
    if (plan->values[i].turns >= 0) place_turns(plan, &plan->values[i]);
  ronde__free(l.blocks);
  ronde__free(life);
  return status;
}

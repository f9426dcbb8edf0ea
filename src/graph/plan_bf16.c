/* The format of values: bfloat16 between layers that multiply in it. A value is rounded once, where it is made, and
 * whatever reads it moves half the bytes. The choice is made on the whole plan, so that it does not depend on stages. */
#include "graph/plan.h"

/* How the steps of a plan take a value. */
typedef struct takers {
  bool refused;  /* by one of them, at least */
  bool multiply; /* one of them, in bfloat16 */
} takers;

static void ask(const ronde__plan_step *step, int value, bool can, takers *of) {
  of[value].refused |= !can;
  of[value].multiply |= can && step->desc.form->multiplies_bf16;
}

static void ask_step(const ronde__plan_step *step, takers *of) {
  const ronde__form *form = step->desc.form;
  for (int i = 0; i < step->desc.n_inputs; i++) ask(step, step->in[i], form && form->bf16.in >> i & 1, of);
  for (int i = 0; i < step->desc.n_outputs; i++) ask(step, step->out[i], form && form->bf16.out >> i & 1, of);
}

static bool may_be_bf16(const ronde__plan *plan, int value) {
  const ronde__value *v = &plan->values[value];
  return v->phys.layout == RONDE__BLOCKS && !v->external && !v->split && v->whole == value && v->turns < 0 &&
         value != plan->output;
}

static bool is_bf16(const ronde__plan *plan, int value, const takers *of) {
  return may_be_bf16(plan, value) && !of[value].refused && of[value].multiply;
}

/* A step that takes its values in one format refuses all where one cannot be bfloat16. Whether it refused any. */
static bool refuse_together(const ronde__plan *plan, const ronde__plan_step *step, takers *of) {
  bool all = true, is_new = false;
  if (!step->desc.form || !step->desc.form->one_format) return false;
  for (int i = 0; i < step->desc.n_inputs; i++) all &= is_bf16(plan, step->in[i], of);
  for (int i = 0; i < step->desc.n_outputs; i++) all &= is_bf16(plan, step->out[i], of);
  for (int i = 0; i < step->desc.n_inputs && !all; i++)
    is_new |= !of[step->in[i]].refused, of[step->in[i]].refused = true;
  for (int i = 0; i < step->desc.n_outputs && !all; i++)
    is_new |= !of[step->out[i]].refused, of[step->out[i]].refused = true;
  return is_new;
}

static bool refuse_any(const ronde__plan *plan, takers *of) {
  bool any = false;
  for (int i = 0; i < plan->n_steps; i++) any |= refuse_together(plan, &plan->steps[i], of);
  return any;
}

ronde_status ronde__plan_choose_bf16(ronde__plan *plan) {
  takers *of;
  RONDE__ALLOC(of, (size_t)plan->n_values * sizeof *of, "plan");
  for (int i = 0; i < plan->n_steps; i++) ask_step(&plan->steps[i], of);
  while (refuse_any(plan, of)) {
  }
  for (int i = 0; i < plan->n_values; i++) plan->values[i].phys.bf16 = is_bf16(plan, i, of);
  for (int i = 0; i < plan->n_steps; i++) {
    ronde__plan_step *step = &plan->steps[i];
    for (int j = 0; j < step->desc.n_inputs; j++) step->desc.in[j].bf16 = plan->values[step->in[j]].phys.bf16;
    for (int j = 0; j < step->desc.n_outputs; j++) step->desc.out[j].bf16 = plan->values[step->out[j]].phys.bf16;
  }
  ronde__free(of);
  return RONDE_OK;
}

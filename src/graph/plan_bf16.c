/* The format of values: bfloat16 between layers that multiply in it. A value is rounded once, where it is made, and
 * whatever reads it moves half the bytes. The choice is made on the whole plan, so that it does not depend on stages. */
#include "graph/plan.h"

/* How the steps of a plan take a value. */
typedef struct takers {
  bool refused;  /* by one of them, at least */
  bool multiply; /* one of them, in bfloat16, or behind a step that has one format for all of its values */
} takers;

static void ask(const ronde__plan_step *step, int value, bool can, takers *of) {
  of[value].refused |= !can;
  of[value].multiply |= can && step->desc.form->multiplies_bf16;
}

static void ask_step(const ronde__plan_step *step, takers *of) {
  const ronde__form *form = step->desc.compute.bf16 ? step->desc.form : NULL;
  for (int i = 0; i < step->desc.n_inputs; i++) ask(step, step->in[i], form && form->bf16.in >> i & 1, of);
  for (int i = 0; i < step->desc.n_outputs; i++) ask(step, step->out[i], form && form->bf16.out >> i & 1, of);
}

static bool may_be_bf16(const ronde__plan *plan, int value) {
  const ronde__value *v = &plan->values[value];
  return v->phys.layout == RONDE__BLOCKS && !v->external && !v->split && v->whole == value && v->turns < 0 &&
         value != plan->output;
}

static takers both(takers a, takers b) { return (takers){a.refused || b.refused, a.multiply || b.multiply}; }

/* Gives `all` to a value; whether that is new to it. */
static bool give(takers *to, takers all) {
  bool is_new = to->refused != all.refused || to->multiply != all.multiply;
  *to = all;
  return is_new;
}

/* What is said of one of the values that a step takes in one format is said of all of them. Whether anything changed. */
static bool share(const ronde__plan_step *step, takers *of) {
  const ronde__op_desc *d = &step->desc;
  takers all = {0};
  bool changed = false;
  if (!d->form || !d->form->one_format) return false;
  for (int i = 0; i < d->n_inputs; i++)
    if (d->form->bf16.in >> i & 1) all = both(all, of[step->in[i]]);
  for (int i = 0; i < d->n_outputs; i++)
    if (d->form->bf16.out >> i & 1) all = both(all, of[step->out[i]]);
  for (int i = 0; i < d->n_inputs; i++)
    if (d->form->bf16.in >> i & 1) changed |= give(&of[step->in[i]], all);
  for (int i = 0; i < d->n_outputs; i++)
    if (d->form->bf16.out >> i & 1) changed |= give(&of[step->out[i]], all);
  return changed;
}

static bool share_all(const ronde__plan *plan, takers *of) {
  bool changed = false;
  for (int i = 0; i < plan->n_steps; i++) changed |= share(&plan->steps[i], of);
  return changed;
}

ronde_status ronde__plan_choose_bf16(ronde__plan *plan) {
  takers *of;
  RONDE__ALLOC(of, (size_t)plan->n_values * sizeof *of, "plan");
  for (int i = 0; i < plan->n_values; i++) of[i].refused = !may_be_bf16(plan, i);
  for (int i = 0; i < plan->n_steps; i++) ask_step(&plan->steps[i], of);
  while (share_all(plan, of)) continue;
  for (int i = 0; i < plan->n_values; i++) plan->values[i].phys.bf16 = !of[i].refused && of[i].multiply;
  for (int i = 0; i < plan->n_steps; i++) {
    ronde__plan_step *step = &plan->steps[i];
    for (int j = 0; j < step->desc.n_inputs; j++) step->desc.in[j].bf16 = plan->values[step->in[j]].phys.bf16;
    for (int j = 0; j < step->desc.n_outputs; j++) step->desc.out[j].bf16 = plan->values[step->out[j]].phys.bf16;
  }
  ronde__free(of);
  return RONDE_OK;
}

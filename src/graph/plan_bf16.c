/* The format of values: bfloat16 between layers that multiply in it. A value is rounded once, where it is made, and
 * whatever reads it moves half the bytes. The choice is made on the whole plan, so that it does not depend on stages. */
#include "graph/plan.h"

/* How the steps of a plan take a value. */
typedef struct takers {
  bool refused;  /* by one of them, at least */
  bool multiply; /* one of them, in bfloat16, or behind a step that passes this on */
  bool other;    /* one of them reads it for something else */
} takers;

static void ask(const ronde__plan_step *step, int value, bool can, takers *of) {
  of[value].refused |= !can;
  of[value].multiply |= can && step->desc.form->multiplies_bf16;
}

static void ask_step(const ronde__plan_step *step, takers *of) {
  const ronde__form *form = step->desc.compute.bf16 ? step->desc.form : NULL;
  for (int i = 0; i < step->desc.n_inputs; i++) {
    ask(step, step->in[i], form && form->bf16.in >> i & 1, of);
    of[step->in[i]].other |= !form || !form->multiplies_bf16;
  }
  for (int i = 0; i < step->desc.n_outputs; i++) ask(step, step->out[i], form && form->bf16.out >> i & 1, of);
}

/* Of what only products may read in bfloat16, once all have been asked. */
static void refuse_others(const ronde__plan_step *step, takers *of) {
  for (int i = 0; i < step->desc.n_outputs; i++)
    of[step->out[i]].refused |= step->desc.form && step->desc.form->for_products && of[step->out[i]].other;
}

static bool may_be_bf16(const ronde__plan *plan, int value) {
  const ronde__value *v = &plan->values[value];
  return v->phys.layout == RONDE__BLOCKS && !v->external && !v->split && v->whole == value && v->turns < 0 &&
         value != plan->output;
}

/* What holds of one of a step's values, or of each. */
static void share_with(const takers *one, takers *all) {
  all->refused |= one->refused;
  all->multiply |= one->multiply;
}

/* Gives `all` to a value, but whether it may be bfloat16 only where the step has one format; whether that is new to it. */
static bool give(takers *to, const takers *all, bool one_format) {
  const takers was = *to;
  to->refused |= one_format && all->refused;
  to->multiply |= all->multiply;
  return to->refused != was.refused || to->multiply != was.multiply;
}

/* What is said of one of a step's values is said of all of them. Whether anything changed. */
static bool share(const ronde__plan_step *step, takers *of) {
  const ronde__op_desc *d = &step->desc;
  takers all = {0};
  bool changed = false;
  if (!d->form || !(d->form->one_format || d->form->passes_on)) return false;
  for (int i = 0; i < d->n_inputs; i++)
    if (d->form->bf16.in >> i & 1) share_with(&of[step->in[i]], &all);
  for (int i = 0; i < d->n_outputs; i++)
    if (d->form->bf16.out >> i & 1) share_with(&of[step->out[i]], &all);
  for (int i = 0; i < d->n_inputs; i++)
    if (d->form->bf16.in >> i & 1) changed |= give(&of[step->in[i]], &all, d->form->one_format);
  for (int i = 0; i < d->n_outputs; i++)
    if (d->form->bf16.out >> i & 1) changed |= give(&of[step->out[i]], &all, d->form->one_format);
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
  for (int i = 0; i < plan->n_steps; i++) refuse_others(&plan->steps[i], of);
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

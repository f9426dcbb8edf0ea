/* The prepared ops of eager passes, found again by their descriptions. */
#include "graph/prepared.h"

#include <stdlib.h>
#include <string.h>

/* A network has some hundred ops, in as many shapes as there are batch sizes, times training and evaluation. */
enum { MAX_STEPS = 2048 };

struct ronde__prepared {
  ronde__plan_step *steps;
  int n_steps;
};

ronde_status ronde__prepared_create(ronde__prepared **prepared_out) {
  ronde__prepared *prepared;
  RONDE__ALLOC(prepared, sizeof *prepared, "prepared ops");
  *prepared_out = prepared;
  return RONDE_OK;
}

static void forget(ronde__prepared *prepared) {
  for (int i = 0; i < prepared->n_steps; i++) ronde__plan_step_release(&prepared->steps[i]);
  prepared->n_steps = 0;
}

void ronde__prepared_destroy(ronde__prepared *prepared) {
  if (!prepared) return;
  forget(prepared);
  free(prepared->steps);
  ronde__free(prepared);
}

void ronde__prepared_trim(ronde__prepared *prepared) {
  if (prepared->n_steps > MAX_STEPS) forget(prepared);
}

int ronde__prepared_count(const ronde__prepared *prepared) { return prepared->n_steps; }

/* The form follows from the rest; the layer only tells calls apart, and is no part of a state. Attributes are compared
 * as bytes: where their padding differed, an op would be prepared twice. */
static bool same_desc(const ronde__op_desc *a, const ronde__op_desc *b) {
  if (a->n_inputs != b->n_inputs || a->n_outputs != b->n_outputs || a->n_params != b->n_params ||
      a->n_buffers != b->n_buffers)
    return false;
  for (int i = 0; i < a->n_inputs; i++)
    if (!ronde__phys_equal(&a->in[i], &b->in[i]) || a->need_dinput[i] != b->need_dinput[i]) return false;
  for (int i = 0; i < a->n_params; i++)
    if (!ronde__weight_layout_equal(&a->param[i], &b->param[i]) || a->frozen[i] != b->frozen[i]) return false;
  for (int i = 0; i < a->n_outputs; i++)
    if (!ronde__phys_equal(&a->out[i], &b->out[i])) return false;
  return memcmp(&a->attr, &b->attr, sizeof a->attr) == 0 && ronde__weight_layout_equal(&a->buffer, &b->buffer);
}

static ronde__plan_step *prepared_find(const ronde__prepared *prepared, const ronde__plan_step *step) {
  for (int i = 0; i < prepared->n_steps; i++) {
    ronde__plan_step *known = &prepared->steps[i];
    if (known->op == step->op && known->has_backward == step->has_backward && same_desc(&known->desc, &step->desc))
      return known;
  }
  return NULL;
}

static ronde_status prepared_add(ronde__prepared *prepared, const ronde__plan_options *options,
                                 ronde__plan_step *step) {
  int n = prepared->n_steps;
  if ((n & (n - 1)) == 0) {
    ronde__plan_step *steps = realloc(prepared->steps, (n ? 2 * (size_t)n : 1) * sizeof *steps);
    if (!steps) return ronde__fail(RONDE_E_MEMORY, "prepared ops: no memory for %d", n + 1);
    prepared->steps = steps;
  }
  ronde_status status = ronde__form_choose(step->op, &step->desc);
  if (status == RONDE_OK) status = ronde__plan_step_prepare(step, options);
  if (status != RONDE_OK) ronde__plan_step_release(step);
  else prepared->steps[prepared->n_steps++] = *step;
  return status;
}

ronde_status ronde__prepared_get(ronde__prepared *prepared, const ronde__plan_options *options,
                                 ronde__plan_step *step) {
  const ronde__plan_step *known = prepared_find(prepared, step);
  if (!known) return prepared_add(prepared, options, step);
  step->desc.form = known->desc.form;
  step->state = known->state;
  step->saved_bytes = known->saved_bytes;
  step->forward_slot = known->forward_slot;
  step->backward_slot = known->backward_slot;
  step->forward_flops = known->forward_flops;
  step->backward_flops = known->backward_flops;
  memcpy(step->work_bytes, known->work_bytes, sizeof step->work_bytes);
  return RONDE_OK;
}

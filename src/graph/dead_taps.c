/* Where the gradients of a plan's parameters are zero whatever the examples: taps of convolutions that meet nothing but
 * padding, as stretches of the flat arrays. */
#include "graph/plan.h"

/* A tied parameter has a gradient where any of its steps gives one. */
static bool dead_taps_is_dead(const ronde__plan *plan, int param, int64_t tap) {
  bool dead = false;
  for (int i = 0; i < plan->n_steps; i++) {
    const ronde__plan_step *step = &plan->steps[i];
    for (int j = 0; j < step->desc.n_params; j++) {
      if (step->param[j] != param) continue;
      if (j > 0 || !step->op->dead_tap || !step->op->dead_tap(&step->desc, tap)) return false;
      dead = true;
    }
  }
  return dead;
}

/* Behind those of [n] that are there; where out is NULL they are only counted. */
static int dead_taps_append(const ronde__plan *plan, const ronde__net_param *params, int param, ronde__range *out,
                            int n) {
  const ronde__weight_layout *layout = &params[param].layout;
  /* Elsewhere a tap is no stretch of memory; those are the few weights of layers with few channels. */
  if (params[param].frozen || layout->form != RONDE__BLOCKED) return n;
  size_t slab = params[param].n_packed / (size_t)(ronde__ceil_div(layout->o, layout->block_o) * layout->t);
  bool joins = false;
  for (size_t at = 0; at < params[param].n_packed; at += slab) {
    bool dead = dead_taps_is_dead(plan, param, (int64_t)(at / slab) % layout->t);
    if (dead && !joins) {
      if (out) out[n] = (ronde__range){params[param].offset + at, 0};
      n++;
    }
    if (dead && out) out[n - 1].n += slab;
    joins = dead;
  }
  return n;
}

ronde_status ronde__plan_dead_taps(const ronde__plan *plan, const ronde__net_param *params, ronde__range **dead_out,
                                   int *n_out) {
  ronde__range *dead;
  int n = 0;
  for (int i = 0; i < plan->n_params; i++) n = dead_taps_append(plan, params, i, NULL, n);
  RONDE__ALLOC(dead, (size_t)n * sizeof *dead, "network");
  n = 0;
  for (int i = 0; i < plan->n_params; i++) n = dead_taps_append(plan, params, i, dead, n);
  *dead_out = dead;
  *n_out = n;
  return RONDE_OK;
}

/* The order of the steps of split layers, whose examples go through in turns (plan_split.c).
 * A stretch of such steps has levels, each behind an exchange. Within a level all of a turn's steps come before those of
 * the next turn, from the ends of its exchanges on to the beginnings of those behind it. So an exchange begins as soon as
 * its turn has been computed, and the other turns of the level are computed while it is under way. In backward, which has
 * the same order reversed, a level ends with the gradients of its weights, of all turns, during which what the last turns
 * have begun to send is under way too. All ranks have the same order, and no sum depends on it. */
#include "graph/plan.h"

#include <stdlib.h>

typedef struct place {
  int level, turn, at; /* turn RONDE__ALL_TURNS first; at: as it was */
} place;

static int by_place(const void *a, const void *b) {
  const place *x = a, *y = b;
  if (x->level != y->level) return x->level - y->level;
  return x->turn != y->turn ? x->turn - y->turn : x->at - y->at;
}

/* levels [values]: of who computes it within the stretch, 0 before it. */
static int level_of(const ronde__plan *plan, const ronde__plan_step *step, const int *levels) {
  int level = 0;
  for (int i = 0; i < step->desc.n_inputs; i++) level = (int)ronde__max(level, levels[plan->values[step->in[i]].whole]);
  return level + (step->op == &ronde__op_exchange_end);
}

/* Steps [begin, end) are all of split layers. */
static void order_stretch(ronde__plan *plan, int begin, int end, int *levels, place *places, ronde__plan_step *steps) {
  for (int i = 0; i < plan->n_values; i++) levels[i] = 0;
  for (int i = begin; i < end; i++) {
    const ronde__plan_step *step = &plan->steps[i];
    int level = level_of(plan, step, levels);
    steps[i - begin] = *step;
    places[i - begin] = (place){level, step->desc.turn.number, i - begin};
    for (int j = 0; j < step->desc.n_outputs; j++) levels[plan->values[step->out[j]].whole] = level;
  }
  qsort(places, (size_t)(end - begin), sizeof *places, by_place);
  for (int i = begin; i < end; i++) plan->steps[i] = steps[places[i - begin].at];
}

ronde_status ronde__plan_order_turns(ronde__plan *plan) {
  size_t n = (size_t)plan->n_steps;
  int *levels;
  RONDE__ALLOC(levels, (size_t)plan->n_values * sizeof *levels, "plan");
  place *places = ronde__alloc(n * sizeof *places);
  ronde__plan_step *steps = ronde__alloc(n * sizeof *steps);
  bool has_memory = places && steps;
  for (int begin = 0, end; begin < plan->n_steps && has_memory; begin = end) {
    for (end = begin + 1; end < plan->n_steps && plan->steps[end].split == plan->steps[begin].split; end++) continue;
    if (plan->steps[begin].split) order_stretch(plan, begin, end, levels, places, steps);
  }
  ronde__free(steps);
  ronde__free(places);
  ronde__free(levels);
  return has_memory ? RONDE_OK : ronde__fail(RONDE_E_MEMORY, "plan: no memory to order %zu steps", n);
}

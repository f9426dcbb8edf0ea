/* One worker: the baseline that every strategy is measured against. */
#include "strategy/strategy.h"

static ronde_status create(ronde__worker *worker, void **state_out) {
  *state_out = worker;
  return RONDE_OK;
}

static ronde_status step(void *state, const ronde__step *step, ronde__step_result *result_out) {
  ronde__worker *worker = state;
  ronde__part part;
  RONDE_TRY(ronde__worker_gradients(worker, step, NULL, NULL, &part));
  *result_out = ronde__parts_join(&part, 1);
  if (result_out->broken_rank < 0) ronde__worker_update(worker, step->lr);
  ronde__prof_switch(worker->prof, RONDE__PHASE_OTHER);
  return RONDE_OK;
}

static void destroy(void *state) {}

const ronde__strategy ronde__strategy_single = {"single", NULL, create, step, destroy, 1, 1};

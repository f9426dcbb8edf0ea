/* One worker, with L-BFGS. */
#include "strategy/lbfgs_steps.h"

extern const ronde__strategy ronde__strategy_single;

static ronde_status evaluate(void *worker, const ronde__step *step, ronde__step_result *result_out) {
  return ronde__worker_evaluate(worker, step, result_out);
}

static ronde_status create(ronde__worker *worker, const ronde__strategy_settings *settings, void **state_out) {
  return ronde__lbfgs_steps_create(&ronde__strategy_single, evaluate, worker, settings, state_out);
}

static const char *const options[] = {RONDE__OPTIONS_OF_STEPS, RONDE__OPTIONS_OF_LBFGS, NULL};

const ronde__strategy ronde__strategy_single_lbfgs = {
    .name = "single",
    RONDE__LBFGS_ROW,
    .options = options,
    .max_workers = 1,
    .create = create,
};

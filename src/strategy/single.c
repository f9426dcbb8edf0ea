/* One worker: the baseline that every strategy is measured against. */
#include "strategy/lbfgs_steps.h"

static ronde_status single_create(ronde__worker *worker, const ronde__strategy_settings *settings, void **state_out) {
  *state_out = worker;
  /* L-BFGS takes the gradients for a vector like any other. */
  return ronde__lbfgs_is_meant(settings) ? RONDE_OK : ronde__net_track_rows(worker->net);
}

static ronde_status single_step(void *state, const ronde__step *step, ronde__step_result *result_out) {
  return ronde__worker_step(state, step, result_out);
}

static void single_destroy(void *state) {}

static const char *const options[] = {RONDE__OPTIONS_OF_STEPS, RONDE__OPTIONS_OF_LBFGS, NULL};

const ronde__strategy ronde__strategy_single = {
    .name = "single",
    .options = options,
    .min_workers = 1,
    .max_workers = 1,
    .fuses_alone = true,
    .waits_for_all = true,
    .equals_one = true,
    .create = single_create,
    .step = single_step,
    .destroy = single_destroy,
};

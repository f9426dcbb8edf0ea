/* All-reduce, with L-BFGS: every rank makes the same line search by the gradient of the whole batch. */
#include "strategy/allreduce.h"
#include "strategy/lbfgs_steps.h"

static ronde_status create(ronde__worker *worker, const ronde__strategy_settings *settings, void **state_out) {
  return ronde__lbfgs_steps_create(&ronde__strategy_allreduce, ronde__allreduce_gradients, worker, settings, state_out);
}

static void facts(const void *state, const ronde__service *services, void *facts_out) {
  ronde__strategy_allreduce.facts(ronde__lbfgs_steps_base(state), services, facts_out);
}

static void record(const void *state, const void *facts, int n_ranks, json_t *communication) {
  ronde__strategy_allreduce.record(ronde__lbfgs_steps_base(state), facts, n_ranks, communication);
}

const ronde__strategy ronde__strategy_allreduce_lbfgs = {
    .name = "allreduce",
    RONDE__LBFGS_ROW,
    .options = ronde__allreduce_options,
    .all_reduces = true,
    .create = create,
    .records = (const char *const[]){"collective", "busbw_bytes_per_s", NULL},
    .facts_bytes = sizeof(ronde__bus),
    .facts = facts,
    .record = record,
};

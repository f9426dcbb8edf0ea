/* Steps of L-BFGS over a strategy that can compute the gradient of the whole batch on every rank: what the variants of
 * such strategies for --optimizer lbfgs share. Each rank makes the same line search on the same numbers, so nothing but
 * gradients and losses is exchanged. The batches of a step stay in the loader's memory, to be evaluated again. */
#ifndef RONDE_LBFGS_STEPS_H
#define RONDE_LBFGS_STEPS_H

#include "optim/lbfgs.h"
#include "strategy/strategy.h"

/* ---- what all steps of L-BFGS share, whoever holds the vectors ---- */

typedef struct ronde__lbfgs_run {
  ronde__lbfgs *lbfgs;
  ronde__prof *prof;
  int update_slot; /* of the optimizer, in the ledger */
  /* The loss and the gradient of the step's examples at WEIGHTS, in GRADIENT. */
  ronde_status (*evaluate)(void *user, const ronde__step *step, ronde__step_result *result_out);
  void *user;
} ronde__lbfgs_run;
/* A step whose loss or gradient is not finite where it begins, or at all points that were tried, is broken, and leaves
 * the weights as they were. */
ronde_status ronde__lbfgs_run_step(const ronde__lbfgs_run *run, const ronde__step *step,
                                   ronde__step_result *result_out);
ronde__lbfgs_options ronde__lbfgs_options_of(const ronde__options *options);
/* Its memory as a checkpoint's note. */
json_t *ronde__lbfgs_note(const ronde__lbfgs_memory *memory);
ronde_status ronde__lbfgs_read_note(const json_t *note, int history, ronde__lbfgs_memory *memory_out);

/* ---- over a strategy ---- */

/* The loss and the gradient of the step's examples at the net's weights, in the net's gradients; alike on all ranks. */
typedef ronde_status (*ronde__evaluate)(void *state, const ronde__step *step, ronde__step_result *result_out);

/* What the rows of all variants have. */
#define RONDE__LBFGS_ROW                                                                                           \
  .is_meant = ronde__lbfgs_is_meant, .min_workers = 1, .rereads = true, .waits_for_all = true, .equals_one = true, \
  .needs_values = true, .more_bytes = ronde__lbfgs_more_bytes, .step = ronde__lbfgs_steps_step,                    \
  .destroy = ronde__lbfgs_steps_destroy, .note = ronde__lbfgs_steps_note

/* Of a row: is_meant, */
bool ronde__lbfgs_is_meant(const ronde__strategy_settings *settings);
size_t ronde__lbfgs_more_bytes(const ronde__strategy_settings *settings, size_t gradients, size_t optimizer);
/* create, given the strategy that computes the gradients, whose state this one owns, */
ronde_status ronde__lbfgs_steps_create(const ronde__strategy *base, ronde__evaluate evaluate, ronde__worker *worker,
                                       const ronde__strategy_settings *settings, void **state_out);
/* and the rest. */
ronde_status ronde__lbfgs_steps_step(void *state, const ronde__step *step, ronde__step_result *result_out);
void ronde__lbfgs_steps_destroy(void *state);
json_t *ronde__lbfgs_steps_note(const void *state);
void *ronde__lbfgs_steps_base(const void *state);

#endif

/* Steps of L-BFGS over a strategy that can compute the gradient of the whole batch on every rank: what the variants of
 * such strategies for --optimizer lbfgs share. Each rank makes the same line search on the same numbers, so nothing but
 * gradients and losses is exchanged. The batches of a step stay in the loader's memory, to be evaluated again. */
#ifndef RONDE_LBFGS_STEPS_H
#define RONDE_LBFGS_STEPS_H

#include "strategy/strategy.h"

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
/* and the rest. A step whose loss or gradient is not finite where it begins, or at all points that were tried, is
 * broken, and leaves the weights as they were. */
ronde_status ronde__lbfgs_steps_step(void *state, const ronde__step *step, ronde__step_result *result_out);
void ronde__lbfgs_steps_destroy(void *state);
json_t *ronde__lbfgs_steps_note(const void *state);
void *ronde__lbfgs_steps_base(const void *state);

#endif

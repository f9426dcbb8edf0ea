/* What variants of allreduce, and other strategies that all-reduce, share with it. */
#ifndef RONDE_ALLREDUCE_H
#define RONDE_ALLREDUCE_H

#include "strategy/strategy.h"

/* Exchanges in which nobody was waited for: their time, and the bytes that the algorithm must move in it. What a rank
 * tells of itself. */
typedef struct ronde__bus {
  uint64_t ns, bytes;
} ronde__bus;

/* An exchange of these bytes of gradients took so long. */
void ronde__bus_add(ronde__bus *bus, uint64_t ns, size_t bytes, int n_ranks);
/* The collective, and the rate of all ranks' exchanges, into `communication` of run.json. */
void ronde__bus_record(const ronde__bus *all, const ronde__strategy_settings *settings, json_t *communication);

extern const ronde__strategy ronde__strategy_allreduce;
extern const char *const ronde__allreduce_options[];

/* Of a step that makes no update by itself: afterwards the net's gradients are those of the whole batch, on every rank.
 * state: allreduce's. Cost: that of the all-reduce of all gradients. */
ronde_status ronde__allreduce_gradients(void *state, const ronde__step *step, ronde__step_result *result_out);

#endif

/* Who keeps the others waiting in synchronous steps: how often a rank was the last to be ready, what that cost, and
 * where its time had gone. Every rank tells its times since the ranks last met, by its own clock (strategy.h), so that
 * nothing here depends on clocks that agree. */
#ifndef RONDE_STRAGGLER_H
#define RONDE_STRAGGLER_H

#include "base/base.h"

/* What can make a rank late: X(name, text). compute is forward and backward; exchange is what data took to move, not
 * the waiting for other ranks; other is all the rest, evaluation and checkpoints included. */
#define RONDE__STRAGGLER_LIST(X) X(LOAD, "load") X(COMPUTE, "compute") X(EXCHANGE, "exchange") X(OTHER, "other")

typedef enum ronde__straggler_cause {
#define RONDE_X(name, text) RONDE__STRAGGLER_##name,
  RONDE__STRAGGLER_LIST(RONDE_X)
#undef RONDE_X
      RONDE__N_STRAGGLER_CAUSES
} ronde__straggler_cause;

const char *ronde__straggler_name(ronde__straggler_cause cause);

/* The steps in which a rank was the last. */
typedef struct ronde__straggler_row {
  int64_t steps;
  double waited_s, waited_median_s; /* what each of the others waited for it, on average: over those steps; of one */
  /* By how much each of its times was above the median of the other ranks' in these steps: sums, which may be below 0.
   * Together they are what it was late by. */
  double above_s[RONDE__N_STRAGGLER_CAUSES];
} ronde__straggler_row;

/* The largest of them; to be asked where there are steps. */
ronde__straggler_cause ronde__straggler_row_cause(const ronde__straggler_row *row);

struct ronde__local_result;
typedef struct ronde__straggler ronde__straggler;

/* Of n_ranks > 1. Memory does not grow with the steps: 4 KiB a rank. */
ronde_status ronde__straggler_create(int n_ranks, ronde__straggler **straggler_out);
void ronde__straggler_destroy(ronde__straggler *straggler); /* NULL is taken */
/* From now on results are of these ranks alone, [n] of the caller's. */
void ronde__straggler_be_among(ronde__straggler *straggler, const int *ranks, int n);
/* A step: the results [ranks] of all. Of equally late ranks the first counts as the last. */
void ronde__straggler_note(ronde__straggler *straggler, const struct ronde__local_result *results);
/* The median is exact up to 1024 steps of the rank, and beyond that of so many drawn at random. */
ronde__straggler_row ronde__straggler_row_of(const ronde__straggler *straggler, int rank);

#endif

/* Steps to a target accuracy over batch sizes: batches.c searches and measures, batches_regimes.c draws the conclusions. */
#ifndef TOOL_BATCHES_H
#define TOOL_BATCHES_H

#include "common.h"

/* What was found of a batch size: whether it may be concluded from, and why not. */
typedef struct tool_batch {
  int64_t batch;
  int rate;                         /* index of the best learning rate; -1: the target was reached with none */
  double lr;                        /* that rate, or NAN */
  double least;                     /* steps to the target that it took in the search; NAN: not reached */
  int64_t every;                    /* epochs between the tests of its trainings; 0: as the call says */
  bool is_at_edge;                  /* of the grid: a better one may lie outside */
  int n_seeds, n_reached, n_coarse; /* coarse: reached by the first test */
} tool_batch;

/* Adds to a record, whose cases are batches [n] in ascending order with the figure steps_to_target by seed, what a larger
 * batch saves: the figures of_perfect and fewer_steps of each case, what forbids a conclusion from it (open), and `regimes`
 * of the whole: where perfect scaling ends, where scaling stops, and a text that says so. */
ronde_status tool_batches_conclude(ronde_measurement *record, const tool_batch *batches, int n);
void tool_batches_print(const json_t *bench);

#endif

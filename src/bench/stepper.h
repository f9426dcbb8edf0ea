/* A training step by itself, on one batch in memory: what `bench step` times, and `bench kernels` takes apart. */
#ifndef RONDE_STEPPER_H
#define RONDE_STEPPER_H

#include "job/job.h"
#include <ronde/measure.h>

struct ronde_stepper {
  ronde__job *job;
  ronde_graph *graph;
  ronde__worker worker;
  float *x;                /* [batch][elems] */
  int64_t *labels;         /* [batch][n_labels] */
  int64_t elems, n_labels; /* of an example */
  int64_t n_steps;         /* done */
};

/* rows_by_layer: the ledger, which is then kept, has a row for each layer. */
ronde_status ronde__stepper_create(const ronde_config *config, bool rows_by_layer, ronde_stepper **stepper_out);
/* One step; loss_out: the batch's mean loss before the update. */
ronde_status ronde__stepper_step(ronde_stepper *stepper, double *loss_out);

#endif

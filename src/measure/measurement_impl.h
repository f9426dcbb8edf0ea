/* What a measurement holds: measurement.c gathers it, measurement_json.c writes it. */
#ifndef RONDE_MEASUREMENT_IMPL_H
#define RONDE_MEASUREMENT_IMPL_H

#include "measure/measurement.h"

/* What was measured of one figure in each round. */
typedef struct ronde__figure {
  char *name;
  double *samples; /* [n_samples], of all rounds */
  double *medians; /* [n_rounds], of each round's samples */
  int *rounds;     /* [n_rounds], ascending: one that failed is missing */
  int64_t n_samples, n_rounds;
} ronde__figure;

/* A case, or the measurement as a whole. */
typedef struct ronde__measured {
  json_t *facts; /* in the order in which they came */
  ronde__figure *figures;
  int64_t n_figures;
} ronde__measured;

struct ronde_measurement {
  ronde__measured whole, *cases;
  int64_t n_cases;
  json_t *axes;        /* {name: [values]} */
  json_t *differences; /* [{field, text}] */
  char *ranked_by;     /* NULL: not ranked */
  char *reason;        /* why it is not; NULL: none was given */
  ronde_host_look begin;
  ronde_host_load load;
  bool has_begun, has_load;
};

ronde__measured *ronde__measured_of(const ronde_measurement *measurement, int of);  /* NULL: there is no such case */
ronde__figure *ronde__figure_of(const ronde__measured *measured, const char *name); /* NULL: there is none */

#endif

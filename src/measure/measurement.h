/* The record of a measurement (ronde/measure.h), as the library fills it. */
#ifndef RONDE_MEASUREMENT_H
#define RONDE_MEASUREMENT_H

#include "base/base.h"
#include <jansson.h>
#include <ronde/measure.h>

/* As ronde_measurement_set, with the value itself, which is taken over; NULL: there was no memory for it. */
ronde_status ronde__measurement_put(ronde_measurement *measurement, int of, const char *name, json_t *value);

/* statistics.c: the first two of the statistics; errors as ronde_statistics_of. */
ronde_status ronde__median_and_mad(const double *samples, int64_t n, ronde_statistics *statistics_out);

#endif

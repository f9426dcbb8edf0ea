/* --normalize auto|on|off|imagenet|MEAN;STD, and what a file of weights says of it. */
#ifndef RONDE_NORMALIZE_H
#define RONDE_NORMALIZE_H

#include "data/normalization.h"
#include "job/job.h"

#define RONDE__META_NORMALIZE \
  "normalize" /* of a weights' file: "off" where nothing was applied; else normalize_mean, _std */

/* What is to be applied; channels 0: nothing, or, where usual_out is set, what is usual for the data set. Evaluation,
 * prediction and training that starts from weights follow their file, unless the user says something else: then a warning
 * says so. RONDE_E_INPUT where
 * what the file says is no normalisation. */
ronde_status ronde__normalize_choose(const ronde__job *job, bool *usual_out, ronde__normalization *out);
/* The same for an input of the job's shape that no data set normalises, and settled. RONDE_E_INPUT, RONDE_E_USAGE where mean
 * and deviation are of another number of channels. */
ronde_status ronde__normalize_input(ronde__job *job, ronde__normalization *out);
/* Puts what is applied into the job's options, for the record. RONDE_E_USAGE where the user asked for what cannot be. */
ronde_status ronde__normalize_settle(ronde__job *job, const ronde__normalization *applied);

#endif

/* A network that only predicts, with parameters of its own; what ronde_predictor is. */
#ifndef RONDE_PREDICTOR_H
#define RONDE_PREDICTOR_H

#include "state/weights.h"

/* The job's network, with the weights of its --init, which are checked here, or those of a net that has just been trained (with
 * parts: weights.h).
 * Copies all that it needs. `normalization` is applied to what it is given. */
ronde_status ronde__predictor_create(const ronde__job *job, const ronde__net *trained, ronde__parts *parts,
                                     const ronde__normalization *normalization, ronde_predictor **predictor_out);

#endif

/* --strategy measured: which strategy is the fastest for a job, here. */
#ifndef RONDE_TRAIN_MEASURE_H
#define RONDE_TRAIN_MEASURE_H

#include "job/job.h"

/* Makes short runs of the job under each strategy that its options allow, in rounds, on its own data, hosts and
 * transport; no file is written, nothing of these runs is kept. Of several processes all call together, and come to the
 * same choice, by rank 0's figures.
 * mpi: of this process's rank, lent; NULL: all ranks are in this process.
 * named_out: the configuration with the best strategy named, the caller's; costs_out: the table, for run.json.
 * Errors: RONDE_E_USAGE where the options allow no strategy; what ends a training ends a short run too. */
ronde_status ronde__measure_strategies(const ronde_config *config, const ronde_hooks *hooks, ronde__transport *mpi,
                                       ronde_config **named_out, json_t **costs_out);

#endif

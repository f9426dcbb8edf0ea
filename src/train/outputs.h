/* --out, a run's folder: one run at a time writes there, and none over another one. Of the ranks, the one that writes
 * calls these. */
#ifndef RONDE_OUTPUTS_H
#define RONDE_OUTPUTS_H

#include "io/lock.h"
#include "state/checkpoint.h"

/* Whether the checkpoint that is gone on from lies in --out. */
bool ronde__outputs_go_on(const ronde__job *job);
/* Makes the folder and takes its lock. RONDE_E_USAGE where another run writes there; where it holds another run, or goes
 * on behind the checkpoint, and there is no --overwrite. With it, that is removed (what runs write, nothing else); in
 * any case temporary files of runs that were killed are. */
ronde_status ronde__outputs_claim(const ronde__job *job, ronde__lock **lock_out);
/* run.json of the run there, to be freed; NULL where it is not the record of one that was completed. */
char *ronde__outputs_record(const ronde__job *job);
/* FOLDER/last.safetensors from the checkpoint that is gone on from, where it is missing, and --save. */
ronde_status ronde__outputs_from_checkpoint(const ronde__job *job);

#endif

/* One training run: a job, the ranks of it that run in this process, and the record of what all of them did. */
#ifndef RONDE_RUN_H
#define RONDE_RUN_H

#include "base/log_group.h"
#include "base/time.h"
#include "io/sha256.h"
#include "train/outputs.h"
#include "train/rank.h"

typedef struct ronde__run {
  ronde__job *job;
  ronde__rank *ranks; /* [n_ranks] of this process: all, or under MPI one */
  ronde__transport **transports;
  int n_ranks;
  ronde__record record;
  ronde__record_worker *workers; /* [members] */
  ronde__straggler_row *late;    /* [workers of the run]: behind the workers */
  ronde__record_choice choices[6];
  ronde__record_loss *losses; /* [workers of the run] */
  ronde__loss *lost;          /* [workers of the run]: what they say */
  ronde__lock *lock;          /* of --out */
  ronde__disk disk;           /* of the files of this run, where it is `drilled` */
  bool drilled;
  ronde__steps *steps;
  ronde_predictor **predictor_out; /* NULL: not wanted */
  char weights_sha256[RONDE__SHA256_HEX], state_sha256[RONDE__SHA256_HEX];
  uint64_t begin_ns, first_step_ns; /* by the clock of the first rank here, once there is one */
  uint64_t begin_cpu_ns, epoch_cpu_ns;
  int64_t examples_done;
  double first_loss, last_loss; /* of the steps so far */
  bool warned_of_loss;
  uint64_t steps_ns, cold_ns; /* time of the steps so far, and of the first of them */
  int64_t n_steps;
  double *step_seconds; /* --dry-run: [max_steps] */
  int64_t n_step_seconds, max_steps;
  ronde__guard guard; /* of failed and status */
  bool failed;
  ronde__log_group errors; /* of all ranks */
  ronde_status status;     /* the first that is not the echo of another */
  ronde_status kept;       /* of ronde__report_weights, where it was not left to the end */
} ronde__run;

/* Whether rank 0, who reports, is here. */
static inline bool ronde__run_reports(const ronde__run *run) { return run->transports[0]->rank == 0; }

static inline uint64_t ronde__run_now(const ronde__run *run) { return ronde__time_now(run->transports[0]->time); }

/* run.c: the transports and rows of a run that has a job, and their end, also where it was not made whole. */
ronde_status ronde__run_make(ronde__run *run);
void ronde__run_tear_down(ronde__run *run);
/* Trains with all ranks; returns when all have ended. The first error that is not the echo of another. */
ronde_status ronde__run_ranks(ronde__run *run);

/* report.c: memory of all ranks together, which are set up, given a worker's and the bytes of an optimizer's whole state. */
size_t ronde__memory_of_run(const ronde__run *run, const ronde__net_memory *memory, size_t optimizer);
/* Rank 0's ears, with the run as user. */
ronde_status ronde__report_step(void *run, const ronde__step_report *report);
ronde_status ronde__report_epoch(void *run, const ronde__epoch *epoch);
ronde_status ronde__report_saving(void *run);
bool ronde__report_cancel(void *run);
/* What rank 0 does with the weights at the end: hashes, last.safetensors, --save, a predictor. ended: how the ranks did.
 * Where they have parts of the network, while the others tell theirs. */
ronde_status ronde__report_weights(ronde__run *run, ronde_status ended);
/* Writes these, unless ranks have had parts, --trace and run.json as far as the run came; json_out (may be NULL) gets
 * run.json's text. */
ronde_status ronde__report_write(ronde__run *run, char **json_out);
/* --dry-run: the plan, with the time that the first steps took. */
ronde_status ronde__report_plan(const ronde__run *run, char **json_out);

#endif

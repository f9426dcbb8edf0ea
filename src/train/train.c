/* A training from its options to its record. */
#include "train/measure.h"
#include "train/run.h"

#include "comm/sim.h"
#include "io/file.h"
#include "setup/setup.h"

#include <inttypes.h>

enum { DRY_RUN_STEPS = 8 };

/* The disk of the one rank that writes, where --drill plants faults of it. */
static void plant_disk(ronde__run *run) {
  const ronde__drill *slow = &run->job->drills[RONDE__DRILL_SLOW_DISK];
  run->drilled = ronde__run_reports(run) && (slow->on || run->job->drills[RONDE__DRILL_DISK_FULL].on);
  if (!run->drilled) return;
  run->disk = (ronde__disk){.time = run->transports[0]->time, .delay_ns = slow->ns};
  ronde__disk_set(&run->disk);
}

/* ---- in front of the first step ---- */

/* What will be kept, and where the run begins, is said before it is trained. */
static void say_start(const ronde__job *job) {
  const ronde__options *o = job->options;
  const ronde__resume *r = job->resume;
  if (!o->out && !o->save && !job->sim)
    ronde__log(RONDE_LOG_INFO,
               "nothing from this training will be kept: --out DIR keeps weights, checkpoints and the record, --save "
               "FILE the weights");
  if (o->out && (o->save_last || job->checkpoint_steps) && job->strategy->asynchronous)
    ronde__log(RONDE_LOG_INFO,
               "--strategy %s: checkpoints are written when the workers meet, %s: an interruption loses what was "
               "trained since",
               job->strategy->name,
               job->checkpoint_steps ? "every --checkpoint-every steps" : "at the end of each epoch");
  if (r && ronde__progress_is_over(&r->progress, job))
    ronde__log(RONDE_LOG_INFO,
               "the run is complete at step %" PRId64 " (%s): give more --epochs or --steps to continue it",
               r->progress.step, r->path);
  else if (r) ronde__log(RONDE_LOG_INFO, "resuming from step %" PRId64 " (%s)", r->progress.step, r->path);
}

/* Outputs that cannot be written are found before training. complete_out: the run is, its record too; nothing of it is
 * changed. */
static ronde_status open_outputs(ronde__run *run, char **json_out, bool *complete_out) {
  const ronde__job *job = run->job;
  const ronde__options *o = job->options;
  if (o->save) {
    ronde__file_out probe;
    RONDE_TRY(ronde__file_begin(o->save, &probe));
    ronde__file_abandon(&probe);
  }
  if (!o->out) return RONDE_OK;
  RONDE_TRY(ronde__outputs_claim(job, &run->lock));
  bool goes_on = ronde__outputs_go_on(job);
  char *record = goes_on && ronde__progress_is_over(&job->resume->progress, job) ? ronde__outputs_record(job) : NULL;
  if (!record) {
    RONDE_TRY(ronde__epochs_cut(o->out, goes_on ? ronde__progress_epoch(&job->resume->progress, job) : 1));
    return ronde__steps_open(o->out, goes_on ? job->resume->progress.step : 0, &run->steps);
  }
  *complete_out = true;
  if (json_out) *json_out = record;
  else free(record);
  return ronde__outputs_from_checkpoint(job);
}

/* The ranks of other processes hear from rank 0 whether there is anything to do: their folders are others. */
static ronde_status agree_on_complete(const ronde__run *run, bool *complete) {
  ronde__transport *transport = run->transports[0];
  const ronde__job *job = run->job;
  uint8_t word = *complete;
  if (!job->mpi || !job->resume || !ronde__progress_is_over(&job->resume->progress, job)) return RONDE_OK;
  ronde_status status = ronde__broadcast_tree(transport, RONDE__TAG_COMPLETE, 0, &word, sizeof word);
  *complete = word;
  return status;
}

/* ---- all of it ---- */

static ronde_status dry_run(ronde__run *run, char **json_out) {
  run->max_steps = DRY_RUN_STEPS;
  RONDE__ALLOC(run->step_seconds, DRY_RUN_STEPS * sizeof *run->step_seconds, "dry run");
  RONDE_TRY(ronde__run_ranks(run));
  return ronde__run_reports(run) ? ronde__report_plan(run, json_out) : RONDE_OK;
}

static ronde_status run_and_report(ronde__run *run, char **json_out) {
  ronde_status status = ronde__run_ranks(run);
  if (!ronde__run_reports(run)) return status;
  ronde_status closed = ronde__steps_close(run->steps);
  if (run->status == RONDE_OK) run->status = closed;
  ronde_status reported = ronde__report_write(run, json_out);
  return status != RONDE_OK ? status : closed != RONDE_OK ? closed : reported;
}

static ronde_status train(ronde__run *run, char **json_out) {
  bool complete = false;
  RONDE_TRY(ronde__run_make(run));
  /* Set-up so far took the machine's time. */
  run->begin_ns = ronde__run_now(run) - (run->job->sim ? 0 : ronde__now_ns() - run->begin_ns);
  if (run->job->options->dry_run) return dry_run(run, json_out);
  plant_disk(run);
  ronde_status status = ronde__run_reports(run) ? open_outputs(run, json_out, &complete) : RONDE_OK;
  if (status == RONDE_OK) status = agree_on_complete(run, &complete);
  if (status != RONDE_OK) {
    run->transports[0]->ops->abort(run->transports[0]);
    return status;
  }
  if (ronde__run_reports(run)) say_start(run->job);
  return complete ? RONDE_OK : run_and_report(run, json_out);
}

/* --strategy measured: the job as if the strategy had been named that is found to be the best. */
static ronde_status measure(ronde__job **job, const ronde_config *config, const ronde_hooks *hooks) {
  ronde_config *named = NULL;
  json_t *costs = NULL;
  ronde__transport *mpi = (*job)->mpi;
  (*job)->mpi = NULL;
  ronde__job_destroy(*job);
  ronde_status status = ronde__measure_strategies(config, hooks, mpi, &named, &costs);
  if (status == RONDE_OK) status = ronde__job_try(named, hooks, mpi, job);
  ronde_config_destroy(named);
  if (status == RONDE_OK) {
    (*job)->strategy_reason = "measured";
    (*job)->strategy_costs = costs;
    return RONDE_OK;
  }
  bool all_know = status == RONDE_E_USAGE || status == RONDE_E_CANCELLED;
  if (mpi && !all_know) mpi->ops->abort(mpi);
  ronde__transport_destroy(mpi);
  json_decref(costs);
  return status;
}

ronde_status ronde_train(const ronde_config *config, const ronde_hooks *hooks, char **json_out) {
  return ronde_train_predictor(config, hooks, NULL, json_out);
}

ronde_status ronde_train_predictor(const ronde_config *config, const ronde_hooks *hooks,
                                   ronde_predictor **predictor_out, char **json_out) {
  if (predictor_out) *predictor_out = NULL;
  ronde__run run = {.predictor_out = predictor_out, .begin_ns = ronde__now_ns(), .begin_cpu_ns = ronde__cpu_ns()};
  ronde__record_begin(&run.record);
  ronde_status status = ronde__job_create(config, hooks, &run.job);
  if (status == RONDE_OK && !run.job->strategy) status = measure(&run.job, config, hooks);
  if (status != RONDE_OK) {
    ronde__record_end(&run.record);
    return status;
  }
  ronde__guard_init(&run.guard);
  status = train(&run, json_out);
  ronde__run_tear_down(&run);
  ronde__job_destroy(run.job);
  if (predictor_out && status != RONDE_OK && status != RONDE_E_CANCELLED) {
    ronde_predictor_destroy(*predictor_out);
    *predictor_out = NULL;
  }
  return status;
}

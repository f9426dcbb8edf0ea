#include "train/run.h"

#include "io/file.h"

#include <sys/stat.h>

enum { DRY_RUN_STEPS = 8 };

static ronde_status make_transports(ronde__run *run) {
  const ronde__job *job = run->job;
  int world = job->world, n_ranks = ronde__job_ranks(job);
  run->n_ranks = job->mpi ? 1 : n_ranks;
  RONDE__ALLOC(run->transports, (size_t)run->n_ranks * sizeof *run->transports, "ranks");
  RONDE__ALLOC(run->ranks, (size_t)run->n_ranks * sizeof *run->ranks, "ranks");
  RONDE__ALLOC(run->workers, (size_t)(world + job->n_servers) * sizeof *run->workers, "ranks");
  RONDE__ALLOC(run->late, (size_t)world * sizeof *run->late, "ranks");
  for (int i = 0; i < world; i++)
    run->workers[i] = (ronde__record_worker){.rank = i, .role = "worker", .peak_rss_bytes = -1};
  for (int i = 0; i < job->n_servers; i++)
    run->workers[world + i] =
        (ronde__record_worker){.rank = ronde__job_first_server(job) + i, .role = "server", .peak_rss_bytes = -1};
  if (job->mpi) {
    run->transports[0] = job->mpi;
    return RONDE_OK;
  }
  bool self = world == 1 && job->n_servers == 0 && job->options->transport != RONDE__TRANSPORT_THREADS;
  RONDE_TRY(self ? ronde__transport_self(run->transports) : ronde__transport_threads(n_ranks, run->transports));
  for (int i = 0; i < run->n_ranks; i++) ronde__transport_limit(run->transports[i], ronde__lost_after_ns(job->config));
  return RONDE_OK;
}

/* Whether the folder's steps.jsonl is that of the run that is resumed. */
static bool goes_on(const ronde__job *job) {
  struct stat one, other;
  bool folder = job->resume && job->resume->folder;
  return folder && !stat(job->resume->folder, &one) && !stat(job->options->out, &other) && one.st_ino == other.st_ino &&
         one.st_dev == other.st_dev;
}

/* Outputs that cannot be written are found before training. */
static ronde_status open_outputs(ronde__run *run) {
  const ronde__options *o = run->job->options;
  if (o->save) {
    ronde__file_out probe;
    RONDE_TRY(ronde__file_begin(o->save, &probe));
    ronde__file_abandon(&probe);
  }
  return o->out ? ronde__steps_open(o->out, goes_on(run->job), &run->steps) : RONDE_OK;
}

static void tear_down(ronde__run *run) {
  for (int i = 0; run->ranks && i < run->n_ranks; i++)
    if (run->ranks[i].job) ronde__rank_tear_down(&run->ranks[i]);
  ronde__log_group_clear(&run->errors);
  for (int i = 0; run->transports && i < run->n_ranks && !run->job->mpi; i++)
    ronde__transport_destroy(run->transports[i]);
  ronde__record_end(&run->record);
  ronde__free(run->ranks);
  ronde__free(run->transports);
  ronde__free(run->workers);
  ronde__free(run->late);
  ronde__free(run->step_seconds);
  pthread_mutex_destroy(&run->mutex);
}

static ronde_status dry_run(ronde__run *run, char **json_out) {
  run->max_steps = DRY_RUN_STEPS;
  RONDE__ALLOC(run->step_seconds, DRY_RUN_STEPS * sizeof *run->step_seconds, "dry run");
  RONDE_TRY(ronde__run_ranks(run));
  return ronde__run_reports(run) ? ronde__report_plan(run, json_out) : RONDE_OK;
}

static ronde_status train(ronde__run *run, char **json_out) {
  RONDE_TRY(make_transports(run));
  if (run->job->options->dry_run) return dry_run(run, json_out);
  if (!ronde__run_reports(run)) return ronde__run_ranks(run);
  ronde_status status = open_outputs(run);
  if (status != RONDE_OK) {
    run->transports[0]->ops->abort(run->transports[0]);
    return status;
  }
  status = ronde__run_ranks(run);
  ronde_status closed = ronde__steps_close(run->steps);
  if (run->status == RONDE_OK) run->status = closed;
  ronde_status reported = ronde__report_write(run, json_out);
  return status != RONDE_OK ? status : closed != RONDE_OK ? closed : reported;
}

ronde_status ronde_train(const ronde_config *config, const ronde_hooks *hooks, char **json_out) {
  ronde__run run = {.begin_ns = ronde__now_ns(), .begin_cpu_ns = ronde__cpu_ns()};
  ronde__record_begin(&run.record);
  ronde_status status = ronde__job_create(config, hooks, &run.job);
  if (status != RONDE_OK) {
    ronde__record_end(&run.record);
    return status;
  }
  pthread_mutex_init(&run.mutex, NULL);
  status = train(&run, json_out);
  tear_down(&run);
  ronde__job_destroy(run.job);
  return status;
}

/* The ranks of this process, as tasks: its first on the calling thread, the others beside it. */
#include "comm/sim.h"
#include "train/run.h"

static void note_failure(ronde__run *r, ronde_status status) {
  ronde__guard_enter(&r->guard);
  bool echo = status == RONDE_E_LOST && r->failed; /* the others only hear that one has gone */
  if (!echo && (r->status == RONDE_OK || r->status == RONDE_E_LOST)) r->status = status;
  r->failed = true;
  ronde__guard_leave(&r->guard);
}

/* Training starts when every rank is set up, so that set-up is nobody's waiting time. From then on some may be lost. */
static ronde_status run_meet(ronde__rank *rank) {
  if (!rank->job->may_lose)
    return ronde__allgather(rank->transport, RONDE__TAG_READY, rank->results, sizeof *rank->results);
  ronde__transport_lose(rank->group, rank->job->may_lose);
  if (rank->job->regroups) ronde__transport_await(rank->group, rank->world.awaited);
  ronde_status status = ronde__rank_meet(rank);
  return ronde__rank_is_halted(rank, status) ? RONDE_OK : status; /* so will the first step be */
}

typedef struct ended {
  ronde__run *run;
  ronde_status status;
} ended;

static ronde_status keep_weights(void *user) {
  const ended *e = user;
  return e->run->kept = ronde__report_weights(e->run, e->status);
}

/* Behind the last step, while all ranks are there. A rank that ended otherwise has told no part. */
static ronde_status keep_parts(ronde__rank *rank, ronde__run *run, ronde_status status) {
  ended e = {run, status};
  return rank->state.parts && !run->max_steps ? ronde__rank_tell_parts(rank, keep_weights, &e) : RONDE_OK;
}

static ronde_status train(ronde__rank *rank) {
  ronde__run *r = rank->reporter->user;
  if (rank->group->rank >= r->job->roles.n_workers) {
    if (r->job->may_lose) ronde__transport_lose(rank->group, r->job->may_lose);
    RONDE_TRY(ronde__rank_serve(rank));
    return ronde__rank_gather(rank);
  }
  RONDE_TRY(ronde__rank_set_up(rank));
  RONDE_TRY(ronde__rank_begin_trace(rank));
  RONDE_TRY(run_meet(rank));
  if (rank == r->ranks) {
    r->first_step_ns = ronde__time_now(rank->group->time);
    r->epoch_cpu_ns = ronde__cpu_ns();
  }
  ronde_status status = ronde__rank_train(rank);
  bool together = status == RONDE_OK || rank->agreed;
  ronde_status gathered = together ? ronde__rank_finish(rank) : RONDE_OK;
  if (together && gathered == RONDE_OK) gathered = ronde__rank_gather(rank);
  if (together && gathered == RONDE_OK) gathered = ronde__rank_end_trace(rank);
  if (together && gathered == RONDE_OK) gathered = keep_parts(rank, r, status);
  if (gathered != RONDE_OK) rank->agreed = false;
  return status != RONDE_OK ? status : gathered;
}

static void train_rank(void *arg) {
  ronde__rank *rank = arg;
  ronde__run *r = rank->reporter->user;
  int number = rank->group->rank;
  ronde__reporter silent = {.user = r};
  if (r->job->roles.n_ranks > 1) ronde__log_set_rank(number);
  ronde__log_set_group(&r->errors);
  if (number != 0) rank->reporter = &silent;
  ronde_status status = train(rank);
  bool is_lost = status == RONDE_E_LOST && ronde__transport_lost(rank->group, number); /* the others go on */
  if (is_lost && !r->job->mpi) status = RONDE_OK;
  if (status != RONDE_OK) {
    note_failure(r, status);
    if (status == RONDE_E_LOST && !rank->agreed && !is_lost) ronde__rank_recover(rank);
    if (!rank->agreed && !is_lost) rank->group->ops->abort(rank->group);
  }
  ronde__log_set_rank(-1);
  ronde__log_set_group(NULL);
}

ronde_status ronde__run_ranks(ronde__run *r) {
  int n = r->n_ranks, n_started = 0;
  ronde__task *tasks;
  ronde__reporter reporter = {r, ronde__report_step, ronde__report_epoch, ronde__report_saving, ronde__report_cancel};
  RONDE__ALLOC(tasks, (size_t)n * sizeof *tasks, "ranks");
  for (int i = 0; i < n; i++)
    r->ranks[i] = (ronde__rank){.job = r->job,
                                .group = r->transports[i],
                                .transport = r->transports[i],
                                .reporter = &reporter,
                                .disk = r->drilled && i == 0 ? &r->disk : NULL,
                                .max_steps = r->max_steps};
  for (int i = 1; i < n; i++, n_started++) {
    tasks[i] = (ronde__task){.name = "", .run = train_rank, .arg = &r->ranks[i]};
    if (ronde__task_start(r->transports[i]->time, &tasks[i])) {
      note_failure(r, ronde__fail(RONDE_E_MEMORY, "cannot start a thread for rank %d", i));
      r->transports[0]->ops->abort(r->transports[0]);
      break;
    }
  }
  if (n_started == n - 1) train_rank(&r->ranks[0]);
  for (int i = 1; i <= n_started; i++) ronde__task_join(r->transports[i]->time, &tasks[i]);
  ronde__free(tasks);
  return r->status;
}

ronde_status ronde__run_make(ronde__run *run) {
  const ronde__job *job = run->job;
  const ronde__roles *roles = &job->roles;
  run->n_ranks = job->mpi ? 1 : roles->n_ranks;
  RONDE__ALLOC(run->transports, (size_t)run->n_ranks * sizeof *run->transports, "ranks");
  RONDE__ALLOC(run->ranks, (size_t)run->n_ranks * sizeof *run->ranks, "ranks");
  RONDE__ALLOC(run->workers, (size_t)roles->n_members * sizeof *run->workers, "ranks");
  RONDE__ALLOC(run->losses, (size_t)roles->n_workers * sizeof *run->losses, "ranks");
  RONDE__ALLOC(run->lost, (size_t)roles->n_workers * sizeof *run->lost, "ranks");
  RONDE__ALLOC(run->late, (size_t)roles->n_workers * sizeof *run->late, "ranks");
  for (int i = 0; i < roles->n_members; i++)
    run->workers[i] = (ronde__record_worker){.rank = roles->members[i].rank,
                                             .role = roles->members[i].name,
                                             .peak_rss_bytes = -1,
                                             .needed_bytes = -1,
                                             .optimizer_bytes = -1};
  if (job->mpi) {
    run->transports[0] = job->mpi;
    return RONDE_OK;
  }
  bool self = ronde__roles_alone(roles) && job->options->transport != RONDE__TRANSPORT_THREADS;
  if (job->sim) {
    ronde__sim_options sim = ronde__sim_net_options(job->sim, roles->n_ranks, (uint64_t)job->options->sim_seed);
    RONDE_TRY(ronde__transport_sim(&sim, run->transports));
  } else if (self) RONDE_TRY(ronde__transport_self(run->transports));
  else RONDE_TRY(ronde__transport_threads(roles->n_ranks, run->transports));
  for (int i = 0; i < run->n_ranks; i++) ronde__transport_limit(run->transports[i], ronde__lost_after_ns(job->config));
  return RONDE_OK;
}

void ronde__run_tear_down(ronde__run *run) {
  for (int i = 0; run->transports && i < run->n_ranks && run->transports[i]; i++)
    ronde__transport_lose(run->transports[i], NULL);
  for (int i = 0; run->ranks && i < run->n_ranks; i++)
    if (run->ranks[i].job) ronde__rank_tear_down(&run->ranks[i]);
  if (run->drilled) ronde__disk_set(NULL);
  ronde__log_group_clear(&run->errors);
  for (int i = 0; run->transports && i < run->n_ranks && !run->job->mpi; i++)
    ronde__transport_destroy(run->transports[i]);
  ronde__lock_give(run->lock);
  ronde__record_end(&run->record);
  ronde__free(run->ranks);
  ronde__free(run->transports);
  ronde__free(run->workers);
  ronde__free(run->late);
  ronde__free(run->losses);
  ronde__free(run->lost);
  ronde__free(run->step_seconds);
  ronde__guard_destroy(&run->guard);
}

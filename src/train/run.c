/* Ranks as threads: rank 0 on the calling thread, the others on threads of their own. */
#include "train/run.h"

static void note_failure(ronde__run *r, ronde_status status) {
  pthread_mutex_lock(&r->mutex);
  bool echo = status == RONDE_E_LOST && r->failed; /* the others only hear that one has gone */
  if (!echo && (r->status == RONDE_OK || r->status == RONDE_E_LOST)) r->status = status;
  r->failed = true;
  pthread_cond_broadcast(&r->changed);
  pthread_mutex_unlock(&r->mutex);
}

/* Training starts when every rank is set up, so that set-up is nobody's waiting time. */
static bool all_set_up(ronde__run *r) {
  pthread_mutex_lock(&r->mutex);
  if (++r->n_set_up == r->job->world) {
    r->first_step_ns = ronde__now_ns();
    r->epoch_cpu_ns = ronde__cpu_ns();
    pthread_cond_broadcast(&r->changed);
  }
  while (r->n_set_up < r->job->world && !r->failed) pthread_cond_wait(&r->changed, &r->mutex);
  bool ok = !r->failed;
  pthread_mutex_unlock(&r->mutex);
  return ok;
}

static void *run_rank(void *arg) {
  ronde__rank *rank = arg;
  ronde__run *r = rank->reporter->user;
  int number = rank->transport->rank;
  ronde__reporter silent = {.user = r};
  if (r->job->world > 1) ronde__log_set_rank(number);
  ronde__log_set_group(&r->errors);
  if (number != 0) rank->reporter = &silent;
  ronde_status status = ronde__rank_set_up(rank);
  if (status == RONDE_OK && all_set_up(r)) status = ronde__rank_train(rank);
  if (status != RONDE_OK) {
    note_failure(r, status);
    if (!rank->agreed) rank->transport->ops->abort(rank->transport);
  }
  ronde__log_set_rank(-1);
  ronde__log_set_group(NULL);
  return NULL;
}

ronde_status ronde__run_ranks(ronde__run *r) {
  int world = r->job->world, n_started = 0;
  pthread_t *threads;
  ronde__reporter reporter = {r, ronde__report_step, ronde__report_epoch, ronde__report_saving, ronde__report_cancel};
  RONDE__ALLOC(threads, (size_t)world * sizeof *threads, "ranks");
  for (int i = 0; i < world; i++)
    r->ranks[i] =
        (ronde__rank){.job = r->job, .transport = r->transports[i], .reporter = &reporter, .max_steps = r->max_steps};
  for (int i = 1; i < world; i++, n_started++)
    if (pthread_create(&threads[i], NULL, run_rank, &r->ranks[i])) {
      note_failure(r, ronde__fail(RONDE_E_MEMORY, "cannot start a thread for rank %d", i));
      r->transports[0]->ops->abort(r->transports[0]);
      break;
    }
  if (n_started == world - 1) run_rank(&r->ranks[0]);
  for (int i = 1; i <= n_started; i++) pthread_join(threads[i], NULL);
  ronde__free(threads);
  return r->status;
}

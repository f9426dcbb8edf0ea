/* --on-loss: what the job does when a rank is lost, and whose loss the others survive. */
#include "setup/setup.h"

/* Rank 0 reports, and a rank with a server has a part of the parameters that nobody else has. */
static bool is_dispensable(const ronde__job *job, int rank) {
  return rank > 0 && rank < job->roles.n_workers && !ronde__roles_at(&job->roles, rank, 0);
}

static bool any_dispensable(const ronde__job *job) {
  for (int r = 1; r < job->roles.n_workers; r++)
    if (is_dispensable(job, r)) return true;
  return false;
}

/* NULL: they can. */
static const char *why_not_continue(const ronde__job *job) {
  if (!job->strategy->goes_on && !job->strategy->regroups)
    return "with this strategy no step can be made without all ranks (see --on-loss restart)";
  if (job->roles.n_workers > 1 && !any_dispensable(job))
    return "every rank has a server, without which nobody can go on (fewer --servers, or --placement dedicated)";
  if (job->mpi && job->options->lost_after == 0) return "with --lost-after 0 nobody notices who is lost";
  if (job->collective == &ronde__allreduce_mpi) return "--collective mpi is Open MPI's own, which needs all ranks";
  return job->mpi || job->sim ? NULL : "threads of one process are not lost one by one";
}

static const char *why_not_restart(const ronde__job *job) {
  if (!job->mpi) return "only ranks that are processes can be started again (--transport mpi)";
  if (!job->options->out) return "there is no --out DIR to go on from";
  return NULL;
}

ronde_status ronde__set_up_losses(ronde__job *job) {
  ronde__options *o = &job->config->options;
  if (job->roles.n_ranks == 1 && job->config->allows_idle)
    o->on_loss = RONDE__ON_LOSS_STOP; /* nobody is left to lose */
  const char *why = o->on_loss == RONDE__ON_LOSS_RESTART ? why_not_restart(job) : why_not_continue(job);
  if (why && (o->on_loss == RONDE__ON_LOSS_CONTINUE || o->on_loss == RONDE__ON_LOSS_RESTART))
    return ronde__fail(RONDE_E_USAGE, "--on-loss %s: %s", ronde_config_get(job->config, "on-loss"), why);
  /* What a new world needs is kept in every step, so it is not the default. */
  bool by_default = job->strategy->goes_on && !why;
  if (o->on_loss == RONDE__ON_LOSS_AUTO) o->on_loss = by_default ? RONDE__ON_LOSS_CONTINUE : RONDE__ON_LOSS_STOP;
  if (o->on_loss != RONDE__ON_LOSS_CONTINUE) return RONDE_OK;
  RONDE__ALLOC(job->may_lose, (size_t)job->roles.n_ranks * sizeof *job->may_lose, "--on-loss");
  for (int r = 0; r < job->roles.n_ranks; r++) job->may_lose[r] = is_dispensable(job, r);
  job->regroups = job->strategy->regroups && job->roles.n_workers > 1;
  return RONDE_OK;
}

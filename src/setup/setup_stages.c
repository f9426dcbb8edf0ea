/* A network that is cut into stages: into how many, where, and what each takes. */
#include "setup/setup.h"

ronde_status ronde__count_stages(ronde__job *job) {
  ronde__options *o = &job->config->options;
  ronde__strategy_settings settings = {.options = o};
  job->n_replicas = job->roles.n_workers;
  if (!job->strategy->n_stages) return RONDE_OK;
  RONDE_TRY(job->strategy->n_stages(&settings, job->roles.n_workers, &job->n_stages));
  job->n_replicas = job->roles.n_workers / job->n_stages;
  o->stages = job->n_stages;
  return RONDE_OK;
}

/* Whether there can be such a stage shows here, before any rank starts. */
static ronde_status measure(const ronde__job *job, const ronde_graph *graph, ronde__job_stage *stage) {
  ronde__net_options options = ronde__job_net_options(job, NULL, NULL, true);
  options.stage = (ronde__stage){.begin = stage->begin, .end = stage->end};
  return ronde__stage_measure(graph, &options, job->local_batch, &stage->size);
}

static ronde_status fill(ronde__job *job, const ronde_graph *graph, int *cuts, double *shares) {
  ronde__net_options options = ronde__job_net_options(job, NULL, NULL, true);
  RONDE_TRY(job->strategy->cut(graph, &options, job->local_batch, job->n_stages, cuts, shares));
  for (int s = 0; s < job->n_stages; s++) {
    job->stages[s] = (ronde__job_stage){.begin = cuts[s], .end = cuts[s + 1], .share = shares[s]};
    RONDE_TRY(measure(job, graph, &job->stages[s]));
  }
  return RONDE_OK;
}

ronde_status ronde__set_up_stages(ronde__job *job, const ronde_graph *graph) {
  int n = job->n_stages;
  if (n == 1) return RONDE_OK;
  RONDE__ALLOC(job->stages, (size_t)n * sizeof *job->stages, "stages");
  int *cuts = ronde__alloc((size_t)(n + 1) * sizeof *cuts);
  double *shares = ronde__alloc((size_t)n * sizeof *shares);
  ronde_status status = cuts && shares ? fill(job, graph, cuts, shares)
                                       : ronde__fail(RONDE_E_MEMORY, "stages: no memory for %d of them", n);
  ronde__free(cuts);
  ronde__free(shares);
  return status;
}

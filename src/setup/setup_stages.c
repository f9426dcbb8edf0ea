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
static ronde_status measure(ronde__job *job, const ronde_graph *graph, const int *cuts) {
  for (int s = 0; s < job->n_stages; s++) {
    ronde__job_stage *stage = &job->stages[s];
    ronde__net_options options = ronde__job_net_options(job, NULL, NULL, true);
    stage->begin = cuts[s];
    stage->end = cuts[s + 1];
    options.stage = (ronde__stage){.begin = stage->begin, .end = stage->end};
    RONDE_TRY(ronde__stage_measure(graph, &options, job->local_batch, &stage->size));
  }
  return RONDE_OK;
}

ronde_status ronde__set_up_stages(ronde__job *job, const ronde_graph *graph) {
  if (!job->strategy || job->n_stages == 1) return RONDE_OK;
  ronde__net_options options = ronde__job_net_options(job, NULL, NULL, true);
  int *cuts;
  RONDE__ALLOC(cuts, (size_t)(job->n_stages + 1) * sizeof *cuts, "stages");
  ronde_status status = job->strategy->cut(graph, &options, job->local_batch, job->n_stages, cuts);
  if (status == RONDE_OK && !(job->stages = ronde__alloc((size_t)job->n_stages * sizeof *job->stages)))
    status = ronde__fail(RONDE_E_MEMORY, "stages: no memory for %d of them", job->n_stages);
  if (status == RONDE_OK) status = measure(job, graph, cuts);
  ronde__free(cuts);
  return status;
}

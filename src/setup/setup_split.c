/* Layers that are split over the workers. */
#include "setup/setup.h"

ronde_status ronde__set_up_split(ronde__job *job, const ronde_graph *graph) {
  ronde__strategy_settings settings = {.options = job->options, .roles = &job->roles};
  ronde__ranks ranks = job->mpi ? ronde__ranks_of(job->mpi) : (ronde__ranks){job->roles.n_ranks, job->sim_host_of};
  bool any = false;
  if (!job->strategy->split || job->roles.n_workers == 1) return RONDE_OK;
  RONDE__ALLOC(job->split, (size_t)graph->n_nodes * sizeof *job->split, "split layers");
  RONDE_TRY(job->strategy->split(&settings, graph, &ranks, job->batch, job->split, &job->turns));
  for (int i = 0; i < graph->n_nodes; i++) any |= job->split[i];
  if (any) return RONDE_OK;
  ronde__free(job->split);
  job->split = NULL;
  return RONDE_OK;
}

/* Ranks that have a stage of the network each: which one, its neighbours, and the state that they have together. Where
 * the network is not cut, a rank has all of it, and nobody needs to be asked. */
#include "train/rank.h"

ronde_status ronde__rank_find_stage(ronde__rank *r) {
  const ronde__job *job = r->job;
  int rank = r->transport->rank, n = job->n_stages;
  r->stage = rank % n;
  r->replica = rank / n;
  r->replicas = r->transport;
  if (n == 1) return RONDE_OK;
  RONDE__ALLOC(r->same_ranks, (size_t)job->n_replicas * sizeof *r->same_ranks, "stages");
  for (int i = 0; i < job->n_replicas; i++) r->same_ranks[i] = i * n + r->stage;
  r->replicas = ronde__view_make(&r->same_stage, r->transport, r->same_ranks, job->n_replicas);
  return RONDE_OK;
}

ronde__stage ronde__rank_stage(ronde__rank *r) {
  const ronde__job *job = r->job;
  int rank = r->transport->rank;
  if (job->n_stages == 1) return (ronde__stage){0};
  ronde__neighbour_ranks_set(&r->neighbours, r->transport, r->prof, r->stage > 0 ? rank - 1 : -1,
                             r->stage + 1 < job->n_stages ? rank + 1 : -1);
  return (ronde__stage){job->stages[r->stage].begin, job->stages[r->stage].end, &r->neighbours.messages};
}

bool ronde__rank_judges(const ronde__rank *r) { return ronde__job_stage_judges(r->job, r->graph, r->stage); }

bool ronde__rank_reads(const ronde__rank *r) { return ronde__job_stage_reads(r->job, r->graph, r->stage); }

ronde_status ronde__rank_make_parts(ronde__rank *r) {
  if (r->job->n_stages == 1) return RONDE_OK;
  ronde__parts_options options = {.transport = r->transport,
                                  .n = r->job->n_stages,
                                  .net = r->net,
                                  .arrays = r->state.arrays,
                                  .n_arrays = r->state.n_arrays};
  return ronde__parts_create(&options, &r->state.parts);
}

ronde_status ronde__rank_tell_parts(ronde__rank *r, ronde_status (*take)(void *user), void *user) {
  if (r->transport->rank != 0) return r->state.parts ? ronde__parts_serve(r->state.parts) : RONDE_OK;
  RONDE_TRY(take(user));
  return r->state.parts ? ronde__parts_end(r->state.parts) : RONDE_OK;
}

/* Of what this rank has. */
static int own_broken_parameter(const ronde__rank *r) {
  int n_params;
  const ronde__net_param *params = ronde__net_params(r->net, &n_params);
  const float *values = ronde__net_values(r->net);
  for (int i = 0; i < n_params; i++)
    if (!ronde__job_flat_kernels(r->job)->all_finite(values + params[i].offset, (int64_t)params[i].n_elems))
      return params[i].index;
  return -1;
}

ronde_status ronde__rank_broken_parameter(const ronde__rank *r, int *param_out) {
  int *found, n = r->job->roles.n_workers;
  *param_out = own_broken_parameter(r);
  if (r->job->n_stages == 1) return RONDE_OK; /* replicas are equal */
  RONDE__ALLOC(found, (size_t)n * sizeof *found, "stages");
  found[r->transport->rank] = *param_out;
  ronde_status status = ronde__allgather(r->transport, RONDE__TAG_EPOCH, found, sizeof *found);
  for (int i = 0; i < n && status == RONDE_OK; i++)
    if (*param_out < 0 || (found[i] >= 0 && found[i] < *param_out)) *param_out = found[i];
  ronde__free(found);
  return status;
}

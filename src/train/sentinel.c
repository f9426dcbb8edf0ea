/* Replicas that should hold the same bits, compared: a hash from each rank, and only where they differ one of each
 * parameter, to say where. */
#include "train/rank.h"

#include "io/checksum.h"

#include <inttypes.h>
#include <stdio.h>

static uint64_t hash_param(ronde__net *net, int i) {
  int n_params;
  const ronde__net_param *params = ronde__net_params(net, &n_params);
  return ronde__checksum(ronde__net_values(net) + params[i].offset, params[i].n_packed * sizeof(float));
}

/* Of the ranks that have the same stage, which are every n_stages-th: the one that stands alone against most; with two,
 * the second. sums [n], of all that make steps together, each `stride` behind the one before. */
static int odd_one(const ronde__job *job, const uint64_t *sums, int n, int stage, int stride) {
  for (int r = n - job->n_stages + stage; r > stage; r -= job->n_stages) {
    int n_same = 0;
    for (int other = stage; other < n; other += job->n_stages) n_same += sums[other * stride] == sums[r * stride];
    if (2 * n_same <= n / job->n_stages && sums[r * stride] != sums[stage * stride]) return r;
  }
  return stage;
}

/* sums [n][parameters of the graph]: of those that a rank has */
static ronde_status name_difference(const ronde__rank *r, const uint64_t *sums, int n, int64_t step) {
  const ronde__job *job = r->job;
  int n_params = r->graph->n_params;
  for (int i = 0; i < n_params; i++)
    for (int other = job->n_stages; other < n; other++) {
      int stage = other % job->n_stages;
      if (sums[other * n_params + i] == sums[stage * n_params + i]) continue;
      int rank = ronde__rank_at(r, odd_one(job, sums + i, n, stage, n_params));
      char than[32];
      snprintf(than, sizeof than, n / job->n_stages > 2 ? "most" : "rank %d", ronde__rank_at(r, stage));
      return ronde__fail(RONDE_E_DIFFERENCE,
                         "step %" PRId64 ": the workers' weights differ: %s of rank %d differs from that of %s", step,
                         r->graph->params[i].name, rank, than);
    }
  return ronde__fail(RONDE_E_INTERNAL, "step %" PRId64 ": the workers' weights changed while they were compared", step);
}

static ronde_status find_difference(ronde__rank *r, int64_t step) {
  int n_own, n_params = r->graph->n_params;
  ronde__transport *world = ronde__rank_world(r);
  const ronde__net_param *params = ronde__net_params(r->net, &n_own);
  uint64_t *sums;
  RONDE__ALLOC(sums, (size_t)(world->size * n_params) * sizeof *sums, "sentinel");
  for (int i = 0; i < n_own; i++) sums[world->rank * n_params + params[i].index] = hash_param(r->net, i);
  ronde_status status = ronde__allgather(world, RONDE__TAG_SENTINEL, sums, (size_t)n_params * sizeof *sums);
  if (status == RONDE_OK) {
    r->agreed = true;
    status = world->rank == 0 ? name_difference(r, sums, world->size, step) : RONDE_E_DIFFERENCE;
  }
  ronde__free(sums);
  return status;
}

ronde_status ronde__sentinel_check(ronde__rank *r, int64_t step) {
  uint64_t *sums;
  ronde__transport *world = ronde__rank_world(r);
  int n_stages = r->job->n_stages;
  RONDE__ALLOC(sums, (size_t)world->size * sizeof *sums, "sentinel");
  sums[world->rank] = ronde__checksum(ronde__net_values(r->net), ronde__net_n_elems(r->net) * sizeof(float));
  ronde_status status = ronde__allgather(world, RONDE__TAG_SENTINEL, sums, sizeof *sums);
  bool same = true;
  for (int other = n_stages; other < world->size; other++) same &= sums[other] == sums[other % n_stages];
  ronde__free(sums);
  RONDE_TRY(status);
  return same ? RONDE_OK : find_difference(r, step);
}

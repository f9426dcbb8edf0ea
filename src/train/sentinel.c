/* Replicas that should hold the same bits, compared: a hash from each rank, and only where they differ one of each
 * parameter, to say where. */
#include "train/rank.h"

#include "io/checksum.h"

#include <inttypes.h>

static uint64_t hash_param(ronde__net *net, int i) {
  int n_params;
  const ronde__net_param *params = ronde__net_params(net, &n_params);
  return ronde__checksum(ronde__net_values(net) + params[i].offset, params[i].n_packed * sizeof(float));
}

/* The rank that stands alone against most; with two, the second. */
static int odd_one(const uint64_t *sums, int n_workers, int stride) {
  for (int r = n_workers - 1; r > 0; r--) {
    int n_same = 0;
    for (int other = 0; other < n_workers; other++) n_same += sums[other * stride] == sums[r * stride];
    if (2 * n_same <= n_workers && sums[r * stride] != sums[0]) return r;
  }
  return 0;
}

/* sums [n_workers][n_params] */
static ronde_status name_difference(const ronde__rank *r, const uint64_t *sums, int64_t step) {
  int n_params, n_workers = r->job->roles.n_workers;
  const ronde__net_param *params = ronde__net_params(r->net, &n_params);
  for (int i = 0; i < n_params; i++)
    for (int other = 1; other < n_workers; other++) {
      if (sums[other * n_params + i] == sums[i]) continue;
      int rank = odd_one(sums + i, n_workers, n_params);
      return ronde__fail(RONDE_E_DIFFERENCE,
                         "step %" PRId64 ": the workers' weights differ: %s of rank %d differs from that of %s", step,
                         params[i].name, rank, n_workers > 2 ? "most" : "rank 0");
    }
  return ronde__fail(RONDE_E_INTERNAL, "step %" PRId64 ": the workers' weights changed while they were compared", step);
}

static ronde_status find_difference(ronde__rank *r, int64_t step) {
  int n_params;
  ronde__net_params(r->net, &n_params);
  uint64_t *sums;
  RONDE__ALLOC(sums, (size_t)(r->job->roles.n_workers * n_params) * sizeof *sums, "sentinel");
  for (int i = 0; i < n_params; i++) sums[r->transport->rank * n_params + i] = hash_param(r->net, i);
  ronde_status status = ronde__allgather(r->transport, RONDE__TAG_SENTINEL, sums, (size_t)n_params * sizeof *sums);
  if (status == RONDE_OK) {
    r->agreed = true;
    status = r->transport->rank == 0 ? name_difference(r, sums, step) : RONDE_E_DIFFERENCE;
  }
  ronde__free(sums);
  return status;
}

ronde_status ronde__sentinel_check(ronde__rank *r, int64_t step) {
  uint64_t *sums;
  int n_workers = r->job->roles.n_workers;
  RONDE__ALLOC(sums, (size_t)n_workers * sizeof *sums, "sentinel");
  sums[r->transport->rank] = ronde__checksum(ronde__net_values(r->net), ronde__net_n_elems(r->net) * sizeof(float));
  ronde_status status = ronde__allgather(r->transport, RONDE__TAG_SENTINEL, sums, sizeof *sums);
  bool same = true;
  for (int other = 1; other < n_workers; other++) same &= sums[other] == sums[0];
  ronde__free(sums);
  RONDE_TRY(status);
  return same ? RONDE_OK : find_difference(r, step);
}

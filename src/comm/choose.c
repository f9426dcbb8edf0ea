/* Which all-reduce runs between some ranks. A model of what each costs there decides (cost.c), never the clock, so that
 * the same command always sums in the same order. */
#include "comm/collective.h"

/* Another algorithm must be cheaper by this factor than the usual one of such hosts: the model is no finer than that. */
#define MARGIN 1.25

const ronde__allreduce *ronde__allreduce_auto(const ronde__ranks *ranks, size_t n) {
  int n_hosts = ronde__ranks_hosts(ranks);
  const ronde__allreduce *usual = ronde__allreduce_find(n_hosts > 1 && n_hosts < ranks->n ? "hierarchical" : "ring");
  const ronde__allreduce *best = usual, *one;
  double best_s = usual->seconds(ranks, n) / MARGIN;
  for (int i = 0; (one = ronde__allreduce_at(i)); i++) {
    /* MPI's own runs only where it is named, because the order of its sums is not ours to promise. */
    double s = one == usual || !one->seconds ? best_s : one->seconds(ranks, n);
    if (s >= best_s) continue;
    best = one;
    best_s = s;
  }
  return best;
}

/* All-reduce over a binomial tree: sums go up to the root, the whole sum comes down again.
 * p ranks; v a rank's number counted from the root.
 * Source: Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005. */
#include "comm/collective.h"

enum { PHASE_UP = 1 }; /* ronde__broadcast_tree has 0 */

size_t ronde__reduce_tree_scratch(size_t n) { return ronde__exchange_scratch((int64_t)n); }

/* Ranks are counted from the root: v. Its children are v plus every power of two below its lowest set bit, which leads
 * to its parent; the nearest child comes first. */
ronde_status ronde__reduce_tree(ronde__transport *transport, const ronde__kernels *kernels, uint32_t tag, int root,
                                float *x, size_t n, float *scratch) {
  int p = transport->size, v = (transport->rank - root + p) % p;
  for (int bit = 1; bit < p; bit *= 2) {
    bool sends = v & bit;
    int peer = sends ? v - bit : v + bit;
    if (peer >= p) continue;
    ronde__exchange e = {.transport = transport,
                         .kernels = kernels,
                         .wire_tag = RONDE__WIRE_TAG(tag, PHASE_UP),
                         .to = sends ? (peer + root) % p : -1,
                         .from = sends ? -1 : (peer + root) % p,
                         .out = x,
                         .in = x,
                         .scratch = scratch,
                         .n_out = (int64_t)n,
                         .n_in = (int64_t)n};
    RONDE_TRY(ronde__exchange_run(&e));
    if (sends) break;
  }
  return RONDE_OK;
}

static size_t tree_scratch(const ronde__transport *transport, size_t n) {
  return transport->size == 1 ? 0 : ronde__reduce_tree_scratch(n);
}

static ronde_status tree_allreduce(ronde__transport *transport, const ronde__kernels *kernels, uint32_t tag, float *x,
                                   size_t n, float *scratch) {
  RONDE_TRY(ronde__reduce_tree(transport, kernels, tag, 0, x, n, scratch));
  return ronde__broadcast_tree(transport, tag, 0, x, n * sizeof *x);
}

/* Until rank v has the sum of what is below it: its children's come one after the other, the nearest first. */
static double tree_up_s(const ronde__ranks *ranks, int v, double bytes) {
  double s = 0;
  for (int bit = 1; v + bit < ranks->n && !(v & bit); bit *= 2) {
    bool near = ronde__host_of(ranks, v) == ronde__host_of(ranks, v + bit);
    const ronde__link_class *link = near ? &ronde__within_host : &ronde__between_hosts;
    double came_s = tree_up_s(ranks, v + bit, bytes) + link->alpha_s;
    s = (s > came_s ? s : came_s) + bytes * link->beta_s;
  }
  return s;
}

static double tree_seconds(const ronde__ranks *ranks, size_t n) {
  return 2 * tree_up_s(ranks, 0, (double)(n * sizeof(float)));
}

const ronde__allreduce ronde__allreduce_tree = {"tree", tree_scratch, tree_allreduce, NULL, tree_seconds};

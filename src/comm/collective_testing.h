/* One case of a collective with its oracle in f64, for tests on any transport. */
#ifndef RONDE_COLLECTIVE_TESTING_H
#define RONDE_COLLECTIVE_TESTING_H

#include <math.h>

#include "base/rng.h"
#include "comm/collective.h"

enum { MAX_RANKS = 7 };

typedef enum kind { ALLREDUCE, ALLGATHER, BROADCAST, REDUCE_SCATTER, PAIRWISE, REDUCE } kind;

typedef struct operation {
  kind kind;
  const char *algorithm; /* of an all-reduce */
} operation;

static const operation operations[] = {
    {ALLREDUCE, "ring"},    {ALLREDUCE, "halving-doubling"},
    {ALLREDUCE, "tree"},    {ALLREDUCE, "hierarchical"},
    {ALLGATHER, NULL},      {BROADCAST, NULL},
    {REDUCE_SCATTER, NULL}, {PAIRWISE, NULL},
    {REDUCE, NULL},
};

static const size_t trial_sizes[] = {0, 1, 2, 6, 7, 1000, 2048, 2049, 100003};

typedef struct trial {
  operation op;
  int p, root;
  size_t n;
  uint32_t tag;
  const ronde__kernels *kernels;
  float *result[MAX_RANKS]; /* [n], or [p][n] */
} trial;

static float input(int rank, size_t i) {
  uint32_t v[4];
  ronde__philox(11, (uint64_t)rank, i, v);
  return (float)(int32_t)v[0] * 0x1p-31f;
}

static size_t result_n(const trial *t) { return t->op.kind == ALLGATHER ? t->n * (size_t)t->p : t->n; }

static size_t scratch_n(const trial *t, const ronde__transport *transport) {
  if (t->op.kind == ALLREDUCE) return ronde__allreduce_find(t->op.algorithm)->scratch(transport, t->n);
  if (t->op.kind == REDUCE_SCATTER) return ronde__ring_scratch(t->n, t->p);
  if (t->op.kind == PAIRWISE) return 2 * RONDE__PAIRWISE_ELEMS;
  return t->op.kind == REDUCE ? ronde__reduce_tree_scratch(t->n) : 0;
}

/* Each rank's chunk is one piece here. */
static ronde_status spread_chunks(ronde__transport *transport, const trial *t, float *x) {
  ronde__range ranges[MAX_RANKS];
  ronde__pieces of[MAX_RANKS];
  ronde__request requests[2 * MAX_RANKS] = {{NULL}};
  for (int r = 0; r < t->p; r++) {
    size_t begin = (size_t)ronde__shard_begin((int64_t)t->n, r, t->p);
    ranges[r] = (ronde__range){begin, (size_t)ronde__shard_begin((int64_t)t->n, r + 1, t->p) - begin};
    of[r] = (ronde__pieces){&ranges[r], 1};
  }
  ronde_status status = ronde__pairwise_spread(transport, t->tag, x, of, requests);
  int n = 2 * (t->p - 1);
  if (status == RONDE_OK) status = transport->ops->wait(transport, requests, n, transport->timeout_ns);
  if (status != RONDE_OK) transport->ops->cancel(transport, requests, n);
  return status;
}

static ronde_status call(ronde__transport *transport, const trial *t, float *x, float *scratch) {
  switch (t->op.kind) {
  case ALLREDUCE: return ronde__allreduce_find(t->op.algorithm)->run(transport, t->kernels, t->tag, x, t->n, scratch);
  case ALLGATHER: return ronde__allgather(transport, t->tag, x, t->n * sizeof *x);
  case BROADCAST: return ronde__broadcast_tree(transport, t->tag, t->root, x, t->n * sizeof *x);
  case REDUCE_SCATTER:
    RONDE_TRY(ronde__reduce_scatter_ring(transport, t->kernels, t->tag, x, t->n, scratch));
    return ronde__allgather_chunks_ring(transport, t->tag, x, t->n);
  case PAIRWISE:
    RONDE_TRY(ronde__reduce_scatter_pairwise(transport, t->kernels, t->tag, x, t->n, scratch));
    return spread_chunks(transport, t, x);
  default:
    RONDE_TRY(ronde__reduce_tree(transport, t->kernels, t->tag, t->root, x, t->n, scratch));
    return ronde__broadcast_tree(transport, t->tag, t->root, x, t->n * sizeof *x);
  }
}

static ronde_status run_trial(ronde__transport *transport, void *arg) {
  trial *t = arg;
  int r = transport->rank;
  float *x = t->result[r], *scratch = NULL;
  size_t n_scratch = scratch_n(t, transport);
  for (size_t i = 0; i < result_n(t); i++) x[i] = -77;
  for (size_t i = 0; i < t->n; i++) x[(t->op.kind == ALLGATHER ? (size_t)r * t->n : 0) + i] = input(r, i);
  if (n_scratch) RONDE__ALLOC(scratch, n_scratch * sizeof *scratch, "test");
  ronde_status status = call(transport, t, x, scratch);
  ronde__free(scratch);
  return status;
}

static bool right(const trial *t, const float *x) {
  for (size_t i = 0; i < result_n(t); i++) {
    double expected = 0, bound = 0;
    if (t->op.kind == ALLGATHER) {
      expected = (double)input((int)(i / t->n), i % t->n);
    } else if (t->op.kind == BROADCAST) {
      expected = (double)input(t->root, i);
    } else {
      for (int r = 0; r < t->p; r++) {
        expected += (double)input(r, i);
        bound += fabs((double)input(r, i)) * 0x1p-24 * t->p;
      }
    }
    if (!(fabs((double)x[i] - expected) <= bound)) return false;
  }
  return true;
}

#endif

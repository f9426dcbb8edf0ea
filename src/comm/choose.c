/* Which all-reduce is the fastest between these ranks: depends on links, hosts and the load of their cores, so it is
 * timed. */
#include "comm/collective.h"

#include <string.h>

enum { MAX_CANDIDATES = 8, ROUNDS = 6, TAG_MEET = 0, TAG_DATA = 1 };
#define BUDGET_NS 60000000u /* no further round after that */
/* By so much another must be faster than what the static rule names: another order of sums is another rounding, and
 * should not come and go with noise. */
#define MARGIN 1.25

/* What ranks tell each other. */
typedef struct word {
  uint64_t ns[MAX_CANDIDATES];
  int32_t stop;
} word;

static ronde_status meet(ronde__transport *transport, const word *own, word *words) {
  words[transport->rank] = *own;
  return ronde__allgather_ring(transport, TAG_MEET, words, sizeof *words);
}

/* MPI's own is left to those who name it: how it sums is not ours to promise. */
static int list(const ronde__transport *transport, const ronde__allreduce **candidates) {
  const ronde__allreduce *first = ronde__allreduce_auto(transport), *one;
  bool hosts_differ = !strcmp(first->name, "hierarchical");
  int n = 0;
  candidates[n++] = first;
  for (int i = 0; (one = ronde__allreduce_at(i)) && n < MAX_CANDIDATES; i++) {
    bool same = one == first || (!hosts_differ && !strcmp(one->name, "hierarchical"));
    if (!same && strcmp(one->name, "mpi") && !(one->refuses && one->refuses(transport))) candidates[n++] = one;
  }
  return n;
}

typedef struct trial {
  const ronde__allreduce *candidates[MAX_CANDIDATES];
  int n_candidates;
  uint64_t best_ns[MAX_CANDIDATES]; /* of the rounds, each the slowest rank's */
  float *x, *scratch;
  size_t n;
  word *words; /* [size] */
} trial;

static ronde_status run_round(ronde__transport *transport, const ronde__kernels *kernels, trial *t, bool counts) {
  word own = {.stop = 0};
  for (int c = 0; c < t->n_candidates; c++) {
    RONDE_TRY(meet(transport, &own, t->words));
    uint64_t begin = transport->ops->now_ns(transport);
    RONDE_TRY(t->candidates[c]->run(transport, kernels, TAG_DATA, t->x, t->n, t->scratch));
    own.ns[c] = transport->ops->now_ns(transport) - begin;
  }
  RONDE_TRY(meet(transport, &own, t->words));
  for (int c = 0; c < t->n_candidates && counts; c++) {
    uint64_t slowest = 0;
    for (int r = 0; r < transport->size; r++)
      if (t->words[r].ns[c] > slowest) slowest = t->words[r].ns[c];
    if (!t->best_ns[c] || slowest < t->best_ns[c]) t->best_ns[c] = slowest;
  }
  return RONDE_OK;
}

/* The first round warms up; rank 0 ends them. */
static ronde_status run_rounds(ronde__transport *transport, const ronde__kernels *kernels, trial *t) {
  uint64_t begin = transport->ops->now_ns(transport);
  for (int round = 0; round < ROUNDS; round++) {
    word own = {.stop = round > 1 && transport->ops->now_ns(transport) - begin > BUDGET_NS};
    RONDE_TRY(meet(transport, &own, t->words));
    if (t->words[0].stop) break;
    RONDE_TRY(run_round(transport, kernels, t, round > 0));
  }
  return RONDE_OK;
}

ronde_status ronde__allreduce_choose(ronde__transport *transport, const ronde__kernels *kernels, size_t n,
                                     const ronde__allreduce **chosen_out) {
  trial t = {.n = n};
  size_t scratch = 1;
  t.n_candidates = list(transport, t.candidates);
  for (int c = 0; c < t.n_candidates; c++)
    scratch = (size_t)ronde__max((int64_t)scratch, (int64_t)t.candidates[c]->scratch(transport, n));
  RONDE__ALLOC(t.words, (size_t)transport->size * sizeof *t.words, "choice of a collective");
  t.x = ronde__alloc(n * sizeof *t.x);
  t.scratch = ronde__alloc(scratch * sizeof *t.scratch);
  ronde_status status = t.x && t.scratch ? run_rounds(transport, kernels, &t)
                                         : ronde__fail(RONDE_E_MEMORY, "choice of a collective: no memory");
  int chosen = 0;
  for (int c = 1; c < t.n_candidates; c++)
    if ((double)t.best_ns[c] * (chosen ? 1 : MARGIN) < (double)t.best_ns[chosen]) chosen = c;
  if (status == RONDE_OK) *chosen_out = t.candidates[chosen];
  ronde__free(t.scratch);
  ronde__free(t.x);
  ronde__free(t.words);
  return status;
}

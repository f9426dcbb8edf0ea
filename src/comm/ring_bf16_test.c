/* The bfloat16 ring against a replay of what it should do, several calls long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "comm/collective.h"

enum { CALLS = 40, MAX_RANKS = 7 };

typedef struct bf16_group {
  int p;
  size_t n;
  const ronde__kernels *kernels;
  float *results[MAX_RANKS]; /* [CALLS][n] */
} bf16_group;

typedef struct member {
  const bf16_group *g;
  ronde__transport *transport;
  ronde_status status;
} member;

static float random_float(uint64_t stream, size_t i) {
  uint32_t v[4];
  ronde__philox(12, stream, i, v);
  return (float)(int32_t)v[0] * 0x1p-31f;
}

/* What rank r gives to a call: about the same in each, as gradients are. */
static float given(int call, int rank, size_t i) {
  return random_float((uint64_t)rank, i) + 0.01f * random_float((uint64_t)(10 * call + 10 + rank), i);
}

static ronde_status call_often(member *m) {
  const bf16_group *g = m->g;
  float *residual, *scratch;
  RONDE__ALLOC(residual, (g->n + 1) * sizeof *residual, "test");
  RONDE__ALLOC(scratch, (ronde__allreduce_bf16_scratch(g->n, g->p) + 1) * sizeof *scratch, "test");
  ronde_status status = RONDE_OK;
  for (int c = 0; c < CALLS && status == RONDE_OK; c++) {
    float *x = g->results[m->transport->rank] + (size_t)c * g->n;
    for (size_t i = 0; i < g->n; i++) x[i] = given(c, m->transport->rank, i);
    status = ronde__allreduce_bf16(m->transport, g->kernels, 5, x, g->n, residual, scratch);
  }
  ronde__free(residual);
  ronde__free(scratch);
  return status;
}

static void *run_member(void *arg) {
  member *m = arg;
  m->status = call_often(m);
  return NULL;
}

/* To bfloat16 and back, by arithmetic: 8 significant bits, ties to even. */
static float rounded(float value) {
  int exponent;
  double fraction = frexp((double)value, &exponent);
  return (float)ldexp(nearbyint(ldexp(fraction, 8)), exponent - 8);
}

/* Element i goes round from the rank after the owner of its chunk to the owner. Each rank adds its value and its
 * residual and rounds. */
static void check_element(const bf16_group *g, int owner, size_t i) {
  float residual[MAX_RANKS] = {0};
  double sum_given = 0, sum_out = 0, sum_held = 0;
  for (int c = 0; c < CALLS; c++) {
    float travelling = 0;
    for (int k = 1; k <= g->p; k++) {
      int rank = (owner + k) % g->p;
      float own = given(c, rank, i), value = (k == 1 ? own : own + travelling) + residual[rank];
      travelling = rounded(value);
      residual[rank] = value - travelling;
      sum_given += (double)own;
    }
    sum_out += (double)travelling;
    for (int r = 0; r < g->p; r++) {
      float got = g->results[r][(size_t)c * g->n + i];
      if (memcmp(&got, &travelling, sizeof got))
        fail_msg("%d ranks, call %d, element %zu: rank %d has %.9g, not %.9g", g->p, c, i, r, (double)got,
                 (double)travelling);
    }
  }
  for (int r = 0; r < g->p; r++) sum_held += (double)residual[r];
  /* In the long run nothing is lost, but for the rounding of f32 itself. */
  assert_true(fabs(sum_out + sum_held - sum_given) < 1e-5 * CALLS);
}

static void check_group(int p, size_t n) {
  bf16_group g = {.p = p, .n = n};
  ronde__transport *transports[MAX_RANKS];
  pthread_t threads[MAX_RANKS];
  member members[MAX_RANKS];
  assert_int_equal(ronde__kernels_get(&g.kernels), RONDE_OK);
  if (p == 1) assert_int_equal(ronde__transport_self(transports), RONDE_OK);
  else assert_int_equal(ronde__transport_threads(p, transports), RONDE_OK);
  for (int r = 0; r < p; r++) {
    g.results[r] = malloc((CALLS * n + 1) * sizeof(float));
    members[r] = (member){&g, transports[r], RONDE_OK};
    assert_int_equal(pthread_create(&threads[r], NULL, run_member, &members[r]), 0);
  }
  for (int r = 0; r < p; r++) pthread_join(threads[r], NULL);
  for (int r = 0; r < p; r++) assert_int_equal(members[r].status, RONDE_OK);
  for (int owner = 0; owner < p && p > 1; owner++)
    for (int64_t i = ronde__shard_begin((int64_t)n, owner, p); i < ronde__shard_begin((int64_t)n, owner + 1, p); i++)
      check_element(&g, owner, (size_t)i);
  for (size_t i = 0; i < CALLS * n && p == 1; i++) assert_true(g.results[0][i] == given((int)(i / n), 0, i % n));
  for (int r = 0; r < p; r++) {
    free(g.results[r]);
    ronde__transport_destroy(transports[r]);
  }
}

static void all_ranks_come_to_the_replay(void **state) {
  static const int sizes[] = {1, 2, 3, 4, 7};
  static const size_t lengths[] = {1, 6, 7, 1001};
  for (size_t p = 0; p < RONDE__COUNT(sizes); p++)
    for (size_t n = 0; n < RONDE__COUNT(lengths); n++) check_group(sizes[p], lengths[n]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_ranks_come_to_the_replay)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

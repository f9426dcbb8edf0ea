/* The ring of halves against a replay of what it should do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "comm/collective.h"
#include "lib/rounded.h"

enum { MAX_RANKS = 7 };

typedef struct halves_member {
  ronde__transport *transport;
  const ronde__kernels *kernels;
  size_t n;
  bool in_place;
  uint16_t *x, *sum;
  ronde_status status;
} halves_member;

static float wide_of(uint16_t half) {
  uint32_t bits = (uint32_t)half << 16;
  float wide;
  memcpy(&wide, &bits, sizeof wide);
  return wide;
}

/* Numbers of bfloat16, whose sums are none. */
static uint16_t half_given(int rank, size_t i) {
  uint32_t v[4];
  ronde__philox(12, (uint64_t)rank, i, v);
  return (uint16_t)((v[0] & 0x80ff) | 0x3c00 | (v[1] & 0x300));
}

static void *run_halves(void *arg) {
  halves_member *m = arg;
  int rank = m->transport->rank, p = m->transport->size;
  float *scratch = calloc(ronde__allreduce_halves_scratch(m->n, p) + 1, sizeof *scratch);
  for (size_t i = 0; i < m->n; i++) m->x[i] = half_given(rank, i);
  m->status = ronde__allreduce_halves(m->transport, m->kernels, 5, m->x, m->sum, m->n, scratch);
  free(scratch);
  return NULL;
}

/* From the rank behind the owner of its pair on, to the owner. */
static void check_half(const halves_member *members, int p, int owner, size_t i) {
  float travelling = 0;
  for (int k = 1; k <= p; k++) travelling = rounded_to_bf16(wide_of(half_given((owner + k) % p, i)) + travelling);
  for (int r = 0; r < p; r++) {
    if (wide_of(members[r].sum[i]) != travelling)
      fail_msg("%d ranks, element %zu: rank %d has %.9g, not %.9g", p, i, r, (double)wide_of(members[r].sum[i]),
               (double)travelling);
    if (!members[r].in_place) assert_int_equal(members[r].x[i], half_given(r, i));
  }
}

static void check_halves(int p, size_t n, bool in_place) {
  ronde__transport *transports[MAX_RANKS];
  pthread_t threads[MAX_RANKS];
  halves_member members[MAX_RANKS];
  assert_int_equal(ronde__transport_threads(p, transports), RONDE_OK);
  for (int r = 0; r < p; r++) {
    uint16_t *x = calloc(n + 1, sizeof *x), *sum = in_place ? x : calloc(n + 1, sizeof *sum);
    members[r] = (halves_member){.transport = transports[r], .n = n, .in_place = in_place, .x = x, .sum = sum};
    assert_int_equal(ronde__kernels_get(&members[r].kernels), RONDE_OK);
    assert_int_equal(pthread_create(&threads[r], NULL, run_halves, &members[r]), 0);
  }
  for (int r = 0; r < p; r++) pthread_join(threads[r], NULL);
  for (int r = 0; r < p; r++) assert_int_equal(members[r].status, RONDE_OK);
  for (int owner = 0; owner < p; owner++)
    for (int64_t i = 2 * ronde__shard_begin((int64_t)n / 2, owner, p);
         i < 2 * ronde__shard_begin((int64_t)n / 2, owner + 1, p); i++)
      check_half(members, p, owner, (size_t)i);
  for (int r = 0; r < p; r++) {
    free(members[r].x);
    if (!in_place) free(members[r].sum);
    ronde__transport_destroy(transports[r]);
  }
}

static void all_ranks_come_to_the_replay(void **state) {
  static const int sizes[] = {2, 3, 4, 7};
  static const size_t lengths[] = {2, 6, 16, 1002, 20000};
  for (size_t p = 0; p < RONDE__COUNT(sizes); p++)
    for (size_t n = 0; n < RONDE__COUNT(lengths); n++)
      for (int in_place = 0; in_place < 2; in_place++) check_halves(sizes[p], lengths[n], in_place);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_ranks_come_to_the_replay)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

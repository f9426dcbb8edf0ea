/* Philox against its published answers, and the distributions made of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "base/rng.h"

/* The known answers that the authors publish with Random123 (philox4x32, 10 rounds). */
static void philox_known_answers(void **state) {
  static const struct {
    uint32_t counter[4], key[2], answer[4];
  } cases[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (size_t i = 0; i < RONDE__COUNT(cases); i++) {
    const uint32_t *c = cases[i].counter, *k = cases[i].key;
    uint32_t out[4];
    ronde__philox(k[0] | (uint64_t)k[1] << 32, c[2] | (uint64_t)c[3] << 32, c[0] | (uint64_t)c[1] << 32, out);
    assert_memory_equal(out, cases[i].answer, sizeof out);
  }
}

static void values_come_from_consecutive_blocks(void **state) {
  ronde__rng rng = ronde__rng_make(7, RONDE__STREAM_INIT);
  for (uint64_t block = 0; block < 3; block++) {
    uint32_t out[4];
    ronde__philox(7, RONDE__STREAM_INIT, block, out);
    for (int i = 0; i < 4; i++) assert_int_equal(ronde__rng_u32(&rng), out[i]);
  }
  ronde__rng other = ronde__rng_make(7, RONDE__STREAM_SHUFFLE);
  ronde__rng same = ronde__rng_make(7, RONDE__STREAM_INIT);
  assert_int_not_equal(ronde__rng_u32(&other), ronde__rng_u32(&same));
}

static void skipping_is_drawing(void **state) {
  for (int before = 0; before < 6; before++)
    for (int skipped = 0; skipped < 20; skipped++) {
      ronde__rng drawn = ronde__rng_make(3, RONDE__STREAM_INIT), jumped = drawn;
      for (int i = 0; i < before; i++) ronde__rng_u32(&drawn), ronde__rng_u32(&jumped);
      for (int i = 0; i < skipped; i++) ronde__rng_u32(&drawn);
      ronde__rng_skip(&jumped, (uint64_t)skipped);
      for (int i = 0; i < 9; i++) assert_int_equal(ronde__rng_u32(&jumped), ronde__rng_u32(&drawn));
    }
}

static void below_is_uniform_and_bounded(void **state) {
  ronde__rng rng = ronde__rng_make(1, 2);
  int64_t counts[6] = {0};
  for (int i = 0; i < 60000; i++) {
    uint64_t v = ronde__rng_below(&rng, 6);
    assert_true(v < 6);
    counts[v]++;
  }
  /* 5 degrees of freedom: 25 lies beyond 1 in 7,000. */
  double chi2 = 0;
  for (int i = 0; i < 6; i++) chi2 += (double)((counts[i] - 10000) * (counts[i] - 10000)) / 10000;
  assert_true(chi2 < 25);
  uint64_t large = 3ull << 61, above_half = 0;
  for (int i = 0; i < 10000; i++) {
    uint64_t v = ronde__rng_below(&rng, large);
    assert_true(v < large);
    above_half += v >= large / 2;
  }
  assert_in_range(above_half, 4750, 5250);
  assert_int_equal(ronde__rng_below(&rng, 1), 0);
  assert_int_equal(ronde__rng_below(&rng, 0), 0);
}

static void uniform_and_normal_have_their_moments(void **state) {
  enum { N = 200000 };
  ronde__rng rng = ronde__rng_make(3, 4);
  double sum = 0, squares = 0, normal_sum = 0, normal_squares = 0, normal_fourth = 0;
  int inside = 0;
  for (int i = 0; i < N; i++) {
    double u = ronde__rng_uniform(&rng), z = ronde__rng_normal(&rng);
    assert_true(u >= 0 && u < 1 && isfinite(z));
    sum += u;
    squares += u * u;
    normal_sum += z;
    normal_squares += z * z;
    normal_fourth += z * z * z * z;
    inside += fabs(z) < 1;
  }
  assert_true(fabs(sum / N - 0.5) < 0.004);
  assert_true(fabs(squares / N - 1.0 / 3) < 0.004);
  assert_true(fabs(normal_sum / N) < 0.012);
  assert_true(fabs(normal_squares / N - 1) < 0.017);
  assert_true(fabs(normal_fourth / N - 3) < 0.12);
  assert_true(fabs((double)inside / N - 0.682689) < 0.006);
}

static void permutation_holds_each_once(void **state) {
  int64_t ids[1000];
  bool seen[1000] = {false};
  ronde__rng rng = ronde__rng_make(5, RONDE__STREAM_SHUFFLE);
  ronde__rng_permutation(&rng, ids, 1000);
  int64_t fixed = 0;
  for (int64_t i = 0; i < 1000; i++) {
    assert_in_range(ids[i], 0, 999);
    assert_false(seen[ids[i]]);
    seen[ids[i]] = true;
    fixed += ids[i] == i;
  }
  assert_true(fixed < 10);
  ronde__rng_permutation(&rng, ids, 0);
  ronde__rng_permutation(&rng, ids, 1);
  assert_int_equal(ids[0], 0);
  /* Every order of three equally often. */
  int counts[3][3] = {{0}};
  for (int i = 0; i < 6000; i++) {
    ronde__rng_permutation(&rng, ids, 3);
    counts[ids[0]][ids[1]]++;
  }
  for (int a = 0; a < 3; a++)
    for (int b = 0; b < 3; b++) assert_in_range(counts[a][b], a == b ? 0 : 850, a == b ? 0 : 1150);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(philox_known_answers),
      cmocka_unit_test(values_come_from_consecutive_blocks),
      cmocka_unit_test(skipping_is_drawing),
      cmocka_unit_test(below_is_uniform_and_bounded),
      cmocka_unit_test(uniform_and_normal_have_their_moments),
      cmocka_unit_test(permutation_holds_each_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

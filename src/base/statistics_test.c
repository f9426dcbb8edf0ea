#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/base.h"

#include <math.h>

static ronde_statistics of(const double *x, int64_t n) {
  ronde_statistics s;
  assert_int_equal(ronde_statistics_of(x, n, &s), RONDE_OK);
  return s;
}

static void medians_and_deviations(void **unused) {
  static const struct {
    double x[7];
    int64_t n;
    double median, mad;
  } cases[] = {
      {{3}, 1, 3, 0},
      {{4, 1}, 2, 2.5, 1.5},
      {{5, 1, 3}, 3, 3, 2},
      {{9, 1, 100, 2}, 4, 5.5, 4},
      {{2, 2, 2, 2, 2}, 5, 2, 0},
      {{7, -1, 4, 4, 90, 3, 5}, 7, 4, 1},
  };
  for (size_t i = 0; i < RONDE__COUNT(cases); i++) {
    ronde_statistics s = of(cases[i].x, cases[i].n);
    assert_true(s.median == cases[i].median);
    assert_true(s.mad == cases[i].mad);
    assert_true(s.low <= s.median && s.median <= s.high);
  }
}

/* Of 100 sets from one distribution the interval must hold its median in about 95; and never be trivially wide. */
static void the_interval_covers_the_median(void **unused) {
  uint32_t random = 5;
  int covered = 0;
  double width = 0;
  for (int set = 0; set < 100; set++) {
    double x[60];
    for (int i = 0; i < 60; i++) {
      random = random * 1664525u + 1013904223u;
      x[i] = 10 + (double)(random >> 8) / (1 << 24); /* uniform in [10, 11): the median is 10.5 */
    }
    ronde_statistics s = of(x, 60);
    covered += s.low <= 10.5 && 10.5 <= s.high;
    width += (s.high - s.low) / 100;
  }
  assert_in_range(covered, 88, 100);
  assert_true(width > 0.15 && width < 0.35); /* 2 * 1.96 * 0.5 / sqrt(60) = 0.25 */
}

static void the_same_samples_give_the_same_interval(void **unused) {
  static const double x[] = {1, 5, 2, 8, 3, 9, 4}, scaled[] = {2, 10, 4, 16, 6, 18, 8};
  ronde_statistics a = of(x, 7), b = of(x, 7), c = of(scaled, 7);
  assert_memory_equal(&a, &b, sizeof a);
  assert_true(c.low == 2 * a.low && c.high == 2 * a.high);
}

static void no_samples_are_refused(void **unused) {
  ronde_statistics s;
  assert_int_equal(ronde_statistics_of(NULL, 0, &s), RONDE_E_USAGE);
  assert_int_equal(ronde_statistics_of((const double[]){1, NAN}, 2, &s), RONDE_E_NUMERIC);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(medians_and_deviations),
      cmocka_unit_test(the_interval_covers_the_median),
      cmocka_unit_test(the_same_samples_give_the_same_interval),
      cmocka_unit_test(no_samples_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

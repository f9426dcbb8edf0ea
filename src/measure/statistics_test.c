/* Medians and intervals: the intervals hold the truth as often as they claim. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"
#include "measure/measurement.h"

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

/* ---- rounds ---- */

static ronde_statistics of_rounds(const double *x, int64_t n) {
  ronde_statistics s;
  assert_int_equal(ronde_statistics_of_rounds(x, n, &s), RONDE_OK);
  return s;
}

/* Half the interval of the logarithms, in their standard errors, is Student's t of the tables. */
static void the_interval_of_rounds_is_students(void **unused) {
  static const struct {
    int n;
    double t;
  } table[] = {{2, 12.706205}, {3, 4.302653}, {4, 3.182446}, {5, 2.776445}, {10, 2.262157}, {31, 2.042272}};
  for (size_t i = 0; i < RONDE__COUNT(table); i++) {
    double x[31], mean = 0, squares = 0;
    int n = table[i].n;
    for (int k = 0; k < n; k++) mean += log(x[k] = 3 + (k * 7) % 5) / n;
    for (int k = 0; k < n; k++) squares += (log(x[k]) - mean) * (log(x[k]) - mean);
    ronde_statistics s = of_rounds(x, n);
    double half = table[i].t * sqrt(squares / (n - 1) / n);
    assert_float_equal(log(s.low), mean - half, 1e-5 * half);
    assert_float_equal(log(s.high), mean + half, 1e-5 * half);
  }
}

static void few_and_odd_rounds(void **unused) {
  ronde_statistics one = of_rounds((const double[]){7}, 1);
  assert_true(one.median == 7 && one.mad == 0 && isnan(one.low) && isnan(one.high));
  ronde_statistics same = of_rounds((const double[]){3, 3, 3}, 3);
  assert_true(same.low <= 3 && 3 <= same.high && same.high - same.low < 1e-12);
  /* A phase may take no time at all, an overhead less than none. */
  ronde_statistics zeros = of_rounds((const double[]){0, 0, 0}, 3), around = of_rounds((const double[]){-1, 0, 1}, 3);
  assert_true(zeros.low == 0 && zeros.high == 0);
  assert_float_equal(around.high, 4.302653 / sqrt(3), 1e-5);
  assert_float_equal(around.low, -4.302653 / sqrt(3), 1e-5);
  /* Two groups of rounds: the median is far from the mean, but still lies in the interval. */
  double groups[41];
  for (int i = 0; i < 41; i++) groups[i] = i < 21 ? 1 : 2;
  assert_true(of_rounds(groups, 41).low == 1);
  ronde_statistics s;
  assert_int_equal(ronde_statistics_of_rounds(NULL, 0, &s), RONDE_E_USAGE);
  assert_int_equal(ronde_statistics_of_rounds((const double[]){1, INFINITY}, 2, &s), RONDE_E_NUMERIC);
}

/* A simulated comparison. The time of a step is its true time, times a disturbance of the round (the same for both
 * cases), one of the run and one of the step: all log-normal. */
enum { STEPS = 15, COMPARISONS = 4000 };
static const double truth[2] = {0.002, 0.0021};

static void simulate_round(ronde__rng *rng, double medians[2]) {
  double shared = 0.05 * ronde__rng_normal(rng);
  for (int c = 0; c < 2; c++) {
    double steps[STEPS], run = shared + 0.03 * ronde__rng_normal(rng);
    for (int i = 0; i < STEPS; i++) steps[i] = truth[c] * exp(run + 0.08 * ronde__rng_normal(rng));
    medians[c] = ronde__median(steps, STEPS);
  }
}

/* Of many comparisons, the intervals of the figures and of the ratios hold the truth in 95 %: 93 to 97 are three
 * standard errors and more away. */
static void intervals_hold_the_truth_as_often_as_they_say(void **unused) {
  static const int rounds[] = {2, 3, 5, 10};
  for (size_t i = 0; i < RONDE__COUNT(rounds); i++) {
    ronde__rng rng = ronde__rng_make(17, i);
    int n = rounds[i], n_figure = 0, n_ratio = 0;
    for (int k = 0; k < COMPARISONS; k++) {
      double figures[10], ratios[10], medians[2];
      for (int r = 0; r < n; r++) {
        simulate_round(&rng, medians);
        figures[r] = medians[0];
        ratios[r] = medians[0] / medians[1];
      }
      ronde_statistics figure = of_rounds(figures, n), ratio = of_rounds(ratios, n);
      n_figure += figure.low <= truth[0] && truth[0] <= figure.high;
      n_ratio += ratio.low <= truth[0] / truth[1] && truth[0] / truth[1] <= ratio.high;
    }
    print_message("%d rounds: %.2f %% of the figures, %.2f %% of the ratios\n", n, 100. * n_figure / COMPARISONS,
                  100. * n_ratio / COMPARISONS);
    assert_in_range(n_figure, COMPARISONS * 93 / 100, COMPARISONS * 97 / 100);
    assert_in_range(n_ratio, COMPARISONS * 93 / 100, COMPARISONS * 97 / 100);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(medians_and_deviations),
      cmocka_unit_test(the_interval_covers_the_median),
      cmocka_unit_test(the_same_samples_give_the_same_interval),
      cmocka_unit_test(no_samples_are_refused),
      cmocka_unit_test(the_interval_of_rounds_is_students),
      cmocka_unit_test(few_and_odd_rounds),
      cmocka_unit_test(intervals_hold_the_truth_as_often_as_they_say),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

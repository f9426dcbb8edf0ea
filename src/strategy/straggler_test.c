/* Who was late, from times that are made up. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "strategy/strategy.h"

#define MS 1000000u

static ronde__straggler *make(int n_ranks) {
  ronde__straggler *late;
  assert_int_equal(ronde__straggler_create(n_ranks, &late), RONDE_OK);
  return late;
}

/* Milliseconds of load, compute, exchange, other. */
static ronde__local_result found(uint64_t load, uint64_t compute, uint64_t exchange, uint64_t other) {
  return (ronde__local_result){.spent_ns = {load * MS, compute * MS, exchange * MS, other * MS}};
}

static void check(const ronde__straggler *late, int rank, int64_t steps, double waited_ms, double median_ms) {
  ronde__straggler_row row = ronde__straggler_row_of(late, rank);
  assert_int_equal(row.steps, steps);
  if (fabs(row.waited_s - 1e-3 * waited_ms) > 1e-9 || fabs(row.waited_median_s - 1e-3 * median_ms) > 1e-6)
    fail_msg("rank %d: waited %g s, median %g s", rank, row.waited_s, row.waited_median_s);
}

static void check_above(const ronde__straggler *late, int rank, ronde__straggler_cause cause,
                        const double above_ms[4]) {
  ronde__straggler_row row = ronde__straggler_row_of(late, rank);
  assert_int_equal(ronde__straggler_row_cause(&row), cause);
  for (int c = 0; c < RONDE__N_STRAGGLER_CAUSES; c++)
    if (fabs(row.above_s[c] - 1e-3 * above_ms[c]) > 1e-9)
      fail_msg("rank %d: %s: %g s above the others", rank, ronde__straggler_name((ronde__straggler_cause)c),
               row.above_s[c]);
}

static void the_last_is_charged_with_what_the_others_waited(void **state) {
  ronde__straggler *late = make(3);
  ronde__straggler_note(late, (ronde__local_result[]){found(0, 10, 2, 1), found(0, 30, 2, 1), found(1, 10, 2, 2)});
  ronde__straggler_note(late, (ronde__local_result[]){found(0, 10, 2, 1), found(0, 20, 2, 1), found(0, 10, 2, 1)});
  ronde__straggler_note(late, (ronde__local_result[]){found(0, 10, 8, 1), found(0, 10, 2, 1), found(2, 10, 2, 1)});
  check(late, 0, 1, 5, 5);     /* 19 against 13 and 15 */
  check(late, 1, 2, 29, 14.5); /* 33 against 13 and 15; 23 against 13 twice */
  check(late, 2, 0, 0, 0);
  check_above(late, 0, RONDE__STRAGGLER_EXCHANGE, (double[]){-1, 0, 6, 0});
  check_above(late, 1, RONDE__STRAGGLER_COMPUTE, (double[]){-0.5, 30, 0, -0.5});
  ronde__straggler_destroy(late);
}

static void each_cause_is_found(void **state) {
  for (int c = 0; c < RONDE__N_STRAGGLER_CAUSES; c++) {
    ronde__straggler *late = make(4);
    ronde__local_result results[4];
    for (int r = 0; r < 4; r++) {
      results[r] = found(5, 5, 5, 5);
      results[r].spent_ns[(c + 1) % RONDE__N_STRAGGLER_CAUSES] += 90 * MS; /* long, but for all of them */
    }
    results[2].spent_ns[c] += 7 * MS;
    ronde__straggler_note(late, results);
    check(late, 2, 1, 7, 7);
    ronde__straggler_row row = ronde__straggler_row_of(late, 2);
    assert_int_equal(ronde__straggler_row_cause(&row), c);
    ronde__straggler_destroy(late);
  }
}

static void a_long_run_keeps_a_fair_sample(void **state) {
  enum { STEPS = 200000 };
  ronde__straggler *late = make(2);
  for (int i = 0; i < STEPS; i++) /* from 0 to 20 s, in no order that the sampling could follow */
    ronde__straggler_note(late,
                          (ronde__local_result[]){found(0, 1, 0, 0), found(0, 1, 0, (uint64_t)(i * 7919ll % 20000))});
  ronde__straggler_row first = ronde__straggler_row_of(late, 0), second = ronde__straggler_row_of(late, 1);
  assert_int_equal(first.steps + second.steps, STEPS);
  assert_int_equal(first.steps, STEPS / 20000); /* of equally late ranks the first */
  assert_true(first.waited_s == 0 && first.waited_median_s == 0);
  assert_true(second.waited_median_s > 8.5 && second.waited_median_s < 11.5);
  assert_true(fabs(second.waited_s / STEPS - 9.9995) < 1e-6);
  ronde__straggler_destroy(late);
  ronde__straggler_destroy(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_last_is_charged_with_what_the_others_waited),
      cmocka_unit_test(each_cause_is_found),
      cmocka_unit_test(a_long_run_keeps_a_fair_sample),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

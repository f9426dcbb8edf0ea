/* The record of a measurement: what is paired, ranked or left unranked, and what stands in bench.json. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "measure/measurement.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ronde_measurement *measurement;

static int make(void **unused) { return ronde_measurement_create("bench test", &measurement); }

static int end(void **unused) {
  ronde_measurement_destroy(measurement);
  return 0;
}

static int add_case(const char *name, const char *const *values) {
  int index;
  assert_int_equal(ronde_measurement_add_case(measurement, name, "ronde", values, &index), RONDE_OK);
  return index;
}

static void add(int of, const char *figure, int round, double sample) {
  assert_int_equal(ronde_measurement_add_samples(measurement, of, figure, round, &sample, 1), RONDE_OK);
}

static json_t *written(void) {
  char *text;
  assert_int_equal(ronde_measurement_json(measurement, &text), RONDE_OK);
  json_t *bench = json_loads(text, 0, NULL);
  assert_non_null(bench);
  free(text);
  return bench;
}

static json_t *field(const json_t *bench, size_t index, const char *name) {
  return json_object_get(json_array_get(json_object_get(bench, "cases"), index), name);
}

static double number(const json_t *object, const char *key) { return json_number_value(json_object_get(object, key)); }

static void a_record_says_what_was_measured(void **unused) {
  static const char *const execs[] = {"graph", "eager"}, *const threads[] = {"1", "2"};
  static const char *const values[][2] = {{"graph", "2"}, {"eager", NULL}};
  const ronde_work work = {"step", 42, NAN, 1e9};
  assert_int_equal(ronde_measurement_add_axis(measurement, "exec", execs, 2), RONDE_OK);
  assert_int_equal(ronde_measurement_add_axis(measurement, "threads", threads, 2), RONDE_OK);
  add_case("a", values[0]);
  assert_int_equal(add_case("b", values[1]), 1);
  assert_int_equal(ronde_measurement_add_axis(measurement, "late", execs, 2), RONDE_E_USAGE);
  assert_int_equal(ronde_measurement_set(measurement, 0, "dtype", "\"f32\""), RONDE_OK);
  assert_int_equal(ronde_measurement_set(measurement, 0, "dtype", "f32"), RONDE_E_USAGE);
  assert_int_equal(ronde_measurement_set(measurement, 2, "dtype", "1"), RONDE_E_USAGE);
  assert_int_equal(ronde_measurement_set(measurement, RONDE_WHOLE, "rounds", "3"), RONDE_OK);
  assert_int_equal(ronde_measurement_set_work(measurement, 1, &work), RONDE_OK);
  json_t *bench = written();
  assert_string_equal(json_string_value(json_object_get(bench, "schema")), "ronde.bench.v1");
  assert_string_equal(json_string_value(json_object_get(bench, "verb")), "bench test");
  assert_true(json_array_size(json_object_get(bench, "command")) > 0);
  assert_true(json_is_null(json_object_get(bench, "host_load")));
  assert_int_equal(json_integer_value(json_object_get(bench, "rounds")), 3);
  assert_int_equal(json_array_size(json_object_get(json_object_get(bench, "axes"), "threads")), 2);
  assert_string_equal(json_string_value(json_object_get(field(bench, 0, "values"), "threads")), "2");
  assert_null(json_object_get(field(bench, 1, "values"), "threads"));
  assert_string_equal(json_string_value(field(bench, 0, "dtype")), "f32");
  assert_string_equal(json_string_value(json_object_get(field(bench, 1, "work"), "unit")), "step");
  assert_true(number(field(bench, 1, "work"), "examples") == 42);
  assert_true(json_is_null(json_object_get(field(bench, 1, "work"), "bytes")));
  json_decref(bench);
}

/* Median and interval are those of the rounds, the deviation that of all samples. */
static void a_figure_is_of_rounds(void **unused) {
  static const double rounds[3][3] = {{1, 2, 30}, {4, 5, 6}, {3, 3, 3}};
  const double medians[] = {2, 5, 3};
  ronde_statistics s;
  add_case("a", NULL);
  for (int r = 0; r < 3; r++) {
    assert_int_equal(ronde_measurement_add_samples(measurement, 0, "step_s", r, rounds[r], 3), RONDE_OK);
    assert_true(ronde_measurement_last(measurement, 0, "step_s") == medians[r]);
  }
  assert_int_equal(ronde_measurement_add_samples(measurement, 0, "step_s", 2, rounds[0], 3), RONDE_E_USAGE);
  assert_int_equal(ronde_measurement_add_samples(measurement, 0, "step_s", 3, rounds[0], 0), RONDE_E_USAGE);
  assert_int_equal(ronde_statistics_of_rounds(medians, 3, &s), RONDE_OK);
  add(0, "energy_j", 0, NAN);
  json_t *bench = written(), *step = field(bench, 0, "step_s"), *energy = field(bench, 0, "energy_j");
  assert_int_equal(json_array_size(json_object_get(step, "samples")), 9);
  assert_true(number(step, "median") == 3);
  assert_float_equal(number(step, "low"), s.low, 1e-12);
  assert_float_equal(number(step, "high"), s.high, 1e-12);
  assert_true(number(step, "mad") == 1); /* of 1 2 3 3 3 4 5 6 30 around 3 */
  assert_true(json_is_null(json_object_get(energy, "median")));
  assert_true(json_is_null(json_array_get(json_object_get(energy, "samples"), 0)));
  assert_true(isnan(ronde_measurement_last(measurement, 0, "none")));
  json_decref(bench);
}

/* A round that failed in one of the cases pairs with nothing. */
static void ratios_are_taken_round_by_round(void **unused) {
  add_case("a", NULL);
  add_case("b", NULL);
  for (int r = 0; r < 4; r++) add(0, "step_s", r, 10 + r);
  for (int r = 0; r < 4; r++)
    if (r != 1) add(1, "step_s", r, 5);
  assert_int_equal(ronde_measurement_rank(measurement, "step_s", false), RONDE_OK);
  json_t *bench = written(), *samples = json_object_get(field(bench, 1, "times_as_fast"), "samples");
  assert_true(json_is_true(json_object_get(bench, "ranked")));
  assert_string_equal(json_string_value(json_object_get(bench, "ranked_by")), "step_s");
  assert_true(json_is_null(json_object_get(bench, "not_ranked")));
  assert_int_equal(json_array_size(samples), 3);
  const double expected[] = {2, 2.4, 2.6};
  for (size_t i = 0; i < 3; i++) assert_float_equal(json_number_value(json_array_get(samples, i)), expected[i], 1e-12);
  assert_true(json_is_null(field(bench, 0, "verdict")));
  assert_string_equal(json_string_value(field(bench, 1, "verdict")), "faster");
  json_decref(bench);
}

static void more_of_a_rate_is_faster(void **unused) {
  add_case("a", NULL);
  add_case("b", NULL);
  add_case("c", NULL);
  for (int r = 0; r < 3; r++) {
    add(0, "examples_per_s", r, 100 + r);
    add(1, "examples_per_s", r, 50);
    add(2, "examples_per_s", r, r == 1 ? 400 : 30);
  }
  assert_int_equal(ronde_measurement_rank(measurement, "examples_per_s", true), RONDE_OK);
  json_t *bench = written();
  assert_float_equal(number(field(bench, 1, "times_as_fast"), "median"), 50.0 / 101, 1e-12);
  assert_string_equal(json_string_value(field(bench, 1, "verdict")), "slower");
  assert_string_equal(json_string_value(field(bench, 2, "verdict")), "cannot be told apart");
  json_decref(bench);
}

static void other_work_is_not_ranked(void **unused) {
  add_case("a", NULL);
  add_case("b", NULL);
  add(0, "step_s", 0, 1);
  add(1, "step_s", 0, 2);
  assert_int_equal(ronde_measurement_set(measurement, 0, "batch", "42"), RONDE_OK);
  assert_int_equal(ronde_measurement_set(measurement, 1, "batch", "42.0"), RONDE_OK);
  assert_false(ronde_measurement_differs(measurement, "batch", 0, 1));
  assert_false(ronde_measurement_differs(measurement, "padding", 0, 1));
  assert_null(ronde_measurement_difference(measurement));
  assert_int_equal(ronde_measurement_set(measurement, 1, "batch", "43"), RONDE_OK);
  assert_int_equal(ronde_measurement_set(measurement, 1, "padding", "\"same\""), RONDE_OK);
  assert_true(ronde_measurement_differs(measurement, "batch", 0, 1));
  assert_true(ronde_measurement_differs(measurement, "padding", 0, 1));
  assert_string_equal(ronde_measurement_difference(measurement), "batch is 42 with a, 43 with b");
  assert_int_equal(ronde_measurement_rank(measurement, "step_s", false), RONDE_OK);
  json_t *bench = written(), *differences = json_object_get(bench, "differences");
  assert_true(json_is_false(json_object_get(bench, "ranked")));
  assert_true(json_is_null(json_object_get(bench, "ranked_by")));
  assert_string_equal(json_string_value(json_object_get(bench, "not_ranked")),
                      "not the same work: batch is 42 with a, 43 with b");
  assert_int_equal(json_array_size(differences), 2);
  assert_string_equal(json_string_value(json_object_get(json_array_get(differences, 1), "text")),
                      "padding is missing with a, \"same\" with b");
  assert_true(json_is_null(field(bench, 1, "times_as_fast")));
  json_decref(bench);
  ronde_measurement_forget_differences(measurement);
  assert_null(ronde_measurement_difference(measurement));
}

static void a_record_without_a_ranking_says_why(void **unused) {
  add_case("a", NULL);
  assert_int_equal(ronde_measurement_leave_unranked(measurement, "each case is other work"), RONDE_OK);
  ronde_measurement_begin(measurement);
  ronde_measurement_end(measurement); /* at once: too short to tell */
  json_t *bench = written();
  assert_string_equal(json_string_value(json_object_get(bench, "not_ranked")), "each case is other work");
  assert_true(json_is_null(field(bench, 0, "times_as_fast")) && json_is_null(field(bench, 0, "verdict")));
  assert_true(json_is_null(json_object_get(bench, "host_load")));
  json_decref(bench);
}

static void it_is_written_whole_or_not_at_all(void **unused) {
  char folder[] = "/tmp/ronde-measurement-XXXXXX", path[96], inner[64];
  assert_non_null(mkdtemp(folder));
  snprintf(inner, sizeof inner, "%s/of/two", folder);
  snprintf(path, sizeof path, "%s/bench.json", inner);
  add_case("a", NULL);
  assert_int_equal(ronde_measurement_write(measurement, inner), RONDE_OK);
  json_t *kept = json_load_file(path, 0, NULL), *bench = written();
  assert_true(kept && json_equal(kept, bench));
  json_decref(kept);
  json_decref(bench);
  assert_int_equal(ronde_measurement_write(measurement, path), RONDE_E_WRITE);
  unlink(path);
  rmdir(inner);
  snprintf(inner, sizeof inner, "%s/of", folder);
  rmdir(inner);
  assert_int_equal(rmdir(folder), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_record_says_what_was_measured, make, end),
      cmocka_unit_test_setup_teardown(a_figure_is_of_rounds, make, end),
      cmocka_unit_test_setup_teardown(ratios_are_taken_round_by_round, make, end),
      cmocka_unit_test_setup_teardown(more_of_a_rate_is_faster, make, end),
      cmocka_unit_test_setup_teardown(other_work_is_not_ranked, make, end),
      cmocka_unit_test_setup_teardown(a_record_without_a_ranking_says_why, make, end),
      cmocka_unit_test_setup_teardown(it_is_written_whole_or_not_at_all, make, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

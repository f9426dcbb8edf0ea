/* One trace of several processes: all of them are in it, and on one clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdbool.h>

#include "mpi_testing.h"

enum { RANKS = 3, STEPS = 12, ROUNDING_US = 1 };

/* When a rank took part in an exchange with all others, in microseconds. */
typedef struct meeting {
  double begin, end;
} meeting;

typedef struct ranks {
  meeting meetings[RANKS][STEPS];
  int n_meetings[RANKS], n_ops[RANKS], n_phases[RANKS];
  double backward_end[RANKS]; /* the last one */
  double first;
} ranks;

static double number(const json_t *json, const char *key) {
  const json_t *value = json_object_get(json, key);
  if (!json_is_number(value)) fail_msg("%s is no number", key);
  return json_number_value(value);
}

/* Waiting, moving data and updating follow each other without a gap, where they are of one exchange. What forward
 * passes wait for is no meeting of all. */
static void add_exchange(ranks *r, int rank, double begin, double end) {
  int n = r->n_meetings[rank];
  if (n > 0 && fabs(r->meetings[rank][n - 1].end - begin) < 0.01) r->meetings[rank][n - 1].end = end;
  if (fabs(r->backward_end[rank] - begin) >= 0.01) return;
  assert_true(n < STEPS);
  r->meetings[rank][r->n_meetings[rank]++] = (meeting){begin, end};
}

static void add_event(ranks *r, const json_t *event) {
  const char *name = json_string_value(json_object_get(event, "name"));
  int rank = (int)number(event, "pid");
  assert_in_range(rank, 0, RANKS - 1);
  if (strcmp(json_string_value(json_object_get(event, "ph")), "X")) return;
  double begin = number(event, "ts"), end = begin + number(event, "dur");
  assert_true(begin >= 0 && end >= begin);
  r->first = fmin(r->first, begin);
  bool phase = number(event, "tid") == 0;
  *(phase ? &r->n_phases[rank] : &r->n_ops[rank]) += 1;
  bool exchanges = !strcmp(name, "exchange") || !strcmp(name, "wait") || !strcmp(name, "update");
  if (phase && exchanges) add_exchange(r, rank, begin, end);
  if (phase && !strcmp(name, "backward")) r->backward_end[rank] = end;
}

static void check_names(const json_t *events) {
  char host[256] = "", expected[300];
  size_t i;
  json_t *event;
  int n = 0;
  gethostname(host, sizeof host - 1);
  json_array_foreach(events, i, event) {
    if (strcmp(json_string_value(json_object_get(event, "name")), "process_name")) continue;
    snprintf(expected, sizeof expected, "rank %d on %.63s", n, host);
    assert_string_equal(json_string_value(json_object_get(json_object_get(event, "args"), "name")), expected);
    assert_int_equal((int)number(event, "pid"), n++);
  }
  assert_int_equal(n, RANKS);
}

/* Nobody leaves an exchange before all have come: it overlaps on any two ranks, but for what their clocks may have been
 * misread by. */
static void check_overlaps(const ranks *r, const double error_us[RANKS]) {
  for (int k = 0; k < STEPS; k++)
    for (int a = 0; a < RANKS; a++)
      for (int b = 0; b < RANKS; b++) {
        double gap = r->meetings[a][k].begin - r->meetings[b][k].end;
        if (gap > error_us[a] + error_us[b] + ROUNDING_US)
          fail_msg("exchange %d: rank %d begins %g us behind the end on rank %d", k, a, gap, b);
      }
}

/* other_clock: rank 1's is 5000 s ahead. */
static void check_trace(bool other_clock) {
  json_t *trace = left_by("run", "trace.json"), *events = json_object_get(trace, "traceEvents"), *event;
  json_t *other = json_object_get(trace, "otherData"), *clocks = json_object_get(other, "clocks");
  json_t *dropped = json_object_get(other, "dropped_spans");
  ranks r = {.first = INFINITY};
  double error_us[RANKS];
  size_t i;
  check_names(events);
  json_array_foreach(events, i, event) add_event(&r, event);
  assert_true(r.first == 0);
  for (int rank = 0; rank < RANKS; rank++) {
    char name[24];
    snprintf(name, sizeof name, "rank %d", rank);
    const json_t *clock = json_object_get(clocks, name);
    error_us[rank] = number(clock, "error_us");
    assert_true(rank == 0 ? error_us[rank] == 0 : error_us[rank] > 0);
    double expected = other_clock && rank == 1 ? 5000e6 : 0;
    assert_true(fabs(number(clock, "ahead_us") - expected) <= error_us[rank]);
    assert_true(fabs(number(clock, "drift_us")) <= 2 * error_us[rank]); /* they are one machine's */
    assert_int_equal(r.n_meetings[rank], STEPS);
    assert_true(r.n_ops[rank] > 10 * STEPS);
    assert_true(r.n_phases[rank] > 5 * STEPS);
    assert_int_equal((int)number(dropped, name), 0);
  }
  check_overlaps(&r, error_us);
  json_decref(trace);
}

static void all_processes_are_in_one_trace(void **state) {
  need_mpi();
  check_run(0, run("timeout 100 " RONDE " train " SMALL " --workers 3 --transport mpi --trace --out run"));
  check_trace(false);
}

static void clocks_that_differ_are_read_against_each_other(void **state) {
  need_mpi();
  if (run(OTHER_CLOCK "true")) {
    print_message("SKIP: no right to another clock\n");
    skip();
  }
#define ONE "-np 1 %s " RONDE " train " SMALL " --trace --overwrite --out run "
  check_run(0, run(MPIRUN ONE ": " ONE ": " ONE, "", OTHER_CLOCK, ""));
#undef ONE
  check_trace(true);
}

static void dedicated_servers_are_not_in_it(void **state) {
  need_mpi();
  check_run(0, run("timeout 100 " RONDE " train " SMALL " --strategy ps-sync --workers 2 --placement dedicated "
                   "--transport mpi --trace --out ps"));
  json_t *trace = left_by("ps", "trace.json");
  json_t *clocks = json_object_get(json_object_get(trace, "otherData"), "clocks");
  assert_int_equal(json_object_size(clocks), 2);
  json_decref(trace);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_processes_are_in_one_trace),
      cmocka_unit_test(clocks_that_differ_are_read_against_each_other),
      cmocka_unit_test(dedicated_servers_are_not_in_it),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

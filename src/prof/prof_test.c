/* The ledger: phases add up to the time that passed, rows of ops add up, and a trace says the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "prof/prof.h"
#include "prof/trace.h"

static ronde__prof *make(int rank, bool trace) {
  ronde__prof *prof;
  assert_int_equal(ronde__prof_create(rank, NULL, trace, &prof), RONDE_OK);
  return prof;
}

static uint64_t sum_of(const uint64_t totals[RONDE__N_PHASES]) {
  uint64_t sum = 0;
  for (int i = 0; i < RONDE__N_PHASES; i++) sum += totals[i];
  return sum;
}

static void phases_sum_to_the_wall(void **state) {
  ronde__prof *prof = make(0, false);
  uint64_t totals[RONDE__N_PHASES];
  uint64_t begin = ronde__prof_switch(prof, RONDE__PHASE_OTHER), end = begin;
  for (int i = 0; i < 1000; i++) end = ronde__prof_switch(prof, (ronde__phase)(i % RONDE__N_PHASES));
  ronde__prof_totals(prof, totals);
  assert_int_equal(sum_of(totals), end - begin);
  ronde__prof_destroy(prof);
}

static void a_planted_delay_appears_in_its_phase(void **state) {
  ronde__prof *prof = make(0, false);
  uint64_t totals[RONDE__N_PHASES];
  uint64_t begin = ronde__prof_switch(prof, RONDE__PHASE_OTHER);
  ronde__prof_switch(prof, RONDE__PHASE_LOAD);
  nanosleep(&(struct timespec){0, 5000000}, NULL);
  uint64_t end = ronde__prof_switch(prof, RONDE__PHASE_FORWARD);
  ronde__prof_totals(prof, totals);
  assert_true(totals[RONDE__PHASE_LOAD] >= 5000000);
  assert_int_equal(totals[RONDE__PHASE_FORWARD], 0);
  assert_int_equal(totals[RONDE__PHASE_LOAD] + totals[RONDE__PHASE_OTHER], end - begin);
  ronde__prof_destroy(prof);
}

/* A clock that goes on by one for each time it is read. */
static uint64_t reads;
static uint64_t read_count(ronde__time *time) { return ++reads; }

static void the_clock_is_the_ranks(void **state) {
  ronde__time_ops ops = {.now_ns = read_count};
  ronde__time time = {&ops};
  ronde__prof *prof;
  uint64_t totals[RONDE__N_PHASES];
  reads = 41;
  assert_int_equal(ronde__prof_create(0, &time, false, &prof), RONDE_OK);
  assert_int_equal(ronde__prof_switch(prof, RONDE__PHASE_LOAD), 42);
  reads += 100;
  assert_int_equal(ronde__prof_now(prof), 143);
  assert_int_equal(ronde__prof_switch(prof, RONDE__PHASE_OTHER), 144);
  ronde__prof_totals(prof, totals);
  assert_int_equal(totals[RONDE__PHASE_LOAD], 102);
  ronde__prof_destroy(prof);
}

static void moving_keeps_the_sum(void **state) {
  ronde__prof *prof = make(0, false);
  uint64_t before[RONDE__N_PHASES], after[RONDE__N_PHASES];
  ronde__prof_switch(prof, RONDE__PHASE_EXCHANGE);
  nanosleep(&(struct timespec){0, 1000000}, NULL);
  ronde__prof_switch(prof, RONDE__PHASE_OTHER);
  ronde__prof_totals(prof, before);
  ronde__prof_move(prof, RONDE__PHASE_EXCHANGE, RONDE__PHASE_WAIT, 400000);
  ronde__prof_totals(prof, after);
  assert_int_equal(after[RONDE__PHASE_WAIT], 400000);
  assert_int_equal(after[RONDE__PHASE_EXCHANGE], before[RONDE__PHASE_EXCHANGE] - 400000);
  ronde__prof_move(prof, RONDE__PHASE_EXCHANGE, RONDE__PHASE_WAIT, UINT64_MAX);
  ronde__prof_totals(prof, after);
  assert_int_equal(after[RONDE__PHASE_EXCHANGE], 0);
  assert_int_equal(sum_of(after), sum_of(before));
  ronde__prof_destroy(prof);
}

static void equal_ops_share_a_row(void **state) {
  ronde__prof *prof = make(0, false);
  char copy[] = "conv2d";
  int conv = ronde__prof_op_slot(prof, "conv2d", RONDE__PHASE_FORWARD, "tile-avx2");
  assert_int_equal(ronde__prof_op_slot(prof, copy, RONDE__PHASE_FORWARD, "tile-avx2"), conv);
  assert_int_not_equal(ronde__prof_op_slot(prof, "conv2d", RONDE__PHASE_BACKWARD, "tile-avx2"), conv);
  assert_int_not_equal(ronde__prof_op_slot(prof, "conv2d", RONDE__PHASE_FORWARD, "xsmm"), conv);
  char names[100][16];
  for (int i = 0; i < 100; i++) {
    snprintf(names[i], sizeof names[i], "op%d", i);
    assert_int_equal(ronde__prof_op_slot(prof, names[i], RONDE__PHASE_UPDATE, ""), 3 + i);
  }
  ronde__prof_op_add(prof, conv, 100, 150, 1000);
  ronde__prof_op_add(prof, conv, 200, 230, 500);
  ronde__prof_op_add(prof, -1, 0, 1, 1);
  int n;
  const ronde__prof_op *ops = ronde__prof_ops(prof, &n);
  assert_int_equal(n, 103);
  assert_int_equal(ops[conv].calls, 2);
  assert_int_equal(ops[conv].ns, 80);
  assert_true(ops[conv].flops == 1500);
  ronde__prof_destroy(prof);
}

static void no_ledger_keeps_nothing(void **state) {
  uint64_t totals[RONDE__N_PHASES];
  int n;
  assert_true(ronde__prof_switch(NULL, RONDE__PHASE_LOAD) > 0);
  ronde__prof_move(NULL, RONDE__PHASE_LOAD, RONDE__PHASE_WAIT, 1);
  ronde__prof_totals(NULL, totals);
  assert_int_equal(sum_of(totals), 0);
  assert_int_equal(ronde__prof_op_slot(NULL, "x", RONDE__PHASE_LOAD, ""), -1);
  ronde__prof_op_add(NULL, 0, 0, 1, 1);
  assert_null(ronde__prof_ops(NULL, &n));
  assert_int_equal(n, 0);
  ronde__prof_destroy(NULL);
}

/* ---- the trace ---- */

static char folder[] = "/tmp/ronde-prof-XXXXXX";

static int make_folder(void **state) { return mkdtemp(folder) ? 0 : -1; }
static int remove_folder(void **state) { return rmdir(folder); }

static json_t *load_and_remove(const char *path) {
  json_error_t error;
  json_t *trace = json_load_file(path, 0, &error);
  assert_non_null(trace);
  unlink(path); /* remove_folder fails if anything else was left */
  return trace;
}

static json_t *write_and_load(ronde__prof *const *profs, int n) {
  char *path = ronde__format("%s/trace.json", folder);
  assert_int_equal(ronde__prof_write_trace(profs, n, path), RONDE_OK);
  json_t *trace = load_and_remove(path);
  free(path);
  return trace;
}

static double number(json_t *event, const char *key) {
  assert_true(json_is_number(json_object_get(event, key)));
  return json_number_value(json_object_get(event, key));
}

static void trace_holds_the_spans_of_every_rank(void **state) {
  ronde__prof *profs[2];
  uint64_t totals[2][RONDE__N_PHASES];
  for (int r = 0; r < 2; r++) {
    profs[r] = make(r, true);
    uint64_t begin = ronde__prof_switch(profs[r], RONDE__PHASE_FORWARD);
    int slot = ronde__prof_op_slot(profs[r], "a \"quoted\\\n op", RONDE__PHASE_FORWARD, "tile");
    ronde__prof_op_add(profs[r], slot, begin + 1234, begin + 5679, 1);
    nanosleep(&(struct timespec){0, 1000000}, NULL);
    ronde__prof_switch(profs[r], RONDE__PHASE_EXCHANGE);
    nanosleep(&(struct timespec){0, 1000000}, NULL);
    ronde__prof_switch(profs[r], RONDE__PHASE_OTHER);
    ronde__prof_move(profs[r], RONDE__PHASE_EXCHANGE, RONDE__PHASE_WAIT, 700001);
    ronde__prof_totals(profs[r], totals[r]);
  }
  json_t *trace = write_and_load(profs, 2), *event;
  json_t *events = json_object_get(trace, "traceEvents");
  double us[2][RONDE__N_PHASES] = {{0}}, first = 1e30;
  int n_ops = 0, n_names = 0;
  size_t i;
  json_array_foreach(events, i, event) {
    const char *kind = json_string_value(json_object_get(event, "ph"));
    const char *name = json_string_value(json_object_get(event, "name"));
    int rank = (int)number(event, "pid");
    assert_in_range(rank, 0, 1);
    if (*kind == 'M') {
      n_names++;
      continue;
    }
    assert_string_equal(kind, "X");
    double ts = number(event, "ts"), dur = number(event, "dur");
    if (ts < first) first = ts;
    if (number(event, "tid") == 1) {
      assert_string_equal(name, "a \"quoted\\\n op");
      assert_true(dur > 4.4449 && dur < 4.4451);
      n_ops++;
      continue;
    }
    for (int p = 0; p < RONDE__N_PHASES; p++)
      if (!strcmp(name, ronde__phase_name((ronde__phase)p))) us[rank][p] += dur;
  }
  assert_true(first == 0);
  assert_int_equal(n_ops, 2);
  assert_int_equal(n_names, 6);
  for (int r = 0; r < 2; r++)
    for (int p = 0; p < RONDE__N_PHASES; p++) {
      double difference = us[r][p] * 1000 - (double)totals[r][p];
      assert_true(difference > -1 && difference < 1);
    }
  assert_true(us[0][RONDE__PHASE_WAIT] > 700 && us[0][RONDE__PHASE_WAIT] < 700.01);
  json_decref(trace);
  for (int r = 0; r < 2; r++) ronde__prof_destroy(profs[r]);
}

static void spans_beyond_the_bound_are_counted(void **state) {
  enum { BOUND = 4 << 20, MORE = 12345 };
  ronde__prof *prof = make(0, true);
  int slot = ronde__prof_op_slot(prof, "op", RONDE__PHASE_FORWARD, "tile");
  for (uint64_t i = 0; i < BOUND + MORE; i++) ronde__prof_op_add(prof, slot, i, i + 1, 1);
  assert_int_equal(prof->n_spans, BOUND);
  assert_int_equal(prof->n_dropped, MORE);
  int n;
  assert_int_equal(ronde__prof_ops(prof, &n)[slot].calls, BOUND + MORE);
  ronde__prof_destroy(prof);
  /* The count reaches the file. */
  prof = make(3, true);
  prof->n_dropped = MORE;
  json_t *trace = write_and_load(&prof, 1);
  json_t *dropped = json_object_get(json_object_get(trace, "otherData"), "dropped_spans");
  assert_int_equal(json_integer_value(json_object_get(dropped, "rank 3")), MORE);
  json_decref(trace);
  ronde__prof_destroy(prof);
}

/* Three spans of a rank whose clock was 7000 us ahead and gains 100 us in 1000, beside one of the trace's clock. */
static void clocks_are_turned_into_one(void **state) {
  enum { US = 1000 };
  ronde__trace_rank ranks[] = {{.rank = 0, .host = "a", .first_ns = 2000 * US},
                               {.rank = 1,
                                .host = "\"b\"",
                                .first_ns = 8900 * US,
                                .clock = {{9000 * US, 7000 * US, 3 * US}, {10000 * US, 7100 * US, 5 * US}}}};
  static const ronde__span first[] = {{2000 * US, 3000 * US, RONDE__PHASE_WAIT}};
  static const ronde__span second[] = {{8900 * US, 9000 * US, RONDE__PHASE_LOAD},
                                       {9000 * US, 9500 * US, RONDE__PHASE_FORWARD},
                                       {9500 * US, 11000 * US, RONDE__PHASE_BACKWARD}};
  static const double expected[][2] = {{100, 1000}, {0, 100}, {100, 450}, {550, 1450}};
  char *path = ronde__format("%s/trace.json", folder);
  ronde__trace *trace;
  assert_int_equal(ronde__trace_open(path, ranks, 2, &trace), RONDE_OK);
  ronde__trace_abandon(trace);
  assert_int_not_equal(access(path, F_OK), 0);
  assert_int_equal(ronde__trace_open(path, ranks, 2, &trace), RONDE_OK);
  ronde__trace_add(trace, 0, first, 1);
  ronde__trace_add(trace, 1, second, 3);
  assert_int_equal(ronde__trace_close(trace), RONDE_OK);
  json_t *json = load_and_remove(path), *event, *events = json_object_get(json, "traceEvents");
  int n = 0;
  size_t i;
  json_array_foreach(events, i, event) {
    if (*json_string_value(json_object_get(event, "ph")) != 'X') continue;
    assert_float_equal(number(event, "ts"), expected[n][0], 1e-6);
    assert_float_equal(number(event, "dur"), expected[n++][1], 1e-6);
  }
  assert_int_equal(n, 4);
  json_t *name = json_object_get(json_object_get(json_array_get(events, 3), "args"), "name");
  assert_string_equal(json_string_value(name), "rank 1 on \"b\"");
  json_t *clock = json_object_get(json_object_get(json_object_get(json, "otherData"), "clocks"), "rank 1");
  assert_float_equal(number(clock, "ahead_us"), 7000, 1e-6);
  assert_float_equal(number(clock, "drift_us"), 100, 1e-6);
  assert_float_equal(number(clock, "error_us"), 5, 1e-6);
  json_decref(json);
  free(path);
}

static char last_line[2048];
static void keep_line(void *user, ronde_log_level level, const char *line) {
  snprintf(last_line, sizeof last_line, "%s", line);
}

static void an_unwritable_path_is_named(void **state) {
  struct stat info;
  ronde__prof *prof = make(0, true);
  ronde_log_set(keep_line, NULL);
  char *missing = ronde__format("%s/missing/trace.json", folder);
  assert_int_equal(ronde__prof_write_trace(&prof, 1, missing), RONDE_E_WRITE);
  assert_non_null(strstr(last_line, missing));
  free(missing);
  /* A folder, or a device, in the way, which a plain file must not replace. */
  char *taken = ronde__format("%s/taken", folder);
  assert_int_equal(mkdir(taken, 0700), 0);
  assert_int_equal(ronde__prof_write_trace(&prof, 1, taken), RONDE_E_WRITE);
  assert_int_equal(rmdir(taken), 0);
  assert_int_equal(mkfifo(taken, 0600), 0);
  assert_int_equal(ronde__prof_write_trace(&prof, 1, taken), RONDE_E_WRITE);
  assert_int_equal(stat(taken, &info), 0);
  assert_true(S_ISFIFO(info.st_mode));
  assert_int_equal(unlink(taken), 0);
  free(taken);
  ronde_log_set(NULL, NULL);
  ronde__prof_destroy(prof);
}

static void a_full_disk_is_noticed(void **state) {
  FILE *full = fopen("/dev/full", "w");
  if (!full) skip();
  fclose(full);
  /* The temporary name is PATH.PID.part: let that lead to a full device. */
  char *path = ronde__format("%s/trace.json", folder), *part = ronde__format("%s.%ld.part", path, (long)getpid());
  assert_int_equal(symlink("/dev/full", part), 0);
  ronde__prof *prof = make(0, true);
  assert_int_equal(ronde__prof_write_trace(&prof, 1, path), RONDE_E_WRITE);
  assert_int_not_equal(access(path, F_OK), 0);
  assert_int_not_equal(access(part, F_OK), 0);
  ronde__prof_destroy(prof);
  free(path);
  free(part);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(phases_sum_to_the_wall),
      cmocka_unit_test(a_planted_delay_appears_in_its_phase),
      cmocka_unit_test(the_clock_is_the_ranks),
      cmocka_unit_test(moving_keeps_the_sum),
      cmocka_unit_test(equal_ops_share_a_row),
      cmocka_unit_test(no_ledger_keeps_nothing),
      cmocka_unit_test(trace_holds_the_spans_of_every_rank),
      cmocka_unit_test(clocks_are_turned_into_one),
      cmocka_unit_test(spans_beyond_the_bound_are_counted),
      cmocka_unit_test(an_unwritable_path_is_named),
      cmocka_unit_test(a_full_disk_is_noticed),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

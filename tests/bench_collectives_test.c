/* `ronde bench collectives`: what it measures is verified, complete, and in bench.json; what cannot be is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ronde/measure.h>

static char line[1024];
static void keep_line(void *user, ronde_log_level level, const char *text) {
  if (level == RONDE_LOG_ERROR) snprintf(line, sizeof line, "%s", text);
}

/* options: "workers=2 max=64K". NULL where the status is not RONDE_OK. */
static json_t *measure(const char *options, ronde_status expected) {
  ronde_config *config;
  char copy[512], *text = NULL, *rest = copy;
  line[0] = 0;
  snprintf(copy, sizeof copy, "%s", options);
  assert_int_equal(ronde_config_create("bench collectives", &config), RONDE_OK);
  for (char *word; (word = strsep(&rest, " "));) {
    char *value = strchr(word, '=');
    *value++ = 0;
    assert_int_equal(ronde_config_set(config, word, value), RONDE_OK);
  }
  assert_int_equal(ronde_bench_collectives(config, NULL, &text), expected);
  ronde_config_destroy(config);
  json_t *json = text ? json_loads(text, 0, NULL) : NULL;
  free(text);
  assert_int_equal(json != NULL, expected == RONDE_OK);
  return json;
}

static const char *name_of(const json_t *one) { return json_string_value(json_object_get(one, "name")); }
static int64_t int_of(const json_t *one, const char *key) { return json_integer_value(json_object_get(one, key)); }

static void every_collective_is_verified_and_timed(void **state) {
  static const char *const names[] = {"ring",           "halving-doubling", "tree",       "hierarchical", "ring-bf16",
                                      "reduce-scatter", "pairwise",         "all-gather", "broadcast",    "copy"};
  static const int64_t sizes[] = {4, 128, 4096};
  enum { N_NAMES = sizeof names / sizeof *names };
  json_t *json = measure("workers=3 min=4 max=8K factor=32 rounds=2 iterations=2 warm-ups=1", RONDE_OK);
  json_t *cases = json_object_get(json, "cases");
  assert_int_equal(json_array_size(cases), 3 * N_NAMES);
  for (size_t i = 0; i < json_array_size(cases); i++) {
    const json_t *one = json_array_get(cases, i), *times = json_object_get(json_object_get(one, "time_s"), "samples");
    assert_string_equal(name_of(one), names[i % N_NAMES]);
    assert_int_equal(int_of(one, "bytes"), sizes[i / N_NAMES]);
    assert_int_equal(int_of(one, "iterations"), 2);
    assert_true(json_is_true(json_object_get(one, "verified")));
    assert_int_equal(json_array_size(times), 2);
    assert_string_equal(json_string_value(json_object_get(json_object_get(one, "values"), "algorithm")), name_of(one));
    assert_true(json_number_value(json_object_get(json_object_get(one, "work"), "bytes")) ==
                (double)sizes[i / N_NAMES]);
    bool copies = i % N_NAMES < 5; /* an all-reduce, which is shown beside a copy */
    assert_int_equal(json_is_number(json_object_get(one, "of_copying")), copies);
    for (size_t s = 0; s < 2; s++) assert_true(json_real_value(json_array_get(times, s)) > 0);
  }
  assert_true(json_is_string(json_object_get(json, "not_ranked")));
  double factor = json_real_value(json_object_get(json_array_get(cases, 0), "bus_factor"));
  assert_true(factor > 1.3333 && factor < 1.3334); /* 2 (p - 1) / p */
  json_decref(json);
}

static void some_may_be_named(void **state) {
  json_t *json = measure("workers=2 min=1M max=1M rounds=1 iterations=1 collectives=tree,broadcast", RONDE_OK);
  json_t *cases = json_object_get(json, "cases");
  assert_int_equal(json_array_size(cases), 2);
  assert_string_equal(name_of(json_array_get(cases, 0)), "tree");
  assert_string_equal(name_of(json_array_get(cases, 1)), "broadcast");
  assert_int_equal(int_of(json_array_get(cases, 1), "bytes"), 1 << 20);
  json_decref(json);
}

static void what_cannot_be_measured_is_refused(void **state) {
  static const char *const cases[][2] = {
      {"workers=1", "one worker has no other to exchange data with: give --workers 2 or more"},
      {"workers=2 min=6", "--min 6: expected a number of bytes such as 4096, 64K or 4M, a multiple of 4 up to 4G"},
      {"workers=2 max=5G", "--max 5G: expected a number of bytes such as 4096, 64K or 4M, a multiple of 4 up to 4G"},
      {"workers=2 max=4KB", "--max 4KB: expected a number of bytes such as 4096, 64K or 4M, a multiple of 4 up to 4G"},
      {"workers=2 min=8K max=4K", "--min 8K is larger than --max 4K"},
      {"workers=2 collectives=mpi", "--collectives mpi: only --transport mpi has this collective"},
      {"workers=2 collectives=ring,rings",
       "--collectives ring,rings: 1 of these are unknown or named twice (there are ring, "},
      {"workers=2 iface=eth0", "--iface can have no effect: only --transport mpi uses it"},
      {"workers=2 hosts=a,b", "--hosts can have no effect: this process was not started by mpirun or srun"},
      {"workers=100", "--workers 100: at most 64 workers can be threads"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    measure(cases[i][0], RONDE_E_USAGE);
    if (strncmp(line, cases[i][1], strlen(cases[i][1]))) fail_msg("%s: %s", cases[i][0], line);
  }
}

static bool never_going_on(void *user) { return true; }

static void it_can_be_broken_off(void **state) {
  ronde_config *config;
  ronde_hooks hooks = {.cancel = never_going_on};
  char *text = NULL;
  assert_int_equal(ronde_config_create("bench collectives", &config), RONDE_OK);
  assert_int_equal(ronde_config_set(config, "workers", "2"), RONDE_OK);
  assert_int_equal(ronde_bench_collectives(config, &hooks, &text), RONDE_E_CANCELLED);
  assert_null(text);
  ronde_config_destroy(config);
}

/* As processes, and what the command line makes of it. */
static void processes_are_measured_too(void **state) {
#ifndef RONDE_HAVE_MPI
  skip();
#else
  if (system("command -v mpirun.openmpi >/dev/null 2>&1")) skip();
  char folder[] = "/tmp/ronde-bench-XXXXXX", command[1024], path[64];
  assert_non_null(mkdtemp(folder));
  snprintf(command, sizeof command,
           "timeout 60 " RONDE_BINARY_DIR
           "/ronde bench collectives --workers 2 --transport mpi --min 4K --max 4K "
           "--rounds 2 --iterations 2 --collectives ring,mpi --quiet --out %s >%s/table",
           folder, folder);
  assert_int_equal(system(command), 0);
  snprintf(path, sizeof path, "%s/bench.json", folder);
  json_t *json = json_load_file(path, 0, NULL), *cases = json_object_get(json, "cases");
  assert_string_equal(json_string_value(json_object_get(json, "schema")), "ronde.bench.v1");
  assert_string_equal(json_string_value(json_object_get(json, "transport")), "mpi");
  assert_int_equal(json_array_size(cases), 2);
  const json_t *mpi = json_array_get(cases, 1), *times = json_object_get(mpi, "time_s");
  assert_string_equal(name_of(mpi), "mpi");
  assert_int_equal(json_array_size(json_object_get(times, "samples")), 2);
  double seconds = json_real_value(json_object_get(times, "median"));
  double busbw = json_real_value(json_object_get(mpi, "busbw_bytes_per_s"));
  assert_true(busbw > 0.999 * 4096 / seconds && busbw < 1.001 * 4096 / seconds);
  json_decref(json);
  snprintf(command, sizeof command, "rm -r %s", folder);
  assert_int_equal(system(command), 0);
#endif
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_collective_is_verified_and_timed),
      cmocka_unit_test(some_may_be_named),
      cmocka_unit_test(what_cannot_be_measured_is_refused),
      cmocka_unit_test(it_can_be_broken_off),
      cmocka_unit_test(processes_are_measured_too),
  };
  ronde_log_set(keep_line, NULL);
  setenv("LSAN_OPTIONS", "detect_leaks=0", 1); /* Open MPI keeps what it has to the end */
  return cmocka_run_group_tests(tests, NULL, NULL);
}

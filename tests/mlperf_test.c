/* `ronde train --mlperf-log`: the lines that mlperf-logging's checker wants (training_4.0.0: common, open_common, open_resnet),
 * which was run on them by hand. */
#include "command_testing.h"

#include <jansson.h>
#include <stdbool.h>
#include <unistd.h>

#define TRAIN RONDE " train --model lenet5 --data synthetic:1x28x28:10:80 --threads 1 --quiet --mlperf-log "

static char folder[64];

static int make_folder(void **state) {
  snprintf(folder, sizeof folder, "/tmp/ronde-mlperf-XXXXXX");
  return mkdtemp(folder) ? 0 : 1;
}

static int remove_folder(void **state) { return run("rm -rf %s", folder); }

/* The lines of a log, as JSON. */
static json_t *read_log(const char *name) {
  static const char token[] = ":::MLLOG ";
  char path[128], line[4096];
  json_t *lines = json_array();
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  while (fgets(line, sizeof line, file)) {
    assert_int_equal(strncmp(line, token, sizeof token - 1), 0);
    json_t *one = json_loads(line + sizeof token - 1, 0, NULL);
    assert_non_null(one);
    json_array_append_new(lines, one);
  }
  fclose(file);
  return lines;
}

static const char *key_of(const json_t *lines, size_t i) {
  return json_string_value(json_object_get(json_array_get(lines, i), "key"));
}

static int count(const json_t *lines, const char *key) {
  int n = 0;
  for (size_t i = 0; i < json_array_size(lines); i++) n += strcmp(key_of(lines, i), key) == 0;
  return n;
}

static size_t place(const json_t *lines, const char *key) {
  size_t i = 0;
  while (i < json_array_size(lines) && strcmp(key_of(lines, i), key) != 0) i++;
  return i;
}

static const char *status_of(const json_t *lines) {
  const json_t *last = json_array_get(lines, json_array_size(lines) - 1);
  return json_string_value(json_object_get(json_object_get(last, "metadata"), "status"));
}

static void it_has_what_the_checker_wants(void **state) {
  static const char *const once[] = {"submission_benchmark",
                                     "submission_org",
                                     "submission_division",
                                     "submission_platform",
                                     "submission_status",
                                     "global_batch_size",
                                     "init_stop",
                                     "run_start",
                                     "run_stop",
                                     "train_samples",
                                     "eval_samples"};
  check_run(0, run("cd %s && " TRAIN "log --batch 20 --epochs 3", folder));
  json_t *lines = read_log("log");
  for (size_t i = 0; i < sizeof once / sizeof once[0]; i++) assert_int_equal(count(lines, once[i]), 1);
  assert_int_equal(count(lines, "epoch_start"), 3);
  assert_int_equal(count(lines, "epoch_stop"), 3);
  assert_int_equal(count(lines, "eval_accuracy"), 3);
  assert_true(place(lines, "init_start") < place(lines, "init_stop"));
  assert_true(place(lines, "init_stop") < place(lines, "run_start"));
  assert_true(place(lines, "run_start") < place(lines, "epoch_start"));
  json_int_t before = 0;
  for (size_t i = 0; i < json_array_size(lines); i++) {
    json_int_t at = json_integer_value(json_object_get(json_array_get(lines, i), "time_ms"));
    assert_true(at >= before);
    before = at;
  }
  const json_t *batch = json_array_get(lines, place(lines, "global_batch_size"));
  assert_int_equal(json_integer_value(json_object_get(batch, "value")), 20);
  assert_string_equal(status_of(lines), "success");
  json_decref(lines);
}

static void the_batch_is_that_of_all_workers(void **state) {
  check_run(0, run("cd %s && " TRAIN "local --local-batch 10 --workers 2 --steps 2", folder));
  json_t *lines = read_log("local");
  const json_t *batch = json_array_get(lines, place(lines, "global_batch_size"));
  assert_int_equal(json_integer_value(json_object_get(batch, "value")), 20);
  json_decref(lines);
}

static void a_target_that_was_not_reached_is_no_success(void **state) {
  check_run(0, run("cd %s && " TRAIN "target --batch 20 --steps 2 --target-accuracy 0.99", folder));
  json_t *lines = read_log("target");
  assert_string_equal(status_of(lines), "aborted");
  json_decref(lines);
}

static void what_cannot_be_is_refused(void **state) {
  check_run(2, run("cd %s && " TRAIN "log --dry-run", folder));
  check_says("--mlperf-log");
  check_run(2, run("cd %s && " TRAIN "log --resume nowhere", folder));
  check_says("--mlperf-log and --resume contradict each other");
  check_run(2, run("cd %s && " RONDE
                   " compare --model lenet5 --data synthetic:1x28x28:10:80 --exec graph,eager --mlperf-log log",
                   folder));
  check_says("--mlperf-log can have no effect: compare only measures");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_has_what_the_checker_wants),
      cmocka_unit_test(the_batch_is_that_of_all_workers),
      cmocka_unit_test(a_target_that_was_not_reached_is_no_success),
      cmocka_unit_test(what_cannot_be_is_refused),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

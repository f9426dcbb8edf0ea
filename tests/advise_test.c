/* `ronde advise`, and the advice at the end of a suite's report. */
#include "command_testing.h"

#include <jansson.h>
#include <stdbool.h>
#include <unistd.h>

#define ADVISE RONDE " advise --model mlp:16 --data synthetic:1x8x8:4:200 --threads 1 "

static char folder[64];

static int make_folder(void **state) {
  snprintf(folder, sizeof folder, "/tmp/ronde-advise-test-XXXXXX");
  return mkdtemp(folder) ? 0 : 1;
}

static int remove_folder(void **state) { return run("rm -rf %s", folder); }

static json_t *load(const char *name) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  json_t *json = json_load_file(path, 0, NULL);
  if (!json) fail_msg("no %s", path);
  return json;
}

static const char *text(const json_t *object, const char *key) {
  const char *value = json_string_value(json_object_get(object, key));
  return value ? value : "";
}

static int count_stage(const json_t *advice, const char *stage) {
  const json_t *row;
  size_t i;
  int n = 0;
  json_array_foreach(json_object_get(advice, "measured"), i, row) n += strcmp(text(row, "stage"), stage) == 0;
  return n;
}

/* What is given is not asked about, and what is said to be taken was measured. */
static void it_answers_from_what_it_measured(void **state) {
  check_run(0, run("cd %s && " ADVISE "--workers 2 --minutes 60 --out a", folder));
  check_says("Take 2 workers with 1 thread each by ");
  check_says("limits it: ");
  check_says("--workers=2 --threads=1 --strategy=");
  json_t *advice = load("a/advice.json"), *take = json_object_get(advice, "take"), *row;
  const json_t *shares = json_object_get(json_object_get(advice, "limit"), "shares"), *share;
  const char *part;
  size_t i;
  double all = 0;
  assert_string_equal(text(advice, "schema"), "ronde.advice.v1");
  assert_int_equal(json_array_size(json_object_get(advice, "left_out")), 0);
  assert_true(count_stage(advice, "strategy") >= 3);
  assert_int_equal(count_stage(advice, "threads"), 0);
  assert_int_equal(count_stage(advice, "batch"), 3); /* 32, 64, 128; 256 and 512 are more than there are examples */
  json_object_foreach((json_t *)shares, part, share) all += json_number_value(share);
  assert_true(all > 0.999 && all < 1.001);
  assert_int_equal(json_object_size(json_object_get(json_object_get(advice, "limit"), "kernels")) == 4,
                   !strstr("exchange waiting loading", text(json_object_get(advice, "limit"), "what")));
  int n_like = 0;
  json_array_foreach(json_object_get(advice, "measured"), i, row) n_like += json_equal(row, take);
  assert_int_equal(n_like, 1);
  json_decref(advice);
  check_run(2, run("cd %s && " ADVISE "--out a", folder));
  check_says("--out a holds another advice: --overwrite replaces it");
}

static void what_cannot_be_is_refused(void **state) {
  check_run(2, run(ADVISE "--workers 1 --strategy single --batch 20"));
  check_says("nothing is left to advise on");
  check_run(2, run(ADVISE "--epochs 3"));
  check_says("--epochs can have no effect");
  check_run(2, run(ADVISE "--local-batch 8"));
  check_says("--batch fixes the batch");
  check_run(2, run(ADVISE "--strategy measured"));
  check_says("--strategy measured can have no effect");
  check_run(2, run(RONDE " advise --model resnet18-cifar --data synthetic:3x32x32:10:64 --batch 64 --minutes 0.1"));
  check_says("--minutes 0.1 is too short: at batch 64 a step takes about ");
  check_run(2, run(RONDE " advise --model mlp:16 --data nowhere"));
  check_says("data set nowhere is unknown");
}

/* A grid as `bench techniques` leaves it: its report advises by the rates, of cases that equal one worker, and the simplest of
 * those that are as fast. */
static json_t *grid_case(const char *name, const char *strategy, int workers, double rate, bool is_apart) {
  double step_s = 64 / rate;
  return json_pack(
      "{s:s, s:s, s:{}, s:s, s:s, s:s, s:i, s:i, s:i, s:{s:f}, s:{s:f}, s:{s:f}, s:{s:f}, s:{s:f}, s:{s:f}, s:{s:f}, "
      "s:{s:f}, s:{s:o}}",
      "name", name, "system", "ronde", "values", "strategy", strategy, "model", "lenet5", "data", "mnist", "workers",
      workers, "threads", 1, "batch", 64, "examples_per_s", "median", rate, "step_s", "median", step_s, "forward_s",
      "median", 0.1 * step_s, "backward_s", "median", 0.2 * step_s, "update_s", "median", 0.01 * step_s, "exchange_s",
      "median", 0.6 * step_s, "wait_s", "median", 0.05 * step_s, "load_s", "median", 0.04 * step_s, "communication",
      "staleness", is_apart ? json_object() : json_null());
}

static void a_grid_is_advised_on(void **state) {
  char path[256];
  json_t *bench =
      json_pack("{s:s, s:s, s:{s:n}, s:b, s:s, s:n, s:[], s:[o, o, o, o]}", "schema", "ronde.bench.v1", "verb",
                "compare", "axes", "strategy", "ranked", 1, "ranked_by", "step_s", "not_ranked", "differences", "cases",
                grid_case("one", "single", 1, 1000, false), grid_case("two", "allreduce", 2, 1900, false),
                grid_case("four", "allreduce", 4, 1950, false), grid_case("apart", "ps-async", 2, 2500, true));
  json_t *suite = json_pack("{s:s, s:s, s:s, s:[], s:b, s:[], s:[{s:s, s:s, s:s, s:[s], s:s, s:s}], s:[s], s:{s:s}}",
                            "schema", "ronde.suite.v1", "suite", "techniques", "title", "Techniques", "notes", "quick",
                            0, "missing", "groups", "name", "g", "title", "the grid", "folder", "g", "command", "ronde",
                            "status", "done", "reason", "", "command", "ronde", "version", "ronde", "1");
  assert_non_null(bench);
  assert_non_null(suite);
  check_run(0, run("mkdir -p %s/grid/g", folder));
  snprintf(path, sizeof path, "%s/grid/g/bench.json", folder);
  assert_int_equal(json_dump_file(bench, path, 0), 0);
  snprintf(path, sizeof path, "%s/grid/suite.json", folder);
  assert_int_equal(json_dump_file(suite, path, 0), 0);
  check_run(0, run("cd %s && " RONDE " report grid -o r.md && grep -A6 'What to take here' r.md", folder));
  check_says(
      "lenet5 on mnist: take 2 workers with 1 thread each by allreduce, batch 64, which trains 1,900 examples/s");
  check_says("Exchange limits it: 60 % of a step");
  check_says("by ps-async, batch 64 trains more, 2,500 examples/s, but its weights are not those of one worker");
  /* of another suite there is no advice */
  json_object_set_new(suite, "suite", json_string("replicas"));
  assert_int_equal(json_dump_file(suite, path, 0), 0);
  check_run(1, run("cd %s && " RONDE " report grid -o r.md && grep 'What to take here' r.md", folder));
  json_decref(bench);
  json_decref(suite);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_grid_is_advised_on),
      cmocka_unit_test(what_cannot_be_is_refused),
      cmocka_unit_test(it_answers_from_what_it_measured),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

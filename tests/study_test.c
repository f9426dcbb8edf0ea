/* The suites of `ronde bench` that repeat studies: what they say, leave behind, and take over when they go on. */
#include "command_testing.h"

#include <jansson.h>
#include <unistd.h>

#define SUITE RONDE " bench replicas --quick --rounds 1 --threads 1 --data synthetic:1x28x28:10:600 --out suite"

static char folder[64];

static int make_suite(void **state) {
  snprintf(folder, sizeof folder, "/tmp/ronde-study-XXXXXX");
  if (!mkdtemp(folder)) return 1;
  int code = run("cd %s && " SUITE " --peers pytorch --peers-dir none", folder);
  if (code) print_message("%s\n", said);
  return code;
}

static int remove_suite(void **state) { return run("rm -rf %s", folder); }

static json_t *load(const char *name) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  json_t *json = json_load_file(path, 0, NULL);
  if (!json) fail_msg("no %s", path);
  return json;
}

static json_t *group(const json_t *suite, size_t i) { return json_array_get(json_object_get(suite, "groups"), i); }
static const char *text(const json_t *object, const char *key) {
  return json_string_value(json_object_get(object, key));
}

/* Two comparisons of five cases: both paddings, each by itself. */
static void a_suite_leaves_its_records(void **state) {
  json_t *suite = load("suite/suite.json");
  assert_string_equal(text(suite, "schema"), "ronde.suite.v1");
  assert_int_equal(json_array_size(json_object_get(suite, "groups")), 2);
  for (size_t i = 0; i < 2; i++) {
    char path[256];
    assert_string_equal(text(group(suite, i), "status"), "done");
    snprintf(path, sizeof path, "suite/%s/bench.json", text(group(suite, i), "folder"));
    json_t *bench = load(path);
    assert_int_equal(json_array_size(json_object_get(bench, "cases")), 5);
    assert_true(json_is_true(json_object_get(bench, "ranked")));
    json_decref(bench);
  }
  assert_string_equal(json_string_value(json_array_get(json_object_get(suite, "missing"), 0)),
                      "the peer pytorch: there is no none/pytorch/bin/python (make peers)");
  json_decref(suite);
  check_run(0, run("grep -c 'data-chart=\"speeds\"' %s/suite/report.html", folder));
  check_run(0, run("grep 'All comparisons of the suite' %s/suite/report.md", folder));
}

/* As if it had been broken off in the second comparison: the first stays as it is, and of the second the runs that had
 * completed are taken over. */
static void it_goes_on_where_it_was_broken_off(void **state) {
  json_t *suite = load("suite/suite.json"), *second = group(suite, 1);
  char path[256], first_hash[256];
  check_run(0, run("cd %s/suite/replicas-mnist-small-same-128 && sha256sum bench.json */run.json", folder));
  snprintf(first_hash, sizeof first_hash, "%.250s", said);
  json_object_set_new(second, "status", json_string("waiting"));
  snprintf(path, sizeof path, "%s/suite/suite.json", folder);
  assert_int_equal(json_dump_file(suite, path, 0), 0);
  check_run(
      0, run("cd %s/suite/replicas-mnist-small-valid-128 && rm bench.json && rm -r 'workers=2,strategy=allreduce-1' && "
             "echo '{' >'workers=1,strategy=single-1/run.json'",
             folder));
  check_run(0, run("cd %s && " SUITE, folder));
  check_says("2 comparisons, 1 of them done before");
  check_says("2/2  replicas, model mnist-small, padding valid");
  check_run(0, run("cd %s/suite/replicas-mnist-small-same-128 && sha256sum bench.json */run.json", folder));
  assert_memory_equal(said, first_hash, strlen(first_hash));
  json_t *bench = load("suite/replicas-mnist-small-valid-128/bench.json");
  assert_int_equal(json_integer_value(json_object_get(bench, "taken_over")), 3); /* one was gone, one was broken */
  assert_int_equal(json_array_size(json_object_get(bench, "cases")), 5);
  json_decref(bench);
  json_decref(suite);
}

static void what_cannot_be_is_refused(void **state) {
  check_run(2, run("cd %s && " RONDE " bench replicas --quick", folder));
  check_says("--out is missing");
  check_run(2, run("cd %s && " RONDE " bench replicas --data synthetic:1x28x28:10:600 --out suite", folder));
  check_says("holds another suite (replicas --quick)");
  check_run(2, run("cd %s && " RONDE " bench execution --quick --out suite", folder));
  check_says("holds another suite");
  check_run(3, run("cd %s && " RONDE " bench replicas --quick --data synthetic:what --out other", folder));
  check_says("--data synthetic:what: it cannot be trained on here");
  check_run(0, run("cd %s && echo '{' >suite/suite.json", folder));
  check_run(3, run("cd %s && " SUITE, folder));
  check_says("suite.json: not valid JSON");
}

#define COMPARE \
  RONDE " compare --model lenet5 --data synthetic:1x28x28:10:40 --batch 10 --threads 1 --exec graph,eager --rounds 2"

static void compare_goes_on_and_plans(void **state) {
  check_run(0, run("cd %s && " COMPARE " --out c --quiet", folder));
  check_run(2, run("cd %s && " COMPARE " --out c --quiet", folder));
  check_says("--continue goes on with it");
  check_run(0, run("cd %s && rm -r c/exec=eager-2 && " COMPARE " --out c --continue", folder));
  check_says("round 1/2  exec=graph");
  check_says("(from before)");
  json_t *bench = load("c/bench.json");
  assert_int_equal(json_integer_value(json_object_get(bench, "taken_over")), 3);
  json_decref(bench);
  /* of another command nothing is taken over */
  check_run(0, run("cd %s && " COMPARE " --lr 0.02 --out c --continue --quiet >/dev/null", folder));
  bench = load("c/bench.json");
  assert_int_equal(json_integer_value(json_object_get(bench, "taken_over")), 0);
  json_decref(bench);
  check_run(2, run("cd %s && " COMPARE " --continue", folder));
  check_run(2, run("cd %s && " COMPARE " --out c --continue --overwrite", folder));
  check_run(0, run("cd %s && " COMPARE " --dry-run --out plan", folder));
  check_says("2 cases in 2 rounds: about ");
  check_run(1, run("ls %s/plan 2>/dev/null | grep .", folder));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_suite_leaves_its_records),
      cmocka_unit_test(it_goes_on_where_it_was_broken_off),
      cmocka_unit_test(what_cannot_be_is_refused),
      cmocka_unit_test(compare_goes_on_and_plans),
  };
  return cmocka_run_group_tests(tests, make_suite, remove_suite);
}

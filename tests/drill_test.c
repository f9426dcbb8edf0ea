/* Faults planted by --drill among ranks that are threads: each is noticed, named, and changes nothing else. */
#include "resume_testing.h"

#include "base/disk.h"

#include <errno.h>

#define SMALL SET "model=mnist-small batch=8 threads=1 "

static void check_refused(const char *plan, const char *says) {
  char options[512];
  in(options, SMALL "workers=3 drill=%s", plan);
  check_failed(&lines, train(options, 0, NULL), RONDE_E_USAGE, plan, says);
}

/* Of each kind the right syntax is shown. */
static void test_a_plan_that_cannot_be_is_refused(void **state) {
  static const char *const syntaxes[] = {"load:[RANK:]MS",    "slow:RANK:MS[@STEP]", "drift:RANK:STEP",
                                         "corrupt:RANK@STEP", "oom:RANK@STEP",       "kill:RANK@STEP",
                                         "slow-disk:MS",      "disk-full@STEP",      "stop:RANK@STEP[:SECONDS]"};
  for (size_t i = 0; i < RONDE__COUNT(syntaxes); i++) {
    char plan[64];
    snprintf(plan, sizeof plan, "%.*s", (int)strcspn(syntaxes[i], ":@"), syntaxes[i]);
    check_refused("nosuch:1@2", syntaxes[i]);
    check_refused(plan, syntaxes[i]);
  }
  static const struct {
    const char *plan, *says;
  } bad[] = {{"kill:1@2@3", "kill:RANK@STEP"},
             {"kill:x@2", "kill:RANK@STEP"},
             {"kill:-1@2", "kill:RANK@STEP"},
             {"kill:99999999999@2", "kill:RANK@STEP"},
             {"oom:1@0", "STEP from 1"},
             {"oom:3@2", "no rank 3 among 3"},
             {"corrupt:1@900", "the run has 7 steps"},
             {"stop:1@2:0", "SECONDS from 0.1"},
             {"stop:1@2:", "stop:RANK@STEP[:SECONDS]"},
             {"slow:1:70000", "MS up to 60000"},
             {"slow:1:nan", "slow:RANK:MS[@STEP]"},
             {"slow:1:5@", "slow:RANK:MS[@STEP]"},
             {"load:1:", "load:[RANK:]MS"},
             {"killer:1@2", "kill:RANK@STEP"},
             {"slow-disk:5", "nothing is written"},
             {"disk-full@2", "nothing is written"}};
  for (size_t i = 0; i < RONDE__COUNT(bad); i++) check_refused(bad[i].plan, bad[i].says);
  char options[512];
  in(options, SMALL "workers=3 drill=oom:1@2,oom:2@3");
  check_failed(&lines, train(options, 0, NULL), RONDE_E_USAGE, "oom:2@3", "one fault of this kind");
}

static const char *const strategies[] = {
    "workers=1",
    "workers=1 exec=eager",
    "workers=3 strategy=allreduce",
    "workers=3 strategy=allreduce accumulate=2",
    "workers=3 strategy=dataparallel",
    "workers=3 strategy=sharded",
    "workers=3 strategy=hybrid hybrid-layers=fc1,fc2",
    "workers=3 strategy=hybrid hybrid-layers=fc1,fc2 hybrid-scheme=c",
    "workers=3 strategy=pipeline",
    "workers=4 strategy=pipeline stages=2",
    "workers=3 strategy=localsgd sync-every=2",
    "workers=3 strategy=ps-sync servers=2",
    "workers=3 strategy=ps-async",
    "workers=3 strategy=ps-ssp",
    "workers=3 strategy=downpour n-push=1 n-fetch=1",
};

/* The rank is named, whoever finds out. */
static void check_named(const char *strategy, const char *plan, int rank, ronde_status expected, const char *says) {
  char options[512], who[32];
  in(options, SMALL "epochs=2 %s drill=%s", strategy, plan);
  json_t *run;
  test_log_start(&lines);
  ronde_status status = train(options, 0, &run);
  snprintf(who, sizeof who, "rank %d", rank);
  bool named = strstr(lines.error, who) || strstr(strategy, "workers=1");
  if (status != expected || !strstr(lines.error, says) || !named)
    fail_msg("%s: %s, not %s: %s", options, ronde_status_text(status), ronde_status_text(expected), lines.error);
  if (expected == RONDE_E_MEMORY)
    assert_true(json_is_null(json_at(run, "result.weights_sha256"))); /* the others were within a step */
  json_decref(run);
}

static void test_a_corrupted_gradient_is_named(void **state) {
  for (size_t i = 0; i < RONDE__COUNT(strategies); i++) {
    int rank = strstr(strategies[i], "workers=1") ? 0 : 2;
    check_named(strategies[i], rank ? "corrupt:2@4" : "corrupt:0@4", rank, RONDE_E_NUMERIC, "step 4: the gradient of ");
  }
}

/* A step that is left out changes nothing but itself. */
static void test_a_corrupted_step_may_be_left_out(void **state) {
  json_t *run;
  assert_int_equal(train(SMALL "workers=3 skip-bad-steps=1 drill=corrupt:1@4", 0, &run), RONDE_OK);
  assert_int_equal((int)real_at(run, "totals.skipped_steps"), 1);
  assert_non_null(strstr(lines.warning, "on rank 1 has NaN or Inf: left out"));
  json_decref(run);
}

static void test_a_failing_allocation_ends_the_run(void **state) {
  for (size_t i = 0; i < RONDE__COUNT(strategies); i++) {
    int rank = strstr(strategies[i], "workers=1") ? 0 : 1;
    check_named(strategies[i], rank ? "oom:1@4" : "oom:0@4", rank, RONDE_E_MEMORY, "step 4: no memory for ");
  }
}

/* What was complete stays, and the run goes on from there with the bits of one that had room. */
static void test_a_full_disk_leaves_what_was_whole(void **state) {
  static const char common[] = SMALL "workers=2 epochs=4 checkpoint-every=5 ";
  char options[512];
  json_t *whole, *run;
  in(options, "%sout=%s/whole", common, folder);
  assert_int_equal(train(options, 0, &whole), RONDE_OK);
  in(options, "%sout=%s/r drill=slow:0:150,disk-full@18", common, folder);
  test_log_start(&lines);
  assert_int_equal(train(options, 0, NULL), RONDE_E_WRITE);
  assert_non_null(strstr(lines.error, "No space left on device"));
  assert_false(file_exists(folder, "r/run.json"));
  assert_false(file_exists(folder, "r/last.safetensors"));
  bool any;
  in(options, "%s/r", folder);
  assert_int_equal(ronde__checkpoint_any(options, &any), RONDE_OK);
  assert_true(any);
  assert_false(file_exists(folder, "r/checkpoints/step-20.safetensors"));
  in(options, "%sout=%s/r resume=auto", common, folder);
  assert_int_equal(train(options, 0, &run), RONDE_OK);
  assert_string_equal(text_at(run, "result.weights_sha256"), text_at(whole, "result.weights_sha256"));
  json_decref(whole);
  json_decref(run);
}

/* Each write waits; the training does not wait for what is written beside it, and ends with the same bits. */
static void test_a_slow_disk_changes_no_bit(void **state) {
  char options[512];
  json_t *fast, *slow;
  in(options, SMALL "workers=2 out=%s/fast", folder);
  assert_int_equal(train(options, 0, &fast), RONDE_OK);
  in(options, SMALL "workers=2 out=%s/slow drill=slow-disk:20", folder);
  assert_int_equal(train(options, 0, &slow), RONDE_OK);
  assert_string_equal(text_at(slow, "result.weights_sha256"), text_at(fast, "result.weights_sha256"));
  assert_true(real_at(slow, "checkpoints.write_s") > 0.2); /* more than ten pieces, and the sync */
  json_decref(fast);
  json_decref(slow);
}

/* The next run of the process has a disk as it was. */
static void test_a_drill_ends_with_its_run(void **state) {
  char options[512];
  in(options, SMALL "workers=2 out=%s/r drill=disk-full@2", folder);
  assert_int_equal(train(options, 0, NULL), RONDE_E_WRITE);
  assert_false(ronde__disk_fails());
  ronde__disk disk = {.full = true};
  ronde__disk_set(&disk);
  errno = 0;
  assert_true(ronde__disk_fails());
  assert_int_equal(errno, ENOSPC);
  ronde__disk_set(NULL);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder_with_log, remove_folder)
  const struct CMUnitTest tests[] = {
      TEST(test_a_plan_that_cannot_be_is_refused),  TEST(test_a_corrupted_gradient_is_named),
      TEST(test_a_corrupted_step_may_be_left_out),  TEST(test_a_failing_allocation_ends_the_run),
      TEST(test_a_full_disk_leaves_what_was_whole), TEST(test_a_slow_disk_changes_no_bit),
      TEST(test_a_drill_ends_with_its_run)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

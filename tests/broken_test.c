/* Numbers that break, and replicas that drift: named, left out where that is wanted, and nothing else changed. */
#include "resume_testing.h"

static ronde_status nan_read(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                             float *targets) {
  RONDE_TRY(small_read(NULL, split, ids, n, x, labels, targets));
  for (int64_t i = 0; i < n && split == RONDE_SPLIT_TRAIN; ++i)
    if (ids[i] == 13 || ids[i] == 27) x[i * SMALL_PIXELS] = NAN;
  return RONDE_OK;
}

static ronde_status train_nan(const char *options, json_t **run_out) {
  ronde_source source = small_source(40, 8);
  source.read = nan_read;
  return train_on(options, source, norm_model, run_out);
}

/* Of the 5 steps of an epoch the 2nd and the 4th are bad; those left out change nothing, not even what batch
 * normalisation keeps. */
static void test_bad_steps_are_left_out(void **state) {
  for (int workers = 1; workers <= 3; ++workers) {
    char options[512], name[32];
    json_t *run;
    in(options, "batch=8 shuffle=off epochs=2 optimizer=adam skip-bad-steps=4 threads=1 workers=%d out=%s/w%d", workers,
       folder, workers);
    test_log_start(&lines);
    assert_int_equal(train_nan(options, &run), RONDE_OK);
    assert_int_equal(lines.n_errors, 0);
    assert_int_equal(lines.n_warnings, 4);
    assert_non_null(strstr(lines.warning, "step 9: the "));
    assert_non_null(strstr(lines.warning, "left out (4 of at most 4)"));
    assert_int_equal((int)real_at(run, "totals.skipped_steps"), 4);
    assert_int_equal((int)real_at(run, "totals.steps"), 10);
    assert_true(isfinite(real_at(run, "result.test_loss")) && isfinite(real_at(run, "epochs.1.train_loss")));
    json_decref(run);
    snprintf(name, sizeof name, "w%d", workers);
    json_t *losses = losses_of(name);
    double sum = 0;
    for (int step = 6; step <= 10; ++step) {
      snprintf(name, sizeof name, "%d", step);
      assert_int_equal(json_is_null(json_object_get(losses, name)), step == 7 || step == 9);
      sum += json_number_value(json_object_get(losses, name));
    }
    assert_true(sum > 0);
    json_decref(losses);
    in(options, "batch=8 shuffle=off epochs=2 skip-bad-steps=3 threads=1 workers=%d", workers);
    ronde_status status = train_nan(options, &run);
    assert_int_equal(status, RONDE_E_NUMERIC);
    assert_int_equal(lines.n_errors, 1);
    assert_non_null(strstr(lines.error, "step 9: the "));
    json_decref(run);
  }
}

/* ---- a gradient that breaks where the loss does not ------------------------------------------------------------ */

static float huge_value;

static ronde_status huge_read(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                              float *targets) {
  RONDE_TRY(small_read(NULL, split, ids, n, x, labels, targets));
  for (int64_t i = 0; i < n; ++i)
    if (ids[i] == 3 && split == RONDE_SPLIT_TRAIN) x[i * SMALL_PIXELS] = huge_value;
  return RONDE_OK;
}

static ronde_tensor *product_model(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  x = ronde_linear(ronde_linear(ronde_flatten(x), "fc1", 4, false), "fc2", SMALL_VALUES, false);
  ronde_graph_set_loss(graph, ronde_mse_loss(x, ronde_target(graph)));
  return x;
}

static ronde_status train_huge(const char *options, json_t **run_out) {
  ronde_source source = small_values(4, 2);
  source.read = huge_read;
  return train_on(options, source, product_model, run_out);
}

/* The layer behind it has had a good gradient by then, and must not have been updated: the weights are those that the
 * step found. The value that breaks a gradient and no loss is searched for; others break what follows. */
static void test_a_step_whose_gradient_breaks_changes_nothing(void **state) {
  int n_found = 0;
  json_t *one, *run;
  assert_int_equal(train_huge("batch=2 shuffle=off threads=1 steps=1 lr=0.001", &one), RONDE_OK);
  for (huge_value = 1e19f; huge_value < 1e22f; huge_value *= 1.25f) {
    test_log_start(&lines);
    ronde_status status = train_huge("batch=2 shuffle=off threads=1 steps=2 lr=0.001 skip-bad-steps=1", &run);
    if (strstr(lines.warning, "step 2: the gradient of fc1.weight")) {
      assert_int_equal(status, RONDE_OK);
      assert_string_equal(text_at(run, "result.weights_sha256"), text_at(one, "result.weights_sha256"));
      ++n_found;
    }
    json_decref(run);
  }
  assert_true(n_found > 0);
  json_decref(one);
}

/* ---- replicas that drift ---------------------------------------------------------------------------------------- */

static void check_drift(const char *options, const char *says, const char *who) {
  char all[512];
  snprintf(all, sizeof all, SET "model=mnist-small batch=8 threads=1 epochs=9 %s", options);
  ronde_status status = train(all, 0, NULL);
  check_failed(&lines, status, RONDE_E_DIFFERENCE, says, who);
}

/* 7 steps an epoch, 63 in all; the parameter in the middle of the list drifts. */
static void test_a_drifting_replica_is_named(void **state) {
  check_drift("workers=2 sentinel=5 drill=drift:1:12", "step 15:", "of rank 1 differs from that of rank 0");
  check_drift("workers=3 sentinel=5 drill=drift:2:15", "step 15:", "of rank 2 differs from that of most");
  check_drift("workers=3 sentinel=10 drill=drift:0:1", "step 10:", "of rank 0 differs from that of most");
  check_drift("workers=4 drill=drift:2:3", "step 63:", "fc1.bias of rank 2");
  check_failed(&lines, train(SET "batch=8 workers=2 drill=drift:2:3", 0, NULL), RONDE_E_USAGE, "drift:2:3", "rank 2");
  check_failed(&lines, train(SET "batch=8 sentinel=7", 0, NULL), RONDE_E_USAGE, "--sentinel can have no effect",
               "needs several workers");
  assert_int_equal(train(SET "batch=8 threads=1 workers=3 sentinel=1", 0, NULL), RONDE_OK);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder_with_log, remove_folder)
  const struct CMUnitTest tests[] = {TEST(test_bad_steps_are_left_out),
                                     TEST(test_a_step_whose_gradient_breaks_changes_nothing),
                                     TEST(test_a_drifting_replica_is_named)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

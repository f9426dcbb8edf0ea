/* When a run tests, when it ends early, and which weights it keeps. */
#include "lib/folder.h"
#include "train_testing.h"

#include <sys/stat.h>

/* 8 steps an epoch. */
static json_t *train(const char *format, ...) {
  ronde_source source = small_source(63, 24);
  char options[512];
  va_list args;
  va_start(args, format);
  vsnprintf(options, sizeof options, format, args);
  va_end(args);
  char *all = ronde__format("batch=8 threads=1 %s", options);
  json_t *run = job_run("train", all, &(ronde_hooks){.model = small_model, .source = &source});
  free(all);
  return run;
}

static bool has_test(json_t *run, int epoch) {
  char path[64];
  snprintf(path, sizeof path, "epochs.%d.test_loss", epoch - 1);
  return json_is_number(json_at(run, path));
}

static double accuracy_of(json_t *run, int epoch) {
  char path[64];
  snprintf(path, sizeof path, "epochs.%d.test_accuracy", epoch - 1);
  return real_at(run, path);
}

static void test_every_so_many_epochs(void **state) {
  for (int workers = 1; workers <= 2; ++workers) {
    json_t *two = train("epochs=5 eval-every=2 workers=%d", workers), *end = train("epochs=3 eval-every=0");
    json_t *steps = train("epochs=9 steps=20 eval-every=9"), *each = train("epochs=2");
    for (int epoch = 1; epoch <= 5; ++epoch) assert_int_equal(has_test(two, epoch), epoch == 2 || epoch >= 4);
    for (int epoch = 1; epoch <= 3; ++epoch) assert_int_equal(has_test(end, epoch), epoch == 3);
    assert_int_equal(json_array_size(json_at(steps, "epochs")), 3);
    for (int epoch = 1; epoch <= 3; ++epoch) assert_int_equal(has_test(steps, epoch), epoch == 3);
    assert_true(has_test(each, 1) && has_test(each, 2));
    assert_true(json_is_null(json_at(each, "result.target")));
    json_decref(two);
    json_decref(end);
    json_decref(steps);
    json_decref(each);
  }
}

/* The first epoch with the best accuracy. */
static int best_epoch(json_t *run) {
  int best = 1;
  for (int e = 2; e <= (int)json_array_size(json_at(run, "epochs")); ++e)
    if (accuracy_of(run, e) > accuracy_of(run, best)) best = e;
  return best;
}

/* The run ends with the first epoch that is good enough; up to there nothing is other than in the whole run: the
 * schedule keeps the planned total. */
static void test_it_ends_when_the_target_is_reached(void **state) {
  for (int workers = 1; workers <= 3; ++workers) {
    json_t *whole = train("epochs=12 lr=0.2 lr-schedule=cosine workers=%d", workers);
    int best = best_epoch(whole);
    double target = accuracy_of(whole, best), train_s = 0;
    assert_true(best > 1 && best < 12);
    json_t *early = train("epochs=12 lr=0.2 lr-schedule=cosine workers=%d target-accuracy=%.17g", workers, target);
    assert_string_equal(text_at(early, "status"), "completed");
    assert_int_equal(json_array_size(json_at(early, "epochs")), best);
    for (int e = 1; e <= best; ++e) {
      char lr[32], wall[32];
      snprintf(lr, sizeof lr, "epochs.%d.lr", e - 1);
      snprintf(wall, sizeof wall, "epochs.%d.wall_s", e - 1);
      assert_true(real_at(early, lr) == real_at(whole, lr) && accuracy_of(early, e) == accuracy_of(whole, e));
      train_s += real_at(early, wall);
    }
    assert_true(json_is_true(json_at(early, "result.target.reached")));
    assert_int_equal((int)real_at(early, "result.target.epoch"), best);
    assert_int_equal((int)real_at(early, "result.target.step"), 8 * best);
    assert_true(fabs(real_at(early, "result.target.train_s") - train_s) < 1e-9);
    /* Workers begin within moments of each other, so only one alone has the same beginning for both. */
    if (workers == 1) assert_true(real_at(early, "result.target.wall_s") >= train_s * (1 - 1e-9));
    assert_int_equal((int)real_at(early, "result.best.epoch"), best);
    assert_int_equal(lines.n_errors + lines.n_warnings, 0);
    json_decref(whole);
    json_decref(early);
  }
}

static void test_a_target_that_is_not_reached_is_said(void **state) {
  json_t *run = train("epochs=2 lr=0 target-accuracy=0.99");
  assert_string_equal(text_at(run, "status"), "completed");
  assert_true(json_is_false(json_at(run, "result.target.reached")));
  assert_true(json_is_null(json_at(run, "result.target.epoch")) && json_is_null(json_at(run, "result.target.train_s")));
  assert_int_equal(lines.n_warnings, 1);
  assert_non_null(strstr(lines.warning, "0.99 was not reached"));
  json_decref(run);
}

/* best.safetensors holds what the best test saw; of equal ones the first is kept. */
static void test_the_best_weights_are_kept(void **state) {
  int before_the_last = 0;
  for (int seed = 1; seed <= 4; ++seed) {
    json_t *run =
        train("epochs=6 lr=0.3 momentum=0.9 seed=%d workers=%d overwrite=on out=%s/run", seed, 1 + seed % 2, folder);
    int best = best_epoch(run);
    before_the_last += best < 6 && real_at(run, "epochs.5.test_loss") < 0.9 * real_at(run, "result.best.test_loss");
    assert_int_equal((int)real_at(run, "result.best.epoch"), best);
    assert_int_equal((int)real_at(run, "result.best.step"), 8 * best);
    assert_true(real_at(run, "result.best.test_accuracy") == accuracy_of(run, best));
    assert_string_equal(text_at(run, "result.best.file"), "best.safetensors");
    ronde_source source = small_source(63, 24);
    char *options = ronde__format("threads=1 init=%s/run/best.safetensors", folder);
    json_t *eval = job_run("eval", options, &(ronde_hooks){.model = small_model, .source = &source});
    assert_true(fabs(real_at(eval, "accuracy") - accuracy_of(run, best)) < 1e-8);
    assert_true(fabs(real_at(eval, "loss") - real_at(run, "result.best.test_loss")) < 1e-5);
    free(options);
    json_decref(eval);
    json_decref(run);
  }
  assert_true(before_the_last > 0);
  json_t *still = train("epochs=3 lr=0 out=%s/still", folder);
  assert_int_equal((int)real_at(still, "result.best.epoch"), 1);
  json_t *none = train("epochs=2 save-best=off out=%s/none", folder);
  assert_false(file_exists(folder, "none/best.safetensors"));
  assert_true(json_is_null(json_at(none, "result.best.file")) && real_at(none, "result.best.epoch") >= 1);
  json_decref(still);
  json_decref(none);
}

/* Without classes the smallest loss is the best. */
static void test_the_best_of_values(void **state) {
  ronde_source source = small_values(40, 16);
  ronde_hooks hooks = {.model = small_regression, .source = &source};
  json_t *run = job_run("train", "batch=8 epochs=6 lr=0.3 threads=1", &hooks);
  int best = (int)real_at(run, "result.best.epoch");
  for (int e = 0; e < 6; ++e) {
    char path[64];
    snprintf(path, sizeof path, "epochs.%d.test_loss", e);
    assert_true(e + 1 < best ? real_at(run, path) > real_at(run, "result.best.test_loss")
                             : real_at(run, path) >= real_at(run, "result.best.test_loss"));
  }
  assert_true(json_is_null(json_at(run, "result.best.test_accuracy")));
  json_decref(run);
}

static void refused(const char *options, const ronde_source *source, ronde_status wanted, const char *a,
                    const char *b) {
  ronde_config *config = config_make("train", options);
  ronde_status status = ronde_train(config, &(ronde_hooks){.model = small_model, .source = source}, NULL);
  ronde_config_destroy(config);
  check_failed(&lines, status, wanted, a, b);
}

static void test_what_can_have_no_effect(void **state) {
  ronde_source untested = small_source(40, 0), values = small_values(40, 8);
  refused("batch=8 eval-every=2", &untested, RONDE_E_USAGE, "--eval-every", "no test examples");
  refused("batch=8 target-accuracy=0.5", &untested, RONDE_E_USAGE, "--target-accuracy", "no test examples");
  refused("batch=8 target-accuracy=0.5", &values, RONDE_E_USAGE, "--target-accuracy", "values");
  json_t *validated;
  ronde_config *config = config_make("train", "batch=8 epochs=2 eval-every=2 target-accuracy=0.5 val-split=0.2");
  char *text;
  assert_int_equal(ronde_train(config, &(ronde_hooks){.model = small_model, .source = &untested}, &text), RONDE_OK);
  ronde_config_destroy(config);
  validated = json_of(text);
  assert_true(!has_test(validated, 1) && has_test(validated, 2));
  json_decref(validated);
}

/* The weights cannot be written: one line, whatever the number of workers, and no half of a file. */
static void test_best_weights_that_cannot_be_written(void **state) {
  ronde_source source = small_source(40, 8);
  for (int workers = 1; workers <= 2; ++workers) {
    char *run = ronde__format("%s/run", folder), *best = ronde__format("%s/best.safetensors", run);
    char *options = ronde__format("batch=8 threads=1 workers=%d overwrite=on out=%s", workers, run);
    mkdir(run, 0777);
    mkdir(best, 0777);
    refused(options, &source, RONDE_E_WRITE, "best.safetensors", "");
    json_t *record = json_file(run, "run.json");
    assert_string_equal(text_at(record, "status"), "failed");
    assert_true(json_is_null(json_at(record, "result.best")));
    json_decref(record);
    free(run);
    free(best);
    free(options);
  }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder_with_log, remove_folder)
  const struct CMUnitTest tests[] = {
      TEST(test_every_so_many_epochs),
      TEST(test_it_ends_when_the_target_is_reached),
      TEST(test_a_target_that_is_not_reached_is_said),
      TEST(test_the_best_weights_are_kept),
      TEST(test_the_best_of_values),
      TEST(test_what_can_have_no_effect),
      TEST(test_best_weights_that_cannot_be_written),
  };
#undef TEST
  return cmocka_run_group_tests(tests, NULL, NULL);
}

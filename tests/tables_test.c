/* Tables: rows of numbers with values, several labels or classes as targets, through the public API; what eval says of
 * values against the same measures of what predict tells. */
#include "train_testing.h"

#include "lib/folder.h"

#include "data/testing.h"
#include "io/safetensors.h"

enum { N_TRAIN = 240, N_TEST = 60, COLUMNS = 4, MAX_TARGETS = 3 };

static float test_y[N_TEST * MAX_TARGETS];

/* ---- data ---- */

/* Columns of very different sizes; the last one is constant. */
static float input(int64_t row, int c) {
  float u = small_noise(1000 + row, c);
  return c == 0 ? 5000 + 1000 * u : c == 1 ? 0.01f * u : c == 2 ? u : 7;
}

/* Target k of a row: a value, or a label of 0 or 1. */
static float target(int64_t row, int k, bool is_label) {
  float a = (input(row, 0) - 5000) / 1000, b = input(row, 1) * 100, c = input(row, 2);
  float value = k == 0 ? 2 * a - b + 0.5f * c : k == 1 ? a + c : b - c;
  return is_label ? (float)(value > 0) : 1 + value;
}

static void write_array(const char *name, const char *type, int64_t n, int columns, const void *data, size_t bytes) {
  char dict[128];
  if (columns)
    snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (%d, %d), }", type, (int)n, columns);
  else snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (%d,), }", type, (int)n);
  test_write_bytes(folder, name, test_npy(dict, data, bytes));
}

static void write_inputs(const char *name, int64_t first, int64_t n) {
  double *x = malloc((size_t)(n * COLUMNS) * sizeof *x);
  for (int64_t i = 0; i < n * COLUMNS; i++) x[i] = (double)input(first + i / COLUMNS, (int)(i % COLUMNS));
  write_array(name, "<f8", n, COLUMNS, x, (size_t)(n * COLUMNS) * sizeof *x);
  free(x);
}

static void write_targets(const char *name, int64_t first, int64_t n, int n_targets, bool are_labels) {
  float *y = malloc((size_t)(n * n_targets) * sizeof *y);
  for (int64_t i = 0; i < n * n_targets; i++) y[i] = target(first + i / n_targets, (int)(i % n_targets), are_labels);
  if (n == N_TEST) memcpy(test_y, y, (size_t)(n * n_targets) * sizeof *y);
  write_array(name, "<f4", n, n_targets > 1 ? n_targets : 0, y, (size_t)(n * n_targets) * sizeof *y);
  free(y);
}

static void write_table(int n_targets, bool are_labels) {
  write_inputs("train_x.npy", 0, N_TRAIN);
  write_inputs("test_x.npy", N_TRAIN, N_TEST);
  write_targets("train_y.npy", 0, N_TRAIN, n_targets, are_labels);
  write_targets("test_y.npy", N_TRAIN, N_TEST, n_targets, are_labels);
}

/* ---- jobs: options hold the test's folder at every %s ---- */

static json_t *run(const char *verb, const char *options) {
  char *text = ronde__format(options, folder, folder, folder);
  json_t *json = job_run(verb, text, NULL);
  free(text);
  return json;
}

/* The error of a job that is refused. */
static const char *refusal(const char *verb, const char *options) {
  char *text = ronde__format(options, folder, folder, folder), *result = NULL;
  ronde_config *config = config_make(verb, text);
  test_log_start(&lines);
  ronde_status status = !strcmp(verb, "train")  ? ronde_train(config, NULL, &result)
                        : !strcmp(verb, "eval") ? ronde_eval(config, NULL, &result)
                                                : ronde_predict(config, NULL, &result);
  ronde_config_destroy(config);
  free(text);
  free(result);
  if (status == RONDE_OK) fail_msg("not refused: %s", options);
  return lines.error;
}

static void check_refused(const char *verb, const char *options, const char *words) {
  const char *error = refusal(verb, options);
  if (!strstr(error, words)) fail_msg("'%s' is not in: %s", words, error);
}

#define TRAIN "model=mlp:24,8 data=npy:%s batch=24 epochs=100 optimizer=adam lr=0.02 lr-schedule=cosine save=%s/w "
#define EVAL "init=%s/w data=npy:%s"
#define PREDICT "init=%s/w input=%s/test_x.npy"

static double told_value(json_t *predicted, int row, int k) {
  char path[64];
  snprintf(path, sizeof path, "examples.%d.values.%d", row, k);
  return real_at(predicted, path);
}

/* Mean over all test values of a function of what predict tells and the target. */
static double mean_of(double (*loss)(double d), int n_targets) {
  json_t *predicted = run("predict", PREDICT);
  double sum = 0;
  for (int i = 0; i < N_TEST * n_targets; i++)
    sum += loss(told_value(predicted, i / n_targets, i % n_targets) - (double)test_y[i]);
  json_decref(predicted);
  return sum / (N_TEST * n_targets);
}

static double absolute(double d) { return fabs(d); }
static double squared(double d) { return d * d; }
static double huber_of_a_tenth(double d) { return fabs(d) <= 0.1 ? d * d / 2 : 0.1 * (fabs(d) - 0.05); }

static double r2_of(int n_targets) {
  json_t *predicted = run("predict", PREDICT);
  double r2 = 0;
  for (int k = 0; k < n_targets; k++) {
    double mean = 0, all = 0, left = 0;
    for (int i = 0; i < N_TEST; i++) mean += (double)test_y[i * n_targets + k] / N_TEST;
    for (int i = 0; i < N_TEST; i++) {
      double t = (double)test_y[i * n_targets + k];
      all += (t - mean) * (t - mean);
      left += squared(told_value(predicted, i, k) - t);
    }
    r2 += (1 - left / all) / n_targets;
  }
  json_decref(predicted);
  return r2;
}

/* ---- tests ---- */

static void check_values(int n_targets) {
  write_table(n_targets, false);
  json_decref(run("train", TRAIN));
  json_t *eval = run("eval", EVAL), *by_three = run("eval", EVAL " workers=3");
  if (real_at(eval, "r2") < 0.95) fail_msg("R2 is %g", real_at(eval, "r2"));
  assert_float_equal(real_at(eval, "mae"), mean_of(absolute, n_targets), 1e-5);
  assert_float_equal(real_at(eval, "rmse"), sqrt(mean_of(squared, n_targets)), 1e-5);
  assert_float_equal(real_at(eval, "r2"), r2_of(n_targets), 1e-5);
  assert_float_equal(real_at(eval, "loss"), mean_of(squared, n_targets), 1e-5);
  assert_true(json_is_null(json_at(eval, "accuracy")));
  assert_int_equal((int)json_array_size(json_at(eval, "values")), n_targets);
  assert_float_equal(real_at(by_three, "r2"), real_at(eval, "r2"), 1e-9);
  assert_float_equal(real_at(by_three, "mae"), real_at(eval, "mae"), 1e-9);
  json_decref(eval);
  json_decref(by_three);
}

static void test_one_value_is_learnt(void **state) { check_values(1); }
static void test_several_values_are_learnt(void **state) { check_values(MAX_TARGETS); }

static void test_the_loss_goes_with_the_weights(void **state) {
  write_table(2, false);
  json_t *trained = run("train", TRAIN "loss=huber huber-delta=0.1");
  assert_string_equal(text_at(trained, "config.loss"), "huber");
  json_decref(trained);
  json_t *eval = run("eval", EVAL);
  assert_float_equal(real_at(eval, "loss"), mean_of(huber_of_a_tenth, 2), 1e-5);
  json_decref(eval);
  json_decref(run("train", TRAIN "loss=l1"));
  eval = run("eval", EVAL);
  assert_float_equal(real_at(eval, "loss"), real_at(eval, "mae"), 1e-6);
  json_decref(eval);
}

static void test_several_labels_are_learnt(void **state) {
  write_table(MAX_TARGETS, true);
  json_decref(run("train", TRAIN "loss=bce"));
  json_t *eval = run("eval", EVAL), *predicted = run("predict", PREDICT);
  double loss = 0;
  int n_right = 0;
  for (int i = 0; i < N_TEST * MAX_TARGETS; i++) {
    double p = told_value(predicted, i / MAX_TARGETS, i % MAX_TARGETS);
    assert_true(p >= 0 && p <= 1);
    n_right += (p > 0.5) == (test_y[i] > 0.5f);
    loss -= log(fmax(test_y[i] > 0.5f ? p : 1 - p, 1e-12)) / (N_TEST * MAX_TARGETS);
  }
  assert_true(real_at(eval, "label_accuracy") > 0.9);
  assert_float_equal(real_at(eval, "label_accuracy"), (double)n_right / (N_TEST * MAX_TARGETS), 1e-9);
  assert_float_equal(real_at(eval, "loss"), loss, 1e-4);
  json_decref(eval);
  json_decref(predicted);
  write_table(1, false);
  check_refused("train", TRAIN "loss=bce", "not within 0..1");
}

static void test_rows_have_classes_too(void **state) {
  write_table(1, true);
  int64_t labels[N_TRAIN];
  for (int i = 0; i < N_TRAIN; i++) labels[i] = target(i, 0, true) > 0;
  write_array("train_y.npy", "<i8", N_TRAIN, 0, labels, sizeof labels);
  for (int i = 0; i < N_TEST; i++) labels[i] = target(N_TRAIN + i, 0, true) > 0;
  write_array("test_y.npy", "<i8", N_TEST, 0, labels, N_TEST * sizeof *labels);
  json_decref(run("train", TRAIN "val-split=0.2"));
  json_t *eval = run("eval", EVAL " split=test");
  assert_true(real_at(eval, "accuracy") > 0.9);
  json_decref(eval);
  check_refused("train", TRAIN "loss=mse", "--loss can have no effect");
}

static void test_the_network_goes_with_the_weights(void **state) {
  write_table(1, false);
  json_decref(run("train", TRAIN "activation=tanh dropout=0.02"));
  json_t *eval = run("eval", EVAL), *other = run("eval", EVAL " activation=relu");
  if (real_at(eval, "r2") < 0.8) fail_msg("R2 is %g", real_at(eval, "r2"));
  assert_true(real_at(other, "r2") < real_at(eval, "r2"));
  json_decref(eval);
  json_decref(other);
  check_refused("eval", EVAL " model=mlp:24,9", "fc2");
}

static void test_resumed_runs_agree(void **state) {
#define SHORT "model=mlp:6 data=npy:%s batch=24 optimizer=adam activation=sigmoid loss=l1 out=%s/"
  write_table(2, false);
  json_t *whole = run("train", SHORT "a epochs=4"), *half = run("train", SHORT "b epochs=2");
  json_t *rest = run("train", "epochs=4 out=%s/b resume=auto");
  assert_string_equal(text_at(whole, "result.weights_sha256"), text_at(rest, "result.weights_sha256"));
  json_t *started = run("train", "data=npy:%s init=%s/a epochs=1 lr=0");
  assert_string_equal(text_at(started, "model.name"), "mlp:6");
  assert_string_equal(text_at(started, "config.activation"), "sigmoid");
  json_decref(started);
  json_decref(whole);
  json_decref(half);
  json_decref(rest);
}

/* By hand: mean and deviation of each column over the training rows, kept in the file. */
static void test_columns_are_standardised(void **state) {
  write_table(1, false);
  json_decref(run("train", TRAIN "val-split=0.25"));
  char *path = ronde__format("%s/w", folder);
  ronde__safetensors *file;
  float m[COLUMNS], d[COLUMNS];
  assert_int_equal(ronde__safetensors_open(path, &file), RONDE_OK);
  assert_int_equal(sscanf(ronde__safetensors_meta(file, "normalize_mean"), "%f,%f,%f,%f", m, m + 1, m + 2, m + 3), 4);
  assert_int_equal(sscanf(ronde__safetensors_meta(file, "normalize_std"), "%f,%f,%f,%f", d, d + 1, d + 2, d + 3), 4);
  for (int c = 0; c < COLUMNS; c++) {
    double mean = 0, squares = 0;
    for (int i = 0; i < N_TRAIN; i++) mean += (double)input(i, c) / N_TRAIN;
    for (int i = 0; i < N_TRAIN; i++) squares += squared((double)input(i, c) - mean) / N_TRAIN;
    assert_float_equal((double)m[c], mean, 1e-6 * fabs(mean) + 1e-9);
    assert_float_equal((double)d[c], c == 3 ? 1 : sqrt(squares), 1e-5 * (c == 3 ? 1 : sqrt(squares)));
  }
  ronde__safetensors_close(file);
  free(path);
  json_t *with = run("train", TRAIN "cache=off"), *off = run("train", TRAIN "normalize=off");
  assert_true(real_at(with, "result.test_loss") < real_at(off, "result.test_loss"));
  json_decref(with);
  json_decref(off);
}

static void test_what_cannot_be_is_refused(void **state) {
  write_table(1, false);
  const char *const sizes[] = {"mlp:", "mlp:0", "mlp:8,", "mlp:,8", "mlp:8;4", "mlp:-3", "mlp:99999999999"};
  for (size_t i = 0; i < RONDE__COUNT(sizes); i++) {
    char *options = ronde__format("model=%s data=npy:%%s", sizes[i]);
    check_refused("train", options, "hidden layers");
    free(options);
  }
  check_refused("train", "model=lenet5:8 data=npy:%s", "no such network");
  check_refused("train", TRAIN "resize=8x8", "not images");
  check_refused("train", TRAIN "augment=flip", "not images");
  check_refused("train", TRAIN "layout=nhwc", "not images");
  check_refused("train", TRAIN "classes=3", "values, not classes");
  check_refused("train", TRAIN "huber-delta=2", "--huber-delta");
  check_refused("train", TRAIN "target-accuracy=0.5", "--target-accuracy");
  json_decref(run("train", TRAIN));
  check_refused("predict", "init=%s/w input=%s/x.png", "not images");
  check_refused("predict", PREDICT " top=2", "--top");
  write_targets("test_y.npy", 0, N_TEST, 2, false);
  check_refused("train", TRAIN, "2 target values an example, but in training 1");
  write_table(1, false);
  float bad[N_TRAIN] = {0};
  bad[17] = NAN;
  write_array("train_y.npy", "<f4", N_TRAIN, 0, bad, sizeof bad);
  check_refused("train", TRAIN, "element 17 is NaN");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder_with_cache, remove_folder)
  const struct CMUnitTest tests[] = {
      TEST(test_one_value_is_learnt),
      TEST(test_several_values_are_learnt),
      TEST(test_the_loss_goes_with_the_weights),
      TEST(test_several_labels_are_learnt),
      TEST(test_rows_have_classes_too),
      TEST(test_the_network_goes_with_the_weights),
      TEST(test_resumed_runs_agree),
      TEST(test_columns_are_standardised),
      TEST(test_what_cannot_be_is_refused),
  };
#undef TEST
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Training of networks with batch normalisation and dropout by several workers. */
#include "train_testing.h"

#include <unistd.h>

static ronde_tensor *normed(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  x = ronde_conv2d(x, "conv1", &(ronde_conv2d_options){.out_channels = 20, .kernel = {3, 3}, .no_bias = true});
  x = ronde_relu(ronde_batch_norm2d(x, "bn1", NULL));
  return ronde_linear(ronde_flatten(ronde_adaptive_avg_pool2d(x, 2, 2)), "fc", classes, true);
}

/* Normalised over the batch alone. */
static ronde_tensor *normed_vector(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  x = ronde_batch_norm2d(ronde_adaptive_avg_pool2d(x, 1, 1), "norm of one", NULL);
  return ronde_linear(ronde_flatten(x), "fc", classes, true);
}

static ronde_tensor *dropping(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  x = ronde_relu(ronde_linear(ronde_dropout(ronde_flatten(x), 0.25f), "fc1", 30, true));
  return ronde_linear(ronde_dropout(x, 0.5f), "fc2", classes, true);
}

/* Rank 0's running statistics are those that are saved, and those that training tests with. */
static void test_what_is_saved_is_what_was_tested(void **state) {
  ronde_source source = small_source(60, 20);
  ronde_hooks hooks = {.model = normed, .source = &source};
  char path[] = "/tmp/ronde-norm-XXXXXX", options[128];
  int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
  for (int workers = 1; workers <= 3; ++workers) {
    snprintf(options, sizeof options, "batch=21 workers=%d threads=1 lr=0.1 epochs=2 save=%s", workers, path);
    json_t *run = job_run("train", options, &hooks), *again = job_run("train", options, &hooks);
    assert_string_equal(text_at(run, "result.state_sha256"), text_at(again, "result.state_sha256"));
    assert_string_not_equal(text_at(run, "result.state_sha256"), text_at(run, "result.weights_sha256"));
    snprintf(options, sizeof options, "batch=7 threads=1 init=%s", path);
    json_t *eval = job_run("eval", options, &hooks);
    assert_true(fabs(real_at(eval, "loss") - real_at(run, "result.test_loss")) < 1e-5);
    assert_true(real_at(eval, "accuracy") == real_at(run, "result.test_accuracy"));
    json_decref(eval);
    json_decref(again);
    json_decref(run);
  }
  unlink(path);
}

static char line[1024];

static void keep_line(void *user, ronde_log_level level, const char *text) {
  if (level == RONDE_LOG_ERROR) snprintf(line, sizeof line, "%s", text);
}

static ronde_status status_of(const char *options, ronde_model_fn model) {
  ronde_source source = small_source(61, 0);
  ronde_config *config = config_make("train", options);
  *line = 0;
  ronde_log_set(keep_line, NULL);
  ronde_status status = ronde_train(config, &(ronde_hooks){.model = model, .source = &source}, NULL);
  ronde_log_set(NULL, NULL);
  ronde_config_destroy(config);
  return status;
}

static void test_a_single_value_is_refused_at_set_up(void **state) {
  assert_int_equal(status_of("batch=20", normed_vector), RONDE_E_USAGE); /* 61 = 3 * 20 + 1 */
  assert_non_null(strstr(line, "norm of one"));
  assert_non_null(strstr(line, "--drop-last"));
  assert_int_equal(status_of("batch=3 workers=3 drop-last=on", normed_vector), RONDE_E_USAGE);
  assert_non_null(strstr(line, "norm of one"));
  assert_int_equal(status_of("batch=20 drop-last=on", normed_vector), RONDE_OK);
  assert_int_equal(status_of("batch=20", normed), RONDE_OK); /* one example, but many pixels */
}

/* With --sync-bn the whole batch counts. */
static void test_synchronised_where_it_can_have_an_effect(void **state) {
  assert_int_equal(status_of("batch=3 workers=3 drop-last=on sync-bn=on", normed_vector), RONDE_OK);
  assert_int_equal(status_of("batch=20 workers=3 sync-bn=on", normed_vector), RONDE_E_USAGE); /* 61 = 3 * 20 + 1 */
  assert_non_null(strstr(line, "norm of one"));
  assert_non_null(strstr(line, "--drop-last"));
  assert_int_equal(status_of("batch=20 workers=3 sync-bn=on", dropping), RONDE_E_USAGE);
  assert_non_null(strstr(line, "--sync-bn can have no effect: the network has no batch normalisation"));
  assert_int_equal(status_of("batch=20 sync-bn=on", normed), RONDE_E_USAGE);
  assert_non_null(strstr(line, "--sync-bn can have no effect: it needs several workers"));
  assert_int_equal(status_of("batch=20 sync-bn=off", normed), RONDE_OK);
}

/* A planted delay of one rank is the others' waiting, in the middle of forward; what is exchanged is counted. */
static void test_sharing_has_its_place_in_the_ledger(void **state) {
  ronde_source source = small_source(60, 0);
  ronde_hooks hooks = {.model = normed, .source = &source};
  static const char options[] = "batch=20 workers=2 threads=1 drill=slow:1:60 overlap=off sync-bn=%s";
  double bytes[2];
  for (int on = 0; on < 2; ++on) {
    char text[128];
    snprintf(text, sizeof text, options, on ? "on" : "off");
    json_t *run = job_run("train", text, &hooks);
    double wait = real_at(run, "workers.0.wait_s"), wall = real_at(run, "workers.0.wall_s"), sum = 0;
    assert_true(wait > 0.15); /* three steps of 60 ms */
    static const char *const phases[] = {"load_s", "forward_s", "backward_s", "exchange_s",
                                         "wait_s", "update_s",  "other_s"};
    for (size_t i = 0; i < RONDE__COUNT(phases); ++i) {
      snprintf(text, sizeof text, "workers.0.%s", phases[i]);
      sum += real_at(run, text);
    }
    assert_true(fabs(sum - wall) < 0.01 * wall);
    bytes[on] = real_at(run, "communication.bytes_sent");
    json_decref(run);
  }
  /* Three steps of one normalisation of 20 channels, padded to 32: two parts of 1 + 2 x 32 and a stamp, from each rank. */
  assert_true(bytes[1] - bytes[0] == 3. * 2 * 2 * (2 + 2 * 32) * sizeof(double));
}

/* The same elements are dropped whoever works on an example: losses differ by rounding only. */
static void test_dropout_does_not_depend_on_the_workers(void **state) {
  ronde_source source = small_source(60, 0);
  ronde_hooks hooks = {.model = dropping, .source = &source};
  static const char *const forms[] = {"batch=20 workers=1", "batch=20 workers=2", "batch=20 workers=7",
                                      "batch=5 accumulate=4"};
  double first[2] = {0};
  for (size_t i = 0; i < RONDE__COUNT(forms); ++i)
    for (int seed = 1; seed <= 2; ++seed) {
      char options[128];
      snprintf(options, sizeof options, "%s threads=1 lr=0.05 seed=%d shuffle=off", forms[i], seed);
      json_t *run = job_run("train", options, &hooks);
      double loss = real_at(run, "result.train_loss");
      if (i == 0) first[seed - 1] = loss;
      assert_true(fabs(loss - first[seed - 1]) < 1e-5);
      json_decref(run);
    }
  assert_true(fabs(first[0] - first[1]) > 1e-4);
}

/* Smoothed targets are for training; what is tested is the plain loss. */
static void test_label_smoothing_is_for_training(void **state) {
  ronde_source source = small_source(60, 20);
  ronde_hooks hooks = {.model = dropping, .source = &source};
  json_t *plain = job_run("train", "batch=20 lr=0 steps=3 shuffle=off threads=1", &hooks);
  json_t *smooth = job_run("train", "batch=20 lr=0 steps=3 shuffle=off threads=1 label-smoothing=0.3", &hooks);
  assert_true(real_at(plain, "result.test_loss") == real_at(smooth, "result.test_loss"));
  assert_true(fabs(real_at(plain, "result.train_loss") - real_at(smooth, "result.train_loss")) > 1e-5);
  json_decref(plain);
  json_decref(smooth);
  source = small_values(20, 0);
  hooks.model = small_regression;
  ronde_config *config = config_make("train", "batch=10 label-smoothing=0.1");
  assert_int_equal(ronde_train(config, &hooks, NULL), RONDE_E_USAGE);
  ronde_config_destroy(config);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_is_saved_is_what_was_tested),
      cmocka_unit_test(test_a_single_value_is_refused_at_set_up),
      cmocka_unit_test(test_synchronised_where_it_can_have_an_effect),
      cmocka_unit_test(test_sharing_has_its_place_in_the_ledger),
      cmocka_unit_test(test_dropout_does_not_depend_on_the_workers),
      cmocka_unit_test(test_label_smoothing_is_for_training),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Training with --exec eager: every built-in network against --exec graph, and networks that change from step to step. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "sanitized.h"
#include "train_testing.h"

#include <stdatomic.h>

/* Two batches, the second one short; dropout, momentum and running statistics too. Batches this large: where a channel
 * is normalised over two values, gradients grow from layer to layer, and training diverges. */
static void assert_same_training(const char *model, const char *shape, int workers) {
  static const char *const fields[] = {"result.weights_sha256", "result.state_sha256"};
  json_t *runs[2];
  for (int eager = 0; eager < 2; eager++) {
    char *options = ronde__format(
        "model=%s data=synthetic:%s:10:20 batch=12 lr=0.001 momentum=0.9 weight-decay=0.001 "
        "label-smoothing=0.1 threads=1 workers=%d exec=%s",
        model, shape, workers, eager ? "eager" : "graph");
    runs[eager] = job_run("train", options, NULL);
    free(options);
  }
  assert_string_equal(text_at(runs[0], "config.exec"), "graph");
  assert_string_equal(text_at(runs[1], "config.exec"), "eager");
  for (size_t i = 0; i < RONDE__COUNT(fields); i++)
    if (strcmp(text_at(runs[0], fields[i]), text_at(runs[1], fields[i])))
      fail_msg("%s, %d workers: %s differs", model, workers, fields[i]);
  assert_true(real_at(runs[0], "result.train_loss") == real_at(runs[1], "result.train_loss"));
  assert_true(real_at(runs[0], "result.test_loss") == real_at(runs[1], "result.test_loss"));
  json_decref(runs[0]);
  json_decref(runs[1]);
}

static void small_networks_train_alike(void **unused) {
  for (int workers = THREADS_ONLY ? 2 : 1; workers <= 2; workers++) {
    assert_same_training("lenet5", "1x28x28", workers);
    if (THREADS_ONLY) continue;
    assert_same_training("mnist-small", "1x28x28", workers);
    assert_same_training("resnet18", "3x16x16", workers);
  }
}

static void large_networks_train_alike(void **unused) {
  leave_out_if(SANITIZED, "eager training of large networks: it is that of small ones");
  assert_same_training("mnist-large", "1x28x28", 2);
  assert_same_training("alexnet", "3x64x64", 1);
  assert_same_training("resnet18-cifar", "3x16x16", 2);
  assert_same_training("resnet50", "3x32x32", 1);
  assert_same_training("vgg16-tiny", "3x32x32", 2);
  assert_same_training("inception-v3-tiny", "3x75x75", 1);
}

/* ---- networks that change ---- */

static atomic_int n_recorded, n_training, n_evaluated, n_wrong;
static _Atomic int64_t last_batch;

static bool odd(int64_t step) { return step % 2 == 1; }

/* A residual block that takes part in even training steps, and in evaluation. */
static ronde_tensor *stochastic_depth(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  ronde_conv2d_options o = {.out_channels = 4, .kernel = {3, 3}, .padding = {1, 1}};
  ronde_pass pass = ronde_graph_pass(graph);
  x = ronde_relu(ronde_conv2d(x, "conv1", &o));
  if (!pass.eager || !pass.training || !odd(pass.step)) x = ronde_add(x, ronde_conv2d(x, "block", &o));
  x = ronde_linear(ronde_flatten(x), "fc", classes, true);
  atomic_fetch_add(pass.eager ? pass.training ? &n_training : &n_evaluated : &n_recorded, 1);
  float values[64 * SMALL_CLASSES];
  ronde_status status = ronde_tensor_values(x, values);
  if ((status == RONDE_OK) != pass.eager) atomic_fetch_add(&n_wrong, 1);
  for (int64_t i = 0; i < pass.batch * classes && status == RONDE_OK; i++)
    if (!isfinite(values[i])) atomic_fetch_add(&n_wrong, 1);
  if (pass.training) last_batch = pass.batch;
  return x;
}

enum { CONV1 = 4 * 9 + 4, BLOCK = 4 * 4 * 9 + 4 };

static bool same(const observed *a, const observed *b, size_t begin, size_t n) {
  return memcmp(a->weights + begin, b->weights + begin, n * sizeof(float)) == 0;
}

static void a_step_trains_what_it_uses(void **unused) {
  ronde_source source = small_source(20, 8);
  observed start = observe("batch=10 steps=1 lr=0 exec=eager threads=1", &source, stochastic_depth, NULL);
  observed one = observe("batch=10 steps=1 exec=eager threads=1", &source, stochastic_depth, NULL);
  observed two = observe("batch=10 steps=2 exec=eager threads=1", &source, stochastic_depth, NULL);
  assert_true(same(&start, &one, CONV1, BLOCK) && !same(&start, &one, 0, CONV1));
  assert_true(!same(&one, &two, CONV1, BLOCK));
  observed again = observe("batch=10 steps=2 exec=eager threads=1", &source, stochastic_depth, NULL);
  assert_true(bits_equal(&two, &again));
  free(start.weights), free(one.weights), free(two.weights), free(again.weights);
}

static void workers_agree_on_a_changing_network(void **unused) {
  ronde_source source = small_source(20, 8);
  observed one = observe("batch=10 steps=4 exec=eager threads=1", &source, stochastic_depth, NULL);
  observed two = observe("batch=10 steps=4 exec=eager workers=2 overlap=on bucket-mb=0.001 threads=1", &source,
                         stochastic_depth, NULL);
  assert_int_equal(two.status, RONDE_OK);
  assert_true(replicas_equal(&two));
  for (size_t i = 0; i < one.n_weights; i++) assert_true(fabsf(one.weights[i] - two.weights[i]) <= 1e-5f);
  free(one.weights), free(two.weights);
}

static void the_function_is_called_for_every_batch(void **unused) {
  ronde_source source = small_source(25, 13);
  n_recorded = n_training = n_evaluated = n_wrong = 0;
  ronde_hooks hooks = {.model = stochastic_depth, .source = &source};
  json_decref(job_run("train", "batch=10 epochs=2 exec=eager threads=1", &hooks));
  assert_int_equal(n_training, 6);  /* 10, 10, 5 */
  assert_int_equal(n_evaluated, 4); /* 10, 3 */
  assert_true(n_recorded >= 1);
  assert_int_equal(n_wrong, 0);
  assert_int_equal(last_batch, 5);
}

static void graph_calls_it_to_record_only(void **unused) {
  ronde_source source = small_source(25, 13);
  n_recorded = n_training = n_evaluated = n_wrong = 0;
  ronde_hooks hooks = {.model = stochastic_depth, .source = &source};
  json_decref(job_run("train", "batch=10 epochs=1 threads=1", &hooks));
  assert_int_equal(n_training + n_evaluated + n_wrong, 0);
  assert_true(n_recorded >= 1);
}

static ronde_tensor *growing(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  x = ronde_flatten(x);
  if (ronde_graph_pass(graph).step == 2) x = ronde_linear(x, "new", 36, true);
  return ronde_linear(x, "fc", classes, true);
}

static void log_line(void *user, ronde_log_level level, const char *line) {
  if (level == RONDE_LOG_ERROR) snprintf(user, 256, "%s", line);
}

static void a_new_parameter_is_refused_by_name(void **unused) {
  ronde_source source = small_source(30, 0);
  char line[256] = "", *text = NULL;
  ronde_hooks hooks = {.model = growing, .source = &source};
  ronde_config *config = config_make("train", "batch=10 exec=eager threads=1");
  ronde_log_set(log_line, line);
  assert_int_equal(ronde_train(config, &hooks, &text), RONDE_E_USAGE);
  ronde_log_set(NULL, NULL);
  assert_non_null(strstr(line, "new.weight (36x36) was not there when the network was recorded"));
  free(text);
  ronde_config_destroy(config);
}

static void accumulation_and_clipping_are_alike(void **unused) {
  static const char *const common[] = {"batch=4 accumulate=3 epochs=2 momentum=0.9 threads=1",
                                       "batch=4 clip=0.1 epochs=1 optimizer=adam threads=2",
                                       "batch=7 workers=3 epochs=1 threads=1"};
  ronde_source source = small_source(25, 9);
  for (size_t i = 0; i < RONDE__COUNT(common); i++) {
    char *options = ronde__format("%s exec=eager", common[i]);
    observed a = observe(common[i], &source, small_model, NULL), b = observe(options, &source, small_model, NULL);
    assert_true(bits_equal(&a, &b));
    assert_true(a.test_loss == b.test_loss);
    free(a.weights), free(b.weights), free(options);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_step_trains_what_it_uses),
      cmocka_unit_test(workers_agree_on_a_changing_network),
      cmocka_unit_test(the_function_is_called_for_every_batch),
      cmocka_unit_test(graph_calls_it_to_record_only),
      cmocka_unit_test(a_new_parameter_is_refused_by_name),
      cmocka_unit_test(accumulation_and_clipping_are_alike),
      cmocka_unit_test(small_networks_train_alike),
      cmocka_unit_test(large_networks_train_alike),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

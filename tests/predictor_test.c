/* Predictors: the same answers as `ronde predict`, from files and from training, by several threads at once. */
#include "tree_testing.h"

#include <pthread.h>
#include <sys/stat.h>

#define TRAIN "model=mnist-small data=folder:%s/tree batch=8 epochs=2 optimizer=adam lr=0.01 threads=1 save=%s/w"
enum { PIXELS = TREE_SIDE * TREE_SIDE, N = 24 };

static void write_all(const char *train) {
  for (int k = 0; k < TREE_CLASSES; ++k) {
    put_class("tree/train", k, 12, 0);
    put_class("tree/test", k, 2 + k, 50);
  }
  json_decref(run_job("train", train));
}

static ronde_predictor *load(const char *options, const ronde_hooks *hooks) {
  char *text = ronde__format(options, folder);
  ronde_config *config = config_make("predict", text);
  ronde_predictor *predictor;
  assert_int_equal(ronde_predictor_create(config, hooks, &predictor), RONDE_OK);
  ronde_config_destroy(config);
  free(text);
  return predictor;
}

static const float *make_inputs(void) {
  static float x[N * PIXELS];
  for (int i = 0; i < N; ++i)
    for (int p = 0; p < PIXELS; ++p) x[i * PIXELS + p] = small_noise(i, p) + .5f;
  return x;
}

/* ---- answers ---- */

/* As the file of weights says, or as the user does. */
static void test_the_answers_of_predict(void **state) {
  write_all(TRAIN " normalize=0.4;0.25");
  const float *x = make_inputs();
  char *path = ronde__format("%s/x.npy", folder);
  char dict[128];
  snprintf(dict, sizeof dict, "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, 1, %d, %d), }", N, TREE_SIDE,
           TREE_SIDE);
  test_write_bytes(folder, "x.npy", test_npy(dict, x, (size_t)N * PIXELS * sizeof *x));
  for (int round = 0; round < 2; ++round) {
    json_t *json =
        run_job("predict", round ? "init=%s/w input=%s/x.npy top=4 normalize=off" : "init=%s/w input=%s/x.npy top=4");
    ronde_predictor *p = load(round ? "init=%s/w normalize=off" : "init=%s/w", NULL);
    float y[N * TREE_CLASSES];
    assert_int_equal(ronde_predictor_outputs(p), TREE_CLASSES);
    assert_int_equal(ronde_predictor_run(p, N, x, y), RONDE_OK);
    for (int i = 0; i < N; ++i) {
      double sum = 0;
      for (int k = 0; k < TREE_CLASSES; ++k) sum += exp((double)y[i * TREE_CLASSES + k]);
      json_t *rows = json_at(json_array_get(json_at(json, "examples"), (size_t)i), "classes"), *row;
      size_t r;
      json_array_foreach(rows, r, row) {
        int k = (int)real_at(row, "class");
        assert_float_equal(exp((double)y[i * TREE_CLASSES + k]) / sum, real_at(row, "probability"), 1e-4);
        assert_string_equal(ronde_predictor_class(p, k), text_at(row, "name"));
      }
    }
    assert_null(ronde_predictor_class(p, TREE_CLASSES));
    assert_null(ronde_predictor_class(p, -1));
    int64_t dims[RONDE_MAX_RANK];
    assert_int_equal(ronde_predictor_shape(p, dims), 3);
    assert_true(dims[0] == 1 && dims[1] == TREE_SIDE && dims[2] == TREE_SIDE);
    ronde_predictor_destroy(p);
    json_decref(json);
  }
  free(path);
}

/* ---- threads ---- */

typedef struct caller {
  ronde_predictor *predictor;
  const float *x, *wanted; /* of N examples */
  int number;
  bool same;
} caller;

static void *call_often(void *arg) {
  caller *c = arg;
  float y[N * TREE_CLASSES];
  c->same = true;
  for (int round = 0; round < 40; ++round) {
    int n = 1 + (c->number + round) % 5, first = (c->number * 3 + round) % (N - n);
    if (ronde_predictor_run(c->predictor, n, c->x + (size_t)first * PIXELS, y) != RONDE_OK) c->same = false;
    for (int i = 0; i < n * TREE_CLASSES; ++i)
      c->same &= fabsf(y[i] - c->wanted[first * TREE_CLASSES + i]) <= 1e-5f * (1 + fabsf(y[i]));
  }
  return NULL;
}

static void test_many_threads_at_once(void **state) {
  enum { CALLERS = 6 };
  write_all(TRAIN);
  const float *x = make_inputs();
  float wanted[N * TREE_CLASSES];
  ronde_predictor *p = load("init=%s/w threads=1", NULL);
  assert_int_equal(ronde_predictor_run(p, N, x, wanted), RONDE_OK);
  caller callers[CALLERS];
  pthread_t threads[CALLERS];
  for (int i = 0; i < CALLERS; ++i) {
    callers[i] = (caller){p, x, wanted, i, false};
    assert_int_equal(pthread_create(&threads[i], NULL, call_often, &callers[i]), 0);
  }
  for (int i = 0; i < CALLERS; ++i) {
    pthread_join(threads[i], NULL);
    assert_true(callers[i].same);
  }
  ronde_predictor_destroy(p);
}

/* All biases of the output layer move together: whoever calls sees all of the old ones or all of the new. */
static void *set_often(void *arg) {
  caller *c = arg;
  float bias[TREE_CLASSES];
  for (int round = 0; round < 200; ++round) {
    for (int k = 0; k < TREE_CLASSES; ++k) bias[k] = (float)(round % 2 ? 100 : -100);
    c->same &= ronde_predictor_set(c->predictor, "fc2.bias", bias, TREE_CLASSES) == RONDE_OK;
  }
  return NULL;
}

static void test_values_change_between_calls(void **state) {
  write_all(TRAIN);
  const float *x = make_inputs();
  ronde_predictor *p = load("init=%s/w threads=1", NULL);
  caller setter = {p, x, NULL, 0, true};
  float bias[TREE_CLASSES] = {-100, -100, -100, -100}, y[TREE_CLASSES];
  assert_int_equal(ronde_predictor_set(p, "fc2.bias", bias, TREE_CLASSES), RONDE_OK);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, set_often, &setter), 0);
  for (int round = 0; round < 200; ++round) {
    assert_int_equal(ronde_predictor_run(p, 1, x, y), RONDE_OK);
    for (int k = 1; k < TREE_CLASSES; ++k) assert_true((y[k] > 0) == (y[0] > 0));
  }
  pthread_join(thread, NULL);
  assert_true(setter.same);
  ronde_predictor_destroy(p);
}

/* ---- tensors ---- */

static void test_tensors_by_name(void **state) {
  write_all(TRAIN);
  ronde_predictor *p = load("init=%s/w", NULL);
  ronde__safetensors *file = open_weights("w");
  const char *name;
  int n = 0, rank;
  int64_t dims[RONDE_MAX_RANK];
  for (; (name = ronde_predictor_tensor(p, n, &rank, dims)); ++n) {
    const ronde__file_tensor *tensor = ronde__safetensors_find(file, name);
    int64_t elems = 1;
    assert_non_null(tensor);
    assert_int_equal(rank, tensor->shape.rank);
    for (int d = 0; d < rank; ++d) elems *= dims[d];
    float *values = malloc((size_t)elems * sizeof *values);
    assert_int_equal(ronde_predictor_get(p, name, values, elems), RONDE_OK);
    assert_memory_equal(values, tensor->data, (size_t)elems * sizeof *values);
    free(values);
  }
  assert_int_equal(n, file->n_tensors);
  ronde__safetensors_close(file);
  float value;
  start_log();
  check_failed(&lines, ronde_predictor_get(p, "fc9.bias", &value, 1), RONDE_E_USAGE, "no tensor", "fc9.bias");
  start_log();
  check_failed(&lines, ronde_predictor_set(p, "fc2.bias", &value, 1), RONDE_E_USAGE, "fc2.bias", "has 4 values, not 1");
  start_log();
  check_failed(&lines, ronde_predictor_run(p, 0, &value, &value), RONDE_E_USAGE, "0 examples", "");
  ronde_predictor_destroy(p);
}

/* Running statistics of batch normalisation are tensors too, their counters are not. */
static void test_buffers(void **state) {
  json_decref(run_job("init", "model=resnet18-cifar shape=3x32x32 classes=3 output=%s/w"));
  ronde_predictor *p = load("init=%s/w", NULL);
  float mean[64], before[3], after[3], x[3 * 32 * 32];
  for (int i = 0; i < 3 * 32 * 32; ++i) x[i] = small_noise(1, i);
  assert_int_equal(ronde_predictor_get(p, "bn1.running_mean", mean, 64), RONDE_OK);
  for (int i = 0; ronde_predictor_tensor(p, i, NULL, NULL); ++i)
    assert_null(strstr(ronde_predictor_tensor(p, i, NULL, NULL), "num_batches_tracked"));
  assert_int_equal(ronde_predictor_run(p, 1, x, before), RONDE_OK);
  for (int i = 0; i < 64; ++i) mean[i] += .5f;
  assert_int_equal(ronde_predictor_set(p, "bn1.running_mean", mean, 64), RONDE_OK);
  assert_int_equal(ronde_predictor_run(p, 1, x, after), RONDE_OK);
  assert_true(fabsf(after[0] - before[0]) + fabsf(after[1] - before[1]) > 1e-6f);
  ronde_predictor_destroy(p);
}

/* ---- from a training ---- */

static ronde_tensor *table_model(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  x = ronde_linear(ronde_tanh(ronde_linear(x, "fc1", 9, true)), "fc2", 1, true);
  ronde_graph_set_loss(graph, ronde_mse_loss(x, ronde_target(graph)));
  return x;
}

static ronde_status read_table(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                               float *targets) {
  for (int64_t i = 0; i < n; ++i) {
    for (int f = 0; f < 5; ++f) x[i * 5 + f] = small_noise(ids[i], f);
    targets[i] = x[i * 5] - 2 * x[i * 5 + 3];
  }
  return RONDE_OK;
}

/* A row of five values in, one value out, no file; and the same weights by a file give the same bits. */
static void test_train_then_predict(void **state) {
  const ronde_source source = {
      .rank = 1, .dims = {5}, .target_elems = 1, .n_examples = {200, 0}, .read = read_table, .name = "table"};
  const ronde_hooks hooks = {.source = &source, .model = table_model}, by_file = {.model = table_model};
  char *options = ronde__format("batch=20 epochs=60 lr=0.2 workers=2 threads=1 save=%s/w", folder), *text;
  ronde_config *config = config_make("train", options);
  ronde_predictor *p, *q;
  assert_int_equal(ronde_train_predictor(config, &hooks, &p, &text), RONDE_OK);
  json_decref(json_of(text));
  q = load("init=%s/w", &by_file);
  float x[5] = {.25f, -.5f, .125f, .375f, 0}, y, z;
  assert_int_equal(ronde_predictor_run(p, 1, x, &y), RONDE_OK);
  assert_int_equal(ronde_predictor_run(q, 1, x, &z), RONDE_OK);
  assert_float_equal(y, .25 - 2 * .375, .05);
  assert_memory_equal(&y, &z, sizeof y);
  assert_int_equal(ronde_predictor_shape(p, (int64_t[RONDE_MAX_RANK]){0}), 1);
  ronde_predictor_destroy(p);
  ronde_predictor_destroy(q);
  ronde_config_destroy(config);
  free(options);
}

/* Counts what its function is called for, and gives other answers in eager runs. */
typedef struct eager_calls {
  int recorded, trained, run;
} eager_calls;

static ronde_tensor *counting_model(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  eager_calls *calls = user;
  ronde_pass pass = ronde_graph_pass(graph);
  int *count = !pass.eager ? &calls->recorded : pass.training ? &calls->trained : &calls->run;
  __atomic_add_fetch(count, 1, __ATOMIC_SEQ_CST);
  x = ronde_tanh(ronde_linear(x, "fc1", 9, true));
  if (calls->run > 1) x = ronde_tanh(x);
  x = ronde_linear(x, "fc2", 1, true);
  ronde_graph_set_loss(graph, ronde_mse_loss(x, ronde_target(graph)));
  return x;
}

static void test_eager_runs_call_the_model(void **state) {
  const ronde_source source = {
      .rank = 1, .dims = {5}, .target_elems = 1, .n_examples = {200, 0}, .read = read_table, .name = "table"};
  eager_calls calls = {0};
  const ronde_hooks hooks = {.source = &source, .model = counting_model, .user = &calls};
  char *options = ronde__format("batch=20 lr=0.2 threads=1 exec=eager save=%s/w", folder);
  ronde_config *config = config_make("train", options);
  ronde_predictor *p, *q;
  float x[5] = {.25f, -.5f, .125f, .375f, 0}, y, again, z;
  assert_int_equal(ronde_train_predictor(config, &hooks, &p, NULL), RONDE_OK);
  ronde_config_destroy(config); /* and all else of the training */
  calls = (eager_calls){0};
  assert_int_equal(ronde_predictor_run(p, 1, x, &y), RONDE_OK);
  assert_int_equal(calls.run, 1);
  assert_int_equal(ronde_predictor_run(p, 1, x, &again), RONDE_OK);
  assert_int_equal(calls.run, 2);
  assert_true(y != again);
  calls = (eager_calls){0};
  q = load("init=%s/w exec=eager", &(ronde_hooks){.model = counting_model, .user = &calls});
  assert_int_equal(calls.run, 0);
  assert_int_equal(ronde_predictor_run(q, 1, x, &z), RONDE_OK);
  assert_int_equal(calls.run, 1);
  assert_memory_equal(&y, &z, sizeof y);
  ronde_predictor_destroy(p);
  ronde_predictor_destroy(q);
  free(options);
}

/* Files of a few examples do not get a pass each: 150 of one row, and one of 50, are four passes of at most 64. */
static void test_small_files_share_a_pass(void **state) {
  enum { FILES = 150, ROWS = 50, F = 5 };
  const ronde_source source = {
      .rank = 1, .dims = {F}, .target_elems = 1, .n_examples = {200, 0}, .read = read_table, .name = "table"};
  eager_calls calls = {0};
  ronde_hooks hooks = {.source = &source, .model = counting_model, .user = &calls};
  char *options = ronde__format("batch=20 save=%s/w", folder), *text = NULL;
  ronde_config *config = config_make("train", options);
  assert_int_equal(ronde_train(config, &hooks, NULL), RONDE_OK);
  ronde_config_destroy(config);
  free(options);
  float x[ROWS * F];
  for (int i = 0; i < ROWS * F; ++i) x[i] = small_noise(i, 0);
  char *rows = ronde__format("%s/rows", folder);
  assert_int_equal(mkdir(rows, 0777), 0);
  for (int i = 0; i < FILES; ++i) {
    char name[24];
    snprintf(name, sizeof name, "%03d.npy", i);
    test_write_bytes(
        rows, name,
        test_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 5), }", x + i % ROWS * F, F * sizeof *x));
  }
  test_write_bytes(rows, "last.npy",
                   test_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (50, 5), }", x, sizeof x));
  options = ronde__format("init=%s/w exec=eager threads=1 input=%s", folder, rows);
  config = config_make("predict", options);
  calls = (eager_calls){.run = -1000}; /* the same network in each */
  hooks.source = NULL;
  assert_int_equal(ronde_predict(config, &hooks, &text), RONDE_OK);
  assert_int_equal(calls.run, -1000 + 4);
  free(text);
  json_decref(run_job("init", "model=mlp:4 shape=5 classes=3 output=%s/v"));
  json_t *json = run_job("predict", "init=%s/v input=%s/rows"), *examples = json_at(json, "examples");
  assert_int_equal((int)json_array_size(examples), FILES + ROWS);
  for (int i = 0; i < FILES + ROWS; ++i) {
    json_t *one = json_array_get(examples, (size_t)i), *same = json_array_get(examples, (size_t)(FILES + i % ROWS));
    char name[24];
    snprintf(name, sizeof name, i < FILES ? "/%03d.npy" : "/last.npy", i);
    assert_non_null(strstr(text_at(one, "file"), name));
    assert_int_equal((int)real_at(one, "index"), i < FILES ? 0 : i - FILES);
    assert_float_equal(real_at(one, "classes.0.probability"), real_at(same, "classes.0.probability"), 1e-6);
  }
  json_decref(json);
  ronde_config_destroy(config);
  free(options);
  free(rows);
}

static ronde_status read_nan(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                             float *targets) {
  read_table(user, split, ids, n, x, labels, targets);
  targets[0] = NAN;
  return RONDE_OK;
}

static void test_no_predictor_of_a_run_that_failed(void **state) {
  const ronde_source source = {
      .rank = 1, .dims = {5}, .target_elems = 1, .n_examples = {200, 0}, .read = read_nan, .name = "table"};
  const ronde_hooks hooks = {.source = &source, .model = table_model};
  ronde_config *config = config_make("train", "batch=20");
  ronde_predictor *p = (ronde_predictor *)config;
  assert_int_equal(ronde_train_predictor(config, &hooks, &p, NULL), RONDE_E_NUMERIC);
  assert_null(p);
  ronde_config_destroy(config);
}

static void check_no_predictor(const char *verb, const char *options, ronde_status wanted, const char *a,
                               const char *b) {
  char *text = ronde__format(options, folder);
  ronde_config *config = config_make(verb, text);
  ronde_predictor *p;
  start_log();
  check_failed(&lines, ronde_predictor_create(config, NULL, &p), wanted, a, b);
  start_log();
  ronde_config_destroy(config);
  free(text);
}

static void test_refusals(void **state) {
  write_all(TRAIN);
  check_no_predictor("predict", "model=lenet5", RONDE_E_USAGE, "--init FILE", "");
  check_no_predictor("eval", "init=%s/w", RONDE_E_USAGE, "\"predict\"", "");
  check_no_predictor("predict", "init=%s/nowhere", RONDE_E_INPUT, "/nowhere", "");
  check_no_predictor("predict", "init=%s/w model=lenet5", RONDE_E_INPUT, "/w: tensor", "");
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)
  const struct CMUnitTest tests[] = {
      TEST(test_the_answers_of_predict),
      TEST(test_many_threads_at_once),
      TEST(test_values_change_between_calls),
      TEST(test_tensors_by_name),
      TEST(test_buffers),
      TEST(test_train_then_predict),
      TEST(test_eager_runs_call_the_model),
      TEST(test_small_files_share_a_pass),
      TEST(test_no_predictor_of_a_run_that_failed),
      TEST(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

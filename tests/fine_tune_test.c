/* Training on from weights of another task: parts that are frozen. */
#include "train_testing.h"

#include "io/safetensors.h"

static char *folder; /* of each test */
static test_log lines;

static int make_folder(void **state) {
  folder = test_folder_create();
  test_log_start(&lines);
  return 0;
}

static int remove_folder(void **state) {
  ronde_log_set(NULL, NULL);
  test_folder_destroy(folder);
  return 0;
}

/* conv1 bn1 | conv2 bn2 | fc: two blocks of an image network, and its head. */
static ronde_tensor *blocks(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  static const char *const names[][2] = {{"conv1", "bn1"}, {"conv2", "bn2"}};
  for (int i = 0; i < 2; ++i) {
    ronde_conv2d_options o = {.out_channels = 6 + 15 * i, .kernel = {3, 3}, .padding = {1, 1}, .no_bias = i == 1};
    x = ronde_relu(ronde_batch_norm2d(ronde_conv2d(x, names[i][0], &o), names[i][1], NULL));
  }
  x = ronde_adaptive_avg_pool2d(x, 2, 2);
  return ronde_linear(ronde_flatten(x), "fc", classes, true);
}

static json_t *train(const char *options, ronde_model_fn model) {
  ronde_source source = small_source(50, 12);
  char *all = ronde__format("batch=10 lr=0.1 threads=1 %s", options);
  json_t *run = job_run("train", all, &(ronde_hooks){.model = model, .source = &source});
  free(all);
  return run;
}

static void refused(const char *options, ronde_status wanted, const char *a, const char *b) {
  ronde_source source = small_source(50, 12);
  ronde_config *config = config_make("train", options);
  ronde_status status = ronde_train(config, &(ronde_hooks){.model = blocks, .source = &source}, NULL);
  ronde_config_destroy(config);
  check_failed(&lines, status, wanted, a, b);
}

static ronde__safetensors *open_file(const char *name) {
  char *path = ronde__format("%s/%s", folder, name);
  ronde__safetensors *file;
  assert_int_equal(ronde__safetensors_open(path, &file), RONDE_OK);
  free(path);
  return file;
}

static bool same_tensor(const ronde__safetensors *a, const ronde__safetensors *b, const char *name) {
  const ronde__file_tensor *x = ronde__safetensors_find(a, name), *y = ronde__safetensors_find(b, name);
  assert_true(x && y);
  return !memcmp(x->data, y->data, (size_t)ronde__shape_elems(&x->shape) * (x->dtype == RONDE__FILE_F32 ? 4 : 8));
}

/* ---- frozen ------------------------------------------------------------------------------------------------------ */

static void check_frozen(const char *prefixes, const char *const *frozen, int workers, const char *more) {
  char *before = ronde__format("%s lr=0 weight-decay=0 epochs=1 steps=1 save=%s/before", more, folder);
  char *after = ronde__format("%s weight-decay=0.01 epochs=3 workers=%d freeze=%s save=%s/after", more, workers,
                              prefixes, folder);
  json_decref(train(before, blocks));
  json_t *run = train(after, blocks);
  ronde__safetensors *a = open_file("before"), *b = open_file("after");
  int64_t trained = 0;
  for (int i = 0; i < b->n_tensors; ++i) {
    const ronde__file_tensor *t = &b->tensors[i];
    bool held = false, buffer = strstr(t->name, "running") || strstr(t->name, "num_batches");
    for (int f = 0; frozen[f]; ++f) held |= !strcmp(frozen[f], t->name);
    if (same_tensor(a, b, t->name) != held)
      fail_msg("%s, %d workers: %s has %schanged", prefixes, workers, t->name, held ? "" : "not ");
    if (!held && !buffer) trained += ronde__shape_elems(&t->shape);
  }
  assert_int_equal((int)real_at(run, "model.trained_parameters"), (int)trained);
  assert_true(real_at(run, "model.parameters") > (double)trained);
  assert_true(real_at(run, "epochs.2.train_loss") < real_at(run, "epochs.0.train_loss"));
  ronde__safetensors_close(a);
  ronde__safetensors_close(b);
  json_decref(run);
  free(before);
  free(after);
}

/* Neither gradient nor decay nor momentum moves what is frozen; all else trains, running statistics too. */
static void test_frozen_parameters_stay(void **state) {
  static const char *const lower[] = {"conv1.weight", "conv1.bias", "bn1.weight", "bn1.bias", NULL};
  static const char *const middle[] = {"conv2.weight", "bn2.weight", "bn2.bias", "fc.bias", NULL};
  static const char *const but_head[] = {"conv1.weight", "conv1.bias",   "bn1.weight", "bn1.bias",
                                         "bn2.weight",   "conv2.weight", "bn2.bias",   NULL};
  for (int workers = 1; workers <= 3; ++workers) {
    check_frozen("conv1,bn1", lower, workers, "optimizer=sgd momentum=0.9");
    check_frozen("conv2.,bn2,fc.bias", middle, workers, "optimizer=adamw");
    check_frozen("conv1,conv2,bn1,bn2", but_head, workers, "optimizer=adagrad clip=0.5");
  }
}

/* One step of what trains is what it would be if all trained. */
static void test_the_others_take_the_same_step(void **state) {
  static const char *const names[] = {"conv2.weight", "bn2.weight", "bn2.bias", "fc.weight", "fc.bias"};
  char *whole = ronde__format("steps=1 save=%s/whole", folder);
  char *part = ronde__format("steps=1 freeze=conv1,bn1 save=%s/part", folder);
  json_t *a = train(whole, blocks), *b = train(part, blocks);
  ronde__safetensors *x = open_file("whole"), *y = open_file("part");
  for (size_t i = 0; i < RONDE__COUNT(names); ++i) {
    const ronde__file_tensor *s = ronde__safetensors_find(x, names[i]), *t = ronde__safetensors_find(y, names[i]);
    for (int64_t j = 0; j < ronde__shape_elems(&s->shape); ++j)
      assert_true(fabsf(((const float *)s->data)[j] - ((const float *)t->data)[j]) < 1e-6f);
  }
  assert_false(same_tensor(x, y, "conv1.weight"));
  assert_true(real_at(b, "model.train_flops_per_example") < real_at(a, "model.train_flops_per_example"));
  assert_true(real_at(b, "model.executed_flops_per_example") < real_at(a, "model.executed_flops_per_example"));
  assert_true(real_at(b, "model.forward_flops_per_example") == real_at(a, "model.forward_flops_per_example"));
  ronde__safetensors_close(x);
  ronde__safetensors_close(y);
  json_decref(a);
  json_decref(b);
  free(whole);
  free(part);
}

static void test_prefixes_that_fit_nothing(void **state) {
  refused("batch=10 freeze=conv", RONDE_E_USAGE, "'conv'", "the nearest is conv1");
  refused("batch=10 freeze=conv1,cnov2.weight", RONDE_E_USAGE, "'cnov2.weight'", "the nearest is conv2.weight");
  refused("batch=10 freeze=conv1,", RONDE_E_USAGE, "--freeze", "''");
  refused("batch=10 freeze=conv1,bn1,conv2,bn2,fc", RONDE_E_USAGE, "--freeze conv1", "nothing is left to train");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
  const struct CMUnitTest tests[] = {
      TEST(test_frozen_parameters_stay),
      TEST(test_the_others_take_the_same_step),
      TEST(test_prefixes_that_fit_nothing),
  };
#undef TEST
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Training on from weights of another task: parts that are frozen, a new output layer, what a file must hold. */
#include "lib/folder.h"
#include "train_testing.h"

#include "io/safetensors.h"

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

/* ---- a new output layer ------------------------------------------------------------------------------------------ */

enum { TENSORS = 160 };

typedef struct state_dict {
  ronde__file_tensor tensors[TENSORS];
  char names[TENSORS][48];
  int n;
} state_dict;

/* A tensor of values that tell it from others; running variances are positive. */
static void add_tensor(state_dict *s, ronde__shape shape, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(s->names[s->n], sizeof s->names[s->n], format, args);
  va_end(args);
  float *values = malloc((size_t)ronde__shape_elems(&shape) * sizeof *values);
  for (int64_t i = 0; i < ronde__shape_elems(&shape); ++i) values[i] = 0.1f * small_noise(s->n, i) + 0.06f;
  s->tensors[s->n] = (ronde__file_tensor){s->names[s->n], RONDE__FILE_F32, shape, values};
  s->n++;
}

static void add_norm(state_dict *s, int64_t channels, const char *prefix) {
  static const char *const parts[] = {"weight", "bias", "running_mean", "running_var"};
  for (int i = 0; i < 4; ++i) add_tensor(s, (ronde__shape){1, {channels}}, "%s.%s", prefix, parts[i]);
}

/* What torchvision's resnet18().state_dict() holds, but for the counters, which older files lack. */
static void resnet18_state(state_dict *s, int64_t classes) {
  add_tensor(s, (ronde__shape){4, {64, 3, 7, 7}}, "conv1.weight");
  add_norm(s, 64, "bn1");
  for (int layer = 1, width = 64, in = 64; layer <= 4; ++layer, in = width, width *= 2)
    for (int block = 0; block < 2; ++block) {
      char name[40];
      for (int conv = 1; conv <= 2; ++conv) {
        int64_t from = block == 0 && conv == 1 ? in : width;
        add_tensor(s, (ronde__shape){4, {width, from, 3, 3}}, "layer%d.%d.conv%d.weight", layer, block, conv);
        snprintf(name, sizeof name, "layer%d.%d.bn%d", layer, block, conv);
        add_norm(s, width, name);
      }
      if (layer == 1 || block == 1) continue;
      add_tensor(s, (ronde__shape){4, {width, in, 1, 1}}, "layer%d.0.downsample.0.weight", layer);
      snprintf(name, sizeof name, "layer%d.0.downsample.1", layer);
      add_norm(s, width, name);
    }
  add_tensor(s, (ronde__shape){2, {classes, 512}}, "fc.weight");
  add_tensor(s, (ronde__shape){1, {classes}}, "fc.bias");
}

static void write_state(const state_dict *s, const char *name) {
  char *path = ronde__format("%s/%s", folder, name);
  assert_int_equal(ronde__safetensors_write(path, s->tensors, s->n, NULL, 0), RONDE_OK);
  free(path);
}

static void free_state(state_dict *s) {
  for (int i = 0; i < s->n; ++i) free((void *)s->tensors[i].data);
  free(s);
}

static char said[1024];

static void keep_info(void *user, ronde_log_level level, const char *line) {
  if (level == RONDE_LOG_INFO) snprintf(said, sizeof said, "%s", line);
  else test_log_line(&lines, level, line);
}

#define RESNET "model=resnet18 data=synthetic:3x32x32:7:20 batch=10 threads=1 lr=0 steps=1 "

/* A file from PyTorch trains on other data with a fresh output layer, all else as in the file. */
static void test_a_file_from_pytorch_gets_a_new_head(void **state) {
  state_dict *s = calloc(1, sizeof *s);
  resnet18_state(s, 30);
  write_state(s, "torch");
  char *kept = ronde__format(RESNET "classes=30 init=%s/torch save=%s/kept", folder, folder);
  char *fresh = ronde__format(RESNET "classes=7 seed=4 init=%s/torch workers=2 save=%s/fresh", folder, folder);
  char *init = ronde__format("model=resnet18 shape=3x32x32 classes=7 seed=4 output=%s/init", folder);
  ronde_log_set(keep_info, NULL);
  json_t *a = job_run("train", kept, NULL);
  assert_string_equal(said, "");
  json_t *b = job_run("train", fresh, NULL);
  assert_non_null(strstr(said, "the output layer fc is initialised anew: 7 classes instead of the 30"));
  assert_true(json_is_null(json_at(a, "model.new_head")));
  assert_string_equal(text_at(b, "model.new_head"), "fc");
  json_decref(job_run("init", init, NULL));
  ronde__safetensors *torch = open_file("torch"), *x = open_file("kept"), *y = open_file("fresh"),
                     *z = open_file("init");
  for (int i = 0; i < s->n; ++i) {
    bool head = !strncmp(s->names[i], "fc.", 3);
    if (strstr(s->names[i], "running")) continue;
    assert_true(same_tensor(torch, x, s->names[i]));
    assert_true(same_tensor(head ? z : torch, y, s->names[i]));
  }
  ronde__safetensors_close(torch);
  ronde__safetensors_close(x);
  ronde__safetensors_close(y);
  ronde__safetensors_close(z);
  json_decref(a);
  json_decref(b);
  free(kept);
  free(fresh);
  free(init);
  free_state(s);
}

static ronde_status status_of(const char *verb, const char *options, const ronde_hooks *hooks) {
  char *all = ronde__format(options, folder);
  ronde_config *config = config_make(verb, all);
  free(all);
  bool train = !strcmp(verb, "train");
  ronde_status status = train ? ronde_train(config, hooks, NULL) : ronde_eval(config, hooks, NULL);
  ronde_config_destroy(config);
  return status;
}

/* The small network's weights, one tensor changed. */
static void write_small(const char *name, const char *tensor, ronde__shape shape) {
  static const float zeros[2048];
  ronde__safetensors *good = open_file("small");
  ronde__file_tensor tensors[16];
  int n = 0;
  for (int i = 0; i < good->n_tensors; ++i) {
    tensors[n] = good->tensors[i];
    if (!strcmp(tensors[n].name, tensor)) tensors[n].shape = shape, tensors[n].data = zeros;
    if (strcmp(tensors[n].name, tensor) || shape.rank) ++n;
  }
  char *path = ronde__format("%s/%s", folder, name);
  assert_int_equal(ronde__safetensors_write(path, tensors, n, NULL, 0), RONDE_OK);
  free(path);
  ronde__safetensors_close(good);
}

/* Only the output layer may be new, only in its number of classes, only in training, and only where --classes says so.
 */
static void test_nothing_else_may_be_new(void **state) {
  ronde_source source = small_source(50, 12), five = small_source(50, 12);
  ronde_hooks hooks = {.model = small_model, .source = &source}, more = {.model = small_model, .source = &five};
  five.classes = 5;
  char *options = ronde__format("batch=10 threads=1 save=%s/small", folder);
  json_decref(job_run("train", options, &hooks));
  free(options);
  write_small("narrow", "fc2.weight", (ronde__shape){2, {3, 12}});
  write_small("half", "fc2.bias", (ronde__shape){1, {4}});
  write_small("headless", "fc2.bias", (ronde__shape){0});
  write_small("hidden", "fc1.bias", (ronde__shape){1, {12}});
  static const struct {
    const char *verb, *options, *a, *b;
  } cases[] = {
      {"train", "batch=10 init=%s/small", "small: its output layer fc2 has 3 classes", "--classes 5 starts"},
      {"train", "batch=10 classes=5 init=%s/narrow", "tensor fc2.bias is 3", "5"},
      {"train", "batch=10 classes=5 init=%s/half", "tensor fc2.bias is 4", "5"},
      {"train", "batch=10 classes=5 init=%s/headless", "tensor fc2.bias is missing", ""},
      {"train", "batch=10 classes=5 init=%s/hidden", "tensor fc1.bias is 12", "11"},
      {"eval", "classes=5 init=%s/small", "tensor fc2.bias is 3", "5"},
  };
  for (size_t i = 0; i < RONDE__COUNT(cases); ++i)
    check_failed(&lines, status_of(cases[i].verb, cases[i].options, &more), RONDE_E_INPUT, cases[i].a, cases[i].b);
  assert_int_equal(status_of("train", "batch=10 classes=5 init=%s/small", &more), RONDE_OK);
  assert_int_equal(status_of("train", "batch=10 classes=3 init=%s/small", &hooks), RONDE_OK);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder_with_log, remove_folder)
  const struct CMUnitTest tests[] = {
      TEST(test_frozen_parameters_stay),    TEST(test_the_others_take_the_same_step),
      TEST(test_prefixes_that_fit_nothing), TEST(test_a_file_from_pytorch_gets_a_new_head),
      TEST(test_nothing_else_may_be_new),
  };
#undef TEST
  return cmocka_run_group_tests(tests, NULL, NULL);
}

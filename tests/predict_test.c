/* Predictions of many inputs: files, folders, patterns and arrays, in the order in which they were named. */
#include "tree_testing.h"

#define TRAIN "model=mnist-small data=folder:%s/tree batch=8 epochs=2 optimizer=adam lr=0.01 threads=1 save=%s/w"
enum { MOST = 256 };

/* What the hook was told. */
typedef struct answers {
  int n;
  char file[MOST][256];
  int64_t index[MOST], best[MOST];
  double probability[MOST];
} answers;

static void take_answer(void *user, const ronde_prediction *told) {
  answers *a = user;
  assert_true(a->n < MOST && told->n == TREE_CLASSES);
  snprintf(a->file[a->n], sizeof a->file[0], "%s", told->file);
  a->index[a->n] = told->index;
  a->best[a->n] = told->classes[0];
  assert_string_equal(told->names[0], tree_names[told->classes[0]]);
  for (int i = 1; i < told->n; ++i) assert_true(told->probabilities[i] <= told->probabilities[i - 1]);
  a->probability[a->n++] = told->probabilities[0];
}

static void write_all(void) {
  for (int k = 0; k < TREE_CLASSES; ++k) put_class("tree/train", k, 12, 0);
  json_decref(run_job("train", TRAIN));
}

/* input: with the test's folder at every %s; more: further options. */
static ronde_status ask_for(const char *input, const char *more, answers *a) {
  char *options = ronde__format("init=%s/w top=4 %s", folder, more);
  char *text = ronde__format(input, folder, folder, folder);
  const ronde_hooks hooks = {.prediction = take_answer, .user = a};
  ronde_config *config = config_make("predict", options);
  assert_int_equal(ronde_config_set(config, "input", text), RONDE_OK);
  a->n = 0;
  ronde_status status = ronde_predict(config, &hooks, NULL);
  ronde_config_destroy(config);
  free(options);
  free(text);
  return status;
}

static ronde_status ask(const char *input, const char *option, const char *value, answers *a) {
  char *more = option ? ronde__format("%s=%s", option, value) : ronde__strdup("");
  ronde_status status = ask_for(input, more, a);
  free(more);
  return status;
}

static void test_a_folder_is_its_images_one_by_one(void **state) {
  static answers all, one;
  write_all();
  assert_int_equal(ask("%s/tree", "threads", "3", &all), RONDE_OK);
  assert_int_equal(all.n, TREE_CLASSES * 12);
  for (int i = 0; i < all.n; ++i) {
    char *wanted = ronde__format("%s/tree/train/%s/%03d.png", folder, tree_names[i / 12], i % 12);
    assert_string_equal(all.file[i], wanted);
    free(wanted);
    if (i % 5) continue;
    char *alone = ronde__format("%s", all.file[i]);
    assert_int_equal(ask(alone, NULL, NULL, &one), RONDE_OK);
    free(alone);
    assert_int_equal(one.n, 1);
    assert_int_equal(one.best[0], all.best[i]);
    assert_float_equal(one.probability[0], all.probability[i], 1e-5);
  }
}

/* More than one chunk, of both kinds, mixed. */
static void test_files_patterns_and_arrays_in_order(void **state) {
  enum { N = 70, PIXELS = TREE_SIDE * TREE_SIDE };
  static answers a;
  static float x[N * PIXELS];
  char dict[128];
  write_all();
  for (int i = 0; i < N * PIXELS; ++i) x[i] = small_noise(1, i) + .5f;
  snprintf(dict, sizeof dict, "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, 1, %d, %d), }", N, TREE_SIDE,
           TREE_SIDE);
  test_write_bytes(folder, "x.npy", test_npy(dict, x, sizeof x));
  assert_int_equal(ask("%s/tree/train/bee/003.png\n%s/x.npy\n\n%s/tree/train/*/00[12].png", NULL, NULL, &a), RONDE_OK);
  assert_int_equal(a.n, 1 + N + 2 * TREE_CLASSES);
  assert_non_null(strstr(a.file[0], "/bee/003.png"));
  for (int i = 0; i < N; ++i) {
    assert_non_null(strstr(a.file[1 + i], "/x.npy"));
    assert_int_equal(a.index[1 + i], i);
  }
  assert_non_null(strstr(a.file[1 + N], "/ant/001.png"));
  assert_non_null(strstr(a.file[a.n - 1], "/dog/002.png"));
  assert_int_equal(ask("%s/x.npy\n%s/tree/train/ant/000.png", NULL, NULL, &a), RONDE_OK);
  assert_int_equal(a.n, N + 1);
}

/* Bytes and floats that mean the same are the same inputs, also resized and normalised, in chunks and alone. */
static void test_bytes_are_floats_by_255(void **state) {
  enum { N = 70, SIDE = 12, PIXELS = SIDE * SIDE };
  static answers bytes, floats, one;
  static uint8_t x[N * PIXELS];
  static float values[N * PIXELS];
  char dict[128];
  write_all();
  for (int i = 0; i < N * PIXELS; ++i) {
    x[i] = (uint8_t)(255 * (small_noise(2, i) + .5f));
    values[i] = (float)x[i] / 255;
  }
  snprintf(dict, sizeof dict, "{'descr': '|u1', 'fortran_order': False, 'shape': (%d, %d, %d), }", N, SIDE, SIDE);
  test_write_bytes(folder, "bytes.npy", test_npy(dict, x, sizeof x));
  test_write_bytes(folder, "one.npy",
                   test_npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1, 12, 12), }",
                            x + (size_t)(N - 1) * PIXELS, PIXELS));
  snprintf(dict, sizeof dict, "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d, %d), }", N, SIDE, SIDE);
  test_write_bytes(folder, "floats.npy", test_npy(dict, values, sizeof values));
  const char *const inputs[] = {"%s/bytes.npy", "%s/floats.npy", "%s/one.npy"};
  answers *const told[] = {&bytes, &floats, &one};
  for (int i = 0; i < 3; ++i) {
    assert_int_equal(ask_for(inputs[i], "resize=8x8 normalize=0.4;0.2", told[i]), RONDE_OK);
  }
  assert_true(bytes.n == N && floats.n == N && one.n == 1);
  for (int i = 0; i < N; ++i) {
    assert_int_equal(bytes.best[i], floats.best[i]);
    assert_float_equal(bytes.probability[i], floats.probability[i], 1e-5);
  }
  assert_float_equal(one.probability[0], bytes.probability[N - 1], 1e-5);
  double least = bytes.probability[0], most = least;
  for (int i = 1; i < N; ++i) least = fmin(least, bytes.probability[i]), most = fmax(most, bytes.probability[i]);
  assert_true(most - least > 1e-3);
}

static void check_refused(const char *input, const char *option, const char *value, ronde_status wanted,
                          const char *one, const char *other) {
  static answers a;
  start_log();
  check_failed(&lines, ask(input, option, value, &a), wanted, one, other);
  start_log();
}

static void test_what_cannot_be_read(void **state) {
  static answers a;
  write_all();
  char *empty = ronde__format("%s/empty", folder);
  mkdir(empty, 0700);
  free(empty);
  test_write(folder, "tree/train/ant/0055.png", "no image", 8);
  check_refused("%s/tree", NULL, NULL, RONDE_E_INPUT, "/ant/0055.png: ", "");
  check_refused("%s/empty", NULL, NULL, RONDE_E_INPUT, "/empty: ", "no .png");
  check_refused("%s/nowhere*", NULL, NULL, RONDE_E_INPUT, "nowhere*: no file matches", "");
  check_refused("%s/nowhere.png", NULL, NULL, RONDE_E_INPUT, "/nowhere.png", "");
  check_refused("%s/tree", "layout", "nhwc", RONDE_E_USAGE, "--layout can have no effect", "npy");
  start_log();
  assert_int_equal(ask("%s/tree", "skip-bad-images", "on", &a), RONDE_OK);
  assert_int_equal(a.n, TREE_CLASSES * 12);
  assert_int_equal(lines.n_warnings, 1);
  assert_non_null(strstr(lines.warning, "1 images that cannot be read are left out"));
}

static void test_other_sizes_need_resize(void **state) {
  static answers a;
  uint8_t pixels[12 * 10] = {0};
  write_all();
  test_write_bytes(folder, "large.png", test_png(12, 10, 1, 8, pixels));
  check_refused("%s/tree/train/ant\n%s/large.png", NULL, NULL, RONDE_E_INPUT, "/large.png: ", "--resize");
  assert_int_equal(ask("%s/tree/train/ant\n%s/large.png", "resize", "8x8", &a), RONDE_OK);
  assert_int_equal(a.n, 13);
}

/* Of a folder with val/ and test/ the examples of both are told; training tests on the one, eval on the other. */
static void test_both_validation_and_test_are_counted(void **state) {
  (void)state;
  for (int k = 0; k < TREE_CLASSES; ++k) {
    put_class("both/train", k, 5, 0);
    put_class("both/val", k, 3, 5);
    put_class("both/test", k, 2, 8);
  }
  char *options = ronde__format("data=folder:%s/both", folder), *text;
  ronde_config *config = config_make("data", options);
  assert_int_equal(ronde_data_info(config, &text), RONDE_OK);
  json_t *json = json_loads(text, 0, NULL);
  assert_int_equal(json_integer_value(json_object_get(json, "train_examples")), 5 * TREE_CLASSES);
  assert_int_equal(json_integer_value(json_object_get(json, "validation_examples")), 3 * TREE_CLASSES);
  assert_int_equal(json_integer_value(json_object_get(json, "test_examples")), 2 * TREE_CLASSES);
  json_decref(json);
  ronde_config_destroy(config);
  free(text);
  free(options);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)
  const struct CMUnitTest tests[] = {
      TEST(test_a_folder_is_its_images_one_by_one), TEST(test_files_patterns_and_arrays_in_order),
      TEST(test_bytes_are_floats_by_255),           TEST(test_what_cannot_be_read),
      TEST(test_other_sizes_need_resize),           TEST(test_both_validation_and_test_are_counted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

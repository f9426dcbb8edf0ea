/* Whole jobs on data sets of colour images, through the public API. */
#include "train_testing.h"

#include "io/safetensors.h"

static char *folder; /* of each test; also where its cache lies */
static test_log lines;

static int make_folder(void **state) {
  folder = test_folder_create();
  setenv("RONDE_CACHE_DIR", folder, 1);
  test_log_start(&lines);
  return 0;
}

static int remove_folder(void **state) {
  ronde_log_set(NULL, NULL);
  test_folder_destroy(folder);
  return 0;
}

/* Runs a job whose options hold the test's folder at every %s. */
static json_t *run_job(const char *verb, const char *options) {
  char *text = ronde__format(options, folder, folder, folder);
  json_t *json = job_run(verb, text, NULL);
  free(text);
  return json;
}

/* ---- CIFAR ------------------------------------------------------------------------------------------------------- */

enum { CIFAR_PIXELS = 3072, N_TEST = 20 };

/* Class k is brighter in one part of one channel than the others. */
static uint8_t cifar_pixel(int64_t image, int64_t p) {
  int64_t k = image % 10, c = p / 1024, row = p / 32 % 32;
  return (uint8_t)((c == k % 3 && row / 8 == k / 3 ? 180 : 60) + test_pixel(image, p) / 8);
}

static void write_cifar(const char *name, int label_bytes, int64_t first, int64_t n) {
  size_t record = (size_t)label_bytes + CIFAR_PIXELS;
  test_bytes b = {calloc((size_t)n, record), (size_t)n * record};
  for (int64_t i = 0; i < n; ++i) {
    uint8_t *at = b.data + (size_t)i * record + label_bytes;
    at[-1] = (uint8_t)((first + i) % 10);
    for (int64_t p = 0; p < CIFAR_PIXELS; ++p) at[p] = cifar_pixel(first + i, p);
  }
  test_write_bytes(folder, name, b);
}

static void write_cifar10(void) {
  for (int i = 1; i <= 5; ++i) {
    char *name = ronde__format("data_batch_%d.bin", i);
    write_cifar(name, 1, 10 * i, 10);
    free(name);
  }
  write_cifar("test_batch.bin", 1, 100, N_TEST);
}

static void write_cifar_npy(void) {
  uint8_t *x = malloc(N_TEST * CIFAR_PIXELS);
  for (int64_t i = 0; i < N_TEST * CIFAR_PIXELS; ++i) x[i] = cifar_pixel(100 + i / CIFAR_PIXELS, i % CIFAR_PIXELS);
  static const char dict[] = "{'descr': '|u1', 'fortran_order': False, 'shape': (20, 3, 32, 32), }";
  test_write_bytes(folder, "images.npy", test_npy(dict, x, N_TEST * CIFAR_PIXELS));
  free(x);
}

/* The weights' file says how each channel was normalised. */
static void check_metadata(void) {
  ronde__safetensors *file;
  char *path = ronde__format("%s/w", folder);
  assert_int_equal(ronde__safetensors_open(path, &file), RONDE_OK);
  const char *mean = ronde__safetensors_meta(file, "normalize_mean");
  const char *deviation = ronde__safetensors_meta(file, "normalize_std");
  float m[3], d[3];
  assert_int_equal(sscanf(mean, "%f,%f,%f", &m[0], &m[1], &m[2]), 3);
  assert_int_equal(sscanf(deviation, "%f,%f,%f", &d[0], &d[1], &d[2]), 3);
  assert_true(m[0] == .4914f && m[1] == .4822f && m[2] == .4465f);
  assert_true(d[0] == .2470f && d[1] == .2435f && d[2] == .2616f);
  ronde__safetensors_close(file);
  free(path);
}

static void test_predict_sees_what_eval_sees_of_cifar(void **state) {
  write_cifar10();
  write_cifar_npy();
  json_t *trained = run_job("train", "model=lenet5 data=cifar10:%s batch=10 epochs=20 optimizer=adam lr=0.003 save=%s/w");
  assert_int_equal((int)real_at(trained, "data.shape.0"), 3);
  check_metadata();
  json_t *eval = run_job("eval", "init=%s/w data=cifar10:%s");
  json_t *predicted = run_job("predict", "init=%s/w input=%s/images.npy top=10");
  double loss = 0;
  int n_right = 0;
  for (int i = 0; i < N_TEST; ++i)
    for (int k = 0; k < 10; ++k) {
      char class_path[64], path[64];
      snprintf(class_path, sizeof class_path, "examples.%d.classes.%d.class", i, k);
      snprintf(path, sizeof path, "examples.%d.classes.%d.probability", i, k);
      if ((int)real_at(predicted, class_path) != i % 10) continue;
      loss -= log(real_at(predicted, path)) / N_TEST;
      n_right += k == 0;
    }
  assert_int_equal(n_right, (int)lround(real_at(eval, "accuracy") * N_TEST));
  assert_true(n_right > N_TEST / 2);
  assert_true(fabs(loss - real_at(eval, "loss")) < 1e-3 * (1 + loss)); /* probabilities have 6 digits */
  json_decref(trained);
  json_decref(eval);
  json_decref(predicted);
}

/* Lists that do not fit the channels are refused. */
static void test_predict_refuses_other_normalisation(void **state) {
  static const char *const bad[][2] = {
      {".5,.5", ".2,.2"}, {".5,.5,.5", ".2"}, {".5", "0"}, {"x", ".2"}, {".5,,.5", ".2,.2,.2"}, {".5,.5,.5,.5", ".2"}};
  write_cifar_npy();
  json_decref(run_job("init", "model=lenet5 output=%s/fresh"));
  char *path = ronde__format("%s/w", folder), *fresh = ronde__format("%s/fresh", folder);
  ronde__safetensors *file;
  assert_int_equal(ronde__safetensors_open(fresh, &file), RONDE_OK);
  for (size_t i = 0; i < RONDE__COUNT(bad); ++i) {
    const ronde__file_meta meta[] = {
        {"model", "lenet5"}, {"shape", "3x32x32"}, {"normalize_mean", bad[i][0]}, {"normalize_std", bad[i][1]}};
    assert_int_equal(ronde__safetensors_write(path, file->tensors, file->n_tensors, meta, 4), RONDE_OK);
    char *options = ronde__format("init=%s input=%s/images.npy", path, folder);
    ronde_config *config = config_make("predict", options);
    check_failed(&lines, ronde_predict(config, NULL, NULL), RONDE_E_INPUT, "/w: ", "do not fit images of 3 channels");
    ronde_config_destroy(config);
    free(options);
  }
  ronde__safetensors_close(file);
  free(path);
  free(fresh);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
  const struct CMUnitTest tests[] = {
      TEST(test_predict_sees_what_eval_sees_of_cifar),
      TEST(test_predict_refuses_other_normalisation),
  };
#undef TEST
  return cmocka_run_group_tests(tests, NULL, NULL);
}

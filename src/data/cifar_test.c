/* CIFAR-10 and CIFAR-100 in their binary form. */
#include "data/testing.h"

#include <sys/stat.h>

#include "data/data.h"

static test_log lines;

enum { PIXELS = 3072, N_BATCH = 3 };

static int setup(void **state) {
  char *folder = test_folder_create(), *cache = ronde__format("%s/cache", folder);
  setenv("RONDE_CACHE_DIR", cache, 1);
  free(cache);
  test_log_start(&lines);
  *state = folder;
  return 0;
}

static int teardown(void **state) {
  test_folder_destroy(*state);
  ronde_log_set(NULL, NULL);
  return 0;
}

/* n records from number `first` on; CIFAR-100 has a coarse label in front of the fine one. */
static test_bytes records(int label_bytes, int64_t first, int64_t n, int classes) {
  size_t record = (size_t)label_bytes + PIXELS;
  test_bytes b = {malloc((size_t)n * record + 1), (size_t)n * record};
  for (int64_t i = 0; i < n; ++i) {
    uint8_t *at = b.data + (size_t)i * record;
    if (label_bytes == 2) *at++ = 77;
    *at++ = (uint8_t)((first + i) * 3 % classes);
    for (int64_t p = 0; p < PIXELS; ++p) at[p] = test_pixel(first + i, p);
  }
  return b;
}

static void write_cifar10(const char *folder) {
  for (int i = 1; i <= 5; ++i) {
    char *name = ronde__format("data_batch_%d.bin", i);
    test_write_bytes(folder, name, records(1, (i - 1) * N_BATCH, N_BATCH, 10));
    free(name);
  }
  test_write_bytes(folder, "test_batch.bin", records(1, 100, 4, 10));
}

static void write_cifar100(const char *folder) {
  test_write_bytes(folder, "train.bin", records(2, 0, 7, 100));
  test_write_bytes(folder, "test.bin", records(2, 100, 2, 100));
}

static ronde_status open_cifar(const char *name, const char *folder, bool cache, bool normalize, int64_t classes,
                               ronde__data **data_out) {
  char *spec = ronde__format("%s:%s", name, folder);
  const ronde__data_options options = {.spec = spec, .cache = cache, .normalize = normalize, .classes = classes};
  ronde_status status = ronde__data_open(&options, data_out);
  free(spec);
  return status;
}

static ronde_status try_set(const char *name, const char *folder, bool cache, int64_t classes) {
  ronde__data *data;
  ronde_status status = open_cifar(name, folder, cache, false, classes, &data);
  if (status == RONDE_OK) ronde__data_close(data);
  return status;
}

static void check_example(ronde__data *data, int split, int64_t id, int64_t number, int classes, const double *mean,
                          const double *deviation) {
  float x[PIXELS];
  int64_t label;
  assert_int_equal(data->source.read(data->source.user, split, &id, 1, x, &label, NULL), RONDE_OK);
  assert_int_equal(label, number * 3 % classes);
  for (int p = 0; p < PIXELS; ++p) {
    int c = p / 1024;
    assert_float_equal(x[p], (test_pixel(number, p) / 255.0 - mean[c]) / deviation[c], 5e-6);
  }
}

static const double none[] = {0, 0, 0}, one[] = {1, 1, 1};

static void test_cifar10_is_read_and_normalised_by_channel(void **state) {
  static const double mean[] = {.4914, .4822, .4465}, deviation[] = {.2470, .2435, .2616};
  write_cifar10(*state);
  for (int round = 0; round < 6; ++round) {
    ronde__data *data;
    bool normalize = round % 2;
    assert_int_equal(open_cifar("cifar10", *state, round >= 2, normalize, 0, &data), RONDE_OK);
    assert_string_equal(data->source.name, "cifar10");
    assert_int_equal(data->source.n_examples[0], 5 * N_BATCH);
    assert_int_equal(data->source.n_examples[1], 4);
    assert_int_equal(data->normalization.channels, normalize ? 3 : 0);
    for (int id = 0; id < 5 * N_BATCH; ++id)
      check_example(data, RONDE_SPLIT_TRAIN, id, id, 10, normalize ? mean : none, normalize ? deviation : one);
    check_example(data, RONDE_SPLIT_TEST, 3, 103, 10, normalize ? mean : none, normalize ? deviation : one);
    ronde__data_close(data);
  }
  assert_int_equal(lines.n_errors + lines.n_warnings, 0);
}

static void test_cifar100_gives_fine_labels(void **state) {
  static const double mean[] = {.5071, .4865, .4409}, deviation[] = {.2673, .2564, .2762};
  char *below = ronde__format("%s/cifar-100-binary", (char *)*state);
  mkdir(below, 0700);
  write_cifar100(below);
  ronde__data *data;
  assert_int_equal(open_cifar("cifar100", *state, true, true, 100, &data), RONDE_OK);
  assert_int_equal(data->source.classes, 100);
  for (int id = 0; id < 7; ++id) check_example(data, RONDE_SPLIT_TRAIN, id, id, 100, mean, deviation);
  check_example(data, RONDE_SPLIT_TEST, 1, 101, 100, mean, deviation);
  ronde__data_close(data);
  free(below);
}

/* In the folder of the published archive, found below RONDE_DATA, and without test examples. */
static void test_folders_are_found(void **state) {
  char *named = ronde__format("%s/cifar10", (char *)*state), *below = ronde__format("%s/cifar-10-batches-bin", named);
  mkdir(named, 0700);
  mkdir(below, 0700);
  write_cifar10(below);
  setenv("RONDE_DATA", *state, 1);
  ronde__data *data;
  const ronde__data_options options = {.spec = "cifar10", .cache = true};
  assert_int_equal(ronde__data_open(&options, &data), RONDE_OK);
  check_example(data, RONDE_SPLIT_TRAIN, 14, 14, 10, none, one);
  ronde__data_close(data);
  char *test = ronde__format("%s/test_batch.bin", below), *train = ronde__format("%s/data_batch_4.bin", below);
  unlink(test);
  assert_int_equal(ronde__data_open(&options, &data), RONDE_OK);
  assert_int_equal(data->source.n_examples[1], 0);
  ronde__data_close(data);
  assert_non_null(strstr(lines.warning, "no test_batch.bin in "));
  unlink(train);
  check_failed(&lines, ronde__data_open(&options, &data), RONDE_E_INPUT, "/data_batch_4.bin: not found", named);
  check_failed(&lines, try_set("cifar100", below, true, 0), RONDE_E_INPUT, "/train.bin: not found", below);
  unsetenv("RONDE_DATA");
  free(test);
  free(train);
  free(named);
  free(below);
}

static void test_wrong_lengths_and_labels_are_named(void **state) {
  const char *folder = *state;
  write_cifar10(folder);
  write_cifar100(folder);
  for (int cache = 0; cache < 2; ++cache) {
    test_bytes whole = records(1, 0, 2, 10);
    test_write(folder, "data_batch_2.bin", whole.data, whole.n - 1);
    check_failed(&lines, try_set("cifar10", folder, cache, 0), RONDE_E_INPUT,
                 "data_batch_2.bin: offset 3073: ", "6145 bytes are not a whole number of records of 3073");
    test_write(folder, "data_batch_2.bin", "", 0);
    check_failed(&lines, try_set("cifar10", folder, cache, 0), RONDE_E_INPUT, "data_batch_2.bin: ", "no examples");
    whole.data[3073] = 10;
    test_write(folder, "data_batch_2.bin", whole.data, whole.n);
    check_failed(&lines, try_set("cifar10", folder, cache, 0), RONDE_E_INPUT,
                 "data_batch_2.bin: offset 3073: ", "label 10 of record 1 is beyond the 10 classes");
    whole.data[3073] = 9;
    test_write(folder, "data_batch_2.bin", whole.data, whole.n);
    free(whole.data);
    assert_int_equal(try_set("cifar10", folder, cache, 0), RONDE_OK);
    check_failed(&lines, try_set("cifar10", folder, cache, 4), RONDE_E_INPUT, "cifar10: ", "beyond the 4 classes");
    test_write_bytes(folder, "data_batch_2.bin", test_gzip("", 0));
    check_failed(&lines, try_set("cifar10", folder, cache, 0), RONDE_E_INPUT, "data_batch_2.bin: ", "no examples");
    write_cifar10(folder);
    whole = records(2, 0, 1, 100);
    whole.data[1] = 100;
    test_write(folder, "test.bin", whole.data, whole.n);
    check_failed(&lines, try_set("cifar100", folder, cache, 0), RONDE_E_INPUT, "test.bin: offset 1: ", "label 100");
    test_write_bytes(folder, "test.bin", records(1, 0, 1, 10));
    check_failed(&lines, try_set("cifar100", folder, cache, 0), RONDE_E_INPUT,
                 "test.bin: offset 0: ", "records of 3074");
    free(whole.data);
    write_cifar100(folder);
  }
}

/* A changed batch is another cache. */
static void test_the_cache_follows_every_file(void **state) {
  ronde__data *data;
  write_cifar10(*state);
  assert_int_equal(try_set("cifar10", *state, true, 0), RONDE_OK);
  test_write_bytes(*state, "data_batch_5.bin", records(1, 50, 6, 10));
  assert_int_equal(open_cifar("cifar10", *state, true, false, 0, &data), RONDE_OK);
  assert_int_equal(data->source.n_examples[0], 4 * N_BATCH + 6);
  check_example(data, RONDE_SPLIT_TRAIN, 4 * N_BATCH + 5, 55, 10, none, one);
  ronde__data_close(data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_cifar10_is_read_and_normalised_by_channel, setup, teardown),
      cmocka_unit_test_setup_teardown(test_cifar100_gives_fine_labels, setup, teardown),
      cmocka_unit_test_setup_teardown(test_folders_are_found, setup, teardown),
      cmocka_unit_test_setup_teardown(test_wrong_lengths_and_labels_are_named, setup, teardown),
      cmocka_unit_test_setup_teardown(test_the_cache_follows_every_file, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

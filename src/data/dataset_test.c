/* Open data sets: values and hashes, the cache and its damages, npy sets, wrapped sources. */
#include "data/testing.h"

#include <openssl/sha.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "data/data.h"

static test_log lines;

enum { N = 25, N_TEST = 6, H = 4, W = 5, ELEMS = H * W, CLASSES = 7 };

/* A folder with an IDX set, and a cache of its own. */
static int setup(void **state) {
  char *folder = test_folder_create(), *cache = ronde__format("%s/deep/cache", folder);
  setenv("RONDE_CACHE_DIR", cache, 1);
  free(cache);
  test_log_start(&lines);
  test_write_idx_pair(folder, "train", N, H, W, CLASSES, false);
  test_write_idx_pair(folder, "t10k", N_TEST, H, W, CLASSES, true);
  *state = folder;
  return 0;
}

static int teardown(void **state) {
  test_folder_destroy(*state);
  ronde_log_set(NULL, NULL);
  return 0;
}

static ronde_status open_checked_set(const char *name, const char *folder, ronde__data_options options,
                                     ronde__data **data_out) {
  char *spec = ronde__format("%s:%s", name, folder);
  options.spec = spec;
  ronde_status status = ronde__data_open(&options, data_out);
  free(spec);
  return status;
}

static ronde_status try_set(const char *name, const char *folder, ronde__data_options options) {
  ronde__data *data;
  ronde_status status = open_checked_set(name, folder, options, &data);
  if (status == RONDE_OK) ronde__data_close(data);
  return status;
}

static void check_examples(ronde__data *data, double mean, double deviation) {
  assert_int_equal(data->source.n_examples[0], N);
  assert_int_equal(data->source.n_examples[1], N_TEST);
  assert_int_equal(data->source.classes, CLASSES);
  for (int split = 0; split < 2; ++split) {
    const int64_t last = data->source.n_examples[split] - 1, ids[] = {last, 0, 3, 3};
    float x[4 * ELEMS];
    int64_t labels[4];
    assert_int_equal(data->source.read(data->source.user, split, ids, 4, x, labels, NULL), RONDE_OK);
    for (int i = 0; i < 4; ++i) {
      assert_int_equal(labels[i], ids[i] % CLASSES);
      for (int p = 0; p < ELEMS; ++p)
        assert_float_equal(x[i * ELEMS + p], (test_pixel(ids[i], p) / 255.0 - mean) / deviation, 2e-6);
    }
  }
}

static void check_hash(const ronde__data *data) {
  uint8_t bytes[N * ELEMS + N * 8] = {0}, digest[32];
  char text[65];
  for (int i = 0; i < N; ++i) {
    for (int p = 0; p < ELEMS; ++p) bytes[i * ELEMS + p] = test_pixel(i, p);
    bytes[N * ELEMS + 8 * i] = (uint8_t)(i % CLASSES);
  }
  SHA256(bytes, sizeof bytes, digest);
  for (int i = 0; i < 32; ++i) snprintf(text + 2 * i, 3, "%02x", digest[i]);
  assert_string_equal(data->sha256, text);
}

static int count_files(const char *folder) {
  char *command = ronde__format("find '%s' -type f 2>/dev/null | wc -l", folder);
  FILE *pipe = popen(command, "r");
  int n = -1;
  assert_int_equal(fscanf(pipe, "%d", &n), 1);
  pclose(pipe);
  free(command);
  return n;
}

static void test_values_and_hash_with_and_without_cache(void **state) {
  for (int round = 0; round < 4; ++round) {
    ronde__data *data;
    bool normalize = round % 2; /* rounds 0 and 1: without a cache; 2 misses, 3 hits */
    assert_int_equal(count_files(getenv("RONDE_CACHE_DIR")), round == 3 ? 1 : 0);
    assert_int_equal(
        open_checked_set("mnist", *state, (ronde__data_options){.cache = round >= 2, .normalize = normalize}, &data),
        RONDE_OK);
    assert_int_equal(data->normalization.channels, normalize ? 1 : 0);
    assert_float_equal(data->normalization.mean[0], normalize ? .1307 : 0, 1e-7);
    assert_float_equal(data->normalization.deviation[0], normalize ? .3081 : 0, 1e-7);
    assert_string_equal(data->source.name, "mnist");
    check_examples(data, normalize ? .1307 : 0, normalize ? .3081 : 1);
    check_hash(data);
    ronde__data_close(data);
  }
  assert_int_equal(lines.n_errors + lines.n_warnings, 0);
}

static char *cache_file(void) {
  char *command = ronde__format("find '%s' -type f", getenv("RONDE_CACHE_DIR")), path[4096] = "";
  FILE *pipe = popen(command, "r");
  assert_non_null(fgets(path, sizeof path, pipe));
  pclose(pipe);
  free(command);
  path[strcspn(path, "\n")] = '\0';
  return ronde__strdup(path);
}

static void open_and_check(const char *folder) {
  ronde__data *data;
  assert_int_equal(open_checked_set("mnist", folder, (ronde__data_options){.cache = true}, &data), RONDE_OK);
  check_examples(data, 0, 1);
  check_hash(data);
  ronde__data_close(data);
}

static void flip_byte(const char *path, long at) {
  assert_int_equal(chmod(path, 0600), 0); /* a cache file is read-only */
  FILE *file = fopen(path, "r+b");
  assert_non_null(file);
  fseek(file, at, SEEK_SET);
  int byte = fgetc(file);
  fseek(file, at, SEEK_SET);
  fputc(byte ^ 0x40, file);
  fclose(file);
}

static void test_a_damaged_cache_is_decoded_again(void **state) {
  open_and_check(*state);
  char *path = cache_file();
  static const long places[] = {0, 9, 20, 33, 41, 50, 60, 150, 4096, 4096 + N * ELEMS - 1, 4096 + 512 + 3};
  for (size_t i = 0; i < RONDE__COUNT(places); ++i) {
    flip_byte(path, places[i]);
    lines.n_warnings = 0;
    open_and_check(*state);
    assert_int_equal(lines.n_warnings, 1);
    assert_non_null(strstr(lines.warning, "decoded again"));
    open_and_check(*state);
    assert_int_equal(lines.n_warnings, 1);
  }
  for (int bytes = 0; bytes < 5000; bytes += 1234) {
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(truncate(path, bytes), 0);
    open_and_check(*state);
  }
  assert_int_equal(count_files(getenv("RONDE_CACHE_DIR")), 1);
  assert_int_equal(lines.n_errors, 0);
  free(path);
}

static atomic_bool is_cut;

static void *read_on(void *user) {
  ronde__data *data = user;
  while (!atomic_load(&is_cut)) check_examples(data, 0, 1);
  check_examples(data, 0, 1);
  return NULL;
}

/* The pages of a truncated file vanish, and touching them would raise SIGBUS. Here there is only a warning, both for
 * the process that made the file and for one that found it. */
static void test_a_cache_that_is_cut_in_use_is_left(void **state) {
  struct stat st;
  for (int round = 0; round < 2; ++round) {
    ronde__data *data;
    pthread_t readers[2];
    int status;
    assert_int_equal(open_checked_set("mnist", *state, (ronde__data_options){.cache = true}, &data), RONDE_OK);
    char *path = cache_file();
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0400);
    lines.n_warnings = 0;
    atomic_store(&is_cut, false);
    pid_t child = fork();
    if (child == 0) _exit(chmod(path, 0600) || truncate(path, round ? 10 : 0));
    for (int i = 0; i < 2; ++i) assert_int_equal(pthread_create(&readers[i], NULL, read_on, data), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    atomic_store(&is_cut, true);
    for (int i = 0; i < 2; ++i) pthread_join(readers[i], NULL);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, round ? 10 : 0);
    check_examples(data, 0, 1);
    assert_int_equal(lines.n_errors, 0);
    assert_int_equal(lines.n_warnings, 1);
    assert_non_null(strstr(lines.warning, "mnist: its cache file was changed"));
    ronde__data_close(data);
    lines.n_warnings = 0;
    open_and_check(*state); /* made anew */
    assert_int_equal(lines.n_warnings, 1);
    free(path);
  }
}

static void test_other_files_get_another_cache(void **state) {
  open_and_check(*state);
  test_write_idx_pair(*state, "train", N + 1, H, W, CLASSES, false);
  ronde__data *data;
  assert_int_equal(open_checked_set("mnist", *state, (ronde__data_options){.cache = true}, &data), RONDE_OK);
  assert_int_equal(data->source.n_examples[0], N + 1);
  ronde__data_close(data);
  assert_int_equal(count_files(getenv("RONDE_CACHE_DIR")), 2);
}

static void test_a_folder_that_cannot_be_written_is_a_warning(void **state) {
  char *below_a_file = ronde__format("%s/train-images-idx3-ubyte/cache", (char *)*state);
  setenv("RONDE_CACHE_DIR", below_a_file, 1);
  open_and_check(*state);
  assert_int_equal(lines.n_warnings, 1);
  assert_non_null(strstr(lines.warning, below_a_file));
  assert_non_null(strstr(lines.warning, "cannot be written"));
  free(below_a_file);
}

static void test_the_folder_comes_from_the_environment(void **state) {
  char *xdg = ronde__format("%s/xdg", (char *)*state), *home = ronde__format("%s/home", (char *)*state);
  unsetenv("RONDE_CACHE_DIR");
  setenv("XDG_CACHE_HOME", xdg, 1);
  setenv("HOME", home, 1);
  open_and_check(*state);
  assert_int_equal(count_files(xdg), 1);
  unsetenv("XDG_CACHE_HOME");
  open_and_check(*state);
  char *below_home = ronde__format("%s/.cache/ronde", home);
  assert_int_equal(count_files(below_home), 1);
  unsetenv("HOME");
  open_and_check(*state);
  assert_non_null(strstr(lines.warning, "RONDE_CACHE_DIR"));
  free(below_home);
  free(xdg);
  free(home);
}

/* Drafts of killed processes are removed. A draft that another process is writing stays, and so do other files. */
static void test_drafts_of_killed_processes_go(void **state) {
  static const struct {
    const char *name;
    bool old, locked, stays;
  } files[] = {{"mnist-12.cache.a1B2c3", true, false, false}, {"mnist-12.cache.d1B2c3", true, true, true},
               {"mnist-12.cache.e1B2c3", false, false, true}, {"mnist-12.cache.e1B2c", true, false, true},
               {"mnist-12.cache", true, false, true},         {"notes-cache.a1B2c3", true, false, true},
               {".cache.a1B2c3", true, false, true}};
  const char *cache = getenv("RONDE_CACHE_DIR");
  const struct timespec long_ago[2] = {{1000000000, 0}, {1000000000, 0}};
  int n_stay = 0, locks[RONDE__COUNT(files)];
  open_and_check(*state);
  for (size_t i = 0; i < RONDE__COUNT(files); ++i) {
    test_write(cache, files[i].name, "x", 1);
    char *path = ronde__format("%s/%s", cache, files[i].name);
    locks[i] = open(path, O_RDONLY);
    if (files[i].locked) assert_int_equal(flock(locks[i], LOCK_EX), 0);
    if (files[i].old) assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
    free(path);
  }
  open_and_check(*state);
  for (size_t i = 0; i < RONDE__COUNT(files); ++i) {
    char *path = ronde__format("%s/%s", cache, files[i].name);
    if ((access(path, F_OK) == 0) != files[i].stays)
      fail_msg("%s is %s", files[i].name, files[i].stays ? "gone" : "there");
    n_stay += files[i].stays;
    close(locks[i]);
    free(path);
  }
  assert_int_equal(count_files(cache), 1 + n_stay);
  assert_int_equal(lines.n_errors + lines.n_warnings, 0);
}

/* Processes that decode at once, and again over files that are damaged meanwhile. */
static void test_processes_do_not_disturb_each_other(void **state) {
  for (int round = 0; round < 5; ++round) {
    pid_t children[4];
    for (int c = 0; c < 4; ++c) {
      children[c] = fork();
      assert_true(children[c] >= 0);
      if (children[c]) continue;
      for (int again = 0; again < 4; ++again) {
        ronde__data *data;
        if (open_checked_set("mnist", *state, (ronde__data_options){.cache = true}, &data)) _exit(1);
        float x[ELEMS];
        int64_t label, id = N - 1;
        if (data->source.read(data->source.user, RONDE_SPLIT_TRAIN, &id, 1, x, &label, NULL)) _exit(2);
        if (label != id % CLASSES || x[ELEMS - 1] != test_pixel(id, ELEMS - 1) * (1.f / 255)) _exit(3);
        ronde__data_close(data);
      }
      _exit(0);
    }
    for (int c = 0; c < 4; ++c) {
      int status;
      assert_int_equal(waitpid(children[c], &status, 0), children[c]);
      assert_int_equal(status, 0);
    }
    assert_int_equal(count_files(getenv("RONDE_CACHE_DIR")), 1);
    char *path = cache_file();
    flip_byte(path, 4096);
    free(path);
  }
}

static void test_bad_sets_leave_no_cache(void **state) {
  const char *folder = *state;
  const ronde__data_options cached = {.cache = true}, uncached = {.cache = false};
  uint8_t labels[N] = {0};
  const ronde__data_options *const options[] = {&cached, &uncached};
  for (int i = 0; i < 2; ++i) {
    test_write_bytes(folder, "train-labels-idx1-ubyte", test_idx(1, (uint32_t[]){N - 1}, labels, N - 1));
    check_failed(&lines, try_set("mnist", folder, *options[i]), RONDE_E_INPUT, "train-labels-idx1-ubyte: offset 4",
                 "24 labels, but ");
    labels[9] = 10;
    test_write_bytes(folder, "train-labels-idx1-ubyte", test_idx(1, (uint32_t[]){N}, labels, N));
    check_failed(&lines, try_set("mnist", folder, *options[i]), RONDE_E_INPUT,
                 "train-labels-idx1-ubyte: offset 17: ", "label 10 of example 9 is beyond the 10 classes");
    assert_int_equal(try_set("mnist", folder, (ronde__data_options){.cache = options[i]->cache, .classes = 47}),
                     RONDE_OK);
    labels[9] = 4;
    test_write_bytes(folder, "train-labels-idx1-ubyte", test_idx(1, (uint32_t[]){N}, labels, N));
    check_failed(&lines, try_set("mnist", folder, (ronde__data_options){.cache = options[i]->cache, .classes = 4}),
                 RONDE_E_INPUT, "offset 17: ", "label 4 of example 9 is beyond the 4 classes");
    test_write_idx_pair(folder, "t10k", N_TEST, H, W + 1, CLASSES, true);
    check_failed(&lines, try_set("mnist", folder, *options[i]), RONDE_E_INPUT, "t10k-images-idx3-ubyte.gz",
                 "test images of 4x6");
    test_write_idx_pair(folder, "t10k", N_TEST, H, W, CLASSES, true);
  }
}

#define DICT(descr, shape) "{'descr': " descr ", 'fortran_order': False, 'shape': " shape ", }"

static void write_npy_set(const char *folder, const char *x_dict, const void *x, size_t x_bytes, const char *y_dict,
                          const void *y, size_t y_bytes) {
  test_write_bytes(folder, "train_x.npy", test_npy(x_dict, x, x_bytes));
  test_write_bytes(folder, "train_y.npy", test_npy(y_dict, y, y_bytes));
}

static void test_npy_sets(void **state) {
  const char *folder = *state;
  float x[12], got[12];
  const uint8_t y[2] = {5, 0};
  for (int i = 0; i < 12; ++i) x[i] = (float)i * 1.7f - 3;
  write_npy_set(folder, DICT("'<f4'", "(2, 3, 1, 2)"), x, sizeof x, DICT("'|u1'", "(2,)"), y, 2);
  for (int cache = 0; cache < 3; ++cache) {
    ronde__data *data;
    int64_t labels[2], ids[2] = {0, 1};
    assert_int_equal(
        open_checked_set("npy", folder, (ronde__data_options){.cache = cache > 0, .normalize = true}, &data), RONDE_OK);
    assert_int_equal(data->normalization.channels, 0);
    assert_int_equal(data->source.classes, 6);
    assert_int_equal(data->source.n_examples[RONDE_SPLIT_TEST], 0);
    assert_int_equal(data->source.dims[0], 3);
    assert_int_equal(data->source.read(data->source.user, RONDE_SPLIT_TRAIN, ids, 2, got, labels, NULL), RONDE_OK);
    assert_memory_equal(got, x, sizeof x);
    assert_true(labels[0] == 5 && labels[1] == 0);
    ronde__data_close(data);
  }
}

/* With one value for all channels or one each; also for examples that are stored as f32, and for resized ones. */
static void test_a_normalisation_of_the_callers(void **state) {
  const char *folder = *state;
  static const ronde__normalization by[] = {
      {0}, {1, {.5f}, {.25f}}, {3, {.5f, 1, -2}, {.25f, 2, 4}}, {2, {.5f, .5f}, {1, 1}}};
  const uint8_t y[2] = {1, 0}, pixels[12] = {0, 255, 17, 3, 200, 100, 1, 2, 3, 254, 128, 64};
  float x[12], got[24];
  for (int i = 0; i < 12; ++i) x[i] = (float)i * 1.7f - 3;
  for (int round = 0; round < 16; ++round) {
    bool is_f32 = round & 1, cache = round & 2;
    const ronde__normalization *n = &by[round / 4];
    const char *dict = is_f32 ? DICT("'<f4'", "(2, 3, 1, 2)") : DICT("'|u1'", "(2, 3, 1, 2)");
    write_npy_set(folder, dict, is_f32 ? (const void *)x : pixels, is_f32 ? sizeof x : sizeof pixels,
                  DICT("'|u1'", "(2,)"), y, 2);
    for (int wide = 1; wide <= 2; ++wide) {
      ronde__data *data;
      ronde__data_options options = {.cache = cache, .normalization = n, .resize = {wide == 2, wide == 2 ? 4 : 0}};
      if (n->channels == 2) {
        check_failed(&lines, try_set("npy", folder, options), RONDE_E_USAGE, "given for 2 channels", "have 3");
        continue;
      }
      assert_int_equal(open_checked_set("npy", folder, options, &data), RONDE_OK);
      assert_int_equal(data->normalization.channels, n->channels);
      int64_t labels[2], ids[2] = {0, 1};
      assert_int_equal(data->source.read(data->source.user, RONDE_SPLIT_TRAIN, ids, 2, got, labels, NULL), RONDE_OK);
      for (int i = 0; i < 12; ++i) { /* the first of a row of four is the first of two */
        int c = n->channels == 3 ? i / 2 % 3 : 0;
        float value = is_f32 ? x[i] : (float)pixels[i] / 255;
        if (n->channels) value = (value - n->mean[c]) / n->deviation[c];
        if (wide == 1 || i % 2 == 0) assert_float_equal(got[i * wide], value, 1e-5);
      }
      ronde__data_close(data);
    }
  }
}

static void test_npy_sets_that_do_not_fit_are_named(void **state) {
  const char *folder = *state;
  static const uint8_t bytes[96];
  const ronde__data_options cached = {.cache = true};
  const char *x_good = DICT("'|u1'", "(2, 1, 2, 2)"), *y_good = DICT("'<i8'", "(2,)");
  static const struct {
    const char *x, *y;
    size_t x_bytes, y_bytes;
    const char *reason;
  } cases[] = {
      {DICT("'<f2'", "(2, 1, 2, 2)"), DICT("'<i8'", "(2,)"), 16, 16,
       "train_x.npy: offset 10: the images are of type float16"},
      {DICT("'|i1'", "(2, 1, 2, 2)"), DICT("'<i8'", "(2,)"), 8, 16,
       "train_x.npy: offset 10: the images are of type int8"},
      {DICT("'|u1'", "(8,)"), DICT("'<i8'", "(8,)"), 8, 64, "train_x.npy: offset 10: inputs of rank 1"},
      {DICT("'<f2'", "(2, 4)"), DICT("'<i8'", "(2,)"), 16, 16, "train_x.npy: offset 10: the table is of type float16"},
      {DICT("'|u1'", "(2, 2, 2)"), DICT("'<f2'", "(2,)"), 8, 4,
       "train_y.npy: offset 10: the targets are of type float16"},
      {DICT("'|u1'", "(2, 2, 2)"), DICT("'<f4'", "(2, 1, 1)"), 8, 8, "train_y.npy: offset 10: targets of rank 3"},
      {DICT("'|u1'", "(2, 2, 2)"), DICT("'<f4'", "(3, 1)"), 8, 12, "train_y.npy: offset 10: 3 rows of targets, but "},
      {DICT("'|u1'", "(2, 2, 2)"), DICT("'<i8'", "(2, 2)"), 8, 32, "train_y.npy: offset 10: 2 labels an example"},
      {DICT("'|u1'", "(2, 2, 2)"), DICT("'<i8'", "(2, 1, 1)"), 8, 16, "train_y.npy: offset 10: labels of rank 3"},
      {DICT("'|u1'", "(2, 2, 2)"), DICT("'<i8'", "(3,)"), 8, 24, "train_y.npy: offset 10: 3 labels, but "},
  };
  for (size_t i = 0; i < RONDE__COUNT(cases); ++i) {
    write_npy_set(folder, cases[i].x, bytes, cases[i].x_bytes, cases[i].y, bytes, cases[i].y_bytes);
    check_failed(&lines, try_set("npy", folder, cached), RONDE_E_INPUT, cases[i].reason, folder);
  }
  write_npy_set(folder, x_good, bytes, 8, y_good, bytes, 16);
  assert_int_equal(try_set("npy", folder, cached), RONDE_OK);
  test_write_bytes(folder, "test_x.npy", test_npy(DICT("'<f4'", "(2, 2, 2)"), bytes, 32));
  test_write_bytes(folder, "test_y.npy", test_npy(y_good, bytes, 16));
  check_failed(&lines, try_set("npy", folder, cached), RONDE_E_INPUT, "test_x.npy: offset 10: float32 images of 1x2x2",
               "uint8 of 1x2x2");
}

static void test_huge_synthetic_sets_are_refused(void **state) {
  static const char *const huge[] = {"4096x32768x32768:10:9000000000000000000", "4096x32768x32768:10:1000000"};
  for (int i = 0; i < 2; ++i)
    check_failed(&lines, try_set("synthetic", huge[i], (ronde__data_options){.cache = i}), RONDE_E_MEMORY, huge[i],
                 "do not fit in memory");
}

static ronde_status refuse_to_read(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x,
                                   int64_t *labels, float *targets) {
  return RONDE_E_INTERNAL;
}

static void test_wrapped_sources_are_checked(void **state) {
  const ronde_source good = {
      .name = "mine", .rank = 2, .dims = {3, 4}, .classes = 2, .n_examples = {5, 0}, .read = refuse_to_read};
  ronde__data *data;
  assert_int_equal(ronde__data_wrap(&good, &data), RONDE_OK);
  assert_string_equal(data->source.name, "mine");
  assert_string_equal(data->sha256, "");
  ronde__data_close(data);
  ronde_source bad[6] = {good, good, good, good, good, good};
  static const char *const reasons[6] = {"rank", "dims", "n_examples", "target_elems", "read function", "dims"};
  bad[0].rank = 7;
  bad[1].dims[1] = 0;
  bad[2].n_examples[0] = -1;
  bad[3].classes = 0;
  bad[4].read = NULL;
  bad[5].dims[0] = INT64_MAX;
  for (int i = 0; i < 6; ++i)
    check_failed(&lines, ronde__data_wrap(&bad[i], &data), RONDE_E_USAGE, "mine: ", reasons[i]);
}

/* Against figures taken from the published files by other means. */
static void test_fashion_mnist(void **state) {
  if (access("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz", F_OK)) {
    print_message("dataset-fashion-mnist is not installed\n");
    skip();
  }
  for (int cache = 0; cache < 2; ++cache) {
    ronde__data *data;
    const ronde__data_options options = {.spec = "fashion-mnist:/usr/share/datasets/fashion-mnist", .cache = cache};
    assert_int_equal(ronde__data_open(&options, &data), RONDE_OK);
    assert_string_equal(data->sha256, "1f243a60b4b748a44c48b9a6f6907be2a08bee3e4e226f0e86fbde8e147b745a");
    assert_int_equal(data->source.n_examples[0], 60000);
    assert_int_equal(data->source.n_examples[1], 10000);
    assert_int_equal(data->source.classes, 10);
    static const uint8_t pixels[] = {0x2d, 0x2d, 0x45, 0x80, 0x64, 0x78, 0x84, 0x7b, 0x87, 0xab};
    int64_t id = 9999, label;
    float x[784];
    assert_int_equal(data->source.read(data->source.user, RONDE_SPLIT_TEST, &id, 1, x, &label, NULL), RONDE_OK);
    assert_int_equal(label, 5);
    for (int i = 0; i < 10; ++i) assert_float_equal(x[400 + i], pixels[i] / 255.0, 1e-6);
    ronde__data_close(data);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_values_and_hash_with_and_without_cache, setup, teardown),
      cmocka_unit_test_setup_teardown(test_a_damaged_cache_is_decoded_again, setup, teardown),
      cmocka_unit_test_setup_teardown(test_a_cache_that_is_cut_in_use_is_left, setup, teardown),
      cmocka_unit_test_setup_teardown(test_other_files_get_another_cache, setup, teardown),
      cmocka_unit_test_setup_teardown(test_a_folder_that_cannot_be_written_is_a_warning, setup, teardown),
      cmocka_unit_test_setup_teardown(test_the_folder_comes_from_the_environment, setup, teardown),
      cmocka_unit_test_setup_teardown(test_drafts_of_killed_processes_go, setup, teardown),
      cmocka_unit_test_setup_teardown(test_processes_do_not_disturb_each_other, setup, teardown),
      cmocka_unit_test_setup_teardown(test_bad_sets_leave_no_cache, setup, teardown),
      cmocka_unit_test_setup_teardown(test_npy_sets, setup, teardown),
      cmocka_unit_test_setup_teardown(test_a_normalisation_of_the_callers, setup, teardown),
      cmocka_unit_test_setup_teardown(test_npy_sets_that_do_not_fit_are_named, setup, teardown),
      cmocka_unit_test_setup_teardown(test_huge_synthetic_sets_are_refused, setup, teardown),
      cmocka_unit_test_setup_teardown(test_wrapped_sources_are_checked, setup, teardown),
      cmocka_unit_test_setup_teardown(test_fashion_mnist, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Tokens: texts in windows, arrays of integers, labels of sequences, and how many of them count. */
#include "data/testing.h"

#include "data/data.h"

static test_log lines;

static ronde__data *open_set(const char *spec, int64_t window, bool cache) {
  ronde__data *data;
  ronde__data_options options = {.spec = spec, .window = window, .cache = cache, .normalize = true};
  assert_int_equal(ronde__data_open(&options, &data), RONDE_OK);
  return data;
}

/* Example `id` must be these characters, and what follows each; '~' stands for a label that is ignored. */
static void check_window(const ronde__data *data, ronde_split split, int64_t id, const char *x, const char *y) {
  int32_t tokens[64];
  int64_t labels[64], n = data->source.dims[0];
  assert_int_equal(strlen(y), n);
  assert_int_equal(ronde__data_read(data, split, &id, 1, (float *)(void *)tokens, labels, NULL), RONDE_OK);
  for (int64_t t = 0; t < n; ++t) {
    assert_int_equal(tokens[t], t < (int64_t)strlen(x) ? x[t] : 0);
    assert_int_equal(labels[t], y[t] == '~' ? RONDE_IGNORED : y[t]);
  }
}

static void check_text(const ronde__data *data) {
  const ronde_source *s = &data->source;
  assert_true(s->rank == 1 && s->dims[0] == 5 && s->vocabulary == 256 && s->classes == 256 && s->label_elems == 5);
  assert_int_equal(s->n_examples[RONDE_SPLIT_TRAIN], 4); /* 18 of 20 bytes */
  assert_int_equal(s->n_examples[RONDE_SPLIT_TEST], 1);
  check_window(data, RONDE_SPLIT_TRAIN, 0, "abcde", "bcdef");
  check_window(data, RONDE_SPLIT_TRAIN, 2, "klmno", "lmnop");
  check_window(data, RONDE_SPLIT_TRAIN, 3, "pq", "qr~~~");
  check_window(data, RONDE_SPLIT_TEST, 0, "s", "t~~~~");
  const int64_t first = 0, last = 3;
  assert_true(ronde__data_label_weight(data, RONDE_SPLIT_TRAIN, NULL, 4) == 4.f / 17);
  assert_true(ronde__data_label_weight(data, RONDE_SPLIT_TRAIN, &first, 1) == 1.f / 5);
  assert_true(ronde__data_label_weight(data, RONDE_SPLIT_TRAIN, &last, 1) == 1.f / 2);
  assert_true(ronde__data_label_weight(data, RONDE_SPLIT_TEST, NULL, 1) == 1);
}

static void test_a_text_is_cut_into_windows(void **state) {
  char *folder = test_folder_create(), *spec = ronde__format("text:%s/t.txt", folder);
  const char *text = "abcdefghijklmnopqrst";
  setenv("RONDE_CACHE_DIR", folder, 1);
  test_write(folder, "t.txt", text, 20);
  for (int cache = 0; cache < 3; ++cache) { /* not, made, found */
    ronde__data *data = open_set(spec, 5, cache > 0);
    check_text(data);
    ronde__data_close(data);
  }
  ronde__data *data = open_set(spec, 17, true); /* another window is another set */
  check_window(data, RONDE_SPLIT_TRAIN, 0, "abcdefghijklmnopq", "bcdefghijklmnopqr");
  assert_null(data->counted[RONDE_SPLIT_TRAIN]); /* all of them count */
  assert_true(ronde__data_label_weight(data, RONDE_SPLIT_TRAIN, NULL, 1) == 1.f / 17);
  ronde__data_close(data);
  test_bytes zipped = test_gzip(text, 20);
  test_write(folder, "t.txt", zipped.data, zipped.n);
  free(zipped.data);
  data = open_set(spec, 5, true);
  check_text(data);
  ronde__data_close(data);
  free(spec);
  test_folder_destroy(folder);
}

/* Windows that overlap tell each token once. */
static void test_windows_may_overlap(void **state) {
  char *folder = test_folder_create(), *spec = ronde__format("text:%s/t.txt", folder);
  ronde__data_options options = {.spec = spec, .window = 5, .stride = 2, .normalize = true};
  setenv("RONDE_CACHE_DIR", folder, 1);
  test_write(folder, "t.txt", "abcdefghijklmnopqrst", 20);
  for (int cache = 0; cache < 3; ++cache) { /* not, made, found */
    ronde__data *data;
    options.cache = cache > 0;
    assert_int_equal(ronde__data_open(&options, &data), RONDE_OK);
    assert_int_equal(data->source.n_examples[RONDE_SPLIT_TRAIN], 7);
    check_window(data, RONDE_SPLIT_TRAIN, 0, "abcde", "bcdef");
    check_window(data, RONDE_SPLIT_TRAIN, 1, "cdefg", "~~~gh");
    check_window(data, RONDE_SPLIT_TRAIN, 5, "klmno", "~~~op");
    check_window(data, RONDE_SPLIT_TRAIN, 6, "mnopq", "~~~qr");
    check_window(data, RONDE_SPLIT_TEST, 0, "s", "t~~~~");
    assert_true(ronde__data_label_weight(data, RONDE_SPLIT_TRAIN, NULL, 7) == 7.f / 17);
    ronde__data_close(data);
  }
  ronde__data *apart = open_set(spec, 5, true); /* another stride is another set */
  check_text(apart);
  ronde__data_close(apart);
  options.stride = 6;
  ronde__data *data;
  test_log_start(&lines);
  check_failed(&lines, ronde__data_open(&options, &data), RONDE_E_USAGE, "--stride 6", "windows of 5");
  free(spec);
  test_folder_destroy(folder);
}

static void check_refused(const char *spec, const char *a, const char *b) {
  ronde__data *data;
  ronde__data_options options = {.spec = spec, .window = 5, .cache = false, .normalize = true};
  test_log_start(&lines);
  check_failed(&lines, ronde__data_open(&options, &data), RONDE_E_INPUT, a, b);
}

static void test_a_text_needs_two_bytes(void **state) {
  char *folder = test_folder_create(), *spec = ronde__format("text:%s/t.txt", folder);
  test_write(folder, "t.txt", "a", 1);
  check_refused(spec, "t.txt: offset 1", "at least two bytes");
  test_write(folder, "t.txt", "ab", 2);
  ronde__data *data = open_set(spec, 5, false);
  assert_int_equal(data->source.n_examples[RONDE_SPLIT_TRAIN], 1);
  assert_int_equal(data->source.n_examples[RONDE_SPLIT_TEST], 0);
  check_window(data, RONDE_SPLIT_TRAIN, 0, "a", "b~~~~");
  ronde__data_close(data);
  free(spec);
  test_folder_destroy(folder);
}

static void write_npy(const char *folder, const char *name, const char *dict, const void *data, size_t bytes) {
  test_bytes file = test_npy(dict, data, bytes);
  test_write(folder, name, file.data, file.n);
  free(file.data);
}

#define I16_3x2 "{'descr': '<i2', 'fortran_order': False, 'shape': (3, 2), }"
#define I64_3x2 "{'descr': '<i8', 'fortran_order': False, 'shape': (3, 2), }"

static void test_arrays_of_integers_are_tokens(void **state) {
  char *folder = test_folder_create(), *spec = ronde__format("npy:%s", folder);
  int16_t x[] = {0, 300, 7, 2, 5, 5};
  int64_t y[] = {3, -100, 0, 8, -1, -1};
  setenv("RONDE_CACHE_DIR", folder, 1);
  write_npy(folder, "train_x.npy", I16_3x2, x, sizeof x);
  write_npy(folder, "train_y.npy", I64_3x2, y, sizeof y);
  for (int cache = 0; cache < 2; ++cache) {
    ronde__data *data = open_set(spec, 0, cache > 0);
    const ronde_source *s = &data->source;
    const int64_t ids[] = {2, 0};
    int32_t tokens[4];
    int64_t labels[4];
    assert_true(s->rank == 1 && s->dims[0] == 2 && s->vocabulary == 301 && s->classes == 9 && s->label_elems == 2);
    assert_int_equal(ronde__data_read(data, RONDE_SPLIT_TRAIN, ids, 2, (float *)(void *)tokens, labels, NULL),
                     RONDE_OK);
    assert_true(tokens[0] == 5 && tokens[1] == 5 && tokens[2] == 0 && tokens[3] == 300);
    assert_true(labels[0] == -1 && labels[1] == -1 && labels[2] == 3 && labels[3] == -1);
    assert_true(ronde__data_label_weight(data, RONDE_SPLIT_TRAIN, ids, 2) == 2);
    assert_true(ronde__data_label_weight(data, RONDE_SPLIT_TRAIN, ids, 1) ==
                1); /* nothing counts, and nothing is lost */
    ronde__data_close(data);
  }
  x[3] = -2;
  write_npy(folder, "train_x.npy", I16_3x2, x, sizeof x);
  check_refused(spec, "train_x.npy: offset 134", "token -2 of example 1 is not within 0..999999");
  x[3] = 2, y[1] = -3;
  write_npy(folder, "train_x.npy", I16_3x2, x, sizeof x);
  write_npy(folder, "train_y.npy", I64_3x2, y, sizeof y);
  check_refused(spec, "train_y.npy: offset 136", "label -3 of example 0");
  free(spec);
  test_folder_destroy(folder);
}

/* ---- a caller's ---- */

static ronde_status read_sequences(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x,
                                   int64_t *labels, float *targets) {
  int32_t *tokens = (int32_t *)(void *)x;
  for (int64_t i = 0; i < n; ++i)
    for (int t = 0; t < 3; ++t) {
      tokens[3 * i + t] = (int32_t)ids[i] + t;
      labels[3 * i + t] = t <= ids[i] ? t : RONDE_IGNORED;
    }
  return RONDE_OK;
}

static void test_a_callers_tokens_are_checked(void **state) {
  ronde_source source = {.name = "mine",
                         .rank = 1,
                         .dims = {3},
                         .classes = 3,
                         .label_elems = 3,
                         .vocabulary = 8,
                         .n_examples = {6, 0},
                         .read = read_sequences};
  ronde__data *data;
  assert_int_equal(ronde__data_wrap(&source, &data), RONDE_OK);
  assert_true(ronde__data_label_weight(data, RONDE_SPLIT_TRAIN, NULL, 6) == 6.f / (1 + 2 + 3 + 3 + 3 + 3));
  ronde__data_close(data);
  source.vocabulary = 7;
  test_log_start(&lines);
  check_failed(&lines, ronde__data_wrap(&source, &data), RONDE_E_INPUT, "mine: token 7 of example 5",
               "the 7 of the vocabulary");
  source.vocabulary = 8, source.classes = 2;
  test_log_start(&lines);
  check_failed(&lines, ronde__data_wrap(&source, &data), RONDE_E_INPUT, "mine: label 2 of example 2", "2 classes");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_text_is_cut_into_windows),   cmocka_unit_test(test_windows_may_overlap),
      cmocka_unit_test(test_a_text_needs_two_bytes),       cmocka_unit_test(test_arrays_of_integers_are_tokens),
      cmocka_unit_test(test_a_callers_tokens_are_checked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

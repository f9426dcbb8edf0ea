/* Pairs of texts: which lines are pairs, what an example of two inputs holds, and which lines are refused. */
#include "data/testing.h"

#include "data/data.h"
#include "lib/folder.h"

static char *spec;

static int make_data(void **state) {
  make_folder_with_cache(state);
  spec = ronde__format("pairs:%s/p.tsv", folder);
  return 0;
}

static int remove_data(void **state) {
  free(spec);
  return remove_folder(state);
}

static ronde_status open_pairs(int64_t window, bool cache, ronde__data **data_out) {
  ronde__data_options options = {.spec = spec, .window = window, .cache = cache, .normalize = true};
  test_log_start(&lines);
  return ronde__data_open(&options, data_out);
}

/* Of a row or of labels; '.' stands for padding, '>' for the token that begins a target, '<' for the end. */
static char shown(int64_t token) {
  return token == 0 || token == RONDE_IGNORED ? '.' : token == '\t' ? '>' : token == '\n' ? '<' : (char)token;
}

static void check_example(const ronde__data *data, ronde_split split, int64_t id, const char *row, const char *labels) {
  int32_t tokens[64];
  int64_t told[32];
  char text[65] = "", label_text[33] = "";
  int64_t w = data->source.dims[0];
  assert_int_equal(ronde__data_read(data, split, &id, 1, (float *)(void *)tokens, told, NULL), RONDE_OK);
  for (int64_t t = 0; t < 2 * w; ++t) text[t] = shown(tokens[t]);
  for (int64_t t = 0; t < w; ++t) {
    label_text[t] = shown(told[t]);
    assert_true(told[t] == RONDE_IGNORED || told[t] > 0);
  }
  assert_string_equal(text, row);
  assert_string_equal(label_text, labels);
}

/* Twelve pairs; the tenth is the test. One line is too long for the window, one is blank. */
static const char *const twelve =
    "ab\tcde\nf\tg\n\n1\t2\n3\t4\nabcdef\tx\nx\tabcdef\n5\t6\n7\t8\n9\t0\na\tb\nc\td\nte\tst\n"
    "abcde\tfghij\nlast\tone";

static void check_twelve(const ronde__data *data) {
  const ronde_source *s = &data->source;
  assert_true(s->rank == 1 && s->dims[0] == 6 && s->vocabulary == 256 && s->classes == 256 && s->label_elems == 6);
  assert_int_equal(s->n_more, 1);
  assert_string_equal(s->more[0].name, "decoder_input");
  assert_true(s->more[0].rank == 1 && s->more[0].dims[0] == 6 && s->more[0].vocabulary == 256);
  assert_int_equal(s->n_examples[RONDE_SPLIT_TRAIN], 11);
  assert_int_equal(s->n_examples[RONDE_SPLIT_TEST], 1);
  assert_int_equal(data->n_skipped, 2);
  check_example(data, RONDE_SPLIT_TRAIN, 0, "ab<...>cde..", "cde<..");
  check_example(data, RONDE_SPLIT_TRAIN, 9, "abcde<>fghij", "fghij<");
  check_example(data, RONDE_SPLIT_TRAIN, 10, "last<.>one..", "one<..");
  check_example(data, RONDE_SPLIT_TEST, 0, "te<...>st...", "st<...");
  const int64_t first = 0, tenth = 9;
  assert_true(ronde__data_label_weight(data, RONDE_SPLIT_TRAIN, &first, 1) == 1.f / 4);
  assert_true(ronde__data_label_weight(data, RONDE_SPLIT_TRAIN, &tenth, 1) == 1.f / 6);
}

static void test_pairs_are_examples(void **state) {
  test_write(folder, "p.tsv", twelve, strlen(twelve));
  for (int cache = 0; cache < 3; ++cache) { /* not, made, found */
    ronde__data *data;
    assert_int_equal(open_pairs(6, cache > 0, &data), RONDE_OK);
    assert_non_null(strstr(lines.warning, "2 pairs with a text of --window 6 or more bytes are left out"));
    check_twelve(data);
    ronde__data_close(data);
  }
  test_bytes zipped = test_gzip(twelve, strlen(twelve));
  test_write(folder, "p.tsv", zipped.data, zipped.n);
  free(zipped.data);
  ronde__data *data;
  assert_int_equal(open_pairs(6, true, &data), RONDE_OK);
  check_twelve(data);
  ronde__data_close(data);
}

/* Line ends of Windows, a mark at the beginning, letters of several bytes. */
static void test_what_editors_write(void **state) {
  static const char *const text = "\xEF\xBB\xBFho\t\xC3\xA4\r\nab\tcd\r\n";
  ronde__data *data;
  test_write(folder, "p.tsv", text, strlen(text));
  assert_int_equal(open_pairs(4, false, &data), RONDE_OK);
  assert_int_equal(data->source.n_examples[RONDE_SPLIT_TRAIN], 2);
  check_example(data, RONDE_SPLIT_TRAIN, 0, "ho<.>\xC3\xA4.", "\xC3\xA4<.");
  check_example(data, RONDE_SPLIT_TRAIN, 1, "ab<.>cd.", "cd<.");
  ronde__data_close(data);
}

static void test_lines_that_are_no_pairs(void **state) {
  static const struct {
    const char *text;
    size_t n;
    const char *words;
  } bad[] = {
      {"a\tb\nab\n", 7, "line 2: a source and a target are needed, with one TAB between them"},
      {"a\tb\tc\n", 6, "line 1: a source and a target are needed"},
      {"\n\n\tb\n", 5, "line 3: the source is empty"},
      {"a\t\r\n", 4, "line 1: the target is empty"},
      {"a\tb\n\xC3\tb\n", 8, "line 2: the source is no text in UTF-8"},
      {"a\tb\na\t\xFF", 7, "line 2: the target is no text in UTF-8"},
      {"a\tb\na\tb\0c\n", 10, "line 2: a byte is zero"},
      {"abcdef\tb\n", 9, "there is no pair of texts that are shorter than --window 6"},
      {"", 0, "there is no pair of texts"},
  };
  for (size_t i = 0; i < RONDE__COUNT(bad); ++i) {
    ronde__data *data;
    test_write(folder, "p.tsv", bad[i].text, bad[i].n);
    check_failed(&lines, open_pairs(6, false, &data), RONDE_E_INPUT, "p.tsv", bad[i].words);
  }
}

/* What follows the 64 KiB that are read at a time, and a line that is longer than these. */
static void test_long_files(void **state) {
  size_t n = 0;
  char *text = malloc(400000);
  for (int i = 0; i < 10000; ++i) n += (size_t)sprintf(text + n, "s%d\tt%d\n", i, i);
  memset(text + n, 'x', 100000);
  n += 100000;
  n += (size_t)sprintf(text + n, "\ty\nend\tEND\n");
  test_write(folder, "p.tsv", text, n);
  free(text);
  ronde__data *data;
  assert_int_equal(open_pairs(7, true, &data), RONDE_OK);
  assert_int_equal(data->source.n_examples[RONDE_SPLIT_TRAIN], 9001);
  assert_int_equal(data->source.n_examples[RONDE_SPLIT_TEST], 1000);
  assert_int_equal(data->n_skipped, 1);
  check_example(data, RONDE_SPLIT_TRAIN, 8999, "s9998<.>t9998.", "t9998<.");
  check_example(data, RONDE_SPLIT_TEST, 999, "s9999<.>t9999.", "t9999<.");
  check_example(data, RONDE_SPLIT_TRAIN, 9000, "end<...>END...", "END<...");
  ronde__data_close(data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pairs_are_examples),
      cmocka_unit_test(test_what_editors_write),
      cmocka_unit_test(test_lines_that_are_no_pairs),
      cmocka_unit_test(test_long_files),
  };
  return cmocka_run_group_tests(tests, make_data, remove_data);
}

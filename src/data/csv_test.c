/* Comma-separated text: records and their quoting, what columns are, rows by name, and what is refused, by line and
 * column. */
#include "data/testing.h"

#include "data/columns.h"
#include "data/data.h"

static test_log lines;

/* ---- records ---- */

static ronde__stream *stream_of(const char *text, size_t bytes) {
  ronde__stream *stream;
  assert_int_equal(ronde__stream_open_memory("t.csv", text, bytes, &stream), RONDE_OK);
  return stream;
}

/* Fields within < >, a record a line; or the error. */
static ronde_status read_all(const char *text, size_t bytes, char *told, size_t room) {
  ronde__stream *stream = stream_of(text, bytes);
  ronde__csv *csv;
  const ronde__csv_field *field;
  int64_t n = 0;
  told[0] = '\0';
  assert_int_equal(ronde__csv_open(stream, &csv), RONDE_OK);
  ronde_status status = ronde__csv_next(csv, &field, &n);
  while (status == RONDE_OK && n > 0) {
    for (int64_t i = 0; i < n; ++i) {
      size_t used = strlen(told);
      assert_int_equal(strlen(field[i].text), field[i].n);
      snprintf(told + used, room - used, "<%s>%s", field[i].text, i + 1 < n ? "" : "\n");
    }
    status = ronde__csv_next(csv, &field, &n);
  }
  ronde__csv_close(csv);
  ronde__stream_close(stream);
  return status;
}

static void check_records(const char *text, const char *wanted) {
  char told[512];
  if (read_all(text, strlen(text), told, sizeof told) != RONDE_OK) fail_msg("refused: %s", text);
  assert_string_equal(told, wanted);
}

static void test_records_are_read(void **state) {
  check_records("a,b\n1,2\n", "<a><b>\n<1><2>\n");
  check_records("a,b\r\n1,2\r\n", "<a><b>\n<1><2>\n");
  check_records("a,b\r1,2", "<a><b>\n<1><2>\n"); /* the last line without an end */
  check_records(
      "\xef\xbb\xbf"
      "a,b\n,\n",
      "<a><b>\n<><>\n");
  check_records("\"a,1\",\"say \"\"no\"\"\"\n\"two\r\nlines\",x\n", "<a,1><say \"no\">\n<two\r\nlines><x>\n");
  check_records(" a , \" b \" ,c d \n", "<a>< b ><c d>\n"); /* blanks count only in quotes */
  check_records("a\n\"\"\n", "<a>\n<>\n");
  check_records("a,b\n1,2\n\n\r\n", "<a><b>\n<1><2>\n");
  check_records("", "");
}

/* Text around the ends of the chunks in which files are read. */
static void test_long_files_are_read(void **state) {
  enum { N = 70000 };
  char *text = malloc(N * 16);
  size_t used = 0;
  for (int i = 0; i < N; ++i) used += (size_t)sprintf(text + used, "%d,\"x\"\"\"\r\n", i);
  ronde__stream *stream = stream_of(text, used);
  ronde__csv *csv;
  const ronde__csv_field *field;
  int64_t n;
  assert_int_equal(ronde__csv_open(stream, &csv), RONDE_OK);
  for (int i = 0; i < N; ++i) {
    assert_int_equal(ronde__csv_next(csv, &field, &n), RONDE_OK);
    assert_int_equal(n, 2);
    assert_int_equal(atoi(field[0].text), i);
    assert_string_equal(field[1].text, "x\"");
    assert_int_equal(field[1].line, i + 1);
  }
  assert_int_equal(ronde__csv_next(csv, &field, &n), RONDE_OK);
  assert_int_equal(n, 0);
  ronde__csv_close(csv);
  ronde__stream_close(stream);
  free(text);
}

static void test_damaged_records_are_named(void **state) {
  static const struct {
    const char *text, *place, *reason;
  } cases[] = {{"a,b\n1,\"2\n3,4\n", "t.csv: line 2, column 2", "never closed"},
               {"a,b\n1,5\" disk\n", "t.csv: line 2, column 2", "a quote within"},
               {"a,b\n\"1\"x,2\n", "t.csv: line 2, column 1", "follows the closing quote"},
               {"a,b\n\n1,2\n", "t.csv: line 2", "empty"},
               {"a,b\n\"x\ny\",2\n1,\"2\n", "t.csv: line 4, column 2", "never closed"}};
  char told[512];
  test_log_start(&lines);
  for (size_t i = 0; i < RONDE__COUNT(cases); ++i)
    check_failed(&lines, read_all(cases[i].text, strlen(cases[i].text), told, sizeof told), RONDE_E_INPUT,
                 cases[i].place, cases[i].reason);
  check_failed(&lines, read_all("a\n1\0\n", 5, told, sizeof told), RONDE_E_INPUT, "line 2, column 1", "zero byte");
  size_t n = 3 << 20;
  char *open = malloc(n);
  memset(open, 'x', n);
  open[0] = '"';
  check_failed(&lines, read_all(open, n, told, sizeof told), RONDE_E_INPUT, "line 1, column 1", "a quote not closed");
  memset(open, ',', n);
  check_failed(&lines, read_all(open, n, told, sizeof told), RONDE_E_INPUT, "line 1", "more than 65536 columns");
  free(open);
}

/* ---- columns ---- */

static ronde_status infer(const char *text, const ronde__columns_options *options, ronde__columns **columns_out) {
  ronde__columns *columns;
  int64_t n;
  RONDE_TRY(ronde__columns_create(options, &columns));
  ronde__stream *stream = stream_of(text, strlen(text));
  ronde_status status = ronde__columns_infer(columns, stream, &n);
  ronde__stream_close(stream);
  if (status == RONDE_OK) *columns_out = columns;
  else ronde__columns_destroy(columns);
  return status;
}

static void check_columns(const char *text, const ronde__columns_options *options, const char *wanted) {
  ronde__columns *columns;
  if (infer(text, options, &columns) != RONDE_OK) fail_msg("refused: %s", lines.error);
  char *told = ronde__columns_text(columns, true);
  assert_string_equal(told, wanted);
  ronde__columns *again; /* what is kept says the same */
  assert_int_equal(ronde__columns_create(&(ronde__columns_options){.known = told, .source = "w"}, &again), RONDE_OK);
  char *copy = ronde__columns_text(again, true);
  assert_string_equal(copy, told);
  assert_int_equal(again->width, columns->width);
  ronde__columns_destroy(again);
  ronde__columns_destroy(columns);
  free(copy);
  free(told);
}

static void test_columns_are_found_out(void **state) {
  test_log_start(&lines);
  check_columns("x,c,y\n1,red,0.5\n-2e3,blue,1\n.5,red,2\n", &(ronde__columns_options){.target = "y"},
                "{\"inputs\":[{\"name\":\"x\"},{\"name\":\"c\",\"categories\":[\"blue\",\"red\"]}],\"targets\":[\"y\"],"
                "\"classes\":false,\"class_names\":[]}");
  check_columns("y,x\n10,1\n9,1\n9,2\n", &(ronde__columns_options){.target = "y"},
                "{\"inputs\":[{\"name\":\"x\"}],\"targets\":[\"y\"],\"classes\":true,\"class_names\":[\"9\",\"10\"]}");
  check_columns("y,x\n10,1\n9,1\n", &(ronde__columns_options){.target = "y", .are_values = true},
                "{\"inputs\":[{\"name\":\"x\"}],\"targets\":[\"y\"],\"classes\":false,\"class_names\":[]}");
  check_columns("x,\"y,1\",id\n1,b,7\n2,a,8\n", &(ronde__columns_options){.target = "y,1", .ignored = "id"},
                "{\"inputs\":[{\"name\":\"x\"}],\"targets\":[\"y,1\"],\"classes\":true,\"class_names\":[\"a\",\"b\"]}");
  check_columns("a,b,x\n1,2,3\n", &(ronde__columns_options){.target = "b,a"},
                "{\"inputs\":[{\"name\":\"x\"}],\"targets\":[\"b\",\"a\"],\"classes\":false,\"class_names\":[]}");
  assert_int_equal(lines.n_warnings + lines.n_errors, 0);
  /* Numbers and texts in one column: said. */
  check_columns(
      "x,y\n1,0\ncrew,1\n2,0\n", &(ronde__columns_options){.target = "y"},
      "{\"inputs\":[{\"name\":\"x\",\"categories\":[\"1\",\"2\",\"crew\"]}],\"targets\":[\"y\"],\"classes\":true,"
      "\"class_names\":[\"0\",\"1\"]}");
  assert_non_null(strstr(lines.warning, "t.csv: column 1 (x) holds numbers and texts"));
  assert_non_null(strstr(lines.warning, "line 3 has 'crew'"));
}

static void check_refused(const char *text, const ronde__columns_options *options, ronde_status status, const char *a,
                          const char *b) {
  ronde__columns *columns;
  test_log_start(&lines);
  check_failed(&lines, infer(text, options, &columns), status, a, b);
}

static void test_what_cannot_be_read_is_named(void **state) {
  const ronde__columns_options y = {.target = "y"}, values = {.target = "y", .are_values = true};
  check_refused("x,y\n1,2\n,3\n", &y, RONDE_E_INPUT, "t.csv: line 3, column 1 (x)", "missing");
  check_refused("x,y\n1,2\n3,NA\n", &y, RONDE_E_INPUT, "t.csv: line 3, column 2 (y)", "missing: NA");
  check_refused("x,y\n1,2\nnan,3\n", &y, RONDE_E_INPUT, "t.csv: line 3, column 1 (x)", "missing: nan");
  check_refused("x,y\n1,2\n-inf,3\n", &y, RONDE_E_INPUT, "t.csv: line 3, column 1 (x)", "float32");
  check_refused("x,y\n1,2\n1e39,3\n", &y, RONDE_E_INPUT, "t.csv: line 3, column 1 (x)", "float32");
  check_refused("x,y\n1,2\n3,4,5\n", &y, RONDE_E_INPUT, "t.csv: line 3", "3 columns, but the first line has 2");
  check_refused("x,x,y\n1,2,3\n", &y, RONDE_E_INPUT, "columns 1 and 2", "both called x");
  check_refused(",y\n1,2\n", &y, RONDE_E_INPUT, "line 1, column 1", "no name");
  check_refused("x;y\n1;2\n", &y, RONDE_E_INPUT, "t.csv: line 1", "semicolons");
  check_refused("x\xff,y\n1,2\n", &y, RONDE_E_INPUT, "line 1, column 1", "UTF-8");
  check_refused("x,y\nr\xff,2\n", &y, RONDE_E_INPUT, "line 2, column 1", "UTF-8");
  check_refused("x,y\n", &y, RONDE_E_INPUT, "t.csv", "no rows");
  check_refused("", &y, RONDE_E_INPUT, "t.csv", "empty");
  check_refused("y\n1\n", &y, RONDE_E_INPUT, "t.csv", "no column is left");
  check_refused("x,y\n1,2\n3,high\n", &values, RONDE_E_INPUT, "t.csv: line 3, column 2 (y): 'high'", "--loss");
  check_refused("x,why\n1,2\n", &(ronde__columns_options){.target = "quantity"}, RONDE_E_USAGE, "--target quantity",
                "it has x, why");
  check_refused("x,price\n1,2\n", &(ronde__columns_options){.target = "prize"}, RONDE_E_USAGE, "--target prize",
                "nearest is price");
  check_refused("x,y\n1,2\n", &(ronde__columns_options){0}, RONDE_E_USAGE, "Give --target", "there are x, y");
  check_refused("x,y\n1,2\n", &(ronde__columns_options){.target = "y", .ignored = "z"}, RONDE_E_USAGE,
                "--ignore-columns z", "no column");
  check_refused("x,y\n1,2\n", &(ronde__columns_options){.target = "y", .ignored = "y"}, RONDE_E_USAGE, "--target y",
                "another use");
}

static char *many_values(int n, const char *last) {
  char *text = malloc((size_t)n * 16 + 64);
  size_t used = (size_t)sprintf(text, "x,y\n");
  for (int i = 0; i < n; ++i) used += (size_t)sprintf(text + used, "%s%d,%d\n", last ? "v" : "", i, i);
  if (last) sprintf(text + used, "%s,1\n", last);
  return text;
}

static void test_categories_have_a_limit(void **state) {
  const ronde__columns_options values = {.target = "y", .are_values = true};
  ronde__columns *columns;
  char *most = many_values(RONDE__CATEGORIES_MAX - 1, "last"), *more = many_values(RONDE__CATEGORIES_MAX, "last");
  assert_int_equal(infer(most, &values, &columns), RONDE_OK);
  assert_int_equal(columns->width, RONDE__CATEGORIES_MAX);
  ronde__columns_destroy(columns);
  check_refused(more, &values, RONDE_E_INPUT, "t.csv: line 2, column 1 (x): 'v0'", "more than 256 different values");
  free(most);
  free(more);
  more = many_values(RONDE__CSV_CLASSES_MAX + 1, NULL);
  check_refused(more, &(ronde__columns_options){.target = "y"}, RONDE_E_INPUT, "column 2 (y)", "--loss mse");
  free(more);
}

/* ---- rows of another file ---- */

#define KNOWN                                                                                                          \
  "{\"inputs\":[{\"name\":\"x\"},{\"name\":\"c\",\"categories\":[\"blue\",\"red\"]}],\"targets\":[\"y\"],\"classes\":" \
  "false}"

static ronde_status read_rows(const char *text, bool with_target, const char *target, float x[3], float *y) {
  ronde__columns *columns;
  ronde__rows *rows = NULL;
  bool any;
  const ronde__columns_options options = {.known = KNOWN, .source = "w", .target = target, .renames = true};
  assert_int_equal(ronde__columns_create(&options, &columns), RONDE_OK);
  ronde__stream *stream = stream_of(text, strlen(text));
  ronde_status status = ronde__rows_open(columns, stream, with_target, true, &rows);
  if (status == RONDE_OK) status = ronde__rows_next(rows, x, NULL, with_target ? y : NULL, &any);
  ronde__rows_close(rows);
  ronde__stream_close(stream);
  ronde__columns_destroy(columns);
  return status;
}

static void test_columns_are_found_by_name(void **state) {
  float x[3] = {9, 9, 9}, y = 0;
  test_log_start(&lines);
  assert_int_equal(read_rows("c,id,y,x\nred,k,3,1.5\n", true, NULL, x, &y), RONDE_OK);
  assert_true(x[0] == 1.5f && x[1] == 0 && x[2] == 1 && y == 3);
  assert_int_equal(read_rows("c,cost,x\nblue,4,2\n", true, "cost", x, &y), RONDE_OK);
  assert_true(x[0] == 2 && x[1] == 1 && x[2] == 0 && y == 4);
  assert_int_equal(read_rows("x,c\n3,red\n", false, NULL, x, &y), RONDE_OK);     /* without the target */
  assert_int_equal(read_rows("y,x,c\n?,3,red\n", false, NULL, x, &y), RONDE_OK); /* which nobody looks at */
  check_failed(&lines, read_rows("c,x\nred,1\n", true, NULL, x, &y), RONDE_E_INPUT, "line 1", "no column y");
  check_failed(&lines, read_rows("c,y\nred,1\n", true, NULL, x, &y), RONDE_E_INPUT, "line 1", "no column x, which w");
  check_failed(&lines, read_rows("c,y,x\nred,1,2\n", true, "x", x, &y), RONDE_E_USAGE, "x is an input", "w");
  check_failed(&lines, read_rows("x,c\n3,green\n", false, NULL, x, &y), RONDE_E_INPUT,
               "t.csv: line 2, column 2 (c): 'green'", "blue, red");
  check_failed(&lines, read_rows("x,c\nred,red\n", false, NULL, x, &y), RONDE_E_INPUT, "line 2, column 1 (x)",
               "not a number");
  check_failed(&lines, read_rows("x,c\n3,\n", false, NULL, x, &y), RONDE_E_INPUT, "line 2, column 2 (c)", "missing");
}

static void test_what_is_kept_must_make_sense(void **state) {
  static const char *const bad[] = {
      "",
      "[]",
      "{}",
      "{\"inputs\":[],\"targets\":[\"y\"],\"classes\":false}",
      "{\"inputs\":[{\"name\":\"\"}],\"targets\":[\"y\"],\"classes\":false}",
      "{\"inputs\":[{\"name\":\"x\"},{\"name\":\"x\"}],\"targets\":[\"y\"],\"classes\":false}",
      "{\"inputs\":[{\"name\":\"x\",\"categories\":[]}],\"targets\":[\"y\"],\"classes\":false}",
      "{\"inputs\":[{\"name\":\"x\",\"categories\":[\"b\",\"a\"]}],\"targets\":[\"y\"],\"classes\":false}",
      "{\"inputs\":[{\"name\":\"x\"}],\"targets\":[],\"classes\":false}",
      "{\"inputs\":[{\"name\":\"x\"}],\"targets\":[\"y\",\"z\"],\"classes\":true}",
      "{\"inputs\":[{\"name\":\"x\"}],\"targets\":[\"y\"]}"};
  ronde__columns *columns;
  test_log_start(&lines);
  for (size_t i = 0; i < RONDE__COUNT(bad); ++i)
    check_failed(&lines, ronde__columns_create(&(ronde__columns_options){.known = bad[i], .source = "w"}, &columns),
                 RONDE_E_INPUT, "w: ", "invalid");
}

/* ---- sets ---- */

static int make_folder(void **state) {
  *state = test_folder_create();
  char *cache = ronde__format("%s/cache", (char *)*state);
  setenv("RONDE_CACHE_DIR", cache, 1);
  free(cache);
  test_log_start(&lines);
  return 0;
}

static int remove_folder(void **state) {
  test_folder_destroy(*state);
  return 0;
}

static ronde_status open_csv(const char *folder, const char *file, bool cached, const char *target,
                             ronde__data **data_out) {
  char *spec = ronde__format("csv:%s%s", folder, file);
  ronde__columns_options columns = {.target = target};
  ronde_status status =
      ronde__data_open(&(ronde__data_options){.spec = spec, .cache = cached, .columns = &columns}, data_out);
  free(spec);
  return status;
}

/* Missing from the cache, found there, and without one. */
static void test_sets_are_read(void **state) {
  static const char train[] = "kind,x,c\nb,1,u\na,2,v\nb,3,u\n", test[] = "c,x,kind\nv,4,a\n";
  test_write(*state, "train.csv", train, sizeof train - 1);
  test_bytes packed = test_gzip(test, sizeof test - 1);
  test_write_bytes(*state, "test.csv.gz", packed);
  for (int round = 0; round < 3; ++round) {
    ronde__data *data;
    float x[3 * 3];
    int64_t labels[3], ids[] = {0, 1, 2};
    assert_int_equal(open_csv(*state, "", round < 2, "kind", &data), RONDE_OK);
    assert_int_equal(data->source.rank, 1);
    assert_int_equal(data->source.dims[0], 3);
    assert_int_equal(data->source.n_examples[0], 3);
    assert_int_equal(data->source.n_examples[1], 1);
    assert_int_equal(data->source.classes, 2);
    assert_string_equal(ronde__data_class_name(data, 1), "b");
    assert_int_equal(ronde__data_read(data, RONDE_SPLIT_TRAIN, ids, 3, x, labels, NULL), RONDE_OK);
    assert_true(labels[0] == 1 && labels[1] == 0 && labels[2] == 1);
    assert_true(x[3] == 2 && x[4] == 0 && x[5] == 1);
    assert_int_equal(ronde__data_read(data, RONDE_SPLIT_TEST, ids, 1, x, labels, NULL), RONDE_OK);
    assert_true(labels[0] == 0 && x[0] == 4 && x[2] == 1);
    char *text = ronde__data_columns(data);
    assert_non_null(strstr(text, "\"categories\":[\"u\",\"v\"]"));
    free(text);
    ronde__data_close(data);
  }
}

/* Another target of the same file is another set, though the file is in the cache. */
static void test_the_cache_knows_the_target(void **state) {
  static const char text[] = "x,y,z\n1,2.5,3.5\n4,5.5,6.5\n";
  test_write(*state, "t.csv", text, sizeof text - 1);
  for (int round = 0; round < 4; ++round) {
    ronde__data *data;
    float x[2], y;
    int64_t id = 1;
    assert_int_equal(open_csv(*state, "/t.csv", true, round % 2 ? "y" : "z", &data), RONDE_OK);
    assert_int_equal(ronde__data_read(data, RONDE_SPLIT_TRAIN, &id, 1, x, NULL, &y), RONDE_OK);
    assert_true(x[0] == 4 && x[1] == (round % 2 ? 6.5f : 5.5f) && y == (round % 2 ? 5.5f : 6.5f));
    ronde__data_close(data);
  }
}

static void test_bad_sets_are_named(void **state) {
  ronde__data *data;
  check_failed(&lines, open_csv(*state, "/none.csv", true, "y", &data), RONDE_E_INPUT, "none.csv", "No such file");
  check_failed(&lines, open_csv(*state, "", true, "y", &data), RONDE_E_INPUT, "/train.csv: not found", "");
  static const char train[] = "x,y\n1,a\n2,b\n", test[] = "x,y\n1,a\n2,c\n";
  test_write(*state, "train.csv", train, sizeof train - 1);
  test_write(*state, "test.csv", test, sizeof test - 1);
  check_failed(&lines, open_csv(*state, "", true, "y", &data), RONDE_E_INPUT, "test.csv: line 3, column 2 (y): 'c'",
               "a, b");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_records_are_read),
      cmocka_unit_test(test_long_files_are_read),
      cmocka_unit_test(test_damaged_records_are_named),
      cmocka_unit_test(test_columns_are_found_out),
      cmocka_unit_test(test_what_cannot_be_read_is_named),
      cmocka_unit_test(test_categories_have_a_limit),
      cmocka_unit_test(test_columns_are_found_by_name),
      cmocka_unit_test(test_what_is_kept_must_make_sense),
      cmocka_unit_test_setup_teardown(test_sets_are_read, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(test_the_cache_knows_the_target, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(test_bad_sets_are_named, make_folder, remove_folder),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Streams: the same bytes from memory, files and gzip; damaged and oversized input. */
#include "data/testing.h"

#include <sys/stat.h>

#include "data/stream.h"

static test_log lines;

#define N_TEXT 200000

static test_bytes make_text(void) {
  test_bytes text = {malloc(N_TEXT), N_TEXT};
  for (int i = 0; i < N_TEXT; ++i) text.data[i] = (uint8_t)((int64_t)i * i >> 3);
  return text;
}

/* Reads all in uneven pieces, then checks the end. */
static ronde_status read_whole(ronde__stream *stream, uint8_t *to, int64_t n) {
  for (int64_t at = 0, piece = 1; at < n; at += piece, piece = ronde__min(piece * 3 + 1, 9999)) {
    piece = ronde__min(piece, n - at);
    assert_int_equal(ronde__stream_offset(stream), at);
    RONDE_TRY(ronde__stream_read(stream, to + at, piece));
  }
  return ronde__stream_end(stream);
}

static ronde_status read_memory(const void *data, size_t bytes, int64_t n) {
  ronde__stream *stream;
  uint8_t *to = malloc((size_t)n + 1);
  ronde_status status = ronde__stream_open_memory("file", data, bytes, &stream);
  if (status == RONDE_OK) {
    status = read_whole(stream, to, n);
    ronde__stream_close(stream);
  }
  free(to);
  return status;
}

static void check_holds(ronde__stream *stream, test_bytes text) {
  uint8_t *to = calloc(1, text.n + 1);
  for (int again = 0; again < 2; ++again) {
    int64_t measured;
    assert_int_equal(ronde__stream_measure(stream, INT64_MAX, &measured), RONDE_OK);
    assert_int_equal(measured, text.n);
    assert_int_equal(read_whole(stream, to, (int64_t)text.n), RONDE_OK);
    assert_memory_equal(to, text.data, text.n);
    memset(to, 0, text.n);
  }
  ronde__stream_close(stream);
  free(to);
}

static void test_same_bytes_from_memory_file_and_gzip(void **state) {
  char *folder = test_folder_create();
  test_bytes text = make_text(), packed = test_gzip(text.data, text.n);
  test_bytes two = test_bytes_join(test_gzip(text.data, 1000), test_gzip(text.data + 1000, text.n - 1000));
  test_write(folder, "plain", text.data, text.n);
  test_write(folder, "packed", packed.data, packed.n);
  ronde__stream *stream;
  const char *names[] = {"plain", "packed"};
  for (int i = 0; i < 2; ++i) {
    char *path = ronde__format("%s/%s", folder, names[i]);
    assert_int_equal(ronde__stream_open(path, &stream), RONDE_OK);
    assert_string_equal(ronde__stream_name(stream), path);
    check_holds(stream, text);
    free(path);
  }
  const test_bytes forms[] = {text, packed, two};
  for (int i = 0; i < 3; ++i) {
    assert_int_equal(ronde__stream_open_memory("memory", forms[i].data, forms[i].n, &stream), RONDE_OK);
    check_holds(stream, text);
  }
  for (int i = 0; i < 3; ++i) free(forms[i].data);
  test_folder_destroy(folder);
}

static void test_wrong_lengths_are_named(void **state) {
  test_log_start(&lines);
  check_failed(&lines, read_memory("abc", 3, 4), RONDE_E_INPUT, "file: offset 3", "1 more bytes are needed");
  check_failed(&lines, read_memory("abc", 3, 2), RONDE_E_INPUT, "file: offset 2", "longer than its header says");
  check_failed(&lines, read_memory("", 0, 1), RONDE_E_INPUT, "file: offset 0", "ends here");
  assert_int_equal(read_memory("", 0, 0), RONDE_OK);
}

static void test_damaged_gzip_is_named(void **state) {
  test_log_start(&lines);
  test_bytes text = make_text(), packed = test_gzip(text.data, text.n);
  const char *compressed = "of the compressed data";
  for (size_t keep = 2; keep < packed.n; keep += 1 + packed.n / 40)
    check_failed(&lines, read_memory(packed.data, keep, N_TEXT), RONDE_E_INPUT, "ends within", compressed);
  check_failed(&lines, read_memory(packed.data, packed.n - 1, N_TEXT), RONDE_E_INPUT, "ends within", compressed);
  packed.data[packed.n - 8] ^= 1; /* of the CRC */
  check_failed(&lines, read_memory(packed.data, packed.n, N_TEXT), RONDE_E_INPUT, "incorrect data check", compressed);
  packed.data[packed.n - 8] ^= 1;
  packed.data[packed.n - 4] ^= 1; /* of the length */
  check_failed(&lines, read_memory(packed.data, packed.n, N_TEXT), RONDE_E_INPUT, "incorrect length check", compressed);
  packed.data[packed.n - 4] ^= 1;
  packed.data[2] = 7; /* the method */
  check_failed(&lines, read_memory(packed.data, packed.n, N_TEXT), RONDE_E_INPUT, "unknown compression", compressed);
  packed.data[2] = 8;
  packed = test_bytes_join(packed, test_bytes_make("\0", 1));
  check_failed(&lines, read_memory(packed.data, packed.n, N_TEXT), RONDE_E_INPUT, "something follows", compressed);
  free(packed.data);
  free(text.data);
}

/* What lies behind the limit is damaged, and nobody looks at it. */
static void test_no_more_than_the_limit_is_decompressed(void **state) {
  test_bytes text = make_text(), packed = test_gzip(text.data, text.n);
  ronde__stream *stream;
  int64_t measured;
  test_log_start(&lines);
  packed.n -= 20;
  assert_int_equal(ronde__stream_open_memory("file", packed.data, packed.n, &stream), RONDE_OK);
  assert_int_equal(ronde__stream_measure(stream, 1000, &measured), RONDE_OK);
  assert_int_equal(measured, 1000);
  assert_int_equal(ronde__stream_offset(stream), 0);
  check_failed(&lines, ronde__stream_measure(stream, N_TEXT, &measured), RONDE_E_INPUT, "ends within", "compressed");
  ronde__stream_close(stream);
  free(packed.data);
  free(text.data);
}

static void test_what_is_no_file_is_refused(void **state) {
  test_log_start(&lines);
  char *folder = test_folder_create();
  char *absent = ronde__format("%s/absent", folder), *fifo = ronde__format("%s/fifo", folder);
  ronde__stream *stream;
  assert_int_equal(mkfifo(fifo, 0600), 0);
  check_failed(&lines, ronde__stream_open(absent, &stream), RONDE_E_INPUT, absent, "No such file");
  check_failed(&lines, ronde__stream_open(folder, &stream), RONDE_E_INPUT, folder, "not a regular file");
  check_failed(&lines, ronde__stream_open(fifo, &stream), RONDE_E_INPUT, fifo, "not a regular file");
  free(absent);
  free(fifo);
  test_folder_destroy(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_same_bytes_from_memory_file_and_gzip),
      cmocka_unit_test(test_wrong_lengths_are_named),
      cmocka_unit_test(test_damaged_gzip_is_named),
      cmocka_unit_test(test_no_more_than_the_limit_is_decompressed),
      cmocka_unit_test(test_what_is_no_file_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

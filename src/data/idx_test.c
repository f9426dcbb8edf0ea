/* IDX files, plain and compressed, and their damages. */
#include "data/testing.h"

#include "data/set.h"

static test_log lines;

/* Scans and reads from memory; frees the bytes. */
static ronde_status parse(test_bytes file, int rank, ronde__idx *idx_out, uint8_t *to) {
  ronde__stream *stream;
  ronde_status status = ronde__stream_open_memory("file", file.data, file.n, &stream);
  if (status == RONDE_OK) {
    status = ronde__idx_scan(stream, rank, idx_out);
    if (status == RONDE_OK && to) status = ronde__idx_read(stream, idx_out, to);
    ronde__stream_close(stream);
  }
  free(file.data);
  return status;
}

static void test_images_and_labels_are_read(void **state) {
  const uint8_t pixels[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 255};
  uint8_t got[12];
  ronde__idx idx;
  assert_int_equal(parse(test_idx(3, (uint32_t[]){2, 2, 3}, pixels, 12), 3, &idx, got), RONDE_OK);
  assert_int_equal(idx.dim[0], 2);
  assert_int_equal(idx.dim[1], 2);
  assert_int_equal(idx.dim[2], 3);
  assert_memory_equal(got, pixels, 12);
  assert_int_equal(ronde__idx_data_offset(&idx), 16);
  assert_int_equal(parse(test_idx(1, (uint32_t[]){12}, pixels, 12), 1, &idx, got), RONDE_OK);
  assert_int_equal(idx.dim[0], 12);
  test_bytes plain = test_idx(3, (uint32_t[]){2, 2, 3}, pixels, 12);
  memset(got, 0, sizeof got);
  assert_int_equal(parse(test_gzip(plain.data, plain.n), 3, &idx, got), RONDE_OK);
  assert_memory_equal(got, pixels, 12);
  free(plain.data);
}

static void test_bad_headers_are_named(void **state) {
  static const uint8_t zeros[64];
  ronde__idx idx;
  test_log_start(&lines);
  const struct {
    test_bytes file;
    int rank;
    const char *offset, *reason;
  } cases[] = {
      {test_bytes_make(zeros, 0), 3, "offset 0", "ends here"},
      {test_bytes_make("\0\0\10", 3), 3, "offset 3", "ends here"},
      {test_bytes_make("PK\3\4aaaaaaaaaaaaaa", 18), 3, "offset 0", "not an IDX file"},
      {test_bytes_make("\0\0\15\3aaaaaaaaaaaaaaaa", 20), 3, "offset 2", "type 0x0d"},
      {test_idx(1, (uint32_t[]){4}, zeros, 4), 3, "offset 3", "images have rank 3"},
      {test_idx(3, (uint32_t[]){1, 2, 2}, zeros, 4), 1, "offset 3", "labels have rank 1"},
      {test_idx(3, (uint32_t[]){0, 2, 2}, zeros, 0), 3, "offset 4", "no examples"},
      {test_idx(3, (uint32_t[]){2, 2, 0}, zeros, 0), 3, "offset 12", "side of 0"},
      {test_idx(3, (uint32_t[]){2, 2, 2}, zeros, 7), 3, "offset 4", "2 images of 2x2, but only 7 bytes"},
      {test_idx(1, (uint32_t[]){9}, zeros, 8), 1, "offset 4", "9 labels, but only 8 bytes"},
      {test_idx(3, (uint32_t[]){2, 2, 2}, zeros, 9), 3, "offset 24", "the file is longer than its header says"},
      {test_idx(3, (uint32_t[]){1u << 31, 28, 28}, zeros, 64), 3, "offset 4", "2147483648 images"},
      {test_idx(3, (uint32_t[]){UINT32_MAX, UINT32_MAX, UINT32_MAX}, zeros, 64), 3, "offset 4",
       "more than can be counted"},
  };
  for (size_t i = 0; i < RONDE__COUNT(cases); ++i)
    check_failed(&lines, parse(cases[i].file, cases[i].rank, &idx, NULL), RONDE_E_INPUT, cases[i].offset,
                 cases[i].reason);
}

static void test_gzip_that_holds_less_than_claimed_is_named(void **state) {
  static const uint8_t zeros[64];
  ronde__idx idx;
  test_log_start(&lines);
  test_bytes plain = test_idx(3, (uint32_t[]){1u << 31, 28, 28}, zeros, 64);
  check_failed(&lines, parse(test_gzip(plain.data, plain.n), 3, &idx, NULL), RONDE_E_INPUT, "2147483648 images",
               "only 64 bytes");
  free(plain.data);
}

/* Refused at the first byte too many: what follows it (here cut off) is not decompressed. */
static void test_gzip_that_goes_on_is_refused_at_once(void **state) {
  ronde__idx idx;
  test_log_start(&lines);
  size_t n = 1 << 20;
  uint8_t *long_tail = calloc(n, 1);
  for (size_t i = 0; i < n; ++i) long_tail[i] = (uint8_t)(i * i >> 5);
  test_bytes plain = test_idx(3, (uint32_t[]){2, 28, 28}, long_tail, n), packed = test_gzip(plain.data, plain.n);
  packed.n /= 2;
  check_failed(&lines, parse(packed, 3, &idx, NULL), RONDE_E_INPUT, "offset 1584",
               "the file is longer than its header says");
  free(plain.data);
  free(long_tail);
}

static void test_a_file_that_changed_is_refused(void **state) {
  static const uint8_t zeros[64];
  uint8_t got[64];
  test_log_start(&lines);
  test_bytes file = test_idx(1, (uint32_t[]){8}, zeros, 8);
  ronde__stream *stream;
  assert_int_equal(ronde__stream_open_memory("file", file.data, file.n, &stream), RONDE_OK);
  const ronde__idx before = {.rank = 1, .dim = {9}};
  check_failed(&lines, ronde__idx_read(stream, &before, got), RONDE_E_INPUT, "file: offset 4", "changed");
  ronde__stream_close(stream);
  free(file.data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_images_and_labels_are_read),
      cmocka_unit_test(test_bad_headers_are_named),
      cmocka_unit_test(test_gzip_that_holds_less_than_claimed_is_named),
      cmocka_unit_test(test_gzip_that_goes_on_is_refused_at_once),
      cmocka_unit_test(test_a_file_that_changed_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What the tests of data share: folders of their own, files made in memory, lines of the log. */
#include "data/testing.h"

void test_log_line(void *user, ronde_log_level level, const char *line) {
  test_log *log = user;
  if (level == RONDE_LOG_ERROR) {
    snprintf(log->error, sizeof log->error, "%s", line);
    ++log->n_errors;
  } else if (level == RONDE_LOG_WARNING) {
    snprintf(log->warning, sizeof log->warning, "%s", line);
    ++log->n_warnings;
  }
}

void test_log_start(test_log *log) {
  *log = (test_log){.n_errors = 0};
  ronde_log_set(test_log_line, log);
}

void check_failed(test_log *log, ronde_status status, ronde_status wanted, const char *a, const char *b) {
  const char *texts[] = {a, b};
  if (status != wanted) print_error("status %d, logged: %s\n", status, log->error);
  assert_int_equal(status, wanted);
  assert_int_equal(log->n_errors, 1);
  for (int i = 0; i < 2; ++i)
    if (!strstr(log->error, texts[i])) {
      print_error("logged: %s\n", log->error);
      fail_msg("the line lacks: %s", texts[i]);
    }
  test_log_start(log);
}

char *test_folder_create(void) {
  const char *base = getenv("TMPDIR");
  char *path = ronde__format("%s/ronde-test-XXXXXX", base ? base : "/tmp");
  assert_non_null(mkdtemp(path));
  return path;
}

static int test_remove_one(const char *path, const struct stat *st, int type, struct FTW *at) { return remove(path); }

void test_folder_destroy(char *path) {
  nftw(path, test_remove_one, 8, FTW_DEPTH | FTW_PHYS);
  free(path);
}

void test_write(const char *folder, const char *name, const void *data, size_t bytes) {
  char *path = ronde__format("%s/%s", folder, name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(data, 1, bytes, file), bytes);
  assert_int_equal(fclose(file), 0);
  free(path);
}

test_bytes test_bytes_make(const void *data, size_t n) {
  test_bytes b = {malloc(n + 1), n};
  assert_non_null(b.data);
  if (n) memcpy(b.data, data, n);
  return b;
}

test_bytes test_bytes_join(test_bytes a, test_bytes b) {
  test_bytes joined = {malloc(a.n + b.n + 1), a.n + b.n};
  assert_non_null(joined.data);
  if (a.n) memcpy(joined.data, a.data, a.n);
  if (b.n) memcpy(joined.data + a.n, b.data, b.n);
  free(a.data);
  free(b.data);
  return joined;
}

test_bytes test_gzip(const void *data, size_t n) {
  z_stream z = {.next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)n};
  assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  size_t room = deflateBound(&z, n);
  test_bytes b = {malloc(room), 0};
  z.next_out = b.data;
  z.avail_out = (uInt)room;
  assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
  b.n = room - z.avail_out;
  deflateEnd(&z);
  return b;
}

test_bytes test_idx(int rank, const uint32_t *dims, const void *payload, size_t payload_bytes) {
  uint8_t header[4 + 4 * 8] = {0, 0, 8, (uint8_t)rank};
  for (int d = 0; d < rank; ++d)
    for (int i = 0; i < 4; ++i) header[4 + 4 * d + i] = (uint8_t)(dims[d] >> (24 - 8 * i));
  return test_bytes_join(test_bytes_make(header, 4 + 4 * (size_t)rank), test_bytes_make(payload, payload_bytes));
}

test_bytes test_npy(const char *dict, const void *payload, size_t payload_bytes) {
  char header[512];
  size_t length = strlen(dict), total = (10 + length + 1 + 63) / 64 * 64;
  memset(header, ' ', sizeof header);
  memcpy(header, "\x93NUMPY\1\0", 8);
  header[8] = (char)((total - 10) & 0xff);
  header[9] = (char)((total - 10) >> 8);
  memcpy(header + 10, dict, length);
  header[total - 1] = '\n';
  return test_bytes_join(test_bytes_make(header, total), test_bytes_make(payload, payload_bytes));
}

void test_put_be(uint8_t *at, uint32_t value) {
  for (int i = 0; i < 4; ++i) at[i] = (uint8_t)(value >> (24 - 8 * i));
}

test_bytes test_png_chunk(test_bytes file, const char *type, const void *data, size_t n) {
  uint8_t *chunk = calloc(n + 12, 1);
  test_put_be(chunk, (uint32_t)n);
  memcpy(chunk + 4, type, 4);
  if (n) memcpy(chunk + 8, data, n);
  test_put_be(chunk + 8 + n, (uint32_t)crc32(0, chunk + 4, (uInt)n + 4));
  test_bytes joined = test_bytes_join(file, test_bytes_make(chunk, n + 12));
  free(chunk);
  return joined;
}

test_bytes test_png(int64_t h, int64_t w, int channels, int depth, const uint8_t *pixels) {
  uint8_t header[13] = {0};
  test_put_be(header, (uint32_t)w);
  test_put_be(header + 4, (uint32_t)h);
  header[8] = (uint8_t)depth;
  header[9] = channels == 1 ? 0 : 2;
  size_t row = (size_t)w * (size_t)channels * (size_t)depth / 8, n = (size_t)h * (row + 1);
  uLongf packed_bytes = compressBound(n);
  uint8_t *rows = calloc(n, 1), *packed = malloc(packed_bytes);
  for (size_t i = 0; i < (size_t)h; ++i) memcpy(rows + i * (row + 1) + 1, pixels + i * row, row);
  assert_int_equal(compress(packed, &packed_bytes, rows, n), Z_OK);
  test_bytes file = test_png_chunk(test_bytes_make("\x89PNG\r\n\x1a\n", 8), "IHDR", header, sizeof header);
  file = test_png_chunk(test_png_chunk(file, "IDAT", packed, packed_bytes), "IEND", NULL, 0);
  free(rows);
  free(packed);
  return file;
}

void test_write_bytes(const char *folder, const char *name, test_bytes b) {
  test_write(folder, name, b.data, b.n);
  free(b.data);
}

uint8_t test_pixel(int64_t i, int64_t p) { return (uint8_t)(i * 7 + p * 13 + i * p); }

void test_write_idx_pair(const char *folder, const char *prefix, int64_t n, int64_t h, int64_t w, int64_t classes,
                         bool gzip) {
  uint8_t *x = malloc((size_t)(n * h * w)), *y = malloc((size_t)n);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t p = 0; p < h * w; ++p) x[i * h * w + p] = test_pixel(i, p);
    y[i] = (uint8_t)(i % classes);
  }
  test_bytes images = test_idx(3, (uint32_t[]){(uint32_t)n, (uint32_t)h, (uint32_t)w}, x, (size_t)(n * h * w));
  test_bytes labels = test_idx(1, (uint32_t[]){(uint32_t)n}, y, (size_t)n);
  free(x);
  free(y);
  if (gzip) {
    test_bytes packed_images = test_gzip(images.data, images.n), packed_labels = test_gzip(labels.data, labels.n);
    free(images.data);
    free(labels.data);
    images = packed_images;
    labels = packed_labels;
  }
  char *x_name = ronde__format("%s-images-idx3-ubyte%s", prefix, gzip ? ".gz" : "");
  char *y_name = ronde__format("%s-labels-idx1-ubyte%s", prefix, gzip ? ".gz" : "");
  test_write_bytes(folder, x_name, images);
  test_write_bytes(folder, y_name, labels);
  free(x_name);
  free(y_name);
}

/* PNG images: planes, grey and colour, transparency, damaged files. */
#include "data/testing.h"

#include "data/image.h"
#include "data/set.h"

static test_log lines;

#define H 3
#define W 5

enum { GREY = 0, RGB = 2, RGBA = 6 }; /* PNG's colour types */

static void put_be(uint8_t *at, uint32_t value) {
  for (int i = 0; i < 4; ++i) at[i] = (uint8_t)(value >> (24 - 8 * i));
}

static test_bytes add_chunk(test_bytes file, const char *type, const void *data, size_t n) {
  uint8_t chunk[512];
  put_be(chunk, (uint32_t)n);
  memcpy(chunk + 4, type, 4);
  if (n) memcpy(chunk + 8, data, n);
  put_be(chunk + 8 + n, (uint32_t)crc32(0, chunk + 4, (uInt)n + 4));
  return test_bytes_join(file, test_bytes_make(chunk, n + 12));
}

/* A PNG of H x W pixels of 8 bits. */
static test_bytes encode(int colour_type, int channels, const uint8_t *pixels) {
  uint8_t header[13] = {0, 0, 0, W, 0, 0, 0, H, 8, (uint8_t)colour_type, 0, 0, 0};
  uint8_t rows[H * (1 + 4 * W)] = {0}, packed[400];
  uLongf packed_bytes = sizeof packed;
  size_t row_bytes = (size_t)channels * W;
  for (size_t h = 0; h < H; ++h) memcpy(rows + h * (1 + row_bytes) + 1, pixels + h * row_bytes, row_bytes);
  assert_int_equal(compress(packed, &packed_bytes, rows, H * (1 + row_bytes)), Z_OK);
  test_bytes file = add_chunk(test_bytes_make("\x89PNG\r\n\x1a\n", 8), "IHDR", header, sizeof header);
  return add_chunk(add_chunk(file, "IDAT", packed, packed_bytes), "IEND", NULL, 0);
}

static test_bytes encode_colour(void) {
  uint8_t pixels[H * W * 3];
  for (int i = 0; i < H * W * 3; ++i) pixels[i] = (uint8_t)(i * 5);
  return encode(RGB, 3, pixels);
}

static void test_pixels_are_read_as_planes(void **state) {
  char *folder = test_folder_create();
  char *path = ronde__format("%s/image.png", folder);
  test_write_bytes(folder, "image.png", encode_colour());
  int64_t h, w;
  uint8_t *x;
  uint8_t *data;
  size_t bytes;
  assert_int_equal(ronde__image_load(path, &data, &bytes), RONDE_OK);
  assert_int_equal(ronde__image_decode(path, data, bytes, 3, &h, &w, &x), RONDE_OK);
  ronde__free(data);
  assert_int_equal(h, H);
  assert_int_equal(w, W);
  for (int c = 0; c < 3; ++c)
    for (int p = 0; p < H * W; ++p) assert_int_equal(x[c * H * W + p], (p * 3 + c) * 5 % 256);
  ronde__free(x);
  free(path);
  test_folder_destroy(folder);
}

static void test_grey_and_colour_become_each_other(void **state) {
  uint8_t grey[H * W], *x;
  int64_t h, w;
  for (int i = 0; i < H * W; ++i) grey[i] = (uint8_t)(i * 17);
  test_bytes file = encode(GREY, 1, grey);
  assert_int_equal(ronde__image_decode("image", file.data, file.n, 1, &h, &w, &x), RONDE_OK);
  assert_memory_equal(x, grey, sizeof grey);
  ronde__free(x);
  assert_int_equal(ronde__image_decode("image", file.data, file.n, 3, &h, &w, &x), RONDE_OK);
  for (int c = 0; c < 3; ++c) assert_memory_equal(x + c * H * W, grey, sizeof grey);
  ronde__free(x);
  free(file.data);
}

static void test_transparent_pixels_lie_on_black(void **state) {
  uint8_t pixels[H * W * 4], *x;
  int64_t h, w;
  for (int i = 0; i < H * W; ++i) memcpy(pixels + 4 * i, i % 2 ? "\310\310\310\377" : "\310\310\310\0", 4);
  test_bytes file = encode(RGBA, 4, pixels);
  assert_int_equal(ronde__image_decode("image", file.data, file.n, 1, &h, &w, &x), RONDE_OK);
  for (int i = 0; i < H * W; ++i) assert_int_equal(x[i], i % 2 ? 200 : 0);
  ronde__free(x);
  free(file.data);
}

static ronde_status decode(test_bytes file, size_t bytes, int channels) {
  int64_t h, w;
  uint8_t *x;
  ronde_status status = ronde__image_decode("image", file.data, bytes, channels, &h, &w, &x);
  if (status == RONDE_OK) ronde__free(x);
  return status;
}

/* Writes other sides into the header, with a checksum that fits. */
static void set_sides(test_bytes file, uint32_t width, uint32_t height) {
  put_be(file.data + 16, width);
  put_be(file.data + 20, height);
  put_be(file.data + 29, (uint32_t)crc32(0, file.data + 12, 17));
}

static void test_bad_images_are_named(void **state) {
  test_log_start(&lines);
  test_bytes file = encode_colour();
  check_failed(&lines, decode(file, 0, 3), RONDE_E_INPUT, "image: ", "not a PNG");
  check_failed(&lines, decode((test_bytes){(uint8_t *)(uintptr_t) "GIF89a..", 8}, 8, 3), RONDE_E_INPUT,
               "image: ", "not a PNG");
  for (size_t bytes = 34; bytes < file.n - 16; bytes += 3)
    check_failed(&lines, decode(file, bytes, 3), RONDE_E_INPUT, "image: ", "PNG");
  check_failed(&lines, decode(file, file.n, 2), RONDE_E_USAGE, "image: ", "1 or 3 channels");
  set_sides(file, 100000, 4);
  check_failed(&lines, decode(file, file.n, 3), RONDE_E_INPUT, "offset 16", "at most 32768 a side");
  set_sides(file, 30000, 30000);
  check_failed(&lines, decode(file, file.n, 3), RONDE_E_INPUT, "offset 16", "at most 67108864 are supported");
  free(file.data);
}

static void test_a_build_without_libpng_says_so(void **state) {
  int64_t h, w;
  uint8_t *x;
  test_log_start(&lines);
  ronde_status status = ronde__image_decode("image", "\x89PNG\r\n\x1a\n", 8, 1, &h, &w, &x);
  check_failed(&lines, status, RONDE_E_USAGE, "image", "cannot read PNG");
}

int main(void) {
  const struct CMUnitTest with_png[] = {
      cmocka_unit_test(test_pixels_are_read_as_planes),
      cmocka_unit_test(test_grey_and_colour_become_each_other),
      cmocka_unit_test(test_transparent_pixels_lie_on_black),
      cmocka_unit_test(test_bad_images_are_named),
  };
  const struct CMUnitTest without_png[] = {cmocka_unit_test(test_a_build_without_libpng_says_so)};
  return ronde__image_supported() ? cmocka_run_group_tests(with_png, NULL, NULL)
                                  : cmocka_run_group_tests(without_png, NULL, NULL);
}

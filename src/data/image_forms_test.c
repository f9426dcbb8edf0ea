/* Every pixel format of PNG and JPEG, against known pixels; and EXIF orientation. */
#include "data/jpeg_testing.h"

#include "data/exif.h"
#include "data/image.h"
#include "data/set.h"

static test_log lines;

/* ---- EXIF -------------------------------------------------------------------------------------------------------- */

/* A block of EXIF data with two entries. */
static test_bytes exif(bool big, int tag, int type, int value) {
  uint8_t data[38] = {0};
  const uint32_t words[][3] = {/* at, bytes, value */
                               {2, 2, 42},
                               {4, 4, 8},
                               {8, 2, 2},
                               {10, 2, 0x10e},
                               {12, 2, 2},
                               {14, 4, 1},
                               {18, 4, 65},
                               {22, 2, (uint32_t)tag},
                               {24, 2, (uint32_t)type},
                               {26, 4, 1},
                               {30, 2, (uint32_t)value}};
  memcpy(data, big ? "MM" : "II", 2);
  for (size_t i = 0; i < RONDE__COUNT(words); ++i)
    for (uint32_t b = 0; b < words[i][1]; ++b)
      data[words[i][0] + b] = (uint8_t)(words[i][2] >> (8 * (big ? words[i][1] - 1 - b : b)));
  return test_bytes_make(data, sizeof data);
}

static int with_orientation(test_bytes block, size_t bytes) {
  void *exact = malloc(bytes ? bytes : 1); /* so that a sanitizer sees one read too many */
  memcpy(exact, block.data, bytes);
  int value = ronde__exif_orientation(exact, bytes);
  free(exact);
  return value;
}

static void test_exif_says_how_a_picture_is_held(void **state) {
  for (int big = 0; big < 2; ++big)
    for (int value = 0; value < 10; ++value) {
      test_bytes block = exif(big, 0x112, 3, value);
      assert_int_equal(with_orientation(block, block.n), value >= 1 && value <= 8 ? value : 1);
      for (size_t bytes = 0; bytes < 34; ++bytes) assert_int_equal(with_orientation(block, bytes), 1);
      free(block.data);
    }
  test_bytes others[] = {exif(true, 0x112, 4, 6), exif(true, 0x113, 3, 6), exif(false, 0x112, 3, 6),
                         exif(true, 0x112, 3, 6)};
  others[2].data[2] = 43;              /* no TIFF */
  memset(others[3].data + 4, 0xff, 4); /* entries beyond the end */
  for (size_t i = 0; i < RONDE__COUNT(others); ++i) {
    assert_int_equal(with_orientation(others[i], others[i].n), 1);
    free(others[i].data);
  }
}

/* ---- PNG --------------------------------------------------------------------------------------------------------- */

enum { H = 3, W = 5 };
enum { GREY = 0, RGB = 2, PALETTE = 3, GREY_ALPHA = 4, RGBA = 6 }; /* PNG's colour types */

typedef struct chunk {
  const char *type;
  test_bytes data;
} chunk;

/* rows: as the form packs them. before: chunks in front of the pixels; they are freed. */
static test_bytes png(int colour_type, int depth, size_t row_bytes, const uint8_t *rows, const chunk *before, int n) {
  uint8_t header[13] = {0, 0, 0, W, 0, 0, 0, H, (uint8_t)depth, (uint8_t)colour_type}, filtered[H * 64], packed[512];
  uLongf packed_bytes = sizeof packed;
  for (size_t y = 0; y < H; ++y) {
    filtered[y * (row_bytes + 1)] = 0;
    memcpy(filtered + y * (row_bytes + 1) + 1, rows + y * row_bytes, row_bytes);
  }
  assert_int_equal(compress(packed, &packed_bytes, filtered, H * (row_bytes + 1)), Z_OK);
  test_bytes file = test_png_chunk(test_bytes_make("\x89PNG\r\n\x1a\n", 8), "IHDR", header, sizeof header);
  for (int i = 0; i < n; ++i) {
    file = test_png_chunk(file, before[i].type, before[i].data.data, before[i].data.n);
    free(before[i].data.data);
  }
  return test_png_chunk(test_png_chunk(file, "IDAT", packed, packed_bytes), "IEND", NULL, 0);
}

/* Frees the file. */
static uint8_t *decode(test_bytes file, int channels, int64_t h, int64_t w) {
  int64_t got_h, got_w;
  uint8_t *x;
  ronde__image head;
  char reason[RONDE__REASON_BYTES];
  assert_int_equal(ronde__image_head(file.data, file.n, &head, reason), RONDE_OK);
  assert_int_equal(ronde__image_decode("image", file.data, file.n, channels, &got_h, &got_w, &x), RONDE_OK);
  assert_true(got_h == h && got_w == w && head.height == h && head.width == w);
  free(file.data);
  return x;
}

/* Decodes in grey and in colour; want: one value a pixel, grey in each channel. */
static void check_grey(const char *what, test_bytes file, const uint8_t *want) {
  test_bytes again = test_bytes_make(file.data, file.n);
  uint8_t *x = decode(file, 1, H, W), *rgb = decode(again, 3, H, W);
  for (int i = 0; i < H * W; ++i)
    if (x[i] != want[i] || rgb[i] != want[i] || rgb[H * W + i] != want[i] || rgb[2 * H * W + i] != want[i])
      fail_msg("%s, pixel %d: grey %d, colour %d %d %d, not %d", what, i, x[i], rgb[i], rgb[H * W + i],
               rgb[2 * H * W + i], want[i]);
  ronde__free(x);
  ronde__free(rgb);
}

static void check_colour(const char *what, test_bytes file, const uint8_t (*want)[3]) {
  uint8_t *x = decode(file, 3, H, W);
  for (int i = 0; i < H * W; ++i)
    for (int c = 0; c < 3; ++c)
      if (x[c * H * W + i] != want[i][c])
        fail_msg("%s, pixel %d, channel %d: %d, not %d", what, i, c, x[c * H * W + i], want[i][c]);
  ronde__free(x);
}

/* One row [bytes] three times. */
static const uint8_t *rows_as(const uint8_t *row, size_t bytes) {
  static uint8_t rows[H * 64];
  for (size_t y = 0; y < H; ++y) memcpy(rows + y * bytes, row, bytes);
  return rows;
}

static void test_grey_of_every_depth(void **state) {
  static const struct {
    int depth;
    size_t bytes;
    uint8_t row[10], want[W];
  } cases[] = {{1, 1, {0xb0}, {255, 0, 255, 255, 0}},
               {2, 2, {0x1b, 0x80}, {0, 85, 170, 255, 170}},
               {4, 3, {0x05, 0xaf, 0x10}, {0, 85, 170, 255, 17}},
               {8, 5, {0, 1, 100, 254, 255}, {0, 1, 100, 254, 255}},
               {16, 10, {0, 0, 1, 1, 0x64, 0x64, 0x80, 0x80, 0xff, 0xff}, {0, 1, 100, 128, 255}}};
  for (size_t i = 0; i < RONDE__COUNT(cases); ++i) {
    uint8_t want[H * W];
    for (int p = 0; p < H * W; ++p) want[p] = cases[i].want[p % W];
    char what[32];
    snprintf(what, sizeof what, "grey of %d bits", cases[i].depth);
    check_grey(what, png(GREY, cases[i].depth, cases[i].bytes, rows_as(cases[i].row, cases[i].bytes), NULL, 0), want);
  }
}

/* 65535 becomes 255: a value is divided by 257, and rounded. */
static void test_colour_of_16_bits(void **state) {
  uint8_t row[W * 6], want[H * W][3];
  for (int p = 0; p < W; ++p)
    for (int c = 0; c < 3; ++c) {
      unsigned value = (unsigned)(p * 13001 + c * 4111), eighth = (value + 128) / 257;
      row[p * 6 + c * 2] = (uint8_t)(value >> 8);
      row[p * 6 + c * 2 + 1] = (uint8_t)value;
      for (int y = 0; y < H; ++y) want[y * W + p][c] = (uint8_t)eighth;
    }
  check_colour("colour of 16 bits", png(RGB, 16, sizeof row, rows_as(row, sizeof row), NULL, 0), want);
}

/* Transparent pixels lie on black, opaque ones are what they are. */
static void test_grey_with_alpha(void **state) {
  static const uint8_t row[] = {10, 255, 20, 0, 30, 255, 255, 0, 255, 255};
  static const uint8_t deep[] = {10, 10, 255, 255, 20, 20, 0, 0, 30, 30, 255, 255, 255, 255, 0, 0, 255, 255, 255, 255};
  static const uint8_t key[] = {0, 20};
  uint8_t want[H * W], keyed[H * W];
  for (int p = 0; p < H * W; ++p) want[p] = (const uint8_t[]){10, 0, 30, 0, 255}[p % W];
  check_grey("grey with alpha", png(GREY_ALPHA, 8, sizeof row, rows_as(row, sizeof row), NULL, 0), want);
  check_grey("grey with alpha of 16 bits", png(GREY_ALPHA, 16, sizeof deep, rows_as(deep, sizeof deep), NULL, 0), want);
  /* One value that is transparent (tRNS). */
  static const uint8_t plain[] = {10, 20, 30, 20, 255};
  const chunk transparent = {"tRNS", test_bytes_make(key, sizeof key)};
  for (int p = 0; p < H * W; ++p) keyed[p] = (const uint8_t[]){10, 0, 30, 0, 255}[p % W];
  check_grey("grey with a transparent value", png(GREY, 8, sizeof plain, rows_as(plain, sizeof plain), &transparent, 1),
             keyed);
}

static void test_palettes(void **state) {
  static const uint8_t colours[4][3] = {{255, 0, 0}, {0, 200, 0}, {1, 2, 3}, {255, 255, 255}}, alphas[] = {255, 0};
  static const int index[W] = {0, 1, 2, 3, 1};
  static const struct {
    int depth;
    size_t bytes;
    uint8_t row[5];
  } forms[] = {{2, 2, {0x1b, 0x40}}, {4, 3, {0x01, 0x23, 0x10}}, {8, 5, {0, 1, 2, 3, 1}}};
  for (size_t i = 0; i < RONDE__COUNT(forms); ++i)
    for (int with_alpha = 0; with_alpha < 2; ++with_alpha) {
      uint8_t want[H * W][3];
      const chunk before[] = {{"PLTE", test_bytes_make(colours, sizeof colours)},
                              {"tRNS", test_bytes_make(alphas, sizeof alphas)}};
      for (int p = 0; p < H * W; ++p)
        for (int c = 0; c < 3; ++c) want[p][c] = with_alpha && index[p % W] == 1 ? 0 : colours[index[p % W]][c];
      check_colour(
          with_alpha ? "palette with alpha" : "palette",
          png(PALETTE, forms[i].depth, forms[i].bytes, rows_as(forms[i].row, forms[i].bytes), before, 1 + with_alpha),
          want);
      if (!with_alpha) free(before[1].data.data);
    }
}

/* ---- orientation ------------------------------------------------------------------------------------------------- */

/* Where the stored pixel (r, c) is seen. Source: Exif 2.32, 4.6.4, Orientation. */
static int64_t seen_at(int orientation, int64_t h, int64_t w, int64_t r, int64_t c) {
  switch (orientation) {
  case 1: return r * w + c;
  case 2: return r * w + w - 1 - c;
  case 3: return (h - 1 - r) * w + w - 1 - c;
  case 4: return (h - 1 - r) * w + c;
  case 5: return c * h + r;
  case 6: return c * h + h - 1 - r;
  case 7: return (w - 1 - c) * h + h - 1 - r;
  default: return (w - 1 - c) * h + r;
  }
}

static void test_png_is_turned(void **state) {
  uint8_t rows[H * W * 3];
  for (int i = 0; i < H * W * 3; ++i) rows[i] = (uint8_t)(i * 5);
  for (int o = 1; o <= 8; ++o) {
    const chunk before = {"eXIf", exif(o % 2, 0x112, 3, o)};
    uint8_t *x = decode(png(RGB, 8, W * 3, rows, &before, 1), 3, o < 5 ? H : W, o < 5 ? W : H);
    for (int r = 0; r < H; ++r)
      for (int c = 0; c < W; ++c)
        for (int k = 0; k < 3; ++k) assert_int_equal(x[k * H * W + seen_at(o, H, W, r, c)], rows[(r * W + c) * 3 + k]);
    ronde__free(x);
  }
  /* A chunk with a wrong checksum is ignored. */
  const chunk before = {"eXIf", exif(true, 0x112, 3, 6)};
  test_bytes file = png(RGB, 8, W * 3, rows, &before, 1);
  uint8_t *name = memmem(file.data, file.n, "eXIf", 4);
  assert_non_null(name);
  name[4 + 31] ^= 4;
  ronde__free(decode(file, 3, H, W));
}

/* libpng would allocate what it claims. */
static void test_a_chunk_longer_than_the_file_is_refused(void **state) {
  uint8_t rows[H * W] = {0}, *x;
  int64_t h, w;
  const chunk before = {"zTXt", test_bytes_make("text", 4)};
  test_bytes file = png(GREY, 8, W, rows, &before, 1);
  uint8_t *name = memmem(file.data, file.n, "zTXt", 4);
  assert_non_null(name);
  test_put_be(name - 4, 0x0a000000);
  test_log_start(&lines);
  check_failed(&lines, ronde__image_decode("image", file.data, file.n, 1, &h, &w, &x), RONDE_E_INPUT,
               "image: an incomplete PNG", "ends within a chunk");
  /* No more than its length and its type. */
  size_t cut = (size_t)(name + 4 - file.data);
  check_failed(&lines, ronde__image_decode("image", file.data, cut, 1, &h, &w, &x), RONDE_E_INPUT,
               "image: an incomplete PNG", "ends within a chunk");
  free(file.data);
}

#ifdef RONDE_HAVE_JPEG

/* With a segment behind the marker that begins the file. */
static test_bytes with_segment(test_bytes file, int marker, const void *front, size_t front_bytes, test_bytes data) {
  size_t n = 2 + front_bytes + data.n;
  const uint8_t head[] = {0xff, 0xd8, 0xff, (uint8_t)marker, (uint8_t)(n >> 8), (uint8_t)n};
  test_bytes whole = test_bytes_join(test_bytes_make(head, sizeof head), test_bytes_make(front, front_bytes));
  whole = test_bytes_join(test_bytes_join(whole, data), test_bytes_make(file.data + 2, file.n - 2));
  free(file.data);
  return whole;
}

static void test_jpeg_is_turned(void **state) {
  enum { JH = 16, JW = 24 };
  for (int channels = 1; channels <= 3; channels += 2)
    for (int o = 1; o <= 8; ++o) {
      uint8_t pixels[JH * JW * 3];
      for (int p = 0; p < JH * JW; ++p)
        for (int c = 0; c < channels; ++c) pixels[p * channels + c] = (uint8_t)(8 * (p / JW) + 4 * (p % JW) + 10 * c);
      test_bytes file = test_jpeg(JH, JW, channels, TEST_JPEG_PLAIN, pixels);
      file = with_segment(file, 0xe1, "Exif\0", 6, exif(o % 2, 0x112, 3, o));
      file =
          with_segment(file, 0xe1, "http://ns.adobe.com/xap/1.0/", 29, test_bytes_make("<x/>", 4)); /* another APP1 */
      uint8_t *x = decode(file, channels, o < 5 ? JH : JW, o < 5 ? JW : JH);
      for (int r = 0; r < JH; ++r)
        for (int c = 0; c < JW; ++c)
          for (int k = 0; k < channels; ++k) {
            int got = x[k * JH * JW + seen_at(o, JH, JW, r, c)], want = pixels[(r * JW + c) * channels + k];
            if (abs(got - want) > 3) fail_msg("orientation %d, row %d, column %d: %d, not %d", o, r, c, got, want);
          }
      ronde__free(x);
    }
}

/* Of CMYK as Adobe writes it, 255 where there is no ink; RGB is what all inks leave. */
static void test_inks_become_colours(void **state) {
  static const uint8_t inks[4][4] = {
      {255, 255, 255, 255}, {0, 255, 255, 255}, {255, 128, 0, 255}, {255, 255, 255, 100}};
  static const uint8_t want[4][3] = {{255, 255, 255}, {0, 255, 255}, {255, 128, 0}, {100, 100, 100}};
  static const uint8_t grey[4] = {255, 179, 151, 100};
  enum { SIDE = 32 };
  uint8_t pixels[SIDE * SIDE * 4];
  for (int kind = 0; kind < 2; ++kind) { /* CMYK, YCCK */
    for (int p = 0; p < SIDE * SIDE; ++p) memcpy(pixels + 4 * p, inks[p / SIDE / 16 * 2 + p % SIDE / 16], 4);
    test_bytes file = test_jpeg(SIDE, SIDE, 4, kind ? TEST_JPEG_YCCK : TEST_JPEG_PLAIN, pixels);
    uint8_t *grey_x = decode(test_bytes_make(file.data, file.n), 1, SIDE, SIDE), *x = decode(file, 3, SIDE, SIDE);
    for (int p = 0; p < SIDE * SIDE; ++p) {
      int i = p / SIDE / 16 * 2 + p % SIDE / 16;
      for (int c = 0; c < 3; ++c)
        if (abs(x[c * SIDE * SIDE + p] - want[i][c]) > 3)
          fail_msg("%s, pixel %d, channel %d: %d, not %d", kind ? "YCCK" : "CMYK", p, c, x[c * SIDE * SIDE + p],
                   want[i][c]);
      if (abs(grey_x[p] - grey[i]) > 3) fail_msg("pixel %d: grey %d, not %d", p, grey_x[p], grey[i]);
    }
    ronde__free(x);
    ronde__free(grey_x);
  }
}

/* Without Adobe's marker 0 may mean all ink or none. */
static void test_inks_of_unknown_sense_are_refused(void **state) {
  uint8_t pixels[16 * 16 * 4] = {0}, *x;
  int64_t h, w;
  test_bytes file = test_jpeg(16, 16, 4, TEST_JPEG_UNMARKED, pixels);
  test_log_start(&lines);
  check_failed(&lines, ronde__image_decode("image", file.data, file.n, 3, &h, &w, &x), RONDE_E_INPUT,
               "image: a CMYK JPEG without Adobe's marker", "convert it to RGB");
  free(file.data);
}

#endif

int main(void) {
  const struct CMUnitTest always[] = {cmocka_unit_test(test_exif_says_how_a_picture_is_held)};
  const struct CMUnitTest of_png[] = {
      cmocka_unit_test(test_grey_of_every_depth), cmocka_unit_test(test_colour_of_16_bits),
      cmocka_unit_test(test_grey_with_alpha),     cmocka_unit_test(test_palettes),
      cmocka_unit_test(test_png_is_turned),       cmocka_unit_test(test_a_chunk_longer_than_the_file_is_refused),
  };
  int failed = cmocka_run_group_tests(always, NULL, NULL);
  if (ronde__image_supported()) failed += cmocka_run_group_tests(of_png, NULL, NULL);
#ifdef RONDE_HAVE_JPEG
  const struct CMUnitTest of_jpeg[] = {
      cmocka_unit_test(test_jpeg_is_turned),
      cmocka_unit_test(test_inks_become_colours),
      cmocka_unit_test(test_inks_of_unknown_sense_are_refused),
  };
  failed += cmocka_run_group_tests(of_jpeg, NULL, NULL);
#endif
  return failed;
}

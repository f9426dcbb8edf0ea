/* Folders of images: the tree, sizes, splits, images that cannot be read. */
#include "data/jpeg_testing.h"

#include <math.h>
#include <sys/stat.h>

#include "data/data.h"
#include "data/set.h"

static test_log lines;
static char *root; /* of each test */

enum { H = 6, W = 5 };

static int setup(void **state) {
  root = test_folder_create();
  char *cache = ronde__format("%s/cache", root);
  setenv("RONDE_CACHE_DIR", cache, 1);
  free(cache);
  test_log_start(&lines);
  return 0;
}

static int teardown(void **state) {
  test_folder_destroy(root);
  ronde_log_set(NULL, NULL);
  return 0;
}

/* Makes the folders above root/path, and its own name. */
static char *put_at(const char *path) {
  char *whole = ronde__format("%s/%s", root, path);
  for (char *slash = strchr(whole + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    mkdir(whole, 0700);
    *slash = '/';
  }
  return whole;
}

static void put_file(const char *path, test_bytes b) {
  char *whole = put_at(path);
  test_write_bytes("", whole, b);
  free(whole);
}

static void put_folder(const char *path) {
  char *whole = put_at(path);
  mkdir(whole, 0700);
  free(whole);
}

/* A pixel of channel c of image number i. */
static uint8_t pixel(int64_t i, int64_t h, int64_t w, int64_t c) { return (uint8_t)(i * 31 + h * 17 + w * 7 + c * 61); }

static test_bytes png(int64_t i, int64_t h, int64_t w, int channels) {
  uint8_t pixels[64 * 64 * 3], *at = pixels;
  for (int64_t y = 0; y < h; ++y)
    for (int64_t x = 0; x < w; ++x)
      for (int c = 0; c < channels; ++c) *at++ = pixel(i, y, x, c);
  return test_png(h, w, channels, 8, pixels);
}

static ronde_status open_folder(ronde__data_options options, ronde__data **data_out) {
  char *spec = ronde__format("folder:%s/set", root);
  options.spec = spec;
  ronde_status status = ronde__data_open(&options, data_out);
  free(spec);
  return status;
}

static ronde_status try_set(ronde__data_options options) {
  ronde__data *data;
  ronde_status status = open_folder(options, &data);
  if (status == RONDE_OK) ronde__data_close(data);
  return status;
}

/* The example is image number i, and of this label. channels: of the file. */
static void check_example(ronde__data *data, int split, int64_t id, int64_t i, int64_t label, int channels) {
  float x[3 * H * W];
  int64_t got;
  assert_int_equal(data->source.read(data->source.user, split, &id, 1, x, &got, NULL), RONDE_OK);
  assert_int_equal(got, label);
  int n_channels = (int)data->source.dims[0];
  for (int c = 0; c < n_channels; ++c)
    for (int p = 0; p < H * W; ++p)
      assert_float_equal(x[c * H * W + p], pixel(i, p / W, p % W, channels == 1 ? 0 : c) / 255.0, 1e-6);
}

static void put_good_set(void) {
  put_file("set/train/cat/b.png", png(2, H, W, 3));
  put_file("set/train/cat/a.PNG", png(1, H, W, 3));
  put_file("set/train/ant/z.png", png(3, H, W, 1));
  put_file("set/train/Bee/z.png", png(4, H, W, 3));
  put_file("set/test/cat/1.png", png(5, H, W, 3));
  put_file("set/test/ant/1.png", png(6, H, W, 3));
}

static void test_classes_are_folders_in_order(void **state) {
  put_good_set();
  for (int round = 0; round < 3; ++round) {
    ronde__data *data;
    assert_int_equal(open_folder((ronde__data_options){.cache = round > 0, .normalize = true}, &data), RONDE_OK);
    assert_int_equal(data->source.classes, 3);
    assert_int_equal(data->source.n_examples[0], 4);
    assert_int_equal(data->source.n_examples[1], 2);
    assert_true(data->source.dims[0] == 3 && data->source.dims[1] == H && data->source.dims[2] == W);
    check_example(data, 0, 0, 4, 0, 3); /* Bee: capitals come first */
    check_example(data, 0, 1, 3, 1, 1); /* a grey image in colour */
    check_example(data, 0, 2, 1, 2, 3);
    check_example(data, 0, 3, 2, 2, 3);
    check_example(data, 1, 0, 6, 1, 3);
    check_example(data, 1, 1, 5, 2, 3);
    assert_int_equal(data->n_skipped, 0);
    ronde__data_close(data);
  }
  assert_int_equal(lines.n_errors + lines.n_warnings, 0);
}

static void test_grey_sets_and_val_and_flat_folders(void **state) {
  ronde__data *data;
  put_file("set/train/a/1.png", png(1, H, W, 1));
  put_file("set/train/b/1.png", png(2, H, W, 1));
  put_file("set/val/b/1.png", png(3, H, W, 1));
  put_file("set/val/.hidden/1.txt", test_bytes_make("", 0));
  assert_int_equal(open_folder((ronde__data_options){.cache = true}, &data), RONDE_OK);
  assert_int_equal(data->source.dims[0], 1);
  check_example(data, 1, 0, 3, 1, 1);
  ronde__data_close(data);
  assert_int_equal(lines.n_warnings, 0);
  char *deeper = ronde__format("folder:%s/set/train", root);
  put_file("set/train/b/notes.txt", test_bytes_make("", 0));
  assert_int_equal(ronde__data_open(&(ronde__data_options){.spec = deeper, .cache = true}, &data), RONDE_OK);
  assert_int_equal(data->source.n_examples[0], 2);
  assert_int_equal(data->source.n_examples[1], 0);
  check_example(data, 0, 1, 2, 1, 1);
  ronde__data_close(data);
  assert_int_equal(lines.n_warnings, 2);
  assert_non_null(strstr(lines.warning, "no test examples"));
  free(deeper);
}

/* Only val/, only test/, both: the test split, which then names the classes; the warning is only for who wants a test. */
static void test_splits_without_training(void **state) {
  ronde__data *data;
  put_file("set/val/a/1.png", png(1, H, W, 1));
  put_file("set/val/b/1.png", png(2, H, W, 1));
  for (int cache = 0; cache < 2; ++cache) {
    assert_int_equal(open_folder((ronde__data_options){.cache = cache}, &data), RONDE_OK);
    assert_true(data->source.n_examples[0] == 0 && data->source.n_examples[1] == 2 && data->source.classes == 2);
    assert_true(data->test_is_val);
    assert_string_equal(data->sha256, "");
    assert_string_equal(ronde__data_class_name(data, 1), "b");
    check_example(data, 1, 1, 2, 1, 1);
    ronde__data_close(data);
  }
  put_file("set/test/b/1.png", png(3, H, W, 1));
  assert_int_equal(open_folder((ronde__data_options){.cache = true}, &data), RONDE_OK);
  assert_false(data->test_is_val);
  assert_int_equal(data->source.classes, 1);
  check_example(data, 1, 0, 3, 0, 1);
  ronde__data_close(data);
  assert_int_equal(open_folder((ronde__data_options){.cache = true, .prefers_val = true}, &data), RONDE_OK);
  assert_true(data->test_is_val && data->source.classes == 2);
  check_example(data, 1, 1, 2, 1, 1);
  ronde__data_close(data);
  put_file("set/train/a/1.png", png(4, H, W, 1));
  put_file("set/train/b/1.png", png(5, H, W, 1));
  for (int prefers_val = 0; prefers_val < 2; ++prefers_val) {
    const ronde__data_options options = {.cache = true, .prefers_val = prefers_val};
    assert_int_equal(open_folder(options, &data), RONDE_OK);
    assert_int_equal(data->test_is_val, prefers_val);
    check_example(data, 1, prefers_val, prefers_val ? 2 : 3, 1, 1);
    ronde__data_close(data);
  }
  put_file("set/val/a/1.png", test_bytes_make("", 0));
  put_file("set/val/b/1.png", test_bytes_make("", 0));
  check_failed(&lines, try_set((ronde__data_options){.cache = true, .prefers_val = true, .skip_bad_images = true}),
               RONDE_E_INPUT, "none of the 2 validation images", "");
  char *flat = ronde__format("folder:%s/set/train", root);
  for (int any = 0; any < 2; ++any) {
    test_log_start(&lines);
    assert_int_equal(ronde__data_open(&(ronde__data_options){.spec = flat, .any_split = any}, &data), RONDE_OK);
    assert_int_equal(lines.n_warnings, !any);
    ronde__data_close(data);
  }
  free(flat);
}

static void test_trees_that_are_no_sets(void **state) {
  const ronde__data_options plain = {.cache = true};
  ronde__data *data;
  check_failed(&lines, try_set(plain), RONDE_E_INPUT, "/set: ", "no such folder");
  check_failed(&lines, ronde__data_open(&(ronde__data_options){.spec = "folder"}, &data), RONDE_E_USAGE, "folder:DIR",
               "no folder is given");
  put_folder("set");
  check_failed(&lines, try_set(plain), RONDE_E_INPUT, "/set: ", "it has no folders in it");
  put_file("set/1.png", png(1, H, W, 3));
  check_failed(&lines, try_set(plain), RONDE_E_INPUT, "/set: ", "it has no folders in it");
  put_file("set/a/1.png", png(1, H, W, 3));
  put_folder("set/b");
  check_failed(&lines, try_set(plain), RONDE_E_INPUT, "/set/b: ", "this class is empty");
  put_file("set/b/1.txt", test_bytes_make("", 0));
  check_failed(&lines, try_set(plain), RONDE_E_INPUT, "/set/b: ", "this class is empty");
  put_file("set/train/1.png", png(1, H, W, 3));
  put_file("set/test/1.png", png(1, H, W, 3));
  check_failed(&lines, try_set(plain), RONDE_E_INPUT, "/set/train: ", "it has no folders in it");
  put_file("set/train/a/1.png", png(1, H, W, 3));
  check_failed(&lines, try_set(plain), RONDE_E_INPUT, "/set/test: ", "it has no folders in it");
  put_file("set/test/b/1.png", png(1, H, W, 3));
  check_failed(&lines, try_set(plain), RONDE_E_INPUT, "/set/test/b: ", "no class of this name");
}

static void test_sizes_must_be_one(void **state) {
  put_good_set();
  put_file("set/train/cat/c.png", png(7, H + 2, W, 3));
  for (int cache = 0; cache < 2; ++cache) {
    check_failed(&lines, try_set((ronde__data_options){.cache = cache}), RONDE_E_INPUT,
                 "/set/train/cat/c.png: this image is 8x5, but ", "/set/train/Bee/z.png is 6x5: give --resize HxW");
    ronde__data *data;
    assert_int_equal(open_folder((ronde__data_options){.cache = cache, .resize = {H, W}}, &data), RONDE_OK);
    assert_int_equal(data->source.n_examples[0], 5);
    check_example(data, 0, 3, 2, 2, 3); /* those that fit are as they are */
    int64_t id = 4, label;
    float x[3 * H * W];
    assert_int_equal(data->source.read(data->source.user, 0, &id, 1, x, &label, NULL), RONDE_OK);
    for (int p = 0; p < H * W; ++p) { /* 8 rows in 6: a row lies at 4 / 3 (i + 1/2) - 1/2 */
      double at = 4.0 / 3 * (p / W + .5) - .5;
      int row = (int)at;
      double upper = pixel(7, row, p % W, 0), lower = pixel(7, row + 1, p % W, 0);
      assert_float_equal(x[p] * 255, upper + (lower - upper) * (at - row), .51);
      assert_float_equal(x[p] * 255, round(x[p] * 255), 1e-4);
    }
    ronde__data_close(data);
  }
}

static void test_bad_images_are_named_or_skipped(void **state) {
  put_good_set();
  test_bytes cut = png(8, H, W, 3);
  char *path = put_at("set/train/cat/bad.png");
  test_write("", path, cut.data, cut.n - 20);
  put_file("set/test/ant/2.png", test_bytes_make("nothing", 7));
  for (int cache = 0; cache < 2; ++cache) {
    const ronde__data_options plain = {.cache = cache}, skip = {.cache = cache, .skip_bad_images = true};
    check_failed(&lines, try_set(plain), RONDE_E_INPUT, "/set/test/ant/2.png: ", "not a PNG or JPEG");
    for (int round = 0; round < 2; ++round) {
      ronde__data *data;
      assert_int_equal(open_folder(skip, &data), RONDE_OK);
      assert_int_equal(data->n_skipped, 2);
      assert_int_equal(data->source.n_examples[0], 4);
      assert_int_equal(data->source.n_examples[1], 2);
      check_example(data, 0, 3, 2, 2, 3);
      check_example(data, 1, 0, 6, 1, 3);
      ronde__data_close(data);
      assert_int_equal(lines.n_errors, 0);
      assert_non_null(strstr(lines.warning, "2 images that cannot be read are left out"));
      assert_int_equal(lines.n_warnings, cache && round ? 1 : 3); /* from the cache, it is known */
      lines.n_warnings = 0;
    }
  }
  put_file("set/test/ant/2.png", png(9, H, W, 3));
  check_failed(&lines, try_set((ronde__data_options){.cache = true}), RONDE_E_INPUT, "/cat/bad.png: ", "PNG");
  test_write("", path, "", 0);
  check_failed(&lines, try_set((ronde__data_options){.cache = true}), RONDE_E_INPUT, "/cat/bad.png: ", "not a PNG");
  put_file("set/train/Bee/z.png", test_bytes_make("", 0));
  put_file("set/train/ant/z.png", test_bytes_make("", 0));
  put_file("set/train/cat/a.PNG", test_bytes_make("", 0));
  put_file("set/train/cat/b.png", test_bytes_make("", 0));
  check_failed(&lines, try_set((ronde__data_options){.cache = true, .skip_bad_images = true}), RONDE_E_INPUT,
               "none of the 5 training images", "");
  free(cut.data);
  free(path);
}

/* Headers that claim far more than there is are refused before anything is allocated. */
static void test_claims_are_not_believed(void **state) {
  put_good_set();
  test_bytes bomb = png(1, H, W, 3);
  test_put_be(bomb.data + 16, 30000);
  test_put_be(bomb.data + 20, 30000);
  test_put_be(bomb.data + 29, (uint32_t)crc32(0, bomb.data + 12, 17));
  put_file("set/train/cat/bomb.png", bomb);
  check_failed(&lines, try_set((ronde__data_options){.cache = true}), RONDE_E_INPUT,
               "/cat/bomb.png: offset 16: ", "30000x30000 pixels; at most 67108864");
}

static void test_sixteen_bits_become_eight(void **state) {
  uint8_t pixels[H * W * 2];
  for (int i = 0; i < H * W; ++i) pixels[2 * i] = pixels[2 * i + 1] = pixel(1, i / W, i % W, 0);
  put_file("set/a/1.png", test_png(H, W, 1, 16, pixels));
  ronde__data *data;
  assert_int_equal(open_folder((ronde__data_options){.cache = true}, &data), RONDE_OK);
  check_example(data, 0, 0, 1, 0, 1);
  ronde__data_close(data);
}

/* Another file, class or option leads to another cache. A file that changes while the set is open is an error. */
static void test_the_cache_follows_the_tree(void **state) {
  ronde__data *data;
  put_file("set/a/1.png", png(1, H, W, 3));
  assert_int_equal(try_set((ronde__data_options){.cache = true}), RONDE_OK);
  put_file("set/a/1.png", png(2, H, W, 3));
  put_file("set/b/1.png", png(3, H, W, 3));
  assert_int_equal(open_folder((ronde__data_options){.cache = true}, &data), RONDE_OK);
  check_example(data, 0, 0, 2, 0, 3);
  check_example(data, 0, 1, 3, 1, 3);
  ronde__data_close(data);
  assert_int_equal(open_folder((ronde__data_options){.cache = true, .resize = {4, 4}}, &data), RONDE_OK);
  assert_int_equal(data->source.dims[1], 4);
  ronde__data_close(data);
  assert_int_equal(open_folder((ronde__data_options){.cache = false}, &data), RONDE_OK);
  put_file("set/b/1.png", png(3, H + 1, W, 3));
  int64_t id = 0, label;
  float x[3 * H * W];
  check_failed(&lines, data->source.read(data->source.user, 0, &id, 1, x, &label, NULL), RONDE_E_INPUT, "/set/b/1.png",
               "changed while it was in use");
  ronde__data_close(data);
}

/* ---- JPEG ------------------------------------------------------------------------------------------------------ */

#ifdef RONDE_HAVE_JPEG

/* Smooth, so that few of its bits are lost. */
static uint8_t smooth(int64_t h, int64_t w, int c) { return (uint8_t)(40 + 5 * h + 4 * w + 20 * c); }

static test_bytes jpeg(int channels, int form) {
  uint8_t pixels[16 * 16 * 4], *at = pixels;
  for (int h = 0; h < 16; ++h)
    for (int w = 0; w < 16; ++w)
      for (int c = 0; c < channels; ++c) *at++ = smooth(h, w, c);
  return test_jpeg(16, 16, channels, form, pixels);
}

static ronde_status decode(test_bytes file, size_t bytes, int channels, uint8_t **x) {
  int64_t h, w;
  ronde_status status = ronde__image_decode("image", file.data, bytes, channels, &h, &w, x);
  if (status == RONDE_OK) assert_true(h == 16 && w == 16);
  return status;
}

static void test_jpeg_pixels(void **state) {
  for (int form = 0; form < 2; ++form)
    for (int channels = 1; channels <= 3; channels += 2) {
      test_bytes file = jpeg(channels, form);
      uint8_t *x;
      assert_int_equal(decode(file, file.n, channels, &x), RONDE_OK);
      for (int c = 0; c < channels; ++c)
        for (int p = 0; p < 256; ++p) assert_float_equal(x[256 * c + p], smooth(p / 16, p % 16, c), 3);
      ronde__free(x);
      assert_int_equal(decode(file, file.n, 4 - channels, &x), RONDE_OK);
      for (int p = 0; p < 256; ++p) assert_float_equal(x[p], smooth(p / 16, p % 16, channels == 3), 6);
      ronde__free(x);
      free(file.data);
    }
}

static void test_bad_jpegs_are_named(void **state) {
  uint8_t *x;
  test_bytes cmyk = jpeg(4, TEST_JPEG_UNMARKED);
  check_failed(&lines, decode(cmyk, cmyk.n, 3, &x), RONDE_E_INPUT, "image: ", "CMYK");
  free(cmyk.data);
  for (int form = 0; form < 2; ++form) {
    test_bytes file = jpeg(3, form);
    for (size_t bytes = 3; bytes + 2 < file.n; bytes += 17) {
      test_log_start(&lines);
      check_failed(&lines, decode(file, bytes, 3, &x), RONDE_E_INPUT, "image: an incomplete or damaged JPEG: ", "");
    }
    for (size_t at = 0; at + 9 < file.n; ++at) { /* the frame's header: marker, length, precision, height, width */
      if (file.data[at] != 0xff || (file.data[at + 1] != 0xc0 && file.data[at + 1] != 0xc2)) continue;
      memcpy(file.data + at + 5, "\x75\x30\x75\x30", 4);
      check_failed(&lines, decode(file, file.n, 3, &x), RONDE_E_INPUT, "30000x30000", "; at most");
      memcpy(file.data + at + 5, "\xff\x00\x00\x10", 4);
      check_failed(&lines, decode(file, file.n, 3, &x), RONDE_E_INPUT, "65280x16", "at most 32768 a side");
      break;
    }
    free(file.data);
  }
}

static void test_folders_of_both_formats(void **state) {
  uint8_t *x;
  test_bytes file = jpeg(3, TEST_JPEG_PROGRESSIVE);
  assert_int_equal(decode(file, file.n, 3, &x), RONDE_OK);
  put_file("set/a/1.jpeg", file);
  put_file("set/a/2.JPG", jpeg(1, TEST_JPEG_PLAIN));
  put_file("set/b/1.png", png(1, 16, 16, 3));
  put_file("set/b/2.png", jpeg(3, TEST_JPEG_PLAIN)); /* what it is says its content */
  ronde__data *data;
  assert_int_equal(open_folder((ronde__data_options){.cache = true}, &data), RONDE_OK);
  int64_t ids[] = {0, 1, 2, 3}, labels[4];
  static float got[4 * 768];
  assert_int_equal(data->source.read(data->source.user, 0, ids, 4, got, labels, NULL), RONDE_OK);
  assert_true(labels[0] == 0 && labels[1] == 0 && labels[2] == 1 && labels[3] == 1);
  for (int p = 0; p < 768; ++p) assert_float_equal(got[p], x[p] / 255.0, 1e-6);
  ronde__data_close(data);
  ronde__free(x);
  test_log_start(&lines);
  put_file("set/b/3.jpg", jpeg(4, TEST_JPEG_UNMARKED));
  check_failed(&lines, try_set((ronde__data_options){.cache = true}), RONDE_E_INPUT, "/set/b/3.jpg: ", "CMYK");
}

#endif

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(test_classes_are_folders_in_order),    TEST(test_grey_sets_and_val_and_flat_folders),
      TEST(test_trees_that_are_no_sets),          TEST(test_sizes_must_be_one),
      TEST(test_bad_images_are_named_or_skipped), TEST(test_claims_are_not_believed),
      TEST(test_sixteen_bits_become_eight),       TEST(test_the_cache_follows_the_tree),
      TEST(test_splits_without_training),
  };
  int failed = ronde__image_supported() ? cmocka_run_group_tests(tests, NULL, NULL) : 0;
#ifdef RONDE_HAVE_JPEG
  const struct CMUnitTest jpeg_tests[] = {TEST(test_jpeg_pixels), TEST(test_bad_jpegs_are_named),
                                          TEST(test_folders_of_both_formats)};
  failed += cmocka_run_group_tests(jpeg_tests, NULL, NULL);
#endif
#undef TEST
  return failed;
}

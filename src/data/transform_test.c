/* Resizing and random moves of images, and which examples get which. */
#include "data/testing.h"

#include "data/data.h"
#include "data/transform.h"

static test_log lines;

/* ---- size ------------------------------------------------------------------------------------------------------ */

/* What torch.nn.functional.interpolate(mode="bilinear", align_corners=False) of PyTorch 2 makes of it. */
static const uint8_t image[12] = {0, 13, 26, 10, 7, 25, 14, 3, 14, 8, 2, 25};
static const float to_5x7[] = {0.0f,       4.6428576f, 12.071429f, 19.500002f, 24.85714f,  15.714283f, 10.0f,
                               2.8000002f, 8.1571436f, 16.728573f, 19.5f,      20.199995f, 12.199997f, 7.1999998f,
                               7.0f,       13.428572f, 23.714287f, 19.499998f, 13.214283f, 6.9285698f, 3.0f,
                               11.200001f, 12.485714f, 14.542854f, 10.799997f, 7.4714293f, 12.84286f,  16.200003f,
                               14.0f,      11.857141f, 8.4285707f, 4.9999995f, 3.6428616f, 16.785719f, 25.0f};
static const float to_2x2[] = {8.875f, 15.625f, 12.25f, 12.25f};
static const float to_1x3[] = {10.0f, 19.5f, 4.8333316f};
static const float to_6x1[] = {19.5f, 19.5f, 19.5f, 15.875f, 8.625f, 5.0f};
static const float to_3x4[] = {0, 13, 26, 10, 7, 25, 14, 3, 14, 8, 2, 25};

static void test_sizes_as_pytorch_makes_them(void **state) {
  const struct {
    int64_t to[2];
    const float *wanted;
  } cases[] = {{{5, 7}, to_5x7}, {{2, 2}, to_2x2}, {{1, 3}, to_1x3}, {{6, 1}, to_6x1}, {{3, 4}, to_3x4}};
  for (size_t i = 0; i < RONDE__COUNT(cases); ++i) {
    ronde__resizer *resizer;
    int64_t n = cases[i].to[0] * cases[i].to[1];
    uint8_t pixels[24];
    float values[24], y[2 * 35];
    for (int p = 0; p < 24; ++p) {
      pixels[p] = (uint8_t)(image[p % 12] + (p < 12 ? 0 : 100));
      values[p] = pixels[p];
    }
    assert_int_equal(ronde__resizer_create((int64_t[]){3, 4}, cases[i].to, &resizer), RONDE_OK);
    for (int f32 = 0; f32 < 2; ++f32) {
      if (f32) ronde__resize_f32(resizer, 2, values, y);
      else ronde__resize_u8(resizer, 2, pixels, y);
      for (int64_t p = 0; p < n; ++p) {
        assert_float_equal(y[p], cases[i].wanted[p], 2e-5);
        assert_float_equal(y[n + p], cases[i].wanted[p] + 100, 5e-5);
      }
    }
    ronde__resizer_destroy(resizer);
  }
}

static void test_planes_of_one_pixel_become_flat(void **state) {
  float *x = ronde__alloc(2 * sizeof *x);
  x[0] = 3, x[1] = -5;
  assert_int_equal(ronde__planes_resize(2, (int64_t[]){1, 1}, (int64_t[]){2, 3}, &x), RONDE_OK);
  for (int i = 0; i < 12; ++i) assert_float_equal(x[i], i < 6 ? 3 : -5, 0);
  ronde__free(x);
}

/* ---- chance ---------------------------------------------------------------------------------------------------- */

enum { SIDE = 2 * RONDE__CROP_PADDING + 1 };

static void test_moves_are_as_likely_as_each_other(void **state) {
  enum { N = 81 * 400 };
  int counts[SIDE][SIDE] = {{0}}, n_mirrored = 0;
  for (int id = 0; id < N; ++id) {
    ronde__move move = ronde__move_draw(5, 1 + id % 3, id, true, true);
    assert_true(move.down >= -4 && move.down <= 4 && move.right >= -4 && move.right <= 4);
    ++counts[move.down + 4][move.right + 4];
    n_mirrored += move.mirror;
  }
  for (int i = 0; i < SIDE * SIDE; ++i) assert_in_range(counts[i / SIDE][i % SIDE], 400 - 6 * 20, 400 + 6 * 20);
  assert_in_range(n_mirrored, N / 2 - 6 * 90, N / 2 + 6 * 90);
}

static void test_moves_follow_seed_epoch_and_id(void **state) {
  int n_equal[3] = {0};
  for (int id = 0; id < 1000; ++id) {
    ronde__move a = ronde__move_draw(5, 1, id, true, true), again = ronde__move_draw(5, 1, id, true, true);
    assert_memory_equal(&a.down, &again.down, 2 * sizeof a.down);
    assert_int_equal(a.mirror, again.mirror);
    const ronde__move others[] = {ronde__move_draw(6, 1, id, true, true), ronde__move_draw(5, 2, id, true, true),
                                  ronde__move_draw(5, 1, id + 1, true, true)};
    for (int i = 0; i < 3; ++i)
      n_equal[i] += a.down == others[i].down && a.right == others[i].right && a.mirror == others[i].mirror;
    ronde__move crop = ronde__move_draw(5, 1, id, true, false), flip = ronde__move_draw(5, 1, id, false, true);
    assert_true(crop.down == a.down && crop.right == a.right && !crop.mirror);
    assert_true(flip.down == 0 && flip.right == 0 && flip.mirror == a.mirror);
  }
  for (int i = 0; i < 3; ++i) assert_in_range(n_equal[i], 0, 30); /* by chance: 1 in 162 */
}

static void test_moved_pixels(void **state) {
  enum { N = 2, H = 6, W = 5 };
  uint8_t x[N][H][W], y[N][H][W];
  float fx[N][H][W], fy[N][H][W];
  for (int i = 0; i < N * H * W; ++i) (&fx[0][0][0])[i] = (&x[0][0][0])[i] = (uint8_t)(i + 1);
  for (int down = -4; down <= 4; ++down)
    for (int right = -4; right <= 4; ++right)
      for (int mirror = 0; mirror < 2; ++mirror) {
        const ronde__move move = {down, right, mirror};
        const int64_t sides[] = {H, W};
        ronde__move_apply(move, N, sides, 1, x, y);
        ronde__move_apply(move, N, sides, sizeof(float), fx, fy);
        for (int n = 0; n < N; ++n)
          for (int h = 0; h < H; ++h)
            for (int w = 0; w < W; ++w) {
              int from_h = h + down, from_w = (mirror ? W - 1 - w : w) + right;
              bool inside = from_h >= 0 && from_h < H && from_w >= 0 && from_w < W;
              int wanted = inside ? x[n][from_h][from_w] : 0;
              assert_int_equal(y[n][h][w], wanted);
              assert_float_equal(fy[n][h][w], wanted, 0);
            }
      }
}

/* ---- in a set -------------------------------------------------------------------------------------------------- */

#define SPEC "synthetic:3x8x6:4:30"
enum { N_SET = 30, PLANE = 48, ELEMS = 3 * PLANE };

static ronde__data *open_images(ronde__data_options options) {
  ronde__data *data;
  options.spec = SPEC;
  options.seed = 9;
  assert_int_equal(ronde__data_open(&options, &data), RONDE_OK);
  return data;
}

static void read_plain(ronde__data *data, int split, int64_t n, float *x) {
  int64_t ids[N_SET], labels[N_SET];
  for (int64_t i = 0; i < n; ++i) ids[i] = i;
  assert_int_equal(data->source.read(data->source.user, split, ids, n, x, labels, NULL), RONDE_OK);
}

static ronde__sampler *make_sampler(void) {
  ronde__sampler *sampler;
  const ronde__sampler_options options = {.n_train = N_SET, .repeat = 1, .batch = 7, .shuffle = true, .seed = 3};
  assert_int_equal(ronde__sampler_create(&options, &sampler), RONDE_OK);
  return sampler;
}

/* Two epochs in the order of the global list, from all ranks. */
static void gather_batch(ronde__data *data, int world, bool whole, int prefetch, int64_t elems, float *x) {
  ronde__sampler *sampler = make_sampler();
  ronde__loader *loaders[3];
  for (int r = 0; r < world; ++r) {
    const ronde__loader_options options = {
        .data = data, .sampler = sampler, .rank = r, .world = world, .whole = whole, .prefetch = prefetch};
    assert_int_equal(ronde__loader_create(&options, &loaders[r]), RONDE_OK);
  }
  for (int64_t b = 0; b < 2 * ronde__sampler_epoch_batches(sampler); ++b)
    for (int r = 0; r < world; ++r) {
      ronde__batch batch;
      assert_int_equal(ronde__loader_next(loaders[r], &batch), RONDE_OK);
      memcpy(x, batch.x, (size_t)(batch.n * elems) * sizeof *x);
      x += batch.n * elems;
    }
  for (int r = 0; r < world; ++r) ronde__loader_destroy(loaders[r]);
  ronde__sampler_destroy(sampler);
}

/* Each image of two epochs is the plain one, moved as drawn, whichever rank reads it and however far ahead. */
static void test_batches_are_the_moved_images(void **state) {
  static float plain[N_SET * ELEMS], got[2 * N_SET * ELEMS], wanted[ELEMS];
  ronde__data *still = open_images((ronde__data_options){.cache = false});
  read_plain(still, RONDE_SPLIT_TRAIN, N_SET, plain);
  ronde__sampler *sampler = make_sampler();
  for (int round = 0; round < 6; ++round) {
    bool cache = round % 2, whole = round == 3;
    ronde__data *data = open_images((ronde__data_options){.cache = cache, .crop = true, .flip = round != 2});
    assert_string_equal(data->sha256, still->sha256);
    gather_batch(data, 1 + round % 3, whole, round / 2, ELEMS, got);
    for (int epoch = 1; epoch <= 2; ++epoch) {
      int64_t ids[N_SET];
      assert_int_equal(ronde__sampler_epoch(sampler, epoch, ids), RONDE_OK);
      for (int i = 0; i < N_SET; ++i) {
        ronde__move move = ronde__move_draw(9, epoch, ids[i], true, round != 2);
        ronde__move_apply(move, 3, (int64_t[]){8, 6}, sizeof(float), plain + ids[i] * ELEMS, wanted);
        assert_memory_equal(got + ((epoch - 1) * N_SET + i) * ELEMS, wanted, sizeof wanted);
      }
    }
    read_plain(data, RONDE_SPLIT_TRAIN, N_SET, got); /* as validation reads it */
    assert_memory_equal(got, plain, sizeof plain);
    ronde__data_close(data);
  }
  ronde__sampler_destroy(sampler);
  ronde__data_close(still);
}

static void test_resized_sets(void **state) {
  enum { H = 11, W = 9, OUT = 3 * H * W };
  static float plain[N_SET * ELEMS], got[2 * N_SET * OUT], wanted[2 * N_SET * OUT], moved[OUT];
  const int64_t from[] = {8, 6}, to[] = {H, W};
  ronde__data *still = open_images((ronde__data_options){.cache = true});
  read_plain(still, RONDE_SPLIT_TRAIN, N_SET, plain);
  ronde__resizer *resizer;
  assert_int_equal(ronde__resizer_create(from, to, &resizer), RONDE_OK);
  ronde__resize_f32(resizer, N_SET * 3, plain, wanted);
  ronde__sampler *sampler = make_sampler();
  for (int round = 0; round < 4; ++round) {
    bool crop = round / 2;
    const ronde__data_options options = {.cache = round % 2, .resize = {H, W}, .crop = crop, .flip = crop};
    ronde__data *data = open_images(options);
    assert_string_equal(data->sha256, still->sha256);
    assert_true(data->source.dims[0] == 3 && data->source.dims[1] == H && data->source.dims[2] == W);
    read_plain(data, RONDE_SPLIT_TRAIN, N_SET, got);
    for (int i = 0; i < N_SET * OUT; ++i) assert_float_equal(got[i], wanted[i], 1e-6);
    gather_batch(data, 2, false, 1, OUT, got);
    int64_t ids[N_SET];
    assert_int_equal(ronde__sampler_epoch(sampler, 2, ids), RONDE_OK);
    for (int i = 0; i < N_SET; ++i) {
      ronde__move move = ronde__move_draw(9, 2, ids[i], crop, crop);
      ronde__move_apply(move, 3, to, sizeof(float), wanted + ids[i] * OUT, moved);
      for (int e = 0; e < OUT; ++e) assert_float_equal(got[(N_SET + i) * OUT + e], moved[e], 1e-6);
    }
    ronde__data_close(data);
  }
  ronde__sampler_destroy(sampler);
  ronde__resizer_destroy(resizer);
  ronde__data_close(still);
}

/* The border is black before normalisation, not grey after it. */
static void test_the_border_is_normalised_too(void **state) {
  char *folder = test_folder_create(), *spec = ronde__format("mnist:%s", folder);
  test_write_idx_pair(folder, "train", N_SET, 8, 6, 3, false);
  test_write_idx_pair(folder, "t10k", 2, 8, 6, 3, false);
  for (int resize = 0; resize < 2; ++resize) {
    static float got[2 * N_SET * 2 * PLANE];
    ronde__data *data;
    ronde__data_options options = {.spec = spec, .normalize = true, .crop = true, .seed = 9};
    if (resize) options.resize[0] = 8, options.resize[1] = 12;
    assert_int_equal(ronde__data_open(&options, &data), RONDE_OK);
    int64_t width = resize ? 12 : 6, n_black = 0, ids[N_SET];
    gather_batch(data, 1, false, 0, 8 * width, got);
    ronde__sampler *sampler = make_sampler();
    assert_int_equal(ronde__sampler_epoch(sampler, 1, ids), RONDE_OK);
    for (int i = 0; i < N_SET; ++i) {
      ronde__move move = ronde__move_draw(9, 1, ids[i], true, false);
      for (int64_t p = 0; p < 8 * width; ++p) {
        int64_t h = p / width + move.down, w = p % width + move.right;
        if (h >= 0 && h < 8 && w >= 0 && w < width) continue;
        assert_float_equal(got[i * 8 * width + p], -.1307 / .3081, 1e-6);
        ++n_black;
      }
    }
    assert_true(n_black > 0);
    ronde__sampler_destroy(sampler);
    ronde__data_close(data);
  }
  free(spec);
  test_folder_destroy(folder);
}

static void test_tiny_images_cannot_be_cropped(void **state) {
  ronde__data *data;
  ronde__data_options options = {.spec = "synthetic:1x4x9:2:5", .crop = true};
  check_failed(&lines, ronde__data_open(&options, &data), RONDE_E_USAGE, "4x9", "too small");
  options.resize[0] = options.resize[1] = 5;
  assert_int_equal(ronde__data_open(&options, &data), RONDE_OK);
  ronde__data_close(data);
}

static int setup(void **state) {
  *state = test_folder_create();
  setenv("RONDE_CACHE_DIR", *state, 1);
  test_log_start(&lines);
  return 0;
}

static int teardown(void **state) {
  ronde_log_set(NULL, NULL);
  test_folder_destroy(*state);
  return 0;
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(test_sizes_as_pytorch_makes_them),
      TEST(test_planes_of_one_pixel_become_flat),
      TEST(test_moves_are_as_likely_as_each_other),
      TEST(test_moves_follow_seed_epoch_and_id),
      TEST(test_moved_pixels),
      TEST(test_batches_are_the_moved_images),
      TEST(test_resized_sets),
      TEST(test_the_border_is_normalised_too),
      TEST(test_tiny_images_cannot_be_cropped),
  };
#undef TEST
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The kernels of convolution in groups against f64. */
#include "kernel/kernel_testing.h"

enum { MAX_TAPS = 9, MAX_ROWS = 21 };

static const struct {
  int64_t block;
  int group;
} widths[] = {{16, 1}, {48, 1}, {64, 1}, {16, 2}, {48, 4}, {32, 8}, {32, 16}, {64, 32}, {48, 48}};

/* The input that channel j meets in place k of its group. */
static double input_of(const float *row, int64_t j, int group, int k) { return (double)row[j / group * group + k]; }

/* ---- rows by lists ---- */

/* Taps overlap, out of order; a range of rows each. */
static void check_rows(int64_t count, int64_t rows, int64_t n, int group, bool bias, bool accumulate) {
  uint64_t x_offsets[MAX_TAPS], w_offsets[MAX_TAPS];
  for (int t = 0; t < MAX_TAPS; t++) {
    x_offsets[t] = (uint64_t)(t * 5 % MAX_TAPS * n);
    w_offsets[t] = (uint64_t)((MAX_TAPS - 1 - t) * n);
  }
  floats x = floats_make((MAX_TAPS + rows) * n, 1), w = floats_make(MAX_TAPS * n * group, 2),
         y = floats_make(rows * n, 3), added = floats_make(n, 1);
  floats got = floats_copy(&y, 3);
  kernels->grouped->rows(&(ronde__grouped_rows){.x = x.at,
                                                .w = w.at,
                                                .x_offsets = x_offsets,
                                                .w_offsets = w_offsets,
                                                .count = count,
                                                .rows = rows,
                                                .block = n,
                                                .group = group,
                                                .w_input = MAX_TAPS * n,
                                                .y = got.at,
                                                .bias = bias ? added.at : NULL,
                                                .accumulate = accumulate});
  for (int64_t i = 0; i < rows * n; i++) {
    double want = (accumulate ? (double)y.at[i] : 0) + (bias ? (double)added.at[i % n] : 0);
    for (int64_t t = 0; t < count; t++)
      for (int k = 0; k < group; k++)
        want += input_of(x.at + x_offsets[t] + i / n * n, i % n, group, k) *
                (double)w.at[(int64_t)w_offsets[t] + k * MAX_TAPS * n + i % n];
    assert_true(fabs((double)got.at[i] - want) <= 2e-7 * (double)(count * group + 2));
  }
  floats_free(&x), floats_free(&w), floats_free(&y), floats_free(&got), floats_free(&added);
}

static void test_rows(void **state) {
  for (size_t i = 0; i < RONDE__COUNT(widths); i++)
    for (int64_t count = 0; count <= MAX_TAPS; count++)
      for (int64_t rows = 0; rows <= MAX_ROWS; rows += 1 + rows / 5)
        for (int how = 0; how < 4; how++) check_rows(count, rows, widths[i].block, widths[i].group, how & 1, how & 2);
}

/* A row's result does not depend on how many there are. */
static void test_a_row_has_the_same_bits_in_any_place(void **state) {
  const uint64_t x_offsets[] = {0, 16, 64}, w_offsets[] = {32, 0, 16};
  floats x = floats_make((MAX_ROWS + 4) * 16, 1), w = floats_make(64, 0);
  float all[MAX_ROWS * 16], one[16];
  ronde__grouped_rows rows = {.x = x.at,
                              .w = w.at,
                              .x_offsets = x_offsets,
                              .w_offsets = w_offsets,
                              .count = 3,
                              .rows = MAX_ROWS,
                              .block = 16,
                              .group = 1,
                              .y = all};
  kernels->grouped->rows(&rows);
  rows.rows = 1, rows.y = one;
  for (int r = 0; r < MAX_ROWS; r++) {
    rows.x = x.at + r * 16;
    kernels->grouped->rows(&rows);
    assert_true(same_bits(one, all + r * 16, 16));
  }
  floats_free(&x), floats_free(&w);
}

/* ---- tiles ---- */

enum { TILE = RONDE__GROUPED_COLUMNS };

/* Inputs [rows][columns][n][block] of two rows of outputs, weights [group][kh][kw][block] in order or backwards. */
static void check_tile(int kh, int kw, int stride, int64_t n, int64_t block, int group, int rows, bool backwards,
                       bool bias, bool accumulate) {
  int row_stride = 3 - stride % 3, in_rows = (rows - 1) * row_stride + kh, columns = (TILE - 1) * stride + kw;
  int64_t pixel = n * block, taps = (int64_t)kh * kw;
  floats x = floats_make(in_rows * columns * pixel, 1), w = floats_make(taps * group * block, 2);
  floats y = floats_make(rows * TILE * pixel, 3), got = floats_copy(&y, 3), added = floats_make(block, 1);
  int sign = backwards ? -1 : 1;
  ronde__grouped_tile tile = {.x = x.at,
                              .x_row = columns * pixel,
                              .x_column = pixel,
                              .w = w.at + (backwards ? (taps - 1) * block : 0),
                              .w_row = sign * kw * block,
                              .w_column = sign * block,
                              .w_input = taps * block,
                              .y = got.at,
                              .y_row = TILE * pixel,
                              .y_column = pixel,
                              .taps = {kh, kw},
                              .stride = {row_stride, stride},
                              .rows = rows,
                              .begin = in_rows > 1, /* the first row is in the padding */
                              .end = in_rows,
                              .n = n,
                              .block = block,
                              .group = group,
                              .bias = bias ? added.at : NULL,
                              .accumulate = accumulate};
  kernels->grouped->tile(&tile);
  for (int64_t i = 0; i < y.n; i++) {
    int64_t q = i / pixel / TILE, p = i / pixel % TILE, r = i / block % n, j = i % block;
    double want = (accumulate ? (double)y.at[i] : 0) + (bias ? (double)added.at[j] : 0);
    for (int t = 0; t < taps; t++)
      for (int k = 0; k < group; k++) {
        int64_t row = q * row_stride + t / kw, column = p * stride + t % kw;
        if (row < tile.begin) continue;
        want += input_of(x.at + (row * columns + column) * pixel + r * block, j, group, k) *
                (double)w.at[(k * taps + (backwards ? taps - 1 - t : t)) * block + j];
      }
    assert_true(fabs((double)got.at[i] - want) <= 2e-7 * (double)(taps * group + 2));
  }
  floats_free(&x), floats_free(&w), floats_free(&y), floats_free(&got), floats_free(&added);
}

static void test_tiles(void **state) {
  int n_tiles = 0;
  for (size_t i = 0; i < RONDE__COUNT(widths); i++)
    for (int kw = 1; kw <= 8; kw++)
      for (int stride = 1; stride <= 3; stride++)
        for (int kh = 1; kh <= 3 && ronde__grouped_tile_fits(kw, stride, widths[i].group); kh++, n_tiles++) {
          check_tile(kh, kw, stride, 1, widths[i].block, widths[i].group, 2, false, true, false);
          check_tile(kh, kw, stride, 3, widths[i].block, widths[i].group, 1, true, false, true);
        }
  assert_true(n_tiles > 100);
}

/* ---- gradients of weights ---- */

static void check_weights(int kh, int kw, int stride, int64_t n, int64_t tiles, int64_t block, int group) {
  int64_t pixel = n * block, outputs = tiles * TILE, columns = (outputs - 1) * stride + kw, taps = (int64_t)kh * kw;
  floats x = floats_make(kh * columns * pixel, 1), dy = floats_make(outputs * pixel, 2);
  floats dw = floats_make(taps * group * block, 3), got = floats_copy(&dw, 3);
  ronde__grouped_weights weights = {.x = x.at,
                                    .x_row = columns * pixel,
                                    .x_column = pixel,
                                    .dy = dy.at,
                                    .dy_column = pixel,
                                    .dw = got.at,
                                    .w_row = kw * block,
                                    .w_column = block,
                                    .w_input = taps * block,
                                    .taps = {kh, kw},
                                    .stride = stride,
                                    .tiles = tiles,
                                    .n = n,
                                    .block = block,
                                    .channel = block - 16,
                                    .group = group};
  kernels->grouped->weights(&weights);
  for (int64_t i = 0; i < dw.n; i++) {
    int64_t j = i % block, k = i / block / taps, t = i / block % taps;
    double want = dw.at[i];
    for (int64_t r = 0; r < outputs * n && j >= weights.channel; r++) {
      int64_t place = (t / kw * columns + r / n * stride + t % kw) * pixel + r % n * block;
      want += (double)dy.at[r * block + j] * input_of(x.at + place, j, group, (int)k);
    }
    assert_true(fabs((double)got.at[i] - want) <= 2e-6 * (1 + sqrt((double)(outputs * n))));
  }
  floats_free(&x), floats_free(&dy), floats_free(&dw), floats_free(&got);
}

static void test_weights(void **state) {
  for (size_t i = 0; i < RONDE__COUNT(widths); i++)
    for (int kw = 1; kw <= 8; kw++)
      for (int stride = 1; stride <= 2; stride++) {
        int together = ronde__grouped_weight_rows(kw, stride, widths[i].group);
        for (int kh = 1; kh <= together; kh += together > 1 ? together - 1 : 1) {
          check_weights(kh, kw, stride, 3, 2, widths[i].block, widths[i].group);
          check_weights(kh, kw, stride, 70, 1, widths[i].block, widths[i].group);
        }
      }
}

static void test_dots(void **state) {
  for (size_t i = 0; i < RONDE__COUNT(widths); i++)
    for (int64_t rows = 0; rows < 1000; rows += 1 + rows) {
      int64_t n = widths[i].block, channel = n - 16;
      int group = widths[i].group;
      floats a = floats_make(rows * n, 1), b = floats_make(rows * n, 2), out = floats_make(n * group, 3);
      floats got = floats_copy(&out, 3);
      kernels->grouped->dots(&(ronde__grouped_dots){a.at, b.at, rows, n, channel, group, n, got.at});
      for (int64_t e = 0; e < out.n; e++) {
        double want = out.at[e];
        for (int64_t r = 0; r < rows && e % n >= channel; r++)
          want += (double)a.at[r * n + e % n] * input_of(b.at + r * n, e % n, group, (int)(e / n));
        assert_true(fabs((double)got.at[e] - want) <= 1e-6 * (1 + sqrt((double)rows)));
      }
      floats_free(&a), floats_free(&b), floats_free(&out), floats_free(&got);
    }
}

/* A plain f32 sum of so many equal values would be off by far more. */
static void test_long_sums_keep_their_precision(void **state) {
  enum { ROWS = 200000 };
  floats a = floats_make(ROWS * 16, 0);
  float out[16] = {0}, dw[16 * 3] = {0};
  for (int64_t i = 0; i < a.n; i++) a.at[i] = 0.1f;
  kernels->grouped->dots(&(ronde__grouped_dots){a.at, a.at, ROWS, 16, 0, 1, 0, out});
  kernels->grouped->weights(&(ronde__grouped_weights){.x = a.at,
                                                      .x_column = 16,
                                                      .dy = a.at,
                                                      .dy_column = 16,
                                                      .dw = dw,
                                                      .w_column = 16,
                                                      .taps = {1, 3},
                                                      .stride = 1,
                                                      .tiles = ROWS / TILE - 1,
                                                      .n = 1,
                                                      .block = 16,
                                                      .group = 1});
  double want = ROWS * (double)0.1f * (double)0.1f;
  for (int j = 0; j < 16; j++) assert_true(fabs((double)out[j] / want - 1) < 1e-4);
  for (int j = 0; j < 48; j++) assert_true(fabs((double)dw[j] / want - 1) < 1e-4);
  floats_free(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows),  cmocka_unit_test(test_a_row_has_the_same_bits_in_any_place),
      cmocka_unit_test(test_tiles), cmocka_unit_test(test_weights),
      cmocka_unit_test(test_dots),  cmocka_unit_test(test_long_sums_keep_their_precision),
  };
  return RUN_WITH_EACH_TABLE(tests);
}

/* The kernels of depthwise convolution against f64. */
#include "kernel/kernel_testing.h"

enum { MAX_TAPS = 9, MAX_ROWS = 21 };

static const int64_t widths[] = {16, 48, 64};

/* Taps overlap, out of order; a range of rows each. */
static void check_rows(int64_t count, int64_t rows, int64_t n, bool accumulate) {
  uint64_t x_offsets[MAX_TAPS], w_offsets[MAX_TAPS];
  for (int t = 0; t < MAX_TAPS; t++) {
    x_offsets[t] = (uint64_t)((t * 5 % MAX_TAPS) * n) * sizeof(float);
    w_offsets[t] = (uint64_t)((MAX_TAPS - 1 - t) * n) * sizeof(float);
  }
  floats x = floats_make((MAX_TAPS + rows) * n, 1), w = floats_make(MAX_TAPS * n, 2), y = floats_make(rows * n, 3);
  floats got = floats_copy(&y, 3);
  kernels->depthwise_rows(x.at, x_offsets, w.at, w_offsets, count, rows, n, got.at, accumulate);
  for (int64_t i = 0; i < rows * n; i++) {
    double want = accumulate ? (double)y.at[i] : 0;
    for (int64_t t = 0; t < count; t++)
      want += (double)x.at[x_offsets[t] / sizeof(float) + (size_t)i] *
              (double)w.at[w_offsets[t] / sizeof(float) + (size_t)(i % n)];
    assert_true(fabs((double)got.at[i] - want) <= 2e-7 * (double)(count + 1));
  }
  floats_free(&x), floats_free(&w), floats_free(&y), floats_free(&got);
}

static void test_rows(void **state) {
  for (size_t i = 0; i < RONDE__COUNT(widths); i++)
    for (int64_t count = 0; count <= MAX_TAPS; count++)
      for (int64_t rows = 0; rows <= MAX_ROWS; rows += 1 + rows / 5)
        for (int accumulate = 0; accumulate < 2; accumulate++) check_rows(count, rows, widths[i], accumulate);
}

/* A row's result does not depend on how many there are. */
static void test_a_row_has_the_same_bits_in_any_place(void **state) {
  const uint64_t x_offsets[] = {0, 64, 256}, w_offsets[] = {128, 0, 64};
  floats x = floats_make((MAX_ROWS + 4) * 16, 1), w = floats_make(64, 0);
  float all[MAX_ROWS * 16], one[16];
  kernels->depthwise_rows(x.at, x_offsets, w.at, w_offsets, 3, MAX_ROWS, 16, all, false);
  for (int r = 0; r < MAX_ROWS; r++) {
    kernels->depthwise_rows(x.at + r * 16, x_offsets, w.at, w_offsets, 3, 1, 16, one, false);
    assert_true(same_bits(one, all + r * 16, 16));
  }
  floats_free(&x), floats_free(&w);
}

static void test_column_dots(void **state) {
  for (size_t i = 0; i < RONDE__COUNT(widths); i++)
    for (int64_t rows = 0; rows < 1000; rows += 1 + rows) {
      int64_t n = widths[i];
      floats a = floats_make(rows * n, 1), b = floats_make(rows * n, 2), out = floats_make(n, 3);
      floats got = floats_copy(&out, 3);
      kernels->column_dots(a.at, b.at, rows, n, got.at);
      for (int64_t j = 0; j < n; j++) {
        double want = out.at[j];
        for (int64_t r = 0; r < rows; r++) want += (double)a.at[r * n + j] * (double)b.at[r * n + j];
        assert_true(fabs((double)got.at[j] - want) <= 1e-6 * (1 + sqrt((double)rows)));
      }
      floats_free(&a), floats_free(&b), floats_free(&out), floats_free(&got);
    }
}

/* A plain f32 sum of so many equal values would be off by far more. */
static void test_long_dots_keep_their_precision(void **state) {
  enum { ROWS = 200000 };
  floats a = floats_make(ROWS * 16, 0);
  float out[16] = {0};
  for (int64_t i = 0; i < a.n; i++) a.at[i] = 0.1f;
  kernels->column_dots(a.at, a.at, ROWS, 16, out);
  double want = ROWS * (double)0.1f * (double)0.1f;
  for (int j = 0; j < 16; j++) assert_true(fabs((double)out[j] / want - 1) < 1e-4);
  floats_free(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows),
      cmocka_unit_test(test_a_row_has_the_same_bits_in_any_place),
      cmocka_unit_test(test_column_dots),
      cmocka_unit_test(test_long_dots_keep_their_precision),
  };
  return RUN_WITH_EACH_TABLE(tests);
}

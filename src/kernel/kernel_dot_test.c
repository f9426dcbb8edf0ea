/* Dot products of planes against f64, for every shape of tile and for rows that are cut into chunks. */
#include "kernel/kernel_testing.h"

static void check_dot(int m, int k, int64_t rows, int64_t len, bool accumulate) {
  int64_t a_row = len + 16, a_stride = rows * a_row + 3, ldo = k + 2;
  int64_t b_row = len + 5, b_stride = 7; /* b's planes overlap, as taps do */
  floats a = floats_make(m * a_stride, 1), b = floats_make(k * b_stride + rows * b_row, 2);
  floats out = floats_make(m * ldo, 3), got = floats_copy(&out, 3);
  kernels->dot_tile(a.at, a_stride, a_row, m, b.at, b_stride, b_row, k, rows, len, got.at, ldo, accumulate);
  double bound = 1e-6 * (1 + sqrt((double)(rows * len)));
  for (int i = 0; i < m; i++)
    for (int j = 0; j < ldo; j++) {
      double sum = accumulate || j >= k ? out.at[i * ldo + j] : 0;
      for (int64_t r = 0; j < k && r < rows; r++)
        for (int64_t e = 0; e < len; e++)
          sum += (double)a.at[i * a_stride + r * a_row + e] * (double)b.at[j * b_stride + r * b_row + e];
      if (fabs((double)got.at[i * ldo + j] - sum) > (j < k ? bound : 0))
        fail_msg("m %d k %d rows %d len %d: [%d][%d] is %g instead of %g", m, k, (int)rows, (int)len, i, j,
                 got.at[i * ldo + j], sum);
    }
  floats_free(&a), floats_free(&b), floats_free(&out), floats_free(&got);
}

static void test_every_tile(void **state) {
  for (int m = 1; m <= 13; m++)
    for (int k = 1; k <= 13; k++) {
      check_dot(m, k, 1 + (m + k) % 3, 16 * (1 + m % 3), k & 1);
      check_dot(m, k, 1 + (m + k) % 3, 1 + (5 * m + 3 * k) % 67, m & 1);
    }
}

static void test_chunks(void **state) {
  check_dot(6, 5, 28, 28 * 48, false);
  check_dot(3, 2, 5, 4096 + 16, true);
  check_dot(4, 5, 7, 4096 + 42, false);
  check_dot(2, 3, 300, 48, false);
  check_dot(1, 1, 2, 16 * 1024, false);
}

static void test_nothing_to_add(void **state) {
  for (int accumulate = 0; accumulate < 2; accumulate++) check_dot(5, 7, 0, 16, accumulate);
}

static void test_nan_and_inf_pass(void **state) {
  floats a = floats_make(3 * 32, 0), b = floats_make(2 * 32, 0);
  float out[6];
  a.at[32 + 31] = NAN;
  b.at[32] = -INFINITY;
  kernels->dot_tile(a.at, 32, 32, 3, b.at, 32, 32, 2, 1, 32, out, 2, false);
  for (int i = 0; i < 6; i++) assert_true(i / 2 == 1 ? isnan(out[i]) : i % 2 == 1 ? isinf(out[i]) : isfinite(out[i]));
  floats_free(&a), floats_free(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_tile),
      cmocka_unit_test(test_chunks),
      cmocka_unit_test(test_nothing_to_add),
      cmocka_unit_test(test_nan_and_inf_pass),
  };
  return RUN_WITH_EACH_TABLE(tests);
}

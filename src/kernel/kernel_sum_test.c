/* Sums against f64, and the checks for NaN and Inf. */
#include "kernel/kernel_testing.h"

static const int64_t lengths[] = {0,  1,  7,   8,    15,   16,   17,   31,        33,   63,
                                  64, 65, 100, 1000, 4095, 4096, 4097, 16384 + 5, 70001};

static void test_sum(void **state) {
  for (size_t l = 0; l < RONDE__COUNT(lengths); l++) {
    floats x = floats_make(lengths[l], 1);
    double want = 0;
    for (int64_t i = 0; i < x.n; i++) want += x.at[i];
    assert_true(fabs((double)kernels->sum(x.at, x.n) - want) <= 1e-6 * (1 + sqrt((double)x.n)));
    floats_free(&x);
  }
}

/* A plain f32 sum of so many equal values would be off by far more than one part in a million. */
static void test_long_sums_keep_their_precision(void **state) {
  floats x = floats_make(3000000, 0);
  for (int64_t i = 0; i < x.n; i++) x.at[i] = 0.1f;
  assert_true(fabs((double)kernels->sum(x.at, x.n) / ((double)x.n * (double)0.1f) - 1) < 1e-6);
  float columns[3] = {0};
  kernels->column_sums(x.at, 3, x.n / 3, 3, columns);
  for (int j = 0; j < 3; j++) assert_true(fabs((double)columns[j] / ((double)(x.n / 3) * (double)0.1f) - 1) < 1e-5);
  floats_free(&x);
}

static void check_columns(int64_t rows, int64_t n) {
  int64_t ld = n + 3;
  floats dy = floats_make(rows * ld, 1), db = floats_make(n, 2), got = floats_copy(&db, 2);
  kernels->column_sums(dy.at, ld, rows, n, got.at);
  for (int64_t j = 0; j < n; j++) {
    double want = db.at[j];
    for (int64_t r = 0; r < rows; r++) want += dy.at[r * ld + j];
    assert_true(fabs((double)got.at[j] - want) <= 1e-6 * (1 + sqrt((double)rows)));
  }
  floats_free(&dy), floats_free(&db), floats_free(&got);
}

static void test_column_sums(void **state) {
  for (int64_t n = 1; n < 150; n += 1 + n / 20)
    for (int64_t rows = 0; rows < 300; rows += 1 + rows) check_columns(rows, n);
}

/* accumulate 2: without dx. */
static void check_gate(int64_t rows, int64_t n, int accumulate) {
  floats dy = floats_make(rows * n, 1), x = floats_make(rows * n, 2), gate = floats_make(n, 3);
  floats dx = floats_make(rows * n, 1), before = floats_copy(&dx, 0), sums = floats_make(n, 5);
  kernels->gate->backward(dy.at, x.at, gate.at, rows, n, accumulate == 2 ? NULL : dx.at, accumulate == 1, sums.at);
  for (int64_t j = 0; j < n; j++) {
    double want = 0;
    for (int64_t r = 0; r < rows; r++) want += (double)dy.at[r * n + j] * (double)x.at[r * n + j];
    assert_true(fabs((double)sums.at[j] - want) <= 1e-6 * (1 + sqrt((double)rows)));
  }
  for (int64_t i = 0; i < rows * n; i++) {
    double product = (double)dy.at[i] * (double)gate.at[i % n];
    if (accumulate == 2) assert_true(dx.at[i] == before.at[i]);
    else assert_true(fabs((double)dx.at[i] - product - (accumulate ? (double)before.at[i] : 0)) <= 2.4e-7);
  }
  kernels->gate->forward(x.at, gate.at, rows, n, dx.at);
  for (int64_t i = 0; i < rows * n; i++) assert_true(dx.at[i] == x.at[i] * gate.at[i % n]);
  floats *all[] = {&dy, &x, &gate, &dx, &before, &sums};
  for (size_t i = 0; i < RONDE__COUNT(all); i++) floats_free(all[i]);
}

static void test_gates(void **state) {
  for (int64_t n = 16; n <= 144; n += 64)
    for (int64_t rows = 0; rows < 100; rows += 1 + rows)
      for (int accumulate = 0; accumulate < 3; accumulate++) check_gate(rows, n, accumulate);
}

static double sum_of_products(const floats *x, const floats *y) {
  double lane[8] = {0};
  for (int64_t i = 0; i < x->n; i++) lane[i % 8] += (double)x->at[i] * (double)y->at[i];
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

static void test_sums_of_products_are_the_same_everywhere(void **state) {
  for (size_t l = 0; l < RONDE__COUNT(lengths); l++) {
    floats x = floats_make(lengths[l], 3), y = floats_make(lengths[l], 4);
    assert_true(kernels->sum_squares(x.at, x.n) == sum_of_products(&x, &x));
    assert_true(kernels->dot(x.at, y.at, x.n) == sum_of_products(&x, &y));
    floats_free(&x);
    floats_free(&y);
  }
}

static void test_finds_nan_and_inf_at_every_place(void **state) {
  const float broken[] = {NAN, INFINITY, -INFINITY};
  for (size_t l = 0; l < RONDE__COUNT(lengths); l++) {
    floats x = floats_make(lengths[l], 1);
    assert_true(kernels->all_finite(x.at, x.n));
    assert_true(isfinite(kernels->sum(x.at, x.n)));
    for (int64_t i = 0; i < x.n; i += 1 + i / 3) {
      float kept = x.at[i];
      x.at[i] = broken[i % 3];
      assert_false(kernels->all_finite(x.at, x.n));
      assert_false(isfinite(kernels->sum(x.at, x.n)));
      assert_false(isfinite(kernels->sum_squares(x.at, x.n)));
      x.at[i] = kept;
    }
    if (x.n) {
      x.at[x.n - 1] = 3.4e38f;
      assert_true(kernels->all_finite(x.at, x.n));
      assert_true(isfinite(kernels->sum_squares(x.at, x.n))); /* past the range of f32 */
    }
    floats_free(&x);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sum),
      cmocka_unit_test(test_long_sums_keep_their_precision),
      cmocka_unit_test(test_column_sums),
      cmocka_unit_test(test_gates),
      cmocka_unit_test(test_sums_of_products_are_the_same_everywhere),
      cmocka_unit_test(test_finds_nan_and_inf_at_every_place),
  };
  return RUN_WITH_EACH_TABLE(tests);
}

/* The rows of a softmax against f64. */
#include "kernel/kernel_testing.h"

static const int64_t lengths[] = {1, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 100, 1000};

static void test_max(void **state) {
  for (size_t l = 0; l < RONDE__COUNT(lengths); l++) {
    floats x = floats_make(lengths[l], 1);
    for (int64_t i = 0; i < x.n; i++) {
      float kept = x.at[i];
      x.at[i] = 3 + (float)i;
      assert_true(kernels->max(x.at, x.n) == 3 + (float)i);
      x.at[i] = kept;
    }
    for (int64_t i = 0; i < x.n; i++) x.at[i] = -INFINITY;
    assert_true(kernels->max(x.at, x.n) == -INFINITY);
    floats_free(&x);
  }
}

/* The exponent's own error beside that of the polynomial. */
static void test_exp_sum(void **state) {
  for (size_t l = 0; l < RONDE__COUNT(lengths); l++) {
    floats x = floats_make(lengths[l], 1), y = floats_copy(&x, 2);
    double sum = 0;
    float got = kernels->exp_sum(y.at, 2.5f, 1.25f, y.n);
    for (int64_t i = 0; i < x.n; i++) {
      double want = exp(2.5 * (double)x.at[i] - 1.25);
      assert_true(fabs((double)y.at[i] - want) <= 8e-7 * want);
      sum += (double)y.at[i];
    }
    assert_true(fabs((double)got - sum) <= 1e-6 * sum);
    y.at[0] = NAN;
    assert_true(isnan(kernels->exp_sum(y.at, 1, 0, y.n)));
    y.at[0] = -INFINITY;
    kernels->exp_sum(y.at, 1, 0, y.n);
    assert_true(y.at[0] == 0);
    floats_free(&x), floats_free(&y);
  }
}

static void test_softmax_backward(void **state) {
  for (size_t l = 0; l < RONDE__COUNT(lengths); l++) {
    floats p = floats_make(lengths[l], 1), dp = floats_make(lengths[l], 2), ds = floats_copy(&p, 2);
    kernels->softmax_backward(p.at, dp.at, 0.75f, ds.at, p.n);
    for (int64_t i = 0; i < p.n; i++) assert_true(ds.at[i] == p.at[i] * (dp.at[i] - 0.75f));
    floats_free(&p), floats_free(&dp), floats_free(&ds);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_max),
      cmocka_unit_test(test_exp_sum),
      cmocka_unit_test(test_softmax_backward),
  };
  return RUN_WITH_EACH_TABLE(tests);
}

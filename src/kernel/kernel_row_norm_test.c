/* Layer norm and RMS norm of rows against f64, at every length of a tail. */
#include "kernel/kernel_testing.h"

typedef struct exact_row {
  double mean, r;
} exact_row;

static exact_row statistics_of(const float *x, int64_t n, double eps, bool centred) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < n && centred; i++) sum += (double)x[i];
  double mean = sum / (double)n;
  for (int64_t i = 0; i < n; i++) squares += ((double)x[i] - mean) * ((double)x[i] - mean);
  return (exact_row){mean, 1 / sqrt(squares / (double)n + eps)};
}

static double z_of(exact_row row, float x) { return ((double)x - row.mean) * row.r; }

typedef struct tensors {
  floats x, dy, weight, bias, y, dx, statistics;
  ronde__row_norm norm;
  int64_t rows, n;
} tensors;

static tensors tensors_make(int64_t rows, int64_t n, bool centred, float offset) {
  tensors t = {.rows = rows, .n = n};
  t.x = floats_make(rows * n, 1), t.dy = floats_make(rows * n, 2), t.y = floats_make(rows * n, 3);
  t.dx = floats_make(rows * n, 0), t.weight = floats_make(n, 1), t.bias = floats_make(n, 2);
  t.statistics = floats_make(2 * rows, 1);
  for (int64_t i = 0; i < rows * n; i++) t.x.at[i] += offset;
  t.norm = (ronde__row_norm){.weight = t.weight.at,
                             .bias = centred ? t.bias.at : NULL,
                             .eps = 1e-5f,
                             .centred = centred,
                             .n = n,
                             .piece = n,
                             .apart = n,
                             .ld = n};
  return t;
}

static void tensors_free(tensors *t) {
  floats *all[] = {&t->x, &t->dy, &t->weight, &t->bias, &t->y, &t->dx, &t->statistics};
  for (size_t i = 0; i < RONDE__COUNT(all); i++) floats_free(all[i]);
}

static void check_forward(tensors *t, double bound) {
  kernels->row_norm->forward(&t->norm, t->x.at, t->rows, t->statistics.at, t->y.at);
  for (int64_t row = 0; row < t->rows; row++) {
    const float *x = t->x.at + row * t->n;
    exact_row exact = statistics_of(x, t->n, (double)t->norm.eps, t->norm.centred);
    assert_true(fabs((double)t->statistics.at[2 * row] - exact.mean) <= bound);
    assert_true(fabs((double)t->statistics.at[2 * row + 1] / exact.r - 1) <= bound);
    for (int64_t i = 0; i < t->n; i++) {
      double want = z_of(exact, x[i]) * (double)t->weight.at[i] + (t->norm.bias ? (double)t->bias.at[i] : 0);
      assert_true(fabs((double)t->y.at[row * t->n + i] - want) <= bound * (1 + fabs(z_of(exact, x[i]))));
    }
  }
}

static void check_data(tensors *t, bool accumulate) {
  floats before = floats_copy(&t->dx, 0);
  kernels->row_norm->backward(&t->norm, t->x.at, t->dy.at, t->statistics.at, t->rows, t->dx.at, accumulate);
  for (int64_t row = 0; row < t->rows; row++) {
    const float *x = t->x.at + row * t->n, *dy = t->dy.at + row * t->n;
    exact_row exact = statistics_of(x, t->n, (double)t->norm.eps, t->norm.centred);
    double sum = 0, dot = 0;
    for (int64_t i = 0; i < t->n; i++) {
      double e = (double)dy[i] * (double)t->weight.at[i];
      sum += t->norm.centred ? e : 0;
      dot += e * z_of(exact, x[i]);
    }
    for (int64_t i = 0; i < t->n; i++) {
      double e = (double)dy[i] * (double)t->weight.at[i], z = z_of(exact, x[i]);
      double want = exact.r * (e - sum / (double)t->n - z * dot / (double)t->n);
      if (accumulate) want += (double)before.at[row * t->n + i];
      assert_true(fabs((double)t->dx.at[row * t->n + i] - want) <= 1e-5 * (1 + exact.r * (1 + fabs(z))));
    }
  }
  floats_free(&before);
}

static void check_sums(tensors *t, int64_t first, int64_t n, bool with_bias) {
  floats dweight = floats_make(n, 1), dbias = floats_make(n, 2);
  floats weight_before = floats_copy(&dweight, 0), bias_before = floats_copy(&dbias, 0);
  kernels->row_norm->sums(&t->norm, t->x.at, t->dy.at, t->statistics.at, t->rows, first, first + n, dweight.at,
                          with_bias ? dbias.at : NULL);
  for (int64_t j = 0; j < n; j++) {
    double sum = 0, dot = 0, size = 0;
    for (int64_t row = 0; row < t->rows; row++) {
      int64_t at = row * t->n + first + j;
      exact_row said = {(double)t->statistics.at[2 * row], (double)t->statistics.at[2 * row + 1]};
      sum += (double)t->dy.at[at];
      dot += (double)t->dy.at[at] * z_of(said, t->x.at[at]);
      size += fabs((double)t->dy.at[at] * z_of(said, t->x.at[at]));
    }
    assert_true(fabs((double)dweight.at[j] - (double)weight_before.at[j] - dot) <= 1e-6 * (1 + size));
    double bias = (double)bias_before.at[j] + (with_bias ? sum : 0);
    assert_true(fabs((double)dbias.at[j] - bias) <= 1e-6 * (1 + sqrt((double)t->rows)));
  }
  floats *all[] = {&dweight, &dbias, &weight_before, &bias_before};
  for (size_t i = 0; i < RONDE__COUNT(all); i++) floats_free(all[i]);
}

static void check(int64_t rows, int64_t n, bool centred) {
  tensors t = tensors_make(rows, n, centred, 0.5f);
  check_forward(&t, 2e-6);
  check_data(&t, rows % 2);
  check_sums(&t, 0, n, centred);
  if (n > 3) check_sums(&t, 2, n - 3, !centred); /* a thread's part */
  tensors_free(&t);
}

static void test_every_tail(void **state) {
  for (int64_t n = 2; n < 150; n++)
    for (int64_t rows = 1; rows < 6; rows++) check(rows, n, n % 3 != 0);
}

/* Longer than a chunk of a sum in either direction. */
static void test_long_rows_and_many(void **state) {
  check(3, 4096 * 3 + 5, true);
  check(2, 4096 * 2 + 1, false);
  check(128 * 3 + 7, 33, true);
}

/* Of values around 100 with a deviation of 0.6 a variance by squares would lose four digits. */
static void test_a_mean_far_from_zero(void **state) {
  tensors t = tensors_make(4, 771, true, 100);
  check_forward(&t, 1e-4);
  tensors_free(&t);
}

/* A row's bits do not depend on the rows beside it, nor does dx on whether it takes dy's place. */
static void test_rows_alone_and_in_place(void **state) {
  enum { ROWS = 5, N = 77 };
  tensors t = tensors_make(ROWS, N, true, 0);
  floats y = floats_make(N, 2), statistics = floats_make(2, 1);
  kernels->row_norm->forward(&t.norm, t.x.at, ROWS, t.statistics.at, t.y.at);
  kernels->row_norm->backward(&t.norm, t.x.at, t.dy.at, t.statistics.at, ROWS, t.dx.at, false);
  kernels->row_norm->forward(&t.norm, t.x.at + 3 * N, 1, statistics.at, y.at);
  assert_true(same_bits(y.at, t.y.at + 3 * N, N));
  assert_true(same_bits(statistics.at, t.statistics.at + 6, 2));
  kernels->row_norm->backward(&t.norm, t.x.at, t.dy.at, t.statistics.at, ROWS, t.dy.at, false);
  assert_true(same_bits(t.dy.at, t.dx.at, ROWS * N));
  floats_free(&y), floats_free(&statistics);
  tensors_free(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_tail),
      cmocka_unit_test(test_long_rows_and_many),
      cmocka_unit_test(test_a_mean_far_from_zero),
      cmocka_unit_test(test_rows_alone_and_in_place),
  };
  return RUN_WITH_EACH_TABLE(tests);
}

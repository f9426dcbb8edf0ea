/* A softmax over a row, and tiles of one over rows, against f64: tile by tile, what a column sees, columns that see nothing, and what is no number. */
#include "kernel/kernel_testing.h"

enum { LD = 70, ROWS = 64, TILES = 3 };

static const int64_t widths[] = {1, 7, 8, 15, 16, 17, 31, 33, 63, 64};
static const float factor = 2.5f;

static bool sees(int64_t r, int64_t c, int64_t reach) { return r <= c + reach; }

/* Three tiles, of which the first shows a column c its rows up to c - 5: the first columns begin with nothing. */
static void test_tiles_become_one_softmax(void **state) {
  static const int64_t reaches[TILES] = {-5, 3, ROWS};
  for (size_t w = 0; w < RONDE__COUNT(widths); w++) {
    int64_t n = widths[w];
    floats x = floats_make(TILES * ROWS * LD, 1), p = floats_copy(&x, 2);
    float most[LD], sum[LD], changed[LD];
    for (int64_t c = 0; c < n; c++) most[c] = -INFINITY, sum[c] = 0;
    for (int t = 0; t < TILES; t++) {
      kernels->softmax_columns(p.at + t * ROWS * LD, LD, ROWS, n, reaches[t], factor, most, sum, changed);
      for (int64_t c = 0; c < n; c++) assert_true(changed[c] >= 0 && changed[c] <= 1);
      for (int before = 0; before < t; before++)
        kernels->scale_columns(p.at + before * ROWS * LD, LD, ROWS, n, changed);
    }
    for (int64_t c = 0; c < n; c++) {
      double total = 0, largest = -INFINITY;
      for (int64_t r = 0; r < TILES * ROWS; r++)
        if (sees(r % ROWS, c, reaches[r / ROWS])) largest = fmax(largest, 2.5 * (double)x.at[r * LD + c]);
      for (int64_t r = 0; r < TILES * ROWS; r++) {
        bool seen = sees(r % ROWS, c, reaches[r / ROWS]);
        double want = seen ? exp(2.5 * (double)x.at[r * LD + c] - largest) : 0;
        assert_true(fabs((double)p.at[r * LD + c] - want) <= 2e-6 * want);
        total += want;
      }
      assert_true(fabs((double)most[c] - largest) <= 1e-6 * fabs(largest));
      assert_true(fabs((double)sum[c] - total) <= 4e-6 * total);
    }
    for (int64_t r = 0; r < TILES * ROWS; r++) /* what lies beside the columns stays */
      for (int64_t c = n; c < LD; c++) assert_true(p.at[r * LD + c] == x.at[r * LD + c]);
    floats_free(&x), floats_free(&p);
  }
}

static void test_columns_that_see_nothing(void **state) {
  floats x = floats_make(ROWS * LD, 1);
  float most[LD], sum[LD], changed[LD];
  for (int64_t c = 0; c < 33; c++) most[c] = -INFINITY, sum[c] = 0;
  kernels->softmax_columns(x.at, LD, ROWS, 33, -40, factor, most, sum, changed);
  for (int64_t c = 0; c < 33; c++) {
    assert_true(most[c] == -INFINITY && sum[c] == 0 && changed[c] == 1);
    for (int64_t r = 0; r < ROWS; r++) assert_true(x.at[r * LD + c] == 0);
  }
  floats_free(&x);
}

/* It reaches the sum of its own column alone. */
static void test_what_is_no_number(void **state) {
  floats x = floats_make(ROWS * LD, 1);
  float most[LD], sum[LD], changed[LD];
  for (int64_t c = 0; c < 20; c++) most[c] = -INFINITY, sum[c] = 0;
  x.at[7 * LD + 3] = NAN;
  kernels->softmax_columns(x.at, LD, ROWS, 20, ROWS, factor, most, sum, changed);
  for (int64_t c = 0; c < 20; c++) assert_true(isnan(sum[c]) == (c == 3));
  floats_free(&x);
}

static void test_backward(void **state) {
  static const int64_t reaches[] = {-5, 0, 3, ROWS};
  for (size_t w = 0; w < RONDE__COUNT(widths) * RONDE__COUNT(reaches); w++) {
    int64_t n = widths[w / RONDE__COUNT(reaches)], reach = reaches[w % RONDE__COUNT(reaches)];
    floats x = floats_make(ROWS * LD, 1), dx = floats_make(ROWS * LD, 2), p = floats_copy(&x, 2),
           ds = floats_copy(&dx, 2);
    floats shift = floats_make(n, 3), dots = floats_make(n, 4);
    kernels->softmax_columns_backward(p.at, ds.at, LD, ROWS, n, reach, factor, shift.at, dots.at);
    for (int64_t i = 0; i < ROWS * LD; i++) {
      int64_t r = i / LD, c = i % LD;
      if (c >= n) {
        assert_true(p.at[i] == x.at[i] && ds.at[i] == dx.at[i]);
        continue;
      }
      double want = sees(r, c, reach) ? exp(2.5 * (double)x.at[i] - (double)shift.at[c]) : 0;
      assert_true(fabs((double)p.at[i] - want) <= 8e-7 * want);
      assert_true(ds.at[i] == (sees(r, c, reach) ? p.at[i] * ((dx.at[i] - dots.at[c]) * factor) : 0));
    }
    floats_free(&x), floats_free(&dx), floats_free(&p), floats_free(&ds), floats_free(&shift), floats_free(&dots);
  }
}

/* Of every length around whole vectors; numbers up to -120, whose exponentials are 0. */
static void test_a_row_in_two_parts(void **state) {
  for (int64_t n = 1; n <= 140; n++) {
    floats x = floats_make(n, 1), e;
    double largest = -INFINITY, total = 0;
    for (int64_t i = 0; i < n; i++) x.at[i] *= 60, largest = fmax(largest, (double)x.at[i]);
    e = floats_copy(&x, 3);
    float most = kernels->largest(x.at, n);
    assert_true((double)most == largest);
    double sum = kernels->exp_sum(e.at, most, n);
    for (int64_t i = 0; i < n; i++) {
      assert_true(ulps(e.at[i], exp((double)(x.at[i] - most))) <= 2);
      total += (double)e.at[i];
    }
    assert_true(fabs(sum - total) <= 1e-14 * total);
    floats_free(&x), floats_free(&e);
  }
}

static void test_a_row_with_what_is_no_number(void **state) {
  for (int64_t n = 1; n <= 70; n++)
    for (int64_t at = 0; at < n; at++) {
      floats x = floats_make(n, 1);
      double largest = -INFINITY;
      x.at[at] = NAN;
      for (int64_t i = 0; i < n; i++) largest = i == at ? largest : fmax(largest, (double)x.at[i]);
      assert_true((double)kernels->largest(x.at, n) == largest);
      assert_true(isnan(kernels->exp_sum(x.at, 1, n)));
      floats_free(&x);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_row_in_two_parts),       cmocka_unit_test(test_a_row_with_what_is_no_number),
      cmocka_unit_test(test_tiles_become_one_softmax), cmocka_unit_test(test_columns_that_see_nothing),
      cmocka_unit_test(test_what_is_no_number),        cmocka_unit_test(test_backward),
  };
  return RUN_WITH_EACH_TABLE(tests);
}

/* The kernels of batch normalisation: of f32 against f64, of bfloat16 against those of f32 on the same numbers. */
#include "kernel/bf16.h"
#include "kernel/kernel_testing.h"

#include <stdio.h>

enum { WIDTHS = 5, MAX_ROWS = 64, MAX_N = 144, MAX = MAX_ROWS * MAX_N };
static const int64_t widths[WIDTHS] = {16, 48, 64, 80, MAX_N};

/* Rows of values and of a gradient, and what channels are transformed with. Numbers of bfloat16. */
typedef struct operands {
  float x[MAX], y[MAX], dy[MAX], dx[MAX];
  float mean[MAX_N], a[MAX_N], b[MAX_N], c[MAX_N];
  int64_t rows, n;
} operands;

static const ronde__bf16 *bf16;
static operands in;

/* A sixth of the values is zero, which a ReLU cuts off. */
static void fill(float *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) x[i] = i % 6 == 5 ? 0 : random_float();
}

static void make(int64_t rows, int64_t n) {
  in.rows = rows, in.n = n;
  fill(in.x, MAX), fill(in.y, MAX), fill(in.dy, MAX), fill(in.dx, MAX);
  fill(in.mean, MAX_N), fill(in.a, MAX_N), fill(in.b, MAX_N), fill(in.c, MAX_N);
}

static bool is_near(float got, double want, double size) { return fabs((double)got - want) <= 1e-6 * size; }

/* ---- f32 against f64 ---- */

static void check_moments(void) {
  float mean[MAX_N], m2[MAX_N];
  kernels->norm->moments(in.x, in.rows, in.n, mean, m2);
  for (int64_t j = 0; j < in.n; j++) {
    double sum = 0, square = 0;
    for (int64_t r = 0; r < in.rows; r++) sum += (double)in.x[r * in.n + j];
    for (int64_t r = 0; r < in.rows; r++) square += pow((double)in.x[r * in.n + j] - sum / (double)in.rows, 2);
    assert_true(is_near(mean[j], sum / (double)in.rows, 1));
    assert_true(is_near(m2[j], square, 1 + square));
  }
}

static void check_affine(bool residual, bool act) {
  static float y[MAX];
  kernels->norm->affine(in.x, residual ? in.y : NULL, in.rows, in.n, in.a, in.b, act, y);
  for (int64_t i = 0; i < in.rows * in.n; i++) {
    int64_t j = i % in.n;
    double want = (double)in.x[i] * (double)in.a[j] + (double)in.b[j] + (residual ? (double)in.y[i] : 0);
    assert_true(is_near(y[i], act ? fmax(want, 0) : want, 1));
  }
}

/* y: a ReLU's output is given; shift: it is computed again. */
static void check_sums(bool y, bool shift) {
  static float dy[MAX];
  float sum_dy[MAX_N], sum_dyx[MAX_N];
  memcpy(dy, in.dy, sizeof dy);
  kernels->norm->sums(dy, y ? in.y : NULL, in.x, in.rows, in.n, in.mean, in.a, shift ? in.b : NULL, sum_dy, sum_dyx);
  for (int64_t j = 0; j < in.n; j++) {
    double sum = 0, product = 0;
    for (int64_t r = 0; r < in.rows; r++) {
      int64_t i = r * in.n + j;
      bool cut = (y && in.y[i] <= 0) || (shift && fmaf(in.x[i], in.a[j], in.b[j]) <= 0);
      double d = cut ? 0 : (double)in.dy[i];
      assert_true(dy[i] == (y && cut ? 0 : in.dy[i]));
      sum += d, product += d * ((double)in.x[i] - (double)in.mean[j]);
    }
    assert_true(is_near(sum_dy[j], sum, (double)in.rows));
    assert_true(is_near(sum_dyx[j], product, (double)in.rows));
  }
}

static void check_backward(bool shift, bool accumulate) {
  static float dx[MAX];
  memcpy(dx, in.dx, sizeof dx);
  kernels->norm->backward(in.dy, in.x, in.rows, in.n, in.mean, in.a, in.b, in.c, shift ? in.y : NULL, dx, accumulate);
  for (int64_t i = 0; i < in.rows * in.n; i++) {
    int64_t j = i % in.n;
    bool cut = shift && fmaf(in.x[i], in.a[j], in.y[j]) <= 0;
    double want = ((double)in.x[i] - (double)in.mean[j]) * (double)in.b[j] + (double)in.c[j];
    want += (cut ? 0 : (double)in.dy[i]) * (double)in.a[j] + (accumulate ? (double)in.dx[i] : 0);
    assert_true(is_near(dx[i], want, 3));
  }
}

static void each_size(void (*check)(void)) {
  for (int w = 0; w < WIDTHS; w++)
    for (int64_t rows = 1; rows <= MAX_ROWS; rows += 1 + rows) {
      make(rows, widths[w]);
      check();
    }
}

static void check_f32(void) {
  check_moments();
  for (int how = 0; how < 4; how++) check_affine(how & 1, how & 2);
  check_sums(false, false), check_sums(true, false), check_sums(false, true);
  for (int how = 0; how < 4; how++) check_backward(how & 1, how & 2);
}

static void test_f32(void **state) { each_size(check_f32); }

/* ---- bfloat16 against f32 ---- */

/* got are the bits of `wanted`, rounded. */
static void assert_rounded(const uint16_t *got, const float *wanted) {
  static uint16_t rounded[MAX];
  bf16->pack(wanted, in.rows * in.n, rounded);
  assert_memory_equal(got, rounded, (size_t)(in.rows * in.n) * sizeof *got);
}

static void check_narrow(void) {
  static uint16_t x[MAX], y[MAX], dy[MAX], dx[MAX], out[MAX];
  static float wide[MAX];
  float first[MAX_N], second[MAX_N], first_wide[MAX_N], second_wide[MAX_N];
  const int64_t rows = in.rows, n = in.n;
  bf16->pack(in.x, MAX, x), bf16->pack(in.y, MAX, y);

  bf16->norm->moments(x, rows, n, first, second);
  kernels->norm->moments(in.x, rows, n, first_wide, second_wide);
  assert_true(same_bits(first, first_wide, n) && same_bits(second, second_wide, n));

  for (int how = 0; how < 4; how++) {
    bf16->norm->affine(x, how & 1 ? y : NULL, rows, n, in.a, in.b, how & 2, out);
    kernels->norm->affine(in.x, how & 1 ? in.y : NULL, rows, n, in.a, in.b, how & 2, wide);
    assert_rounded(out, wide);
  }
  for (int how = 0; how < 3; how++) {
    const float *shift = how == 2 ? in.b : NULL;
    bf16->pack(in.dy, MAX, dy);
    memcpy(wide, in.dy, sizeof wide);
    bf16->norm->sums(dy, how == 1 ? y : NULL, x, rows, n, in.mean, in.a, shift, first, second);
    kernels->norm->sums(wide, how == 1 ? in.y : NULL, in.x, rows, n, in.mean, in.a, shift, first_wide, second_wide);
    assert_true(same_bits(first, first_wide, n) && same_bits(second, second_wide, n));
    assert_rounded(dy, wide);
  }
  for (int how = 0; how < 4; how++) {
    const float *shift = how & 1 ? in.y : NULL;
    bf16->pack(in.dx, MAX, dx), bf16->pack(in.dy, MAX, dy);
    memcpy(wide, in.dx, sizeof wide);
    bf16->norm->backward(dy, x, rows, n, in.mean, in.a, in.b, in.c, shift, dx, how & 2);
    kernels->norm->backward(in.dy, in.x, rows, n, in.mean, in.a, in.b, in.c, shift, wide, how & 2);
    assert_rounded(dx, wide);
  }
}

static void test_bfloat16(void **state) {
  if (strcmp(kernels->isa, "avx512") != 0) return; /* the set that has it */
  for (int i = 0; (bf16 = ronde__bf16_available(i)); i++) each_size(check_narrow);
}

int main(void) {
  if (!ronde__bf16_available(0)) puts("SKIP: this CPU has no bfloat16: its kernels are not tested");
  random_bits = 8;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_f32), cmocka_unit_test(test_bfloat16)};
  return RUN_WITH_EACH_TABLE(tests);
}

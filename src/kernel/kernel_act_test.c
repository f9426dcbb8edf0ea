/* Activations against libm in f64, over the whole range. */
#include "kernel/kernel_testing.h"
#include "kernel/ref.h"

static const ronde__activation acts[] = {RONDE__ACT_NONE, RONDE__ACT_RELU, RONDE__ACT_TANH, RONDE__ACT_SIGMOID};

static float float_of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static double exact(ronde__activation act, double x) { return act == RONDE__ACT_TANH ? tanh(x) : 1 / (1 + exp(-x)); }

/* Every 4,093rd bit pattern, both signs: denormals, infinities and NaN are among them. */
static void check_range(ronde__activation act, double bound) {
  enum { BATCH = 1024 };
  float x[BATCH], y[BATCH];
  double worst = 0, worst_at = 0;
  for (uint64_t bits = 0; bits < UINT64_C(1) << 32;) {
    int n = 0;
    for (; n < BATCH && bits < UINT64_C(1) << 32; bits += 4093) x[n++] = float_of_bits((uint32_t)bits);
    kernels->act_forward(x, y, n, act);
    for (int i = 0; i < n; i++) {
      double off = ulps(y[i], exact(act, x[i]));
      if (off > worst) worst = off, worst_at = x[i];
    }
  }
  print_message("%s: activation %d: at most %.3f ulp, at %.9g\n", kernels->isa, (int)act, worst, worst_at);
  assert_true(worst < bound);
}

static void test_tanh_over_the_whole_range(void **state) { check_range(RONDE__ACT_TANH, 2.5); }
static void test_sigmoid_over_the_whole_range(void **state) { check_range(RONDE__ACT_SIGMOID, 3); }

/* f64 gives the same for these: no rounding but the last is involved. */
static void test_special_values(void **state) {
  const float denormal = float_of_bits(1);
  const float x[] = {0.0f, -0.0f, denormal, -denormal, INFINITY, -INFINITY, NAN, 1e38f, -1e38f, 88.7f, -88.7f, -103.5f};
  enum { N = RONDE__COUNT(x) };
  for (size_t a = 0; a < RONDE__COUNT(acts); a++) {
    float y[N], want[N];
    kernels->act_forward(x, y, N, acts[a]);
    ronde__ref_act_forward(acts[a], N, x, want);
    for (int i = 0; i < N; i++) {
      assert_true(ulps(y[i], want[i]) <= 2);
      if (acts[a] == RONDE__ACT_TANH) assert_int_equal(signbit(y[i]), signbit(x[i]));
    }
  }
}

/* The same value at each place of arrays of each length, aligned or not. */
static void test_bits_do_not_depend_on_the_place(void **state) {
  for (size_t a = 0; a < RONDE__COUNT(acts); a++) {
    floats x = floats_make(67, 0);
    for (int64_t i = 0; i < x.n; i++) x.at[i] *= 3;
    floats whole = floats_make(67, 0);
    kernels->act_forward(x.at, whole.at, x.n, acts[a]);
    for (int begin = 0; begin < 20; begin++)
      for (int64_t n = 0; n <= x.n - begin; n += 1 + n / 9) {
        floats y = floats_make(n, begin % 7);
        kernels->act_forward(x.at + begin, y.at, n, acts[a]);
        assert_true(same_bits(y.at, whole.at + begin, n));
        floats_free(&y);
      }
    floats_free(&x), floats_free(&whole);
  }
}

static void check_rows(ronde__activation act, int n, int valid, bool with_bias) {
  enum { ROWS = 3, GAP = 2 };
  int ld = n + GAP;
  floats y = floats_make(ROWS * ld, 1), bias = floats_make(valid, 3), got = floats_copy(&y, 1);
  kernels->bias_act_rows(got.at, ld, ROWS, n, valid, with_bias ? bias.at : NULL, act);
  for (int r = 0; r < ROWS; r++)
    for (int j = 0; j < ld; j++) {
      float x = y.at[r * ld + j] + (with_bias && j < valid ? bias.at[j] : 0), want;
      ronde__ref_act_forward(act, 1, &x, &want);
      if (j >= valid) want = 0;
      if (j >= n) want = y.at[r * ld + j];
      assert_true(ulps(got.at[r * ld + j], want) <= (j < valid ? 2 : 0));
    }
  floats_free(&y), floats_free(&bias), floats_free(&got);
}

static void test_bias_over_rows(void **state) {
  for (size_t a = 0; a < RONDE__COUNT(acts); a++)
    for (int n = 1; n < 70; n += 3)
      for (int valid = n > 20 ? n - 20 : 0; valid <= n; valid++) check_rows(acts[a], n, valid, valid & 1);
}

static void test_bias_over_lanes(void **state) {
  for (size_t a = 0; a < RONDE__COUNT(acts); a++)
    for (int n = 0; n < 50; n++) {
      floats y = floats_make(n, 2), got = floats_copy(&y, 2);
      kernels->bias_act_lanes(got.at, n, 0.25f, acts[a]);
      for (int j = 0; j < n; j++) {
        float x = y.at[j] + 0.25f, want;
        ronde__ref_act_forward(acts[a], 1, &x, &want);
        assert_true(ulps(got.at[j], want) <= 2);
      }
      floats_free(&y), floats_free(&got);
    }
}

static void test_backward(void **state) {
  for (size_t a = 0; a < RONDE__COUNT(acts); a++)
    for (int n = 0; n < 50; n++)
      for (int accumulate = 0; accumulate < 2; accumulate++) {
        floats dy = floats_make(n, 1), y = floats_make(n, 2), want = floats_make(n, 0);
        floats dx = floats_make(n, 3), got = floats_copy(&dx, 3);
        ronde__ref_act_backward(acts[a], n, y.at, dy.at, want.at);
        kernels->act_backward(dy.at, y.at, got.at, n, acts[a], accumulate);
        for (int j = 0; j < n; j++)
          assert_true(fabs((double)got.at[j] - (double)want.at[j] - (accumulate ? dx.at[j] : 0)) < 4e-7);
        kernels->act_backward(dy.at, y.at, dy.at, n, acts[a], false);
        for (int j = 0; j < n; j++) assert_true(fabs((double)dy.at[j] - (double)want.at[j]) < 4e-7);
        floats_free(&dy), floats_free(&y), floats_free(&dx), floats_free(&got), floats_free(&want);
      }
}

static void test_backward_hands_nan_and_inf_on(void **state) {
  for (size_t a = 0; a < RONDE__COUNT(acts); a++) {
    float dy[2] = {NAN, INFINITY}, y[2] = {0.5f, 0.5f}, dx[2];
    kernels->act_backward(dy, y, dx, 2, acts[a], false);
    assert_true(isnan(dx[0]) && isinf(dx[1]));
    y[0] = NAN, dy[0] = 1;
    kernels->act_backward(dy, y, dx, 1, acts[a], false);
    if (acts[a] == RONDE__ACT_TANH || acts[a] == RONDE__ACT_SIGMOID) assert_true(isnan(dx[0]));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tanh_over_the_whole_range),
      cmocka_unit_test(test_sigmoid_over_the_whole_range),
      cmocka_unit_test(test_special_values),
      cmocka_unit_test(test_bits_do_not_depend_on_the_place),
      cmocka_unit_test(test_bias_over_rows),
      cmocka_unit_test(test_bias_over_lanes),
      cmocka_unit_test(test_backward),
      cmocka_unit_test(test_backward_hands_nan_and_inf_on),
  };
  return RUN_WITH_EACH_TABLE(tests);
}

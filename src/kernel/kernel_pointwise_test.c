/* Activations of their input against libm in f64, over the whole range, and against PyTorch. */
#include "kernel/kernel_testing.h"
#include "kernel/ref.h"

#include <stdio.h>

typedef struct function {
  const char *name;
  ronde__pointwise f;
  double bound; /* ulp; of what is normal */
} function;

/* The constants are those of tests/golden/pointwise_golden.py. */
static const function functions[] = {
    {"gelu", {RONDE__POINTWISE_GELU, 0, 0}, 6},
    {"gelu_tanh", {RONDE__POINTWISE_GELU_TANH, 0, 0}, 4},
    {"silu", {RONDE__POINTWISE_SILU, 0, 0}, 4},
    {"hard_swish", {RONDE__POINTWISE_HARD_SWISH, 0, 0}, 3},
    {"hard_sigmoid", {RONDE__POINTWISE_HARD_SIGMOID, 1.0f / 6, 0.5f}, 1},
    {"leaky_relu", {RONDE__POINTWISE_LEAKY_RELU, 0.125f, 0}, 1},
    {"elu", {RONDE__POINTWISE_ELU, 1.5f, 0}, 3},
    {"clip", {RONDE__POINTWISE_CLIP, 0, 6}, 0.5},
};

#define EACH_FUNCTION(p) for (const function *p = functions; p < functions + RONDE__COUNT(functions); p++)

/* Errors that follow from rounding an argument are no matter of the function: of GELU's tanh, and of a sum that cancels. */
static double excused(const function *p, double x) {
  if (p->f.kind == RONDE__POINTWISE_GELU_TANH && x > -15 && x < 0) return fabs(1.6 * x + 0.072 * x * x * x);
  return 0;
}

static double error_of(const function *p, float y, float x) {
  double want = ronde__ref_pointwise(&p->f, (double)x), off = fabs((double)y - want);
  if (off <= 1e-43) return 0; /* denormal results */
  if (p->f.kind == RONDE__POINTWISE_HARD_SIGMOID && off <= 0x1p-24) return 0;
  return ulps(y, want) / (1 + excused(p, (double)x));
}

/* Every 4,093rd bit pattern, both signs: denormals, infinities and NaN are among them. */
static void test_values_over_the_whole_range(void **state) {
  enum { BATCH = 1024 };
  EACH_FUNCTION(p) {
    float x[BATCH], y[BATCH];
    double worst = 0, worst_at = 0;
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32;) {
      int n = 0;
      for (; n < BATCH && bits < UINT64_C(1) << 32; bits += 4093) {
        uint32_t pattern = (uint32_t)bits;
        memcpy(&x[n++], &pattern, sizeof pattern);
      }
      kernels->pointwise_forward(&p->f, x, y, n);
      for (int i = 0; i < n; i++) {
        double off = error_of(p, y[i], x[i]);
        if (!(off <= worst)) worst = off, worst_at = (double)x[i];
      }
    }
    print_message("%s: %s: at most %.3f ulp, at %.9g\n", kernels->isa, p->name, worst, worst_at);
    assert_true(worst < p->bound);
  }
}

static void test_slopes(void **state) {
  enum { N = 40001 };
  floats x = floats_make(N, 1), one = floats_make(N, 2), dx = floats_make(N, 3);
  for (int i = 0; i < N; i++) x.at[i] = (float)(i - N / 2) / 1000, one.at[i] = 1;
  EACH_FUNCTION(p) {
    kernels->pointwise_backward(&p->f, one.at, x.at, dx.at, N, false);
    for (int i = 0; i < N; i++)
      if (!(fabs((double)dx.at[i] - ronde__ref_pointwise_slope(&p->f, (double)x.at[i])) < 5e-7))
        fail_msg("%s: the slope at %.9g is %.9g", p->name, (double)x.at[i], (double)dx.at[i]);
  }
  floats_free(&x), floats_free(&one), floats_free(&dx);
}

static void test_special_values(void **state) {
  const float x[] = {0, -0.0f, INFINITY, -INFINITY, 3e38f, -3e38f, NAN, -88, -103, -1e-40f};
  enum { N = RONDE__COUNT(x) };
  const float one[N] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  EACH_FUNCTION(p) {
    float y[N], dx[N];
    kernels->pointwise_forward(&p->f, x, y, N);
    kernels->pointwise_backward(&p->f, one, x, dx, N, false);
    for (int i = 0; i < N; i++) {
      if (isnan(x[i])) continue;
      assert_true((double)y[i] == ronde__ref_pointwise(&p->f, (double)x[i]) || error_of(p, y[i], x[i]) < p->bound);
      assert_true(fabs((double)dx[i] - ronde__ref_pointwise_slope(&p->f, (double)x[i])) < 5e-7);
    }
    assert_true(isnan(y[6]));
    kernels->pointwise_backward(&p->f, (float[]){NAN, INFINITY}, (float[]){1.5f, 1.5f}, dx, 2, false);
    assert_true(isnan(dx[0]) && isinf(dx[1]));
  }
}

/* The same value at each place of arrays of each length, aligned or not; forward in place, too. */
static void test_bits_do_not_depend_on_the_place(void **state) {
  EACH_FUNCTION(p) {
    floats x = floats_make(331, 0), dy = floats_make(331, 0), whole = floats_make(331, 0), slopes = floats_make(331, 0),
           sums = floats_make(331, 0);
    for (int64_t i = 0; i < x.n; i++) x.at[i] *= 5;
    kernels->pointwise_forward(&p->f, x.at, whole.at, x.n);
    kernels->pointwise_backward(&p->f, dy.at, x.at, slopes.at, x.n, false);
    memcpy(sums.at, dy.at, (size_t)x.n * sizeof(float));
    kernels->pointwise_backward(&p->f, dy.at, x.at, sums.at, x.n, true);
    for (int begin = 0; begin < 20; begin++)
      for (int64_t n = 0; n <= x.n - begin; n += 1 + n / 9) {
        floats y = floats_make(n, begin % 7), d = floats_make(n, begin % 5);
        memcpy(y.at, x.at + begin, (size_t)n * sizeof(float));
        memcpy(d.at, dy.at + begin, (size_t)n * sizeof(float));
        floats sum = floats_copy(&d, begin % 3);
        kernels->pointwise_backward(&p->f, d.at, y.at, sum.at, n, true);
        assert_true(same_bits(sum.at, sums.at + begin, n));
        kernels->pointwise_backward(&p->f, d.at, y.at, d.at, n, false);
        kernels->pointwise_forward(&p->f, y.at, y.at, n);
        assert_true(same_bits(y.at, whole.at + begin, n));
        assert_true(same_bits(d.at, slopes.at + begin, n));
        floats_free(&y), floats_free(&d), floats_free(&sum);
      }
    floats_free(&x), floats_free(&dy), floats_free(&whole), floats_free(&slopes), floats_free(&sums);
  }
}

static void test_backward_adds(void **state) {
  EACH_FUNCTION(p)
  for (int n = 0; n < 150; n++) {
    floats x = floats_make(n, 1), dy = floats_make(n, 2), dx = floats_make(n, 3), got = floats_copy(&dx, 3);
    for (int j = 0; j < n; j++) x.at[j] *= 5;
    kernels->pointwise_backward(&p->f, dy.at, x.at, got.at, n, true);
    for (int j = 0; j < n; j++) {
      double want = (double)dx.at[j] + (double)dy.at[j] * ronde__ref_pointwise_slope(&p->f, (double)x.at[j]);
      assert_true(fabs((double)got.at[j] - want) < 7e-7);
    }
    floats_free(&x), floats_free(&dy), floats_free(&dx), floats_free(&got);
  }
}

static const function *function_of(const char *name) {
  EACH_FUNCTION(p) if (strcmp(p->name, name) == 0) return p;
  fail_msg("no function %s", name);
  return NULL;
}

/* Values and slopes by PyTorch in f64, at kinks too. */
static void test_pytorch(void **state) {
  FILE *file = fopen(RONDE_SOURCE_DIR "/tests/golden/pointwise.golden", "r");
  char line[256], name[32];
  const float one = 1;
  int n = 0;
  assert_non_null(file);
  while (fgets(line, sizeof line, file)) {
    double at, value, slope;
    if (*line == '#') continue;
    assert_int_equal(sscanf(line, "%31s %lf %lf %lf", name, &at, &value, &slope), 4);
    const function *p = function_of(name);
    float x = (float)at, y, dx;
    kernels->pointwise_forward(&p->f, &x, &y, 1);
    kernels->pointwise_backward(&p->f, &one, &x, &dx, 1, false);
    if (!(fabs((double)y - value) <= 5e-7 * fmax(1, fabs(at)) && fabs((double)dx - slope) <= 5e-7))
      fail_msg("%s(%g) is %.9g with slope %.9g; PyTorch: %.9g, %.9g", name, at, (double)y, (double)dx, value, slope);
    n++;
  }
  fclose(file);
  assert_true(n > 50 * (int)RONDE__COUNT(functions));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values_over_the_whole_range),
      cmocka_unit_test(test_slopes),
      cmocka_unit_test(test_special_values),
      cmocka_unit_test(test_bits_do_not_depend_on_the_place),
      cmocka_unit_test(test_backward_adds),
      cmocka_unit_test(test_pytorch),
  };
  return RUN_WITH_EACH_TABLE(tests);
}

/* Optimizer steps against the definitions in f64, step by step over ten steps. */
#include "kernel/kernel_testing.h"

enum { STEPS = 10 };
static const int64_t lengths[] = {0, 1, 5, 8, 16, 17, 31, 64, 77};

/* One parameter in f64; a and b are the optimizer's two states. */
typedef struct exact {
  double w, a, b;
} exact;
typedef void (*exact_fn)(const void *args, exact *e, double g);
typedef void (*step_fn)(const void *args, float *w, const float *g, float *a, float *b, int64_t n);

/* Also: any cut of the range gives the same bits, and padding (zero weight and gradient) stays zero. */
static void check_step(const void *args, step_fn step, exact_fn step_exactly) {
  for (size_t l = 0; l < RONDE__COUNT(lengths); l++) {
    int64_t n = lengths[l], cut = n / 3;
    floats w = floats_make(n, 1), a = floats_make(n, 2), b = floats_make(n, 3), g = floats_make(n, 5);
    memset(a.at, 0, (size_t)n * sizeof(float));
    memset(b.at, 0, (size_t)n * sizeof(float));
    if (n) w.at[n - 1] = 0;
    floats w2 = floats_copy(&w, 4), a2 = floats_copy(&a, 1), b2 = floats_copy(&b, 0);
    exact e[128] = {{0}};
    for (int64_t i = 0; i < n; i++) e[i].w = w.at[i];
    for (int s = 0; s < STEPS; s++) {
      for (int64_t i = 0; i < n; i++) g.at[i] = i == n - 1 ? 0 : random_float();
      step(args, w.at, g.at, a.at, b.at, n);
      step(args, w2.at + cut, g.at + cut, a2.at + cut, b2.at + cut, n - cut);
      step(args, w2.at, g.at, a2.at, b2.at, cut);
      for (int64_t i = 0; i < n; i++) {
        step_exactly(args, &e[i], g.at[i]);
        assert_true(fabs((double)w.at[i] - e[i].w) < 2e-6);
        assert_true(a.at[i] == 0 || fabs((double)a.at[i] - e[i].a) < 2e-6 * (fabs(e[i].a) + 0.1));
        assert_true(b.at[i] == 0 ||
                    fabs((double)b.at[i] - e[i].b) < 2e-6 * (e[i].b + 1e-4)); /* of a difference squared */
      }
    }
    assert_true(same_bits(w.at, w2.at, n) && same_bits(a.at, a2.at, n) && same_bits(b.at, b2.at, n));
    if (n) assert_true(w.at[n - 1] == 0 && a.at[n - 1] == 0 && b.at[n - 1] == 0);
    floats_free(&w), floats_free(&a), floats_free(&b), floats_free(&g);
    floats_free(&w2), floats_free(&a2), floats_free(&b2);
  }
}

static void sgd_step(const void *args, float *w, const float *g, float *a, float *b, int64_t n) {
  kernels->sgd(args, w, g, a, n);
}
static void sgd_plain_step(const void *args, float *w, const float *g, float *a, float *b, int64_t n) {
  kernels->sgd(args, w, g, NULL, n);
}
static void sgd_exact(const void *user, exact *e, double g) {
  const ronde__sgd_args *args = user;
  double d = g + (double)args->weight_decay * e->w;
  e->a = (double)args->momentum * e->a + d;
  e->w -= (double)args->lr * (args->nesterov ? d + (double)args->momentum * e->a : e->a);
}

static void test_sgd(void **state) {
  check_step(&(ronde__sgd_args){.lr = 0.1f}, sgd_plain_step, sgd_exact);
  check_step(&(ronde__sgd_args){.lr = 0.1f, .weight_decay = 0.01f}, sgd_plain_step, sgd_exact);
  check_step(&(ronde__sgd_args){.lr = 0.1f, .momentum = 0.9f}, sgd_step, sgd_exact);
  check_step(&(ronde__sgd_args){.lr = 0.1f, .momentum = 0.9f, .weight_decay = 0.01f}, sgd_step, sgd_exact);
  check_step(&(ronde__sgd_args){.lr = 0.1f, .momentum = 0.8f, .weight_decay = 0.01f, .nesterov = true}, sgd_step,
             sgd_exact);
}

static void adam_step(const void *args, float *w, const float *g, float *a, float *b, int64_t n) {
  kernels->adam(args, w, g, a, b, n);
}
static void adam_exact(const void *user, exact *e, double g) {
  const ronde__adam_args *args = user;
  double d = g + (double)args->weight_decay * e->w;
  e->w *= args->decay;
  e->a = (double)args->beta1 * e->a + (double)args->rest1 * d;
  e->b = (double)args->beta2 * e->b + (double)args->rest2 * d * d;
  e->w -= (double)args->step_size * e->a / (sqrt(e->b) * (double)args->inv_sqrt_bias2 + (double)args->eps);
}

static void test_adam(void **state) {
  ronde__adam_args args = {.beta1 = 0.9f,
                           .beta2 = 0.999f,
                           .rest1 = 0.1f,
                           .rest2 = 0.001f,
                           .eps = 1e-8f,
                           .step_size = 0.01f,
                           .inv_sqrt_bias2 = 5,
                           .decay = 1};
  check_step(&args, adam_step, adam_exact);
  args.weight_decay = 0.05f;
  check_step(&args, adam_step, adam_exact);
  args.weight_decay = 0;
  args.decay = 0.99f;
  check_step(&args, adam_step, adam_exact);
}

static void adagrad_step(const void *args, float *w, const float *g, float *a, float *b, int64_t n) {
  kernels->adagrad(args, w, g, a, n);
}
static void adagrad_exact(const void *user, exact *e, double g) {
  const ronde__adagrad_args *args = user;
  double d = g + (double)args->weight_decay * e->w;
  e->a += d * d;
  e->w -= (double)args->lr * d / (sqrt(e->a) + (double)args->eps);
}

static void test_adagrad(void **state) {
  check_step(&(ronde__adagrad_args){.lr = 0.1f, .eps = 1e-10f}, adagrad_step, adagrad_exact);
  check_step(&(ronde__adagrad_args){.lr = 0.1f, .eps = 1e-10f, .weight_decay = 0.1f}, adagrad_step, adagrad_exact);
}

static void rmsprop_step(const void *args, float *w, const float *g, float *a, float *b, int64_t n) {
  kernels->rmsprop(args, w, g, a, b, n);
}
static void rmsprop_plain_step(const void *args, float *w, const float *g, float *a, float *b, int64_t n) {
  kernels->rmsprop(args, w, g, a, NULL, n);
}
static void rmsprop_exact(const void *user, exact *e, double g) {
  const ronde__rmsprop_args *args = user;
  double d = g + (double)args->weight_decay * e->w;
  e->a = (double)args->alpha * e->a + (double)args->rest * d * d;
  e->b = (double)args->momentum * e->b + d / (sqrt(e->a) + (double)args->eps);
  e->w -= (double)args->lr * e->b;
}

static void test_rmsprop(void **state) {
  ronde__rmsprop_args args = {.lr = 0.01f, .alpha = 0.99f, .rest = 0.01f, .eps = 1e-8f};
  check_step(&args, rmsprop_plain_step, rmsprop_exact);
  args.weight_decay = 0.05f;
  check_step(&args, rmsprop_plain_step, rmsprop_exact);
}

static void test_rmsprop_with_momentum(void **state) {
  /* Momentum sums steps of both signs: what is left of them is small beside their rounding. */
  static const int64_t n = 77;
  const ronde__rmsprop_args args = {.lr = 0.01f, .alpha = 0.9f, .rest = 0.1f, .eps = 1e-6f, .momentum = 0.9f};
  floats w = floats_make(n, 1), a = floats_make(n, 2), b = floats_make(n, 3), g = floats_make(n, 5);
  memset(a.at, 0, (size_t)n * sizeof(float));
  memset(b.at, 0, (size_t)n * sizeof(float));
  floats w2 = floats_copy(&w, 4), a2 = floats_copy(&a, 1), b2 = floats_copy(&b, 0);
  exact e[77] = {{0}};
  for (int64_t i = 0; i < n; i++) e[i].w = w.at[i];
  for (int s = 0; s < STEPS; s++) {
    for (int64_t i = 0; i < n; i++) g.at[i] = random_float();
    rmsprop_step(&args, w.at, g.at, a.at, b.at, n);
    rmsprop_step(&args, w2.at + 30, g.at + 30, a2.at + 30, b2.at + 30, n - 30);
    rmsprop_step(&args, w2.at, g.at, a2.at, b2.at, 30);
    for (int64_t i = 0; i < n; i++) {
      rmsprop_exact(&args, &e[i], g.at[i]);
      assert_true(fabs((double)w.at[i] - e[i].w) < 4e-6);
      assert_true(fabs((double)b.at[i] - e[i].b) < 2e-5);
    }
  }
  assert_true(same_bits(w.at, w2.at, n) && same_bits(a.at, a2.at, n) && same_bits(b.at, b2.at, n));
  floats_free(&w), floats_free(&a), floats_free(&b), floats_free(&g);
  floats_free(&w2), floats_free(&a2), floats_free(&b2);
}

static void test_nan_reaches_the_weight(void **state) {
  const ronde__adam_args adam_args = {.beta1 = 0.9f,
                                      .beta2 = 0.9f,
                                      .rest1 = 0.1f,
                                      .rest2 = 0.1f,
                                      .eps = 1e-8f,
                                      .step_size = 1,
                                      .inv_sqrt_bias2 = 1,
                                      .decay = 1};
  for (int i = 0; i < 20; i++) {
    float w[20] = {0}, g[20] = {0}, a[20] = {0}, b[20] = {0};
    g[i] = NAN;
    kernels->sgd(&(ronde__sgd_args){.lr = 0.1f, .momentum = 0.9f}, w, g, a, 20);
    for (int j = 0; j < 20; j++) assert_true(isnan(w[j]) == (i == j));
    w[i] = 0, a[i] = 0;
    kernels->adam(&adam_args, w, g, a, b, 20);
    for (int j = 0; j < 20; j++) assert_true(isnan(w[j]) == (i == j));
    w[i] = 0, a[i] = 0;
    kernels->rmsprop(&(ronde__rmsprop_args){.lr = 0.1f, .alpha = 0.9f, .rest = 0.1f, .eps = 1e-6f}, w, g, a, NULL, 20);
    for (int j = 0; j < 20; j++) assert_true(isnan(w[j]) == (i == j));
  }
}

/* Long ranges without a gradient: a weight stays as it is, to the bit, unless decay or an old state moves it. */
static void check_still(const void *args, step_fn step, exact_fn step_exactly, bool decays) {
  enum { N = 7001, GRADIENT = 40, OLD = 5000 };
  floats w = floats_make(N, 1), a = floats_make(N, 2), b = floats_make(N, 3), g = floats_make(N, 0);
  memset(a.at, 0, N * sizeof(float));
  memset(b.at, 0, N * sizeof(float));
  memset(g.at + GRADIENT, 0, (N - GRADIENT) * sizeof(float));
  g.at[N - 1] = 0.5f;
  a.at[OLD] = b.at[OLD] = 0.25f;
  floats before = floats_copy(&w, 1);
  step(args, w.at, g.at, a.at, b.at, N);
  for (int64_t i = 0; i < N; i++) {
    exact e = {before.at[i], i == OLD ? 0.25 : 0, i == OLD ? 0.25 : 0};
    step_exactly(args, &e, g.at[i]);
    assert_true(fabs((double)w.at[i] - e.w) < 2e-6);
    bool rests = i >= GRADIENT && i != OLD && i != N - 1 && !decays;
    if (rests) assert_true(same_bits(&w.at[i], &before.at[i], 1) && a.at[i] == 0 && b.at[i] == 0);
    if (decays && fabsf(before.at[i]) > 0.01f) assert_true(w.at[i] != before.at[i]);
  }
  floats_free(&w), floats_free(&a), floats_free(&b), floats_free(&g), floats_free(&before);
}

static void test_weights_without_gradient(void **state) {
  check_still(&(ronde__sgd_args){.lr = 0.1f}, sgd_plain_step, sgd_exact, false);
  check_still(&(ronde__sgd_args){.lr = 0.1f, .momentum = 0.9f}, sgd_step, sgd_exact, false);
  check_still(&(ronde__sgd_args){.lr = 0.1f, .momentum = 0.9f, .weight_decay = 0.1f}, sgd_step, sgd_exact, true);
  check_still(&(ronde__adagrad_args){.lr = 0.1f, .eps = 1e-6f}, adagrad_step, adagrad_exact, false);
  check_still(&(ronde__adagrad_args){.lr = 0.1f, .eps = 1e-6f, .weight_decay = 0.1f}, adagrad_step, adagrad_exact,
              true);
  ronde__adam_args args = {.beta1 = 0.9f,
                           .beta2 = 0.999f,
                           .rest1 = 0.1f,
                           .rest2 = 0.001f,
                           .eps = 1e-8f,
                           .step_size = 0.01f,
                           .inv_sqrt_bias2 = 1,
                           .decay = 1};
  check_still(&args, adam_step, adam_exact, false);
  ronde__rmsprop_args rmsprop_args = {.lr = 0.01f, .alpha = 0.9f, .rest = 0.1f, .eps = 1e-6f, .momentum = 0.9f};
  check_still(&rmsprop_args, rmsprop_step, rmsprop_exact, false);
  rmsprop_args.weight_decay = 0.1f;
  check_still(&rmsprop_args, rmsprop_step, rmsprop_exact, true);
  args.decay = 0.9f;
  check_still(&args, adam_step, adam_exact, true);
  args.decay = 1, args.weight_decay = 0.1f;
  check_still(&args, adam_step, adam_exact, true);
}

/* A gradient once, then none: what it left decays to zero itself, and does not stay at a subnormal number. */
static void check_rest(const void *args, step_fn step, bool second) {
  enum { N = 21, UNTIL_ZERO = 2000 };
  floats w = floats_make(N, 1), g = floats_make(N, 0), a = floats_make(N, 2), b = floats_make(N, 3);
  memset(a.at, 0, N * sizeof(float)), memset(b.at, 0, N * sizeof(float));
  for (int s = 0; s < UNTIL_ZERO; s++) {
    step(args, w.at, g.at, a.at, b.at, N);
    memset(g.at, 0, N * sizeof(float));
    for (int i = 0; i < N; i++)
      assert_false(fpclassify(a.at[i]) == FP_SUBNORMAL || fpclassify(b.at[i]) == FP_SUBNORMAL);
  }
  for (int i = 0; i < N; i++) assert_true(a.at[i] == 0 && (!second || b.at[i] == 0));
  floats_free(&w), floats_free(&g), floats_free(&a), floats_free(&b);
}

static void test_state_without_gradient_ends_at_zero(void **state) {
  check_rest(&(ronde__sgd_args){.lr = 0.1f, .momentum = 0.9f}, sgd_step, false);
  check_rest(&(ronde__adam_args){.beta1 = 0.9f,
                                 .beta2 = 0.9f,
                                 .rest1 = 0.1f,
                                 .rest2 = 0.1f,
                                 .eps = 1e-8f,
                                 .step_size = 0.001f,
                                 .inv_sqrt_bias2 = 1,
                                 .decay = 1},
             adam_step, true);
  check_rest(&(ronde__rmsprop_args){.lr = 0.01f, .alpha = 0.9f, .rest = 0.1f, .eps = 1e-8f, .momentum = 0.9f},
             rmsprop_step, true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sgd),
      cmocka_unit_test(test_adam),
      cmocka_unit_test(test_adagrad),
      cmocka_unit_test(test_rmsprop),
      cmocka_unit_test(test_rmsprop_with_momentum),
      cmocka_unit_test(test_nan_reaches_the_weight),
      cmocka_unit_test(test_weights_without_gradient),
      cmocka_unit_test(test_state_without_gradient_ends_at_zero),
  };
  return RUN_WITH_EACH_TABLE(tests);
}

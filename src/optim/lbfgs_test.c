/* L-BFGS against PyTorch's evaluations of the Rosenbrock function in f64, and where a line search meets what no golden
 * file has: no way down, NaN, a gradient of zero; its history; and arrays of f32 in memory, whatever the threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "optim/lbfgs.h"
#include "optim/line_search.h"

enum { N_MAX = 10, MAX_PAIRS = 100, N_VECTORS = RONDE__LBFGS_PAIRS + 2 * MAX_PAIRS };

/* ---- vectors in f64 ---------------------------------------------------------------------------------------------- */

typedef struct space {
  int n;
  double at[N_VECTORS][N_MAX];
} space;

static ronde_status wide_copy(void *user, int to, int from) {
  space *s = user;
  memcpy(s->at[to], s->at[from], sizeof s->at[to]);
  return RONDE_OK;
}

static ronde_status wide_scale(void *user, int x, double factor) {
  space *s = user;
  for (int i = 0; i < s->n; i++) s->at[x][i] *= factor;
  return RONDE_OK;
}

static ronde_status wide_add(void *user, int y, double factor, int x) {
  space *s = user;
  for (int i = 0; i < s->n; i++) s->at[y][i] += factor * s->at[x][i];
  return RONDE_OK;
}

static ronde_status wide_dot(void *user, int x, int y, double *dot_out) {
  const space *s = user;
  *dot_out = 0;
  for (int i = 0; i < s->n; i++) *dot_out += s->at[x][i] * s->at[y][i];
  return RONDE_OK;
}

static ronde_status wide_norms(void *user, int x, ronde__vector_norms *norms_out) {
  const space *s = user;
  *norms_out = (ronde__vector_norms){0};
  for (int i = 0; i < s->n; i++) {
    norms_out->sum_abs += fabs(s->at[x][i]);
    norms_out->max_abs = fmax(norms_out->max_abs, fabs(s->at[x][i]));
  }
  return RONDE_OK;
}

/* ---- functions: the value at x [n], its gradient in g --------------------------------------------------------------- */

typedef double (*function)(const double *x, int n, double *g);

static double rosenbrock(const double *x, int n, double *g) {
  double sum = 0;
  memset(g, 0, (size_t)n * sizeof *g);
  for (int i = 0; i + 1 < n; i++) {
    double a = x[i + 1] - x[i] * x[i], b = 1 - x[i];
    sum += 100 * a * a + b * b;
    g[i] += -400 * a * x[i] - 2 * b;
    g[i + 1] += 200 * a;
  }
  return sum;
}

/* Curvatures from 1 to n squared, around i. */
static double bowl(const double *x, int n, double *g) {
  double sum = 0;
  for (int i = 0; i < n; i++) {
    g[i] = (i + 1) * (i + 1) * (x[i] - i);
    sum += 0.5 * g[i] * (x[i] - i);
  }
  return sum;
}

/* -log: not a number beyond 1. */
static double barrier(const double *x, int n, double *g) {
  g[0] = -2 + 0.01 / (1 - x[0]);
  return -2 * x[0] - 0.01 * log(1 - x[0]);
}

static double pit(const double *x, int n, double *g) {
  g[0] = 1;
  return x[0] == 0 ? 0 : NAN;
}

/* Uphill, whatever the gradient says. */
static double liar(const double *x, int n, double *g) {
  g[0] = -1;
  return fabs(x[0]);
}

/* ---- running -------------------------------------------------------------------------------------------------------- */

typedef struct run {
  space space;
  ronde__vectors vectors;
  ronde__lbfgs *lbfgs;
  function f;
} run;

static const ronde__lbfgs_options defaults = {10, 20, 25, 1e-7, 1e-9};

static run *run_create(function f, int n, const ronde__lbfgs_options *options) {
  run *r = calloc(1, sizeof *r);
  assert_non_null(r);
  r->space.n = n;
  r->f = f;
  r->vectors = (ronde__vectors){wide_copy, wide_scale, wide_add, wide_dot, wide_norms, &r->space};
  assert_int_equal(ronde__lbfgs_create(options, &r->vectors, NULL, &r->lbfgs), RONDE_OK);
  return r;
}

static void run_destroy(run *r) {
  ronde__lbfgs_destroy(r->lbfgs);
  free(r);
}

/* One step; losses_out [>= max_eval + 1] and how many there are. */
static int run_step(run *r, double lr, double *losses_out) {
  bool more = true;
  int n = 0;
  for (ronde__lbfgs_begin(r->lbfgs, lr); more; n++) {
    losses_out[n] = r->f(r->space.at[RONDE__LBFGS_WEIGHTS], r->space.n, r->space.at[RONDE__LBFGS_GRADIENT]);
    assert_int_equal(ronde__lbfgs_tell(r->lbfgs, losses_out[n], &more), RONDE_OK);
  }
  return n;
}

static double *weights(run *r) { return r->space.at[RONDE__LBFGS_WEIGHTS]; }

/* ---- PyTorch's evaluations ------------------------------------------------------------------------------------------ */

static double real_of(const json_t *object, const char *name) {
  return json_number_value(json_object_get(object, name));
}

/* Rounding grows from iteration to iteration; a decision made otherwise shows at once. */
static void assert_close(const char *what, double found, double wanted) {
  if (!(fabs(found - wanted) <= 1e-6 * (1e-3 + fabs(wanted)))) fail_msg("%s: %.17g, not %.17g", what, found, wanted);
}

static ronde__lbfgs_options options_of(const json_t *json) {
  ronde__lbfgs_options options = defaults;
  options.history = (int)real_of(json, "history_size");
  options.max_iter = (int)real_of(json, "max_iter");
  options.max_eval = json_object_get(json, "max_eval") ? (int)real_of(json, "max_eval") : options.max_iter * 5 / 4;
  return options;
}

static void follow(const json_t *golden) {
  const json_t *settings = json_object_get(golden, "options"), *steps = json_object_get(golden, "steps"), *step;
  ronde__lbfgs_options options = options_of(settings);
  double losses[128];
  size_t k;
  run *r = run_create(rosenbrock, (int)real_of(golden, "n"), &options);
  for (int i = 0; i < r->space.n; i++) weights(r)[i] = i % 2 ? 1 : -1.2;
  json_array_foreach(steps, k, step) {
    const json_t *wanted = json_object_get(step, "losses"), *x = json_object_get(step, "x");
    int n = run_step(r, real_of(settings, "lr"), losses);
    assert_int_equal(n, json_array_size(wanted));
    for (int i = 0; i < n; i++) assert_close("loss", losses[i], json_number_value(json_array_get(wanted, (size_t)i)));
    for (int i = 0; i < r->space.n; i++)
      assert_close("weight", weights(r)[i], json_number_value(json_array_get(x, (size_t)i)));
  }
  run_destroy(r);
}

static void test_evaluates_where_pytorch_does(void **state) {
  json_t *file = json_load_file(RONDE_SOURCE_DIR "/tests/golden/lbfgs-rosenbrock.json", 0, NULL);
  const json_t *cases = json_object_get(file, "cases"), *one;
  size_t i;
  assert_true(json_array_size(cases) > 0);
  json_array_foreach(cases, i, one) follow(one);
  json_decref(file);
}

/* ---- known results -------------------------------------------------------------------------------------------------- */

static void test_finds_the_minimum_of_a_quadratic(void **state) {
  double losses[128];
  run *r = run_create(bowl, N_MAX, &defaults);
  for (int step = 0; step < 4; step++) run_step(r, 1, losses);
  for (int i = 0; i < N_MAX; i++) assert_true(fabs(weights(r)[i] - i) < 1e-6);
  run_destroy(r);
}

/* The history is a ring: of any length it leads to the minimum, and a longer one with fewer evaluations. */
static void test_history_of_any_length(void **state) {
  static const int lengths[] = {1, 3, 10};
  int n_before = 10000;
  for (size_t i = 0; i < RONDE__COUNT(lengths); i++) {
    ronde__lbfgs_options options = defaults;
    double losses[128];
    int n = 0;
    options.history = lengths[i];
    options.tolerance_change = 1e-18;
    run *r = run_create(bowl, N_MAX, &options);
    for (int step = 0; step < 100; step++) {
      int some = run_step(r, 1, losses);
      if (some == 1) break;
      n += some;
    }
    assert_true(ronde__lbfgs_memory_of(r->lbfgs)->n <= lengths[i]);
    for (int k = 0; k < N_MAX; k++) assert_true(fabs(weights(r)[k] - k) < 1e-6);
    assert_true(n <= n_before);
    n_before = n;
    run_destroy(r);
  }
}

static void test_a_gradient_of_zero_ends_the_step(void **state) {
  double losses[128];
  run *r = run_create(bowl, 3, &defaults);
  for (int i = 0; i < 3; i++) weights(r)[i] = i;
  assert_int_equal(run_step(r, 1, losses), 1);
  assert_false(ronde__lbfgs_moved(r->lbfgs));
  run_destroy(r);
}

/* ---- line searches in trouble --------------------------------------------------------------------------------------- */

static void test_comes_back_from_nan(void **state) {
  double losses[128];
  int n_broken = 0;
  run *r = run_create(barrier, 1, &defaults);
  int n = run_step(r, 10, losses);
  for (int i = 0; i < n; i++) n_broken += !isfinite(losses[i]);
  assert_true(n_broken > 0);
  assert_true(ronde__lbfgs_moved(r->lbfgs));
  for (int step = 0; step < 3; step++) run_step(r, 1, losses);
  assert_true(fabs(weights(r)[0] - 0.995) < 1e-4);
  run_destroy(r);
}

static void test_nothing_but_nan_leaves_the_weights(void **state) {
  double losses[128];
  run *r = run_create(pit, 1, &defaults);
  int n = run_step(r, 1, losses);
  assert_int_equal(n, 1 + 25); /* the budget, and no evaluation more */
  assert_false(ronde__lbfgs_moved(r->lbfgs));
  assert_true(weights(r)[0] == 0);
  assert_true(r->space.at[RONDE__LBFGS_GRADIENT][0] == 1);
  run_destroy(r);
}

static void test_no_lower_point_forgets_the_history(void **state) {
  double losses[128];
  run *r = run_create(rosenbrock, 2, &defaults);
  weights(r)[0] = -1.2;
  run_step(r, 1, losses);
  assert_true(ronde__lbfgs_memory_of(r->lbfgs)->n > 0);
  int64_t n_iterations = ronde__lbfgs_memory_of(r->lbfgs)->n_iterations;
  r->f = liar;
  weights(r)[0] = weights(r)[1] = 0;
  run_step(r, 1, losses);
  const ronde__lbfgs_memory *memory = ronde__lbfgs_memory_of(r->lbfgs);
  assert_false(ronde__lbfgs_moved(r->lbfgs));
  assert_true(weights(r)[0] == 0);
  assert_false(memory->any);
  assert_int_equal(memory->n, 0);
  assert_true(memory->n_iterations > n_iterations);
  run_destroy(r);
}

/* Where the direction leads nowhere down, as after rounding, the next step begins with the gradient. */
static void test_no_way_down_forgets_the_history(void **state) {
  double losses[128];
  ronde__lbfgs_memory memory = {.n_iterations = 5, .any = true, .t = 1, .n = 1, .scale = 1, .rho = {-1}};
  run *r = run_create(bowl, 2, &defaults);
  ronde__lbfgs_destroy(r->lbfgs);
  assert_int_equal(ronde__lbfgs_create(&defaults, &r->vectors, &memory, &r->lbfgs), RONDE_OK);
  r->space.at[RONDE__LBFGS_PAIRS][0] = 1; /* y and s of a curvature below 0 */
  r->space.at[RONDE__LBFGS_PAIRS + 1][0] = -1;
  weights(r)[0] = 7;
  assert_int_equal(run_step(r, 1, losses), 1);
  assert_int_equal(ronde__lbfgs_memory_of(r->lbfgs)->n, 0);
  assert_true(run_step(r, 1, losses) > 1);
  assert_true(ronde__lbfgs_moved(r->lbfgs));
  run_destroy(r);
}

/* Each decision of a line search by itself: t of the trials that it asks for. */
static void test_brackets_and_zooms(void **state) {
  ronde__line_search s;
  const ronde__line_point start = {0, 1, -1};
  ronde__line_search_begin(&s, start, 1, 1, 25);
  assert_true(s.t == 1);
  assert_true(ronde__line_search_tell(&s, 0.2, -0.95)); /* low enough, too steep: longer, at most ten times */
  assert_true(s.t > 1 && s.t <= 10);
  assert_int_equal(s.where, RONDE__LINE_BEST_NEWEST);
  double longer = s.t;
  assert_true(ronde__line_search_tell(&s, 3, 5)); /* too high: between the two */
  assert_true(s.t > 1 && s.t < longer);
  assert_int_equal(s.where, RONDE__LINE_BEST_EARLIER);
  assert_false(ronde__line_search_tell(&s, 0.1, 0.1)); /* low and flat */
  assert_int_equal(s.where, RONDE__LINE_BEST_NEWEST);
  assert_true(s.best.loss == 0.1);

  ronde__line_search_begin(&s, start, 4, 1, 25);
  assert_true(ronde__line_search_tell(&s, NAN, 0)); /* half the way back */
  assert_true(s.t == 2);
  assert_true(ronde__line_search_tell(&s, 0.5, NAN));
  assert_true(s.t == 1);
  assert_int_equal(s.where, RONDE__LINE_BEST_START);

  ronde__line_search_begin(&s, start, 1, 1, 0); /* one trial and no more */
  assert_false(ronde__line_search_tell(&s, 0.5, -0.95));
  assert_int_equal(s.where, RONDE__LINE_BEST_NEWEST);
  ronde__line_search_begin(&s, start, 1, 1e-10, 25); /* a bracket too small to move anything */
  assert_false(ronde__line_search_tell(&s, 2, 1));
  assert_int_equal(s.where, RONDE__LINE_BEST_START);
}

/* ---- a memory that goes on ------------------------------------------------------------------------------------------ */

static void test_goes_on_from_its_memory(void **state) {
  ronde__lbfgs_options options = {3, 4, 20, 1e-7, 1e-9};
  double wanted[128], found[128];
  run *r = run_create(rosenbrock, 6, &options), *later = run_create(rosenbrock, 6, &options);
  for (int i = 0; i < 2; i++) run_step(r, 1, wanted);
  ronde__lbfgs_destroy(later->lbfgs);
  later->space = r->space;
  /* of a step alone */
  memset(later->space.at[RONDE__LBFGS_GRADIENT], 0x55, 3 * sizeof later->space.at[0]);
  assert_int_equal(ronde__lbfgs_create(&options, &later->vectors, ronde__lbfgs_memory_of(r->lbfgs), &later->lbfgs),
                   RONDE_OK);
  for (int i = 0; i < 3; i++) {
    int n = run_step(r, 1, wanted);
    assert_int_equal(run_step(later, 1, found), n);
    assert_memory_equal(found, wanted, (size_t)n * sizeof *wanted);
  }
  run_destroy(r);
  run_destroy(later);
}

/* ---- arrays in memory ----------------------------------------------------------------------------------------------- */

enum { FLAT_N = 3 * 4096 + 77 };

static void on_threads(int n_threads, double results_out[4], float *y_out) {
  ronde__flat_vectors flat = {.n = FLAT_N, .piece = RONDE__FLAT_PIECE};
  ronde__vector_norms norms;
  float *at[2];
  assert_int_equal(ronde__kernels_get(&flat.kernels), RONDE_OK);
  assert_int_equal(ronde__pool_create(n_threads, &flat.pool), RONDE_OK);
  flat.part = malloc(ronde__flat_pieces(&flat) * sizeof *flat.part);
  flat.at = at;
  for (int v = 0; v < 2; v++) {
    at[v] = malloc(FLAT_N * sizeof *at[v]);
    for (int i = 0; i < FLAT_N; i++) at[v][i] = sinf((float)(i * (v + 2)));
  }
  at[0][9000] = -3;
  ronde__vectors table = ronde__flat_vectors_table(&flat);
  assert_int_equal(table.dot(table.user, 0, 1, &results_out[0]), RONDE_OK);
  assert_int_equal(table.norms(table.user, 0, &norms), RONDE_OK);
  results_out[1] = norms.sum_abs;
  results_out[2] = norms.max_abs;
  assert_int_equal(table.add(table.user, 0, 0.5, 1), RONDE_OK);
  assert_int_equal(table.scale(table.user, 0, -2), RONDE_OK);
  assert_int_equal(table.copy(table.user, 1, 0), RONDE_OK);
  assert_int_equal(table.dot(table.user, 1, 1, &results_out[3]), RONDE_OK);
  memcpy(y_out, at[1], FLAT_N * sizeof *y_out);
  for (int v = 0; v < 2; v++) free(at[v]);
  free(flat.part);
  ronde__pool_destroy(flat.pool);
}

static void test_arrays_in_memory(void **state) {
  static float one[FLAT_N], three[FLAT_N];
  double results[4], again[4], wanted[4] = {0};
  for (int i = 0; i < FLAT_N; i++) {
    float x = i == 9000 ? -3 : sinf((float)(i * 2)), y = sinf((float)(i * 3)), z = -2 * (x + 0.5f * y);
    wanted[0] += (double)x * (double)y;
    wanted[1] += fabs((double)x);
    wanted[2] = fmax(wanted[2], fabs((double)x));
    wanted[3] += (double)z * (double)z;
  }
  on_threads(1, results, one);
  on_threads(3, again, three);
  assert_memory_equal(results, again, sizeof results);
  assert_memory_equal(one, three, sizeof one);
  for (int i = 0; i < 4; i++) assert_true(fabs(results[i] - wanted[i]) <= 1e-6 * fabs(wanted[i]));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_evaluates_where_pytorch_does),
      cmocka_unit_test(test_finds_the_minimum_of_a_quadratic),
      cmocka_unit_test(test_history_of_any_length),
      cmocka_unit_test(test_a_gradient_of_zero_ends_the_step),
      cmocka_unit_test(test_comes_back_from_nan),
      cmocka_unit_test(test_nothing_but_nan_leaves_the_weights),
      cmocka_unit_test(test_no_lower_point_forgets_the_history),
      cmocka_unit_test(test_no_way_down_forgets_the_history),
      cmocka_unit_test(test_brackets_and_zooms),
      cmocka_unit_test(test_goes_on_from_its_memory),
      cmocka_unit_test(test_arrays_in_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

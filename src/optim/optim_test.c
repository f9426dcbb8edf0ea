/* The optimizers against their definitions and against PyTorch; ranges, threads and padding. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "optim/optim.h"

#define GOLDEN_N 19 /* as in tests/golden/optim_golden.py */
#define STEPS 30

typedef struct optimizer_case {
  const char *name;
  ronde__optim_options options;
} optimizer_case;

/* Names and options as in tests/golden/optim_golden.py. */
static const optimizer_case cases[] = {
    {"sgd", {.kind = RONDE__OPTIM_SGD, .lr = 0.05}},
    {"sgd-decay", {.kind = RONDE__OPTIM_SGD, .lr = 0.05, .weight_decay = 0.01}},
    {"momentum", {.kind = RONDE__OPTIM_SGD, .lr = 0.05, .momentum = 0.9}},
    {"momentum-decay", {.kind = RONDE__OPTIM_SGD, .lr = 0.05, .momentum = 0.9, .weight_decay = 0.01}},
    {"nesterov", {.kind = RONDE__OPTIM_SGD, .lr = 0.05, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true}},
    {"adam", {.kind = RONDE__OPTIM_ADAM, .lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8}},
    {"adam-decay",
     {.kind = RONDE__OPTIM_ADAM, .lr = 0.01, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.01}},
    {"adamw", {.kind = RONDE__OPTIM_ADAMW, .lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1}},
    {"adagrad", {.kind = RONDE__OPTIM_ADAGRAD, .lr = 0.05, .eps = 1e-10}},
    {"adagrad-decay", {.kind = RONDE__OPTIM_ADAGRAD, .lr = 0.05, .eps = 1e-10, .weight_decay = 0.01}},
    {"rmsprop", {.kind = RONDE__OPTIM_RMSPROP, .lr = 0.01, .alpha = 0.99, .eps = 1e-8}},
    {"rmsprop-momentum",
     {.kind = RONDE__OPTIM_RMSPROP, .lr = 0.01, .alpha = 0.9, .eps = 1e-6, .momentum = 0.8, .weight_decay = 0.01}},
};

/* ---- the weights and gradients of the golden script, at any size ---- */

/* In [-512, 512), scattered; 0 for the element that stands for padding. */
static int small(size_t i, int step) {
  if (i == 7) return 0;
  uint32_t mixed = (uint32_t)i * 2654435761u + (uint32_t)step * 40503u * 65537u + 12345u;
  return (int)((mixed >> 12) % 1024) - 512;
}

static void fill_weights(float *w, size_t n) {
  for (size_t i = 0; i < n; ++i) w[i] = (float)small(i, 0) / 1024;
}

static void fill_gradients(float *g, size_t n, int step) {
  for (size_t i = 0; i < n; ++i) g[i] = (float)small(i, step) * exp2f((float)(step % 7 - 3)) / 1024;
}

static double rate(const ronde__optim_options *options, int step) { return options->lr * (1 + (step % 5) / 4.0); }

static ronde__optim *create_optim(const ronde__optim_options *options, const ronde__kernels *kernels, size_t n) {
  ronde__optim *optim = NULL;
  assert_int_equal(ronde__optim_create(options, kernels, n, &optim), RONDE_OK);
  return optim;
}

static ronde__optim *run_steps(const ronde__optim_options *options, const ronde__kernels *kernels, ronde__pool *pool,
                               float *w, size_t n) {
  float *g = malloc(n * sizeof *g);
  ronde__optim *optim = create_optim(options, kernels, n);
  fill_weights(w, n);
  for (int step = 1; step <= STEPS; ++step) {
    fill_gradients(g, n, step);
    ronde__optim_begin(optim, rate(options, step));
    ronde__optim_range_on(optim, pool, w, g, 0, n);
    assert_int_equal(ronde__optim_updates(optim), step);
  }
  free(g);
  return optim;
}

/* ---- the definitions in f64 ---- */

typedef struct exact {
  double w, first, second; /* first: momentum_buffer, exp_avg, sum or square_avg */
} exact;

static void exact_update(const ronde__optim_options *o, double lr, double g, int t, exact *x) {
  if (o->kind == RONDE__OPTIM_ADAMW) x->w -= lr * o->weight_decay * x->w;
  else g += o->weight_decay * x->w;
  if (o->kind == RONDE__OPTIM_SGD) {
    x->first = o->momentum * x->first + g;
    x->w -= lr * (o->momentum == 0 ? g : o->nesterov ? g + o->momentum * x->first : x->first);
  } else if (o->kind == RONDE__OPTIM_ADAGRAD) {
    x->first += g * g;
    x->w -= lr * g / (sqrt(x->first) + o->eps);
  } else if (o->kind == RONDE__OPTIM_RMSPROP) {
    x->first = o->alpha * x->first + (1 - o->alpha) * g * g;
    x->second = o->momentum * x->second + g / (sqrt(x->first) + o->eps);
    x->w -= lr * x->second;
  } else {
    x->first = o->beta1 * x->first + (1 - o->beta1) * g;
    x->second = o->beta2 * x->second + (1 - o->beta2) * g * g;
    double mean = x->first / (1 - pow(o->beta1, t)), square = x->second / (1 - pow(o->beta2, t));
    x->w -= lr * mean / (sqrt(square) + o->eps);
  }
}

static exact exact_run(const ronde__optim_options *o, size_t i) {
  exact x = {.w = small(i, 0) / 1024.0};
  for (int step = 1; step <= STEPS; ++step) {
    double g = small(i, step) * exp2(step % 7 - 3) / 1024;
    exact_update(o, rate(o, step), g, step, &x);
  }
  return x;
}

static void assert_near(const optimizer_case *c, const char *array, size_t i, double got, double want, double scale) {
  if (!(fabs(got - want) <= 3e-6 * scale)) fail_msg("%s: %s[%zu] is %.9g, not %.17g", c->name, array, i, got, want);
}

static void thirty_steps_follow_the_definitions(void **state) {
  enum { N = 1003 };
  static float w[N];
  for (int isa = 0; ronde__kernels_available(isa); ++isa) {
    for (size_t c = 0; c < RONDE__COUNT(cases); ++c) {
      const ronde__optim_options *o = &cases[c].options;
      ronde__optim *optim = run_steps(o, ronde__kernels_available(isa), NULL, w, N);
      int n_states = ronde__optim_n_states(optim);
      const char *name;
      for (size_t i = 0; i < N; ++i) {
        exact x = exact_run(o, i);
        assert_near(&cases[c], "weight", i, w[i], x.w, 1);
        if (n_states > 0)
          assert_near(&cases[c], "state 0", i, ronde__optim_state(optim, 0, &name)[i], x.first, 1 + fabs(x.first));
        if (n_states > 1)
          assert_near(&cases[c], "state 1", i, ronde__optim_state(optim, 1, &name)[i], x.second, 1 + fabs(x.second));
      }
      ronde__optim_destroy(optim);
    }
  }
}

/* ---- PyTorch's own numbers ---- */

/* Reads the values of one line "CASE ARRAY DTYPE values". */
static void golden_line(FILE *file, const char *name, const char *array, const char *dtype, double out[GOLDEN_N]) {
  char line[1024], a[32], b[32], d[8];
  rewind(file);
  while (fgets(line, sizeof line, file)) {
    int used;
    if (sscanf(line, "%31s %31s %7s%n", a, b, d, &used) != 3 || strcmp(a, name) || strcmp(b, array) || strcmp(d, dtype))
      continue;
    char *next = line + used;
    for (int i = 0; i < GOLDEN_N; ++i) {
      char *end;
      out[i] = strtod(next, &end);
      assert_ptr_not_equal(next, end);
      next = end;
    }
    return;
  }
  fail_msg("optim.golden has no line %s %s %s", name, array, dtype);
}

/* Our largest error against PyTorch in f64 is at most 4 times that of PyTorch in f32. */
static void golden_compare(FILE *file, const optimizer_case *c, const char *array, const float *got) {
  double f64[GOLDEN_N], f32[GOLDEN_N], own = 0, theirs = 0, largest = 0;
  golden_line(file, c->name, array, "f64", f64);
  golden_line(file, c->name, array, "f32", f32);
  for (int i = 0; i < GOLDEN_N; ++i) {
    own = fmax(own, fabs(got[i] - f64[i]));
    theirs = fmax(theirs, fabs(f32[i] - f64[i]));
    largest = fmax(largest, fabs(f64[i]));
  }
  /* Where PyTorch was lucky to within half a unit in the last place, no bound follows from it. */
  double allowed = 4 * fmax(theirs, largest * 0x1p-24);
  if (!(own <= allowed))
    fail_msg("%s: %s is %g away from PyTorch in f64, %g are allowed", c->name, array, own, allowed);
}

static void thirty_steps_follow_pytorch(void **state) {
  FILE *file = fopen(RONDE_SOURCE_DIR "/tests/golden/optim.golden", "r");
  assert_non_null(file);
  for (int isa = 0; ronde__kernels_available(isa); ++isa) {
    for (size_t c = 0; c < RONDE__COUNT(cases); ++c) {
      float w[GOLDEN_N];
      ronde__optim *optim = run_steps(&cases[c].options, ronde__kernels_available(isa), NULL, w, GOLDEN_N);
      golden_compare(file, &cases[c], "weight", w);
      for (int i = 0; i < ronde__optim_n_states(optim); ++i) {
        const char *name;
        const float *values = ronde__optim_state(optim, i, &name);
        golden_compare(file, &cases[c], name, values);
      }
      ronde__optim_destroy(optim);
    }
  }
  fclose(file);
}

/* ---- ranges, threads, state ---- */

static void assert_equal_bits(const optimizer_case *c, ronde__optim *a, ronde__optim *b, const float *wa,
                              const float *wb, size_t n) {
  if (memcmp(wa, wb, n * sizeof *wa)) fail_msg("%s: the weights differ", c->name);
  for (int i = 0; i < ronde__optim_n_states(a); ++i) {
    const char *name;
    const float *sa = ronde__optim_state(a, i, &name), *sb = ronde__optim_state(b, i, &name);
    if (memcmp(sa, sb, n * sizeof *sa)) fail_msg("%s: %s differs", c->name, name);
  }
}

static void ranges_in_any_order_give_the_same_bits(void **state) {
  enum { N = 203 };
  static const size_t cuts[] = {0, 1, 8, 9, 64, 65, 130, 199, N};
  static const int order[] = {5, 0, 7, 3, 1, 6, 2, 4};
  float whole[N], parts[N], g[N];
  for (int isa = 0; ronde__kernels_available(isa); ++isa) {
    for (size_t c = 0; c < RONDE__COUNT(cases); ++c) {
      const ronde__optim_options *o = &cases[c].options;
      ronde__optim *a = run_steps(o, ronde__kernels_available(isa), NULL, whole, N);
      ronde__optim *b = create_optim(o, ronde__kernels_available(isa), N);
      fill_weights(parts, N);
      for (int step = 1; step <= STEPS; ++step) {
        fill_gradients(g, N, step);
        ronde__optim_begin(b, rate(o, step));
        for (size_t i = 0; i < RONDE__COUNT(order); ++i)
          ronde__optim_range(b, parts + cuts[order[i]], g + cuts[order[i]], cuts[order[i]],
                             cuts[order[i] + 1] - cuts[order[i]]);
      }
      assert_equal_bits(&cases[c], a, b, whole, parts, N);
      ronde__optim_destroy(a);
      ronde__optim_destroy(b);
    }
  }
}

/* Sizes below, at and past the chunk that threads share out. */
static void threads_give_the_same_bits(void **state) {
  static const size_t sizes[] = {0, 1, 4096, 4097, 40001};
  static float one[40001], many[40001];
  ronde__pool *pool = NULL;
  assert_int_equal(ronde__pool_create(3, &pool), RONDE_OK);
  for (size_t s = 0; s < RONDE__COUNT(sizes); ++s) {
    for (size_t c = 0; c < RONDE__COUNT(cases); ++c) {
      ronde__optim *a = run_steps(&cases[c].options, ronde__kernels_available(0), NULL, one, sizes[s]);
      ronde__optim *b = run_steps(&cases[c].options, ronde__kernels_available(0), pool, many, sizes[s]);
      assert_equal_bits(&cases[c], a, b, one, many, sizes[s]);
      ronde__optim_destroy(a);
      ronde__optim_destroy(b);
    }
  }
  ronde__pool_destroy(pool);
}

static void padding_stays_zero(void **state) {
  float w[GOLDEN_N];
  for (size_t c = 0; c < RONDE__COUNT(cases); ++c) {
    ronde__optim *optim = run_steps(&cases[c].options, ronde__kernels_available(0), NULL, w, GOLDEN_N);
    uint32_t bits;
    memcpy(&bits, &w[7], sizeof bits);
    assert_int_equal(bits, 0);
    ronde__optim_destroy(optim);
  }
}

static void states_are_named_and_counted(void **state) {
  static const struct {
    const char *name, *states[6];
    size_t n_states;
  } wanted[] = {
      {"sgd", {0}, 0},
      {"momentum", {"momentum_buffer"}, 1},
      {"adam", {"exp_avg", "exp_avg_sq"}, 2},
      {"adamw", {"exp_avg", "exp_avg_sq"}, 2},
      {"adagrad", {"sum"}, 1},
      {"rmsprop", {"square_avg"}, 1},
      {"rmsprop-momentum", {"square_avg", "momentum_buffer"}, 2},
      {"lbfgs", {"d", "prev_flat_grad", "old_dirs.0", "old_stps.0", "old_dirs.1", "old_stps.1"}, 6},
  };
  for (size_t i = 0; i < RONDE__COUNT(wanted); ++i) {
    static const optimizer_case lbfgs = {"lbfgs", {.kind = RONDE__OPTIM_LBFGS, .history = 2}};
    const optimizer_case *c = strcmp(wanted[i].name, "lbfgs") ? cases : &lbfgs;
    while (strcmp(c->name, wanted[i].name)) ++c;
    ronde__optim *optim = create_optim(&c->options, ronde__kernels_available(0), 10);
    assert_int_equal(ronde__optim_n_states(optim), wanted[i].n_states);
    assert_int_equal(ronde__optim_state_bytes(&c->options, 10), wanted[i].n_states * 40);
    assert_int_equal(ronde__optim_updates(optim), 0);
    for (int s = 0; s < (int)wanted[i].n_states; ++s) {
      const char *name;
      const float *values = ronde__optim_state(optim, s, &name);
      assert_string_equal(name, wanted[i].states[s]);
      for (int j = 0; j < 10; ++j) assert_true(values[j] == 0);
    }
    ronde__optim_destroy(optim);
  }
  ronde__optim_destroy(NULL);
}

/* Against an optimizer that knows of none, in two calls whose border cuts dead ranges apart: the same bits. Where they are passed
 * over, gradients that are NaN are not looked at. */
static void what_is_dead_is_passed_over(void **state) {
  enum { N = 40000, CUT = 20001 };
  static const ronde__range dead[] = {{0, 7}, {300, 5000}, {5300, 1}, {CUT - 3, 6}, {39000, 1000}};
  static float w[2][N], g[2][N];
  for (size_t c = 0; c < RONDE__COUNT(cases); ++c)
    for (int loaded = 0; loaded < 2; ++loaded) {
      const ronde__optim_options *o = &cases[c].options;
      ronde__optim *plain = create_optim(o, ronde__kernels_available(0), N),
                   *knows = create_optim(o, ronde__kernels_available(0), N);
      const char *name;
      bool passes = o->weight_decay == 0 && !(loaded && ronde__optim_n_states(plain));
      ronde__optim_set_dead(knows, dead, RONDE__COUNT(dead));
      for (int s = 0; loaded && s < ronde__optim_n_states(plain); ++s)
        ronde__optim_state(plain, s, &name)[303] = ronde__optim_state(knows, s, &name)[303] = 0.5f;
      fill_weights(w[0], N), fill_weights(w[1], N);
      for (int step = 1; step <= 3; ++step) {
        fill_gradients(g[0], N, step);
        for (size_t d = 0; d < RONDE__COUNT(dead); ++d) memset(g[0] + dead[d].begin, 0, dead[d].n * sizeof(float));
        memcpy(g[1], g[0], sizeof g[0]);
        for (size_t d = 0; passes && d < RONDE__COUNT(dead); ++d)
          for (size_t j = 0; j < dead[d].n; ++j) g[1][dead[d].begin + j] = NAN;
        ronde__optim_begin(plain, rate(o, step));
        ronde__optim_range_on(plain, NULL, w[0], g[0], 0, N);
        ronde__optim_begin(knows, rate(o, step));
        ronde__optim_range(knows, w[1] + CUT, g[1] + CUT, CUT, N - CUT);
        ronde__optim_range(knows, w[1], g[1], 0, CUT);
      }
      assert_memory_equal(w[0], w[1], sizeof w[0]);
      for (int s = 0; s < ronde__optim_n_states(plain); ++s)
        assert_memory_equal(ronde__optim_state(plain, s, &name), ronde__optim_state(knows, s, &name), sizeof w[0]);
      ronde__optim_destroy(plain), ronde__optim_destroy(knows);
    }
}

/* A table behind other elements, in parts that cut rows. Gradients of rows that were not met are never read. */
static void rows_are_updated_as_if_the_others_were_zero(void **state) {
  enum { ROWS = 1100, WIDTH = 10, FIRST = 32, N = FIRST + ROWS * WIDTH, CUT = 5003 };
  static float w[2][N], g[2][N];
  for (size_t c = 0; c < RONDE__COUNT(cases); ++c)
    for (int threads = 1; threads <= 3; threads += 2) {
      const ronde__optim_options *o = &cases[c].options;
      ronde__optim *plain = create_optim(o, ronde__kernels_available(0), N),
                   *knows = create_optim(o, ronde__kernels_available(0), N);
      ronde__pool *pool;
      const char *name;
      assert_int_equal(ronde__pool_create(threads, &pool), RONDE_OK);
      fill_weights(w[0], N), fill_weights(w[1], N);
      for (int step = 1; step <= 4; ++step) {
        uint64_t bits[(ROWS + 63) / 64] = {0};
        ronde__row_set rows = {bits, ROWS, WIDTH};
        fill_gradients(g[0], N, step);
        memcpy(g[1], g[0], sizeof g[0]);
        for (int64_t r = 0; r < ROWS; ++r) {
          bool met = small((size_t)(r / 3), 10 * step) > 0;
          if (met) ronde__row_set_add(&rows, r);
          for (int64_t i = FIRST + r * WIDTH; i < FIRST + (r + 1) * WIDTH && !met; ++i) g[0][i] = 0, g[1][i] = NAN;
        }
        ronde__optim_begin(plain, rate(o, step)), ronde__optim_begin(knows, rate(o, step));
        ronde__optim_range(plain, w[0] + FIRST, g[0] + FIRST, FIRST, N - FIRST);
        ronde__optim_rows_on(knows, pool, w[1] + FIRST, g[1] + FIRST, FIRST, &rows,
                             (ronde__range){CUT, ROWS * WIDTH - CUT});
        ronde__optim_rows_on(knows, pool, w[1] + FIRST, g[1] + FIRST, FIRST, &rows, (ronde__range){0, CUT});
      }
      assert_memory_equal(w[0], w[1], sizeof w[0]);
      for (int s = 0; s < ronde__optim_n_states(plain); ++s)
        assert_memory_equal(ronde__optim_state(plain, s, &name), ronde__optim_state(knows, s, &name), sizeof w[0]);
      ronde__optim_destroy(plain), ronde__optim_destroy(knows);
      ronde__pool_destroy(pool);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(thirty_steps_follow_the_definitions),
      cmocka_unit_test(thirty_steps_follow_pytorch),
      cmocka_unit_test(ranges_in_any_order_give_the_same_bits),
      cmocka_unit_test(threads_give_the_same_bits),
      cmocka_unit_test(padding_stays_zero),
      cmocka_unit_test(what_is_dead_is_passed_over),
      cmocka_unit_test(rows_are_updated_as_if_the_others_were_zero),
      cmocka_unit_test(states_are_named_and_counted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

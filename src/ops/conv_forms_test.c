/* Forms with fewer multiplications, at shapes of many groups of blocks or chunks, too large for the naive references of
 * the op harness: against the taps, and with the same bits on one, two and three threads. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include "ops/conv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 42, TAPS = 9 };

typedef struct shape {
  int64_t in, out, size; /* channels, and pixels on a side */
} shape;

typedef struct results {
  float *y, *dx, *dw;
} results;

static ronde__op_desc describe(const shape *shape, int threads) {
  ronde__phys in = ronde__phys_make(RONDE__BLOCKS, N, shape->in, shape->size, shape->size);
  ronde__phys out = ronde__phys_make(RONDE__BLOCKS, N, shape->out, shape->size, shape->size);
  return (ronde__op_desc){
      .attr = {.out_channels = shape->out, .kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}},
      .n_inputs = 1,
      .n_params = 1,
      .in = {in},
      .out = out,
      .param = {{RONDE__BLOCKED, shape->out, shape->in, TAPS, out.block, in.block}},
      .need_dinput = {true},
      .kernels = ronde__kernels_available(0),
      .gemm = RONDE__GEMM_TILE,
      .threads = threads,
  };
}

static float *values(int64_t n, uint32_t seed) {
  float *x = malloc((size_t)n * sizeof *x);
  for (int64_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (float)(seed >> 8) / (float)(1 << 23) - 1;
  }
  return x;
}

typedef struct operands {
  float *x, *w, *dy;
  size_t in, out, weights; /* elements */
} operands;

/* Gradients are added to what is there where asked. */
static results run(const ronde__conv_form *form, const shape *shape, int threads, bool accumulate, const operands *o) {
  ronde__pool *pool;
  void *state;
  ronde__op_desc desc = describe(shape, threads);
  assert_int_equal(ronde__pool_create(threads, &pool), RONDE_OK);
  assert_int_equal(form->prepare(&desc, &state), RONDE_OK);
  results r = {malloc(o->out * sizeof(float)), values((int64_t)o->in, 4), values((int64_t)o->weights, 5)};
  float *dout = malloc(o->out * sizeof *dout);
  memcpy(dout, o->dy, o->out * sizeof *dout);
  ronde__op_call call = {.in = {o->x}, .out = r.y, .param = {o->w}, .pool = pool};
  call.work = malloc(form->work_elems(&desc, state, false) * sizeof(float));
  form->forward(&desc, state, &call);
  free(call.work);
  call.work = malloc(form->work_elems(&desc, state, true) * sizeof(float));
  call.dout = dout, call.din[0] = r.dx, call.dparam[0] = r.dw;
  call.accumulate_dinput[0] = call.accumulate_dparam = accumulate;
  form->backward(&desc, state, &call);
  free(call.work), free(dout);
  form->release(state);
  ronde__pool_destroy(pool);
  return r;
}

static void results_free(results *r) { free(r->y), free(r->dx), free(r->dw); }

/* Relative to the largest value. */
static void check_near(const float *x, const float *want, size_t n) {
  float largest = 0, error = 0;
  for (size_t i = 0; i < n; i++) {
    largest = fmaxf(largest, fabsf(want[i]));
    error = fmaxf(error, fabsf(x[i] - want[i]));
    assert_true(isfinite(x[i]));
  }
  assert_true(error <= 1e-5f * largest);
}

static void check(const ronde__conv_form *form, const shape *shape, bool accumulate) {
  ronde__op_desc desc = describe(shape, 1);
  operands o = {.in = (size_t)ronde__phys_elems(&desc.in[0]),
                .out = (size_t)ronde__phys_elems(&desc.out),
                .weights = (size_t)ronde__weight_elems(&desc.param[0])};
  o.x = values((int64_t)o.in, 1), o.w = values((int64_t)o.weights, 2), o.dy = values((int64_t)o.out, 3);
  results want = run(&ronde__conv_blocks, shape, 1, accumulate, &o), one = run(form, shape, 1, accumulate, &o);
  check_near(one.y, want.y, o.out);
  check_near(one.dx, want.dx, o.in);
  check_near(one.dw, want.dw, o.weights);
  for (int threads = 2; threads <= 3; threads++) {
    results many = run(form, shape, threads, accumulate, &o);
    assert_memory_equal(one.y, many.y, o.out * sizeof(float));
    assert_memory_equal(one.dx, many.dx, o.in * sizeof(float));
    assert_memory_equal(one.dw, many.dw, o.weights * sizeof(float));
    results_free(&many);
  }
  results_free(&want), results_free(&one);
  free(o.x), free(o.w), free(o.dy);
}

static void test_winograd(void **state) {
  static const shape many_chunks = {64, 64, 24};
  ronde__op_desc desc = describe(&many_chunks, 1);
  assert_true(ronde__conv_winograd_pays(&desc));
  check(&ronde__conv_winograd, &many_chunks, false);
}

/* Groups of input blocks and of output blocks, the last of them smaller. */
static void test_toeplitz(void **state) {
  static const shape shapes[] = {{192, 320, 2}, {320, 192, 2}, {32, 64, 2}};
  for (size_t i = 0; i < RONDE__COUNT(shapes); i++) {
    ronde__op_desc desc = describe(&shapes[i], 1);
    assert_true(ronde__conv_toeplitz_pays(&desc));
    check(&ronde__conv_toeplitz, &shapes[i], false);
    check(&ronde__conv_toeplitz, &shapes[i], true);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_winograd),
      cmocka_unit_test(test_toeplitz),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

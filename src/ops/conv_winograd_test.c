/* A shape of many groups of chunks, too large for the naive references of the op harness: against the taps, and with
 * the same bits on one and two threads. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include "ops/conv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 42, C = 64, SIZE = 24, TAPS = 9 };

typedef struct results {
  float *y, *dx, *dw;
} results;

static ronde__op_desc describe(const ronde__kernels *kernels, int threads) {
  ronde__phys phys = ronde__phys_make(RONDE__BLOCKS, N, C, SIZE, SIZE);
  return (ronde__op_desc){
      .attr = {.out_channels = C, .kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}},
      .n_inputs = 1,
      .n_params = 1,
      .in = {phys},
      .out = phys,
      .param = {{RONDE__BLOCKED, C, C, TAPS, phys.block, phys.block}},
      .need_dinput = {true},
      .kernels = kernels,
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

static results run(const ronde__conv_form *form, int threads, const float *x, const float *w, const float *dy) {
  ronde__pool *pool;
  void *state;
  ronde__op_desc desc = describe(ronde__kernels_available(0), threads);
  size_t elems = (size_t)ronde__phys_elems(&desc.in[0]), weights = (size_t)ronde__weight_elems(&desc.param[0]);
  assert_int_equal(ronde__pool_create(threads, &pool), RONDE_OK);
  assert_int_equal(form->prepare(&desc, &state), RONDE_OK);
  results r = {malloc(elems * sizeof(float)), malloc(elems * sizeof(float)), malloc(weights * sizeof(float))};
  float *dout = malloc(elems * sizeof *dout);
  memcpy(dout, dy, elems * sizeof *dout);
  ronde__op_call call = {.in = {x}, .out = r.y, .param = {w}, .pool = pool};
  call.work = malloc(form->work_elems(&desc, state, false) * sizeof(float));
  form->forward(&desc, state, &call);
  free(call.work);
  call.work = malloc(form->work_elems(&desc, state, true) * sizeof(float));
  call.dout = dout, call.din[0] = r.dx, call.dparam[0] = r.dw;
  form->backward(&desc, state, &call);
  free(call.work), free(dout);
  form->release(state);
  ronde__pool_destroy(pool);
  return r;
}

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

static void test_many_groups(void **state) {
  ronde__op_desc desc = describe(ronde__kernels_available(0), 1);
  assert_true(ronde__conv_winograd_pays(&desc));
  size_t elems = (size_t)ronde__phys_elems(&desc.in[0]), weights = (size_t)ronde__weight_elems(&desc.param[0]);
  float *x = values((int64_t)elems, 1), *w = values((int64_t)weights, 2), *dy = values((int64_t)elems, 3);
  results want = run(&ronde__conv_blocks, 1, x, w, dy);
  results one = run(&ronde__conv_winograd, 1, x, w, dy), two = run(&ronde__conv_winograd, 2, x, w, dy);
  check_near(one.y, want.y, elems);
  check_near(one.dx, want.dx, elems);
  check_near(one.dw, want.dw, weights);
  assert_memory_equal(one.y, two.y, elems * sizeof(float));
  assert_memory_equal(one.dx, two.dx, elems * sizeof(float));
  assert_memory_equal(one.dw, two.dw, weights * sizeof(float));
  free(x), free(w), free(dy);
  results *all[] = {&want, &one, &two};
  for (size_t i = 0; i < RONDE__COUNT(all); i++) free(all[i]->y), free(all[i]->dx), free(all[i]->dw);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_many_groups),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

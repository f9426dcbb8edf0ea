/* Forms with fewer multiplications, at shapes of many groups of blocks or chunks, too large for the naive references of
 * the op harness: against the taps, and with the same bits on one, two and three threads. And which form is taken when. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernel/bf16.h"
#include "ops/conv.h"
#include "sanitized.h"

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
      .out = {out},
      .param = {{RONDE__BLOCKED, shape->out, shape->in, TAPS, out.block, in.block}},
      .need_dinput = {true},
      .compute = {.kernels = ronde__kernels_available(0), .gemm = RONDE__GEMM_TILE},
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
static results run(const ronde__form *form, const shape *shape, int threads, bool accumulate, const operands *o) {
  ronde__pool *pool;
  void *state;
  ronde__op_desc desc = describe(shape, threads);
  desc.form = form;
  assert_int_equal(ronde__pool_create(threads, &pool), RONDE_OK);
  assert_int_equal(form->prepare(&desc, &state), RONDE_OK);
  results r = {malloc(o->out * sizeof(float)), values((int64_t)o->in, 4), values((int64_t)o->weights, 5)};
  float *dout = malloc(o->out * sizeof *dout);
  memcpy(dout, o->dy, o->out * sizeof *dout);
  ronde__op_call call = {.in = {o->x}, .out = {r.y}, .param = {o->w}, .pool = pool};
  call.work = malloc(form->work_elems(&desc, state, false) * sizeof(float));
  assert_int_equal(form->forward(&desc, state, &call), RONDE_OK);
  free(call.work);
  call.work = malloc(form->work_elems(&desc, state, true) * sizeof(float));
  call.dout[0] = dout, call.din[0] = r.dx, call.dparam[0] = r.dw;
  call.accumulate_dinput[0] = call.accumulate_dparam[0] = accumulate;
  assert_int_equal(form->backward(&desc, state, &call), RONDE_OK);
  free(call.work), free(dout);
  form->release(&desc, state);
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

static void check(const ronde__form *form, const shape *shape, bool accumulate) {
  ronde__op_desc desc = describe(shape, 1);
  operands o = {.in = (size_t)ronde__phys_elems(&desc.in[0]),
                .out = (size_t)ronde__phys_elems(&desc.out[0]),
                .weights = (size_t)ronde__weight_elems(&desc.param[0])};
  o.x = values((int64_t)o.in, 1), o.w = values((int64_t)o.weights, 2), o.dy = values((int64_t)o.out, 3);
  results want = run(&ronde__conv_blocks, shape, 1, accumulate, &o), one = run(form, shape, 1, accumulate, &o);
  check_near(one.y, want.y, o.out);
  check_near(one.dx, want.dx, o.in);
  check_near(one.dw, want.dw, o.weights);
  for (int threads = SMALL_CASES_ONLY ? 3 : 2; threads <= 3; threads++) {
    results many = run(form, shape, threads, accumulate, &o);
    assert_memory_equal(one.y, many.y, o.out * sizeof(float));
    assert_memory_equal(one.dx, many.dx, o.in * sizeof(float));
    assert_memory_equal(one.dw, many.dw, o.weights * sizeof(float));
    results_free(&many);
  }
  results_free(&want), results_free(&one);
  free(o.x), free(o.w), free(o.dy);
}

/* Many chunks; and so many channels that each chunk transforms the weights anew, their gradient in one chunk and in several. */
static void test_winograd(void **state) {
  static const shape shapes[] = {{64, 64, 24}, {256, 256, 7}, {256, 256, 12}};
  for (size_t i = 0; i < (SMALL_CASES_ONLY ? 1 : RONDE__COUNT(shapes)); i++) {
    ronde__op_desc desc = describe(&shapes[i], 1);
    assert_true(ronde__conv_winograd.takes(&desc));
    check(&ronde__conv_winograd, &shapes[i], i > 0);
  }
}

/* Groups of input blocks and of output blocks, the last of them smaller; small ones alone for who is slow. */
static void test_toeplitz(void **state) {
  static const shape shapes[] = {{192, 320, 2}, {320, 192, 2}, {32, 64, 2}};
  for (size_t i = SMALL_CASES_ONLY ? 2 : 0; i < RONDE__COUNT(shapes); i++) {
    ronde__op_desc desc = describe(&shapes[i], 1);
    assert_true(ronde__conv_toeplitz.takes(&desc));
    check(&ronde__conv_toeplitz, &shapes[i], false);
    check(&ronde__conv_toeplitz, &shapes[i], true);
  }
}

/* ---- the choice: the rows of DESIGN.md's table ---- */

typedef struct choice {
  const char *form;
  int64_t n, in, size, out;
  int kernel, stride, padding, groups;
  ronde__layout offered;
  bool need_dinput;
} choice;

static const ronde__op *conv(void) { return ronde__ops[RONDE__OP_CONV2D]; }

static ronde__op_desc laid_out(const choice *c) {
  int64_t size = (c->size + 2 * c->padding - c->kernel) / c->stride + 1;
  ronde__shape in = {3, {c->in, c->size, c->size}}, out = {3, {c->out, size, size}};
  ronde__op_desc desc = {.attr = {.out_channels = c->out,
                                  .kernel = {c->kernel, c->kernel},
                                  .stride = {c->stride, c->stride},
                                  .padding = {c->padding, c->padding},
                                  .groups = c->groups},
                         .n_inputs = 1,
                         .n_params = 1,
                         .in = {ronde__phys_make(c->offered, c->n, c->in, c->size, c->size)},
                         .need_dinput = {c->need_dinput},
                         .compute = {.kernels = ronde__kernels_available(0)},
                         .threads = 1};
  conv()->layouts(&desc, &in, &out);
  return desc;
}

static void test_the_choice(void **state) {
  static const choice choices[] = {
      {"depthwise", 8, 36, 8, 36, 3, 1, 1, 36, RONDE__LANES, true},
      {"groups", 8, 36, 8, 36, 3, 1, 1, 6, RONDE__BLOCKS, true},
      {"grouped", 8, 128, 8, 128, 3, 1, 1, 32, RONDE__BLOCKS, true},
      {"grouped", 8, 104, 8, 104, 3, 2, 1, 13, RONDE__LANES, true},
      {"grouped", 8, 64, 8, 64, 3, 1, 1, 4, RONDE__BLOCKS, true},
      {"groups", 8, 128, 8, 128, 3, 1, 1, 2, RONDE__BLOCKS, true},
      {"groups", 8, 72, 8, 72, 3, 1, 1, 3, RONDE__BLOCKS, true}, /* 24 channels: not a multiple of 16 */
      {"groups", 8, 6, 8, 12, 3, 1, 1, 6, RONDE__BLOCKS, true},
      {"toeplitz", 32, 32, 2, 32, 3, 1, 1, 1, RONDE__BLOCKS, true},
      {"blocks", 31, 32, 2, 32, 3, 1, 1, 1, RONDE__BLOCKS,
       true}, /* too few examples for the one, pixels for the other */
      {"winograd f(4,3)", 16, 32, 4, 32, 3, 1, 1, 0, RONDE__BLOCKS, true},
      {"winograd f(4,3)", 16, 32, 6, 32, 3, 1, 0, 0, RONDE__ROWS, true},
      {"blocks", 15, 32, 4, 32, 3, 1, 1, 0, RONDE__BLOCKS, true}, /* fewer than 16 tiles */
      {"blocks", 64, 31, 8, 32, 3, 1, 1, 0, RONDE__BLOCKS, true}, /* channels */
      {"blocks", 64, 32, 8, 31, 3, 1, 1, 0, RONDE__BLOCKS, true}, /* channels */
      {"blocks", 64, 32, 8, 32, 3, 2, 1, 0, RONDE__BLOCKS, true}, /* stride */
      {"blocks", 64, 32, 8, 32, 5, 1, 2, 0, RONDE__BLOCKS, true}, /* kernel */
      {"blocks", 64, 32, 5, 32, 3, 1, 1, 0, RONDE__BLOCKS, true}, /* four tiles for 25 pixels save too little */
      {"blocks", 64, 8, 8, 32, 3, 1, 1, 0, RONDE__LANES, true},   /* a data gradient into LANES of many outputs */
      {"blocks", 64, 17, 8, 8, 3, 1, 1, 0, RONDE__ROWS, false},
      {"lanes", 64, 16, 8, 31, 3, 1, 1, 0, RONDE__ROWS, true},
      {"first", 64, 16, 8, 32, 3, 1, 1, 0, RONDE__ROWS, false},
  };
  for (size_t i = 0; i < RONDE__COUNT(choices); i++) {
    ronde__op_desc desc = laid_out(&choices[i]);
    assert_int_equal(ronde__form_choose(conv(), &desc), RONDE_OK);
    if (strcmp(desc.form->name, choices[i].form))
      fail_msg("choice %zu: %s instead of %s", i, desc.form->name, choices[i].form);
  }
}

/* Tiles multiply many times as fast as f32; without them what has fewer products goes first. */
static void test_the_choice_in_bfloat16(void **state) {
  static const ronde__bf16 with_tiles = {.is_tiles = true}, without = {.is_tiles = false};
  static const choice choices[] = {
      {"toeplitz", 32, 32, 2, 32, 3, 1, 1, 1, RONDE__BLOCKS, true},
      {"winograd f(4,3)", 16, 32, 4, 32, 3, 1, 1, 0, RONDE__BLOCKS, true},
      {"bf16", 64, 32, 8, 32, 3, 2, 1, 0, RONDE__BLOCKS, true},
      {"bf16", 64, 32, 8, 32, 1, 1, 0, 0, RONDE__BLOCKS, true},
      {"first", 64, 16, 8, 32, 3, 1, 1, 0, RONDE__ROWS, false},
  };
  for (size_t i = 0; i < RONDE__COUNT(choices); i++) {
    ronde__op_desc desc = laid_out(&choices[i]);
    desc.compute.bf16 = &without;
    assert_int_equal(ronde__form_choose(conv(), &desc), RONDE_OK);
    assert_string_equal(desc.form->name, choices[i].form);
    desc.compute.bf16 = &with_tiles;
    assert_int_equal(ronde__form_choose(conv(), &desc), RONDE_OK);
    assert_string_equal(desc.form->name, strcmp(choices[i].form, "first") ? "bf16" : "first bf16");
  }
}

static void test_what_no_form_takes_is_refused(void **state) {
  static const choice blocks = {"blocks", 64, 32, 8, 32, 3, 2, 1, 0, RONDE__BLOCKS, true};
  ronde__op_desc desc = laid_out(&blocks);
  desc.out[0].layout = RONDE__ROWS;
  assert_int_equal(ronde__form_choose(conv(), &desc), RONDE_E_INTERNAL);
  assert_null(desc.form);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_winograd),
      cmocka_unit_test(test_toeplitz),
      cmocka_unit_test(test_the_choice),
      cmocka_unit_test(test_the_choice_in_bfloat16),
      cmocka_unit_test(test_what_no_form_takes_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

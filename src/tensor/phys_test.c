/* Layouts of activations: where each element lies, and the moves between layouts. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

typedef struct dims {
  int64_t n, c, h, w;
} dims;

static const dims shapes[] = {
    {1, 1, 1, 1},    {1, 3, 5, 7},   {7, 10, 1, 1},  {7, 67, 3, 3},  {42, 3, 4, 5},  {16, 16, 2, 2},
    {126, 17, 1, 3}, {2, 130, 2, 1}, {33, 64, 1, 1}, {1, 400, 1, 1}, {3, 128, 5, 1},
};

static void channel_blocks(void **unused) {
  for (int64_t c = 1; c <= 600; c++) {
    int64_t block = ronde__channel_block(c), blocks = ronde__ceil_div(c, block);
    assert_in_range(block, 16, 64);
    assert_int_equal(block % RONDE__QUANTUM, 0);
    assert_true(block * blocks - c < block);
    if (c > 64) assert_true(block >= 32 && (double)(block * blocks) <= 1.1 * (double)ronde__round_up(c, 32));
  }
  static const int64_t sizes[][2] = {{1, 16},   {16, 16},  {17, 32},  {40, 48},  {64, 64},  {67, 32}, {96, 32},
                                     {128, 64}, {144, 48}, {160, 32}, {192, 64}, {288, 32}, {400, 64}};
  for (size_t i = 0; i < RONDE__COUNT(sizes); i++) assert_int_equal(ronde__channel_block(sizes[i][0]), sizes[i][1]);
}

/* As the header words it. */
static int64_t phys_place(const ronde__phys *x, int64_t n, int64_t c, int64_t p) {
  int64_t pixels = x->h * x->w;
  if (x->layout == RONDE__ROWS) return n * (x->c * pixels) + c * pixels + p;
  if (x->layout == RONDE__LANES) return c * (pixels * x->block) + p * x->block + n;
  return c / x->block * (pixels * x->n * x->block) + p * (x->n * x->block) + n * x->block + c % x->block;
}

static void phys_places(void **unused) {
  for (size_t i = 0; i < RONDE__COUNT(shapes); i++)
    for (ronde__layout layout = RONDE__ROWS; layout <= RONDE__BLOCKS; layout++) {
      const dims *d = &shapes[i];
      ronde__phys x = ronde__phys_make(layout, d->n, d->c, d->h, d->w);
      int64_t elems = ronde__phys_elems(&x);
      char *taken = calloc((size_t)elems, 1);
      for (int64_t n = 0; n < d->n; n++)
        for (int64_t c = 0; c < d->c; c++)
          for (int64_t p = 0; p < d->h * d->w; p++) {
            int64_t at = ronde__phys_index(&x, n, c, p);
            assert_int_equal(at, phys_place(&x, n, c, p));
            assert_in_range(at, 0, elems - 1);
            assert_int_equal(taken[at]++, 0);
          }
      free(taken);
      if (layout != RONDE__BLOCKS) assert_int_equal(elems, d->n * d->c * d->h * d->w);
      if (layout == RONDE__LANES) assert_int_equal(x.block, d->n);
      if (layout == RONDE__BLOCKS) assert_int_equal(elems, ronde__phys_blocks(&x) * x.block * d->n * d->h * d->w);
      assert_true(ronde__phys_equal(&x, &(ronde__phys){x.layout, x.n, x.c, x.h, x.w, x.block, x.bf16}));
      assert_false(ronde__phys_equal(&x, &(ronde__phys){x.layout, x.n + 1, x.c, x.h, x.w, x.block, x.bf16}));
    }
}

enum { GUARD = 16 };
static const float sentinel = -12345;

static float *guarded(int64_t elems, float fill) {
  float *x = malloc((size_t)(elems + 2 * GUARD) * sizeof *x);
  for (int64_t i = 0; i < elems + 2 * GUARD; i++) x[i] = i < GUARD || i >= elems + GUARD ? sentinel : fill;
  return x + GUARD;
}

static void guarded_free(float *x, int64_t elems) {
  for (int i = 0; i < GUARD; i++) assert_true(x[i - GUARD] == sentinel && x[elems + i] == sentinel);
  free(x - GUARD);
}

/* f numbers the features of an example, whatever their split into channels and pixels. */
static float value_of(int64_t n, int64_t f) { return (float)(n * 10007 + f + 1); }

static int64_t feature_place(const ronde__phys *x, int64_t n, int64_t f) {
  return ronde__phys_index(x, n, f / (x->h * x->w), f % (x->h * x->w));
}

static void check_reorder(const ronde__phys *from, const ronde__phys *to, bool accumulate) {
  int64_t features = from->c * from->h * from->w, n_from = ronde__phys_elems(from), n_to = ronde__phys_elems(to);
  float *src = guarded(n_from, 777), *dst = guarded(n_to, accumulate ? 0.5f : -3); /* padding of src holds anything */
  for (int64_t n = 0; n < from->n; n++)
    for (int64_t f = 0; f < features; f++) src[feature_place(from, n, f)] = value_of(n, f);
  ronde__reorder(from, src, to, dst, accumulate);
  for (int64_t n = 0; n < to->n; n++)
    for (int64_t f = 0; f < features; f++) {
      float *y = &dst[feature_place(to, n, f)];
      assert_true(*y == value_of(n, f) + (accumulate ? 0.5f : 0));
      *y = accumulate ? 0.5f : 0;
    }
  for (int64_t i = 0; i < n_to; i++) assert_true(dst[i] == (accumulate ? 0.5f : 0)); /* padding: zero, or left alone */
  guarded_free(src, n_from);
  guarded_free(dst, n_to);
}

static void reorders(void **unused) {
  for (size_t i = 0; i < RONDE__COUNT(shapes); i++)
    for (int pair = 0; pair < 9; pair++) {
      const dims *d = &shapes[i];
      ronde__phys from = ronde__phys_make(pair / 3, d->n, d->c, d->h, d->w);
      ronde__phys to = ronde__phys_make(pair % 3, d->n, d->c, d->h, d->w);
      check_reorder(&from, &to, false);
      check_reorder(&from, &to, true);
    }
}

/* A flattened image meets a vector. */
static void reorders_between_splits(void **unused) {
  static const dims splits[][2] = {{{7, 10, 3, 3}, {7, 90, 1, 1}},
                                   {{3, 67, 2, 2}, {3, 268, 1, 1}},
                                   {{20, 6, 2, 5}, {20, 4, 3, 5}},
                                   {{1, 1, 1, 100}, {1, 100, 1, 1}}};
  for (size_t i = 0; i < RONDE__COUNT(splits); i++)
    for (int pair = 0; pair < 18; pair++) {
      const dims *a = &splits[i][pair / 9], *b = &splits[i][1 - pair / 9];
      ronde__phys from = ronde__phys_make(pair / 3 % 3, a->n, a->c, a->h, a->w);
      ronde__phys to = ronde__phys_make(pair % 3, b->n, b->c, b->h, b->w);
      check_reorder(&from, &to, false);
      check_reorder(&from, &to, true);
    }
}

static void shapes_as_text(void **unused) {
  char text[32];
  ronde__shape_text(&(ronde__shape){3, {3, 32, 28}}, text, sizeof text);
  assert_string_equal(text, "3x32x28");
  ronde__shape_text(&(ronde__shape){1, {10}}, text, sizeof text);
  assert_string_equal(text, "10");
  ronde__shape_text(&(ronde__shape){0}, text, sizeof text);
  assert_string_equal(text, "scalar");
  char small[6];
  ronde__shape_text(&(ronde__shape){3, {1000, 2000, 3000}}, small, sizeof small);
  assert_string_equal(small, "1000x");
  assert_int_equal(ronde__shape_elems(&(ronde__shape){3, {3, 32, 28}}), 2688);
  assert_int_equal(ronde__shape_elems(&(ronde__shape){0}), 1);
  assert_true(ronde__shape_equal(&(ronde__shape){2, {3, 4}}, &(ronde__shape){2, {3, 4}}));
  assert_false(ronde__shape_equal(&(ronde__shape){2, {3, 4}}, &(ronde__shape){2, {4, 3}}));
  assert_false(ronde__shape_equal(&(ronde__shape){1, {3}}, &(ronde__shape){2, {3, 1}}));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(channel_blocks),          cmocka_unit_test(phys_places),    cmocka_unit_test(reorders),
      cmocka_unit_test(reorders_between_splits), cmocka_unit_test(shapes_as_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Pooling windows over bfloat16, against the kernels of f32 on the same numbers. */
#include "kernel/bf16.h"
#include "kernel/kernel_testing.h"

#include <stdio.h>

enum { WINDOWS = 5, STRIDE = 70, ALL = 4 * STRIDE };
/* Out of order, and two of them overlap. */
static const int64_t offsets[WINDOWS] = {3 * STRIDE, 0, STRIDE, STRIDE + 9, 2 * STRIDE};
static const ronde__window_of windows_of[WINDOWS] = {{3 * STRIDE, 2, 0.25f},
                                                     {0, 0, 1},
                                                     {STRIDE, RONDE__NO_PLACE - 1, 0.5f},
                                                     {STRIDE + 9, 1, 3},
                                                     {2 * STRIDE, 0, 0.125f}};

/* The same numbers in both kinds. */
typedef struct operand {
  float wide[ALL];
  uint16_t narrow[ALL];
} operand;

static const ronde__bf16 *bf16;
static bool x_narrow, y_narrow;

/* Few different values, so that there are ties; now and then NaN and infinities. */
static void fill(operand *o, bool rare) {
  const float odd[] = {NAN, INFINITY, -INFINITY};
  floats x = floats_make(ALL, 0);
  for (int i = 0; i < ALL; i++) o->wide[i] = rare && i % 19 == 18 ? odd[i % 3] : floorf(x.at[i] * 8) / 4;
  bf16->pack(o->wide, ALL, o->narrow);
  bf16->unpack(o->narrow, ALL, o->wide);
  floats_free(&x);
}

static ronde__operand of(operand *o, bool narrow) {
  return (ronde__operand){narrow ? (void *)o->narrow : (void *)o->wide, narrow};
}

/* got holds the first n of `wanted`, rounded if it is narrow, up to so many units in the last place, and behind them what
 * it had before. */
static void check(const operand *got, const operand *before, const float *wanted, int64_t n, double places) {
  uint16_t rounded[ALL];
  float values[ALL], wide[ALL];
  bf16->pack(wanted, n, rounded);
  bf16->unpack(rounded, n, wide);
  bf16->unpack(got->narrow, n, values);
  for (int64_t j = 0; j < n; j++) {
    float is = y_narrow ? values[j] : got->wide[j], should = y_narrow ? wide[j] : wanted[j];
    double error = places * fabs((double)should) * (y_narrow ? 1.0 / 128 : 1e-6);
    assert_true(isnan(should) ? isnan(is) : is == should || fabs((double)is - (double)should) <= error);
  }
  if (y_narrow) assert_memory_equal(got->narrow + n, before->narrow + n, (size_t)(ALL - n) * sizeof *got->narrow);
  else assert_memory_equal(got->wide + n, before->wide + n, (size_t)(ALL - n) * sizeof *got->wide);
}

static void check_max(int count, int64_t n, bool relu) {
  operand x, y, before;
  float wanted[ALL];
  uint8_t which[ALL] = {0}, wanted_which[ALL] = {0};
  fill(&x, true), fill(&y, false);
  before = y;
  kernels->max_window(x.wide, offsets, count, n, NULL, 0, relu, wanted, wanted_which);
  bf16->max_window(of(&x, x_narrow), offsets, count, n, relu, of(&y, y_narrow), which);
  check(&y, &before, wanted, n, 0);
  assert_memory_equal(which, wanted_which, sizeof which);
}

static void check_average(int count, int64_t n) {
  operand x, y, before;
  float wanted[ALL];
  fill(&x, false), fill(&y, false);
  before = y;
  kernels->avg_window(x.wide, offsets, count, n, 1 / (float)count, wanted, false);
  bf16->avg_window(of(&x, x_narrow), offsets, count, n, 1 / (float)count, of(&y, y_narrow));
  check(&y, &before, wanted, n, 1);
}

static void check_gradients(int count, int64_t n, bool add) {
  operand dy, dx, before;
  float wanted[ALL];
  uint8_t which[ALL];
  const uint8_t places[] = {0, 1, 2, RONDE__NO_PLACE - 1, RONDE__NO_PLACE};
  for (int i = 0; i < ALL; i++) which[i] = places[i * 7 % 5];
  fill(&dy, true), fill(&dx, false);
  before = dx;
  memcpy(wanted, dx.wide, sizeof wanted);
  kernels->max_gradient(dy.wide, which, windows_of, count, n, wanted, add);
  bf16->max_gradient(of(&dy, x_narrow), which, windows_of, count, n, of(&dx, y_narrow), add);
  check(&dx, &before, wanted, n, 0);
  fill(&dy, false);
  dx = before;
  memcpy(wanted, dx.wide, sizeof wanted);
  kernels->avg_gradient(dy.wide, windows_of, count, n, wanted, add);
  bf16->avg_gradient(of(&dy, x_narrow), windows_of, count, n, of(&dx, y_narrow), add);
  check(&dx, &before, wanted, n, 1);
}

static void each_kind(void (*each)(void)) {
  for (int i = 0; (bf16 = ronde__bf16_available(i)); i++)
    for (int kind = 1; kind < 4; kind++) {
      x_narrow = kind & 1, y_narrow = kind & 2;
      each();
    }
}

static void all_windows(void) {
  for (int count = 1; count <= WINDOWS; count++)
    for (int64_t n = 0; n <= 61; n++) {
      check_max(count, n, false);
      check_max(count, n, true);
      check_average(count, n);
    }
}

static void all_gradients(void) {
  for (int count = 0; count <= WINDOWS; count++)
    for (int64_t n = 0; n <= 61; n++) {
      check_gradients(count, n, false);
      check_gradients(count, n, true);
    }
}

static void test_windows(void **state) { each_kind(all_windows); }

static void test_gradients(void **state) { each_kind(all_gradients); }

int main(void) {
  if (!ronde__bf16_available(0)) puts("SKIP: this CPU has no bfloat16: its kernels are not tested");
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_windows), cmocka_unit_test(test_gradients)};
  return RUN_WITH_EACH_TABLE(tests);
}

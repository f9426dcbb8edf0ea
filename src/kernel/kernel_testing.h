/* What the kernels' tests share: every table of this machine, values, and bounds on rounding errors. */
#ifndef RONDE_KERNEL_TESTING_H
#define RONDE_KERNEL_TESTING_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernel/kernel.h"
#include "lib/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The table under test: main runs the whole group once for each. */
static const ronde__kernels *kernels __attribute__((unused));

#define RUN_WITH_EACH_TABLE(tests)                                             \
  ({                                                                           \
    int failed_ = 0;                                                           \
    for (int i_ = 0; (kernels = ronde__kernels_available(i_)); i_++)           \
      failed_ += cmocka_run_group_tests_name(kernels->isa, tests, NULL, NULL); \
    failed_;                                                                   \
  })

/* Exactly n floats, `shift` floats past a 64-byte border: an overrun is seen, no alignment can be relied on. */
typedef struct floats {
  void *block;
  float *at;
  int64_t n;
} floats;

static inline floats floats_make(int64_t n, int shift) {
  floats f = {.n = n};
  assert_int_equal(posix_memalign(&f.block, 64, (size_t)(n + shift) * sizeof(float)), 0);
  f.at = (float *)f.block + shift;
  for (int64_t i = 0; i < n; i++) f.at[i] = random_float();
  return f;
}

static inline floats floats_copy(const floats *from, int shift) {
  floats f = floats_make(from->n, shift);
  memcpy(f.at, from->at, (size_t)f.n * sizeof(float));
  return f;
}

static inline void floats_free(floats *f) { free(f->block); }

static inline bool same_bits(const float *a, const float *b, int64_t n) {
  return memcmp(a, b, (size_t)n * sizeof(float)) == 0;
}

/* The distance of x from the exact value, in units of the last place of f32 there. */
static inline double ulps(float x, double exact) {
  if (isnan(exact)) return isnan(x) ? 0 : INFINITY;
  if ((double)x == exact) return 0;
  int exponent;
  frexp(exact, &exponent);
  if (exponent < -125) exponent = -125; /* denormals */
  return fabs((double)x - exact) / ldexp(1.0, exponent - 24);
}

#endif

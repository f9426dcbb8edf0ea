/* The choice of instruction set and GEMM, by default and by the environment. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernel/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char last_line[256];

static void keep_line(void *user, ronde_log_level level, const char *line) {
  snprintf(last_line, sizeof last_line, "%s", line);
}

/* libxsmm can be asked for exactly where it is built in. */
static bool has_xsmm(void) {
  ronde__gemm_impl impl;
  setenv("RONDE_GEMM", "xsmm", 1);
  bool has = ronde__gemm_default(ronde__kernels_available(0), &impl) == RONDE_OK;
  unsetenv("RONDE_GEMM");
  return has;
}

static void test_the_best_set_is_the_default(void **state) {
  const ronde__kernels *got = NULL;
  unsetenv("RONDE_ISA");
  assert_int_equal(ronde__kernels_get(&got), RONDE_OK);
  assert_ptr_equal(got, ronde__kernels_available(0));
  assert_null(ronde__kernels_available(99));
}

static void test_every_set_can_be_asked_for(void **state) {
  for (int i = 0; ronde__kernels_available(i); i++) {
    const ronde__kernels *got = NULL;
    setenv("RONDE_ISA", ronde__kernels_available(i)->isa, 1);
    assert_int_equal(ronde__kernels_get(&got), RONDE_OK);
    assert_ptr_equal(got, ronde__kernels_available(i));
  }
  unsetenv("RONDE_ISA");
}

static void test_an_unknown_set_is_refused_by_name(void **state) {
  const ronde__kernels *got = NULL;
  setenv("RONDE_ISA", "mmx", 1);
  assert_int_equal(ronde__kernels_get(&got), RONDE_E_USAGE);
  assert_null(got);
  assert_non_null(strstr(last_line, "RONDE_ISA=mmx"));
  assert_non_null(strstr(last_line, ronde__kernels_available(0)->isa));
  unsetenv("RONDE_ISA");
}

static void test_the_gemm_can_be_asked_for(void **state) {
  const ronde__kernels *best = ronde__kernels_available(0);
  ronde__gemm_impl impl;
  setenv("RONDE_GEMM", "tile", 1);
  assert_int_equal(ronde__gemm_default(best, &impl), RONDE_OK);
  assert_int_equal(impl, RONDE__GEMM_TILE);
  setenv("RONDE_GEMM", "cublas", 1);
  assert_int_equal(ronde__gemm_default(best, &impl), RONDE_E_USAGE);
  assert_non_null(strstr(last_line, "RONDE_GEMM=cublas"));
  unsetenv("RONDE_GEMM");
  assert_int_equal(ronde__gemm_default(best, &impl), RONDE_OK);
  assert_int_equal(impl, has_xsmm() && best->vector >= 8 ? RONDE__GEMM_XSMM : RONDE__GEMM_TILE);
}

/* The per-op table names the implementation that runs. */
static void test_the_implementation_is_named(void **state) {
  const ronde__kernels *best = ronde__kernels_available(0);
  ronde__gemm_shape shape = {.m = 42, .n = 64, .k = 64, .lda = 64, .ldb = 64, .ldc = 64};
  char tile[32];
  snprintf(tile, sizeof tile, "tile-%s", best->isa);
  ronde__gemm own = ronde__gemm_resolve(&(ronde__compute){best, RONDE__GEMM_TILE, NULL}, &shape);
  assert_string_equal(own.implementation, tile);
  assert_ptr_equal(own.fn, best->gemm_tile);
  ronde__gemm other = ronde__gemm_resolve(&(ronde__compute){best, RONDE__GEMM_XSMM, NULL}, &shape);
  assert_string_equal(other.implementation, has_xsmm() && best->vector >= 8 ? "xsmm" : tile);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_the_best_set_is_the_default),       cmocka_unit_test(test_every_set_can_be_asked_for),
      cmocka_unit_test(test_an_unknown_set_is_refused_by_name), cmocka_unit_test(test_the_gemm_can_be_asked_for),
      cmocka_unit_test(test_the_implementation_is_named),
  };
  ronde_log_set(keep_line, NULL);
  return cmocka_run_group_tests(tests, NULL, NULL);
}

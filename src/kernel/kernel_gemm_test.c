/* Both GEMMs against the naive one, at shapes that no tile divides. */
#include "kernel/kernel_testing.h"
#include "kernel/ref.h"
#include "sanitized.h"

#include <pthread.h>

typedef struct problem {
  ronde__gemm_shape shape;
  int64_t count;
  floats a, b, c;
  uint64_t *a_offsets, *b_offsets;
} problem;

/* Terms in reverse order, a gap of one float between rows and terms. */
static problem problem_make(int m, int n, int k, int64_t count, bool trans_a, bool accumulate) {
  problem p = {.count = count};
  p.shape = (ronde__gemm_shape){m, n, k, (trans_a ? m : k) + 1, n + 1, n + 3, trans_a, accumulate, false};
  int64_t a_term = (trans_a ? k : m) * p.shape.lda, b_term = k * p.shape.ldb;
  p.a = floats_make(count * a_term, 1);
  p.b = floats_make(count * b_term, 3);
  p.c = floats_make(m * p.shape.ldc, 5);
  p.a_offsets = malloc((size_t)(count + 1) * sizeof(uint64_t));
  p.b_offsets = malloc((size_t)(count + 1) * sizeof(uint64_t));
  for (int64_t t = 0; t < count; t++) {
    p.a_offsets[t] = (uint64_t)((count - 1 - t) * a_term) * sizeof(float);
    p.b_offsets[t] = (uint64_t)(t * b_term) * sizeof(float);
  }
  return p;
}

static void problem_free(problem *p) {
  floats_free(&p->a);
  floats_free(&p->b);
  floats_free(&p->c);
  free(p->a_offsets);
  free(p->b_offsets);
}

static void run_gemm(const problem *p, ronde__gemm_impl impl, float *c) {
  ronde__gemm gemm = ronde__gemm_resolve(&(ronde__compute){kernels, impl, NULL}, &p->shape);
  ronde__gemm_run(&gemm, p->a.at, p->a_offsets, p->b.at, p->b_offsets, p->count, c);
}

/* Values are below 1: a sum of K products is off by some sqrt(K) roundings of some sqrt(K). Outside of [m][n], not a
 * bit changes. */
static void check_gemm(int m, int n, int k, int64_t count, bool trans_a, bool accumulate, ronde__gemm_impl impl) {
  problem p = problem_make(m, n, k, count, trans_a, accumulate);
  floats exact = floats_copy(&p.c, 0), got = floats_copy(&p.c, 5);
  ronde__ref_gemm(&p.shape, p.a.at, p.a_offsets, p.b.at, p.b_offsets, count, exact.at);
  run_gemm(&p, impl, got.at);
  double bound = 2e-7 * ((double)(count * k) * 0.5 + 2);
  if (count * k > 64) bound = 2e-7 * 4 * sqrt((double)(count * k)) * 2;
  for (int64_t i = 0; i < got.n; i++) {
    bool inside = i % p.shape.ldc < n;
    double off = fabs((double)got.at[i] - (double)exact.at[i]);
    if (inside ? off <= bound : same_bits(got.at + i, p.c.at + i, 1)) continue;
    fail_msg("m %d n %d k %d count %d trans %d accumulate %d impl %d: element %d: %g instead of %g", m, n, k,
             (int)count, trans_a, accumulate, (int)impl, (int)i, got.at[i], exact.at[i]);
  }
  floats_free(&exact);
  floats_free(&got);
  problem_free(&p);
}

static void check_both(int m, int n, int k, int64_t count) {
  for (int i = 0; i < 8; i++) check_gemm(m, n, k, count, i & 1, i & 2, i & 4 ? RONDE__GEMM_XSMM : RONDE__GEMM_TILE);
}

static void test_every_tile(void **state) {
  leave_out_if(THREADS_ONLY, "a single thread computes a GEMM");
  for (int m = 1; m <= 29; m++)
    for (int n = 1; n <= 37; n++) check_both(m, n, 1 + (m + n) % 5, 1 + (m * n) % 3);
}

static void test_shapes_of_networks(void **state) {
  leave_out_if(THREADS_ONLY, "a single thread computes a GEMM");
  static const int shapes[][4] = {{42, 64, 64, 9},  {42, 64, 64, 1},  {64, 64, 42, 20}, {128, 32, 3, 3},
                                  {6, 200, 5, 15},  {127, 10, 84, 1}, {1, 1, 1, 1},     {1, 120, 400, 1},
                                  {16, 10, 147, 2}, {7, 5, 1000, 1},  {7, 67, 257, 3},  {3, 16, 2, 700},
                                  {67, 1, 9, 31},   {1, 3, 255, 5},   {30, 48, 64, 13}};
  for (size_t i = 0; i < RONDE__COUNT(shapes); i++) check_both(shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3]);
}

static void test_no_terms(void **state) {
  check_both(5, 19, 4, 0);
  check_both(40, 32, 1, 0);
}

/* B's rows may overlap: windows over pixels with the batch in the lanes. */
static void test_overlapping_rows(void **state) {
  for (int impl = 0; impl < 2; impl++) {
    ronde__gemm_shape shape = {.m = 6, .n = 96, .k = 5, .lda = 6, .ldb = 16, .ldc = 96, .trans_a = true};
    floats a = floats_make(5 * 6, 0), b = floats_make(4 * 16 + 96, 0);
    floats c = floats_make(6 * 96, 0), exact = floats_make(6 * 96, 0);
    const uint64_t zero = 0;
    ronde__gemm gemm = ronde__gemm_resolve(&(ronde__compute){kernels, (ronde__gemm_impl)impl, NULL}, &shape);
    ronde__gemm_run(&gemm, a.at, &zero, b.at, &zero, 1, c.at);
    ronde__ref_gemm(&shape, a.at, &zero, b.at, &zero, 1, exact.at);
    for (int i = 0; i < 6 * 96; i++) assert_true(fabs((double)c.at[i] - (double)exact.at[i]) < 1e-6);
    floats_free(&a), floats_free(&b), floats_free(&c), floats_free(&exact);
  }
}

/* A row of C depends on its row of A alone: any cut of the batch gives the same bits. */
static void check_rows(int m, int n, int k, ronde__gemm_impl impl) {
  problem p = problem_make(m, n, k, 3, k & 1, false);
  floats whole = floats_copy(&p.c, 0), parts = floats_copy(&p.c, 1);
  run_gemm(&p, impl, whole.at);
  for (int row = 0, rows = 1; row < m; row += rows, rows = rows % 5 + 1) {
    ronde__gemm_shape shape = p.shape;
    shape.m = rows = rows < m - row ? rows : m - row;
    ronde__gemm gemm = ronde__gemm_resolve(&(ronde__compute){kernels, impl, NULL}, &shape);
    ronde__gemm_run(&gemm, p.a.at + row * (shape.trans_a ? 1 : shape.lda), p.a_offsets, p.b.at, p.b_offsets, p.count,
                    parts.at + row * shape.ldc);
  }
  if (!same_bits(whole.at, parts.at, whole.n))
    fail_msg("m %d n %d k %d impl %d: other bits in parts", m, n, k, (int)impl);
  floats_free(&whole), floats_free(&parts);
  problem_free(&p);
}

static void test_rows_do_not_depend_on_m(void **state) {
  for (int n = 1; n <= 130; n++)
    for (int impl = 0; impl < 2; impl++) {
      check_rows(31, n, 90, (ronde__gemm_impl)impl);
      check_rows(42, n, 33, (ronde__gemm_impl)impl);
    }
}

/* What is wanted next is fetched or not, within its bounds, and changes no bit. */
static void check_ahead(int n, bool trans_a, int rows) {
  problem p = problem_make(37, n, 66, 3, trans_a, true);
  floats alone = floats_copy(&p.c, 0), beside = floats_copy(&p.c, 1), wanted = floats_make(3 * 160, 0);
  ronde__gemm gemm = ronde__gemm_resolve_tile(&(ronde__compute){kernels, RONDE__GEMM_TILE, NULL}, &p.shape);
  ronde__ahead ahead = {.at = {wanted.at, wanted.at + 160, wanted.at + 320}, .n = 3, .rows = rows};
  ahead.bytes = rows ? 48 * sizeof(float) : 160 * sizeof(float), ahead.apart = 64 * sizeof(float);
  ronde__gemm_run(&gemm, p.a.at, p.a_offsets, p.b.at, p.b_offsets, p.count, alone.at);
  for (int turn = 0; turn < 2; turn++) {
    memcpy(beside.at, p.c.at, (size_t)p.c.n * sizeof(float));
    ronde__gemm_run_ahead(&gemm, p.a.at, p.a_offsets, p.b.at, p.b_offsets, p.count, beside.at, &ahead);
    assert_true(same_bits(alone.at, beside.at, alone.n));
    bool fetches = !strcmp(kernels->isa, "avx512") && n % 64 == 0;
    assert_int_equal(ronde__ahead_is_done(&ahead), fetches);
    assert_int_equal(ronde__ahead_has_begun(&ahead), fetches);
  }
  floats_free(&alone), floats_free(&beside), floats_free(&wanted);
  problem_free(&p);
}

static void test_what_is_fetched_ahead_changes_nothing(void **state) {
  for (int i = 0; i < 2; i++)
    for (int rows = 0; rows < 3; rows += 2)
      check_ahead(64, i, rows), check_ahead(128, i, rows), check_ahead(80, i, rows);
}

static void test_nan_and_inf_pass(void **state) {
  for (int impl = 0; impl < 2; impl++) {
    problem p = problem_make(9, 21, 8, 3, false, false);
    p.a.at[4 * p.shape.lda + 2] = NAN; /* row 4 of the last term */
    p.b.at[3 * p.shape.ldb + 20] = INFINITY;
    run_gemm(&p, (ronde__gemm_impl)impl, p.c.at);
    for (int i = 0; i < 9; i++)
      for (int j = 0; j < 21; j++) {
        float x = p.c.at[i * p.shape.ldc + j];
        assert_true(i == 4 ? isnan(x) : j == 20 ? isinf(x) : isfinite(x));
      }
    problem_free(&p);
  }
}

static void *resolve_many(void *failed) {
  for (int n = 16; n <= 64; n += 16)
    for (int k = 1; k < 40; k++) {
      ronde__gemm_shape shape = {.m = 5, .n = n, .k = k, .lda = k, .ldb = n, .ldc = n};
      ronde__gemm gemm = ronde__gemm_resolve(&(ronde__compute){kernels, RONDE__GEMM_XSMM, NULL}, &shape);
      if (!gemm.fn || !gemm.implementation) *(bool *)failed = true;
    }
  return NULL;
}

static void test_resolves_from_many_threads(void **state) {
  pthread_t threads[4];
  bool failed[4] = {false};
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, resolve_many, &failed[i]), 0);
  for (int i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
    assert_false(failed[i]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_tile),
      cmocka_unit_test(test_shapes_of_networks),
      cmocka_unit_test(test_no_terms),
      cmocka_unit_test(test_overlapping_rows),
      cmocka_unit_test(test_what_is_fetched_ahead_changes_nothing),
      cmocka_unit_test(test_nan_and_inf_pass),
      cmocka_unit_test(test_rows_do_not_depend_on_m),
      cmocka_unit_test(test_resolves_from_many_threads),
  };
  return RUN_WITH_EACH_TABLE(tests);
}

/* bfloat16: packing against its definition, the GEMM against sums in f64 of the same rounded operands. */
#include "kernel/bf16.h"
#include "kernel/kernel_testing.h"

#include <pthread.h>
#include <stdio.h>

static float rounded(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint16_t upper(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)(bits >> 16);
}

/* Of element (row, column) of A in tiles. */
static int64_t place_in_tiles(int64_t row, int64_t column, int64_t lda) {
  return (row / 16 * (lda / 32) + column / 32) * 512 + row % 16 * 32 + column % 32;
}

/* What takes numbers that are bfloat16 already: x [rows][n + 3], rounded. */
static void check_narrow(const ronde__bf16 *bf16, const floats *x, int64_t rows, int64_t n) {
  int64_t ldx = n + 3, k = ronde__round_up(rows, RONDE__BF16_STEP);
  floats narrow = floats_make(rows * ldx, 1), wide = floats_make(rows * ldx, 1);
  floats out = floats_make(k * n, 1), wanted = floats_make(k * n, 1);
  uint16_t *in = (uint16_t *)narrow.at;
  bf16->pack(x->at, rows * ldx, in);
  bf16->unpack(in, rows * ldx, wide.at);
  for (int64_t i = 0; i < rows * ldx; i++) assert_true(wide.at[i] == rounded(x->at[i]));
  bf16->panels(in, ldx, rows, n, k, (uint16_t *)out.at, k);
  bf16->pack_panels(x->at, ldx, rows, n, k, (uint16_t *)wanted.at, k);
  assert_memory_equal(out.at, wanted.at, (size_t)(k * n) * sizeof(uint16_t));
  if (rows % 16 == 0) {
    bf16->transposed_panels(in, ldx, rows, n, (uint16_t *)out.at);
    bf16->pack_transposed_panels(x->at, ldx, rows, n, (uint16_t *)wanted.at);
    assert_memory_equal(out.at, wanted.at, (size_t)(rows * n) * sizeof(uint16_t));
  }
  bf16->transposed(in, ldx, rows, n, (uint16_t *)out.at, k);
  bf16->pack_transposed(x->at, ldx, rows, n, (uint16_t *)wanted.at, k);
  assert_memory_equal(out.at, wanted.at, (size_t)(k * n) * sizeof(uint16_t));
  floats_free(&narrow);
  floats_free(&wide);
  floats_free(&out);
  floats_free(&wanted);
}

static void check_pack(const ronde__bf16 *bf16, int64_t rows, int64_t n) {
  int64_t ldx = n + 3, k = ronde__round_up(rows, RONDE__BF16_STEP), ldk = k + 2 * (rows % 3);
  floats x = floats_make(rows * ldx, 1);
  floats out = floats_make((ldk + RONDE__BF16_STEP) * n, 1);
  uint16_t *o = (uint16_t *)out.at;
  bf16->pack(x.at, rows, o);
  for (int64_t j = 0; j < rows; j++) assert_int_equal(o[j], upper(rounded(x.at[j])));
  bf16->pack_panels(x.at, ldx, rows, n, k, o, ldk);
  for (int64_t r = 0; r < k; r++)
    for (int64_t j = 0; j < n; j++)
      assert_int_equal(o[j / 16 * ldk * 16 + r / 2 * 32 + j % 16 * 2 + r % 2],
                       r < rows ? upper(rounded(x.at[r * ldx + j])) : 0);
  for (int64_t lda = k; lda <= k + RONDE__BF16_STEP; lda += RONDE__BF16_STEP) {
    bf16->pack_transposed(x.at, ldx, rows, n, o, lda);
    for (int64_t r = 0; r < lda; r++)
      for (int64_t j = 0; j < n; j++)
        assert_int_equal(o[place_in_tiles(j, r, lda)], r < rows ? upper(rounded(x.at[r * ldx + j])) : 0);
  }
  if (rows % 16 == 0) {
    bf16->pack_transposed_panels(x.at, ldx, rows, n, o);
    for (int64_t r = 0; r < rows; r++)
      for (int64_t j = 0; j < n; j++)
        assert_int_equal(o[r / 16 * n * 16 + j / 2 * 32 + r % 16 * 2 + j % 2], upper(rounded(x.at[r * ldx + j])));
  }
  check_narrow(bf16, &x, rows, n);
  floats_free(&x);
  floats_free(&out);
}

static void test_pack(void **unused) {
  for (int i = 0; ronde__bf16_available(i); i++)
    for (int64_t n = 16; n <= 80; n += 16)
      for (int64_t rows = 1; rows <= 70; rows++) check_pack(ronde__bf16_available(i), rows, n);
}

/* Into an operand too, and nothing behind the last element. */
static void check_add(const ronde__bf16 *bf16, int64_t n, bool in_place) {
  enum { MOST = 100 };
  uint16_t a[MOST], b[MOST], y[MOST], wanted[MOST];
  float wide[2][MOST];
  floats x = floats_make(2 * MOST, 0);
  bf16->pack(x.at, MOST, a), bf16->pack(x.at + MOST, MOST, b);
  bf16->unpack(a, MOST, wide[0]), bf16->unpack(b, MOST, wide[1]);
  memcpy(y, a, sizeof y), memcpy(wanted, a, sizeof wanted);
  for (int64_t i = 0; i < n; i++) wide[0][i] += wide[1][i];
  bf16->pack(wide[0], n, wanted);
  bf16->add(in_place ? y : a, b, n, y);
  assert_memory_equal(y, wanted, sizeof y);
  floats_free(&x);
}

static void test_add(void **unused) {
  const ronde__bf16 *bf16;
  for (int i = 0; (bf16 = ronde__bf16_available(i)); i++)
    for (int64_t n = 0; n <= 99; n++)
      for (int in_place = 0; in_place < 2; in_place++) check_add(bf16, n, in_place);
}

static void test_special_numbers(void **unused) {
  const float x[16] = {INFINITY, -INFINITY, NAN, 0.0f, -0.0f, 1.00390625f, 1.01171875f, 3.4e38f, 1};
  const uint16_t y[16] = {0x7f80, 0xff80, 0x7fc0, 0, 0x8000, 0x3f80, 0x3f82, 0x7f80, 0x3f80};
  for (int i = 0; ronde__bf16_available(i); i++) {
    uint16_t out[16];
    ronde__bf16_available(i)->pack(x, 16, out);
    for (int j = 0; j < 16; j++) assert_int_equal(out[j], y[j]);
  }
}

static void check_gemm(const ronde__bf16 *bf16, const ronde__gemm_shape *s, int64_t count) {
  floats a = floats_make(count * s->m * s->lda, 1), b = floats_make(count * s->k * s->n, 1);
  floats c = floats_make(s->m * s->ldc, 1), packed_b = floats_make(count * s->ldb * s->n / 2, 1);
  floats packed_a = floats_make((count * s->m * s->lda + 1) / 2, 1);
  uint64_t a_offsets[3], b_offsets[3];
  float *before = malloc((size_t)(s->m * s->ldc) * sizeof *before);
  memcpy(before, c.at, (size_t)(s->m * s->ldc) * sizeof *before);
  bf16->pack(a.at, count * s->m * s->lda, (uint16_t *)packed_a.at);
  for (int64_t t = 0; t < count && s->operands == RONDE__OF_BF16_TILES; t++)
    for (int64_t i = 0; i < s->m * s->lda; i++)
      ((uint16_t *)packed_a.at)[t * s->m * s->lda + place_in_tiles(i / s->lda, i % s->lda, s->lda)] =
          upper(rounded(a.at[t * s->m * s->lda + i]));
  for (int64_t t = 0; t < count; t++) {
    /* the terms from the last to the first */
    a_offsets[t] = (uint64_t)((count - 1 - t) * s->m * s->lda) * sizeof(uint16_t);
    b_offsets[t] = (uint64_t)((count - 1 - t) * s->ldb * s->n) * sizeof(uint16_t);
    bf16->pack_panels(b.at + t * s->k * s->n, s->n, s->k, s->n, s->k, (uint16_t *)packed_b.at + t * s->ldb * s->n,
                      s->ldb);
  }
  ronde__gemm gemm = {.shape = *s, .fn = bf16->gemm};
  ronde__gemm_run(&gemm, packed_a.at, a_offsets, packed_b.at, b_offsets, count, c.at);
  for (int i = 0; i < s->m; i++)
    for (int j = 0; j < s->ldc; j++) {
      float got = c.at[i * s->ldc + j], was = before[i * s->ldc + j];
      double sum = s->accumulate ? was : 0, size = fabs(sum);
      for (int64_t t = 0; t < count && j < s->n; t++)
        for (int k = 0; k < s->k; k++) {
          double product = (double)rounded(a.at[t * s->m * s->lda + i * s->lda + k]) *
                           (double)rounded(b.at[t * s->k * s->n + (int64_t)k * s->n + j]);
          sum += product;
          size += fabs(product);
        }
      if (j >= s->n) assert_true(memcmp(&got, &was, sizeof got) == 0); /* between the rows */
      else assert_true(fabs(got - sum) <= size * 1e-6);
    }
  free(before);
  floats_free(&a);
  floats_free(&b);
  floats_free(&c);
  floats_free(&packed_a);
  floats_free(&packed_b);
}

/* What is wanted next is fetched by products without tiles, and changes no bit. */
static void check_ahead(const ronde__bf16 *bf16, ronde__operand_form operands, int64_t rows) {
  const ronde__gemm_shape shape = {.m = 48, .n = 64, .k = 64, .lda = 64, .ldb = 64, .ldc = 64, .operands = operands};
  const ronde__gemm gemm = {.shape = shape, .fn = bf16->gemm};
  floats a = floats_make(48 * 64 / 2, 1), b = floats_make(64 * 64 / 2, 1), wanted = floats_make(64 * 64, 0);
  floats alone = floats_make(48 * 64, 1), beside = floats_make(48 * 64, 1);
  const uint64_t none = 0;
  ronde__ahead ahead = {.at = {wanted.at}, .n = 1, .bytes = 64 * 64 * (int64_t)sizeof(float) / rows, .rows = rows};
  ahead.apart = ahead.bytes;
  memset(a.at, 0x3f, (size_t)a.n * sizeof(float)), memset(b.at, 0x3e, (size_t)b.n * sizeof(float));
  ronde__gemm_run(&gemm, a.at, &none, b.at, &none, 1, alone.at);
  ronde__gemm_run_ahead(&gemm, a.at, &none, b.at, &none, 1, beside.at, &ahead);
  assert_memory_equal(alone.at, beside.at, (size_t)alone.n * sizeof(float));
  assert_int_equal(ronde__ahead_is_done(&ahead), !bf16->is_tiles);
  assert_int_equal(ronde__ahead_has_begun(&ahead), !bf16->is_tiles);
  floats_free(&a), floats_free(&b), floats_free(&wanted), floats_free(&alone), floats_free(&beside);
}

static void test_what_is_fetched_ahead_changes_nothing(void **unused) {
  for (int i = 0; ronde__bf16_available(i); i++)
    for (int64_t rows = 1; rows <= 4; rows += 3) {
      check_ahead(ronde__bf16_available(i), RONDE__OF_BF16, rows);
      check_ahead(ronde__bf16_available(i), RONDE__OF_BF16_TILES, rows);
    }
}

static void check_gemms(const ronde__bf16 *bf16, int m, int k, int n) {
  bool may_be_tiles = m % 16 == 0 && k % RONDE__BF16_STEP == 0;
  ronde__gemm_shape shape = {.m = m,
                             .n = n,
                             .k = k,
                             .lda = k + m % 3,
                             .ldb = k + 2 * (m % 2),
                             .ldc = n + k / 16 % 2 * 5,
                             .operands = RONDE__OF_BF16};
  for (int64_t count = 1; count <= 3; count += 2)
    for (int kind = 0; kind < (may_be_tiles ? 4 : 2); kind++) {
      shape.accumulate = kind % 2;
      shape.operands = kind / 2 ? RONDE__OF_BF16_TILES : RONDE__OF_BF16;
      if (kind / 2) shape.lda = k + RONDE__BF16_STEP;
      check_gemm(bf16, &shape, count);
    }
}

static void test_gemm(void **unused) {
  const int ms[] = {1, 2, 13, 14, 15, 16, 17, 29, 31, 32, 33, 48, 63, 64, 126}, ks[] = {16, 32, 48, 64, 192};
  for (int i = 0; ronde__bf16_available(i); i++)
    for (size_t m = 0; m < RONDE__COUNT(ms); m++)
      for (size_t k = 0; k < RONDE__COUNT(ks); k++)
        for (int n = 16; n <= 64; n += 16) check_gemms(ronde__bf16_available(i), ms[m], ks[k], n);
}

/* Another thread than the one that asked for the tiles uses them too. */
static void *run_in_thread(void *unused) {
  test_gemm(NULL);
  return NULL;
}

static void test_threads(void **unused) {
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, run_in_thread, NULL), 0);
  pthread_join(thread, NULL);
}

/* Of zeros and halves: what is added is known. */
static void test_peak(void **unused) {
  for (int i = 0; ronde__bf16_available(i); i++) {
    float sum = ronde__bf16_available(i)->peak(1000);
    assert_true(isfinite(sum) && ronde__bf16_available(i)->peak_flops > 0);
  }
}

static void test_choice(void **unused) {
  const ronde__kernels *best = ronde__kernels_available(0);
  assert_ptr_equal(ronde__bf16_get(best), ronde__bf16_available(0));
  for (int i = 0; ronde__bf16_available(i); i++) {
    const ronde__kernels *kernels;
    setenv("RONDE_ISA", ronde__bf16_available(i)->name, 1);
    assert_int_equal(ronde__kernels_get(&kernels), RONDE_OK);
    assert_string_equal(kernels->isa, "avx512");
    assert_ptr_equal(ronde__bf16_get(kernels), ronde__bf16_available(i));
  }
  setenv("RONDE_ISA", "avx2", 1);
  for (int i = 0; ronde__kernels_available(i); i++)
    if (!strcmp(ronde__kernels_available(i)->isa, "avx2")) assert_null(ronde__bf16_get(ronde__kernels_available(i)));
  unsetenv("RONDE_ISA");
}

int main(void) {
  if (!ronde__bf16_available(0)) puts("SKIP: this CPU has no bfloat16: its kernels are not tested");
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pack),
      cmocka_unit_test(test_add),
      cmocka_unit_test(test_special_numbers),
      cmocka_unit_test(test_gemm),
      cmocka_unit_test(test_threads),
      cmocka_unit_test(test_peak),
      cmocka_unit_test(test_what_is_fetched_ahead_changes_nothing),
      cmocka_unit_test(test_choice),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

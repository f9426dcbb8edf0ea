/* Element by element and transposes: exact results, nothing written beside them. */
#include "kernel/kernel_testing.h"

static void check_transpose(int64_t rows, int64_t cols) {
  int64_t ld_src = cols + 3, ld_dst = rows + 2;
  floats src = floats_make(rows * ld_src, 1), dst = floats_make(cols * ld_dst, 3), got = floats_copy(&dst, 3);
  kernels->transpose(src.at, ld_src, rows, cols, got.at, ld_dst);
  for (int64_t c = 0; c < cols; c++)
    for (int64_t r = 0; r < ld_dst; r++) {
      float want = r < rows ? src.at[r * ld_src + c] : dst.at[c * ld_dst + r];
      assert_true(same_bits(&got.at[c * ld_dst + r], &want, 1));
    }
  floats_free(&src), floats_free(&dst), floats_free(&got);
}

static void test_transpose(void **state) {
  for (int64_t rows = 0; rows < 70; rows += 1 + rows / 12)
    for (int64_t cols = 0; cols < 70; cols += 1 + cols / 12) check_transpose(rows, cols);
  check_transpose(784, 48);
  check_transpose(1, 300);
  check_transpose(300, 1);
}

static void test_transpose_keeps_the_bits_of_nan(void **state) {
  uint32_t src[64], dst[64];
  for (uint32_t i = 0; i < 64; i++) src[i] = 0x7fa00000u + i; /* signalling */
  kernels->transpose((const float *)src, 8, 8, 8, (float *)dst, 8);
  for (uint32_t i = 0; i < 64; i++) assert_int_equal(dst[i], src[i % 8 * 8 + i / 8]);
}

/* Picks [n] that share the lanes at random, leaving some out, of rows [row]. */
static void check_picks(int n, int64_t rows, bool accumulate) {
  enum { ROW = 48 };
  ronde__pick picks[16] = {{0}};
  for (int t = 0; t < n; t++) {
    picks[t].at = (int64_t)(random_float() * 0.5f * (ROW - 16)) + (ROW - 16) / 2;
    for (int i = 0; i < 16; i++) picks[t].from[i] = (i * 5 + t * 3) % kernels->vector;
  }
  for (int i = 0; i < kernels->vector && n; i++)
    if (i % 7 != 6) picks[(i * 11) % n].lanes |= 1u << i;
  floats x = floats_make(rows * ROW, 1), y = floats_make(rows * ROW, 3), got = floats_copy(&y, 3);
  kernels->pick_rows(x.at, picks, n, ROW, rows, got.at + 16, accumulate);
  for (int64_t i = 0; i < rows * ROW; i++) {
    int64_t r = i / ROW, lane = i % ROW - 16;
    float want = y.at[i], picked = 0;
    for (int t = 0; t < n && lane >= 0; t++)
      if (lane < kernels->vector && picks[t].lanes >> lane & 1)
        picked = x.at[r * ROW + picks[t].at + picks[t].from[lane]];
    if (lane >= 0 && lane < kernels->vector) want = accumulate ? want + picked : picked;
    assert_true(same_bits(&got.at[i], &want, 1));
  }
  floats_free(&x), floats_free(&y), floats_free(&got);
}

static void test_pick_rows(void **state) {
  for (int n = 0; n <= kernels->vector; n++)
    for (int64_t rows = 0; rows <= 5; rows++) check_picks(n, rows, false), check_picks(n, rows, true);
}

static void test_pick_rows_keeps_the_bits_of_nan(void **state) {
  uint32_t x[32], y[16] = {0};
  ronde__pick picks[2] = {{.at = 0, .lanes = 0x5555}, {.at = 16, .lanes = 0xaaaa}};
  for (uint32_t i = 0; i < 32; i++) x[i] = 0x7fa00000u + i; /* signalling */
  for (int t = 0; t < 2; t++) {
    picks[t].lanes &= (uint32_t)((1 << kernels->vector) - 1);
    for (int i = 0; i < 16; i++) picks[t].from[i] = kernels->vector - 1 - i % kernels->vector;
  }
  kernels->pick_rows((const float *)x, picks, 2, 32, 1, (float *)y, false);
  for (uint32_t i = 0; i < (uint32_t)kernels->vector; i++)
    assert_int_equal(y[i], x[i % 2 * 16 + (uint32_t)kernels->vector - 1 - i]);
}

static void test_add_and_scale(void **state) {
  for (int64_t n = 0; n < 70; n++) {
    floats a = floats_make(n, 1), b = floats_make(n, 2), y = floats_make(n, 3);
    if (n > 3) a.at[n - 2] = NAN, b.at[n - 3] = INFINITY;
    kernels->add(a.at, b.at, y.at, n);
    floats in_place = floats_copy(&b, 2), left = floats_copy(&a, 1);
    kernels->add(a.at, in_place.at, in_place.at, n);
    kernels->add(left.at, b.at, left.at, n);
    for (int64_t i = 0; i < n; i++) assert_true(ulps(y.at[i], a.at[i] + b.at[i]) == 0 || isnan(a.at[i]));
    assert_true(same_bits(y.at, in_place.at, n) && same_bits(y.at, left.at, n));
    kernels->scale(in_place.at, -0.3f, n);
    for (int64_t i = 0; i < n; i++) assert_true(ulps(in_place.at[i], y.at[i] * -0.3f) == 0);
    floats_free(&a), floats_free(&b), floats_free(&y), floats_free(&in_place), floats_free(&left);
  }
}

static void test_from_u8(void **state) {
  for (int n = 0; n <= 256; n++) {
    uint8_t *x = malloc((size_t)n + 1);
    floats y = floats_make(n, 1);
    for (int i = 0; i < n; i++) x[i] = (uint8_t)i;
    kernels->from_u8(x, 1.0f / 255, 0, y.at, n);
    for (int i = 0; i < n; i++) assert_true(y.at[i] == (float)i * (1.0f / 255));
    kernels->from_u8(x, 0.0125f, -0.5f, y.at, n);
    for (int i = 0; i < n; i++) assert_true(fabs((double)y.at[i] - (i * (double)0.0125f - 0.5)) < 2.5e-7);
    floats_free(&y);
    free(x);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_transpose),     cmocka_unit_test(test_transpose_keeps_the_bits_of_nan),
      cmocka_unit_test(test_pick_rows),     cmocka_unit_test(test_pick_rows_keeps_the_bits_of_nan),
      cmocka_unit_test(test_add_and_scale), cmocka_unit_test(test_from_u8),
  };
  return RUN_WITH_EACH_TABLE(tests);
}

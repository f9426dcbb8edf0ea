/* Random words are those of base/rng.h, on every instruction set; and dropout by them. */
#include "base/rng.h"
#include "kernel/kernel_testing.h"

enum { MOST = 70 };

static void check_words(uint64_t key, uint64_t stream, uint64_t first, int64_t n) {
  uint32_t words[4 * MOST + 1], block[4];
  memset(words, 0xa5, sizeof words);
  kernels->philox(key, stream, first, n, words);
  for (int64_t i = 0; i < n; i++) {
    ronde__philox(key, stream, first + (uint64_t)i, block);
    assert_memory_equal(words + 4 * i, block, sizeof block);
  }
  assert_int_equal(words[4 * n], 0xa5a5a5a5u);
}

/* Among them blocks whose number has a carry. */
static void test_words(void **unused) {
  const uint64_t firsts[] = {0, 3, UINT64_C(5) << 32 | 17, UINT32_MAX - 20, UINT64_MAX - 20};
  for (size_t i = 0; i < RONDE__COUNT(firsts); i++)
    for (int64_t n = 0; n <= MOST; n++)
      check_words(UINT64_C(0x0123456789abcdef) * (uint64_t)(n + 1), RONDE__STREAM_DROPOUT | (uint64_t)n, firsts[i], n);
}

static void check_drop(int64_t n, uint32_t threshold, bool accumulate) {
  floats x = floats_make(n, 1), y = floats_make(n, 2), before = floats_copy(&y, 0);
  uint32_t words[4 * MOST];
  kernels->philox(7, 11, 13, MOST, words);
  if (n > 3) words[3] = threshold; /* which is no longer below it */
  for (int64_t i = 0; i < n; i++)
    if (words[i] < threshold) x.at[i] = i % 2 ? NAN : INFINITY; /* what is dropped leaves no trace */
  kernels->drop(x.at, words, threshold, 1.25f, n, y.at, accumulate);
  for (int64_t i = 0; i < n; i++) {
    float d = words[i] < threshold ? 0 : x.at[i] * 1.25f, sum = before.at[i] + d;
    float fused = words[i] < threshold ? sum : fmaf(x.at[i], 1.25f, before.at[i]);
    assert_true(y.at[i] == (accumulate ? sum : d) || (accumulate && y.at[i] == fused));
  }
  floats_free(&x), floats_free(&y), floats_free(&before);
}

static void test_drop(void **unused) {
  const uint32_t thresholds[] = {0, UINT32_C(1) << 30, UINT32_C(3) << 30, UINT32_MAX};
  for (int64_t n = 0; n <= MOST; n++)
    for (size_t t = 0; t < RONDE__COUNT(thresholds); t++)
      for (int accumulate = 0; accumulate < 2; accumulate++) check_drop(n, thresholds[t], accumulate);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_words), cmocka_unit_test(test_drop)};
  return RUN_WITH_EACH_TABLE(tests);
}

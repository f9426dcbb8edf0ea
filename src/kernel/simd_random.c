/* Random words by counter, a vector of blocks at a time: the numbers of base/rng.h. And dropout, which is decided by them.
 * Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011 (Philox4x32-10). */
#include "kernel/simd.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { ROUNDS = 10, WORDS = 4 }; /* of a block */
typedef uint64_t qvec __attribute__((vector_size(RONDE_VECTOR_BYTES)));
typedef uint32_t loose_uvec __attribute__((vector_size(RONDE_VECTOR_BYTES), aligned(4), may_alias));

#define LOW 0xffffffffull

/* Of the lower halves of each 64 bits. */
INLINE qvec product(qvec a, qvec b) {
#if RONDE_VECTOR_BYTES == 64
  return (qvec)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif RONDE_VECTOR_BYTES == 32
  return (qvec)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
  return (qvec)_mm_mul_epu32((__m128i)a, (__m128i)b);
#else
  return (a & LOW) * (b & LOW);
#endif
}

/* x m in 64 bits: the upper half is returned, and x becomes the lower one. */
INLINE uvec multiply(uvec *x, uint32_t m) {
  const qvec by = (qvec){0} + m;
  qvec even = product((qvec)*x, by), odd = product((qvec)*x >> 32, by);
  *x = (uvec)((even & LOW) | odd << 32);
  return (uvec)(even >> 32 | (odd & ~LOW));
}

/* Word w of blocks `index`, `index` + 1, ... */
INLINE void blocks(uint64_t key, uint64_t stream, uint64_t index, uvec word[WORDS]) {
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  UNROLL
  for (int i = 0; i < LANES; i++) {
    word[0][i] = (uint32_t)(index + (uint64_t)i);
    word[1][i] = (uint32_t)((index + (uint64_t)i) >> 32);
  }
  word[2] = (uvec){0} + (uint32_t)stream;
  word[3] = (uvec){0} + (uint32_t)(stream >> 32);
  UNROLL
  for (int round = 0; round < ROUNDS; round++) {
    uvec low0 = word[0], low1 = word[2], high0 = multiply(&low0, 0xd2511f53u), high1 = multiply(&low1, 0xcd9e8d57u);
    word[0] = high1 ^ word[1] ^ k0;
    word[1] = low1;
    word[2] = high0 ^ word[3] ^ k1;
    word[3] = low0;
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
}

void NAME(philox)(uint64_t key, uint64_t stream, uint64_t first, int64_t n, uint32_t *out) {
  for (int64_t at = 0; at < n; at += LANES, out += WORDS * LANES) {
    uvec word[WORDS];
    blocks(key, stream, first + (uint64_t)at, word);
    for (int64_t i = 0; i < ronde__min(LANES, n - at); i++)
      for (int w = 0; w < WORDS; w++) out[i * WORDS + w] = word[w][i];
  }
}

INLINE void drop_some(const float *x, uvec words, uvec threshold, float factor, int64_t live, float *y,
                      bool accumulate) {
  vec d = blend((ivec)(words < threshold), (vec){0}, load_some(x, live) * factor);
  store_some(y, accumulate ? load_some(y, live) + d : d, live);
}

void NAME(drop)(const float *x, const uint32_t *words, uint32_t threshold, float factor, int64_t n, float *y,
                bool accumulate) {
  const uvec bound = (uvec){0} + threshold;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    drop_some(x + i, *(const loose_uvec *)(words + i), bound, factor, LANES, y + i, accumulate);
  if (i == n) return;
  uvec last = {0};
  memcpy(&last, words + i, (size_t)(n - i) * sizeof *words);
  drop_some(x + i, last, bound, factor, n - i, y + i, accumulate);
}

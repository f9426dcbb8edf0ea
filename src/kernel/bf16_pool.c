/* Pooling windows over vectors of bfloat16 (simd_pool.c has those of f32): a register is widened where it is read, and
 * rounded where it is written. */
#include <immintrin.h>

#include "kernel/bf16_pack.h"

#define INLINE static inline __attribute__((always_inline))

enum { LANES = 16 };

typedef __mmask16 lanes;
static const lanes all = 0xffff;

/* Lanes that are not live read as zero, and are not written; `all` known when compiling costs nothing. */
INLINE __m512 get(const bool narrow, ronde__operand x, int64_t at, lanes live) {
  if (!narrow && live == all) return _mm512_loadu_ps((const float *)x.at + at);
  if (!narrow) return _mm512_maskz_loadu_ps(live, (const float *)x.at + at);
  const __m256i *from = (const __m256i *)((const uint16_t *)x.at + at);
  return _mm512_cvtpbh_ps((__m256bh)(live == all ? _mm256_loadu_si256(from) : _mm256_maskz_loadu_epi16(live, from)));
}

INLINE void put(const bool narrow, ronde__operand y, int64_t at, lanes live, __m512 value) {
  float *to = (float *)y.at + at;
  uint16_t *narrow_to = (uint16_t *)y.at + at;
  if (!narrow && live == all) _mm512_storeu_ps(to, value);
  else if (!narrow) _mm512_mask_storeu_ps(to, live, value);
  else if (live == all) _mm256_storeu_si256((__m256i *)narrow_to, (__m256i)_mm512_cvtneps_pbh(value));
  else _mm256_mask_storeu_epi16(narrow_to, live, (__m256i)_mm512_cvtneps_pbh(value));
}

INLINE __m128i get_places(const uint8_t *p, lanes live) {
  return live == all ? _mm_loadu_si128((const __m128i *)p) : _mm_maskz_loadu_epi8(live, p);
}

#define BY_REGISTERS(some, a_narrow, b_narrow, n, ...)                                   \
  do {                                                                                   \
    int64_t j = 0;                                                                       \
    for (; j + LANES <= (n); j += LANES) some(j, all, a_narrow, b_narrow, __VA_ARGS__);  \
    if (j < (n)) some(j, (lanes)((1u << ((n)-j)) - 1), a_narrow, b_narrow, __VA_ARGS__); \
  } while (0)

/* A register of the n elements at a time, by some(j, live, ...) with the kinds of operands a and b known when compiling. */
#define EACH(some, n, a, b, ...)                                                 \
  do {                                                                           \
    if (!(a).narrow) BY_REGISTERS(some, false, true, n, a, b, __VA_ARGS__);      \
    else if (!(b).narrow) BY_REGISTERS(some, true, false, n, a, b, __VA_ARGS__); \
    else BY_REGISTERS(some, true, true, n, a, b, __VA_ARGS__);                   \
  } while (0)

INLINE void max_some(int64_t j, const lanes live, const bool x_narrow, const bool y_narrow, ronde__operand x,
                     ronde__operand y, const int64_t *offsets, int count, bool relu, uint8_t *which) {
  const __m512 zero = _mm512_setzero_ps();
  __m512 best = get(x_narrow, x, offsets[0] + j, live);
  __m128i index = _mm_setzero_si128();
  for (int i = 1; i < count; i++) {
    __m512 next = get(x_narrow, x, offsets[i] + j, live);
    /* Larger, or NaN; the first NaN stays. */
    lanes take = _mm512_cmp_ps_mask(next, best, _CMP_NLE_UQ) & _mm512_cmp_ps_mask(best, best, _CMP_ORD_Q);
    best = _mm512_mask_mov_ps(best, take, next);
    index = _mm_mask_mov_epi8(index, take, _mm_set1_epi8((char)i));
  }
  if (relu) {
    index = _mm_mask_mov_epi8(index, _mm512_cmp_ps_mask(best, zero, _CMP_LE_OQ), _mm_set1_epi8((char)RONDE__NO_PLACE));
    best = _mm512_mask_mov_ps(best, _mm512_cmp_ps_mask(best, zero, _CMP_LT_OQ), zero);
  }
  put(y_narrow, y, j, live, best);
  if (live == all) _mm_storeu_si128((__m128i *)(which + j), index);
  else _mm_mask_storeu_epi8(which + j, live, index);
}

void ronde__bf16_max_window(ronde__operand x, const int64_t *offsets, int count, int64_t n, bool relu, ronde__operand y,
                            uint8_t *which) {
  EACH(max_some, n, x, y, offsets, count, relu, which);
}

INLINE void max_gradient_some(int64_t j, const lanes live, const bool dy_narrow, const bool dx_narrow,
                              ronde__operand dy, ronde__operand dx, const uint8_t *which,
                              const ronde__window_of *windows, int count, bool accumulate) {
  __m512 sum = accumulate ? get(dx_narrow, dx, j, live) : _mm512_setzero_ps();
  for (int i = 0; i < count; i++) {
    lanes own = _mm_cmpeq_epi8_mask(get_places(which + windows[i].at + j, live), _mm_set1_epi8((char)windows[i].place));
    sum = _mm512_mask_add_ps(sum, own, sum, get(dy_narrow, dy, windows[i].at + j, live));
  }
  put(dx_narrow, dx, j, live, sum);
}

void ronde__bf16_max_gradient(ronde__operand dy, const uint8_t *which, const ronde__window_of *windows, int count,
                              int64_t n, ronde__operand dx, bool accumulate) {
  EACH(max_gradient_some, n, dy, dx, which, windows, count, accumulate);
}

INLINE void avg_some(int64_t j, const lanes live, const bool x_narrow, const bool y_narrow, ronde__operand x,
                     ronde__operand y, const int64_t *offsets, int count, float factor) {
  __m512 sum = get(x_narrow, x, offsets[0] + j, live);
  for (int i = 1; i < count; i++) sum = _mm512_add_ps(sum, get(x_narrow, x, offsets[i] + j, live));
  put(y_narrow, y, j, live, _mm512_mul_ps(sum, _mm512_set1_ps(factor)));
}

void ronde__bf16_avg_window(ronde__operand x, const int64_t *offsets, int count, int64_t n, float factor,
                            ronde__operand y) {
  EACH(avg_some, n, x, y, offsets, count, factor);
}

INLINE void avg_gradient_some(int64_t j, const lanes live, const bool dy_narrow, const bool dx_narrow,
                              ronde__operand dy, ronde__operand dx, const ronde__window_of *windows, int count,
                              bool accumulate) {
  __m512 sum = accumulate ? get(dx_narrow, dx, j, live) : _mm512_setzero_ps();
  for (int i = 0; i < count; i++)
    sum = _mm512_fmadd_ps(get(dy_narrow, dy, windows[i].at + j, live), _mm512_set1_ps(windows[i].factor), sum);
  put(dx_narrow, dx, j, live, sum);
}

void ronde__bf16_avg_gradient(ronde__operand dy, const ronde__window_of *windows, int count, int64_t n,
                              ronde__operand dx, bool accumulate) {
  EACH(avg_gradient_some, n, dy, dx, windows, count, accumulate);
}

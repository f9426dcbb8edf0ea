/* Pooling windows over vectors of n floats. */
#include "kernel/simd.h"

#if RONDE_VECTOR_BYTES == 64
INLINE void store_indices(uint8_t *p, ivec index, int64_t live) {
  _mm_mask_storeu_epi8(p, (__mmask16)((1u << live) - 1), _mm512_cvtepi32_epi8((__m512i)index));
}

/* Positions in the window as they were stored, a byte each, to be compared. */
typedef __m128i pool_lanes;
INLINE pool_lanes load_places(const uint8_t *p, int64_t live) {
  return _mm_maskz_loadu_epi8((__mmask16)((1u << live) - 1), p);
}
INLINE pool_lanes place_of(int place) { return _mm_set1_epi8((char)place); }
INLINE vec where_equal(pool_lanes a, pool_lanes b, vec x) {
  return (vec)_mm512_maskz_mov_ps(_mm_cmpeq_epi8_mask(a, b), (__m512)x);
}
#else
typedef uint8_t bytes16 __attribute__((vector_size(16)));

/* The low byte of each lane, part by part: compilers turn a plain conversion into moves of single bytes. */
INLINE void store_indices(uint8_t *p, ivec index, int64_t live) {
  bytes16 part[LANES / 4];
  uint8_t bytes[LANES];
  memcpy(part, &index, sizeof part);
  UNROLL
  for (int i = 0; i < LANES / 4; i++) {
    bytes16 low = __builtin_shufflevector(part[i], part[i], 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
    memcpy((live == LANES ? p : bytes) + 4 * i, &low, 4);
  }
  if (live != LANES) memcpy(p, bytes, (size_t)live);
}

#if RONDE_VECTOR_BYTES == 32
#define IN_FOURS 0, 0, 0, 0, 1, 1, 1, 1
#else
#define IN_FOURS 0, 0, 0, 0
#endif

/* Places are compared where they lie, each lane in another byte of its word: widening bytes takes compilers many moves. */
INLINE ivec in_own_byte(int place) {
  ivec x = {0};
  for (int i = 0; i < LANES; i++) x[i] = (int32_t)((uint32_t)place << i % 4 * 8);
  return x;
}

typedef ivec pool_lanes;
INLINE pool_lanes load_places(const uint8_t *p, int64_t live) {
  uint8_t some[LANES] = {0};
  ivec words = {0};
  if (live != LANES) p = memcpy(some, p, (size_t)live);
  UNROLL
  for (int i = 0; i < LANES / 4; i++) {
    int32_t word;
    memcpy(&word, p + 4 * i, sizeof word);
    words[i] = word;
  }
  return __builtin_shufflevector(words, words, IN_FOURS) & in_own_byte(255);
}
INLINE pool_lanes place_of(int place) { return in_own_byte(place); }
INLINE vec where_equal(pool_lanes a, pool_lanes b, vec x) { return blend(a == b, x, (vec){0}); }
#endif

INLINE void max_some(const float *x, const int64_t *offsets, int count, int64_t live, vec bias, const bool relu,
                     float *y, uint8_t *which) {
  vec best = load_some(x + offsets[0], live) + bias;
  ivec index = {0}, present = {0};
  for (int i = 1; i < count; i++) {
    present += 1;
    vec next = load_some(x + offsets[i], live) + bias;
    /* Larger, or NaN; the first NaN stays. */
    ivec take = ~(next <= best) & (best == best);
    best = blend(take, next, best);
    index = (take & present) | (~take & index);
  }
  if (relu) {
    index |= (best <= 0.0f) & RONDE__NO_PLACE;
    best = blend(best < 0.0f, (vec){0}, best);
  }
  store_some(y, best, live);
  store_indices(which, index, live);
}

INLINE void max_of(const float *x, const int64_t *offsets, int count, int64_t n, const float *bias, int64_t n_bias,
                   const bool relu, float *y, uint8_t *which) {
  const vec none = splat(-0.0f); /* which leaves a zero its sign */
  int64_t j = 0;
  for (int64_t b = 0; j + LANES <= n; j += LANES) {
    max_some(x + j, offsets, count, LANES, bias ? load(bias + b) : none, relu, y + j, which + j);
    b = b + LANES < n_bias ? b + LANES : 0;
  }
  if (j < n) max_some(x + j, offsets, count, n - j, none, relu, y + j, which + j);
}

void NAME(max_window)(const float *x, const int64_t *offsets, int count, int64_t n, const float *bias, int64_t n_bias,
                      bool relu, float *y, uint8_t *which) {
  if (relu) max_of(x, offsets, count, n, bias, n_bias, true, y, which);
  else max_of(x, offsets, count, n, bias, n_bias, false, y, which);
}

INLINE void max_gradient_some(const float *dy, const uint8_t *which, const ronde__window_of *windows, int count,
                              int64_t live, const bool add, float *dx) {
  vec sum = add ? load_some(dx, live) : (vec){0};
  for (int i = 0; i < count; i++)
    sum += where_equal(load_places(which + windows[i].at, live), place_of(windows[i].place),
                       load_some(dy + windows[i].at, live));
  store_some(dx, sum, live);
}

INLINE void max_gradient(const float *dy, const uint8_t *which, const ronde__window_of *windows, int count, int64_t n,
                         const bool add, float *dx) {
  int64_t j = 0;
  for (; j + LANES <= n; j += LANES) max_gradient_some(dy + j, which + j, windows, count, LANES, add, dx + j);
  if (j < n) max_gradient_some(dy + j, which + j, windows, count, n - j, add, dx + j);
}

void NAME(max_gradient)(const float *dy, const uint8_t *which, const ronde__window_of *windows, int count, int64_t n,
                        float *dx, bool accumulate) {
  if (accumulate) max_gradient(dy, which, windows, count, n, true, dx);
  else max_gradient(dy, which, windows, count, n, false, dx);
}

INLINE void place_some(const float *dy, const uint8_t *which, pool_lanes place, int64_t live, float *dx) {
  store_some(dx, where_equal(load_places(which, live), place, load_some(dy, live)), live);
}

void NAME(max_place_backward)(const float *dy, const uint8_t *which, int place, int64_t n, float *dx) {
  const pool_lanes own = place_of(place);
  int64_t j = 0;
  for (; j + LANES <= n; j += LANES) place_some(dy + j, which + j, own, LANES, dx + j);
  if (j < n) place_some(dy + j, which + j, own, n - j, dx + j);
}

INLINE void put_some(float *dx, vec part, int64_t live, const bool add) {
  store_some(dx, add ? load_some(dx, live) + part : part, live);
}

INLINE void avg_some(const float *x, const int64_t *offsets, int count, int64_t live, float factor, const bool add,
                     float *y) {
  vec sum = load_some(x + offsets[0], live);
  for (int i = 1; i < count; i++) sum += load_some(x + offsets[i], live);
  put_some(y, sum * factor, live, add);
}

INLINE void avg_of(const float *x, const int64_t *offsets, int count, int64_t n, float factor, const bool add,
                   float *y) {
  int64_t j = 0;
  for (; j + LANES <= n; j += LANES) avg_some(x + j, offsets, count, LANES, factor, add, y + j);
  if (j < n) avg_some(x + j, offsets, count, n - j, factor, add, y + j);
}

void NAME(avg_window)(const float *x, const int64_t *offsets, int count, int64_t n, float factor, float *y,
                      bool accumulate) {
  if (accumulate) avg_of(x, offsets, count, n, factor, true, y);
  else avg_of(x, offsets, count, n, factor, false, y);
}

INLINE void avg_gradient_some(const float *dy, const ronde__window_of *windows, int count, int64_t live, const bool add,
                              float *dx) {
  vec sum = add ? load_some(dx, live) : (vec){0};
  for (int i = 0; i < count; i++) sum += load_some(dy + windows[i].at, live) * windows[i].factor;
  store_some(dx, sum, live);
}

INLINE void avg_gradient(const float *dy, const ronde__window_of *windows, int count, int64_t n, const bool add,
                         float *dx) {
  int64_t j = 0;
  for (; j + LANES <= n; j += LANES) avg_gradient_some(dy + j, windows, count, LANES, add, dx + j);
  if (j < n) avg_gradient_some(dy + j, windows, count, n - j, add, dx + j);
}

void NAME(avg_gradient)(const float *dy, const ronde__window_of *windows, int count, int64_t n, float *dx,
                        bool accumulate) {
  if (accumulate) avg_gradient(dy, windows, count, n, true, dx);
  else avg_gradient(dy, windows, count, n, false, dx);
}

INLINE void avg_backward_some(const float *dy, const int64_t *offsets, int count, int64_t live, float factor,
                              const bool add, float *dx) {
  vec d = load_some(dy, live) * factor;
  for (int i = 0; i < count; i++) put_some(dx + offsets[i], d, live, add);
}

INLINE void avg_backward(const float *dy, const int64_t *offsets, int count, int64_t n, float factor, const bool add,
                         float *dx) {
  int64_t j = 0;
  for (; j + LANES <= n; j += LANES) avg_backward_some(dy + j, offsets, count, LANES, factor, add, dx + j);
  if (j < n) avg_backward_some(dy + j, offsets, count, n - j, factor, add, dx + j);
}

void NAME(avg_window_backward)(const float *dy, const int64_t *offsets, int count, int64_t n, float factor, float *dx,
                               bool accumulate) {
  if (accumulate) avg_backward(dy, offsets, count, n, factor, true, dx);
  else avg_backward(dy, offsets, count, n, factor, false, dx);
}

/* Element-wise kernels, moves between channels and transposes. */
#include "kernel/simd.h"

void NAME(add)(const float *a, const float *b, float *y, int64_t n) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) store(y + i, load(a + i) + load(b + i));
  for (; i < n; i++) y[i] = a[i] + b[i];
}

void NAME(scale)(float *x, float factor, int64_t n) {
  for (int64_t i = 0; i < n; i++) x[i] *= factor;
}

void NAME(from_u8)(const uint8_t *restrict x, float factor, float shift, float *restrict y, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = (float)x[i] * factor + shift;
}

/* ---- lanes of several vectors ---- */

/* A pick with its lanes in a vector. */
typedef struct lane_source {
  int64_t at;
  uint32_t lanes;
  ivec from;
} lane_source;

INLINE lane_source lane_source_of(const ronde__pick *pick) {
  lane_source s = {pick->at, pick->lanes, {0}};
  memcpy(&s.from, pick->from, sizeof s.from);
  return s;
}

/* y with the lanes that s gives. */
INLINE vec with_lanes(vec y, const float *x, const lane_source *s) {
#if RONDE_VECTOR_BYTES == 64
  return (vec)_mm512_mask_permutexvar_ps((__m512)y, (__mmask16)s->lanes, (__m512i)s->from, (__m512)load(x + s->at));
#elif RONDE_VECTOR_BYTES == 32
  const ivec bits = {1, 2, 4, 8, 16, 32, 64, 128}, given = (bits & (int32_t)s->lanes) != 0;
  vec picked = (vec)_mm256_permutevar8x32_ps((__m256)load(x + s->at), (__m256i)s->from);
  return (vec)_mm256_blendv_ps((__m256)y, (__m256)picked, (__m256)given);
#else
  for (int i = 0; i < LANES; i++)
    if (s->lanes >> i & 1) y[i] = x[s->at + s->from[i]];
  return y;
#endif
}

/* So few that they stay in registers. */
INLINE void pick_few(const int n, const float *x, const ronde__pick *picks, int64_t row, int64_t rows, float *y,
                     bool accumulate) {
  lane_source sources[4];
  UNROLL
  for (int i = 0; i < n; i++) sources[i] = lane_source_of(&picks[i]);
  for (int64_t r = 0; r < rows; r++) {
    vec sum = {0};
    UNROLL
    for (int i = 0; i < n; i++) sum = with_lanes(sum, x + r * row, &sources[i]);
    store(y + r * row, accumulate ? load(y + r * row) + sum : sum);
  }
}

INLINE void pick_many(const float *x, const ronde__pick *picks, int n, int64_t row, int64_t rows, float *y,
                      bool accumulate) {
  for (int64_t r = 0; r < rows; r++) {
    vec sum = {0};
    for (int i = 0; i < n; i++) {
      lane_source source = lane_source_of(&picks[i]);
      sum = with_lanes(sum, x + r * row, &source);
    }
    store(y + r * row, accumulate ? load(y + r * row) + sum : sum);
  }
}

void NAME(pick_rows)(const float *x, const ronde__pick *picks, int n, int64_t row, int64_t rows, float *y,
                     bool accumulate) {
  switch (n) {
  case 1: pick_few(1, x, picks, row, rows, y, accumulate); break;
  case 2: pick_few(2, x, picks, row, rows, y, accumulate); break;
  case 3: pick_few(3, x, picks, row, rows, y, accumulate); break;
  case 4: pick_few(4, x, picks, row, rows, y, accumulate); break;
  default: pick_many(x, picks, n, row, rows, y, accumulate);
  }
}

/* ---- transposes ---- */

typedef float quad __attribute__((vector_size(16)));
typedef float vec256 __attribute__((vector_size(32)));
typedef float loose_quad __attribute__((vector_size(16), aligned(4), may_alias));

INLINE quad load_quad(const float *p) { return *(const loose_quad *)p; }
INLINE void store_quad(float *p, quad x) { *(loose_quad *)p = x; }

/* A shuffle of two vectors that does the same in each 128-bit part: 0 to 3 are a part's lanes of a, 4 to 7 of b. */
#define LANE(part, i) (part) + (i) % 4 + (i) / 4 * LANES
#define PART(part, i, j, k, l) LANE(part, i), LANE(part, j), LANE(part, k), LANE(part, l)
#if RONDE_VECTOR_BYTES == 16
#define IN_PARTS(a, b, i, j, k, l) __builtin_shufflevector(a, b, PART(0, i, j, k, l))
#elif RONDE_VECTOR_BYTES == 32
#define IN_PARTS(a, b, i, j, k, l) __builtin_shufflevector(a, b, PART(0, i, j, k, l), PART(4, i, j, k, l))
#else
#define IN_PARTS(a, b, i, j, k, l) \
  __builtin_shufflevector(a, b, PART(0, i, j, k, l), PART(4, i, j, k, l), PART(8, i, j, k, l), PART(12, i, j, k, l))
#endif

/* Four floats of every fourth row, as the parts of one vector. */
INLINE vec gather_rows(const float *src, int64_t ld) {
  quad a = load_quad(src);
#if RONDE_VECTOR_BYTES == 16
  return a;
#else
  vec256 ab = __builtin_shufflevector(a, load_quad(src + 4 * ld), 0, 1, 2, 3, 4, 5, 6, 7);
#if RONDE_VECTOR_BYTES == 32
  return ab;
#else
  vec256 cd = __builtin_shufflevector(load_quad(src + 8 * ld), load_quad(src + 12 * ld), 0, 1, 2, 3, 4, 5, 6, 7);
  return __builtin_shufflevector(ab, cd, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#endif
#endif
}

/* LANES rows, four columns. */
INLINE void transpose_tile(const float *src, int64_t ld_src, float *dst, int64_t ld_dst) {
  vec r0 = gather_rows(src, ld_src), r1 = gather_rows(src + ld_src, ld_src);
  vec r2 = gather_rows(src + 2 * ld_src, ld_src), r3 = gather_rows(src + 3 * ld_src, ld_src);
  vec low01 = IN_PARTS(r0, r1, 0, 4, 1, 5), high01 = IN_PARTS(r0, r1, 2, 6, 3, 7);
  vec low23 = IN_PARTS(r2, r3, 0, 4, 1, 5), high23 = IN_PARTS(r2, r3, 2, 6, 3, 7);
  store(dst, IN_PARTS(low01, low23, 0, 1, 4, 5));
  store(dst + ld_dst, IN_PARTS(low01, low23, 2, 3, 6, 7));
  store(dst + 2 * ld_dst, IN_PARTS(high01, high23, 0, 1, 4, 5));
  store(dst + 3 * ld_dst, IN_PARTS(high01, high23, 2, 3, 6, 7));
}

/* Four rows, four columns. */
INLINE void transpose_quads(const float *src, int64_t ld_src, float *dst, int64_t ld_dst) {
  quad r0 = load_quad(src), r1 = load_quad(src + ld_src), r2 = load_quad(src + 2 * ld_src),
       r3 = load_quad(src + 3 * ld_src);
  quad low01 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5), high01 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
  quad low23 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5), high23 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
  store_quad(dst, __builtin_shufflevector(low01, low23, 0, 1, 4, 5));
  store_quad(dst + ld_dst, __builtin_shufflevector(low01, low23, 2, 3, 6, 7));
  store_quad(dst + 2 * ld_dst, __builtin_shufflevector(high01, high23, 0, 1, 4, 5));
  store_quad(dst + 3 * ld_dst, __builtin_shufflevector(high01, high23, 2, 3, 6, 7));
}

/* Columns in groups of a cache line, so that lines of src are used up and lines of dst filled while near. Of many rows no
 * hardware fetches the next lines, so they are asked for. */
void NAME(transpose)(const float *src, int64_t ld_src, int64_t rows, int64_t cols, float *dst, int64_t ld_dst) {
  enum { GROUP = 16 };
  for (int64_t c0 = 0; c0 < cols; c0 += GROUP) {
    int64_t end = ronde__min(c0 + GROUP, cols), r = 0;
    for (; r + 4 <= rows;) {
      const bool wide = r + LANES <= rows;
      const float *from = src + r * ld_src;
      const int height = wide ? LANES : 4;
      int64_t c = c0;
      for (int i = 0; i < height; i++) __builtin_prefetch(from + i * ld_src + c0 + GROUP);
      for (; wide && c + 4 <= end; c += 4) transpose_tile(from + c, ld_src, dst + c * ld_dst + r, ld_dst);
      for (; c + 4 <= end; c += 4) transpose_quads(from + c, ld_src, dst + c * ld_dst + r, ld_dst);
      for (; c < end; c++)
        for (int i = 0; i < height; i++) dst[c * ld_dst + r + i] = from[i * ld_src + c];
      r += height;
    }
    for (; r < rows; r++)
      for (int64_t c = c0; c < end; c++) dst[c * ld_dst + r] = src[r * ld_src + c];
  }
}

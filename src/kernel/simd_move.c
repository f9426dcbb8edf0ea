/* Element-wise kernels and transposes. */
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

typedef float quad __attribute__((vector_size(16)));
typedef float vec256 __attribute__((vector_size(32)));
typedef float loose_quad __attribute__((vector_size(16), aligned(4), may_alias));

INLINE quad load_quad(const float *p) { return *(const loose_quad *)p; }

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

/* Columns in groups of a cache line, so that lines of src are used up and lines of dst filled while near. */
void NAME(transpose)(const float *src, int64_t ld_src, int64_t rows, int64_t cols, float *dst, int64_t ld_dst) {
  enum { GROUP = 16 };
  for (int64_t c0 = 0; c0 < cols; c0 += GROUP) {
    int64_t end = ronde__min(c0 + GROUP, cols), r = 0;
    for (; r + LANES <= rows; r += LANES) {
      int64_t c = c0;
      for (; c + 4 <= end; c += 4) transpose_tile(src + r * ld_src + c, ld_src, dst + c * ld_dst + r, ld_dst);
      for (; c < end; c++)
        for (int i = 0; i < LANES; i++) dst[c * ld_dst + r + i] = src[(r + i) * ld_src + c];
    }
    for (; r < rows; r++)
      for (int64_t c = c0; c < end; c++) dst[c * ld_dst + r] = src[r * ld_src + c];
  }
}

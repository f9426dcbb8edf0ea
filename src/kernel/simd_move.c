/* Element by element, and transposes. */
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

void NAME(transpose)(const float *src, int64_t ld_src, int64_t rows, int64_t cols, float *dst, int64_t ld_dst) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c++) dst[c * ld_dst + r] = src[r * ld_src + c];
}

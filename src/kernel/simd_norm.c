/* Batch normalisation over rows [rows][n] of channels, n a multiple of 16. There are few rows (some hundred), so
 * they stay in cache over two passes and a sum in f32 loses little; callers join the chunks in f64. Whole blocks of
 * channels are handled side by side, because memory is read best in its own order.
 * Source: Ioffe & Szegedy, "Batch normalization", ICML 2015. */
#include "kernel/simd.h"

enum { GROUP = 16, VECS = GROUP / LANES };
enum { WIDE = 64 / LANES < 8 ? 64 / LANES : 8, SUMS = 4 }; /* vectors: as many sums as there are registers */

INLINE void moments(const elem *x, int64_t rows, int64_t n, const int vecs, float *mean, float *m2) {
  const float factor = 1.0f / (float)rows;
  vec sum[WIDE], square[WIDE];
  UNROLL
  for (int v = 0; v < vecs; v++) sum[v] = square[v] = (vec){0};
  for (int64_t r = 0; r < rows; r++) {
    UNROLL
    for (int v = 0; v < vecs; v++) sum[v] += load_elem(x + r * n + v * LANES);
  }
  UNROLL
  for (int v = 0; v < vecs; v++) sum[v] *= factor;
  for (int64_t r = 0; r < rows; r++) {
    UNROLL
    for (int v = 0; v < vecs; v++) {
      vec d = load_elem(x + r * n + v * LANES) - sum[v];
      square[v] += d * d;
    }
  }
  UNROLL
  for (int v = 0; v < vecs; v++) {
    store(mean + v * LANES, sum[v]);
    store(m2 + v * LANES, square[v]);
  }
}

static void all_moments(const void *of, int64_t rows, int64_t n, float *mean, float *m2) {
  const elem *x = of;
  int64_t j = 0;
  for (; j + WIDE * LANES <= n; j += WIDE * LANES) moments(x + j, rows, n, WIDE, mean + j, m2 + j);
  for (; j < n; j += GROUP) moments(x + j, rows, n, VECS, mean + j, m2 + j);
}

INLINE void affine_some(const elem *x, const elem *residual, const float *scale, const float *shift, const bool relu,
                        const int vecs, elem *y) {
  UNROLL
  for (int v = 0; v < vecs; v++) {
    int64_t at = v * LANES;
    vec z = load_elem(x + at) * load(scale + at) + load(shift + at);
    if (residual) z += load_elem(residual + at);
    if (relu) z = blend(~(z <= (vec){0}), z, (vec){0}); /* NaN passes */
    store_elem(y + at, z);
  }
}

INLINE void affine(const elem *x, const elem *residual, int64_t rows, int64_t n, const float *scale, const float *shift,
                   const bool relu, elem *y) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t j = 0, at = r * n; j < n; j += GROUP, at += GROUP)
      affine_some(x + at, residual ? residual + at : NULL, scale + j, shift + j, relu, VECS, y + at);
}

static void any_affine(const void *x, const void *residual, int64_t rows, int64_t n, const float *scale,
                       const float *shift, bool relu, void *y) {
  if (residual && relu) affine(x, residual, rows, n, scale, shift, true, y);
  else if (residual) affine(x, residual, rows, n, scale, shift, false, y);
  else if (relu) affine(x, NULL, rows, n, scale, shift, true, y);
  else affine(x, NULL, rows, n, scale, shift, false, y);
}

/* What of dy reaches x: nothing where a ReLU of x * scale + shift, computed as forward did it, has given 0. */
INLINE vec behind_relu(vec dy, vec x, vec scale, vec shift) {
  return blend(x * scale + shift <= (vec){0}, (vec){0}, dy);
}

INLINE void sums(elem *dy, const elem *y, const elem *x, int64_t rows, int64_t n, const float *mean, const float *scale,
                 const float *shift, const int vecs, float *sum_dy, float *sum_dyx) {
  vec sum[SUMS], product[SUMS], m[SUMS];
  UNROLL
  for (int v = 0; v < vecs; v++) sum[v] = product[v] = (vec){0}, m[v] = load(mean + v * LANES);
  for (int64_t r = 0; r < rows; r++) {
    UNROLL
    for (int v = 0; v < vecs; v++) {
      int64_t at = r * n + v * LANES;
      vec d = load_elem(dy + at), value = load_elem(x + at);
      if (y) store_elem(dy + at, d = blend(load_elem(y + at) <= (vec){0}, (vec){0}, d));
      else if (shift) d = behind_relu(d, value, load(scale + v * LANES), load(shift + v * LANES));
      sum[v] += d;
      product[v] += d * (value - m[v]);
    }
  }
  UNROLL
  for (int v = 0; v < vecs; v++) {
    store(sum_dy + v * LANES, sum[v]);
    store(sum_dyx + v * LANES, product[v]);
  }
}

INLINE void all_sums(elem *dy, const elem *y, const elem *x, int64_t rows, int64_t n, const float *mean,
                     const float *scale, const float *shift, float *sum_dy, float *sum_dyx) {
  int64_t j = 0;
  for (; j + SUMS * LANES <= n; j += SUMS * LANES)
    sums(dy + j, y ? y + j : NULL, x + j, rows, n, mean + j, scale + j, shift ? shift + j : NULL, SUMS, sum_dy + j,
         sum_dyx + j);
  for (; j < n; j += GROUP)
    sums(dy + j, y ? y + j : NULL, x + j, rows, n, mean + j, scale + j, shift ? shift + j : NULL, VECS, sum_dy + j,
         sum_dyx + j);
}

static void any_sums(void *dy, const void *y, const void *x, int64_t rows, int64_t n, const float *mean,
                     const float *scale, const float *shift, float *sum_dy, float *sum_dyx) {
  if (y) all_sums(dy, y, x, rows, n, mean, scale, NULL, sum_dy, sum_dyx);
  else if (shift) all_sums(dy, NULL, x, rows, n, mean, scale, shift, sum_dy, sum_dyx);
  else all_sums(dy, NULL, x, rows, n, mean, scale, NULL, sum_dy, sum_dyx);
}

INLINE void backward(const elem *dy, const elem *x, int64_t rows, int64_t n, const float *mean, const float *a,
                     const float *b, const float *c, const float *shift, elem *dx, bool accumulate) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t j = 0, at = r * n; j < n; j += LANES, at += LANES) {
      vec value = load_elem(x + at), d = load_elem(dy + at);
      if (shift) d = behind_relu(d, value, load(a + j), load(shift + j));
      d = d * load(a + j) + ((value - load(mean + j)) * load(b + j) + load(c + j));
      store_elem(dx + at, accumulate ? load_elem(dx + at) + d : d);
    }
}

static void any_backward(const void *dy, const void *x, int64_t rows, int64_t n, const float *mean, const float *a,
                         const float *b, const float *c, const float *shift, void *dx, bool accumulate) {
  if (shift) backward(dy, x, rows, n, mean, a, b, c, shift, dx, accumulate);
  else backward(dy, x, rows, n, mean, a, b, c, NULL, dx, accumulate);
}

const ronde__norm_kernels NAME(norm) = {
    .moments = all_moments, .affine = any_affine, .sums = any_sums, .backward = any_backward};

/* Batch normalisation over rows [rows][n] of channels, n a multiple of 16. Rows are few enough (some hundred) that a group of
 * columns stays in cache over two passes and a sum in f32 loses little; callers join the chunks in f64. */
#include "kernel/simd.h"

enum { GROUP = 16, VECS = GROUP / LANES };

/* mean[j] of the rows, and m2[j], the sum of (x - mean)^2. */
void NAME(column_moments)(const float *x, int64_t rows, int64_t n, float *mean, float *m2) {
  const float factor = 1.0f / (float)rows;
  for (int64_t j = 0; j < n; j += GROUP) {
    vec sum[VECS], square[VECS];
    UNROLL
    for (int v = 0; v < VECS; v++) sum[v] = square[v] = (vec){0};
    for (int64_t r = 0; r < rows; r++) {
      UNROLL
      for (int v = 0; v < VECS; v++) sum[v] += load(x + r * n + j + v * LANES);
    }
    UNROLL
    for (int v = 0; v < VECS; v++) sum[v] *= factor;
    for (int64_t r = 0; r < rows; r++) {
      UNROLL
      for (int v = 0; v < VECS; v++) {
        vec d = load(x + r * n + j + v * LANES) - sum[v];
        square[v] += d * d;
      }
    }
    UNROLL
    for (int v = 0; v < VECS; v++) {
      store(mean + j + v * LANES, sum[v]);
      store(m2 + j + v * LANES, square[v]);
    }
  }
}

INLINE void affine(const float *x, const float *residual, int64_t rows, int64_t n, const float *scale, const float *shift,
                   const bool relu, float *y) {
  for (int64_t j = 0; j < n; j += GROUP) {
    vec a[VECS], b[VECS];
    UNROLL
    for (int v = 0; v < VECS; v++) a[v] = load(scale + j + v * LANES), b[v] = load(shift + j + v * LANES);
    for (int64_t r = 0; r < rows; r++) {
      UNROLL
      for (int v = 0; v < VECS; v++) {
        int64_t at = r * n + j + v * LANES;
        vec z = load(x + at) * a[v] + b[v];
        if (residual) z += load(residual + at);
        if (relu) z = select(~(z <= (vec){0}), z, (vec){0}); /* NaN passes */
        store(y + at, z);
      }
    }
  }
}

/* y = x * scale[j] + shift[j] (+ residual), behind a ReLU where asked; y may be x or residual. */
void NAME(affine_rows)(const float *x, const float *residual, int64_t rows, int64_t n, const float *scale, const float *shift,
                       bool relu, float *y) {
  if (relu) affine(x, residual, rows, n, scale, shift, true, y);
  else affine(x, residual, rows, n, scale, shift, false, y);
}

/* The rows' sums of dy and of dy * (x - mean[j]). */
void NAME(norm_sums)(const float *dy, const float *x, int64_t rows, int64_t n, const float *mean, float *sum_dy, float *sum_dyx) {
  for (int64_t j = 0; j < n; j += GROUP) {
    vec sum[VECS], product[VECS], m[VECS];
    UNROLL
    for (int v = 0; v < VECS; v++) sum[v] = product[v] = (vec){0}, m[v] = load(mean + j + v * LANES);
    for (int64_t r = 0; r < rows; r++) {
      UNROLL
      for (int v = 0; v < VECS; v++) {
        int64_t at = r * n + j + v * LANES;
        vec d = load(dy + at);
        sum[v] += d;
        product[v] += d * (load(x + at) - m[v]);
      }
    }
    UNROLL
    for (int v = 0; v < VECS; v++) {
      store(sum_dy + j + v * LANES, sum[v]);
      store(sum_dyx + j + v * LANES, product[v]);
    }
  }
}

/* dx (+)= dy * a[j] + (x - mean[j]) * b[j] + c[j]; dx may be dy. */
void NAME(norm_backward)(const float *dy, const float *x, int64_t rows, int64_t n, const float *mean, const float *a,
                         const float *b, const float *c, float *dx, bool accumulate) {
  for (int64_t j = 0; j < n; j += GROUP) {
    vec m[VECS], by_dy[VECS], by_x[VECS], constant[VECS];
    UNROLL
    for (int v = 0; v < VECS; v++) {
      int64_t at = j + v * LANES;
      m[v] = load(mean + at), by_dy[v] = load(a + at), by_x[v] = load(b + at), constant[v] = load(c + at);
    }
    for (int64_t r = 0; r < rows; r++) {
      UNROLL
      for (int v = 0; v < VECS; v++) {
        int64_t at = r * n + j + v * LANES;
        vec d = load(dy + at) * by_dy[v] + ((load(x + at) - m[v]) * by_x[v] + constant[v]);
        store(dx + at, accumulate ? load(dx + at) + d : d);
      }
    }
  }
}

/* Scores of additive attention, sums of hyperbolic tangents. A tanh is made again backward, of several keys at once: that costs
 * less than to read what forward would have to keep of each query, key and feature. */
#include "kernel/simd_math.h"

/* Of n rows of keys. */
INLINE void score_rows(const int n, const float *q, const float *k, int64_t ld, const float *w, int64_t width,
                       float *scores) {
  vec sum[MOST] = {{0}}, x[MOST];
  for (int64_t u = 0; u < width; u += LANES) {
    int64_t live = ronde__min(LANES, width - u);
    vec of_q = load_some(q + u, live), of_w = load_some(w + u, live);
    EACH x[i] = of_q + load_some(k + i * ld + u, live);
    tanh_each(n, x);
    EACH sum[i] += of_w * x[i];
  }
  EACH scores[i] = lane_sum(sum[i]);
}

void NAME(additive_scores)(const float *q, const float *k, int64_t ld, int64_t rows, const float *w, int64_t n,
                           float *scores) {
  int64_t s = 0;
  for (; s + MOST <= rows; s += MOST) score_rows(MOST, q, k + s * ld, ld, w, n, scores + s);
  for (; s < rows; s++) score_rows(1, q, k + s * ld, ld, w, n, scores + s);
}

/* A vector of features. */
typedef struct feature_sums {
  vec q, w, dq, dw;
  int64_t live;
} feature_sums;

INLINE void slope_rows(const int n, const float *k, int64_t ld, const float *slopes, float *dk, int64_t ldd,
                       feature_sums *f) {
  vec x[MOST];
  EACH x[i] = f->q + load_some(k + i * ld, f->live);
  tanh_each(n, x);
  EACH f->dw += x[i] * slopes[i];
  EACH x[i] = f->w * slopes[i] * (1.0f - x[i] * x[i]);
  EACH f->dq += x[i];
  EACH store_some(dk + i * ldd, load_some(dk + i * ldd, f->live) + x[i], f->live);
}

void NAME(additive_scores_back)(const float *q, const float *k, int64_t ld, int64_t rows, const float *w, int64_t n,
                                const float *slopes, float *dq, float *dk, float *dw) {
  for (int64_t u = 0; u < n; u += LANES) {
    int64_t live = ronde__min(LANES, n - u), s = 0;
    feature_sums f = {.q = load_some(q + u, live), .w = load_some(w + u, live), .live = live};
    for (; s + MOST <= rows; s += MOST) slope_rows(MOST, k + s * ld + u, ld, slopes + s, dk + s * n + u, n, &f);
    for (; s < rows; s++) slope_rows(1, k + s * ld + u, ld, slopes + s, dk + s * n + u, n, &f);
    store_some(dq + u, f.dq, live);
    store_some(dw + u, load_some(dw + u, live) + f.dw, live);
  }
}

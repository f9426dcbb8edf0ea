/* Rows of a softmax, in pieces that become one sum. */
#include "kernel/simd_math.h"

float NAME(max)(const float *x, int64_t n) {
  vec most = splat(x[0]);
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) most = blend(load(x + i) > most, load(x + i), most);
  float lane[LANES], result;
  store(lane, most);
  result = lane[0];
  for (int l = 1; l < LANES; l++) result = lane[l] > result ? lane[l] : result;
  for (; i < n; i++) result = x[i] > result ? x[i] : result;
  return result;
}

float NAME(exp_sum)(float *x, float factor, float shift, int64_t n) {
  vec sum[MOST] = {{0}};
  int64_t i = 0;
  for (; i + MOST * LANES <= n; i += MOST * LANES) {
    vec e[MOST];
    UNROLL
    for (int v = 0; v < MOST; v++) e[v] = load(x + i + v * LANES) * factor - shift;
    exp_each(MOST, e);
    UNROLL
    for (int v = 0; v < MOST; v++) {
      store(x + i + v * LANES, e[v]);
      sum[v] += e[v];
    }
  }
  for (; i < n; i += LANES) {
    int64_t live = ronde__min(LANES, n - i);
    vec e = load_some(x + i, live) * factor - shift;
    exp_each(1, &e);
    store_some(x + i, e, live);
    sum[0] += load_some(x + i, live);
  }
  return lane_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

void NAME(softmax_backward)(const float *p, const float *dp, float shift, float *ds, int64_t n) {
  for (int64_t i = 0; i < n; i += LANES) {
    int64_t live = ronde__min(LANES, n - i);
    store_some(ds + i, load_some(p + i, live) * (load_some(dp + i, live) - shift), live);
  }
}

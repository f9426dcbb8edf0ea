/* Optimizer steps with PyTorch's definitions, in its order of operations. Written in vectors throughout: left to itself a compiler
 * may fuse other products in the tail than in the body, and a value would depend on how its array is cut. */
#include "kernel/simd.h"

#include <math.h>

INLINE vec square_root(vec x) {
  float lane[LANES];
  memcpy(lane, &x, sizeof lane);
  for (int i = 0; i < LANES; i++) lane[i] = sqrtf(lane[i]);
  memcpy(&x, lane, sizeof lane);
  return x;
}

INLINE void sgd_some(const ronde__sgd_args *args, float *w, const float *g, float *velocity, int64_t live) {
  vec weight = load_some(w, live), d = load_some(g, live) + args->weight_decay * weight;
  if (velocity) {
    vec v = args->momentum * load_some(velocity, live) + d;
    store_some(velocity, v, live);
    d = args->nesterov ? d + args->momentum * v : v;
  }
  store_some(w, weight - args->lr * d, live);
}

void NAME(sgd)(const ronde__sgd_args *args, float *w, const float *g, float *velocity, int64_t n) {
  const ronde__sgd_args a = *args;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) sgd_some(&a, w + i, g + i, velocity ? velocity + i : NULL, LANES);
  if (i < n) sgd_some(&a, w + i, g + i, velocity ? velocity + i : NULL, n - i);
}

INLINE void adam_some(const ronde__adam_args *args, float *w, const float *g, float *m, float *v, int64_t live) {
  vec weight = load_some(w, live), d = load_some(g, live) + args->weight_decay * weight;
  vec mean = args->beta1 * load_some(m, live) + args->rest1 * d;
  vec square = args->beta2 * load_some(v, live) + args->rest2 * (d * d);
  store_some(m, mean, live);
  store_some(v, square, live);
  vec step = mean / (square_root(square) * args->inv_sqrt_bias2 + args->eps);
  store_some(w, args->decay * weight - args->step_size * step, live);
}

void NAME(adam)(const ronde__adam_args *args, float *w, const float *g, float *m, float *v, int64_t n) {
  const ronde__adam_args a = *args;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) adam_some(&a, w + i, g + i, m + i, v + i, LANES);
  if (i < n) adam_some(&a, w + i, g + i, m + i, v + i, n - i);
}

INLINE void adagrad_some(const ronde__adagrad_args *args, float *w, const float *g, float *sum, int64_t live) {
  vec weight = load_some(w, live), d = load_some(g, live) + args->weight_decay * weight;
  vec s = load_some(sum, live) + d * d;
  store_some(sum, s, live);
  store_some(w, weight - args->lr * (d / (square_root(s) + args->eps)), live);
}

void NAME(adagrad)(const ronde__adagrad_args *args, float *w, const float *g, float *sum, int64_t n) {
  const ronde__adagrad_args a = *args;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) adagrad_some(&a, w + i, g + i, sum + i, LANES);
  if (i < n) adagrad_some(&a, w + i, g + i, sum + i, n - i);
}

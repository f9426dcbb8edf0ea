/* Optimizer steps with PyTorch's definitions, in its order of operations. In vectors throughout, the tail too: left to
 * itself a compiler may fuse other products in the tail than in the body, and a value would depend on how its array is
 * cut. */
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

/* Whole vectors only, and compiled once: which of two added products is fused is for the compiler to choose. */
static __attribute__((noinline)) void adam_vectors(const ronde__adam_args *args, float *w, const float *g, float *m,
                                                   float *v, int64_t n) {
  const ronde__adam_args a = *args;
  for (int64_t i = 0; i < n; i += LANES) {
    vec weight = load(w + i), d = load(g + i) + a.weight_decay * weight;
    vec mean = a.beta1 * load(m + i) + a.rest1 * d;
    vec square = a.beta2 * load(v + i) + a.rest2 * (d * d);
    store(m + i, mean);
    store(v + i, square);
    store(w + i, a.decay * weight - a.step_size * (mean / (square_root(square) * a.inv_sqrt_bias2 + a.eps)));
  }
}

void NAME(adam)(const ronde__adam_args *args, float *w, const float *g, float *m, float *v, int64_t n) {
  int64_t body = n / LANES * LANES, rest = n - body;
  adam_vectors(args, w, g, m, v, body);
  if (!rest) return;
  float tail[4][LANES] = {{0}};
  float *const from[] = {w + body, m + body, v + body};
  for (int i = 0; i < 3; i++) memcpy(tail[i], from[i], (size_t)rest * sizeof(float));
  memcpy(tail[3], g + body, (size_t)rest * sizeof(float));
  adam_vectors(args, tail[0], tail[3], tail[1], tail[2], LANES);
  for (int i = 0; i < 3; i++) memcpy(from[i], tail[i], (size_t)rest * sizeof(float));
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

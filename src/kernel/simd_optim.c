/* Optimizer steps with PyTorch's definitions, in its order of operations. The tail is computed in vectors too: a
 * compiler may fuse other products in a scalar tail than in the body, and a value would depend on how its array is
 * cut. */
#include "kernel/simd.h"

#include <math.h>

/* Weights of taps that only meet padding (most weights of a network on small images) never get a gradient. Where
 * gradient, state and decay are zero the weight stays as it is, so it is neither read nor written; weights would be
 * 3 of the 5 arrays moved. */
enum { PIECE = 1024, PROBE = 4 };

static bool all_zero(const float *x, int64_t n) {
  int64_t i = 0;
  for (; i + PROBE * LANES <= n; i += PROBE * LANES) {
    ivec bits = {0};
    UNROLL
    for (int v = 0; v < PROBE; v++) bits |= as_int(load(x + i + v * LANES));
    uint64_t any = 0, part[LANES / 2];
    memcpy(part, &bits, sizeof part);
    for (int l = 0; l < LANES / 2; l++) any |= part[l];
    if (any) return false;
  }
  for (; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, x + i, sizeof bits);
    if (bits) return false;
  }
  return true;
}

INLINE vec square_root(vec x) {
  float lane[LANES];
  memcpy(lane, &x, sizeof lane);
  for (int i = 0; i < LANES; i++) lane[i] = sqrtf(lane[i]);
  memcpy(&x, lane, sizeof lane);
  return x;
}

/* Zero where x is subnormal. State that decays by a factor a step, as that of weights without a gradient does, would come to
 * rest at the smallest such number and stay there, and processors take a hundred times as long for each operation on one. */
INLINE vec settled(vec x) { return as_float(as_int(x) & ((as_int(x) & 0x7f800000) != 0)); }

INLINE void sgd_some(const ronde__sgd_args *args, float *w, const float *g, float *velocity, int64_t live) {
  vec weight = load_some(w, live), d = load_some(g, live) + args->weight_decay * weight;
  if (velocity) {
    vec v = settled(args->momentum * load_some(velocity, live) + d);
    store_some(velocity, v, live);
    d = args->nesterov ? d + args->momentum * v : v;
  }
  store_some(w, weight - args->lr * d, live);
}

static void sgd_piece(const ronde__sgd_args *args, float *w, const float *g, float *velocity, int64_t n) {
  const ronde__sgd_args a = *args;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) sgd_some(&a, w + i, g + i, velocity ? velocity + i : NULL, LANES);
  if (i < n) sgd_some(&a, w + i, g + i, velocity ? velocity + i : NULL, n - i);
}

void NAME(sgd)(const ronde__sgd_args *args, float *w, const float *g, float *velocity, int64_t n) {
  for (int64_t i = 0; i < n; i += PIECE) {
    int64_t m = ronde__min(PIECE, n - i);
    float *v = velocity ? velocity + i : NULL;
    if (args->weight_decay != 0 || !all_zero(g + i, m) || (v && !all_zero(v, m))) sgd_piece(args, w + i, g + i, v, m);
  }
}

/* Whole vectors only, and compiled once: the compiler chooses which of two added products it fuses. */
static __attribute__((noinline)) void adam_vectors(const void *args, float *w, const float *g, float *m, float *v,
                                                   int64_t n) {
  const ronde__adam_args a = *(const ronde__adam_args *)args;
  for (int64_t i = 0; i < n; i += LANES) {
    vec weight = load(w + i), d = load(g + i) + a.weight_decay * weight;
    vec mean = settled(a.beta1 * load(m + i) + a.rest1 * d);
    vec square = settled(a.beta2 * load(v + i) + a.rest2 * (d * d));
    store(m + i, mean);
    store(v + i, square);
    store(w + i, a.decay * weight - a.step_size * (mean / (square_root(square) * a.inv_sqrt_bias2 + a.eps)));
  }
}

/* velocity: NULL without momentum. */
static __attribute__((noinline)) void rmsprop_vectors(const void *args, float *w, const float *g, float *square,
                                                      float *velocity, int64_t n) {
  const ronde__rmsprop_args a = *(const ronde__rmsprop_args *)args;
  for (int64_t i = 0; i < n; i += LANES) {
    vec weight = load(w + i), d = load(g + i) + a.weight_decay * weight;
    vec s = settled(a.alpha * load(square + i) + a.rest * (d * d));
    vec scaled = d / (square_root(s) + a.eps);
    store(square + i, s);
    if (velocity) {
      scaled = settled(a.momentum * load(velocity + i) + scaled);
      store(velocity + i, scaled);
    }
    store(w + i, weight - a.lr * scaled);
  }
}

typedef void vectors_step(const void *args, float *w, const float *g, float *a, float *b, int64_t n);

/* The step on any n: what is behind the last whole vector is computed in one of its own. b: NULL where the step has one
 * array of state. */
static void in_vectors(vectors_step *step, const void *args, float *w, const float *g, float *a, float *b, int64_t n) {
  int64_t body = n / LANES * LANES, rest = n - body;
  step(args, w, g, a, b, body);
  if (!rest) return;
  float tail[4][LANES] = {{0}};
  float *const from[] = {w + body, a + body, b ? b + body : NULL};
  for (int i = 0; i < 3 && from[i]; i++) memcpy(tail[i], from[i], (size_t)rest * sizeof(float));
  memcpy(tail[3], g + body, (size_t)rest * sizeof(float));
  step(args, tail[0], tail[3], tail[1], b ? tail[2] : NULL, LANES);
  for (int i = 0; i < 3 && from[i]; i++) memcpy(from[i], tail[i], (size_t)rest * sizeof(float));
}

void NAME(adam)(const ronde__adam_args *args, float *w, const float *g, float *m, float *v, int64_t n) {
  const bool still = args->weight_decay == 0 && args->decay == 1 && args->eps > 0;
  for (int64_t i = 0; i < n; i += PIECE) {
    int64_t some = ronde__min(PIECE, n - i);
    if (still && all_zero(g + i, some) && all_zero(m + i, some) && all_zero(v + i, some)) continue;
    in_vectors(adam_vectors, args, w + i, g + i, m + i, v + i, some);
  }
}

INLINE void adagrad_some(const ronde__adagrad_args *args, float *w, const float *g, float *sum, int64_t live) {
  vec weight = load_some(w, live), d = load_some(g, live) + args->weight_decay * weight;
  vec s = load_some(sum, live) + d * d;
  store_some(sum, s, live);
  store_some(w, weight - args->lr * (d / (square_root(s) + args->eps)), live);
}

static void adagrad_piece(const ronde__adagrad_args *args, float *w, const float *g, float *sum, int64_t n) {
  const ronde__adagrad_args a = *args;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) adagrad_some(&a, w + i, g + i, sum + i, LANES);
  if (i < n) adagrad_some(&a, w + i, g + i, sum + i, n - i);
}

void NAME(adagrad)(const ronde__adagrad_args *args, float *w, const float *g, float *sum, int64_t n) {
  const bool still = args->weight_decay == 0 && args->eps > 0;
  for (int64_t i = 0; i < n; i += PIECE) {
    int64_t m = ronde__min(PIECE, n - i);
    if (!still || !all_zero(g + i, m) || !all_zero(sum + i, m)) adagrad_piece(args, w + i, g + i, sum + i, m);
  }
}

void NAME(rmsprop)(const ronde__rmsprop_args *args, float *w, const float *g, float *square, float *velocity,
                   int64_t n) {
  const bool still = args->weight_decay == 0 && args->eps > 0;
  for (int64_t i = 0; i < n; i += PIECE) {
    int64_t m = ronde__min(PIECE, n - i);
    float *v = velocity ? velocity + i : NULL;
    if (still && all_zero(g + i, m) && all_zero(square + i, m) && (!v || all_zero(v, m))) continue;
    in_vectors(rmsprop_vectors, args, w + i, g + i, square + i, v, m);
  }
}

/* Activations, alone and fused behind a bias. */
#include "kernel/simd_math.h"

INLINE void apply_each(const int n, vec *x, const ronde__activation act) {
  switch (act) {
  case RONDE__ACT_RELU: EACH x[i] = blend(x[i] < 0.0f, (vec){0}, x[i]); break; /* NaN stays */
  case RONDE__ACT_TANH: tanh_each(n, x); break;
  case RONDE__ACT_SIGMOID: sigmoid_each(n, x); break;
  case RONDE__ACT_NONE: break;
  }
}

INLINE vec apply(vec x, const ronde__activation act) {
  apply_each(1, &x, act);
  return x;
}

/* y = act(x + bias) of whole vectors; how many floats that was. */
INLINE int64_t whole_vectors(const float *x, float *y, int64_t n_floats, float bias, const ronde__activation act) {
  const int n = MOST;
  int64_t j = 0;
  for (vec v[MOST]; j + MOST * LANES <= n_floats; j += MOST * LANES) {
    EACH v[i] = load(x + j + i * LANES) + bias;
    apply_each(n, v, act);
    EACH store(y + j + i * LANES, v[i]);
  }
  for (; j + LANES <= n_floats; j += LANES) store(y + j, apply(load(x + j) + bias, act));
  return j;
}

/* Calls a function with the activation as a constant, so that it is compiled once for each. */
#define WITH_CONSTANT_ACT(call, ...)                                     \
  switch (act) {                                                         \
  case RONDE__ACT_NONE: call(__VA_ARGS__, RONDE__ACT_NONE); break;       \
  case RONDE__ACT_RELU: call(__VA_ARGS__, RONDE__ACT_RELU); break;       \
  case RONDE__ACT_TANH: call(__VA_ARGS__, RONDE__ACT_TANH); break;       \
  case RONDE__ACT_SIGMOID: call(__VA_ARGS__, RONDE__ACT_SIGMOID); break; \
  }

/* The vector that `valid` cuts is computed whole where the row continues behind it; its lanes past `valid` are
 * cleared. */
INLINE void rows_of(float *y, int64_t ld, int64_t rows, int64_t n, int64_t valid, const float *bias,
                    const ronde__activation act) {
  const int64_t cut = valid / LANES * LANES, rest = valid - cut, cleared = cut + (rest ? LANES : 0);
  const bool roomy = cleared <= n;
  vec last_bias = rest && bias ? load_some(bias + cut, rest) : (vec){0};
  ivec last_mask;
  for (int i = 0; i < LANES; i++) last_mask[i] = i < rest ? -1 : 0;
  for (int64_t r = 0; r < rows; r++, y += ld) {
    for (int64_t j = 0; j < cut; j += LANES) {
      vec x = load(y + j);
      store(y + j, apply(bias ? x + load(bias + j) : x, act));
    }
    if (rest && roomy) {
      store(y + cut, blend(last_mask, apply(bias ? load(y + cut) + last_bias : load(y + cut), act), (vec){0}));
    } else if (rest) {
      vec x = load_some(y + cut, rest);
      store_some(y + cut, apply(bias ? x + last_bias : x, act), rest);
      memset(y + valid, 0, (size_t)(n - valid) * sizeof(float));
    }
    if (roomy && cleared < n) memset(y + cleared, 0, (size_t)(n - cleared) * sizeof(float));
  }
}

void NAME(bias_act_rows)(float *y, int64_t ld, int64_t rows, int64_t n, int64_t valid, const float *bias,
                         ronde__activation act) {
  WITH_CONSTANT_ACT(rows_of, y, ld, rows, n, valid, bias);
}

INLINE void lanes_of(float *y, int64_t n, float bias, const ronde__activation act) {
  int64_t j = whole_vectors(y, y, n, bias, act);
  if (j < n) store_some(y + j, apply(load_some(y + j, n - j) + bias, act), n - j);
}

void NAME(bias_act_lanes)(float *y, int64_t n, float bias, ronde__activation act) {
  WITH_CONSTANT_ACT(lanes_of, y, n, bias);
}

INLINE void forward_of(const float *x, float *y, int64_t n, const ronde__activation act) {
  int64_t j = whole_vectors(x, y, n, -0.0f, act); /* which leaves a zero its sign */
  if (j < n) store_some(y + j, apply(load_some(x + j, n - j), act), n - j);
}

void NAME(act_forward)(const float *x, float *y, int64_t n, ronde__activation act) {
  WITH_CONSTANT_ACT(forward_of, x, y, n);
}

INLINE vec derive(vec dy, vec y, const ronde__activation act) {
  switch (act) {
  case RONDE__ACT_RELU: return blend(y <= 0.0f, (vec){0}, dy);
  case RONDE__ACT_TANH: return dy * (1.0f - y * y);
  case RONDE__ACT_SIGMOID: return dy * ((1.0f - y) * y);
  case RONDE__ACT_NONE: break;
  }
  return dy;
}

INLINE void backward_some(const float *dy, const float *y, float *dx, int64_t live, bool accumulate,
                          const ronde__activation act) {
  vec d = derive(load_some(dy, live), load_some(y, live), act);
  store_some(dx, accumulate ? load_some(dx, live) + d : d, live);
}

INLINE void backward_of(const float *dy, const float *y, float *dx, int64_t n, bool accumulate,
                        const ronde__activation act) {
  int64_t j = 0;
  for (; j + LANES <= n; j += LANES) backward_some(dy + j, y + j, dx + j, LANES, accumulate, act);
  if (j < n) backward_some(dy + j, y + j, dx + j, n - j, accumulate, act);
}

void NAME(act_backward)(const float *dy, const float *y, float *dx, int64_t n, ronde__activation act, bool accumulate) {
  WITH_CONSTANT_ACT(backward_of, dy, y, dx, n, accumulate);
}

/* Activations whose slope is a function of their input (pointwise.inc), and their gradients. Largest errors, by
 * kernel_pointwise_test: GELU 6 ulp, SiLU 4, hard swish and ELU 3; GELU by tanh 4 ulp times 1 + |2u|, u what the tanh is taken
 * of. Results too small to be normal numbers are within 1e-43. Slopes are within 5e-7.
 * Source of GELU: erfc(z) = exp(-z^2) times a function that is smooth in (z - k) / (z + k); Shepherd & Laframboise,
 * "Chebyshev approximation of (1 + 2x) exp(x^2) erfc(x)", 1981. The polynomial was fitted by Lawson's iteration. */
#include "kernel/simd_math.h"

/* Between two bounds; NaN stays. */
INLINE vec clamp(vec x, float lower, float upper) {
  x = blend(x < lower, splat(lower), x);
  return blend(x > upper, splat(upper), x);
}

/* density = exp(-x^2 / 2), and the chance that a normal variable is below -|x|; what lies past 15 is 0. */
INLINE void normal_each(const int n, const vec *x, vec *density, vec *ratio) {
  enum { LOW_HALF = 0xfff };
  const float k = 3.5f;
  vec a[MOST], high[MOST], rest[MOST], t[MOST], q[MOST];
  EACH a[i] = as_float(as_int(x[i]) & ~as_int(splat(-0.0f)));
  EACH a[i] = blend(a[i] > 15.0f, splat(15.0f), a[i]);
  EACH high[i] = as_float(as_int(a[i]) & ~LOW_HALF); /* so that its square is exact */
  EACH density[i] = high[i] * high[i] * -0.5f;
  exp_each(n, density);
  EACH rest[i] = (a[i] - high[i]) * (a[i] + high[i]) * -0.5f;
  EACH t[i] = rest[i] * 4.1666668e-2f + 1.6666667e-1f;
  EACH t[i] = t[i] * rest[i] + 0.5f;
  EACH t[i] = t[i] * rest[i] + 1.0f;
  EACH density[i] = density[i] + density[i] * (t[i] * rest[i]);
  EACH t[i] = 1.0f / (a[i] + k);
  EACH q[i] = (a[i] - k) * t[i];
  EACH ratio[i] = q[i] * 0.00010869297693716362f + 0.00041832245187833905f;
  EACH ratio[i] = ratio[i] * q[i] + -0.0004950392176397145f;
  EACH ratio[i] = ratio[i] * q[i] + -0.003172827884554863f;
  EACH ratio[i] = ratio[i] * q[i] + 0.006493726745247841f;
  EACH ratio[i] = ratio[i] * q[i] + 0.01740582101047039f;
  EACH ratio[i] = ratio[i] * q[i] + -0.11605317145586014f;
  EACH ratio[i] = ratio[i] * q[i] + 0.3154250979423523f;
  EACH ratio[i] = ratio[i] * q[i] + -0.5655617117881775f;
  EACH ratio[i] = ratio[i] * q[i] + 0.7444160580635071f;
  EACH ratio[i] = ratio[i] * t[i];
}

INLINE void gelu_value(const int n, vec *x, const ronde__pointwise *f) {
  vec density[MOST], ratio[MOST];
  normal_each(n, x, density, ratio);
  EACH x[i] = blend(x[i] < -15.0f, splat(-15.0f), x[i]);
  EACH x[i] = blend(x[i] < 0.0f, x[i] * ratio[i] * density[i], x[i] * (1.0f - ratio[i] * density[i]));
}

INLINE void gelu_slope(const int n, vec *x, const ronde__pointwise *f) {
  vec density[MOST], ratio[MOST], below[MOST];
  normal_each(n, x, density, ratio);
  EACH below[i] = ratio[i] * density[i];
  EACH below[i] = blend(x[i] < 0.0f, below[i], 1.0f - below[i]);
  EACH x[i] = clamp(x[i], -15.0f, 15.0f) * density[i] * 0.3989422804014327f + below[i];
}

/* e = exp(-|x|), and 1 / (1 + e). */
INLINE void logistic_each(const int n, const vec *x, vec *e, vec *inverse) {
  EACH e[i] = as_float(as_int(x[i]) | as_int(splat(-0.0f)));
  exp_each(n, e);
  EACH inverse[i] = 1.0f / (e[i] + 1.0f);
}

/* x sigmoid(u) */
INLINE void gate_each(const int n, vec *x, const vec *u) {
  vec e[MOST], inverse[MOST];
  logistic_each(n, u, e, inverse);
  EACH x[i] = x[i] * blend(u[i] < 0.0f, e[i], splat(1.0f)) * inverse[i];
}

/* The slope of it: sigmoid(u) + x sigmoid(u) (1 - sigmoid(u)) du */
INLINE void gate_slope_each(const int n, vec *x, const vec *u, const vec *du) {
  vec e[MOST], inverse[MOST];
  logistic_each(n, u, e, inverse);
  EACH x[i] = (x[i] * du[i] * e[i] * inverse[i] + blend(u[i] < 0.0f, e[i], splat(1.0f))) * inverse[i];
}

/* (1 + tanh(u)) / 2 = sigmoid(2 u) */
#define TWICE_ROOT 1.5957691216057308f /* 2 sqrt(2 / pi) */
#define TWICE_ROOT_CUBIC 0.07135481627f

INLINE vec gelu_tanh_argument(vec x) { return x * (x * x * TWICE_ROOT_CUBIC + TWICE_ROOT); }

INLINE void gelu_tanh_value(const int n, vec *x, const ronde__pointwise *f) {
  vec u[MOST];
  EACH u[i] = gelu_tanh_argument(clamp(x[i], -15.0f, 15.0f));
  EACH x[i] = blend(x[i] < -15.0f, splat(-15.0f), x[i]);
  gate_each(n, x, u);
}

INLINE void gelu_tanh_slope(const int n, vec *x, const ronde__pointwise *f) {
  vec u[MOST], du[MOST];
  EACH x[i] = clamp(x[i], -15.0f, 15.0f);
  EACH u[i] = gelu_tanh_argument(x[i]);
  EACH du[i] = x[i] * x[i] * (3 * TWICE_ROOT_CUBIC) + TWICE_ROOT;
  gate_slope_each(n, x, u, du);
}

INLINE void silu_value(const int n, vec *x, const ronde__pointwise *f) {
  vec u[MOST];
  EACH u[i] = x[i];
  EACH x[i] = blend(x[i] < -200.0f, splat(-200.0f), x[i]);
  gate_each(n, x, u);
}

INLINE void silu_slope(const int n, vec *x, const ronde__pointwise *f) {
  vec u[MOST], du[MOST];
  EACH du[i] = splat(1.0f);
  EACH u[i] = x[i] = clamp(x[i], -200.0f, 200.0f);
  gate_slope_each(n, x, u, du);
}

INLINE void hard_swish_value(const int n, vec *x, const ronde__pointwise *f) {
  EACH x[i] = blend(x[i] < -3.0f, splat(-3.0f), x[i]) * ((clamp(x[i], -3.0f, 3.0f) + 3.0f) * 0.16666667f);
}

INLINE void hard_swish_slope(const int n, vec *x, const ronde__pointwise *f) {
  EACH x[i] = blend(x[i] <= -3.0f, (vec){0}, blend(x[i] >= 3.0f, splat(1.0f), x[i] * 0.33333334f + 0.5f));
}

INLINE void hard_sigmoid_value(const int n, vec *x, const ronde__pointwise *f) {
  EACH x[i] = clamp(x[i] * f->a + f->b, 0.0f, 1.0f);
}

INLINE void hard_sigmoid_slope(const int n, vec *x, const ronde__pointwise *f) {
  EACH x[i] = x[i] * f->a + f->b;
  EACH x[i] = blend((x[i] <= 0.0f) | (x[i] >= 1.0f), (vec){0}, splat(f->a));
}

INLINE void leaky_relu_value(const int n, vec *x, const ronde__pointwise *f) {
  EACH x[i] = blend(x[i] > 0.0f, x[i], x[i] * f->a);
}

INLINE void leaky_relu_slope(const int n, vec *x, const ronde__pointwise *f) {
  EACH x[i] = blend(x[i] > 0.0f, splat(1.0f), splat(f->a));
}

INLINE void elu_value(const int n, vec *x, const ronde__pointwise *f) {
  vec below[MOST], p[MOST], scale[MOST];
  ivec power[MOST];
  EACH below[i] = clamp(x[i], -30.0f, 0.0f);
  exp_split(n, below, p, power);
  EACH scale[i] = power_of_two(power[i]);
  EACH x[i] = blend(x[i] < 0.0f, (p[i] * scale[i] + (scale[i] - 1.0f)) * f->a, x[i]);
}

INLINE void elu_slope(const int n, vec *x, const ronde__pointwise *f) {
  vec e[MOST];
  EACH e[i] = blend(x[i] > 0.0f, (vec){0}, x[i]);
  exp_each(n, e);
  EACH x[i] = blend(x[i] > 0.0f, splat(1.0f), e[i] * f->a);
}

INLINE void clip_value(const int n, vec *x, const ronde__pointwise *f) { EACH x[i] = clamp(x[i], f->a, f->b); }

INLINE void clip_slope(const int n, vec *x, const ronde__pointwise *f) {
  EACH x[i] = blend((x[i] <= f->a) | (x[i] >= f->b), (vec){0}, splat(1.0f));
}

INLINE void value_each(const int n, vec *x, const ronde__pointwise *f, const ronde__pointwise_kind kind) {
  switch (kind) {
#define RONDE_POINTWISE(KIND, name) \
  case RONDE__POINTWISE_##KIND:     \
    name##_value(n, x, f);          \
    break;
#include "kernel/pointwise.inc"
#undef RONDE_POINTWISE
  }
}

INLINE void slope_each(const int n, vec *x, const ronde__pointwise *f, const ronde__pointwise_kind kind) {
  switch (kind) {
#define RONDE_POINTWISE(KIND, name) \
  case RONDE__POINTWISE_##KIND:     \
    name##_slope(n, x, f);          \
    break;
#include "kernel/pointwise.inc"
#undef RONDE_POINTWISE
  }
}

enum { BLOCK = MOST * LANES };

/* What is left behind the last whole block goes through one too, so that all elements take the same instructions. */
INLINE void forward_of(const float *x, float *y, int64_t n_floats, const ronde__pointwise *f,
                       const ronde__pointwise_kind kind) {
  const int n = MOST;
  float last[BLOCK] = {0};
  for (int64_t j = 0; j < n_floats; j += BLOCK) {
    const bool whole = j + BLOCK <= n_floats;
    const size_t rest = (size_t)(n_floats - j) * sizeof *x;
    const float *from = whole ? x + j : memcpy(last, x + j, rest);
    float *to = whole ? y + j : last;
    vec v[MOST];
    EACH v[i] = load(from + i * LANES);
    value_each(n, v, f, kind);
    EACH store(to + i * LANES, v[i]);
    if (!whole) memcpy(y + j, last, rest);
  }
}

INLINE void backward_block(const float *dy, const float *x, float *dx, bool accumulate, const ronde__pointwise *f,
                           const ronde__pointwise_kind kind) {
  const int n = MOST;
  vec v[MOST];
  EACH v[i] = load(x + i * LANES);
  slope_each(n, v, f, kind);
  EACH v[i] = v[i] * load(dy + i * LANES);
  EACH store(dx + i * LANES, accumulate ? load(dx + i * LANES) + v[i] : v[i]);
}

INLINE void backward_of(const float *dy, const float *x, float *dx, int64_t n_floats, bool accumulate,
                        const ronde__pointwise *f, const ronde__pointwise_kind kind) {
  float last_dy[BLOCK] = {0}, last_x[BLOCK] = {0}, last_dx[BLOCK] = {0};
  for (int64_t j = 0; j < n_floats; j += BLOCK) {
    const bool whole = j + BLOCK <= n_floats;
    const size_t rest = (size_t)(n_floats - j) * sizeof *x;
    if (!whole) memcpy(last_dx, dx + j, rest);
    backward_block(whole ? dy + j : memcpy(last_dy, dy + j, rest), whole ? x + j : memcpy(last_x, x + j, rest),
                   whole ? dx + j : last_dx, accumulate, f, kind);
    if (!whole) memcpy(dx + j, last_dx, rest);
  }
}

/* The kind as a constant, so that the loops are compiled once for each. */
void NAME(pointwise_forward)(const ronde__pointwise *f, const float *x, float *y, int64_t n) {
  switch (f->kind) {
#define RONDE_POINTWISE(KIND, name)                  \
  case RONDE__POINTWISE_##KIND:                      \
    forward_of(x, y, n, f, RONDE__POINTWISE_##KIND); \
    break;
#include "kernel/pointwise.inc"
#undef RONDE_POINTWISE
  }
}

void NAME(pointwise_backward)(const ronde__pointwise *f, const float *dy, const float *x, float *dx, int64_t n,
                              bool accumulate) {
  switch (f->kind) {
#define RONDE_POINTWISE(KIND, name)                                    \
  case RONDE__POINTWISE_##KIND:                                        \
    backward_of(dy, x, dx, n, accumulate, f, RONDE__POINTWISE_##KIND); \
    break;
#include "kernel/pointwise.inc"
#undef RONDE_POINTWISE
  }
}

/* exp, tanh and the logistic function of a vector: every lane by itself, NaN to NaN, denormals and zeros right. */
#ifndef RONDE_SIMD_MATH_H
#define RONDE_SIMD_MATH_H

#include "kernel/simd.h"

/* 1.5 * 2^23: adding it to a small float leaves the nearest integer in the low bits. */
#define ROUNDING 12582912.0f
enum { ROUNDING_BITS = 0x4b400000 };

enum { MOST = 4 }; /* vectors at once */

/* The same of n vectors, each operation of all of them in turn: one vector's operations wait for each other for longer
 * than the CPU looks ahead. */
#define EACH UNROLL for (int i = 0; i < n; i++)

/* exp(x) - 1 = (p + 1) * 2^power - 1, |x| < 2^20, p in [-0.3, 0.42]. Source: Cephes, expf. */
INLINE void exp_split(const int n, const vec *x, vec *p, ivec *power) {
  vec rounded[MOST], whole[MOST], r[MOST];
  EACH rounded[i] = x[i] * 1.44269504088896341f + ROUNDING;
  EACH whole[i] = rounded[i] - ROUNDING;
  EACH r[i] = x[i] - whole[i] * 0.693359375f; /* exact: few bits times a small integer */
  EACH r[i] = r[i] - whole[i] * -2.12194440e-4f;
  EACH p[i] = r[i] * 1.9875691500e-4f + 1.3981999507e-3f;
  EACH p[i] = p[i] * r[i] + 8.3334519073e-3f;
  EACH p[i] = p[i] * r[i] + 4.1665795894e-2f;
  EACH p[i] = p[i] * r[i] + 1.6666665459e-1f;
  EACH p[i] = p[i] * r[i] + 5.0000001201e-1f;
  EACH power[i] = as_int(rounded[i]) - ROUNDING_BITS;
  EACH p[i] = p[i] * (r[i] * r[i]) + r[i];
}

/* 2^n for -126 <= n <= 127. */
INLINE vec power_of_two(ivec n) { return as_float((n + 127) << 23); }

/* exp(x) for x <= 88, denormal results included; NaN for NaN. The power is applied in two halves, of which only the
 * second may leave the normal range: one rounding. */
INLINE void exp_each(const int n, vec *x) {
  ivec power[MOST];
  vec p[MOST];
  EACH x[i] = blend(x[i] < -104.0f, splat(-104.0f), x[i]);
  exp_split(n, x, p, power);
  EACH x[i] = (p[i] + 1.0f) * power_of_two(power[i] >> 1) * power_of_two(power[i] - (power[i] >> 1));
}

/* e / (e + 2), e = exp(2|x|) - 1, with the sign of x; 1 from 9.02 on. Off by 2.3 ulp at most. */
INLINE void tanh_each(const int n, vec *x) {
  const ivec sign_bit = as_int(splat(-0.0f));
  vec a[MOST], p[MOST], scale[MOST], e[MOST];
  ivec power[MOST];
  EACH a[i] = as_float(as_int(x[i]) & ~sign_bit);
  EACH a[i] = blend(a[i] > 9.1f, splat(9.1f), a[i]);
  EACH a[i] = a[i] + a[i];
  exp_split(n, a, p, power);
  EACH scale[i] = power_of_two(power[i]);
  EACH e[i] = p[i] * scale[i] + (scale[i] - 1.0f);
  EACH e[i] = e[i] / (e[i] + 2.0f);
  EACH x[i] = as_float(as_int(e[i]) | (as_int(x[i]) & sign_bit));
}

/* 1 / (1 + exp(-|x|)), times exp(-|x|) on the negative side: no overflow, and tiny values keep their precision. */
INLINE void sigmoid_each(const int n, vec *x) {
  vec e[MOST];
  EACH e[i] = as_float(as_int(x[i]) | as_int(splat(-0.0f)));
  exp_each(n, e);
  EACH x[i] = blend(x[i] < 0.0f, e[i], splat(1.0f)) / (e[i] + 1.0f);
}

#endif

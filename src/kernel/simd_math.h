/* exp, tanh and the logistic function of a vector: every lane by itself, NaN to NaN, denormals and zeros right. */
#ifndef RONDE_SIMD_MATH_H
#define RONDE_SIMD_MATH_H

#include "kernel/simd.h"

/* 1.5 * 2^23: adding it to a small float leaves the nearest integer in the low bits. */
#define ROUNDING 12582912.0f
enum { ROUNDING_BITS = 0x4b400000 };

/* exp(x) = result * 2^n, |x| < 2^20, the result in [0.7, 1.42]. Source: Cephes, expf. */
INLINE vec exp_split(vec x, ivec *n_out) {
  vec rounded = x * 1.44269504088896341f + ROUNDING;
  vec n = rounded - ROUNDING;
  vec r = x - n * 0.693359375f; /* exact: few bits times a small integer */
  r = r - n * -2.12194440e-4f;
  vec p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  *n_out = as_int(rounded) - ROUNDING_BITS;
  return p * (r * r) + r + 1.0f;
}

/* 2^n for -126 <= n <= 127. */
INLINE vec power_of_two(ivec n) { return as_float((n + 127) << 23); }

/* exp(x) for x <= 88, denormal results included; NaN for NaN. The power is applied in two halves, of which only the
 * second may leave the normal range: one rounding. */
INLINE vec exp_vec(vec x) {
  x = select(x < -104.0f, splat(-104.0f), x);
  ivec n;
  vec p = exp_split(x, &n);
  ivec half = n >> 1;
  return p * power_of_two(half) * power_of_two(n - half);
}

/* Below 0.625 an odd polynomial (Cephes, tanhf); above, 1 - 2 / (exp(2x) + 1), which is 1 from 9.02 on. Off by 1.3 ulp
 * at most. */
INLINE vec tanh_vec(vec x) {
  const ivec sign_bit = as_int(splat(-0.0f));
  ivec sign = as_int(x) & sign_bit;
  vec a = as_float(as_int(x) & ~sign_bit);
  vec z = a * a;
  vec p = z * -5.70498872745e-3f + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  vec small = a * (z * p) + a;
  ivec is_small = a < 0.625f;
  vec clamped = select(a > 9.1f, splat(9.1f), a);
  ivec n;
  vec e = exp_split(clamped + clamped, &n) * power_of_two(n);
  vec large = 1.0f - 2.0f / (e + 1.0f);
  return as_float(as_int(select(is_small, small, large)) | sign);
}

/* 1 / (1 + exp(-|x|)), times exp(-|x|) on the negative side: no overflow, and tiny values keep their precision. */
INLINE vec sigmoid_vec(vec x) {
  vec e = exp_vec(as_float(as_int(x) | as_int(splat(-0.0f))));
  return select(x < 0.0f, e, splat(1.0f)) / (e + 1.0f);
}

#endif

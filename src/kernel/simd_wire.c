/* Numbers for the wire: bfloat16, the upper half of an f32, rounded to nearest even. */
#include "kernel/simd.h"

#include <string.h>

INLINE uint16_t to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded); /* a NaN stays one */
}

INLINE float from_bf16(uint16_t value) {
  uint32_t bits = (uint32_t)value << 16;
  float wide;
  memcpy(&wide, &bits, sizeof wide);
  return wide;
}

/* The rounding error of a number that is not finite is not finite either. It would stay for ever, so it is dropped. */
INLINE float lost(float value, uint16_t sent) {
  float rest = value - from_bf16(sent);
  return __builtin_fabsf(rest) <= __FLT_MAX__ ? rest : 0;
}

static void round_sum(const float *x, const uint16_t *in, uint16_t *out, int64_t n) {
  if (in)
    for (int64_t i = 0; i < n; i++) out[i] = to_bf16(x[i] + from_bf16(in[i]));
  else
    for (int64_t i = 0; i < n; i++) out[i] = to_bf16(x[i]);
}

void NAME(bf16_pack)(const float *x, const uint16_t *in, float *residual, uint16_t *out, int64_t n) {
  if (!residual) {
    round_sum(x, in, out, n);
  } else if (in) {
    for (int64_t i = 0; i < n; i++) {
      float value = (x[i] + from_bf16(in[i])) + residual[i];
      out[i] = to_bf16(value);
      residual[i] = lost(value, out[i]);
    }
  } else {
    for (int64_t i = 0; i < n; i++) {
      float value = x[i] + residual[i];
      out[i] = to_bf16(value);
      residual[i] = lost(value, out[i]);
    }
  }
}

void NAME(bf16_unpack)(const uint16_t *in, float *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) x[i] = from_bf16(in[i]);
}

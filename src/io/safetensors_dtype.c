/* The element types of safetensors files that are read, and their conversion to f32 and i64. */
#include "io/safetensors_dtype.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the files are little-endian and are used in place");

static const struct {
  const char *name;
  size_t bytes;
} dtypes[] = {
    [RONDE__SOURCE_F32] = {"F32", 4}, [RONDE__SOURCE_I64] = {"I64", 8},   [RONDE__SOURCE_F64] = {"F64", 8},
    [RONDE__SOURCE_F16] = {"F16", 2}, [RONDE__SOURCE_BF16] = {"BF16", 2},
};

bool ronde__source_dtype_find(const char *name, ronde__source_dtype *dtype_out) {
  for (size_t i = 0; i < RONDE__COUNT(dtypes); ++i) {
    if (strcmp(name, dtypes[i].name) == 0) {
      *dtype_out = (ronde__source_dtype)i;
      return true;
    }
  }
  return false;
}

size_t ronde__source_dtype_bytes(ronde__source_dtype dtype) { return dtypes[dtype].bytes; }

static float f32_from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static float f32_from_f16(uint16_t half) {
  uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, mantissa = half & 0x3ff;
  if (exponent == 31) return f32_from_bits(sign | 0x7f800000u | mantissa << 13);
  if (exponent > 0) return f32_from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
  float magnitude = (float)mantissa * 0x1p-24f; /* zero and subnormals: exact in f32 */
  return sign ? -magnitude : magnitude;
}

void ronde__source_convert(ronde__source_dtype dtype, const void *src, uint64_t n, void *dst) {
  if (dtype == RONDE__SOURCE_F32 || dtype == RONDE__SOURCE_I64) {
    memcpy(dst, src, n * dtypes[dtype].bytes);
    return;
  }
  const char *next = src;
  float *out = dst;
  for (uint64_t i = 0; i < n; ++i, next += dtypes[dtype].bytes) {
    uint16_t half;
    double wide;
    if (dtype == RONDE__SOURCE_F64) {
      memcpy(&wide, next, sizeof wide);
      out[i] = (float)wide;
    } else {
      memcpy(&half, next, sizeof half);
      out[i] = dtype == RONDE__SOURCE_F16 ? f32_from_f16(half) : f32_from_bits((uint32_t)half << 16);
    }
  }
}

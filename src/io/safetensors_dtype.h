/* The dtypes that a safetensors file may hold, and how they become F32 and I64. */
#ifndef RONDE_SAFETENSORS_DTYPE_H
#define RONDE_SAFETENSORS_DTYPE_H

#include "base/base.h"

typedef enum ronde__source_dtype {
  RONDE__SOURCE_F32,
  RONDE__SOURCE_I64,
  RONDE__SOURCE_F64,
  RONDE__SOURCE_F16,
  RONDE__SOURCE_BF16
} ronde__source_dtype;

/* By the name in the file; false: none that can be read. */
bool ronde__source_dtype_find(const char *name, ronde__source_dtype *dtype_out);
size_t ronde__source_dtype_bytes(ronde__source_dtype dtype);
/* n elements at src (of any alignment) to int64_t for I64, else to float, rounded to nearest; dst is aligned to its
 * elements. */
void ronde__source_convert(ronde__source_dtype dtype, const void *src, uint64_t n, void *dst);

#endif

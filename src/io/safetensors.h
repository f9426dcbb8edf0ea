/* Safetensors files: an 8-byte little-endian header length, a JSON header, then the data.
 * Source: the format's description by Hugging Face (safetensors 0.4). */
#ifndef RONDE_SAFETENSORS_H
#define RONDE_SAFETENSORS_H

#include "tensor/tensor.h"

typedef enum ronde__file_dtype { RONDE__FILE_F32, RONDE__FILE_I64 } ronde__file_dtype;

typedef struct ronde__file_tensor {
  const char *name;
  ronde__file_dtype dtype;
  ronde__shape shape; /* rank 0: a scalar, 1 element */
  const void *data;   /* row-major, aligned to its elements */
} ronde__file_tensor;

typedef struct ronde__file_meta { const char *key, *value; } ronde__file_meta;

/* A file that is open: everything in it was checked (lengths, offsets without overlap or gap, dtypes, duplicate names),
 * nothing larger than the file was allocated. Tensors of other dtypes than F32, I64 and F64 / F16 / BF16 (converted to
 * F32) are an error. */
typedef struct ronde__safetensors {
  int n_tensors, n_meta;
  ronde__file_tensor *tensors; /* names ascending bytewise */
  ronde__file_meta *meta;      /* keys in the file's order */
  void *impl;
} ronde__safetensors;

/* Maps the file until it is closed: all text and data of file_out lie in it. RONDE_E_INPUT says in one line what is
 * wrong where. */
ronde_status ronde__safetensors_open(const char *path, ronde__safetensors **file_out);
void ronde__safetensors_close(ronde__safetensors *file); /* NULL is taken */
const ronde__file_tensor *ronde__safetensors_find(const ronde__safetensors *file, const char *name); /* NULL: absent */
const char *ronde__safetensors_meta(const ronde__safetensors *file, const char *key);                 /* NULL: absent */
/* RONDE_E_INPUT, naming tensor and index, where a value of an F32 tensor is NaN or Inf (also where an F64 is beyond
 * F32). */
ronde_status ronde__safetensors_check_finite(const ronde__safetensors *file);
/* For fuzzing and tests: the same checks on memory; `name` stands for the path in messages. Borrows data. */
ronde_status ronde__safetensors_parse(const char *name, const void *data, size_t bytes, ronde__safetensors **file_out);

/* Whole or absent: temporary file in the same folder, fsync, rename, fsync of the folder. The header names tensors in
 * ascending order; the data of I64 tensors comes first, so that all data is aligned. Names must differ and all text be
 * UTF-8. */
ronde_status ronde__safetensors_write(const char *path, const ronde__file_tensor *tensors, int n_tensors,
                                      const ronde__file_meta *meta, int n_meta);

#endif

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

typedef struct ronde__file_meta {
  const char *key, *value;
} ronde__file_meta;

/* A file that is open: everything in it was checked (lengths, offsets without overlap or gap, dtypes, duplicate names),
 * nothing larger than the file was allocated. Tensors of other dtypes than F32, I64 and F64 / F16 / BF16 (converted to
 * F32) are an error. */
typedef struct ronde__safetensors {
  int n_tensors, n_meta;
  ronde__file_tensor *tensors; /* names ascending bytewise */
  ronde__file_meta *meta;      /* keys in the file's order */
  const void *header;          /* [header_bytes] as it stands in the file, its length in front included */
  size_t header_bytes;
  uint64_t bytes; /* of the whole file */
  void *impl;
} ronde__safetensors;

/* Maps the file until it is closed: all text and data of file_out lie in it. RONDE_E_INPUT says in one line what is
 * wrong where. */
ronde_status ronde__safetensors_open(const char *path, ronde__safetensors **file_out);
void ronde__safetensors_close(ronde__safetensors *file);                                             /* NULL is taken */
const ronde__file_tensor *ronde__safetensors_find(const ronde__safetensors *file, const char *name); /* NULL: absent */
const char *ronde__safetensors_meta(const ronde__safetensors *file, const char *key);                /* NULL: absent */
/* RONDE_E_INPUT, naming tensor and index, where a value of an F32 tensor is NaN or Inf (also where an F64 is beyond
 * F32). */
ronde_status ronde__safetensors_check_finite(const ronde__safetensors *file);
/* For fuzzing and tests: the same checks on memory. Messages use `name` as the path. Borrows data. */
ronde_status ronde__safetensors_parse(const char *name, const void *data, size_t bytes, ronde__safetensors **file_out);
/* The same for a file of which only the header is at hand: the data of its tensors is NULL. */
ronde_status ronde__safetensors_parse_header(const char *name, const void *header, size_t header_bytes,
                                             uint64_t file_bytes, ronde__safetensors **file_out);

/* A file of weights that there is in memory alone. tensors [n_tensors] in the order of names, whose data lie in pages
 * [bytes] (ronde__pages_map), which it takes over where it succeeds; all text is borrowed. */
ronde_status ronde__safetensors_wrap(const char *name, const ronde__file_tensor *tensors, int n_tensors,
                                     const ronde__file_meta *meta, int n_meta, void *pages, size_t bytes,
                                     ronde__safetensors **file_out);

/* Whole or absent: temporary file in the same folder, fsync, rename, fsync of the folder. The header names tensors in
 * ascending order; the data of I64 tensors comes first, so that all data is aligned. Names must differ and all text be
 * UTF-8. */
ronde_status ronde__safetensors_write(const char *path, const ronde__file_tensor *tensors, int n_tensors,
                                      const ronde__file_meta *meta, int n_meta);

/* ---- with checksums, for checkpoints ----------------------------------------------------------------------------
 * Tensors that are no part of a network have names that begin with RONDE__RESERVED. One of them, RONDE__CHECKSUMS, holds
 * a checksum of each tensor in the order of names, in its own place that of the header, and behind them one of these
 * checksums; a note of the same name says that it must be there: any changed bit of the file is found. */
#define RONDE__RESERVED "ronde."
#define RONDE__CHECKSUMS RONDE__RESERVED "checksums"

bool ronde__safetensors_reserved(const char *name);

/* Gives the next data of tensors [i], from element `first` on: at least one element, valid until the next call. An error
 * ends the writing. */
typedef ronde_status (*ronde__tensor_fetch)(void *user, int i, int64_t first, const void **data_out, int64_t *n_out);

/* As ronde__safetensors_write, with checksums or without; data of tensors are not looked at but fetched in pieces, so
 * that they need not exist at once. */
ronde_status ronde__safetensors_write_pieces(const char *path, const ronde__file_tensor *tensors, int n_tensors,
                                             const ronde__file_meta *meta, int n_meta, ronde__tensor_fetch fetch,
                                             void *user);
ronde_status ronde__safetensors_write_checked(const char *path, const ronde__file_tensor *tensors, int n_tensors,
                                              const ronde__file_meta *meta, int n_meta, ronde__tensor_fetch fetch,
                                              void *user);
/* RONDE_E_DIFFERENCE, naming the tensor or the header, where a checksum differs, or checksums that should be there are
 * missing. checked_out: false for a plain file, which has none. */
ronde_status ronde__safetensors_verify(const ronde__safetensors *file, bool *checked_out);

#endif

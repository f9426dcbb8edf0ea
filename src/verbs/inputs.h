/* What `ronde predict` is to look at: pictures, arrays and rows of tables, by file, folder or pattern, read some at a time. */
#ifndef RONDE_INPUTS_H
#define RONDE_INPUTS_H

#include "base/pool.h"
#include "data/data.h"
#include "tensor/tensor.h"

typedef struct ronde__inputs_options {
  const char *spec;                     /* files, folders and patterns, one a line */
  int64_t channels;                     /* that pictures are brought to: 1 or 3 */
  int64_t resize[2];                    /* height and width that all are brought to; 0: as they are */
  ronde__image_layout layout;           /* of arrays */
  const struct ronde__columns *columns; /* of csv files; NULL: the weights do not name them */
  bool skip_bad;                        /* pictures that cannot be read are left out, and said */
  int64_t chunk;                        /* examples at a time, at most */
} ronde__inputs_options;

typedef struct ronde__inputs ronde__inputs;

/* Finds the files: a folder stands for all .png, .jpg, .jpeg and .npy below it, and .csv where the columns are known, in
 * bytewise order. RONDE_E_INPUT where there is none. The spec must outlive the inputs. */
ronde_status ronde__inputs_open(const ronde__inputs_options *options, ronde__inputs **inputs_out);
void ronde__inputs_close(ronde__inputs *inputs); /* NULL is taken */
bool ronde__inputs_have_arrays(const ronde__inputs *inputs);
bool ronde__inputs_have_pictures(const ronde__inputs *inputs);
/* What the next examples are normalised by; until then it is nothing. */
void ronde__inputs_normalize(ronde__inputs *inputs, const ronde__normalization *by);
/* Of one example [C][H][W], or of a row [F], as the first that can be read has it; all others must have it too. */
ronde_status ronde__inputs_shape(ronde__inputs *inputs, ronde__shape *shape_out);

/* Examples in a row; borrowed until the next call. */
typedef struct ronde__inputs_chunk {
  int64_t n;         /* 0: that was all */
  const char **file; /* [n] */
  int64_t *index;    /* [n] within the file */
  const float *x;    /* [n][shape], normalised; without a normalisation pixels are between 0 and 1 */
} ronde__inputs_chunk;

/* Pictures are decoded by the threads of the pool (may be NULL). RONDE_E_INPUT names the file. */
ronde_status ronde__inputs_next(ronde__inputs *inputs, ronde__pool *pool, ronde__inputs_chunk *chunk_out);

#endif

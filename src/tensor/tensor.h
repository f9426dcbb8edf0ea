/* Shapes, layouts of activations and of weights, and the moves between them.
 * Legend: N batch; C channels, H, W (a vector of F features is C=F, H=W=1); O output channels, I input channels, T
 * taps. */
#ifndef RONDE_TENSOR_H
#define RONDE_TENSOR_H

#include "base/base.h"

typedef struct ronde__shape {
  int rank;
  int64_t dim[RONDE_MAX_RANK]; /* of one example, logical */
} ronde__shape;

int64_t ronde__shape_elems(const ronde__shape *shape);
bool ronde__shape_equal(const ronde__shape *a, const ronde__shape *b);
/* "3x32x32" */
void ronde__shape_text(const ronde__shape *shape, char *text, size_t size);

/* Where element (n, c, p) of an activation lies, p = h*W + w:
 *   ROWS    [N][C*H*W]              as in files and in the API; a row-major matrix is its C=F case
 *   LANES   [C][H*W][N]             the batch in the vector lanes, for few channels
 *   BLOCKS  [C/block][H*W][N][block] a pixel of a channel block is a GEMM operand [N][block]
 * Padded channels of BLOCKS are zero, forward and backward. */
typedef enum ronde__layout { RONDE__ROWS, RONDE__LANES, RONDE__BLOCKS } ronde__layout;

#define RONDE__MAX_BLOCK 64 /* channels of a block */
#define RONDE__QUANTUM 16   /* floats; blocks are multiples of it on every instruction set */

/* The physical form of one activation in a plan. */
typedef struct ronde__phys {
  ronde__layout layout;
  int64_t n, c, h, w;
  int64_t block; /* BLOCKS: channels per block; LANES: N, the lanes; ROWS: 0 */
  bool bf16;     /* elements are bfloat16, in the place of f32: BLOCKS alone */
} ronde__phys;

ronde__phys ronde__phys_make(ronde__layout layout, int64_t n, int64_t c, int64_t h, int64_t w);
/* A tensor as in files: ROWS, whose first dimension is the channels and whose last one is the width. */
ronde__phys ronde__phys_of_shape(const ronde__shape *shape, int64_t n);
/* The same in another layout. */
ronde__phys ronde__phys_of_shape_in(ronde__layout layout, const ronde__shape *shape, int64_t n);
/* ROWS whose examples are the dimensions in front of `dim` too, and whose channels are that one. */
ronde__phys ronde__phys_along(const ronde__shape *shape, int dim, int64_t n);
int64_t ronde__phys_elems(const ronde__phys *phys); /* stored, padding included */
size_t ronde__phys_floats(const ronde__phys *phys); /* in whose place they lie */
size_t ronde__phys_bytes(const ronde__phys *phys);
int64_t ronde__phys_index(const ronde__phys *phys, int64_t n, int64_t c,
                          int64_t p);                /* c and p within a ROWS example too */
int64_t ronde__phys_blocks(const ronde__phys *phys); /* BLOCKS: channel blocks; else 1 */
bool ronde__phys_equal(const ronde__phys *a, const ronde__phys *b);
/* Whether elements lie alike: how a layout does not tell dimensions apart, they may be split in other ways. */
bool ronde__phys_alike(const ronde__phys *a, const ronde__phys *b);
/* Examples times T: rows of a matrix that ROWS hold for each example, [T][F], which other layouts take as examples of F
 * features. T is 1 where the form has examples of the whole shape. */
int64_t ronde__phys_rows(const ronde__phys *phys, const ronde__shape *shape);
/* Channels per block: 64, 48, 32 or 16, so wide that the blocks are few, and so narrow that little of the last one is padding. */
int64_t ronde__channel_block(int64_t channels);

/* Copies between two forms of the same n and c*h*w features, which a flattened image and a vector may split
 * differently; padding of dst is set to zero. accumulate: dst += src instead. */
void ronde__reorder(const ronde__phys *src_phys, const float *src, const ronde__phys *dst_phys, float *dst,
                    bool accumulate);

/* How a weight is stored while training; logical is [O][I][T] (a bias is O alone, I = T = 1), as in files and hashes.
 *   PLAIN    [O][I][T]
 *   BLOCKED  [O/block_o][T][I/block_i][block_i][block_o]   for BLOCKS inputs
 *   PANELS   [O/block_o][I][T][block_o]                    for LANES and ROWS inputs
 * Padding is zero and stays zero under every optimizer. The choice depends on the graph alone, never on the batch. */
typedef enum ronde__weight_form { RONDE__PLAIN, RONDE__BLOCKED, RONDE__PANELS } ronde__weight_form;

typedef struct ronde__weight_layout {
  ronde__weight_form form;
  int64_t o, i, t;
  int64_t block_o, block_i;
  bool inputs_first; /* logical is [I][T][O]: of a linear layer that is x W in place of x W^T */
} ronde__weight_layout;

ronde__weight_layout ronde__weight_layout_make(ronde__weight_form form, int64_t o, int64_t i, int64_t t,
                                               int64_t block_o, int64_t block_i);

/* Whether elements lie alike: what a form does not use is not compared. */
bool ronde__weight_layout_equal(const ronde__weight_layout *a, const ronde__weight_layout *b);
int64_t ronde__weight_elems(const ronde__weight_layout *layout);
int64_t ronde__weight_index(const ronde__weight_layout *layout, int64_t o, int64_t i, int64_t t);
void ronde__weight_pack(const ronde__weight_layout *layout, const float *logical, float *packed);
void ronde__weight_unpack(const ronde__weight_layout *layout, const float *packed, float *logical);
/* In slices that stay in a cache, for what goes through all values but need not hold them: unpacks the slice that begins
 * with logical element `first`, where one before it ended, and returns its number of elements, which is at most
 * ronde__weight_slice_elems. */
int64_t ronde__weight_slice_elems(const ronde__weight_layout *layout);
int64_t ronde__weight_unpack_slice(const ronde__weight_layout *layout, const float *packed, int64_t first, float *out);
/* The other way, padding beside the slice included. */
int64_t ronde__weight_pack_slice(const ronde__weight_layout *layout, int64_t first, const float *logical,
                                 float *packed);

#endif

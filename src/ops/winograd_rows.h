/* How a convolution by Winograd's F(4x4, 3x3) cuts an activation: into rows, each one tile of one example, and rows into
 * chunks whose transform and products stay in the second cache. Chunks follow from the shapes alone, so that results do not
 * depend on the number of threads. */
#ifndef RONDE_WINOGRAD_ROWS_H
#define RONDE_WINOGRAD_ROWS_H

#include "ops/op.h"

enum {
  RONDE__WINOGRAD_OUT = 4,
  RONDE__WINOGRAD_IN = 6,
  RONDE__WINOGRAD_TAPS = 3,
  RONDE__WINOGRAD_PLACES = 36,
  /* Vectors that lie a power of two apart fall on the same cache lines: one line between them. */
  RONDE__WINOGRAD_GAP = 16
};

/* Row r is tile r / n of example r % n. */
typedef struct ronde__winograd_rows {
  int64_t n, tiles_w, count;
  int64_t chunk, n_chunks; /* rows of a chunk; those past the last row are zero in the transform */
  bool many_channels;      /* so that a pass over all transformed weights costs more than transforming them again */
} ronde__winograd_rows;

/* An activation and the transform of some chunks: [chunk][block][place][row of the chunk][b]. */
typedef struct ronde__winograd_operand {
  ronde__phys phys;
  ronde__winograd_map map;
  int size;                                   /* of its tiles: 6 or 4 */
  int64_t top, left;                          /* where the first one begins */
  int64_t blocks, place, block_stride, chunk; /* strides of the transform */
} ronde__winograd_operand;

/* Rows of a chunk that belong to one tile. */
typedef struct ronde__winograd_segment {
  int64_t tile_h, tile_w, example, count, row; /* row: of the chunk */
} ronde__winograd_segment;

/* Over the tiles of an output; of_weights: for the gradient of the weights, which sums over them. */
ronde__winograd_rows ronde__winograd_rows_of(const ronde__phys *in, const ronde__phys *out, bool of_weights);
ronde__winograd_operand ronde__winograd_operand_of(const ronde__phys *phys, ronde__winograd_map map, int64_t top,
                                                   int64_t left, const ronde__winograd_rows *rows);

/* The segment behind *segment (the first one where it is zero); false past the chunk's end. */
bool ronde__winograd_next(const ronde__winograd_rows *rows, int64_t chunk, ronde__winograd_segment *segment);
/* The tile from (top, left) on in a block's pixels [H*W][N][b], as far as it lies inside. */
ronde__winograd_tile ronde__winograd_tile_at(const ronde__phys *phys, const float *block, int64_t top, int64_t left,
                                             int size);
/* A tile of which all places are there, `place` apart. */
ronde__winograd_tile ronde__winograd_whole_tile(const float *at, int64_t place, int size);
/* One channel block of one chunk: to [place][row of the chunk][b]. */
void ronde__winograd_transform(const ronde__kernels *kernels, const ronde__winograd_rows *rows,
                               const ronde__winograd_operand *operand, const float *activation, int64_t chunk,
                               int64_t block, float *to);

#endif

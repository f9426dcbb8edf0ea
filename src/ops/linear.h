/* The fully connected layer's forms, one file each, in the order in which they are asked. */
#ifndef RONDE_LINEAR_H
#define RONDE_LINEAR_H

#include "ops/fused.h"
#include "ops/gemm_list.h"

extern const ronde__form ronde__linear_bf16; /* from BLOCKS, operands of bfloat16 */
extern const ronde__form ronde__linear_f32;  /* from any layout */

/* Rows of a weight tile whose gradient is handed on at once: between them the tile that comes next is fetched, a few lines
 * at a time, so that its own loads need not wait. Divides RONDE__QUANTUM. */
enum { RONDE__LINEAR_FETCHED = 8 };

/* Of an input in BLOCKS, in terms of one channel block of one pixel: weights go through the blocks of a pixel, activations
 * through the pixels of a block. */
static inline int64_t ronde__linear_n_terms(const ronde__phys *x) { return ronde__phys_blocks(x) * x->h * x->w; }
/* Where term i lies in the input, in elements. */
static inline int64_t ronde__linear_term_at(const ronde__phys *x, int64_t i) {
  int64_t blocks = ronde__phys_blocks(x);
  return (i % blocks * x->h * x->w + i / blocks) * x->n * x->block;
}
/* Elements of weight in one output block. */
static inline int64_t ronde__linear_slab(const ronde__op_desc *desc) {
  return ronde__weight_elems(&desc->param[0]) / ronde__phys_blocks(&desc->out[0]);
}

/* The first `rows` rows of the lines ahead of a tile's. */
static inline void ronde__linear_fetch(const float *ahead, int64_t elems) {
  for (int64_t i = 0; i < elems; i += 16) __builtin_prefetch(ahead + i, 0, 2);
}

/* Both gradients from a piece of output blocks, or the weight gradient alone: `part` is called with user by the pool for
 * [ob0, ob0 + n_obs), and what it makes of dparam[0] is told. From the last piece to the first, as the flat arrays are
 * exchanged. */
typedef struct ronde__linear_piece {
  const ronde__op_desc *desc;
  const void *state;
  const ronde__op_call *call;
  int64_t ob0, n_obs;
} ronde__linear_piece;

void ronde__linear_backward_pieces(const ronde__op_desc *desc, const void *state, const ronde__op_call *call,
                                   int64_t piece, void (*part)(void *piece, int thread, int n_threads));

double ronde__linear_executed_flops(const ronde__op_desc *desc, const void *state, bool backward);

#endif

/* The fully connected layer's forms, one file each, in the order in which they are asked. */
#ifndef RONDE_LINEAR_H
#define RONDE_LINEAR_H

#include "ops/fused.h"
#include "ops/gemm_list.h"

extern const ronde__form ronde__linear_none; /* of no output: the part of a rank for which a split layer has too few */
extern const ronde__form ronde__linear_bf16; /* from BLOCKS, operands of bfloat16 */
extern const ronde__form ronde__linear_rows; /* of many rows, from BLOCKS */
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

/* Of a tile [bi][bo]. */
static inline int64_t ronde__linear_tile_elems(const ronde__op_desc *desc) {
  return desc->in[0].block * desc->out[0].block;
}

/* Begins to bring n elements of weights into cache. */
static inline void ronde__linear_fetch(const float *ahead, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) __builtin_prefetch(ahead + i, 0, 2);
}

/* A call, or, in backward of BLOCKS, its output blocks [ob0, ob0 + n_obs). */
typedef struct ronde__linear_piece {
  const ronde__op_desc *desc;
  const void *state;
  const ronde__op_call *call;
  int64_t ob0, n_obs;
} ronde__linear_piece;

/* Runs `part` in the pool for every `piece` output blocks, from the last ones to the first, as the flat arrays are
 * exchanged, and tells the gradients of the weights that each has finished. */
void ronde__linear_backward_pieces(const ronde__op_desc *desc, const void *state, const ronde__op_call *call,
                                   int64_t piece, void (*part)(void *piece, int thread, int n_threads));

/* Tile i of a piece's weights, term by term, and where it lies in them. */
typedef struct ronde__linear_tile {
  int64_t ob, term, place;
} ronde__linear_tile;

static inline ronde__linear_tile ronde__linear_tile_of(const ronde__linear_piece *j, int64_t i) {
  int64_t ob = j->ob0 + i % j->n_obs, term = i / j->n_obs;
  return (ronde__linear_tile){ob, term, ob * ronde__linear_slab(j->desc) + term * ronde__linear_tile_elems(j->desc)};
}

/* What follows a tile's product goes through, as what is wanted next: its update within the layer, or else where its gradient
 * goes. */
ronde__ahead ronde__linear_tile_ahead(const ronde__linear_piece *j, ronde__linear_tile tile);
/* Of a layer that hands its weights' gradient on in pieces: the n elements from `place` on. */
void ronde__linear_hand_on(const ronde__linear_piece *j, int64_t place, int64_t n, const float *dw, bool fetched);

/* The tiles of weights of n output blocks and one term, as what is wanted next. */
ronde__ahead ronde__linear_tiles_ahead(const ronde__linear_piece *j, int64_t ob0, int64_t n, int64_t term);
/* The same, in BLOCKS, transposed: [n][bo][bi]. */
void ronde__linear_turn(const ronde__linear_piece *j, int64_t ob0, int64_t n, int64_t term, float *turned);

/* The operands of a layer's sums in f32: x and w of each full term; and of each output block dy and the transposed w, where
 * x is in LANES w and the transposed dy. */
typedef struct ronde__linear_lists {
  ronde__gemm_list terms, outputs;
} ronde__linear_lists;

/* x_term, w_term: elements between terms; in BLOCKS terms of x lie where ronde__linear_term_at says. */
ronde_status ronde__linear_lists_create(const ronde__op_desc *desc, int64_t n_terms, int64_t x_term, int64_t w_term,
                                        ronde__linear_lists *lists_out);
void ronde__linear_lists_destroy(ronde__linear_lists *lists);

/* Of a call (op.h). */
double ronde__linear_executed_flops(const ronde__op_desc *desc, const void *state, bool backward);

#endif

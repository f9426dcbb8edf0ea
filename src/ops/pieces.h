/* Moves between a tensor and the pieces of it along its first dimension, which lie in the same layout and format. */
#ifndef RONDE_PIECES_H
#define RONDE_PIECES_H

#include "ops/op.h"

/* The piece begins at channel `offset` of the whole. put: whole (+)= piece; a piece that is NULL is zeros. take:
 * piece (+)= that part of the whole. What is overwritten gets zeros in its padded channels. */
void ronde__piece_put(const ronde__op_desc *desc, ronde__pool *pool, const ronde__phys *piece_phys, const float *piece,
                      int64_t offset, const ronde__phys *whole_phys, float *whole, bool accumulate);
void ronde__piece_take(const ronde__op_desc *desc, ronde__pool *pool, const ronde__phys *whole_phys, const float *whole,
                       int64_t offset, const ronde__phys *piece_phys, float *piece, bool accumulate);

/* The layout in which nothing has to come back from BLOCKS: that of the operand which is furthest from ROWS. */
ronde__layout ronde__pieces_layout(const ronde__phys *operands, int n);

#endif

/* Several arrays walked through together: nested loops, each with a step in every array. Steps of 0 repeat an operand
 * along a dimension. */
#ifndef RONDE_WALK_H
#define RONDE_WALK_H

#include "ops/op.h"

enum { RONDE__WALK_MAX = RONDE_MAX_RANK + 2, RONDE__WALK_ARRAYS = 3 };

/* The last dimension is the innermost loop. rank is at least 1. */
typedef struct ronde__walk {
  int rank;
  int64_t size[RONDE__WALK_MAX];
  int64_t step[RONDE__WALK_ARRAYS][RONDE__WALK_MAX];
} ronde__walk;

/* An array in a layout, as the dimensions of a walk: those of a shape, [N,...] in ROWS, [C,H,W,N] in LANES, and blocks of
 * channels, H, W, N, channels of a block in BLOCKS. repeated: bit d of the dimensions of the shape that the operand has once
 * only. channels: of the walk; in BLOCKS those that lie in whole blocks, or in the last one, which may be shorter. */
void ronde__walk_operand(ronde__walk *walk, int array, const ronde__phys *whole, const ronde__shape *shape,
                         const ronde__phys *own, unsigned repeated, bool last_block);
/* Joins dimensions that all arrays go through as through one, and drops those of one element. */
void ronde__walk_merge(ronde__walk *walk);
/* The elements of dimensions [first, end). */
int64_t ronde__walk_count(const ronde__walk *walk, int first, int end);
/* Where an array is at the i-th combination of dimensions [first, end). */
int64_t ronde__walk_at(const ronde__walk *walk, int array, int first, int end, int64_t i);
/* Moves the dimensions in front in which an array has a step, in their order; returns how many there are. */
int ronde__walk_sort(ronde__walk *walk, int array);

#endif

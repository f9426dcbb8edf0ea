/* Who has what of a value around layers that are split over ranks by output feature (Krizhevsky, "One weird trick for
 * parallelizing convolutional neural networks", 2014). Examples: rank r has [begin(r), begin(r + 1)) of the batch of all,
 * and all features. Features: it has so many blocks of channels, of all examples of a turn. Whole: it has all of these.
 * The rows of a turn are the examples of rank 0 that are in it, then those of rank 1, and so on.
 * A value is seen as [outer][N][inner]: BLOCKS [C/b * HW][N][b], LANES [C * HW][N][1], ROWS [1][N][C * HW]. */
#ifndef RONDE_SHARES_H
#define RONDE_SHARES_H

#include "ops/op.h"

/* Of n examples, or blocks, those of a rank. */
static inline int64_t ronde__share_begin(const ronde__peers *peers, int64_t n, int rank) {
  return ronde__shard_begin(n, rank, peers->size);
}
static inline int64_t ronde__share_of(const ronde__peers *peers, int64_t n, int rank) {
  return ronde__share_begin(peers, n, rank + 1) - ronde__share_begin(peers, n, rank);
}
/* Of a value in BLOCKS the blocks that a rank has, all of the same size. */
ronde__phys ronde__share_of_features(const ronde__peers *peers, const ronde__phys *all, int rank);

int ronde__n_turns(const ronde__peers *peers);
/* Of the rank's own examples, those of the turn: the first one, and how many. */
int64_t ronde__turn_first(const ronde__turn *turn, int rank);
int64_t ronde__turn_share(const ronde__turn *turn, int rank);
/* Where these begin among the turn's rows; of rank = size: how many rows there are. */
int64_t ronde__turn_row(const ronde__turn *turn, int rank);
static inline int64_t ronde__turn_rows(const ronde__turn *turn) { return ronde__turn_row(turn, turn->peers->size); }
/* Which example of the batch of all a row is. */
int64_t ronde__turn_example(const ronde__turn *turn, int64_t row);

typedef struct ronde__rows {
  int64_t outer, inner;
} ronde__rows;
ronde__rows ronde__rows_of(const ronde__phys *phys);
/* Rows [from_row, from_row + n) of a value of n_from examples become those from to_row on of one of n_to; accumulate: are
 * added to them. */
typedef struct ronde__row_copy {
  const float *from;
  float *to;
  int64_t n_from, from_row, n_to, to_row, n;
} ronde__row_copy;
void ronde__rows_copy(const ronde__op_desc *desc, ronde__rows rows, const ronde__row_copy *copy, bool accumulate);

/* exchange.c: floats of what is packed for an exchange, or comes packed, in either direction. */
int64_t ronde__exchange_packed_elems(const ronde__op_desc *desc);

#endif

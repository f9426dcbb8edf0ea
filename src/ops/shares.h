/* Who has what of a value around a layer that is split over ranks by output feature (Krizhevsky, "One weird trick for
 * parallelizing convolutional neural networks", 2014). Examples: rank r has [begin(r), begin(r + 1)) of the batch of all,
 * and all features. Features: it has so many blocks of channels, of all examples. All: it has everything.
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

/* What goes to each rank and comes from it: the state of an op between ranks. */
typedef struct ronde__parcels {
  ronde__parcel *to, *from; /* [ranks] */
} ronde__parcels;
ronde_status ronde__parcels_prepare(const ronde__op_desc *desc, void **state_out);
void ronde__parcels_release(const ronde__op_desc *desc, void *state);
/* Sends and receives all of them. */
ronde_status ronde__parcels_exchange(const ronde__op_desc *desc, const ronde__parcels *parcels, bool backward);
/* y += what has come from each other rank, in their order; [n] each. */
void ronde__parcels_add(const ronde__op_desc *desc, const ronde__parcels *parcels, float *y, size_t n);

#endif

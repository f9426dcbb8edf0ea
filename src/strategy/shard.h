/* Of what trains, the part that one rank of several updates and holds the optimizer's state of: its chunk of every
 * bucket, so that all ranks work on each bucket at once; and its chunk of what is dead, where updates move that. */
#ifndef RONDE_SHARD_H
#define RONDE_SHARD_H

#include "comm/collective.h"
#include "strategy/buckets.h"

/* Pieces of the flat arrays, in the order of buckets, then those that are dead; in this order the state lies packed. */
typedef struct ronde__shard {
  ronde__range *pieces; /* [n], of at most RONDE__PAIRWISE_ELEMS */
  size_t *at;           /* [n + 1]: where the state of each begins, and how much it is */
  int *first;           /* [parts + 1]: the first piece of each part: a bucket, or, last, what is dead */
  int n, capacity, n_parts;
} ronde__shard;

/* Chunk `rank` of n of each bucket's live elements, as ronde__reduce_scatter_ring cuts them; with_dead: and of the net's
 * dead ones. */
ronde_status ronde__shard_make(const ronde__buckets *cut, const ronde__net *net, bool with_dead, int rank, int n,
                               ronde__shard *shard_out);
void ronde__shard_free(ronde__shard *shard);
ronde__pieces ronde__shard_of(const ronde__shard *shard, int part);

/* Dead elements of the net in all, and all of them of a flat array to and from packed. */
size_t ronde__dead_elems(const ronde__net *net);
void ronde__dead_gather(const ronde__net *net, const float *flat, float *packed_out);
void ronde__dead_scatter(const ronde__net *net, const float *packed, float *flat);

#endif

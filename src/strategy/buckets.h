/* How the flat gradients are cut for an exchange, all but those of split parameters: buckets, from the last parameter that trains to the first, so that
 * the exchange begins while backward runs; and the piece of each bucket that a parameter server keeps. Small parameters
 * share a bucket, large ones are cut, so that first layers need not wait for all of a large one. */
#ifndef RONDE_BUCKETS_H
#define RONDE_BUCKETS_H

#include "graph/graph.h"

/* A stretch of the flat arrays: neighbouring parameters, or a part of one. */
typedef struct ronde__bucket {
  size_t begin, end;
  size_t n_packed;          /* elements of it that are a parameter's, and not the padding behind one */
  size_t n_final;           /* of them: final in this step */
  const ronde__range *dead; /* [n_dead] in it, of the net's: nobody need be sent their gradients */
  int n_dead;
  size_t n_live;
} ronde__bucket;

/* Those with a parameter's elements: first to last; last < first: none, it is frozen. */
typedef struct ronde__bucket_span {
  int first, last;
} ronde__bucket_span;

enum { RONDE__MAX_BUCKETS = 1 << 20 };

typedef struct ronde__buckets {
  ronde__bucket *at; /* [n], the last layers' first */
  int n;
  ronde__bucket_span *of_param; /* [parameters] */
} ronde__buckets;

/* A bucket is full once it has bucket_bytes; a parameter of k times as much or more has k buckets of its own, cut where
 * nothing is dead. The net must outlive the buckets. */
ronde_status ronde__buckets_make(const ronde__net *net, int64_t bucket_bytes, ronde__buckets *buckets_out);
void ronde__buckets_free(ronde__buckets *buckets);

/* A step begins: nothing is final. */
void ronde__buckets_begin(ronde__buckets *buckets);
void ronde__buckets_final(ronde__buckets *buckets, const ronde__gradient *gradient);
void ronde__buckets_all_final(ronde__buckets *buckets);
static inline bool ronde__bucket_is_ready(const ronde__bucket *bucket) { return bucket->n_final == bucket->n_packed; }

/* Moves the bucket's gradients that are not dead to its beginning, n_live of them, in their order; and back again, the
 * dead ones zero. gradients: the flat array. */
void ronde__bucket_pack(const ronde__bucket *bucket, float *gradients);
void ronde__bucket_unpack(const ronde__bucket *bucket, float *gradients);
/* Instead of unpack, where nobody reads the others any more: only sets the dead ones to zero again. */
void ronde__bucket_clear_dead(const ronde__bucket *bucket, float *gradients);
/* What is live of the bucket in flat, in its order, to and from packed [n_live]; the rest of flat stays as it is. */
void ronde__bucket_gather(const ronde__bucket *bucket, const float *flat, float *packed_out);
void ronde__bucket_scatter(const ronde__bucket *bucket, const float *packed, float *flat);
/* The same of numbers of bfloat16. */
void ronde__bucket_gather_halves(const ronde__bucket *bucket, const uint16_t *flat, uint16_t *packed_out);
void ronde__bucket_scatter_halves(const ronde__bucket *bucket, const uint16_t *packed, uint16_t *flat);
/* The most live elements that a bucket has. */
size_t ronde__buckets_longest(const ronde__buckets *buckets);
/* All of it is exchanged from now on, whatever is dead. */
void ronde__buckets_take_dead(ronde__buckets *buckets);

/* What server `index` of n keeps of a packed bucket, as places behind its beginning: as even as whole cache lines allow,
 * so that every server has its part of every large tensor, and all of them work on each bucket at once. Pieces cover what
 * is live in the order of servers; one may be empty. */
ronde__range ronde__bucket_piece(const ronde__bucket *bucket, int index, int n_servers);

#endif

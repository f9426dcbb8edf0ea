/* How the flat gradients are cut for an exchange: buckets, from the last parameter that trains to the first, so that the
 * exchange begins while backward runs; and the piece of each bucket that a parameter server keeps. */
#ifndef RONDE_BUCKETS_H
#define RONDE_BUCKETS_H

#include "graph/graph.h"

/* A stretch of the flat arrays: neighbouring parameters. */
typedef struct ronde__bucket {
  size_t begin, end;
  int n_params;
} ronde__bucket;

typedef struct ronde__buckets {
  ronde__bucket *at; /* [n], the last layers' first */
  int n;
  int *of_param; /* [parameters]; -1: frozen */
} ronde__buckets;

/* A bucket is full once it has bucket_bytes. */
ronde_status ronde__buckets_make(const ronde__net *net, int64_t bucket_bytes, ronde__buckets *buckets_out);
void ronde__buckets_free(ronde__buckets *buckets);

typedef struct ronde__stretch {
  size_t begin, n;
} ronde__stretch;

/* What server `index` of n keeps of a bucket: as even as whole cache lines allow, so that every server has its part of
 * every large tensor, and all of them work on each bucket at once. Pieces cover the bucket in the order of servers; one
 * may be empty. */
ronde__stretch ronde__bucket_piece(const ronde__bucket *bucket, int index, int n_servers);

#endif

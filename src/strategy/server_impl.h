/* The inside of a parameter server, for its two ways to serve. */
#ifndef RONDE_SERVER_IMPL_H
#define RONDE_SERVER_IMPL_H

#include "strategy/ps.h"
#include "strategy/server.h"

struct ronde__server {
  ronde__server_options o;
  int index;
  ronde__prof *prof;
  int update_slot;
  ronde__optim *optim;
  int n_buckets;
  size_t *begin; /* [n_buckets + 1]: of its pieces, packed one behind the other */
  size_t n;
  float *values;  /* [n] */
  float *pushed;  /* [workers][n]; the first becomes their sum */
  ronde__ps_head *heads;
  ronde__part *parts;       /* [workers] */
  double *squares;          /* [servers] */
  int *server_ranks;        /* [servers] */
  ronde__request *requests; /* [n_requests]: [n_buckets][workers], then [workers]; during set-up [workers] */
  int n_requests;
  uint64_t met_ns; /* when all workers were last known to be ready */

  /* Asynchronous */
  int *clients; /* [workers]: what is awaited of each */
  ronde__ps_answer *answers;
  int64_t version, stop;
  ronde__staleness staleness;
  ronde__ps_update *order; /* [n_order], room for more */
  int64_t n_order, order_capacity;
};

static inline size_t ronde__server_length(const ronde__server *s, int b) { return s->begin[b + 1] - s->begin[b]; }

/* server_async.c: serves until all workers are done. */
ronde_status ronde__server_on_arrival(ronde__server *server);

#endif

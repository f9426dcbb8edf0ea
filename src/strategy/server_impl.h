/* The inside of a parameter server, for its ways to serve. */
#ifndef RONDE_SERVER_IMPL_H
#define RONDE_SERVER_IMPL_H

#include "strategy/ps.h"
#include "strategy/server.h"

/* What is awaited of a worker that is served apart from the others. */
typedef enum ronde__client {
  RONDE__CLIENT_LISTENING,
  RONDE__CLIENT_PUSHING,
  RONDE__CLIENT_READY, /* its push is here */
  RONDE__CLIENT_ANSWERING,
  RONDE__CLIENT_GONE
} ronde__client;

struct ronde__server {
  ronde__service_options o;
  ronde__server_way *serve;
  ronde__transport *group;
  int n_workers, n_servers, index;
  ronde__prof *prof;
  int update_slot;
  ronde__optim *optim;
  int n_buckets, n_tables;
  struct ronde__server_rows *rows; /* of tables (server_rows.h); NULL: there are none */
  size_t *begin;                   /* [n_buckets + 1]: of its pieces, packed one behind the other */
  size_t n;
  float *values; /* [n] */
  float *pushed; /* [workers][n]; the first becomes their sum */
  ronde__ps_head *heads;
  ronde__local_result *results; /* [workers] */
  double *squares;              /* [servers] */
  int *server_ranks;            /* [servers] */
  ronde__view view;
  ronde__transport *servers; /* through the view */
  /* [n_requests]: [n_buckets][workers], then [workers], and then [n_tables][workers]; where workers are served apart, see RONDE__CLIENT_REQUESTS;
   * during set-up [workers] */
  ronde__request *requests;
  int n_requests;
  uint64_t met_ns; /* when all workers were last known to be ready */

  /* Workers served apart: asynchronous, or with backup workers */
  ronde__client *clients; /* [workers] */
  /* Asynchronous */
  ronde__ps_answer *answers;
  int64_t version, stop;
  int64_t *done; /* [workers] the last step of each that has made its update */
  bool any_done;
  bool (*holds)(const ronde__server *server, int w); /* whether w must not go on yet. NULL: all may */
  ronde__staleness staleness;
  ronde__ps_update *order; /* [n_order], room for more */
  int64_t n_order, order_capacity;
};

static inline size_t ronde__server_length(const ronde__server *s, int b) { return s->begin[b + 1] - s->begin[b]; }

/* Sums of squares of all servers' pieces, in their order, say how far each scales its gradients down. */
ronde_status ronde__server_clip(ronde__server *server, float *gradients);
/* The optimizer's state, to rank 0. */
ronde_status ronde__server_give_state(ronde__server *server);
/* Where the order is recorded: that the push of worker w has just made an update, or a part of one, or its fetch has its
 * turn. */
ronde_status ronde__server_note_order(ronde__server *server, int w);
ronde_status ronde__server_wait(ronde__server *server, ronde__request *requests, int n);
/* One message of rank 0's. */
ronde_status ronde__server_take(ronde__server *server, uint32_t tag, void *data, size_t bytes);

/* ---- workers that are served apart (server_clients.c) --------------------------------------------------------------
 * Each worker's pushes land in a place of its own, which then holds what that worker is sent: nobody waits for another's
 * network. Its requests: buckets, then what goes with them (a head, a part or an answer), then one more message, then
 * rows of tables. */
#define RONDE__CLIENT_REQUESTS(server) ((server)->n_buckets + 2 + (server)->n_tables)

static inline float *ronde__client_slot(const ronde__server *s, int w) { return s->pushed + (size_t)w * s->n; }
static inline ronde__request *ronde__client_requests(const ronde__server *s, int w) {
  return s->requests + w * RONDE__CLIENT_REQUESTS(s);
}
/* All workers are listened to. */
ronde_status ronde__clients_create(ronde__server *server);
/* Some of what is awaited of a worker may have come: done_out is whether all has. */
ronde_status ronde__client_advance(ronde__server *server, int w, bool *done_out);
ronde_status ronde__client_listen(ronde__server *server, int w);  /* to its next head */
ronde_status ronde__client_receive(ronde__server *server, int w); /* its push, and its part */
/* Sends a copy of the parameters, first layers first: the next update waits for nobody. */
ronde_status ronde__client_send_values(ronde__server *server, int w);

#endif

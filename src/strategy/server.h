/* A parameter server: keeps a piece of every bucket of the flat parameters and the optimizer's state for it, and updates
 * them from what the workers push. Source: Li et al., "Scaling distributed machine learning with the parameter server",
 * OSDI 2014.
 *
 * Ranks of the group: the workers first; the servers beside the first of them, or behind
 * the last (ps_policy.c).
 * Rank 0 is the scheduler: it tells each server its pieces, and hands it the fresh parameters, or those of a checkpoint
 * with the optimizer's state.
 *
 * A step, to and from each server (ps.h has the messages): a worker says that it begins, pushes the gradients of each
 * bucket when backward has them, and what it found in its part. Once all have, the server has their sum, in the order of
 * ranks, updates, and sends the parameters to all, those of the first layers first. Server 0 sends what all found.
 *
 * With b backup workers (server_backup.c) a step closes when all but b of the workers that have examples in it have
 * pushed completely, as server 0 sees it. Server 0 tells the other servers whose pushes count, and they wait for the same
 * ones, so that all pieces of an update come from the same workers. The gradient is the mean over the examples that
 * count. A push for a step that has already closed is dropped; its worker is sent the newest parameters at once, with the
 * outcome of every step since its own, and continues with the step after them. Each server carries out the decisions of
 * server 0 in their order, so a worker gets all pieces of one version. Source: Chen et al., "Revisiting distributed
 * synchronous SGD", 2016.
 *
 * Taps that meet nothing but padding have no gradient and are not exchanged; in lockstep each worker itself makes the
 * updates that decay and old state make there, and otherwise, where there are any, all is exchanged.
 *
 * Cost for n parameters that are exchanged, p workers and k servers of their own: a worker sends and receives n 4 beta, a server p/k n 4 beta
 * each way; colocated (k = p) each rank sends and receives 2(p-1)/p n 4 beta, as in a ring. */
#ifndef RONDE_SERVER_H
#define RONDE_SERVER_H

#include "comm/collective.h"
#include "optim/optim.h"
#include "prof/prof.h"
#include "strategy/roles.h"

/* What its role is called. */
#define RONDE__SERVER "server"

typedef struct ronde__server ronde__server;

typedef ronde_status ronde__server_way(ronde__server *server);
/* The ways to serve, until all workers are done: server_sync.c, */
ronde__server_way ronde__server_in_step;
/* updating on each arriving push, and answering only the worker that sent it (server_async.c), */
ronde__server_way ronde__server_on_arrival;
/* the same, but delaying the answer to a worker that leads the slowest by more than --staleness steps (server_ssp.c), */
ronde__server_way ronde__server_within_bound;
/* and without waiting for the slowest (server_backup.c). */
ronde__server_way ronde__server_with_backup;

/* What a ronde__role asks for (roles.h), but for the way to serve; what options point at must outlive the server. */
ronde_status ronde__server_create(const ronde__service_options *options, ronde__server_way *serve, void **server_out);
void ronde__server_destroy(void *server); /* NULL is taken */
/* A job for a thread, arg the server: serves until all workers have said that they are done. After an error the group
 * is aborted. */
ronde_status ronde__server_run(void *server);
/* Asynchronous: how many updates by others lay between what a push was computed on and its own update. */
enum { RONDE__STALENESS_BINS = 64 }; /* the last: so many and more */
typedef struct ronde__staleness {
  int64_t n, sum, max, histogram[RONDE__STALENESS_BINS];
} ronde__staleness;
const ronde__staleness *ronde__server_staleness(const ronde__server *server);
/* The updates in their order, where that is recorded, and between them the fetches that one worker makes alone. */
typedef struct ronde__ps_update {
  int64_t worker, step, kind; /* a ronde__ps_kind: whether it updates, and whether the worker is sent the outcome */
} ronde__ps_update;
const ronde__ps_update *ronde__server_order(const ronde__server *server, int64_t *n_out);
/* Where its time went; to be read when it has ended. */
ronde__prof *ronde__server_prof(const void *server);

#endif

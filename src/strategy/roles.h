/* Who takes part in a run: the workers, rank i of the group being worker i, and the members that a strategy adds to them
 * (parameter servers, a coordinator, ...), each beside a worker, on a thread of its rank, or on a rank of its own behind
 * the workers'. Rank 0 is always a worker: it is the one that reports. */
#ifndef RONDE_ROLES_H
#define RONDE_ROLES_H

#include "base/base.h"
#include "comm/transport.h"
#include "kernel/kernel.h"
#include "optim/optim.h"
#include "prof/prof.h"

struct ronde__strategy_settings;
struct ronde__member;

/* What a member that is no worker works with; lives as long as the run. */
typedef struct ronde__service_options {
  const struct ronde__strategy_settings *settings;
  const struct ronde__member *member;
  const ronde__kernels *kernels;
  const ronde__optim_options *optim;
  const char *optimizer_name;
  double clip; /* 0: off */
  bool records_order;
  ronde__pool *pool; /* NULL: the calling thread works alone */
  double element_ns; /* of a replayed run: how long the update of an element takes; else 0 */
} ronde__service_options;

/* What members do that are no workers. */
typedef struct ronde__role {
  const char *name;  /* as run.json has it: "server" */
  const char *title; /* "parameter server" */
  ronde_status (*create)(const ronde__service_options *options, void **state_out);
  /* On a thread: until all workers are done. After an error the group is aborted. */
  ronde_status (*run)(void *state);
  ronde__prof *(*prof)(const void *state); /* where its time went; to be read when it has ended */
  void (*destroy)(void *state);            /* NULL is taken */
} ronde__role;

typedef struct ronde__member {
  const char *name;        /* "worker", or its role's */
  const ronde__role *role; /* NULL: a worker */
  int rank, index;         /* index: among those of its name */
} ronde__member;

typedef struct ronde__roles {
  int n_ranks, n_workers, n_members;
  ronde__member *members; /* [n_members]: the workers, then the others, those of a name one behind the other */
  int *worker_ranks;      /* [n_workers] */
} ronde__roles;

/* At most so many members live beside a worker. */
enum { RONDE__MAX_BESIDE = 2 };

/* n_workers workers, and n_extra ranks behind theirs which are nobody's yet. */
ronde_status ronde__roles_make(int n_workers, int n_extra, ronde__roles *roles_out);
void ronde__roles_release(ronde__roles *roles);
/* One more on a rank of the group. */
ronde_status ronde__roles_add(ronde__roles *roles, const ronde__role *role, int rank);
/* Those of a name: [n_out]. */
const ronde__member *ronde__roles_of(const ronde__roles *roles, const char *name, int *n_out);
/* The i-th member of a rank that is no worker; NULL: there are not so many. */
const ronde__member *ronde__roles_at(const ronde__roles *roles, int rank, int i);
static inline bool ronde__member_is_beside(const ronde__roles *roles, const ronde__member *member) {
  return member->role && member->rank < roles->n_workers;
}
static inline bool ronde__roles_alone(const ronde__roles *roles) { return roles->n_members == 1; }

/* A member at work. */
typedef struct ronde__service {
  const ronde__member *member; /* NULL: there is none */
  void *state;
} ronde__service;

#endif

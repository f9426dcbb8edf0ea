/* Parameter servers, the worker's side: pushes its gradients in buckets while backward still runs, and pulls what the
 * servers have made of everybody's, the first layers first, while the next forward pass waits for no more than what it
 * reads. Synchronous: every step is everybody's, or with backup workers (ps_backup.c) that of those who were in time.
 * Asynchronous: each push is an update of its own, and the pull is of what the servers hold behind it. server.h has the
 * servers' side, and the cost. */
#ifndef RONDE_PS_WORKER_H
#define RONDE_PS_WORKER_H

#include "strategy/buckets.h"
#include "strategy/ps.h"
#include "strategy/ps_rows.h"
#include "strategy/server.h"

enum { RONDE__PS_CREDITS = 4 }; /* buckets on their way to the servers, at most */

typedef struct ronde__ps_bucket {
  struct ronde__ps_worker *state;
  int number;
  uint64_t pull_job; /* of the thread, that ends when the pulled parameters are there; 0: they are */
} ronde__ps_bucket;

typedef struct ronde__ps_worker {
  ronde__worker *worker;
  const ronde__strategy_settings *settings;
  ronde__transport *group;
  ronde__comm_thread *thread;
  ronde__buckets cut;
  bool lockstep;        /* all workers make the same updates */
  ronde__ps_rows *rows; /* of tables; NULL: all rows are exchanged */
  float *pulled;        /* [trained], where buckets that are not all live arrive packed; NULL: there are none */
  ronde__ps_bucket *buckets;
  const ronde__member *servers; /* [n_servers] */
  int n_servers, n_sent;
  ronde__ps_head *head;      /* [servers] */
  ronde__ps_answer *answers; /* [servers] */
  ronde__ps_head own;       /* asynchronous: of this step, but for the version; those of the last may be on their way */
  bool begun;               /* and its push */
  ronde__request *requests; /* [n_requests], which is all of the following */
  ronde__request *heads;    /* [servers] */
  ronde__request *pushes;   /* [RONDE__PS_CREDITS][servers] */
  ronde__request *pulls;    /* [buckets][servers] */
  ronde__request *replies;  /* [servers] */
  ronde__request *ends;     /* [servers + 1] */
  int n_requests;
  ronde__local_result found, *results; /* [workers] */
  ronde_status status;                 /* of what went wrong inside a hook */
  ronde__ps_outcome *news; /* backup: [n_news], how the steps ended up to the one that the parameters are behind */
  int64_t n_news, news_capacity;
  uint64_t waited_ns; /* backup: for others, of this step */
} ronde__ps_worker;

/* Jobs of the communication thread; arg is the ronde__ps_worker. */
ronde_status ronde__ps_send_head(void *worker);
ronde_status ronde__ps_end_own_push(void *worker); /* sends what this rank found behind its gradients */

/* In lockstep with the servers: nothing of this step is ready or sent yet; what ronde__ps_send_head will send. */
void ronde__ps_begin_step(ronde__ps_worker *worker, ronde__ps_head head);
/* For a ronde__gradient_listener: buckets that are complete go out, at once where exchanges overlap. */
void ronde__ps_gradient_final(void *worker, const ronde__gradient *gradient);
/* The others. An error is in status. */
void ronde__ps_send_ready(ronde__ps_worker *worker);
/* The receives lie ready before the job that waits for them has its turn. */
ronde_status ronde__ps_begin_pulls(ronde__ps_worker *worker);
/* Waits for all that was begun. */
ronde_status ronde__ps_settle(void *worker);

void ronde__ps_begin_buckets(ronde__ps_worker *worker);
/* Waits until all gradients have left: what is dead of them is zero again. */
ronde_status ronde__ps_end_pushes(ronde__ps_worker *worker);
/* Tells all servers, and waits until they have been told. */
ronde_status ronde__ps_tell(ronde__ps_worker *worker, ronde__ps_kind kind);
ronde_status ronde__ps_wait(ronde__ps_worker *worker, ronde__request *requests, int n);
static inline int ronde__ps_rank_of(const ronde__ps_worker *worker, int server) { return worker->servers[server].rank; }

/* The parts of a strategy that all of them have; lockstep: all workers make the same updates. */
ronde_status ronde__ps_create(ronde__worker *worker, const ronde__strategy_settings *settings, bool lockstep,
                              void **state_out);
void ronde__ps_destroy(void *worker);
ronde_status ronde__ps_gather_state(void *worker);
ronde_status ronde__ps_finish(void *worker);

/* Of ps-sync, with backup workers or without. */
extern const char *const ronde__ps_sync_options[];

/* The step and the refreshing of what is asynchronous: this worker's push is an update of its own. */
ronde_status ronde__ps_own_step(void *worker, const ronde__step *step, ronde__step_result *result_out);
ronde_status ronde__ps_own_refresh(void *worker);
/* Receives all servers' answers, in a job of the communication thread. */
ronde_status ronde__ps_begin_answers(ronde__ps_worker *worker);
/* Of what is asynchronous: why another number of workers, or another strategy, cannot go on. */
#define RONDE__PS_OWN_UPDATES "every worker makes its own updates, at a learning rate chosen for this number of workers"

/* ---- ps_policy.c: who takes part, and what is told of it ---- */

int ronde__ps_extra_ranks(const ronde__strategy_settings *settings);
/* As many servers as --servers says, beside the first workers or behind the last; role is a strategy's. */
ronde_status ronde__ps_place(const ronde__strategy_settings *settings, const ronde__role *role, ronde__roles *roles);
/* Refuses more servers beside workers than there are workers. */
ronde_status ronde__ps_check(const ronde__strategy_settings *settings, int n_workers);
size_t ronde__ps_more_bytes(const ronde__strategy_settings *settings, size_t gradients, size_t optimizer);
/* Staleness of the pushes: facts are a ronde__staleness. */
void ronde__ps_facts(const void *worker, const ronde__service *services, void *facts_out);
extern const char *const ronde__ps_records[];
void ronde__ps_record(const void *worker, const void *facts, int n_ranks, json_t *communication);
/* The same where no push can be stale. */
extern const char *const ronde__ps_sync_records[];
void ronde__ps_sync_record(const void *worker, const void *facts, int n_ranks, json_t *communication);
/* A role of which only the way to serve is a strategy's own. */
#define RONDE__PS_ROLE(create_server) \
  { RONDE__SERVER, "parameter server", create_server, ronde__server_run, ronde__server_prof, ronde__server_destroy }

#endif

/* The messages between workers and parameter servers. Each travels between one worker and one server. */
#ifndef RONDE_PS_H
#define RONDE_PS_H

#include "strategy/strategy.h"

/* Index into the choices of options.inc. */

/* Kept apart from the tags of collectives, which may be under way between the same ranks. */
enum {
  RONDE__PS_PLAN =
      RONDE__TAG_STRATEGY +
      0x100,          /* scheduler to server: ronde__ps_plan, then the lengths of its pieces, [n_buckets] uint64, its
                           * tables, and where they lie in its pieces */
  RONDE__PS_VALUES,   /* scheduler to server at the start: its pieces of the parameters, one a message */
  RONDE__PS_STATES,   /* the same of the optimizer's arrays, one after the other; and back, on request */
  RONDE__PS_HEAD,     /* worker to server: ronde__ps_head */
  RONDE__PS_RESULT,   /* worker to server: ronde__local_result */
  RONDE__PS_RESULTS,  /* server 0 to worker: ronde__local_result [workers] */
  RONDE__PS_NORM,     /* between servers: sums of squares, for clipping */
  RONDE__PS_ANSWER,   /* asynchronous: server to worker: ronde__ps_answer, in front of the parameters */
  RONDE__PS_UPDATES,  /* server to scheduler, in front of the states: int64 updates so far */
  RONDE__PS_DECISION, /* backup: server 0 to the other servers: ronde__ps_decision */
  RONDE__PS_BEGIN,    /* downpour: worker 0 to the others, after a warm start: they may begin; an int64 */
  RONDE__PS_NEWS,     /* backup: server 0 to worker, in front of the parameters: ronde__ps_news, then the outcomes */
  RONDE__PS_PUSH = 0x200000, /* + bucket; worker to server: gradients */
  RONDE__PS_PULL = 0x300000, /* + bucket; server to worker: parameters */
  RONDE__PS_MET = 0x400000,  /* + table; worker to server, in front of pushes: the bits of the rows that they have */
  RONDE__PS_MOVED = 0x500000 /* + table; server to worker, in front of parameters: the same */
};
#define RONDE__PS_TAG(tag) RONDE__WIRE_TAG(tag, 0)

typedef struct ronde__ps_plan {
  int64_t n_buckets, n_updates; /* with updates, the optimizer's state comes too */
  int64_t n_tables, n_patches;  /* tables of which rows are exchanged; none: all is */
} ronde__ps_plan;

typedef struct ronde__ps_table {
  int64_t rows, elems; /* elems: of a row */
} ronde__ps_table;

/* A table in the server's piece of a bucket. Ascending by bucket and place. */
typedef struct ronde__ps_patch {
  int64_t bucket, table, begin; /* begin: of row 0, behind the beginning of the piece; negative where that is inside */
} ronde__ps_patch;

typedef enum ronde__ps_kind {
  RONDE__PS_STEP,       /* a step begins: pushes and a result follow */
  RONDE__PS_GIVE_STATE, /* the scheduler wants the optimizer's state; another head follows */
  RONDE__PS_FETCH,      /* asynchronous: the worker wants the parameters as they are */
  RONDE__PS_PUSH_ALONE, /* asynchronous: as a step, but the answer comes without parameters */
  RONDE__PS_PASS,       /* bounded: the worker has no example in the step */
  RONDE__PS_END
} ronde__ps_kind;

typedef struct ronde__ps_head {
  int64_t kind;
  double lr;
  /* Asynchronous: of the gradients, or of a fetch that is one worker's alone; the version of the server's piece that the
   * first of them was computed on. */
  int64_t step, version;
  int64_t whole; /* the worker has changed parameters by itself: it is sent all rows of tables */
  /* Backup: of the worker's part (0: it has none, and no pushes follow), of the step, and how many workers have some. */
  int64_t examples, step_examples, n_contributors;
} ronde__ps_head;

typedef struct ronde__ps_answer {
  int64_t version; /* updates of the server's piece so far */
  int64_t stop;    /* a worker wants to end, or found NaN or Inf */
} ronde__ps_answer;

/* Backup: what server 0 has decided, and all servers do, in the order of its decisions. */
typedef enum ronde__ps_verdict {
  RONDE__PS_DO_CLOSE,  /* the step is what `counted` have pushed: update, and answer them */
  RONDE__PS_DO_ANSWER, /* the worker's push is too late, or it has none: answer it with the parameters as they are */
  RONDE__PS_DO_END     /* all workers have gone */
} ronde__ps_verdict;

typedef struct ronde__ps_decision {
  int64_t verdict, step, worker;
  ronde__rank_set counted;
} ronde__ps_decision;

/* Backup: how a step ended. */
typedef struct ronde__ps_outcome {
  int64_t step, n_correct, examples; /* of the parts that count */
  double loss_sum;
  int64_t cancelled, broken_rank, broken_param;
  ronde__rank_set left_out;
} ronde__ps_outcome;

typedef struct ronde__ps_news {
  int64_t n_outcomes; /* of the worker's step, and of those that have ended since */
  uint64_t waited_ns; /* from when its push was complete until the step was: by the server's clock */
} ronde__ps_news;

#endif

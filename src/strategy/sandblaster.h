/* Sandblaster L-BFGS: who says what to whom. Workers compute gradients of portions of the batch, servers hold shards of
 * all vectors of L-BFGS and work on them, and one coordinator runs L-BFGS over commands to the servers, and hands out
 * portions; no message of its own grows with the network. Source: Dean et al., "Large scale distributed deep networks",
 * NIPS 2012, section 4.2 and algorithm 7.2.
 *
 * An evaluation: the coordinator asks the servers whether the weights are there, and orders a portion from each worker. A
 * worker whose weights are older fetches them, computes the gradient of its portion, and says what it found. The first
 * answer to a portion counts: the coordinator tells that worker to push, and any other to forget it. Each server takes
 * each portion's piece once, and adds them up in the order of portions, whatever came first.
 *
 * Portions are ordered in their order. Beyond a window behind the first one that is not answered, or where none is left,
 * a free worker gets a copy of the earliest that only one worker has: so nobody waits for a slow one, and a server needs
 * no more places for pieces that came early than the window is long.
 *
 * The bits of a run follow from the cut into portions. The servers' number does not matter: dot products are of pieces
 * whose length follows from the network, and the coordinator adds these up in their order. */
#ifndef RONDE_SANDBLASTER_H
#define RONDE_SANDBLASTER_H

#include "optim/lbfgs.h"
#include "strategy/strategy.h"

/* What its roles are called. */
#define RONDE__SANDBLASTER_SERVER "server"
#define RONDE__SANDBLASTER_COORDINATOR "coordinator"
extern const ronde__role ronde__sandblaster_server_role, ronde__sandblaster_coordinator_role;

/* ---- messages ---- */

enum {
  /* At the start, from worker 0 */
  RONDE__SANDBLASTER_PLAN = RONDE__TAG_STRATEGY, /* to all others: ronde__sandblaster_plan */
  RONDE__SANDBLASTER_SHARD, /* to a server: its shard of the weights, then of the state; and back, for a checkpoint */
  /* Between coordinator and servers */
  RONDE__SANDBLASTER_PROGRAM, /* ronde__sandblaster_program */
  RONDE__SANDBLASTER_ANSWER,  /* ronde__vector_norms [ronde__sandblaster_parts] */
  /* Between workers and the coordinator */
  RONDE__SANDBLASTER_WORD,    /* ronde__sandblaster_word */
  RONDE__SANDBLASTER_ORDER,   /* ronde__sandblaster_order */
  RONDE__SANDBLASTER_OUTCOME, /* ronde__sandblaster_outcome, behind an order to end the step */
  /* Between workers and servers */
  RONDE__SANDBLASTER_HEAD,    /* ronde__sandblaster_head */
  RONDE__SANDBLASTER_PIECE,   /* a portion's gradient, behind its head */
  RONDE__SANDBLASTER_WEIGHTS, /* back */
};
#define RONDE__SANDBLASTER_TAG(tag) RONDE__WIRE_TAG(tag, 0)

typedef struct ronde__sandblaster_plan {
  int64_t n;                  /* elements of all vectors: what trains, and is not dead */
  int64_t has_state;          /* that of a run that goes on follows the weights, */
  ronde__lbfgs_memory memory; /* and the rest of it */
} ronde__sandblaster_plan;

/* Commands to servers, carried out in their order. */
typedef enum ronde__sandblaster_verb {
  RONDE__SANDBLASTER_COPY,  /* y = x */
  RONDE__SANDBLASTER_SCALE, /* y = factor * y */
  RONDE__SANDBLASTER_ADD,   /* y = y + factor * x */
  RONDE__SANDBLASTER_DOT,   /* answers with the products of each piece, in sum_abs, */
  RONDE__SANDBLASTER_NORMS, /* and with the norms of y's */
  RONDE__SANDBLASTER_SUM,   /* until the gradients of x portions are summed */
  RONDE__SANDBLASTER_READY, /* answers when all before is done, */
  RONDE__SANDBLASTER_END    /* and ends without an answer */
} ronde__sandblaster_verb;

typedef struct ronde__sandblaster_command {
  int32_t verb, y, x;
  double factor;
} ronde__sandblaster_command;

enum { RONDE__SANDBLASTER_COMMANDS = 8 };
typedef struct ronde__sandblaster_program {
  int64_t n;
  ronde__sandblaster_command at[RONDE__SANDBLASTER_COMMANDS]; /* at most the last one answers */
} ronde__sandblaster_program;

typedef enum ronde__sandblaster_word_kind {
  RONDE__SANDBLASTER_BEGIN,  /* a step */
  RONDE__SANDBLASTER_DONE,   /* a portion */
  RONDE__SANDBLASTER_LEAVING /* the last step is over */
} ronde__sandblaster_word_kind;

typedef struct ronde__sandblaster_word {
  int64_t kind;
  double lr; /* BEGIN: of the step, all of these; cancel is this worker's */
  int64_t step, examples, n_batches, cancel;
  int64_t evaluation, portion; /* DONE */
  ronde__local_result found;
} ronde__sandblaster_word;

typedef enum ronde__sandblaster_order_kind {
  RONDE__SANDBLASTER_WAIT,    /* another order follows */
  RONDE__SANDBLASTER_PORTION, /* compute it */
  RONDE__SANDBLASTER_OVER     /* the step is */
} ronde__sandblaster_order_kind;

typedef struct ronde__sandblaster_order {
  int64_t kind;
  int64_t pushes; /* first: the portion that was done counts */
  int64_t evaluation, portion, version;
} ronde__sandblaster_order;

typedef struct ronde__sandblaster_outcome {
  double loss_sum;
  int64_t n_correct, cancelled, broken_rank, broken_param, n_evaluations;
  int64_t own_examples; /* whose gradients where the step began were this worker's */
  int64_t version;      /* of the weights behind the step */
  ronde__lbfgs_memory memory;
} ronde__sandblaster_outcome;

typedef enum ronde__sandblaster_head_kind {
  RONDE__SANDBLASTER_PUSH,
  RONDE__SANDBLASTER_FETCH,
  RONDE__SANDBLASTER_GIVE_STATE /* of worker 0, between two steps */
} ronde__sandblaster_head_kind;

typedef struct ronde__sandblaster_head {
  int64_t kind, portion;
} ronde__sandblaster_head;

/* ---- portions of a step ---- */

/* Examples of a portion; the last one of a batch may be shorter. Unless the user says, so many that a batch has four
 * portions for each worker. */
static inline int64_t ronde__sandblaster_portion_size(const ronde__options *options, int64_t batch, int n_workers) {
  return ronde__min(batch, options->portion ? options->portion : ronde__ceil_div(batch, 4 * (int64_t)n_workers));
}

typedef struct ronde__sandblaster_portion {
  int64_t batch, first, n; /* n examples from `first` of a batch of the step */
} ronde__sandblaster_portion;

/* All batches of a step but the last have as many examples as the run's. */
static inline int64_t ronde__sandblaster_portions(int64_t batch, int64_t size, int64_t examples, int64_t n_batches) {
  int64_t last = examples - (n_batches - 1) * batch;
  return (n_batches - 1) * ronde__ceil_div(batch, size) + ronde__ceil_div(last, size);
}

static inline ronde__sandblaster_portion ronde__sandblaster_portion_at(int64_t batch, int64_t size, int64_t examples,
                                                                       int64_t i) {
  int64_t of_batch = ronde__ceil_div(batch, size), b = i / of_batch, first = i % of_batch * size;
  int64_t n = ronde__min(batch, examples - b * batch);
  return (ronde__sandblaster_portion){b, first, ronde__min(size, n - first)};
}

/* How far portions may be ordered beyond the first that is not answered. */
static inline int ronde__sandblaster_window(int n_workers) { return n_workers > 1 ? 2 * n_workers : 1; }

/* ---- shards ---- */

enum { RONDE__SANDBLASTER_PIECES = 256 }; /* that vectors are cut into, at most; whole cache lines, but for the end */

static inline size_t ronde__sandblaster_piece(size_t n) {
  return (size_t)ronde__max(16, ronde__round_up(ronde__ceil_div((int64_t)n, RONDE__SANDBLASTER_PIECES), 16));
}

/* What of n elements a server has: whole pieces. */
static inline ronde__range ronde__sandblaster_shard(size_t n, int server, int n_servers) {
  int64_t piece = (int64_t)ronde__sandblaster_piece(n), n_pieces = ronde__ceil_div((int64_t)n, piece);
  int64_t begin = ronde__min((int64_t)n, ronde__shard_begin(n_pieces, server, n_servers) * piece);
  int64_t end = ronde__min((int64_t)n, ronde__shard_begin(n_pieces, server + 1, n_servers) * piece);
  return (ronde__range){(size_t)begin, (size_t)(end - begin)};
}

/* What its answers consist of: one for each piece, but at least one. */
static inline size_t ronde__sandblaster_parts(size_t n, int server, int n_servers) {
  size_t own = ronde__sandblaster_shard(n, server, n_servers).n, piece = ronde__sandblaster_piece(n);
  return own ? (own + piece - 1) / piece : 1;
}

/* ---- what the coordinator tells at the end ---- */

typedef struct ronde__sandblaster_counts {
  int64_t given_twice; /* portions, */
  int64_t forgotten;   /* and answers that came second, or too late */
  int64_t questions;   /* answers of all servers that were waited for */
} ronde__sandblaster_counts;
const ronde__sandblaster_counts *ronde__sandblaster_counts_of(const void *coordinator);

#endif

/* L-BFGS with a strong-Wolfe line search, PyTorch's optim.LBFGS(line_search_fn="strong_wolfe"): a step sees the loss and
 * gradient of one batch at several weights. Whoever runs it evaluates them; the vectors are behind a table of
 * operations, so that they may lie in one memory or be spread over servers. */
#ifndef RONDE_LBFGS_H
#define RONDE_LBFGS_H

#include "base/base.h"
#include "base/pool.h"
#include "kernel/kernel.h"

enum { RONDE__LBFGS_MAX_HISTORY = 100 };

/* The vectors, by number; all of one length. */
enum {
  RONDE__LBFGS_WEIGHTS,   /* the point to evaluate, and where a step ends */
  RONDE__LBFGS_GRADIENT,  /* at WEIGHTS: written by who evaluates, and read */
  RONDE__LBFGS_START,     /* of a step alone: the weights in front of the line search, */
  RONDE__LBFGS_KEPT,      /* and a gradient or a difference of two */
  RONDE__LBFGS_DIRECTION, /* from here on they belong to the state of a run: the last direction, */
  RONDE__LBFGS_PREVIOUS,  /* the gradient in front of its line search, */
  RONDE__LBFGS_PAIRS      /* and 2 * history: differences of gradients (y) and of weights (s), y then s of each pair */
};

typedef struct ronde__vector_norms {
  double sum_abs, max_abs;
} ronde__vector_norms;

/* The operations. An error ends the step. */
typedef struct ronde__vectors {
  ronde_status (*copy)(void *user, int to, int from);
  ronde_status (*scale)(void *user, int x, double factor);
  ronde_status (*add)(void *user, int y, double factor, int x); /* y += factor * x */
  ronde_status (*dot)(void *user, int x, int y, double *dot_out);
  ronde_status (*norms)(void *user, int x, ronde__vector_norms *norms_out);
  void *user;
} ronde__vectors;

/* As PyTorch names and defaults them, but for the history: 100 there. */
typedef struct ronde__lbfgs_options {
  int history;             /* pairs at most, 1 to RONDE__LBFGS_MAX_HISTORY */
  int max_iter;            /* of a step */
  int max_eval;            /* of a step, and one more: a line search tries at least one point */
  double tolerance_grad;   /* a step ends where the gradient's largest component is at most this, */
  double tolerance_change; /* or where the weights' largest change is, or the loss has changed by less */
} ronde__lbfgs_options;

/* What steps go on from, beside the vectors. All zeros: nothing. */
typedef struct ronde__lbfgs_memory {
  int64_t n_iterations;
  bool any; /* there is a last direction; */
  double t; /* the weights moved by t times it */
  int n, newest;
  double scale;                         /* of the first inverse Hessian */
  double rho[RONDE__LBFGS_MAX_HISTORY]; /* 1 / (y . s) of each pair */
} ronde__lbfgs_memory;

typedef struct ronde__lbfgs ronde__lbfgs;

/* vectors and what it points at must outlive it. memory: of a run that goes on, or NULL. */
ronde_status ronde__lbfgs_create(const ronde__lbfgs_options *options, const ronde__vectors *vectors,
                                 const ronde__lbfgs_memory *memory, ronde__lbfgs **lbfgs_out);
void ronde__lbfgs_destroy(ronde__lbfgs *lbfgs); /* NULL is taken */
/* Begins a step: the loss and gradient at WEIGHTS are to be told next. lr: the first step length that the line search
 * tries, above 0 (the very first direction is the gradient itself: lr / its 1-norm there, where that is above 1). */
void ronde__lbfgs_begin(ronde__lbfgs *lbfgs, double lr);
/* The loss at WEIGHTS, whose gradient is in GRADIENT. Where *more_out, WEIGHTS are the next point to evaluate; else they
 * are where the step ends. A loss of NaN or Inf, which stands for a gradient of such numbers too, is too far: the line
 * search comes back from it. The first of a step must be finite.
 * Where PyTorch would try in vain for ever, the history is forgotten, and the next step begins with the gradient: when
 * the direction leads nowhere down, and when the only line search of a step has found no lower point. */
ronde_status ronde__lbfgs_tell(ronde__lbfgs *lbfgs, double loss, bool *more_out);
/* Whether the weights have moved in this step. */
bool ronde__lbfgs_moved(const ronde__lbfgs *lbfgs);
const ronde__lbfgs_memory *ronde__lbfgs_memory_of(const ronde__lbfgs *lbfgs);

/* lbfgs_flat.c: vectors that are arrays of n f32, by pieces that are shared among the pool's threads; dot products and
 * norms are summed in f64, and their bits do not depend on the number of threads. */
typedef struct ronde__flat_vectors {
  const ronde__kernels *kernels;
  ronde__pool *pool;
  size_t n, piece;           /* elements of all, and of a piece: RONDE__FLAT_PIECE where nothing says otherwise */
  float **at;                /* [vectors][n] */
  ronde__vector_norms *part; /* [ronde__flat_pieces()]: of each, behind norms; behind dot its product, in sum_abs */
} ronde__flat_vectors;
enum { RONDE__FLAT_PIECE = 4096 }; /* a page of its own */
size_t ronde__flat_pieces(const ronde__flat_vectors *flat);
/* flat must outlive the table. */
ronde__vectors ronde__flat_vectors_table(ronde__flat_vectors *flat);

#endif

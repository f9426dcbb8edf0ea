/* A line search for the strong Wolfe conditions, on numbers alone: whoever runs it evaluates the loss and its slope along
 * the direction at the step length it asks for. It makes the decisions of PyTorch's
 * LBFGS(line_search_fn="strong_wolfe"), one by one. */
#ifndef RONDE_LINE_SEARCH_H
#define RONDE_LINE_SEARCH_H

#include "base/base.h"

/* A step length, the loss there, and its derivative by the step length. A point where they are not finite has a loss of
 * Inf and a slope of NaN. */
typedef struct ronde__line_point {
  double t, loss, slope;
} ronde__line_point;

/* Where the best point so far lies, whose gradient is wanted in the end: the beginning, some earlier trial, or the
 * newest one. */
typedef enum ronde__line_best {
  RONDE__LINE_BEST_START,
  RONDE__LINE_BEST_EARLIER,
  RONDE__LINE_BEST_NEWEST
} ronde__line_best;

typedef struct ronde__line_search {
  double t;               /* of the trial to evaluate */
  ronde__line_best where; /* the best point, with which the search ends if no later trial is better, */
  ronde__line_point best; /* and what it is */
  /* the rest is its own */
  ronde__line_point start, at[2]; /* the bracket; before there is one, at[0] is the point before the trial */
  double reach;                   /* the largest component of the direction */
  int n, max_more, low;           /* n: trials behind the first */
  bool is_bracketed, was_near;
} ronde__line_search;

/* start: t 0, and a slope below 0. t: of the first trial, above 0. reach: the largest absolute component of the
 * direction. max_more: trials behind the first at most. */
void ronde__line_search_begin(ronde__line_search *search, ronde__line_point start, double t, double reach,
                              int max_more);
/* The loss and slope at search->t. Whether there is another trial, at the new search->t; else best is the end: a point
 * that meets both conditions, or the lowest that was found. */
bool ronde__line_search_tell(ronde__line_search *search, double loss, double slope);

#endif

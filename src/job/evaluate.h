/* A network on examples: loss and accuracy. */
#ifndef RONDE_EVALUATE_H
#define RONDE_EVALUATE_H

#include "data/data.h"
#include "graph/graph.h"

typedef struct ronde__score {
  double loss_sum;
  int64_t n_correct, n;
} ronde__score;

/* What is better is larger: the accuracy, or without classes the negative mean loss. NaN where a loss is not finite. */
double ronde__score_value(const ronde__score *score, bool has_classes);

/* What a classifier said of one example. */
typedef struct ronde__verdict {
  int32_t label, predicted; /* classes */
  float confidence;         /* probability of `predicted` */
  bool in_top5;             /* fewer than five classes are more probable than the label */
} ronde__verdict;

/* Of one of the values that a network tells: its errors, and the targets' own spread. */
typedef struct ronde__value_sums {
  int64_t n, n_right;   /* examples; those on the right side of a label: output above 0 where the target is above 0.5 */
  double error, square; /* sums of |y - t| and (y - t)^2 */
  double mean, m2;      /* of the targets: mean, and sum of squared deviations from it */
} ronde__value_sums;

typedef struct ronde__evaluation {
  const ronde__data *data;
  ronde_split split;
  const int64_t *ids; /* [n] of the split; NULL: 0..n-1 */
  int64_t n;
  int rank, n_workers;       /* whose share of them */
  int64_t chunk;             /* examples at a time, at most */
  bool sizes_alone;          /* a stage of the network that sees neither inputs nor labels: nothing is read */
  ronde__verdict *verdicts;  /* [n], of which those of the share are written; NULL: not wanted. Needs classes */
  ronde__value_sums *values; /* [target_elems], of the share, to be zero before; NULL: not wanted. Needs targets */
  /* What the network told of n examples, in ROWS [outputs] each, with their inputs and labels; may be NULL. */
  ronde_status (*hear)(void *user, int64_t n, const float *x, const float *outputs, const int64_t *labels);
  void *hearer;
  int64_t outputs;
  bool (*cancel)(void *user); /* asked in front of each chunk; may be NULL */
  void *user;
} ronde__evaluation;

/* Adds what others have seen. */
void ronde__value_sums_add(ronde__value_sums *sums, const ronde__value_sums *others);
/* RONDE_E_CANCELLED where cancel said so. */
ronde_status ronde__evaluate(ronde__net *net, const ronde__evaluation *what, ronde__score *score_out);

#endif

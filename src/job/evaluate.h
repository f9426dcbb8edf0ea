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

typedef struct ronde__evaluation {
  const ronde__data *data;
  ronde_split split;
  const int64_t *ids; /* [n] of the split; NULL: 0..n-1 */
  int64_t n;
  int rank, n_workers;        /* whose share of them */
  int64_t chunk;              /* examples at a time, at most */
  ronde__verdict *verdicts;   /* [n], of which those of the share are written; NULL: not wanted. Needs classes */
  bool (*cancel)(void *user); /* asked in front of each chunk; may be NULL */
  void *user;
} ronde__evaluation;

/* RONDE_E_CANCELLED where cancel said so. */
ronde_status ronde__evaluate(ronde__net *net, const ronde__evaluation *what, ronde__score *score_out);

#endif

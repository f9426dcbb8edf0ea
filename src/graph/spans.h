/* How long a rank computed in a step, when each parameter was needed and its gradient ready, and its layer done: what --record-spans
 * keeps of a real run, and a simulated one replays. */
#ifndef RONDE_GRAPH_SPANS_H
#define RONDE_GRAPH_SPANS_H

#include <stddef.h>
#include <stdint.h>

typedef struct ronde__param_span {
  char *name;
  uint64_t elems;     /* without padding */
  uint64_t needed_ns; /* since forward began: when it is first read */
  uint64_t ready_ns;  /* since backward began: when its gradient is final, */
  uint64_t done_ns;   /* and when its layer has made those of its inputs too */
} ronde__param_span;

/* Medians over the steps. */
typedef struct ronde__spans {
  char *model;
  int64_t examples; /* of a batch of the rank; 0: any, as nothing takes time */
  int64_t steps;    /* that they were taken from */
  int threads;
  uint64_t load_ns, forward_ns, backward_ns, update_ns; /* load: what was not hidden behind computing */
  uint64_t updated_elems;                               /* in update_ns */
  int n_params;
  ronde__param_span *params; /* [n_params], in the order of the network */
} ronde__spans;

/* NULL is taken. */
void ronde__spans_destroy(ronde__spans *spans);
/* A time of the recorded batch, for n examples, on a rank that is so many times as slow. */
uint64_t ronde__spans_scale(const ronde__spans *spans, uint64_t ns, int64_t n, double slowness);

#endif

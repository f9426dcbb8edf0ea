/* What the two directions of location-sensitive attention share: sizes, products, memory.
 * Legend: N examples, T steps, P features of a step, S places of the memory, E features of a place, A of its key, H hidden
 * values, K taps, C filters. */
#ifndef RONDE_LOCATION_ATTENTION_H
#define RONDE_LOCATION_ATTENTION_H

#include "ops/panels.h"

enum { RONDE__LOCATION_X, RONDE__LOCATION_MEMORY, RONDE__LOCATION_KEYS };
enum { RONDE__LOCATION_HIDDEN, RONDE__LOCATION_CONTEXT, RONDE__LOCATION_WEIGHTS };
enum {
  RONDE__LOCATION_IH,
  RONDE__LOCATION_HH,
  RONDE__LOCATION_BIAS_IH,
  RONDE__LOCATION_BIAS_HH,
  RONDE__LOCATION_QUERY,   /* [A][H] */
  RONDE__LOCATION_FILTERS, /* [C][2][K]: of the step before, and of the sum over all steps before */
  RONDE__LOCATION_DENSE,   /* [A][C] */
  RONDE__LOCATION_VECTOR,  /* [A] */
  RONDE__LOCATION_PARAMS
};

typedef struct ronde__location_sizes {
  int64_t n, t, p, s, e, a, h, k, c;
} ronde__location_sizes;

/* Products by name; some by whether it is the last piece of examples. */
typedef struct ronde__location_state {
  ronde__location_sizes sizes;
  int64_t piece, n_pieces;
  /* Forward: gates of all steps' x, and of a step's context and h; queries; what places give to the keys; contexts. */
  ronde__product of_x, of_past[2], query[2], places, context;
  /* Backward: gradients of x and context, of h, of h by the query; of weights by the context, of places; and of parameters and
   * memory, of the gates' by whether their panel is narrow. */
  ronde__product dinput[2], dhidden[2], dquery[2], dweights, dplaces;
  ronde__product dlocation, dmemory, dw_ih[2], dw_hh[2], dw_query;
} ronde__location_state;

/* The memory of a call; what is not of its direction is NULL. Packed matrices are in panels of their columns. */
typedef struct ronde__location_job {
  const ronde__op_desc *desc;
  const ronde__location_state *s;
  const ronde__op_call *call;
  float *gates, *cells, *queries;      /* saved: [N][T][4H], [N][T][H], [N][T][A] */
  float *location;                     /* [A][2K]: filters and dense layer in one */
  float *places, *turned_places;       /* of that: [2K][A] and [A][2K], packed */
  float *w_ih, *w_hh, *w_query;        /* packed; forward w_ih of x alone, and w_hh of context and h */
  float *bias;                         /* [4H] */
  float *past;                         /* [N][E+H] */
  float *sums;                         /* of all weights before: [N][S], backward [N][T][S] */
  float *scratch;                      /* of the threads */
  float *drows, *dqueries, *dcontexts; /* [N][T][4H], [N][T][A], [N][T][E] */
  float *inputs, *before;              /* [N T] rows of x and context, and of h, in front of each step, packed */
  float *dinputs, *dh, *dcell;         /* [N][P+E], [N][H] twice */
  float *memory;                       /* [N] of [E][S], packed */
  float *dbefore, *dsums;              /* [N][S] twice: of the weights of the step before, and of their sum */
  float *dkeys, *dlocation, *dvector;  /* [N][S][A], [N][2K][A], [N][A] */
  float *small;                        /* [A][2K], [A][C], [C][2K]: of the parameters that make places */
} ronde__location_job;

ronde__location_sizes ronde__location_sizes_of(const ronde__op_desc *desc);
/* Floats of a thread: of keys with what places give to them, [S][A], and of windows of weights, [S][2K]; backward both twice, and
 * a panel of gates [N T]. */
int64_t ronde__location_scratch(const ronde__location_sizes *z, bool backward);
size_t ronde__location_work_back(const ronde__location_sizes *z, int threads);
/* location from its two parameters. */
void ronde__location_join(const ronde__location_job *job);
/* The windows [S][2K] around each place, of the weights of the step before and of the sum of those before. */
void ronde__location_windows(const ronde__location_sizes *z, const float *before, const float *sums, float *windows);
/* keys [S][A] + windows x places, into `out`. */
void ronde__location_keys(const ronde__location_job *job, int64_t n, const float *windows, const float *places,
                          float *out);
ronde_status ronde__location_create_back(const ronde__op_desc *desc, ronde__location_state *s);
void ronde__location_destroy_back(ronde__location_state *s);
ronde_status ronde__location_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call);

#endif

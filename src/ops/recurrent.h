/* What recurrent layers share: all steps in time, lengths and directions. A cell says what a step is.
 * Legend: N examples, T steps, F features, H hidden values, G gates of the weights, R floats of a row for each hidden value;
 * those that x gives are the first G H of a row. */
#ifndef RONDE_RECURRENT_H
#define RONDE_RECURRENT_H

#include "ops/op.h"

enum { RONDE__MOST_GATES = 4 };
enum { RONDE__WEIGHT_IH, RONDE__WEIGHT_HH, RONDE__BIAS_IH, RONDE__BIAS_HH };
/* The number of the parameter that holds peepholes, [3 H] of i, f and o, where there are any. */
static inline int ronde__peepholes_at(const ronde__op_attr *attr) { return attr->bias ? 4 : 2; }

/* One example at one step. */
typedef struct ronde__recurrent_step {
  int64_t h;
  float clip;             /* 0: none */
  float *row;             /* forward: the sums of x [G H], behind them, or in them, those of h; saved for backward */
  const float *sums;      /* of a cell that does not add them: those of h [G H] */
  const float *bias;      /* [R H], or NULL */
  const float *peepholes; /* [3 H], or NULL */
  const float *cell_before;
  float *cell;
  const float *y_before;
  float *y;
  float *reset;        /* what the last gate's weights multiply in place of y_before */
  const float *dreset; /* backward */
  const float *dy;     /* NULL: nothing reads it */
  float *dh, *dcell, *drow;
} ronde__recurrent_step;

typedef struct ronde__cell {
  const char *name;  /* "an LSTM", in errors */
  int gates, states; /* G; 2: with a cell state */
  int row;           /* R */
  bool adds;         /* the sums of h are added to those of x; else the last gate's are not, and lie behind them */
  int column[RONDE__MOST_GATES]; /* of a row: where the gradient of a gate's sum of h lies, in H */
  /* Where the last gate multiplies what the others make of h: these, when their sums are complete, and `reset`. */
  void (*reset)(const ronde__kernels *kernels, const ronde__recurrent_step *step);
  void (*forward)(const ronde__kernels *kernels, const ronde__recurrent_step *step);
  void (*backward)(const ronde__kernels *kernels, const ronde__recurrent_step *step);
  /* The same behind backward, from dreset; `reset` is made again, for the gradient of the last gate's weights. */
  void (*reset_back)(const ronde__kernels *kernels, const ronde__recurrent_step *step);
} ronde__cell;

const ronde__cell *ronde__cell_of(const ronde__op_attr *attr); /* cells.c */
/* bias [R H] of a row from both vectors. */
void ronde__cell_biases(const ronde__cell *cell, const float *of_x, const float *of_h, int64_t h, float *bias);

/* The members of the ops' forms, which differ in the operands: recurrent_plan.c, recurrent_forward.c and recurrent_backward.c. */
struct ronde__recurrent_operands;
ronde_status ronde__recurrent_prepare(const ronde__op_desc *desc, const struct ronde__recurrent_operands *operands,
                                      void **state_out);
void ronde__recurrent_release(const ronde__op_desc *desc, void *state);
size_t ronde__recurrent_saved(const ronde__op_desc *desc, const void *state);
size_t ronde__recurrent_work(const ronde__op_desc *desc, const void *state, bool backward);
const char *ronde__recurrent_implementation(const ronde__op_desc *desc, const void *state);
double ronde__recurrent_executed_flops(const ronde__op_desc *desc, const void *state, bool backward);
ronde_status ronde__recurrent_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call);
ronde_status ronde__recurrent_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call);

#endif

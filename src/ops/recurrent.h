/* What recurrent layers share: their operands, all steps in time, lengths and directions. A cell says what a step is.
 * Legend: N examples, T steps, F features, H hidden values, G gates of the weights; a row has 4 H floats, of which those
 * that x gives are the first G H. */
#ifndef RONDE_RECURRENT_H
#define RONDE_RECURRENT_H

#include "ops/op.h"

enum { RONDE__RECURRENT_ROW = 4 };
enum { RONDE__WEIGHT_IH, RONDE__WEIGHT_HH, RONDE__BIAS_IH, RONDE__BIAS_HH };

/* One example at one step. */
typedef struct ronde__recurrent_step {
  int64_t h;
  float *row;        /* forward: the sums of x [G H], behind them (LSTM: in them) those of h; saved for backward */
  const float *sums; /* GRU: those of h [G H] */
  const float *bias; /* [4 H], or NULL */
  const float *cell_before;
  float *cell;
  const float *y_before;
  float *y;
  const float *dy; /* NULL: nothing reads it */
  float *dh, *dcell, *drow;
} ronde__recurrent_step;

typedef struct ronde__cell {
  const char *name;  /* "an LSTM", in errors */
  int gates, states; /* G; 2: with a cell state */
  bool adds;         /* the sums of h are added to those of x */
  int column[4];     /* of a row: where the gradient of a gate's sum of h lies, in H */
  /* bias [4 H] of a row from both vectors. */
  void (*biases)(const float *of_x, const float *of_h, int64_t h, float *bias);
  void (*forward)(const ronde__kernels *kernels, const ronde__recurrent_step *step);
  void (*backward)(const ronde__kernels *kernels, const ronde__recurrent_step *step);
} ronde__cell;

/* The members of the ops, each with its cell in front. */
int ronde__recurrent_outputs(const ronde__cell *cell);
ronde_status ronde__recurrent_infer(const ronde__cell *cell, const ronde__op_attr *attr, const char *label,
                                    const ronde__shape *in, const char *const *in_labels, ronde__shape *out);
int ronde__recurrent_params(const ronde__cell *cell, const ronde__op_attr *attr, const ronde__shape *in,
                            ronde__param_spec specs[RONDE__OP_MAX_PARAMS]);
int64_t ronde__recurrent_flops(const ronde__cell *cell, const ronde__op_attr *attr, const ronde__shape *in);
void ronde__recurrent_layouts(const ronde__cell *cell, ronde__op_desc *desc, const ronde__shape *in,
                              const ronde__shape *out);
ronde_status ronde__recurrent_prepare(const ronde__cell *cell, const ronde__op_desc *desc, void **state_out);
void ronde__recurrent_release(const ronde__op_desc *desc, void *state);
size_t ronde__recurrent_saved(const ronde__op_desc *desc, const void *state);
size_t ronde__recurrent_work(const ronde__op_desc *desc, const void *state, bool backward);
ronde_status ronde__recurrent_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call);
ronde_status ronde__recurrent_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call);
const char *ronde__recurrent_implementation(const ronde__op_desc *desc, const void *state);
double ronde__recurrent_executed_flops(const ronde__op_desc *desc, const void *state, bool backward);

#endif

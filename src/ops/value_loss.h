/* What losses against values share, and errors: a term for each element of a prediction and its target, meant over the
 * elements of an example. A loss sums them over the batch. An error is between two tensors of the network, so that losses can be
 * made of several; it may have lengths for its last input, how many rows of an example are there: those behind them count as
 * zeros. */
#ifndef RONDE_VALUE_LOSS_H
#define RONDE_VALUE_LOSS_H

#include "ops/op.h"

/* Of a prediction x and its target t: the term, and its derivatives by x and by t (of an error). delta: of the op's
 * attributes. */
typedef struct ronde__value_terms {
  double (*term)(double x, double t, double delta);
  float (*slopes[2])(float x, float t, float delta);
} ronde__value_terms;

ronde_status ronde__value_loss_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                     const char *const *in_labels, ronde__shape *out);
void ronde__value_loss_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out);
ronde_status ronde__value_loss_forward(const ronde__op_desc *desc, const ronde__op_call *call,
                                       const ronde__value_terms *terms);
ronde_status ronde__value_loss_backward(const ronde__op_desc *desc, const ronde__op_call *call,
                                        const ronde__value_terms *terms);

ronde_status ronde__value_error_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                      const char *const *in_labels, ronde__shape *out);
void ronde__value_error_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out);
ronde_status ronde__value_error_forward(const ronde__op_desc *desc, const ronde__op_call *call,
                                        const ronde__value_terms *terms);
ronde_status ronde__value_error_backward(const ronde__op_desc *desc, const ronde__op_call *call,
                                         const ronde__value_terms *terms);

const char *ronde__value_implementation(const ronde__op_desc *desc, const void *state);

/* An op NAME of the KIND loss or error; behind it, what the op says beside. */
#define RONDE__VALUE_OP(NAME, KIND, TERMS, ...)                                                                    \
  static ronde_status NAME##_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {  \
    return ronde__value_##KIND##_forward(desc, call, &TERMS);                                                      \
  }                                                                                                                \
  static ronde_status NAME##_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) { \
    return ronde__value_##KIND##_backward(desc, call, &TERMS);                                                     \
  }                                                                                                                \
  static const ronde__form NAME##_form = {                                                                         \
      .forward = NAME##_forward,                                                                                   \
      .backward = NAME##_backward,                                                                                 \
      .implementation = ronde__value_implementation,                                                               \
  };                                                                                                               \
  const ronde__op ronde__op_##NAME = {.name = #NAME,                                                               \
                                      .infer = ronde__value_##KIND##_infer,                                        \
                                      .layouts = ronde__value_##KIND##_layouts,                                    \
                                      .forms = (const ronde__form *const[]){&NAME##_form, NULL},                   \
                                      __VA_ARGS__}
#define RONDE__VALUE_LOSS(NAME, TERMS) RONDE__VALUE_OP(NAME, loss, TERMS, .backward_reads = {.in = 3}, .is_loss = true)
#define RONDE__VALUE_ERROR(NAME, TERMS) RONDE__VALUE_OP(NAME, error, TERMS, .backward_reads = {.in = 7})

#endif

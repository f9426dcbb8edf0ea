/* What losses against values share: a term for each element of the prediction, meant over the elements of an example and
 * summed over the batch. */
#ifndef RONDE_VALUE_LOSS_H
#define RONDE_VALUE_LOSS_H

#include "ops/op.h"

/* Of a prediction x and its target t: the loss, and its derivative by x. delta: of the op's attributes. */
typedef double (*ronde__value_term)(double x, double t, double delta);
typedef float (*ronde__value_slope)(float x, float t, float delta);

ronde_status ronde__value_loss_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                     const char *const *in_labels, ronde__shape *out);
void ronde__value_loss_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out);
ronde_status ronde__value_loss_forward(const ronde__op_desc *desc, const ronde__op_call *call, ronde__value_term term);
ronde_status ronde__value_loss_backward(const ronde__op_desc *desc, const ronde__op_call *call,
                                        ronde__value_slope slope);
const char *ronde__value_loss_implementation(const ronde__op_desc *desc, const void *state);

/* An op NAME out of the functions NAME_term and NAME_slope. */
#define RONDE__VALUE_LOSS(NAME)                                                                                    \
  static ronde_status NAME##_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {  \
    return ronde__value_loss_forward(desc, call, NAME##_term);                                                     \
  }                                                                                                                \
  static ronde_status NAME##_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) { \
    return ronde__value_loss_backward(desc, call, NAME##_slope);                                                   \
  }                                                                                                                \
  static const ronde__form NAME##_form = {                                                                         \
      .forward = NAME##_forward,                                                                                   \
      .backward = NAME##_backward,                                                                                 \
      .implementation = ronde__value_loss_implementation,                                                          \
  };                                                                                                               \
  const ronde__op ronde__op_##NAME = {                                                                             \
      .name = #NAME,                                                                                               \
      .infer = ronde__value_loss_infer,                                                                            \
      .layouts = ronde__value_loss_layouts,                                                                        \
      .backward_reads = {.in = 3},                                                                                 \
      .is_loss = true,                                                                                             \
      .forms = (const ronde__form *const[]){&NAME##_form, NULL},                                                   \
  }

#endif

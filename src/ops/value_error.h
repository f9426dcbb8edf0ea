/* What errors share: the terms of a loss against values (value_loss.h), between two tensors of the network, meant over the
 * elements of each example, so that losses can be made of several. Inputs: prediction and target, perhaps lengths, how many
 * rows of an example are there; those behind them count as zeros. */
#ifndef RONDE_VALUE_ERROR_H
#define RONDE_VALUE_ERROR_H

#include "ops/value_loss.h"

/* A term, and its derivatives by prediction and by target. */
typedef struct ronde__value_terms {
  ronde__value_term term;
  ronde__value_slope slopes[2];
} ronde__value_terms;

ronde_status ronde__value_error_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                      const char *const *in_labels, ronde__shape *out);
void ronde__value_error_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out);
ronde_status ronde__value_error_forward(const ronde__op_desc *desc, const ronde__op_call *call,
                                        const ronde__value_terms *terms);
ronde_status ronde__value_error_backward(const ronde__op_desc *desc, const ronde__op_call *call,
                                         const ronde__value_terms *terms);

/* An op NAME out of the functions of a loss, LOSS_term and LOSS_slope, and LOSS_target_slope. */
#define RONDE__VALUE_ERROR(NAME, LOSS)                                                                             \
  static const ronde__value_terms NAME##_terms = {LOSS##_term, {LOSS##_slope, LOSS##_target_slope}};               \
  static ronde_status NAME##_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {  \
    return ronde__value_error_forward(desc, call, &NAME##_terms);                                                  \
  }                                                                                                                \
  static ronde_status NAME##_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) { \
    return ronde__value_error_backward(desc, call, &NAME##_terms);                                                 \
  }                                                                                                                \
  static const ronde__form NAME##_form = {                                                                         \
      .forward = NAME##_forward,                                                                                   \
      .backward = NAME##_backward,                                                                                 \
      .implementation = ronde__value_loss_implementation,                                                          \
  };                                                                                                               \
  const ronde__op ronde__op_##NAME = {                                                                             \
      .name = #NAME,                                                                                               \
      .infer = ronde__value_error_infer,                                                                           \
      .layouts = ronde__value_error_layouts,                                                                       \
      .backward_reads = {.in = 7},                                                                                 \
      .forms = (const ronde__form *const[]){&NAME##_form, NULL},                                                   \
  }

#endif

/* Arithmetic on two tensors of equal rank, each of which may have 1 in place of a dimension of the other one: it is repeated
 * there (numpy's broadcasting). Two ops share it, since sums need neither operand in backward. */
#ifndef RONDE_PAIR_H
#define RONDE_PAIR_H

#include "ops/op.h"

ronde_status ronde__pair_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                               const char *const *in_labels, ronde__shape *out);
void ronde__pair_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out);
ronde_status ronde__pair_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call);
extern const ronde__form ronde__pair_form;
/* Of products with a factor of each channel, in BLOCKS: the first operand, or the second one. */
extern const ronde__form ronde__gate_first, ronde__gate_second;

#endif

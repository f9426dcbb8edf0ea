/* Sums, means, maxima, minima and products over any dimensions of an example. Two ops share it, since sums need nothing of
 * forward in backward. */
#ifndef RONDE_REDUCE_H
#define RONDE_REDUCE_H

#include "ops/op.h"

ronde_status ronde__reduce_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                 const char *const *in_labels, ronde__shape *out);
void ronde__reduce_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out);
extern const ronde__form ronde__reduce_form;

#endif

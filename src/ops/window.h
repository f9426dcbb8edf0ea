/* The sliding window of a convolution or pooling, as its attributes describe it. */
#ifndef RONDE_WINDOW_H
#define RONDE_WINDOW_H

#include "ops/axis.h"
#include "ops/op.h"

/* Along dimension d, 0 height or 1 width, of `in` inputs. */
ronde__axis ronde__window_axis(const ronde__op_attr *attr, int d, int64_t in);
/* Whether it slides one by one without dilation, with as many zeros behind as in front, on both axes. */
bool ronde__window_is_plain(const ronde__op_attr *attr);
/* Where padding both sides alike and rounding down gives the same windows over inputs of this shape, makes it so: what is
 * padded behind and no window reaches does not matter. places_matter: places inside the padding are counted too. Leaves
 * attributes that make no sense as they are. */
void ronde__window_simplify(ronde__op_attr *attr, const ronde__shape *in, bool places_matter);
/* Checks kernel, stride, padding and dilation, and that no size overflows. RONDE_E_USAGE names `label`. */
ronde_status ronde__window_check(const ronde__op_attr *attr, const char *label, const ronde__shape *in);

#endif

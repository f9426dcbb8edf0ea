/* One axis of a sliding window: which taps of an output fall inside the input, and which outputs an input feeds. A tap
 * that only meets padding is in no list, so it is never computed. */
#ifndef RONDE_AXIS_H
#define RONDE_AXIS_H

#include "base/base.h"

typedef struct ronde__axis {
  int64_t in, out;
  int kernel, stride, padding;
} ronde__axis;

/* Taps first, first + step, ... (count of them), at positions at, at + 1, ... of the other side; all 0 where there is
 * none. */
typedef struct ronde__taps {
  int first, count;
  int64_t at;
} ronde__taps;

ronde__axis ronde__axis_make(int64_t in, int kernel, int stride, int padding);
/* Output o reads inputs at, at + 1, ... through taps first, first + 1, ... */
ronde__taps ronde__axis_forward(const ronde__axis *axis, int64_t o);
/* Input i feeds outputs at, at + 1, ... through taps first, first - stride, ... */
ronde__taps ronde__axis_backward(const ronde__axis *axis, int64_t i);
typedef ronde__taps (*ronde__axis_fn)(const ronde__axis *axis, int64_t position);
/* How many positions from `position` on (before `end`) use the same taps. */
int64_t ronde__axis_run(const ronde__axis *axis, ronde__axis_fn taps, int64_t position, int64_t end);
/* The outputs [begin_out, end_out) for which tap k falls inside. */
void ronde__axis_outputs_of_tap(const ronde__axis *axis, int k, int64_t *begin_out, int64_t *end_out);

#endif

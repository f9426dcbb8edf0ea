/* One axis of a sliding window: which taps of an output fall inside the input, and which outputs an input feeds. A tap
 * that only meets padding is in no list, so it is never computed. Output o meets input o stride + k dilation - padding
 * through tap k. */
#ifndef RONDE_AXIS_H
#define RONDE_AXIS_H

#include "base/base.h"

typedef struct ronde__axis {
  int64_t in, out;
  int kernel, stride, dilation;
  int padding, end; /* places in front of the input and behind it; below 0: so many inputs are left out */
} ronde__axis;

/* Taps first, first + a step, ... (count of them), at positions at, at + a pitch, ... of the other side; all 0 where there
 * is none. */
typedef struct ronde__taps {
  int first, count;
  int64_t at;
} ronde__taps;

/* Steps of taps and pitches of positions: both are 1 forward without dilation. */
typedef struct ronde__steps {
  int tap, pitch;
} ronde__steps;

/* The window with `out` set: how many windows there are, 0 where it is larger than the padded input. round_up: the last
 * one may reach beyond the padding, but does not begin in the padding behind (PyTorch's ceil_mode). */
ronde__axis ronde__axis_make(ronde__axis window, bool round_up);
/* Places from the first tap to the last. */
static inline int64_t ronde__axis_extent(const ronde__axis *axis) {
  return (int64_t)(axis->kernel - 1) * axis->dilation + 1;
}
/* Output o reads inputs through taps first, first + 1, ..., a dilation apart. */
ronde__taps ronde__axis_forward(const ronde__axis *axis, int64_t o);
ronde__steps ronde__axis_forward_steps(const ronde__axis *axis);
/* Input i feeds outputs through taps in descending order. */
ronde__taps ronde__axis_backward(const ronde__axis *axis, int64_t i);
ronde__steps ronde__axis_backward_steps(const ronde__axis *axis);
typedef ronde__taps (*ronde__axis_fn)(const ronde__axis *axis, int64_t position);
/* How many positions from `position` on (before `end`) use the same taps. */
int64_t ronde__axis_run(const ronde__axis *axis, ronde__axis_fn taps, int64_t position, int64_t end);
/* The outputs [begin_out, end_out) for which tap k falls inside. */
void ronde__axis_outputs_of_tap(const ronde__axis *axis, int k, int64_t *begin_out, int64_t *end_out);
/* Taps of output o that fall inside the input or its padding. */
int ronde__axis_places(const ronde__axis *axis, int64_t o);

#endif

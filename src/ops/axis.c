/* Which taps of a sliding window meet the input, along one axis: the arithmetic of padding and strides. */
#include "ops/axis.h"

ronde__axis ronde__axis_make(ronde__axis window, bool round_up) {
  int64_t space = window.in + window.padding + window.end - ronde__axis_extent(&window);
  window.out = 0;
  if (space < 0) return window;
  window.out = (round_up ? ronde__ceil_div(space, window.stride) : space / window.stride) + 1;
  if (round_up && (window.out - 1) * window.stride >= window.in + window.padding) window.out--;
  return window;
}

ronde__taps ronde__axis_forward(const ronde__axis *axis, int64_t o) {
  int64_t start = o * axis->stride - axis->padding;
  int64_t first = start < 0 ? ronde__ceil_div(-start, axis->dilation) : 0;
  int64_t end = start < axis->in ? ronde__min(axis->kernel, ronde__ceil_div(axis->in - start, axis->dilation)) : 0;
  if (end <= first) return (ronde__taps){0, 0, 0};
  return (ronde__taps){(int)first, (int)(end - first), start + first * axis->dilation};
}

ronde__steps ronde__axis_forward_steps(const ronde__axis *axis) { return (ronde__steps){1, axis->dilation}; }

/* Taps that feed one input from outputs on the grid of strides: stride / gcd apart. */
static int64_t common_divisor(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

ronde__steps ronde__axis_backward_steps(const ronde__axis *axis) {
  int64_t divisor = common_divisor(axis->stride, axis->dilation);
  return (ronde__steps){(int)(-axis->stride / divisor), (int)(axis->dilation / divisor)};
}

ronde__taps ronde__axis_backward(const ronde__axis *axis, int64_t i) {
  const ronde__taps none = {0, 0, 0};
  ronde__steps steps = ronde__axis_backward_steps(axis);
  int64_t reach = i + axis->padding; /* tap k comes from output (reach - k dilation) / stride */
  if (reach < 0) return none;
  int64_t last = ronde__min(axis->kernel - 1, reach / axis->dilation), first = last;
  while (first > last + steps.tap && first >= 0 && (reach - first * axis->dilation) % axis->stride) first--;
  if (first < 0 || (reach - first * axis->dilation) % axis->stride) return none;
  int64_t at = (reach - first * axis->dilation) / axis->stride;
  int64_t count = at < axis->out ? ronde__ceil_div(axis->out - at, steps.pitch) : 0;
  count = ronde__min(count, first / -steps.tap + 1);
  return count > 0 ? (ronde__taps){(int)first, (int)count, at} : none;
}

int64_t ronde__axis_run(const ronde__axis *axis, ronde__axis_fn taps, int64_t position, int64_t end) {
  ronde__taps here = taps(axis, position);
  int64_t next = position + 1;
  for (; next < end; next++) {
    ronde__taps there = taps(axis, next);
    if (there.first != here.first || there.count != here.count) break;
  }
  return next - position;
}

void ronde__axis_outputs_of_tap(const ronde__axis *axis, int k, int64_t *begin_out, int64_t *end_out) {
  int64_t shift = axis->padding - (int64_t)k * axis->dilation; /* input = o * stride - shift */
  *begin_out = shift > 0 ? ronde__ceil_div(shift, axis->stride) : 0;
  int64_t last = axis->in - 1 + shift;
  *end_out = last < 0 ? 0 : ronde__min(axis->out, last / axis->stride + 1);
  if (*end_out < *begin_out) *end_out = *begin_out;
}

int ronde__axis_places(const ronde__axis *axis, int64_t o) {
  int64_t left = axis->in + axis->end - (o * axis->stride - axis->padding);
  return left <= 0 ? 0 : (int)ronde__min(axis->kernel, ronde__ceil_div(left, axis->dilation));
}

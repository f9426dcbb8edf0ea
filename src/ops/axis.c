/* Which taps of a sliding window meet the input, along one axis: the arithmetic of padding and strides. */
#include "ops/axis.h"

ronde__axis ronde__axis_make(int64_t in, int kernel, int stride, int padding) {
  return (ronde__axis){in, (in + 2 * padding - kernel) / stride + 1, kernel, stride, padding};
}

ronde__taps ronde__axis_forward(const ronde__axis *axis, int64_t o) {
  int64_t start = o * axis->stride - axis->padding;
  int64_t first = ronde__max(0, -start), end = ronde__min(axis->kernel, axis->in - start);
  if (end <= first) return (ronde__taps){0, 0, 0};
  return (ronde__taps){(int)first, (int)(end - first), start + first};
}

ronde__taps ronde__axis_backward(const ronde__axis *axis, int64_t i) {
  int64_t reach = i + axis->padding; /* tap k comes from output (reach - k) / stride */
  int64_t first = ronde__min(axis->kernel - 1, reach);
  first -= ((first - reach) % axis->stride + axis->stride) % axis->stride;
  if (first < 0) return (ronde__taps){0, 0, 0};
  int64_t at = (reach - first) / axis->stride;
  int64_t count = ronde__min(first / axis->stride + 1, axis->out - at);
  if (count <= 0) return (ronde__taps){0, 0, 0};
  return (ronde__taps){(int)first, (int)count, at};
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
  int64_t shift = axis->padding - k; /* input = o * stride - shift */
  *begin_out = shift > 0 ? ronde__ceil_div(shift, axis->stride) : 0;
  int64_t last = axis->in - 1 + shift;
  *end_out = last < 0 ? 0 : ronde__min(axis->out, last / axis->stride + 1);
  if (*end_out < *begin_out) *end_out = *begin_out;
}

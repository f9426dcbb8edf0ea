/* Backward of a product with a gate, one factor of each column for all rows: both gradients in one walk over memory. */
#include "kernel/simd.h"

void NAME(gate_backward)(const float *dy, const float *x, const float *gate, int64_t rows, int64_t n, float *dx,
                         bool accumulate, float *sums) {
  for (int64_t j = 0; j < n; j += LANES) store(sums + j, (vec){0});
  for (int64_t r = 0; r < rows; r++)
    for (int64_t j = 0, at = r * n; j < n; j += LANES, at += LANES) {
      vec d = load(dy + at);
      store(sums + j, load(sums + j) + d * load(x + at));
      if (!dx) continue;
      d *= load(gate + j);
      store(dx + at, accumulate ? load(dx + at) + d : d);
    }
}

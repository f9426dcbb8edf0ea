/* Products with a gate, one factor of each column for all rows; backward both gradients in one walk over memory. */
#include "kernel/simd.h"

static void forward(const void *of, const float *gate, int64_t rows, int64_t n, void *to) {
  const elem *x = of;
  elem *y = to;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t j = 0, at = r * n; j < n; j += LANES, at += LANES)
      store_elem(y + at, load_elem(x + at) * load(gate + j));
}

static void backward(const void *dout, const void *of, const float *gate, int64_t rows, int64_t n, void *to,
                     bool accumulate, float *sums) {
  const elem *dy = dout, *x = of;
  elem *dx = to;
  for (int64_t j = 0; j < n; j += LANES) store(sums + j, (vec){0});
  for (int64_t r = 0; r < rows; r++)
    for (int64_t j = 0, at = r * n; j < n; j += LANES, at += LANES) {
      vec d = load_elem(dy + at);
      store(sums + j, load(sums + j) + d * load_elem(x + at));
      if (!dx) continue;
      d *= load(gate + j);
      store_elem(dx + at, accumulate ? load_elem(dx + at) + d : d);
    }
}

const ronde__gate_kernels NAME(gate) = {.forward = forward, .backward = backward};

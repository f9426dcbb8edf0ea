/* The transforms of a 3x3 convolution on maps of 2x2 pixels, element by element over long vectors. Along a line,
 * y0 = k1 x0 + k2 x1, y1 = k0 x0 + k1 x1 is the product of a Toeplitz matrix with a vector, which three multiplications
 * give instead of four: with m = (k1 (x0 + x1), (k2 - k1) x1, (k0 - k1) x0), y0 = m0 + m1 and y1 = m0 + m2. Each map is
 * applied to the columns and then to the rows.
 * Source: Fan & Hasan, "A new approach to subquadratic space complexity parallel multipliers for extended binary
 * fields", 2007. */
#include "kernel/simd.h"

enum { MOST = 3 };

/* [2] -> [3] */
INLINE void line_operand(const vec *x, vec *y) { y[0] = x[0] + x[1], y[1] = x[1], y[2] = x[0]; }
/* [3] -> [3] */
INLINE void line_weight(const vec *x, vec *y) { y[0] = x[1], y[1] = x[2] - x[1], y[2] = x[0] - x[1]; }
/* [3] -> [2] */
INLINE void line_output(const vec *x, vec *y) { y[0] = x[0] + x[1], y[1] = x[0] + x[2]; }
/* [3] -> [3]: the transpose of line_weight */
INLINE void line_weight_gradient(const vec *x, vec *y) { y[0] = x[2], y[1] = x[0] - (x[1] + x[2]), y[2] = x[1]; }

typedef void (*line_fn)(const vec *x, vec *y);

INLINE void whole(line_fn line, const int from_size, const int to_size, ronde__grid from, ronde__grid to, int64_t n,
                  bool accumulate) {
  for (int64_t i = 0; i < n; i += LANES) {
    vec half[MOST][MOST], x[MOST], y[MOST];
    UNROLL
    for (int c = 0; c < from_size; c++) {
      UNROLL
      for (int r = 0; r < from_size; r++) x[r] = load(from.at + r * from.row + c * from.column + i);
      line(x, half[c]);
    }
    UNROLL
    for (int r = 0; r < to_size; r++) {
      UNROLL
      for (int c = 0; c < from_size; c++) x[c] = half[c][r];
      line(x, y);
      UNROLL
      for (int c = 0; c < to_size; c++) {
        float *at = to.at + r * to.row + c * to.column + i;
        store(at, accumulate ? load(at) + y[c] : y[c]);
      }
    }
  }
}

void NAME(toeplitz)(ronde__toeplitz_map map, ronde__grid from, ronde__grid to, int64_t n, bool accumulate) {
  switch (map) {
  case RONDE__TOEPLITZ_OPERAND: whole(line_operand, 2, 3, from, to, n, accumulate); break;
  case RONDE__TOEPLITZ_WEIGHT: whole(line_weight, 3, 3, from, to, n, accumulate); break;
  case RONDE__TOEPLITZ_OUTPUT: whole(line_output, 3, 2, from, to, n, accumulate); break;
  case RONDE__TOEPLITZ_WEIGHT_GRADIENT: whole(line_weight_gradient, 3, 3, from, to, n, accumulate); break;
  }
}

/* The transforms of Winograd's F(4x4, 3x3), element by element over long vectors: a map L of a line of numbers is
 * applied to the columns and then to the rows of a square tile, L X L^T. The points are 0, +-P, +-Q, infinity: their
 * rounding error is 2.6 times that of plain sums over 64 channels, where the usual +-1, +-2 have 6.7, and other small
 * fractions 2.7 to 3.6. The constants of the maps of activations are exact in f32.
 * Source: Lavin & Gray, "Fast algorithms for convolutional neural networks", 2016; choice of points after Barabasz et
 * al., "Error analysis and improving the accuracy of Winograd convolution for deep neural networks", 2020. */
#include "kernel/simd.h"

#define P 0.625f
#define Q 1.5f
#define P2 (P * P)
#define Q2 (Q * Q)
/* The products of differences of points that Lagrange's interpolation divides by. */
#define AT_0 (P2 * Q2)
#define AT_P (2 * P2 * (P2 - Q2))
#define AT_Q (2 * Q2 * (Q2 - P2))

enum { SIZE = 6, STEP = 4 };

/* x [6] -> y [6] */
INLINE void line_input(const vec *x, vec *y) {
  vec even = x[4] - Q2 * x[2], odd = x[3] - Q2 * x[1];
  y[0] = (x[4] - (P2 + Q2) * x[2]) + AT_0 * x[0];
  y[1] = even + P * odd;
  y[2] = even - P * odd;
  even = x[4] - P2 * x[2], odd = x[3] - P2 * x[1];
  y[3] = even + Q * odd;
  y[4] = even - Q * odd;
  y[5] = (x[5] - (P2 + Q2) * x[3]) + AT_0 * x[1];
}

/* x [6] -> y [4] */
INLINE void line_output(const vec *x, vec *y) {
  vec sum_p = x[1] + x[2], diff_p = x[1] - x[2], sum_q = x[3] + x[4], diff_q = x[3] - x[4];
  y[0] = x[0] + (sum_p + sum_q);
  y[1] = P * diff_p + Q * diff_q;
  y[2] = P2 * sum_p + Q2 * sum_q;
  y[3] = (x[5] + P * P2 * diff_p) + Q * Q2 * diff_q;
}

/* x [3] -> y [6] */
INLINE void line_weight(const vec *x, vec *y) {
  vec even = (1 / AT_P) * x[0] + (P2 / AT_P) * x[2];
  y[0] = (1 / AT_0) * x[0];
  y[1] = even + (P / AT_P) * x[1];
  y[2] = even - (P / AT_P) * x[1];
  even = (1 / AT_Q) * x[0] + (Q2 / AT_Q) * x[2];
  y[3] = even + (Q / AT_Q) * x[1];
  y[4] = even - (Q / AT_Q) * x[1];
  y[5] = x[2];
}

/* x [4] -> y [6]: the transpose of line_output */
INLINE void line_output_gradient(const vec *x, vec *y) {
  vec even = x[0] + P2 * x[2], odd = x[1] + P2 * x[3];
  y[0] = x[0];
  y[1] = even + P * odd;
  y[2] = even - P * odd;
  even = x[0] + Q2 * x[2], odd = x[1] + Q2 * x[3];
  y[3] = even + Q * odd;
  y[4] = even - Q * odd;
  y[5] = x[3];
}

/* x [6] -> y [3]: the transpose of line_weight */
INLINE void line_weight_gradient(const vec *x, vec *y) {
  vec sum_p = x[1] + x[2], diff_p = x[1] - x[2], sum_q = x[3] + x[4], diff_q = x[3] - x[4];
  y[0] = (1 / AT_0) * x[0] + ((1 / AT_P) * sum_p + (1 / AT_Q) * sum_q);
  y[1] = (P / AT_P) * diff_p + (Q / AT_Q) * diff_q;
  y[2] = x[5] + ((P2 / AT_P) * sum_p + (Q2 / AT_Q) * sum_q);
}

INLINE void line(const ronde__winograd_map map, const vec *x, vec *y) {
  switch (map) {
  case RONDE__WINOGRAD_INPUT: line_input(x, y); break;
  case RONDE__WINOGRAD_OUTPUT: line_output(x, y); break;
  case RONDE__WINOGRAD_WEIGHT: line_weight(x, y); break;
  case RONDE__WINOGRAD_OUTPUT_GRADIENT: line_output_gradient(x, y); break;
  default: line_weight_gradient(x, y); break;
  }
}

/* Vectors of so few elements end before the processor's own prefetching follows them. */
enum { SHORT = 512 };

/* The four columns behind a tile of pixels: what is read next. */
INLINE void fetch_next(const ronde__winograd_tile *f, int64_t j) {
  const float *next = f->at + (f->column1 - f->column0) * f->column + j;
  for (int r = 0; r < f->row1 - f->row0; r++)
    for (int c = 0; c < STEP; c++) __builtin_prefetch(next + r * f->row + c * f->column, 0, 2);
}

/* Stores wait for their lines one after another, so all are asked for in front of them. */
INLINE void fetch_output(const ronde__winograd_tile *t, int64_t j) {
  for (int r = 0; r < t->row1 - t->row0; r++)
    for (int c = 0; c < t->column1 - t->column0; c++) __builtin_prefetch(t->at + r * t->row + c * t->column + j, 1, 3);
}

/* whole: all places of both tiles are there. */
INLINE void sandwich(const ronde__winograd_map map, const int in, const int out, const bool whole,
                     const bool accumulate, const ronde__winograd_tile *from, const ronde__winograd_tile *to,
                     int64_t n) {
  const ronde__winograd_tile f = *from, t = *to;
  for (int64_t j = 0; j < n; j += LANES) {
    vec half[SIZE][SIZE], x[SIZE], y[SIZE];
    if ((map == RONDE__WINOGRAD_INPUT || map == RONDE__WINOGRAD_OUTPUT_GRADIENT) && n <= SHORT) fetch_next(&f, j);
    if (map == RONDE__WINOGRAD_OUTPUT) fetch_output(&t, j);
    UNROLL
    for (int c = 0; c < in; c++) {
      const float *p = f.at + (c - (whole ? 0 : f.column0)) * f.column + j;
      UNROLL
      for (int r = 0; r < in; r++) {
        bool there = whole || (r >= f.row0 && r < f.row1 && c >= f.column0 && c < f.column1);
        x[r] = there ? load(p + (r - (whole ? 0 : f.row0)) * f.row) : (vec){0};
      }
      line(map, x, y);
      UNROLL
      for (int r = 0; r < out; r++) half[r][c] = y[r];
    }
    UNROLL
    for (int r = 0; r < out; r++) {
      if (!whole && (r < t.row0 || r >= t.row1)) continue;
      float *p = t.at + (r - (whole ? 0 : t.row0)) * t.row + j;
      line(map, half[r], y);
      UNROLL
      for (int c = 0; c < out; c++) {
        if (!whole && (c < t.column0 || c >= t.column1)) continue;
        float *q = p + (c - (whole ? 0 : t.column0)) * t.column;
        store(q, accumulate ? load(q) + y[c] : y[c]);
      }
    }
  }
}

static bool is_whole(const ronde__winograd_tile *t, int size) {
  return !t->row0 && !t->column0 && t->row1 == size && t->column1 == size;
}

#define CASE(MAP, in, out)                                                              \
  case RONDE__WINOGRAD_##MAP:                                                           \
    if (accumulate) sandwich(RONDE__WINOGRAD_##MAP, in, out, false, true, from, to, n); \
    else if (!is_whole(from, in) || !is_whole(to, out))                                 \
      sandwich(RONDE__WINOGRAD_##MAP, in, out, false, false, from, to, n);              \
    else sandwich(RONDE__WINOGRAD_##MAP, in, out, true, false, from, to, n);            \
    break;

void NAME(winograd)(ronde__winograd_map map, const ronde__winograd_tile *from, const ronde__winograd_tile *to,
                    int64_t n, bool accumulate) {
  switch (map) {
    CASE(INPUT, 6, 6)
    CASE(OUTPUT, 6, 4)
    CASE(WEIGHT, 3, 6)
    CASE(OUTPUT_GRADIENT, 4, 6)
    CASE(WEIGHT_GRADIENT, 6, 3)
  }
}

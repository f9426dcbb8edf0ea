/* Convolution channel by channel, over rows [rows][n] of channels, n a multiple of 16. */
#include "kernel/simd.h"

enum { GROUP = 16, VECS = GROUP / LANES, TILE_ROWS = 8 / VECS, PIECE = 128 };

INLINE const float *at(const float *p, uint64_t bytes) { return (const float *)((const char *)p + bytes); }

/* GROUP channels of some rows: a weight is read once for all of them. */
INLINE void taps(const int rows, const float *x, const uint64_t *x_offsets, const float *w, const uint64_t *w_offsets,
                 int64_t count, int64_t n, float *y, bool accumulate) {
  vec sum[TILE_ROWS][VECS];
  UNROLL
  for (int r = 0; r < rows; r++) {
    UNROLL
    for (int v = 0; v < VECS; v++) sum[r][v] = accumulate ? load(y + r * n + v * LANES) : (vec){0};
  }
  for (int64_t t = 0; t < count; t++) {
    const float *from = at(x, x_offsets[t]), *weight = at(w, w_offsets[t]);
    UNROLL
    for (int v = 0; v < VECS; v++) {
      vec factor = load(weight + v * LANES);
      UNROLL
      for (int r = 0; r < rows; r++) sum[r][v] += load(from + r * n + v * LANES) * factor;
    }
  }
  UNROLL
  for (int r = 0; r < rows; r++) {
    UNROLL
    for (int v = 0; v < VECS; v++) store(y + r * n + v * LANES, sum[r][v]);
  }
}

void NAME(depthwise_rows)(const float *x, const uint64_t *x_offsets, const float *w, const uint64_t *w_offsets,
                          int64_t count, int64_t rows, int64_t n, float *y, bool accumulate) {
  for (int64_t j = 0; j < n; j += GROUP) {
    int64_t r = 0;
    for (; r + TILE_ROWS <= rows; r += TILE_ROWS)
      taps(TILE_ROWS, x + r * n + j, x_offsets, w + j, w_offsets, count, n, y + r * n + j, accumulate);
    for (; r < rows; r++) taps(1, x + r * n + j, x_offsets, w + j, w_offsets, count, n, y + r * n + j, accumulate);
  }
}

/* Even and odd rows have sums of their own, so that an addition need not wait for the one before. Sums are taken in
 * pieces, so that errors do not grow with the length. */
void NAME(column_dots)(const float *a, const float *b, int64_t rows, int64_t n, float *out) {
  for (int64_t j = 0; j < n; j += GROUP) {
    vec total[VECS];
    UNROLL
    for (int v = 0; v < VECS; v++) total[v] = load(out + j + v * LANES);
    for (int64_t r0 = 0; r0 < rows; r0 += PIECE) {
      vec sum[2][VECS] = {0};
      int64_t end = ronde__min(r0 + PIECE, rows), r = r0;
      for (; r + 2 <= end; r += 2) {
        UNROLL
        for (int i = 0; i < 2 * VECS; i++) {
          int64_t from = (r + i / VECS) * n + j + i % VECS * LANES;
          sum[i / VECS][i % VECS] += load(a + from) * load(b + from);
        }
      }
      for (; r < end; r++) {
        UNROLL
        for (int v = 0; v < VECS; v++) sum[0][v] += load(a + r * n + j + v * LANES) * load(b + r * n + j + v * LANES);
      }
      UNROLL
      for (int v = 0; v < VECS; v++) total[v] += sum[0][v] + sum[1][v];
    }
    UNROLL
    for (int v = 0; v < VECS; v++) store(out + j + v * LANES, total[v]);
  }
}

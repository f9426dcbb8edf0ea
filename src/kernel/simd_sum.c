/* Sums. Long ones are made of chunks, so that rounding errors do not grow with the length. Their order is fixed. */
#include "kernel/simd.h"

enum { CHUNK_ROWS = 128, CHUNK_VECTORS = 256 };
/* Columns that are summed side by side: 64 at best, a block of channels. */
enum { COLUMN_VECS = 256 / RONDE_VECTOR_BYTES < 8 ? 256 / RONDE_VECTOR_BYTES : 8 };

/* db += the sums of up to CHUNK_ROWS chunks of rows. */
INLINE void add_columns(const float *dy, int64_t ld, int64_t rows, const int vecs, int64_t live, float *db) {
  vec total[COLUMN_VECS];
  for (int v = 0; v < vecs; v++) total[v] = (vec){0};
  for (int64_t left = rows; left > 0; left -= CHUNK_ROWS) {
    vec sum[COLUMN_VECS];
    UNROLL
    for (int v = 0; v < vecs; v++) sum[v] = (vec){0};
    for (int64_t r = ronde__min(left, CHUNK_ROWS); r > 0; r--, dy += ld) {
      UNROLL
      for (int v = 0; v < vecs; v++) sum[v] += load_some(dy + v * LANES, live);
    }
    UNROLL
    for (int v = 0; v < vecs; v++) total[v] += sum[v];
  }
  for (int v = 0; v < vecs; v++) store_some(db + v * LANES, load_some(db + v * LANES, live) + total[v], live);
}

void NAME(column_sums)(const float *dy, int64_t ld, int64_t rows, int64_t n, float *db) {
  const int64_t rows_max = CHUNK_ROWS * CHUNK_ROWS;
  for (int64_t r = 0; r < rows; r += rows_max, dy += rows_max * ld) {
    int64_t some = ronde__min(rows_max, rows - r), j = 0;
    for (; j + COLUMN_VECS * LANES <= n; j += COLUMN_VECS * LANES)
      add_columns(dy + j, ld, some, COLUMN_VECS, LANES, db + j);
    for (; j + 2 * LANES <= n; j += 2 * LANES) add_columns(dy + j, ld, some, 2, LANES, db + j);
    for (; j + LANES <= n; j += LANES) add_columns(dy + j, ld, some, 1, LANES, db + j);
    if (j < n) add_columns(dy + j, ld, some, 1, n - j, db + j);
  }
}

float NAME(sum)(const float *x, int64_t n) {
  double total = 0;
  while (n > 0) {
    vec sum[4] = {{0}, {0}, {0}, {0}};
    int64_t chunk = ronde__min(n, CHUNK_VECTORS * LANES), i = 0;
    for (; i + 4 * LANES <= chunk; i += 4 * LANES) {
      UNROLL
      for (int v = 0; v < 4; v++) sum[v] += load(x + i + v * LANES);
    }
    for (; i < chunk; i += LANES) sum[0] += load_some(x + i, ronde__min(LANES, chunk - i));
    total += lane_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
    x += chunk;
    n -= chunk;
  }
  return (float)total;
}

/* Eight sums on every instruction set, of products that are exact in f64: all sets give the same bits. */
double NAME(dot)(const float *x, const float *y, int64_t n) {
  double sum[8] = {0};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int l = 0; l < 8; l++) sum[l] += (double)x[i + l] * (double)y[i + l];
  for (int l = 0; i < n; i++, l++) sum[l] += (double)x[i] * (double)y[i];
  return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

double NAME(sum_squares)(const float *x, int64_t n) { return NAME(dot)(x, x, n); }

/* Zero times a number is zero, times Inf or NaN it is NaN, which no addition takes away. */
bool NAME(all_finite)(const float *x, int64_t n) {
  enum { SUMS = 4 };
  vec sum[SUMS] = {{0}};
  int64_t i = 0;
  for (; i + SUMS * LANES <= n; i += SUMS * LANES) {
    UNROLL
    for (int v = 0; v < SUMS; v++) sum[v] += load(x + i + v * LANES) * 0.0f;
  }
  for (; i < n; i += LANES) sum[0] += load_some(x + i, ronde__min(LANES, n - i)) * 0.0f;
  return lane_sum((sum[0] + sum[1]) + (sum[2] + sum[3])) == 0;
}

/* Normalisation of rows by their own statistics: layer norm, and RMS norm, which has no mean. Sums over a row, and over
 * rows, are made of chunks in f32, which are added in f64 or in a sum of their own. Nothing of a row depends on the others.
 * Sources: Ba, Kiros & Hinton, "Layer normalization", 2016; Zhang & Sennrich, "Root mean square layer normalization", 2019.
 * Legend: z = (x - mean) r, r = 1 / sqrt(variance + eps). */
#include "kernel/simd.h"

#include <math.h>

enum { CHUNK_ROWS = 128, CHUNK = 256 * LANES }; /* of a sum in f32 */
enum { SUMS = 4 };                              /* under way at once */
enum { COLUMN_VECS = 256 / RONDE_VECTOR_BYTES < 4 ? 256 / RONDE_VECTOR_BYTES : 4 };

INLINE vec first_lanes(vec x, int64_t live) {
  ivec lane;
  UNROLL
  for (int i = 0; i < LANES; i++) lane[i] = i;
  return blend(lane < (ivec){0} + (int32_t)live, x, (vec){0});
}

INLINE vec square(const float *x, vec mean, int64_t live) {
  vec d = load_some(x, live) - mean;
  return live == LANES ? d * d : first_lanes(d * d, live);
}

/* Adds n elements x, or their (x - mean)^2. */
INLINE void add_some(const float *x, int64_t n, const bool squared, vec mean, vec sum[SUMS]) {
  int64_t i = 0;
  for (; i + SUMS * LANES <= n; i += SUMS * LANES) {
    UNROLL
    for (int v = 0; v < SUMS; v++) sum[v] += squared ? square(x + i + v * LANES, mean, LANES) : load(x + i + v * LANES);
  }
  for (; i < n; i += LANES) {
    int64_t live = ronde__min(LANES, n - i);
    sum[0] += squared ? square(x + i, mean, live) : load_some(x + i, live);
  }
}

INLINE double flush(vec sum[SUMS]) {
  double all = (double)lane_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
  UNROLL
  for (int v = 0; v < SUMS; v++) sum[v] = (vec){0};
  return all;
}

/* Of a row, whose pieces go into the same chunks. */
INLINE double row_sum(const ronde__row_norm *norm, const float *x, const bool squared, vec mean) {
  vec sum[SUMS] = {{0}};
  double total = 0;
  int64_t held = 0;
  for (int64_t at = 0; at < norm->n; at += norm->piece, x += norm->apart)
    for (int64_t i = 0, end = ronde__min(norm->piece, norm->n - at), n; i < end; i += n) {
      n = ronde__min(CHUNK, end - i);
      add_some(x + i, n, squared, mean, sum);
      held += n;
      if (held >= CHUNK) total += flush(sum), held = 0;
    }
  return total + flush(sum);
}

INLINE void normalise(const ronde__row_norm *norm, const float *x, float mean, float r, int64_t at, int64_t live,
                      elem *y) {
  vec z = (load_some(x, live) - splat(mean)) * r * load_some(norm->weight + at, live);
  store_elem_some(y, norm->bias ? z + load_some(norm->bias + at, live) : z, live);
}

static void forward(const ronde__row_norm *norm, const float *from, int64_t rows, float *statistics, void *to) {
  for (int64_t row = 0; row < rows; row++, statistics += 2) {
    const float *x = from + row * norm->ld;
    elem *y = (elem *)to + row * norm->ld;
    float mean = norm->centred ? (float)(row_sum(norm, x, false, (vec){0}) / (double)norm->n) : 0;
    float r = (float)(1 / sqrt(row_sum(norm, x, true, splat(mean)) / (double)norm->n + (double)norm->eps));
    for (int64_t at = 0; at < norm->n; at += norm->piece, x += norm->apart, y += norm->apart) {
      int64_t n = ronde__min(norm->piece, norm->n - at), i = 0;
      for (; i + LANES <= n; i += LANES) normalise(norm, x + i, mean, r, at + i, LANES, y + i);
      if (i < n) normalise(norm, x + i, mean, r, at + i, n - i, y + i);
    }
    statistics[0] = mean;
    statistics[1] = r;
  }
}

/* ---- backward ---- */

/* A piece of a row. */
typedef struct piece {
  const float *x;
  const elem *dy;
  const float *weight;
  float mean, r;
} piece;

INLINE vec z_at(const piece *p, int64_t i, int64_t live) { return (load_some(p->x + i, live) - splat(p->mean)) * p->r; }

/* Sums of e = dy weight and of e z. */
typedef struct slopes {
  vec e[2], ez[2];
} slopes;

INLINE void add_slopes(const piece *p, int64_t begin, int64_t end, slopes *to) {
  int64_t i = begin;
  for (; i + 2 * LANES <= end; i += 2 * LANES) {
    UNROLL
    for (int v = 0; v < 2; v++) {
      int64_t at = i + v * LANES;
      vec term = load_elem(p->dy + at) * load(p->weight + at);
      to->e[v] += term;
      to->ez[v] += term * z_at(p, at, LANES);
    }
  }
  for (; i < end; i += LANES) {
    int64_t live = ronde__min(LANES, end - i);
    vec term = load_elem_some(p->dy + i, live) * load_some(p->weight + i, live);
    to->e[0] += term;
    to->ez[0] += term * z_at(p, i, live);
  }
}

INLINE void flush_slopes(slopes *from, double *sum_e, double *sum_ez) {
  *sum_e += (double)lane_sum(from->e[0] + from->e[1]);
  *sum_ez += (double)lane_sum(from->ez[0] + from->ez[1]);
  *from = (slopes){0};
}

/* Of a row. */
INLINE void gradient_sums(const ronde__row_norm *norm, const piece *first, double *sum_e, double *sum_ez) {
  slopes of = {0};
  piece p = *first;
  int64_t held = 0;
  for (int64_t at = 0; at < norm->n; at += norm->piece) {
    for (int64_t i = 0, end = ronde__min(norm->piece, norm->n - at), n; i < end; i += n) {
      n = ronde__min(CHUNK, end - i);
      add_slopes(&p, i, i + n, &of);
      held += n;
      if (held >= CHUNK) flush_slopes(&of, sum_e, sum_ez), held = 0;
    }
    p.x += norm->apart, p.dy += norm->apart, p.weight += norm->piece;
  }
  flush_slopes(&of, sum_e, sum_ez);
}

INLINE void give_gradient(const piece *p, float mean_e, float mean_ez, int64_t i, int64_t live, float *dx,
                          bool accumulate) {
  vec e = load_elem_some(p->dy + i, live) * load_some(p->weight + i, live);
  vec d = (e - splat(mean_e) - z_at(p, i, live) * mean_ez) * p->r;
  store_some(dx + i, accumulate ? load_some(dx + i, live) + d : d, live);
}

static void row_backward(const ronde__row_norm *norm, const piece *first, float *dx, bool accumulate) {
  double sum_e = 0, sum_ez = 0;
  piece p = *first;
  gradient_sums(norm, first, &sum_e, &sum_ez);
  float mean_e = norm->centred ? (float)(sum_e / (double)norm->n) : 0, mean_ez = (float)(sum_ez / (double)norm->n);
  for (int64_t at = 0; at < norm->n; at += norm->piece) {
    int64_t n = ronde__min(norm->piece, norm->n - at), i = 0;
    for (; i + LANES <= n; i += LANES) give_gradient(&p, mean_e, mean_ez, i, LANES, dx, accumulate);
    if (i < n) give_gradient(&p, mean_e, mean_ez, i, n - i, dx, accumulate);
    p.x += norm->apart, p.dy += norm->apart, p.weight += norm->piece, dx += norm->apart;
  }
}

static void backward(const ronde__row_norm *norm, const float *x, const void *dy, const float *statistics, int64_t rows,
                     float *dx, bool accumulate) {
  for (int64_t row = 0; row < rows; row++) {
    const int64_t at = row * norm->ld;
    const piece p = {x + at, (const elem *)dy + at, norm->weight, statistics[2 * row], statistics[2 * row + 1]};
    row_backward(norm, &p, dx + at, accumulate);
  }
}

INLINE void add_columns(const float *x, const elem *dy, const float *statistics, int64_t ld, int64_t rows,
                        const int vecs, int64_t live, float *dweight, float *dbias) {
  vec total[COLUMN_VECS], total_z[COLUMN_VECS];
  UNROLL
  for (int v = 0; v < vecs; v++) total[v] = total_z[v] = (vec){0};
  for (int64_t left = rows; left > 0; left -= CHUNK_ROWS) {
    vec sum[COLUMN_VECS], sum_z[COLUMN_VECS];
    UNROLL
    for (int v = 0; v < vecs; v++) sum[v] = sum_z[v] = (vec){0};
    for (int64_t r = ronde__min(left, CHUNK_ROWS); r > 0; r--, x += ld, dy += ld, statistics += 2) {
      const piece p = {x, dy, NULL, statistics[0], statistics[1]};
      UNROLL
      for (int v = 0; v < vecs; v++) {
        vec d = load_elem_some(dy + v * LANES, live);
        sum[v] += d;
        sum_z[v] += d * z_at(&p, v * LANES, live);
      }
    }
    UNROLL
    for (int v = 0; v < vecs; v++) {
      total[v] += sum[v];
      total_z[v] += sum_z[v];
    }
  }
  UNROLL
  for (int v = 0; v < vecs; v++) {
    if (dweight) store_some(dweight + v * LANES, load_some(dweight + v * LANES, live) + total_z[v], live);
    if (dbias) store_some(dbias + v * LANES, load_some(dbias + v * LANES, live) + total[v], live);
  }
}

/* Of n elements of a piece. */
static void piece_sums(const float *x, const elem *dy, const float *statistics, int64_t ld, int64_t rows, int64_t n,
                       float *dweight, float *dbias) {
  const int64_t rows_max = CHUNK_ROWS * CHUNK_ROWS;
  for (int64_t r = 0; r < rows; r += rows_max, x += rows_max * ld, dy += rows_max * ld, statistics += 2 * rows_max) {
    int64_t some = ronde__min(rows_max, rows - r), j = 0;
#define AT(p) ((p) ? (p) + j : NULL)
    for (; j + COLUMN_VECS * LANES <= n; j += COLUMN_VECS * LANES)
      add_columns(x + j, dy + j, statistics, ld, some, COLUMN_VECS, LANES, AT(dweight), AT(dbias));
    for (; j < n; j += LANES)
      add_columns(x + j, dy + j, statistics, ld, some, 1, ronde__min(LANES, n - j), AT(dweight), AT(dbias));
#undef AT
  }
}

static void sums(const ronde__row_norm *norm, const float *x, const void *dy, const float *statistics, int64_t rows,
                 int64_t begin, int64_t end, float *dweight, float *dbias) {
  for (int64_t i = begin, next; i < end; i = next) {
    const int64_t number = i / norm->piece, at = number * norm->apart + i % norm->piece;
    next = ronde__min(end, (number + 1) * norm->piece);
    piece_sums(x + at, (const elem *)dy + at, statistics, norm->ld, rows, next - i,
               dweight ? dweight + i - begin : NULL, dbias ? dbias + i - begin : NULL);
  }
}

const ronde__row_norm_kernels NAME(row_norm) = {.forward = forward, .backward = backward, .sums = sums};

/* Convolution in groups of channels, between rows [rows][block] of channels, a row for each example of a pixel. Channel j
 * meets the channels of its own group, j / group * group + k: with one channel a group (depthwise) the vectors as they lie,
 * with groups narrower than a vector permuted ones, and with wider groups one value in all lanes. */
#include "kernel/simd.h"

enum { PLAIN, PERMUTED, SPLAT }; /* how a vector of inputs comes about */
enum { TILE = RONDE__GROUPED_COLUMNS, GROUP = 16, PIECE_ROWS = 64 };

#if RONDE_VECTOR_BYTES == 64
INLINE vec permute(vec x, ivec index) { return (vec)_mm512_permutexvar_ps((__m512i)index, (__m512)x); }
#elif RONDE_VECTOR_BYTES == 32
INLINE vec permute(vec x, ivec index) { return (vec)_mm256_permutevar8x32_ps((__m256)x, (__m256i)index); }
#else
INLINE vec permute(vec x, ivec index) {
  vec y;
  for (int i = 0; i < LANES; i++) y[i] = x[index[i]];
  return y;
}
#endif

/* Lane i: the first channel of its group. */
INLINE ivec first_of_group(int group) {
  ivec index;
  for (int i = 0; i < LANES; i++) index[i] = i & -group;
  return index;
}

/* The inputs that channels [j, j + LANES) of a row have in place k of their groups; index: of that place. */
INLINE vec inputs(const int mode, const elem *x, int64_t j, int group, int k, ivec index) {
  if (mode == PLAIN) return load_elem(x + j);
  if (mode == PERMUTED) return permute(load_elem(x + j), index);
  return splat(widened(x[j / group * group + k]));
}

INLINE int mode_of(int group) { return group == 1 ? PLAIN : group < LANES ? PERMUTED : SPLAT; }

/* ---- tiles of outputs ---- */

/* Adds a row of inputs to one row of outputs, or to two, whose weights are w[0] and w[1]. */
INLINE void add_row(const int kw, const int stride, const int mode, const int from, const int to,
                    const ronde__grouped_tile *t, const elem *x, int64_t j, int k, ivec index, const float *const w[2],
                    vec sum[2][TILE]) {
  UNROLL
  for (int c = 0; c < (TILE - 1) * stride + kw; c++) {
    vec v = inputs(mode, x + c * t->x_column, j, t->group, k, index);
    UNROLL
    for (int p = 0; p < TILE; p++) {
      const int tap = c - p * stride;
      if (tap < 0 || tap >= kw) continue;
      UNROLL
      for (int q = from; q < to; q++) sum[q][p] += v * load(w[q] + tap * t->w_column);
    }
  }
}

INLINE void tile(const int kw, const int stride, const int mode, const ronde__grouped_tile *t) {
  const ivec first = first_of_group(mode == PERMUTED ? t->group : 1);
  const int group = mode == PLAIN ? 1 : t->group, below = t->stride[0];
  for (int64_t r = 0; r < t->n; r++)
    for (int64_t j = 0; j < t->block; j += LANES) {
      vec sum[2][TILE] = {0};
      elem *y = (elem *)t->y + r * t->block + j;
      for (int q = 0; q < t->rows && t->accumulate; q++) {
        UNROLL
        for (int p = 0; p < TILE; p++) sum[q][p] = load_elem(y + q * t->y_row + p * t->y_column);
      }
      for (int i = t->begin; i < t->end; i++) {
        const bool upper = i < t->taps[0], lower = t->rows == 2 && i >= below && i - below < t->taps[0];
        const elem *x = (const elem *)t->x + i * t->x_row + r * t->block;
        ivec index = first;
        for (int k = 0; k < group; k++, index += 1) {
          const float *own = t->w + i * t->w_row + k * t->w_input + j;
          const float *const w[2] = {own, own - below * t->w_row};
          if (upper && lower) add_row(kw, stride, mode, 0, 2, t, x, j, k, index, w, sum);
          else if (upper) add_row(kw, stride, mode, 0, 1, t, x, j, k, index, w, sum);
          else if (lower) add_row(kw, stride, mode, 1, 2, t, x, j, k, index, w, sum);
        }
      }
      for (int q = 0; q < t->rows && t->bias; q++) {
        UNROLL
        for (int p = 0; p < TILE; p++) sum[q][p] += load(t->bias + j);
      }
      for (int q = 0; q < t->rows; q++) {
        UNROLL
        for (int p = 0; p < TILE; p++) store_elem(y + q * t->y_row + p * t->y_column, sum[q][p]);
      }
    }
}

static void depthwise_tile(const ronde__grouped_tile *t) {
  switch (t->stride[1] * 8 + t->taps[1]) {
  case 8 + 1: tile(1, 1, PLAIN, t); break;
  case 8 + 2: tile(2, 1, PLAIN, t); break;
  case 8 + 3: tile(3, 1, PLAIN, t); break;
  case 8 + 4: tile(4, 1, PLAIN, t); break;
  case 8 + 5: tile(5, 1, PLAIN, t); break;
  case 8 + 7: tile(7, 1, PLAIN, t); break;
  case 16 + 3: tile(3, 2, PLAIN, t); break;
  case 16 + 5: tile(5, 2, PLAIN, t); break;
  default: tile(7, 2, PLAIN, t);
  }
}

INLINE void grouped_tile(const int mode, const ronde__grouped_tile *t) {
  switch (t->stride[1] * 8 + t->taps[1]) {
  case 8 + 1: tile(1, 1, mode, t); break;
  case 8 + 2: tile(2, 1, mode, t); break;
  case 8 + 3: tile(3, 1, mode, t); break;
  case 16 + 1: tile(1, 2, mode, t); break;
  default: tile(3, 2, mode, t);
  }
}

static void any_tile(const ronde__grouped_tile *t) {
  switch (mode_of(t->group)) {
  case PLAIN: depthwise_tile(t); break;
  case PERMUTED: grouped_tile(PERMUTED, t); break;
  default: grouped_tile(SPLAT, t);
  }
}

/* ---- rows of outputs by lists of taps ---- */

/* LANES channels of some rows: a weight is read once for all of them. */
INLINE void taps_of_rows(const int rows, const int mode, const ronde__grouped_rows *a, int64_t r, int64_t j) {
  enum { MAX_ROWS = 8 };
  const ivec first = first_of_group(mode == PERMUTED ? a->group : 1);
  const int group = mode == PLAIN ? 1 : a->group;
  vec sum[MAX_ROWS];
  elem *y = (elem *)a->y + r * a->block + j;
  UNROLL
  for (int i = 0; i < rows; i++) sum[i] = a->accumulate ? load_elem(y + i * a->block) : (vec){0};
  for (int64_t t = 0; t < a->count; t++) {
    const elem *from = (const elem *)a->x + a->x_offsets[t] + r * a->block;
    const float *weight = a->w + a->w_offsets[t] + j;
    ivec index = first;
    for (int k = 0; k < group; k++, index += 1) {
      vec factor = load(weight + k * a->w_input);
      UNROLL
      for (int i = 0; i < rows; i++) sum[i] += inputs(mode, from + i * a->block, j, group, k, index) * factor;
    }
  }
  UNROLL
  for (int i = 0; i < rows; i++) store_elem(y + i * a->block, a->bias ? sum[i] + load(a->bias + j) : sum[i]);
}

INLINE void all_rows(const int mode, const ronde__grouped_rows *a) {
  for (int64_t j = 0; j < a->block; j += LANES) {
    int64_t r = 0;
    for (; r + 8 <= a->rows; r += 8) taps_of_rows(8, mode, a, r, j);
    for (; r < a->rows; r++) taps_of_rows(1, mode, a, r, j);
  }
}

static void any_rows(const ronde__grouped_rows *a) {
  switch (mode_of(a->group)) {
  case PLAIN: all_rows(PLAIN, a); break;
  case PERMUTED: all_rows(PERMUTED, a); break;
  default: all_rows(SPLAT, a);
  }
}

/* ---- gradients of weights ---- */

/* The sums of kh rows of kw taps each, in place k of the groups, over examples [r0, r1) of some tiles. */
INLINE void weight_sums(const int kh, const int kw, const int stride, const int mode, const ronde__grouped_weights *a,
                        int64_t j, int k, ivec index, int64_t tile0, int64_t tile1, int64_t r0, int64_t r1) {
  vec sum[3][7] = {0};
  for (int64_t tile = tile0; tile < tile1; tile++) {
    const elem *x = (const elem *)a->x + tile * TILE * stride * a->x_column;
    const elem *dy = (const elem *)a->dy + tile * TILE * a->dy_column + j;
    for (int64_t r = r0; r < r1; r++) {
      vec d[TILE];
      UNROLL
      for (int p = 0; p < TILE; p++) d[p] = load_elem(dy + p * a->dy_column + r * a->block);
      UNROLL
      for (int i = 0; i < kh; i++) {
        UNROLL
        for (int c = 0; c < (TILE - 1) * stride + kw; c++) {
          vec v = inputs(mode, x + i * a->x_row + c * a->x_column + r * a->block, j, a->group, k, index);
          UNROLL
          for (int p = 0; p < TILE; p++)
            if (c - p * stride >= 0 && c - p * stride < kw) sum[i][c - p * stride] += d[p] * v;
        }
      }
    }
  }
  float *dw = a->dw + k * a->w_input + j;
  UNROLL
  for (int i = 0; i < kh; i++) {
    UNROLL
    for (int t = 0; t < kw; t++)
      store(dw + i * a->w_row + t * a->w_column, load(dw + i * a->w_row + t * a->w_column) + sum[i][t]);
  }
}

/* In pieces, so that errors do not grow with the length. */
INLINE void weights(const int kh, const int kw, const int stride, const int mode, const ronde__grouped_weights *a) {
  int64_t tiles = ronde__max(1, PIECE_ROWS / a->n);
  for (int64_t j = a->channel; j < a->channel + GROUP; j += LANES) {
    ivec index = first_of_group(mode == PERMUTED ? a->group : 1);
    for (int k = 0; k < (mode == PLAIN ? 1 : a->group); k++, index += 1)
      for (int64_t tile = 0; tile < a->tiles; tile += tiles)
        for (int64_t r = 0; r < a->n; r += PIECE_ROWS)
          weight_sums(kh, kw, stride, mode, a, j, k, index, tile, ronde__min(tile + tiles, a->tiles), r,
                      ronde__min(r + PIECE_ROWS, a->n));
  }
}

static void depthwise_weights(const ronde__grouped_weights *a) {
  switch (a->stride * 64 + a->taps[0] * 8 + a->taps[1]) {
  case 64 + 8 + 3: weights(1, 3, 1, PLAIN, a); break;
  case 64 + 24 + 3: weights(3, 3, 1, PLAIN, a); break;
  case 64 + 8 + 5: weights(1, 5, 1, PLAIN, a); break;
  case 64 + 16 + 5: weights(2, 5, 1, PLAIN, a); break;
  case 64 + 8 + 7: weights(1, 7, 1, PLAIN, a); break;
  case 128 + 8 + 3: weights(1, 3, 2, PLAIN, a); break;
  case 128 + 24 + 3: weights(3, 3, 2, PLAIN, a); break;
  case 128 + 8 + 5: weights(1, 5, 2, PLAIN, a); break;
  case 128 + 16 + 5: weights(2, 5, 2, PLAIN, a); break;
  default: weights(1, 7, 2, PLAIN, a);
  }
}

INLINE void grouped_weights(const int mode, const ronde__grouped_weights *a) {
  switch (a->stride * 64 + a->taps[0] * 8 + a->taps[1]) {
  case 64 + 8 + 1: weights(1, 1, 1, mode, a); break;
  case 64 + 8 + 3: weights(1, 3, 1, mode, a); break;
  case 64 + 24 + 3: weights(3, 3, 1, mode, a); break;
  case 128 + 8 + 1: weights(1, 1, 2, mode, a); break;
  case 128 + 8 + 3: weights(1, 3, 2, mode, a); break;
  default: weights(3, 3, 2, mode, a);
  }
}

static void any_weights(const ronde__grouped_weights *a) {
  switch (mode_of(a->group)) {
  case PLAIN: depthwise_weights(a); break;
  case PERMUTED: grouped_weights(PERMUTED, a); break;
  default: grouped_weights(SPLAT, a);
  }
}

/* Even and odd rows have sums of their own, so that an addition need not wait for the one before. Sums are taken in
 * pieces, so that errors do not grow with the length. */
INLINE void dots(const int mode, const ronde__grouped_dots *a, int64_t j, int k, ivec index) {
  enum { PIECE = 128 };
  const elem *dy = a->dy, *x = a->x;
  float *out = a->out + k * a->w_input + j;
  vec total = load(out);
  for (int64_t r0 = 0; r0 < a->rows; r0 += PIECE) {
    vec sum[2] = {0};
    int64_t end = ronde__min(r0 + PIECE, a->rows), r = r0;
    for (; r + 2 <= end; r += 2) {
      UNROLL
      for (int i = 0; i < 2; i++)
        sum[i] += load_elem(dy + (r + i) * a->block + j) * inputs(mode, x + (r + i) * a->block, j, a->group, k, index);
    }
    if (r < end) sum[0] += load_elem(dy + r * a->block + j) * inputs(mode, x + r * a->block, j, a->group, k, index);
    total += sum[0] + sum[1];
  }
  store(out, total);
}

INLINE void all_dots(const int mode, const ronde__grouped_dots *a) {
  for (int64_t j = a->channel; j < a->channel + GROUP; j += LANES) {
    ivec index = first_of_group(mode == PERMUTED ? a->group : 1);
    for (int k = 0; k < (mode == PLAIN ? 1 : a->group); k++, index += 1) dots(mode, a, j, k, index);
  }
}

static void any_dots(const ronde__grouped_dots *a) {
  switch (mode_of(a->group)) {
  case PLAIN: all_dots(PLAIN, a); break;
  case PERMUTED: all_dots(PERMUTED, a); break;
  default: all_dots(SPLAT, a);
  }
}

const ronde__grouped_kernels NAME(grouped) = {
    .tile = any_tile, .rows = any_rows, .weights = any_weights, .dots = any_dots};

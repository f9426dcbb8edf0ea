/* A softmax over a row, in two parts. Tiles of a softmax over rows, in which a lane is a column: tiles one below the other become one
 * softmax. A column sees the rows of a tile up to `reach` beyond its own number. */
#include "kernel/simd_math.h"

#include <math.h>

typedef double wide __attribute__((vector_size(2 * RONDE_VECTOR_BYTES)));

float NAME(largest)(const float *x, int64_t n) {
  vec most[MOST];
  float lanes[LANES], all = -INFINITY;
  int64_t i = 0;
  UNROLL
  for (int v = 0; v < MOST; v++) most[v] = splat(-INFINITY);
  for (; i + MOST * LANES <= n; i += MOST * LANES) {
    UNROLL
    for (int v = 0; v < MOST; v++) {
      vec next = load(x + i + v * LANES);
      most[v] = blend(next > most[v], next, most[v]);
    }
  }
  UNROLL
  for (int v = 0; v < MOST; v++) {
    store(lanes, most[v]);
    for (int l = 0; l < LANES; l++) all = lanes[l] > all ? lanes[l] : all;
  }
  for (; i < n; i++) all = x[i] > all ? x[i] : all;
  return all;
}

/* Of `n` vectors, `live` lanes of each. */
INLINE void exp_shifted(const int n, float *x, vec shift, int64_t live, wide *sum) {
  vec e[MOST];
  EACH e[i] = load_some(x + i * LANES, live) - shift;
  exp_each(n, e);
  EACH store_some(x + i * LANES, e[i], live);
  EACH sum[i] += __builtin_convertvector(load_some(x + i * LANES, live), wide);
}

double NAME(exp_sum)(float *x, float shift, int64_t n) {
  wide sum[MOST] = {{0}};
  double total = 0;
  int64_t i = 0;
  for (; i + MOST * LANES <= n; i += MOST * LANES) exp_shifted(MOST, x + i, splat(shift), LANES, sum);
  for (; i < n; i += LANES) exp_shifted(1, x + i, splat(shift), ronde__min(LANES, n - i), sum);
  sum[0] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  for (int l = 0; l < LANES; l++) total += sum[0][l];
  return total;
}

/* Of a vector of columns: the first `all` rows are seen by all of its lanes, those up to `some` by its last ones. */
typedef struct sight {
  int64_t all, some;
  vec own; /* the row that a lane sees last */
} sight;

INLINE int64_t within(int64_t x, int64_t rows) { return x < 0 ? 0 : ronde__min(x, rows); }

INLINE sight sight_of(int64_t rows, int64_t column, int64_t live, int64_t reach) {
  float own[LANES];
  for (int l = 0; l < LANES; l++) own[l] = (float)(column + reach + l);
  return (sight){within(column + reach + 1, rows), within(column + reach + live, rows), load(own)};
}

INLINE vec largest_seen(const float *x, int64_t ld, int64_t live, const sight *s) {
  vec most = splat(-INFINITY);
  for (int64_t r = 0; r < s->some; r++) {
    vec row = load_some(x + r * ld, live);
    ivec larger = row > most;
    if (r >= s->all) larger &= s->own >= (float)r;
    most = blend(larger, row, most);
  }
  return most;
}

/* exp(factor * row - shift) of `n` rows from r on; what is not seen becomes zero. */
INLINE void exp_rows(const int n, const float *x, int64_t ld, int64_t live, int64_t r, float factor, vec shift,
                     const sight *s, vec *e) {
  UNROLL
  for (int i = 0; i < n; i++) e[i] = load_some(x + (r + i) * ld, live) * factor - shift;
  exp_each(n, e);
  if (r >= s->all) e[0] = blend(s->own >= (float)r, e[0], (vec){0});
}

INLINE void clear_rows(float *x, int64_t ld, int64_t from, int64_t rows, int64_t live) {
  for (int64_t r = from; r < rows; r++) store_some(x + r * ld, (vec){0}, live);
}

void NAME(softmax_columns)(float *x, int64_t ld, int64_t rows, int64_t n, int64_t reach, float factor, float *most,
                           float *sum, float *changed) {
  for (int64_t c = 0; c < n; c += LANES) {
    int64_t live = ronde__min(LANES, n - c), r = 0;
    sight s = sight_of(rows, c, live, reach);
    vec before = load_some(most + c, live), largest = largest_seen(x + c, ld, live, &s) * factor;
    largest = blend(largest > before, largest, before);
    vec change = before - largest, e[MOST];
    exp_each(1, &change);
    change = blend(before == largest, splat(1), change); /* both may be -INFINITY */
    vec total = load_some(sum + c, live) * change;
    for (; r + MOST <= s.all; r += MOST) {
      exp_rows(MOST, x + c, ld, live, r, factor, largest, &s, e);
      UNROLL
      for (int i = 0; i < MOST; i++) {
        store_some(x + c + (r + i) * ld, e[i], live);
        total += e[i];
      }
    }
    for (; r < s.some; r++) {
      exp_rows(1, x + c, ld, live, r, factor, largest, &s, e);
      store_some(x + c + r * ld, e[0], live);
      total += e[0];
    }
    clear_rows(x + c, ld, s.some, rows, live);
    store_some(most + c, largest, live);
    store_some(sum + c, total, live);
    store_some(changed + c, change, live);
  }
}

void NAME(scale_columns)(float *x, int64_t ld, int64_t rows, int64_t n, const float *factor) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < n; c++) x[r * ld + c] *= factor[c];
}

INLINE void slope_row(float *x, float *dx, vec p, vec shift, float factor, int64_t live) {
  store_some(x, p, live);
  store_some(dx, p * ((load_some(dx, live) - shift) * factor), live);
}

void NAME(softmax_columns_backward)(float *x, float *dx, int64_t ld, int64_t rows, int64_t n, int64_t reach,
                                    float factor, const float *shift, const float *dx_shift) {
  for (int64_t c = 0; c < n; c += LANES) {
    int64_t live = ronde__min(LANES, n - c), r = 0;
    sight s = sight_of(rows, c, live, reach);
    vec of_x = load_some(shift + c, live), of_dx = load_some(dx_shift + c, live), p[MOST];
    for (; r + MOST <= s.all; r += MOST) {
      exp_rows(MOST, x + c, ld, live, r, factor, of_x, &s, p);
      UNROLL
      for (int i = 0; i < MOST; i++) slope_row(x + c + (r + i) * ld, dx + c + (r + i) * ld, p[i], of_dx, factor, live);
    }
    for (; r < s.some; r++) {
      exp_rows(1, x + c, ld, live, r, factor, of_x, &s, p);
      ivec seen = s.own >= (float)r;
      float *at = dx + c + r * ld;
      vec slope = blend(seen, p[0] * ((load_some(at, live) - of_dx) * factor), (vec){0});
      store_some(x + c + r * ld, p[0], live);
      store_some(at, slope, live);
    }
    clear_rows(x + c, ld, s.some, rows, live);
    clear_rows(dx + c, ld, s.some, rows, live);
  }
}

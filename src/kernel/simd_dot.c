/* Weight gradients with the batch in the lanes: a table of dot products of a's planes with b's, in register tiles. Rows
 * are taken in chunks that stay in the near caches; a chunk's sums are added to out, which also keeps rounding errors
 * of long sums small. */
#include "kernel/simd.h"

/* As many sums as leave registers for one vector of each plane of a in the tile and one of b. */
#if RONDE_VECTOR_BYTES == 64
enum { TILE_M = 5, TILE_K = 6, SUMS = 25 };
#elif defined __aarch64__
enum { TILE_M = 4, TILE_K = 6, SUMS = 20 };
#else
enum { TILE_M = 4, TILE_K = 6, SUMS = 12 };
#endif
enum { CHUNK = 4096 };

/* Loads a vector that is used several times once; GCC would read it from memory for every use. */
#ifdef __x86_64__
#define IN_REGISTER(x) __asm__("" : "+v"(x))
#else
#define IN_REGISTER(x) __asm__("" : "+w"(x))
#endif

typedef struct planes {
  const float *a, *b;
  int64_t a_stride, b_stride, a_row, b_row, rows, len;
  float *out;
  int64_t ldo;
} planes;

/* Of the first `live` floats at e. */
INLINE void add_products(const int m, const int k, const float *const a[TILE_M], const float *const b[TILE_K],
                         int64_t e, int64_t live, vec sum[TILE_M][TILE_K]) {
  vec x[TILE_M];
  UNROLL
  for (int i = 0; i < m; i++) x[i] = load_some(a[i] + e, live);
  UNROLL
  for (int j = 0; j < k; j++) {
    vec y = load_some(b[j] + e, live);
    IN_REGISTER(y);
    UNROLL
    for (int i = 0; i < m; i++) sum[i][j] += x[i] * y;
  }
}

INLINE void tile(const int m, const int k, const planes *p) {
  vec sum[TILE_M][TILE_K];
  UNROLL
  for (int i = 0; i < m; i++) {
    UNROLL
    for (int j = 0; j < k; j++) sum[i][j] = (vec){0};
  }
  const int64_t rest = p->len % LANES, whole = p->len - rest;
  for (int64_t r = 0; r < p->rows; r++) {
    const float *a[TILE_M], *b[TILE_K];
    UNROLL
    for (int i = 0; i < m; i++) a[i] = p->a + i * p->a_stride + r * p->a_row;
    UNROLL
    for (int j = 0; j < k; j++) b[j] = p->b + j * p->b_stride + r * p->b_row;
    for (int64_t e = 0; e < whole; e += LANES) add_products(m, k, a, b, e, LANES, sum);
    if (rest) add_products(m, k, a, b, whole, rest, sum);
  }
  UNROLL
  for (int i = 0; i < m; i++) {
    UNROLL
    for (int j = 0; j < k; j++) p->out[i * p->ldo + j] += lane_sum(sum[i][j]);
  }
}

#define GRID(X) ROW(X, 1) ROW(X, 2) ROW(X, 3) ROW(X, 4) ROW(X, 5)
#define ROW(X, m) X(m, 1) X(m, 2) X(m, 3) X(m, 4) X(m, 5) X(m, 6)
#define TILE(m, k)                                   \
  static void tile_##m##x##k(const planes *p) {      \
    if (m <= TILE_M && m * k <= SUMS) tile(m, k, p); \
  }
GRID(TILE)
#define ENTRY(m, k) [m][k] = tile_##m##x##k,
static void (*const tiles[6][7])(const planes *p) = {GRID(ENTRY)};

/* Tiles of so many columns over m rows. */
static int tiles_of(int m, int width) {
  int height_max = SUMS / width < TILE_M ? SUMS / width : TILE_M;
  return (m + height_max - 1) / height_max;
}

static int columns_of(int k) { return (k + TILE_K - 1) / TILE_K; }

/* All m x k products over one chunk, in tiles of nearly equal size. */
static void dot_run_chunk(const planes *whole, int m, int k) {
  planes p = *whole;
  int n_k = columns_of(k);
  for (int j = 0, kj = 0; j < n_k; j++) {
    int width = k / n_k + (j < k % n_k), n_m = tiles_of(m, width);
    for (int i = 0, mi = 0; i < n_m; i++) {
      int height = m / n_m + (i < m % n_m);
      p.a = whole->a + mi * p.a_stride;
      p.b = whole->b + kj * p.b_stride;
      p.out = whole->out + mi * p.ldo + kj;
      tiles[height][width](&p);
      mi += height;
    }
    kj += width;
  }
}

void NAME(dot_tile)(const float *a, int64_t a_stride, int64_t a_row, int m, const float *b, int64_t b_stride,
                    int64_t b_row, int k, int64_t rows, int64_t len, float *out, int64_t ldo, bool accumulate) {
  planes p = {.a_stride = a_stride, .b_stride = b_stride, .a_row = a_row, .b_row = b_row, .out = out, .ldo = ldo};
  if (!accumulate)
    for (int i = 0; i < m; i++) memset(out + i * ldo, 0, (size_t)k * sizeof(float));
  int64_t rows_max = ronde__max(1, CHUNK / ronde__max(len, 1));
  for (int64_t r = 0; r < rows; r += rows_max)
    for (int64_t e = 0; e < len; e += CHUNK) {
      p.a = a + r * a_row + e;
      p.b = b + r * b_row + e;
      p.rows = ronde__min(rows_max, rows - r);
      p.len = ronde__min(CHUNK, len - e);
      dot_run_chunk(&p, m, k);
    }
}

int NAME(dot_planes)(int m, int k) {
  int n_k = columns_of(k), n_m = tiles_of(m, (k + n_k - 1) / n_k);
  return (m + n_m - 1) / n_m;
}

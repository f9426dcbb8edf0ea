/* Ronde's own batch-reduce GEMM. C is cut into panels of two to four vectors of columns and tiles of ROWS rows,
 * whose sums stay in registers over a chunk of the reduction (some terms, or a part of a long k); a chunk's panel of
 * B stays in the first cache while all rows pass over it. Sums of chunks are added to C, which also keeps rounding
 * errors of long reductions small. The sums of a row depend on that row of A alone, never on m.
 * Source: Goto & van de Geijn, "Anatomy of high-performance matrix multiplication", TOMS 2008 (panels and register
 * tiles); Georganas et al., "Harnessing deep learning via a single building block", IPDPS 2020 (batch-reduce). */
#include "kernel/simd.h"

/* As many rows as leave registers for two vectors of B and one broadcast; fewer rows take more vectors. */
#if RONDE_VECTOR_BYTES == 64
#define ROWS 14
enum { CHUNK = 192 };
#elif defined __aarch64__
#define ROWS 8 /* compilers load all broadcasts of a step at once */
enum { CHUNK = 256 };
#elif RONDE_VECTOR_BYTES == 32
#define ROWS 6
enum { CHUNK = 256 };
#else
#define ROWS 5 /* without fused multiply-add the product takes a register too */
enum { CHUNK = 256 };
#endif

/* Whole panels of four vectors have so few rows that their sums leave registers for a row of B, and chunks that fit 32 KB. */
#if RONDE_VECTOR_BYTES == 64
#define WIDE_ROWS 6
enum { WIDE_CHUNK = 128 };
#endif

/* One chunk of one panel; c has the tile's rows. */
typedef struct gemm_panel {
  const float *a, *b;
  const uint64_t *a_offsets, *b_offsets;
  int64_t lda, ldb, ldc, count, k;
  int64_t last; /* where its last vector begins, which may overlap the one before: it ends with the row */
  float *c;
  bool add;
  const char *fetched; /* wide tiles: the next line to fetch, */
  int64_t line;        /* and the bytes to the one behind it */
} gemm_panel;

INLINE const float *at(const float *p, uint64_t bytes) { return (const float *)((const char *)p + bytes); }

/* The rows of A are reached from one pointer for every three, by scaled indices: few pointers to move. */
enum { POINTERS = (ROWS + 2) / 3, VECS = 4 };
/* Of the reduction, to a line that is fetched: two streams of memory beside a product of a hundred rows. */
enum { STEPS = 4 };

#define COLUMN(v) ((v) < vecs - 1 ? (v)*LANES : p.last)

/* sum += one column of A times one row of B. */
INLINE void tile_step(const int rows, const int vecs, const bool trans_a, const gemm_panel p, const float *const *a,
                      const float *b, vec (*sum)[VECS]) {
  vec row[VECS];
  UNROLL
  for (int v = 0; v < vecs; v++) row[v] = load(b + COLUMN(v));
  UNROLL
  for (int i = 0; i < rows; i++) {
    float x = trans_a ? a[0][i] : a[i / 3][i % 3 * p.lda];
    UNROLL
    for (int v = 0; v < vecs; v++) sum[i][v] += x * row[v];
  }
}

INLINE void tile(const int rows, const int vecs, const bool trans_a, const bool fetches, const gemm_panel *whole) {
  const gemm_panel p = *whole; /* a copy: stores to C cannot change it */
  const int64_t step = trans_a ? p.lda : 1;
  const char *fetched = p.fetched;
  vec sum[ROWS][VECS];
  UNROLL
  for (int i = 0; i < rows; i++) {
    UNROLL
    for (int v = 0; v < vecs; v++) sum[i][v] = (vec){0};
  }
  for (int64_t t = 0; t < p.count; t++) {
    const float *b = at(p.b, p.b_offsets[t]);
    const float *a[POINTERS];
    a[0] = at(p.a, p.a_offsets[t]);
    UNROLL
    for (int i = 1; i < POINTERS; i++) a[i] = trans_a ? a[0] : a[i - 1] + 3 * p.lda;
    int64_t k = p.k;
    for (; fetches && k >= STEPS; k -= STEPS) {
      __builtin_prefetch(fetched, 0, 2);
      fetched += p.line;
      UNROLL
      for (int u = 0; u < STEPS; u++) {
        tile_step(rows, vecs, trans_a, p, a, b, sum);
        b += p.ldb;
        UNROLL
        for (int i = 0; i < POINTERS; i++) a[i] += step;
      }
    }
    for (; k > 0; k--) {
      tile_step(rows, vecs, trans_a, p, a, b, sum);
      b += p.ldb;
      UNROLL
      for (int i = 0; i < POINTERS; i++) a[i] += step;
    }
  }
  if (p.add) {
    UNROLL
    for (int i = 0; i < rows; i++) {
      UNROLL
      for (int v = 0; v < vecs; v++) sum[i][v] += load(p.c + i * p.ldc + COLUMN(v));
    }
  }
  UNROLL
  for (int i = 0; i < rows; i++) {
    UNROLL
    for (int v = 0; v < vecs; v++) store(p.c + i * p.ldc + COLUMN(v), sum[i][v]);
  }
}

/* Few rows take wider panels: more sums under way than one multiply-add takes cycles, and fewer loads for each. */
#if RONDE_VECTOR_BYTES == 64
#define EACH(X) \
  X(1, 4) X(2, 4) X(3, 4) X(4, 4) X(5, 4) X(6, 4) X(7, 3) X(8, 3) X(9, 3) X(10, 2) X(11, 2) X(12, 2) X(13, 2) X(14, 2)
#elif defined __aarch64__
#define EACH(X) X(1, 4) X(2, 4) X(3, 4) X(4, 2) X(5, 2) X(6, 2) X(7, 2) X(8, 2)
#elif RONDE_VECTOR_BYTES == 32
#define EACH(X) X(1, 4) X(2, 4) X(3, 4) X(4, 2) X(5, 2) X(6, 2)
#else
#define EACH(X) X(1, 4) X(2, 4) X(3, 4) X(4, 2) X(5, 2)
#endif

/* Tiles of one vector up to the widest. */
#define FN(rows, vecs)                                                                         \
  static void tile_##rows##_##vecs(const gemm_panel *p) { tile(rows, vecs, false, false, p); } \
  static void tile_trans_##rows##_##vecs(const gemm_panel *p) { tile(rows, vecs, true, false, p); }
#define FNS_2(rows) FN(rows, 1) FN(rows, 2)
#define FNS_3(rows) FNS_2(rows) FN(rows, 3)
#define FNS_4(rows) FNS_3(rows) FN(rows, 4)
#define FNS(rows, vecs) FNS_##vecs(rows)
EACH(FNS)

typedef void (*tile_fn)(const gemm_panel *p);
#define NAMES_2(name) name##_1, name##_2
#define NAMES_3(name) NAMES_2(name), name##_3
#define NAMES_4(name) NAMES_3(name), name##_4
#define ENTRY(rows, vecs) [rows] = {{NAMES_##vecs(tile_##rows)}, {NAMES_##vecs(tile_trans_##rows)}},
static const tile_fn tiles[ROWS + 1][2][VECS] = {EACH(ENTRY)}; /* by rows, trans_a, vectors less one */
#define WIDEST(rows, vecs) [rows] = vecs,
static const int widest[ROWS + 1] = {EACH(WIDEST)};

#ifdef WIDE_ROWS
#define WIDE_EACH(X) X(1) X(2) X(3) X(4) X(5) X(6)
#define WIDE(rows)                                                                   \
  static void wide_##rows(const gemm_panel *p) { tile(rows, VECS, false, true, p); } \
  static void wide_trans_##rows(const gemm_panel *p) { tile(rows, VECS, true, true, p); }
WIDE_EACH(WIDE)
#define WIDE_ENTRY(rows) [rows] = {wide_##rows, wide_trans_##rows},
static const tile_fn wide_tiles[WIDE_ROWS + 1][2] = {WIDE_EACH(WIDE_ENTRY)}; /* by rows, trans_a */

/* Has the tile fetch the lines that come next. */
static void fetch_some(gemm_panel *p, ronde__ahead *ahead) {
  p->line = 0;
  const char *next = ronde__ahead_take(ahead, p->count * (p->k / STEPS), &p->line);
  p->fetched = next ? next : (const char *)p->a;
}

/* Columns in whole panels of VECS vectors. */
static bool is_wide(const ronde__gemm_shape *s) { return s->n % (VECS * LANES) == 0; }

static void gemm_run_wide(const ronde__gemm_shape *s, const gemm_panel *chunk, ronde__ahead *ahead) {
  const int n_tiles = (int)ronde__ceil_div(s->m, WIDE_ROWS);
  for (int column = 0; column < s->n; column += VECS * LANES) {
    gemm_panel p = *chunk;
    p.b += column;
    p.c += column;
    p.last = (VECS - 1) * LANES;
    for (int i = 0; i < n_tiles; i++) {
      int rows = s->m / n_tiles + (i < s->m % n_tiles);
      fetch_some(&p, ahead);
      wide_tiles[rows][s->trans_a](&p);
      p.a += s->trans_a ? rows : rows * p.lda;
      p.c += rows * p.ldc;
    }
  }
}
#endif

static int n_tiles_of(int m) { return (int)ronde__ceil_div(m, ROWS); }

/* All m rows of a panel of vecs vectors, in tiles of nearly equal height. */
static void gemm_run_panel(const gemm_panel *whole, int m, int vecs, bool trans_a) {
  gemm_panel p = *whole;
  int n_tiles = n_tiles_of(m);
  for (int i = 0; i < n_tiles; i++) {
    int rows = m / n_tiles + (i < m % n_tiles);
    tiles[rows][trans_a][vecs - 1](&p);
    p.a += trans_a ? rows : rows * p.lda;
    p.c += rows * p.ldc;
  }
}

/* Rows of n < LANES columns: B is copied into a padded panel, C goes through a tile of its own. */
static void gemm_run_short(const gemm_panel *chunk, int m, int n, bool trans_a) {
  float b[CHUNK * LANES], c[ROWS * LANES];
  uint64_t b_offsets[CHUNK];
  float *packed = b;
  for (int64_t t = 0; t < chunk->count; t++) {
    b_offsets[t] = (uint64_t)(packed - b) * sizeof(float);
    const float *from = at(chunk->b, chunk->b_offsets[t]);
    for (int64_t k = 0; k < chunk->k; k++, packed += LANES) store(packed, load_some(from + k * chunk->ldb, n));
  }
  gemm_panel p = *chunk;
  p.b = b, p.b_offsets = b_offsets, p.ldb = LANES;
  p.c = c, p.ldc = LANES, p.add = false;
  float *to = chunk->c;
  for (int i = 0; i < m; i += ROWS) {
    int rows = m - i < ROWS ? m - i : ROWS;
    tiles[rows][trans_a][0](&p);
    for (int r = 0; r < rows; r++, to += chunk->ldc) {
      vec x = load(c + r * LANES);
      store_some(to, chunk->add ? load_some(to, n) + x : x, n);
    }
    p.a += trans_a ? rows : rows * p.lda;
  }
}

/* How many terms are summed in one chunk. */
static int64_t longest_chunk(const ronde__gemm_shape *s) {
#ifdef WIDE_ROWS
  if (is_wide(s)) return WIDE_CHUNK;
#endif
  return CHUNK;
}

/* Where the last vector overlaps, it shares a panel with the one that it overlaps: C is added to once. */
static void gemm_run_chunk(const ronde__gemm_shape *s, const gemm_panel *chunk, ronde__ahead *ahead) {
  gemm_panel p = *chunk;
  const int wide = widest[ronde__ceil_div(s->m, n_tiles_of(s->m))], n_vecs = (int)ronde__ceil_div(s->n, LANES);
  const int beyond = n_vecs * LANES - s->n;
#ifdef WIDE_ROWS
  if (is_wide(s)) {
    gemm_run_wide(s, chunk, ahead);
    return;
  }
#endif
  if (s->n < LANES) {
    gemm_run_short(chunk, s->m, s->n, s->trans_a);
    return;
  }
  for (int vecs, left = n_vecs; left > 0; left -= vecs) {
    vecs = left < wide ? left : wide;
    if (beyond && left - vecs == 1) vecs--;
    p.last = (vecs - 1) * LANES - (vecs == left ? beyond : 0);
    gemm_run_panel(&p, s->m, vecs, s->trans_a);
    p.b += vecs * LANES;
    p.c += vecs * LANES;
  }
}

static void gemm_clear(const ronde__gemm_shape *s, float *c) {
  for (int i = 0; i < s->m; i++) memset(c + i * s->ldc, 0, (size_t)s->n * sizeof(float));
}

void NAME(gemm_tile)(const ronde__gemm *gemm, const void *a, const uint64_t *a_offsets, const void *b,
                     const uint64_t *b_offsets, int64_t count, float *c, ronde__ahead *ahead) {
  const ronde__gemm_shape *s = &gemm->shape;
  if (count == 0 || s->k == 0) {
    if (!s->accumulate) gemm_clear(s, c);
    return;
  }
  gemm_panel p = {.lda = s->lda, .ldb = s->ldb, .ldc = s->ldc, .c = c, .add = s->accumulate};
  const int64_t most = longest_chunk(s);
  /* Chunks of nearly equal size, of whole terms or of one term. */
  int64_t terms_max = s->k < most ? most / s->k : 1;
  int64_t term_chunks = ronde__ceil_div(count, terms_max), k_chunks = ronde__ceil_div(s->k, most);
  for (int64_t i = 0; i < term_chunks; i++) {
    int64_t t = ronde__shard_begin(count, i, term_chunks);
    p.count = ronde__shard_begin(count, i + 1, term_chunks) - t;
    p.a_offsets = a_offsets + t;
    p.b_offsets = b_offsets + t;
    for (int64_t j = 0; j < k_chunks; j++) {
      int64_t k = ronde__shard_begin(s->k, j, k_chunks);
      p.k = ronde__shard_begin(s->k, j + 1, k_chunks) - k;
      p.a = (const float *)a + (s->trans_a ? k * s->lda : k);
      p.b = (const float *)b + k * s->ldb;
      gemm_run_chunk(s, &p, ahead);
      p.add = true;
    }
  }
}

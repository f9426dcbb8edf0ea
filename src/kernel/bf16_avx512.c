/* bfloat16 by AVX512_BF16: packing, and the GEMM for CPUs without tiles. A tile of C is up to 14 rows of two panels,
 * whose sums stay in registers over the whole call; a pair of A is broadcast, a row of pairs of B is one register.
 * Source of the operands' form: Intel 64 Software Developer's Manual, VDPBF16PS and TDPBF16PS. */
#include <immintrin.h>

#include "kernel/bf16_pack.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

enum { PANEL = RONDE__BF16_PANEL, ROWS = 14, TILE = 16 };

/* ---- packing ---- */

void ronde__bf16_pack(const float *x, int64_t n, uint16_t *out) {
  int64_t i = 0;
  for (; i + 32 <= n; i += 32)
    _mm512_storeu_si512(out + i, (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + i + 16), _mm512_loadu_ps(x + i)));
  for (; i < n; i += 16) {
    __mmask16 some = n - i < 16 ? (__mmask16)((1u << (n - i)) - 1) : (__mmask16)0xffff;
    _mm256_mask_storeu_epi16(out + i, some, (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(some, x + i)));
  }
}

/* The elements that `some` has. */
INLINE __m512 widened(const uint16_t *in, __mmask16 some) {
  return _mm512_cvtpbh_ps((__m256bh)_mm256_maskz_loadu_epi16(some, in));
}

INLINE __m512 whole(const uint16_t *in) { return _mm512_cvtpbh_ps((__m256bh)_mm256_loadu_si256((const __m256i *)in)); }

void ronde__bf16_unpack(const uint16_t *in, int64_t n, float *x) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) _mm512_storeu_ps(x + i, whole(in + i));
  if (i == n) return;
  __mmask16 some = (__mmask16)((1u << (n - i)) - 1);
  _mm512_mask_storeu_ps(x + i, some, widened(in + i, some));
}

void ronde__bf16_add(const uint16_t *a, const uint16_t *b, int64_t n, uint16_t *y) {
  int64_t i = 0;
  for (; i + 32 <= n; i += 32)
    _mm512_storeu_si512(
        y + i, (__m512i)_mm512_cvtne2ps_pbh(whole(a + i + 16) + whole(b + i + 16), whole(a + i) + whole(b + i)));
  for (; i < n; i += 16) {
    __mmask16 some = n - i < 16 ? (__mmask16)((1u << (n - i)) - 1) : (__mmask16)0xffff;
    __m512 sum = widened(a + i, some) + widened(b + i, some);
    _mm256_mask_storeu_epi16(y + i, some, (__m256i)_mm512_cvtneps_pbh(sum));
  }
}

/* Rows of f32 or, where they are narrow, of bfloat16, ldx elements apart. */
typedef struct source {
  const void *x;
  int64_t ldx;
} source;

/* 16 elements from column j on of row r, and of the one below it, side by side as pairs; of `rows` rows, all others are
 * zero. */
INLINE __m512i pairs(const bool narrow, const source *from, int64_t r, int64_t rows, int64_t j) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21,
                                         5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const int64_t at = r * from->ldx + j;
  __m512i both;
  if (narrow) {
    const uint16_t *x = from->x;
    const __m256i zero = _mm256_setzero_si256();
    __m256i first = r < rows ? _mm256_loadu_si256((const __m256i *)(x + at)) : zero;
    __m256i second = r + 1 < rows ? _mm256_loadu_si256((const __m256i *)(x + at + from->ldx)) : zero;
    both = _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
  } else {
    const float *x = from->x;
    __m512 first = r < rows ? _mm512_loadu_ps(x + at) : _mm512_setzero_ps();
    __m512 second = r + 1 < rows ? _mm512_loadu_ps(x + at + from->ldx) : _mm512_setzero_ps();
    both = (__m512i)_mm512_cvtne2ps_pbh(second, first);
  }
  return _mm512_permutexvar_epi16(order, both);
}

/* Row by row, as they lie in memory. */
INLINE void panels_of(const bool narrow, source from, int64_t rows, int64_t n, int64_t k, uint16_t *out, int64_t ldk) {
  int64_t r = 0;
  for (; r + 2 <= rows; r += 2)
    for (int64_t j = 0; j < n; j += PANEL)
      _mm512_storeu_si512(out + j * ldk + r * PANEL, pairs(narrow, &from, r, r + 2, j));
  for (; r < k; r += 2)
    for (int64_t j = 0; j < n; j += PANEL)
      _mm512_storeu_si512(out + j * ldk + r * PANEL, pairs(narrow, &from, r, rows, j));
}

void ronde__bf16_pack_panels(const float *x, int64_t ldx, int64_t rows, int64_t n, int64_t k, uint16_t *out,
                             int64_t ldk) {
  panels_of(false, (source){x, ldx}, rows, n, k, out, ldk);
}

void ronde__bf16_panels(const uint16_t *x, int64_t ldx, int64_t rows, int64_t n, int64_t k, uint16_t *out,
                        int64_t ldk) {
  panels_of(true, (source){x, ldx}, rows, n, k, out, ldk);
}

/* 16x16 numbers of 32 bits. */
INLINE void transpose(__m512i r[TILE]) {
  __m512i t[TILE];
  UNROLL
  for (int i = 0; i < TILE; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  UNROLL
  for (int i = 0; i < TILE; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  UNROLL
  for (int i = 0; i < 4; i++) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
  }
  UNROLL
  for (int i = 0; i < 8; i++) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
  }
}

/* A row's elements [j, j + 32), or half of them. */
INLINE __m512i row_of(const bool narrow, const source *from, int64_t r, int64_t j, bool whole) {
  const int64_t at = r * from->ldx + j;
  if (narrow) {
    const uint16_t *x = (const uint16_t *)from->x + at;
    return whole ? _mm512_loadu_si512(x) : _mm512_zextsi256_si512(_mm256_loadu_si256((const __m256i *)x));
  }
  const float *x = (const float *)from->x + at;
  return (__m512i)_mm512_cvtne2ps_pbh(whole ? _mm512_loadu_ps(x + TILE) : _mm512_setzero_ps(), _mm512_loadu_ps(x));
}

INLINE void transposed_panels_of(const bool narrow, source from, int64_t rows, int64_t n, uint16_t *out) {
  for (int64_t i = 0; i < rows; i += TILE, out += n * PANEL)
    for (int64_t j = 0; j < n; j += 2 * TILE) {
      bool whole = n - j > TILE;
      __m512i r[TILE];
      UNROLL
      for (int k = 0; k < TILE; k++) r[k] = row_of(narrow, &from, i + k, j, whole);
      transpose(r);
      for (int k = 0; k < (whole ? TILE : TILE / 2); k++) _mm512_storeu_si512(out + (j / 2 + k) * 2 * PANEL, r[k]);
    }
}

void ronde__bf16_pack_transposed_panels(const float *x, int64_t ldx, int64_t rows, int64_t n, uint16_t *out) {
  transposed_panels_of(false, (source){x, ldx}, rows, n, out);
}

void ronde__bf16_transposed_panels(const uint16_t *x, int64_t ldx, int64_t rows, int64_t n, uint16_t *out) {
  transposed_panels_of(true, (source){x, ldx}, rows, n, out);
}

INLINE void transpose_rows(const bool narrow, source from, int64_t rows, int64_t n, uint16_t *out, int64_t lda) {
  for (int64_t i = 0; i < lda; i += 2 * TILE, out += 2 * TILE * TILE)
    for (int64_t j = 0; j < n; j += TILE) {
      __m512i r[TILE];
      if (i + 2 * TILE <= rows) {
        UNROLL
        for (int k = 0; k < TILE; k++) r[k] = pairs(narrow, &from, i + 2 * k, i + 2 * TILE, j);
      } else {
        for (int k = 0; k < TILE; k++) r[k] = pairs(narrow, &from, i + 2 * k, rows, j);
      }
      transpose(r);
      for (int k = 0; k < TILE; k++) _mm512_storeu_si512(out + j * lda + k * 2 * TILE, r[k]);
    }
}

void ronde__bf16_pack_transposed(const float *x, int64_t ldx, int64_t rows, int64_t n, uint16_t *out, int64_t lda) {
  transpose_rows(false, (source){x, ldx}, rows, n, out, lda);
}

void ronde__bf16_transposed(const uint16_t *x, int64_t ldx, int64_t rows, int64_t n, uint16_t *out, int64_t lda) {
  transpose_rows(true, (source){x, ldx}, rows, n, out, lda);
}

/* ---- GEMM ---- */

typedef struct dot_tile {
  const uint16_t *a, *b;
  const uint64_t *a_offsets, *b_offsets;
  int64_t lda, ldb, ldc, count, k;
  int64_t a_step; /* elements of A from one step of k to the next */
  float *c;
  bool add;
  const char *fetched; /* what comes next is brought into the second cache: lines, so far */
  int64_t apart;       /* bytes */
  int lines;           /* for each pair of rows of B */
} dot_tile;

INLINE const uint16_t *at(const uint16_t *p, uint64_t bytes) { return (const uint16_t *)((const char *)p + bytes); }

INLINE void tile(const int rows, const int panels, const dot_tile *whole) {
  const dot_tile p = *whole;
  const char *fetched = p.fetched;
  __m512 sum[ROWS][2];
  UNROLL
  for (int i = 0; i < rows; i++) {
    UNROLL
    for (int v = 0; v < panels; v++)
      sum[i][v] = p.add ? _mm512_loadu_ps(p.c + i * p.ldc + v * PANEL) : _mm512_setzero_ps();
  }
  for (int64_t t = 0; t < p.count; t++) {
    const uint16_t *a = at(p.a, p.a_offsets[t]), *b = at(p.b, p.b_offsets[t]);
    for (int64_t left = p.k; left > 0; left -= RONDE__BF16_STEP, a += p.a_step) {
      int64_t n = left < RONDE__BF16_STEP ? left : RONDE__BF16_STEP;
      for (int64_t k = 0; k < n; k += 2, b += 2 * PANEL) {
        __m512bh row[2];
        for (int line = 0; line < p.lines; line++, fetched += p.apart) __builtin_prefetch(fetched, 0, 2);
        UNROLL
        for (int v = 0; v < panels; v++) row[v] = (__m512bh)_mm512_loadu_si512(b + v * p.ldb * PANEL);
        UNROLL
        for (int i = 0; i < rows; i++) {
          int32_t pair;
          __builtin_memcpy(&pair, a + k + i * p.lda, sizeof pair);
          UNROLL
          for (int v = 0; v < panels; v++)
            sum[i][v] = _mm512_dpbf16_ps(sum[i][v], (__m512bh)_mm512_set1_epi32(pair), row[v]);
        }
      }
    }
  }
  UNROLL
  for (int i = 0; i < rows; i++) {
    UNROLL
    for (int v = 0; v < panels; v++) _mm512_storeu_ps(p.c + i * p.ldc + v * PANEL, sum[i][v]);
  }
}

#define EACH(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#define FN(rows)                                                       \
  static void tile_##rows##_1(const dot_tile *p) { tile(rows, 1, p); } \
  static void tile_##rows##_2(const dot_tile *p) { tile(rows, 2, p); }
EACH(FN)
#define ENTRY(rows) [rows] = {tile_##rows##_1, tile_##rows##_2},
static void (*const tiles[ROWS + 1][2])(const dot_tile *p) = {EACH(ENTRY)};

/* Tiles of registers over the rows: as equal as they can be, or half a tile of A each. */
static int n_tiles_of(const ronde__gemm_shape *s) {
  return (int)ronde__ceil_div(s->m, s->operands == RONDE__OF_BF16_TILES ? TILE / 2 : ROWS);
}

/* Rows of the tile from row i on. */
static int rows_from(const ronde__gemm_shape *s, int i) {
  int n_tiles = n_tiles_of(s), longer = s->m % n_tiles, rows = s->m / n_tiles;
  return rows + (i < longer * (rows + 1));
}

/* One line for each pair of rows where that gets all that is wanted, else two, so that what goes on is fetched slowly. */
static int lines_wanted(const ronde__gemm_shape *s, int64_t pairs_of_tile, const ronde__ahead *ahead) {
  if (!ahead) return 0;
  return ronde__ahead_left(ahead) > n_tiles_of(s) * ronde__ceil_div(s->n, 2 * PANEL) * pairs_of_tile ? 2 : 1;
}

static void gemm_avx512(const ronde__gemm *gemm, const void *a, const uint64_t *a_offsets, const void *b,
                        const uint64_t *b_offsets, int64_t count, float *c, ronde__ahead *ahead) {
  const ronde__gemm_shape *s = &gemm->shape;
  bool tiled = s->operands == RONDE__OF_BF16_TILES;
  int64_t pairs_of_tile = count * (s->k / 2);
  int lines = lines_wanted(s, pairs_of_tile, ahead);
  for (int j = 0; j < s->n; j += 2 * PANEL)
    for (int i = 0, rows; i < s->m; i += rows) {
      int64_t first = tiled ? i / TILE * TILE * s->lda + i % TILE * RONDE__BF16_STEP : i * s->lda;
      dot_tile p = {.a = (const uint16_t *)a + first,
                    .b = (const uint16_t *)b + j * s->ldb,
                    .a_offsets = a_offsets,
                    .b_offsets = b_offsets,
                    .lda = tiled ? RONDE__BF16_STEP : s->lda,
                    .a_step = tiled ? TILE * RONDE__BF16_STEP : RONDE__BF16_STEP,
                    .ldb = s->ldb,
                    .ldc = s->ldc,
                    .count = count,
                    .k = s->k,
                    .c = c + i * s->ldc + j,
                    .add = s->accumulate};
      rows = rows_from(s, i);
      p.fetched = ronde__ahead_take(ahead, pairs_of_tile * lines, &p.apart);
      p.lines = p.fetched ? lines : 0;
      tiles[rows][s->n - j > PANEL](&p);
    }
}

enum { CHAINS = 12 };

static float peak_avx512(int64_t turns) {
  __m512 sum[CHAINS], x = _mm512_set1_ps(0.5f);
  __asm__ volatile("" : "+v"(x)); /* not known when compiling */
  for (int i = 0; i < CHAINS; i++) sum[i] = _mm512_set1_ps((float)i);
  for (; turns > 0; turns--) {
    UNROLL
    for (int i = 0; i < CHAINS; i++) sum[i] = _mm512_dpbf16_ps(sum[i], (__m512bh)x, (__m512bh)x);
  }
  for (int i = 1; i < CHAINS; i++) sum[0] += sum[i];
  return _mm512_reduce_add_ps(sum[0]);
}

const ronde__bf16 ronde__bf16_avx512 = {
    .name = "avx512_bf16",
    .gemm = gemm_avx512,
    RONDE__BF16_SHARED,
    .peak = peak_avx512,
    .peak_flops = CHAINS * 2.0 * 2 * PANEL,
};

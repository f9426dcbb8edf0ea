/* bfloat16 by the tiles of AMX: C in blocks of two by two tiles of 16x16, whose sums stay in tiles over the whole call;
 * a block takes two tiles of A and two of B for four products. The last rows of C and A have tiles of their own height.
 * The state of the tiles is configured and released in each call: who else uses them on this thread meets none of it.
 * Source: Intel 64 Software Developer's Manual, volume 1, "Programming with Intel Advanced Matrix Extensions". */
#include <immintrin.h>

#include "kernel/bf16_pack.h"

#define INLINE static inline __attribute__((always_inline))

enum { PANEL = RONDE__BF16_PANEL, TILE = 16, BLOCK = 2 * TILE };

typedef struct __attribute__((packed, aligned(64))) tile_config {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} tile_config;

/* Tiles 0 to 3 are C, by rows; 4 and 5 are A; 6 and 7 are B. `step` elements of the reduction at once. */
static void configure(int rows0, int rows1, int step) {
  const int heights[8] = {rows0, rows0, rows1, rows1, rows0, rows1, step / 2, step / 2};
  tile_config config = {.palette = 1};
  for (int i = 0; i < 8; i++) {
    bool is_a = i == 4 || i == 5;
    if (heights[i] == 0) continue;
    config.rows[i] = (uint8_t)heights[i];
    config.row_bytes[i] = (uint16_t)(is_a ? step * (int)sizeof(uint16_t) : PANEL * (int)sizeof(float));
  }
  _tile_loadconfig(&config);
}

typedef struct block {
  const char *a, *b;
  const uint64_t *a_offsets, *b_offsets;
  int64_t count, lda, panel, ldc; /* in bytes, as all of these: rows of A apart; a whole panel */
  int64_t a_row, a_step;          /* rows within a tile of A apart; from one step of k to the next */
  int k, step;
  float *c;
  bool add;
} block;

/* A block of one or two tiles of rows and of columns. */
INLINE void multiply(const block *p, const int rows, const int columns) {
  const int64_t lda = p->lda, ldc = p->ldc, panel = p->panel;
  char *c = (char *)p->c;
  if (p->add) {
    _tile_loadd(0, c, ldc);
    if (columns > 1) _tile_loadd(1, c + 64, ldc);
    if (rows > 1) _tile_loadd(2, c + TILE * ldc, ldc);
    if (rows > 1 && columns > 1) _tile_loadd(3, c + TILE * ldc + 64, ldc);
  } else {
    for (int i = 0; i < rows * TILE; i++)
      for (int j = 0; j < columns; j++) __builtin_prefetch(c + i * ldc + j * 64, 1);
    _tile_zero(0);
    if (columns > 1) _tile_zero(1);
    if (rows > 1) _tile_zero(2);
    if (rows > 1 && columns > 1) _tile_zero(3);
  }
  const int64_t a_row = p->a_row, a_step = p->a_step, b_step = p->step * PANEL * (int64_t)sizeof(uint16_t);
  for (int64_t t = 0; t < p->count; t++) {
    const char *a = p->a + p->a_offsets[t], *b = p->b + p->b_offsets[t];
    for (int k = 0; k < p->k; k += p->step, a += a_step, b += b_step) {
      _tile_loadd(4, a, a_row);
      _tile_loadd(6, b, 64);
      if (rows > 1) _tile_loadd(5, a + TILE * lda, a_row);
      if (columns > 1) _tile_loadd(7, b + panel, 64);
      _tile_dpbf16ps(0, 4, 6);
      if (columns > 1) _tile_dpbf16ps(1, 4, 7);
      if (rows > 1) _tile_dpbf16ps(2, 5, 6);
      if (rows > 1 && columns > 1) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, c, ldc);
  if (columns > 1) _tile_stored(1, c + 64, ldc);
  if (rows > 1) _tile_stored(2, c + TILE * ldc, ldc);
  if (rows > 1 && columns > 1) _tile_stored(3, c + TILE * ldc + 64, ldc);
}

/* All columns of up to BLOCK rows, so that these rows of A stay in the first cache. */
static void multiply_rows(block p, int rows, int n) {
  for (; n >= 2 * PANEL; n -= 2 * PANEL, p.b += 2 * p.panel, p.c += 2 * PANEL) {
    if (rows > TILE) multiply(&p, 2, 2);
    else multiply(&p, 1, 2);
  }
  if (n == 0) return;
  if (rows > TILE) multiply(&p, 2, 1);
  else multiply(&p, 1, 1);
}

static void gemm_amx(const ronde__gemm *gemm, const void *a, const uint64_t *a_offsets, const void *b,
                     const uint64_t *b_offsets, int64_t count, float *c, ronde__ahead *ahead) {
  const ronde__gemm_shape *s = &gemm->shape;
  bool tiled = s->operands == RONDE__OF_BF16_TILES;
  int step = s->k % RONDE__BF16_STEP ? RONDE__BF16_STEP / 2 : RONDE__BF16_STEP;
  block p = {.a = a,
             .b = b,
             .a_offsets = a_offsets,
             .b_offsets = b_offsets,
             .count = count,
             .lda = s->lda * (int64_t)sizeof(uint16_t),
             .panel = s->ldb * PANEL * (int64_t)sizeof(uint16_t),
             .ldc = s->ldc * (int64_t)sizeof(float),
             .k = s->k,
             .a_row = (tiled ? RONDE__BF16_STEP : s->lda) * (int64_t)sizeof(uint16_t),
             .a_step = (tiled ? TILE : 1) * step * (int64_t)sizeof(uint16_t),
             .step = step,
             .c = c,
             .add = s->accumulate};
  int left = s->m;
  if (left >= BLOCK) configure(TILE, TILE, p.step);
  for (; left >= BLOCK; left -= BLOCK, p.a += BLOCK * p.lda, p.c += BLOCK * s->ldc) multiply_rows(p, BLOCK, s->n);
  if (left > 0) {
    configure(left < TILE ? left : TILE, left > TILE ? left - TILE : 0, p.step);
    multiply_rows(p, left, s->n);
  }
  _tile_release();
}

static float peak_amx(int64_t turns) {
  float sum[TILE * TILE] = {0};
  configure(TILE, TILE, RONDE__BF16_STEP); /* which sets all tiles to zero */
  for (; turns > 0; turns--) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, sum, TILE * sizeof(float));
  _tile_release();
  return sum[0];
}

const ronde__bf16 ronde__bf16_amx = {
    .name = "amx",
    .is_tiles = true,
    .gemm = gemm_amx,
    RONDE__BF16_SHARED,
    .peak = peak_amx,
    .peak_flops = 4.0 * 2 * TILE * TILE * RONDE__BF16_STEP,
};

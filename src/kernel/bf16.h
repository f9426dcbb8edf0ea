/* Kernels for operands of bfloat16, whose sums are f32: the batch-reduce GEMM of kernel.h on packed operands, and how
 * these are packed. Two implementations, which read the same operands: the tiles of AMX, and AVX-512's dot products of
 * pairs (vdpbf16ps). They add in different orders, so their results differ by rounding, each the same on any number of
 * threads. Numbers are rounded to nearest even; subnormal ones count as zero, as both instructions take them.
 *
 * Operands, in elements of 16 bits:
 *   A  rows [m][k], lda apart; or, where gradients of weights are summed over long rows, tiles [m / 16][lda / 32][16][32],
 *      which lie in memory as they are read
 *   B  panels [n / 16][k / 2][16][2]: of 16 columns each, two neighbouring rows side by side
 * n is a multiple of 16, as blocks of channels are; k of RONDE__BF16_STEP or of half of it; with tiles m is a multiple of 16
 * and k of RONDE__BF16_STEP. */
#ifndef RONDE_BF16_H
#define RONDE_BF16_H

#include "kernel/kernel.h"

enum { RONDE__BF16_STEP = 32, RONDE__BF16_PANEL = 16 };

/* Elements of bfloat16 where it is narrow, else of f32. */
typedef struct ronde__operand {
  void *at;
  bool narrow;
} ronde__operand;

typedef struct ronde__bf16 {
  const char *name; /* "amx", "avx512_bf16": also in RONDE_ISA */
  bool is_tiles;    /* many times the arithmetic of f32; else at most twice: less than some forms in f32 save */
  /* shape.ldb: rows of a whole panel, of which k are multiplied. */
  ronde__gemm_fn gemm;
  /* out[j] = x[j], j < n */
  void (*pack)(const float *x, int64_t n, uint16_t *out);
  /* Rows [0, k) of B, whose panels have ldk rows, of x [rows][n], ldx apart; those from `rows` on are zero. k and ldk are
   * even. */
  void (*pack_panels)(const float *x, int64_t ldx, int64_t rows, int64_t n, int64_t k, uint16_t *out, int64_t ldk);
  /* B [n][rows] of x [rows][n], transposed; rows and n are multiples of 16. */
  void (*pack_transposed_panels)(const float *x, int64_t ldx, int64_t rows, int64_t n, uint16_t *out);
  /* A [n][lda] in tiles of x [rows][n], ldx apart, transposed; its columns from `rows` on are zero. */
  void (*pack_transposed)(const float *x, int64_t ldx, int64_t rows, int64_t n, uint16_t *out, int64_t lda);
  /* x[j] = in[j], j < n */
  void (*unpack)(const uint16_t *in, int64_t n, float *x);
  /* y[j] = a[j] + b[j], j < n; y may be a or b */
  void (*add)(const uint16_t *a, const uint16_t *b, int64_t n, uint16_t *y);
  /* As pack_panels, pack_transposed_panels and pack_transposed, of x in bfloat16. */
  void (*panels)(const uint16_t *x, int64_t ldx, int64_t rows, int64_t n, int64_t k, uint16_t *out, int64_t ldk);
  void (*transposed_panels)(const uint16_t *x, int64_t ldx, int64_t rows, int64_t n, uint16_t *out);
  void (*transposed)(const uint16_t *x, int64_t ldx, int64_t rows, int64_t n, uint16_t *out, int64_t lda);
  /* Pooling windows as kernel.h has them, of operands of which at least one is narrow; a gradient is rounded once. */
  void (*max_window)(ronde__operand x, const int64_t *offsets, int count, int64_t n, bool relu, ronde__operand y,
                     uint8_t *which);
  void (*max_gradient)(ronde__operand dy, const uint8_t *which, const ronde__window_of *windows, int count, int64_t n,
                       ronde__operand dx, bool accumulate);
  void (*avg_window)(ronde__operand x, const int64_t *offsets, int count, int64_t n, float factor, ronde__operand y);
  void (*avg_gradient)(ronde__operand dy, const ronde__window_of *windows, int count, int64_t n, ronde__operand dx,
                       bool accumulate);
  const ronde__norm_kernels *norm; /* of bfloat16, as these are in kernel.h */
  const ronde__row_norm_kernels *row_norm;
  const ronde__gate_kernels *gate;
  const ronde__grouped_kernels *grouped;
  /* `turns` times as many independent products as keep the core busy, `peak_flops` operations each time: its arithmetic
   * peak, to compare the GEMM with. The result only keeps the compiler from leaving them out. */
  float (*peak)(int64_t turns);
  double peak_flops;
} ronde__bf16;

/* The implementation for these kernels: the best that the CPU has, or what RONDE_ISA asks for. NULL: there is none. */
const ronde__bf16 *ronde__bf16_get(const ronde__kernels *kernels);
/* All that this CPU can run, the best first; NULL past the end. */
const ronde__bf16 *ronde__bf16_available(int i);
/* Whether it is expected to be faster than f32: AMX was measured on one CPU, AMD's AVX512_BF16 on a
 * Zen 4 and a Zen 5 (docs/notebook/bf16.md). */
bool ronde__bf16_pays(const ronde__bf16 *bf16);

#endif

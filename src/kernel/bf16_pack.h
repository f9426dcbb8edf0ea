/* What both implementations share: packing by AVX-512 (bf16_avx512.c), and pooling (bf16_pool.c). */
#ifndef RONDE_BF16_PACK_H
#define RONDE_BF16_PACK_H

#include "kernel/bf16.h"

void ronde__bf16_pack(const float *x, int64_t n, uint16_t *out);
void ronde__bf16_pack_panels(const float *x, int64_t ldx, int64_t rows, int64_t n, int64_t k, uint16_t *out,
                             int64_t ldk);
void ronde__bf16_pack_transposed_panels(const float *x, int64_t ldx, int64_t rows, int64_t n, uint16_t *out);
void ronde__bf16_pack_transposed(const float *x, int64_t ldx, int64_t rows, int64_t n, uint16_t *out, int64_t lda);
void ronde__bf16_unpack(const uint16_t *in, int64_t n, float *x);
void ronde__bf16_add(const uint16_t *a, const uint16_t *b, int64_t n, uint16_t *y);
void ronde__bf16_panels(const uint16_t *x, int64_t ldx, int64_t rows, int64_t n, int64_t k, uint16_t *out, int64_t ldk);
void ronde__bf16_transposed_panels(const uint16_t *x, int64_t ldx, int64_t rows, int64_t n, uint16_t *out);
void ronde__bf16_transposed(const uint16_t *x, int64_t ldx, int64_t rows, int64_t n, uint16_t *out, int64_t lda);

void ronde__bf16_max_window(ronde__operand x, const int64_t *offsets, int count, int64_t n, bool relu, ronde__operand y,
                            uint8_t *which);
void ronde__bf16_max_gradient(ronde__operand dy, const uint8_t *which, const ronde__window_of *windows, int count,
                              int64_t n, ronde__operand dx, bool accumulate);
void ronde__bf16_avg_window(ronde__operand x, const int64_t *offsets, int count, int64_t n, float factor,
                            ronde__operand y);
void ronde__bf16_avg_gradient(ronde__operand dy, const ronde__window_of *windows, int count, int64_t n,
                              ronde__operand dx, bool accumulate);

/* simd_norm.c, simd_row_norm.c, simd_gate.c and simd_grouped.c, compiled for elements of bfloat16. */
extern const ronde__norm_kernels ronde__narrow_norm;
extern const ronde__row_norm_kernels ronde__narrow_row_norm;
extern const ronde__gate_kernels ronde__narrow_gate;
extern const ronde__grouped_kernels ronde__narrow_grouped;

/* Of a table, what both implementations share. */
#define RONDE__BF16_SHARED                                                                                      \
  .pack = ronde__bf16_pack, .pack_panels = ronde__bf16_pack_panels,                                             \
  .pack_transposed_panels = ronde__bf16_pack_transposed_panels, .pack_transposed = ronde__bf16_pack_transposed, \
  .unpack = ronde__bf16_unpack, .add = ronde__bf16_add, .panels = ronde__bf16_panels,                           \
  .transposed_panels = ronde__bf16_transposed_panels, .transposed = ronde__bf16_transposed,                     \
  .max_window = ronde__bf16_max_window, .max_gradient = ronde__bf16_max_gradient,                               \
  .avg_window = ronde__bf16_avg_window, .avg_gradient = ronde__bf16_avg_gradient, .norm = &ronde__narrow_norm,  \
  .row_norm = &ronde__narrow_row_norm, .gate = &ronde__narrow_gate, .grouped = &ronde__narrow_grouped

#endif

/* Packing by AVX-512, which both implementations share (bf16_avx512.c). */
#ifndef RONDE_BF16_PACK_H
#define RONDE_BF16_PACK_H

#include "kernel/bf16.h"

void ronde__bf16_pack(const float *x, int64_t n, uint16_t *out);
void ronde__bf16_pack_panels(const float *x, int64_t ldx, int64_t rows, int64_t n, int64_t k, uint16_t *out,
                             int64_t ldk);
void ronde__bf16_pack_transposed_panels(const float *x, int64_t ldx, int64_t rows, int64_t n, uint16_t *out);
void ronde__bf16_pack_transposed(const float *x, int64_t ldx, int64_t rows, int64_t n, uint16_t *out, int64_t lda);
void ronde__bf16_unpack(const uint16_t *in, int64_t n, float *x);
void ronde__bf16_panels(const uint16_t *x, int64_t ldx, int64_t rows, int64_t n, int64_t k, uint16_t *out, int64_t ldk);
void ronde__bf16_transposed(const uint16_t *x, int64_t ldx, int64_t rows, int64_t n, uint16_t *out, int64_t lda);

#endif

/* Inside the per-instruction-set sources (simd_*.c), which are compiled once for each RONDE_SIMD with its
 * RONDE_VECTOR_BYTES: vectors as GCC extensions, and names that differ by instruction set. The tail of an array takes
 * the same arithmetic as its body (partial loads and stores around full vectors), so that a value never depends on its
 * place in the array. */
#ifndef RONDE_SIMD_H
#define RONDE_SIMD_H

#include "kernel/kernel.h"

#include <string.h>
#if RONDE_VECTOR_BYTES > 16
#include <immintrin.h>
#endif

#define JOIN_(a, b, c) a##b##_##c
#define JOIN(a, b, c) JOIN_(a, b, c)
/* NAME(sum) is ronde__avx2_sum in the set for AVX2. */
#define NAME(name) JOIN(ronde__, RONDE_SIMD, name)

#define INLINE static inline __attribute__((always_inline))

/* Before a loop of few turns, so that the vectors it counts through can live in registers. */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

enum { LANES = RONDE_VECTOR_BYTES / 4 };
typedef float vec __attribute__((vector_size(RONDE_VECTOR_BYTES)));
typedef int32_t ivec __attribute__((vector_size(RONDE_VECTOR_BYTES)));
typedef uint32_t uvec __attribute__((vector_size(RONDE_VECTOR_BYTES)));
typedef float loose_vec __attribute__((vector_size(RONDE_VECTOR_BYTES), aligned(4), may_alias));

INLINE vec load(const float *p) { return *(const loose_vec *)p; }
INLINE void store(float *p, vec x) { *(loose_vec *)p = x; }
INLINE vec splat(float x) { return x - (vec){0}; }

/* The first `live` lanes; the others read as zero and are not written. live == LANES known when compiling costs
 * nothing. */
#if RONDE_VECTOR_BYTES == 64
INLINE vec load_some(const float *p, int64_t live) {
  return live == LANES ? load(p) : (vec)_mm512_maskz_loadu_ps((__mmask16)((1u << live) - 1), p);
}
INLINE void store_some(float *p, vec x, int64_t live) {
  if (live == LANES) store(p, x);
  else _mm512_mask_storeu_ps(p, (__mmask16)((1u << live) - 1), (__m512)x);
}
#elif RONDE_VECTOR_BYTES == 32
INLINE __m256i first(int64_t live) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)live), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
INLINE vec load_some(const float *p, int64_t live) {
  return live == LANES ? load(p) : (vec)_mm256_maskload_ps(p, first(live));
}
INLINE void store_some(float *p, vec x, int64_t live) {
  if (live == LANES) store(p, x);
  else _mm256_maskstore_ps(p, first(live), (__m256)x);
}
#else
INLINE vec load_some(const float *p, int64_t live) {
  if (live == LANES) return load(p);
  vec x = {0};
  memcpy(&x, p, (size_t)live * sizeof(float));
  return x;
}
INLINE void store_some(float *p, vec x, int64_t live) {
  if (live == LANES) store(p, x);
  else memcpy(p, &x, (size_t)live * sizeof(float));
}
#endif

/* Elements of values: f32, or bfloat16 in the sources that are compiled once more for it (RONDE_NARROW). */
#ifdef RONDE_NARROW
typedef uint16_t elem;
INLINE vec load_elem(const elem *p) { return (vec)_mm512_cvtpbh_ps((__m256bh)_mm256_loadu_si256((const __m256i *)p)); }
INLINE void store_elem(elem *p, vec x) { _mm256_storeu_si256((__m256i *)p, (__m256i)_mm512_cvtneps_pbh((__m512)x)); }
INLINE vec load_elem_some(const elem *p, int64_t live) {
  if (live == LANES) return load_elem(p);
  return (vec)_mm512_cvtpbh_ps((__m256bh)_mm256_maskz_loadu_epi16((__mmask16)((1u << live) - 1), p));
}
INLINE void store_elem_some(elem *p, vec x, int64_t live) {
  if (live == LANES) store_elem(p, x);
  else _mm256_mask_storeu_epi16(p, (__mmask16)((1u << live) - 1), (__m256i)_mm512_cvtneps_pbh((__m512)x));
}
INLINE float widened(elem x) {
  uint32_t bits = (uint32_t)x << 16;
  float wide;
  memcpy(&wide, &bits, sizeof wide);
  return wide;
}
#else
typedef float elem;
INLINE vec load_elem(const elem *p) { return load(p); }
INLINE void store_elem(elem *p, vec x) { store(p, x); }
INLINE vec load_elem_some(const elem *p, int64_t live) { return load_some(p, live); }
INLINE void store_elem_some(elem *p, vec x, int64_t live) { store_some(p, x, live); }
INLINE float widened(elem x) { return x; }
#endif

INLINE vec as_float(ivec x) { return (vec)x; }
INLINE ivec as_int(vec x) { return (ivec)x; }
/* Lanes of a where the mask (all ones or all zeros, as comparisons give) is set, else of b. */
INLINE vec blend(ivec mask, vec a, vec b) { return as_float((mask & as_int(a)) | (~mask & as_int(b))); }

/* Halves onto each other, always in the same order. */
INLINE float lane_sum(vec x) {
  typedef float quad __attribute__((vector_size(16)));
  quad part[LANES / 4];
  memcpy(part, &x, sizeof part);
  UNROLL
  for (int step = LANES / 8; step > 0; step /= 2) {
    UNROLL
    for (int i = 0; i < step; i++) part[i] += part[i + step];
  }
  quad sum = part[0] + __builtin_shufflevector(part[0], part[0], 2, 3, 0, 1);
  return sum[0] + sum[1];
}

/* The tables, and the functions of that of all. */

extern const ronde__norm_kernels NAME(norm);
extern const ronde__row_norm_kernels NAME(row_norm);
extern const ronde__gate_kernels NAME(gate);
extern const ronde__grouped_kernels NAME(grouped);

void NAME(gemm_tile)(const ronde__gemm *gemm, const void *a, const uint64_t *a_offsets, const void *b,
                     const uint64_t *b_offsets, int64_t count, float *c, ronde__ahead *ahead);
void NAME(dot_tile)(const float *a, int64_t a_stride, int64_t a_row, int m, const float *b, int64_t b_stride,
                    int64_t b_row, int k, int64_t rows, int64_t len, float *out, int64_t ldo, bool accumulate);
int NAME(dot_planes)(int m, int k);
void NAME(bias_act_rows)(float *y, int64_t ld, int64_t rows, int64_t n, int64_t valid, const float *bias,
                         ronde__activation act);
void NAME(bias_act_lanes)(float *y, int64_t n, float bias, ronde__activation act);
void NAME(act_forward)(const float *x, float *y, int64_t n, ronde__activation act);
void NAME(act_backward)(const float *dy, const float *y, float *dx, int64_t n, ronde__activation act, bool accumulate);
void NAME(pointwise_forward)(const ronde__pointwise *f, const float *x, float *y, int64_t n);
void NAME(pointwise_backward)(const ronde__pointwise *f, const float *dy, const float *x, float *dx, int64_t n,
                              bool accumulate);
void NAME(column_sums)(const float *dy, int64_t ld, int64_t rows, int64_t n, float *db);
float NAME(sum)(const float *x, int64_t n);
float NAME(multiply_adds)(int64_t turns);
void NAME(add)(const float *a, const float *b, float *y, int64_t n);
void NAME(scale)(float *x, float factor, int64_t n);
double NAME(dot)(const float *x, const float *y, int64_t n);
double NAME(sum_squares)(const float *x, int64_t n);
bool NAME(all_finite)(const float *x, int64_t n);
float NAME(largest)(const float *x, int64_t n);
double NAME(exp_sum)(float *x, float shift, int64_t n);
void NAME(softmax_columns)(float *x, int64_t ld, int64_t rows, int64_t n, int64_t reach, float factor, float *most,
                           float *sum, float *changed);
void NAME(scale_columns)(float *x, int64_t ld, int64_t rows, int64_t n, const float *factor);
void NAME(softmax_columns_backward)(float *x, float *dx, int64_t ld, int64_t rows, int64_t n, int64_t reach,
                                    float factor, const float *shift, const float *dx_shift);
void NAME(lstm_step)(float *gates, const float *bias, const float *peepholes, const float *cell_before, float *cell,
                     float *y, float clip, int64_t h);
void NAME(lstm_step_back)(const float *gates, const float *peepholes, const float *cell_before, const float *cell,
                          const float *dy, float *dh, float *dcell, float *dgates, float clip, int64_t h);
void NAME(gru_step)(float *gates, const float *sums, const float *bias, const float *y_before, float *y, float clip,
                    int64_t h);
void NAME(gru_step_back)(const float *gates, const float *y_before, const float *dy, float *dh, float *dgates,
                         float clip, int64_t h);
void NAME(gru_reset)(float *gates, const float *bias, const float *y_before, float *reset, float clip, int64_t h);
void NAME(gru_reset_step)(float *gates, const float *bias, const float *y_before, float *y, float clip, int64_t h);
void NAME(gru_reset_step_back)(const float *gates, const float *y_before, const float *dy, float *dh, float *dgates,
                               float clip, int64_t h);
void NAME(gru_reset_back)(const float *gates, const float *y_before, const float *dreset, float *dh, float *dgates,
                          float *reset, float clip, int64_t h);
void NAME(rnn_step)(float *gate, const float *bias, bool relu, float *y, float clip, int64_t h);
void NAME(rnn_step_back)(const float *gate, const float *dy, bool relu, float *dh, float *dgate, float clip, int64_t h);
void NAME(additive_scores)(const float *q, const float *k, int64_t ld, int64_t rows, const float *w, int64_t n,
                           float *scores);
void NAME(additive_scores_back)(const float *q, const float *k, int64_t ld, int64_t rows, const float *w, int64_t n,
                                const float *slopes, float *dq, float *dk, float *dw);
void NAME(bf16_pack)(const float *x, const uint16_t *in, float *residual, uint16_t *out, int64_t n);
void NAME(bf16_unpack)(const uint16_t *in, float *x, int64_t n);
void NAME(max_window)(const float *x, const int64_t *offsets, int count, int64_t n, const float *bias, int64_t n_bias,
                      bool relu, float *y, uint8_t *which);
void NAME(max_gradient)(const float *dy, const uint8_t *which, const ronde__window_of *windows, int count, int64_t n,
                        float *dx, bool accumulate);
void NAME(max_place_backward)(const float *dy, const uint8_t *which, int place, int64_t n, float *dx);
void NAME(avg_window)(const float *x, const int64_t *offsets, int count, int64_t n, float factor, float *y,
                      bool accumulate);
void NAME(avg_gradient)(const float *dy, const ronde__window_of *windows, int count, int64_t n, float *dx,
                        bool accumulate);
void NAME(avg_window_backward)(const float *dy, const int64_t *offsets, int count, int64_t n, float factor, float *dx,
                               bool accumulate);
void NAME(winograd)(ronde__winograd_map map, const ronde__winograd_tile *from, const ronde__winograd_tile *to,
                    int64_t n, bool accumulate);
void NAME(toeplitz)(ronde__toeplitz_map map, ronde__grid from, ronde__grid to, int64_t n, bool accumulate);
void NAME(pick_rows)(const float *x, const ronde__pick *picks, int n, int64_t row, int64_t rows, float *y,
                     bool accumulate);
void NAME(transpose)(const float *src, int64_t ld_src, int64_t rows, int64_t cols, float *dst, int64_t ld_dst);
void NAME(philox)(uint64_t key, uint64_t stream, uint64_t first, int64_t n, uint32_t *out);
void NAME(drop)(const float *x, const uint32_t *words, uint32_t threshold, float factor, int64_t n, float *y,
                bool accumulate);
void NAME(from_u8)(const uint8_t *x, float factor, float shift, float *y, int64_t n);
void NAME(sgd)(const ronde__sgd_args *args, float *w, const float *g, float *velocity, int64_t n);
void NAME(adam)(const ronde__adam_args *args, float *w, const float *g, float *m, float *v, int64_t n);
void NAME(adagrad)(const ronde__adagrad_args *args, float *w, const float *g, float *sum, int64_t n);
void NAME(rmsprop)(const ronde__rmsprop_args *args, float *w, const float *g, float *square, float *velocity,
                   int64_t n);

#endif

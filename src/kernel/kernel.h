/* The kernels: one table of functions per instruction set, from one source compiled for each, chosen at run time.
 * All arrays are f32, unless said otherwise; pointers need no alignment; strides and leading dimensions are in elements.
 * One call runs on one thread; results do not depend on the number of threads. NaN and Inf pass through everything. */
#ifndef RONDE_KERNEL_H
#define RONDE_KERNEL_H

#include "base/base.h"
#include "kernel/ahead.h"

/* What A and B are; those of bfloat16 (bf16.h) have sums of f32, and no trans_a. */
typedef enum ronde__operand_form {
  RONDE__OF_F32,
  RONDE__OF_BF16,
  RONDE__OF_BF16_TILES /* A is tiles */
} ronde__operand_form;

/* ---- batch-reduce GEMM ---------------------------------------------------------------------------------------
 * C[m][n] (+)= sum over t of A_t[m][k] * B_t[k][n], all row-major: n is the contiguous direction of B and C.
 * trans_a: A_t is stored [k][m]. Term t lies a_offsets[t], b_offsets[t] bytes after a, b.
 * accumulate: adds to C; else C is overwritten (with zeros where count is 0). */
typedef struct ronde__gemm_shape {
  int m, n, k;
  int64_t lda, ldb, ldc;
  bool trans_a, accumulate;
  ronde__operand_form operands;
} ronde__gemm_shape;

typedef enum ronde__gemm_impl { RONDE__GEMM_TILE, RONDE__GEMM_XSMM } ronde__gemm_impl;

typedef struct ronde__gemm ronde__gemm;
typedef void (*ronde__gemm_fn)(const ronde__gemm *gemm, const void *a, const uint64_t *a_offsets, const void *b,
                               const uint64_t *b_offsets, int64_t count, float *c, ronde__ahead *ahead);
/* Resolved once per shape and layer; to be copied freely, owns nothing. */
struct ronde__gemm {
  ronde__gemm_shape shape;
  ronde__gemm_fn fn;
  void (*jit)(void); /* libxsmm's kernel, where that is the implementation */
  const struct ronde__kernels *kernels;
  const char *implementation; /* "xsmm", "tile-avx2": for the per-op table */
  int most; /* of the reduced dimension, that one call should add up: more is faster in several calls */
};

static inline void ronde__gemm_run(const ronde__gemm *gemm, const void *a, const uint64_t *a_offsets, const void *b,
                                   const uint64_t *b_offsets, int64_t count, float *c) {
  gemm->fn(gemm, a, a_offsets, b, b_offsets, count, c, NULL);
}
/* The same, with what is wanted next (NULL: nothing). */
static inline void ronde__gemm_run_ahead(const ronde__gemm *gemm, const void *a, const uint64_t *a_offsets,
                                         const void *b, const uint64_t *b_offsets, int64_t count, float *c,
                                         ronde__ahead *ahead) {
  gemm->fn(gemm, a, a_offsets, b, b_offsets, count, c, ahead);
}

/* ---- the table ------------------------------------------------------------------------------------------------ */

typedef enum ronde__activation {
  RONDE__ACT_NONE,
  RONDE__ACT_RELU,
  RONDE__ACT_TANH,
  RONDE__ACT_SIGMOID
} ronde__activation;

/* Activations whose slope is a function of the input, and not of the output as with those above. pointwise.inc says what
 * each is, and what its constants a and b are. */
typedef enum ronde__pointwise_kind {
#define RONDE_POINTWISE(KIND, name) RONDE__POINTWISE_##KIND,
#include "kernel/pointwise.inc"
#undef RONDE_POINTWISE
} ronde__pointwise_kind;

typedef struct ronde__pointwise {
  ronde__pointwise_kind kind;
  float a, b;
} ronde__pointwise;

/* The constants of one optimizer step; optim/optim.h has the definitions. */
typedef struct ronde__sgd_args {
  float lr, momentum, weight_decay;
  bool nesterov;
} ronde__sgd_args;
typedef struct ronde__adam_args {
  float beta1, beta2, eps, weight_decay;
  float rest1, rest2;   /* 1 - beta, rounded once: 1 - (float)beta would be off by 1e-5 for 0.999 */
  float step_size;      /* lr / (1 - beta1^t) */
  float inv_sqrt_bias2; /* 1 / sqrt(1 - beta2^t) */
  float decay;          /* AdamW: w *= decay first (1 - lr * weight_decay); Adam: 1, and weight_decay is added to g */
} ronde__adam_args;
typedef struct ronde__adagrad_args {
  float lr, eps, weight_decay;
} ronde__adagrad_args;
typedef struct ronde__rmsprop_args {
  float lr, alpha, eps, momentum, weight_decay;
  float rest; /* 1 - alpha, rounded once */
} ronde__rmsprop_args;

/* Winograd's minimal filtering F(4x4, 3x3): tiles of 4x4 outputs, 6x6 inputs, 3x3 weights, and the maps between them
 * and the 6x6 products, each applied from both sides. The last two are the transposes of OUTPUT and WEIGHT. */
typedef enum ronde__winograd_map {
  RONDE__WINOGRAD_INPUT,           /* [6x6] -> [6x6] */
  RONDE__WINOGRAD_OUTPUT,          /* [6x6] -> [4x4] */
  RONDE__WINOGRAD_WEIGHT,          /* [3x3] -> [6x6] */
  RONDE__WINOGRAD_OUTPUT_GRADIENT, /* [4x4] -> [6x6] */
  RONDE__WINOGRAD_WEIGHT_GRADIENT, /* [6x6] -> [3x3] */
} ronde__winograd_map;

/* Where a tile's vectors lie. Places outside of rows [row0, row1) and columns [column0, column1) read as zero and are
 * not written; there is at least one inside. */
typedef struct ronde__winograd_tile {
  float *at;           /* of place (row0, column0) */
  int64_t row, column; /* strides */
  int row0, row1, column0, column1;
} ronde__winograd_tile;

/* y = (x - mean) r weight + bias, r = 1 / sqrt(variance + eps), of each row; where it is not centred, the mean counts as 0. */
typedef struct ronde__row_norm {
  const float *weight, *bias; /* [n]; bias NULL: there is none */
  float eps;
  bool centred;
  int64_t n;            /* elements of a row, */
  int64_t piece, apart; /* which lies in pieces of so many that begin `apart` elements from one another, */
  int64_t ld;           /* and so many behind the row in front of it */
} ronde__row_norm;

/* A 3x3 convolution on maps of 2x2 pixels by nine multiplications instead of sixteen (simd_toeplitz.c), and the maps
 * between pixels, taps and the 3x3 products. */
typedef enum ronde__toeplitz_map {
  RONDE__TOEPLITZ_OPERAND,         /* [2x2] -> [3x3] */
  RONDE__TOEPLITZ_WEIGHT,          /* [3x3] -> [3x3] */
  RONDE__TOEPLITZ_OUTPUT,          /* [3x3] -> [2x2] */
  RONDE__TOEPLITZ_WEIGHT_GRADIENT, /* [3x3] -> [3x3], the transpose of WEIGHT */
} ronde__toeplitz_map;

/* Vectors in rows and columns; strides below zero go through them from the last to the first. */
typedef struct ronde__grid {
  float *at;
  int64_t row, column;
} ronde__grid;

/* Convolution in groups of channels, between rows [n][block] of channels: a row for each example of a pixel, block a
 * multiple of 16 and of `group`, the channels of a group on either side: a power of two up to 8, or a multiple of 16.
 * Channel j meets the channels j / group * group + k, k < group, of its own group; w_input lies between the weights [block]
 * of k and of k + 1. Strides are in elements and may be negative. */

enum { RONDE__GROUPED_COLUMNS = 4 };

/* In the kernels of ronde__norm_kernels, ronde__gate_kernels and ronde__grouped_kernels the elements of values and of their
 * gradients are f32, or bfloat16 (those of bf16.h), rounded once where they are written; all else is f32. */

/* Batch normalisation over rows [rows][n] of channels, n a multiple of 16. */
typedef struct ronde__norm_kernels {
  /* mean[j] of the rows, and m2[j], the sum of (x - mean)^2 */
  void (*moments)(const void *x, int64_t rows, int64_t n, float *mean, float *m2);
  /* y = x * scale[j] + shift[j] (+ residual, where it is not NULL), behind a ReLU where asked; y may be x or residual */
  void (*affine)(const void *x, const void *residual, int64_t rows, int64_t n, const float *scale, const float *shift,
                 bool relu, void *y);
  /* the rows' sums of dy and of dy * (x - mean[j]); dy is first set to zero where the output y of a ReLU is not
   * positive, if y is not NULL; it only counts as zero where x * scale[j] + shift[j] is not, if shift is not NULL */
  void (*sums)(void *dy, const void *y, const void *x, int64_t rows, int64_t n, const float *mean, const float *scale,
               const float *shift, float *sum_dy, float *sum_dyx);
  /* dx (+)= dy * a[j] + (x - mean[j]) * b[j] + c[j]; dx may be dy, which counts as zero where x * a[j] + shift[j] is not
   * positive, if shift is not NULL */
  void (*backward)(const void *dy, const void *x, int64_t rows, int64_t n, const float *mean, const float *a,
                   const float *b, const float *c, const float *shift, void *dx, bool accumulate);
} ronde__norm_kernels;

/* Normalisation of rows by their own statistics (ronde__row_norm); statistics [rows][2]: each row's mean and r. y and its
 * gradient may be bfloat16, as above; x is f32. */
typedef struct ronde__row_norm_kernels {
  void (*forward)(const ronde__row_norm *norm, const float *x, int64_t rows, float *statistics, void *y);
  /* dx (+)= the gradient of x; dx may be dy in f32 */
  void (*backward)(const ronde__row_norm *norm, const float *x, const void *dy, const float *statistics, int64_t rows,
                   float *dx, bool accumulate);
  /* Of elements [begin, end) of a row: dweight[j - begin] += the sum over rows of dy (x - mean) r, and dbias[j - begin] that of dy;
   * either may be NULL. */
  void (*sums)(const ronde__row_norm *norm, const float *x, const void *dy, const float *statistics, int64_t rows,
               int64_t begin, int64_t end, float *dweight, float *dbias);
} ronde__row_norm_kernels;

/* Products of rows [rows][n] with a gate, a factor of each column; n is a multiple of 16. */
typedef struct ronde__gate_kernels {
  /* y[r][j] = x[r][j] * gate[j] */
  void (*forward)(const void *x, const float *gate, int64_t rows, int64_t n, void *y);
  /* sums[j] = sum over r < rows of dy[r][j] * x[r][j], and dx[r][j] (+)= dy[r][j] * gate[j], where dx is not NULL; it may
   * be dy, but not x */
  void (*backward)(const void *dy, const void *x, const float *gate, int64_t rows, int64_t n, void *dx, bool accumulate,
                   float *sums);
} ronde__gate_kernels;

/* Outputs of RONDE__GROUPED_COLUMNS neighbours in a row, all of whose taps in a row fall inside, and one or two rows: the
 * sums over taps and k of weights and inputs. */
typedef struct ronde__grouped_tile {
  const void *x; /* of the first tap of the first output */
  int64_t x_row, x_column;
  const float *w; /* of the first tap */
  int64_t w_row, w_column, w_input;
  void *y;
  int64_t y_row, y_column;
  int taps[2], stride[2];
  int rows;       /* of outputs */
  int begin, end; /* of the (rows - 1) stride[0] + taps[0] rows of inputs, those that are there */
  int64_t n, block;
  int group;
  const float *bias; /* [block]; NULL: none */
  bool accumulate;
} ronde__grouped_tile;

/* The same of any rows by a list: y[r][j] (+)= sum over t < count and k of w_t[k][j] * x_t[r][...]; x_t and w_t lie
 * x_offsets[t], w_offsets[t] elements after x, w. */
typedef struct ronde__grouped_rows {
  const void *x;
  const float *w;
  const uint64_t *x_offsets, *w_offsets;
  int64_t count, rows, block;
  int group;
  int64_t w_input;
  void *y;
  const float *bias; /* [block]; NULL: none */
  bool accumulate;
} ronde__grouped_rows;

/* Adds the gradients of taps [taps[0]][taps[1]] for 16 channels from `channel` on, over `tiles` times
 * RONDE__GROUPED_COLUMNS neighbouring outputs of one row, all of whose taps fall inside. */
typedef struct ronde__grouped_weights {
  const void *x; /* of the first tap of the first output */
  int64_t x_row, x_column;
  const void *dy;
  int64_t dy_column;
  float *dw;
  int64_t w_row, w_column, w_input;
  int taps[2], stride;
  int64_t tiles, n, block, channel;
  int group;
} ronde__grouped_weights;

/* The same of one tap over any rows: out[k][j] += sum over r < rows of dy[r][j] * x[r][...]. */
typedef struct ronde__grouped_dots {
  const void *dy, *x;
  int64_t rows, block, channel;
  int group;
  int64_t w_input;
  float *out;
} ronde__grouped_dots;

typedef struct ronde__grouped_kernels {
  void (*tile)(const ronde__grouped_tile *tile);
  void (*rows)(const ronde__grouped_rows *rows);
  void (*weights)(const ronde__grouped_weights *weights);
  void (*dots)(const ronde__grouped_dots *dots);
} ronde__grouped_kernels;

/* Which tiles there are. */
static inline bool ronde__grouped_tile_fits(int taps_w, int stride, int group) {
  if (stride == 1) return taps_w >= 1 && (group == 1 ? taps_w <= 5 || taps_w == 7 : taps_w <= 3);
  if (stride != 2) return false;
  return taps_w == 3 || (group == 1 ? taps_w == 5 || taps_w == 7 : taps_w == 1);
}
/* How many rows of taps a call for gradients takes, besides one: 0: none, not even one. */
static inline int ronde__grouped_weight_rows(int taps_w, int stride, int group) {
  if (stride > 2) return 0;
  if (taps_w == 3) return 3;
  if (group == 1) return taps_w == 5 ? 2 : taps_w == 7;
  return taps_w == 1;
}

/* A vector is put together of the lanes of several: a pick is one of these. */
typedef struct ronde__pick {
  int64_t at;       /* of the first of the neighbours that it consists of, in elements */
  uint32_t lanes;   /* bit i: it gives lane i, */
  int32_t from[16]; /* which is its own lane from[i]; of lanes that it does not give, any */
} ronde__pick;

enum { RONDE__MULTIPLY_ADDS = 12 };

enum { RONDE__NO_PLACE = 255 }; /* of a window's maximum that a ReLU has cut off */

/* A pooling window that has the input whose gradient is asked for. */
typedef struct ronde__window_of {
  int64_t at;   /* the first element of its output */
  int place;    /* of the input in it */
  float factor; /* of the input in an average */
} ronde__window_of;

/* All that ops compute with, for one instruction set. */
typedef struct ronde__kernels {
  const char *isa; /* "sse2", "avx2", "avx512", "neon" */
  int vector;      /* floats in a register */

  ronde__gemm_fn gemm_tile;

  /* out[mi][kj] (+)= sum over r < rows, e < len of a[mi*a_stride + r*a_row + e] * b[kj*b_stride + r*b_row + e],
   * mi < m, kj < k: weight gradients with the batch in the lanes. Rows of out lie ldo apart. */
  void (*dot_tile)(const float *a, int64_t a_stride, int64_t a_row, int m, const float *b, int64_t b_stride,
                   int64_t b_row, int k, int64_t rows, int64_t len, float *out, int64_t ldo, bool accumulate);
  /* How many of m planes of a it takes at once, beside k of b. */
  int (*dot_planes)(int m, int k);

  /* y[r][j] = act(y[r][j] + bias[j]), r < rows, j < n; rows ld apart; bias may be NULL. Columns from `valid` on are set
   * to zero. */
  void (*bias_act_rows)(float *y, int64_t ld, int64_t rows, int64_t n, int64_t valid, const float *bias,
                        ronde__activation act);
  /* y[j] = act(y[j] + bias), j < n */
  void (*bias_act_lanes)(float *y, int64_t n, float bias, ronde__activation act);
  /* y[j] = act(x[j]) */
  void (*act_forward)(const float *x, float *y, int64_t n, ronde__activation act);
  /* dx[j] (+)= dy[j] * act'(at the output y[j]); dx may be dy */
  void (*act_backward)(const float *dy, const float *y, float *dx, int64_t n, ronde__activation act, bool accumulate);
  /* y[j] = f(x[j]); y may be x */
  void (*pointwise_forward)(const ronde__pointwise *f, const float *x, float *y, int64_t n);
  /* dx[j] (+)= dy[j] * f'(x[j]); dx may be dy */
  void (*pointwise_backward)(const ronde__pointwise *f, const float *dy, const float *x, float *dx, int64_t n,
                             bool accumulate);
  const ronde__gate_kernels *gate;

  /* db[j] += sum over r < rows of dy[r][j]; and the sum of dy[0..n) */
  void (*column_sums)(const float *dy, int64_t ld, int64_t rows, int64_t n, float *db);
  float (*sum)(const float *x, int64_t n);
  /* The largest of x [n], of what is a number; -INFINITY if nothing is. And x = exp(x - shift), where shift is at least as large as
   * any x, the sum of which it returns, summed in f64. */
  float (*largest)(const float *x, int64_t n);
  double (*exp_sum)(float *x, float shift, int64_t n);
  /* A tile of a softmax over rows, x [rows][n]: column c sees rows r <= c + reach, r < rows. What is seen becomes
   * exp(factor * x - most[c]), the rest 0. most [n]: the largest factor * x up to here, -INFINITY at first; sum [n]: of the
   * exponentials. Both go on from earlier tiles, whose own must be multiplied by changed [n]. */
  void (*softmax_columns)(float *x, int64_t ld, int64_t rows, int64_t n, int64_t reach, float factor, float *most,
                          float *sum, float *changed);
  /* x[r][c] *= factor[c], r < rows, c < n */
  void (*scale_columns)(float *x, int64_t ld, int64_t rows, int64_t n, const float *factor);
  /* The same tile again: x becomes p = exp(factor * x - shift[c]), and dx factor * p * (dx - dx_shift[c]); both 0 where not seen. */
  void (*softmax_columns_backward)(float *x, float *dx, int64_t ld, int64_t rows, int64_t n, int64_t reach,
                                   float factor, const float *shift, const float *dx_shift);

  /* One step of an LSTM for one example of h values. clip: what goes into an activation is between -clip and clip, and where it has
   * reached one its slope is 0; 0: it has no bounds. gates [4h], of i, f, g, o: the sums of products, to which bias [4h]
   * (NULL: none) is added, become the gates. peepholes [3h], of i, f, o; NULL: none. cell_before NULL: zeros. */
  void (*lstm_step)(float *gates, const float *bias, const float *peepholes, const float *cell_before, float *cell,
                    float *y, float clip, int64_t h);
  /* dh and dcell: of y and cell as later steps leave it, to dh comes dy (may be NULL); they become zero, and that of the
   * cell before. dgates [4h]: of the sums. */
  void (*lstm_step_back)(const float *gates, const float *peepholes, const float *cell_before, const float *cell,
                         const float *dy, float *dh, float *dcell, float *dgates, float clip, int64_t h);
  /* The same of a GRU. gates [4h]: the sums of x for r, z, n become r, z, n and q, what h gives to n; sums [3h]: of h;
   * bias [4h] of the four. */
  void (*gru_step)(float *gates, const float *sums, const float *bias, const float *y_before, float *y, float clip,
                   int64_t h);
  /* dh becomes what comes to y_before without passing a gate's sums; dgates [4h]: of the sums of r, z, n and of q. */
  void (*gru_step_back)(const float *gates, const float *y_before, const float *dy, float *dh, float *dgates,
                        float clip, int64_t h);
  /* A GRU that resets h first, in two halves. gates [3h], of r, z, n: the sums of r and z, to which bias [3h] (NULL: none) is
   * added, become these, and reset = r y_before. */
  void (*gru_reset)(float *gates, const float *bias, const float *y_before, float *reset, float clip, int64_t h);
  /* Then the sum of n becomes n. */
  void (*gru_reset_step)(float *gates, const float *bias, const float *y_before, float *y, float clip, int64_t h);
  /* dh as gru_step_back's; dgates [3h]: of z and n. */
  void (*gru_reset_step_back)(const float *gates, const float *y_before, const float *dy, float *dh, float *dgates,
                              float clip, int64_t h);
  /* From the gradient of reset: dgates of r, what comes to y_before is added to dh, and reset is made again. */
  void (*gru_reset_back)(const float *gates, const float *y_before, const float *dreset, float *dh, float *dgates,
                         float *reset, float clip, int64_t h);
  /* A simple layer: gate [h], the sum with its bias (NULL: none), becomes its tanh, or ReLU, and so does y. */
  void (*rnn_step)(float *gate, const float *bias, bool relu, float *y, float clip, int64_t h);
  void (*rnn_step_back)(const float *gate, const float *dy, bool relu, float *dh, float *dgate, float clip, int64_t h);

  /* Additive attention of one query q [n] and rows of keys k, ld apart: scores[s] = sum over u of w[u] tanh(q[u] + k[s][u]). */
  void (*additive_scores)(const float *q, const float *k, int64_t ld, int64_t rows, const float *w, int64_t n,
                          float *scores);
  /* From the slopes [rows] of the scores: dq [n] is set; dk [rows][n] and dw [n] are added to. */
  void (*additive_scores_back)(const float *q, const float *k, int64_t ld, int64_t rows, const float *w, int64_t n,
                               const float *slopes, float *dq, float *dk, float *dw);

  /* `turns` times RONDE__MULTIPLY_ADDS independent multiply-adds on whole registers. The result only keeps the
   * compiler from leaving them out. */
  float (*multiply_adds)(int64_t turns);

  void (*add)(const float *a, const float *b, float *y, int64_t n); /* y = a + b; y may be a or b */
  void (*scale)(float *x, float factor, int64_t n);
  /* The sums of products and of squares in f64, and whether all are finite (one pass each; the order of summation is
   * fixed). */
  double (*dot)(const float *x, const float *y, int64_t n);
  double (*sum_squares)(const float *x, int64_t n);
  bool (*all_finite)(const float *x, int64_t n);

  /* bfloat16, for the wire. value = (x + in) + residual, in NULL: x + residual; out is it rounded to nearest even,
   * residual what that lost (0 where it is not finite). residual NULL: x + in, and what rounding loses is lost. */
  void (*bf16_pack)(const float *x, const uint16_t *in, float *residual, uint16_t *out, int64_t n);
  void (*bf16_unpack)(const uint16_t *in, float *x, int64_t n);

  const ronde__norm_kernels *norm;

  const ronde__row_norm_kernels *row_norm;
  const ronde__grouped_kernels *grouped;

  /* Windows: y[j] = max over i < count of x[offsets[i] + j] + bias[j % n_bias]; which[j] = the first i that has it (NaN
   * counts as the largest). n_bias is a multiple of 16 that divides n; bias may be NULL. relu: y[j] = relu(max), and
   * which[j] = RONDE__NO_PLACE where that is not positive; count < 256 then. */
  void (*max_window)(const float *x, const int64_t *offsets, int count, int64_t n, const float *bias, int64_t n_bias,
                     bool relu, float *y, uint8_t *which);
  /* The gradient of one input: dx[j] (+)= the sum over i < count, in this order, of dy[at + j] where which[at + j] ==
   * place, with at and place those of windows[i]. */
  void (*max_gradient)(const float *dy, const uint8_t *which, const ronde__window_of *windows, int count, int64_t n,
                       float *dx, bool accumulate);
  /* Of an input in one window: dx[j] = dy[j] where which[j] == place, else 0 */
  void (*max_place_backward)(const float *dy, const uint8_t *which, int place, int64_t n, float *dx);
  /* y[j] (+)= factor * sum over i of x[offsets[i] + j] */
  void (*avg_window)(const float *x, const int64_t *offsets, int count, int64_t n, float factor, float *y,
                     bool accumulate);
  /* The gradient of one input: dx[j] (+)= the sum over i < count, in this order, of factor * dy[at + j], with at and
   * factor those of windows[i] */
  void (*avg_gradient)(const float *dy, const ronde__window_of *windows, int count, int64_t n, float *dx,
                       bool accumulate);
  /* dx[offsets[i] + j] (+)= factor * dy[j] */
  void (*avg_window_backward)(const float *dy, const int64_t *offsets, int count, int64_t n, float factor, float *dx,
                              bool accumulate);

  /* to (+)= the map of from, for each j < n of the vectors at every place; n is a multiple of 16. */
  void (*winograd)(ronde__winograd_map map, const ronde__winograd_tile *from, const ronde__winograd_tile *to, int64_t n,
                   bool accumulate);

  /* to (+)= the map of from, for each j < n of the vectors at every place; n is a multiple of 16. */
  void (*toeplitz)(ronde__toeplitz_map map, ronde__grid from, ronde__grid to, int64_t n, bool accumulate);

  /* A vector of each row, rows `row` apart: y[r][i] (+)= what picks [n], whose neighbours begin at x[r] + at, give as lane i <
   * vector, and 0 where none does. No lane is given twice. */
  void (*pick_rows)(const float *x, const ronde__pick *picks, int n, int64_t row, int64_t rows, float *y,
                    bool accumulate);
  /* dst[c][r] = src[r][c], r < rows, c < cols */
  void (*transpose)(const float *src, int64_t ld_src, int64_t rows, int64_t cols, float *dst, int64_t ld_dst);
  /* Words [n][4] of blocks first, first + 1, ... of Philox (base/rng.h). */
  void (*philox)(uint64_t key, uint64_t stream, uint64_t first, int64_t n, uint32_t *out);
  /* y[i] (+)= words[i] < threshold ? 0 : x[i] * factor; y may be x */
  void (*drop)(const float *x, const uint32_t *words, uint32_t threshold, float factor, int64_t n, float *y,
               bool accumulate);

  /* y[j] = (x[j] * factor) + shift: decoding pixels */
  void (*from_u8)(const uint8_t *x, float factor, float shift, float *y, int64_t n);

  /* Optimizers; g is the gradient, already scaled. */
  /* velocity: NULL where momentum is 0 */
  void (*sgd)(const ronde__sgd_args *args, float *w, const float *g, float *velocity, int64_t n);
  void (*adam)(const ronde__adam_args *args, float *w, const float *g, float *m, float *v, int64_t n);
  void (*adagrad)(const ronde__adagrad_args *args, float *w, const float *g, float *sum, int64_t n);
  /* velocity: NULL where momentum is 0 */
  void (*rmsprop)(const ronde__rmsprop_args *args, float *w, const float *g, float *square, float *velocity, int64_t n);
} ronde__kernels;

/* The table in use: the best that the CPU has, or what RONDE_ISA asks for (avx512|avx2|sse2|neon; amx|avx512_bf16:
 * avx512 with that for bfloat16). RONDE_E_USAGE where RONDE_ISA names one that this machine or build lacks. */
ronde_status ronde__kernels_get(const ronde__kernels **kernels_out);
/* All that this CPU can run, the best first; NULL past the end. */
const ronde__kernels *ronde__kernels_available(int i);

/* Of flat arrays alone (add to adagrad, but for the GEMM and what layers are made of): for arrays without content, of runs
 * in which only time counts. */
extern const ronde__kernels ronde__kernels_none;
/* n floats, zero, for these kernels to work on; with ronde__kernels_none they have no content, and take no memory
 * (base/ghost.h). NULL: no memory. Given back by ronde__free, and what was mapped by ronde__pages_unmap. */
float *ronde__floats_alloc(const ronde__kernels *kernels, size_t n);
float *ronde__floats_map(const ronde__kernels *kernels, size_t n);
#define RONDE__ALLOC_FLOATS(pointer, kernels, n, what)                                                    \
  do {                                                                                                    \
    size_t floats_ = (n);                                                                                 \
    (pointer) = ronde__floats_alloc((kernels), floats_);                                                  \
    if (!(pointer))                                                                                       \
      return ronde__fail(RONDE_E_MEMORY, "%s: no memory for %zu bytes", (what), floats_ * sizeof(float)); \
  } while (0)

/* With what layers compute: handed down from the job to the description of each op. */
typedef struct ronde__compute {
  const ronde__kernels *kernels;
  ronde__gemm_impl gemm;          /* of f32 */
  const struct ronde__bf16 *bf16; /* for operands of bfloat16 (bf16.h); NULL: all is f32 */
} ronde__compute;

const char *ronde__bf16_name(const struct ronde__bf16 *bf16); /* "amx"; "none" of NULL */

/* Resolves a kernel for a shape with the wanted implementation; falls back to the tile where libxsmm is not built in or
 * has no kernel for the shape. Thread-safe. Cost with libxsmm: about 20 us for a new shape. */
ronde__gemm ronde__gemm_resolve(const ronde__compute *compute, const ronde__gemm_shape *shape);
/* The same for calls that say what is wanted next, or that add short sums to C: prefers the tile where it does these better. */
ronde__gemm ronde__gemm_resolve_tile(const ronde__compute *compute, const ronde__gemm_shape *shape);
const char *ronde__gemm_name(ronde__gemm_impl impl); /* "xsmm", "tile" */
/* RONDE_GEMM=xsmm|tile, else xsmm where it is built in and the instruction set is AVX2 or AVX-512. */
ronde_status ronde__gemm_default(const ronde__kernels *kernels, ronde__gemm_impl *impl_out);

#endif

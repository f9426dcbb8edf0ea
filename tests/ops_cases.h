/* The shapes at which the ops are tested. A row: batch, input CxHxW, and what the op needs. */
#ifndef RONDE_OPS_CASES_H
#define RONDE_OPS_CASES_H

#include "ops/op.h"

typedef struct op_case {
  ronde__op_kind kind;
  int64_t n, c, h, w; /* every input; a loss's target too */
  bool vector;        /* the op sees [C*H*W]: a flattened image where H*W > 1 */
  ronde__op_attr attr;
  bool residual;   /* a sum behind a normalisation: its other operand is the second input */
  int rank;        /* of inputs; 0: 3, or 1 of a vector. 2: [C,W], 4: [C,H,2,W/2] */
  unsigned unread; /* bit i: the loss does not depend on output i */
} op_case;

#define RELU RONDE__ACT_RELU
#define TANH RONDE__ACT_TANH
#define SIGMOID RONDE__ACT_SIGMOID

#define WINDOW(kh, kw, sh, sw, ph, pw) .kernel = {kh, kw}, .stride = {sh, sw}, .padding = {ph, pw}
#define CONV(n, c, h, w, o, kh, kw, sh, sw, ph, pw, ...)                                                            \
  {                                                                                                                 \
    RONDE__OP_CONV2D, n, c, h, w, false, .attr = { WINDOW(kh, kw, sh, sw, ph, pw), .out_channels = o, __VA_ARGS__ } \
  }
#define LINEAR(n, c, h, w, o, ...)                                                \
  {                                                                               \
    RONDE__OP_LINEAR, n, c, h, w, true, .attr = {.out_channels = o, __VA_ARGS__ } \
  }
#define POOL(kind, n, c, h, w, kh, kw, sh, sw, ph, pw, ...)                                               \
  {                                                                                                       \
    RONDE__OP_##kind##_POOL2D, n, c, h, w, false, .attr = { WINDOW(kh, kw, sh, sw, ph, pw), __VA_ARGS__ } \
  }
#define NORM(n, c, h, w, ...)                                                                         \
  {                                                                                                   \
    RONDE__OP_BATCH_NORM2D, n, c, h, w, false, .attr = {.eps = 1e-5f, .momentum = 0.1f, __VA_ARGS__ } \
  }
#define NORM_ADD(n, c, h, w, ...) \
  { RONDE__OP_BATCH_NORM2D, n, c, h, w, false, .attr = {.eps = 1e-5f, .momentum = 0.1f, __VA_ARGS__}, .residual = true }
#define PLAIN_OP(kind, n, c, h, w, is_vector, ...)                   \
  {                                                                  \
    RONDE__OP_##kind, n, c, h, w, is_vector, .attr = { __VA_ARGS__ } \
  }

#define POINTWISE(kind, n, c, h, w, is_vector, ...)                                                            \
  {                                                                                                            \
    RONDE__OP_POINTWISE, n, c, h, w, is_vector, .attr = {.pointwise = {RONDE__POINTWISE_##kind, __VA_ARGS__} } \
  }

/* T steps of F features to H hidden values */
#define LSTM(n, t, f, h, inputs, is_unread)                                                               \
  {                                                                                                       \
    RONDE__OP_LSTM, n, t, 1, f, .attr = {.out_channels = h, .n_inputs = inputs, .bias = true}, .rank = 2, \
                                .unread = is_unread                                                       \
  }

static const op_case op_cases[] = {
    /* 1x1 maps; dead taps: kernels of which most only meet padding */
    CONV(1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, .bias = true),
    CONV(7, 3, 1, 1, 10, 1, 1, 1, 1, 0, 0, .bias = true, .act = TANH),
    CONV(42, 10, 1, 1, 67, 3, 3, 1, 1, 1, 1, .bias = true, .act = RELU),
    CONV(126, 67, 1, 1, 3, 3, 3, 1, 1, 1, 1, .bias = true),
    CONV(7, 3, 1, 1, 3, 3, 3, 1, 1, 1, 1, .bias = true),
    CONV(7, 16, 2, 2, 32, 5, 5, 1, 1, 2, 2, .bias = true, .act = SIGMOID),
    CONV(7, 3, 2, 2, 10, 5, 5, 1, 1, 2, 2, .bias = false, .act = SIGMOID),
    CONV(1, 67, 2, 2, 67, 5, 5, 1, 1, 2, 2, .bias = true, .act = TANH),
    CONV(1, 3, 2, 1, 40, 7, 7, 1, 1, 3, 3, .bias = true),
    /* more padding than kernel: outputs without any tap */
    CONV(7, 3, 4, 4, 40, 1, 1, 1, 1, 2, 2, .bias = true, .act = RELU),
    CONV(7, 3, 4, 4, 5, 1, 1, 1, 1, 2, 2, .bias = true),
    CONV(7, 67, 3, 3, 10, 1, 1, 1, 1, 2, 2, .bias = false),
    CONV(7, 3, 3, 4, 40, 2, 1, 1, 1, 3, 2, .bias = true),
    CONV(7, 20, 3, 3, 40, 2, 2, 3, 3, 3, 3, .bias = true),
    CONV(7, 3, 3, 3, 4, 2, 2, 3, 3, 3, 3, .bias = false),
    /* first layers */
    CONV(42, 3, 8, 8, 67, 3, 3, 1, 1, 1, 1, .bias = true, .act = RELU),
    CONV(126, 1, 12, 12, 16, 5, 5, 1, 1, 0, 0, .bias = true, .act = RELU),
    CONV(7, 1, 28, 28, 6, 5, 5, 1, 1, 2, 2, .bias = true, .act = TANH),
    CONV(7, 1, 28, 28, 32, 3, 3, 1, 1, 1, 1, .bias = true, .act = RELU),
    CONV(1, 3, 16, 16, 64, 7, 7, 2, 2, 3, 3, .bias = false),
    CONV(1, 3, 3, 150, 40, 3, 3, 1, 1, 1, 1, .bias = true),
    CONV(42, 10, 5, 5, 32, 3, 3, 2, 2, 0, 0, .bias = true),
    /* few channels */
    CONV(7, 6, 14, 14, 16, 5, 5, 1, 1, 0, 0, .bias = true, .act = TANH),
    CONV(1, 3, 9, 9, 10, 3, 3, 2, 2, 1, 1, .bias = true, .act = SIGMOID),
    CONV(7, 3, 9, 7, 10, 3, 2, 2, 1, 1, 0, .bias = true),
    CONV(42, 10, 3, 9, 10, 1, 7, 1, 1, 0, 3, .bias = true),
    CONV(126, 3, 6, 6, 3, 2, 2, 2, 2, 0, 0, .bias = false, .act = RELU),
    /* the borders between the forms */
    CONV(7, 16, 4, 4, 31, 3, 3, 1, 1, 1, 1, .bias = true),
    CONV(7, 17, 4, 4, 31, 3, 3, 1, 1, 1, 1, .bias = true),
    CONV(7, 16, 4, 4, 32, 3, 3, 1, 1, 1, 1, .bias = true, .act = RELU),
    CONV(1, 5, 4, 4, 33, 3, 3, 1, 1, 1, 1, .bias = false, .act = RELU),
    /* many channels */
    CONV(7, 128, 4, 4, 128, 3, 3, 1, 1, 1, 1, .bias = true, .act = RELU),
    CONV(42, 128, 2, 2, 64, 3, 3, 1, 1, 1, 1, .bias = false),
    CONV(126, 32, 3, 3, 32, 3, 3, 1, 1, 0, 0, .bias = true, .act = SIGMOID),
    CONV(42, 16, 5, 5, 120, 5, 5, 1, 1, 0, 0, .bias = true, .act = TANH),
    CONV(7, 67, 9, 3, 16, 7, 1, 1, 1, 3, 0, .bias = true),
    CONV(7, 64, 5, 5, 10, 7, 7, 1, 1, 3, 3, .bias = true),
    CONV(1, 67, 5, 6, 67, 2, 2, 1, 1, 1, 1, .bias = false, .act = TANH),
    CONV(1, 20, 3, 200, 20, 3, 3, 1, 1, 1, 1, .bias = true, .act = RELU),
    CONV(300, 20, 2, 3, 20, 3, 3, 1, 1, 1, 1, .bias = true),
    /* maps of 2x2 pixels by nine products: blocks of other widths, a padded block, too few examples for it */
    CONV(33, 67, 2, 2, 200, 3, 3, 1, 1, 1, 1, .bias = true, .act = RELU),
    CONV(32, 200, 2, 2, 40, 3, 3, 1, 1, 1, 1, .bias = true, .act = TANH),
    CONV(31, 64, 2, 2, 40, 3, 3, 1, 1, 1, 1, .bias = true),
    /* Winograd: tiles cut on either side, all paddings, chunks that cut tiles and batches, few examples, gradients by
       taps */
    CONV(7, 40, 7, 7, 67, 3, 3, 1, 1, 1, 1, .bias = true, .act = RELU),
    CONV(8, 67, 10, 6, 40, 3, 3, 1, 1, 0, 0, .bias = false),
    CONV(1, 32, 14, 13, 32, 3, 3, 1, 1, 1, 1, .bias = true, .act = TANH),
    CONV(5, 33, 4, 6, 48, 3, 3, 1, 1, 2, 2, .bias = true),
    CONV(50, 32, 4, 4, 32, 3, 3, 1, 1, 1, 1, .bias = true),
    CONV(49, 32, 8, 4, 32, 3, 3, 1, 1, 1, 0, .bias = false, .act = RELU),
    CONV(33, 67, 4, 4, 33, 3, 3, 1, 1, 1, 1, .bias = true),
    CONV(33, 32, 5, 5, 32, 3, 3, 1, 1, 0, 0, .bias = true),
    /* strides: past the edge, larger than the kernel, different by axis */
    CONV(7, 10, 6, 6, 10, 3, 3, 2, 2, 0, 0, .bias = true),
    CONV(1, 67, 5, 5, 67, 2, 2, 2, 2, 0, 0, .bias = true),
    CONV(42, 67, 5, 5, 10, 3, 3, 3, 3, 0, 0, .bias = true),
    CONV(7, 3, 8, 8, 10, 2, 2, 3, 3, 0, 0, .bias = true),
    CONV(7, 67, 8, 8, 10, 1, 1, 3, 2, 0, 0, .bias = true),
    CONV(7, 10, 8, 8, 67, 1, 1, 3, 3, 1, 1, .bias = true),
    CONV(7, 10, 7, 9, 67, 2, 3, 1, 2, 0, 1, .bias = true, .act = RELU),
    CONV(7, 32, 7, 7, 64, 3, 3, 2, 2, 1, 1, .bias = true),
    CONV(1, 32, 8, 8, 64, 1, 1, 2, 2, 0, 0, .bias = false),
    CONV(7, 16, 11, 10, 8, 5, 5, 3, 2, 2, 1, .bias = true),

    /* groups; as many as channels; as channels of the input alone */
    CONV(7, 6, 5, 5, 9, 3, 3, 1, 1, 1, 1, .bias = true, .groups = 3),
    CONV(42, 8, 4, 4, 8, 3, 3, 2, 2, 1, 1, .bias = false, .groups = 4, .act = RELU),
    CONV(7, 64, 3, 3, 96, 3, 3, 1, 1, 1, 1, .bias = true, .groups = 2, .act = TANH),
    CONV(1, 40, 5, 4, 20, 1, 1, 1, 1, 0, 0, .bias = true, .groups = 5),
    CONV(7, 10, 5, 5, 20, 3, 3, 1, 1, 1, 1, .bias = true, .groups = 10),
    CONV(7, 67, 5, 6, 67, 3, 3, 1, 1, 1, 1, .bias = true, .groups = 67, .act = RELU),
    CONV(42, 10, 7, 7, 10, 3, 3, 2, 2, 1, 1, .bias = false, .groups = 10),
    CONV(1, 130, 4, 4, 130, 5, 5, 1, 1, 2, 2, .bias = true, .groups = 130, .act = SIGMOID),
    CONV(126, 16, 3, 3, 16, 2, 2, 3, 3, 3, 3, .bias = true, .groups = 16),
    CONV(7, 3, 3, 3, 3, 1, 1, 1, 1, 2, 2, .bias = true, .groups = 3),
    CONV(300, 20, 2, 3, 20, 3, 3, 1, 1, 1, 1, .bias = false, .groups = 20),
    CONV(7, 35, 6, 7, 35, 3, 2, 2, 1, 1, 0, .bias = true, .groups = 35),

    LINEAR(1, 1, 1, 1, 1, .bias = true),
    LINEAR(7, 10, 1, 1, 67, .bias = true, .act = RELU),
    LINEAR(42, 67, 1, 1, 10, .bias = true, .act = TANH),
    LINEAR(126, 256, 1, 1, 64, .bias = true, .act = SIGMOID),
    LINEAR(7, 400, 1, 1, 120, .bias = true, .act = TANH),
    LINEAR(1, 513, 1, 1, 128, .bias = false),
    LINEAR(42, 513, 1, 1, 1, .bias = true),
    LINEAR(7, 6272, 1, 1, 67, .bias = true, .act = RELU),
    LINEAR(2, 1, 1, 1, 130, .bias = false, .act = RELU),
    LINEAR(7, 16, 5, 5, 120, .bias = true, .act = TANH),
    LINEAR(42, 3, 9, 19, 10, .bias = true),
    LINEAR(7, 128, 7, 7, 10, .bias = true),
    LINEAR(126, 67, 2, 2, 67, .bias = true, .act = SIGMOID),
    LINEAR(1, 10, 3, 3, 3, .bias = false, .act = SIGMOID),
    LINEAR(300, 20, 1, 2, 10, .bias = true),

    POOL(MAX, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0),
    POOL(MAX, 7, 3, 8, 8, 2, 2, 2, 2, 0, 0),
    POOL(MAX, 42, 10, 9, 7, 2, 2, 1, 2, 1, 1),
    POOL(MAX, 7, 67, 7, 7, 3, 3, 2, 2, 1, 1),
    POOL(MAX, 1, 128, 6, 6, 3, 3, 1, 1, 1, 1),
    POOL(MAX, 126, 16, 4, 4, 3, 3, 3, 3, 0, 0),
    POOL(MAX, 7, 3, 7, 8, 2, 3, 3, 1, 1, 0),
    POOL(MAX, 7, 20, 2, 2, 3, 3, 1, 1, 1, 1),
    POOL(MAX, 1, 3, 16, 16, 16, 16, 1, 1, 0, 0),
    POOL(MAX, 7, 32, 1, 1, 2, 2, 2, 2, 1, 1),
    POOL(MAX, 7, 67, 7, 7, 3, 3, 2, 2, 1, 1, .act = RELU),
    POOL(MAX, 42, 3, 6, 6, 2, 2, 2, 2, 0, 0, .act = RELU),

    POOL(AVG, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0),
    POOL(AVG, 7, 6, 28, 28, 2, 2, 2, 2, 0, 0),
    POOL(AVG, 42, 10, 9, 7, 2, 2, 1, 2, 1, 1),
    POOL(AVG, 7, 67, 7, 7, 3, 3, 2, 2, 1, 1),
    POOL(AVG, 7, 67, 7, 7, 3, 3, 2, 2, 1, 1, .exclude_padding = true),
    POOL(AVG, 126, 16, 4, 4, 3, 3, 3, 3, 0, 0),
    POOL(AVG, 7, 3, 7, 8, 2, 3, 3, 1, 1, 1, .exclude_padding = true),
    POOL(AVG, 1, 128, 6, 6, 6, 6, 1, 1, 0, 0),
    POOL(AVG, 7, 32, 1, 1, 2, 2, 2, 2, 1, 1, .exclude_padding = true),
    POOL(AVG, 7, 3, 40, 40, 20, 20, 10, 10, 10, 10),

    POOL(ADAPTIVE_AVG, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, .exclude_padding = true),
    POOL(ADAPTIVE_AVG, 7, 67, 1, 1, 6, 6, 0, 0, 0, 0, .exclude_padding = true),
    POOL(ADAPTIVE_AVG, 42, 10, 7, 9, 3, 2, 0, 0, 0, 0, .exclude_padding = true),
    POOL(ADAPTIVE_AVG, 7, 128, 4, 4, 1, 1, 0, 0, 0, 0, .exclude_padding = true),
    POOL(ADAPTIVE_AVG, 7, 3, 40, 40, 1, 1, 0, 0, 0, 0, .exclude_padding = true),
    POOL(ADAPTIVE_AVG, 7, 3, 5, 7, 7, 5, 0, 0, 0, 0, .exclude_padding = true),

    PLAIN_OP(UPSAMPLE2D, 1, 1, 1, 1, false, .kernel = {1, 1}),
    PLAIN_OP(UPSAMPLE2D, 7, 67, 3, 4, false, .kernel = {2, 2}),
    PLAIN_OP(UPSAMPLE2D, 42, 10, 2, 3, false, .kernel = {3, 1}),
    PLAIN_OP(UPSAMPLE2D, 1, 130, 1, 1, false, .kernel = {7, 5}),

    NORM(7, 1, 1, 1, .act = RONDE__ACT_NONE),
    NORM(42, 10, 1, 1, .act = RONDE__ACT_NONE),
    NORM(126, 67, 1, 1, .act = RELU),
    NORM(1, 3, 5, 5, .act = RELU),
    NORM(7, 16, 3, 3, .act = RONDE__ACT_NONE),
    NORM(42, 64, 4, 4, .act = RELU),
    NORM(7, 130, 7, 9, .act = RONDE__ACT_NONE),
    NORM(126, 32, 6, 5, .act = RELU),
    NORM_ADD(7, 1, 1, 1, .act = RONDE__ACT_NONE),
    NORM_ADD(42, 10, 2, 2, .act = RELU),
    NORM_ADD(126, 67, 1, 1, .act = RONDE__ACT_NONE),
    NORM_ADD(1, 3, 5, 5, .act = RELU),
    NORM_ADD(7, 130, 7, 9, .act = RELU),

    PLAIN_OP(DROPOUT, 1, 1, 1, 1, false, .probability = 0.5f),
    PLAIN_OP(DROPOUT, 7, 67, 3, 3, false, .probability = 0.25f),
    PLAIN_OP(DROPOUT, 42, 10, 2, 3, false, .probability = 0.9f),
    PLAIN_OP(DROPOUT, 7, 130, 1, 1, true, .probability = 0.5f),
    PLAIN_OP(DROPOUT, 7, 10, 1, 1, true, .probability = 0),

    PLAIN_OP(ACTIVATION, 1, 1, 1, 1, false, .act = RELU),
    PLAIN_OP(ACTIVATION, 7, 67, 3, 3, false, .act = RELU),
    PLAIN_OP(ACTIVATION, 42, 10, 2, 3, false, .act = TANH),
    PLAIN_OP(ACTIVATION, 7, 67, 3, 3, false, .act = SIGMOID),
    PLAIN_OP(ACTIVATION, 126, 3, 5, 1, false, .act = SIGMOID),
    PLAIN_OP(ACTIVATION, 7, 10, 1, 1, true, .act = TANH),

    POINTWISE(GELU, 1, 1, 1, 1, false, 0, 0),
    POINTWISE(GELU, 7, 67, 3, 3, false, 0, 0),
    POINTWISE(GELU_TANH, 42, 10, 2, 3, false, 0, 0),
    POINTWISE(SILU, 7, 67, 3, 3, false, 0, 0),
    POINTWISE(HARD_SWISH, 126, 3, 5, 1, false, 0, 0),
    POINTWISE(HARD_SIGMOID, 7, 67, 3, 3, false, 0.2f, 0.5f),
    POINTWISE(LEAKY_RELU, 7, 67, 3, 3, false, 0.01f, 0),
    POINTWISE(ELU, 7, 10, 1, 1, true, 1, 0),
    POINTWISE(ELU, 42, 10, 2, 3, false, 0.5f, 0),
    POINTWISE(CLIP, 7, 67, 3, 3, false, 0.25f, 2),
    POINTWISE(CLIP, 7, 10, 1, 1, true, 0, 6),
    {RONDE__OP_POINTWISE, 3, 5, 3, 8, .attr = {.pointwise = {.kind = RONDE__POINTWISE_GELU}}, .rank = 4},

    PLAIN_OP(FLATTEN, 1, 1, 1, 1, false, 0),
    PLAIN_OP(FLATTEN, 7, 67, 2, 3, false, 0),
    PLAIN_OP(FLATTEN, 7, 10, 1, 1, true, 0),

    PLAIN_OP(ADD, 1, 1, 1, 1, false, 0),
    PLAIN_OP(ADD, 7, 67, 3, 3, false, 0),
    PLAIN_OP(ADD, 42, 10, 2, 3, false, 0),
    PLAIN_OP(ADD, 7, 10, 1, 1, true, 0),

    PLAIN_OP(CONCAT, 1, 1, 1, 1, false, .n_inputs = 2),
    PLAIN_OP(CONCAT, 7, 60, 3, 3, false, .n_inputs = 4),
    PLAIN_OP(CONCAT, 42, 10, 2, 3, false, .n_inputs = 3),
    PLAIN_OP(CONCAT, 126, 64, 2, 1, false, .n_inputs = 2),
    PLAIN_OP(CONCAT, 7, 67, 1, 1, true, .n_inputs = 3),

    PLAIN_OP(SUBTRACT, 1, 1, 1, 1, false, 0),
    PLAIN_OP(SUBTRACT, 7, 67, 3, 3, false, 0),
    PLAIN_OP(SUBTRACT, 7, 10, 1, 1, true, 0),
    PLAIN_OP(MULTIPLY, 1, 1, 1, 1, false, 0),
    PLAIN_OP(MULTIPLY, 7, 67, 3, 3, false, 0),
    PLAIN_OP(MULTIPLY, 42, 10, 2, 3, false, 0),

    PLAIN_OP(SPLIT, 1, 2, 1, 1, false, .n_outputs = 2, .sizes = {1, 1}),
    PLAIN_OP(SPLIT, 7, 150, 3, 3, false, .n_outputs = 4, .sizes = {1, 67, 64, 18}),
    PLAIN_OP(SPLIT, 42, 10, 2, 3, false, .n_outputs = 3, .sizes = {3, 3, 4}),
    PLAIN_OP(SPLIT, 7, 67, 1, 1, true, .n_outputs = 2, .sizes = {40, 27}),
    {RONDE__OP_SPLIT, 7, 67, 3, 2, .attr = {.n_outputs = 3, .sizes = {20, 40, 7}}, .unread = 5},
    {RONDE__OP_SPLIT, 3, 9, 1, 5, .attr = {.n_outputs = 2, .sizes = {2, 7}}, .rank = 2, .unread = 1},

    PLAIN_OP(SOFTMAX, 1, 1, 1, 1, true, .dim = 0),
    PLAIN_OP(SOFTMAX, 7, 67, 1, 1, true, .dim = 0),
    PLAIN_OP(SOFTMAX, 7, 20, 3, 5, false, .dim = 0),
    PLAIN_OP(SOFTMAX, 42, 3, 4, 5, false, .dim = 2),
    {RONDE__OP_SOFTMAX, 7, 6, 1, 9, .attr = {.dim = 1}, .rank = 2},
    {RONDE__OP_SOFTMAX, 3, 5, 3, 8, .attr = {.dim = 1}, .rank = 4},

    PLAIN_OP(LAYER_NORM, 7, 67, 1, 1, true, .dim = 1, .eps = 1e-5f),
    PLAIN_OP(LAYER_NORM, 42, 3, 4, 5, false, .dim = 3, .eps = 1e-5f),
    PLAIN_OP(LAYER_NORM, 3, 5, 4, 16, false, .dim = 1, .eps = 1e-3f),
    {RONDE__OP_LAYER_NORM, 7, 6, 1, 40, .attr = {.dim = 1, .eps = 1e-5f}, .rank = 2},
    {RONDE__OP_LAYER_NORM, 3, 5, 3, 8, .attr = {.dim = 2, .eps = 1e-5f}, .rank = 4},

    LSTM(1, 1, 1, 1, 1, 0),
    LSTM(7, 5, 10, 6, 3, 0),
    LSTM(7, 6, 5, 17, 1, 0),
    LSTM(3, 1, 4, 5, 3, 5),
    LSTM(5, 4, 67, 20, 3, 1),
    LSTM(42, 3, 3, 10, 1, 6),
    {RONDE__OP_LSTM, 4, 3, 1, 5, .attr = {.out_channels = 6, .n_inputs = 3}, .rank = 2},

    PLAIN_OP(REORDER, 1, 1, 1, 1, false, 0),
    PLAIN_OP(REORDER, 7, 67, 3, 3, false, 0),
    PLAIN_OP(REORDER, 42, 10, 2, 3, false, 0),
    PLAIN_OP(REORDER, 126, 16, 1, 5, false, 0),
    PLAIN_OP(REORDER, 7, 130, 1, 1, true, 0),

    PLAIN_OP(CROSS_ENTROPY, 1, 1, 1, 1, true, 0),
    PLAIN_OP(CROSS_ENTROPY, 7, 10, 1, 1, true, 0),
    PLAIN_OP(CROSS_ENTROPY, 42, 67, 1, 1, true, 0),
    PLAIN_OP(CROSS_ENTROPY, 126, 130, 1, 1, true, 0),
    PLAIN_OP(CROSS_ENTROPY, 7, 3, 2, 2, true, 0),
    PLAIN_OP(CROSS_ENTROPY, 42, 10, 1, 1, true, .label_smoothing = 0.1f),
    PLAIN_OP(CROSS_ENTROPY, 7, 67, 1, 1, true, .label_smoothing = 0.75f),

    PLAIN_OP(MSE_LOSS, 1, 1, 1, 1, true, 0),
    PLAIN_OP(MSE_LOSS, 7, 10, 1, 1, true, 0),
    PLAIN_OP(MSE_LOSS, 42, 67, 2, 3, false, 0),
    PLAIN_OP(MSE_LOSS, 126, 3, 2, 2, true, 0),

    PLAIN_OP(L1_LOSS, 7, 10, 1, 1, true, 0),
    PLAIN_OP(L1_LOSS, 42, 67, 2, 3, false, 0),
    PLAIN_OP(HUBER_LOSS, 7, 10, 1, 1, true, .delta = 1.0f),
    PLAIN_OP(HUBER_LOSS, 42, 67, 2, 3, false, .delta = 0.25f),
    PLAIN_OP(BCE_LOSS, 7, 10, 1, 1, true, 0),
    PLAIN_OP(BCE_LOSS, 42, 67, 2, 3, false, 0),
};

#endif

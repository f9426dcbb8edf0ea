/* The shapes at which the ops are tested. A row: batch, input CxHxW, and what the op needs. */
#ifndef RONDE_OPS_CASES_H
#define RONDE_OPS_CASES_H

#include "ops/op.h"

typedef struct op_case {
  ronde__op_kind kind;
  int64_t n, c, h, w; /* every input; a loss's target too */
  bool vector;        /* the op sees [C*H*W]: a flattened image where H*W > 1 */
  ronde__op_attr attr;
  bool residual;                  /* a sum behind a normalisation: its other operand is the second input */
  int rank;                       /* of inputs; 0: 3, or 1 of a vector. 2: [C,W], 4: [C,H,2,W/2] */
  int64_t second[RONDE_MAX_RANK]; /* dims of the second input, of the same rank; 0: those of the first */
  unsigned unread;                /* bit i: the loss does not depend on output i */
} op_case;

#define RELU RONDE__ACT_RELU
#define TANH RONDE__ACT_TANH
#define SIGMOID RONDE__ACT_SIGMOID

#define WINDOW(kh, kw, sh, sw, ph, pw) .kernel = {kh, kw}, .stride = {sh, sw}, .padding = {ph, pw}
#define CONV(n, c, h, w, o, kh, kw, sh, sw, ph, pw, ...)                                                            \
  {                                                                                                                 \
    RONDE__OP_CONV2D, n, c, h, w, false, .attr = { WINDOW(kh, kw, sh, sw, ph, pw), .out_channels = o, __VA_ARGS__ } \
  }
#define CONV_TRANSPOSE(n, c, h, w, o, kh, kw, sh, sw, ph, pw, ...) \
  {                                                                \
    RONDE__OP_CONV_TRANSPOSE2D, n, c, h, w, false, .attr = {       \
      WINDOW(kh, kw, sh, sw, ph, pw),                              \
      .out_channels = o,                                           \
      __VA_ARGS__                                                  \
    }                                                              \
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

#define RESIZE(n, c, h, w, oh, ow, ...)                                                           \
  {                                                                                               \
    RONDE__OP_RESIZE2D, n, c, h, w, false, .attr = {.kernel = {oh, ow}, .resize = {__VA_ARGS__} } \
  }
#define POINTWISE(kind, n, c, h, w, is_vector, ...)                                                            \
  {                                                                                                            \
    RONDE__OP_POINTWISE, n, c, h, w, is_vector, .attr = {.pointwise = {RONDE__POINTWISE_##kind, __VA_ARGS__} } \
  }

#define PAIR(kind, what, n, c, h, w, ...)                                                         \
  {                                                                                               \
    RONDE__OP_##kind, n, c, h, w, .attr = {.pair = RONDE__PAIR_##what}, .second = { __VA_ARGS__ } \
  }
#define FUNCTION(kind, n, c, h, w, ...)                                                          \
  {                                                                                              \
    RONDE__OP_FUNCTION, n, c, h, w, .attr = {.function = {RONDE__FUNCTION_##kind, __VA_ARGS__} } \
  }
#define REDUCE(op, kind, n, c, h, w, of, stay)                                                      \
  {                                                                                                 \
    RONDE__OP_##op, n, c, h, w, .attr = {.reduce = RONDE__REDUCE_##kind, .dims = of, .keep = stay } \
  }
/* [m,k] by [k,n], each the other way round where it is turned */
#define MATMUL(examples, m, k, n, is_rank_2, a, b)                                                          \
  {                                                                                                         \
    RONDE__OP_MATMUL, examples, (a) ? (k) : (m), 1, (a) ? (m) : (k), .attr = {.turned = {a, b}}, .rank = 2, \
                                                                     .second = {                            \
                                                                       (b) ? (n) : (k),                     \
                                                                       (b) ? (k) : (n)                      \
                                                                     }                                      \
  }

/* T queries of F features, S keys; three inputs, or one with them side by side; perhaps lengths. */
#define ATTENTION(n, t, s, f, number_of_heads, is_causal, has_lengths)                                                \
  {                                                                                                                   \
    RONDE__OP_ATTENTION, n, t, 1, f,                                                                                  \
        .attr = {.heads = number_of_heads, .causal = is_causal, .lengths = has_lengths, .n_inputs = 3 + has_lengths}, \
        .rank = 2, .second = {                                                                                        \
          s,                                                                                                          \
          f                                                                                                           \
        }                                                                                                             \
  }
#define SELF_ATTENTION(n, t, f, number_of_heads, is_causal, has_lengths)                                              \
  {                                                                                                                   \
    RONDE__OP_ATTENTION, n, t, 1, 3 * (f),                                                                            \
        .attr = {.heads = number_of_heads, .causal = is_causal, .lengths = has_lengths, .n_inputs = 1 + has_lengths}, \
        .rank = 2                                                                                                     \
  }

/* The weights of T queries over S keys, of U features. */
#define ADDITIVE(n, t, s, u, is_normalised, has_lengths)                                                       \
  {                                                                                                            \
    RONDE__OP_ADDITIVE_ATTENTION, n, t, 1, u,                                                                  \
        .attr = {.normalised = is_normalised, .lengths = has_lengths, .n_inputs = 2 + has_lengths}, .rank = 2, \
        .second = {                                                                                            \
          s,                                                                                                   \
          u                                                                                                    \
        }                                                                                                      \
  }

/* T steps of P features over S places of E features, whose keys have A; H hidden values, F filters of K taps. */
#define LOCATION(n, t, p, s, e, a, h_, f, k, has_lengths, ...) \
  {                                                            \
    RONDE__OP_LOCATION_ATTENTION, n, t, 1, p,                  \
        .attr = {.out_channels = h_,                           \
                 .filters = f,                                 \
                 .kernel = {1, k},                             \
                 .lengths = has_lengths,                       \
                 .n_inputs = 3 + has_lengths},                 \
        .rank = 2, .second = {s, e, a}, __VA_ARGS__            \
  }

/* Between sequences of T rows of F values */
#define VALUE_ERROR(kind, n, t, f, has_lengths) \
  { RONDE__OP_##kind, n, t, 1, f, .attr = {.lengths = has_lengths, .n_inputs = 2 + has_lengths}, .rank = 2 }

/* T steps of F features from V rows */
#define EMBEDDING(n, t, f, v)                                                            \
  {                                                                                      \
    RONDE__OP_EMBEDDING, n, t, 1, 1, true, .attr = {.out_channels = f, .vocabulary = v } \
  }

/* T steps of F features to H hidden values; forwards or backwards, perhaps with first states, perhaps with lengths. */
#define LSTM(n, t, f, h, has_states, has_lengths, is_reverse, is_unread) \
  {                                                                      \
    RONDE__OP_LSTM, n, t, 1, f,                                          \
        .attr = {.out_channels = h,                                      \
                 .n_inputs = 1 + 2 * (has_states) + (has_lengths),       \
                 .lengths = has_lengths,                                 \
                 .reverse = is_reverse,                                  \
                 .bias = true},                                          \
        .rank = 2, .unread = is_unread                                   \
  }
#define GRU(n, t, f, h, has_state, has_lengths, is_reverse, is_unread) \
  {                                                                    \
    RONDE__OP_GRU, n, t, 1, f,                                         \
        .attr = {.out_channels = h,                                    \
                 .n_inputs = 1 + (has_state) + (has_lengths),          \
                 .lengths = has_lengths,                               \
                 .cell = RONDE__CELL_GRU,                              \
                 .reverse = is_reverse,                                \
                 .bias = true},                                        \
        .rank = 2, .unread = is_unread                                 \
  }
/* The same of any cell. */
#define CELLS(op, of, n, t, f, h, n_states, has_lengths, has_peepholes, is_reverse, most, is_unread) \
  {                                                                                                  \
    op, n, t, 1, f,                                                                                  \
        .attr = {.out_channels = h,                                                                  \
                 .n_inputs = 1 + (n_states) + (has_lengths),                                         \
                 .lengths = has_lengths,                                                             \
                 .cell = of,                                                                         \
                 .peepholes = has_peepholes,                                                         \
                 .reverse = is_reverse,                                                              \
                 .clip = most,                                                                       \
                 .bias = true},                                                                      \
        .rank = 2, .unread = is_unread                                                               \
  }
/* Of an LSTM with peepholes, a GRU that resets first, and simple layers. */
#define RECURRENT(OP, CELL, n, t, f, h, n_states, has_lengths, is_reverse, is_unread)                            \
  CELLS(RONDE__OP_##OP, RONDE__CELL_##CELL, n, t, f, h, n_states, has_lengths, RONDE__OP_##OP == RONDE__OP_LSTM, \
        is_reverse, 0, is_unread)
/* With bounds of what goes into functions. */
#define CLIPPED(OP, CELL, n, t, f, h, n_states, has_lengths, has_peepholes, most) \
  CELLS(RONDE__OP_##OP, RONDE__CELL_##CELL, n, t, f, h, n_states, has_lengths, has_peepholes, false, most, 0)

/* T steps of K classes, S labels */
#define CTC(n, t, k, s, blank_class, has_lengths) \
  {                                               \
    RONDE__OP_CTC_LOSS, n, t, 1, k,               \
        .attr = {.labels = s,                     \
                 .blank = blank_class,            \
                 .zero_infinity = true,           \
                 .lengths = has_lengths,          \
                 .n_inputs = 2 + has_lengths},    \
        .rank = 2                                 \
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

    /* dilation: in all forms but those of plain windows; strides that share a divisor with it, or none; dead taps */
    CONV(7, 3, 9, 9, 40, 3, 3, 1, 1, 2, 2, .bias = true, .act = RELU, .dilation = {2, 2}),
    CONV(7, 3, 9, 8, 10, 3, 3, 1, 1, 2, 1, .bias = true, .act = TANH, .dilation = {2, 1}),
    CONV(42, 10, 11, 7, 10, 3, 2, 2, 2, 2, 1, .bias = true, .dilation = {2, 3}),
    CONV(7, 3, 12, 13, 5, 4, 3, 2, 3, 3, 2, .bias = false, .dilation = {3, 2}),
    CONV(7, 40, 9, 9, 33, 3, 3, 1, 1, 2, 2, .bias = true, .act = RELU, .dilation = {2, 2}),
    CONV(1, 67, 10, 8, 40, 3, 4, 4, 2, 3, 2, .bias = true, .dilation = {2, 2}),
    CONV(7, 20, 12, 11, 40, 3, 3, 3, 2, 4, 3, .bias = false, .dilation = {4, 3}),
    CONV(33, 40, 7, 7, 32, 3, 3, 1, 1, 6, 6, .bias = true, .dilation = {6, 6}),
    CONV(7, 3, 3, 3, 40, 3, 3, 1, 1, 4, 4, .bias = true, .dilation = {4, 4}),
    /* more zeros behind than in front, and fewer */
    CONV(7, 3, 8, 8, 40, 3, 3, 2, 2, 0, 0, .bias = true, .act = RELU, .padding_more = {1, 1}),
    CONV(7, 3, 7, 8, 10, 4, 2, 1, 1, 1, 0, .bias = true, .padding_more = {1, 1}),
    CONV(7, 40, 8, 8, 67, 3, 3, 2, 2, 0, 0, .bias = true, .padding_more = {1, 1}),
    CONV(33, 32, 6, 6, 32, 3, 3, 1, 1, 2, 2, .bias = true, .padding_more = {-2, -1}),
    CONV(7, 67, 5, 6, 32, 3, 2, 1, 2, 1, 1, .bias = false, .padding_more = {3, -1}, .dilation = {2, 2}),

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
    /* tiles of them: widths of windows, strides, rows and columns that are left over, maps without any tile, many examples */
    CONV(7, 67, 9, 11, 67, 3, 3, 1, 1, 1, 1, .bias = true, .groups = 67, .act = RELU),
    CONV(3, 20, 13, 14, 20, 3, 3, 2, 2, 1, 1, .bias = true, .groups = 20),
    CONV(3, 40, 9, 13, 40, 5, 5, 1, 1, 2, 2, .bias = false, .groups = 40),
    CONV(2, 16, 12, 19, 16, 5, 5, 2, 2, 2, 2, .bias = true, .groups = 16),
    CONV(1, 33, 11, 15, 33, 7, 7, 1, 1, 3, 3, .bias = true, .groups = 33, .act = TANH),
    CONV(2, 16, 14, 21, 16, 7, 7, 2, 2, 3, 3, .bias = true, .groups = 16),
    CONV(3, 16, 5, 9, 16, 4, 4, 1, 1, 2, 1, .bias = true, .groups = 16),
    CONV(3, 16, 7, 16, 16, 2, 3, 2, 3, 0, 1, .bias = true, .groups = 16),
    CONV(130, 16, 4, 7, 16, 3, 3, 1, 1, 1, 1, .bias = true, .groups = 16),
    CONV(3, 20, 9, 10, 20, 3, 3, 1, 1, 2, 2, .bias = true, .groups = 20, .dilation = {2, 2}),
    CONV(3, 20, 9, 10, 20, 3, 3, 2, 2, 0, 0, .bias = true, .groups = 20, .padding_more = {1, 1}),
    CONV(3, 20, 8, 9, 20, 1, 1, 2, 1, 0, 0, .bias = true, .groups = 20),
    /* several groups a block: narrower than a vector and wider, a padded block, tiles and lists of taps */
    CONV(7, 40, 6, 9, 40, 3, 3, 1, 1, 1, 1, .bias = true, .groups = 20),
    CONV(3, 72, 7, 11, 72, 3, 3, 1, 1, 1, 1, .bias = true, .groups = 18, .act = RELU),
    CONV(3, 104, 9, 10, 104, 3, 3, 2, 2, 1, 1, .bias = false, .groups = 13),
    CONV(3, 128, 5, 7, 128, 3, 3, 1, 1, 1, 1, .bias = true, .groups = 8, .act = RELU),
    CONV(2, 64, 7, 8, 64, 3, 3, 2, 2, 1, 1, .bias = true, .groups = 2),
    CONV(3, 32, 6, 7, 32, 1, 1, 1, 1, 0, 0, .bias = true, .groups = 8),
    CONV(3, 32, 7, 9, 32, 1, 1, 2, 2, 0, 0, .bias = true, .groups = 2),
    CONV(2, 24, 9, 9, 24, 5, 5, 1, 1, 2, 2, .bias = true, .groups = 3),
    CONV(2, 24, 9, 9, 24, 3, 3, 1, 1, 2, 2, .bias = true, .groups = 6, .dilation = {2, 2}),
    CONV(130, 16, 3, 6, 16, 3, 3, 1, 1, 1, 1, .bias = true, .groups = 4),
    /* groups of whole blocks, by the forms of one group */
    CONV(7, 128, 3, 3, 64, 3, 3, 1, 1, 1, 1, .bias = true, .groups = 2, .act = TANH),
    CONV(7, 96, 6, 6, 96, 3, 3, 1, 1, 1, 1, .bias = true, .groups = 2, .act = RELU),
    CONV(33, 128, 2, 2, 128, 3, 3, 1, 1, 1, 1, .bias = false, .groups = 2),
    CONV(2, 192, 3, 4, 192, 1, 1, 1, 1, 0, 0, .bias = true, .groups = 3),

    /* one pixel; enlarging with and without output padding; few and many channels on either side; paddings of one side;
       more output padding than stride; Winograd and 2x2 maps inside; groups of all kinds */
    CONV_TRANSPOSE(1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, .bias = true),
    CONV_TRANSPOSE(7, 67, 1, 1, 40, 4, 4, 1, 1, 0, 0, .bias = false),
    CONV_TRANSPOSE(7, 6, 4, 5, 3, 2, 2, 2, 2, 0, 0, .bias = true),
    CONV_TRANSPOSE(7, 67, 4, 3, 33, 2, 2, 2, 2, 0, 0, .bias = true),
    CONV_TRANSPOSE(7, 10, 4, 4, 40, 3, 3, 2, 2, 1, 1, .bias = true, .output_padding = {1, 1}),
    CONV_TRANSPOSE(3, 64, 5, 4, 3, 4, 4, 2, 2, 1, 1, .bias = true),
    CONV_TRANSPOSE(7, 5, 3, 4, 6, 3, 2, 3, 2, 0, 1, .bias = true, .output_padding = {2, 0}),
    CONV_TRANSPOSE(7, 20, 4, 4, 40, 3, 3, 2, 1, 0, 1, .bias = true, .output_padding = {1, 0}),
    CONV_TRANSPOSE(3, 20, 5, 5, 20, 3, 3, 1, 1, 2, 1, .bias = true, .output_padding = {1, 0}, .dilation = {2, 3}),
    CONV_TRANSPOSE(3, 40, 4, 5, 6, 3, 3, 2, 2, 1, 0, .bias = true, .padding_more = {-1, 2}),
    CONV_TRANSPOSE(3, 3, 4, 4, 67, 2, 2, 3, 3, 0, 0, .bias = true),
    CONV_TRANSPOSE(33, 32, 5, 5, 32, 3, 3, 1, 1, 1, 1, .bias = true),
    CONV_TRANSPOSE(33, 67, 2, 2, 64, 3, 3, 1, 1, 1, 1, .bias = true),
    CONV_TRANSPOSE(7, 6, 4, 4, 9, 3, 3, 2, 2, 1, 1, .bias = true, .groups = 3),
    CONV_TRANSPOSE(7, 20, 4, 5, 20, 3, 3, 2, 2, 1, 1, .bias = true, .groups = 20, .output_padding = {1, 1}),
    CONV_TRANSPOSE(3, 40, 4, 5, 40, 2, 2, 2, 2, 0, 0, .bias = true, .groups = 10),
    CONV_TRANSPOSE(3, 128, 3, 3, 64, 3, 3, 2, 2, 1, 1, .bias = true, .groups = 2),

    LINEAR(1, 1, 1, 1, 1, .bias = true),
    LINEAR(7, 10, 1, 1, 67, .bias = true, .act = RELU),
    LINEAR(42, 67, 1, 1, 10, .bias = true, .act = TANH),
    LINEAR(126, 256, 1, 1, 64, .bias = true, .act = SIGMOID),
    LINEAR(27, 100, 1, 1, 150, .bias = true, .act = RELU),
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
    LINEAR(630, 67, 1, 1, 70, .bias = true, .act = RELU),
    LINEAR(1030, 130, 1, 1, 10),
    LINEAR(2100, 20, 1, 1, 33, .bias = true),
    LINEAR(300, 800, 1, 1, 834, .bias = true),

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

    POOL(MAX, 7, 3, 8, 8, 3, 3, 2, 2, 0, 0, .ceil_mode = true),
    POOL(MAX, 7, 67, 7, 6, 3, 2, 2, 2, 1, 0, .ceil_mode = true, .padding_more = {0, 1}),
    POOL(MAX, 42, 10, 9, 9, 3, 3, 1, 2, 2, 1, .dilation = {2, 2}),
    POOL(MAX, 7, 20, 6, 6, 2, 2, 2, 2, 0, 0, .dilation = {2, 3}),
    POOL(MAX, 7, 20, 5, 5, 3, 3, 1, 1, 2, 2, .padding_more = {0, -1}),

    POOL(AVG, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0),
    POOL(AVG, 7, 3, 8, 8, 3, 3, 2, 2, 0, 0, .ceil_mode = true),
    POOL(AVG, 7, 67, 8, 6, 3, 2, 2, 3, 1, 1, .ceil_mode = true, .padding_more = {-1, 0}),
    POOL(AVG, 7, 67, 8, 8, 3, 3, 2, 2, 1, 1, .ceil_mode = true, .exclude_padding = true),
    POOL(AVG, 42, 10, 9, 9, 3, 3, 1, 2, 2, 1, .dilation = {2, 2}),
    POOL(AVG, 7, 20, 7, 6, 2, 2, 2, 2, 0, 1, .dilation = {2, 3}, .exclude_padding = true),
    POOL(AVG, 7, 20, 5, 5, 3, 3, 1, 1, 2, 2, .padding_more = {0, -1}),
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

    /* larger and smaller, one pixel on either side, all ways to place and to round */
    RESIZE(1, 1, 1, 1, 1, 1, .linear = true),
    RESIZE(7, 67, 3, 4, 7, 9, .linear = true),
    RESIZE(7, 67, 3, 4, 7, 9, .linear = true, .coordinates = RONDE__RESIZE_ALIGN_CORNERS),
    RESIZE(42, 10, 5, 6, 3, 1, .linear = true, .coordinates = RONDE__RESIZE_ALIGN_CORNERS),
    RESIZE(3, 3, 5, 6, 2, 13, .linear = true, .coordinates = RONDE__RESIZE_ASYMMETRIC),
    RESIZE(3, 20, 6, 5, 1, 8, .linear = true, .coordinates = RONDE__RESIZE_PYTORCH_HALF_PIXEL),
    RESIZE(3, 20, 5, 5, 8, 8, .linear = true, .scale = {1.7f, 1.65f}),
    RESIZE(7, 67, 4, 6, 7, 5, .rounding = RONDE__RESIZE_ROUND_PREFER_FLOOR),
    RESIZE(3, 6, 4, 6, 2, 3, .rounding = RONDE__RESIZE_ROUND_PREFER_CEIL),
    RESIZE(3, 20, 4, 6, 9, 4, .rounding = RONDE__RESIZE_FLOOR, .coordinates = RONDE__RESIZE_ASYMMETRIC),
    RESIZE(3, 20, 4, 3, 6, 7, .rounding = RONDE__RESIZE_CEIL, .coordinates = RONDE__RESIZE_ALIGN_CORNERS),

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
    PLAIN_OP(DROPOUT, 7, 67, 3, 3, false, .probability = 0.25f, .length = 9),
    PLAIN_OP(DROPOUT, 42, 10, 2, 3, false, .probability = 0.5f, .length = 60),
    PLAIN_OP(DROPOUT, 7, 130, 1, 1, true, .probability = 0.5f, .length = 13),
    {RONDE__OP_DROPOUT, 7, 6, 1, 40, .attr = {.probability = 0.5f}, .rank = 2},
    {RONDE__OP_DROPOUT, 3, 9, 1, 130, .attr = {.probability = 0.25f}, .rank = 2},
    {RONDE__OP_DROPOUT, 3, 9, 1, 64, .attr = {.probability = 0.5f, .length = 96}, .rank = 2},

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
    {RONDE__OP_LAYER_NORM, 3, 7, 1, 192, .attr = {.dim = 1, .eps = 1e-5f}, .rank = 2},
    {RONDE__OP_LAYER_NORM, 42, 5, 1, 130, .attr = {.dim = 1, .eps = 1e-5f}, .rank = 2},
    {RONDE__OP_LAYER_NORM, 3, 5, 3, 8, .attr = {.dim = 2, .eps = 1e-5f}, .rank = 4},

    /* vectors, steps and volumes; one group, several a block, more than a block, one a channel */
    PLAIN_OP(GROUP_NORM, 7, 66, 1, 1, true, .groups = 3, .affine = true, .eps = 1e-5f),
    PLAIN_OP(GROUP_NORM, 42, 6, 4, 5, false, .groups = 1, .affine = true, .eps = 1e-5f),
    PLAIN_OP(GROUP_NORM, 7, 67, 3, 3, false, .groups = 67, .affine = true, .eps = 1e-5f),
    PLAIN_OP(GROUP_NORM, 3, 132, 3, 2, false, .groups = 2, .affine = true, .eps = 1e-3f),
    PLAIN_OP(GROUP_NORM, 5, 40, 4, 3, false, .groups = 8, .eps = 1e-5f),
    PLAIN_OP(GROUP_NORM, 1, 3, 9, 11, false, .groups = 3, .eps = 1e-5f),
    {RONDE__OP_GROUP_NORM, 7, 6, 1, 9, .attr = {.groups = 2, .affine = true, .eps = 1e-5f}, .rank = 2},
    {RONDE__OP_GROUP_NORM, 3, 20, 3, 8, .attr = {.groups = 5, .affine = true, .eps = 1e-5f}, .rank = 4},

    /* labels that no alignment fits; a step; lengths of none */
    CTC(1, 1, 2, 1, 0, false),
    CTC(7, 5, 4, 3, 0, false),
    CTC(5, 8, 3, 4, 2, false),
    CTC(16, 5, 4, 2, 1, true),

    /* lengths of one, of none, and beyond the end; more rows than a chunk of the weights' gradients, and whole chunks */
    LSTM(1, 1, 1, 1, false, false, false, 0),
    LSTM(7, 5, 10, 6, true, false, false, 0),
    LSTM(7, 6, 5, 17, false, true, false, 0),
    LSTM(3, 1, 4, 5, true, false, true, 5),
    LSTM(5, 4, 67, 20, true, true, true, 1),
    LSTM(42, 3, 3, 10, false, false, false, 6),
    LSTM(16, 8, 5, 32, false, true, true, 0),
    LSTM(7, 5, 6, 3, true, true, false, 2),
    LSTM(3, 24, 70, 66, true, true, true, 0), /* narrow last panels; whole ones */
    LSTM(2, 3, 64, 128, false, false, false, 5),
    GRU(1, 1, 1, 1, false, false, false, 0),
    GRU(7, 5, 10, 6, true, false, false, 0),
    GRU(7, 6, 5, 17, false, true, false, 0),
    GRU(3, 1, 4, 5, true, false, true, 1),
    GRU(5, 4, 67, 20, true, true, true, 0),
    GRU(42, 3, 3, 10, false, false, false, 2),
    GRU(16, 8, 5, 32, false, true, true, 0),
    GRU(3, 24, 70, 66, true, true, false, 0),
    GRU(2, 3, 128, 64, false, false, true, 2),
    {RONDE__OP_GRU, 4, 3, 1, 5, .attr = {.out_channels = 6, .n_inputs = 2, .cell = RONDE__CELL_GRU}, .rank = 2},
    {RONDE__OP_LSTM, 4, 3, 1, 5, .attr = {.out_channels = 6, .n_inputs = 3}, .rank = 2},
    {RONDE__OP_LSTM, 4, 3, 1, 5, .attr = {.out_channels = 6, .n_inputs = 3, .peepholes = true}, .rank = 2},
    RECURRENT(LSTM, LSTM, 1, 1, 1, 1, 0, false, false, 0),
    RECURRENT(LSTM, LSTM, 7, 6, 5, 17, 2, true, false, 0),
    RECURRENT(LSTM, LSTM, 3, 9, 7, 66, 2, true, true, 1),
    RECURRENT(LSTM, LSTM, 2, 3, 64, 128, 0, false, false, 5),
    RECURRENT(GRU, GRU_RESET_FIRST, 1, 1, 1, 1, 0, false, false, 0),
    RECURRENT(GRU, GRU_RESET_FIRST, 7, 6, 5, 17, 0, true, false, 0),
    RECURRENT(GRU, GRU_RESET_FIRST, 5, 4, 67, 20, 1, true, true, 1),
    RECURRENT(GRU, GRU_RESET_FIRST, 3, 24, 70, 66, 1, true, false, 0),
    RECURRENT(GRU, GRU_RESET_FIRST, 2, 3, 128, 64, 0, false, true, 2),
    {RONDE__OP_GRU, 4, 3, 1, 5, .attr = {.out_channels = 6, .n_inputs = 2, .cell = RONDE__CELL_GRU_RESET_FIRST},
     .rank = 2},
    RECURRENT(RNN, TANH, 1, 1, 1, 1, 0, false, false, 0),
    RECURRENT(RNN, TANH, 7, 6, 5, 17, 1, true, false, 0),
    RECURRENT(RNN, TANH, 3, 24, 70, 66, 1, true, true, 1),
    RECURRENT(RNN, RELU, 7, 5, 10, 6, 1, false, false, 0),
    RECURRENT(RNN, RELU, 5, 4, 67, 20, 1, true, true, 2),
    {RONDE__OP_RNN, 4, 3, 1, 5, .attr = {.out_channels = 6, .n_inputs = 2, .cell = RONDE__CELL_TANH}, .rank = 2},
    LSTM(7, 6, 48, 80, true, true, false,
         0), /* sizes of bfloat16: narrow last panels, and sums with rests of all kinds */
    LSTM(3, 40, 144, 32, true, true, true, 0),
    GRU(3, 2, 560, 16, false, false, false, 0),
    GRU(7, 6, 48, 80, true, true, true, 0),
    RECURRENT(GRU, GRU_RESET_FIRST, 7, 12, 48, 80, 1, true, false, 0),
    RECURRENT(RNN, TANH, 5, 4, 32, 80, 1, true, true, 0),
    RECURRENT(RNN, RELU, 3, 4, 64, 64, 1, false, false, 0),
    CLIPPED(LSTM, LSTM, 7, 6, 5, 17, 2, true, true, 0.25f),
    CLIPPED(LSTM, LSTM, 5, 4, 10, 20, 0, false, false, 0.125f),
    CLIPPED(GRU, GRU, 7, 6, 5, 17, 1, true, false, 0.25f),
    CLIPPED(GRU, GRU_RESET_FIRST, 7, 6, 5, 17, 1, true, false, 0.25f),
    CLIPPED(RNN, TANH, 7, 6, 5, 17, 1, false, false, 0.25f),
    CLIPPED(RNN, RELU, 7, 6, 5, 17, 1, true, false, 0.25f),

    /* the same shapes, gates, maps, one number, both sides */
    PAIR(PAIR, MULTIPLY, 7, 67, 3, 3, 67, 1, 1),
    PAIR(PAIR, MULTIPLY, 7, 67, 1, 1, 67, 3, 3),
    PAIR(PAIR, MULTIPLY, 2, 20, 9, 8, 20, 1, 1),
    PAIR(PAIR, MULTIPLY, 42, 10, 2, 3, 1, 2, 3),
    PAIR(PAIR, MULTIPLY, 3, 20, 4, 5, 1, 1, 1),
    PAIR(PAIR, MULTIPLY, 3, 20, 1, 5, 1, 4, 1),
    PAIR(PAIR, DIVIDE, 7, 67, 3, 3, 67, 3, 3),
    PAIR(PAIR, DIVIDE, 7, 67, 3, 3, 1, 3, 1),
    PAIR(PAIR, MINIMUM, 7, 17, 3, 3, 17, 1, 3),
    PAIR(PAIR, MAXIMUM, 7, 64, 2, 3, 64, 2, 3),
    PAIR(PAIR, POWER, 7, 20, 3, 2, 20, 1, 1),
    PAIR(PAIR_SUM, ADD, 7, 67, 3, 3, 67, 1, 1),
    PAIR(PAIR_SUM, ADD, 7, 1, 3, 3, 67, 3, 3),
    PAIR(PAIR_SUM, SUBTRACT, 42, 10, 2, 3, 1, 2, 3),
    PAIR(PAIR_SUM, SUBTRACT, 7, 67, 2, 2, 67, 2, 2),
    {RONDE__OP_PAIR_SUM, 7, 6, 1, 9, .attr = {.pair = RONDE__PAIR_ADD}, .rank = 2, .second = {6, 1}},
    {RONDE__OP_PAIR, 3, 5, 3, 8, .attr = {.pair = RONDE__PAIR_MULTIPLY}, .rank = 4, .second = {5, 1, 2, 1}},
    {RONDE__OP_PAIR, 3, 5, 3, 8, .attr = {.pair = RONDE__PAIR_DIVIDE}, .rank = 4, .second = {1, 3, 1, 4}},
    {RONDE__OP_PAIR, 7, 600, 1, 1, true, .attr = {.pair = RONDE__PAIR_MULTIPLY}, .second = {1}},

    FUNCTION(AFFINE, 7, 67, 3, 3, -2, 0.5f),
    FUNCTION(RECIPROCAL, 7, 17, 3, 3, 2, 0),
    FUNCTION(POWER, 7, 17, 3, 3, 2.5f, 0),
    FUNCTION(SQUARE, 7, 17, 3, 3, 0, 0),
    FUNCTION(SQRT, 7, 67, 3, 3, 0, 0),
    FUNCTION(EXP, 7, 17, 3, 3, 0, 0),
    FUNCTION(LOG, 7, 67, 3, 3, 0, 0),
    FUNCTION(ABS, 7, 17, 3, 3, 0, 0),
    FUNCTION(ERF, 7, 17, 3, 3, 0, 0),
    FUNCTION(SIN, 7, 17, 1, 3, 0, 0),
    FUNCTION(COS, 7, 17, 1, 3, 0, 0),
    FUNCTION(TAN, 7, 17, 1, 3, 0, 0),
    FUNCTION(ASIN, 7, 17, 1, 3, 0, 0),
    FUNCTION(ACOS, 7, 17, 1, 3, 0, 0),
    FUNCTION(ATAN, 7, 17, 1, 3, 0, 0),
    FUNCTION(SINH, 7, 17, 1, 3, 0, 0),
    FUNCTION(COSH, 7, 17, 1, 3, 0, 0),
    FUNCTION(ASINH, 7, 17, 1, 3, 0, 0),
    FUNCTION(ACOSH, 7, 17, 1, 3, 0, 0),
    FUNCTION(ATANH, 7, 17, 1, 3, 0, 0),
    FUNCTION(SOFTPLUS, 7, 17, 1, 3, 0, 0),
    FUNCTION(SOFTSIGN, 7, 17, 1, 3, 0, 0),
    FUNCTION(SELU, 7, 17, 1, 3, 1.6732632f, 1.050701f),
    FUNCTION(CELU, 7, 17, 1, 3, 0.5f, 0),
    FUNCTION(THRESHOLD, 7, 17, 1, 3, 0.25f, 0),

    REDUCE(REDUCE_SUM, SUM, 7, 67, 3, 5, 6, true),
    REDUCE(REDUCE_SUM, SUM, 42, 10, 2, 3, 1, false),
    REDUCE(REDUCE_SUM, MEAN, 7, 67, 3, 5, 6, false),
    REDUCE(REDUCE_SUM, MEAN, 3, 20, 4, 40, 4, true),
    REDUCE(REDUCE_SUM, MEAN, 1, 3, 4, 5, 7, true),
    REDUCE(REDUCE_SUM, MEAN, 7, 130, 4, 5, 2, false),
    {RONDE__OP_REDUCE_SUM, 3, 5, 3, 8, .attr = {.reduce = RONDE__REDUCE_MEAN, .dims = 5}, .rank = 4},
    {RONDE__OP_REDUCE_SUM, 7, 6, 1, 300, .attr = {.reduce = RONDE__REDUCE_SUM, .dims = 1}, .rank = 2},
    REDUCE(REDUCE, MAXIMUM, 7, 67, 3, 5, 6, true),
    REDUCE(REDUCE, MAXIMUM, 42, 10, 2, 3, 1, false),
    REDUCE(REDUCE, MINIMUM, 7, 20, 3, 5, 7, false),
    REDUCE(REDUCE, MINIMUM, 3, 17, 3, 5, 4, true),
    REDUCE(REDUCE, PRODUCT, 7, 17, 2, 3, 6, false),
    {RONDE__OP_REDUCE, 3, 5, 3, 8, .attr = {.reduce = RONDE__REDUCE_PRODUCT, .dims = 10, .keep = true}, .rank = 4},

    PLAIN_OP(RESHAPE, 1, 1, 1, 1, false, .shape = {2, {1, 1}}),
    PLAIN_OP(RESHAPE, 7, 67, 2, 3, false, .shape = {2, {67, 6}}),
    PLAIN_OP(RESHAPE, 7, 64, 2, 3, false, .shape = {4, {2, 32, 3, 2}}),
    PLAIN_OP(RESHAPE, 7, 20, 1, 1, true, .shape = {3, {20, 1, 1}}),

    PLAIN_OP(TRANSPOSE, 1, 1, 1, 1, false, .order = {2, 1, 0}),
    PLAIN_OP(TRANSPOSE, 7, 67, 3, 5, false, .order = {1, 2, 0}),
    PLAIN_OP(TRANSPOSE, 7, 6, 3, 5, false, .order = {0, 2, 1}),
    {RONDE__OP_TRANSPOSE, 7, 17, 1, 35, .attr = {.order = {1, 0}}, .rank = 2},
    {RONDE__OP_TRANSPOSE, 3, 5, 3, 8, .attr = {.order = {2, 0, 3, 1}}, .rank = 4},

    PLAIN_OP(CHANNEL_SHUFFLE, 1, 1, 1, 1, false, .groups = 1),
    PLAIN_OP(CHANNEL_SHUFFLE, 7, 116, 3, 3, false, .groups = 2),
    PLAIN_OP(CHANNEL_SHUFFLE, 42, 12, 2, 3, false, .groups = 3),
    PLAIN_OP(CHANNEL_SHUFFLE, 5, 240, 2, 2, false, .groups = 3),
    PLAIN_OP(CHANNEL_SHUFFLE, 3, 64, 6, 5, false, .groups = 16),
    PLAIN_OP(CHANNEL_SHUFFLE, 7, 67, 1, 2, false, .groups = 67),
    PLAIN_OP(CHANNEL_SHUFFLE, 7, 60, 1, 1, true, .groups = 5),
    {RONDE__OP_CHANNEL_SHUFFLE, 7, 20, 1, 3, .attr = {.groups = 4}, .rank = 2},
    {RONDE__OP_CHANNEL_SHUFFLE, 3, 6, 3, 8, .attr = {.groups = 2}, .rank = 4},

    PLAIN_OP(SLICE, 7, 67, 6, 7, false, .begin = {0, 1, 6}, .by = {1, 2, -3}, .shape = {3, {67, 3, 3}}),
    PLAIN_OP(SLICE, 7, 20, 3, 5, false, .begin = {19, 0, 0}, .by = {-2, 1, 1}, .shape = {3, {10, 3, 5}}),
    PLAIN_OP(SLICE, 7, 17, 3, 5, false, .begin = {0, -1, -2}, .by = {1, 1, 1}, .shape = {3, {17, 5, 8}}, .value = 0.5f),
    PLAIN_OP(SLICE, 7, 17, 3, 5, false, .begin = {0, -2, -3}, .by = {1, 1, 1}, .shape = {3, {17, 7, 9}},
             .outside = RONDE__OUTSIDE_REFLECT),
    PLAIN_OP(SLICE, 7, 6, 3, 5, false, .begin = {-2, -3, 1}, .by = {1, 1, 1}, .shape = {3, {9, 8, 5}},
             .outside = RONDE__OUTSIDE_EDGE),
    PLAIN_OP(SLICE, 7, 6, 3, 5, false, .begin = {-2, -3, 1}, .by = {1, 1, 1}, .shape = {3, {9, 8, 5}},
             .outside = RONDE__OUTSIDE_WRAP),
    {RONDE__OP_SLICE, 3, 5, 3, 8, .attr = {.begin = {1, 0, -1, 3}, .by = {2, 1, 1, -1}, .shape = {4, {2, 3, 4, 4}}},
     .rank = 4},

    PLAIN_OP(PARAMETER, 1, 1, 1, 1, false, .shape = {1, {1}}),
    PLAIN_OP(PARAMETER, 7, 10, 2, 3, false, .shape = {3, {67, 2, 3}}),
    PLAIN_OP(PARAMETER, 42, 3, 1, 1, true, .shape = {2, {300, 2}}),

    MATMUL(7, 4, 6, 3, 1, 0, 0),
    MATMUL(3, 17, 300, 20, 1, 0, 1),
    MATMUL(7, 5, 8, 9, 1, 1, 0),
    MATMUL(2, 33, 40, 70, 1, 1, 1),
    {RONDE__OP_MATMUL, 3, 2, 5, 6, .rank = 3, .second = {2, 6, 7}},
    {RONDE__OP_MATMUL, 3, 4, 5, 6, .rank = 3, .second = {1, 7, 6}, .attr = {.turned = {false, true}}},
    {RONDE__OP_MATMUL, 3, 2, 3, 8, .rank = 4, .second = {2, 1, 4, 3}},
    {RONDE__OP_MATMUL, 3, 1, 3, 8, .rank = 4, .second = {5, 3, 5, 2}, .attr = {.turned = {true, true}}},

    {RONDE__OP_LINEAR, 7, 6, 1, 40, .attr = {.out_channels = 67, .bias = true, .act = TANH}, .rank = 2},
    {RONDE__OP_LINEAR, 3, 5, 3, 8, .attr = {.out_channels = 10}, .rank = 4},
    {RONDE__OP_LINEAR, 7, 6, 1, 96, .attr = {.out_channels = 160, .bias = true, .act = RELU}, .rank = 2},
    {RONDE__OP_LINEAR, 2, 19, 1, 128, .attr = {.out_channels = 48, .bias = true}, .rank = 2},
    {RONDE__OP_CONCAT, 7, 20, 3, 5, .attr = {.n_inputs = 3, .dim = 1}},
    {RONDE__OP_CONCAT, 3, 5, 3, 8, .attr = {.n_inputs = 2, .dim = 3}, .rank = 4},
    {RONDE__OP_SPLIT, 7, 20, 3, 5, .attr = {.n_outputs = 3, .sizes = {1, 2, 2}, .dim = 2}},
    {RONDE__OP_SPLIT, 3, 5, 3, 8, .attr = {.n_outputs = 2, .sizes = {1, 2}, .dim = 1}, .rank = 4, .unread = 1},

    PLAIN_OP(REORDER, 1, 1, 1, 1, false, 0),
    PLAIN_OP(REORDER, 7, 67, 3, 3, false, 0),
    PLAIN_OP(REORDER, 3, 20, 9, 8, false, 0),
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

    /* sequences with ignored labels, one of a single step */
    {RONDE__OP_CROSS_ENTROPY, 7, 5, 1, 10, .rank = 2},
    {RONDE__OP_CROSS_ENTROPY, 42, 1, 1, 67, .rank = 2},
    {RONDE__OP_CROSS_ENTROPY, 3, 9, 1, 4, .attr = {.label_smoothing = 0.1f}, .rank = 2},

    {RONDE__OP_LENGTHS, 7, 5, 1, 1, true, .attr = {.begin = {2}}},
    {RONDE__OP_LENGTHS, 3, 1, 1, 1, true, .attr = {.begin = {0}}},

    /* one query, one key; tiles that are cut on either side, and several of them; lengths of one and none */
    ATTENTION(1, 1, 1, 1, 1, false, false),
    ATTENTION(3, 5, 7, 6, 2, false, false),
    ATTENTION(2, 67, 130, 12, 3, false, true),
    ATTENTION(7, 9, 4, 8, 1, true, true),
    SELF_ATTENTION(3, 7, 10, 2, true, false),
    SELF_ATTENTION(5, 6, 4, 1, false, true),
    SELF_ATTENTION(2, 150, 40, 2, true, false),
    SELF_ATTENTION(3, 64, 16, 4, true, true),
    ATTENTION(2, 67, 130, 48, 3, false, true),
    SELF_ATTENTION(3, 70, 64, 2, true, true),
    SELF_ATTENTION(1, 133, 64, 1, false, false),

    /* one query, one key; panels that are cut, and several of them; lengths of one, none and too many */
    ADDITIVE(1, 1, 1, 1, false, false),
    ADDITIVE(3, 5, 7, 6, false, true),
    ADDITIVE(1, 4, 3, 130, true, false),
    ADDITIVE(7, 3, 9, 64, true, true),
    ADDITIVE(4, 2, 4, 20, false, true),
    ADDITIVE(2, 19, 33, 67, true, true),

    VALUE_ERROR(SQUARED_ERROR, 1, 1, 1, false),
    VALUE_ERROR(SQUARED_ERROR, 7, 3, 9, false),
    VALUE_ERROR(SQUARED_ERROR, 6, 4, 67, true),
    VALUE_ERROR(BCE_ERROR, 3, 5, 8, false),
    VALUE_ERROR(BCE_ERROR, 6, 4, 1, true),
    PLAIN_OP(MEAN_LOSS, 1, 1, 1, 1, true, ),
    PLAIN_OP(MEAN_LOSS, 42, 1, 1, 1, true, ),

    /* one step and place; a kernel wider than the memory; panels that are cut, and several; lengths of one, none and too many;
     * outputs that nobody reads */
    LOCATION(1, 1, 1, 1, 1, 1, 1, 1, 1, false, ),
    LOCATION(2, 5, 3, 2, 3, 4, 5, 2, 7, false, ),
    LOCATION(4, 4, 6, 7, 5, 6, 4, 3, 3, true, ),
    LOCATION(3, 6, 5, 6, 4, 66, 20, 2, 5, true, .unread = 4),
    LOCATION(5, 3, 70, 9, 67, 3, 17, 2, 3, true, .unread = 3),
    LOCATION(2, 7, 4, 5, 64, 64, 32, 4, 31, false, .unread = 1),

    {RONDE__OP_RMS_NORM, 7, 67, 1, 1, true, .attr = {.eps = 1e-5f}},
    {RONDE__OP_RMS_NORM, 7, 6, 1, 40, .attr = {.eps = 1e-5f}, .rank = 2},
    {RONDE__OP_RMS_NORM, 42, 3, 1, 300, .attr = {.eps = 1e-3f}, .rank = 2},

    EMBEDDING(1, 1, 1, 1),
    EMBEDDING(7, 5, 10, 4),
    EMBEDDING(42, 1, 67, 30),
    EMBEDDING(3, 17, 300, 1000),
    {RONDE__OP_EMBEDDING, 3, 4, 1, 6, .attr = {.out_channels = 5, .vocabulary = 9}, .rank = 2},

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

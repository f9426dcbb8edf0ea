/* Defining a network: tensors, layers, losses. Included by ronde.h, whose rules hold here too. */
#ifndef RONDE_RONDE_GRAPH_H
#define RONDE_RONDE_GRAPH_H

#include <ronde/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A network under construction. Each call below that adds an op returns a new tensor, owned by the graph. A call that
 * fails logs the layers and shapes involved, returns NULL and marks the graph; a call that is given NULL returns NULL.
 * So a model function needs no checks: ronde_graph_status tells at the end. A layer called NAME has the parameters
 * NAME.weight and NAME.bias. */
typedef struct ronde_graph ronde_graph;
typedef struct ronde_tensor ronde_tensor;

#define RONDE_MAX_RANK 6
#define RONDE_MAX_INPUTS 4

RONDE_API ronde_status ronde_graph_create(ronde_graph **graph_out);
RONDE_API void ronde_graph_destroy(ronde_graph *graph);
/* Layers of this name share their parameters (tied weights): a layer call that is given the name again takes the
 * parameters of the call before it, whose shapes must be equal, and adds those that it alone has. Their gradient is the
 * sum over all these calls. Without this, a name that is used twice is an error. Layers that keep statistics of the
 * data (batch_norm2d) cannot be shared. */
RONDE_API void ronde_graph_share(ronde_graph *graph, const char *layer);
/* The first error met while building. */
RONDE_API ronde_status ronde_graph_status(const ronde_graph *graph);

/* An input of dims [rank] per example (the batch comes in front): 1 to 4 of them, for example [F], [T,F] or [C,H,W]. A
 * graph may have several, up to RONDE_MAX_INPUTS, each with a name of its own: a source and a target, an image and a mask. In a
 * job they are those of the data, and there already when a model function is called. */
RONDE_API ronde_tensor *ronde_input(ronde_graph *graph, const char *name, int rank, const int64_t *dims);
/* The same of tokens: int32 numbers from 0 to vocabulary - 1, such as the characters or words of a text. Only
 * ronde_embedding takes them. */
RONDE_API ronde_tensor *ronde_input_tokens(ronde_graph *graph, const char *name, int rank, const int64_t *dims,
                                           int64_t vocabulary);
/* The input of this name. Errors: RONDE_E_USAGE if there is none. */
RONDE_API ronde_tensor *ronde_graph_input(ronde_graph *graph, const char *name);
/* The target of the loss: class labels for the cross entropy, one per example or per step of a sequence, or values of the prediction's shape for the
 * squared error. */
RONDE_API ronde_tensor *ronde_target(ronde_graph *graph);

typedef struct ronde_conv2d_options {
  int64_t out_channels; /* required */
  int kernel[2];        /* required: height, width */
  int stride[2];        /* 0 means 1 */
  int padding[2];       /* zeros on each side */
  int padding_more[2];  /* so many zeros more at the bottom and on the right; below 0: fewer */
  int dilation[2];      /* distance of the kernel's taps; 0 means 1 */
  int groups; /* 0 means 1; input and output channels are split into so many groups, each with its own weights */
  bool no_bias;
  bool kaiming_normal; /* weights from N(0, 2 / (out_channels KH KW)), as torchvision's ResNets; else PyTorch's default
                        */
} ronde_conv2d_options;

/* x [C,H,W] -> [out_channels, (H + 2 padding + padding_more - dilation (kernel - 1) - 1) / stride + 1, ...]. Weight
 * [out_channels,C / groups,KH,KW]. */
RONDE_API ronde_tensor *ronde_conv2d(const ronde_tensor *x, const char *name, const ronde_conv2d_options *options);

typedef struct ronde_conv_transpose2d_options {
  int64_t out_channels;  /* required */
  int kernel[2];         /* required */
  int stride[2];         /* pixels of the output from one of the input to the next; 0 means 1 */
  int padding[2];        /* so many rows and columns of the output are left out on each side */
  int padding_more[2];   /* so many more at the bottom and on the right; below 0: fewer */
  int output_padding[2]; /* so many rows and columns more at the bottom and on the right; below stride or dilation */
  int dilation[2];       /* 0 means 1 */
  int groups;            /* 0 means 1 */
  bool no_bias;
} ronde_conv_transpose2d_options;

/* PyTorch's ConvTranspose2d: x [C,H,W] -> [out_channels, (H - 1) stride - 2 padding - padding_more + dilation (kernel - 1) +
 * output_padding + 1, ...]. Weight [C,out_channels / groups,KH,KW]. */
RONDE_API ronde_tensor *ronde_conv_transpose2d(const ronde_tensor *x, const char *name,
                                               const ronde_conv_transpose2d_options *options);
typedef struct ronde_conv1d_options {
  int64_t out_channels; /* required */
  int kernel;           /* required */
  int stride;           /* 0 means 1 */
  int padding;          /* zeros on each side */
  int dilation;         /* 0 means 1 */
  int groups;           /* 0 means 1 */
  bool no_bias;
} ronde_conv1d_options;

/* The same along one dimension: x [C,T] -> [out_channels, ...]. Weight [out_channels,C / groups,kernel]. */
RONDE_API ronde_tensor *ronde_conv1d(const ronde_tensor *x, const char *name, const ronde_conv1d_options *options);
/* x [...,F] -> [...,out_features]: each step of a sequence [T,F] by itself. Weight [out_features,F]. */
RONDE_API ronde_tensor *ronde_linear(const ronde_tensor *x, const char *name, int64_t out_features, bool bias);
/* The same with the weight of `layer`, which is shared (ronde_graph_share) and may be an embedding of out_features tokens, and a
 * bias of its own, called `bias`, zeros at first. */
RONDE_API ronde_tensor *ronde_linear_tied(const ronde_tensor *x, const char *layer, int64_t out_features,
                                          const char *bias);

/* x of tokens [...] -> [...,features]: the row of weight [vocabulary,features] that each token names. Rows begin with
 * N(0, deviation^2); 0 means 1, as PyTorch's Embedding. */
RONDE_API ronde_tensor *ronde_embedding(const ronde_tensor *x, const char *name, int64_t features, float deviation);

typedef struct ronde_pool2d_options {
  int kernel[2];        /* required */
  int stride[2];        /* 0 means the kernel */
  int padding[2];       /* on each side; each window must meet the input */
  int padding_more[2];  /* so much more at the bottom and on the right; below 0: less */
  int dilation[2];      /* distance of a window's places; 0 means 1 */
  bool ceil_mode;       /* the number of windows is rounded up, as long as the last one begins inside or in front */
  bool exclude_padding; /* average only: divide by the values inside (PyTorch's count_include_pad=False) */
} ronde_pool2d_options;

RONDE_API ronde_tensor *ronde_max_pool2d(const ronde_tensor *x, const ronde_pool2d_options *options);
RONDE_API ronde_tensor *ronde_avg_pool2d(const ronde_tensor *x, const ronde_pool2d_options *options);
/* x [C,H,W] -> [C,out_h,out_w]: output i averages the inputs from floor(i H / out_h) to ceil((i + 1) H / out_h).
 * 1 x 1 is global average pooling. */
RONDE_API ronde_tensor *ronde_adaptive_avg_pool2d(const ronde_tensor *x, int out_h, int out_w);

/* x [C,H,W] -> [C,H factor_h,W factor_w]: each pixel becomes factor_h x factor_w pixels like it (nearest neighbour). */
RONDE_API ronde_tensor *ronde_upsample2d(const ronde_tensor *x, int factor_h, int factor_w);

/* Where the centre of output pixel i lies among the inputs' centres 0, 1, ..., along each axis. */
typedef enum ronde_resize_coordinates {
  RONDE_RESIZE_HALF_PIXEL,        /* (i + 0.5) / scale - 0.5: PyTorch's align_corners=False, and mode nearest-exact */
  RONDE_RESIZE_ALIGN_CORNERS,     /* i (in - 1) / (out - 1): the corners stay */
  RONDE_RESIZE_ASYMMETRIC,        /* i / scale: with RONDE_RESIZE_FLOOR, PyTorch's mode nearest */
  RONDE_RESIZE_PYTORCH_HALF_PIXEL /* 0 where out is 1, else as RONDE_RESIZE_HALF_PIXEL: ONNX's word */
} ronde_resize_coordinates;

/* Which input is the nearest to a place between two. */
typedef enum ronde_resize_rounding {
  RONDE_RESIZE_ROUND_PREFER_FLOOR, /* in the middle the lower one */
  RONDE_RESIZE_ROUND_PREFER_CEIL,
  RONDE_RESIZE_FLOOR, /* always the lower one */
  RONDE_RESIZE_CEIL
} ronde_resize_rounding;

typedef struct ronde_resize2d_options {
  int size[2]; /* required: height, width of the output */
  bool linear; /* bilinear interpolation; else the nearest pixel */
  ronde_resize_coordinates coordinates;
  ronde_resize_rounding rounding; /* of the nearest pixel */
  float scale[2];                 /* outputs an input, for places; 0 means size / input size */
} ronde_resize2d_options;

/* x [C,H,W] -> [C,size]. Beyond the border there is the border's pixel again. Pixels that are left out where an image
 * becomes smaller do not count (no antialiasing). */
RONDE_API ronde_tensor *ronde_resize2d(const ronde_tensor *x, const ronde_resize2d_options *options);

typedef struct ronde_batch_norm2d_options {
  float eps;      /* 0 means 1e-5 */
  float momentum; /* weight of the batch's statistics in the running ones; 0 means 0.1 */
} ronde_batch_norm2d_options;

/* Normalises x [C,H,W] over batch and pixels, then multiplies by weight [C] and adds bias [C], as PyTorch defines it:
 * training uses the statistics of the batch and moves running_mean and running_var (unbiased) towards them; evaluation
 * and prediction use the running ones. options may be NULL. */
RONDE_API ronde_tensor *ronde_batch_norm2d(const ronde_tensor *x, const char *name,
                                           const ronde_batch_norm2d_options *options);
/* In training, sets elements to zero with this probability and divides the others by 1 - probability. Which ones depends
 * only on seed, step, layer, example and element. Otherwise x as it is. */
RONDE_API ronde_tensor *ronde_dropout(const ronde_tensor *x, float probability);
/* The same with one draw for each index into the first `dims` dimensions of an example, whose elements are dropped together:
 * 1 drops channels of x [C,H,W] (PyTorch's Dropout2d), 0 whole examples (stochastic depth, by row). */
RONDE_API ronde_tensor *ronde_dropout_dims(const ronde_tensor *x, float probability, int dims);
RONDE_API ronde_tensor *ronde_relu(const ronde_tensor *x);
RONDE_API ronde_tensor *ronde_tanh(const ronde_tensor *x);
RONDE_API ronde_tensor *ronde_sigmoid(const ronde_tensor *x);
/* x P(x), P(x) the chance that a standard normal variable is below x; by_tanh: P as (1 + tanh(sqrt(2 / pi) (x + 0.044715
 * x^3))) / 2 (PyTorch's approximate="tanh"). */
RONDE_API ronde_tensor *ronde_gelu(const ronde_tensor *x, bool by_tanh);
/* x sigmoid(x), also called swish. */
RONDE_API ronde_tensor *ronde_silu(const ronde_tensor *x);
/* x (x + 3) / 6; 0 below -3, x above 3. */
RONDE_API ronde_tensor *ronde_hard_swish(const ronde_tensor *x);
/* slope x + offset, cut off at 0 and 1: 1/6 and 0.5 in PyTorch, 0.2 and 0.5 in Keras and by default in ONNX. */
RONDE_API ronde_tensor *ronde_hard_sigmoid(const ronde_tensor *x, float slope, float offset);
/* slope x where x is below 0, else x. */
RONDE_API ronde_tensor *ronde_leaky_relu(const ronde_tensor *x, float slope);
/* alpha (exp(x) - 1) where x is below 0, else x. */
RONDE_API ronde_tensor *ronde_elu(const ronde_tensor *x, float alpha);
/* x, but at least lower and at most upper; 0 and 6 make ReLU6. Either bound may be infinite. Where x has reached a bound,
 * the gradient is 0. */
RONDE_API ronde_tensor *ronde_clip(const ronde_tensor *x, float lower, float upper);
/* x [C,H,W] -> [C*H*W] */
RONDE_API ronde_tensor *ronde_flatten(const ronde_tensor *x);
/* Arithmetic, element by element, on tensors of equal rank: where one has a dimension of 1, it is repeated along the other's
 * ([C,1,1] and [C,H,W]). At equal values minimum and maximum share their gradient. */
RONDE_API ronde_tensor *ronde_add(const ronde_tensor *a, const ronde_tensor *b);
RONDE_API ronde_tensor *ronde_subtract(const ronde_tensor *a, const ronde_tensor *b);
RONDE_API ronde_tensor *ronde_multiply(const ronde_tensor *a, const ronde_tensor *b);
RONDE_API ronde_tensor *ronde_divide(const ronde_tensor *a, const ronde_tensor *b);
RONDE_API ronde_tensor *ronde_minimum(const ronde_tensor *a, const ronde_tensor *b);
RONDE_API ronde_tensor *ronde_maximum(const ronde_tensor *a, const ronde_tensor *b);
RONDE_API ronde_tensor *ronde_power(const ronde_tensor *a, const ronde_tensor *b); /* a to the power of b */

/* Functions of one number x with constants a and b, which most do not use. */
typedef enum ronde_function_kind {
  RONDE_AFFINE,     /* a x + b */
  RONDE_RECIPROCAL, /* a / x */
  RONDE_POWER,      /* x to the power of a */
  RONDE_SQUARE,
  RONDE_SQRT,
  RONDE_EXP,
  RONDE_LOG,
  RONDE_ABS,
  RONDE_ERF,
  RONDE_SIN,
  RONDE_COS,
  RONDE_TAN,
  RONDE_ASIN,
  RONDE_ACOS,
  RONDE_ATAN,
  RONDE_SINH,
  RONDE_COSH,
  RONDE_ASINH,
  RONDE_ACOSH,
  RONDE_ATANH,
  RONDE_SOFTPLUS, /* log(1 + exp(x)) */
  RONDE_SOFTSIGN, /* x / (1 + |x|) */
  RONDE_SELU,     /* b x, b a (exp(x) - 1) below 0 */
  RONDE_CELU,     /* x, a (exp(x / a) - 1) below 0 */
  RONDE_THRESHOLD /* x where it is above a, else 0 */
} ronde_function_kind;
RONDE_API ronde_tensor *ronde_function(const ronde_tensor *x, ronde_function_kind kind, float a, float b);

typedef enum ronde_reduce_kind {
  RONDE_REDUCE_SUM,
  RONDE_REDUCE_MEAN,
  RONDE_REDUCE_MAXIMUM, /* equal ones share the gradient evenly */
  RONDE_REDUCE_MINIMUM,
  RONDE_REDUCE_PRODUCT
} ronde_reduce_kind;
/* Over dimensions dims [n] of an example, below 0 counted from the last one. keep: they stay, with size 1; else they go, and
 * where none is left the result is [1]. */
RONDE_API ronde_tensor *ronde_reduce(const ronde_tensor *x, ronde_reduce_kind kind, int n, const int *dims, bool keep);
/* a [...,M,K] b [...,K,N] -> [...,M,N], of equal rank, 2 or more; the dimensions in front as in arithmetic. turn_a: a is
 * [...,K,M]; turn_b: b is [...,N,K]. */
RONDE_API ronde_tensor *ronde_matmul(const ronde_tensor *a, const ronde_tensor *b, bool turn_a, bool turn_b);

/* A parameter called name, of dims [rank], as a tensor that is alike in all examples: a position's embedding, a scale. It
 * begins with values (copied; NULL: zeros), whatever seed weights are drawn by. fixed: a constant, which no training
 * changes. The graph has an input already. */
RONDE_API ronde_tensor *ronde_parameter(ronde_graph *graph, const char *name, int rank, const int64_t *dims,
                                        const float *values, bool fixed);
/* The same, to be trained: it begins with values of mean 0 and this deviation, above 0, drawn by the seed as weights are. */
RONDE_API ronde_tensor *ronde_parameter_drawn(ronde_graph *graph, const char *name, int rank, const int64_t *dims,
                                              float deviation);

/* What a parameter begins with, by a value. */
typedef enum ronde_init_kind {
  RONDE_INIT_UNIFORM, /* drawn evenly from -value to value */
  RONDE_INIT_NORMAL,  /* drawn from N(0, value^2) */
  RONDE_INIT_CONSTANT /* value */
} ronde_init_kind;

/* Lets parameters begin otherwise than their layers' calls say (most as PyTorch's layers do): the one called name
 * ("fc.bias"), or those of the layer or layers whose names are name, or begin with it and a point ("encoder" has
 * encoder.rnn.weight_ih_l0 too). Of all that are there when it is called; what ronde_parameter was given stays. Draws are by
 * the seed, and weights from a file (--init) go before. Errors, which mark the graph: RONDE_E_USAGE if there is no such
 * parameter, if value is not finite, or below 0 where it is drawn. */
RONDE_API void ronde_graph_set_init(ronde_graph *graph, const char *name, ronde_init_kind kind, float value);

/* The elements of x, row-major, in another shape. */
RONDE_API ronde_tensor *ronde_reshape(const ronde_tensor *x, int rank, const int64_t *dims);
/* Dimension d of the result is dimension order[d] of x. */
RONDE_API ronde_tensor *ronde_transpose(const ronde_tensor *x, const int *order);
/* Element i of dimension d is element begin[d] + i step[d] of x, i < sizes[d]; steps may be below 0. All lie inside. */
RONDE_API ronde_tensor *ronde_slice(const ronde_tensor *x, const int64_t *begin, const int64_t *step,
                                    const int64_t *sizes);
typedef enum ronde_pad_mode {
  RONDE_PAD_VALUE,
  RONDE_PAD_EDGE,    /* the outermost element again */
  RONDE_PAD_REFLECT, /* mirrored at the outermost element, which is not repeated */
  RONDE_PAD_WRAP     /* from the other end */
} ronde_pad_mode;
/* Adds before[d] and after[d] elements to each dimension d of x; below 0 they are cut off. value: of RONDE_PAD_VALUE. */
RONDE_API ronde_tensor *ronde_pad(const ronde_tensor *x, const int64_t *before, const int64_t *after,
                                  ronde_pad_mode mode, float value);
/* Cuts x along its first dimension into n pieces (2 to 4) of these sizes, which must add up to that dimension (PyTorch's
 * split on dim 1). Sets pieces_out [n], to NULLs if the call failed. */
RONDE_API void ronde_cut(const ronde_tensor *x, int n, const int64_t *sizes, ronde_tensor **pieces_out);
/* The same along dimension dim; below 0 it is counted from the last one. */
RONDE_API void ronde_cut_along(const ronde_tensor *x, int dim, int n, const int64_t *sizes, ronde_tensor **pieces_out);
/* exp(x) / sum of exp(x) over dimension `dim` of an example; below 0 it is counted from the last one. */
RONDE_API ronde_tensor *ronde_softmax(const ronde_tensor *x, int dim);

typedef struct ronde_layer_norm_options {
  int dims;  /* how many, from the last on, are normalised together; 0 means 1 */
  float eps; /* 0 means 1e-5 */
} ronde_layer_norm_options;

/* (x - mean) / sqrt(variance + eps) * weight + bias, with mean and variance over the last dimensions of each example.
 * weight and bias have the shape of these dimensions. options may be NULL. */
RONDE_API ronde_tensor *ronde_layer_norm(const ronde_tensor *x, const char *name,
                                         const ronde_layer_norm_options *options);

typedef struct ronde_group_norm_options {
  int groups; /* required; divides the channels */
  float eps;  /* 0 means 1e-5 */
  bool no_affine;
} ronde_group_norm_options;

/* (x - mean) / sqrt(variance + eps) * weight + bias, of x [C,...], with mean and variance over each group of C / groups
 * channels of each example, all their pixels included. weight and bias [C]; no_affine: neither. A group has at least two
 * values. */
RONDE_API ronde_tensor *ronde_group_norm(const ronde_tensor *x, const char *name,
                                         const ronde_group_norm_options *options);

typedef struct ronde_instance_norm_options {
  float eps;   /* 0 means 1e-5 */
  bool affine; /* with weight and bias [C] */
} ronde_instance_norm_options;

/* The same with each channel a group of its own, as PyTorch's InstanceNorm, which has no weight and bias either unless it
 * is affine. It keeps no running statistics. options may be NULL. */
RONDE_API ronde_tensor *ronde_instance_norm(const ronde_tensor *x, const char *name,
                                            const ronde_instance_norm_options *options);
/* x / sqrt(mean of x^2 + eps) * weight, over the last dimension, whose size weight has. eps 0 means 2^-23, as PyTorch's
 * RMSNorm of f32. */
RONDE_API ronde_tensor *ronde_rms_norm(const ronde_tensor *x, const char *name, float eps);

/* Of tokens x [T]: how many there are up to the last one that is not `padding`, as a value [1]. */
RONDE_API ronde_tensor *ronde_lengths(const ronde_tensor *x, int32_t padding);

typedef struct ronde_attention_options {
  int heads;                   /* required; divides the features */
  bool causal;                 /* query t sees keys 0 to t */
  const ronde_tensor *lengths; /* [1]: so many keys of each example are there, from the first on; NULL: all */
} ronde_attention_options;

/* Scaled dot-product attention: query [T,F], key and value [S,F] -> [T,F]. Each head has F / heads neighbouring features and
 * gives softmax(query keyT / sqrt(F / heads)) value. A query that sees no key gives zeros. Memory is linear in T and S. */
RONDE_API ronde_tensor *ronde_attention(const ronde_tensor *query, const ronde_tensor *key, const ronde_tensor *value,
                                        const ronde_attention_options *options);
/* The same of query, key and value side by side: x [T,3F] -> [T,F], as one linear layer gives them. */
RONDE_API ronde_tensor *ronde_self_attention(const ronde_tensor *x, const ronde_attention_options *options);

typedef struct ronde_additive_attention_options {
  bool normalised;             /* with the parameters normalize_scalar [1] and normalize_bias [U] */
  const ronde_tensor *lengths; /* [1]: so many keys of each example are there, from the first on; NULL: all */
} ronde_additive_attention_options;

/* The weights of additive (Bahdanau's) attention: query [T,U] and key [S,U], as linear layers give them -> [T,S], over the keys of
 * each query a softmax of v . tanh(query + key) with the parameter linear_att v [U]; normalised: of
 * normalize_scalar v / |v| . tanh(query + key + normalize_bias). Their product (ronde_matmul) with the values [S,F] is what attention
 * gives. A query that sees no key gives zeros. Nothing of size T S U is held. options may be NULL. */
RONDE_API ronde_tensor *ronde_additive_attention(const ronde_tensor *query, const ronde_tensor *key, const char *name,
                                                 const ronde_additive_attention_options *options);

typedef struct ronde_location_attention_options {
  int64_t hidden;              /* required: H, of the LSTM */
  int64_t width;               /* required: A, of queries and keys */
  int64_t filters;             /* required: C */
  int kernel;                  /* required: of the filters, odd */
  const ronde_tensor *lengths; /* [1]: so many places of each example are there, from the first on; NULL: all */
} ronde_location_attention_options;

/* Location-sensitive attention and the LSTM that asks, over all steps of a sequence x [T,P] that is known: for each step t an LSTM cell of
 * x_t and the context of the step before gives h_t; the weights w_t are a softmax over the places s of memory [S,E] of
 * v . tanh(Q h_t + K memory_s + U f_ts), where f_t are filters of the weights of the step before and of the sum of those of all
 * steps before, as wide as the kernel around s; the context is the sum of w_ts memory_s. All of it is zero in front of the first
 * step. Returns h [T,H]; context_out and weights_out (each may be NULL) receive [T,E] and [T,S]. Parameters, called as in NVIDIA's
 * Tacotron 2: NAME.attention_rnn.weight_ih [4 H,P + E], .weight_hh [4 H,H], .bias_ih and .bias_hh [4 H];
 * NAME.attention_layer.query_layer.linear_layer.weight [A,H] (Q), .memory_layer.linear_layer.weight [A,E] (K),
 * .location_layer.location_conv.conv.weight [C,2,kernel], .location_layer.location_dense.linear_layer.weight [A,C] (U) and
 * .v.linear_layer.weight [1,A]. */
RONDE_API ronde_tensor *ronde_location_attention(const ronde_tensor *x, const ronde_tensor *memory, const char *name,
                                                 const ronde_location_attention_options *options,
                                                 ronde_tensor **context_out, ronde_tensor **weights_out);

typedef struct ronde_recurrent_options {
  int64_t hidden;       /* required: H */
  int layers;           /* on top of each other, L; 0 means 1 */
  bool both_directions; /* D = 2: each layer also goes from the last step to the first */
  bool no_bias;
  bool of_cell;                /* one layer in one direction calls its parameters as PyTorch's LSTMCell, without _l0 */
  float dropout;               /* of what a layer gives to the next one */
  const ronde_tensor *lengths; /* [1]: so many steps of each example are there, from the first on; NULL: all */
  /* The states in front of the first steps, [H], or [L D,H] where there are several: by layers, in each the direction from
   * the first step on first. NULL: zeros. */
  const ronde_tensor *hidden_0, *cell_0;
  /* LSTM: gates read cells too, by a parameter weight_peephole_lk [3 H] of i, f and o: i and f the last one, o the new one. */
  bool peepholes;
  /* What goes into a gate's function is bounded by -clip and clip, and so is an LSTM's cell on its way to the output, as ONNX
   * has it. At a bound the gradient is 0. 0: no bounds. */
  float clip;
  bool reset_first; /* GRU: h is reset in front of its product, as published; else behind it */
  bool relu;        /* RNN: in place of tanh */
} ronde_recurrent_options;

/* An LSTM over a sequence x [T,F], as PyTorch's LSTM: for each layer k the parameters weight_ih_lk [4 H,F] (of later layers
 * [4 H,D H]), weight_hh_lk [4 H,H], bias_ih_lk and bias_hh_lk [4 H], and of the other direction the same with _reverse behind
 * their names. Returns the last layer's states of all steps [T,D H]. Steps behind an example's length change no state, and
 * their outputs are zero, as those of PyTorch's packed sequences; the other direction begins at the example's own last step.
 * hidden_out and cell_out (each may be NULL) receive the states behind the last step, in the shape of the first ones. */
RONDE_API ronde_tensor *ronde_lstm(const ronde_tensor *x, const char *name, const ronde_recurrent_options *options,
                                   ronde_tensor **hidden_out, ronde_tensor **cell_out);
/* The same of gated recurrent units, as PyTorch's GRU, with 3 H rows in place of 4 H; it has no cells. */
RONDE_API ronde_tensor *ronde_gru(const ronde_tensor *x, const char *name, const ronde_recurrent_options *options,
                                  ronde_tensor **hidden_out);
/* The same of h_t = tanh(W_ih x_t + b_ih + W_hh h_(t-1) + b_hh), as PyTorch's RNN, with H rows. */
RONDE_API ronde_tensor *ronde_rnn(const ronde_tensor *x, const char *name, const ronde_recurrent_options *options,
                                  ronde_tensor **hidden_out);
/* Channel j of the result is channel (j % groups) (C / groups) + j / groups of x [C,...], as PyTorch's ChannelShuffle, so that
 * convolutions in groups behind it mix those in front. groups must divide C. */
RONDE_API ronde_tensor *ronde_channel_shuffle(const ronde_tensor *x, int groups);
/* Joins inputs [n], 2 to 4 of them, along the first dimension and in this order (PyTorch's cat on dim 1): [C_i,H,W] ->
 * [sum of C_i,H,W]. The other dimensions must be equal. */
RONDE_API ronde_tensor *ronde_concat(const ronde_tensor *const *inputs, int n);
/* The same along dimension dim; below 0 it is counted from the last one. */
RONDE_API ronde_tensor *ronde_concat_along(const ronde_tensor *const *inputs, int n, int dim);
/* logits [K] and class labels -> the mean of -log softmax(logits)[label] over the batch; logits [T,K] of a sequence and T
 * labels an example -> the mean over all labels of the step that are not RONDE_IGNORED, however it is split over workers. */
RONDE_API ronde_tensor *ronde_cross_entropy(const ronde_tensor *logits, const ronde_tensor *target);
/* Mean over the batch and all elements of (prediction - target)^2. */
RONDE_API ronde_tensor *ronde_mse_loss(const ronde_tensor *prediction, const ronde_tensor *target);
/* Mean over the batch and all elements of |prediction - target|. */
RONDE_API ronde_tensor *ronde_l1_loss(const ronde_tensor *prediction, const ronde_tensor *target);
/* The same of the Huber loss: half the square of an error up to delta > 0, and linear beyond, as PyTorch's HuberLoss. */
RONDE_API ronde_tensor *ronde_huber_loss(const ronde_tensor *prediction, const ronde_tensor *target, float delta);
/* Mean over the batch and all elements of the binary cross entropy between the sigmoid of a logit and its target, a label
 * from 0 to 1, as PyTorch's BCEWithLogitsLoss: for several labels an example. */
RONDE_API ronde_tensor *ronde_bce_loss(const ronde_tensor *logits, const ronde_tensor *target);

/* Losses out of parts: values [1] of each example, which may be added up and weighed by other calls, and their mean over the batch,
 * which is a loss that reads no target. x and target of equal shapes [T,...] are tensors of the network, perhaps inputs; lengths
 * [1]: so many rows of each example are there, and those behind them count as zeros (NULL: all are). */
/* The mean over all elements of (x - target)^2. */
RONDE_API ronde_tensor *ronde_squared_error(const ronde_tensor *x, const ronde_tensor *target,
                                            const ronde_tensor *lengths);
/* The same of the binary cross entropy of ronde_bce_loss. */
RONDE_API ronde_tensor *ronde_bce_error(const ronde_tensor *logits, const ronde_tensor *target,
                                        const ronde_tensor *lengths);
RONDE_API ronde_tensor *ronde_mean_loss(const ronde_tensor *x);

typedef struct ronde_ctc_options {
  int64_t labels;     /* required: S, of an example */
  int64_t blank;      /* the class that stands for no label */
  bool zero_infinity; /* examples that no alignment fits count 0, and have no gradient; else their loss is infinite */
  const ronde_tensor *lengths; /* [1]: so many steps of each example are there, from the first on; NULL: all */
} ronde_ctc_options;

/* Connectionist temporal classification: logits [T,K] of a sequence, before any softmax, and its S labels, of which those
 * from the first RONDE_IGNORED on are padding -> the mean over the batch of -log P(labels) / max(1, number of labels), as
 * PyTorch's CTCLoss of log_softmax(logits). P sums over all alignments: a class for each step, where equal neighbours are one
 * and blanks are left out. A label may be no blank. */
RONDE_API ronde_tensor *ronde_ctc_loss(const ronde_tensor *logits, const ronde_tensor *target,
                                       const ronde_ctc_options *options);

/* The dims of a tensor, without the batch. Returns the rank: 0 for a loss, and if x is NULL. */
RONDE_API int ronde_tensor_dims(const ronde_tensor *x, int64_t dims_out[RONDE_MAX_RANK]);

/* What prediction returns, and what training minimises. A graph for which no loss is set minimises the cross entropy of
 * its output. */
RONDE_API void ronde_graph_set_output(ronde_graph *graph, const ronde_tensor *output);
RONDE_API void ronde_graph_set_loss(ronde_graph *graph, const ronde_tensor *loss);

/* The number of trainable parameters, and the floating-point operations of a forward pass of one example: two for each
 * multiply-add of convolutions and linear layers, also where one factor is padding. */
RONDE_API int64_t ronde_graph_parameters(const ronde_graph *graph);
RONDE_API int64_t ronde_graph_forward_flops(const ronde_graph *graph);

/* What a model function is called for. */
typedef struct ronde_pass {
  bool eager;    /* false: the calls are only recorded, to learn which parameters the network has */
  bool training; /* of eager passes; false: evaluation or prediction */
  int64_t step;  /* of training, from 1; 0 otherwise */
  int64_t batch; /* examples of the pass; 0 while recording */
} ronde_pass;
RONDE_API ronde_pass ronde_graph_pass(const ronde_graph *graph);
/* In an eager pass: copies the values of x to values_out [batch][dims] f32, owned by the caller. A loss has no value before
 * the pass has ended. Errors: RONDE_E_USAGE while recording. */
RONDE_API ronde_status ronde_tensor_values(const ronde_tensor *x, float *values_out);

/* Builds a network on x, which is the input "input", and returns its output; ronde_graph_input has the others, if the data
 * have several. classes: those of --classes, else of the data; 0 where the targets are
 * values. Called at set-up to record the graph, possibly by several threads at once, and must build the same graph each
 * time. With the option exec set to eager it is called again for every batch, and each call inside it is executed at
 * once. Then it may build another graph each time, from parameters that were recorded; a parameter that a step does not
 * use has a gradient of zero in that step. */
typedef ronde_tensor *(*ronde_model_fn)(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user);

#ifdef __cplusplus
}
#endif
#endif

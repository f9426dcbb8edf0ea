/* Ronde: training of neural networks in C on CPU clusters.
 *
 * In reading order: statuses and the log; the graph, to define a network; the configuration, one typed table of options
 * that are the same as on the command line; the jobs: train, eval, predict, init; then checkpoints and data sets. What
 * only measurements need is in measure.h.
 *
 * Rules that hold everywhere:
 * - A function that can fail returns a ronde_status, 0 on success. Outputs come last, end in _out, and are set only on
 *   success unless a comment says otherwise.
 * - An error is logged once, in one line, through the log callback, before the function that found it returns.
 * - Shapes are logical and row-major, in PyTorch's order (images are NCHW). The batch dimension comes first and is left
 *   out of the dims of a tensor. Elements are float, but tokens int32_t; labels are int64_t.
 * - Strings and arrays that are passed in are copied unless a comment says otherwise. JSON texts that come out are owned
 *   by the caller, who frees them with free().
 * - The library installs no signal handlers, prints nothing and never ends the process.
 * - Different objects may be used by different threads at the same time, one object by one thread at a time. */
#ifndef RONDE_RONDE_H
#define RONDE_RONDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RONDE_API __attribute__((visibility("default")))

/* ---- status and log ------------------------------------------------------------------------------------------ */

/* X(enum name, text, exit code of the command line) */
#define RONDE_STATUS_LIST(X)                                   \
  X(OK, "success", 0)                                          \
  X(E_INTERNAL, "internal error", 1)                           \
  X(E_USAGE, "wrong or impossible option, network or call", 2) \
  X(E_INPUT, "bad or missing input", 3)                        \
  X(E_LOST, "a worker or a link was lost", 4)                  \
  X(E_NUMERIC, "the numbers broke (NaN or Inf)", 5)            \
  X(E_WRITE, "cannot write", 6)                                \
  X(E_MEMORY, "out of memory", 6)                              \
  X(E_DIFFERENCE, "a check found a difference", 7)             \
  X(E_CANCELLED, "cancelled", 130)

typedef enum ronde_status {
#define RONDE_X(name, text, code) RONDE_##name,
  RONDE_STATUS_LIST(RONDE_X)
#undef RONDE_X
} ronde_status;

/* The text of a status; never NULL. */
RONDE_API const char *ronde_status_text(ronde_status status);
/* The exit code that the command line ends with for a status (0 to 7, 130). */
RONDE_API int ronde_status_exit_code(ronde_status status);

typedef enum ronde_log_level { RONDE_LOG_ERROR, RONDE_LOG_WARNING, RONDE_LOG_INFO, RONDE_LOG_DEBUG } ronde_log_level;

/* Receives one line, without its newline, that is valid during the call only. Called from any thread, but never from two
 * at once. */
typedef void (*ronde_log_fn)(void *user, ronde_log_level level, const char *line);

/* Sets who receives all log lines of the process. NULL, the default: nobody. Must not be called while a job runs. */
RONDE_API void ronde_log_set(ronde_log_fn fn, void *user);

/* "0.1.0" */
RONDE_API const char *ronde_version(void);
/* What this build and this machine offer, as a JSON object: version, git, features{}, isa, isas[], gemm[],
 * bf16, bf16s[]. */
RONDE_API ronde_status ronde_version_json(char **json_out);

/* ---- graph: define a network --------------------------------------------------------------------------------- */

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

/* ---- configuration: one typed table of options ---------------------------------------------------------------- */

/* The options of one job, by their names on the command line ("batch", "lr", ...). Each is checked when it is set. */
typedef struct ronde_config ronde_config;

/* verb: "train", "eval", "predict", "init", "data", "export", "doctor", "bench collectives", "bench step", "bench
 * kernels", or "compare" (the options of train, and its own). Values start at their defaults. */
RONDE_API ronde_status ronde_config_create(const char *verb, ronde_config **config_out);
RONDE_API void ronde_config_destroy(ronde_config *config);
/* Sets an option from text, as on the command line; flags take "on" and "off". Errors: RONDE_E_USAGE, with a line that
 * says what the option takes or, if there is none of this name, which one is nearest. */
RONDE_API ronde_status ronde_config_set(ronde_config *config, const char *name, const char *value);
/* Sets every option that was not set yet and has a variable in the environment (RONDE_BATCH, RONDE_LR_SCHEDULE). */
RONDE_API ronde_status ronde_config_set_environment(ronde_config *config);
/* Whether one of the calls above has set the option. Otherwise it has its default. */
RONDE_API bool ronde_config_is_given(const ronde_config *config, const char *name);
/* The present value as text; owned by the config until its next change. NULL for an unknown name. */
RONDE_API const char *ronde_config_get(const ronde_config *config, const char *name);

typedef struct ronde_option {
  const char *name, *value_name; /* "batch", "N"; value_name NULL: a bare on/off flag */
  const char *default_text, *help, *group;
  char variable[48]; /* of the environment that sets it: "RONDE_BATCH"; "": none does */
  bool needs_out;    /* without effect in a run that writes nothing to --out */
} ronde_option;
/* The i-th option of a verb, from 0, in the order of the table; false past the end. All text but the variable is
 * static. */
RONDE_API bool ronde_config_option(const char *verb, int i, ronde_option *option_out);

/* ---- jobs ---------------------------------------------------------------------------------------------------- */

typedef enum ronde_split { RONDE_SPLIT_TRAIN, RONDE_SPLIT_TEST } ronde_split;

/* A label that counts nowhere: of a place in a sequence that is to be ignored. */
#define RONDE_IGNORED (-1)

/* An input beside the first one. */
typedef struct ronde_source_input {
  const char *name; /* by which ronde_graph_input finds it; not "input", which the first one is called */
  int rank;
  int64_t dims[RONDE_MAX_RANK];
  int64_t vocabulary; /* above 0: it is tokens, int32_t numbers below it; 0: values */
} ronde_source_input;

/* Examples from the caller instead of those of --data. Must stay valid until the job has returned. */

typedef struct ronde_source {
  const char *name;
  int rank;                       /* of one example */
  int64_t dims[RONDE_MAX_RANK];   /* dims of one example */
  int64_t classes;                /* of the labels; 0: the targets are values */
  int64_t target_elems;           /* values per example where classes is 0 */
  int64_t label_elems;            /* labels per example: the steps of a sequence; 0 means 1 */
  int64_t vocabulary;             /* above 0: the input is tokens, numbers below it, and its part of x is int32_t */
  int n_more;                     /* of networks with several inputs: those beside the first one, which the fields above
                                   describe */
  const ronde_source_input *more; /* [n_more] */
  int64_t n_examples[2];          /* by ronde_split; test may be 0 */
  /* Fills x [n][dims; behind them, side by side, the elements of `more`] and labels [n][label_elems] for the examples ids [n] of a split; where classes is 0, targets [n][target_elems]
   * in place of labels. All buffers are the library's. Called by the loaders' threads, several at once. Any status but
   * RONDE_OK ends the job with that status. */
  ronde_status (*read)(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                       float *targets);
  void *user;
} ronde_source;

typedef struct ronde_progress {
  int64_t step, steps; /* done, in all */
  int64_t epoch;       /* the present one, from 1 */
  double loss;         /* the mean loss of the step, before its update; at the end of an epoch, of the epoch */
  double lr;
  double examples_per_s;
  double elapsed_s, left_s;
  bool epoch_end;        /* each epoch ends with a call of its own, in which the next four are set */
  double train_accuracy; /* from 0 to 1; below 0: there are no classes, or no step was made */
  double test_loss;
  double test_accuracy;  /* from 0 to 1; below 0: there is no test data, or there are no classes */
  const char *tested_on; /* "test", or "validation" (--val-split, or val/ of a folder); NULL: there is no test data */
} ronde_progress;

/* The likeliest classes of one example, the likeliest first, or its values; valid during the call of the hook. */
typedef struct ronde_prediction {
  const char *file; /* that holds the example */
  int64_t index;    /* of the example in the file, from 0 */
  int n;            /* classes that are reported: --top, or all if there are fewer */
  const int64_t *classes;
  const double *probabilities;
  const char *const *names; /* [n], each NULL where the weights do not name their classes */
  int n_values;             /* of networks that tell values; then n is 0 */
  const float *values;      /* [n_values]; of --loss bce the probability of each label */
  const char *const
      *value_names; /* [n_values], of the columns of a csv file that they stand in; NULL: they have none */
  const char *text; /* of networks that transcribe, what is said; then n and n_values are 0; else NULL */
} ronde_prediction;

/* Callbacks of a job. Each may be NULL. progress and cancel are called by the thread of rank 0. */
typedef struct ronde_hooks {
  ronde_model_fn model;       /* instead of --model */
  const ronde_source *source; /* instead of --data */
  void (*progress)(void *user, const ronde_progress *progress);
  void (*prediction)(void *user, const ronde_prediction *prediction); /* predict: once per example */
  void (*token)(void *user, int64_t token); /* predict of a text: each token behind the prompt, as it is chosen, */
  void (*text)(void *user, const char *bytes, int64_t n); /* then its n bytes; n may be 0, and no 0 follows */
  /* Asked once a step or batch. true ends the job with RONDE_E_CANCELLED, after its outputs are written. */
  bool (*cancel)(void *user);
  /* With ranks that are processes, once: all of them have joined, and from here on one that is lost is noticed. */
  void (*joined)(void *user);
  /* train with --on-loss restart, once, from the thread of a rank of this process that ends because another was lost: the
   * step that the run went on from, 0: it began anew, and the last one that has ended on this rank. */
  void (*lost)(void *user, int64_t resumed_step, int64_t step);
  /* train, from the thread of rank 0: the workers go on without this one, which is lost. May be told again. */
  void (*left_out)(void *user, int rank);
  /* With ranks that are processes, from a thread of its own: a call of MPI does not come back, which has been logged, and
   * whoever called the job will not get it back either. The process should end, so that the other ranks miss it. */
  void (*stuck)(void *user);
  const char
      *restarts; /* train: what becomes `restarts` in run.json, a JSON array, told by who has restarted the run */
  /* train with ranks that are processes, once, from the thread of rank 0, when all have joined and before --out is looked into:
   * until it returns another run may write there. restarts_out: what `restarts` is to be, valid until the job returns. Any
   * status but RONDE_OK ends the job with it. All ranks have it, or none. */
  ronde_status (*await)(void *user, const char **restarts_out);
  void *user; /* passed to the callbacks above; a source has its own */
} ronde_hooks;

/* A job blocks until all its ranks have ended, and writes the files that its options name (--out, --save). hooks may be
 * NULL. json_out may be NULL; on success it receives a JSON text, which train also sets for a run that was interrupted. */

/* Trains. The text is run.json ("ronde.run.v1"), described in docs/record.md, or with --dry-run the plan. To resume a run
 * that is complete changes nothing and returns its run.json. Errors: RONDE_E_USAGE if --out holds another run and neither
 * --resume nor --overwrite is given, or if another process writes there. */
RONDE_API ronde_status ronde_train(const ronde_config *config, const ronde_hooks *hooks, char **json_out);
/* Loss and accuracy of the weights --init on --data (where none is named, on that of their run): on its test examples, or
 * those that --split names. Where there are classes, also: each one's precision, recall and F1, which is taken for which,
 * the calibration of the probabilities, and the most confident mistakes, by file where each example has one; --csv writes
 * them as tables. Where a built-in network tells values: mean absolute error, root mean square error and R2, over all and
 * for each; of --loss bce the accuracy of the labels. Of sequences of tokens: perplexity, and bits; with --bleu also the
 * BLEU of the examples' translations (bleu), and how many of them are the target byte for byte. Where a network
 * transcribes: word and character error rate of its likeliest classes. */
RONDE_API ronde_status ronde_eval(const ronde_config *config, const ronde_hooks *hooks, char **json_out);
/* Classes with probabilities of each example in --input: images and npy files, named by file, folder or pattern, one a
 * line. If json_out is NULL, only the hook gets the results, and memory does not grow with the examples.
 * Of a network that tells the next token of a text: --tokens tokens behind --prompt, one by one. It sees as many of the last
 * ones as its input has; what it tells at a place must not depend on those behind it. JSON: prompt, text, tokens[].
 * Of a network that translates: the translation of --prompt, until it tells the end, as --beam finds it; the hook is told the
 * token in front of it too, a TAB, and with a beam of several the tokens when all are known. JSON: the same, and complete (whether
 * it told the end), log_probability, score (log_probability by --length-penalty).
 * Of a network that transcribes: the text of each WAV file in --input, by the prediction hook. */
RONDE_API ronde_status ronde_predict(const ronde_config *config, const ronde_hooks *hooks, char **json_out);

/* ---- predictors: a trained network in memory ----
 * Makes predictions for any number of calls, from any number of threads at once. All calls share the parameters; calls
 * that run at the same time each have working memory of their own, which is kept for later calls. */
typedef struct ronde_predictor ronde_predictor;

/* config: of "predict". --init names the weights and --threads sets the threads of each call (0: all cores; use 1 if
 * several of your threads call at once). --shape and --classes are needed only if the file does not say them, and
 * --normalize works as on the command line. hooks: NULL, or hooks with a model function. With --exec eager it is called in
 * every run, by the thread that runs; what hooks->user points to must then outlive the predictor. Errors: RONDE_E_INPUT if the
 * weights do not fit the network. Destroy a predictor only while no call runs; ronde_predictor_destroy takes NULL. */
RONDE_API ronde_status ronde_predictor_create(const ronde_config *config, const ronde_hooks *hooks,
                                              ronde_predictor **predictor_out);
/* Trains as ronde_train does, and returns the trained network in memory: the weights that --save would write, also if the
 * run was cancelled. *predictor_out is NULL if the training failed, and in every process but that of rank 0. */
RONDE_API ronde_status ronde_train_predictor(const ronde_config *config, const ronde_hooks *hooks,
                                             ronde_predictor **predictor_out, char **json_out);
RONDE_API void ronde_predictor_destroy(ronde_predictor *predictor);
/* y [n][outputs] is the network's output, before any softmax, for x [n][shape], row-major f32 (of several inputs each
 * example has theirs side by side, in the order of the data): pixels between 0 and 1, or
 * what npy files of the training data hold, which of tokens is their numbers; it is normalised here as the training data were. Blocks; the first call with a
 * new n also plans the network for that many examples. */
RONDE_API ronde_status ronde_predictor_run(ronde_predictor *predictor, int64_t n, const float *x, float *y_out);
/* Returns the rank of an input example and sets its dimensions; where there are several inputs, of the first one. */
RONDE_API int ronde_predictor_shape(const ronde_predictor *predictor, int64_t dims_out[RONDE_MAX_RANK]);
/* The same of input i, from 0; the name of the input, NULL past the end. rank_out and dims_out may be NULL. */
RONDE_API const char *ronde_predictor_input(const ronde_predictor *predictor, int i, int *rank_out,
                                            int64_t dims_out[RONDE_MAX_RANK]);
/* The number of values in the output of one example. */
RONDE_API int64_t ronde_predictor_outputs(const ronde_predictor *predictor);
/* The name of class k; NULL if the classes have no names. Owned by the predictor. */
RONDE_API const char *ronde_predictor_class(const ronde_predictor *predictor, int64_t k);
/* The name of the i-th parameter or buffer, as in the safetensors file, and its shape; NULL past the end. rank_out and
 * dims_out may be NULL. */
RONDE_API const char *ronde_predictor_tensor(const ronde_predictor *predictor, int i, int *rank_out,
                                             int64_t dims_out[RONDE_MAX_RANK]);
/* Reads (_get) or replaces (_set) the n values of the tensor `name`, row-major. _set waits until no prediction runs.
 * Errors: RONDE_E_USAGE if there is no such tensor, or if n is not its number of elements. */
RONDE_API ronde_status ronde_predictor_get(ronde_predictor *predictor, const char *name, float *values_out, int64_t n);
RONDE_API ronde_status ronde_predictor_set(ronde_predictor *predictor, const char *name, const float *values,
                                           int64_t n);

/* Writes freshly initialised weights to --output. */
RONDE_API ronde_status ronde_init(const ronde_config *config, const ronde_hooks *hooks, char **json_out);
/* The networks that are built in, with their parameters and FLOPs. name NULL: all of them; otherwise this one, with its
 * tensors; it may be that of an ONNX file. */
RONDE_API ronde_status ronde_models(const char *name, char **json_out);

/* ---- checkpoints ---------------------------------------------------------------------------------------------- */

/* In the three calls below a path is a checkpoint, a file of weights, or the folder of a run, which stands for its newest
 * undamaged checkpoint. (With the option --init a folder stands for the best weights in it: best.safetensors, else
 * last.safetensors, else that checkpoint.) */

/* What a file holds: its tensors and, of a checkpoint, how far the training had come, its options and its data. */
RONDE_API ronde_status ronde_ckpt_info(const char *path, char **json_out);
/* Reads a file, or all checkpoints of a folder, and compares their checksums. Errors: RONDE_E_DIFFERENCE if a checksum
 * differs, RONDE_E_INPUT if a file cannot be read. json_out is set in these cases too. */
RONDE_API ronde_status ronde_ckpt_verify(const char *path, char **json_out);
/* Compares two files tensor by tensor, bit by bit. Errors: RONDE_E_DIFFERENCE, with json_out set, if they differ. */
RONDE_API ronde_status ronde_ckpt_diff(const char *a, const char *b, char **json_out);
/* Writes the parameters and buffers of --init, and nothing else, to --output; with --format onnx the whole network, as an
 * ONNX file. config: of "export". */
RONDE_API ronde_status ronde_export(const ronde_config *config, char **json_out);

/* ---- data sets ------------------------------------------------------------------------------------------------ */

/* Callbacks of a download. Each may be NULL. Called by the thread that downloads. */
typedef struct ronde_data_hooks {
  void (*progress)(void *user, const char *file, int64_t done, int64_t total); /* bytes */
  /* Called regularly. true ends the download with RONDE_E_CANCELLED; the next download continues from there. */
  bool (*cancel)(void *user);
  void *user;
} ronde_data_hooks;

/* The data sets that Ronde knows by name: where their files were found, and how much ronde_data_get would download. */
RONDE_API ronde_status ronde_data_list(char **json_out);
/* What --data holds: examples, shape, classes, hash. config: of "data", here and below. */
RONDE_API ronde_status ronde_data_info(const ronde_config *config, char **json_out);
/* Downloads the files of --data to --output or, without it, to where they will be found. Each file is checked by its
 * SHA-256 and is either complete or absent; files that are there already are left alone. A download that was interrupted
 * continues where it ended. Blocks. hooks may be NULL. */
RONDE_API ronde_status ronde_data_get(const ronde_config *config, const ronde_data_hooks *hooks, char **json_out);
/* Learns a byte-pair vocabulary of --vocabulary tokens from what text:FILE trains on, the first nine tenths of --data (FILE or text:FILE),
 * and writes it to --output, for --tokenizer. Blocks; cost: for each token, a pass over the distinct words. JSON: file, vocabulary,
 * bytes, tokens, bytes_per_token. */
RONDE_API ronde_status ronde_data_tokenize(const ronde_config *config, char **json_out);
/* Writes --data as npy files (train_x.npy, train_y.npy, test_x.npy, test_y.npy) to the folder --output. */
RONDE_API ronde_status ronde_data_convert(const ronde_config *config, char **json_out);

#ifdef __cplusplus
}
#endif
#endif

/* What an op is: its shapes, parameters and layouts; and its forms, which prepare it for a batch size and execute it.
 * One file per op; ops.inc lists them. An op knows its own operands only, no graph, no strategy. */
#ifndef RONDE_OP_H
#define RONDE_OP_H

#include "base/pool.h"
#include "base/rows.h"
#include "kernel/kernel.h"
#include "tensor/tensor.h"

#define RONDE__OP_MAX_INPUTS 4
#define RONDE__OP_MAX_OUTPUTS 4
#define RONDE__OP_MAX_PARAMS 8
#define RONDE__OP_MAX_BUFFERS 3

typedef enum ronde__op_kind {
#define RONDE_OP(NAME, name) RONDE__OP_##NAME,
#include "ops/ops.inc"
#undef RONDE_OP
  RONDE__N_OPS
} ronde__op_kind;

/* A max pooling over windows side by side, executed by the op in front of it. */
typedef struct ronde__joined_pool {
  int kernel[2]; /* 0: none */
  bool relu;     /* behind it */
} ronde__joined_pool;

/* Arithmetic on two tensors. */
typedef enum ronde__pair_kind {
  RONDE__PAIR_ADD,
  RONDE__PAIR_SUBTRACT,
  RONDE__PAIR_MULTIPLY,
  RONDE__PAIR_DIVIDE,
  RONDE__PAIR_MINIMUM,
  RONDE__PAIR_MAXIMUM,
  RONDE__PAIR_POWER
} ronde__pair_kind;

typedef enum ronde__reduce_kind {
  RONDE__REDUCE_SUM,
  RONDE__REDUCE_MEAN,
  RONDE__REDUCE_MAXIMUM,
  RONDE__REDUCE_MINIMUM,
  RONDE__REDUCE_PRODUCT
} ronde__reduce_kind;

/* Functions of one number (functions.inc says what they are), with constants a and b. */
typedef enum ronde__function_kind {
#define RONDE_FUNCTION(KIND, name, value, slope) RONDE__FUNCTION_##KIND,
#include "ops/functions.inc"
#undef RONDE_FUNCTION
} ronde__function_kind;

typedef struct ronde__function {
  ronde__function_kind kind;
  float a, b;
} ronde__function;

/* What a slice that reaches beyond its input finds there: a value; the last element inside; the input in a mirror that
 * stands on the last element; the input again. */
typedef enum ronde__window_mode {
  RONDE__OUTSIDE_VALUE,
  RONDE__OUTSIDE_EDGE,
  RONDE__OUTSIDE_REFLECT,
  RONDE__OUTSIDE_WRAP
} ronde__window_mode;

/* What a step of a recurrent layer is (cells.c); each is of one op. */
typedef enum ronde__cell_kind {
  RONDE__CELL_LSTM,
  RONDE__CELL_GRU,
  RONDE__CELL_GRU_RESET_FIRST,
  RONDE__CELL_TANH, /* of an RNN */
  RONDE__CELL_RELU
} ronde__cell_kind;

/* How an image is resized: where the places of outputs are among the inputs, and which input is the nearest. */
typedef enum ronde__resize_coordinates {
  RONDE__RESIZE_HALF_PIXEL,
  RONDE__RESIZE_ALIGN_CORNERS,
  RONDE__RESIZE_ASYMMETRIC,
  RONDE__RESIZE_PYTORCH_HALF_PIXEL /* the first pixel where there is one output, else half_pixel */
} ronde__resize_coordinates;

typedef enum ronde__resize_rounding {
  RONDE__RESIZE_ROUND_PREFER_FLOOR,
  RONDE__RESIZE_ROUND_PREFER_CEIL,
  RONDE__RESIZE_FLOOR,
  RONDE__RESIZE_CEIL
} ronde__resize_rounding;

typedef struct ronde__resize {
  bool linear;
  ronde__resize_coordinates coordinates;
  ronde__resize_rounding rounding;
  float scale[2]; /* outputs an input; 0: output size / input size */
} ronde__resize;

/* What the user asked for; the fields that the kind uses. */
typedef struct ronde__op_attr {
  int64_t out_channels;                 /* convolution, linear; recurrent: hidden values */
  int kernel[2], stride[2], padding[2]; /* upsampling: kernel alone; resizing: the output size */
  int padding_more[2];                  /* zeros behind beyond those in front; below 0: fewer */
  int dilation[2];                      /* 0 means 1 */
  int output_padding[2];                /* transposed convolution: so many pixels more behind */
  bool ceil_mode;                       /* pooling: a last window may reach beyond the padding */
  int groups;                           /* convolution: 0 means 1; group normalisation, channel shuffle */
  bool affine;                          /* group normalisation: with weight and bias */
  bool bias, exclude_padding, kaiming_normal;
  bool of_sequence;   /* convolutions: along the width alone, with a weight [O,C / groups,KW], or [C,O / groups,KW] */
  bool inputs_first;  /* linear: the weight is [F,O], in place of [O,F] */
  int64_t vocabulary; /* embedding: rows */
  float deviation;    /* embedding, parameter: of its first values; of a parameter 0: they are zeros */
  int heads;          /* attention */
  bool causal;        /* attention: a query sees the keys up to its own place */
  bool normalised;    /* additive attention: with a scale and a bias */
  int64_t filters;    /* location-sensitive attention */
  ronde__cell_kind cell;
  bool peepholes; /* LSTM */
  float clip;     /* recurrent layers: bounds of what goes into their functions; 0: none */
  bool lengths;   /* attention, recurrent, CTC: the last input says how many keys or steps of each example there are */
  bool reverse;   /* recurrent: from the last step to the first */
  int n_inputs;   /* concatenation, recurrent, attention */
  int n_outputs;  /* split */
  int dim;        /* softmax, concatenation, split: which one; layer normalisation: how many, from the last on */
  int64_t sizes[RONDE__OP_MAX_OUTPUTS]; /* split: of the pieces */
  int64_t length, step;                 /* softmax, layer normalisation: of a group's elements, set by layouts(); cross
                                           entropy: classes; dropout: elements that are dropped together, 0 means 1 */
  bool synchronised;                    /* batch normalisation: by the statistics of all replicas' examples */
  int64_t labels, blank;                /* CTC: of an example; the class that stands for none */
  bool zero_infinity;                   /* CTC: an example that no alignment fits counts 0 */
  float eps, momentum;                  /* normalisations; batch normalisation */
  float probability;                    /* dropout: of a zero */
  float delta;                          /* Huber loss: where it becomes linear */
  float label_smoothing; /* cross entropy, in training: this part of the target goes to all classes alike */
  ronde__activation act; /* fused behind a convolution, linear layer or normalisation, or the activation op itself */
  ronde__pointwise pointwise;
  bool pointwise_behind; /* a normalisation executes `pointwise` too */
  ronde__pair_kind pair;
  ronde__reduce_kind reduce;
  ronde__function function;
  ronde__resize resize;
  ronde__window_mode outside; /* slice: what is read beyond the input, */
  float value;                /* or this */
  ronde__shape shape;        /* reshape, parameter, slice: of the output; pair, reduce: of the walk, set by layouts() */
  ronde__shape whole;        /* slice: of the input, set by layouts() */
  unsigned repeated[2];      /* pair: dimensions that an input has once only, set by layouts() */
  unsigned dims;             /* reduce: which go, bit by bit */
  bool keep;                 /* reduce: as dimensions of 1 */
  bool turned[2];            /* matrix product: the last two dimensions of an input the other way round */
  int order[RONDE_MAX_RANK]; /* transpose: output dimension d is input dimension order[d] */
  int64_t begin[RONDE_MAX_RANK], by[RONDE_MAX_RANK]; /* slice: output i is input begin + i by */
  ronde__joined_pool pool;                           /* behind a convolution and its activation */
} ronde__op_attr;

typedef struct ronde__param_spec {
  const char *suffix;   /* "weight", "bias"; NULL: it is called like its layer */
  ronde__shape shape;   /* logical */
  float bound;          /* what init has for its value */
  ronde_init_kind init; /* 0, the default: U(-bound, bound), as PyTorch's layers are */
} ronde__param_spec;

/* State that is kept but not trained: f32, or a count of training batches. */
typedef struct ronde__buffer_spec {
  const char *suffix; /* "running_mean" */
  ronde__shape shape; /* a vector over channels; a counter is a scalar */
  float initial;
  bool is_counter;
} ronde__buffer_spec;

typedef struct ronde__form ronde__form;

/* Of a stage (graph.h): the stage in front computes what it reads, the one behind reads what it computes. */
typedef enum ronde__side { RONDE__IN_FRONT, RONDE__BEHIND } ronde__side;

/* How the sends and receives of a stage reach its neighbours; called within forward and backward, by their thread. The
 * messages of one number to one side arrive in the order in which they were sent. Whoever fails has logged why. */
typedef struct ronde__neighbours {
  /* Begins to send x [n], which must stay as it is until wait() or cancel() has been called with what is under way. Does
   * not wait for the receiver. */
  ronde_status (*send)(void *user, ronde__side side, int message, const float *x, size_t n, void **under_way_out);
  /* Waits until x [n] is there. */
  ronde_status (*receive)(void *user, ronde__side side, int message, float *x, size_t n);
  /* Begins to receive x [n], which must be left alone until wait() or cancel(). Messages of one number come into what was
   * asked for first. */
  ronde_status (*expect)(void *user, ronde__side side, int message, float *x, size_t n, void **under_way_out);
  /* Waits until it has been sent, or received; it is NULL then, and where it was NULL before. */
  ronde_status (*wait)(void *user, void **under_way);
  void (*cancel)(void *user, void **under_way); /* the same without waiting: for giving up */
  void *user;
} ronde__neighbours;

/* Floats on their way between two ranks; n 0: none. */
typedef struct ronde__parcel {
  float *at;
  size_t n;
} ronde__parcel;

/* In which turns the examples of all ranks go through split layers (Krizhevsky, "One weird trick for parallelizing
 * convolutional neural networks", 2014, section 4): all at once; a rank's in each turn; of each rank an equal part in
 * each turn. There are as many turns as ranks. */
typedef enum ronde__turn_scheme { RONDE__TURNS_A, RONDE__TURNS_B, RONDE__TURNS_C } ronde__turn_scheme;

/* How ops of a layer that is split over ranks (shares.h) hand each other what they have; called within forward and
 * backward, by their thread, by all ranks in the same order. Whoever fails has logged why. */
typedef struct ronde__peers {
  int rank, size;
  ronde__turn_scheme scheme;
  /* Begins to send to[r] to each other rank r and to receive from[r] of it, [size] each; the rank's own parcels are left
   * alone. What they hold must stay until end() or cancel() has been called with what is under way. */
  ronde_status (*begin)(void *user, bool backward, const ronde__parcel *to, const ronde__parcel *from,
                        void **under_way_out);
  /* Blocks until all of it is done, in the order in which they were begun; it is NULL then. */
  ronde_status (*end)(void *user, void **under_way);
  void (*cancel)(void *user, void **under_way); /* for giving up: no exchange may begin any more */
  void *user;
} ronde__peers;

/* The examples that a step around split layers is of. */
enum { RONDE__ALL_TURNS = -1 };
typedef struct ronde__turn {
  const ronde__peers *peers; /* NULL: it is no such step */
  int64_t n_all;             /* examples of all ranks, in all turns */
  int number;                /* RONDE__ALL_TURNS: all of them, turn behind turn */
} ronde__turn;

/* What a rank has of a value around split layers: all of its own examples, its own features of the turn's examples, or all
 * of these. */
typedef enum ronde__spread { RONDE__EXAMPLES, RONDE__FEATURES, RONDE__WHOLE } ronde__spread;

/* What the plan decided about one op for one batch size. */
typedef struct ronde__op_desc {
  const ronde__form *form; /* chosen last; NULL: a view */
  ronde__op_attr attr;
  int n_inputs, n_outputs, n_params;
  ronde__phys in[RONDE__OP_MAX_INPUTS], out[RONDE__OP_MAX_OUTPUTS];
  ronde__weight_layout param[RONDE__OP_MAX_PARAMS];
  int n_buffers;
  ronde__weight_layout buffer;            /* of each buffer that is no counter */
  int layer;                              /* of the graph's nodes: tells one dropout from another */
  bool need_dinput[RONDE__OP_MAX_INPUTS]; /* whose gradient backward must give */
  bool frozen[RONDE__OP_MAX_PARAMS];      /* not trained: calls have no gradient of it (dparam NULL) */
  bool in_pieces;                         /* backward tells the gradient of param[0] concurrently, and keeps none */
  ronde__compute compute;
  int threads;
  const ronde__neighbours *neighbours; /* of a send or receive, */
  int message;                         /* and its number; else NULL */
  ronde__turn turn;                    /* around split layers */
  ronde__spread from, to;              /* of an exchange (exchange.c) */
  int64_t first_channel;               /* dropout: of the layer's channels, the first one of in[0] */
  int64_t rows;                        /* attention, dropout: of an example in in[0] (ronde__phys_rows), by layouts() */
} ronde__op_desc;

/* A gradient event: elements [begin, end) of a parameter's gradient are final, and lie at `data` [end - begin]. It is
 * the one way in which gradients are handed on, from an op to the executor and from there to the strategy.
 * Each element is told once. Of dead taps (op.dead_tap) data is zero where gradients are kept; else it may hold anything
 * there: they have no gradient, and nobody may read one.
 *
 * Kept gradients: told on the calling thread, a parameter's last elements first; data stays. Backward may read the
 * parameter again. Transient ones: data is valid within the call only, and backward reads these elements of the
 * parameter no more, so that they may be updated within. */
typedef struct ronde__gradient {
  int param;         /* from an op: of its own; behind the executor: of the network */
  size_t begin, end; /* from an op: in the packed parameter; behind the executor: in the flat arrays */
  const float *data;
  bool concurrent; /* transient: told from any thread of the pool, in any order, within the op's own time */
  bool fetched;    /* transient: what the listener touches of the next ones has been fetched */
  /* Behind the executor, of a whole table (ronde__net_track_rows): of all other rows the gradient is zero. There data
   * is zero where gradients are kept, and else holds anything. NULL: all was computed. */
  const ronde__row_set *rows;
} ronde__gradient;

typedef struct ronde__gradient_listener {
  void (*final)(void *user, const ronde__gradient *gradient); /* NULL: nobody listens */
  void *user;
} ronde__gradient_listener;

/* What each replica contributed to a synchronised op: `n` partial sums, in the order of replicas, `stride` f64 apart. */
typedef struct ronde__partials {
  const double *at;
  int64_t stride;
  int n; /* 0: nothing is shared in this call */
} ronde__partials;

/* The memory of one call. Gradients of parameters are overwritten, or added to where accumulate_dparam; gradients of
 * inputs are overwritten, or added to where accumulate_dinput. */
typedef struct ronde__op_call {
  const float *in[RONDE__OP_MAX_INPUTS]; /* in, out, dout, din: uint16_t where the description says bfloat16 */
  float *out[RONDE__OP_MAX_OUTPUTS];
  const int64_t *labels; /* losses against classes [n][labels of an example]; below 0: none */
  const float *param[RONDE__OP_MAX_PARAMS];
  float *buffer[RONDE__OP_MAX_BUFFERS]; /* NULL for a counter */
  bool training;                        /* statistics of the batch, dropout; else running statistics, and none */
  uint64_t seed, step;                  /* dropout is a function of these, the layer, the example and the element */
  int64_t first_example;                /* of this batch, in the step's list */
  /* May be overwritten: their last use. NULL: the loss does not depend on this output. Of an op with one output there
   * is one, and of one with several there is at least one. */
  float *dout[RONDE__OP_MAX_OUTPUTS];
  float *din[RONDE__OP_MAX_INPUTS];    /* one of them may be dout[0], as dinput_in_dout says */
  float *dparam[RONDE__OP_MAX_PARAMS]; /* NULL: frozen; not param[0]'s where in_pieces */
  bool accumulate_dinput[RONDE__OP_MAX_INPUTS];
  bool accumulate_dparam[RONDE__OP_MAX_PARAMS];
  bool leaves_dead; /* dparam[0] of dead taps may stay as it is: it is zero, or nobody reads it */
  /* Backward of an op that gives_rows: those of dparam[0] that have a gradient already, to which it adds, whatever
   * accumulate_dparam says. It leaves all others alone but those that it writes, and adds these. NULL: it writes all. */
  ronde__row_set *rows;
  ronde__gradient_listener listener;
  /* Where the listener reads and writes, told of a transient gradient of elements from `begin` on, beside its data: arrays
   * of as many elements, at most RONDE__AHEAD_RANGES; returns how many. user: the listener's. NULL: not known. */
  int (*touches)(void *user, int param, size_t begin, const void **at_out);
  float *saved;             /* what forward leaves to backward beside in and out */
  float *work;              /* scratch of this call */
  float loss_scale;         /* losses: factor of each example's gradient, 1 / (examples of the step) */
  float label_weight;       /* losses against classes: of each label, in loss and gradients (graph.h) */
  double *loss_sum;         /* losses: the sum of the examples' losses, and of those classified rightly, */
  int64_t *n_correct;       /* are added here; n_correct is untouched where there are no classes */
  double *partial;          /* [partial_elems] of a synchronised op: its own contribution, */
  ronde__partials partials; /* and everybody's */
  void **under_way;         /* the pass's, of what this op has begun to send: from forward, or backward, on; */
  void **coming;            /* and of what it has begun to receive */
  bool expected;            /* forward: a receive is `coming` already */
  float *turned;            /* [param[0]], of a form that turns_weight: where it is to be kept; NULL: nowhere */
  bool is_turned;           /* it is there, of the same weight */
  ronde__pool *pool;
} ronde__op_call;

/* From within backward, which need not tell what is final only at its end. */
static inline void ronde__op_gradient_final(const ronde__op_call *call, int param, size_t begin, size_t end) {
  if (call->listener.final && call->dparam[param])
    call->listener.final(call->listener.user,
                         &(ronde__gradient){param, begin, end, call->dparam[param] + begin, false, false, NULL});
}
static inline int ronde__op_gradient_touches(const ronde__op_call *call, int param, size_t begin, const void **at_out) {
  return call->touches ? call->touches(call->listener.user, param, begin, at_out) : 0;
}
/* The same of all parameters. */
static inline void ronde__op_gradients_final(const ronde__op_desc *desc, const ronde__op_call *call) {
  for (int i = desc->n_params - 1; i >= 0; i--)
    ronde__op_gradient_final(call, i, 0, (size_t)ronde__weight_elems(&desc->param[i]));
}

/* Sets of an op's operands: bit i stands for in[i], or out[i]. */
typedef struct ronde__operands {
  unsigned in, out;
} ronde__operands;

/* A form: one implementation of an op. Whoever executes it finds it in the description. A call that fails has logged
 * why; what it should have written holds nothing then, and the pass ends. */
struct ronde__form {
  const char *name; /* in the per-op table, static text; NULL: the op has no other form */
  /* Whether it supports these layouts and this shape, and pays there. NULL: always. */
  bool (*takes)(const ronde__op_desc *desc);
  /* Prepares one batch size: kernels resolved, tap lists made. state may stay NULL. */
  ronde_status (*prepare)(const ronde__op_desc *desc, void **state_out);
  void (*release)(const ronde__op_desc *desc, void *state);
  /* Floats of scratch and of saved memory that calls need. NULL: 0. */
  size_t (*work_elems)(const ronde__op_desc *desc, const void *state, bool backward);
  size_t (*saved_elems)(const ronde__op_desc *desc, const void *state);
  ronde_status (*forward)(const ronde__op_desc *desc, const void *state, const ronde__op_call *call);
  ronde_status (*backward)(const ronde__op_desc *desc, const void *state, const ronde__op_call *call);
  /* Ops that may be synchronised: contribute() is the first half of forward or backward and leaves this replica's partial sums;
   * the second half is forward or backward itself with those of all. A replica without an example has partial sums of
   * zeros, and absorb() is all of its forward. NULL: the op shares nothing. */
  size_t (*partial_elems)(const ronde__op_desc *desc); /* 0: not synchronised */
  ronde_status (*contribute)(const ronde__op_desc *desc, const void *state, const ronde__op_call *call, bool backward);
  ronde_status (*absorb)(const ronde__op_desc *desc, const ronde__op_call *call);
  ronde__operands bf16; /* those that may be bfloat16 where they are BLOCKS, their gradients with them */
  bool one_format;      /* of these, which are BLOCKS then, all or none */
  bool passes_on;       /* where one of these is multiplied in bfloat16, or made so, the others are wanted in it too */
  bool for_products;    /* its outputs are bfloat16 only where products alone read them, which round them anyway */
  bool multiplies_bf16; /* its products */
  bool gives_pieces;    /* knows desc.in_pieces */
  bool turns_weight;    /* backward reads param[0] with each block transposed, and can keep that (call.turned) */
  /* For the per-op table, behind the form's name: the GEMM or the instruction set. */
  const char *(*implementation)(const ronde__op_desc *desc, const void *state);
  /* Executed operations of a call, taps in the padding left out. NULL: 0. */
  double (*executed_flops)(const ronde__op_desc *desc, const void *state, bool backward);
};

/* The mathematics of an op, the same in all its forms. */
typedef struct ronde__op {
  const char *name; /* in the per-op table */
  /* How many outputs there are. NULL: one. */
  int (*outputs)(const ronde__op_attr *attr);
  /* The outputs' shapes out[] from the inputs'; logs what is wrong, naming `label`, the shapes and the inputs' labels. */
  ronde_status (*infer)(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                        const char *const *in_labels, ronde__shape *out);
  /* Parameters of the op; returns how many. NULL: none. */
  int (*params)(const ronde__op_attr *attr, const ronde__shape *in, ronde__param_spec specs_out[RONDE__OP_MAX_PARAMS]);
  /* Buffers of the op; returns how many. NULL: none. */
  int (*buffers)(const ronde__op_attr *attr, const ronde__shape *in,
                 ronde__buffer_spec specs_out[RONDE__OP_MAX_BUFFERS]);
  /* Multiply-adds x 2 of one example's forward pass, padding taps counted. NULL: 0. */
  int64_t (*flops)(const ronde__op_attr *attr, const ronde__shape *in, const ronde__shape *out);
  /* Chooses the layouts: in->in[] holds what the producers offer; may be changed to what the op wants (the plan then
   * reorders); sets out[] and param[]. need_dinput is set. The choice of layouts must not depend on n. */
  void (*layouts)(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out);
  /* Makes the op execute, behind its own work, the one that alone reads its output and gives shape [out]; false: it
   * cannot, and desc stays as layouts() left it. NULL: never. */
  bool (*join)(ronde__op_desc *desc, ronde__op_kind kind, const ronde__op_attr *attr, const ronde__shape *out);
  ronde__operands backward_reads; /* again; all else may be gone by then. A fused activation reads out[0] too */
  unsigned dinput_in_dout;        /* bit i: backward can leave the gradient of input i where dout[0] lies */
  unsigned tokens;                /* bit i: input i is token numbers, int32; no other op takes these, */
  bool any_input;                 /* but one that does not read what its input holds */
  bool takes_rows;                /* inputs that have rows of examples for examples too (tensor.h) */
  bool any_weights;               /* its parameters may lie as a layer that shares them wants */
  bool gives_rows;                /* the gradient of param[0], where that is PLAIN, has rows that are met, and others */
  bool is_view;                   /* out[0] is in[0] under another shape: no work, no memory */
  bool is_loss, wants_labels;     /* input 1 is the target: class labels, or values */
  /* Whether tap t of param[0] meets nothing but padding: its gradient is zero, whatever the examples. NULL: no tap does. */
  bool (*dead_tap)(const ronde__op_desc *desc, int64_t t);
  const ronde__form *const *forms; /* the first that takes a description is taken; ends with NULL. NULL: a view */
} ronde__op;

/* What backward of a described op reads again. */
static inline ronde__operands ronde__op_backward_reads(const ronde__op *op, const ronde__op_desc *desc) {
  return (ronde__operands){op->backward_reads.in, op->backward_reads.out | (desc->attr.act != RONDE__ACT_NONE)};
}

/* Completes a description whose layouts and joins are fixed. */
ronde_status ronde__form_choose(const ronde__op *op, ronde__op_desc *desc);

extern const ronde__op *const ronde__ops[RONDE__N_OPS];

/* Put into plans, at the ends of a stage and around layers that are split; no graph records them, so they are not in the
 * list. */
extern const ronde__op ronde__op_send, ronde__op_receive;
extern const ronde__op ronde__op_exchange_begin, ronde__op_exchange_end, ronde__op_linear_weights;

#endif

/* The graph that the public calls record, and the network that executes it.
 * Order of use: record (build.c), lay out and plan for a batch size (plan.c), execute (net.c); or execute at once
 * (eager.c). */
#ifndef RONDE_GRAPH_H
#define RONDE_GRAPH_H

#include "graph/spans.h"

#include "ops/op.h"
#include "prof/prof.h"

/* ---- recorded ---------------------------------------------------------------------------------------------------- */

struct ronde_tensor {
  ronde_graph *graph;
  int id;
  ronde__shape shape; /* of one example */
  int producer;       /* node, or -1: an input or the target */
  char *label;        /* "conv1", "relu 3": in messages */
  int64_t vocabulary; /* elements are int32, token numbers below it; 0: f32 */
};

typedef struct ronde__node {
  ronde__op_kind kind;
  ronde__op_attr attr;
  char *label;
  int in[RONDE__OP_MAX_INPUTS], n_inputs; /* tensors */
  int out[RONDE__OP_MAX_OUTPUTS], n_outputs;
  int param[RONDE__OP_MAX_PARAMS], n_params;
  int buffer[RONDE__OP_MAX_BUFFERS], n_buffers;
} ronde__node;

typedef struct ronde__param {
  char *name; /* "conv1.weight" */
  ronde__shape shape;
  float bound; /* of the initial values, as init says */
  ronde_init_kind init;
  float *values; /* that it begins with, logical; NULL: they are drawn */
  bool frozen;   /* not trained; may be set until the graph is planned */
  bool fixed;    /* a constant of the network: always frozen, and never drawn */
} ronde__param;

typedef struct ronde__buffer {
  char *name; /* "bn1.running_mean" */
  ronde__shape shape;
  float initial;
  bool is_counter;
} ronde__buffer;

/* Where the public calls execute at once (eager.c): told of each node when it has been added. */
typedef struct ronde__graph_listener {
  ronde_status (*added)(void *user, const ronde_graph *graph, int node);
  ronde_status (*values)(void *user, const ronde_tensor *x, float *values_out); /* [n][dims], ROWS */
  void *user;
} ronde__graph_listener;

struct ronde_graph {
  ronde_tensor **tensors;
  ronde__node *nodes;
  ronde__param *params;
  ronde__buffer *buffers;
  char **shared; /* labels of layers that share their parameters */
  int n_tensors, n_nodes, n_params, n_buffers, n_shared;
  ronde_status status;
  int inputs[RONDE_MAX_INPUTS], n_inputs; /* tensors; in an example's row they lie side by side, in this order */
  int target, output, loss;               /* tensors, -1: none */
  const char *next_label;                 /* of the next node, NULL: its own, */
  const char *const *next_names;          /* [n_next] of its parameters and buffers that are still to come */
  int n_next;
  const ronde__graph_listener *listener; /* NULL: the graph is recorded only */
  ronde_pass pass;
};

/* What the next node is called where it has no name of its own, and what its parameters are called, then its buffers, in
 * place of LABEL.weight and so on: of a network from a file. Read by the next call, until when they must stay. Returns the
 * graph's status. */
ronde_status ronde__graph_name_next(ronde_graph *graph, const char *label, const char *const *names, int n);

/* ronde_linear; inputs_first: the weight is [F,out_features]. */
ronde_tensor *ronde__linear(const ronde_tensor *x, const char *name, int64_t out_features, bool bias,
                            bool inputs_first);
/* ronde_conv2d and ronde_conv_transpose2d; of_sequence: of an image of one row, along it, with a weight of 3 dimensions. */
ronde_tensor *ronde__conv_image(const ronde_tensor *x, const char *name, const ronde_conv2d_options *options,
                                bool of_sequence);
ronde_tensor *ronde__conv_transpose_image(const ronde_tensor *x, const char *name,
                                          const ronde_conv_transpose2d_options *options, bool of_sequence);

/* From now on a parameter is a constant of these values, which are copied. */
ronde_status ronde__graph_fix(ronde_graph *graph, int param, const float *values);
/* Records one op; name NULL: that of ronde__graph_name_next, or made up from the op's. outputs_out [n_outputs] (NULL: the
 * first is handed back alone). Where an input is NULL, so is the result. */
ronde_tensor *ronde__graph_add_node(ronde__op_kind kind, const char *name, const ronde__op_attr *attr,
                                    const ronde_tensor *const *inputs, int n_inputs, ronde_tensor **outputs_out);
/* Of an example: of all inputs together. */
int64_t ronde__graph_input_elems(const ronde_graph *graph);
/* x: rows of all inputs, n of them; to [n][elems of it]: those of one input. */
void ronde__graph_take_input(const ronde_graph *graph, int input, int64_t n, const float *x, float *to);
/* Marks the graph with its first error; NULL. */
void *ronde__graph_fail(ronde_graph *graph, ronde_status status);
/* Sets the loss where the model function set none, and checks that there is an input and an output. */
ronde_status ronde__graph_finish(ronde_graph *graph);
/* Of a forward pass of one example: multiply-adds x 2. */
int64_t ronde__node_flops(const ronde_graph *graph, const ronde__node *node);
/* Batch normalisations take the statistics of all replicas' examples from now on; returns how many there are. */
int ronde__graph_synchronise(ronde_graph *graph);

/* ---- executed ----------------------------------------------------------------------------------------------------
 * A net is one replica: the parameters in one flat array (in order of definition, those that train in front of the frozen
 * ones, each packed as its layout says and padded to a multiple of 16 floats), the gradients of those that train in
 * another of the same order, and what executes its passes (executor.h): a plan for each batch size met, or a tape. */
typedef struct ronde__net ronde__net;

/* A stage: the part of a graph that one rank executes, cut in front of node `begin` and behind node `end` - 1. What is
 * fused is executed where the plan of the whole has it, be it on the other side of a cut.
 * What is computed in front of a cut and read behind it, be it by a later stage, is handed from neighbour to neighbour,
 * and its gradient back. The stages of a graph, by equal options and cut at the same nodes, compute what a net of the
 * whole does, bit by bit. They must begin the same passes in the same order, with `training` and the wish for predictions
 * alike, and end each backward in the same order. */
typedef struct ronde__stage {
  int begin, end;
  const ronde__neighbours *neighbours; /* NULL: the whole graph */
} ronde__stage;

/* Linear layers that are split over ranks by output feature: in training passes, a rank computes its features of the
 * examples of all ranks, and own_examples of what it has alone. The flat arrays are those of the whole; of a split layer's
 * parameters a rank has gradients of its part, and reads no more of them. Other passes execute the whole. */
typedef struct ronde__split {
  const bool *nodes;         /* [nodes of the graph]: these; must outlive the net */
  const ronde__peers *peers; /* NULL: nothing is split */
  bool fuses;                /* gradients of these layers are transient (op.h) */
} ronde__split;

/* Whether a layer can be split: one over vectors whose parameters nobody else has. */
bool ronde__graph_can_split(const ronde_graph *graph, int node);
/* Whether a node behind a split layer can be executed on a rank's features alone. */
bool ronde__node_keeps_features(const ronde__node *node);

/* Copied; spans must outlive the net. */
typedef struct ronde__replay {
  const ronde__spans *spans;
  ronde__time *time; /* of the rank */
  double slowness;   /* times the recorded rank's */
} ronde__replay;

typedef struct ronde__net_options {
  ronde__compute compute;
  ronde__pool *pool; /* may be NULL */
  ronde__prof *prof; /* may be NULL */
  bool training;     /* false: no gradients, no memory for them */
  /* Gradients are handed out as backward makes them, and kept no longer: where no exchange, clipping or accumulation
   * waits for all of them. */
  bool transient_gradients;
  /* What backward makes of parameters alone is kept for the next one, where that accumulates: the parameters must be the
   * same then. Not of eager nets. */
  bool keeps_turned;
  const char *taker_name; /* of who takes them, in the ledger's joint names: "sgd" */
  double taker_bytes;     /* that it moves for each element of a gradient */
  bool rows_by_layer;     /* in the ledger, with the bytes of a call; else what is alike shares a row */
  /* Eager: defines the network anew in each pass, on a graph whose calls execute at once. Its parameters must be among
   * those of the net's graph. It keeps gradients. NULL: passes follow a plan of that graph. */
  ronde_status (*define)(void *user, ronde_graph *graph);
  void *define_user;
  /* A net of the same graph that does not train either, and outlives this one: its parameters and buffers are this one's
   * too. NULL: it has its own. */
  ronde__net *shares;
  /* Only this part of the graph, with its parameters and buffers alone. Not of eager nets. */
  ronde__stage stage;
  ronde__split split; /* not of eager nets, nor of stages */
  /* Nothing is executed: passes take their recorded time, and the flat arrays have no content. NULL: they are. */
  const ronde__replay *replay;
} ronde__net_options;

/* Where a parameter lies. */
typedef struct ronde__net_param {
  const char *name;
  int index; /* in the graph; that of its place in the net, unless the net is a stage */
  ronde__shape shape;
  ronde__weight_layout layout;
  size_t offset, n_elems; /* in the flat arrays, padding included */
  size_t n_packed;        /* without the padding behind it */
  bool frozen;            /* it lies behind those that train, and has no gradient */
  bool split;             /* each rank trains a part of it */
  bool is_table;          /* it is looked up row by row, and nothing else */
} ronde__net_param;

/* State that is not trained: packed f32 in a flat array of its own, or a counter. */
typedef struct ronde__net_buffer {
  const char *name;
  int index; /* in the graph */
  ronde__shape shape;
  ronde__weight_layout layout;
  size_t offset; /* of f32, in its flat array */
  bool is_counter;
  int64_t count; /* of a counter: training batches seen */
} ronde__net_buffer;

/* Takes a finished graph, which must outlive the net. */
ronde_status ronde__net_create(const ronde_graph *graph, const ronde__net_options *options, ronde__net **net_out);
void ronde__net_destroy(ronde__net *net);

/* The part of a split parameter, in the flat arrays, that one rank of several trains; it may be empty. */
ronde__range ronde__net_part(const ronde__net_param *param, int rank, int n_ranks);

const ronde_graph *ronde__net_graph(const ronde__net *net);
const ronde__net_param *ronde__net_params(const ronde__net *net, int *n_out);
size_t ronde__net_n_elems(const ronde__net *net);   /* of the parameters */
size_t ronde__net_n_trained(const ronde__net *net); /* of those that train, which come first; and of the gradients */
float *ronde__net_values(ronde__net *net);
float *ronde__net_gradients(ronde__net *net); /* NULL where the net does not train, or does not keep them */
/* Where gradients are zero, whatever the examples: taps of convolutions that meet nothing but padding. Ascending, none
 * across two parameters. Kept ones are zero from the start, and left so by all who write there; transient ones are not
 * set. A net that is defined anew in each pass has none. */
const ronde__range *ronde__net_dead(const ronde__net *net, int *n_out);

/* From now on the gradient of a table has rows that were met, and others, which are not written: where gradients are
 * kept they are zero already, else they hold anything. Whoever writes into a kept gradient adds to its rows. Before the
 * first pass, or again, whatever the gradients hold: they are zero then. A replayed net has no tables. */
ronde_status ronde__net_track_rows(ronde__net *net);
/* Of a table: those that a pass has met since its gradient began. NULL: it is none, or rows are not tracked. */
ronde__row_set *ronde__net_rows(const ronde__net *net, int param);
/* Kept gradients are zero. */
void ronde__net_clear_gradients(ronde__net *net);

/* Fresh weights by seed: a function of (seed, index of the parameter, logical element). */
ronde_status ronde__net_init(ronde__net *net, uint64_t seed);
/* One parameter in logical order, to and from packed. */
void ronde__net_get(const ronde__net *net, int param, float *logical_out);
void ronde__net_set(ronde__net *net, int param, const float *logical);
/* The same of its gradient, where they are kept; not of a frozen one. */
void ronde__net_get_gradient(const ronde__net *net, int param, float *logical_out);

ronde__net_buffer *ronde__net_buffers(ronde__net *net, int *n_out);
/* All f32 buffers, packed: what ranks hand each other. */
float *ronde__net_buffer_values(ronde__net *net, size_t *n_elems_out);
/* One f32 buffer in logical order. */
void ronde__net_get_buffer(const ronde__net *net, int buffer, float *logical_out);
void ronde__net_set_buffer(ronde__net *net, int buffer, const float *logical);
/* The longest slice of any parameter or buffer (tensor.h), at least 1. */
int64_t ronde__net_slice_elems(const ronde__net *net);

typedef struct ronde__net_batch {
  int64_t n;             /* examples, at least 1, or, with n_all, 0 */
  int64_t n_all;         /* with split layers: examples of all ranks, which have n of them as ronde__shard_begin says */
  const float *x;        /* [n][ronde__graph_input_elems], ROWS; read where the graph's inputs are; tokens are int32 of
                            the same size */
  const int64_t *labels; /* [n][ronde__loss_labels], or NULL; like the targets read where the loss is */
  float label_weight;    /* of each label in the loss, where an example has several: the step's examples divided by the
                            labels that count in it, so that the mean over the examples is one over these; 0: 1 */
  const float *targets;  /* [n][elems of the prediction], or NULL */
  bool training;         /* batch norm by the batch's statistics, which the running ones follow; dropout */
  uint64_t seed, step;   /* of dropout */
  int64_t first_example; /* of this batch in the step's list of examples */
  float *
      predictions; /* [n][elems of the prediction], ROWS: written by a forward pass, where the output is; NULL: not wanted */
} ronde__net_batch;

typedef struct ronde__net_result {
  double loss_sum; /* over the examples; 0 where the loss is in another stage */
  int64_t n_correct;
} ronde__net_result;

/* Called from within backward, or forward, on the calling thread. gather_partials: hands what this replica contributes [n] of a
 * synchronised op to all replicas and gets theirs, valid until the next call; every replica calls it for the same ops in
 * the same order. NULL: this replica is alone. */
typedef struct ronde__net_hooks {
  /* About to be read for the first time in this pass, which ends with what this returns. NULL: no interest. */
  ronde_status (*param_needed)(void *user, int param);
  /* Some of a parameter's gradient is final (op.h; of a table, its rows); parameters in backward order, none frozen, the events of one not
   * between those of another unless they are concurrent. NULL: no interest. */
  void (*gradient)(void *user, const ronde__gradient *gradient);
  /* As `touches` of ronde__op_call (op.h), of the flat arrays. NULL: not known. */
  int (*gradient_touches)(void *user, size_t begin, const void **at_out);
  /* The layer whose backward has finished a parameter's gradient has ended: the gradients of its inputs, which may come behind that of
   * the parameter, are there too. Not called by eager passes, where nothing comes behind it. NULL: no interest. */
  void (*layer_done)(void *user, int param);
  ronde_status (*gather_partials)(void *user, const double *partial, size_t n, ronde__partials *partials_out);
  /* Takes the place of the loss, which then computes nothing: what it would read of the network lies in `outputs`
   * [n][ronde__loss_elems] f32, ROWS, and the hook leaves the gradient of that there, for backward with the same hooks.
   * NULL: the network has its own. */
  ronde_status (*loss)(void *user, int64_t n, ronde__net_result *result_out);
  float *outputs; /* the caller's */
  void *user;
} ronde__net_hooks;

/* A pass: a batch on its way through the net, with memory of its own for its activations. Several may be under way at
 * once, in any order, called by one thread at a time; gradients and buffers are the net's, so each call finds there what
 * the calls before it have left. A net has one pass of its own, which serves where there is one at a time. */
typedef struct ronde__pass ronde__pass;

ronde_status ronde__pass_create(ronde__net *net, ronde__pass **pass_out);
/* The net's own; it is not to be destroyed. */
ronde__pass *ronde__net_pass(ronde__net *net);
/* Before its net. NULL is taken. */
void ronde__pass_destroy(ronde__pass *pass);
/* Makes the plan of a batch size and takes its memory, or prepares its ops, now (else the first use does): its cost
 * belongs to set-up. */
ronde_status ronde__pass_prepare(ronde__pass *pass, int64_t n);
/* Of a stage: begins to receive what the next forward of this pass, of n examples in training, needs of the stage in front,
 * while the last one's backward may still be to come. any_out false: it does not, because it has no memory apart for it
 * (the last forward was not of n). All passes of the net expect, and go forward, in the order of micro-batches. */
ronde_status ronde__pass_expect(ronde__pass *pass, int64_t n, bool *any_out);
/* If a pass fails (an op or a hook did), its outputs and the gradients that it has not handed out are undefined, and
 * some buffers may have been updated. It can begin anew, and others under way go on.
 * Forward and loss. loss_scale: the factor of each example's loss in the gradients, 1 / (examples of the step).
 * The batch's memory must stay until backward is done. */
ronde_status ronde__pass_forward(ronde__pass *pass, const ronde__net_batch *batch, float loss_scale,
                                 const ronde__net_hooks *hooks, ronde__net_result *result_out);
/* Backward of its last forward, which was one of training and did not fail. accumulate: gradients are added to what is
 * there, which must be kept. A parameter that this pass did not use has a gradient of zero. Where gradients are
 * transient, the hooks must take them. */
ronde_status ronde__pass_backward(ronde__pass *pass, bool accumulate, const ronde__net_hooks *hooks);

/* The same of a training pass in which all ranks have n_all examples, where the net has split layers. */
ronde_status ronde__net_prepare_split(ronde__net *net, int64_t n_all);

/* The same by the net's own pass. */
ronde_status ronde__net_prepare(ronde__net *net, int64_t n);
ronde_status ronde__net_forward(ronde__net *net, const ronde__net_batch *batch, float loss_scale,
                                const ronde__net_hooks *hooks, ronde__net_result *result_out);
ronde_status ronde__net_backward(ronde__net *net, bool accumulate, const ronde__net_hooks *hooks);
/* Forward (or backward) of a replica that has no example in this batch: it only takes part in what is shared. */
ronde_status ronde__net_pass_empty(ronde__net *net, bool backward, const ronde__net_hooks *hooks);
/* For executors: tells that all of a parameter's gradient, which lies where the net keeps it, is final. */
void ronde__net_tell_gradient(const ronde__net *net, int param, const ronde__net_hooks *hooks);
/* The longest contribution to a synchronised op of this net; 0: none. */
size_t ronde__net_partial_elems(const ronde__net *net);
/* The output without loss: y [n][elems], ROWS, written where the output is. */
ronde_status ronde__net_predict(ronde__net *net, int64_t n, const float *x, float *y_out);

/* ---- the loss by itself (loss.c) ---------------------------------------------------------------------------------
 * For who judges the outputs of other replicas: the other side of the loss of ronde__net_hooks. */
typedef struct ronde__loss ronde__loss;

/* Elements of an example's outputs: of what the loss reads of the network, its length too. */
int64_t ronde__loss_elems(const ronde_graph *graph);
/* Class labels of an example, where the loss reads any: as many as it has rows of logits. */
int64_t ronde__loss_labels(const ronde_graph *graph);
/* Of a finished graph, which must outlive it. prof may be NULL. */
ronde_status ronde__loss_create(const ronde_graph *graph, const ronde__kernels *kernels, ronde__prof *prof,
                                ronde__loss **loss_out);
void ronde__loss_destroy(ronde__loss *loss); /* NULL is taken */
/* outputs [n][ronde__loss_elems] f32, ROWS, are replaced by the gradient of their loss in training. batch: n > 0, and
 * their labels or targets. The ledger, in phase forward before, is in phase backward afterwards. */
ronde_status ronde__loss_run(ronde__loss *loss, const ronde__net_batch *batch, float loss_scale, float *outputs,
                             ronde__net_result *result_out);

/* ---- where to cut, and what a stage takes (stage_cost.c) ----------------------------------------------------------
 * Of plans for n examples by such options, which need neither memory for the network nor neighbours. */

/* What a node costs with what is fused into it; zeros: another one executes it. */
typedef struct ronde__node_cost {
  bool may_begin;            /* a stage may begin there */
  bool is_layer;             /* it has parameters */
  double flops[2], bytes[2]; /* executed; moved at least: forward, backward */
  double trained;            /* elements that are updated, once a step */
  double crossing_bytes;     /* that travel across a cut in front of it, gradients included */
} ronde__node_cost;
/* costs_out [nodes of the graph]; node_of_out [parameters]: where it is used first, as things are executed, or -1. */
ronde_status ronde__graph_costs(const ronde_graph *graph, const ronde__net_options *options, int64_t n,
                                ronde__node_cost *costs_out, int *node_of_out);

typedef struct ronde__stage_size {
  size_t parameters, trained; /* elements */
  size_t arena_bytes;         /* of one pass, */
  size_t kept_bytes;          /* and of all: what backward keeps of parameters where the net keeps_turned */
  double flops;               /* executed, forward and backward */
  double sent_bytes;          /* to neighbours, gradients included */
} ronde__stage_size;
/* Of the options' stage, or of the whole. RONDE_E_USAGE: there can be no such stage. */
ronde_status ronde__stage_measure(const ronde_graph *graph, const ronde__net_options *options, int64_t n,
                                  ronde__stage_size *size_out);

/* For --dry-run and the record. */
typedef struct ronde__net_memory {
  size_t parameters, gradients, arena; /* of all passes */
} ronde__net_memory;                   /* bytes */
ronde__net_memory ronde__net_memory_use(const ronde__net *net);
double ronde__net_executed_flops(const ronde__net *net,
                                 int64_t n); /* forward and backward of a batch; 0 before it is prepared */

#endif

/* How the nodes of an ONNX file become calls of the public interface. A file is prepared once (file.c): names are numbers,
 * nodes that the output does not need are passed over. Each building (import.c) then goes through the nodes in order, and
 * each operator sets the values of its outputs from those of its inputs. */
#ifndef RONDE_ONNX_IMPORT_H
#define RONDE_ONNX_IMPORT_H

#include "onnx/onnx.h"
#include "onnx/wire.h"

enum { RONDE__ONNX_MAX_SIZES = RONDE_MAX_RANK + 2 };

/* The batch's size, where sizes are computed, and so many times the batch's. */
#define RONDE__ONNX_BATCH (-(INT64_C(1) << 62))
#define RONDE__ONNX_BATCHES(k) (RONDE__ONNX_BATCH + ((k)-1))
#define RONDE__ONNX_MAX_STRETCHES 16 /* gates of an LSTM's biases, of two directions */
#define RONDE__ONNX_MAX_BATCHES (INT64_C(1) << 32)
/* How often the batch: 1 of RONDE__ONNX_BATCH, 0 of a size without it. */
static inline int64_t ronde__onnx_batches(int64_t size) {
  return size >= RONDE__ONNX_BATCH && size < RONDE__ONNX_BATCH + RONDE__ONNX_MAX_BATCHES ? size - RONDE__ONNX_BATCH + 1
                                                                                         : 0;
}

/* Whether dims of an activation stand as behind, or in front of, an LSTM or GRU of one direction, whose dimension is left out; or as
 * those of an image of one row, or of one pixel, which in the file has no height, or neither height nor width. */
typedef enum ronde__onnx_order {
  RONDE__ONNX_AS_EVER,
  RONDE__ONNX_DIRECTIONS, /* [T,1,N,H] */
  RONDE__ONNX_STATE,      /* [1,N,H] */
  RONDE__ONNX_IMAGE       /* [N,C,W] or [N,C] */
} ronde__onnx_order;

enum { RONDE__ONNX_ALIKE = -1 };

/* Whether dimension `at` is the batch alone, or this and a dimension of an example as one. */
typedef enum ronde__onnx_merged {
  RONDE__ONNX_ALONE,
  RONDE__ONNX_OUTER, /* [N * windows,...]: the batch is the outer one, */
  RONDE__ONNX_INNER  /* [T * N,...]: or the inner one */
} ronde__onnx_merged;

/* How the dimensions of a tensor stand in the file: those of an example in their order, and the batch among them. Ronde's have
 * the batch in front. */
typedef struct ronde__onnx_place {
  int rank; /* in the file */
  int at;   /* of the batch; RONDE__ONNX_ALIKE: there is none, and all examples have the same */
  ronde__onnx_merged merged;
  int image; /* Ronde's is an image [C,1,W] or [C,1,1], of which the file's has so many dims, 2 or 1; 0: it has them all */
} ronde__onnx_place;

/* An array that follows from the file alone. */
typedef struct ronde__onnx_known {
  struct ronde__onnx_known *next; /* in the building's list */
  bool integers;                  /* or truths; else floats */
  double per_example;             /* an example's values are this more than those of the one before; NAN: others */
  int examples_at;                /* the dimension of examples, of which the first one is here, where they differ */
  int rank;
  int64_t dim[RONDE__ONNX_MAX_SIZES];
  int64_t n;
  double values[]; /* [n] */
} ronde__onnx_known;

/* Random numbers: from 0 to 1, the same with a probability added, and those that are 1 with a probability, else 0. */
typedef enum ronde__onnx_draw { RONDE__ONNX_UNIFORM, RONDE__ONNX_RAISED, RONDE__ONNX_KEPT } ronde__onnx_draw;

/* Stretches of rows of initializers, matrices or vectors, one behind the other. */
typedef struct ronde__onnx_rows {
  struct ronde__onnx_rows *next; /* in the building's list */
  bool has_directions;           /* as a dimension more, in front */
  int n;
  struct {
    const Onnx__TensorProto *tensor;
    int64_t first, n;
  } stretch[RONDE__ONNX_MAX_STRETCHES]; /* [n] */
} ronde__onnx_rows;

/* What a name stands for. */
typedef struct ronde__onnx_value {
  enum {
    RONDE__ONNX_NOTHING,
    RONDE__ONNX_TENSOR,
    RONDE__ONNX_CONSTANT,
    RONDE__ONNX_SIZES,
    RONDE__ONNX_NUMBER,
    RONDE__ONNX_KNOWN,
    RONDE__ONNX_SEQUENCE, /* of tensors */
    RONDE__ONNX_DRAWS,    /* draws.c: random numbers */
    RONDE__ONNX_ROWS,     /* gates.c: of weights of a recurrent layer */
    RONDE__ONNX_TOKENS,   /* from here on tokens.c: of tokens x, */
    RONDE__ONNX_PADDING,
    RONDE__ONNX_PLACES,
    RONDE__ONNX_LENGTHS, /* and of lengths x [1] */
    RONDE__ONNX_SEEN,
    RONDE__ONNX_PACKED,  /* a part of x [T,3F], which attention takes as it is */
    RONDE__ONNX_ABSORBED /* what another node has built already */
  } kind;
  ronde__onnx_order order; /* TENSOR, */
  int at;                  /* as in ronde__onnx_place, of TOKENS too, */
  ronde__onnx_merged merged;
  const ronde_tensor *x;
  const Onnx__TensorProto *constant;   /* CONSTANT, */
  bool fixed;                          /* whose values no training changes, */
  bool mask;                           /* which is_mask, */
  bool row;                            /* of a convolution along one dimension, in the file by now along the width, */
  bool transposed;                     /* of a matrix; of a TENSOR that only a product reads, its last two dimensions */
  int n;                               /* SIZES, SEQUENCE: a list of so many; NUMBER, DRAWS: dims in the file, */
  bool is_scalar;                      /* or one by itself; PADDING to SEEN: dims of an example in the file, */
  int64_t size[RONDE__ONNX_MAX_SIZES]; /* SEQUENCE: the ids of its tensors */
  bool shuffled; /* of a TENSOR between the nodes of a shuffle, which x is behind already: its sizes are size [n] */
  int32_t token; /* PADDING: where tokens are this one, PLACES: places from 1 on of others, */
  bool inverted; /* or where they are not; */
  double least, most;             /* LENGTHS, SEEN: lengths, as whole numbers within these bounds */
  double number;                  /* NUMBER: floats, all alike, of size [n], or of the dims of what they meet (n = 0) */
  ronde__onnx_draw draw;          /* DRAWS of size [n], times number: */
  double keep;                    /* the probability */
  const ronde__onnx_known *known; /* KNOWN */
  const ronde__onnx_rows *rows;   /* ROWS */
} ronde__onnx_value;

/* Whether there is a value, and of that kind. */
#define RONDE__ONNX_IS(value, KIND) ((value) && (value)->kind == RONDE__ONNX_##KIND)

/* Its array, which all examples have alike; NULL: it has none. */
static inline const ronde__onnx_known *ronde__onnx_array(const ronde__onnx_value *value) {
  return value && value->kind == RONDE__ONNX_KNOWN && value->known->per_example == 0 ? value->known : NULL;
}

typedef struct ronde__onnx_import ronde__onnx_import;
typedef struct ronde__onnx_node ronde__onnx_node;
/* Sets the values of the node's outputs, or has logged why not. */
typedef ronde_status (*ronde__onnx_operator)(ronde__onnx_import *im, const ronde__onnx_node *node);

struct ronde__onnx_node {
  const Onnx__NodeProto *proto;
  ronde__onnx_operator build; /* NULL: nobody needs it */
  int *in, n_in;              /* values; -1: left out */
  int *out, n_out;
  bool needed; /* by the output */
};

/* How the elements of an initializer become those of a parameter. */
typedef enum ronde__onnx_change {
  RONDE__ONNX_AS_IT_IS,
  RONDE__ONNX_INPUTS_FIRST, /* the same, of a linear layer, whose weight is [inputs][outputs] */
  RONDE__ONNX_LSTM_GATES, /* rows of gates i, o, f, g as i, f, g, o; of GRUs z, r, h as r, z, n; of RNNs as they are; */
  RONDE__ONNX_GRU_GATES,
  RONDE__ONNX_RNN_GATES,
  RONDE__ONNX_PEEPHOLES /* i, o, f as i, f, o */
} ronde__onnx_change;

/* A parameter or buffer of a layer, and the initializer that it begins with. */
typedef struct ronde__onnx_weight {
  char *name;
  const Onnx__TensorProto *tensor;
  ronde__onnx_change change;
  int part;           /* of gates: the initializer has several such parameters, one behind the other */
  ronde__shape shape; /* of the parameter */
  bool is_buffer;
} ronde__onnx_weight;

typedef struct ronde__onnx_input {
  const char *name; /* in the file */
  int value;
  bool integers;
  int at;   /* the batch's dimension in the file, 0 or 1 */
  int rank; /* in the file, without the batch */
  ronde__shape shape;
  const char
      *open[RONDE_MAX_RANK]; /* the name of a dimension that the file leaves open, "": it has none; NULL: it is not */
  int64_t vocabulary;        /* of tokens; 0: it is values, or lengths */
} ronde__onnx_input;

/* An input of a file without a batch. */
typedef struct ronde__onnx_piece {
  int value;
  ronde__shape shape;
} ronde__onnx_piece;

struct ronde__onnx {
  char *path, *folder, *about;
  Onnx__ModelProto *model;
  int64_t opset;
  const char **names; /* [n_names], ascending: of values */
  int n_names, n_nodes, n_weights;
  const Onnx__TensorProto **constants; /* [n_names]; NULL: none of this name */
  bool *is_buffer;                     /* [n_names]: an initializer that its exporter says is a buffer */
  bool *is_mask;                       /* [n_names]: one that is a mask, by what it holds or by who reads it */
  int *n_readers;                      /* [n_names]: nodes that the output needs, and the file's output */
  int *reader;                         /* [n_names]: the last of these nodes */
  int *producer;                       /* [n_names]: node; -1: none */
  ronde__onnx_node *nodes;
  int *operands;                              /* of all nodes */
  ronde__onnx_input inputs[RONDE_MAX_INPUTS]; /* [n_inputs]: of a file with a batch */
  int n_inputs;
  int output;
  int lead; /* dimensions of the batch in front of an example's, 1; 0: the file's tensors are those of an example */
  bool needs_weights;
  ronde__onnx_piece *pieces; /* [n_pieces]: where there is no batch, its inputs, which follow each other in Ronde's */
  int n_pieces;
  int head;           /* the node of the linear layer that makes the output; -1: there is none */
  int64_t batch;      /* that the file was made for; 0: any */
  bool is_open;       /* dimensions beside the batch have no size yet, 0 in the shapes of inputs */
  ronde__shape shape; /* of the first input */
  int64_t outputs;
  char shape_text[96], outputs_text[24];
  ronde__onnx_weight *weights; /* [n_weights], of the network as the file has it */
  Onnx__TensorProto **made;    /* [n_made], of arrays that follow from the file alone and are operands */
  int n_made;
  ronde__sha256 sha;
  char sha256[RONDE__SHA256_HEX];
};

/* A building. */
struct ronde__onnx_import {
  const ronde__onnx *file;
  ronde_graph *graph;
  ronde__onnx_value *values; /* [names] */
  int64_t outputs;
  ronde__onnx_end end;
  ronde__onnx *records;     /* the file, where its weights are to be noted; else NULL */
  ronde__onnx_known *known; /* all of them, */
  int64_t n_known;          /* and their elements */
  ronde__onnx_rows *rows;   /* all of them */
  struct ronde__onnx_dot_product *dot_products;
};

/* ---- tensor.c: what initializers hold ---- */

int64_t ronde__onnx_elems(const Onnx__TensorProto *tensor); /* -1: dims that make no sense */
/* Whether it has all its elements as f32, here or in a file beside; they are not read. */
ronde_status ronde__onnx_check_floats(const ronde__onnx *file, const Onnx__TensorProto *tensor);
/* All elements of one that was checked. */
ronde_status ronde__onnx_read_floats(const ronde__onnx *file, const Onnx__TensorProto *tensor, float *values_out);
/* A list of at most RONDE__ONNX_MAX_SIZES integers; false: it is something else. */
bool ronde__onnx_read_sizes(const Onnx__TensorProto *tensor, ronde__onnx_value *value_out);
/* All its integers, of any dims, at most `max`; false: it is something else. */
bool ronde__onnx_read_integers(const Onnx__TensorProto *tensor, int max, int64_t *values_out, int *n_out);
/* One float, as a scalar or a list of one. */
bool ronde__onnx_read_number(const Onnx__TensorProto *tensor, double *number_out);
bool ronde__onnx_is_zero(const Onnx__TensorProto *tensor);
bool ronde__onnx_is_integer(int64_t type);

/* ---- node.c: what nodes say ---- */

/* What a message calls a node. */
const char *ronde__onnx_node_name(const ronde__onnx_node *node);
/* RONDE_E_INPUT: "FILE: OPERATOR NODE: ..." */
ronde_status ronde__onnx_fail(const ronde__onnx_import *im, const ronde__onnx_node *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int64_t ronde__onnx_attr_int(const ronde__onnx_node *node, const char *name, int64_t otherwise);
double ronde__onnx_attr_float(const ronde__onnx_node *node, const char *name, double otherwise);
/* Whether a text attribute, where there is one, else `otherwise`, is this word. */
bool ronde__onnx_attr_is(const ronde__onnx_node *node, const char *name, const char *otherwise, const char *word);
/* NULL: there is none. */
const int64_t *ronde__onnx_attr_ints(const ronde__onnx_node *node, const char *name, size_t *n_out);
const Onnx__AttributeProto *ronde__onnx_attr(const ronde__onnx_node *node, const char *name);
/* Input i, or output i; NULL: left out. */
ronde__onnx_value *ronde__onnx_in(const ronde__onnx_import *im, const ronde__onnx_node *node, int i);
ronde__onnx_value *ronde__onnx_out(const ronde__onnx_import *im, const ronde__onnx_node *node, int i);
/* The type that a Cast, or a CastLike by its second input, makes; 0: it is not known. */
int64_t ronde__onnx_cast_to(const ronde__onnx_import *im, const ronde__onnx_node *node);
/* The tensor of a value, with the dimensions of an example that the file has. */
const ronde_tensor *ronde__onnx_as_in_file(const ronde__onnx_value *value);
/* Input i as an activation with the batch in front, [N,...], or of a file without a batch. */
ronde_status ronde__onnx_in_tensor(const ronde__onnx_import *im, const ronde__onnx_node *node, int i,
                                   const ronde_tensor **x_out);
/* Input i as a list of integers that is known here. */
ronde_status ronde__onnx_in_sizes(const ronde__onnx_import *im, const ronde__onnx_node *node, int i,
                                  ronde__onnx_value *sizes_out);
/* Input i as one float; `otherwise` where it is left out. */
ronde_status ronde__onnx_in_number(const ronde__onnx_import *im, const ronde__onnx_node *node, int i, double otherwise,
                                   double *number_out);
/* Input i, a constant of floats, as a parameter of its own dims; of a scalar, [1]. */
ronde_status ronde__onnx_parameter(ronde__onnx_import *im, const ronde__onnx_node *node, int i,
                                   const ronde_tensor **x_out);
/* An array as a fixed parameter, called by the node. */
ronde_status ronde__onnx_fixed(ronde__onnx_import *im, const ronde__onnx_node *node, const char *suffix,
                               const ronde__onnx_known *known, const ronde_tensor **x_out);
/* A tensor as a fixed parameter. */
ronde_status ronde__onnx_fixed_tensor(ronde__onnx_import *im, const ronde__onnx_node *node,
                                      const Onnx__TensorProto *tensor, const ronde_tensor **x_out);
/* Rows of a table [tokens,features], which training changes unless it is fixed. */
ronde_status ronde__onnx_look_up(ronde__onnx_import *im, const ronde__onnx_node *node, const Onnx__TensorProto *table,
                                 bool fixed, const ronde_tensor *tokens, const ronde_tensor **y_out);
/* Of a fixed one that is called by the node. */
ronde_status ronde__onnx_look_up_known(ronde__onnx_import *im, const ronde__onnx_node *node, const char *suffix,
                                       const ronde__onnx_known *table, const ronde_tensor *tokens,
                                       const ronde_tensor **y_out);
/* Whether input i is one number that no training changes. */
bool ronde__onnx_is_number(const ronde__onnx_import *im, const ronde__onnx_node *node, int i, double *number_out);
/* Of integers, in sizes or in a constant. */
bool ronde__onnx_is_sizes(const ronde__onnx_value *value);
/* Axes as a mask, counted with the batch, of a tensor of that rank in the file: input i, or an attribute; 0: none are
 * given. */
ronde_status ronde__onnx_axes(ronde__onnx_import *im, const ronde__onnx_node *node, int i, int rank,
                              unsigned *mask_out);
/* The sizes of n that a node Shape gives: from first to end. */
void ronde__onnx_shape_range(const ronde__onnx_node *node, int n, int64_t *first_out, int64_t *end_out);
/* Whether it makes the output of the file and belongs to the loss: the output is its input then. */
bool ronde__onnx_is_left_out(const ronde__onnx_import *im, const ronde__onnx_node *node, ronde__onnx_end end);
/* moves.c: the operators of these names, of an activation. */
ronde_status ronde__onnx_expand_tensor(ronde__onnx_import *im, const ronde__onnx_node *node);
ronde_status ronde__onnx_gather_tensor(ronde__onnx_import *im, const ronde__onnx_node *node);
ronde_status ronde__onnx_slice_tensor(ronde__onnx_import *im, const ronde__onnx_node *node);
/* Sets output i, where it has a name. x NULL: the public call has failed. */
ronde_status ronde__onnx_set(ronde__onnx_import *im, const ronde__onnx_node *node, int i, const ronde_tensor *x);
/* Whether somebody reads output i. */
bool ronde__onnx_is_read(const ronde__onnx_import *im, const ronde__onnx_node *node, int i);
/* The only node that reads a value, where it is the only reader; else NULL. */
const ronde__onnx_node *ronde__onnx_only_reader(const ronde__onnx *file, int value);
/* The other operand of a node of two, one of which is `value`; -1: it is no such node. */
int ronde__onnx_other(const ronde__onnx_node *node, int value);

/* ---- inputs.c: what the network reads ---- */

/* Inputs and output, whose names are known. */
ronde_status ronde__onnx_find_ends(ronde__onnx *file);
/* How many tokens there are of inputs of integers; RONDE_E_INPUT: one is neither tokens nor lengths. */
ronde_status ronde__onnx_find_vocabularies(ronde__onnx *file);

/* ---- file.c ---- */

/* Once all dimensions have a size: builds the network, and notes its weights. */
ronde_status ronde__onnx_settle(ronde__onnx *file);

/* ---- masks.c ---- */

/* Sets file->is_mask. Reads the initializers that may be triangles; fails where they cannot be read, or for want of memory. */
ronde_status ronde__onnx_find_masks(ronde__onnx *file);

/* ---- value_names.c ---- */

/* All names of values, each once, and room for what is known of each. */
ronde_status ronde__onnx_list_names(ronde__onnx *file);
/* The number of a name; -1: there is none. */
int ronde__onnx_find_name(const ronde__onnx *file, const char *name);

/* ---- weights.c: in the order of elements that Ronde's layers have ---- */

/* The gate of ONNX that Ronde's gate i is. */
int ronde__onnx_gate_from(ronde__onnx_change change, int i);

/* ---- gates.c: weights of recurrent layers whose gates nodes turn ---- */

/* Builds a node that cuts such weights, or reads such a cut and is no recurrent layer, or has logged why not; *done_out false: it
 * does neither. */
ronde_status ronde__onnx_build_gates(ronde__onnx_import *im, const ronde__onnx_node *node, bool *done_out);
/* As the layer has them: [directions, rows, columns], or [directions, rows]; rank 0: there are none such. */
ronde__shape ronde__onnx_dims_of_gates(const ronde__onnx_rows *rows, int directions);
/* The initializer of which a part of so many gates has all rows, in ONNX's order where the initializer has Ronde's; NULL: there is
 * none. */
const Onnx__TensorProto *ronde__onnx_turned_gates(const ronde__onnx_rows *rows, ronde__onnx_change change, int gates,
                                                  int part);
void ronde__onnx_release_rows(ronde__onnx_import *im);

/* ---- draws.c: dropout that is made of random numbers ---- */

/* Builds a node that reads such numbers, or has logged why not; *done_out false: none of its inputs are. */
ronde_status ronde__onnx_build_draws(ronde__onnx_import *im, const ronde__onnx_node *node, bool *done_out);
/* The node's output: a dropout of its input, a NUMBER with dims. */
ronde_status ronde__onnx_drop_number(ronde__onnx_import *im, const ronde__onnx_node *node, double ratio);

/* ---- tokens.c: what is made of tokens and of lengths, up to where it becomes an activation ---- */

/* Builds a node that reads such values, or has logged why not; *done_out false: its own operator has to. */
ronde_status ronde__onnx_build_discrete(ronde__onnx_import *im, const ronde__onnx_node *node, bool *done_out);
/* Whether input i is how many of `most` steps or keys there are, [batch]: *lengths_out is the tensor [1] of lengths. */
bool ronde__onnx_in_lengths(const ronde__onnx_import *im, const ronde__onnx_node *node, int i, int64_t most,
                            const ronde_tensor **lengths_out);
/* Whether a value is 1 where lengths have something to see and 0 elsewhere, [batch,1,1]. */
bool ronde__onnx_is_any(const ronde__onnx_value *value, const ronde_tensor *lengths);

/* ---- additive.c: additive attention, which is many nodes ---- */

/* Builds all of it where the node is the first one; *done_out false: it is not. */
ronde_status ronde__onnx_build_additive(ronde__onnx_import *im, const ronde__onnx_node *node, bool *done_out);

/* ---- view.c: what is read where it lies ---- */

/* Elements of x, times a factor: element (i, j, ...) is scale x[offset + i step[0] + j step[1] + ...]. */
typedef struct ronde__onnx_view {
  const ronde_tensor *x;
  int rank;
  int64_t dim[RONDE_MAX_RANK], step[RONDE_MAX_RANK], offset;
  double scale;
} ronde__onnx_view;

/* How far apart neighbours in each dimension lie. */
void ronde__onnx_row_major(int rank, const int64_t *dims, int64_t *step_out);
/* All of x. */
ronde__onnx_view ronde__onnx_view_of(const ronde_tensor *x);
/* Its dimension d is the one that was order[d]. */
void ronde__onnx_view_transpose(ronde__onnx_view *view, const int *order);
/* The same elements where the node that makes x reads them; false: it computes, or its input has no such view. */
bool ronde__onnx_view_back(ronde__onnx_view *view);
/* ronde_transpose; of what is transposed already, in one. */
const ronde_tensor *ronde__onnx_transposed(const ronde_tensor *x, const int *order);

/* ---- attend.c: Ronde's own attention ---- */

#define RONDE__ONNX_UNSEEN (-1e9) /* a score that a softmax takes for nothing, or below */

/* What each query sees, by a mask that follows from the file: all keys, those up to its own place, or neither. */
typedef enum ronde__onnx_mask {
  RONDE__ONNX_SEES_ALL,
  RONDE__ONNX_SEES_EARLIER,
  RONDE__ONNX_SEES_OTHERS
} ronde__onnx_mask;

/* Of truths, which say who sees whom, inverted who does not; or of what is added to scores [t,s]. */
ronde__onnx_mask ronde__onnx_read_mask(ronde__onnx_import *im, const ronde__onnx_value *value, bool inverted, int64_t t,
                                       int64_t s);

/* Queries, keys or values of several heads, [H,time,D] as they are seen, [H,D,time] in the tensor where they are turned. */
typedef struct ronde__onnx_heads {
  ronde__onnx_view view;
  bool turned;
} ronde__onnx_heads;

/* false: x has not three dimensions. */
bool ronde__onnx_heads_of(const ronde_tensor *x, bool turned, ronde__onnx_heads *heads_out);
/* softmax(scale query keyT) value, [H,T,D], of three whose sizes go together, by the next node's name; read where they lie in rows of
 * features, if they do. lengths: [1], how many keys there are, or NULL: all. */
const ronde_tensor *ronde__onnx_attend(const ronde__onnx_heads heads[3], double scale, bool causal,
                                       const ronde_tensor *lengths);

/* ---- dot_product.c: scaled dot-product attention, which is many nodes ---- */

/* Nodes that are to be built one by one after all. */
typedef struct ronde__onnx_apart {
  const ronde__onnx_node *const *nodes; /* [n]; valid until the next building */
  int n;
} ronde__onnx_apart;

/* Notes the others where the node is the first one, and builds all where it is the last; *done_out false: it is neither. */
ronde_status ronde__onnx_build_dot_product(ronde__onnx_import *im, const ronde__onnx_node *node, bool *done_out,
                                           ronde__onnx_apart *apart_out);
void ronde__onnx_release_dot_products(ronde__onnx_import *im);

/* ---- known.c: arrays that follow from the file alone ---- */

/* Evaluates a node that reads nothing but such arrays and sizes; false: it has not done so, and the operator has to. */
bool ronde__onnx_evaluate(ronde__onnx_import *im, const ronde__onnx_node *node);
/* Of a value that follows from the file alone; NULL: it does not, or is too large. */
const ronde__onnx_known *ronde__onnx_known_of(ronde__onnx_import *im, const ronde__onnx_value *value);
bool ronde__onnx_is_alike(const ronde__onnx_known *known, double value); /* all values are this one */
bool ronde__onnx_are_zeros(const ronde__onnx_value *value);              /* which no training changes */
/* An array of zeros, of floats, that the building owns; NULL: it would be too large. */
ronde__onnx_known *ronde__onnx_make_known(ronde__onnx_import *im, int rank, const int64_t *dims);
/* Those that were made behind `until`, NULL: all. */
void ronde__onnx_release_known(ronde__onnx_import *im, const ronde__onnx_known *until);

/* ---- place.c: tensors whose batch stands anywhere ---- */

/* Of an activation, or of a constant. */
ronde__onnx_place ronde__onnx_place_of(const ronde__onnx_value *value);
/* Of input i wherever its batch stands, a constant of floats becoming a parameter: the tensor of an example. */
ronde_status ronde__onnx_in_place(ronde__onnx_import *im, const ronde__onnx_node *node, int i,
                                  const ronde_tensor **x_out, ronde__onnx_place *place_out);
/* The dimension of an example at an axis of the file; RONDE_E_INPUT: there is none, or it is the batch. */
ronde_status ronde__onnx_axis(const ronde__onnx_import *im, const ronde__onnx_node *node, int64_t axis,
                              const ronde__onnx_place *place, int *dim_out);
int ronde__onnx_dim_at(const ronde__onnx_place *place, int axis); /* -1: it is the batch, or has it */
/* Where n inputs from `first` on stand when the smaller ones have got dimensions of 1 in front, as in arithmetic.
 * RONDE_E_INPUT: their batches do not meet. */
ronde_status ronde__onnx_common(const ronde__onnx_import *im, const ronde__onnx_node *node, int first, int n,
                                ronde__onnx_place *place_out);
/* Input i with these dimensions, 1s put in front. */
ronde_status ronde__onnx_operand(ronde__onnx_import *im, const ronde__onnx_node *node, int i,
                                 const ronde__onnx_place *place, const ronde_tensor **x_out);
/* An array of the node's own, as a fixed parameter with these dimensions. */
ronde_status ronde__onnx_fixed_operand(ronde__onnx_import *im, const ronde__onnx_node *node, const char *suffix,
                                       const ronde__onnx_known *known, const ronde__onnx_place *place,
                                       const ronde_tensor **x_out);
/* Sets output i as ronde__onnx_set does, at its place. */
ronde_status ronde__onnx_set_place(ronde__onnx_import *im, const ronde__onnx_node *node, int i, const ronde_tensor *x,
                                   const ronde__onnx_place *place);
/* Input i in its place, where an image of one row or one pixel stays an image: for what works on all elements alike. */
ronde_status ronde__onnx_in_any(ronde__onnx_import *im, const ronde__onnx_node *node, int i, const ronde_tensor **x_out,
                                ronde__onnx_place *place_out);
/* Input i [N,C,H,W] as an image; [N,C,W], or [N,C], as one of one row, or one pixel. */
ronde_status ronde__onnx_in_image(ronde__onnx_import *im, const ronde__onnx_node *node, const ronde_tensor **x_out,
                                  ronde__onnx_place *place_out);
/* Output 0, which is there already, stands so. */
void ronde__onnx_give_place(ronde__onnx_import *im, const ronde__onnx_node *node, const ronde__onnx_place *place);

/* Output 0 is input 0 with other sizes, which stand so in the file. */
ronde_status ronde__onnx_reshape_tensor(ronde__onnx_import *im, const ronde__onnx_node *node,
                                        const ronde__onnx_value *sizes);
/* The sizes of a tensor in the file. */
void ronde__onnx_sizes_of(const ronde_tensor *x, const ronde__onnx_place *place, ronde__onnx_value *sizes_out);

/* ---- bind.c: layers and their weights ---- */

enum { RONDE__ONNX_MAX_WEIGHTS = RONDE__OP_MAX_PARAMS };

/* A layer that is about to be added: what it is called, and its weights [n] in the order of the op's parameters, then
 * buffers. */
typedef struct ronde__onnx_layer {
  char *label;
  ronde__onnx_weight weights[RONDE__ONNX_MAX_WEIGHTS];
  const char *names[RONDE__ONNX_MAX_WEIGHTS];
  int n;
} ronde__onnx_layer;

bool ronde__onnx_is_weight_name(const char *name); /* in a file of weights */
/* A constant's dims as a shape; rank 0: input i is no constant, or has too many. */
ronde__shape ronde__onnx_dims_of(const ronde__onnx_import *im, const ronde__onnx_node *node, int i);
/* Input i of the node, a constant, as the layer's next weight. name NULL: it is called like the initializer. */
ronde_status ronde__onnx_take(ronde__onnx_import *im, const ronde__onnx_node *node, int i, const char *name,
                              ronde__onnx_change change, const ronde__shape *shape, bool is_buffer,
                              ronde__onnx_layer *layer);
/* The same of a tensor that is no input. */
ronde_status ronde__onnx_take_tensor(ronde__onnx_import *im, const ronde__onnx_node *node,
                                     const Onnx__TensorProto *tensor, const char *name, ronde__onnx_change change,
                                     const ronde__shape *shape, bool is_buffer, ronde__onnx_layer *layer);
/* Names the graph's next node and its parameters by the layer. */
ronde_status ronde__onnx_begin(ronde__onnx_import *im, ronde__onnx_layer *layer);
/* When it was added: y is its output, and is set as the node's. Checks shapes, and notes the weights where the file wants
 * them. */
ronde_status ronde__onnx_end_layer(ronde__onnx_import *im, const ronde__onnx_node *node, ronde__onnx_layer *layer,
                                   const ronde_tensor *y);
/* The same without an output. */
ronde_status ronde__onnx_note_layer(ronde__onnx_import *im, const ronde__onnx_node *node,
                                    const ronde__onnx_layer *layer, const ronde_tensor *y);
void ronde__onnx_layer_release(ronde__onnx_layer *layer);

/* ---- window.c: kernels, strides and padding ---- */

typedef struct ronde__onnx_window {
  int kernel[2], stride[2], dilation[2], padding[2], padding_more[2];
  bool ceil_mode;
} ronde__onnx_window;

/* Of a convolution or pooling over x [C,H,W], or along its width alone. */
ronde_status ronde__onnx_read_window(const ronde__onnx_import *im, const ronde__onnx_node *node, const ronde_tensor *x,
                                     bool along_width, const int64_t kernel[2], ronde__onnx_window *window_out);

/* ---- operators: one function for each row of operators.inc ---- */

#define RONDE_ONNX_OPERATOR(name, function) \
  ronde_status ronde__onnx_op_##function(ronde__onnx_import *im, const ronde__onnx_node *node);
#include "onnx/operators.inc"
#undef RONDE_ONNX_OPERATOR

/* import.c: the function of an operator; NULL: it is not supported. */
ronde__onnx_operator ronde__onnx_find_operator(const Onnx__NodeProto *node);
/* The building of the file's own network, which notes its weights. */
ronde_tensor *ronde__onnx_record(ronde__onnx *file, ronde_graph *graph, ronde_tensor *x);

#endif

/* An ONNX file in the making: protobuf-c's structs, whose memory is the writer's and ends with it. */
#ifndef RONDE_ONNX_WRITER_H
#define RONDE_ONNX_WRITER_H

#include "onnx/onnx.h"

#include <onnx.pb-c.h>

typedef struct ronde__onnx_writer ronde__onnx_writer;

struct ronde__onnx_writer {
  const char *path;
  const ronde__net *net;
  const ronde_graph *graph;
  int64_t opset;
  Onnx__GraphProto file;
  const char **names; /* [tensors of the graph] */
  bool *needed;       /* [tensors of the graph]: for its output */
  bool *written;      /* [parameters of the graph]: is there as an initializer */
  int n_constants;
  void **blocks; /* [n_blocks] */
  int n_blocks;
  ronde_status status; /* the first error: all calls after it do nothing */
};

/* Memory until the end; NULL: there was none, or an error before. */
void *ronde__onnx_room(ronde__onnx_writer *w, size_t bytes);
char *ronde__onnx_text(ronde__onnx_writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A new node with one output; NULL after an error, which all that follow take. */
Onnx__NodeProto *ronde__onnx_add(ronde__onnx_writer *w, const char *type, const char *label, const char *output);
/* The same from one name to another, called like what it gives: only what a node of the graph becomes in the end has its
 * label, which is the graph's again when the file is read. */
Onnx__NodeProto *ronde__onnx_add_step(ronde__onnx_writer *w, const char *type, const char *from, const char *to);
/* Squeeze or Unsqueeze along one axis. */
void ronde__onnx_add_axis(ronde__onnx_writer *w, const char *type, int64_t axis, const char *from, const char *to);
/* Whether a node gives this name already: several nodes of the graph may need the same of one tensor. */
bool ronde__onnx_is_given(const ronde__onnx_writer *w, const char *name);
void ronde__onnx_add_input(ronde__onnx_writer *w, Onnx__NodeProto *node, const char *name); /* "": left out */
void ronde__onnx_add_output(ronde__onnx_writer *w, Onnx__NodeProto *node, const char *name);
void ronde__onnx_add_int(ronde__onnx_writer *w, Onnx__NodeProto *node, const char *name, int64_t value);
void ronde__onnx_add_ints(ronde__onnx_writer *w, Onnx__NodeProto *node, const char *name, int n, const int64_t *values);
void ronde__onnx_add_float(ronde__onnx_writer *w, Onnx__NodeProto *node, const char *name, float value);
void ronde__onnx_add_word(ronde__onnx_writer *w, Onnx__NodeProto *node, const char *name, const char *value);
void ronde__onnx_add_word_list(ronde__onnx_writer *w, Onnx__NodeProto *node, const char *name, const char *value);

/* A new initializer; the memory of its elements, which the caller fills. */
void *ronde__onnx_add_tensor(ronde__onnx_writer *w, const char *name, int type, int rank, const int64_t *dims);
/* A node Constant of that name: a parameter that is fixed. The memory of its elements. */
float *ronde__onnx_add_fixed(ronde__onnx_writer *w, const char *label, const char *name, int rank, const int64_t *dims);
/* Constants of a name that they are given; rank 0: a scalar. */
const char *ronde__onnx_add_floats(ronde__onnx_writer *w, int rank, int64_t n, const float *values);
const char *ronde__onnx_add_sizes(ronde__onnx_writer *w, int64_t n, const int64_t *values);
const char *ronde__onnx_add_token(ronde__onnx_writer *w, int32_t token); /* a scalar */

/* Of a node of the graph: the shape of its first input, the name of its output i. */
const ronde__shape *ronde__onnx_shape_in(const ronde__onnx_writer *w, const ronde__node *node);
const char *ronde__onnx_out_name(const ronde__onnx_writer *w, const ronde__node *node, int i);
/* A node of this type, from the node's inputs to its first output. */
Onnx__NodeProto *ronde__onnx_add_like(ronde__onnx_writer *w, const ronde__node *node, const char *type);
/* That ONNX cannot say it, or the writer not. */
void ronde__onnx_refuse(ronde__onnx_writer *w, const ronde__node *node, const char *why);
void ronde__onnx_need_opset(ronde__onnx_writer *w, int64_t opset);
/* Where the net has the graph's parameter. */
int ronde__onnx_param_at(const ronde__net *net, int param);
/* A new initializer of floats; the memory of its elements. */
float *ronde__onnx_add_floats_of(ronde__onnx_writer *w, const char *name, const ronde__shape *shape);
/* Puts parameter i of a node into the file, unless it is there; one that is fixed is a node called `label`, in front of what reads it.
 * Returns its name. */
const char *ronde__onnx_give_param(ronde__onnx_writer *w, const ronde__node *node, int i, const char *label);
/* Parameter i of a node, or all of them, as inputs more. */
void ronde__onnx_add_param(ronde__onnx_writer *w, const ronde__node *node, int i, Onnx__NodeProto *to);
void ronde__onnx_add_params(ronde__onnx_writer *w, const ronde__node *node, Onnx__NodeProto *to);

/* Frees all memory. */
void ronde__onnx_release(ronde__onnx_writer *w);

/* write_nodes.c: the nodes of ONNX for one of the graph. */
void ronde__onnx_write_node(ronde__onnx_writer *w, const ronde__node *node);
/* write_sequences.c: of recurrent layers, and of attention. */
void ronde__onnx_write_recurrent(ronde__onnx_writer *w, const ronde__node *node);
void ronde__onnx_write_attention(ronde__onnx_writer *w, const ronde__node *node);
void ronde__onnx_write_additive_attention(ronde__onnx_writer *w, const ronde__node *node);
/* write_lengths.c: of the lengths of tokens; and what a node whose last input is lengths [N,1] gives to ONNX: how many steps
 * of `most` there are, int32 [N]; whether a key of S is seen, bool [N,S], where one is in any case; and whether any is,
 * 1 or 0, f32 [N,1,1]. */
void ronde__onnx_write_lengths(ronde__onnx_writer *w, const ronde__node *node);
const char *ronde__onnx_steps_of(ronde__onnx_writer *w, const ronde__node *node, int64_t most);
const char *ronde__onnx_seen_of(ronde__onnx_writer *w, const ronde__node *node, int64_t s);
const char *ronde__onnx_any_of(ronde__onnx_writer *w, const ronde__node *node);

#endif

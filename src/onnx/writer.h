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
void ronde__onnx_add_input(ronde__onnx_writer *w, Onnx__NodeProto *node, const char *name); /* "": left out */
void ronde__onnx_add_output(ronde__onnx_writer *w, Onnx__NodeProto *node, const char *name);
void ronde__onnx_add_int(ronde__onnx_writer *w, Onnx__NodeProto *node, const char *name, int64_t value);
void ronde__onnx_add_ints(ronde__onnx_writer *w, Onnx__NodeProto *node, const char *name, int n, const int64_t *values);
void ronde__onnx_add_float(ronde__onnx_writer *w, Onnx__NodeProto *node, const char *name, float value);
void ronde__onnx_add_word(ronde__onnx_writer *w, Onnx__NodeProto *node, const char *name, const char *value);

/* A new initializer; the memory of its elements, which the caller fills. */
void *ronde__onnx_add_tensor(ronde__onnx_writer *w, const char *name, int type, int rank, const int64_t *dims);
/* A node Constant of that name: a parameter that is fixed. The memory of its elements. */
float *ronde__onnx_add_fixed(ronde__onnx_writer *w, const char *label, const char *name, int rank, const int64_t *dims);
/* Constants of a name that they are given; rank 0: a scalar. */
const char *ronde__onnx_add_floats(ronde__onnx_writer *w, int rank, int64_t n, const float *values);
const char *ronde__onnx_add_sizes(ronde__onnx_writer *w, int64_t n, const int64_t *values);

/* Frees all memory. */
void ronde__onnx_release(ronde__onnx_writer *w);

/* write_nodes.c: the nodes of ONNX for one of the graph. */
void ronde__onnx_write_node(ronde__onnx_writer *w, const ronde__node *node);

#endif

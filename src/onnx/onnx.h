/* ONNX: networks from files, and networks into files. A file's network is built by the public calls, its weights come as
 * a file of weights does. Where libprotobuf-c was not there, every call refuses (none.c).
 * Source: the ONNX specification (docs/IR.md and docs/Operators.md of ONNX 1.23). */
#ifndef RONDE_ONNX_H
#define RONDE_ONNX_H

#include "graph/graph.h"
#include "io/safetensors.h"
#include "io/sha256.h"

/* An open file. Read-only, so that several threads may build from it at once. */
typedef struct ronde__onnx ronde__onnx;

bool ronde__onnx_supported(void);
/* Whether a name of --model means a file: it ends with .onnx. */
bool ronde__onnx_named(const char *name);

/* Reads a file and checks everything: that its operators are known (all that are not are named at once), that its
 * network can be built, that its weights are there. RONDE_E_INPUT names file, operator and node. */
ronde_status ronde__onnx_open(const char *path, ronde__onnx **file_out);
/* For fuzzing: the same on memory, which may be given up afterwards. Messages use `name` as the path; data beside the file
 * are looked for in `folder`. */
ronde_status ronde__onnx_parse(const char *name, const char *folder, const void *data, size_t bytes,
                               ronde__onnx **file_out);
/* For the cases of single operators, which need no weights. has_batch: as ever; else tensors have no batch in front, the whole
 * file is what is done with one example, and the network's input [elements] is all the file's inputs, one behind the other. */
ronde_status ronde__onnx_parse_case(const char *name, const void *data, size_t bytes, bool has_batch,
                                    ronde__onnx **file_out);
void ronde__onnx_close(ronde__onnx *file); /* NULL is taken */

/* Whether dimensions of its inputs beside the batch have no size yet: they are 0 in ronde__onnx_input_at. Such a file has no
 * outputs, weights or SHA-256, and cannot be built, before ronde__onnx_bind. */
bool ronde__onnx_is_open(const ronde__onnx *file);
/* Gives open dimensions the sizes that examples of inputs [n] have, and all of one name the same; rank 0: nothing is known of
 * that input. Then checks what ronde__onnx_open could not. RONDE_E_USAGE names a dimension that has no size, or two. */
ronde_status ronde__onnx_bind(ronde__onnx *file, const ronde__shape *inputs, int n);
/* What the file calls dimension d, without the batch, of input i, where it left it open: "" if it has no name; else NULL. */
const char *ronde__onnx_open_dim(const ronde__onnx *file, int i, int d);

/* Of the file and of the data that lie beside it. */
const char *ronde__onnx_sha256(const ronde__onnx *file);
const ronde__shape *ronde__onnx_shape(const ronde__onnx *file); /* of one example of its first input */
int64_t ronde__onnx_outputs(const ronde__onnx *file);           /* values per example, of sequences at each step */
/* Its inputs, up to RONDE_MAX_INPUTS: what a graph calls input i, the dims of an example, and how many tokens there are; 0:
 * it is values. The first one is called RONDE__ONNX_FIRST_INPUT whatever its name in the file. */
#define RONDE__ONNX_FIRST_INPUT "input"
#define RONDE__ONNX_INPUT_BYTES 64 /* of a name, with the 0 behind it */
int ronde__onnx_n_inputs(const ronde__onnx *file);
const char *ronde__onnx_input_at(const ronde__onnx *file, int i, ronde__shape *shape_out, int64_t *vocabulary_out);
/* The shape of an example, which data have for the first input, as the file has it where its numbers are the same in the same order:
 * without dims of one in front, or with them; one plane of an image as a row. Other shapes remain. */
void ronde__onnx_fit(const ronde__onnx *file, ronde__shape *shape);
/* Adds all of them to a graph that has none, and returns the first one; NULL: an error was logged. */
ronde_tensor *ronde__onnx_add_inputs(const ronde__onnx *file, ronde_graph *graph);
const char *ronde__onnx_about(const ronde__onnx *file); /* who wrote it, in a few words */
/* RONDE_E_INPUT, with the line of Python that exports it rightly, where the file is an export for inference, whose batch
 * normalisations are part of its convolutions. */
ronde_status ronde__onnx_check_training(const ronde__onnx *file);

/* What the loss does itself, so that an operator that makes the output of the file is left out. */
typedef enum ronde__onnx_end {
  RONDE__ONNX_WHOLE,   /* nothing */
  RONDE__ONNX_CLASSES, /* a softmax, or log-softmax: cross entropy */
  RONDE__ONNX_LABELS   /* a sigmoid: binary cross entropy */
} ronde__onnx_end;
/* Builds the network on x, the first input of the graph, as a model function does, and returns its output; NULL: an error was
 * logged. Its other inputs are those of the graph of their names, else at their places. outputs: how many
 * the output layer shall have where it is a linear one; 0: as many as in the file. */
ronde_tensor *ronde__onnx_build(const ronde__onnx *file, ronde_graph *graph, ronde_tensor *x, int64_t outputs,
                                ronde__onnx_end end);
/* The weights by the names of the initializers, in Ronde's order of elements, and what the file says of itself. To be closed
 * before the ONNX file. */
ronde_status ronde__onnx_weights(const ronde__onnx *file, ronde__safetensors **weights_out);

/* Writes a net as an ONNX file (opset 17, or the first that has all its operators), whole or absent. meta [n_meta]: what it says of itself.
 * RONDE_E_USAGE names a layer that ONNX cannot say. */
ronde_status ronde__onnx_write(const ronde__net *net, const char *path, const ronde__file_meta *meta, int n_meta);

#endif

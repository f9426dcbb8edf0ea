/* A file of weights: checked against a graph, loaded into a net, written from one, found in a run's folder. */
#ifndef RONDE_WEIGHTS_H
#define RONDE_WEIGHTS_H

#include "io/sha256.h"
#include "job/job.h"
#include "state/parts.h"

#define RONDE__META_CLASS_NAMES "ronde.classes" /* of a weights' file: the names of the classes, as a JSON list */
#define RONDE__META_COLUMNS "ronde.columns"     /* what the columns of its table are: data/columns.h */
#define RONDE__META_MERGES "ronde.merges"       /* the vocabulary of its text: data/bpe.h */
#define RONDE__META_MORE_INPUTS "more_inputs"   /* the inputs beside the first: job/more_inputs.c */
#define RONDE__META_MODEL_SHA256 "model_sha256" /* the SHA-256 of the file that --model named */
/* Missing, extra and differently shaped tensors are errors: to be found once, before ranks start. other_classes_out
 * (may be NULL): if given, an output layer that differs only in its number of classes is no error; it receives the
 * file's number of classes (else 0). */
ronde_status ronde__weights_check(const ronde_graph *graph, const ronde__safetensors *file, const char *path,
                                  int64_t *other_classes_out);
/* The file of weights that a path means: itself, or of a run's folder best.safetensors, else last.safetensors, else its
 * newest checkpoint that is whole; which of them is said. To be freed. */
ronde_status ronde__weights_find(const char *path, char **file_out);
/* The name of the output layer: a linear layer whose output is the network's; NULL where there is none. */
const char *ronde__graph_head(const ronde_graph *graph);
/* Every parameter and buffer of a net from a file that was checked against its graph; new_head: but for the output layer.
 */
void ronde__weights_load(ronde__net *net, const ronde__safetensors *file, bool new_head);
/* What is written, or hashed, is a net's; or with parts that of all of them, which then serve rank 0 that calls, and the
 * net gives the graph alone. NULL: the net is whole. */
/* Writes parameters and buffers; the file also says what they are of: model, shape, classes, padding and normalisation
 * of the job. */
ronde_status ronde__weights_save(ronde__net *net, ronde__parts *parts, const char *path, const ronde__job *job);
/* What a file of weights says of itself. */
typedef struct ronde__weights_notes {
  ronde__file_meta meta[22]; /* [n], and room for one more */
  int n;
  char *class_names, *split, *columns, *merges; /* owned */
  char shape[96], classes[24], targets[24], vocabulary[24], mask[24], mask_token[24];
  char more_inputs[(RONDE_MAX_INPUTS - 1) * 192];
  char mean[16 * RONDE__NORMALIZED_MAX], deviation[16 * RONDE__NORMALIZED_MAX];
} ronde__weights_notes;
/* The texts lie in notes and in the job: notes must not be moved. */
void ronde__weights_describe(const ronde__job *job, ronde__weights_notes *notes);
void ronde__weights_notes_release(ronde__weights_notes *notes);
/* SHA-256 of the parameters, names ascending bytewise, logical row-major f32, little endian; and with the f32 buffers
 * among them. */
ronde_status ronde__weights_sha256(ronde__net *net, ronde__parts *parts, char hex_out[RONDE__SHA256_HEX]);
ronde_status ronde__state_sha256(ronde__net *net, ronde__parts *parts, char hex_out[RONDE__SHA256_HEX]);

#endif

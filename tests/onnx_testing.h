/* What the tests of ONNX files share: a network and its net. */
#ifndef RONDE_ONNX_TESTING_H
#define RONDE_ONNX_TESTING_H

#include "graph/graph.h"
#include "onnx/onnx.h"

/* Skips the test where this build has no ONNX. */
void need_onnx(void);

typedef struct onnx_subject {
  ronde_graph *graph;
  ronde__net *net;
} onnx_subject;

/* Takes the graph, which is finished. */
onnx_subject onnx_subject_of(ronde_graph *graph, bool training);
/* The weights in the file. */
void onnx_subject_load(onnx_subject *s, const ronde__onnx *file);
void onnx_subject_destroy(onnx_subject *s);
int onnx_n_nodes_of(const ronde_graph *graph, ronde__op_kind kind);

#endif

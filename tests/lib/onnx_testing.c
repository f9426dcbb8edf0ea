#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "onnx_testing.h"
#include "state/weights.h"

void need_onnx(void) {
  if (ronde__onnx_supported()) return;
  print_message("SKIP: this build has no ONNX (no libprotobuf-c)\n");
  skip();
}

onnx_subject onnx_subject_of(ronde_graph *graph, bool training) {
  onnx_subject s = {.graph = graph};
  ronde__net_options options = {.training = training};
  assert_int_equal(ronde__kernels_get(&options.compute.kernels), RONDE_OK);
  assert_int_equal(ronde__gemm_default(options.compute.kernels, &options.compute.gemm), RONDE_OK);
  assert_int_equal(ronde__net_create(graph, &options, &s.net), RONDE_OK);
  return s;
}

void onnx_subject_load(onnx_subject *s, const ronde__onnx *file) {
  ronde__safetensors *weights;
  assert_int_equal(ronde__onnx_weights(file, &weights), RONDE_OK);
  assert_int_equal(ronde__weights_check(s->graph, weights, "weights", NULL), RONDE_OK);
  ronde__weights_load(s->net, weights, false);
  ronde__safetensors_close(weights);
}

void onnx_subject_destroy(onnx_subject *s) {
  ronde__net_destroy(s->net);
  ronde_graph_destroy(s->graph);
}

int onnx_n_nodes_of(const ronde_graph *graph, ronde__op_kind kind) {
  int n = 0;
  for (int i = 0; i < graph->n_nodes; i++) n += graph->nodes[i].kind == kind;
  return n;
}

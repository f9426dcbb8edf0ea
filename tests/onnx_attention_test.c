/* Scaled dot-product attention that a file writes as several nodes: which files become the op of that name. That their outputs and
 * gradients are PyTorch's is for onnx_test.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/graph.h"
#include "onnx/onnx.h"
#include "onnx_testing.h"

#define GOLDEN RONDE_SOURCE_DIR "/tests/golden/onnx"

/* By the exporters of PyTorch and the classes of Hugging Face: masks are causal, of truths or of numbers, made in front of the scores
 * or behind them, or let everything be seen. Masks by padding stay products and softmaxes. */
static void attention_of_files(void **unused) {
  static const struct {
    const char *path;
    int attention, softmax, causal;
  } files[] = {
      {GOLDEN "/torch-newer-vit.onnx", 2, 0, 0},   {GOLDEN "/torch-newer-bert.onnx", 2, 0, 0},
      {GOLDEN "/torch-newer-gpt2.onnx", 2, 0, 2},  {GOLDEN "/torch-newer-gpt.onnx", 1, 0, 1},
      {GOLDEN "/torch-newer-llama.onnx", 2, 0, 2}, {GOLDEN "/torch-causal.onnx", 1, 0, 1},
      {GOLDEN "/torch-attention.onnx", 1, 0, 0},   {GOLDEN "/torch-encoder.onnx", 0, 2, 0},
  };
  need_onnx();
  for (size_t i = 0; i < RONDE__COUNT(files); i++) {
    ronde__onnx *file;
    ronde_graph *graph;
    int n_causal = 0;
    assert_int_equal(ronde__onnx_open(files[i].path, &file), RONDE_OK);
    assert_int_equal(ronde_graph_create(&graph), RONDE_OK);
    ronde_tensor *x = ronde__onnx_add_inputs(file, graph);
    assert_non_null(ronde__onnx_build(file, graph, x, 0, RONDE__ONNX_CLASSES));
    for (int k = 0; k < graph->n_nodes; k++)
      n_causal += graph->nodes[k].kind == RONDE__OP_ATTENTION && graph->nodes[k].attr.causal;
    assert_int_equal(onnx_n_nodes_of(graph, RONDE__OP_ATTENTION), files[i].attention);
    assert_int_equal(onnx_n_nodes_of(graph, RONDE__OP_SOFTMAX), files[i].softmax);
    assert_int_equal(n_causal, files[i].causal);
    ronde_graph_destroy(graph);
    ronde__onnx_close(file);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(attention_of_files)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

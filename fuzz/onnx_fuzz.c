/* ONNX files from anywhere: what is accepted must be a network that can be built again, with all its weights. Data beside
 * the file are looked for in a folder that is not there. */
#include "onnx/onnx.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds) {
  if (!holds) abort();
}

/* As training would build it; the output layer may become another one, and a trailing operator may have no meaning. */
static void build(const ronde__onnx *file, int64_t outputs, ronde__onnx_end end, bool must) {
  ronde_graph *graph;
  require(ronde_graph_create(&graph) == RONDE_OK);
  const ronde_tensor *y = ronde__onnx_build(file, graph, ronde__onnx_add_inputs(file, graph), outputs, end);
  require(y || !must);
  ronde_graph_destroy(graph);
}

/* Open dimensions have the size 5 here. */
static bool bind(ronde__onnx *file) {
  ronde__shape shapes[RONDE_MAX_INPUTS] = {0};
  int64_t vocabulary;
  int n = ronde__onnx_n_inputs(file);
  for (int i = 0; i < n; i++) {
    ronde__onnx_input_at(file, i, &shapes[i], &vocabulary);
    for (int d = 0; d < shapes[i].rank; d++) shapes[i].dim[d] = shapes[i].dim[d] ? shapes[i].dim[d] : 5;
  }
  return ronde__onnx_bind(file, shapes, n) == RONDE_OK && !ronde__onnx_is_open(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ronde__onnx *file = NULL;
  ronde__safetensors *weights = NULL;
  if (ronde__onnx_parse("fuzz.onnx", "/nonexistent", data, size, &file) != RONDE_OK) {
    require(file == NULL);
    return 0;
  }
  if (!bind(file)) {
    ronde__onnx_close(file);
    return 0;
  }
  build(file, 0, RONDE__ONNX_CLASSES, true);
  build(file, 3, RONDE__ONNX_WHOLE, false);
  build(file, 0, RONDE__ONNX_LABELS, false);
  (void)ronde__onnx_check_training(file);
  if (ronde__onnx_weights(file, &weights) == RONDE_OK) {
    for (int i = 0; i < weights->n_tensors; i++) {
      require(ronde__safetensors_find(weights, weights->tensors[i].name) == &weights->tensors[i]);
      require(ronde__shape_elems(&weights->tensors[i].shape) > 0);
    }
    (void)ronde__safetensors_check_finite(weights);
    ronde__safetensors_close(weights);
  }
  ronde__onnx_close(file);
  return 0;
}

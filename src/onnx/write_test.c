/* Networks of tokens, of several inputs and of lengths as ONNX files, which import does not read: what the files are made of.
 * tests/golden/onnx_runtime.py compares what they give, by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef RONDE_HAVE_ONNX

#include "job/job.h"
#include "onnx/onnx.h"
#include "onnx/wire.h"

/* A network that was written, and read back as what it is made of. */
typedef struct written {
  ronde_graph *graph;
  ronde__net *net;
  Onnx__ModelProto *model;
  const Onnx__GraphProto *file;
} written;

static Onnx__ModelProto *read_model(const char *path) {
  static uint8_t bytes[1 << 23];
  Onnx__ModelProto *model;
  FILE *from = fopen(path, "rb");
  assert_non_null(from);
  size_t n = fread(bytes, 1, sizeof bytes, from);
  fclose(from);
  assert_true(n > 0 && n < sizeof bytes);
  assert_int_equal(ronde__onnx_unpack(path, bytes, n, &model), RONDE_OK);
  return model;
}

static written write_graph(ronde_graph *graph) {
  written w = {.graph = graph};
  char path[] = "/tmp/ronde-write-XXXXXX";
  ronde__net_options options = {.training = false};
  assert_int_equal(ronde__kernels_get(&options.compute.kernels), RONDE_OK);
  assert_int_equal(ronde__gemm_default(options.compute.kernels, &options.compute.gemm), RONDE_OK);
  assert_int_equal(ronde__net_create(graph, &options, &w.net), RONDE_OK);
  assert_int_equal(ronde__net_init(w.net, 5), RONDE_OK);
  close(mkstemp(path));
  assert_int_equal(ronde__onnx_write(w.net, path, NULL, 0), RONDE_OK);
  w.model = read_model(path);
  w.file = w.model->graph;
  unlink(path);
  return w;
}

static written write_network(const char *name) {
  const ronde__model *model = ronde__model_find(name);
  ronde__shape shape = ronde__model_shape(model);
  ronde_graph *graph;
  assert_int_equal(
      ronde__model_graph(model, &(ronde__model_options){0}, &shape, model->vocabulary, model->classes, &graph),
      RONDE_OK);
  return write_graph(graph);
}

static void release(written *w) {
  onnx__model_proto__free_unpacked(w->model, NULL);
  ronde__net_destroy(w->net);
  ronde_graph_destroy(w->graph);
}

/* How many nodes there are of this type with so many inputs; 0: any. */
static int count(const written *w, const char *type, size_t n_inputs) {
  int n = 0;
  for (size_t i = 0; i < w->file->n_node; i++)
    n += !strcmp(w->file->node[i]->op_type, type) && (n_inputs == 0 || w->file->node[i]->n_input == n_inputs);
  return n;
}

/* Whether a name is an input, an initializer, or an output of one of the first n nodes. */
static bool is_known(const written *w, const char *name, size_t n) {
  for (size_t i = 0; i < w->file->n_input; i++)
    if (!strcmp(w->file->input[i]->name, name)) return true;
  for (size_t i = 0; i < w->file->n_initializer; i++)
    if (!strcmp(w->file->initializer[i]->name, name)) return true;
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < w->file->node[i]->n_output; k++)
      if (!strcmp(w->file->node[i]->output[k], name)) return true;
  return false;
}

/* Nodes stand behind those whose outputs they read, and nothing is given twice. */
static void check_order(const written *w) {
  for (size_t i = 0; i < w->file->n_node; i++) {
    const Onnx__NodeProto *node = w->file->node[i];
    for (size_t k = 0; k < node->n_input; k++)
      if (*node->input[k] && !is_known(w, node->input[k], i))
        fail_msg("%s %s reads %s, which nothing in front of it gives", node->op_type, node->name, node->input[k]);
    for (size_t k = 0; k < node->n_output; k++)
      if (*node->output[k] && is_known(w, node->output[k], i)) fail_msg("%s is given twice", node->output[k]);
  }
  assert_int_equal(w->file->n_output, 1);
  assert_true(is_known(w, w->file->output[0]->name, w->file->n_node));
}

/* Each is there under its name, but second biases, which lie behind the first ones. */
static void check_parameters(const written *w) {
  for (int i = 0; i < w->graph->n_params; i++) {
    const char *name = w->graph->params[i].name;
    if (!strstr(name, "bias_hh") && !is_known(w, name, w->file->n_node)) fail_msg("%s is not there", name);
  }
}

static void check_input(const written *w, size_t i, const char *name, int type) {
  assert_true(i < w->file->n_input);
  assert_string_equal(w->file->input[i]->name, name);
  assert_int_equal(w->file->input[i]->type->tensor_type->elem_type, type);
}

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, INT32 = ONNX__TENSOR_PROTO__DATA_TYPE__INT32 };

static void a_causal_transformer(void **state) {
  written w = write_network("gpt-tiny");
  check_order(&w);
  check_parameters(&w);
  assert_int_equal(w.file->n_input, 1);
  check_input(&w, 0, "input", INT32);
  assert_int_equal(count(&w, "Gather", 2), 1);
  assert_int_equal(count(&w, "Attention", 3), 4);
  release(&w);
}

/* The output layer has the table's weights. */
static void bert_and_its_padding(void **state) {
  written w = write_network("bert-tiny");
  check_order(&w);
  check_parameters(&w);
  check_input(&w, 0, "input", INT32);
  assert_int_equal(count(&w, "Attention", 4), 2);
  assert_int_equal(count(&w, "ReduceMax", 0), 1);
  assert_int_equal(count(&w, "Round", 0), 1); /* once for both layers, */
  assert_int_equal(count(&w, "Less", 0), 1);
  assert_int_equal(count(&w, "Expand", 0), 3); /* as the mask is, beside two parameters */
  release(&w);
}

static void two_sequences(void **state) {
  written w = write_network("transformer-tiny");
  check_order(&w);
  check_parameters(&w);
  assert_int_equal(w.file->n_input, 2);
  check_input(&w, 0, "input", INT32);
  check_input(&w, 1, RONDE__DECODER_INPUT, INT32);
  assert_int_equal(count(&w, "Attention", 4),
                   2 * count(&w, "Attention", 3)); /* to the source, and to the target's past */
  release(&w);
}

static void lstms_with_lengths(void **state) {
  written w = write_network("gnmt-tiny");
  check_order(&w);
  check_parameters(&w);
  check_input(&w, 1, RONDE__DECODER_INPUT, INT32);
  assert_int_equal(count(&w, "LSTM", 0), 7);
  assert_int_equal(count(&w, "LSTM", 5), 4);  /* of the encoder, one in both directions */
  assert_int_equal(count(&w, "Where", 0), 2); /* lengths, and the scores of attention */
  assert_int_equal(count(&w, "ReduceL2", 0), 1);
  release(&w);
}

static void speech(void **state) {
  written w = write_network("deepspeech2-tiny");
  check_order(&w);
  check_parameters(&w);
  check_input(&w, 0, "input", FLOAT);
  check_input(&w, 1, RONDE__LENGTHS_INPUT, FLOAT);
  assert_int_equal(count(&w, "GRU", 5), 4);
  assert_int_equal(count(&w, "Round", 0), 1);
  release(&w);
}

/* A weight of a sequence gets a row, as the sequence does. */
static void a_convolution_of_sequences(void **state) {
  static const int64_t dims[] = {4, 9};
  ronde_graph *graph;
  assert_int_equal(ronde_graph_create(&graph), RONDE_OK);
  const ronde_conv1d_options options = {.out_channels = 6, .kernel = 3, .stride = 1};
  ronde_tensor *y = ronde_conv1d(ronde_input(graph, "input", 2, dims), "conv", &options);
  ronde_graph_set_output(graph, ronde_linear(ronde_flatten(y), "fc", 3, true));
  assert_int_equal(ronde__graph_finish(graph), RONDE_OK);
  written w = write_graph(graph);
  check_order(&w);
  check_parameters(&w);
  assert_int_equal(count(&w, "Conv", 3), 1);
  assert_int_equal(count(&w, "Unsqueeze", 2), 1);
  release(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_causal_transformer),
      cmocka_unit_test(bert_and_its_padding),
      cmocka_unit_test(two_sequences),
      cmocka_unit_test(lstms_with_lengths),
      cmocka_unit_test(speech),
      cmocka_unit_test(a_convolution_of_sequences),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) {
  printf("SKIP: this build has no ONNX (no libprotobuf-c)\n");
  return 0;
}

#endif

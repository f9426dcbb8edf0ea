/* Networks of tokens, of several inputs and of lengths, out and back: the same nodes, names and bits of a step, and the same
 * file again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "job/job.h"
#include "lib/folder.h"
#include "onnx_testing.h"

enum { N = 4, MAX_FILE = 1 << 22 };

/* ---- networks ---------------------------------------------------------------------------------------------------- */

static onnx_subject built_in(const char *name, const ronde__shape *shape) {
  const ronde__model *model = ronde__model_find(name);
  const ronde__model_options options = {.dropout = 0.1f};
  ronde_graph *graph;
  assert_int_equal(ronde__model_graph(model, &options, shape, model->vocabulary, model->classes, &graph), RONDE_OK);
  onnx_subject s = onnx_subject_of(graph, true);
  assert_int_equal(ronde__net_init(s.net, 5), RONDE_OK);
  return s;
}

static onnx_subject of_file(const ronde__onnx *file) {
  ronde_graph *graph;
  assert_int_equal(ronde__file_graph(file, &graph), RONDE_OK);
  onnx_subject s = onnx_subject_of(graph, true);
  onnx_subject_load(&s, file);
  return s;
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

/* An example's tokens end in padding, but those of the first, which has none, and of the second, which is nothing else. */
static void draw(ronde__rng *rng, const ronde_tensor *x, int64_t example, float *to) {
  const int64_t elems = ronde__shape_elems(&x->shape);
  int64_t there = example == 0 ? elems : example == 1 ? 0 : (int64_t)ronde__rng_below(rng, (uint64_t)elems);
  for (int64_t i = 0; i < elems && x->vocabulary; i++) {
    int32_t token = i < there ? 1 + (int32_t)ronde__rng_below(rng, (uint64_t)x->vocabulary - 1) : 0;
    memcpy(to + i, &token, sizeof token);
  }
  for (int64_t i = 0; i < elems && !x->vocabulary; i++)
    to[i] = elems == 1 ? (float)(7 * example) : ronde__rng_uniform(rng);
}

/* The outputs without training, which are handed back and to be freed, and a step's loss and gradients. */
static float *run(onnx_subject *s, double *loss_out) {
  const ronde_graph *graph = s->graph;
  const int64_t row = ronde__graph_input_elems(graph), n_labels = ronde__loss_labels(graph),
                n_outputs = ronde__shape_elems(&graph->tensors[graph->output]->shape);
  float *x = malloc((size_t)(N * row) * sizeof *x), *y = malloc((size_t)(N * n_outputs) * sizeof *y), *to = x;
  int64_t *labels = malloc((size_t)(N * n_labels) * sizeof *labels);
  ronde__rng rng = ronde__rng_make(9, 0);
  for (int64_t i = 0; i < N; i++)
    for (int k = 0; k < graph->n_inputs; k++) {
      const ronde_tensor *input = graph->tensors[graph->inputs[k]];
      draw(&rng, input, i, to);
      to += ronde__shape_elems(&input->shape);
    }
  for (int64_t i = 0; i < N * n_labels; i++)
    labels[i] = i % n_labels < 4 ? 1 + (int64_t)ronde__rng_below(&rng, 20) : -1;
  const ronde__net_batch batch = {.n = N, .x = x, .labels = labels, .training = true, .seed = 3, .step = 1};
  ronde__net_result result;
  assert_int_equal(ronde__net_predict(s->net, N, x, y), RONDE_OK);
  assert_int_equal(ronde__net_forward(s->net, &batch, 1.0f / N, NULL, &result), RONDE_OK);
  assert_int_equal(ronde__net_backward(s->net, false, NULL), RONDE_OK);
  *loss_out = result.loss_sum;
  free(x);
  free(labels);
  return y;
}

/* ---- out and back ------------------------------------------------------------------------------------------------ */

static void check_same_graphs(const ronde_graph *a, const ronde_graph *b) {
  for (int i = 0; i < a->n_nodes && i < b->n_nodes; i++)
    if (a->nodes[i].kind != b->nodes[i].kind || strcmp(a->nodes[i].label, b->nodes[i].label) != 0)
      fail_msg("node %d is %s, then %s", i, a->nodes[i].label, b->nodes[i].label);
  assert_int_equal(a->n_nodes, b->n_nodes);
  assert_int_equal(a->n_params, b->n_params);
  for (int i = 0; i < a->n_params; i++) assert_string_equal(a->params[i].name, b->params[i].name);
  for (int i = 0; i < a->n_params; i++) assert_int_equal(a->params[i].fixed, b->params[i].fixed);
}

static char *bytes_of(const char *path, size_t *n_out) {
  FILE *from = fopen(path, "rb");
  char *bytes = malloc(MAX_FILE);
  *n_out = fread(bytes, 1, MAX_FILE, from);
  fclose(from);
  assert_true(*n_out > 0 && *n_out < MAX_FILE);
  return bytes;
}

static void check_same_files(const char *a, const char *b) {
  size_t n[2];
  char *first = bytes_of(a, &n[0]), *second = bytes_of(b, &n[1]);
  assert_int_equal(n[0], n[1]);
  assert_memory_equal(first, second, n[0]);
  free(first);
  free(second);
}

static void check_network(const char *name, ronde__shape shape) {
  char *path = ronde__format("%s/a.onnx", folder), *again = ronde__format("%s/b.onnx", folder);
  ronde__onnx *file;
  double loss[2];
  onnx_subject s = built_in(name, &shape);
  assert_int_equal(ronde__onnx_write(s.net, path, NULL, 0), RONDE_OK);
  if (ronde__onnx_open(path, &file) != RONDE_OK) fail_msg("%s", lines.error);
  onnx_subject t = of_file(file);
  check_same_graphs(s.graph, t.graph);
  assert_int_equal(ronde__onnx_write(t.net, again, NULL, 0), RONDE_OK);
  check_same_files(path, again);
  float *y = run(&s, &loss[0]), *z = run(&t, &loss[1]);
  assert_memory_equal(y, z, (size_t)(N * ronde__shape_elems(&s.graph->tensors[s.graph->output]->shape)) * sizeof *y);
  assert_true(loss[0] == loss[1] && loss[0] > 0);
  assert_int_equal(ronde__net_n_trained(s.net), ronde__net_n_trained(t.net));
  assert_memory_equal(ronde__net_gradients(s.net), ronde__net_gradients(t.net),
                      ronde__net_n_trained(s.net) * sizeof(float));
  onnx_subject_destroy(&s);
  onnx_subject_destroy(&t);
  ronde__onnx_close(file);
  free(y);
  free(z);
  free(path);
  free(again);
}

static void a_causal_transformer(void **state) {
  need_onnx();
  check_network("gpt-tiny", (ronde__shape){1, {12}});
}

static void bert_and_its_padding(void **state) {
  need_onnx();
  check_network("bert-tiny", (ronde__shape){1, {12}});
}

static void two_sequences(void **state) {
  need_onnx();
  check_network("transformer-tiny", (ronde__shape){1, {64}});
}

static void lstms_with_lengths(void **state) {
  need_onnx();
  check_network("gnmt-tiny", (ronde__shape){1, {64}});
}

static void speech(void **state) {
  need_onnx();
  check_network("deepspeech2-tiny", (ronde__shape){3, {1, 80, 40}});
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder_with_log, remove_folder)
  const struct CMUnitTest tests[] = {
      TEST(a_causal_transformer),
      TEST(bert_and_its_padding),
      TEST(two_sequences),
      TEST(lstms_with_lengths),
      TEST(speech),
  };
#undef TEST
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The published sizes of networks whose tiny forms are compared with PyTorch: each parameter and buffer has the name and the
 * shape that it has in torchvision Hugging Face and in the PyTorch networks of tests/golden (tests/golden/make_networks.py), and there are no others but constants. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job/job.h"
#include "models_testing.h"

enum { MOST = 1200 };

typedef struct tensor {
  char name[96], shape[40];
  int n_met;
} tensor;

static tensor wanted[MOST];

static int read_wanted(const char *network) {
  char path[1024], line[256], of[40];
  int n = 0;
  snprintf(path, sizeof path, "%s/tests/golden/networks.txt", RONDE_SOURCE_DIR);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  while (fgets(line, sizeof line, file)) {
    assert_true(n < MOST);
    assert_int_equal(sscanf(line, "%39s %95s %39s", of, wanted[n].name, wanted[n].shape), 3);
    wanted[n].n_met = 0;
    n += !strcmp(of, network);
  }
  fclose(file);
  return n;
}

/* A counter has no dimensions, and is written as 1. */
static void meet(int n, const char *name, const ronde__shape *shape) {
  char text[40] = "1";
  int length = 0;
  for (int d = 0; d < shape->rank; d++)
    length += snprintf(text + length, sizeof text - (size_t)length, "%s%lld", d ? "x" : "", (long long)shape->dim[d]);
  for (int i = 0; i < n; i++) {
    if (strcmp(wanted[i].name, name)) continue;
    assert_string_equal(text, wanted[i].shape);
    wanted[i].n_met++;
    return;
  }
  fail_msg("%s is no name of it", name);
}

static void check_network(const char *name, int64_t parameters) {
  const ronde__model *model = ronde__model_find(name);
  const ronde__model_options options = {.dropout = model->dropout};
  ronde__shape shape = ronde__model_shape(model);
  ronde_graph *graph;
  int n = read_wanted(name);
  assert_int_equal(ronde__model_graph(model, &options, &shape, model->vocabulary, model->classes, &graph), RONDE_OK);
  assert_int_equal(ronde_graph_parameters(graph), parameters);
  for (int i = 0; i < graph->n_params; i++)
    if (!graph->params[i].fixed) meet(n, graph->params[i].name, &graph->params[i].shape);
  for (int i = 0; i < graph->n_buffers; i++) meet(n, graph->buffers[i].name, &graph->buffers[i].shape);
  assert_in_range(n, 1, MOST);
  for (int i = 0; i < n; i++)
    if (wanted[i].n_met != 1) fail_msg("%s: %s is there %d times", name, wanted[i].name, wanted[i].n_met);
  ronde_graph_destroy(graph);
}

static void vgg16_is_torchvisions(void **state) { check_network("vgg16", 138357544); }
static void inception_v3_is_torchvisions(void **state) { check_network("inception-v3", 23834568); }
static void deepspeech2_is_that_of_pytorch(void **state) { check_network("deepspeech2", 37962368); }
static void tacotron2_is_nvidias(void **state) { check_network("tacotron2", 28193153); }
static void gnmt_is_nvidias(void **state) { check_network("gnmt", 160671297); }
static void bert_is_hugging_faces(void **state) { check_network("bert", 109514298); }

/* As fvcore and torchvision count them, and bench/peers/pytorch_count.py: multiply-adds, of which each is two operations here. */
static void operations_are_counted(void **state) {
  const struct {
    const char *name;
    double least, most; /* multiply-adds, in millions */
  } known[] = {{"vgg16", 15460, 15490}, {"inception-v3", 5700, 5730}, {"bert-tiny", 50, 80}, {"gnmt", 6370, 6390}};
  for (size_t i = 0; i < RONDE__COUNT(known); i++) {
    const ronde__model *model = ronde__model_find(known[i].name);
    ronde__shape shape = ronde__model_shape(model);
    ronde_graph *graph;
    assert_int_equal(
        ronde__model_graph(model, &(ronde__model_options){0}, &shape, model->vocabulary, model->classes, &graph),
        RONDE_OK);
    double millions = (double)ronde_graph_forward_flops(graph) / 2e6;
    if (!(millions > known[i].least && millions < known[i].most)) fail_msg("%s: %g", known[i].name, millions);
    ronde_graph_destroy(graph);
  }
}

/* A parameter's first values; the caller frees them. */
static float *first_values(const ronde__model *model, const char *name, uint64_t seed, size_t *n_out) {
  ronde__shape shape = ronde__model_shape(model);
  ronde_graph *graph;
  ronde__pool *pool;
  ronde__net *net;
  assert_int_equal(
      ronde__model_graph(model, &(ronde__model_options){0}, &shape, model->vocabulary, model->classes, &graph),
      RONDE_OK);
  assert_int_equal(ronde__pool_create(1, &pool), RONDE_OK);
  ronde__net_options options = {.compute = {ronde__kernels_available(0), RONDE__GEMM_TILE, NULL}, .pool = pool};
  assert_int_equal(ronde__net_create(graph, &options, &net), RONDE_OK);
  assert_int_equal(ronde__net_init(net, seed), RONDE_OK);
  int n, i = 0;
  const ronde__net_param *params = ronde__net_params(net, &n);
  while (i < n && strcmp(params[i].name, name) != 0) i++;
  assert_true(i < n);
  size_t elems = (size_t)ronde__shape_elems(&params[i].shape);
  float *values = malloc(elems * sizeof *values);
  assert_non_null(values);
  ronde__net_get(net, i, values);
  ronde__net_destroy(net);
  ronde__pool_destroy(pool);
  ronde_graph_destroy(graph);
  *n_out = elems;
  return values;
}

static double first_deviation(const ronde__model *model, const char *name, uint64_t seed) {
  size_t n;
  float *values = first_values(model, name, seed, &n);
  double squares = 0;
  for (size_t k = 0; k < n; k++) squares += (double)values[k] * (double)values[k];
  free(values);
  return sqrt(squares / (double)n);
}

/* As in the networks they are named after: places that are all alike at first tell attention nothing. */
static void positions_begin_with_what_is_drawn(void **state) {
  static const char *const known[][2] = {{"gpt-tiny", "transformer.wpe.weight"},
                                         {"bert-tiny", "bert.embeddings.position_embeddings.weight"}};
  for (size_t i = 0; i < RONDE__COUNT(known); i++) {
    const ronde__model *model = ronde__model_find(known[i][0]);
    double one = first_deviation(model, known[i][1], 1), other = first_deviation(model, known[i][1], 2);
    if (!(fabs(one - 0.02) < 0.001 && fabs(other - 0.02) < 0.001)) fail_msg("%s: %g, %g", known[i][0], one, other);
    assert_true(one != other);
  }
}

/* seq2seq/models of MLPerf's rnn_translator: all by U(-0.1, 0.1) but for what is 0 or by the width here. */
static void gnmt_begins_as_mlperfs(void **state) {
  static const char *const drawn[] = {"encoder.embedder.weight",
                                      "encoder.rnn_layers.0.weight_ih_l0",
                                      "encoder.rnn_layers.0.weight_hh_l0_reverse",
                                      "encoder.rnn_layers.2.bias_ih_l0",
                                      "decoder.att_rnn.rnn.weight_hh_l0",
                                      "decoder.att_rnn.attn.linear_att",
                                      "decoder.att_rnn.attn.linear_q.weight",
                                      "decoder.att_rnn.attn.linear_k.weight",
                                      "decoder.rnn_layers.1.weight_ih_l0",
                                      "decoder.classifier.classifier.weight",
                                      "decoder.classifier.classifier.bias"};
  static const struct {
    const char *name;
    float value;
  } fixed[] = {{"encoder.rnn_layers.0.bias_hh_l0", 0},
               {"encoder.rnn_layers.0.bias_hh_l0_reverse", 0},
               {"decoder.att_rnn.rnn.bias_hh_l0", 0},
               {"decoder.rnn_layers.1.bias_hh_l0", 0},
               {"decoder.att_rnn.attn.normalize_bias", 0},
               {"decoder.att_rnn.attn.normalize_scalar", 0.14433757f}}; /* 1 / sqrt(48) */
  const ronde__model *model = ronde__model_find("gnmt-tiny");
  size_t n;
  for (size_t i = 0; i < RONDE__COUNT(drawn); i++) {
    float *values = first_values(model, drawn[i], 1, &n), least = 1, most = -1;
    for (size_t k = 0; k < n; k++) least = fminf(least, values[k]), most = fmaxf(most, values[k]);
    if (!(least >= -0.1f && least < -0.08f && most > 0.08f && most <= 0.1f))
      fail_msg("%s: %g to %g", drawn[i], (double)least, (double)most);
    free(values);
  }
  for (size_t i = 0; i < RONDE__COUNT(fixed); i++) {
    float *values = first_values(model, fixed[i].name, 1, &n);
    for (size_t k = 0; k < n; k++)
      if (!(fabsf(values[k] - fixed[i].value) <= 1e-7f)) fail_msg("%s: %g", fixed[i].name, (double)values[k]);
    free(values);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(vgg16_is_torchvisions),  cmocka_unit_test(inception_v3_is_torchvisions),
      cmocka_unit_test(bert_is_hugging_faces),  cmocka_unit_test(deepspeech2_is_that_of_pytorch),
      cmocka_unit_test(gnmt_is_nvidias),        cmocka_unit_test(tacotron2_is_nvidias),
      cmocka_unit_test(operations_are_counted), cmocka_unit_test(positions_begin_with_what_is_drawn),
      cmocka_unit_test(gnmt_begins_as_mlperfs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

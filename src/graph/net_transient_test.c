/* Gradients that are handed out and not kept are those that are kept, and tied parameters have one gradient. */
#include "graph/net_testing.h"

#include <stdatomic.h>

static ronde__pool *pool;

static int start_pool(void **unused) { return ronde__pool_create(3, &pool) != RONDE_OK; }

static int stop_pool(void **unused) {
  ronde__pool_destroy(pool);
  return 0;
}

static ronde__net *net_of(const ronde_graph *graph, bool transient) {
  ronde__net_options options = {.compute = {.kernels = ronde__kernels_available(0), .gemm = RONDE__GEMM_XSMM},
                                .pool = pool,
                                .training = true,
                                .transient_gradients = transient};
  ronde__net *net;
  assert_int_equal(ronde__net_create(graph, &options, &net), RONDE_OK);
  assert_int_equal(ronde__net_init(net, 7), RONDE_OK);
  return net;
}

/* What a net hands out. */
typedef struct taken {
  ronde__net *net;
  float *gradients;       /* as the flat array would be */
  _Atomic uint8_t *times; /* each element was given */
  _Atomic int n_concurrent;
} taken;

static void take(void *user, const ronde__gradient *g) {
  taken *t = user;
  int n_params;
  const ronde__net_param *p = &ronde__net_params(t->net, &n_params)[g->param];
  size_t n = g->end - g->begin;
  assert_true(g->begin >= p->offset && g->end <= p->offset + p->n_packed && g->begin < g->end);
  memcpy(t->gradients + g->begin, g->data, n * sizeof *g->data);
  for (size_t i = 0; i < n; i++) atomic_fetch_add(&t->times[g->begin + i], 1);
  /* Who takes a gradient that is not kept may change these weights. */
  for (size_t i = 0; i < n && !ronde__net_gradients(t->net); i++) ronde__net_values(t->net)[g->begin + i] = NAN;
  t->n_concurrent += g->concurrent;
}

static void backward_of(taken *t, const ronde__net_batch *batch) {
  ronde__net_hooks hooks = {.gradient = take, .user = t};
  ronde__net_result result;
  size_t n = ronde__net_n_elems(t->net);
  t->gradients = calloc(n, sizeof *t->gradients);
  t->times = calloc(n, sizeof *t->times);
  assert_int_equal(ronde__net_forward(t->net, batch, 0.2f, NULL, &result), RONDE_OK);
  assert_int_equal(ronde__net_backward(t->net, false, &hooks), RONDE_OK);
}

static void check_taken(const char *name, taken *t, ronde__net *kept) {
  int n_params;
  const ronde__net_param *params = ronde__net_params(kept, &n_params);
  assert_null(ronde__net_gradients(t->net));
  assert_int_equal(ronde__net_memory_use(t->net).gradients, 0);
  for (int p = 0; p < n_params; p++) {
    for (size_t i = 0; i < params[p].n_elems; i++)
      assert_int_equal(t->times[params[p].offset + i], i < params[p].n_packed && !params[p].frozen);
    if (params[p].frozen) continue;
    for (size_t i = params[p].offset; i < params[p].offset + params[p].n_packed; i++)
      if (!is_dead(kept, i) && memcmp(&t->gradients[i], &ronde__net_gradients(kept)[i], sizeof(float)))
        fail_msg("%s: the gradient of %s is another", name, params[p].name);
  }
  free(t->gradients);
  free(t->times);
}

/* The parameters in the mask are frozen: nothing is handed out of them. */
static void check_network(const network *network, unsigned frozen) {
  ronde_graph *graph = graph_of(network);
  for (int p = 0; p < graph->n_params; p++) graph->params[p].frozen = frozen >> p & 1;
  ronde__net *kept = net_of(graph, false);
  taken t = {.net = net_of(graph, true)};
  examples e = examples_make(graph, 5);
  ronde__net_result result;
  assert_int_equal(ronde__net_forward(kept, &e.batch, 0.2f, NULL, &result), RONDE_OK);
  assert_int_equal(ronde__net_backward(kept, false, NULL), RONDE_OK);
  backward_of(&t, &e.batch);
  check_taken(network->name, &t, kept);
  examples_free(&e);
  ronde__net_destroy(t.net), ronde__net_destroy(kept);
  ronde_graph_destroy(graph);
}

/* Layers that see 650 rows of five examples. */
static void build_many_rows(ronde_graph *graph, ronde_tensor *x) {
  x = ronde_tanh(ronde_linear(x, "fc1", 70, true));
  x = ronde_tanh(ronde_linear(x, "fc2", 20, true));
  ronde_graph_set_output(graph, ronde_linear(ronde_flatten(x), "fc3", 5, true));
}

static void what_is_handed_out_is_what_is_kept(void **unused) {
  static const network many_rows = {"many_rows", 26, 5, 20, build_many_rows};
  static const unsigned frozen[] = {0, 1, 7, 0x55555555, 0xaaaaaaaa};
  for (size_t i = 0; i < RONDE__COUNT(networks); i++)
    for (size_t f = 0; f < RONDE__COUNT(frozen); f++) check_network(&networks[i], frozen[f]);
  for (size_t f = 0; f < RONDE__COUNT(frozen); f++) check_network(&many_rows, frozen[f]);
}

/* ---- tied parameters ---- */

/* The third layer's bias is its own. */
static void build_alike(ronde_graph *graph, ronde_tensor *x, const char *third) {
  x = ronde_tanh(ronde_linear(x, "fc1", 20, true));
  x = ronde_tanh(ronde_linear(x, "fc2", 20, false));
  x = ronde_tanh(ronde_linear(x, third, 20, true));
  ronde_graph_set_output(graph, ronde_linear(x, "fc4", 5, true));
}

static void build_three_alike(ronde_graph *graph, ronde_tensor *x) { build_alike(graph, x, "fc3"); }

static void build_two_tied(ronde_graph *graph, ronde_tensor *x) {
  ronde_graph_share(graph, "fc2");
  build_alike(graph, x, "fc2");
}

enum { FC2_WEIGHT = 2, FC3_WEIGHT = 3 };

static void a_tied_parameter_has_one_gradient(void **unused) {
  static const network alike = {"alike", 13, 0, 0, build_three_alike}, two = {"tied", 13, 0, 0, build_two_tied};
  ronde_graph *apart_graph = graph_of(&alike), *tied_graph = graph_of(&two);
  ronde__net *apart = net_of(apart_graph, false), *kept = net_of(tied_graph, false);
  taken t = {.net = net_of(tied_graph, true)}, of_kept = {.net = kept};
  examples e = examples_make(tied_graph, 5);
  float w[400], sum[400], second[400], tied[400];
  ronde__net_get(kept, FC2_WEIGHT, w);
  ronde__net_set(apart, FC3_WEIGHT, w);
  float bias[20] = {0}, last[100], last_bias[5] = {0};
  ronde__net_set(apart, FC3_WEIGHT + 1, bias), ronde__net_set(kept, FC2_WEIGHT + 1, bias);
  ronde__net_set(t.net, FC2_WEIGHT + 1, bias), ronde__net_set(t.net, FC2_WEIGHT + 3, last_bias);
  ronde__net_get(kept, FC2_WEIGHT + 2, last), ronde__net_set(apart, FC3_WEIGHT + 2, last);
  ronde__net_set(kept, FC2_WEIGHT + 3, last_bias), ronde__net_set(apart, FC3_WEIGHT + 3, last_bias);
  ronde__net_result result;
  assert_int_equal(ronde__net_forward(apart, &e.batch, 0.2f, NULL, &result), RONDE_OK);
  assert_int_equal(ronde__net_backward(apart, false, NULL), RONDE_OK);
  ronde__net_get_gradient(apart, FC2_WEIGHT, sum);
  ronde__net_get_gradient(apart, FC3_WEIGHT, second);
  backward_of(&of_kept, &e.batch);
  for (int p = 0; p < tied_graph->n_params; p++) {
    int n_params;
    assert_int_equal(of_kept.times[ronde__net_params(kept, &n_params)[p].offset], 1);
  }
  ronde__net_get_gradient(kept, FC2_WEIGHT, tied);
  for (int i = 0; i < 400; i++) assert_true(fabsf(tied[i] - (sum[i] + second[i])) <= 1e-6f);
  backward_of(&t, &e.batch);
  check_taken("tied", &t, kept);
  free(of_kept.gradients), free(of_kept.times);
  examples_free(&e);
  ronde__net_destroy(apart), ronde__net_destroy(kept), ronde__net_destroy(t.net);
  ronde_graph_destroy(apart_graph), ronde_graph_destroy(tied_graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_handed_out_is_what_is_kept),
      cmocka_unit_test(a_tied_parameter_has_one_gradient),
  };
  return cmocka_run_group_tests(tests, start_pool, stop_pool);
}

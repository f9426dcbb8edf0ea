/* Taps that meet nothing but padding: the net knows exactly these, and backward leaves zeros there. */
#include "graph/net_testing.h"

static ronde__net *make_net(const ronde_graph *graph, bool transient) {
  ronde__net_options options = {.compute = {.kernels = ronde__kernels_available(0), .gemm = RONDE__GEMM_XSMM},
                                .training = true,
                                .transient_gradients = transient};
  ronde__net *net;
  assert_int_equal(ronde__net_create(graph, &options, &net), RONDE_OK);
  assert_int_equal(ronde__net_init(net, 7), RONDE_OK);
  return net;
}

static ronde__net *net_of(const ronde_graph *graph) { return make_net(graph, false); }

/* Kept gradients, which start as zeros, are written where they live, and there alone. */
static void dead_gradients_stay_zero(void **unused) {
  for (size_t i = 0; i < RONDE__COUNT(networks); i++) {
    ronde_graph *graph = graph_of(&networks[i]);
    ronde__net *net = net_of(graph);
    examples e = examples_make(graph, 5);
    ronde__net_result result;
    int n_dead;
    const ronde__range *dead = ronde__net_dead(net, &n_dead);
    spoil_gradients(net);
    assert_int_equal(ronde__net_forward(net, &e.batch, 0.2f, NULL, &result), RONDE_OK);
    assert_int_equal(ronde__net_backward(net, false, NULL), RONDE_OK);
    for (int d = 0; d < n_dead; d++) {
      if (d > 0) assert_true(dead[d].begin >= dead[d - 1].begin + dead[d - 1].n);
      for (size_t j = 0; j < dead[d].n; j++) assert_true(ronde__net_gradients(net)[dead[d].begin + j] == 0);
    }
    examples_free(&e);
    ronde__net_destroy(net);
    ronde_graph_destroy(graph);
  }
}

typedef struct pair {
  ronde__net *kept, *transient;
  int n_left; /* dead elements that were not set to zero */
} pair;

static void compare(void *user, const ronde__gradient *g) {
  pair *both = user;
  const float *expected = ronde__net_gradients(both->kept) + g->begin;
  for (size_t j = 0; j < g->end - g->begin && !g->concurrent; j++) {
    if (is_dead(both->kept, g->begin + j)) both->n_left += g->data[j] != 0;
    else assert_memory_equal(&g->data[j], &expected[j], sizeof(float));
  }
}

/* Gradients that are not kept lie where anything else has lain before: nobody spends time on setting dead ones. */
static void transient_dead_gradients_are_not_set(void **unused) {
  static const network small = {"dead_taps", 3, 4, 4, build_dead_taps};
  ronde_graph *graph = graph_of(&small);
  pair both = {net_of(graph), make_net(graph, true), 0};
  examples e = examples_make(graph, 5);
  ronde__net_hooks hooks = {.gradient = compare, .user = &both};
  ronde__net_result result;
  assert_int_equal(ronde__net_forward(both.kept, &e.batch, 0.2f, NULL, &result), RONDE_OK);
  assert_int_equal(ronde__net_backward(both.kept, false, NULL), RONDE_OK);
  assert_int_equal(ronde__net_forward(both.transient, &e.batch, 0.2f, NULL, &result), RONDE_OK);
  assert_int_equal(ronde__net_backward(both.transient, false, &hooks), RONDE_OK);
  assert_true(both.n_left > 0);
  examples_free(&e);
  ronde__net_destroy(both.kept);
  ronde__net_destroy(both.transient);
  ronde_graph_destroy(graph);
}

/* Whether the taps of the parameter that the net calls dead are all but these; bit t of live: tap t. */
static void check_taps(const ronde__net *net, int param, unsigned live) {
  int n_params;
  const ronde__net_param *p = &ronde__net_params(net, &n_params)[param];
  for (int64_t o = 0; o < p->layout.o; o++)
    for (int64_t i = 0; i < p->layout.i; i++)
      for (int64_t t = 0; t < p->layout.t; t++)
        assert_int_equal(is_dead(net, p->offset + (size_t)ronde__weight_index(&p->layout, o, i, t)), !(live >> t & 1));
}

enum { ALL = 0777, CENTRE = 0020, LOWER_RIGHT = 0660, CONV2_WEIGHT = 2, CONV3_WEIGHT = 4 };

static void taps_in_the_padding_are_dead(void **unused) {
  static const network small = {"dead_taps", 3, 4, 4, build_dead_taps};
  ronde_graph *graph = graph_of(&small);
  ronde__net *net = net_of(graph);
  for (int p = 0; p < graph->n_params; p++)
    check_taps(net, p, p == CONV2_WEIGHT ? LOWER_RIGHT : p == CONV3_WEIGHT ? CENTRE : ALL);
  ronde__net_destroy(net);
  graph->params[CONV2_WEIGHT].frozen = true; /* it has no gradient at all */
  net = net_of(graph);
  check_taps(net, CONV2_WEIGHT, ALL);
  check_taps(net, CONV3_WEIGHT, CENTRE);
  ronde__net_destroy(net);
  ronde_graph_destroy(graph);
}

static void build_two_sizes(ronde_graph *graph, ronde_tensor *x) {
  x = max_pool(ronde_tanh(conv(conv(x, "conv1", 40, 3, 2, 1), "conv2", 40, 3, 1, 1)), 2, 0);
  classify(graph, ronde_tanh(conv(x, "conv3", 40, 3, 1, 1)), "fc1");
}

/* conv3 reads conv2's weights; no public call does this yet. */
static void a_tap_lives_where_any_layer_needs_it(void **unused) {
  static const network two = {"two_sizes", 3, 4, 4, build_two_sizes};
  ronde_graph *graph = graph_of(&two);
  ronde__net *net = net_of(graph);
  check_taps(net, CONV2_WEIGHT, ALL);
  check_taps(net, CONV3_WEIGHT, CENTRE);
  ronde__net_destroy(net);
  for (int i = 0; i < graph->n_nodes; i++)
    if (graph->nodes[i].n_params && graph->nodes[i].param[0] == CONV3_WEIGHT) graph->nodes[i].param[0] = CONV2_WEIGHT;
  net = net_of(graph);
  check_taps(net, CONV2_WEIGHT, ALL);
  ronde__net_destroy(net);
  ronde_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(dead_gradients_stay_zero),
      cmocka_unit_test(transient_dead_gradients_are_not_set),
      cmocka_unit_test(taps_in_the_padding_are_dead),
      cmocka_unit_test(a_tap_lives_where_any_layer_needs_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

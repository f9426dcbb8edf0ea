/* A loss that takes the network's own place: the same results and gradients, to the last bit, by plans and eagerly. */
#include "graph/net_testing.h"

enum { EXAMPLES = 6 };

typedef struct judge {
  ronde__loss *loss;
  ronde__net_batch batch;
  int64_t asked; /* how many examples; -1: never */
  float spoil;   /* added to a gradient, for the planted bug */
  float *outputs;
} judge;

static ronde_status ask(void *user, int64_t n, ronde__net_result *result_out) {
  judge *j = user;
  j->asked = n;
  RONDE_TRY(ronde__loss_run(j->loss, &j->batch, 0.125f, j->outputs, result_out));
  j->outputs[0] += j->spoil;
  return RONDE_OK;
}

static ronde_status define(void *user, ronde_graph *graph) {
  const network *network = user;
  network->build(graph, input_of(graph, network));
  return ronde__graph_finish(graph);
}

static ronde__net *net_of(const ronde_graph *graph, const network *eager) {
  ronde__net_options options = {.compute = {.kernels = ronde__kernels_available(0), .gemm = RONDE__GEMM_XSMM},
                                .training = true};
  if (eager) options.define = define, options.define_user = (void *)eager;
  ronde__net *net;
  assert_int_equal(ronde__net_create(graph, &options, &net), RONDE_OK);
  assert_int_equal(ronde__net_init(net, 7), RONDE_OK);
  return net;
}

static judge judge_of(const ronde_graph *graph, const examples *e) {
  judge j = {.batch = e->batch, .asked = -1};
  assert_int_equal(ronde__loss_create(graph, ronde__kernels_available(0), NULL, &j.loss), RONDE_OK);
  j.outputs = malloc((size_t)(EXAMPLES * ronde__loss_elems(graph)) * sizeof *j.outputs);
  return j;
}

static ronde__net_result pass(ronde__net *net, const examples *e, judge *j) {
  ronde__net_hooks hooks = {0};
  if (j) hooks = (ronde__net_hooks){.loss = ask, .outputs = j->outputs, .user = j};
  ronde__net_result result;
  spoil_gradients(net);
  assert_int_equal(ronde__net_forward(net, &e->batch, 0.125f, &hooks, &result), RONDE_OK);
  assert_int_equal(ronde__net_backward(net, false, &hooks), RONDE_OK);
  return result;
}

static bool same_gradients(ronde__net *a, ronde__net *b) {
  return !memcmp(ronde__net_gradients(a), ronde__net_gradients(b), ronde__net_n_trained(a) * sizeof(float));
}

static void check(const network *network, bool eager, float smoothing) {
  ronde_graph *graph = graph_of(network);
  ronde__node *loss_node = &graph->nodes[graph->tensors[graph->loss]->producer];
  if (!eager && loss_node->kind == RONDE__OP_CROSS_ENTROPY) loss_node->attr.label_smoothing = smoothing;
  ronde__net *own = net_of(graph, eager ? network : NULL), *judged = net_of(graph, eager ? network : NULL);
  examples e = examples_make(graph, EXAMPLES);
  e.batch.training = true;
  judge j = judge_of(graph, &e);
  ronde__net_result a = pass(own, &e, NULL), b = pass(judged, &e, &j);
  assert_int_equal(j.asked, EXAMPLES);
  if (a.loss_sum != b.loss_sum || a.n_correct != b.n_correct)
    fail_msg("%s: losses of %g and %g, %d and %d correct", network->name, a.loss_sum, b.loss_sum, (int)a.n_correct,
             (int)b.n_correct);
  if (!same_gradients(own, judged)) fail_msg("%s: gradients differ", network->name);
  j.spoil = 1;
  pass(judged, &e, &j);
  if (same_gradients(own, judged)) fail_msg("%s: another gradient of the outputs changes nothing", network->name);
  ronde__loss_destroy(j.loss);
  free(j.outputs);
  examples_free(&e);
  ronde__net_destroy(own);
  ronde__net_destroy(judged);
  ronde_graph_destroy(graph);
}

static void a_loss_apart_has_the_bits_of_the_networks_own(void **state) {
  for (size_t i = 0; i < RONDE__COUNT(networks); i++)
    for (int eager = 0; eager < 2; eager++) {
      check(&networks[i], eager, 0);
      check(&networks[i], eager, 0.1f);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_loss_apart_has_the_bits_of_the_networks_own),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Gradients of whole networks against central differences of the loss over their parameters. */
#include "graph/net_testing.h"

enum { BATCH = 6, SAMPLES = 12 };

static double loss_of(ronde__net *net, const ronde__net_batch *batch) {
  ronde__net_result result;
  assert_int_equal(ronde__net_forward(net, batch, 1 / (float)batch->n, NULL, &result), RONDE_OK);
  return result.loss_sum / (double)batch->n;
}

/* On either side of w: the differences of the loss over h. */
static void slopes_of(ronde__net *net, const ronde__net_batch *batch, float *w, float h, double slopes_out[2]) {
  float at = *w;
  double here = loss_of(net, batch);
  for (int side = 0; side < 2; side++) {
    *w = side ? at + h : at - h;
    slopes_out[side] = (loss_of(net, batch) - here) / ((double)*w - (double)at);
  }
  *w = at;
}

typedef struct tally {
  int checked, kinks;
  double largest;
} tally;

static bool has_kinks(const ronde_graph *graph) {
  bool kinks = false;
  for (int i = 0; i < graph->n_nodes; i++)
    kinks |= graph->nodes[i].attr.act == RONDE__ACT_RELU || graph->nodes[i].kind == RONDE__OP_MAX_POOL2D ||
             graph->nodes[i].kind == RONDE__OP_POINTWISE;
  return kinks;
}

/* Beside a kink of ReLU or max the gradient is the slope of one side, beside several between both; close steps meet
 * few of them. */
static bool gradient_holds(const ronde_graph *graph, ronde__net *net, const ronde__net_batch *batch, float *w,
                           double gradient, tally *t) {
  const bool kinks = has_kinks(graph);
  double slopes[2], bound = 3e-3 * fabs(gradient) + 2e-4;
  if (graph->n_buffers) bound *= 8; /* normalised by few values: slopes curve */
  slopes_of(net, batch, w, kinks ? 1.0f / 1024 : 1.0f / 128, slopes);
  t->checked++;
  t->largest = fmax(t->largest, fabs(gradient));
  if (fabs((slopes[0] + slopes[1]) / 2 - gradient) <= bound) return true;
  bool between = gradient >= fmin(slopes[0], slopes[1]) - bound && gradient <= fmax(slopes[0], slopes[1]) + bound;
  return kinks && between && ++t->kinks;
}

/* The name of the first parameter whose gradient is wrong, or NULL. `spoil`: one whose gradient is bent first. */
static const char *wrong_gradient(const ronde_graph *graph, ronde__gemm_impl gemm, int spoil, tally *t) {
  ronde__net_options options = {.compute = {.kernels = ronde__kernels_available(0), .gemm = gemm}, .training = true};
  ronde__net *net;
  int n_params;
  const char *wrong = NULL;
  assert_int_equal(ronde__net_create(graph, &options, &net), RONDE_OK);
  assert_int_equal(ronde__net_init(net, 3), RONDE_OK);
  examples e = examples_make(graph, BATCH);
  const ronde__net_param *params = ronde__net_params(net, &n_params);
  loss_of(net, &e.batch);
  assert_int_equal(ronde__net_backward(net, false, NULL), RONDE_OK);
  for (int p = 0; p < n_params && !wrong; p++) {
    const ronde__weight_layout *l = &params[p].layout;
    int64_t n = l->o * l->i * l->t;
    for (int64_t s = 0; s < ronde__min(SAMPLES, n) && !wrong; s++) {
      int64_t i = n <= SAMPLES ? s : (s * (n / SAMPLES) + s * 7) % n;
      size_t at = params[p].offset + (size_t)ronde__weight_index(l, i / l->t / l->i, i / l->t % l->i, i % l->t);
      double gradient = (double)ronde__net_gradients(net)[at] + (p == spoil ? 0.005 : 0);
      if (!gradient_holds(graph, net, &e.batch, ronde__net_values(net) + at, gradient, t)) wrong = params[p].name;
    }
  }
  examples_free(&e);
  ronde__net_destroy(net);
  return wrong;
}

static void check_networks(const network *networks, size_t n_networks) {
  for (size_t i = 0; i < n_networks; i++)
    for (ronde__gemm_impl gemm = RONDE__GEMM_TILE; gemm <= RONDE__GEMM_XSMM; gemm++) {
      ronde_graph *graph = graph_of(&networks[i]);
      tally t = {0};
      const char *wrong = wrong_gradient(graph, gemm, -1, &t);
      if (wrong) fail_msg("%s: the gradient of %s is wrong", networks[i].name, wrong);
      if (t.kinks * 4 > t.checked || t.largest < 0.01)
        fail_msg("%s: %d compared, %d kinks, at most %g", networks[i].name, t.checked, t.kinks, t.largest);
      ronde_graph_destroy(graph);
    }
}

static void gradients_are_slopes_of_the_loss(void **unused) {
  check_networks(networks, RONDE__COUNT(networks));
  check_networks(normed_networks, RONDE__COUNT(normed_networks));
  check_networks(sequence_networks, RONDE__COUNT(sequence_networks));
}

static void a_bent_gradient_is_found(void **unused) {
  ronde_graph *graph = graph_of(&networks[4]);
  tally t = {0};
  const char *wrong = wrong_gradient(graph, RONDE__GEMM_TILE, 3, &t);
  assert_non_null(wrong);
  assert_string_equal(wrong, graph->params[3].name);
  ronde_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gradients_are_slopes_of_the_loss),
      cmocka_unit_test(a_bent_gradient_is_found),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

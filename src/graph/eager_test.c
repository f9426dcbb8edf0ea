/* Eager execution of every network of net_testing.h against its plan. */
#include "graph/net_testing.h"

#include <stdio.h>

static ronde__pool *pool;

static int start_pool(void **unused) { return ronde__pool_create(2, &pool) != RONDE_OK; }

static int stop_pool(void **unused) {
  ronde__pool_destroy(pool);
  return 0;
}

static ronde_status define(void *user, ronde_graph *graph) {
  const network *network = user;
  network->build(graph,
                 ronde_input(graph, "input", network->h ? 3 : 1, (int64_t[]){network->c, network->h, network->w}));
  return ronde__graph_finish(graph);
}

static ronde__net *net_of(const ronde_graph *graph, const network *eager) {
  ronde__net_options options = {
      .kernels = ronde__kernels_available(0), .gemm = RONDE__GEMM_XSMM, .pool = pool, .training = true};
  if (eager) options.define = define, options.define_user = (void *)eager;
  ronde__net *net;
  assert_int_equal(ronde__net_create(graph, &options, &net), RONDE_OK);
  assert_int_equal(ronde__net_init(net, 7), RONDE_OK);
  return net;
}

/* The same sums in the same order, but for what fusing regroups. */
static void assert_close(const char *what, const char *name, const float *a, const float *b, int64_t n) {
  double largest = 1e-30, difference = 0;
  for (int64_t i = 0; i < n; i++) {
    largest = fmax(largest, fabs((double)a[i]));
    difference = fmax(difference, fabs((double)a[i] - b[i]));
  }
  if (!(difference <= 1e-6 * largest)) fail_msg("%s: %s differ by %g of %g", name, what, difference, largest);
}

static void assert_equal_gradients(const char *name, ronde__net *planned, ronde__net *eager) {
  int n_params;
  const ronde__net_param *params = ronde__net_params(planned, &n_params);
  for (int i = 0; i < n_params; i++) {
    int64_t n = ronde__shape_elems(&params[i].shape);
    float *a = malloc((size_t)n * sizeof *a), *b = malloc((size_t)n * sizeof *b);
    ronde__net_get_gradient(planned, i, a);
    ronde__net_get_gradient(eager, i, b);
    char text[128];
    snprintf(text, sizeof text, "gradients of %s", params[i].name);
    assert_close(text, name, a, b, n);
    free(a), free(b);
  }
}

static void equals_the_plan(void **unused) {
  for (size_t i = 0; i < RONDE__COUNT(networks); i++) {
    ronde_graph *graph = graph_of(&networks[i]);
    ronde__net *planned = net_of(graph, NULL), *eager = net_of(graph, &networks[i]);
    static const int64_t batches[] = {7, 1, 42, 7};
    for (size_t b = 0; b < RONDE__COUNT(batches); b++) {
      int64_t n = batches[b], outputs = elems_of(graph, graph->output);
      examples e = examples_make(graph, n);
      float *y = malloc((size_t)(n * outputs) * sizeof *y), *z = malloc((size_t)(n * outputs) * sizeof *z);
      assert_int_equal(ronde__net_predict(planned, n, e.x, y), RONDE_OK);
      assert_int_equal(ronde__net_predict(eager, n, e.x, z), RONDE_OK);
      assert_close("outputs", networks[i].name, y, z, n * outputs);
      ronde__net_result a, c;
      for (int accumulate = 0; accumulate < 2; accumulate++) {
        assert_int_equal(ronde__net_forward(planned, &e.batch, 0.1f, NULL, &a), RONDE_OK);
        assert_int_equal(ronde__net_forward(eager, &e.batch, 0.1f, NULL, &c), RONDE_OK);
        assert_true(fabs(a.loss_sum - c.loss_sum) <= 1e-6 * fabs(a.loss_sum));
        assert_int_equal(a.n_correct, c.n_correct);
        assert_int_equal(ronde__net_backward(planned, accumulate, NULL), RONDE_OK);
        assert_int_equal(ronde__net_backward(eager, accumulate, NULL), RONDE_OK);
        assert_equal_gradients(networks[i].name, planned, eager);
      }
      free(y), free(z);
      examples_free(&e);
    }
    ronde__net_destroy(planned);
    ronde__net_destroy(eager);
    ronde_graph_destroy(graph);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equals_the_plan),
  };
  return cmocka_run_group_tests(tests, start_pool, stop_pool);
}

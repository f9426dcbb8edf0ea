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
  network->build(graph, input_of(graph, network));
  return ronde__graph_finish(graph);
}

static ronde__net *net_of(const ronde_graph *graph, const network *eager) {
  ronde__net_options options = {
      .compute = {.kernels = ronde__kernels_available(0), .gemm = RONDE__GEMM_XSMM}, .pool = pool, .training = true};
  if (eager) options.define = define, options.define_user = (void *)eager;
  ronde__net *net;
  assert_int_equal(ronde__net_create(graph, &options, &net), RONDE_OK);
  assert_int_equal(ronde__net_init(net, 7), RONDE_OK);
  return net;
}

/* The same sums in the same order, but for what fusing regroups. */
static double tolerance = 1e-6;

static void assert_close(const char *what, const char *name, const float *a, const float *b, int64_t n) {
  double largest = 1e-30, difference = 0;
  for (int64_t i = 0; i < n; i++) {
    largest = fmax(largest, fabs((double)a[i]));
    difference = fmax(difference, fabs((double)a[i] - b[i]));
  }
  if (!(difference <= tolerance * largest)) fail_msg("%s: %s differ by %g of %g", name, what, difference, largest);
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

static void check_networks(const network *networks, size_t n_networks) {
  for (size_t i = 0; i < n_networks; i++) {
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

static void equals_the_plan(void **unused) {
  check_networks(networks, RONDE__COUNT(networks));
  check_networks(normed_networks, RONDE__COUNT(normed_networks));
  check_networks(sequence_networks, RONDE__COUNT(sequence_networks));
}

/* ---- networks that change ---- */

/* One network by two ways: the sum is stored as its first operand, so that what reads it wants its weights and
 * statistics in another form. */
static void build_sum(ronde_graph *graph, ronde_tensor *x, bool swapped) {
  ronde_tensor *few = conv(x, "conv1", 8, 3, 1, 1), *many = conv(conv(x, "conv2", 40, 3, 1, 1), "conv3", 8, 3, 1, 1);
  ronde_tensor *sum = swapped ? ronde_add(many, few) : ronde_add(few, many);
  classify(graph, ronde_batch_norm2d(sum, "bn1", NULL), "fc1");
}

static void build_straight(ronde_graph *graph, ronde_tensor *x) { build_sum(graph, x, false); }
static void build_swapped(ronde_graph *graph, ronde_tensor *x) { build_sum(graph, x, true); }

static void another_way_to_a_layer(void **unused) {
  static const network straight = {"sum", 3, 6, 6, build_straight}, swapped = {"swapped", 3, 6, 6, build_swapped};
  ronde_graph *graph = graph_of(&straight);
  ronde__net *planned = net_of(graph, NULL), *eager = net_of(graph, &swapped);
  examples e = examples_make(graph, 9);
  for (int accumulate = 0; accumulate < 2; accumulate++) {
    ronde__net_result a, b;
    assert_int_equal(ronde__net_forward(planned, &e.batch, 0.1f, NULL, &a), RONDE_OK);
    assert_int_equal(ronde__net_forward(eager, &e.batch, 0.1f, NULL, &b), RONDE_OK);
    assert_true(fabs(a.loss_sum - b.loss_sum) <= 1e-5 * a.loss_sum);
    assert_int_equal(ronde__net_backward(planned, accumulate, NULL), RONDE_OK);
    assert_int_equal(ronde__net_backward(eager, accumulate, NULL), RONDE_OK);
    tolerance = 2e-5;
    assert_equal_gradients("swapped", planned, eager);
    tolerance = 1e-6;
  }
  int n_buffers;
  ronde__net_buffer *buffers = ronde__net_buffers(eager, &n_buffers);
  assert_int_equal(n_buffers, 3);
  for (int i = 0; i < n_buffers; i++) {
    float a[8], b[8];
    if (buffers[i].is_counter) assert_int_equal(buffers[i].count, 2);
    if (buffers[i].is_counter) continue;
    ronde__net_get_buffer(planned, i, a);
    ronde__net_get_buffer(eager, i, b);
    for (int j = 0; j < 8; j++) assert_true(fabsf(a[j] - b[j]) <= 1e-5f * (1 + fabsf(a[j])));
  }
  examples_free(&e);
  ronde__net_destroy(planned);
  ronde__net_destroy(eager);
  ronde_graph_destroy(graph);
}

typedef struct seen {
  int n_ready[8];
} seen;

static void final(void *user, const ronde__gradient *gradient) {
  seen *s = user;
  s->n_ready[gradient->param]++;
}

static void build_short(ronde_graph *graph, ronde_tensor *x) {
  ronde_graph_set_output(graph, ronde_linear(ronde_tanh(ronde_linear(x, "fc1", 6, true)), "fc3", 5, true));
}

static void build_long(ronde_graph *graph, ronde_tensor *x) {
  x = ronde_tanh(ronde_linear(x, "fc1", 6, true));
  ronde_graph_set_output(graph, ronde_linear(ronde_add(x, ronde_linear(x, "fc2", 6, true)), "fc3", 5, true));
}

static void a_parameter_left_out_has_no_gradient(void **unused) {
  static const network whole = {"long", 6, 0, 0, build_long}, less = {"short", 6, 0, 0, build_short};
  ronde_graph *graph = graph_of(&whole);
  ronde__net *net = net_of(graph, &less);
  examples e = examples_make(graph, 4);
  seen s = {{0}};
  ronde__net_hooks hooks = {.gradient = final, .user = &s};
  ronde__net_result result;
  int n;
  ronde__net_params(net, &n);
  assert_int_equal(n, 6);
  memset(ronde__net_gradients(net), 0xff, ronde__net_n_trained(net) * sizeof(float));
  assert_int_equal(ronde__net_forward(net, &e.batch, 0.25f, &hooks, &result), RONDE_OK);
  assert_int_equal(ronde__net_backward(net, false, &hooks), RONDE_OK);
  for (int i = 0; i < n; i++) {
    float g[36];
    double sum = 0;
    assert_int_equal(s.n_ready[i], 1);
    ronde__net_get_gradient(net, i, g);
    for (int64_t j = 0; j < ronde__shape_elems(&graph->params[i].shape); j++) sum += fabs((double)g[j]);
    assert_true(isfinite(sum) && (sum == 0) == (i == 2 || i == 3)); /* fc2 */
  }
  examples_free(&e);
  ronde__net_destroy(net);
  ronde_graph_destroy(graph);
}

static void a_parameter_cannot_be_added(void **unused) {
  static const network whole = {"long", 6, 0, 0, build_long}, less = {"short", 6, 0, 0, build_short};
  ronde_graph *graph = graph_of(&less);
  ronde__net *net = net_of(graph, &whole);
  examples e = examples_make(graph, 4);
  ronde__net_result result;
  assert_int_equal(ronde__net_forward(net, &e.batch, 0.25f, NULL, &result), RONDE_E_USAGE);
  examples_free(&e);
  ronde__net_destroy(net);
  ronde_graph_destroy(graph);
}

/* ---- memory ---- */

static void passes_take_no_more_and_more_memory(void **unused) {
  const network *lenet = NULL;
  for (size_t i = 0; i < RONDE__COUNT(networks); i++)
    if (strcmp(networks[i].name, "lenet") == 0) lenet = &networks[i];
  ronde_graph *graph = graph_of(lenet);
  ronde__net *net = net_of(graph, lenet);
  examples e = examples_make(graph, 20);
  ronde__net_result result;
  assert_int_equal(ronde__net_prepare(net, 20), RONDE_OK);
  assert_int_equal(ronde__net_memory_use(net).arena, 0);
  size_t first = 0;
  for (int i = 0; i < 20; i++) {
    assert_int_equal(ronde__net_forward(net, &e.batch, 0.25f, NULL, &result), RONDE_OK);
    assert_int_equal(ronde__net_backward(net, false, NULL), RONDE_OK);
    if (i == 0) first = ronde__net_memory_use(net).arena;
    assert_int_equal(ronde__net_memory_use(net).arena, first);
  }
  examples_free(&e);
  ronde__net_destroy(net);
  ronde_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equals_the_plan),
      cmocka_unit_test(another_way_to_a_layer),
      cmocka_unit_test(a_parameter_left_out_has_no_gradient),
      cmocka_unit_test(a_parameter_cannot_be_added),
      cmocka_unit_test(passes_take_no_more_and_more_memory),
  };
  return cmocka_run_group_tests(tests, start_pool, stop_pool);
}

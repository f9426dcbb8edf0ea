/* First convolutions with a max pooling: as one step of the plan where that may be, and eager, call by call: the same
 * bits. */
#include "graph/net_testing.h"
#include "kernel/bf16.h"

#include <math.h>

static ronde_tensor *pool_of(ronde_tensor *x, int h, int w, int stride) {
  return ronde_max_pool2d(
      x, &(ronde_pool2d_options){.kernel = {h, w}, .stride = {stride ? stride : h, stride ? stride : w}});
}

static ronde_tensor *first(ronde_tensor *x, int64_t channels) { return conv(x, "conv1", channels, 3, 1, 1); }

/* Rows and columns are left over behind the last windows. */
static void build_relu(ronde_graph *graph, ronde_tensor *x) {
  classify(graph, pool_of(ronde_relu(first(x, 40)), 2, 2, 0), "fc1");
}

static void build_tanh(ronde_graph *graph, ronde_tensor *x) {
  classify(graph, pool_of(ronde_tanh(first(x, 67)), 3, 2, 0), "fc1");
}

static void build_both(ronde_graph *graph, ronde_tensor *x) {
  classify(graph, pool_of(ronde_relu(ronde_tanh(first(x, 33))), 1, 3, 0), "fc1");
}

static void build_plain(ronde_graph *graph, ronde_tensor *x) {
  classify(graph, pool_of(conv(x, "conv1", 32, 4, 2, 0), 2, 1, 0), "fc1");
}

static void build_overlapping(ronde_graph *graph, ronde_tensor *x) {
  classify(graph, pool_of(ronde_relu(first(x, 40)), 3, 3, 2), "fc1");
}

static void build_read_twice(ronde_graph *graph, ronde_tensor *x) {
  x = ronde_relu(first(x, 40));
  classify(graph, ronde_add(pool_of(x, 2, 2, 0), avg_pool(x, 2)), "fc1");
}

static void build_output(ronde_graph *graph, ronde_tensor *x) {
  x = ronde_relu(first(x, 40));
  ronde_graph_set_output(graph, x);
  ronde_graph_set_loss(
      graph, ronde_mse_loss(ronde_linear(ronde_flatten(pool_of(x, 2, 2, 0)), "fc1", 3, true), ronde_target(graph)));
}

static void build_few_channels(ronde_graph *graph, ronde_tensor *x) {
  classify(graph, pool_of(ronde_relu(first(x, 6)), 2, 2, 0), "fc1");
}

static void build_second(ronde_graph *graph, ronde_tensor *x) {
  classify(graph, pool_of(ronde_relu(conv(first(x, 35), "conv2", 35, 3, 1, 1)), 2, 2, 0), "fc1");
}

/* A ReLU cannot be told from the last of 256 places. */
static void build_large_window(ronde_graph *graph, ronde_tensor *x) {
  classify(graph, pool_of(ronde_relu(first(x, 32)), 16, 16, 0), "fc1");
}

static const struct {
  network network;
  const char *steps[2]; /* of the convolution and the pooling */
} cases[] = {
    {{"relu", 3, 9, 7, build_relu}, {"convolution+relu+max_pool"}},
    {{"tanh", 1, 10, 11, build_tanh}, {"convolution+tanh+max_pool"}},
    {{"both", 2, 5, 8, build_both}, {"convolution+tanh+relu+max_pool"}},
    {{"plain", 2, 12, 9, build_plain}, {"convolution+max_pool"}},
    {{"overlapping", 3, 9, 7, build_overlapping}, {"convolution", "max_pool+relu"}},
    {{"read_twice", 3, 6, 6, build_read_twice}, {"convolution+relu", "max_pool"}},
    {{"output", 3, 6, 6, build_output}, {"convolution+relu", "max_pool"}},
    {{"few_channels", 3, 6, 6, build_few_channels}, {"convolution", "max_pool+relu"}},
    {{"second", 3, 6, 6, build_second}, {"convolution", "max_pool+relu"}},
    {{"large_window", 1, 16, 17, build_large_window}, {"convolution+relu+max_pool"}},
};

static ronde_status define(void *user, ronde_graph *graph) {
  const network *n = user;
  n->build(graph, ronde_input(graph, "input", 3, (int64_t[]){n->c, n->h, n->w}));
  return ronde__graph_finish(graph);
}

static const ronde__bf16 *bf16; /* NULL: layers multiply in f32 */

static ronde__net *net_of(const ronde_graph *graph, const network *eager, ronde__pool *pool, ronde__prof *prof) {
  ronde__net_options options = {
      .compute = {ronde__kernels_available(0), RONDE__GEMM_XSMM, bf16}, .pool = pool, .prof = prof, .training = true};
  if (eager) options.define = define, options.define_user = (void *)eager;
  ronde__net *net;
  assert_int_equal(ronde__net_create(graph, &options, &net), RONDE_OK);
  assert_int_equal(ronde__net_init(net, 7), RONDE_OK);
  return net;
}

static void assert_equal_passes(const ronde_graph *graph, ronde__net *a, ronde__net *b, int64_t n) {
  int64_t outputs = n * elems_of(graph, graph->output);
  examples e = examples_make(graph, n);
  float *y = malloc((size_t)outputs * sizeof *y), *z = malloc((size_t)outputs * sizeof *z);
  assert_int_equal(ronde__net_predict(a, n, e.x, y), RONDE_OK);
  assert_int_equal(ronde__net_predict(b, n, e.x, z), RONDE_OK);
  assert_memory_equal(y, z, (size_t)outputs * sizeof *y);
  for (int accumulate = 0; accumulate < 2; accumulate++) {
    ronde__net_result of_a, of_b;
    assert_int_equal(ronde__net_forward(a, &e.batch, 0.1f, NULL, &of_a), RONDE_OK);
    assert_int_equal(ronde__net_forward(b, &e.batch, 0.1f, NULL, &of_b), RONDE_OK);
    assert_true(of_a.loss_sum == of_b.loss_sum);
    assert_int_equal(ronde__net_backward(a, accumulate, NULL), RONDE_OK);
    assert_int_equal(ronde__net_backward(b, accumulate, NULL), RONDE_OK);
    assert_memory_equal(ronde__net_gradients(a), ronde__net_gradients(b), ronde__net_n_elems(a) * sizeof(float));
  }
  free(y), free(z);
  examples_free(&e);
}

static void same_bits_joined_and_apart(void **unused) {
  for (size_t i = 0; i < RONDE__COUNT(cases); i++)
    for (int threads = 1; threads <= 3; threads += 2) {
      ronde__pool *pool;
      assert_int_equal(ronde__pool_create(threads, &pool), RONDE_OK);
      ronde_graph *graph = graph_of(&cases[i].network);
      ronde__net *planned = net_of(graph, NULL, pool, NULL), *eager = net_of(graph, &cases[i].network, pool, NULL);
      static const int64_t batches[] = {7, 1, 42, 130};
      for (size_t b = 0; b < RONDE__COUNT(batches); b++) assert_equal_passes(graph, planned, eager, batches[b]);
      ronde__net_destroy(planned), ronde__net_destroy(eager);
      ronde_graph_destroy(graph);
      ronde__pool_destroy(pool);
    }
}

static ronde__net *net_with(const ronde_graph *graph, ronde__pool *pool, const ronde__bf16 *format) {
  bf16 = format;
  ronde__net *net = net_of(graph, NULL, pool, NULL);
  bf16 = NULL;
  return net;
}

/* Near f32, where rounding now and then makes another place the maximum; and the same bits on three threads. */
static void joined_in_bfloat16(void **unused) {
  static const int64_t batches[] = {7, 1, 42, 130};
  ronde__pool *pool;
  assert_int_equal(ronde__pool_create(3, &pool), RONDE_OK);
  for (size_t i = 0; i < RONDE__COUNT(cases) && ronde__bf16_available(0); i++) {
    ronde_graph *graph = graph_of(&cases[i].network);
    ronde__net *f32 = net_with(graph, NULL, NULL), *one = net_with(graph, NULL, ronde__bf16_available(0));
    ronde__net *three = net_with(graph, pool, ronde__bf16_available(0));
    for (size_t b = 0; b < RONDE__COUNT(batches); b++) {
      examples e = examples_make(graph, batches[b]);
      ronde__net *const nets[] = {f32, one, three};
      ronde__net_result results[3];
      for (int n = 0; n < 3; n++) {
        assert_int_equal(ronde__net_forward(nets[n], &e.batch, 1 / (float)batches[b], NULL, &results[n]), RONDE_OK);
        assert_int_equal(ronde__net_backward(nets[n], false, NULL), RONDE_OK);
      }
      assert_true(fabs(results[1].loss_sum - results[0].loss_sum) <= 0.02 * fabs(results[0].loss_sum));
      assert_gradients_near(one, f32, cases[i].network.name, 0.1);
      assert_true(results[1].loss_sum == results[2].loss_sum);
      assert_memory_equal(ronde__net_gradients(one), ronde__net_gradients(three),
                          ronde__net_n_elems(one) * sizeof(float));
      examples_free(&e);
    }
    ronde__net_destroy(f32), ronde__net_destroy(one), ronde__net_destroy(three);
    ronde_graph_destroy(graph);
  }
  ronde__pool_destroy(pool);
}

static void joins_what_it_may(void **unused) {
  for (size_t i = 0; i < RONDE__COUNT(cases); i++) {
    ronde__prof *prof;
    assert_int_equal(ronde__prof_create(0, NULL, false, &prof), RONDE_OK);
    ronde_graph *graph = graph_of(&cases[i].network);
    ronde__net *net = net_of(graph, NULL, NULL, prof);
    examples e = examples_make(graph, 3);
    ronde__net_result result;
    assert_int_equal(ronde__net_forward(net, &e.batch, 0.1f, NULL, &result), RONDE_OK);
    for (int j = 0; j < 2 && cases[i].steps[j]; j++)
      if (calls_of(prof, cases[i].steps[j]) < 1) fail_msg("%s: no %s", cases[i].network.name, cases[i].steps[j]);
    examples_free(&e);
    ronde__net_destroy(net);
    ronde_graph_destroy(graph);
    ronde__prof_destroy(prof);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(same_bits_joined_and_apart),
      cmocka_unit_test(joined_in_bfloat16),
      cmocka_unit_test(joins_what_it_may),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

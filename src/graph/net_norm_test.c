/* Batch normalisation fused with the sum and the activation behind it, in the networks of net_testing.h, against the
 * interpreter, which fuses nothing: in training and in evaluation. */
#include "graph/net_testing.h"
#include "graph/plan.h"

static ronde__net *net_of(const ronde_graph *graph, ronde__pool *pool, ronde__prof *prof) {
  ronde__net_options options = {.compute = {.kernels = ronde__kernels_available(0), .gemm = RONDE__GEMM_XSMM},
                                .pool = pool,
                                .prof = prof,
                                .training = true};
  ronde__net *net;
  assert_int_equal(ronde__net_create(graph, &options, &net), RONDE_OK);
  assert_int_equal(ronde__net_init(net, 7), RONDE_OK);
  return net;
}

static double forward_loss(ronde__net *net, const ronde__net_batch *batch) {
  ronde__net_result result;
  assert_int_equal(ronde__net_forward(net, batch, 1 / (float)batch->n, NULL, &result), RONDE_OK);
  return result.loss_sum;
}

static void forward_is_the_interpreters(void **unused) {
  for (size_t i = 0; i < RONDE__COUNT(normed_networks); i++) {
    ronde_graph *graph = graph_of(&normed_networks[i]);
    ronde__net *net = net_of(graph, NULL, NULL);
    for (int64_t n = 7; n <= 21; n += 14) {
      examples e = examples_make(graph, n);
      int64_t elems = n * elems_of(graph, graph->output);
      float *exact = malloc((size_t)elems * sizeof *exact), *y = malloc((size_t)elems * sizeof *y);
      double loss = interpret(graph, net, &e.batch, exact),
             got = forward_loss(net, &e.batch); /* moves the statistics */
      if (fabs(got - loss) > 1e-5 * (double)n * (1 + fabs(loss)))
        fail_msg("%s: loss %g, not %g, in training", normed_networks[i].name, got, loss);
      e.batch.training = false;
      loss = interpret(graph, net, &e.batch, exact), got = forward_loss(net, &e.batch);
      if (fabs(got - loss) > 1e-5 * (double)n * (1 + fabs(loss)))
        fail_msg("%s: loss %g, not %g, in evaluation", normed_networks[i].name, got, loss);
      assert_int_equal(ronde__net_predict(net, n, e.x, y), RONDE_OK);
      for (int64_t j = 0; j < elems; j++)
        if (!(fabsf(y[j] - exact[j]) <= 2e-5f * (1 + fabsf(exact[j]))))
          fail_msg("%s: [%lld] is %g, not %g", normed_networks[i].name, (long long)j, (double)y[j], (double)exact[j]);
      free(exact), free(y);
      examples_free(&e);
    }
    ronde__net_destroy(net);
    ronde_graph_destroy(graph);
  }
}

static void threads_give_the_same_bits(void **unused) {
  ronde__pool *pool;
  assert_int_equal(ronde__pool_create(3, &pool), RONDE_OK);
  for (size_t i = 0; i < RONDE__COUNT(normed_networks); i++) {
    ronde_graph *graph = graph_of(&normed_networks[i]);
    ronde__net *nets[2] = {net_of(graph, NULL, NULL), net_of(graph, pool, NULL)};
    examples e = examples_make(graph, 20);
    for (int j = 0; j < 2; j++) {
      forward_loss(nets[j], &e.batch);
      assert_int_equal(ronde__net_backward(nets[j], false, NULL), RONDE_OK);
    }
    assert_memory_equal(ronde__net_gradients(nets[0]), ronde__net_gradients(nets[1]),
                        ronde__net_n_elems(nets[0]) * sizeof(float));
    size_t n_state;
    const float *state = ronde__net_buffer_values(nets[0], &n_state);
    assert_memory_equal(state, ronde__net_buffer_values(nets[1], &n_state), n_state * sizeof *state);
    ronde__net_destroy(nets[0]), ronde__net_destroy(nets[1]);
    examples_free(&e);
    ronde_graph_destroy(graph);
  }
  ronde__pool_destroy(pool);
}

/* By the joint names of the per-op table. */
static void fuses_what_it_may(void **unused) {
  static const struct {
    void (*build)(ronde_graph *graph, ronde_tensor *x);
    int norms, with_relu, with_add, with_both, adds, with_silu, with_gelu;
  } wanted[] = {
      {build_norm_block, .with_relu = 1, .with_both = 1},
      {build_norm_downsample, .norms = 1, .with_both = 1},
      {build_norm_before_shortcut, .with_add = 1, .with_both = 1},
      {build_norm_busy_shortcut, .with_add = 3, .adds = 2},
      {build_norm_output, .with_add = 1},
      {build_norm_apart, .norms = 3, .adds = 5},
      {build_norm_function, .norms = 2, .adds = 1, .with_silu = 1, .with_gelu = 1},
  };
  for (size_t i = 0; i < RONDE__COUNT(normed_networks); i++) {
    ronde__prof *prof;
    assert_int_equal(ronde__prof_create(0, NULL, false, &prof), RONDE_OK);
    ronde_graph *graph = graph_of(&normed_networks[i]);
    ronde__net *net = net_of(graph, NULL, prof);
    examples e = examples_make(graph, 7);
    forward_loss(net, &e.batch);
    assert_ptr_equal(wanted[i].build, normed_networks[i].build);
    assert_int_equal(calls_of(prof, "batch_norm"), wanted[i].norms);
    assert_int_equal(calls_of(prof, "batch_norm+relu"), wanted[i].with_relu);
    assert_int_equal(calls_of(prof, "batch_norm+add"), wanted[i].with_add);
    assert_int_equal(calls_of(prof, "batch_norm+add+relu"), wanted[i].with_both);
    assert_int_equal(calls_of(prof, "batch_norm+silu"), wanted[i].with_silu);
    assert_int_equal(calls_of(prof, "batch_norm+gelu"), wanted[i].with_gelu);
    assert_int_equal(calls_of(prof, "add"), wanted[i].adds);
    examples_free(&e);
    ronde__net_destroy(net);
    ronde_graph_destroy(graph);
    ronde__prof_destroy(prof);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(forward_is_the_interpreters),
      cmocka_unit_test(threads_give_the_same_bits),
      cmocka_unit_test(fuses_what_it_may),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

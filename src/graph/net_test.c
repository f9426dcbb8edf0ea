/* Forward and execution of every network of net_testing.h against the interpreter and against themselves. */
#include "graph/net_testing.h"

static const int64_t batches[] = {7, 1, 42, 7};
static ronde__pool *pool;

static int start_pool(void **unused) { return ronde__pool_create(3, &pool) != RONDE_OK; }

static int stop_pool(void **unused) {
  ronde__pool_destroy(pool);
  return 0;
}

static ronde__net *net_of(const ronde_graph *graph, ronde__pool *threads, bool training) {
  ronde__net_options options = {.compute = {.kernels = ronde__kernels_available(0), .gemm = RONDE__GEMM_XSMM},
                                .pool = threads,
                                .training = training};
  ronde__net *net;
  assert_int_equal(ronde__net_create(graph, &options, &net), RONDE_OK);
  assert_int_equal(ronde__net_init(net, 7), RONDE_OK);
  return net;
}

static void check_near(const char *name, const float *x, const float *exact, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (!(fabsf(x[i] - exact[i]) <= 2e-5f * (1 + fabsf(exact[i]))))
      fail_msg("%s: [%lld] is %g, not %g", name, (long long)i, (double)x[i], (double)exact[i]);
}

/* Plans of all batch sizes share the parameters; a plan made anew, or used again after others have left their values in
 * the arena, gives the same bits. */
static void outputs_and_losses(void **unused) {
  for (size_t i = 0; i < RONDE__COUNT(networks); i++) {
    ronde_graph *graph = graph_of(&networks[i]);
    for (int training = 0; training < 2; training++) {
      ronde__net *net = net_of(graph, NULL, training);
      examples e = examples_make(graph, 42);
      int64_t elems = elems_of(graph, graph->output);
      float *exact = malloc((size_t)(42 * elems) * sizeof *exact), *y = malloc((size_t)(42 * elems) * sizeof *y);
      float first[7 * 400];
      assert_true(elems <= 400);
      for (size_t b = 0; b < RONDE__COUNT(batches); b++) {
        ronde__net_batch batch = part_of(&e, 0, batches[b]);
        double loss = interpret(graph, net, &batch, exact);
        ronde__net_result result;
        assert_int_equal(ronde__net_predict(net, batch.n, batch.x, y), RONDE_OK);
        check_near(networks[i].name, y, exact, batch.n * elems);
        assert_int_equal(ronde__net_forward(net, &batch, 1 / (float)batch.n, NULL, &result), RONDE_OK);
        if (fabs(result.loss_sum - loss) > 1e-5 * (double)batch.n)
          fail_msg("%s: loss %g, not %g", networks[i].name, result.loss_sum, loss);
        if (b == 0) memcpy(first, y, (size_t)(7 * elems) * sizeof *y);
      }
      assert_memory_equal(first, y, (size_t)(7 * elems) * sizeof *y);
      free(exact), free(y);
      examples_free(&e);
      ronde__net_destroy(net);
    }
    ronde_graph_destroy(graph);
  }
}

static void classified_rightly(void **unused) {
  ronde_graph *graph = graph_of(&networks[0]);
  ronde__net *net = net_of(graph, NULL, false);
  examples e = examples_make(graph, 42);
  float y[42 * 5];
  int64_t right = 0;
  assert_int_equal(ronde__net_predict(net, 42, e.x, y), RONDE_OK);
  for (int n = 0; n < 42; n++) {
    int best = 0;
    for (int k = 1; k < 5; k++)
      if (y[n * 5 + k] > y[n * 5 + best]) best = k;
    if (n % 2) e.labels[n] = best;
    right += e.labels[n] == best;
  }
  ronde__net_result result;
  assert_int_equal(ronde__net_forward(net, &e.batch, 1, NULL, &result), RONDE_OK);
  assert_int_equal(result.n_correct, right);
  examples_free(&e);
  ronde__net_destroy(net);
  ronde_graph_destroy(graph);
}

/* One step's gradients, all parameters one after the other; garbage lies where they are to be overwritten. */
static float *gradients_of(ronde__net *net, const ronde__net_batch *batch, float loss_scale, bool accumulate,
                           const ronde__net_hooks *hooks, size_t *n_out) {
  int n_params;
  const ronde__net_param *params = ronde__net_params(net, &n_params);
  size_t n = 0;
  if (!accumulate) spoil_gradients(net);
  for (int i = 0; i < n_params; i++) n += (size_t)ronde__shape_elems(&params[i].shape);
  ronde__net_result result;
  assert_int_equal(ronde__net_forward(net, batch, loss_scale, NULL, &result), RONDE_OK);
  assert_int_equal(ronde__net_backward(net, accumulate, hooks), RONDE_OK);
  float *all = malloc(n * sizeof *all);
  for (size_t i = 0, at = 0; i < (size_t)n_params; at += (size_t)ronde__shape_elems(&params[i++].shape))
    ronde__net_get_gradient(net, (int)i, all + at);
  *n_out = n;
  return all;
}

static void gradients_of_parts_add_up(void **unused) {
  for (size_t i = 0; i < RONDE__COUNT(networks); i++) {
    ronde_graph *graph = graph_of(&networks[i]);
    ronde__net *net = net_of(graph, NULL, true);
    examples e = examples_make(graph, 10);
    size_t n;
    float *whole = gradients_of(net, &e.batch, 0.1f, false, NULL, &n), *parts = NULL;
    for (int64_t begin = 0, size = 1; begin < 10; begin += size, size = ronde__min(2 * size, 10 - begin)) {
      ronde__net_batch part = part_of(&e, begin, size);
      free(parts);
      parts = gradients_of(net, &part, 0.1f, begin > 0, NULL, &n);
    }
    for (size_t j = 0; j < n; j++)
      if (!(fabsf(whole[j] - parts[j]) <= 1e-5f * (1 + fabsf(whole[j]))))
        fail_msg("%s: [%zu] is %g, not %g", networks[i].name, j, (double)parts[j], (double)whole[j]);
    free(whole), free(parts);
    examples_free(&e);
    ronde__net_destroy(net);
    ronde_graph_destroy(graph);
  }
}

static void threads_give_the_same_bits(void **unused) {
  for (size_t i = 0; i < RONDE__COUNT(networks); i++) {
    ronde_graph *graph = graph_of(&networks[i]);
    ronde__net *one = net_of(graph, NULL, true), *three = net_of(graph, pool, true);
    examples e = examples_make(graph, 20);
    size_t n;
    float *a = gradients_of(one, &e.batch, 0.05f, false, NULL, &n);
    float *b = gradients_of(three, &e.batch, 0.05f, false, NULL, &n);
    assert_memory_equal(a, b, n * sizeof *a);
    free(a), free(b);
    examples_free(&e);
    ronde__net_destroy(one), ronde__net_destroy(three);
    ronde_graph_destroy(graph);
  }
}

/* ---- hooks ---- */

typedef struct witness {
  ronde__net *net;
  int n_ready, n_needed;
  int order[32];
  float *seen[32]; /* by parameter: its gradient when it was said to be final */
  size_t at;       /* of the last parameter: elements from here on are final; 0: all of them */
  int n_events;
  bool needed[32];
} witness;

/* A parameter's last elements come first, and those of another not in between. */
static void note_final(void *user, const ronde__gradient *g) {
  witness *w = user;
  int n_params;
  const ronde__net_param *p = &ronde__net_params(w->net, &n_params)[g->param];
  size_t end = w->seen[g->param] ? w->at : p->offset + p->n_packed;
  assert_true(w->at == 0 || w->order[w->n_ready - 1] == g->param);
  assert_true(g->end == end && g->begin < end && g->begin >= p->offset);
  assert_ptr_equal(g->data, ronde__net_gradients(w->net) + g->begin);
  if (!w->seen[g->param]) {
    w->seen[g->param] = calloc(p->n_elems, sizeof(float));
    w->order[w->n_ready++] = g->param;
  }
  memcpy(w->seen[g->param] + (g->begin - p->offset), g->data, (g->end - g->begin) * sizeof(float));
  w->at = g->begin > p->offset ? g->begin : 0;
  w->n_events++;
}

static ronde_status note_needed(void *user, int param) {
  witness *w = user;
  assert_false(w->needed[param]);
  w->needed[param] = true;
  w->n_needed++;
  return RONDE_OK;
}

static void gradients_are_ready_once_and_final(void **unused) {
  for (size_t i = 0; i < RONDE__COUNT(networks); i++) {
    ronde_graph *graph = graph_of(&networks[i]);
    ronde__net *net = net_of(graph, NULL, true);
    examples e = examples_make(graph, 5);
    witness w = {.net = net};
    ronde__net_hooks hooks = {.param_needed = note_needed, .gradient = note_final, .user = &w};
    ronde__net_result result;
    size_t n;
    assert_int_equal(ronde__net_forward(net, &e.batch, 0.2f, &hooks, &result), RONDE_OK);
    free(gradients_of(net, &e.batch, 0.2f, false, &hooks, &n));
    assert_int_equal(w.n_ready, graph->n_params);
    for (int p = 0; p < graph->n_params; p++) {
      int n_params;
      const ronde__net_param *param = &ronde__net_params(net, &n_params)[p];
      assert_memory_equal(w.seen[p], ronde__net_gradients(net) + param->offset, param->n_elems * sizeof(float));
      free(w.seen[p]);
      bool dead = strncmp(param->name, "dead", 4) == 0 ||
                  (networks[i].build == build_two_heads && strncmp(param->name, "fc2", 3) == 0);
      assert_int_equal(w.needed[p], !dead);
    }
    if (networks[i].build == build_mlp || networks[i].build == build_lenet)
      for (int p = 0; p < graph->n_params; p++) assert_int_equal(w.order[p], graph->n_params - 1 - p);
    examples_free(&e);
    ronde__net_destroy(net);
    ronde_graph_destroy(graph);
  }
}

static void unreached_parameters_have_no_gradient(void **unused) {
  ronde_graph *graph = NULL;
  for (size_t i = 0; i < RONDE__COUNT(networks); i++)
    if (networks[i].build == build_dead_branch) graph = graph_of(&networks[i]);
  ronde__net *net = net_of(graph, NULL, true);
  examples e = examples_make(graph, 5);
  size_t n;
  int n_dead = 0;
  free(gradients_of(net, &e.batch, 0.2f, false, NULL, &n));
  for (int p = 0; p < graph->n_params; p++) {
    int64_t elems = ronde__shape_elems(&graph->params[p].shape);
    float *g = malloc((size_t)elems * sizeof *g);
    double sum = 0;
    ronde__net_get_gradient(net, p, g);
    for (int64_t j = 0; j < elems; j++) sum += fabs((double)g[j]);
    bool dead = strncmp(graph->params[p].name, "dead", 4) == 0;
    n_dead += dead;
    assert_int_equal(sum == 0, dead);
    free(g);
  }
  assert_int_equal(n_dead, 4);
  examples_free(&e);
  ronde__net_destroy(net);
  ronde_graph_destroy(graph);
}

/* ---- frozen parameters ---- */

typedef struct tally {
  const ronde_graph *graph;
  unsigned told; /* bit p: parameter p was told */
} tally;

static void note_trained(void *user, const ronde__gradient *gradient) {
  tally *t = user;
  assert_false(t->graph->params[gradient->param].frozen);
  t->told |= 1u << gradient->param;
}

/* The gradients of those that train, against the whole network's [all parameters]. */
static void check_trained(const char *name, const ronde__net *net, const float *whole) {
  int n_params;
  const ronde__net_param *params = ronde__net_params(net, &n_params);
  for (int p = 0; p < n_params; p++) {
    int64_t elems = ronde__shape_elems(&params[p].shape);
    if (!params[p].frozen) {
      float *g = malloc((size_t)elems * sizeof *g);
      ronde__net_get_gradient(net, p, g);
      check_near(name, g, whole, elems);
      free(g);
    }
    whole += elems;
  }
}

static void check_frozen(const network *network, unsigned mask, const examples *e, const float *whole, double flops) {
  ronde_graph *graph = graph_of(network);
  int n_frozen = 0;
  for (int p = 0; p < graph->n_params; p++) n_frozen += graph->params[p].frozen = mask >> p & 1;
  ronde__net *net = net_of(graph, NULL, true);
  tally t = {.graph = graph};
  ronde__net_hooks hooks = {.gradient = note_trained, .user = &t};
  ronde__net_result result;
  assert_int_equal(ronde__net_forward(net, &e->batch, 0.2f, NULL, &result), RONDE_OK);
  assert_int_equal(ronde__net_backward(net, false, &hooks), RONDE_OK);
  assert_int_equal(__builtin_popcount(t.told), graph->n_params - n_frozen);
  check_trained(network->name, net, whole);
  assert_true(ronde__net_executed_flops(net, e->batch.n) <= flops);
  if (mask & 1) assert_true(ronde__net_executed_flops(net, e->batch.n) < flops); /* the first layer's weight */
  assert_int_equal(ronde__net_memory_use(net).gradients, ronde__net_n_trained(net) * sizeof(float));
  assert_true(ronde__net_n_trained(net) < ronde__net_n_elems(net));
  ronde__net_destroy(net);
  ronde_graph_destroy(graph);
}

/* The first k parameters frozen, for every k; each second one; all biases. */
static void frozen_parameters_leave_the_others_gradients(void **unused) {
  for (size_t i = 0; i < RONDE__COUNT(networks); i++) {
    ronde_graph *graph = graph_of(&networks[i]);
    ronde__net *net = net_of(graph, NULL, true);
    examples e = examples_make(graph, 5);
    size_t n;
    float *whole = gradients_of(net, &e.batch, 0.2f, false, NULL, &n);
    double flops = ronde__net_executed_flops(net, 5);
    for (int k = 1; k < graph->n_params; k++) check_frozen(&networks[i], (1u << k) - 1, &e, whole, flops);
    check_frozen(&networks[i], 0x55555555, &e, whole, flops);
    check_frozen(&networks[i], 0xaaaaaaaa, &e, whole, flops);
    free(whole);
    examples_free(&e);
    ronde__net_destroy(net);
    ronde_graph_destroy(graph);
  }
}

/* Below the lowest layer that trains there is no backward, above it no gradient of weights. */
static void backward_stops_where_nothing_trains(void **unused) {
  static const struct {
    unsigned frozen;
    double backward; /* of fc1 10 -> 67, fc2 67 -> 20, fc3 20 -> 5: multiply-adds of one example */
  } cases[] = {{0, 10 * 67 + 2 * 67 * 20 + 2 * 20 * 5},
               {1 | 2, 67 * 20 + 2 * 20 * 5},
               {1 | 2 | 4, 20 * 5},
               {4 | 8 | 16, 10 * 67 + 67 * 20 + 20 * 5}};
  assert_true(networks[0].build == build_mlp && networks[0].c == 10);
  for (size_t i = 0; i < RONDE__COUNT(cases); i++) {
    ronde_graph *graph = graph_of(&networks[0]);
    for (int p = 0; p < graph->n_params; p++) graph->params[p].frozen = cases[i].frozen >> p & 1;
    ronde__net *net = net_of(graph, NULL, true);
    assert_int_equal(ronde__net_prepare(net, 3), RONDE_OK);
    double forward = (double)ronde_graph_forward_flops(graph);
    assert_float_equal(ronde__net_executed_flops(net, 3), 3 * (forward + 2 * cases[i].backward), 0);
    ronde__net_destroy(net);
    ronde_graph_destroy(graph);
  }
}

/* ---- parameters and plans ---- */

static void parameters_are_kept(void **unused) {
  ronde_graph *graph = graph_of(&networks[4]);
  ronde__net *a = net_of(graph, NULL, true), *b = net_of(graph, NULL, false);
  int n;
  const ronde__net_param *params = ronde__net_params(a, &n);
  size_t end = 0;
  assert_int_equal(n, graph->n_params);
  for (int p = 0; p < n; p++) {
    int64_t elems = ronde__shape_elems(&params[p].shape);
    float *x = malloc((size_t)elems * sizeof *x), *y = malloc((size_t)elems * sizeof *y);
    assert_string_equal(params[p].name, graph->params[p].name);
    assert_int_equal(params[p].offset, end);
    assert_int_equal(params[p].n_elems % 16, 0);
    end += params[p].n_elems;
    ronde__net_get(a, p, x);
    ronde__net_get(b, p, y);
    assert_memory_equal(x, y, (size_t)elems * sizeof *x); /* the same seed, whatever the layouts */
    double sum = 0, squares = 0;
    for (int64_t j = 0; j < elems; j++) {
      assert_true(fabsf(x[j]) <= graph->params[p].bound);
      sum += (double)x[j], squares += (double)x[j] * (double)x[j];
      y[j] = (float)j;
    }
    double bound = (double)graph->params[p].bound, spread = bound / sqrt(3.0 * (double)elems);
    assert_true(fabs(sum / (double)elems) < 5 * spread);
    if (elems > 100)
      assert_true(fabs(squares / (double)elems / (bound * bound) - 1.0 / 3) < 5 * 0.3 / sqrt((double)elems));
    ronde__net_set(a, p, y);
    ronde__net_get(a, p, x);
    assert_memory_equal(x, y, (size_t)elems * sizeof *x);
    free(x), free(y);
  }
  assert_int_equal(ronde__net_n_elems(a), end);
  assert_null(ronde__net_gradients(b));
  ronde__net_destroy(a), ronde__net_destroy(b);
  ronde_graph_destroy(graph);
}

static void build_wide(ronde_graph *graph, ronde_tensor *x) {
  x = ronde_tanh(ronde_linear(x, "fc1", 20, true));
  x = ronde_tanh(ronde_linear(x, "fc2", 1700, true));
  ronde_graph_set_output(graph, ronde_linear(x, "fc3", 5, true));
}

/* The exchange of a large gradient can begin before the rest of it is there. */
static void gradients_are_final_part_by_part(void **unused) {
  static const network wide = {"wide", 20, 0, 0, build_wide};
  ronde_graph *graph = graph_of(&wide);
  ronde__net *net = net_of(graph, NULL, true);
  examples e = examples_make(graph, 5);
  witness w = {.net = net};
  ronde__net_hooks hooks = {.gradient = note_final, .user = &w};
  ronde__net_result result;
  assert_int_equal(ronde__net_forward(net, &e.batch, 0.2f, &hooks, &result), RONDE_OK);
  assert_int_equal(ronde__net_backward(net, false, &hooks), RONDE_OK);
  assert_int_equal(w.n_ready, 6);
  assert_int_equal(w.n_events, 6 + 3); /* fc2's weight */
  assert_int_equal(w.at, 0);
  for (int p = 0; p < graph->n_params; p++) {
    int n_params;
    const ronde__net_param *param = &ronde__net_params(net, &n_params)[p];
    assert_memory_equal(w.seen[p], ronde__net_gradients(net) + param->offset, param->n_elems * sizeof(float));
    free(w.seen[p]);
  }
  examples_free(&e);
  ronde__net_destroy(net);
  ronde_graph_destroy(graph);
}

/* More batch sizes than plans are kept: old ones go and come back. */
static void many_batch_sizes(void **unused) {
  ronde_graph *graph = graph_of(&networks[4]);
  ronde__net *net = net_of(graph, NULL, true);
  examples e = examples_make(graph, 40);
  float y[40 * 5], again[40 * 5];
  assert_true(ronde__net_executed_flops(net, 40) == 0);
  assert_int_equal(ronde__net_prepare(net, 40), RONDE_OK);
  assert_true(ronde__net_executed_flops(net, 40) > 2.0 * 40 * (double)ronde_graph_forward_flops(graph));
  assert_int_equal(ronde__net_predict(net, 40, e.x, y), RONDE_OK);
  for (int64_t n = 1; n < 40; n++) {
    assert_int_equal(ronde__net_predict(net, n, e.x, again), RONDE_OK);
    check_near("prefix", again, y, n * 5);
  }
  assert_int_equal(ronde__net_predict(net, 40, e.x, again), RONDE_OK);
  assert_memory_equal(y, again, sizeof y);
  ronde__net_memory memory = ronde__net_memory_use(net);
  assert_int_equal(memory.parameters, ronde__net_n_elems(net) * sizeof(float));
  assert_int_equal(memory.gradients, memory.parameters);
  assert_true(memory.arena > 0);
  examples_free(&e);
  ronde__net_destroy(net);
  ronde_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(outputs_and_losses),
      cmocka_unit_test(classified_rightly),
      cmocka_unit_test(gradients_of_parts_add_up),
      cmocka_unit_test(threads_give_the_same_bits),
      cmocka_unit_test(gradients_are_ready_once_and_final),
      cmocka_unit_test(unreached_parameters_have_no_gradient),
      cmocka_unit_test(frozen_parameters_leave_the_others_gradients),
      cmocka_unit_test(backward_stops_where_nothing_trains),
      cmocka_unit_test(parameters_are_kept),
      cmocka_unit_test(gradients_are_final_part_by_part),
      cmocka_unit_test(many_batch_sizes),
  };
  return cmocka_run_group_tests(tests, start_pool, stop_pool);
}

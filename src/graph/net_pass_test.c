/* Several passes under way at once: forward of a micro-batch before backward of the one in front of it gives the gradients,
 * bit by bit, that one after the other gives; the memory is that of the activations under way. */
#include "graph/net_testing.h"
#include "models_testing.h"
#include "sanitized.h"

static ronde__pool *pool;

static int start_pool(void **unused) { return ronde__pool_create(2, &pool) != RONDE_OK; }

static int stop_pool(void **unused) {
  ronde__pool_destroy(pool);
  return 0;
}

/* ---- networks: small ones of the tests, and those that are built in ---- */

typedef struct source {
  const network *network; /* or */
  const ronde__model *model;
} source;

static ronde_status define(void *user, ronde_graph *graph) {
  const source *s = user;
  if (s->network) s->network->build(graph, input_of(graph, s->network));
  else build_model(graph, s->model);
  return ronde__graph_finish(graph);
}

static ronde_graph *graph_of_source(const source *s) {
  ronde_graph *graph;
  assert_int_equal(ronde_graph_create(&graph), RONDE_OK);
  assert_int_equal(define((void *)s, graph), RONDE_OK);
  return graph;
}

static const char *name_of(const source *s) { return s->network ? s->network->name : s->model->name; }

static ronde__net *net_of(const ronde_graph *graph, const source *s, bool eager) {
  ronde__net_options options = {
      .compute = {.kernels = ronde__kernels_available(0), .gemm = RONDE__GEMM_XSMM}, .pool = pool, .training = true};
  if (eager) options.define = define, options.define_user = (void *)s;
  ronde__net *net;
  assert_int_equal(ronde__net_create(graph, &options, &net), RONDE_OK);
  assert_int_equal(ronde__net_init(net, 7), RONDE_OK);
  return net;
}

/* ---- schedules ---- */

enum { MICRO_BATCHES = 5 };
static const int64_t sizes[MICRO_BATCHES] = {3, 3, 2, 1, 1}, begins[MICRO_BATCHES] = {0, 3, 6, 8, 9};

/* What a schedule gives. */
typedef struct outcome {
  double loss_sum[MICRO_BATCHES];
  float *gradients, *buffers;
  size_t arena; /* of all passes, at the end of the last */
} outcome;

static float *copy_of(const float *values, size_t n) {
  return memcpy(malloc((n + 1) * sizeof *values), values, n * sizeof *values);
}

static void forward(outcome *o, ronde__pass *pass, const examples *e, int i) {
  ronde__net_batch batch = part_of(e, begins[i], sizes[i]);
  batch.seed = 3, batch.step = 11, batch.first_example = begins[i];
  ronde__net_result result;
  assert_int_equal(ronde__pass_forward(pass, &batch, 0.1f, NULL, &result), RONDE_OK);
  o->loss_sum[i] = result.loss_sum;
}

/* 1F1B with so many passes under way: the first ones forward, then a backward before each forward. With one of them, one
 * micro-batch after the other. Source: Narayanan et al., "PipeDream", 2019. */
static outcome run(ronde__net *net, int n_passes, const examples *e) {
  outcome o = {0};
  ronde__pass *passes[MICRO_BATCHES];
  size_t n_buffer_elems;
  float *buffers = ronde__net_buffer_values(net, &n_buffer_elems), *before = copy_of(buffers, n_buffer_elems);
  for (int i = 0; i < n_passes; i++) assert_int_equal(ronde__pass_create(net, &passes[i]), RONDE_OK);
  for (int i = 0; i < MICRO_BATCHES + n_passes; i++) {
    if (i >= n_passes && i - n_passes < MICRO_BATCHES)
      assert_int_equal(ronde__pass_backward(passes[i % n_passes], i > n_passes, NULL), RONDE_OK);
    if (i < MICRO_BATCHES) forward(&o, passes[i % n_passes], e, i);
  }
  o.arena = ronde__net_memory_use(net).arena;
  for (int i = 0; i < n_passes; i++) ronde__pass_destroy(passes[i]);
  o.gradients = copy_of(ronde__net_gradients(net), ronde__net_n_trained(net));
  o.buffers = copy_of(buffers, n_buffer_elems);
  memcpy(buffers, before, n_buffer_elems * sizeof *buffers);
  free(before);
  return o;
}

static void outcome_free(outcome *o) { free(o->gradients), free(o->buffers); }

static void check_equal(const char *name, ronde__net *net, int n_passes, const outcome *want, const outcome *o) {
  size_t n = ronde__net_n_trained(net), n_buffer_elems;
  ronde__net_buffer_values(net, &n_buffer_elems);
  if (memcmp(want->loss_sum, o->loss_sum, sizeof o->loss_sum)) fail_msg("%s, %d passes: other losses", name, n_passes);
  if (memcmp(want->gradients, o->gradients, n * sizeof(float)))
    fail_msg("%s, %d passes: other gradients", name, n_passes);
  if (memcmp(want->buffers, o->buffers, n_buffer_elems * sizeof(float)))
    fail_msg("%s, %d passes: other statistics", name, n_passes);
}

/* A plan's pass has an arena of its own, as large as the largest batch wants it; an eager one what it keeps. Parameters
 * and gradients are the net's. */
static void check_memory(ronde__net *net, bool eager, int n_passes, const outcome *alone, const outcome *o) {
  if (!eager && n_passes == 2) assert_int_equal(o->arena, 2 * alone->arena);
  assert_in_range(o->arena, alone->arena, (size_t)n_passes * alone->arena);
  if (!eager) assert_int_equal(ronde__net_memory_use(net).arena, 0);
  assert_int_equal(ronde__net_memory_use(net).parameters, ronde__net_n_elems(net) * sizeof(float));
  assert_int_equal(ronde__net_memory_use(net).gradients, ronde__net_n_trained(net) * sizeof(float));
}

static void check_source(const source *s, int max_passes) {
  ronde_graph *graph = graph_of_source(s);
  examples e = examples_make(graph, 10);
  for (int eager = 0; eager < 2; eager++) {
    ronde__net *net = net_of(graph, s, eager);
    outcome want = run(net, 1, &e);
    for (int n_passes = 2; n_passes <= max_passes; n_passes++) {
      outcome o = run(net, n_passes, &e);
      check_equal(name_of(s), net, n_passes, &want, &o);
      check_memory(net, eager, n_passes, &want, &o);
      outcome_free(&o);
    }
    outcome_free(&want);
    ronde__net_destroy(net);
  }
  examples_free(&e);
  ronde_graph_destroy(graph);
}

static void in_turns_as_one_after_the_other(void **unused) {
  for (size_t i = 0; i < RONDE__COUNT(networks); i++) check_source(&(source){.network = &networks[i]}, MICRO_BATCHES);
  for (size_t i = 0; i < RONDE__COUNT(normed_networks); i++)
    check_source(&(source){.network = &normed_networks[i]}, MICRO_BATCHES);
  for (size_t i = 0; i < RONDE__COUNT(sequence_networks); i++)
    check_source(&(source){.network = &sequence_networks[i]}, MICRO_BATCHES);
}

static void built_in_networks_too(void **unused) {
  const ronde__model *model;
  leave_out_if(SANITIZED || SMALL_CASES_ONLY, "large networks go through passes as small ones do");
  for (int i = 0; (model = ronde__model_at(i)); i++)
    if (!model->vocabulary && !model->lengths && !tiny_form_of(model))
      check_source(&(source){.model = model}, 2); /* examples here are values of one input */
}

/* The order of sums matters, and so does whose backward it is: what is compared above can differ. */
static void another_order_is_seen(void **unused) {
  source s = {.network = &normed_networks[0]};
  ronde_graph *graph = graph_of_source(&s);
  examples e = examples_make(graph, 10);
  ronde__net *net = net_of(graph, &s, false);
  outcome want = run(net, 1, &e), o = {0};
  for (int i = MICRO_BATCHES - 1; i >= 0; i--) {
    ronde__pass *pass;
    assert_int_equal(ronde__pass_create(net, &pass), RONDE_OK);
    forward(&o, pass, &e, i);
    assert_int_equal(ronde__pass_backward(pass, i < MICRO_BATCHES - 1, NULL), RONDE_OK);
    ronde__pass_destroy(pass);
  }
  assert_memory_not_equal(want.gradients, ronde__net_gradients(net), ronde__net_n_trained(net) * sizeof(float));
  outcome_free(&want);
  ronde__net_destroy(net);
  examples_free(&e);
  ronde_graph_destroy(graph);
}

/* ---- what one pass must not take from another ---- */

/* Many other batch sizes while one is under way: its plan, or its prepared ops, must stay. */
static void many_batch_sizes_meanwhile(void **unused) {
  source s = {.network = &normed_networks[1]};
  ronde_graph *graph = graph_of_source(&s);
  examples e = examples_make(graph, 40);
  for (int eager = 0; eager < 2; eager++) {
    ronde__net *want = net_of(graph, &s, eager), *net = net_of(graph, &s, eager);
    ronde__net_batch batch = part_of(&e, 0, 5);
    ronde__net_result result;
    ronde__pass *pass;
    assert_int_equal(ronde__net_forward(want, &batch, 0.1f, NULL, &result), RONDE_OK);
    assert_int_equal(ronde__net_backward(want, false, NULL), RONDE_OK);
    assert_int_equal(ronde__pass_create(net, &pass), RONDE_OK);
    assert_int_equal(ronde__pass_forward(pass, &batch, 0.1f, NULL, &result), RONDE_OK);
    float *y = malloc((size_t)(40 * elems_of(graph, graph->output)) * sizeof *y);
    for (int64_t n = 1; n <= 40; n++) assert_int_equal(ronde__net_predict(net, n, e.x, y), RONDE_OK);
    assert_int_equal(ronde__pass_backward(pass, false, NULL), RONDE_OK);
    assert_memory_equal(ronde__net_gradients(want), ronde__net_gradients(net),
                        ronde__net_n_trained(net) * sizeof(float));
    free(y);
    ronde__pass_destroy(pass);
    ronde__net_destroy(want);
    ronde__net_destroy(net);
  }
  examples_free(&e);
  ronde_graph_destroy(graph);
}

/* More passes of different sizes than plans are kept otherwise. */
static void many_passes_of_their_own_sizes(void **unused) {
  enum { PASSES = 24 };
  source s = {.network = &networks[0]};
  ronde_graph *graph = graph_of_source(&s);
  examples e = examples_make(graph, PASSES);
  ronde__net *want = net_of(graph, &s, false), *net = net_of(graph, &s, false);
  ronde__pass *passes[PASSES];
  ronde__net_result result;
  for (int i = 0; i < PASSES; i++) {
    ronde__net_batch batch = part_of(&e, 0, i + 1);
    assert_int_equal(ronde__pass_create(net, &passes[i]), RONDE_OK);
    assert_int_equal(ronde__pass_forward(passes[i], &batch, 0.1f, NULL, &result), RONDE_OK);
    assert_int_equal(ronde__net_forward(want, &batch, 0.1f, NULL, &result), RONDE_OK);
    assert_int_equal(ronde__net_backward(want, i > 0, NULL), RONDE_OK);
  }
  for (int i = 0; i < PASSES; i++) {
    assert_int_equal(ronde__pass_backward(passes[i], i > 0, NULL), RONDE_OK);
    ronde__pass_destroy(passes[i]);
  }
  assert_memory_equal(ronde__net_gradients(want), ronde__net_gradients(net), ronde__net_n_trained(net) * sizeof(float));
  ronde__net_destroy(want);
  ronde__net_destroy(net);
  examples_free(&e);
  ronde_graph_destroy(graph);
}

/* What ends a forward pass without its backward says so to that, and does no harm to others. */
static void a_pass_that_is_used_again_has_no_backward(void **unused) {
  source s = {.network = &networks[0]};
  ronde_graph *graph = graph_of_source(&s);
  examples e = examples_make(graph, 10);
  for (int eager = 0; eager < 2; eager++) {
    ronde__net *net = net_of(graph, &s, eager);
    ronde__pass *pass;
    ronde__net_result result;
    assert_int_equal(ronde__pass_create(net, &pass), RONDE_OK);
    assert_int_equal(ronde__pass_backward(pass, false, NULL), RONDE_E_INTERNAL);
    assert_int_equal(ronde__pass_forward(pass, &e.batch, 0.1f, NULL, &result), RONDE_OK);
    assert_int_equal(ronde__net_forward(net, &e.batch, 0.1f, NULL, &result), RONDE_OK);
    assert_int_equal(ronde__pass_prepare(pass, 20), RONDE_OK);
    assert_int_equal(ronde__pass_backward(pass, false, NULL), RONDE_E_INTERNAL);
    assert_int_equal(ronde__net_backward(net, false, NULL), RONDE_OK);
    ronde__pass_destroy(pass);
    ronde__net_destroy(net);
  }
  examples_free(&e);
  ronde_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(in_turns_as_one_after_the_other), cmocka_unit_test(built_in_networks_too),
      cmocka_unit_test(another_order_is_seen),           cmocka_unit_test(many_batch_sizes_meanwhile),
      cmocka_unit_test(many_passes_of_their_own_sizes),  cmocka_unit_test(a_pass_that_is_used_again_has_no_backward),
  };
  return cmocka_run_group_tests(tests, start_pool, stop_pool);
}

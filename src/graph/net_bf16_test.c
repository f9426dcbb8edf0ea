/* Which values of a network are bfloat16, where steps want all of theirs in one format; and what networks with such steps give:
 * gradients near those of f32, the same on one and three threads. */
#include "graph/net_testing.h"
#include "graph/plan.h"
#include "kernel/bf16.h"

#include <stdio.h>

static ronde_tensor *normed(ronde_tensor *x, const char *name) { return ronde_relu(ronde_batch_norm2d(x, name, NULL)); }

static ronde_tensor *in_groups(ronde_tensor *x, const char *name, int64_t channels, int groups) {
  return ronde_conv2d(
      x, name,
      &(ronde_conv2d_options){.out_channels = channels, .kernel = {3, 3}, .padding = {1, 1}, .groups = groups});
}

static void build_depthwise(ronde_graph *graph, ronde_tensor *x) {
  x = normed(conv(x, "conv1", 40, 1, 1, 0), "norm1");
  x = normed(in_groups(x, "conv2", 40, 40), "norm2");
  classify(graph, avg_pool(conv(x, "conv3", 24, 1, 1, 0), 2), "fc1");
}

static void build_grouped(ronde_graph *graph, ronde_tensor *x) {
  x = ronde_tanh(in_groups(conv(x, "conv1", 32, 1, 1, 0), "conv2", 32, 8));
  classify(graph, avg_pool(conv(x, "conv3", 24, 1, 1, 0), 2), "fc1");
}

/* Squeeze and excitation; the gate is f32. */
static void build_gate(ronde_graph *graph, ronde_tensor *x) {
  x = normed(conv(x, "conv1", 40, 3, 1, 1), "norm1");
  ronde_tensor *gate = ronde_sigmoid(conv(ronde_adaptive_avg_pool2d(x, 1, 1), "conv2", 40, 1, 1, 0));
  classify(graph, avg_pool(conv(ronde_multiply(gate, x), "conv3", 24, 1, 1, 0), 2), "fc1");
}

/* Blocks of pieces that begin within those of the whole, and one that is read twice. */
static void build_concat(ronde_graph *graph, ronde_tensor *x) {
  x = normed(conv(x, "conv1", 40, 3, 1, 1), "norm1");
  ronde_tensor *a = normed(conv(x, "conv2", 24, 1, 1, 0), "norm2"), *b = normed(conv(x, "conv3", 16, 3, 1, 1), "norm3");
  x = ronde_concat((const ronde_tensor *[]){a, x, b}, 3);
  classify(graph, avg_pool(conv(x, "conv4", 24, 1, 1, 0), 2), "fc1");
}

static void build_add(ronde_graph *graph, ronde_tensor *x) {
  x = normed(conv(x, "conv1", 40, 3, 1, 1), "norm1");
  x = ronde_add(conv(x, "conv2", 40, 1, 1, 0), conv(x, "conv3", 40, 3, 1, 1));
  classify(graph, avg_pool(conv(x, "conv4", 24, 1, 1, 0), 2), "fc1");
}

/* Functions between convolutions, of which one takes padded channels from 0. */
static void build_functions(ronde_graph *graph, ronde_tensor *x) {
  x = ronde_gelu(conv(x, "conv1", 40, 3, 1, 1), false);
  x = ronde_hard_sigmoid(conv(x, "conv2", 40, 1, 1, 0), 0.25f, 0.5f);
  classify(graph, avg_pool(conv(x, "conv3", 24, 1, 1, 0), 2), "fc1");
}

/* A layer that reads the flattened image. */
static void build_linear(ronde_graph *graph, ronde_tensor *x) {
  x = normed(conv(x, "conv1", 40, 3, 1, 1), "norm1");
  x = ronde_relu(ronde_linear(ronde_flatten(x), "fc1", 70, true));
  classify(graph, ronde_linear(x, "fc2", 48, true), "fc3");
}

/* A function takes f32, so the concatenation in front of it does, too. */
static void build_concat_refused(ronde_graph *graph, ronde_tensor *x) {
  x = normed(conv(x, "conv1", 40, 3, 1, 1), "norm1");
  ronde_tensor *a = normed(conv(x, "conv2", 24, 1, 1, 0), "norm2");
  x = ronde_function(ronde_concat((const ronde_tensor *[]){a, x}, 2), RONDE_AFFINE, 0.5f, 0.25f);
  classify(graph, avg_pool(conv(x, "conv3", 24, 1, 1, 0), 2), "fc1");
}

static ronde_tensor *matrix(ronde_tensor *x) {
  const int64_t dims[] = {6, 24};
  return ronde_linear(ronde_reshape(conv(x, "conv1", 3, 1, 1, 0), 2, dims), "embed", 64, true);
}

static ronde_tensor *attend(ronde_tensor *x, float dropout) {
  x = ronde_self_attention(ronde_linear(x, "in", 192, true), &(ronde_attention_options){.heads = 4});
  return ronde_dropout(ronde_linear(x, "out", 64, true), dropout);
}

static ronde_tensor *perceptron(ronde_tensor *x) {
  return ronde_linear(ronde_gelu(ronde_linear(x, "up", 100, true), false), "down", 64, true);
}

/* What is normalised only layers read. */
static void build_norm_in_front(ronde_graph *graph, ronde_tensor *x) {
  x = matrix(x);
  x = ronde_add(x, attend(ronde_layer_norm(x, "norm1", NULL), 0));
  x = ronde_add(x, perceptron(ronde_layer_norm(x, "norm2", NULL)));
  x = ronde_linear(ronde_layer_norm(x, "norm3", NULL), "narrow", 20, true);
  classify(graph, ronde_flatten(x), "fc1");
}

/* It is added to, too. */
static void build_norm_behind(ronde_graph *graph, ronde_tensor *x) {
  x = matrix(x);
  x = ronde_layer_norm(ronde_add(x, attend(x, 0.25f)), "norm1", NULL);
  x = ronde_layer_norm(ronde_add(x, perceptron(x)), "norm2", NULL);
  classify(graph, ronde_flatten(x), "fc1");
}

static const struct {
  network network;
  const char *op; /* whose operands are bfloat16, those at least that may be; */
  bool narrow;    /* or f32 */
  bool no_tiles;  /* without tiles as well */
} cases[] = {
    {{"depthwise", 3, 6, 7, build_depthwise}, "convolution depthwise", true, false},
    {{"grouped", 3, 6, 7, build_grouped}, "convolution grouped", true, false},
    {{"gate", 3, 6, 6, build_gate}, "broadcast gate", true, false},
    {{"concat", 3, 6, 6, build_concat}, "concat", true, false},
    {{"add", 3, 6, 6, build_add}, "add", true, false},
    {{"functions", 3, 6, 6, build_functions}, "pointwise", true, false},
    {{"linear", 3, 6, 6, build_linear}, "batch_norm", true, false},
    {{"concat_refused", 3, 6, 6, build_concat_refused}, "concat", false, false},
    {{"norm_in_front", 3, 6, 8, build_norm_in_front}, "attention", true, true},
    {{"norm_in_front", 3, 6, 8, build_norm_in_front}, "layer_norm", true, true},
    {{"norm_in_front", 3, 6, 8, build_norm_in_front}, "pointwise", true, true},
    {{"norm_behind", 3, 6, 8, build_norm_behind}, "attention", true, true},
    {{"norm_behind", 3, 6, 8, build_norm_behind}, "layer_norm", false, true},
    {{"norm_behind", 3, 6, 8, build_norm_behind}, "dropout", true, true},
};

static ronde__compute compute_of(const ronde__bf16 *bf16) {
  return (ronde__compute){ronde__kernels_available(0), RONDE__GEMM_XSMM, bf16};
}

static bool is_named(const ronde__plan_step *step, const char *name) {
  char text[96];
  const char *form = step->desc.form ? step->desc.form->name : NULL;
  snprintf(text, sizeof text, "%s%s%s", step->op->name, form ? " " : "", form ? form : "");
  return !strcmp(text, name) || !strcmp(step->op->name, name);
}

/* Whether the operands that the step's form takes in bfloat16 are so; all alike. */
static bool is_narrow(const ronde__plan_step *step) {
  const ronde__op_desc *d = &step->desc;
  int n = 0, narrow = 0;
  for (int i = 0; i < d->n_inputs; i++)
    if (d->form->bf16.in >> i & 1) n++, narrow += d->in[i].bf16;
    else assert_false(d->in[i].bf16);
  for (int i = 0; i < d->n_outputs; i++)
    if (d->form->bf16.out >> i & 1) n++, narrow += d->out[i].bf16;
    else assert_false(d->out[i].bf16);
  assert_true(narrow == 0 || narrow == n);
  return narrow > 0;
}

static void check_formats(size_t i, const ronde__bf16 *bf16) {
  ronde_graph *graph = graph_of(&cases[i].network);
  ronde__plan_options options = {.n = 7, .training = true, .compute = compute_of(bf16), .threads = 1};
  ronde__plan *plan;
  int n = 0;
  assert_int_equal(ronde__plan_create(graph, &options, &plan), RONDE_OK);
  for (int s = 0; s < plan->n_steps; s++) {
    if (!is_named(&plan->steps[s], cases[i].op)) continue;
    n++;
    if (is_narrow(&plan->steps[s]) != (bf16 && cases[i].narrow))
      fail_msg("%s: other formats of %s", cases[i].network.name, cases[i].op);
  }
  if (n == 0) fail_msg("%s: %d times %s", cases[i].network.name, n, cases[i].op);
  ronde__plan_destroy(plan);
  ronde_graph_destroy(graph);
}

static int find_step(const ronde__plan *plan, ronde__op_kind kind, int from, int by) {
  int s = from;
  while (plan->steps[s].op != ronde__ops[kind]) s += by;
  return s;
}

/* Rows of features go from layer to layer as they lie. */
static void rows_stay_in_blocks(void **unused) {
  void (*const networks[])(ronde_graph * graph, ronde_tensor * x) = {build_norm_in_front, build_norm_behind};
  for (size_t i = 0; i < RONDE__COUNT(networks); i++) {
    ronde_graph *graph = graph_of(&(network){"sequence", 3, 6, 8, networks[i]});
    ronde__plan_options options = {.n = 7, .training = true, .compute = compute_of(NULL), .threads = 1};
    ronde__plan *plan;
    int n = 0;
    assert_int_equal(ronde__plan_create(graph, &options, &plan), RONDE_OK);
    int end = find_step(plan, RONDE__OP_LAYER_NORM, plan->n_steps - 1, -1);
    for (int s = find_step(plan, RONDE__OP_LINEAR, 0, 1); s < end; s++)
      n += plan->steps[s].op == ronde__ops[RONDE__OP_REORDER];
    assert_int_equal(n, 0);
    ronde__plan_destroy(plan);
    ronde_graph_destroy(graph);
  }
}

static void a_step_has_one_format(void **unused) {
  for (size_t i = 0; i < RONDE__COUNT(cases); i++) {
    check_formats(i, NULL);
    for (int k = 0; ronde__bf16_available(k); k++)
      if (cases[i].no_tiles || ronde__bf16_available(k)->is_tiles) check_formats(i, ronde__bf16_available(k));
  }
}

static ronde__net *net_of(const ronde_graph *graph, ronde__pool *pool, const ronde__bf16 *bf16) {
  ronde__net_options options = {.compute = compute_of(bf16), .pool = pool, .training = true};
  ronde__net *net;
  assert_int_equal(ronde__net_create(graph, &options, &net), RONDE_OK);
  assert_int_equal(ronde__net_init(net, 7), RONDE_OK);
  return net;
}

static double pass(ronde__net *net, const examples *e, int64_t n) {
  ronde__net_result result;
  assert_int_equal(ronde__net_forward(net, &e->batch, 1 / (float)n, NULL, &result), RONDE_OK);
  assert_int_equal(ronde__net_backward(net, false, NULL), RONDE_OK);
  return result.loss_sum;
}

static void check_passes(size_t i, ronde__pool *pool, const ronde__bf16 *bf16) {
  static const int64_t batches[] = {7, 42};
  ronde_graph *graph = graph_of(&cases[i].network);
  ronde__net *f32 = net_of(graph, NULL, NULL), *one = net_of(graph, NULL, bf16), *three = net_of(graph, pool, bf16);
  for (size_t b = 0; b < RONDE__COUNT(batches); b++) {
    examples e = examples_make(graph, batches[b]);
    double wanted = pass(f32, &e, batches[b]), loss = pass(one, &e, batches[b]);
    assert_true(fabs(loss - wanted) <= (bf16 ? 0.02 : 0) * fabs(wanted));
    assert_gradients_near(one, f32, cases[i].network.name, bf16 ? 0.1 : 0);
    assert_true(pass(three, &e, batches[b]) == loss);
    assert_memory_equal(ronde__net_gradients(one), ronde__net_gradients(three),
                        ronde__net_n_elems(one) * sizeof(float));
    examples_free(&e);
  }
  ronde__net_destroy(f32), ronde__net_destroy(one), ronde__net_destroy(three);
  ronde_graph_destroy(graph);
}

static void passes_are_near_f32(void **unused) {
  ronde__pool *pool;
  assert_int_equal(ronde__pool_create(3, &pool), RONDE_OK);
  for (size_t i = 0; i < RONDE__COUNT(cases); i++) {
    check_passes(i, pool, NULL);
    for (int k = 0; ronde__bf16_available(k); k++) check_passes(i, pool, ronde__bf16_available(k));
  }
  ronde__pool_destroy(pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_step_has_one_format), cmocka_unit_test(rows_stay_in_blocks),
                                     cmocka_unit_test(passes_are_near_f32)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Recording a graph: names, inputs, targets and losses, and what the whole has. */
#include "graph/build_testing.h"

static void shapes_parameters_and_flops(void **state) {
  ronde_graph *graph = *state;
  ronde_tensor *x = image(graph, 3, 32, 30);
  check_dims(x = conv(x, "conv1", 8, 5, 2, 1), 3, 8, 15, 14);
  check_dims(x = ronde_relu(x), 3, 8, 15, 14);
  check_dims(x = ronde_max_pool2d(x, &(ronde_pool2d_options){.kernel = {3, 2}}), 3, 8, 5, 7);
  check_dims(x = ronde_avg_pool2d(x, &(ronde_pool2d_options){.kernel = {2, 2}, .stride = {1, 2}, .padding = {1, 0}}), 3,
             8, 6, 3);
  x = ronde_conv2d(x, "conv2", &(ronde_conv2d_options){.out_channels = 4, .kernel = {1, 3}, .no_bias = true});
  check_dims(x, 3, 4, 6, 1);
  check_dims(x = ronde_flatten(x), 1, 24, 0, 0);
  check_dims(x = ronde_linear(x, "fc1", 10, true), 1, 10, 0, 0);
  ronde_graph_set_output(graph, x);
  assert_int_equal(ronde__graph_finish(graph), RONDE_OK);
  check_dims(graph->tensors[graph->loss], 0, 0, 0, 0);
  assert_int_equal(ronde_graph_parameters(graph), 8 * 75 + 8 + 4 * 24 + 240 + 10);
  assert_int_equal(ronde_graph_forward_flops(graph), 2 * (8 * 15 * 14 * 75 + 24 * 24 + 240));
  static const char *const names[] = {"conv1.weight", "conv1.bias", "conv2.weight", "fc1.weight", "fc1.bias"};
  assert_int_equal(graph->n_params, 5);
  for (int i = 0; i < 5; i++) assert_string_equal(graph->params[i].name, names[i]);
}

static void the_loss_is_cross_entropy_unless_set(void **state) {
  ronde_graph *graph = *state;
  ronde_tensor *y = ronde_linear(vector(graph, 5), "fc1", 3, true);
  ronde_graph_set_output(graph, y);
  assert_int_equal(ronde__graph_finish(graph), RONDE_OK);
  assert_int_equal(graph->nodes[graph->tensors[graph->loss]->producer].kind, RONDE__OP_CROSS_ENTROPY);
  ronde_tensor *loss = ronde_mse_loss(y, ronde_target(graph));
  ronde_graph_set_loss(graph, loss);
  int n_nodes = graph->n_nodes;
  assert_int_equal(ronde__graph_finish(graph), RONDE_OK);
  assert_int_equal(graph->n_nodes, n_nodes);
  assert_int_equal(graph->loss, loss->id);
  assert_ptr_equal(ronde_target(graph), ronde_target(graph));
}

static void tokens_and_values_are_told_apart(void **state) {
  const int64_t steps[] = {5};
  ronde_tensor *x = ronde_input_tokens(*state, "text", 1, steps, 30);
  check_refused(*state, ronde_linear(x, "fc1", 7, true), "fc1: it takes values, but text holds token numbers");
}

static void rows_of_values_do_not_exist(void **state) {
  ronde_tensor *x = image(*state, 3, 8, 8);
  check_refused(*state, ronde_embedding(x, "wte", 7, 0), "wte: it takes token numbers, but input holds values");
}

static void duplicate_names(void **state) {
  ronde_tensor *x = ronde_linear(vector(*state, 5), "fc1", 3, true);
  check_refused(*state, ronde_linear(x, "fc1", 3, true),
                "fc1.weight: the graph has a parameter of this name already; "
                "ronde_graph_share(graph, \"fc1\") shares it between layers");
}

static void shared_layers(void **state) {
  ronde_graph_share(*state, "fc1");
  ronde_tensor *x = ronde_linear(ronde_linear(vector(*state, 5), "fc1", 5, false), "fc1", 5, true);
  assert_non_null(x);
  assert_int_equal(ronde_graph_parameters(*state), 5 * 5 + 5); /* the bias is the second call's alone */
  check_refused(*state, ronde_linear(x, "fc1", 3, false),
                "fc1.weight: it is shared, but one layer wants it as 5x5 and another as 3x5");
}

/* A layer with another's weight and a bias of its own, which begins with zeros. */
static void tied_layers(void **state) {
  const int64_t steps[] = {5};
  ronde_graph_share(*state, "words");
  ronde_tensor *x = ronde_embedding(ronde_input_tokens(*state, "text", 1, steps, 30), "words", 7, 0);
  x = ronde_linear_tied(x, "words", 30, "head.bias");
  assert_non_null(x);
  assert_int_equal(ronde_graph_parameters(*state), 30 * 7 + 30);
  const ronde__param *bias = &((ronde_graph *)*state)->params[1];
  assert_string_equal(bias->name, "head.bias");
  assert_true(bias->init == RONDE_INIT_CONSTANT && bias->bound == 0);
  check_refused(*state, ronde_linear_tied(x, "words", 30, "other.bias"),
                "words.weight: it is shared, but one layer wants it as 30x7 and another as 30x30");
}

static void shared_statistics(void **state) {
  ronde_graph_share(*state, "bn1");
  ronde_tensor *x = ronde_batch_norm2d(image(*state, 3, 4, 4), "bn1", NULL);
  check_refused(*state, ronde_batch_norm2d(x, "bn1", NULL), "bn1: a layer that keeps statistics cannot be shared");
}

/* Layers with one value for each input take any rank; the others say which they want. */
static void inputs_of_other_ranks(void **state) {
  ronde_tensor *x = ronde_input(*state, "x", 4, (int64_t[]){2, 3, 4, 5});
  int64_t dims[RONDE_MAX_RANK];
  assert_int_equal(ronde_tensor_dims(ronde_add(ronde_relu(x), x), dims), 4);
  assert_int_equal(dims[3], 5);
  assert_int_equal(ronde_tensor_dims(ronde_flatten(x), dims), 1);
  assert_int_equal(dims[0], 120);
  check_refused(*state, conv(x, "conv1", 3, 3, 1, 1), "conv1: a convolution takes CxHxW, but x gives 2x3x4x5");
}

static void tensors_of_two_graphs(void **state) {
  ronde_graph *other;
  assert_int_equal(ronde_graph_create(&other), RONDE_OK);
  ronde_tensor *a = vector(*state, 5), *b = vector(other, 5);
  check_refused(*state, ronde_add(a, b), "add_1: its inputs belong to different graphs");
  n_logged = 0;
  ronde_graph_set_output(other, a);
  check_refused(other, NULL, "input cannot be the output of this network");
  ronde_graph_destroy(other);
}

static void loss_of_another_graph(void **state) {
  ronde_graph *other;
  assert_int_equal(ronde_graph_create(&other), RONDE_OK);
  ronde_tensor *loss = ronde_mse_loss(vector(other, 5), ronde_target(other));
  vector(*state, 5);
  ronde_graph_set_loss(*state, loss);
  check_refused(*state, NULL, "mse_loss_1 cannot be the loss of this network");
  ronde_graph_destroy(other);
}

static void a_layer_is_no_loss(void **state) {
  ronde_graph_set_loss(*state, ronde_relu(vector(*state, 5)));
  check_refused(*state, NULL, "activation_1 cannot be the loss of this network");
}

static void a_layer_is_no_target(void **state) {
  ronde_tensor *x = vector(*state, 5);
  check_refused(*state, ronde_mse_loss(x, x), "mse_loss_1: its target is input, not the graph's target");
}

static void the_target_is_no_input(void **state) {
  check_refused(*state, ronde_flatten(ronde_target(*state)), "flatten_1: the target cannot be the input of a layer");
}

static void the_target_is_no_prediction(void **state) {
  ronde_tensor *target = ronde_target(*state);
  check_refused(*state, ronde_mse_loss(target, target), "mse_loss_1: the target cannot be the input of a layer");
}

static void the_target_is_no_output(void **state) {
  ronde_graph_set_output(*state, ronde_target(*state));
  check_refused(*state, NULL, "target cannot be the output of this network");
}

static void a_loss_is_no_input(void **state) {
  ronde_tensor *loss = ronde_mse_loss(vector(*state, 5), ronde_target(*state));
  check_refused(*state, ronde_relu(loss), "activation_2: the loss mse_loss_1 cannot be the input of a layer");
}

static void two_inputs_of_a_name(void **state) {
  ronde_tensor *first = vector(*state, 5), *second = ronde_input(*state, "second", 1, (int64_t[]){3});
  assert_ptr_equal(ronde_graph_input(*state, "input"), first);
  assert_ptr_equal(ronde_graph_input(*state, "second"), second);
  check_refused(*state, ronde_input(*state, "input", 1, (int64_t[]){3}), "the graph has an input input already");
}

static void an_input_that_is_not_there(void **state) {
  vector(*state, 5);
  check_refused(*state, ronde_graph_input(*state, "second"),
                "the network reads an input second, and the data have none");
}

static void too_many_inputs(void **state) {
  static const char *const names[] = {"a", "b", "c", "d"};
  for (int i = 0; i < RONDE_MAX_INPUTS; i++) assert_non_null(ronde_input(*state, names[i], 1, (int64_t[]){3}));
  check_refused(*state, ronde_input(*state, "e", 1, (int64_t[]){3}), "e: a graph has at most 4 inputs");
}

static void inputs_that_are_too_large_together(void **state) {
  assert_non_null(ronde_input(*state, "a", 1, (int64_t[]){INT32_MAX - 5}));
  check_refused(*state, ronde_input(*state, "b", 1, (int64_t[]){6}), "b: the inputs are too large together");
}

static void inputs_that_make_no_sense(void **state) {
  static const struct {
    int rank;
    int64_t dims[5];
    const char *line;
  } inputs[] = {
      {5, {3, 4, 1, 1, 1}, "x: an input has 1 to 4 dims (F, or T,F, or C,H,W), not 5"},
      {0, {0}, "x: an input has 1 to 4 dims (F, or T,F, or C,H,W), not 0"},
      {3, {3, 0, 4}, "x: dim 1 is 0"},
      {1, {-2}, "x: dim 0 is -2"},
      {3, {INT32_MAX, INT32_MAX, INT32_MAX}, "x: 2147483647x2147483647x2147483647 is too large"},
  };
  for (size_t i = 0; i < RONDE__COUNT(inputs); i++) {
    ronde_graph *graph;
    assert_int_equal(ronde_graph_create(&graph), RONDE_OK);
    n_logged = 0;
    check_refused(graph, ronde_input(graph, "x", inputs[i].rank, inputs[i].dims), inputs[i].line);
    ronde_graph_destroy(graph);
  }
}

static void sizes_that_overflow(void **state) {
  check_refused(*state, ronde_linear(vector(*state, INT32_MAX), "fc1", INT32_MAX, false),
                "fc1: 2147483647x2147483647 is too large");
}

static void channels_that_overflow(void **state) {
  check_refused(*state, conv(image(*state, 3, 8, 8), "conv1", INT64_MAX, 3, 1, 0),
                "conv1: 9223372036854775807x6x6 is too large");
}

static float largest(const float *x, int64_t n) {
  float most = 0;
  for (int64_t i = 0; i < n; i++) most = fmaxf(most, fabsf(x[i]));
  return most;
}

/* "fc1" is a layer and not those whose names go on behind it; what was given stays. */
static void parameters_begin_as_told(void **state) {
  ronde_graph *graph = *state;
  const float given[] = {7, 8, 9};
  ronde_tensor *x = ronde_linear(vector(graph, 40), "fc1", 30, true);
  x = ronde_linear(ronde_linear(x, "fc10", 20, true), "out.fc", 3, true);
  x = ronde_add(x, ronde_parameter(graph, "out.scale", 1, (int64_t[]){3}, given, false));
  ronde_graph_set_init(graph, "fc1", RONDE_INIT_UNIFORM, 4);
  ronde_graph_set_init(graph, "fc1.bias", RONDE_INIT_CONSTANT, -2);
  ronde_graph_set_init(graph, "fc10.weight", RONDE_INIT_NORMAL, 10);
  ronde_graph_set_init(graph, "out", RONDE_INIT_CONSTANT, 0.25f);
  ronde_graph_set_output(graph, x);
  assert_int_equal(ronde__graph_finish(graph), RONDE_OK);
  ronde__net_options options = {.compute = {ronde__kernels_available(0), RONDE__GEMM_TILE, NULL}};
  ronde__net *net;
  assert_int_equal(ronde__net_create(graph, &options, &net), RONDE_OK);
  assert_int_equal(ronde__net_init(net, 7), RONDE_OK);
  static const struct {
    const char *name;
    float least, most; /* of the largest value */
  } wanted[] = {{"fc1.weight", 3.9f, 4},
                {"fc1.bias", 2, 2},
                {"fc10.weight", 25, 60},
                {"fc10.bias", 0.1f, 0.1826f}, /* 1 / sqrt(30), as by default */
                {"out.fc.weight", 0.25f, 0.25f},
                {"out.fc.bias", 0.25f, 0.25f},
                {"out.scale", 9, 9}};
  float values[40 * 30];
  int n;
  const ronde__net_param *params = ronde__net_params(net, &n);
  assert_int_equal(n, RONDE__COUNT(wanted));
  for (int i = 0; i < n; i++) {
    assert_string_equal(params[i].name, wanted[i].name);
    ronde__net_get(net, i, values);
    float most = largest(values, ronde__shape_elems(&params[i].shape));
    if (!(most >= wanted[i].least && most <= wanted[i].most)) fail_msg("%s: %g", wanted[i].name, (double)most);
  }
  ronde__net_destroy(net);
}

static void values_that_nothing_begins_by(void **state) {
  ronde_linear(vector(*state, 5), "fc1", 3, true);
  ronde_graph_set_init(*state, "fc1.bias", RONDE_INIT_CONSTANT, -1);
  ronde_graph_set_init(*state, "fc1", RONDE_INIT_UNIFORM, -1);
  check_refused(*state, NULL, "fc1: it cannot begin by a value of -1");
}

static void a_beginning_of_no_number(void **state) {
  ronde_linear(vector(*state, 5), "fc1", 3, true);
  ronde_graph_set_init(*state, "fc1.weight", RONDE_INIT_CONSTANT, INFINITY);
  check_refused(*state, NULL, "fc1.weight: it cannot begin by a value of inf");
}

static void a_beginning_of_nothing(void **state) {
  ronde_linear(vector(*state, 5), "fc1", 3, true);
  ronde_graph_set_init(*state, "fc", RONDE_INIT_UNIFORM, 1);
  check_refused(*state, NULL, "fc: there is no parameter of this name to be drawn");
}

static void no_input(void **state) { check_finish_refused(*state, "the network has no input"); }

static void no_output(void **state) {
  ronde_linear(vector(*state, 5), "fc1", 3, true);
  check_finish_refused(*state, "the network has no output");
}

static void no_parameters(void **state) {
  ronde_graph_set_output(*state, ronde_relu(vector(*state, 5)));
  check_finish_refused(*state, "the network has no parameters");
}

static void null_goes_through(void **state) {
  int64_t dims[RONDE_MAX_RANK];
  assert_null(ronde_relu(NULL));
  assert_null(ronde_linear(NULL, "fc1", 3, true));
  assert_null(ronde_add(vector(*state, 5), NULL));
  assert_null(ronde_cross_entropy(NULL, ronde_target(*state)));
  assert_int_equal(ronde_tensor_dims(NULL, dims), 0);
  ronde_graph_set_output(*state, NULL);
  ronde_graph_set_loss(*state, NULL);
  assert_int_equal(ronde_graph_status(*state), RONDE_OK);
  assert_int_equal(n_logged, 0);
  ronde_graph_destroy(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(shapes_parameters_and_flops),
      TEST(the_loss_is_cross_entropy_unless_set),
      TEST(tokens_and_values_are_told_apart),
      TEST(rows_of_values_do_not_exist),
      TEST(duplicate_names),
      TEST(shared_layers),
      TEST(tied_layers),
      TEST(shared_statistics),
      TEST(inputs_of_other_ranks),
      TEST(tensors_of_two_graphs),
      TEST(loss_of_another_graph),
      TEST(a_layer_is_no_loss),
      TEST(a_layer_is_no_target),
      TEST(the_target_is_no_input),
      TEST(the_target_is_no_prediction),
      TEST(the_target_is_no_output),
      TEST(a_loss_is_no_input),
      TEST(two_inputs_of_a_name),
      TEST(an_input_that_is_not_there),
      TEST(too_many_inputs),
      TEST(inputs_that_are_too_large_together),
      TEST(inputs_that_make_no_sense),
      TEST(sizes_that_overflow),
      TEST(channels_that_overflow),
      TEST(parameters_begin_as_told),
      TEST(values_that_nothing_begins_by),
      TEST(a_beginning_of_no_number),
      TEST(a_beginning_of_nothing),
      TEST(no_input),
      TEST(no_output),
      TEST(no_parameters),
      TEST(null_goes_through),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

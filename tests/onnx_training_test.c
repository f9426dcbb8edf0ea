/* Cases of the onnx package that are about training (tests/golden/make_onnx_training.py): its optimizers against Ronde's, and
 * batch normalisation's training mode. Where a definition is another one, the test says what makes them the same:
 * Adam's epsilon and rate are those before its correction of the bias, which ONNX leaves out at its count of 0. The running
 * variance of ONNX is the batch's own, that of PyTorch and Ronde the unbiased one. */
#include "train_testing.h"

#include "golden_testing.h"
#include "graph/graph.h"
#include "kernel/kernel.h"
#include "optim/optim.h"

#define CASES RONDE_SOURCE_DIR "/tests/golden/onnx/training.json"

static int count(const json_t *c, const char *name) { return (int)json_array_size(json_object_get(c, name)); }

static void read_list(const json_t *list, float *values_out) {
  for (size_t i = 0; i < json_array_size(list); i++) values_out[i] = (float)json_number_value(json_array_get(list, i));
}

static float *list_of(const json_t *c, const char *name) {
  float *values = calloc((size_t)count(c, name) + 1, sizeof *values);
  read_list(json_object_get(c, name), values);
  return values;
}

static bool is_close(double y, double wanted) { return fabs(y - wanted) <= 1e-6 + 1e-5 * fabs(wanted); }

static bool is_kind(const json_t *c, const char *kind) { return !strcmp(json_string_value(field(c, "kind")), kind); }

/* ---- optimizers ---- */

enum { UPDATES = 3 }; /* that have been made: Adam's correction of the bias is in force */

static ronde__optim_options options_of(const json_t *c) {
  ronde__optim_options o = {.lr = number(c, "lr"), .weight_decay = number(c, "norm_coefficient")};
  if (is_kind(c, "Adagrad")) {
    o.kind = RONDE__OPTIM_ADAGRAD;
    o.eps = number(c, "epsilon");
    o.lr /= 1 + number(c, "t") * number(c, "decay_factor");
  } else if (is_kind(c, "Momentum")) {
    o.kind = RONDE__OPTIM_SGD;
    o.momentum = number(c, "alpha");
    o.nesterov = !strcmp(json_string_value(field(c, "mode")), "nesterov");
    assert_true(number(c, "t") == 0 || number(c, "beta") == 1); /* else there is a dampening, which Ronde has not */
  } else {
    o.kind = RONDE__OPTIM_ADAM;
    o.beta1 = number(c, "alpha");
    o.beta2 = number(c, "beta");
    double root = sqrt(1 - pow(o.beta2, UPDATES + 1));
    assert_true(number(c, "t") == 0); /* ONNX corrects nothing there */
    o.lr *= (1 - pow(o.beta1, UPDATES + 1)) / root;
    o.eps = number(c, "epsilon") / root;
  }
  return o;
}

static bool check_optimizer(const json_t *c, double error) {
  const json_t *states = json_object_get(c, "state"), *after = json_object_get(c, "state_new");
  ronde__optim_options options = options_of(c);
  int n = count(c, "x");
  float *x = list_of(c, "x"), *g = list_of(c, "g"), *wanted = list_of(c, "x_new");
  const ronde__kernels *kernels;
  ronde__optim *optim;
  bool right = true;
  assert_int_equal(ronde__kernels_get(&kernels), RONDE_OK);
  assert_int_equal(ronde__optim_create(&options, kernels, (size_t)n, &optim), RONDE_OK);
  assert_int_equal(ronde__optim_n_states(optim), json_array_size(states));
  for (int i = 0; i < ronde__optim_n_states(optim); i++)
    read_list(json_array_get(states, (size_t)i), ronde__optim_state(optim, i, &(const char *){NULL}));
  ronde__optim_set_updates(optim, UPDATES);
  ronde__optim_begin(optim, options.lr * (1 + error));
  ronde__optim_range(optim, x, g, 0, (size_t)n);
  for (int k = 0; k < n; k++) right = right && is_close((double)x[k], (double)wanted[k]);
  for (int i = 0; i < ronde__optim_n_states(optim); i++)
    for (int k = 0; k < n; k++)
      right = right && is_close((double)ronde__optim_state(optim, i, &(const char *){NULL})[k],
                                json_number_value(json_array_get(json_array_get(after, (size_t)i), (size_t)k)));
  ronde__optim_destroy(optim);
  free(x);
  free(g);
  free(wanted);
  return right;
}

/* ---- batch normalisation ---- */

static ronde_graph *norm_graph(const json_t *c, const int64_t *dims) {
  ronde_graph *graph;
  assert_int_equal(ronde_graph_create(&graph), RONDE_OK);
  ronde_batch_norm2d_options o = {.eps = (float)number(c, "epsilon"), .momentum = (float)(1 - number(c, "momentum"))};
  ronde_tensor *y = ronde_flatten(ronde_batch_norm2d(ronde_input(graph, "x", 3, dims + 1), "bn", &o));
  ronde_graph_set_output(graph, y);
  ronde_graph_set_loss(graph, ronde_mse_loss(y, ronde_target(graph)));
  assert_int_equal(ronde_graph_status(graph), RONDE_OK);
  return graph;
}

/* Of running statistics: mean, then variance, of which n / (n - 1) of the batch's have been mixed in. */
static bool check_running(const json_t *c, ronde__net *net, const int64_t *dims) {
  const double stays = (double)(float)number(c, "momentum"), n = (double)(dims[0] * dims[2] * dims[3]);
  float *mean = list_of(c, "mean_new"), *var = list_of(c, "var_new"), *before = list_of(c, "var");
  float now[2][8];
  bool right = dims[1] <= 8;
  for (int i = 0; i < 2 && right; i++) ronde__net_get_buffer(net, i, now[i]);
  for (int64_t k = 0; k < dims[1] && right; k++) {
    double old = stays * (double)before[k];
    right = is_close((double)now[0][k], (double)mean[k]) &&
            is_close(((double)now[1][k] - old) * (n - 1) / n + old, (double)var[k]);
  }
  free(mean);
  free(var);
  free(before);
  return right;
}

static bool check_norm(const json_t *c, double error) {
  int64_t dims[4];
  for (size_t d = 0; d < 4; d++) dims[d] = json_integer_value(json_array_get(json_object_get(c, "dims"), d));
  ronde_graph *graph = norm_graph(c, dims);
  int n = count(c, "x");
  float *x = list_of(c, "x"), *wanted = list_of(c, "y"), *y = calloc((size_t)n, sizeof *y), *lists[4];
  static const char *const names[] = {"weight", "bias", "mean", "var"};
  ronde__net_options options = {0};
  ronde__net_result result;
  ronde__net *net;
  assert_int_equal(ronde__kernels_get(&options.compute.kernels), RONDE_OK);
  assert_int_equal(ronde__gemm_default(options.compute.kernels, &options.compute.gemm), RONDE_OK);
  assert_int_equal(ronde__net_create(graph, &options, &net), RONDE_OK);
  assert_int_equal(ronde__net_init(net, 1), RONDE_OK);
  for (int i = 0; i < 4; i++) {
    lists[i] = list_of(c, names[i]);
    lists[i][0] *= (float)(1 + error);
    if (i < 2) ronde__net_set(net, i, lists[i]);
    else ronde__net_set_buffer(net, i - 2, lists[i]);
  }
  float *zeros = calloc((size_t)n, sizeof *zeros);
  ronde__net_batch batch = {.n = dims[0], .x = x, .targets = zeros, .training = true, .predictions = y};
  assert_int_equal(ronde__net_forward(net, &batch, 1, NULL, &result), RONDE_OK);
  bool right = check_running(c, net, dims);
  for (int k = 0; k < n; k++)
    right = right && fabs((double)y[k] - (double)wanted[k]) <= 1e-5 + 1e-4 * fabs((double)wanted[k]);
  ronde__net_destroy(net);
  ronde_graph_destroy(graph);
  for (int i = 0; i < 4; i++) free(lists[i]);
  free(x);
  free(y);
  free(wanted);
  free(zeros);
  return right;
}

/* Each case holds, and does not where something is off by a thousandth. */
static void test_cases(void **state) {
  json_t *cases = json_load_file(CASES, 0, NULL);
  int n_norms = 0, n_optimizers = 0;
  assert_non_null(cases);
  for (size_t i = 0; i < json_array_size(cases); i++) {
    const json_t *c = json_array_get(cases, i);
    bool is_norm = is_kind(c, "BatchNormalization");
    bool (*check)(const json_t *c, double error) = is_norm ? check_norm : check_optimizer;
    if (!check(c, 0)) fail_msg("%s differs", json_string_value(field(c, "name")));
    if (check(c, 0.01)) fail_msg("%s does not see an error", json_string_value(field(c, "name")));
    n_norms += is_norm;
    n_optimizers += !is_norm;
  }
  json_decref(cases);
  assert_int_equal(n_norms, 2);
  assert_int_equal(n_optimizers, 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

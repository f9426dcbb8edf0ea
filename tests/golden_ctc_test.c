/* The CTC loss and the gradient of its logits against PyTorch's in f64 (tests/golden/make_golden_ctc.py), in a plan and eagerly.
 * The network adds a parameter to its input's rows behind the first, so that this parameter's gradient is the logits'; the
 * first row begins with the length. */
#include "golden_testing.h"

#include "data/testing.h"
#include "train_testing.h"

typedef struct subject_case {
  int64_t steps, classes, blank, labels;
  bool zero_infinity;
} subject_case;

static ronde_tensor *ctc_network(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  const subject_case *c = user;
  const int64_t zero[] = {0, 0}, first[] = {1, 0}, one[] = {1, 1}, sizes[] = {c->steps, c->classes};
  ronde_ctc_options options = {.labels = c->labels, .blank = c->blank, .zero_infinity = c->zero_infinity};
  options.lengths = ronde_reshape(ronde_slice(x, zero, one, one), 1, one);
  ronde_tensor *logits =
      ronde_add(ronde_slice(x, first, one, sizes), ronde_parameter(graph, "shift", 2, sizes, NULL, false));
  ronde_graph_set_loss(graph, ronde_ctc_loss(logits, ronde_target(graph), &options));
  return logits;
}

static ronde__net *make_net(const subject_case *c, ronde_graph **graph_out) {
  const int64_t dims[] = {c->steps + 1, c->classes};
  const ronde__kernels *kernels;
  ronde__net *net;
  assert_int_equal(ronde__kernels_get(&kernels), RONDE_OK);
  assert_int_equal(ronde_graph_create(graph_out), RONDE_OK);
  ronde_tensor *x = ronde_input(*graph_out, "x", 2, dims);
  ronde_graph_set_output(*graph_out, ctc_network(*graph_out, x, c->classes, (void *)(uintptr_t)c));
  assert_int_equal(ronde__graph_finish(*graph_out), RONDE_OK);
  ronde__net_options options = {.compute = {.kernels = kernels}, .training = true};
  assert_int_equal(ronde__net_create(*graph_out, &options, &net), RONDE_OK);
  return net;
}

/* The input and the labels of an example as the file has it. */
static void take_example(const subject_case *c, const json_t *example, float *x, int64_t *labels) {
  const json_t *given = field(example, "labels");
  memset(x, 0, (size_t)c->classes * sizeof *x);
  x[0] = (float)number(example, "length");
  fill_values((uint32_t)whole(example, "stream"), (size_t)(c->steps * c->classes), 4, x + c->classes);
  for (int64_t s = 0; s < c->labels; s++)
    labels[s] =
        s < (int64_t)json_array_size(given) ? json_integer_value(json_array_get(given, (size_t)s)) : RONDE_IGNORED;
}

static subject_case case_of(const json_t *json) {
  return (subject_case){whole(json, "steps"), whole(json, "classes"), whole(json, "blank"), whole(json, "labels"),
                        true};
}

static void check_example(const subject_case *c, ronde__net *net, const json_t *example) {
  enum { MOST = 512 };
  float x[MOST], gradient[MOST];
  int64_t labels[32];
  ronde__net_result result;
  take_example(c, example, x, labels);
  ronde__net_batch batch = {.n = 1, .x = x, .labels = labels, .training = true, .step = 1};
  assert_int_equal(ronde__net_forward(net, &batch, 1, NULL, &result), RONDE_OK);
  assert_int_equal(ronde__net_backward(net, false, NULL), RONDE_OK);
  ronde__net_get_gradient(net, 0, gradient);
  double wanted = number(example, "loss");
  if (fabs(result.loss_sum - wanted) > 1e-9 * (1 + wanted)) fail_msg("loss %.12g, not %.12g", result.loss_sum, wanted);
  for (int64_t i = 0; i < c->steps * c->classes; i++) {
    double slope = json_number_value(json_array_get(field(example, "gradient"), (size_t)i));
    if (fabs((double)gradient[i] - slope) > 2e-7) fail_msg("gradient [%d]: %g, not %g", (int)i, gradient[i], slope);
  }
}

static json_t *load_golden(void) {
  json_error_t error;
  json_t *json = json_load_file(RONDE_SOURCE_DIR "/tests/golden/ctc.json", 0, &error);
  if (!json) fail_msg("ctc.json:%d: %s", error.line, error.text);
  return json;
}

static void loss_and_gradients_are_pytorchs(void **state) {
  json_t *json = load_golden();
  const json_t *of_case, *example;
  size_t i, k, n = 0;
  json_array_foreach(field(json, "cases"), i, of_case) {
    subject_case c = case_of(of_case);
    ronde_graph *graph;
    ronde__net *net = make_net(&c, &graph);
    json_array_foreach(field(of_case, "examples"), k, example) {
      check_example(&c, net, example);
      n++;
    }
    ronde__net_destroy(net);
    ronde_graph_destroy(graph);
  }
  assert_int_equal(n, 11);
  json_decref(json);
}

static void what_no_alignment_fits_is_infinite_unless_it_is_zero(void **state) {
  float x[3 * 2] = {2, 0, 1, 2, 3, 4};
  int64_t labels[2] = {1, 1};
  for (int zero = 0; zero < 2; zero++) {
    subject_case c = {2, 2, 0, 2, zero};
    ronde_graph *graph;
    ronde__net *net = make_net(&c, &graph);
    ronde__net_batch batch = {.n = 1, .x = x, .labels = labels, .training = true, .step = 1};
    ronde__net_result result;
    assert_int_equal(ronde__net_forward(net, &batch, 1, NULL, &result), RONDE_OK);
    assert_true(zero ? result.loss_sum == 0 : isinf(result.loss_sum));
    ronde__net_destroy(net);
    ronde_graph_destroy(graph);
  }
}

static void a_blank_is_no_label(void **state) {
  static test_log lines;
  float x[3 * 2] = {2, 0, 1, 2, 3, 4};
  int64_t labels[2] = {0, RONDE_IGNORED};
  subject_case c = {2, 2, 0, 2, true};
  ronde_graph *graph;
  ronde__net *net = make_net(&c, &graph);
  ronde__net_batch batch = {.n = 1, .x = x, .labels = labels, .training = true, .step = 1};
  ronde__net_result result;
  test_log_start(&lines);
  assert_int_equal(ronde__net_forward(net, &batch, 1, NULL, &result), RONDE_E_INPUT);
  assert_non_null(strstr(lines.error, "CTC: label 0 of example 0 of the batch is 0: the blank"));
  ronde_log_set(NULL, NULL);
  ronde__net_destroy(net);
  ronde_graph_destroy(graph);
}

/* ---- whole runs ---- */

static const subject_case of_runs = {9, 6, 0, 4, true};

/* Labels of examples differ in number, from one to four. */
static ronde_status read_examples(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x,
                                  int64_t *labels, float *targets) {
  const subject_case *c = &of_runs;
  int64_t elems = (c->steps + 1) * c->classes;
  for (int64_t i = 0; i < n; i++) {
    for (int64_t e = 0; e < elems; e++) x[i * elems + e] = small_noise(ids[i], e);
    x[i * elems] = (float)(c->steps - ids[i] % 4);
    for (int64_t s = 0; s < c->labels; s++)
      labels[i * c->labels + s] = s <= ids[i] % c->labels ? 1 + (ids[i] + s * s) % (c->classes - 1) : RONDE_IGNORED;
  }
  return RONDE_OK;
}

static ronde_tensor *network_of_runs(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  return ctc_network(graph, x, classes, (void *)(uintptr_t)&of_runs);
}

static ronde_source source_of_runs(void) {
  return (ronde_source){.name = "sequences",
                        .rank = 2,
                        .dims = {of_runs.steps + 1, of_runs.classes},
                        .classes = of_runs.classes,
                        .label_elems = of_runs.labels,
                        .n_examples = {14, 0},
                        .read = read_examples};
}

static observed train(const char *options) {
  ronde_source source = source_of_runs();
  observed o = observe(options, &source, network_of_runs, NULL);
  if (o.status != RONDE_OK) fail_msg("%s: status %d", options, o.status);
  return o;
}

/* The mean is over the examples, so it does not weigh labels, whatever the split. */
static void a_step_of_many_is_a_step_of_one(void **state) {
  static const char *const others[] = {
      "workers=2",  "workers=3 strategy=sharded", "workers=7 strategy=ps-sync", "workers=3 strategy=dataparallel",
      "exec=eager", "batch=7 accumulate=2"};
  observed fresh = train("threads=1 steps=1 lr=0 batch=14"), one = train("threads=1 steps=1 lr=0.5 batch=14");
  for (size_t i = 0; i < RONDE__COUNT(others); i++) {
    char options[128];
    snprintf(options, sizeof options, "threads=1 steps=1 lr=0.5 %s %s", strstr(others[i], "batch") ? "" : "batch=14",
             others[i]);
    observed many = train(options);
    if (!(update_difference(&many, &one, &fresh) < 1e-5 && fabs(many.loss[0] / one.loss[0] - 1) < 2e-6))
      fail_msg("%s: updates differ by %g, losses are %g and %g", options, update_difference(&many, &one, &fresh),
               many.loss[0], one.loss[0]);
    free(many.weights);
  }
  free(fresh.weights), free(one.weights);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(loss_and_gradients_are_pytorchs),
      cmocka_unit_test(what_no_alignment_fits_is_infinite_unless_it_is_zero),
      cmocka_unit_test(a_blank_is_no_label),
      cmocka_unit_test(a_step_of_many_is_a_step_of_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

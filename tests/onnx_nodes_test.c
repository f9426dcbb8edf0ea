/* Cases of single operators that others made: those of the onnx package that tests/golden/make_onnx_nodes.py has put into
 * tests/golden/onnx/nodes.cases, each a file, the values of its inputs and what must come out. A case's name ends in its
 * form: example, whose tensors have no batch in front; rows, whose input has one; lanes and blocks, whose images come to the
 * operator in these layouts, because a convolution that changes nothing stands in front. RONDE_NODE_CASES=FILE runs those of another file, and prints a line for each: its name, and passed, refused or
 * failed. */
#include "train_testing.h"

#include "graph/graph.h"
#include "kernel/kernel.h"
#include "onnx/onnx.h"

static test_log lines;

#define CASES RONDE_SOURCE_DIR "/tests/golden/onnx/nodes.cases"

/* A case as the file has it: each part behind its length in bytes, a u32. */
typedef struct node_case {
  char *name;
  void *model;
  float *x, *wanted;
  uint32_t n_name, n_model, n_x, n_wanted; /* bytes */
} node_case;

static bool read_part(FILE *from, uint32_t *bytes_out, void *data_out) {
  void **data = data_out;
  if (fread(bytes_out, sizeof *bytes_out, 1, from) != 1) return false;
  *data = calloc(1, *bytes_out + 1);
  assert_int_equal(fread(*data, 1, *bytes_out, from), *bytes_out);
  return true;
}

static bool read_case(FILE *from, node_case *c) {
  *c = (node_case){0};
  if (!read_part(from, &c->n_name, &c->name)) return false;
  assert_true(read_part(from, &c->n_model, &c->model) && read_part(from, &c->n_x, &c->x) &&
              read_part(from, &c->n_wanted, &c->wanted));
  return true;
}

static void free_case(node_case *c) {
  free(c->name);
  free(c->model);
  free(c->x);
  free(c->wanted);
}

static bool are_close(float y, float wanted) {
  if (isnan(wanted)) return isnan(y);
  return y == wanted || fabs((double)y - (double)wanted) <= 1e-6 + 1e-4 * fabs((double)wanted);
}

/* ---- forms ---- */

static bool has_form(const node_case *c, const char *form) { return !strcmp(strrchr(c->name, '/') + 1, form); }

static ronde_tensor *add_same(ronde_tensor *x, const char *name, int64_t channels) {
  return ronde_conv2d(x, name, &(ronde_conv2d_options){.out_channels = channels, .kernel = {1, 1}, .no_bias = true});
}

/* The input of the operator, in the layout that the case wants. */
static ronde_tensor *input_of(const node_case *c, ronde_graph *graph, const ronde__shape *shape) {
  ronde_tensor *x = ronde_input(graph, "input", shape->rank, shape->dim);
  if (has_form(c, "lanes")) return add_same(x, "case.1", shape->dim[0]);
  if (has_form(c, "blocks")) return add_same(add_same(x, "case.1", 64), "case.2", shape->dim[0]);
  return x;
}

/* A weight [O][I] that passes on the channels that there are. */
static void set_same(ronde__net *net, int i, const ronde__shape *shape) {
  float *values = calloc((size_t)ronde__shape_elems(shape), sizeof *values);
  for (int64_t k = 0; k < shape->dim[0] && k < shape->dim[1]; k++) values[k * shape->dim[1] + k] = 1;
  ronde__net_set(net, i, values);
  free(values);
}

/* What is wrong with the network's outputs; NULL: nothing. */
static const char *run_network(const ronde__onnx *file, const node_case *c, ronde_graph *graph) {
  static const char *const refused = "the network that was opened cannot be run";
  const ronde__shape *shape = ronde__onnx_shape(file);
  ronde__net_options options = {0};
  ronde__safetensors *weights;
  ronde__net *net;
  int n_params, n_buffers;
  ronde_graph_set_output(graph, ronde__onnx_build(file, graph, input_of(c, graph, shape), 0, RONDE__ONNX_WHOLE));
  if (ronde_graph_status(graph) != RONDE_OK || graph->output < 0) return refused;
  int64_t batch = has_form(c, "example") ? 1 : c->n_x / 4 / ronde__shape_elems(shape);
  int64_t n = batch * ronde__shape_elems(&graph->tensors[graph->output]->shape);
  if (n * 4 != c->n_wanted) return "its output has another number of elements";
  assert_int_equal(ronde__kernels_get(&options.compute.kernels), RONDE_OK);
  assert_int_equal(ronde__gemm_default(options.compute.kernels, &options.compute.gemm), RONDE_OK);
  if (ronde__net_create(graph, &options, &net) != RONDE_OK) return refused;
  assert_int_equal(ronde__net_init(net, 1), RONDE_OK);
  const ronde__net_param *params = ronde__net_params(net, &n_params);
  ronde__net_buffer *buffers = ronde__net_buffers(net, &n_buffers);
  assert_int_equal(ronde__onnx_weights(file, &weights), RONDE_OK);
  for (int i = 0; i < n_params; i++) { /* sizes that are the output are no weights of the file */
    const ronde__file_tensor *tensor = ronde__safetensors_find(weights, params[i].name);
    if (tensor) ronde__net_set(net, i, tensor->data);
    else if (!strncmp(params[i].name, "case.", 5)) set_same(net, i, &params[i].shape);
  }
  for (int i = 0; i < n_buffers; i++)
    if (!buffers[i].is_counter) ronde__net_set_buffer(net, i, ronde__safetensors_find(weights, buffers[i].name)->data);
  ronde__safetensors_close(weights);
  float *y = malloc((size_t)n * sizeof *y), none = 0;
  ronde_status status = ronde__net_predict(net, batch, c->n_x ? c->x : &none, y);
  bool right = status == RONDE_OK;
  for (int64_t i = 0; i < n; i++) right = right && are_close(y[i], c->wanted[i]);
  free(y);
  ronde__net_destroy(net);
  return status != RONDE_OK ? refused : right ? NULL : "its output is another one";
}

/* "passed", "refused" or "failed"; *why_out is valid until the next case. */
static const char *verdict_of(const node_case *c, const char **why_out) {
  ronde__onnx *file;
  ronde_graph *graph;
  *why_out = lines.error;
  *lines.error = 0;
  if (ronde__onnx_parse_case(c->name, c->model, c->n_model, !has_form(c, "example"), &file) != RONDE_OK)
    return "refused";
  assert_int_equal(ronde_graph_create(&graph), RONDE_OK);
  const char *why = run_network(file, c, graph);
  ronde_graph_destroy(graph);
  ronde__onnx_close(file);
  *why_out = why ? why : "";
  return why ? "failed" : "passed";
}

static int start_log(void **state) {
  test_log_start(&lines);
  return 0;
}

static void test_cases(void **state) {
  const char *path = getenv("RONDE_NODE_CASES"), *why;
  int n = 0, n_passed = 0;
  node_case c;
  if (!ronde__onnx_supported()) {
    print_message("SKIP: this build has no ONNX (no libprotobuf-c)\n");
    skip();
  }
  FILE *from = fopen(path ? path : CASES, "rb");
  assert_non_null(from);
  for (; read_case(from, &c); n++, free_case(&c)) {
    const char *verdict = verdict_of(&c, &why);
    bool passed = !strcmp(verdict, "passed");
    n_passed += passed;
    if (path || !passed) printf("%s\t%s\t%s\n", c.name, verdict, why);
    if (path) fflush(stdout);
    if (passed && !path) { /* and the comparison is one: another value is found */
      c.wanted[0] = c.wanted[0] == 0 || isnan(c.wanted[0]) ? 1 : -2 * c.wanted[0];
      assert_string_equal(verdict_of(&c, &why), "failed");
    }
  }
  fclose(from);
  if (path) return;
  assert_int_equal(n_passed, n);
  assert_true(n >= 600);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup(test_cases, start_log)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* For the tests of recording: a graph, and the line that says what is wrong with it. */
#include "graph/build_testing.h"

#include <stdio.h>

int n_logged;
static char logged[1024];

static void keep_logged(void *user, ronde_log_level level, const char *line) {
  snprintf(logged, sizeof logged, "%s", line);
  n_logged++;
}

int graph_set_up(void **state) {
  ronde_graph *graph;
  *logged = 0;
  n_logged = 0;
  ronde_log_set(keep_logged, NULL);
  if (ronde_graph_create(&graph) != RONDE_OK) return 1;
  *state = graph;
  return 0;
}

int graph_tear_down(void **state) {
  ronde_graph_destroy(*state);
  ronde_log_set(NULL, NULL);
  return 0;
}

void check_refused(ronde_graph *graph, const ronde_tensor *x, const char *line) {
  assert_null(x);
  assert_string_equal(logged, line);
  assert_int_equal(n_logged, 1);
  assert_int_equal(ronde_graph_status(graph), RONDE_E_USAGE);
  assert_int_equal(ronde__graph_finish(graph), RONDE_E_USAGE);
  assert_null(ronde_relu(graph->n_inputs > 0 ? graph->tensors[graph->inputs[0]] : NULL));
  assert_int_equal(n_logged, 1);
}

void check_finish_refused(ronde_graph *graph, const char *line) {
  assert_int_equal(ronde__graph_finish(graph), RONDE_E_USAGE);
  check_refused(graph, NULL, line);
}

ronde_tensor *image(ronde_graph *graph, int64_t c, int64_t h, int64_t w) {
  return ronde_input(graph, "input", 3, (int64_t[]){c, h, w});
}

ronde_tensor *vector(ronde_graph *graph, int64_t n) { return ronde_input(graph, "input", 1, &n); }

void check_dims(const ronde_tensor *x, int rank, int64_t a, int64_t b, int64_t c) {
  int64_t dims[RONDE_MAX_RANK];
  assert_int_equal(ronde_tensor_dims(x, dims), rank);
  if (rank > 0) assert_int_equal(dims[0], a);
  if (rank > 1) assert_int_equal(dims[1], b);
  if (rank > 2) assert_int_equal(dims[2], c);
}

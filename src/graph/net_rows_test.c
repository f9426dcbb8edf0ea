/* Gradients of tables of which only the rows are written that were met: the same numbers as where all are, whatever was
 * there before. */
#include "graph/net_testing.h"

enum { STEPS = 6, TOKENS = 150, WIDTH = 5, N = 4 };

static ronde__pool *pool;

static int start_pool(void **unused) { return ronde__pool_create(3, &pool) != RONDE_OK; }

static int stop_pool(void **unused) {
  ronde__pool_destroy(pool);
  return 0;
}

/* Two languages that share a table, and another table of the first. */
static void record(ronde_graph *graph) {
  const int64_t dims[] = {STEPS};
  ronde_tensor *x = ronde_input_tokens(graph, "x", 1, dims, TOKENS),
               *y = ronde_input_tokens(graph, "y", 1, dims, TOKENS);
  ronde_graph_share(graph, "both");
  ronde_tensor *parts[] = {ronde_embedding(x, "both", WIDTH, 1), ronde_embedding(x, "other", 2 * WIDTH, 1),
                           ronde_embedding(y, "both", WIDTH, 1)};
  ronde_tensor *out = ronde_linear(ronde_concat_along((const ronde_tensor *const *)parts, 3, 1), "fc", 3, true);
  ronde_graph_set_output(graph, out);
  ronde_graph_set_loss(graph, ronde_mse_loss(out, ronde_target(graph)));
}

static ronde_status define(void *user, ronde_graph *graph) {
  record(graph);
  return ronde__graph_finish(graph);
}

static ronde_graph *make_graph(void) {
  ronde_graph *graph;
  assert_int_equal(ronde_graph_create(&graph), RONDE_OK);
  record(graph);
  assert_int_equal(ronde__graph_finish(graph), RONDE_OK);
  return graph;
}

typedef enum how { DENSE, KEPT, TRANSIENT, EAGER } how;

static ronde__net *net_of(const ronde_graph *graph, how how) {
  ronde__net_options options = {.compute = {.kernels = ronde__kernels_available(0), .gemm = RONDE__GEMM_XSMM},
                                .pool = pool,
                                .training = true,
                                .transient_gradients = how == TRANSIENT,
                                .define = how == EAGER ? define : NULL};
  ronde__net *net;
  assert_int_equal(ronde__net_create(graph, &options, &net), RONDE_OK);
  assert_int_equal(ronde__net_init(net, 7), RONDE_OK);
  if (how != DENSE) assert_int_equal(ronde__net_track_rows(net), RONDE_OK);
  return net;
}

/* ---- batches: other tokens in each ---- */

static float x[N][2 * STEPS], targets[N][STEPS][3];

static ronde__net_batch batch_of(int step) {
  random_state = 1 + (uint32_t)step;
  for (int i = 0; i < N; i++) {
    for (int t = 0; t < 2 * STEPS; t++) {
      int32_t token = (i * 31 + t * t * 7 + step * 13) % (TOKENS - step);
      memcpy(&x[i][t], &token, sizeof token);
    }
    for (int t = 0; t < 3 * STEPS; t++) targets[i][t / 3][t % 3] = random_float();
  }
  return (ronde__net_batch){.n = 1 + step % N, .x = x[0], .targets = targets[0][0], .training = true};
}

/* Whether a token of the batch is the row. */
static bool is_met(const ronde__net_batch *batch, int64_t row, bool in_both) {
  for (int64_t i = 0; i < batch->n; i++)
    for (int t = 0; t < (in_both ? 2 : 1) * STEPS; t++) {
      int32_t token;
      memcpy(&token, &x[i][t], sizeof token);
      if (token == row) return true;
    }
  return false;
}

/* ---- what is told ---- */

typedef struct taken {
  const ronde__net_batch *batch;
  const ronde__net *dense;
  bool is_kept, accumulates;
  int n_tables;
} taken;

static void take(void *user, const ronde__gradient *g) {
  taken *t = user;
  int n_params;
  const ronde__net_param *p = &ronde__net_params(t->dense, &n_params)[g->param];
  const float *all = ronde__net_gradients((ronde__net *)t->dense) + g->begin;
  assert_int_equal(g->rows != NULL, p->is_table);
  if (!g->rows || t->is_kept) assert_memory_equal(g->data, all, (g->end - g->begin) * sizeof *all);
  if (!g->rows) return;
  t->n_tables++;
  assert_int_equal(g->end - g->begin, g->rows->n * g->rows->elems);
  for (int64_t r = 0; r < g->rows->n; r++) {
    bool met = ronde__row_set_has(g->rows, r);
    size_t bytes = (size_t)g->rows->elems * sizeof *all;
    if (!t->accumulates) assert_int_equal(met, is_met(t->batch, r, !strcmp(p->name, "both.weight")));
    if (met) assert_memory_equal(g->data + r * g->rows->elems, all + r * g->rows->elems, bytes);
    for (int64_t i = 0; i < g->rows->elems && !met; i++) assert_true(all[r * g->rows->elems + i] == 0);
  }
}

static void pass(ronde__net *net, const ronde__net_batch *batch, bool accumulate, taken *t) {
  ronde__net_hooks hooks = {.gradient = take, .user = t};
  ronde__net_result result;
  assert_int_equal(ronde__net_forward(net, batch, 0.2f, NULL, &result), RONDE_OK);
  assert_int_equal(ronde__net_backward(net, accumulate, t ? &hooks : NULL), RONDE_OK);
}

/* As an exchange does: a row that others have met. */
static void add_row_of_others(ronde__net *net) {
  int n_params;
  const ronde__net_param *params = ronde__net_params(net, &n_params);
  for (int i = 0; i < n_params; i++) {
    ronde__row_set *rows = ronde__net_rows(net, i);
    if (!rows) continue;
    for (int64_t j = 0; j < rows->elems; j++)
      ronde__net_gradients(net)[params[i].offset + (size_t)((TOKENS - 1) * rows->elems + j)] = 7;
    ronde__row_set_add(rows, TOKENS - 1);
  }
}

static void check_how(how how) {
  ronde_graph *graph = make_graph();
  ronde__net *dense = net_of(graph, DENSE), *net = net_of(graph, how);
  for (int step = 0; step < 12; step++) {
    ronde__net_batch batch = batch_of(step);
    taken t = {.batch = &batch, .dense = dense, .is_kept = how != TRANSIENT};
    t.accumulates = step % 3 == 2 && how != TRANSIENT;
    pass(dense, &batch, t.accumulates, NULL);
    pass(net, &batch, t.accumulates, &t);
    assert_int_equal(t.n_tables, 2);
    if (how == TRANSIENT) continue;
    /* The next step accumulates behind 1, 4 and so on. */
    if (step % 3 != 1) add_row_of_others(net);
    if (step % 3 == 0) {
      ronde__net_clear_gradients(net), ronde__net_clear_gradients(dense);
      assert_memory_equal(ronde__net_gradients(net), ronde__net_gradients(dense),
                          ronde__net_n_trained(net) * sizeof(float));
    }
  }
  ronde__net_destroy(dense), ronde__net_destroy(net);
  ronde_graph_destroy(graph);
}

static void kept_gradients_are_the_dense_ones(void **unused) { check_how(KEPT); }
static void transient_gradients_have_the_rows_that_were_met(void **unused) { check_how(TRANSIENT); }
static void eager_gradients_are_the_dense_ones(void **unused) { check_how(EAGER); }

/* ---- what is a table ---- */

static bool is_table(const ronde__net *net, const char *name) {
  int n_params;
  const ronde__net_param *params = ronde__net_params(net, &n_params);
  for (int i = 0; i < n_params; i++)
    if (!strcmp(params[i].name, name)) return params[i].is_table;
  fail_msg("no %s", name);
  return false;
}

static void what_a_linear_layer_shares_is_no_table(void **unused) {
  const int64_t dims[] = {STEPS};
  ronde_graph *graph = make_graph();
  ronde__net *net = net_of(graph, KEPT);
  assert_true(is_table(net, "both.weight") && is_table(net, "other.weight"));
  assert_false(is_table(net, "fc.weight") || is_table(net, "fc.bias"));
  ronde__net_destroy(net);
  ronde_graph_destroy(graph);
  assert_int_equal(ronde_graph_create(&graph), RONDE_OK);
  ronde_graph_share(graph, "table");
  ronde_tensor *y = ronde_embedding(ronde_input_tokens(graph, "x", 1, dims, TOKENS), "table", 32, 1);
  ronde_graph_set_output(graph, ronde_linear(ronde_tanh(y), "table", TOKENS, false));
  assert_int_equal(ronde__graph_finish(graph), RONDE_OK);
  net = net_of(graph, KEPT);
  assert_false(is_table(net, "table.weight"));
  assert_null(ronde__net_rows(net, 0));
  ronde__net_destroy(net);
  ronde_graph_destroy(graph);
  graph = make_graph();
  graph->params[0].frozen = true;
  net = net_of(graph, KEPT);
  assert_false(is_table(net, "both.weight"));
  ronde__net_destroy(net);
  ronde_graph_destroy(graph);
}

/* A strategy that begins anew cannot know what an exchange has left behind. */
static void tracking_anew_clears_tables(void **unused) {
  ronde_graph *graph = make_graph();
  ronde__net *dense = net_of(graph, DENSE), *net = net_of(graph, KEPT);
  ronde__net_batch batch = batch_of(1);
  taken t = {.batch = &batch, .dense = dense, .is_kept = true};
  pass(net, &batch, false, NULL);
  for (size_t i = 0; i < ronde__net_n_trained(net); i++) ronde__net_gradients(net)[i] = NAN;
  assert_int_equal(ronde__net_track_rows(net), RONDE_OK);
  batch = batch_of(2);
  pass(dense, &batch, false, NULL);
  pass(net, &batch, false, &t);
  assert_int_equal(t.n_tables, 2);
  ronde__net_destroy(dense), ronde__net_destroy(net);
  ronde_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kept_gradients_are_the_dense_ones),
      cmocka_unit_test(transient_gradients_have_the_rows_that_were_met),
      cmocka_unit_test(eager_gradients_are_the_dense_ones),
      cmocka_unit_test(what_a_linear_layer_shares_is_no_table),
      cmocka_unit_test(tracking_anew_clears_tables),
  };
  return cmocka_run_group_tests(tests, start_pool, stop_pool);
}

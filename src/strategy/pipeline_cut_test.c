/* Cuts of a network into stages: against all there can be, and those that cannot be. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "data/testing.h"
#include "lib/random.h"
#include "strategy/pipeline.h"

enum { NODES = 9, MAX_STAGES = 4 };

static test_log lines;

static void draw(ronde__node_cost *costs) {
  for (int i = 0; i < NODES; i++)
    costs[i] = (ronde__node_cost){.may_begin = random_float() > -0.5f,
                                  .is_layer = random_float() > -0.3f,
                                  .flops = (random_float() + 1) * 1e9,
                                  .bytes = (random_float() + 1) * 1e8,
                                  .crossing_bytes = (random_float() + 1) * 1e7};
}

static bool is_possible(const ronde__node_cost *costs, const int *cuts, int n_stages) {
  for (int s = 0; s < n_stages; s++) {
    int layers = 0;
    if (s > 0 && (!costs[cuts[s]].may_begin || cuts[s] <= cuts[s - 1])) return false;
    for (int i = cuts[s]; i < cuts[s + 1]; i++) layers += costs[i].is_layer;
    if (layers == 0) return false;
  }
  return true;
}

static double slowest(const ronde__node_cost *costs, const int *cuts, int n_stages) {
  double s = 0;
  for (int i = 0; i < n_stages; i++) s = fmax(s, ronde__pipeline_seconds(costs, NODES, cuts[i], cuts[i + 1]));
  return s;
}

/* Over all cuts; INFINITY: there is none. */
static double least(const ronde__node_cost *costs, int n_stages) {
  double best = INFINITY;
  for (int code = 0; code < NODES * NODES * NODES; code++) {
    int cuts[MAX_STAGES + 1] = {0, code % NODES, code / NODES % NODES, code / NODES / NODES};
    cuts[n_stages] = NODES;
    if (is_possible(costs, cuts, n_stages)) best = fmin(best, slowest(costs, cuts, n_stages));
  }
  return best;
}

static void no_cut_is_faster(void **state) {
  int n_impossible = 0;
  random_state = 7;
  for (int i = 0; i < 200; i++) {
    ronde__node_cost costs[NODES];
    int cuts[MAX_STAGES + 1];
    draw(costs);
    int n_stages = 1 + i % MAX_STAGES;
    double best = least(costs, n_stages);
    test_log_start(&lines);
    ronde_status status = ronde__pipeline_cut(costs, NODES, n_stages, cuts);
    assert_int_equal(status, isinf(best) ? RONDE_E_USAGE : RONDE_OK);
    n_impossible += isinf(best);
    if (isinf(best)) {
      assert_non_null(strstr(lines.error, "fewer layers"));
      continue;
    }
    assert_int_equal(cuts[0], 0);
    assert_int_equal(cuts[n_stages], NODES);
    assert_true(is_possible(costs, cuts, n_stages));
    assert_true(fabs(slowest(costs, cuts, n_stages) - best) <= 1e-9 * best);
  }
  assert_true(n_impossible > 0 && n_impossible < 100);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(no_cut_is_faster)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

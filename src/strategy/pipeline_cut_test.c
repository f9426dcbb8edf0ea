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

static void draw(ronde__node_time *times) {
  for (int i = 0; i < NODES; i++)
    times[i] = (ronde__node_time){.may_begin = random_float() > -0.5f,
                                  .is_layer = random_float() > -0.3f,
                                  .forward_s = random_float() + 1,
                                  .backward_s = random_float() + 1,
                                  .update_s = random_float() + 1,
                                  .wire_s = (random_float() + 1) / 10};
}

/* Nodes weigh 1; a stage holds as many as it has passes under way, and `room` at most. */
static bool fits(void *user, int stage, int begin, int end) {
  const int *room = user;
  return (end - begin) * (MAX_STAGES - stage) <= *room;
}

static bool is_possible(const ronde__cut_problem *p, const int *cuts) {
  for (int s = 0; s < p->n_stages; s++) {
    int layers = 0;
    if (s > 0 && (!p->times[cuts[s]].may_begin || cuts[s] <= cuts[s - 1])) return false;
    for (int i = cuts[s]; i < cuts[s + 1]; i++) layers += p->times[i].is_layer;
    if (layers == 0) return false;
  }
  return true;
}

static bool is_fitting(const ronde__cut_problem *p, const int *cuts) {
  for (int s = 0; s < p->n_stages && p->fits; s++)
    if (!p->fits(p->user, s, cuts[s], cuts[s + 1])) return false;
  return true;
}

static double slowest(const ronde__cut_problem *p, const int *cuts) {
  double s = 0;
  for (int i = 0; i < p->n_stages; i++) s = fmax(s, ronde__pipeline_seconds(p, cuts[i], cuts[i + 1]));
  return s;
}

/* Over all cuts; INFINITY: there is none. */
static double least(const ronde__cut_problem *p, bool fitting) {
  double best = INFINITY;
  for (int code = 0; code < NODES * NODES * NODES; code++) {
    int cuts[MAX_STAGES + 1] = {0, code % NODES, code / NODES % NODES, code / NODES / NODES};
    cuts[p->n_stages] = NODES;
    if (is_possible(p, cuts) && (!fitting || is_fitting(p, cuts))) best = fmin(best, slowest(p, cuts));
  }
  return best;
}

static void no_cut_is_faster(void **state) {
  int n_impossible = 0, n_too_large = 0, n_other = 0, room;
  random_state = 7;
  for (int i = 0; i < 400; i++) {
    ronde__node_time times[NODES];
    int cuts[MAX_STAGES + 1];
    bool fit;
    draw(times);
    room = 8 + i % 9;
    ronde__cut_problem p = {.times = times, .n_nodes = NODES, .n_stages = 1 + i % MAX_STAGES, .n_micro = 1 + i % 3};
    if (i % 2) p.fits = fits, p.user = &room;
    double any = least(&p, false), best = least(&p, true);
    test_log_start(&lines);
    ronde_status status = ronde__pipeline_cut(&p, cuts, &fit);
    assert_int_equal(status, isinf(any) ? RONDE_E_USAGE : RONDE_OK);
    n_impossible += isinf(any);
    if (isinf(any)) {
      assert_non_null(strstr(lines.error, "fewer layers"));
      continue;
    }
    n_too_large += isinf(best);
    n_other += best > any && !isinf(best);
    assert_int_equal(fit, !isinf(best));
    assert_int_equal(cuts[0], 0);
    assert_int_equal(cuts[p.n_stages], NODES);
    assert_true(is_possible(&p, cuts));
    assert_int_equal(is_fitting(&p, cuts), fit);
    if (isinf(best)) best = any;
    assert_true(fabs(slowest(&p, cuts) - best) <= 1e-9 * best);
  }
  assert_true(n_impossible > 0 && n_impossible < 200 && n_too_large > 0 && n_other > 0);
}

/* Equal stages without messages: as long as all micro-batches, and the bubble of Huang et al. */
static void equal_stages_wait_as_the_formula_says(void **state) {
  for (int n_stages = 1; n_stages <= MAX_STAGES; n_stages++)
    for (int64_t n_micro = 1; n_micro <= 12; n_micro++) {
      ronde__node_time times[MAX_STAGES];
      int cuts[MAX_STAGES + 1];
      double step, bubble;
      for (int i = 0; i <= MAX_STAGES; i++) cuts[i] = i;
      for (int i = 0; i < MAX_STAGES; i++)
        times[i] = (ronde__node_time){.may_begin = true, .is_layer = true, .forward_s = 1, .backward_s = 2};
      ronde__cut_problem p = {.times = times, .n_nodes = n_stages, .n_stages = n_stages, .n_micro = n_micro};
      assert_int_equal(ronde__pipeline_step(&p, cuts, &step, &bubble), RONDE_OK);
      assert_true(fabs(step - 3 * (double)(n_micro + n_stages - 1)) < 1e-9);
      assert_true(fabs(bubble - 3 * (double)(n_stages - 1)) < 1e-9);
      for (int i = 0; i < n_stages; i++) times[i].update_s = 5; /* of all at once */
      assert_int_equal(ronde__pipeline_step(&p, cuts, &step, &bubble), RONDE_OK);
      assert_true(fabs(step - 3 * (double)(n_micro + n_stages - 1) - 5) < 1e-9);
    }
}

/* The first stage of the next step runs while the last still updates. */
static void a_long_update_hides_behind_the_next_step(void **state) {
  ronde__node_time times[] = {{true, true, 1, 1, 0, 0}, {true, true, 1, 1, 0, 0.5}};
  static const int cuts[] = {0, 1, 2};
  double step, bubble;
  ronde__cut_problem p = {.times = times, .n_nodes = 2, .n_stages = 2, .n_micro = 1};
  assert_int_equal(ronde__pipeline_step(&p, cuts, &step, &bubble), RONDE_OK);
  assert_true(fabs(step - 4) < 1e-9 && fabs(bubble - 1.75) < 1e-9);
}

/* Recorded moments of two layers, of which the second one's node also does what comes behind it. */
static void recorded_times_belong_to_layers(void **state) {
  ronde__param_span params[] = {{"a", 6, 10, 70, 90}, {"b", 2, 40, 20, 30}};
  ronde__spans spans = {.examples = 2,
                        .forward_ns = 100,
                        .backward_ns = 95,
                        .update_ns = 16,
                        .updated_elems = 8,
                        .n_params = 2,
                        .params = params};
  static const int node_of[] = {0, 2};
  ronde__node_cost costs[3] = {
      {.may_begin = true, .is_layer = true, .trained = 6}, {.may_begin = true}, {.trained = 2}};
  ronde__node_time times[3];
  ronde__pipeline_model(costs, 3, 0, 1, times);
  assert_int_equal(ronde__pipeline_measured(&spans, node_of, 6, costs, 3, times), RONDE_OK);
  static const double wanted[3][3] = {{120e-9, 195e-9, 12e-9}, {0, 0, 0}, {180e-9, 90e-9, 4e-9}};
  for (int i = 0; i < 3; i++) {
    assert_true(fabs(times[i].forward_s - wanted[i][0]) < 1e-12);
    assert_true(fabs(times[i].backward_s - wanted[i][1]) < 1e-12);
    assert_true(fabs(times[i].update_s - wanted[i][2]) < 1e-12);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_cut_is_faster), cmocka_unit_test(equal_stages_wait_as_the_formula_says),
      cmocka_unit_test(a_long_update_hides_behind_the_next_step), cmocka_unit_test(recorded_times_belong_to_layers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

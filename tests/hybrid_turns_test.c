/* Split layers in turns (schemes A, B and C of Krizhevsky 2014): what ranks wait by each, in virtual time on a machine whose
 * products take the time that they say, beside what the model says; which scheme is chosen; what the record says. */
#include "comm/sim.h"
#include "comm/virtual.h"
#include "resume_testing.h"
#include "sanitized.h"
#include "strategy/hybrid.h"

#include <string.h>

/* ---- a machine whose products take time, and are zero ------------------------------------------------------------- */

enum { MAX_HOSTS = 16 };

static double flops_per_s;
static int hosts[MAX_HOSTS];
static ronde__sim_options links = {
    .host_of = hosts, .within = {1e-6, 1e-10}, .between = {50e-6, 8e-9}}; /* of 1 Gbit/s between hosts */
static ronde__virtual_rank *first_rank;

static ronde_status make_hosts(int n_ranks, ronde__transport **transports_out) {
  links.n = n_ranks;
  for (int r = 0; r < n_ranks; ++r) hosts[r] = r;
  RONDE_TRY(ronde__transport_sim(&links, transports_out));
  first_rank = (ronde__virtual_rank *)transports_out[0]->time;
  return RONDE_OK;
}

/* Of the rank whose turn it is; short products are paid for together. */
static void paced_product(const ronde__gemm *gemm, const void *a, const uint64_t *a_offsets, const void *b,
                          const uint64_t *b_offsets, int64_t count, float *c, ronde__ahead *ahead) {
  static _Thread_local double owed_s;
  for (int i = 0; i < gemm->shape.m && !gemm->shape.accumulate; ++i)
    memset(c + i * gemm->shape.ldc, 0, (size_t)gemm->shape.n * sizeof *c);
  owed_s += 2. * gemm->shape.m * gemm->shape.n * gemm->shape.k * (double)count / flops_per_s;
  if (owed_s < 2e-4) return;
  ronde__time_sleep(&first_rank->virtual->current->rank->head, (uint64_t)(owed_s * 1e9));
  owed_s = 0;
}

static ronde__kernels paced;
static void pace(ronde__job *job) {
  paced = *job->compute.kernels;
  paced.gemm_tile = paced_product;
  job->compute.kernels = &paced;
  job->compute.gemm = RONDE__GEMM_TILE;
}

/* ---- what is waited ---------------------------------------------------------------------------------------------- */

typedef struct spent {
  double waited_s, computed_s; /* of rank 0: in exchange and wait; forward and backward */
} spent;

static spent seen;
static void look_at_phases(ronde__run *run) {
  uint64_t ns[RONDE__N_PHASES];
  ronde__prof_totals(run->ranks[0].prof, ns);
  seen = (spent){1e-9 * (double)(ns[RONDE__PHASE_EXCHANGE] + ns[RONDE__PHASE_WAIT]),
                 1e-9 * (double)(ns[RONDE__PHASE_FORWARD] + ns[RONDE__PHASE_BACKWARD])};
}

static spent spent_in(const char *what, int n_hosts, char scheme, int steps) {
  char options[256];
  snprintf(options, sizeof options,
           "strategy=hybrid hybrid-scheme=%c eval-every=0 threads=1 workers=%d steps=%d batch=%d %s", scheme, n_hosts,
           steps, 42 * n_hosts, what);
  observe_on = make_hosts;
  observe_also = look_at_phases;
  test_log_start(&lines);
  observed o = observe(options, NULL, NULL, pace);
  if (o.status != RONDE_OK) fail_msg("%s: %s", options, lines.error);
  free(o.weights);
  observe_on = ronde__transport_threads;
  observe_also = NULL;
  return seen;
}

/* All layers are split, so nothing else travels in a step but what the ranks found: layers of a tenth of alexnet's, and a
 * core as much slower. What two steps have more than one. */
static void turns_hide_what_travels(void **state) {
  static const char what[] = "model=mlp:410,410,410 data=synthetic:1x30x30:10:840 hybrid-layers=fc1,fc2,fc3,fc4";
  flops_per_s = 0.5e9;
  for (int n_hosts = 2; n_hosts <= 4; ++n_hosts) {
    spent by[3];
    for (int s = 0; s < 3; ++s) {
      spent one = spent_in(what, n_hosts, (char)('a' + s), 1), two = spent_in(what, n_hosts, (char)('a' + s), 2);
      by[s] = (spent){two.waited_s - one.waited_s, two.computed_s - one.computed_s};
      print_message("%d hosts, scheme %c: a step computes %.1f ms and waits %.1f ms\n", n_hosts, 'a' + s,
                    by[s].computed_s * 1e3, by[s].waited_s * 1e3);
    }
    assert_true(by[2].waited_s < by[0].waited_s / 4);
    assert_true(by[2].waited_s < by[1].waited_s);
    assert_true(by[2].computed_s < 1.01 * by[0].computed_s);
  }
}

/* The hosts of docs/network.md, with the core of the model. */
static void the_same_of_alexnet(void **state) {
  enum { STEPS = 2, HOSTS = 2 };
  static const char what[] = "model=alexnet data=synthetic:3x64x64:10:840";
  if (SANITIZED) return;
  flops_per_s = 50e9;
  spent a = spent_in(what, HOSTS, 'a', STEPS), c = spent_in(what, HOSTS, 'c', STEPS);
  double less_s = (a.waited_s - c.waited_s) / STEPS;
  print_message(
      "alexnet, 42 examples on each of %d hosts: a step that computes %.0f ms waits %.1f ms less by c than by a\n",
      HOSTS, a.computed_s / STEPS * 1e3, less_s * 1e3);
  assert_true(less_s > 20e-3);
}

/* ---- what the model says ----------------------------------------------------------------------------------------- */

static void costs_of(const char *name, const char *layers, int side, int n, int n_each, bool apart,
                     ronde__turns_cost costs[3], ronde__turn_scheme *chosen) {
  ronde_graph *graph;
  ronde__model_options options = {.sizes = ronde__model_sizes(name)};
  bool split[256];
  for (int r = 0; r < n; ++r) hosts[r] = r;
  ronde__ranks ranks = {n, apart ? hosts : NULL};
  assert_int_equal(
      ronde__model_graph(ronde__model_find(name), &options, &(ronde__shape){3, {3, side, side}}, 0, 10, &graph),
      RONDE_OK);
  assert_true(graph->n_nodes <= (int)RONDE__COUNT(split));
  assert_int_equal(ronde__hybrid_name(graph, layers, split), RONDE_OK);
  assert_int_equal(ronde__hybrid_turns_cost(graph, &ranks, (int64_t)n * n_each, split, costs), RONDE_OK);
  *chosen = ronde__hybrid_turns(&ranks, costs);
  ronde_graph_destroy(graph);
}

/* alexnet's layers, and those of vgg16. Between hosts, where layers are large; not within one, nor where a turn has fewer rows than a weight's way from memory
 * pays for. */
static void the_model_takes_the_least(void **state) {
  static const struct {
    const char *name, *layers;
    int side;
  } networks[] = {{"alexnet", "classifier.1,classifier.4", 64}, {"mlp:25088,4096,4096", "fc2,fc3", 8}};
  ronde__turns_cost costs[3];
  ronde__turn_scheme chosen;
  for (size_t i = 0; i < RONDE__COUNT(networks); ++i) {
    for (int n = 2; n <= MAX_HOSTS; n *= 2) {
      costs_of(networks[i].name, networks[i].layers, networks[i].side, n, 42, true, costs, &chosen);
      for (int s = 0; s < 3; ++s)
        print_message("%s on %d hosts: by the model, split layers take %.1f ms by %c, of which a step waits %.1f%s\n",
                      networks[i].name, n, costs[s].step_s * 1e3, 'a' + s, costs[s].wait_s * 1e3,
                      chosen == (ronde__turn_scheme)s ? ": chosen" : "");
      for (int s = 0; s < 3; ++s) assert_true(costs[chosen].step_s <= costs[s].step_s);
      if (n >= 8) assert_int_equal(chosen, RONDE__TURNS_C);
      assert_true(costs[2].wait_s < costs[0].wait_s / 2 && costs[2].wait_s <= costs[1].wait_s);
      costs_of(networks[i].name, networks[i].layers, networks[i].side, n, 42, false, costs, &chosen);
      assert_int_equal(chosen, RONDE__TURNS_A);
    }
    costs_of(networks[i].name, networks[i].layers, networks[i].side, 4, 1, true, costs, &chosen);
    assert_int_equal(chosen, RONDE__TURNS_A);
  }
}

/* ---- what is said ------------------------------------------------------------------------------------------------ */

static void the_scheme_is_recorded(void **state) {
  ronde_source source = small_source(24, 0);
  json_t *run;
  static const char *const schemes[] = {"a", "b", "c", "auto"};
  for (size_t i = 0; i < RONDE__COUNT(schemes); ++i) {
    char options[128];
    snprintf(options, sizeof options,
             "strategy=hybrid hybrid-layers=fc1 workers=2 batch=8 threads=1 steps=1 hybrid-scheme=%s", schemes[i]);
    assert_int_equal(train_on(options, source, small_model, &run), RONDE_OK);
    assert_string_equal(text_at(run, "communication.split_scheme"), i < 3 ? schemes[i] : "a"); /* one host */
    json_decref(run);
  }
  assert_int_equal(
      train_on("strategy=allreduce hybrid-scheme=c workers=2 batch=8 threads=1", source, small_model, &run),
      RONDE_E_USAGE);
  assert_non_null(strstr(lines.error, "hybrid-scheme"));
  json_decref(run);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, make_folder_with_log, remove_folder)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(turns_hide_what_travels),
      TEST(the_same_of_alexnet),
      TEST(the_model_takes_the_least),
      TEST(the_scheme_is_recorded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

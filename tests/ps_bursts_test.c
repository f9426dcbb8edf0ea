/* What it costs that workers are late in bursts, by strategy, in virtual time: the table of docs/strategies.md, which
 * scripts/bursts.sh prints. A step takes 10 ms of computing, over links of 1 Gbit/s; in 8 of every 32 steps a worker is late
 * by 20 ms: always the same one, or each in its turn. */
#include "comm/sim.h"
#include "ps_testing.h"
#include "strategy/ps_worker.h"

enum { WORKERS = 4, LATE = 1, STEPS = 384, PERIOD = 32, BURST = 8, COMPUTE_MS = 10, LATE_MS = 20, MS = 1000000 };

static bool in_turn; /* each worker is late in its turn */
static uint64_t began_ns[WORKERS], ended_ns[WORKERS];
static double staleness_mean;

static ronde_status make_links(int n_ranks, ronde__transport **transports_out) {
  return ronde__transport_sim(&(ronde__sim_options){.n = n_ranks, .within = {50e-6, 8e-9}, .seed = 1}, transports_out);
}

/* The state of each of these strategies is a ronde__ps_worker. */
static ronde_status timed_step(void *state, const ronde__step *step, ronde__step_result *result_out) {
  const ronde__ps_worker *s = state;
  int rank = s->group->rank;
  int64_t period = (step->step - 1) / PERIOD;
  bool late = (step->step - 1) % PERIOD < BURST && rank == (in_turn ? period % WORKERS : LATE);
  if (step->step == 1) began_ns[rank] = ronde__time_now(s->group->time);
  ronde__time_sleep(s->group->time, (uint64_t)(COMPUTE_MS + (late ? LATE_MS : 0)) * MS);
  RONDE_TRY(real->step(state, step, result_out));
  ended_ns[rank] = ronde__time_now(s->group->time);
  return RONDE_OK;
}

static void plant_times(ronde__job *job) { plant_strategy(job, NULL, timed_step); }

static void look(ronde__run *run) {
  const ronde__staleness *found = ronde__server_staleness(run->ranks[WORKERS].services[0].state);
  staleness_mean = found->n ? (double)found->sum / (double)found->n : 0;
}

static double rate_of(int rank) { return STEPS / (1e-9 * (double)(ended_ns[rank] - began_ns[rank])); }

typedef struct row {
  double others, all, turns, staleness; /* steps a second; of a worker that is never late; until all are through */
} row;

static row measure(const char *strategy) {
  row r;
  observe_on = make_links;
  observe_also = look;
  for (in_turn = false;; in_turn = true) {
    observed o = train(STEPS * WORKERS, plant_times,
                       "steps=%d batch=%d workers=%d servers=1 placement=dedicated overlap=off lr=0.01 strategy=%s",
                       STEPS, WORKERS, WORKERS, strategy);
    free(o.weights);
    double slowest = INFINITY;
    for (int w = 0; w < WORKERS; ++w) slowest = fmin(slowest, rate_of(w));
    if (in_turn) r.turns = slowest, r.staleness = staleness_mean;
    else r.all = slowest, r.others = rate_of(0);
    if (in_turn) break;
  }
  observe_on = ronde__transport_threads;
  observe_also = NULL;
  print_message("| `%s` | %.1f | %.1f | %.1f | %.1f |\n", strategy, r.others, r.all, r.turns, r.staleness);
  return r;
}

static bool near(double a, double b) { return fabs(a - b) < 0.02 * b; }

static void a_wide_bound_rides_out_what_a_narrow_one_waits_for(void **state) {
  static const char *const strategies[] = {
      "ps-sync", "ps-ssp staleness=0", "ps-ssp staleness=1", "ps-ssp staleness=4", "ps-ssp staleness=16", "ps-async"};
  enum { N = RONDE__COUNT(strategies), SYNC = 0, ZERO = 1, WIDE = N - 2, ASYNC = N - 1 };
  const double sync = 1e3 / (COMPUTE_MS + LATE_MS * (double)BURST / PERIOD);
  row rows[N];
  for (int i = 0; i < N; ++i) rows[i] = measure(strategies[i]);
  for (int i = 0; i < N; ++i) assert_true(rows[i].all < 1.02 * sync); /* who alone is late sets the pace in the end */
  for (int i = 1; i < N; ++i) assert_true(rows[i].turns > 0.99 * rows[i - 1].turns);
  assert_true(near(rows[SYNC].turns, sync) && near(rows[ZERO].turns, rows[SYNC].turns));
  assert_true(near(rows[WIDE].turns, rows[ASYNC].turns) && rows[ASYNC].turns > 1.25 * rows[SYNC].turns);
  assert_true(near(rows[ASYNC].others, 1e3 / COMPUTE_MS) && rows[WIDE].others < 1.1 * sync);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_wide_bound_rides_out_what_a_narrow_one_waits_for)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

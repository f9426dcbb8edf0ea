/* Whole runs in virtual time: the strategies' own code, with ledgers that add up to the nanosecond. */
#include "comm/sim.h"
#include "strategy/server.h"
#include "train_testing.h"
#include "io/folder_testing.h"
#include "base/rng.h"

enum { STEPS = 6, MS = 1000000 };

typedef struct seen {
  uint64_t ns[OBSERVED_RANKS][RONDE__N_PHASES], server_ns[OBSERVED_RANKS][RONDE__N_PHASES];
  ronde__sim_events events;
  ronde__staleness staleness;
  double n_syncs, exchange_s, hidden_s;
} seen;

static seen last;
static ronde__sim_options links;

static ronde_status make_sim(int n_ranks, ronde__transport **transports_out) {
  links.n = n_ranks;
  return ronde__transport_sim(&links, transports_out);
}

/* What the record will say of rank 0's. */
static void look_at_synchronisations(const ronde__rank *rank) {
  const ronde__strategy *strategy = rank->job->strategy;
  char *facts = calloc(1, strategy->facts_bytes + 1);
  json_t *communication = json_object(), *of;
  if (strategy->facts) strategy->facts(rank->strategy_state, rank->services, facts);
  if (strategy->record) strategy->record(rank->strategy_state, facts, 1, communication);
  if ((of = json_object_get(communication, "synchronisations"))) {
    last.n_syncs = real_at(of, "count");
    last.exchange_s = real_at(of, "exchange_s");
    last.hidden_s = real_at(of, "hidden_s");
  }
  json_decref(communication);
  free(facts);
}

static void look(ronde__run *run) {
  memset(&last, 0, sizeof last);
  for (int r = 0; r < run->n_ranks; ++r) {
    const ronde__rank *rank = &run->ranks[r];
    if (rank->prof) ronde__prof_totals(rank->prof, last.ns[r]);
    const ronde__service *service = &rank->services[0];
    if (!service->state) continue;
    ronde__prof_totals(service->member->role->prof(service->state), last.server_ns[r]);
    if (rank->job->strategy->asynchronous) last.staleness = *ronde__server_staleness(service->state);
  }
  last.events = ronde__sim_events_of(run->transports[0]);
  look_at_synchronisations(&run->ranks[0]);
}

static observed train(bool sim, const char *options) {
  char all[512];
  ronde_source source = small_source(60, 0);
  snprintf(all, sizeof all, "threads=1 batch=12 lr=0.1 steps=%d %s", STEPS, options);
  observe_on = sim ? make_sim : ronde__transport_threads;
  observe_also = sim ? look : NULL;
  observed o = observe(all, &source, small_model, NULL);
  if (o.status != RONDE_OK) fail_msg("%s: status %d", options, o.status);
  return o;
}

static observed sim(const char *options, uint64_t seed) {
  links = (ronde__sim_options){.within = {10e-6, 1e-9}, .seed = seed};
  return train(true, options);
}

static uint64_t sum(const uint64_t ns[RONDE__N_PHASES]) {
  uint64_t all = 0;
  for (int p = 0; p < RONDE__N_PHASES; ++p) all += ns[p];
  return all;
}

static void check_about(const char *what, uint64_t ns, uint64_t expected, uint64_t more) {
  if (ns < expected || ns > expected + more)
    fail_msg("%s: %llu ns, not %llu and at most %llu more", what, (unsigned long long)ns, (unsigned long long)expected,
             (unsigned long long)more);
}

/* ---- results ---- */

static void test_results_are_those_of_threads(void **state) {
  static const char *const cases[] = {
      "workers=2 strategy=allreduce overlap=on",
      "workers=2 strategy=allreduce overlap=off",
      "workers=5 strategy=allreduce overlap=on clip=1 accumulate=2",
      "workers=2 strategy=sharded overlap=on",
      "workers=3 strategy=sharded overlap=off optimizer=adam",
      "workers=5 strategy=sharded overlap=on clip=1 accumulate=2",
      "workers=2 strategy=hybrid hybrid-layers=fc1",
      "workers=3 strategy=hybrid hybrid-layers=fc1,fc2 optimizer=adam clip=1 accumulate=2 hybrid-scheme=b",
      "workers=5 strategy=hybrid hybrid-layers=fc1,fc2 hybrid-scheme=c",
      "workers=2 strategy=pipeline",
      "workers=4 strategy=pipeline stages=2 micro-batches=2 optimizer=adam clip=1 accumulate=2",
      "workers=3 strategy=ps-sync servers=2",
      "workers=3 strategy=ps-sync servers=2 placement=dedicated",
      "workers=1 strategy=ps-async",
      "workers=1 strategy=downpour n-push=2 n-fetch=3 servers=2 placement=dedicated",
      "workers=4 collective=tree bucket-mb=0.001 overlap=on",
      "workers=3 strategy=localsgd sync-every=2 bucket-mb=0.001",
      "workers=4 strategy=localsgd sync-every=2 sync-overlap=on outer-momentum=0.5",
      "workers=3 strategy=localsgd sync-every=2 wire=bf16 bucket-mb=0.001",
      "workers=4 strategy=localsgd sync-every=2 wire=bf16 sync-overlap=on outer-momentum=0.5",
      "workers=3 strategy=sandblaster servers=2",
      "workers=2 strategy=sandblaster servers=2 placement=dedicated",
  };
  for (size_t i = 0; i < RONDE__COUNT(cases); ++i) {
    observed threads = train(false, cases[i]), a = sim(cases[i], 1);
    assert_true(bits_equal(&threads, &a));
    free(threads.weights);
    free(a.weights);
  }
}

/* Links that each take another time, so that seeds draw what is late as well as who is first. */
static ronde__link_class by_lot(const void *user, int from, int to) {
  uint32_t lot[4];
  ronde__philox(*(const uint64_t *)user, RONDE__STREAM_VIRTUAL, (uint64_t)(from * OBSERVED_RANKS + to), lot);
  return (ronde__link_class){1e-9 * (lot[0] % 100000), 1e-9 * (lot[1] % 64) / 8};
}

/* Seeds whose run has other bits than one over equal links. */
static int n_others(const char *options, int n_seeds) {
  observed one = sim(options, 0);
  int n = 0;
  for (uint64_t seed = 1; seed <= (uint64_t)n_seeds; ++seed) {
    links = (ronde__sim_options){.link = by_lot, .user = &seed, .seed = seed};
    observed other = train(true, options);
    assert_true(replicas_equal(&other));
    n += !bits_equal(&one, &other);
    free(other.weights);
  }
  free(one.weights);
  return n;
}

static void test_no_order_changes_what_is_synchronous(void **state) {
  assert_int_equal(n_others("workers=4 strategy=allreduce overlap=on bucket-mb=0.001", 40), 0);
  assert_int_equal(n_others("workers=4 strategy=sharded overlap=on bucket-mb=0.001", 40), 0);
  assert_int_equal(n_others("workers=4 strategy=sharded overlap=off bucket-mb=0.001", 40), 0);
  assert_int_equal(n_others("workers=3 strategy=ps-sync servers=3 bucket-mb=0.001", 40), 0);
  assert_int_equal(n_others("workers=4 strategy=localsgd sync-every=2 bucket-mb=0.001", 40), 0);
  assert_int_equal(n_others("workers=3 strategy=localsgd sync-every=2 sync-overlap=on bucket-mb=0.001", 40), 0);
  assert_int_equal(n_others("workers=3 strategy=localsgd sync-every=2 sync-overlap=on wire=bf16 bucket-mb=0.001", 40),
                   0);
  assert_int_equal(n_others("workers=4 strategy=sandblaster servers=2 portion=1 drill=slow:1:1", 40), 0);
  assert_true(n_others("workers=4 strategy=ps-async servers=1", 40) > 20); /* there it counts who is first */
}

/* Of an order that a seed draws, and that repeats. */
static void test_runs_repeat_to_the_last_event(void **state) {
  static const char *const cases[] = {"workers=2 strategy=allreduce overlap=on",
                                      "workers=3 strategy=sharded overlap=on",
                                      "workers=4 strategy=ps-sync servers=2",
                                      "workers=4 strategy=ps-async servers=2",
                                      "workers=4 strategy=downpour servers=2 n-push=3 n-fetch=2 warm-start=2",
                                      "workers=4 strategy=localsgd sync-every=3 sync-overlap=on",
                                      "workers=4 strategy=sandblaster servers=2 portion=1",
                                      "workers=4 strategy=ps-sync servers=2 backup=1 drill=slow:2:5"};
  for (size_t i = 0; i < RONDE__COUNT(cases); ++i) {
    observed a = sim(cases[i], 3);
    seen first = last;
    observed b = sim(cases[i], 3);
    assert_true(bits_equal(&a, &b));
    assert_int_equal(first.events.n, last.events.n);
    assert_true(first.events.digest == last.events.digest);
    assert_memory_equal(first.ns, last.ns, sizeof last.ns);
    free(b.weights);
    b = sim(cases[i], 4);
    assert_true(first.events.digest != last.events.digest);
    free(a.weights);
    free(b.weights);
  }
}

/* ---- the ledger ---- */

/* What is computed takes no time but the planted delays, of which the other rank waits for each. */
static void test_the_ledger_of_a_step(void **state) {
  observed o = sim("workers=2 strategy=allreduce overlap=on drill=slow:1:20", 1);
  uint64_t slow_ns = (uint64_t)STEPS * 20 * MS, short_ns = (uint64_t)STEPS * 100000;
  assert_true(last.ns[1][RONDE__PHASE_FORWARD] == slow_ns);
  assert_true(last.ns[0][RONDE__PHASE_FORWARD] == 0);
  check_about("waiting", last.ns[0][RONDE__PHASE_WAIT], slow_ns - short_ns, 2 * short_ns);
  check_about("exchange of the slow", last.ns[1][RONDE__PHASE_EXCHANGE], 1, short_ns);
  assert_true(last.ns[1][RONDE__PHASE_WAIT] < short_ns);
  for (int p = 0; p < RONDE__N_PHASES; ++p) {
    bool exchanges = p == RONDE__PHASE_EXCHANGE || p == RONDE__PHASE_WAIT || p == RONDE__PHASE_FORWARD;
    if (!exchanges) check_about(ronde__phase_name((ronde__phase)p), last.ns[0][p], 0, short_ns);
  }
  check_about("all of it", sum(last.ns[0]), sum(last.ns[1]) - short_ns, 2 * short_ns);
  free(o.weights);
}

static void test_slow_loading_is_loading(void **state) {
  observed o = sim("workers=2 strategy=allreduce drill=load:0:7", 1);
  check_about("loading", last.ns[0][RONDE__PHASE_LOAD], (uint64_t)STEPS * 7 * MS - STEPS * 100000, STEPS * 100000);
  assert_true(last.ns[1][RONDE__PHASE_LOAD] == 0);
  free(o.weights);
}

static void test_servers_have_ledgers_too(void **state) {
  observed o = sim("workers=2 strategy=ps-sync drill=slow:1:20", 1);
  uint64_t slow_ns = (uint64_t)STEPS * 20 * MS;
  check_about("the server waits", last.server_ns[0][RONDE__PHASE_WAIT], slow_ns - STEPS * 200000, STEPS * 400000);
  assert_true(last.server_ns[0][RONDE__PHASE_EXCHANGE] > 0);
  free(o.weights);
  o = sim("workers=2 strategy=ps-async drill=slow:1:20", 1);
  assert_int_equal(last.staleness.n, 2 * STEPS);
  assert_true(last.staleness.max >= STEPS - 1); /* the fast one makes all its steps in one of the slow */
  free(o.weights);
}

/* As workers wait for each other: an hour by default, so that 15 minutes of a step are no loss. */
static void test_servers_wait_for_slow_workers(void **state) {
  static const char *const strategies[] = {"ps-sync", "ps-async", "ps-ssp", "downpour"};
  for (size_t i = 0; i < RONDE__COUNT(strategies); ++i) {
    char options[128];
    snprintf(options, sizeof options, "workers=2 strategy=%s batch=2 accumulate=15 drill=slow:1:60000", strategies[i]);
    free(sim(options, 1).weights);
  }
}

/* A step takes 20 ms of loading, and a message 5 ms: of results, and of the one bucket. Three synchronisations, of which
 * two have steps behind them that hide them, and the meeting at the end of the epoch. */
static void test_the_ledger_of_local_steps(void **state) {
  enum { MESSAGE = 5 * MS, BYTES = 100000 };
  static const char *const overlap[] = {"off", "on"};
  links = (ronde__sim_options){.within = {5e-3, 1e-9}};
  for (int i = 0; i < 2; ++i) {
    char options[128];
    int n_visible = i ? 1 : 3;
    snprintf(options, sizeof options, "batch=10 workers=2 strategy=localsgd sync-every=2 sync-overlap=%s drill=load:20",
             overlap[i]);
    observed o = train(true, options);
    uint64_t exchanged = last.ns[0][RONDE__PHASE_EXCHANGE] + last.ns[0][RONDE__PHASE_WAIT];
    check_about("exchange and waiting", exchanged, (2 * (uint64_t)n_visible + 1) * MESSAGE, BYTES);
    assert_true(last.n_syncs == 3);
    check_about("exchange of buckets", (uint64_t)(1e9 * last.exchange_s + .5), 3 * MESSAGE, BYTES);
    check_about("hidden", (uint64_t)(1e9 * last.hidden_s + .5), (3 - (uint64_t)n_visible) * MESSAGE, BYTES);
    free(o.weights);
  }
}

/* Where links have no latency, an exchange takes what its bytes say: two for an element in place of four. */
static void test_rounded_exchanges_take_half_the_time(void **state) {
  double seconds[2];
  links = (ronde__sim_options){.within = {0, 1e-6}};
  for (int rounds = 0; rounds < 2; ++rounds) {
    observed o = train(true, rounds ? "batch=10 workers=3 strategy=localsgd sync-every=2 wire=bf16"
                                    : "batch=10 workers=3 strategy=localsgd sync-every=2 collective=ring");
    assert_true(last.n_syncs == 3 && last.hidden_s == 0);
    seconds[rounds] = last.exchange_s;
    free(o.weights);
  }
  double half = seconds[0] / 2;
  assert_true(seconds[1] >= half && seconds[1] < 1.01 * half); /* an odd number of elements is rounded up */
}

/* A worker that is late costs the others nothing until they synchronise. */
static void test_local_steps_wait_for_nobody(void **state) {
  observed o = sim("batch=10 workers=2 strategy=localsgd sync-every=6 drill=slow:1:20", 1);
  check_about("waiting", last.ns[0][RONDE__PHASE_WAIT], (uint64_t)STEPS * 20 * MS - 200000, 400000);
  assert_true(last.n_syncs == 1);
  free(o.weights);
}

/* By the clock: 600 ms a step, so that a second has passed behind steps 2 and 4. */
static void test_checkpoints_by_the_clock(void **state) {
  char options[256], **paths;
  int n;
  snprintf(options, sizeof options, "workers=2 drill=slow:1:600 checkpoint-every=1s out=%s", folder);
  observed o = sim(options, 1);
  assert_int_equal(ronde__checkpoint_list(folder, &paths, &n), RONDE_OK);
  assert_int_equal(n, 3);
  for (int i = 0; i < n; ++i) {
    char name[64];
    snprintf(name, sizeof name, "/step-%d.safetensors", STEPS - 2 * i); /* the newest first */
    if (!strstr(paths[i], name)) fail_msg("%s is not %s", paths[i], name);
    free(paths[i]);
  }
  ronde__free(paths);
  free(o.weights);
}

/* ---- what goes wrong ---- */

static char lines[4096];
static void keep_lines(void *user, ronde_log_level level, const char *line) {
  size_t used = strlen(lines);
  snprintf(lines + used, sizeof lines - used, "%s\n", line);
}

static ronde__transport *of_rank_0;
static void *state_of_rank_0;

static ronde_status create_planted(ronde__worker *worker, const ronde__strategy_settings *settings, void **state_out) {
  RONDE_TRY(real->create(worker, settings, state_out));
  if (worker->transport->rank > 0) return RONDE_OK;
  of_rank_0 = worker->transport;
  state_of_rank_0 = *state_out;
  return RONDE_OK;
}

/* In step 3 rank 0 waits for something that nobody sends, and the others wait for rank 0. */
static ronde_status step_with_a_planted_deadlock(void *state, const ronde__step *step, ronde__step_result *result_out) {
  int word;
  if (step->step == 3 && state == state_of_rank_0)
    RONDE_TRY(ronde__transport_receive(of_rank_0, 1, RONDE__WIRE_TAG(0x1234, 0), &word, sizeof word));
  return real->step(state, step, result_out);
}

static ronde_status step_with_a_planted_failure(void *state, const ronde__step *step, ronde__step_result *result_out) {
  if (step->step == 3 && state == state_of_rank_0) return ronde__fail(RONDE_E_INPUT, "planted");
  return real->step(state, step, result_out);
}

static void plant_deadlock(ronde__job *job) { plant_strategy(job, create_planted, step_with_a_planted_deadlock); }
static void plant_failure(ronde__job *job) { plant_strategy(job, create_planted, step_with_a_planted_failure); }

static ronde_status sim_planted(const char *options, void (*tamper)(ronde__job *job)) {
  char all[256];
  ronde_source source = small_source(60, 0);
  snprintf(all, sizeof all, "threads=1 batch=12 lr=0.1 steps=6 %s", options);
  links = (ronde__sim_options){.within = {10e-6, 1e-9}};
  observe_on = make_sim;
  observe_also = NULL;
  lines[0] = 0;
  ronde_log_set(keep_lines, NULL);
  observed o = observe(all, &source, small_model, tamper);
  ronde_log_set(NULL, NULL);
  return o.status;
}

static void test_who_fails_ends_all(void **state) {
  static const char *const cases[] = {"workers=3 strategy=allreduce overlap=on", "workers=3 strategy=ps-sync servers=2",
                                      "workers=3 strategy=localsgd sync-every=2 sync-overlap=on",
                                      "workers=3 strategy=sharded overlap=off",
                                      "workers=3 strategy=ps-async servers=2 placement=dedicated"};
  for (size_t i = 0; i < RONDE__COUNT(cases); ++i) {
    assert_int_equal(sim_planted(cases[i], plant_failure), RONDE_E_INPUT);
    assert_string_equal(lines, "rank 0: planted\n");
  }
}

static void test_a_planted_deadlock_is_named(void **state) {
  assert_int_equal(sim_planted("workers=3 strategy=allreduce", plant_deadlock), RONDE_E_LOST);
  const char *said = strstr(lines, "of virtual time: ");
  assert_non_null(said);
  assert_non_null(strstr(said, "rank 0 waits for rank 1 (tag 0x123400)"));
  assert_non_null(strstr(said, "rank 1 waits for rank 0 (tag "));
  assert_null(strchr(strchr(lines, '\n') + 1, '\n')); /* and that is all */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_results_are_those_of_threads),
      cmocka_unit_test(test_runs_repeat_to_the_last_event),
      cmocka_unit_test(test_the_ledger_of_a_step),
      cmocka_unit_test(test_slow_loading_is_loading),
      cmocka_unit_test(test_no_order_changes_what_is_synchronous),
      cmocka_unit_test_setup_teardown(test_checkpoints_by_the_clock, set_up, tear_down),
      cmocka_unit_test(test_servers_have_ledgers_too),
      cmocka_unit_test(test_servers_wait_for_slow_workers),
      cmocka_unit_test(test_the_ledger_of_local_steps),
      cmocka_unit_test(test_rounded_exchanges_take_half_the_time),
      cmocka_unit_test(test_local_steps_wait_for_nobody),
      cmocka_unit_test(test_who_fails_ends_all),
      cmocka_unit_test(test_a_planted_deadlock_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

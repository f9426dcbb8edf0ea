/* Every strategy under thousands of orders: links, and who is first of those that are due at the same time, are drawn from
 * a seed. Whatever comes late, a run ends; what is synchronous has the same bits; what is asynchronous has made every
 * update. The same with ranks that die or stand still at moments drawn from the seed: whoever is missing is named, and
 * nobody waits for ever. A planted bug of each kind is found.
 * RONDE_SWEEP_SEEDS: the seeds of all strategies together. */
#include "train_testing.h"

#include "comm/sim.h"
#include "comm/virtual.h"
#include "sanitized.h"

enum { STEPS = 2, WORKERS = 3, SEEDS = SANITIZED ? 100 : 300, MOST_STRATEGIES = 32 };

static int64_t n_updates; /* that servers have counted in the last run; -1: nobody counts */
static int n_ranks;       /* of the last run that ended well, */
static uint64_t ended_ns; /* and after how long */
static char lines[4096];

static void keep_lines(void *user, ronde_log_level level, const char *line) {
  size_t used = strlen(lines);
  if (level == RONDE_LOG_ERROR) snprintf(lines + used, sizeof lines - used, "%s\n", line);
}

/* As many layers as workers: each may be a stage. */
static ronde_tensor *tiny_model(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  x = ronde_tanh(ronde_linear(ronde_flatten(x), "fc1", 3, true));
  x = ronde_tanh(ronde_linear(x, "fc2", 3, true));
  return ronde_linear(x, "fc3", classes, true);
}

/* By the histogram that asynchronous strategies report: each update is in it once. */
static void look_at(ronde__run *run) {
  const ronde__rank *first = &run->ranks[0];
  n_ranks = run->job->roles.n_ranks;
  ended_ns = ronde__time_now(run->transports[0]->time) - RONDE__VIRTUAL_BEGIN_NS;
  json_t *told = json_object(), *bin;
  size_t i;
  n_updates = -1;
  if (run->job->strategy->record)
    run->job->strategy->record(first->strategy_state, first->strategy_facts, run->job->roles.n_ranks, told);
  json_t *histogram = json_at(told, "staleness.histogram");
  if (histogram) n_updates = 0;
  json_array_foreach(histogram, i, bin) n_updates += json_integer_value(bin);
  json_decref(told);
}

typedef struct faults {
  ronde__sim_fault at[2];
  int n;
} faults;

static observed train(const char *strategy, const uint64_t *seed, const faults *f, void (*tamper)(ronde__job *job)) {
  char options[256];
  ronde_source source = small_source(12, 0);
  bool has_buckets =
      ronde__strategy_understands(ronde__strategy_find(strategy, &(ronde__strategy_settings){0}), "bucket-mb");
  snprintf(options, sizeof options, "threads=1 batch=6 lr=0.1 steps=%d workers=%d %s cache=off strategy=%s", STEPS,
           WORKERS, has_buckets ? "bucket-mb=0.001" : "", strategy);
  virtual_links =
      (ronde__sim_options){.link = links_by_lot, .user = seed, .seed = *seed, .faults = f->at, .n_faults = f->n};
  observe_on = make_virtual;
  observe_also = look_at;
  lines[0] = 0;
  ronde_log_set(keep_lines, NULL);
  observed o = observe(options, &source, tiny_model, tamper);
  ronde_log_set(NULL, NULL);
  return o;
}

/* ---- what a run must be, whatever the order ---- */

typedef struct verdict {
  char what[256]; /* "": nothing is wrong */
} verdict;

static verdict judge(const observed *o, const observed *first, bool asynchronous, uint64_t seed) {
  verdict v = {""};
  if (o->status != RONDE_OK) snprintf(v.what, sizeof v.what, "seed %d: ends with: %.200s", (int)seed, lines);
  else if (!asynchronous && !bits_equal(o, first)) snprintf(v.what, sizeof v.what, "seed %d: other bits", (int)seed);
  else if (asynchronous && n_updates >= 0 && n_updates != STEPS * WORKERS)
    snprintf(v.what, sizeof v.what, "seed %d: %d updates of %d", (int)seed, (int)n_updates, STEPS * WORKERS);
  else if (!replicas_equal(o)) snprintf(v.what, sizeof v.what, "seed %d: the replicas differ", (int)seed);
  return v;
}

/* The first thing that is wrong in so many seeds. */
static verdict sweep(const char *strategy, int n_seeds, void (*tamper)(ronde__job *job)) {
  const ronde__strategy *row = ronde__strategy_find(strategy, &(ronde__strategy_settings){0});
  verdict v = {""};
  observed first = {0};
  for (uint64_t seed = 0; seed < (uint64_t)n_seeds && !v.what[0]; seed++) {
    observed o = train(strategy, &seed, &(faults){.n = 0}, tamper);
    v = judge(&o, seed ? &first : &o, row->asynchronous, seed);
    if (seed == 0) first = o;
    else free(o.weights);
  }
  free(first.weights);
  return v;
}

/* ---- all of the table ---- */

static const char *word_list(void) {
  static ronde_option option;
  for (int i = 0; ronde_config_option("train", i, &option); i++)
    if (!strcmp(option.name, "strategy")) return option.value_name;
  return "";
}

/* Of the strategies that several workers can follow with their options at the defaults. */
static int list_strategies(char names[MOST_STRATEGIES][32]) {
  char words[512], *rest = words, *word;
  int n = 0;
  snprintf(words, sizeof words, "%s", word_list());
  while ((word = strsep(&rest, "|"))) {
    const ronde__strategy *row = ronde__strategy_find(word, &(ronde__strategy_settings){0});
    if (!row || row->max_workers == 1) continue;
    assert_true(n < MOST_STRATEGIES);
    snprintf(names[n++], sizeof names[0], "%s", word);
  }
  return n;
}

static int wanted_seeds(void) {
  const char *wanted = getenv("RONDE_SWEEP_SEEDS");
  return wanted ? atoi(wanted) : SEEDS;
}

static void test_no_order_breaks_a_strategy(void **state) {
  char strategies[MOST_STRATEGIES][32];
  int n = list_strategies(strategies), n_seeds = wanted_seeds() / n;
  assert_true(n >= 4 && n_seeds >= 2);
  for (int i = 0; i < n; i++) {
    verdict v = sweep(strategies[i], n_seeds, NULL);
    if (v.what[0]) fail_msg("%s: %s", strategies[i], v.what);
  }
}

/* ---- faults ---- */

enum { LOST_AFTER_MS = 60000 }; /* --timeout's default */

/* One or two ranks that die, or stand still for less or for more than makes one lost. */
static faults draw_faults(uint64_t seed) {
  ronde__rng rng = ronde__rng_make(seed, RONDE__STREAM_STRAGGLERS);
  faults f = {.n = 1 + (int)ronde__rng_below(&rng, 2)};
  int rank = (int)ronde__rng_below(&rng, (uint64_t)n_ranks);
  for (int i = 0; i < f.n; i++) {
    uint64_t kind = ronde__rng_below(&rng, 4), ms = ronde__rng_below(&rng, LOST_AFTER_MS / 2);
    f.at[i] = (ronde__sim_fault){.rank = (rank + i) % n_ranks, .at_ns = 1 + ronde__rng_below(&rng, ended_ns)};
    f.at[i].lasts_ns = kind <= 1 ? UINT64_MAX : (kind == 2 ? ms + 1 : LOST_AFTER_MS + ms + 1) * 1000000;
  }
  return f;
}

/* A missing rank may be one that nobody needed any more. */
static verdict judge_lost(const observed *o, const observed *whole, bool asynchronous, const faults *f, uint64_t seed) {
  bool may_be_lost = false, is_named = false;
  verdict v = {""};
  for (int i = 0; i < f->n; i++) {
    char name[24];
    snprintf(name, sizeof name, "rank %d ", f->at[i].rank);
    if (f->at[i].lasts_ns < LOST_AFTER_MS * 1000000ull) continue;
    may_be_lost = true;
    is_named |= strstr(lines, name) != NULL;
  }
  if (strstr(lines, "deadlock")) snprintf(v.what, sizeof v.what, "seed %d: %.200s", (int)seed, lines);
  else if (o->status == RONDE_OK && !asynchronous && !bits_equal(o, whole))
    snprintf(v.what, sizeof v.what, "seed %d: other bits", (int)seed);
  else if (o->status != RONDE_OK && !may_be_lost)
    snprintf(v.what, sizeof v.what, "seed %d: nobody is lost, but: %.200s", (int)seed, lines);
  else if (o->status != RONDE_OK && (o->status != RONDE_E_LOST || !is_named))
    snprintf(v.what, sizeof v.what, "seed %d: status %d, and rank %d at %d ns is not named: %.150s", (int)seed,
             (int)o->status, f->at[0].rank, (int)f->at[0].at_ns, lines);
  return v;
}

static verdict sweep_faults(const char *strategy, int n_seeds, int *n_lost_out) {
  bool asynchronous = ronde__strategy_find(strategy, &(ronde__strategy_settings){0})->asynchronous;
  verdict v = {""};
  for (uint64_t seed = 0; seed < (uint64_t)n_seeds && !v.what[0]; seed++) {
    observed whole = train(strategy, &seed, &(faults){.n = 0}, NULL);
    faults f = draw_faults(seed);
    observed o = train(strategy, &seed, &f, NULL);
    v = judge_lost(&o, &whole, asynchronous, &f, seed);
    *n_lost_out += o.status == RONDE_E_LOST;
    free(whole.weights), free(o.weights);
  }
  return v;
}

static void test_no_fault_hangs_a_run(void **state) {
  char strategies[MOST_STRATEGIES][32];
  int n = list_strategies(strategies), n_seeds = wanted_seeds() / n, n_lost;
  for (int i = 0; i < n; i++) {
    verdict v = sweep_faults(strategies[i], n_seeds, (n_lost = 0, &n_lost));
    if (v.what[0]) fail_msg("%s: %s", strategies[i], v.what);
    if (n_lost < n_seeds / 3) fail_msg("%s: only %d of %d runs have lost a rank", strategies[i], n_lost, n_seeds);
  }
}

/* ---- planted bugs ---- */

static ronde__worker *workers[WORKERS];
static void *states[WORKERS];

static ronde_status create_planted(ronde__worker *worker, const ronde__strategy_settings *settings, void **state_out) {
  RONDE_TRY(real->create(worker, settings, state_out));
  workers[worker->transport->rank] = worker;
  states[worker->transport->rank] = *state_out;
  return RONDE_OK;
}

static int rank_of(const void *state) {
  int rank = 0;
  while (states[rank] != state) rank++;
  return rank;
}

/* Gradients are summed as they come. */
static ronde_status sum_as_they_come(ronde__worker *w, float *x, size_t n) {
  ronde__transport *t = w->transport;
  ronde__request requests[WORKERS] = {{NULL}};
  float *parts = calloc(n * WORKERS, sizeof *parts);
  ronde_status status = RONDE_OK;
  bool added[WORKERS] = {false};
  for (int r = 1; r < WORKERS; r++)
    if (status == RONDE_OK)
      status = t->ops->irecv(t, r, RONDE__WIRE_TAG(0x70, 0), parts + (size_t)r * n, n * 4, &requests[r]);
  for (int left = WORKERS - 1; left > 0 && status == RONDE_OK;) {
    status = t->ops->wait_some(t, requests, WORKERS, t->timeout_ns);
    for (int r = 1; r < WORKERS && status == RONDE_OK; r++) {
      if (requests[r].impl || added[r]) continue;
      w->kernels->add(x, parts + (size_t)r * n, x, (int64_t)n);
      added[r] = true;
      left--;
    }
  }
  free(parts);
  return status;
}

static ronde_status step_in_order_of_arrival(void *state, const ronde__step *step, ronde__step_result *result_out) {
  ronde__worker *w = workers[rank_of(state)];
  ronde__transport *t = w->transport;
  ronde__local_result found;
  float *x = ronde__net_gradients(w->net);
  size_t n = ronde__net_n_trained(w->net);
  RONDE_TRY(ronde__worker_gradients(w, step, (ronde__gradient_listener){0}, &found));
  ronde__prof_switch(w->prof, RONDE__PHASE_EXCHANGE);
  if (t->rank) RONDE_TRY(ronde__transport_send(t, 0, RONDE__WIRE_TAG(0x70, 0), x, n * sizeof *x));
  else RONDE_TRY(sum_as_they_come(w, x, n));
  RONDE_TRY(ronde__broadcast_tree(t, 0x71, 0, x, n * sizeof *x));
  *result_out = (ronde__step_result){.broken_rank = -1, .broken_param = -1};
  ronde__worker_update(w, step->lr);
  return RONDE_OK;
}

/* In its second step rank 1 computes, and tells nobody; a worker of a server then goes on without an answer. */
static ronde_status step_that_loses_a_push(void *state, const ronde__step *step, ronde__step_result *result_out) {
  if (rank_of(state) != 1 || step->step != 2) return real->step(state, step, result_out);
  ronde__local_result found;
  RONDE_TRY(ronde__worker_gradients(workers[1], step, (ronde__gradient_listener){0}, &found));
  ronde__prof_switch(workers[1]->prof, RONDE__PHASE_OTHER);
  *result_out = ronde__local_results_join(&found, 1);
  return RONDE_OK;
}

/* Each waits for its neighbour first. */
static ronde_status step_that_waits_in_a_circle(void *state, const ronde__step *step, ronde__step_result *result_out) {
  int rank = rank_of(state), word;
  if (step->step == 2)
    RONDE_TRY(ronde__transport_receive(workers[rank]->transport, (rank + 1) % WORKERS, RONDE__WIRE_TAG(0x70, 0), &word,
                                       sizeof word));
  return real->step(state, step, result_out);
}

static void plant_order(ronde__job *job) { plant_strategy(job, create_planted, step_in_order_of_arrival); }
static void plant_lost_push(ronde__job *job) { plant_strategy(job, create_planted, step_that_loses_a_push); }
static void plant_deadlock(ronde__job *job) { plant_strategy(job, create_planted, step_that_waits_in_a_circle); }

static void check_found(const char *strategy, void (*tamper)(ronde__job *job), const char *text) {
  verdict v = sweep(strategy, 100, tamper);
  if (!strstr(v.what, text)) fail_msg("%s: '%s' instead of '%s'", strategy, v.what, text);
}

static void test_planted_bugs_are_found(void **state) {
  check_found("allreduce", plant_order, "other bits");
  check_found("ps-async", plant_lost_push, "5 updates of 6");
  check_found("allreduce", plant_deadlock, "rank 0 waits for rank 1 (tag 0x7000)");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_no_order_breaks_a_strategy),
      cmocka_unit_test(test_no_fault_hangs_a_run),
      cmocka_unit_test(test_planted_bugs_are_found),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

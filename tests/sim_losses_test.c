/* Workers of asynchronous strategies that die, or stand still for too long, at moments drawn from a seed, under orders
 * drawn from it: the others go on to the end, all of what is left is trained and tested, and replicas are equal. A rank
 * that nobody can do without ends the run, and is named.
 * RONDE_SWEEP_SEEDS: the seeds of all strategies together. */
#include "train_testing.h"

#include "comm/sim.h"
#include "comm/virtual.h"
#include "sanitized.h"
#include "strategy/server.h"

enum {
  WORKERS = 4,
  EPOCHS = 3,
  EPOCH_STEPS = 3,
  EXAMPLES = 22, /* the last batch has 6 */
  TESTS = 5,
  STALENESS = 1,
  SEEDS = SANITIZED ? 60 : 300,
  LOST_AFTER_MS = 60000
};

static const char *const strategies[] = {"ps-async", "ps-ssp", "downpour"};

static char lines[4096];

typedef struct faults {
  ronde__sim_fault at[2];
  int n;
} faults;

/* A layout of servers, and what the last run was. */
static struct {
  int n_servers, first_server; /* its rank */
  bool is_bounded;
  faults faults;
  uint64_t begun_ns, ended_ns;
  char what[256]; /* that is wrong; "": nothing */
} now;

static void keep_lines(void *user, ronde_log_level level, const char *line) {
  size_t used = strlen(lines);
  if (level == RONDE_LOG_ERROR || level == RONDE_LOG_WARNING) snprintf(lines + used, sizeof lines - used, "%s\n", line);
}

static ronde_tensor *tiny_model(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  x = ronde_tanh(ronde_linear(ronde_flatten(x), "fc1", 3, true));
  return ronde_linear(x, "fc2", classes, true);
}

static void go_on_without(ronde__job *job) {
  set_up_virtual_losses(job, RONDE__ON_LOSS_AUTO);
  assert_int_equal(job->options->on_loss, RONDE__ON_LOSS_CONTINUE);
  job->records_order = true;
}

static bool is_faulty(int rank) {
  bool faulty = false;
  for (int i = 0; i < now.faults.n; i++)
    faulty |= now.faults.at[i].rank == rank && now.faults.at[i].lasts_ns >= LOST_AFTER_MS * 1000000ull;
  return faulty;
}

static void complain(const char *format, int a, int b) {
  if (!now.what[0]) snprintf(now.what, sizeof now.what, format, a, b);
}

/* Where an update of one that is left is made, no other of these is behind by more than the bound. Whoever had no example
 * in the last step of an epoch has passed it. */
static void check_bound(const ronde__server *server) {
  int64_t n, done[WORKERS] = {0};
  const ronde__ps_update *order = ronde__server_order(server, &n);
  for (int64_t i = 0; i < n; i++) {
    int w = (int)order[i].worker;
    for (int v = 0; v < WORKERS && !is_faulty(w); v++)
      if (!is_faulty(v) && order[i].step - 1 - done[v] > STALENESS)
        complain("worker %d leads by %d steps", w, (int)(order[i].step - 1 - done[v]));
    done[w] = order[i].step;
  }
}

/* Everybody who is left has made all its steps: none of its updates is missing at any server. */
static void check_updates(const ronde__server *server, bool each_step) {
  int64_t n, updates[WORKERS] = {0};
  const ronde__ps_update *order = ronde__server_order(server, &n);
  for (int64_t i = 0; i < n; i++) updates[order[i].worker]++;
  for (int w = 0; w < WORKERS && each_step; w++)
    if (!is_faulty(w) && updates[w] != EPOCHS * EPOCH_STEPS)
      complain("worker %d has made %d updates", w, (int)updates[w]);
}

static void look_at(ronde__run *run) {
  const ronde__rank *first = &run->ranks[0];
  int64_t n_tests = first->progress.best.score.n;
  int n_lost = 0, n_short = 0;
  now.ended_ns = ronde__time_now(run->transports[0]->time) - RONDE__VIRTUAL_BEGIN_NS;
  now.begun_ns = run->first_step_ns - RONDE__VIRTUAL_BEGIN_NS;
  for (int w = 0; w < WORKERS; w++) {
    n_lost += !first->results[w].here;
    if (!first->results[w].here && !is_faulty(w)) complain("worker %d is missed (%d)", w, 0);
  }
  if (n_tests != TESTS) complain("%d of %d test examples", (int)n_tests, TESTS);
  for (int i = 0; i < run->record.n_epochs; i++) n_short += run->record.epochs[i].examples != EXAMPLES;
  if (run->record.n_epochs != EPOCHS) complain("%d epochs of %d", run->record.n_epochs, EPOCHS);
  if (n_short > n_lost) complain("%d epochs without all examples, and %d losses", n_short, n_lost);
  for (int s = 0; s < now.n_servers; s++) {
    const ronde__server *server = run->ranks[now.first_server + s].services[0].state;
    check_updates(server, run->job->strategy != ronde__strategy_find("downpour", &(ronde__strategy_settings){0}));
    if (now.is_bounded) check_bound(server);
  }
}

static observed train(const char *strategy, const uint64_t *seed, const faults *f) {
  char options[256];
  ronde_source source = small_source(EXAMPLES, TESTS);
  bool dedicated = *seed % 3 == 0;
  now.n_servers = 1 + (int)(*seed / 3 % 2);
  now.first_server = dedicated ? WORKERS : 0;
  now.is_bounded = !strcmp(strategy, "ps-ssp");
  now.faults = *f;
  now.what[0] = 0;
  snprintf(options, sizeof options,
           "threads=1 batch=8 lr=0.1 epochs=%d workers=%d bucket-mb=0.001 cache=off servers=%d placement=%s "
           "strategy=%s %s%s",
           EPOCHS, WORKERS, now.n_servers, dedicated ? "dedicated" : "colocated", strategy,
           now.is_bounded ? "staleness=1" : "", strcmp(strategy, "downpour") ? "" : "n-push=2 n-fetch=2");
  virtual_links =
      (ronde__sim_options){.link = links_by_lot, .user = seed, .seed = *seed, .faults = f->at, .n_faults = f->n};
  observe_on = make_virtual;
  observe_also = look_at;
  lines[0] = 0;
  ronde_log_set(keep_lines, NULL);
  observed o = observe(options, &source, tiny_model, go_on_without);
  ronde_log_set(NULL, NULL);
  return o;
}

/* One or two ranks that die, or stand still for less or for more than makes one lost. */
static faults draw_faults(uint64_t seed) {
  ronde__rng rng = ronde__rng_make(seed, RONDE__STREAM_STRAGGLERS);
  faults f = {.n = 1 + (int)ronde__rng_below(&rng, 2)};
  int n_ranks = now.first_server ? WORKERS + now.n_servers : WORKERS, rank = (int)ronde__rng_below(&rng, WORKERS);
  for (int i = 0; i < f.n; i++) {
    uint64_t kind = ronde__rng_below(&rng, 4), ms = ronde__rng_below(&rng, LOST_AFTER_MS / 2);
    f.at[i] = (ronde__sim_fault){.rank = (rank + i) % n_ranks,
                                 .at_ns = now.begun_ns + 1 + ronde__rng_below(&rng, now.ended_ns - now.begun_ns)};
    f.at[i].lasts_ns = kind <= 1 ? UINT64_MAX : (kind == 2 ? ms + 1 : LOST_AFTER_MS + ms + 1) * 1000000;
  }
  return f;
}

static bool is_needed(int rank) {
  return rank == 0 || (rank >= now.first_server && rank < now.first_server + now.n_servers);
}

static void judge(const observed *o) {
  bool needed = false, named = false;
  for (int i = 0; i < now.faults.n; i++) {
    char name[24];
    if (now.faults.at[i].lasts_ns < LOST_AFTER_MS * 1000000ull) continue;
    snprintf(name, sizeof name, "rank %d ", now.faults.at[i].rank);
    needed |= is_needed(now.faults.at[i].rank);
    named |= is_needed(now.faults.at[i].rank) && strstr(lines, name);
  }
  if (strstr(lines, "deadlock")) complain("deadlock (%d%d)", 0, 0);
  else if (o->status == RONDE_OK) {
    for (int w = 1; w < WORKERS; w++)
      if (!is_faulty(w) && strcmp(o->sha256[0], o->sha256[w])) complain("replica %d differs (%d)", w, 0);
  } else if (!needed) complain("ends with status %d (%d)", (int)o->status, 0);
  else if (o->status != RONDE_E_LOST || !named) complain("status %d, and not named (%d)", (int)o->status, 0);
}

typedef struct counts {
  int n_gone_on, n_ended;
} counts;

static counts sweep(const char *strategy, uint64_t n_seeds) {
  counts c = {0};
  for (uint64_t seed = 0; seed < n_seeds; seed++) {
    observed o = train(strategy, &seed, &(faults){.n = 0});
    free(o.weights);
    if (o.status != RONDE_OK || now.what[0]) fail_msg("%s: seed %d: %s %s", strategy, (int)seed, now.what, lines);
    faults f = draw_faults(seed);
    o = train(strategy, &seed, &f);
    judge(&o);
    free(o.weights);
    if (now.what[0])
      fail_msg("%s: seed %d, rank %d at %.6f s: %s; %s", strategy, (int)seed, f.at[0].rank,
               (double)f.at[0].at_ns * 1e-9, now.what, lines);
    c.n_gone_on += o.status == RONDE_OK && strstr(lines, "the others go on without it");
    c.n_ended += o.status == RONDE_E_LOST;
  }
  return c;
}

static void the_others_go_on(void **state) {
  const char *wanted = getenv("RONDE_SWEEP_SEEDS");
  int n_seeds = (wanted ? atoi(wanted) : SEEDS) / (int)RONDE__COUNT(strategies);
  for (size_t i = 0; i < RONDE__COUNT(strategies); i++) {
    counts c = sweep(strategies[i], (uint64_t)n_seeds);
    int least = n_seeds < 100 ? 1 : n_seeds / 5; /* a few under a sanitizer may be of either kind */
    if (c.n_gone_on < least || c.n_ended < ronde__max(1, least / 2))
      fail_msg("%s: of %d runs %d have gone on, %d have ended", strategies[i], n_seeds, c.n_gone_on, c.n_ended);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_others_go_on)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Workers of which every step needs all, and which die, or stand still for too long, at moments drawn from a seed, under
 * orders drawn from it: those that are left go on as a world of their own. What they end with is what runs without any
 * loss end with that are stopped where the survivors went on, and go on with fewer workers: to the last bit, running
 * statistics included. Every step is reported once, and every epoch has all of its examples.
 * RONDE_SWEEP_SEEDS: how many schedules of faults; RONDE_SWEEP_FIRST: the seed of the first. */
#include "resume_testing.h"

#include "comm/virtual.h"
#include "sanitized.h"

enum {
  WORKERS = 4,
  EXAMPLES = 53,
  EPOCHS = 2,
  STEPS = 14, /* of 8 examples, the last of an epoch of 5 */
  SEEDS = SANITIZED ? 16 : 64,
  MAX_REPLAYS = 4096,
  LOST_AFTER_MS = 60000
};

#define TRAINING SET "batch=8 epochs=2 lr=0.02 threads=1 seed=7 bucket-mb=0.001 "

static const int hosts[WORKERS] = {0, 0, 1, 1};
static const struct {
  const char *options;
  const int *host_of;
  bool has_replay; /* on threads, which are on one host */
} variants[] = {
    {"optimizer=sgd momentum=0.9 overlap=on collective=ring", NULL, true},
    {"optimizer=adam clip=1 overlap=on collective=halving-doubling sync-bn=on", NULL, true},
    {"optimizer=adamw overlap=off collective=tree sentinel=1", NULL, true},
    {"optimizer=rmsprop momentum=0.5 overlap=on collective=hierarchical", hosts, false},
    {"strategy=sharded optimizer=adam overlap=on", NULL, true},
    {"strategy=sharded optimizer=sgd momentum=0.9 clip=1 overlap=off sync-bn=on", NULL, true},
    {"strategy=sharded optimizer=rmsprop momentum=0.5 clip=1 overlap=on sentinel=1", NULL, true},
    {"strategy=sharded optimizer=adagrad overlap=off", hosts, false},
};

static char said[4096];

/* Workers of a run without losses: so many up to this step. */
typedef struct leg {
  int64_t n_workers;
  int64_t end;
} leg;
typedef struct plan {
  int variant, n;
  leg legs[WORKERS];
} plan;

static struct {
  int variant;
  ronde__sim_fault faults[2];
  int n_faults;
  uint64_t begun_ns, ended_ns, late_ns; /* late_ns: of one rank's knowing of a loss, behind another's, at most */
  plan plan;
  char what[256]; /* that is wrong; "": nothing */
} now;

static struct {
  plan plan;
  char sha256[RONDE__SHA256_HEX];
} replays[MAX_REPLAYS];
static int n_replays;

static void keep_lines(void *user, ronde_log_level level, const char *line) {
  size_t used = strlen(said);
  if (level == RONDE_LOG_ERROR || level == RONDE_LOG_WARNING) snprintf(said + used, sizeof said - used, "%s\n", line);
}

static void complain(const char *format, int64_t a, int64_t b) {
  if (!now.what[0]) snprintf(now.what, sizeof now.what, format, (long long)a, (long long)b);
}

/* ---- the run with losses ------------------------------------------------------------------------------------------ */

static void go_on_without(ronde__job *job) {
  set_up_virtual_losses(job, RONDE__ON_LOSS_CONTINUE);
  assert_true(job->regroups);
}

static bool is_fatal(const ronde__sim_fault *fault) { return fault->lasts_ns >= LOST_AFTER_MS * 1000000ull; }

static bool is_faulty(int rank) {
  bool faulty = false;
  for (int i = 0; i < now.n_faults; i++) faulty |= now.faults[i].rank == rank && is_fatal(&now.faults[i]);
  return faulty;
}

/* The legs that the run's worlds were. */
static void note_plan(const ronde__rank *first) {
  plan *p = &now.plan;
  *p = (plan){.variant = now.variant};
  int n = WORKERS;
  for (int64_t step = 0; step <= STEPS; step++) {
    int n_lost = 0;
    for (int w = 0; w < WORKERS; w++) n_lost += !first->results[w].here && first->world.since[w] == step;
    if (n_lost && step > 0) p->legs[p->n++] = (leg){n, step};
    n -= n_lost;
  }
  if (!p->n || p->legs[p->n - 1].end < STEPS) p->legs[p->n++] = (leg){n, STEPS};
}

static void look_at(ronde__run *run) {
  const ronde__rank *first = &run->ranks[0];
  now.ended_ns = ronde__time_now(run->transports[0]->time) - RONDE__VIRTUAL_BEGIN_NS;
  now.begun_ns = run->first_step_ns - RONDE__VIRTUAL_BEGIN_NS;
  for (int w = 0; w < WORKERS; w++)
    if (!first->results[w].here && !is_faulty(w)) complain("worker %lld is missed (%lld)", w, 0);
  if (run->record.n_epochs != EPOCHS) complain("%lld epochs of %lld", run->record.n_epochs, EPOCHS);
  for (int i = 0; i < run->record.n_epochs; i++)
    if (run->record.epochs[i].examples != EXAMPLES)
      complain("epoch %lld has %lld examples", i + 1, run->record.epochs[i].examples);
  note_plan(first);
}

static uint64_t knows_late(const void *user, int of, int by) {
  ronde__rng rng = ronde__rng_make(*(const uint64_t *)user << 8 | (uint64_t)(of << 4 | by), RONDE__STREAM_STRAGGLERS);
  return now.late_ns ? ronde__rng_below(&rng, now.late_ns) : 0;
}

static observed run_with(uint64_t seed) {
  char options[512];
  in(options, TRAINING "workers=%d %s", WORKERS, variants[now.variant].options);
  now.what[0] = said[0] = 0;
  virtual_links = (ronde__sim_options){.link = links_by_lot,
                                       .user = &seed,
                                       .seed = seed,
                                       .host_of = variants[now.variant].host_of,
                                       .late_ns = knows_late,
                                       .faults = now.faults,
                                       .n_faults = now.n_faults};
  observe_on = make_virtual;
  observe_also = look_at;
  ronde_log_set(keep_lines, NULL);
  observed o = observe(options, NULL, norm_model, go_on_without);
  ronde_log_set(test_log_line, &lines);
  free(o.weights);
  return o;
}

/* ---- runs without any --------------------------------------------------------------------------------------------- */

static const char *replay(const plan *p) {
  char options[512];
  int64_t begin = 0;
  json_t *run = NULL;
  for (int i = 0; i < n_replays; i++)
    if (!memcmp(&replays[i].plan, p, sizeof *p)) return replays[i].sha256;
  assert_true(n_replays < MAX_REPLAYS);
  for (int i = 0; i < p->n; begin = p->legs[i++].end) {
    bool is_last = p->legs[i].end == STEPS;
    if (i == 0)
      in(options, TRAINING "workers=%d out=%s/%d %s", (int)p->legs[i].n_workers, folder, n_replays,
         variants[p->variant].options);
    else
      in(options, "resume=%s/%d workers=%d %s", folder, n_replays, (int)p->legs[i].n_workers,
         variants[p->variant].options);
    ronde_status status = train(options, is_last ? 0 : p->legs[i].end - begin, is_last ? &run : NULL);
    assert_int_equal(status, is_last ? RONDE_OK : RONDE_E_CANCELLED);
  }
  replays[n_replays].plan = *p;
  snprintf(replays[n_replays].sha256, RONDE__SHA256_HEX, "%s", text_at(run, "result.weights_sha256"));
  json_decref(run);
  return replays[n_replays++].sha256;
}

/* ---- the sweep ---------------------------------------------------------------------------------------------------- */

/* One or two ranks that die, or stand still for less or for more than makes one lost; seldom rank 0. Each of the others
 * learns of it at a moment of its own in most schedules, up to some steps after another; and half of all second ones die
 * while the others are at agreeing on the first, or at making their new world. */
static void draw_faults(uint64_t seed) {
  ronde__rng rng = ronde__rng_make(seed, RONDE__STREAM_STRAGGLERS);
  int first = ronde__rng_below(&rng, 12) ? 1 + (int)ronde__rng_below(&rng, WORKERS - 1) : 0;
  uint64_t span_ns = now.ended_ns - now.begun_ns, step_ns = span_ns / STEPS;
  now.n_faults = 1 + (int)ronde__rng_below(&rng, 2);
  now.late_ns = ronde__rng_below(&rng, 4) * step_ns;
  for (int i = 0; i < now.n_faults; i++) {
    uint64_t kind = ronde__rng_below(&rng, 6), ms = ronde__rng_below(&rng, LOST_AFTER_MS / 2);
    int rank = i == 0 ? first : 1 + (first + (int)ronde__rng_below(&rng, WORKERS - 2)) % (WORKERS - 1);
    now.faults[i] = (ronde__sim_fault){.rank = rank, .at_ns = now.begun_ns + 1 + ronde__rng_below(&rng, span_ns)};
    if (i > 0 && seed / RONDE__COUNT(variants) % 2)
      now.faults[i].at_ns = now.faults[0].at_ns + ronde__rng_below(&rng, now.late_ns + step_ns);
    now.faults[i].lasts_ns = kind <= 3 ? UINT64_MAX : (kind == 4 ? ms + 1 : LOST_AFTER_MS + ms + 1) * 1000000;
  }
}

static void judge(const observed *o) {
  if (strstr(said, "deadlock")) complain("deadlock (%lld%lld)", 0, 0);
  if (is_faulty(0)) {
    if (o->status != RONDE_OK && (o->status != RONDE_E_LOST || !strstr(said, "rank 0 ")))
      complain("status %lld, and not named (%lld)", o->status, 0);
    return;
  }
  /* Two neighbours at once, of whom one had the other's shard. */
  if (o->status == RONDE_E_LOST && now.n_faults == 2 &&
      strstr(said, "which had its shard of the optimizer's state too"))
    return;
  if (o->status != RONDE_OK) complain("ends with status %lld (%lld)", o->status, 0);
  if (o->status != RONDE_OK) return;
  if (o->n_steps != STEPS) complain("%lld steps are reported of %lld", o->n_steps, STEPS);
  for (int w = 1; w < WORKERS; w++)
    if (!is_faulty(w) && strcmp(o->sha256[0], o->sha256[w])) complain("replica %lld differs (%lld)", w, 0);
  if (variants[now.variant].has_replay && strcmp(o->sha256[0], replay(&now.plan)))
    complain("other bits than without a loss, %lld workers from step %lld on", now.plan.legs[now.plan.n - 1].n_workers,
             now.plan.n > 1 ? now.plan.legs[now.plan.n - 2].end : 0);
}

static void those_that_are_left_go_on(void **state) {
  const char *wanted = getenv("RONDE_SWEEP_SEEDS"), *begin = getenv("RONDE_SWEEP_FIRST");
  uint64_t first = begin ? strtoull(begin, NULL, 10) : 0;
  int n_seeds = wanted ? atoi(wanted) : SEEDS, n_gone_on = 0, n_twice = 0, n_ended = 0, n_late = 0;
  for (uint64_t seed = first; seed < first + (uint64_t)n_seeds; seed++) {
    now.variant = (int)(seed % RONDE__COUNT(variants));
    now.n_faults = 0;
    now.late_ns = 0;
    observed o = run_with(seed);
    judge(&o);
    if (now.what[0]) fail_msg("seed %d without faults: %s %s", (int)seed, now.what, said);
    draw_faults(seed);
    o = run_with(seed);
    judge(&o);
    if (now.what[0])
      fail_msg("seed %d, rank %d at %.6f s: %s; %s", (int)seed, now.faults[0].rank, (double)now.faults[0].at_ns * 1e-9,
               now.what, said);
    const char *once = strstr(said, "they go on behind step");
    n_gone_on += o.status == RONDE_OK && once;
    n_twice += once && strstr(once + 1, "they go on behind step");
    n_late += o.status == RONDE_OK && now.plan.legs[0].n_workers < WORKERS;
    n_ended += o.status == RONDE_E_LOST;
  }
  print_message("%d schedules: %d gone on, of them %d twice; %d before the first step; %d ended; %d replays\n", n_seeds,
                n_gone_on, n_twice, n_late, n_ended, n_replays);
  if (n_gone_on < n_seeds / 2 || n_twice < n_seeds / 20 || (n_seeds >= 100 && n_ended == 0))
    fail_msg("of %d runs %d have gone on, %d twice, %d have ended", n_seeds, n_gone_on, n_twice, n_ended);
}

/* ---- what nobody sends -------------------------------------------------------------------------------------------- */

enum { MAX_DEAD = 1 << 16 };
static struct {
  float values[MAX_DEAD];
  size_t n;
} dead;

static void keep_dead(ronde__run *run) {
  int n_ranges;
  ronde__net *net = run->ranks[0].net;
  const ronde__range *ranges = ronde__net_dead(net, &n_ranges);
  now.ended_ns = ronde__time_now(run->transports[0]->time) - RONDE__VIRTUAL_BEGIN_NS;
  now.begun_ns = run->first_step_ns - RONDE__VIRTUAL_BEGIN_NS;
  for (int i = dead.n = 0; i < n_ranges; dead.n += ranges[i++].n) {
    assert_true(dead.n + ranges[i].n <= MAX_DEAD);
    memcpy(dead.values + dead.n, ronde__net_values(net) + ranges[i].begin, ranges[i].n * sizeof(float));
  }
}

static observed run_dead(uint64_t seed) {
  ronde_source source = small_source(40, 8);
  said[0] = 0;
  virtual_links = (ronde__sim_options){
      .link = links_by_lot, .user = &seed, .seed = seed, .faults = now.faults, .n_faults = now.n_faults};
  observe_on = make_virtual;
  observe_also = keep_dead;
  ronde_log_set(keep_lines, NULL);
  observed o = observe(
      "batch=8 epochs=3 lr=0.02 threads=1 seed=7 bucket-mb=0.001 workers=4 strategy=sharded "
      "optimizer=sgd momentum=0.9 weight-decay=0.1",
      &source, dead_taps_model, go_on_without);
  ronde_log_set(test_log_line, &lines);
  free(o.weights);
  return o;
}

/* Weights that only meet padding shrink by decay alone, so they end alike whoever has gone. Between two steps only the rank
 * that has them in its shard knows them. */
static void what_is_dead_goes_on_too(void **state) {
  static float expected[MAX_DEAD];
  int n_gone_on = 0;
  for (uint64_t seed = 0; seed < 12; seed++) {
    now.n_faults = 0;
    assert_int_equal(run_dead(seed).status, RONDE_OK);
    assert_true(dead.n > 0);
    memcpy(expected, dead.values, sizeof expected);
    ronde__rng rng = ronde__rng_make(seed, RONDE__STREAM_STRAGGLERS);
    now.n_faults = 1;
    now.faults[0] = (ronde__sim_fault){.rank = 1 + (int)(seed % 3), .lasts_ns = UINT64_MAX};
    now.faults[0].at_ns = now.begun_ns + 1 + ronde__rng_below(&rng, now.ended_ns - now.begun_ns);
    assert_int_equal(run_dead(seed).status, RONDE_OK);
    n_gone_on += strstr(said, "they go on behind step") != NULL;
    if (memcmp(expected, dead.values, dead.n * sizeof *expected)) fail_msg("seed %d: %s", (int)seed, said);
  }
  assert_true(n_gone_on > 6);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(those_that_are_left_go_on, make_folder_with_log, remove_folder),
      cmocka_unit_test_setup_teardown(what_is_dead_goes_on_too, make_folder_with_log, remove_folder)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Choosing the strategy by measurement. The candidates are the rows of the table of strategies; each is tried by the job
 * that its name would make, so what is refused of it by name is refused here, and is left out with that reason. A round
 * makes one short run of each, one behind the other, so that whatever slows a round slows all of them. Those that cannot be
 * told apart from the best (the interval of the ratios within rounds covers 1) are measured in further rounds, unless these
 * would take long. The best has the least median of its rounds; who comes as close as ALIKE and stands in front of it in the
 * table is taken instead, so that chance decides less. */
#include "train/measure.h"

#include "base/json.h"
#include "base/log_group.h"
#include "setup/setup.h"
#include "train/run.h"

#include <math.h>
#include <ronde/measure.h>
#include <stdio.h>
#include <string.h>

enum { ROUNDS = 5, MOST_ROUNDS = 15, LEAST_STEPS = 4, MOST_STEPS = 64, MAX_CANDIDATES = 32 };
#define RUN_S 0.1   /* that a short run lasts at least, where MOST_STEPS allow it */
#define ROUND_S 1.0 /* that a further round takes at most */
#define ALIKE 1.01  /* of medians: not worth another strategy */

/* What rank 0 tells of a short run. */
typedef struct cost {
  double step_s;                        /* behind the first step, which is still cold */
  double compute_s, exchange_s, wait_s; /* of a step, all of them, the mean over the workers */
  size_t memory;                        /* of all ranks */
} cost;

typedef struct candidate {
  const ronde__strategy *strategy;
  char left_out[256]; /* why; "": it is measured */
  int64_t period, n_steps;
  int n_rounds;
  double step_s[MOST_ROUNDS];
  cost sum; /* of the rounds, but for memory */
  ronde_statistics ms;
} candidate;

typedef struct choice {
  const ronde_config *config;
  const ronde_hooks *hooks;
  ronde__transport *mpi; /* NULL: all ranks are in this process */
  candidate candidates[MAX_CANDIDATES];
  int n_candidates;
} choice;

/* ---- who is measured ---- */

/* What can be said of a candidate before it is tried; NULL: nothing. */
static const char *why_not(const ronde__strategy *s, const ronde_config *config, int64_t *period_out) {
  const ronde__options *o = ronde__config_options(config);
  ronde__strategy_settings settings = {.options = o};
  *period_out = s->period ? s->period(&settings) : 1;
  if (!s->equals_one && !o->allow_stale) return "it does not equal one worker: --allow-stale";
  if (s->optimizer && strcmp(s->optimizer, ronde_config_get(config, "optimizer"))) return "it has its own optimizer";
  if (s->extra_ranks && s->extra_ranks(&settings) > 0) return "its servers have ranks of their own";
  if (*period_out == 0) return "its first steps differ from those behind";
  return *period_out > MOST_STEPS ? "its exchanges are too far apart to be measured" : NULL;
}

static ronde_status list_candidates(choice *c) {
  const ronde__strategy *s;
  ronde__strategy_settings settings = {.options = ronde__config_options(c->config)};
  for (int i = 0; (s = ronde__strategy_at(i)); i++) {
    if (ronde__strategy_find(s->name, &settings) != s) continue; /* another variant is meant */
    if (c->n_candidates == MAX_CANDIDATES) return ronde__fail(RONDE_E_INTERNAL, "too many strategies to be measured");
    candidate *one = &c->candidates[c->n_candidates++];
    one->strategy = s;
    one->n_steps = LEAST_STEPS;
    const char *why = why_not(s, c->config, &one->period);
    if (why) snprintf(one->left_out, sizeof one->left_out, "%s", why);
  }
  return RONDE_OK;
}

static ronde_status name_strategy(const ronde_config *config, const char *name, ronde_config **named_out) {
  ronde_config *named;
  RONDE_TRY(ronde__config_copy(config, &named));
  ronde_status status = ronde__config_name_strategy(named, name);
  if (status == RONDE_OK) *named_out = named;
  else ronde_config_destroy(named);
  return status;
}

/* A strategy that cuts the network has fewer replicas, of each of which `--local-batch` says the batch: it would be measured at another
 * batch than the rest. */
static bool has_other_batch(candidate *one, const ronde__job *job) {
  long long wanted = job->options->local_batch * job->roles.n_workers;
  if (wanted == 0 || job->batch == wanted) return false;
  snprintf(one->left_out, sizeof one->left_out,
           "with --local-batch its global batch would be %lld, not %lld: --batch %lld is the same for all",
           (long long)job->batch, wanted, wanted);
  return true;
}

static void forget(ronde__job *job) {
  job->mpi = NULL; /* is the caller's */
  ronde__job_destroy(job);
}

/* The job's, unless it is left out; what is said where it is refused is the reason, and not logged. */
static ronde_status try_job(const choice *c, candidate *one, ronde__job **job_out) {
  ronde_config *named;
  ronde__log_group said = {0}, *before = ronde__log_get_group();
  RONDE_TRY(name_strategy(c->config, one->strategy->name, &named));
  ronde__log_set_group(&said);
  ronde__log_mute(true);
  ronde_status status = ronde__job_try(named, c->hooks, c->mpi, job_out);
  ronde__log_mute(false);
  ronde__log_set_group(before);
  ronde_config_destroy(named);
  const char *text = said.n_said ? said.said[0] : "refused by another rank";
  if (status == RONDE_E_USAGE) snprintf(one->left_out, sizeof one->left_out, "%s", text);
  else if (status != RONDE_OK) ronde__fail(status, "%s", text);
  ronde__log_group_clear(&said);
  if (status == RONDE_OK && has_other_batch(one, *job_out)) {
    forget(*job_out);
    *job_out = NULL;
  }
  return status == RONDE_E_USAGE ? RONDE_OK : status;
}

/* ---- a short run ---- */

/* Nothing is written, nor told to the user. */
static void make_short(ronde__job *job) {
  ronde__options *o = &job->config->options;
  o->dry_run = true;
  o->save_last = o->trace = false;
  o->out = NULL;
  job->checkpoint_steps = 0;
  job->checkpoint_ns = 0;
  job->hooks.progress = NULL;
  for (int i = 0; i < RONDE__N_DRILLS; i++) /* delays are what is measured; faults are the training's */
    if (i != RONDE__DRILL_LOAD && i != RONDE__DRILL_SLOW) job->drills[i] = (ronde__drill){0};
}

/* Rank 0's figures. The slowest worker's time is the step's: nobody waits for it within. */
static cost cost_of(const ronde__run *r) {
  const ronde__job *job = r->job;
  const ronde__net *net = r->ranks[0].net;
  double wall = 0, n = (double)r->n_step_seconds, parts = n * job->roles.n_workers;
  ronde__net_memory memory = ronde__net_memory_use(net);
  cost own = {.memory =
                  ronde__memory_of_run(r, &memory, ronde__optim_state_bytes(&job->optim, ronde__net_n_trained(net)))};
  for (int w = 0; w < job->roles.n_workers; w++) {
    const double *s = r->workers[w].phase_s;
    wall = fmax(wall, r->workers[w].wall_s);
    own.compute_s += (s[RONDE__PHASE_FORWARD] + s[RONDE__PHASE_BACKWARD] + s[RONDE__PHASE_UPDATE]) / parts;
    own.exchange_s += s[RONDE__PHASE_EXCHANGE] / parts;
    own.wait_s += s[RONDE__PHASE_WAIT] / parts;
  }
  own.step_s = n > 1 ? (wall - r->step_seconds[0]) / (n - 1) : wall / n;
  return own;
}

static ronde_status run_short(ronde__run *run, cost *cost_out) {
  RONDE_TRY(ronde__run_make(run));
  RONDE__ALLOC(run->step_seconds, (size_t)run->max_steps * sizeof *run->step_seconds, "measuring");
  RONDE_TRY(ronde__run_ranks(run));
  if (ronde__run_reports(run)) *cost_out = cost_of(run);
  return run->job->mpi ? ronde__broadcast_tree(run->job->mpi, RONDE__TAG_CHOICES, 0, cost_out, sizeof *cost_out)
                       : RONDE_OK;
}

static void add(candidate *one, const cost *own) {
  one->step_s[one->n_rounds++] = own->step_s;
  one->sum.compute_s += own->compute_s;
  one->sum.exchange_s += own->exchange_s;
  one->sum.wait_s += own->wait_s;
  one->sum.memory = own->memory;
  double steps = own->step_s > 0 ? RUN_S / own->step_s : MOST_STEPS;
  one->n_steps = (int64_t)fmax(LEAST_STEPS, fmin(MOST_STEPS, steps));
}

static ronde_status measure_one(choice *c, candidate *one) {
  ronde__run run = {.max_steps = 1 + ronde__ceil_div(one->n_steps, one->period) * one->period};
  cost own = {0};
  RONDE_TRY(try_job(c, one, &run.job));
  if (!run.job) return RONDE_OK;
  char *out = run.job->options->out;
  ronde__record_begin(&run.record);
  ronde__guard_init(&run.guard);
  make_short(run.job);
  ronde_status status = run_short(&run, &own);
  ronde__run_tear_down(&run);
  run.job->config->options.out = out;
  if (status == RONDE_OK) add(one, &own);
  forget(run.job);
  return status;
}

/* Of what all ranks know one of them tells. */
static bool speaks(const choice *c) { return !c->mpi || c->mpi->rank == 0; }

static int n_left(const choice *c) {
  int n = 0;
  for (int i = 0; i < c->n_candidates; i++) n += !*c->candidates[i].left_out;
  return n;
}

static ronde_status fail_none(const choice *c) {
  char text[896] = "";
  size_t used = 0;
  if (!speaks(c)) return RONDE_E_USAGE;
  for (int i = 0; i < c->n_candidates && used < sizeof text; i++) {
    const candidate *one = &c->candidates[i];
    bool last = i + 1 == c->n_candidates, same = !last && !strcmp(one->left_out, one[1].left_out);
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%s%s%s", one->strategy->name, same ? "" : ": ",
                             same ? "" : one->left_out,
                             last   ? ""
                             : same ? ", "
                                    : "; ");
  }
  return ronde__fail(RONDE_E_USAGE, "--strategy measured: no strategy fits: %s", text);
}

/* Sets the statistics of all, and finds the least median. */
static ronde_status find_least(choice *c, candidate **least_out) {
  candidate *least = NULL, *one = c->candidates;
  for (int i = 0; i < c->n_candidates; i++, one++) {
    double ms[MOST_ROUNDS];
    if (*one->left_out) continue;
    for (int r = 0; r < one->n_rounds; r++) ms[r] = one->step_s[r] * 1e3;
    RONDE_TRY(ronde_statistics_of_rounds(ms, one->n_rounds, &one->ms));
    if (!least || one->ms.median < least->ms.median) least = one;
  }
  *least_out = least;
  return RONDE_OK;
}

static ronde_status is_in_doubt(const candidate *one, const candidate *least, bool *is_out) {
  double ratio[ROUNDS];
  ronde_statistics ratios;
  *is_out = one == least;
  if (*is_out || *one->left_out || least->ms.median <= 0) return RONDE_OK; /* in virtual time a step may take none */
  for (int r = 0; r < ROUNDS; r++) ratio[r] = one->step_s[r] / least->step_s[r];
  RONDE_TRY(ronde_statistics_of_rounds(ratio, ROUNDS, &ratios));
  *is_out = ratios.low <= 1;
  return RONDE_OK;
}

/* Those that further rounds may tell apart; none where there is but one, or where it would take long. */
static ronde_status find_doubtful(choice *c, candidate *doubtful[], int *n_out) {
  candidate *least;
  double round_s = 0;
  int n = 0;
  RONDE_TRY(find_least(c, &least));
  for (int i = 0; i < c->n_candidates; i++) {
    bool is;
    RONDE_TRY(is_in_doubt(&c->candidates[i], least, &is));
    if (!is) continue;
    round_s += (double)(1 + c->candidates[i].n_steps) * c->candidates[i].ms.median * 1e-3;
    doubtful[n++] = &c->candidates[i];
  }
  *n_out = n > 1 && round_s <= ROUND_S ? n : 0;
  return RONDE_OK;
}

static ronde_status measure_all(choice *c) {
  candidate *doubtful[MAX_CANDIDATES];
  int n;
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < c->n_candidates; i++)
      if (!*c->candidates[i].left_out) RONDE_TRY(measure_one(c, &c->candidates[i]));
    if (n_left(c) == 0) return fail_none(c);
  }
  RONDE_TRY(find_doubtful(c, doubtful, &n));
  for (int round = ROUNDS; round < MOST_ROUNDS; round++)
    for (int i = 0; i < n; i++) RONDE_TRY(measure_one(c, doubtful[i]));
  return RONDE_OK;
}

/* ---- which is the best, and what is told ---- */

static ronde_status find_best(choice *c, candidate **best_out) {
  RONDE_TRY(find_least(c, best_out));
  for (candidate *one = c->candidates; one < *best_out; one++) {
    if (*one->left_out || one->n_rounds < (*best_out)->n_rounds) continue;
    if (one->ms.median <= (*best_out)->ms.median * ALIKE) *best_out = one;
  }
  return RONDE_OK;
}

static void tell(const choice *c, const candidate *best) {
  if (!speaks(c)) return;
  ronde__log(RONDE_LOG_INFO, "%-13s %8s %19s %8s %8s %8s %8s", "strategy", "ms/step", "interval", "compute", "exchange",
             "waiting", "memory");
  for (const candidate *one = c->candidates; one < c->candidates + c->n_candidates; one++) {
    char interval[32];
    snprintf(interval, sizeof interval, "%.3f to %.3f", one->ms.low, one->ms.high);
    if (*one->left_out) ronde__log(RONDE_LOG_INFO, "%-13s left out: %s", one->strategy->name, one->left_out);
    else
      ronde__log(RONDE_LOG_INFO, "%-13s %8.3f %19s %8.3f %8.3f %8.3f %5.0f MB", one->strategy->name, one->ms.median,
                 interval, one->sum.compute_s * 1e3 / one->n_rounds, one->sum.exchange_s * 1e3 / one->n_rounds,
                 one->sum.wait_s * 1e3 / one->n_rounds, (double)one->sum.memory * 1e-6);
  }
  ronde__log(RONDE_LOG_INFO, "measured: --strategy %s", best->strategy->name);
}

static json_t *row_of(const candidate *one) {
  const char *name = one->strategy->name;
  if (*one->left_out) return json_pack("{s:s, s:o}", "strategy", name, "left_out", ronde__json_text(one->left_out));
  json_t *rounds = json_array();
  for (int r = 0; r < one->n_rounds; r++) json_array_append_new(rounds, json_real(one->step_s[r]));
  return json_pack("{s:s, s:f, s:f, s:f, s:o, s:f, s:f, s:f, s:I}", "strategy", name, "step_s", one->ms.median * 1e-3,
                   "low_s", one->ms.low * 1e-3, "high_s", one->ms.high * 1e-3, "rounds_s", rounds, "compute_s",
                   one->sum.compute_s / one->n_rounds, "exchange_s", one->sum.exchange_s / one->n_rounds, "wait_s",
                   one->sum.wait_s / one->n_rounds, "memory_bytes", (json_int_t)one->sum.memory);
}

static json_t *table_of(const choice *c) {
  json_t *rows = json_array();
  for (int i = 0; i < c->n_candidates; i++) json_array_append_new(rows, row_of(&c->candidates[i]));
  return rows;
}

ronde_status ronde__measure_strategies(const ronde_config *config, const ronde_hooks *hooks, ronde__transport *mpi,
                                       ronde_config **named_out, json_t **costs_out) {
  choice *c;
  candidate *best = NULL;
  RONDE__ALLOC(c, sizeof *c, "measuring");
  *c = (choice){.config = config, .hooks = hooks, .mpi = mpi};
  ronde_status status = list_candidates(c);
  if (status == RONDE_OK) status = n_left(c) ? measure_all(c) : fail_none(c);
  if (status == RONDE_OK) status = find_best(c, &best);
  if (status == RONDE_OK) status = name_strategy(config, best->strategy->name, named_out);
  if (status == RONDE_OK) {
    tell(c, best);
    *costs_out = table_of(c);
  }
  ronde__free(c);
  return status;
}

/* ronde bench batches: steps to a target accuracy over batch sizes, with the learning rate searched for each. For each batch
 * every learning rate of the grid is tried with one seed, and those that are near the best with more, because one seed is
 * lucky now and then. The best one is then measured with other seeds, so that the search has not chosen what is measured. Each training is a process of `ronde train` in a folder of its own: one that has completed
 * there is not made again. A count of steps does not depend on what else the host does. */
#include "batches.h"

#include "audit.h"
#include "compare.h"
#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CLOCK                                                                                                     \
  "steps to the target, between the last test below it and the first one that reached it in proportion to their " \
  "accuracies"

enum { SEARCH_SEEDS = 3 }; /* of the rates that are near the best */
#define NEAR 1.3           /* times the steps of the best */
#define SLACK 4            /* the same, of a training that is not to be ended early */

typedef struct search {
  const tool_call *call;
  const tool_axis *batches, *rates;
  const char *out;
  int n_seeds;
  int64_t seed, budget; /* of the search; steps of a training at most */
  double target;
  int64_t epoch_examples; /* of an epoch; 0: not known yet */
  bool is_anew;           /* --overwrite: nothing is taken over */
  int n_made, n_taken_over;
  ronde_measurement *record;
  tool_batch found[TOOL_MAX_VALUES];
  json_t *audited; /* [{name, audit}] */
} search;

/* ---- one training ------------------------------------------------------------------------------------------------ */

typedef struct trial {
  int batch; /* index */
  double lr;
  const char *lr_text;
  int64_t seed, steps; /* steps: at most */
  int64_t every;       /* epochs between tests; 0: as the call says */
} trial;

typedef struct outcome {
  json_t *command, *run; /* run: NULL where the weights broke */
  double steps;          /* to the target; NAN: not reached */
  int64_t last_step;     /* of the training */
  bool is_coarse;        /* the first test reached it: how many steps it took is not known */
  const char *ended;     /* "reached", "not reached", "diverged" */
  char folder[4500];
} outcome;

static void end_outcome(outcome *o) {
  json_decref(o->command);
  json_decref(o->run);
  *o = (outcome){0};
}

static ronde_status set_number(const search *s, const char *option, int64_t value) {
  char text[32];
  snprintf(text, sizeof text, "%" PRId64, value);
  return ronde_config_set(s->call->config, option, text);
}

static ronde_status command_of(const search *s, const trial *t, const char *folder, json_t **command_out) {
  TOOL_TRY(ronde_config_set(s->call->config, "batch", s->batches->values[t->batch]));
  TOOL_TRY(ronde_config_set(s->call->config, "lr", t->lr_text));
  TOOL_TRY(set_number(s, "seed", t->seed));
  TOOL_TRY(set_number(s, "steps", t->steps));
  if (t->every) TOOL_TRY(set_number(s, "eval-every", t->every));
  *command_out = tool_train_command(s->call, folder);
  return *command_out ? RONDE_OK : tool_fail(RONDE_E_MEMORY, "bench batches: no memory for a command");
}

/* A rate that is too large ends a training with broken numbers: that is what the search is to find. */
static ronde_status run_anew(search *s, outcome *o) {
  char why[2048];
  tool_folder_remove(o->folder);
  s->n_made++;
  ronde_status status = tool_case_try(o->command, &o->run, why, sizeof why);
  if (status == RONDE_E_NUMERIC || status == RONDE_E_CANCELLED || !status)
    return status == RONDE_E_NUMERIC ? RONDE_OK : status;
  return tool_fail(status, "%s: its training failed: %s", o->folder, why);
}

/* The steps at which the accuracy was the target's, on a line between the tests on both sides of it. */
static void find_steps(search *s, outcome *o) {
  const json_t *epochs = json_object_get(o->run, "epochs"), *row;
  double before = NAN, at = 0, steps = 0;
  size_t i;
  json_array_foreach((json_t *)epochs, i, row) {
    double accuracy = tool_number(row, "test_accuracy");
    steps += tool_number(row, "steps");
    if (i == 0 && json_array_size(epochs) > 1) s->epoch_examples = (int64_t)tool_number(row, "examples");
    if (!isfinite(accuracy)) continue;
    if (accuracy >= s->target) {
      o->is_coarse = !isfinite(before);
      o->steps = o->is_coarse ? steps : at + (steps - at) * (s->target - before) / (accuracy - before);
      break;
    }
    before = accuracy;
    at = steps;
  }
  o->last_step = (int64_t)tool_number(json_object_get(o->run, "totals"), "steps");
  o->ended = isfinite(o->steps) ? "reached" : "not reached";
}

static ronde_status try(search *s, const trial *t, outcome *o) {
  *o = (outcome){.ended = "diverged", .steps = NAN};
  snprintf(o->folder, sizeof o->folder, "%s/batch=%s,lr=%s,seed=%" PRId64, s->out, s->batches->values[t->batch],
           t->lr_text, t->seed);
  ronde_status status = tool_signal() ? RONDE_E_CANCELLED : command_of(s, t, o->folder, &o->command);
  if (status) return status;
  if (!s->is_anew && tool_case_is_done(o->folder, o->command, false, &o->run)) s->n_taken_over++;
  else status = run_anew(s, o);
  if (!status && o->run) find_steps(s, o);
  return status;
}

/* ---- the search -------------------------------------------------------------------------------------------------- */

/* The k-th index of n to try: the one to start with, then its neighbours outwards, so that a good one comes early. */
static int outwards(int start, int n, int k) {
  int seen = 0;
  for (int d = 0; d < n; d++)
    for (int side = 0; side < (d ? 2 : 1); side++) {
      int i = side ? start - d : start + d;
      if (i >= 0 && i < n && seen++ == k) return i;
    }
  return -1;
}

/* A batch gets twice the steps of the one in front of it, which by the theory needs more than it. */
static int64_t limit_of(const search *s, int batch) {
  double before = batch > 0 ? 2 * s->found[batch - 1].least : NAN;
  return before < (double)s->budget ? (int64_t)ceil(before) : s->budget;
}

/* Large batches need many epochs: a training tests MOST_TESTS times at most. The same for all trainings of a batch. */
static int64_t every_of(const search *s, int batch) {
  enum { MOST_TESTS = 64 };
  if (ronde_config_is_given(s->call->config, "eval-every") || !s->epoch_examples) return 0;
  int64_t each = (s->epoch_examples + s->found[batch].batch - 1) / s->found[batch].batch;
  return 1 + limit_of(s, batch) / (each * MOST_TESTS);
}

static json_t *trial_json(const trial *t, const outcome *o) {
  const json_t *best = json_object_get(json_object_get(o->run, "result"), "best");
  double accuracy = tool_number(best, "test_accuracy");
  return json_pack("{s:f, s:I, s:o, s:s, s:I, s:o}", "lr", t->lr, "seed", (json_int_t)t->seed, "steps",
                   isfinite(o->steps) ? json_real(o->steps) : json_null(), "ended", o->ended, "most_steps",
                   (json_int_t)t->steps, "accuracy", isfinite(accuracy) ? json_real(accuracy) : json_null());
}

/* A rate with one of the seeds of the search. steps_out: to the target, INFINITY where it was not reached; limit: of a
 * training, which gets less as better ones are found. */
static ronde_status try_rate(search *s, int batch, int rate, int seed, int64_t *limit, json_t *tried,
                             double *steps_out) {
  trial t = {batch,
             strtod(s->rates->values[rate], NULL),
             s->rates->values[rate],
             s->seed + seed,
             *limit,
             s->found[batch].every};
  outcome o;
  ronde_status status = try(s, &t, &o);
  if (!status) {
    double enough = ceil(NEAR * (double)o.last_step);
    json_array_append_new(tried, trial_json(&t, &o));
    if (isfinite(o.steps) && enough < (double)*limit) *limit = (int64_t)enough;
    *steps_out = isfinite(o.steps) ? o.steps : INFINITY;
  }
  end_outcome(&o);
  return status;
}

static double least_of(const double *steps, int n) {
  double least = INFINITY;
  for (int r = 0; r < n; r++) least = fmin(least, steps[r]);
  return least;
}

static double middle(const double of[SEARCH_SEEDS]) {
  _Static_assert(SEARCH_SEEDS == 3, "the middle of three");
  return fmax(fmin(of[0], of[1]), fmin(fmax(of[0], of[1]), of[2]));
}

/* What a training may take that is not ended for being worse: SLACK times the best so far. */
static int64_t limit_beside(const search *s, int batch, double least) {
  double most = ceil(SLACK * least);
  return most < (double)limit_of(s, batch) ? (int64_t)most : limit_of(s, batch);
}

/* A rate near the best counts by the middle of three seeds; so this goes on until the best is one of those. */
static ronde_status try_again(search *s, int batch, double *steps, json_t *tried) {
  bool is_sure[TOOL_MAX_VALUES] = {false};
  for (int r = 0; r < s->rates->n_values; r++) {
    double of[SEARCH_SEEDS] = {steps[r], 0, 0}, least = least_of(steps, s->rates->n_values);
    if (is_sure[r] || !isfinite(steps[r]) || steps[r] > NEAR * least) continue;
    for (int k = 1; k < SEARCH_SEEDS; k++) {
      int64_t limit = limit_beside(s, batch, least);
      TOOL_TRY(try_rate(s, batch, r, k, &limit, tried, &of[k]));
    }
    steps[r] = middle(of);
    is_sure[r] = true;
    r = -1; /* the best may be another one now */
  }
  return RONDE_OK;
}

static void choose(search *s, int batch, const double *steps) {
  tool_batch *found = &s->found[batch];
  double least = least_of(steps, s->rates->n_values);
  for (int r = 0; isfinite(least) && r < s->rates->n_values; r++)
    if (found->rate < 0 && steps[r] == least) found->rate = r;
  if (found->rate < 0) return;
  found->least = least;
  found->lr = strtod(s->rates->values[found->rate], NULL);
  found->is_at_edge = found->rate == 0 || found->rate == s->rates->n_values - 1;
}

/* Tries the whole grid, from the best rate of the batch in front on. A training that is no longer near the best one ends. */
static ronde_status search_rate(search *s, int batch, int start) {
  double steps[TOOL_MAX_VALUES];
  json_t *tried = json_array();
  int64_t limit = limit_of(s, batch);
  int n = s->rates->n_values;
  ronde_status status = RONDE_OK;
  s->found[batch].every = every_of(s, batch);
  for (int k = 0; k < n && !status; k++) {
    int rate = outwards(start, n, k);
    status = try_rate(s, batch, rate, 0, &limit, tried, &steps[rate]);
  }
  if (!status) status = try_again(s, batch, steps, tried);
  if (!status) choose(s, batch, steps);
  if (!status) status = tool_bench_set(s->record, batch, "tried", json_integer((json_int_t)json_array_size(tried)));
  if (!status) return tool_bench_set(s->record, batch, "search", tried);
  json_decref(tried);
  return status;
}

/* ---- the seeds --------------------------------------------------------------------------------------------------- */

/* What the first training of a batch says of its work. */
static ronde_status set_facts(search *s, int batch, const outcome *o) {
  const json_t *model = json_object_get(o->run, "model"), *data = json_object_get(o->run, "data"),
               *world = json_object_get(o->run, "world");
  report_steps steps = {0};
  report_steps_read(o->folder, &steps);
  json_t *audit = tool_audit_of_run(o->run, o->command, CLOCK, steps.loss, steps.n);
  report_steps_end(&steps);
  const struct {
    const char *name;
    const json_t *value;
  } facts[] = {{"command", o->command},
               {"model", json_object_get(model, "name")},
               {"parameters", json_object_get(model, "parameters")},
               {"forward_flops_per_example", json_object_get(model, "forward_flops_per_example")},
               {"train_flops_per_example", json_object_get(model, "train_flops_per_example")},
               {"data", json_object_get(data, "name")},
               {"data_sha256", json_object_get(data, "sha256")},
               {"workers", json_object_get(world, "workers")},
               {"threads", json_object_get(world, "threads_per_worker")},
               {"strategy", json_object_get(world, "strategy")},
               {"version", json_object_get(o->run, "version")}};
  for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++)
    if (facts[i].value)
      TOOL_TRY(tool_bench_set(s->record, batch, facts[i].name, json_incref((json_t *)facts[i].value)));
  json_array_append_new(
      s->audited, json_pack("{s:o, s:O}", "name", json_sprintf("batch=%s", s->batches->values[batch]), "audit", audit));
  TOOL_TRY(tool_bench_set(s->record, batch, "audit", audit));
  return tool_bench_set(s->record, RONDE_WHOLE, "machine", json_incref(json_object_get(o->run, "machine")));
}

static ronde_status add_seed(search *s, int batch, int round, const outcome *o) {
  double steps = o->steps, examples = steps * (double)s->found[batch].batch;
  if (isfinite(steps)) s->found[batch].n_reached++;
  if (o->is_coarse) s->found[batch].n_coarse++;
  TOOL_TRY(ronde_measurement_add_samples(s->record, batch, "steps_to_target", round, &steps, 1));
  TOOL_TRY(ronde_measurement_add_samples(s->record, batch, "examples_to_target", round, &examples, 1));
  return round == 0 && o->run ? set_facts(s, batch, o) : RONDE_OK;
}

/* The best rate with seeds that the search did not see. */
static ronde_status measure(search *s, int batch) {
  double most = ceil(SLACK * s->found[batch].least);
  for (int round = 0; round < s->n_seeds; round++) {
    trial t = {batch,
               s->found[batch].lr,
               s->rates->values[s->found[batch].rate],
               s->seed + SEARCH_SEEDS + round,
               most < (double)s->budget ? (int64_t)most : s->budget,
               s->found[batch].every};
    outcome o;
    ronde_status status = try(s, &t, &o);
    if (!status) status = add_seed(s, batch, round, &o);
    end_outcome(&o);
    if (status) return status;
  }
  return RONDE_OK;
}

static ronde_status set_found(search *s, int batch) {
  const tool_batch *found = &s->found[batch];
  json_t *lr = isfinite(found->lr) ? json_real(found->lr) : json_null();
  TOOL_TRY(tool_bench_set(s->record, batch, "batch", json_integer(found->batch)));
  TOOL_TRY(tool_bench_set(s->record, batch, "lr", lr));
  TOOL_TRY(tool_bench_set(s->record, batch, "is_at_edge", json_boolean(found->is_at_edge)));
  TOOL_TRY(tool_bench_set(s->record, batch, "clock", json_string(CLOCK)));
  return tool_bench_set(s->record, batch, "reached", json_sprintf("%d of %d", found->n_reached, found->n_seeds));
}

static void say_batch(const search *s, int batch) {
  const tool_batch *found = &s->found[batch];
  if (found->rate < 0)
    tool_say("batch %" PRId64 "  no learning rate of %d reached the target", found->batch, s->rates->n_values);
  else
    tool_say("batch %" PRId64 "  best learning rate %g of %d%s  %.0f steps (%d of %d seeds)", found->batch, found->lr,
             s->rates->n_values, found->is_at_edge ? ", at the edge" : "",
             ronde_measurement_statistics(s->record, batch, "steps_to_target").median, found->n_reached,
             found->n_seeds);
}

static ronde_status run_batches(search *s) {
  int start = s->rates->n_values / 2;
  for (int i = 0; i < s->batches->n_values; i++) {
    TOOL_TRY(search_rate(s, i, start));
    if (s->found[i].rate >= 0) {
      TOOL_TRY(measure(s, i));
      start = s->found[i].rate;
    }
    TOOL_TRY(set_found(s, i));
    say_batch(s, i);
  }
  return RONDE_OK;
}

/* ---- the record -------------------------------------------------------------------------------------------------- */

static ronde_status make_record(search *s) {
  const tool_axis *axes[] = {s->batches, s->rates};
  TOOL_TRY(ronde_measurement_create("bench batches", &s->record));
  TOOL_TRY(ronde_measurement_add_axis(s->record, "batch", (const char *const *)axes[0]->values, axes[0]->n_values));
  for (int i = 0; i < s->batches->n_values; i++) {
    char name[64];
    int index;
    snprintf(name, sizeof name, "batch=%s", s->batches->values[i]);
    TOOL_TRY(ronde_measurement_add_case(s->record, name, "ronde", (const char *const *)&s->batches->values[i], &index));
  }
  json_t *grid = json_array();
  for (int r = 0; r < s->rates->n_values; r++)
    json_array_append_new(grid, json_real(strtod(s->rates->values[r], NULL)));
  TOOL_TRY(tool_bench_set(s->record, RONDE_WHOLE, "lr_grid", grid));
  TOOL_TRY(tool_bench_set(s->record, RONDE_WHOLE, "rounds", json_integer(s->n_seeds)));
  TOOL_TRY(tool_bench_set(s->record, RONDE_WHOLE, "budget_steps", json_integer(s->budget)));
  TOOL_TRY(tool_bench_set(s->record, RONDE_WHOLE, "model", json_string(ronde_config_get(s->call->config, "model"))));
  TOOL_TRY(tool_bench_set(s->record, RONDE_WHOLE, "data", json_string(ronde_config_get(s->call->config, "data"))));
  return tool_bench_set(s->record, RONDE_WHOLE, "target_accuracy", json_real(s->target));
}

static ronde_status note_differences(search *s) {
  json_t *axes = json_pack("{s:b, s:b}", "batch", 1, "lr", 1), *one;
  json_t *differences = tool_audit_differences(s->audited, axes);
  size_t i;
  ronde_status status = RONDE_OK;
  json_array_foreach(differences, i, one) {
    if (!status) status = ronde_measurement_differ(s->record, tool_string(one, "field"), tool_string(one, "text"));
  }
  json_decref(differences);
  json_decref(axes);
  return status;
}

static ronde_status finish(search *s) {
  TOOL_TRY(note_differences(s));
  TOOL_TRY(tool_bench_set(s->record, RONDE_WHOLE, "made", json_integer(s->n_made)));
  TOOL_TRY(tool_bench_set(s->record, RONDE_WHOLE, "taken_over", json_integer(s->n_taken_over)));
  TOOL_TRY(tool_batches_conclude(s->record, s->found, s->batches->n_values));
  TOOL_TRY(ronde_measurement_leave_unranked(
      s->record, "steps to a target are counted, not timed: the regimes say what a larger batch saves"));
  TOOL_TRY(ronde_measurement_write(s->record, s->out));
  return tool_bench_show(s->call, s->record, tool_batches_print);
}

/* ---- the verb ---------------------------------------------------------------------------------------------------- */

static bool is_ascending(const tool_axis *axis) {
  for (int i = 1; i < axis->n_values; i++)
    if (!(strtod(axis->values[i], NULL) > strtod(axis->values[i - 1], NULL))) return false;
  return true;
}

static bool is_set(const tool_call *call, const char *option, const char *without) {
  const char *value = ronde_config_get(call->config, option);
  return value && *value && strcmp(value, without) != 0;
}

static ronde_status check_lists(const tool_call *call) {
  const tool_axis *batches = tool_axis_of(call, "batch"), *rates = tool_axis_of(call, "lr");
  if (!batches || !is_ascending(batches))
    return tool_fail(RONDE_E_USAGE, "--batch: ascending batch sizes are needed, such as --batch 16,32,64,128");
  if (!rates || !is_ascending(rates) || rates->n_values < 3)
    return tool_fail(RONDE_E_USAGE,
                     "--lr: a grid of three ascending learning rates or more is needed, such as --lr "
                     "0.01,0.02,0.04,0.08");
  if (call->n_axes > 2)
    return tool_fail(RONDE_E_USAGE, "--%s: only --batch and --lr can have a list of values here", call->axes[2].name);
  return RONDE_OK;
}

static ronde_status check(const tool_call *call) {
  static const struct {
    const char *option, *without, *why;
  } none[] = {{"save", "", "it only counts steps"},
              {"mlperf-log", "", "it only counts steps"},
              {"resume", "", "every training begins with fresh weights"},
              {"local-batch", "0", "--batch is the list of batch sizes"},
              {"dry-run", "off", "how many steps are needed is what is to be found"},
              {"lr-schedule", "constant", "a schedule would follow from the budget"}};
  for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
    if (is_set(call, none[i].option, none[i].without))
      return tool_fail(RONDE_E_USAGE, "--%s cannot be combined with bench batches: %s", none[i].option, none[i].why);
  TOOL_TRY(check_lists(call));
  if (!is_set(call, "target-accuracy", "0"))
    return tool_fail(RONDE_E_USAGE, "--target-accuracy is missing: the steps to it are counted");
  if (!is_set(call, "steps", "0"))
    return tool_fail(RONDE_E_USAGE, "--steps is missing: the budget, that a training makes at most");
  if (!is_set(call, "out", ""))
    return tool_fail(RONDE_E_USAGE, "--out is missing: the folder that keeps the trainings, and from which it goes on");
  return RONDE_OK;
}

static ronde_status make_folder(const char *out) {
  if (mkdir(out, 0777) == 0 || errno == EEXIST) return RONDE_OK;
  return tool_fail(RONDE_E_WRITE, "%s: cannot make the folder: %s", out, strerror(errno));
}

/* What the options say, as it is before the trainings set them. */
static search search_of(const tool_call *call) {
  search s = {.call = call,
              .batches = tool_axis_of(call, "batch"),
              .rates = tool_axis_of(call, "lr"),
              .out = ronde_config_get(call->config, "out"),
              .n_seeds = atoi(ronde_config_get(call->config, "rounds")),
              .seed = strtoll(ronde_config_get(call->config, "seed"), NULL, 10),
              .budget = strtoll(ronde_config_get(call->config, "steps"), NULL, 10),
              .target = strtod(ronde_config_get(call->config, "target-accuracy"), NULL),
              .is_anew = is_set(call, "overwrite", "off"),
              .audited = json_array()};
  for (int i = 0; i < s.batches->n_values; i++)
    s.found[i] = (tool_batch){
        .batch = strtoll(s.batches->values[i], NULL, 10), .rate = -1, .lr = NAN, .least = NAN, .n_seeds = s.n_seeds};
  return s;
}

ronde_status tool_bench_batches(const tool_call *call) {
  TOOL_TRY(check(call));
  tool_environment_forget();
  tool_signals_watch();
  search s = search_of(call);
  tool_say("%d batch sizes: each with %d learning rates, then the best one with %d seeds; at most %" PRId64
           " steps a training",
           s.batches->n_values, s.rates->n_values, s.n_seeds, s.budget);
  ronde_status status = make_folder(s.out);
  if (!status) status = make_record(&s);
  if (!status) status = run_batches(&s);
  if (!status) status = finish(&s);
  if (status == RONDE_E_CANCELLED) tool_fail(status, "interrupted: the same command goes on from here");
  ronde_measurement_destroy(s.record);
  json_decref(s.audited);
  return status;
}

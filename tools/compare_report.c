/* What was measured of the cases of a comparison, joined: the same work or not, ratios round by round, bench.json and the
 * tables. */
#include "compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of an epoch's row; means over the workers. */
static const struct {
  const char *field, *text;
} phases[TOOL_N_PHASES] = {{"load_s", "loading"},           {"forward_s", "forward"}, {"backward_s", "backward"},
                           {"communication_s", "exchange"}, {"update_s", "update"},   {"other_s", "other"}};

/* ---- gathering ---- */

static double kernel_seconds(const json_t *run) {
  const json_t *ops = json_object_get(run, "ops"), *row;
  size_t i;
  double sum = 0;
  json_array_foreach(ops, i, row) { sum += tool_number(row, "seconds"); }
  return sum / tool_number(json_object_get(run, "world"), "workers");
}

ronde_status tool_case_add(tool_case *one, int round, json_t *command, json_t *run, int64_t first_step) {
  const json_t *totals = json_object_get(run, "totals");
  double n = tool_number(totals, "steps"), kernel = kernel_seconds(run) / n, train_s = tool_epochs_sum(run, "wall_s");
  double busy = train_s - tool_epochs_sum(run, "load_s") - tool_epochs_sum(run, "communication_s");
  ronde_statistics steps;
  if (one->steps.n == first_step)
    return tool_fail(RONDE_E_USAGE, "%s: a run of one step cannot be compared: the first one is left out", one->name);
  ronde_status status = ronde_statistics_of(one->steps.at + first_step, one->steps.n - first_step, &steps);
  if (!status) status = tool_sample(&one->rounds, round);
  if (!status) status = tool_sample(&one->medians, steps.median);
  if (!status) status = tool_sample(&one->kernel, kernel);
  if (!status) status = tool_sample(&one->overhead, busy / n - kernel);
  for (int p = 0; p < TOOL_N_PHASES && !status; p++)
    status = tool_sample(&one->phases[p], tool_epochs_sum(run, phases[p].field) / n);
  if (!status) status = tool_sample(&one->train, train_s);
  if (!status) status = tool_sample(&one->wall, tool_number(totals, "wall_s"));
  if (!status) status = tool_sample(&one->cpu, tool_number(totals, "cpu_s"));
  if (!status) status = tool_sample(&one->peak, tool_number(totals, "peak_rss_bytes"));
  if (!status) status = tool_sample(&one->setup, tool_number(run, "setup_s"));
  if (status) return status;
  const json_t *hash = json_object_get(json_object_get(run, "result"), "weights_sha256");
  if (one->run) {
    one->same_weights &= json_equal(hash, json_object_get(json_object_get(one->run, "result"), "weights_sha256"));
    return RONDE_OK;
  }
  one->same_weights = true;
  json_decref(one->command);
  one->command = json_incref(command);
  one->run = json_incref(run);
  return RONDE_OK;
}

void tool_case_end(tool_case *one) {
  tool_samples *all[] = {&one->steps, &one->rounds, &one->medians, &one->kernel, &one->overhead,
                         &one->train, &one->wall,   &one->cpu,     &one->peak,   &one->setup};
  for (int p = 0; p < TOOL_N_PHASES; p++) free(one->phases[p].at);
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i]->at);
  json_decref(one->command);
  json_decref(one->plan);
  json_decref(one->run);
}

double tool_case_round_ms(const tool_case *one) { return 1e3 * one->medians.at[one->medians.n - 1]; }

/* ---- the same work ---- */

/* Of the run's record, or by the field's name of the plan. */
static const struct {
  const char *field, *section, *key;
  bool is_of_batch; /* follows from the batch, for steps or epochs that are given */
} work[] = {{"parameters", "model", "parameters", false},
            {"forward_flops_per_example", "model", "forward_flops_per_example", false},
            {"train_flops_per_example", "model", "train_flops_per_example", false},
            {"padding", "model", "padding", false},
            {"data_sha256", "data", "sha256", false},
            {"data_examples", "data", "train_examples", false},
            {"dtype", "config", "dtype", false},
            {"batch", "config", "batch", true},
            {"steps", "totals", "steps", true},
            {"examples", "totals", "examples", true}};
enum { N_WORK = sizeof work / sizeof work[0] };

static json_t *work_of(const tool_case *one, int i) {
  if (one->run) return json_object_get(json_object_get(one->run, work[i].section), work[i].key);
  return json_object_get(one->plan, work[i].field);
}

static double batch_of(const tool_case *one) {
  const json_t *batch =
      one->run ? json_object_get(json_object_get(one->run, "config"), "batch") : json_object_get(one->plan, "batch");
  return json_number_value(batch);
}

/* The case that another must not differ from. The batch differs only where an axis says so: then the rates are compared,
 * and what follows from the batch must agree among cases of one batch. */
static const tool_case *reference_of(const tool_cases *cases, int index, int field) {
  int first = 0;
  while (work[field].is_of_batch && batch_of(&cases->at[first]) != batch_of(&cases->at[index])) first++;
  return &cases->at[first];
}

json_t *tool_differences(const tool_cases *cases) {
  json_t *differences = json_array();
  for (int i = 0; i < N_WORK; i++)
    for (int c = 1; c < cases->n; c++) {
      const tool_case *one = &cases->at[c], *reference = reference_of(cases, c, i);
      const json_t *first = work_of(reference, i), *other = work_of(one, i);
      bool is_known = (one->run || one->plan) && !one->run == !reference->run;
      if (!is_known || json_equal(first, other)) continue;
      char *a = json_dumps(first, JSON_ENCODE_ANY), *b = json_dumps(other, JSON_ENCODE_ANY);
      json_t *text = json_sprintf("%s is %s with %s, %s with %s", work[i].field, a ? a : "?", reference->name,
                                  b ? b : "?", one->name);
      json_array_append_new(differences, json_pack("{s:s, s:o}", "field", work[i].field, "text", text));
      free(a);
      free(b);
      break;
    }
  return differences;
}

/* ---- bench.json ---- */

static const json_t *staleness_of(const json_t *run) {
  const json_t *staleness = json_object_get(json_object_get(run, "communication"), "staleness");
  return json_is_object(staleness) ? staleness : NULL;
}

/* What is compared of two cases. */
typedef struct ranking {
  const char *by;
  bool is_train;       /* the seconds of training, not those of a step */
  bool is_per_example; /* those that an example takes */
} ranking;

/* A worker's asynchronous step is not the others' step, but the examples are the same: then the time for all of them is
 * compared. Of other batches, the time that an example takes. */
static ranking ranking_of(const tool_cases *cases) {
  ranking r = {.by = "step_s"};
  for (int i = 0; i < cases->n; i++) {
    r.is_train |= staleness_of(cases->at[i].run) != NULL;
    r.is_per_example |= batch_of(&cases->at[i]) != batch_of(&cases->at[0]);
  }
  if (r.is_train) r.by = "train_s";
  if (r.is_per_example) r.by = "examples_per_s";
  return r;
}

/* That count in a step, or in the whole training. */
static double examples_of(const tool_case *one, bool is_train) {
  const json_t *config = json_object_get(one->run, "config"), *world = json_object_get(one->run, "world");
  double workers = tool_number(world, "workers"), backup = tool_number(config, "backup");
  if (is_train) return tool_number(json_object_get(one->run, "totals"), "examples");
  return batch_of(one) * (workers - backup) / workers;
}

/* Seconds, of the i-th of the rounds that it kept. */
static double time_of(const tool_case *one, ranking r, int64_t i) {
  double seconds = r.is_train ? one->train.at[i] : one->medians.at[i];
  return r.is_per_example ? seconds / examples_of(one, r.is_train) : seconds;
}

static json_t *rate_json(const tool_case *one, ranking r) {
  tool_samples rates = {0};
  r.is_per_example = true;
  for (int64_t i = 0; i < one->rounds.n; i++)
    if (tool_sample(&rates, 1 / time_of(one, r, i))) break;
  json_t *json = tool_samples_json(&rates);
  free(rates.at);
  return json;
}

/* Times of the first case over those of this one, round by round: how many times as fast it is. A round that one of
 * them lost has no ratio. */
static json_t *speed_json(const tool_case *first, const tool_case *one, ranking r) {
  tool_samples ratios = {0};
  for (int64_t i = 0, j = 0; i < first->rounds.n && j < one->rounds.n;) {
    double ahead = first->rounds.at[i] - one->rounds.at[j];
    if (ahead == 0 && tool_sample(&ratios, time_of(first, r, i) / time_of(one, r, j))) break;
    i += ahead <= 0;
    j += ahead >= 0;
  }
  json_t *json = tool_samples_json(&ratios);
  free(ratios.at);
  return json;
}

/* What the interval of a ratio says; NULL where there is none. */
static const char *verdict_of(const json_t *speed) {
  double low = tool_number(speed, "low"), high = tool_number(speed, "high");
  if (!isfinite(low)) return NULL;
  return low > 1 ? "faster" : high < 1 ? "slower" : "cannot be told apart";
}

static void put_samples(json_t *json, const tool_case *one) {
  json_object_set_new(json, "step_s", tool_steps_json(&one->steps, &one->medians));
  json_object_set_new(json, "round_s", tool_samples_json(&one->medians));
  json_object_set_new(json, "kernel_s", tool_samples_json(&one->kernel));
  json_object_set_new(json, "overhead_s", tool_samples_json(&one->overhead));
  for (int p = 0; p < TOOL_N_PHASES; p++)
    json_object_set_new(json, phases[p].field, tool_samples_json(&one->phases[p]));
  json_object_set_new(json, "train_s", tool_samples_json(&one->train));
  json_object_set_new(json, "setup_s", tool_samples_json(&one->setup));
  json_object_set_new(json, "wall_s", tool_samples_json(&one->wall));
  json_object_set_new(json, "cpu_s", tool_samples_json(&one->cpu));
  json_object_set_new(json, "peak_rss_bytes", tool_samples_json(&one->peak));
}

/* What the run tells that is not measured in rounds; of a case that did not run, what the plan does. */
static void put_facts(json_t *json, const tool_case *one) {
  const json_t *model = json_object_get(one->run, "model"), *data = json_object_get(one->run, "data"),
               *world = json_object_get(one->run, "world"), *plan = one->plan;
  for (int i = 0; i < N_WORK; i++) json_object_set(json, work[i].field, work_of(one, i));
  json_object_set(json, "model", one->run ? json_object_get(model, "name") : json_object_get(plan, "model"));
  json_object_set(json, "data", one->run ? json_object_get(data, "name") : json_object_get(plan, "data"));
  json_object_set(json, "workers", one->run ? json_object_get(world, "workers") : json_object_get(plan, "workers"));
  json_object_set(json, "threads", json_object_get(one->run ? world : plan, "threads_per_worker"));
  json_object_set(json, "strategy", json_object_get(one->run ? world : plan, "strategy"));
  json_object_set(json, "version", json_object_get(one->run, "version"));
  json_object_set(json, "communication", json_object_get(one->run, "communication"));
  json_object_set(json, "result", json_object_get(one->run, "result"));
}

static json_t *case_json(const tool_case *first, const tool_case *one, bool is_ranked, ranking r) {
  json_t *json = json_pack("{s:s, s:s, s:O, s:s}", "name", one->name, "system", "ronde", "command", one->command,
                           "clock", "monotonic wall clock, a whole step of rank 0");
  put_facts(json, one);
  json_object_set_new(json, "runs", json_integer(one->medians.n));
  json_object_set_new(json, "failures", json_integer(one->failures));
  if (one->run) {
    put_samples(json, one);
    json_object_set_new(json, "examples_per_s", rate_json(one, r));
    json_object_set_new(json, "same_weights_in_all_runs", json_boolean(one->same_weights));
  }
  json_t *speed = is_ranked ? speed_json(first, one, r) : json_null();
  const char *verdict = one == first ? NULL : verdict_of(speed);
  json_object_set_new(json, "times_as_fast", speed);
  json_object_set_new(json, "verdict", verdict ? json_string(verdict) : json_null());
  return json;
}

static json_t *axes_json(const tool_call *call) {
  json_t *axes = json_object();
  for (int a = 0; a < call->n_axes; a++) {
    json_t *values = json_array();
    for (int i = 0; i < call->axes[a].n_values; i++)
      json_array_append_new(values, json_string(call->axes[a].values[i]));
    json_object_set_new(axes, call->axes[a].name, values);
  }
  return axes;
}

static json_t *load_json(const ronde_host_load *load) {
  return load ? json_pack("{s:i, s:f, s:b}", "cores", load->cores, "busy_with_others", load->others, "is_busy",
                          load->is_busy)
              : json_null();
}

ronde_status tool_bench_json(const tool_call *call, const tool_cases *cases, const json_t *differences,
                             const ronde_host_load *host, json_t **bench_out) {
  bool is_ranked = json_array_size(differences) == 0;
  ranking r = ranking_of(cases);
  json_t *all = json_array(), *machine = json_object_get(cases->at[0].run, "machine");
  for (int i = 0; i < cases->n; i++) json_array_append_new(all, case_json(&cases->at[0], &cases->at[i], is_ranked, r));
  json_t *bench =
      json_pack("{s:s, s:s, s:o, s:o, s:o, s:b, s:s?, s:O, s:O, s:o}", "schema", "ronde.bench.v1", "verb", "compare",
                "machine", machine ? json_incref(machine) : json_null(), "host_load", load_json(host), "axes",
                axes_json(call), "ranked", is_ranked, "ranked_by", is_ranked ? r.by : NULL, "differences", differences,
                "left_out", cases->left_out, "cases", all);
  *bench_out = bench;
  return bench ? RONDE_OK : tool_fail(RONDE_E_MEMORY, "compare: no memory for the result");
}

/* ---- the table ---- */

static double median_ms(const json_t *one, const char *key) {
  return 1e3 * tool_number(json_object_get(one, key), "median");
}

static void print_case(const json_t *one) {
  const json_t *steps = json_object_get(one, "step_s"), *result = json_object_get(one, "result");
  char peak[32], interval[64], speed[32] = "-", accuracy[32] = "-";
  double times = tool_number(json_object_get(one, "times_as_fast"), "median");
  if (isfinite(times)) snprintf(speed, sizeof speed, "%.3f", times);
  if (isfinite(tool_number(result, "test_accuracy")))
    snprintf(accuracy, sizeof accuracy, "%.4f", tool_number(result, "test_accuracy"));
  printf("%-28s %9.3f %8.3f  %-16s %7s %9.3f %9.3f %8.3f %8.3f %11s  %-11.9g %8s  %.12s%s\n", tool_string(one, "name"),
         median_ms(one, "step_s"), 1e3 * tool_number(steps, "mad"), tool_interval(steps, 1e3, 3, interval), speed,
         median_ms(one, "kernel_s"), median_ms(one, "overhead_s"), median_ms(one, "load_s"),
         median_ms(one, "communication_s"),
         tool_bytes(tool_number(json_object_get(one, "peak_rss_bytes"), "median"), peak),
         tool_number(result, "train_loss"), accuracy, tool_string(result, "weights_sha256"),
         json_is_true(json_object_get(one, "same_weights_in_all_runs")) ? "" : " (not in all runs)");
}

static void print_phases(const json_t *cases) {
  const json_t *one;
  size_t i;
  printf("\n%-28s %7s %7s %12s %10s", "case", "batch", "steps", "examples/s", "training s");
  for (int p = 0; p < TOOL_N_PHASES; p++) printf(" %9s", phases[p].text);
  printf("  %s\n", "staleness");
  json_array_foreach(cases, i, one) {
    const json_t *staleness = staleness_of(one);
    char rate[32];
    printf("%-28s %7.0f %7.0f %12s %10.3f", tool_string(one, "name"), tool_number(one, "batch"),
           tool_number(one, "steps"), tool_count(tool_number(json_object_get(one, "examples_per_s"), "median"), rate),
           tool_number(json_object_get(one, "train_s"), "median"));
    for (int p = 0; p < TOOL_N_PHASES; p++) printf(" %9.3f", median_ms(one, phases[p].field));
    if (staleness) printf("  %.2f, at most %.0f\n", tool_number(staleness, "mean"), tool_number(staleness, "max"));
    else printf("  -\n");
  }
}

static void print_speeds(const json_t *cases) {
  const json_t *one;
  size_t i;
  double n_rounds = INFINITY;
  bool any_open = false;
  json_array_foreach(cases, i, one) {
    const json_t *speed = json_object_get(one, "times_as_fast");
    const char *verdict = tool_string(one, "verdict");
    char interval[64];
    n_rounds = fmin(n_rounds, (double)json_array_size(json_object_get(speed, "samples")));
    if (i == 0) continue;
    any_open |= strcmp(verdict, "faster") != 0 && strcmp(verdict, "slower") != 0;
    printf("  %-28s %7.3f  %s  %s\n", tool_string(one, "name"), tool_number(speed, "median"),
           tool_interval(speed, 1, 3, interval), verdict);
  }
  if (n_rounds < 2) printf("one round has no interval: --rounds 3 and more tell whether a difference is one\n");
  else if (n_rounds < 5 && any_open)
    printf("%.0f rounds make wide intervals: those of --rounds %d are at most half as wide\n", n_rounds,
           n_rounds < 3   ? 3
           : n_rounds < 4 ? 5
                          : 10);
}

static void print_ranking(const json_t *bench) {
  const json_t *cases = json_object_get(bench, "cases"), *first = json_array_get(cases, 0);
  const char *by = tool_string(bench, "ranked_by"), *name = tool_string(first, "name");
  if (!*by) return;
  printf("\nspeed: how many times as fast as %s, with the 95 %% interval, by %s\n", name,
         strcmp(by, "step_s") == 0    ? "the steps' medians"
         : strcmp(by, "train_s") == 0 ? "the seconds of training on the same examples"
                                      : "examples a second, as the batches differ");
  if (strcmp(by, "train_s") == 0)
    printf(
        "(asynchronous workers make an update each where the others make one of all, and a step of theirs is one\n"
        "worker's)\n");
  print_speeds(cases);
}

void tool_bench_print(const json_t *bench) {
  const json_t *cases = json_object_get(bench, "cases"), *one, *first = json_array_get(cases, 0);
  size_t i;
  char parameters[32];
  printf("%s (%s parameters) on %s, %.0f runs a case; times in ms a step\n", tool_string(first, "model"),
         tool_count(tool_number(first, "parameters"), parameters), tool_string(first, "data"),
         tool_number(first, "runs"));
  printf("%-28s %9s %8s  %-16s %7s %9s %9s %8s %8s %11s  %-11s %8s  %s\n", "case", "median", "MAD", "[95 % interval]",
         "speed", "kernels", "overhead", "loading", "exchange", "peak memory", "train loss", "accuracy", "weights");
  json_array_foreach(cases, i, one) { print_case(one); }
  print_phases(cases);
  print_ranking(bench);
}

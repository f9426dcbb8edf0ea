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
  json_decref(one->run);
}

double tool_case_round_ms(const tool_case *one) { return 1e3 * one->medians.at[one->medians.n - 1]; }

/* ---- the same work ---- */

static const struct {
  const char *field, *section, *key;
} work[] = {{"parameters", "model", "parameters"},
            {"forward_flops_per_example", "model", "forward_flops_per_example"},
            {"train_flops_per_example", "model", "train_flops_per_example"},
            {"padding", "model", "padding"},
            {"batch", "config", "batch"},
            {"data_sha256", "data", "sha256"},
            {"data_examples", "data", "train_examples"},
            {"dtype", "config", "dtype"},
            {"steps", "totals", "steps"},
            {"examples", "totals", "examples"}};
enum { N_WORK = sizeof work / sizeof work[0] };

static json_t *work_of(const tool_case *one, int i) {
  return json_object_get(json_object_get(one->run, work[i].section), work[i].key);
}

json_t *tool_differences(const tool_case *cases, int n) {
  json_t *differences = json_array();
  for (int i = 0; i < N_WORK; i++)
    for (int c = 1; c < n; c++) {
      const json_t *first = work_of(&cases[0], i), *other = work_of(&cases[c], i);
      if (!cases[c].run || json_equal(first, other)) continue;
      char *a = json_dumps(first, JSON_ENCODE_ANY), *b = json_dumps(other, JSON_ENCODE_ANY);
      json_t *text = json_sprintf("%s is %s with %s, %s with %s", work[i].field, a ? a : "?", cases[0].name,
                                  b ? b : "?", cases[c].name);
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

/* A worker's asynchronous step is not the others' step, but the examples are the same: then the time for all of them is
 * compared. */
static const char *ranked_by(const tool_case *cases, int n) {
  for (int i = 0; i < n; i++)
    if (staleness_of(cases[i].run)) return "train_s";
  return "step_s";
}

/* Times of the first case over those of this one, round by round: how many times as fast it is. A round that one of
 * them lost has no ratio. */
static json_t *speed_json(const tool_case *first, const tool_case *one, const char *by) {
  bool by_step = strcmp(by, "step_s") == 0;
  const tool_samples *a = by_step ? &first->medians : &first->train, *b = by_step ? &one->medians : &one->train;
  tool_samples ratios = {0};
  for (int64_t i = 0, j = 0; i < a->n && j < b->n;) {
    double ahead = first->rounds.at[i] - one->rounds.at[j];
    if (ahead == 0 && tool_sample(&ratios, a->at[i] / b->at[j])) break;
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

/* by: what is ranked by, or NULL. */
static json_t *case_json(const tool_case *first, const tool_case *one, const char *by) {
  const json_t *model = json_object_get(one->run, "model"), *data = json_object_get(one->run, "data"),
               *world = json_object_get(one->run, "world");
  json_t *json = json_pack("{s:s, s:s, s:O, s:s, s:s, s:s}", "name", one->name, "system", "ronde", "command",
                           one->command, "model", tool_string(model, "name"), "data", tool_string(data, "name"),
                           "clock", "monotonic wall clock, a whole step of rank 0");
  for (int i = 0; i < N_WORK; i++) json_object_set(json, work[i].field, work_of(one, i));
  json_object_set(json, "workers", json_object_get(world, "workers"));
  json_object_set(json, "threads", json_object_get(world, "threads_per_worker"));
  json_object_set(json, "strategy", json_object_get(world, "strategy"));
  json_object_set(json, "version", json_object_get(one->run, "version"));
  json_object_set(json, "communication", json_object_get(one->run, "communication"));
  json_object_set_new(json, "runs", json_integer(one->medians.n));
  json_object_set_new(json, "failures", json_integer(one->failures));
  put_samples(json, one);
  json_t *speed = by ? speed_json(first, one, by) : json_null();
  const char *verdict = one == first ? NULL : verdict_of(speed);
  json_object_set_new(json, "times_as_fast", speed);
  json_object_set_new(json, "verdict", verdict ? json_string(verdict) : json_null());
  json_object_set(json, "result", json_object_get(one->run, "result"));
  json_object_set_new(json, "same_weights_in_all_runs", json_boolean(one->same_weights));
  return json;
}

ronde_status tool_bench_json(const tool_call *call, const tool_case *cases, int n, const json_t *differences,
                             const ronde_host_load *host, json_t **bench_out) {
  bool is_ranked = json_array_size(differences) == 0;
  const char *by = is_ranked ? ranked_by(cases, n) : NULL;
  json_t *axes = json_object(), *all = json_array();
  for (int a = 0; a < call->n_axes; a++) {
    json_t *values = json_array();
    for (int i = 0; i < call->axes[a].n_values; i++)
      json_array_append_new(values, json_string(call->axes[a].values[i]));
    json_object_set_new(axes, call->axes[a].name, values);
  }
  for (int i = 0; i < n; i++) json_array_append_new(all, case_json(&cases[0], &cases[i], by));
  json_t *load =
      json_pack("{s:i, s:f, s:b}", "cores", host->cores, "busy_with_others", host->others, "is_busy", host->is_busy);
  json_t *bench = json_pack("{s:s, s:s, s:O, s:o, s:o, s:b, s:s?, s:O, s:o}", "schema", "ronde.bench.v1", "verb",
                            "compare", "machine", json_object_get(cases[0].run, "machine"), "host_load", load, "axes",
                            axes, "ranked", is_ranked, "ranked_by", by, "differences", differences, "cases", all);
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
  printf("\n%-28s %10s", "case", "training s");
  for (int p = 0; p < TOOL_N_PHASES; p++) printf(" %9s", phases[p].text);
  printf("  %s\n", "staleness");
  json_array_foreach(cases, i, one) {
    const json_t *staleness = staleness_of(one);
    printf("%-28s %10.3f", tool_string(one, "name"), tool_number(json_object_get(one, "train_s"), "median"));
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
  printf("\nspeed: how many times as fast as %s, with the 95 %% interval, by the %s\n", name,
         strcmp(by, "step_s") == 0 ? "steps' medians" : "seconds of training on the same examples");
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
  printf("%s (%s parameters) on %s, batch %.0f, %.0f steps a run, %.0f runs a case; times in ms a step\n",
         tool_string(first, "model"), tool_count(tool_number(first, "parameters"), parameters),
         tool_string(first, "data"), tool_number(first, "batch"), tool_number(first, "steps"),
         tool_number(first, "runs"));
  printf("%-28s %9s %8s  %-16s %7s %9s %9s %8s %8s %11s  %-11s %8s  %s\n", "case", "median", "MAD", "[95 % interval]",
         "speed", "kernels", "overhead", "loading", "exchange", "peak memory", "train loss", "accuracy", "weights");
  json_array_foreach(cases, i, one) { print_case(one); }
  print_phases(cases);
  print_ranking(bench);
}

/* What was measured of the cases of a comparison: the record of their work and of each round, the figure that they are
 * ranked by, and the tables. */
#include "compare.h"

#include "audit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP_CLOCK "monotonic wall clock, a whole step of rank 0"

/* ---- the work of a case ---- */

/* Of the run's record, or by the field's name of the plan. The number format of layers is not among them: it differs only
 * where it is what is compared. */
static const struct {
  const char *field, *section, *key;
  bool is_of_batch; /* follows from the batch, for steps or epochs that are given */
} work[] = {{"simulated", "world", "simulated", false},
            {"parameters", "model", "parameters", false},
            {"forward_flops_per_example", "model", "forward_flops_per_example", false},
            {"train_flops_per_example", "model", "train_flops_per_example", false},
            {"padding", "model", "padding", false},
            {"data_sha256", "data", "sha256", false},
            {"data_examples", "data", "train_examples", false},
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
static int reference_of(const tool_cases *cases, int index, int field) {
  int first = 0;
  while (work[field].is_of_batch && batch_of(&cases->at[first]) != batch_of(&cases->at[index])) first++;
  return first;
}

/* What the runs themselves say that they did, beyond what their plans told. */
static void note_audit(ronde_measurement *record, const tool_cases *cases) {
  json_t *audited = json_array(), *difference;
  size_t i;
  for (int c = 0; c < cases->n; c++)
    if (cases->at[c].audit)
      json_array_append_new(audited, json_pack("{s:s, s:O}", "name", cases->at[c].name, "audit", cases->at[c].audit));
  json_t *differences = tool_audit_differences(audited, cases->axes);
  json_array_foreach(differences, i, difference) {
    ronde_measurement_differ(record, tool_string(difference, "field"), tool_string(difference, "text"));
  }
  json_decref(differences);
  json_decref(audited);
}

bool tool_comparison_is_same_work(ronde_measurement *record, const tool_cases *cases) {
  ronde_measurement_forget_differences(record);
  for (int i = 0; i < N_WORK; i++)
    for (int c = 1; c < cases->n; c++)
      if (ronde_measurement_differs(record, work[i].field, reference_of(cases, c, i), c)) break;
  if (!ronde_measurement_difference(record)) note_audit(record, cases);
  if (!ronde_measurement_difference(record)) tool_peers_audit(record, cases);
  return !ronde_measurement_difference(record);
}

/* ---- facts ---- */

static ronde_status set_fact(ronde_measurement *record, int index, const char *name, json_t *value) {
  return value ? tool_bench_set(record, index, name, json_incref(value)) : RONDE_OK;
}

/* What is known before it runs, and after its first run again. */
static ronde_status set_facts(ronde_measurement *record, const tool_case *one, int index) {
  const json_t *model = json_object_get(one->run, "model"), *data = json_object_get(one->run, "data"),
               *world = json_object_get(one->run, "world"), *plan = one->plan;
  const struct {
    const char *name;
    json_t *value;
  } facts[] = {
      {"command", one->command},
      {"model", one->run ? json_object_get(model, "name") : json_object_get(plan, "model")},
      {"data", one->run ? json_object_get(data, "name") : json_object_get(plan, "data")},
      {"workers", one->run ? json_object_get(world, "workers") : json_object_get(plan, "workers")},
      {"threads", json_object_get(one->run ? world : plan, "threads_per_worker")},
      {"strategy", json_object_get(one->run ? world : plan, "strategy")},
      {"version", json_object_get(one->run, "version")},
      {"communication", json_object_get(one->run, "communication")},
      {"result", json_object_get(one->run, "result")},
      {"split_by", json_object_get(one->run, "split_by")},
      {"audit", one->audit},
  };
  ronde_status status = RONDE_OK;
  for (int i = 0; i < N_WORK && !status; i++) status = set_fact(record, index, work[i].field, work_of(one, i));
  for (size_t i = 0; i < sizeof facts / sizeof facts[0] && !status; i++)
    status = set_fact(record, index, facts[i].name, facts[i].value);
  return status;
}

/* What a step does on average: the last one of an epoch may be shorter. */
static ronde_status set_work(ronde_measurement *record, const tool_case *one, int index) {
  const json_t *totals = json_object_get(one->run, "totals"), *model = json_object_get(one->run, "model");
  double examples = tool_number(totals, "examples") / tool_number(totals, "steps");
  const ronde_work step = {"step", examples, NAN, examples * tool_number(model, "train_flops_per_example")};
  return ronde_measurement_set_work(record, index, &step);
}

/* ---- the record ---- */

static ronde_status record_case(ronde_measurement *record, const tool_case *one) {
  int index;
  ronde_status status =
      ronde_measurement_add_case(record, one->name, one->peer ? one->peer : "ronde", one->values, &index);
  if (!status) status = tool_bench_set(record, index, "clock", json_string(STEP_CLOCK));
  return status ? status : set_facts(record, one, index);
}

static ronde_status record_cases(const tool_call *call, const tool_cases *cases, ronde_measurement *record) {
  ronde_status status = set_fact(record, RONDE_WHOLE, "left_out", cases->left_out);
  json_t *rounds = json_integer(atoi(ronde_config_get(call->config, "rounds")));
  if (!status) status = tool_bench_set(record, RONDE_WHOLE, "rounds", rounds);
  else json_decref(rounds);
  for (int a = 0; a < call->n_axes && !status; a++) {
    const tool_axis *axis = &call->axes[a];
    status = ronde_measurement_add_axis(record, axis->name, (const char *const *)axis->values, axis->n_values);
  }
  if (cases->n_peers && !status) {
    const char *systems[TOOL_MAX_PEERS + 1] = {"ronde"};
    for (int i = 0; i < cases->n_peers; i++) systems[1 + i] = cases->at[cases->n - cases->n_peers + i].peer;
    status = ronde_measurement_add_axis(record, "system", systems, 1 + cases->n_peers);
  }
  for (int i = 0; i < cases->n && !status; i++) status = record_case(record, &cases->at[i]);
  return status;
}

ronde_status tool_comparison_record(const tool_call *call, const tool_cases *cases, ronde_measurement **record_out) {
  ronde_measurement *record;
  ronde_status status = ronde_measurement_create("compare", &record);
  if (status) return status;
  status = record_cases(call, cases, record);
  if (status) ronde_measurement_destroy(record);
  else *record_out = record;
  return status;
}

/* ---- rounds ---- */

/* Of an epoch's row; means over the workers. */
static const char *const phases[] = {"load_s", "forward_s", "backward_s", "communication_s", "update_s", "other_s"};
enum { N_PHASES = sizeof phases / sizeof phases[0] };

static double kernel_seconds(const json_t *run) {
  const json_t *ops = json_object_get(run, "ops"), *row;
  size_t i;
  double sum = 0;
  json_array_foreach(ops, i, row) { /* what moves data is exchange, not a kernel */
    if (strcmp(tool_string(row, "phase"), "exchange") != 0) sum += tool_number(row, "seconds");
  }
  return sum / tool_number(json_object_get(run, "world"), "workers");
}

/* Of the workers, whose phases tell moving data from waiting for others; the mean over them. */
static double mean_of_workers(const json_t *run, const char *field) {
  const json_t *row;
  size_t i;
  double sum = 0, n = 0;
  json_array_foreach(json_object_get(run, "workers"), i, row) {
    if (strcmp(tool_string(row, "role"), "worker") != 0) continue;
    sum += tool_number(row, field);
    n++;
  }
  return sum / n;
}

/* NAN where the run has no such epoch, or not the whole of it. */
static double of_epoch(const json_t *run, size_t epoch, const char *field) {
  const json_t *epochs = json_object_get(run, "epochs"), *first = json_array_get(epochs, 0);
  const json_t *one = json_array_get(epochs, epoch);
  if (json_array_size(epochs) < 2 || tool_number(one, "steps") != tool_number(first, "steps")) return NAN;
  return tool_number(one, field);
}

/* The figures of a run: of a step, means over the run; and of the whole. */
static ronde_status add_figures(ronde_measurement *record, int index, int round, const json_t *run) {
  const json_t *totals = json_object_get(run, "totals");
  double n = tool_number(totals, "steps"), kernel = kernel_seconds(run) / n, train_s = tool_epochs_sum(run, "wall_s");
  double busy = train_s - tool_epochs_sum(run, "load_s") - tool_epochs_sum(run, "communication_s");
  const struct {
    const char *name;
    double value;
  } figures[] = {
      {"round_s", ronde_measurement_last(record, index, "step_s")},
      {"kernel_s", kernel},
      {"overhead_s", busy / n - kernel},
      {"train_s", train_s},
      {"setup_s", tool_number(run, "setup_s")},
      {"wall_s", tool_number(totals, "wall_s")},
      {"cpu_s", tool_number(totals, "cpu_s")},
      {"peak_rss_bytes", tool_number(totals, "peak_rss_bytes")},
      {"energy_j", tool_number(totals, "energy_j")},
      {"exchange_s", mean_of_workers(run, "exchange_s") / n},
      {"wait_s", mean_of_workers(run, "wait_s") / n},
      {"first_epoch_s", of_epoch(run, 0, "wall_s")},
      {"second_epoch_s", of_epoch(run, 1, "wall_s")},
      {"first_epoch_cpu_s", of_epoch(run, 0, "cpu_s")},
      {"second_epoch_cpu_s", of_epoch(run, 1, "cpu_s")},
  };
  ronde_status status = RONDE_OK;
  for (size_t i = 0; i < sizeof figures / sizeof figures[0] && !status; i++)
    status = ronde_measurement_add_samples(record, index, figures[i].name, round, &figures[i].value, 1);
  for (int p = 0; p < N_PHASES && !status; p++) {
    double phase_s = tool_epochs_sum(run, phases[p]) / n;
    status = ronde_measurement_add_samples(record, index, phases[p], round, &phase_s, 1);
  }
  return status;
}

ronde_status tool_comparison_add(ronde_measurement *record, tool_cases *cases, int index, int round,
                                 const tool_case_run_ended *ended) {
  tool_case *one = &cases->at[index];
  json_t *run = ended->run;
  if (ended->n < 2)
    return tool_fail(RONDE_E_USAGE, "%s: a run of one step cannot be compared, because the first step does not count",
                     one->name);
  /* Each step but the first, which meets cold caches. */
  ronde_status status = ronde_measurement_add_samples(record, index, "step_s", round, ended->seconds + 1, ended->n - 1);
  if (!status) status = add_figures(record, index, round, run);
  if (!status) status = ronde_measurement_add_samples(record, index, "others_cores", round, &ended->others, 1);
  if (status) return status;
  one->runs++;
  const json_t *hash = json_object_get(json_object_get(run, "result"), "weights_sha256");
  if (one->run) {
    one->same_weights &= json_equal(hash, json_object_get(json_object_get(one->run, "result"), "weights_sha256"));
    return RONDE_OK;
  }
  one->same_weights = true;
  json_decref(one->command);
  one->command = json_incref(ended->command);
  one->run = json_incref(run);
  one->audit = tool_audit_of_run(run, ended->command, STEP_CLOCK, ended->losses, ended->n);
  status = set_facts(record, one, index);
  return status ? status : set_work(record, one, index);
}

/* ---- ranking ---- */

/* Its workers' steps are each their own: of asynchronous updates, or between synchronisations. */
static bool has_steps_of_its_workers(const json_t *run) {
  const json_t *communication = json_object_get(run, "communication");
  return json_is_object(json_object_get(communication, "staleness")) ||
         json_is_object(json_object_get(communication, "synchronisations"));
}

/* Examples that count in a step, or in the whole training. */
static double examples_of(const tool_case *one, bool is_train) {
  const json_t *config = json_object_get(one->run, "config"), *world = json_object_get(one->run, "world");
  double workers = tool_number(world, "workers"), backup = tool_number(config, "backup");
  if (is_train) return tool_number(json_object_get(one->run, "totals"), "examples");
  return batch_of(one) * (workers - backup) / workers;
}

/* Where a step is one worker's, it is not the others' step, but the examples are the same: then the time for all of them
 * is compared. Of other batches, the examples of a second are. */
static ronde_status rank_cases(ronde_measurement *record, const tool_cases *cases) {
  bool is_train = false, is_rate = false;
  ronde_status status = RONDE_OK;
  for (int i = 0; i < cases->n; i++) {
    is_train |= has_steps_of_its_workers(cases->at[i].run);
    is_rate |= batch_of(&cases->at[i]) != batch_of(&cases->at[0]);
  }
  const char *seconds = is_train ? "train_s" : "step_s";
  for (int i = 0; i < cases->n && !status; i++)
    status = ronde_measurement_add_rate(record, i, "examples_per_s", seconds, examples_of(&cases->at[i], is_train));
  return status ? status : ronde_measurement_rank(record, is_rate ? "examples_per_s" : seconds, is_rate);
}

ronde_status tool_comparison_rank(ronde_measurement *record, const tool_cases *cases) {
  ronde_status status = set_fact(record, RONDE_WHOLE, "machine", json_object_get(cases->at[0].run, "machine"));
  for (int i = 0; i < cases->n && !status; i++) {
    const tool_case *one = &cases->at[i];
    status = tool_bench_set(record, i, "runs", json_integer(one->runs));
    if (!status) status = tool_bench_set(record, i, "failures", json_integer(one->failures));
    if (!status && one->run && !one->peer)
      status = tool_bench_set(record, i, "same_weights_in_all_runs", json_boolean(one->same_weights));
  }
  return status ? status : rank_cases(record, cases);
}

/* ---- the tables ---- */

static void print_cases(const json_t *cases) {
  static const tool_column columns[] = {
      {"case", TOOL_CELL_TEXT, "name", 0, 1},
      {"median", TOOL_CELL_NUMBER, "step_s.median", 3, 1e3},
      {"MAD", TOOL_CELL_NUMBER, "step_s.mad", 3, 1e3},
      {"[95 % interval]", TOOL_CELL_INTERVAL, "step_s", 3, 1e3},
      {"speed", TOOL_CELL_NUMBER, "times_as_fast.median", 3, 1},
      {"kernels", TOOL_CELL_NUMBER, "kernel_s.median", 3, 1e3},
      {"overhead", TOOL_CELL_NUMBER, "overhead_s.median", 3, 1e3},
      {"loading", TOOL_CELL_NUMBER, "load_s.median", 3, 1e3},
      {"exchange", TOOL_CELL_NUMBER, "communication_s.median", 3, 1e3},
      {"peak memory", TOOL_CELL_BYTES, "peak_rss_bytes.median", 0, 1},
      {"train loss", TOOL_CELL_NUMBER, "result.train_loss", -9, 1},
      {"accuracy", TOOL_CELL_NUMBER, "result.test_accuracy", 4, 1},
      {"weights", TOOL_CELL_TEXT, "result.weights_sha256", 12, 1},
  };
  const json_t *one;
  size_t i;
  tool_table(cases, columns, sizeof columns / sizeof columns[0]);
  json_array_foreach(cases, i, one) {
    if (json_is_false(json_object_get(one, "same_weights_in_all_runs")))
      printf("%s: the weights are not the same in all runs\n", tool_string(one, "name"));
  }
}

static void print_phases(const json_t *cases) {
  static const tool_column columns[] = {
      {"case", TOOL_CELL_TEXT, "name", 0, 1},
      {"batch", TOOL_CELL_COUNT, "batch", 0, 1},
      {"steps", TOOL_CELL_COUNT, "steps", 0, 1},
      {"examples/s", TOOL_CELL_COUNT, "examples_per_s.median", 0, 1},
      {"training s", TOOL_CELL_NUMBER, "train_s.median", 3, 1},
      {"loading", TOOL_CELL_NUMBER, "load_s.median", 3, 1e3},
      {"forward", TOOL_CELL_NUMBER, "forward_s.median", 3, 1e3},
      {"backward", TOOL_CELL_NUMBER, "backward_s.median", 3, 1e3},
      {"exchange", TOOL_CELL_NUMBER, "communication_s.median", 3, 1e3},
      {"update", TOOL_CELL_NUMBER, "update_s.median", 3, 1e3},
      {"other", TOOL_CELL_NUMBER, "other_s.median", 3, 1e3},
      {"staleness", TOOL_CELL_NUMBER, "communication.staleness.mean", 2, 1},
      {"at most", TOOL_CELL_NUMBER, "communication.staleness.max", 0, 1},
  };
  printf("\n");
  tool_table(cases, columns, sizeof columns / sizeof columns[0]);
}

/* All but the first, which they are compared with. */
static void print_speeds(const json_t *cases) {
  static const tool_column columns[] = {
      {"case", TOOL_CELL_TEXT, "name", 0, 1},
      {"speed", TOOL_CELL_NUMBER, "times_as_fast.median", 3, 1},
      {"[95 % interval]", TOOL_CELL_INTERVAL, "times_as_fast", 3, 1},
      {"verdict", TOOL_CELL_TEXT, "verdict", 0, 1},
  };
  const json_t *one;
  json_t *others = json_copy((json_t *)cases);
  size_t i;
  double n_rounds = INFINITY;
  bool any_open = false;
  json_array_remove(others, 0);
  tool_table(others, columns, sizeof columns / sizeof columns[0]);
  json_array_foreach(others, i, one) {
    const char *verdict = tool_string(one, "verdict");
    const json_t *ratios = json_object_get(json_object_get(one, "times_as_fast"), "samples");
    n_rounds = fmin(n_rounds, (double)json_array_size(ratios));
    any_open |= strcmp(verdict, "faster") != 0 && strcmp(verdict, "slower") != 0;
  }
  json_decref(others);
  if (n_rounds < 2) printf("one round has no interval: --rounds 3 or more tell whether a difference is real\n");
  else if (n_rounds < 5 && any_open)
    printf("%.0f rounds give wide intervals: with --rounds %d they are at most half as wide\n", n_rounds,
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
  if (strcmp(by, "train_s") == 0) printf("(a step of asynchronous workers, and of local SGD, is one worker's)\n");
  print_speeds(cases);
}

void tool_comparison_print(const json_t *bench) {
  const json_t *cases = json_object_get(bench, "cases"), *first = json_array_get(cases, 0);
  char parameters[32];
  printf("%s (%s parameters) on %s, %.0f runs a case; times in ms a step\n", tool_string(first, "model"),
         tool_count(tool_number(first, "parameters"), parameters), tool_string(first, "data"),
         tool_number(first, "runs"));
  print_cases(cases);
  print_phases(cases);
  if (json_object_get(bench, "advice")) tool_scaling_print(bench);
  else print_ranking(bench);
}

/* ronde compare: the same training in several cases, in alternated rounds, each run a process of its own so that its
 * peak memory is its own. Cases whose work differs are not ranked. */
#include "compare.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void forget_environment(void) {
  ronde_option option;
  for (int i = 0; ronde_config_option("compare", i, &option); i++) {
    if (*option.variable) unsetenv(option.variable);
  }
}

/* ---- one run ---- */

/* Seconds of steps [n]. */
typedef struct steps {
  double *seconds;
  int64_t n;
} steps;

static ronde_status keep_step(steps *steps, double seconds) {
  enum { PIECE = 1024 };
  if (steps->n % PIECE == 0) {
    double *larger = realloc(steps->seconds, (size_t)(steps->n + PIECE) * sizeof *larger);
    if (!larger) return tool_fail(RONDE_E_MEMORY, "compare: no memory for %lld steps", (long long)steps->n);
    steps->seconds = larger;
  }
  steps->seconds[steps->n++] = seconds;
  return RONDE_OK;
}

/* Each step but the first, which meets cold caches. */
static ronde_status read_steps(const char *folder, steps *steps) {
  char path[4500], line[1024];
  snprintf(path, sizeof path, "%s/steps.jsonl", folder);
  FILE *file = fopen(path, "r");
  if (!file) return tool_fail(RONDE_E_INPUT, "%s: cannot read: %s", path, strerror(errno));
  ronde_status status = RONDE_OK;
  for (int i = 0; !status && fgets(line, sizeof line, file); i++) {
    json_t *step = json_loads(line, 0, NULL);
    if (i > 0) status = keep_step(steps, tool_number(step, "wall_s"));
    json_decref(step);
  }
  fclose(file);
  return status;
}

/* ---- all runs ---- */

typedef struct comparison {
  const tool_call *call;
  tool_cases cases;
  ronde_measurement *record;
  int rounds;
  char folder[4000];
  bool is_temporary;
} comparison;

static ronde_status run_case(comparison *c, int index, int round) {
  tool_case *one = &c->cases.at[index];
  char folder[4400];
  snprintf(folder, sizeof folder, "%s/%s-%d", c->folder, one->name, round + 1);
  json_t *command, *run = NULL;
  steps steps = {0};
  ronde_status status = tool_case_command(c->call, one, folder, &command);
  if (status) return status;
  status = tool_case_run(command, NULL, &run);
  if (!status) status = read_steps(folder, &steps);
  if (!status) status = tool_comparison_add(c->record, &c->cases, index, round, command, run, steps.seconds, steps.n);
  free(steps.seconds);
  if (c->is_temporary) tool_folder_remove(folder);
  json_decref(command);
  json_decref(run);
  if (!status)
    tool_say("round %d/%d  %s  %.3f ms a step", round + 1, c->rounds, one->name,
             1e3 * ronde_measurement_last(c->record, index, "step_s"));
  if (status == RONDE_OK || status == RONDE_E_CANCELLED) return status;
  /* What cannot work in one round will not in the next; a run that broke off may. */
  if (status == RONDE_E_USAGE || status == RONDE_E_INPUT || status == RONDE_E_WRITE || round == 0)
    return tool_fail(status, "%s: its training failed: %s", one->name, ronde_status_text(status));
  one->failures++;
  return RONDE_OK;
}

/* The steps of the dry runs tell about how long it will take, without starts and tests. */
static void say_length(const comparison *c) {
  double seconds = 0;
  char text[32];
  for (int i = 0; i < c->cases.n; i++) seconds += c->rounds * tool_number(c->cases.at[i].plan, "estimated_s");
  if (isfinite(seconds))
    tool_say("%d cases in %d round%s: about %s of training", c->cases.n, c->rounds, c->rounds > 1 ? "s" : "",
             tool_duration(seconds, text));
}

/* Each round begins with another case, so that none is always the first. */
static ronde_status run_all_cases(comparison *c) {
  int n = c->cases.n;
  say_length(c);
  for (int round = 0; round < c->rounds; round++) {
    for (int i = 0; i < n; i++) {
      ronde_status status = tool_signal() ? RONDE_E_CANCELLED : run_case(c, (round + i) % n, round);
      if (status) return status;
    }
    /* What no plan told, such as the work of a resumed run, shows in the first round. */
    if (!tool_comparison_is_same_work(c->record, &c->cases)) break;
  }
  return RONDE_OK;
}

static ronde_status make_folder(comparison *c) {
  const char *out = ronde_config_get(c->call->config, "out"), *temporary = getenv("TMPDIR");
  c->is_temporary = !*out;
  if (*out) {
    snprintf(c->folder, sizeof c->folder, "%s", out);
    if (mkdir(out, 0777) == 0 || errno == EEXIST) return RONDE_OK;
    return tool_fail(RONDE_E_WRITE, "%s: cannot make the folder: %s", out, strerror(errno));
  }
  snprintf(c->folder, sizeof c->folder, "%s/ronde-compare-XXXXXX", temporary && *temporary ? temporary : "/tmp");
  return mkdtemp(c->folder) ? RONDE_OK
                            : tool_fail(RONDE_E_WRITE, "%s: cannot make a folder: %s", c->folder, strerror(errno));
}

/* What doctor would say of this host, before it is measured on. */
static void warn_of_load(void) {
  ronde_host_load load = ronde_host_load_since(NULL);
  if (load.is_busy)
    tool_say("warning: this host is busy: a load of %.1f on %d cores in the last minute", load.others, load.cores);
}

/* is_measured: there is more than plans. */
static ronde_status report_comparison(const comparison *c, bool is_measured) {
  const char *difference = ronde_measurement_difference(c->record);
  ronde_status status = tool_comparison_rank(c->record, &c->cases);
  bool scales = c->call->scaling.batch > 0 && is_measured && !difference;
  if (!status && scales) status = tool_scaling_rank(c->call, &c->cases, c->record);
  if (!status && !c->is_temporary) status = ronde_measurement_write(c->record, c->folder);
  if (!status && (is_measured || c->call->json)) status = tool_bench_show(c->call, c->record, tool_comparison_print);
  if (!status && difference)
    status = tool_fail(RONDE_E_DIFFERENCE, "not ranked, as the cases are not the same work: %s", difference);
  return status;
}

static ronde_status measure_cases(comparison *c) {
  warn_of_load();
  if (c->call->scaling.batch) tool_scaling_warn(&c->cases);
  ronde_measurement_begin(c->record);
  ronde_status status = run_all_cases(c);
  if (status) return status;
  ronde_measurement_end(c->record);
  return report_comparison(c, true);
}

/* Steps but the first are measured. */
static ronde_status check_plans(const comparison *c) {
  for (int i = 0; i < c->cases.n; i++)
    if (tool_number(c->cases.at[i].plan, "steps") == 1)
      return tool_fail(RONDE_E_USAGE, "%s: a run of one step cannot be compared, because the first step does not count",
                       c->cases.at[i].name);
  return RONDE_OK;
}

/* A comparison that is there already is found before any time is spent on another. */
static ronde_status check_out(const tool_call *call) {
  const char *out = ronde_config_get(call->config, "out");
  bool overwrites = strcmp(ronde_config_get(call->config, "overwrite"), "on") == 0;
  char bench[4100], shown[TOOL_SHOWN];
  if (!*out && overwrites) return tool_fail(RONDE_E_USAGE, "--overwrite can have no effect: there is no --out");
  snprintf(bench, sizeof bench, "%s/bench.json", out);
  if (*out && !overwrites && access(bench, F_OK) == 0)
    return tool_fail(RONDE_E_USAGE, "--out %s holds another comparison (bench.json): --overwrite replaces it",
                     tool_shown(out, shown));
  return RONDE_OK;
}

static ronde_status check_compare_options(const tool_call *call) {
  static const char *const none[] = {"save", "dry-run"};
  for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
    const char *value = ronde_config_get(call->config, none[i]);
    if (*value && strcmp(value, "off") != 0)
      return tool_fail(RONDE_E_USAGE, "--%s can have no effect: compare only measures", none[i]);
  }
  if (call->n_axes == 0)
    return tool_fail(RONDE_E_USAGE,
                     "what to compare is missing: an option with a list of values, such as --exec graph,eager");
  return check_out(call);
}

ronde_status tool_compare(const tool_call *call) {
  comparison c = {.call = call, .rounds = atoi(ronde_config_get(call->config, "rounds"))};
  ronde_status status = check_compare_options(call);
  if (status) return status;
  forget_environment();
  tool_signals_watch();
  status = tool_cases_find(call, &c.cases);
  if (!status) status = check_plans(&c);
  if (!status) status = tool_comparison_record(call, &c.cases, &c.record);
  if (!status) status = make_folder(&c);
  if (!status) {
    bool is_same = tool_comparison_is_same_work(c.record, &c.cases);
    status = is_same ? measure_cases(&c) : report_comparison(&c, false);
    if (c.is_temporary) rmdir(c.folder);
  }
  ronde_measurement_destroy(c.record);
  tool_cases_end(&c.cases);
  if (status == RONDE_E_CANCELLED) tool_fail(status, "interrupted: the comparison is incomplete");
  return status;
}

/* ronde compare: the same training in several cases, in alternated rounds, each run a process of its own so that its
 * peak memory is its own. Cases whose work differs are not ranked. */
#include "compare.h"

#include "report.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- one run ---- */

static bool is_this_build(const json_t *version) {
  char *text = NULL;
  if (ronde_version_json(&text)) return false;
  json_t *ours = json_loads(text, 0, NULL);
  bool is_same = strcmp(tool_string(ours, "version"), tool_string(version, "ronde")) == 0 &&
                 strcmp(tool_string(ours, "git"), tool_string(version, "git")) == 0;
  json_decref(ours);
  free(text);
  return is_same;
}

/* --overwrite is said to a run that takes a folder, and changes nothing of what it does. */
static bool is_same_command(const json_t *command, const json_t *other) {
  static const char overwrite[] = "--overwrite=on";
  json_t *without[2] = {json_array(), json_array()}, *word;
  const json_t *commands[2] = {command, other};
  size_t i;
  for (int k = 0; k < 2; k++) json_array_foreach((json_t *)commands[k], i, word) {
      if (!json_is_string(word) || strcmp(json_string_value(word), overwrite) != 0) json_array_append(without[k], word);
    }
  bool is_same = json_equal(without[0], without[1]);
  json_decref(without[0]);
  json_decref(without[1]);
  return is_same;
}

bool tool_case_is_done(const char *folder, const json_t *command, bool is_peer, json_t **run_out) {
  char path[4500];
  snprintf(path, sizeof path, "%s/run.json", folder);
  json_t *run = json_load_file(path, 0, NULL);
  bool done = strcmp(tool_string(run, "status"), "completed") == 0 &&
              is_same_command(json_object_get(run, "command"), command) &&
              (is_peer || is_this_build(json_object_get(run, "version")));
  if (done) *run_out = run;
  else json_decref(run);
  return done;
}

/* ---- all runs ---- */

typedef struct comparison {
  const tool_call *call;
  tool_cases cases;
  ronde_measurement *record;
  int rounds;
  char folder[4000];
  bool is_temporary;
  bool goes_on; /* --continue */
  int n_taken_over;
} comparison;

/* Runs a case, and watches what others do on this host meanwhile. */
static ronde_status run_watched(const json_t *command, const char *folder, bool is_again, json_t **run_out,
                                double *others_out) {
  ronde_host_look look;
  if (is_again) tool_folder_remove(folder); /* what was broken off there */
  ronde_host_look_now(&look);
  ronde_status status = tool_case_run(command, NULL, run_out);
  *others_out = ronde_host_load_since(&look).others;
  return status;
}

static ronde_status run_case(comparison *c, int index, int round) {
  tool_case *one = &c->cases.at[index];
  char folder[4400];
  snprintf(folder, sizeof folder, "%s/%s-%d", c->folder, one->name, round + 1);
  json_t *command, *run = NULL;
  report_steps steps = {0};
  double others = NAN;
  ronde_status status = tool_case_command(c->call, one, folder, &command);
  if (status) return status;
  bool was_done = c->goes_on && tool_case_is_done(folder, command, one->peer, &run);
  if (!was_done) status = run_watched(command, folder, c->goes_on, &run, &others);
  else c->n_taken_over++;
  if (one->peer && round == 0 && status == RONDE_E_INTERNAL) { /* other systems crash now and then */
    one->failures++;
    tool_say("%s: its process failed; once more", one->name);
    status = run_watched(command, folder, true, &run, &others);
  }
  if (!status) report_steps_read(folder, &steps);
  if (!status && !steps.n) status = tool_fail(RONDE_E_INPUT, "%s/steps.jsonl: cannot read its steps", folder);
  const tool_case_run_ended ended = {command, run, steps.wall_s, steps.loss, steps.n, others};
  if (!status) status = tool_comparison_add(c->record, &c->cases, index, round, &ended);
  report_steps_end(&steps);
  if (c->is_temporary) tool_folder_remove(folder);
  json_decref(command);
  json_decref(run);
  if (!status)
    tool_say("round %d/%d  %s  %.3f ms a step%s", round + 1, c->rounds, one->name,
             1e3 * ronde_measurement_last(c->record, index, "step_s"), was_done ? " (from before)" : "");
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
  tool_warn_of_load();
  if (c->call->scaling.batch) tool_scaling_warn(&c->cases);
  ronde_measurement_begin(c->record);
  ronde_status status = run_all_cases(c);
  if (status) return status;
  ronde_measurement_end(c->record);
  status = tool_bench_set(c->record, RONDE_WHOLE, "taken_over", json_integer(c->n_taken_over));
  return status ? status : report_comparison(c, true);
}

/* Steps but the first are measured. */
static ronde_status check_plans(const comparison *c) {
  for (int i = 0; i < c->cases.n; i++)
    if (tool_number(c->cases.at[i].plan, "steps") == 1)
      return tool_fail(RONDE_E_USAGE, "%s: a run of one step cannot be compared, because the first step does not count",
                       c->cases.at[i].name);
  return RONDE_OK;
}

static bool is_dry_run(const tool_call *call) { return strcmp(ronde_config_get(call->config, "dry-run"), "on") == 0; }

/* A comparison that is there already is found before any time is spent on another. */
static ronde_status check_out(const tool_call *call) {
  const char *out = ronde_config_get(call->config, "out");
  bool overwrites = strcmp(ronde_config_get(call->config, "overwrite"), "on") == 0;
  bool goes_on = strcmp(ronde_config_get(call->config, "continue"), "on") == 0;
  char bench[4100], shown[TOOL_SHOWN];
  if (!*out && goes_on) return tool_fail(RONDE_E_USAGE, "--continue can have no effect: there is no --out");
  if (!*out && overwrites) return tool_fail(RONDE_E_USAGE, "--overwrite can have no effect: there is no --out");
  snprintf(bench, sizeof bench, "%s/bench.json", out);
  if (overwrites && goes_on)
    return tool_fail(RONDE_E_USAGE, "--overwrite and --continue contradict each other: take one of them");
  if (*out && !overwrites && !goes_on && access(bench, F_OK) == 0)
    return tool_fail(
        RONDE_E_USAGE,
        "--out %s holds another comparison (bench.json): --overwrite replaces it, --continue goes on with it",
        tool_shown(out, shown));
  return RONDE_OK;
}

static ronde_status check_compare_options(const tool_call *call) {
  static const char *const none[] = {"save", "mlperf-log"};
  for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
    const char *value = ronde_config_get(call->config, none[i]);
    if (*value && strcmp(value, "off") != 0)
      return tool_fail(RONDE_E_USAGE, "--%s can have no effect: compare only measures", none[i]);
  }
  if (call->n_axes == 0 && !*ronde_config_get(call->config, "peers"))
    return tool_fail(RONDE_E_USAGE,
                     "what to compare is missing: an option with a list of values, such as --exec graph,eager");
  ronde_status status = tool_peers_check(call);
  return status ? status : check_out(call);
}

/* --dry-run: which cases there are, and about how long they take. */
static ronde_status show_plan(const comparison *c) {
  json_t *names = json_array();
  double seconds = 0;
  char text[32];
  for (int i = 0; i < c->cases.n; i++) {
    json_array_append_new(names, json_string(c->cases.at[i].name));
    seconds += c->rounds * tool_number(c->cases.at[i].plan, "estimated_s");
  }
  json_t *plan = json_pack("{s:o, s:O, s:i, s:o}", "cases", names, "left_out", c->cases.left_out, "rounds", c->rounds,
                           "estimated_s", isfinite(seconds) ? json_real(seconds) : json_null());
  char *json = json_dumps(plan, JSON_INDENT(2));
  json_decref(plan);
  if (!json) return tool_fail(RONDE_E_MEMORY, "compare: no memory for the plan");
  if (c->call->json) tool_print_json(json);
  else {
    for (int i = 0; i < c->cases.n; i++) printf("%s\n", c->cases.at[i].name);
    printf("%d cases in %d rounds: about %s of training\n", c->cases.n, c->rounds, tool_duration(seconds, text));
  }
  free(json);
  return RONDE_OK;
}

ronde_status tool_compare(const tool_call *call) {
  comparison c = {.call = call, .rounds = atoi(ronde_config_get(call->config, "rounds"))};
  c.goes_on = strcmp(ronde_config_get(call->config, "continue"), "on") == 0;
  ronde_status status = check_compare_options(call);
  if (status) return status;
  tool_environment_forget();
  setenv(TOOL_COMPARED, "1", 1);
  tool_signals_watch();
  status = tool_cases_find(call, &c.cases);
  if (!status && *ronde_config_get(call->config, "peers")) status = tool_peers_find(call, &c.cases);
  if (!status) status = check_plans(&c);
  if (!status && is_dry_run(call)) {
    status = show_plan(&c);
    tool_cases_end(&c.cases);
    return status;
  }
  if (!status) status = tool_comparison_record(call, &c.cases, &c.record);
  if (!status) status = make_folder(&c);
  if (!status) {
    bool is_same = tool_comparison_is_same_work(c.record, &c.cases);
    status = is_same ? measure_cases(&c) : report_comparison(&c, false);
    if (c.is_temporary) rmdir(c.folder);
  }
  ronde_measurement_destroy(c.record);
  tool_cases_end(&c.cases);
  if (status == RONDE_E_CANCELLED)
    tool_fail(status, "interrupted: the comparison is incomplete: %s",
              *ronde_config_get(call->config, "out") ? "--continue goes on with it" : "--out DIR keeps what there is");
  return status;
}

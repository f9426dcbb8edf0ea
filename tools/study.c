/* ronde bench replicas, techniques, execution, clusters: a suite is a grid of comparisons (tools/suites/NAME.json), each of
 * which is a `ronde compare`, a `ronde bench step` or a `ronde bench batches` of its own folder. What was done is in suite.json as soon as it is
 * done, so that the same command goes on where it was broken off; the report is written at the end. */
#include "compare.h"
#include "embed.h"
#include "report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct study {
  const tool_call *call;
  const char *name, *out, *size; /* "replicas", --out, "full" or "quick" */
  json_t *grid;                  /* of tools/suites/NAME.json */
  json_t *data;                  /* {name: what --data is for it, or null} */
  json_t *groups, *missing;      /* of suite.json */
  char peers[256];               /* those that are installed, of --peers */
} study;

static const char *study_option(const study *s, const char *name) { return ronde_config_get(s->call->config, name); }
static bool is_quick(const study *s) { return strcmp(s->size, "quick") == 0; }

static void say_missing(study *s, json_t *text) {
  const char *said = json_string_value(text);
  if (said) tool_say("missing: %s", said);
  json_array_append_new(s->missing, text);
}

/* ---- the grid ----------------------------------------------------------------------------------------------------------- */

static ronde_status read_grid(study *s) {
  char path[80];
  const char *text;
  size_t bytes;
  snprintf(path, sizeof path, "tools/suites/%s.json", s->name);
  s->grid = tool_embedded(path, &text, &bytes) ? json_loadb(text, bytes, 0, NULL) : NULL;
  return s->grid ? RONDE_OK : tool_fail(RONDE_E_INTERNAL, "%s is not in this program", path);
}

/* The peers of --peers that --peers-dir has. */
static void find_peers(study *s) {
  const char *list = study_option(s, "peers"), *folder = study_option(s, "peers-dir");
  for (size_t n; *list; list += n + (list[n] == ',')) {
    char peer[64], why[1024];
    size_t used = strlen(s->peers);
    n = strcspn(list, ",");
    snprintf(peer, sizeof peer, "%.*s", (int)n, list);
    tool_peer_missing(folder, peer, why, sizeof why);
    const char *other = strcmp(s->name, "execution") != 0 ? ""
                        : strcmp(peer, "pytorch") == 0    ? ",pytorch-compiled"
                        : strcmp(peer, "tensorflow") == 0 ? ",tensorflow-eager"
                                                          : ""; /* how it is executed is what this suite is about */
    if (!*why) snprintf(s->peers + used, sizeof s->peers - used, "%s%s%s", used ? "," : "", peer, other);
    else say_missing(s, json_sprintf("the peer %s: %s", peer, why));
  }
}

/* The peers of a block: all that are here, or, where it says other names for some ("peers": {"tensorflow": "tensorflow-replicas"}),
 * those. */
static const char *peers_of(const study *s, const json_t *block, char peers[256]) {
  const json_t *names = json_object_get(block, "peers");
  const char *list = s->peers;
  peers[0] = '\0';
  if (json_is_true(names)) return s->peers;
  for (size_t n; *list; list += n + (list[n] == ',')) {
    char peer[64];
    size_t used = strlen(peers);
    n = strcspn(list, ",");
    snprintf(peer, sizeof peer, "%.*s", (int)n, list);
    const char *name = tool_string(names, peer);
    if (*name) snprintf(peers + used, 256 - used, "%s%s", used ? "," : "", name);
  }
  return peers;
}

/* The value of an option ("--model=") in a command; "" where there is none. */
static const char *word_of(const json_t *command, const char *option) {
  size_t n = strlen(option);
  for (size_t i = 0; i < json_array_size(command); i++) {
    const char *word = json_string_value(json_array_get(command, i));
    if (strncmp(word, option, n) == 0) return word + n;
  }
  return "";
}

/* Options of the call that go on to each comparison. */
static void add_own_options(const study *s, const json_t *block, json_t *command) {
  bool is_step = strcmp(tool_string(block, "verb"), "bench step") == 0;
  const char *threads = study_option(s, "threads"), *hosts = study_option(s, "hosts");
  if (!*word_of(command, "--rounds=") || ronde_config_is_given(s->call->config, "rounds"))
    json_array_append_new(command, json_sprintf("--rounds=%s", study_option(s, "rounds")));
  if (strcmp(threads, "0") != 0) json_array_append_new(command, json_sprintf("--threads=%s", threads));
  else if (is_step) json_array_append_new(command, json_string("--threads=1"));
  if (hosts && *hosts && !is_step) json_array_append_new(command, json_sprintf("--hosts=%s", hosts));
  else if (strcmp(s->name, "clusters") == 0)
    json_array_append_new(command, json_sprintf("--workers=%s", study_option(s, "workers")));
  char peers[256];
  if (!is_step && !json_object_get(block, "peers")) return;
  json_array_append_new(command, json_sprintf("--peers=%s", peers_of(s, block, peers)));
  json_array_append_new(command, json_sprintf("--peers-dir=%s", study_option(s, "peers-dir")));
}

static const json_t *data_of(const study *s, const char *name) {
  const json_t *one;
  size_t i;
  json_array_foreach(json_object_get(s->grid, "data"), i, one) {
    if (strcmp(tool_string(one, "name"), name) == 0) return one;
  }
  return NULL;
}

/* "ronde" and the words of a verb. */
static json_t *begin_command(const char *verb) {
  json_t *command = json_pack("[s]", "ronde");
  for (size_t n; *verb; verb += n + (verb[n] == ' ')) {
    n = strcspn(verb, " ");
    json_array_append_new(command, json_stringn(verb, n));
  }
  return command;
}

/* The command of a block, with a value of each thing that varies; without --out. data NULL: it needs none. */
static json_t *command_of(const study *s, const json_t *block, const json_t *values, const char *data) {
  const char *verb = tool_string(block, "verb"), *field;
  const json_t *options = json_object_get(json_object_get(block, "options"), s->size),
               *set = data_of(s, tool_string(block, "data"));
  json_t *command = begin_command(verb);
  json_t *value;
  json_object_foreach((json_t *)values, field, value)
      json_array_append_new(command, json_sprintf("--%s=%s", field, json_string_value(value)));
  if (data) {
    json_array_append_new(command, json_sprintf("--data=%s", data));
    json_array_extend(command, json_object_get(set, "options"));
  }
  json_array_extend(command, (json_t *)options);
  add_own_options(s, block, command);
  return command;
}

static void add_group(study *s, const json_t *block, json_t *values) {
  const char *set = tool_string(block, "data"), *data = json_string_value(json_object_get(s->data, set)), *field;
  char name[200], title[400];
  json_t *value;
  snprintf(name, sizeof name, "%s", tool_string(block, "name"));
  snprintf(title, sizeof title, "%s", tool_string(block, "name"));
  json_object_foreach(values, field, value) {
    size_t used = strlen(name), shown = strlen(title);
    snprintf(name + used, sizeof name - used, "-%s", json_string_value(value));
    snprintf(title + shown, sizeof title - shown, ", %s %s", field, json_string_value(value));
  }
  if (*set && !data) return; /* said to be missing */
  char peers[256];
  if (json_object_get(block, "peers") && !*peers_of(s, block, peers)) return;
  json_t *command = command_of(s, block, values, *set ? data : NULL);
  const json_t *seconds = json_object_get(json_object_get(block, "seconds"), s->size);
  json_array_append_new(s->groups,
                        json_pack("{s:s, s:s, s:s, s:o, s:s, s:s, s:O*}", "name", name, "title", title, "folder", name,
                                  "command", command, "status", "waiting", "reason", "", "estimated_s", seconds));
}

/* Every combination of what a block varies; those of the last field stand beside each other. fields: those left. */
static void expand(study *s, const json_t *block, const json_t *vary, void *field, json_t *values) {
  if (!field) {
    add_group(s, block, values);
    return;
  }
  const char *name = json_object_iter_key(field);
  const json_t *list = json_object_iter_value(field);
  for (size_t i = 0; i < json_array_size(list); i++) {
    json_object_set(values, name, json_array_get(list, i));
    expand(s, block, vary, json_object_iter_next((json_t *)vary, field), values);
  }
  json_object_del(values, name);
}

static void make_groups(study *s) {
  const json_t *block;
  size_t i;
  json_array_foreach(json_object_get(s->grid, "blocks"), i, block) {
    json_t *vary = json_object_get(json_object_get(block, "vary"), s->size), *values = json_object();
    if (json_object_size(vary)) expand(s, block, vary, json_object_iter(vary), values);
    json_decref(values);
  }
}

/* ---- data ------------------------------------------------------------------------------------------------------------------ */

/* Whether a dry run of a training of it can be planned. */
static ronde_status can_train(const char *data, const json_t *options, bool *can_out) {
  char why[2048];
  json_t *plan = NULL, *command = json_pack("[s, s, s, s, s, s, s]", "ronde", "train", "--model=mlp:16", "--steps=1",
                                            "--dry-run", "--json", "--quiet");
  json_array_append_new(command, json_sprintf("--data=%s", data));
  json_array_extend(command, (json_t *)options);
  ronde_status status = tool_case_try(command, &plan, why, sizeof why);
  *can_out = status == RONDE_OK;
  json_decref(plan);
  json_decref(command);
  return status == RONDE_E_CANCELLED ? status : RONDE_OK;
}

/* The first of those that a set may be which is here. */
static ronde_status choose_data(study *s, const json_t *set) {
  const char *name = tool_string(set, "name"), *asked = study_option(s, "data");
  const json_t *choose = json_object_get(set, "choose");
  ronde_status status = RONDE_OK;
  bool found = false;
  for (size_t i = 0; i < json_array_size(choose) && !found && !status; i++) {
    const char *data = json_string_value(json_array_get(choose, i));
    if (*asked) data = asked;
    status = can_train(data, json_object_get(set, "options"), &found);
    if (found) json_object_set_new(s->data, name, json_string(data));
    if (found && i > 0 && !*asked)
      say_missing(s, json_sprintf("%s: %s takes its place; the original has other images",
                                  json_string_value(json_array_get(choose, 0)), data));
    if (*asked) break;
  }
  if (!found && !status && *asked)
    return tool_fail(RONDE_E_INPUT, "--data %s: it cannot be trained on here; ronde data info %s says why", asked,
                     asked);
  if (!found && !status)
    say_missing(s, json_sprintf("%s: its comparisons are left out (ronde data get %s)", name,
                                json_string_value(json_array_get(choose, 0))));
  return status;
}

static ronde_status find_data(study *s) {
  const json_t *block, *set;
  size_t i;
  json_array_foreach(json_object_get(s->grid, "blocks"), i, block) {
    const char *name = tool_string(block, "data");
    bool is_used = json_object_size(json_object_get(json_object_get(block, "vary"), s->size)) > 0;
    if (!*name || !is_used || json_object_get(s->data, name) || !(set = data_of(s, name))) continue;
    json_object_set_new(s->data, name, json_null());
    ronde_status status = choose_data(s, set);
    if (status) return status;
  }
  return RONDE_OK;
}

/* ---- suite.json ------------------------------------------------------------------------------------------------------------- */

static ronde_status write_suite(const study *s) {
  char path[4500], new[4510], *version = NULL;
  json_t *about = ronde_version_json(&version) == RONDE_OK ? json_loads(version, 0, NULL) : NULL;
  free(version);
  json_t *suite =
      json_pack("{s:s, s:s, s:O, s:O, s:b, s:O, s:O, s:o, s:{s:s, s:s}}", "schema", "ronde.suite.v1", "suite", s->name,
                "title", json_object_get(s->grid, "title"), "notes", json_object_get(s->grid, "notes"), "quick",
                is_quick(s), "missing", s->missing, "groups", s->groups, "command", tool_words_json(s->call->argv),
                "version", "ronde", tool_string(about, "version"), "git", tool_string(about, "git"));
  json_decref(about);
  snprintf(path, sizeof path, "%s/suite.json", s->out);
  snprintf(new, sizeof new, "%s.new", path);
  bool is_written = suite && json_dump_file(suite, new, JSON_INDENT(2)) == 0 && rename(new, path) == 0;
  json_decref(suite);
  return is_written ? RONDE_OK : tool_fail(RONDE_E_WRITE, "%s: cannot write: %s", path, strerror(errno));
}

/* Takes over what an earlier run of the same suite has finished: comparisons of the same command whose record is there. */
static ronde_status take_over(study *s, int *n_out) {
  report_source before;
  json_t *group, *old;
  size_t i, k;
  char path[4600];
  *n_out = 0;
  snprintf(path, sizeof path, "%s/suite.json", s->out);
  if (access(path, F_OK)) return RONDE_OK;
  ronde_status status = report_read(s->out, &before);
  if (status) return status;
  if (strcmp(tool_string(before.suite, "suite"), s->name) != 0 ||
      json_is_true(json_object_get(before.suite, "quick")) != is_quick(s))
    status = tool_fail(RONDE_E_USAGE, "--out %s holds another suite (%s%s): choose another folder", s->out,
                       tool_string(before.suite, "suite"),
                       json_is_true(json_object_get(before.suite, "quick")) ? " --quick" : "");
  json_array_foreach(s->groups, i, group) json_array_foreach(json_object_get(before.suite, "groups"), k, old) {
    snprintf(path, sizeof path, "%s/%s/bench.json", s->out, tool_string(group, "folder"));
    if (!json_equal(json_object_get(group, "command"), json_object_get(old, "command")) ||
        strcmp(tool_string(old, "status"), "done") != 0 || access(path, F_OK))
      continue;
    json_object_set_new(group, "status", json_string("done"));
    json_object_set(group, "seconds", json_object_get(old, "seconds"));
    ++*n_out;
  }
  report_source_end(&before);
  return status;
}

/* ---- running ------------------------------------------------------------------------------------------------------------------ */

static json_t *finished_command(const study *s, const json_t *group, const char *const *more, int n) {
  json_t *command = json_copy(json_object_get(group, "command"));
  for (int i = 0; i < n; i++) json_array_append_new(command, json_string(more[i]));
  json_array_append_new(command, json_string("--json"));
  json_array_append_new(command, json_string("--quiet"));
  return command;
}

static bool is_compare(const json_t *group) {
  const char *verb = json_string_value(json_array_get(json_object_get(group, "command"), 1));
  return verb && strcmp(verb, "compare") == 0;
}

static const char *option_of(const json_t *group, const char *option) {
  return word_of(json_object_get(group, "command"), option);
}

/* The last group before this one that trains the same network by the same block: what a step of it takes is known. */
static const json_t *find_alike(const study *s, size_t index) {
  const json_t *group = json_array_get(s->groups, index);
  for (size_t i = 0; i < index; i++) {
    const json_t *other = json_array_get(s->groups, i);
    if (is_compare(other) == is_compare(group) &&
        strcmp(option_of(other, "--model="), option_of(group, "--model=")) == 0 &&
        strcmp(option_of(other, "--padding="), option_of(group, "--padding=")) == 0 &&
        strcmp(option_of(other, "--data="), option_of(group, "--data=")) == 0 &&
        isfinite(tool_number(other, "estimated_s")))
      return other;
  }
  return NULL;
}

static double repeats_of(const json_t *group) { return fmax(1, strtod(option_of(group, "--repeat="), NULL)); }

/* About how long a group takes: from dry runs of its cases, which also find that it cannot be run. */
static ronde_status estimate(study *s, size_t index) {
  enum { STEP_S = 60 }; /* of `bench step` with peers: they take long to start */
  json_t *group = json_array_get(s->groups, index), *plan = NULL;
  static const char *const dry[] = {"--dry-run"};
  const json_t *alike = find_alike(s, index);
  double seconds = STEP_S;
  if (json_object_get(group, "estimated_s")) return RONDE_OK; /* the suite says it */
  if (alike) seconds = tool_number(alike, "estimated_s") * repeats_of(group) / repeats_of(alike);
  else if (is_compare(group)) {
    char why[2048];
    json_t *command = finished_command(s, group, dry, 1);
    ronde_status status = tool_case_try(command, &plan, why, sizeof why);
    const double START_S = 1; /* of each run beside its training */
    json_decref(command);
    if (status == RONDE_E_CANCELLED) return status;
    seconds = tool_number(plan, "estimated_s") +
              START_S * tool_number(plan, "rounds") * (double)json_array_size(json_object_get(plan, "cases"));
    json_decref(plan);
  }
  json_object_set_new(group, "estimated_s", isfinite(seconds) ? json_real(seconds) : json_null());
  return RONDE_OK;
}

/* The seconds that the groups which are not done yet take, corrected by how wrong the estimates of the others were. */
static double seconds_left(const study *s) {
  const json_t *group;
  size_t i;
  double left = 0, took = 0, was_estimated = 0;
  json_array_foreach(s->groups, i, group) {
    double estimated = tool_number(group, "estimated_s"), seconds = tool_number(group, "seconds");
    if (strcmp(tool_string(group, "status"), "waiting") == 0) left += isfinite(estimated) ? estimated : 0;
    else if (isfinite(estimated) && isfinite(seconds)) took += seconds, was_estimated += estimated;
  }
  return was_estimated > 0 ? left * took / was_estimated : left;
}

static ronde_status run_group(study *s, json_t *group) {
  char out[4600], why[2048] = "";
  snprintf(out, sizeof out, "--out=%s/%s", s->out, tool_string(group, "folder"));
  const char *const more[] = {out, "--continue"};
  json_t *command = finished_command(s, group, more, is_compare(group) ? 2 : 1), *said = NULL;
  double begin = tool_now_s();
  ronde_status status = tool_case_try(command, &said, why, sizeof why);
  json_decref(command);
  json_decref(said);
  if (status == RONDE_E_CANCELLED) return status;
  bool is_done = status == RONDE_OK || status == RONDE_E_DIFFERENCE; /* not ranked, and the record says why */
  json_object_set_new(group, "status", json_string(is_done ? "done" : "failed"));
  json_object_set_new(group, "reason", json_string(is_done ? "" : why));
  json_object_set_new(group, "seconds", json_real(tool_now_s() - begin));
  if (!is_done) tool_say("failed: %s: %s", tool_string(group, "title"), tool_string(group, "reason"));
  return write_suite(s);
}

static ronde_status run_groups(study *s) {
  size_t i, n = json_array_size(s->groups);
  json_t *group;
  char left[32];
  json_array_foreach(s->groups, i, group) {
    if (strcmp(tool_string(group, "status"), "waiting") != 0) continue;
    tool_say("%zu/%zu  %s; about %s left", i + 1, n, tool_string(group, "title"), tool_duration(seconds_left(s), left));
    ronde_status status = tool_signal() ? RONDE_E_CANCELLED : run_group(s, group);
    if (status) return status;
  }
  return RONDE_OK;
}

/* What it will run, how long that takes, and what is missing. */
static ronde_status plan_study(study *s) {
  int n_done;
  char text[32];
  ronde_status status = RONDE_OK;
  find_peers(s);
  status = find_data(s);
  if (!status) make_groups(s);
  if (!status) status = take_over(s, &n_done);
  for (size_t i = 0; i < json_array_size(s->groups) && !status; i++)
    status = tool_signal() ? RONDE_E_CANCELLED : estimate(s, i);
  if (status) return status;
  if (!json_array_size(s->groups))
    return tool_fail(RONDE_E_INPUT, "bench %s: nothing is left to run: all that it needs is missing", s->name);
  tool_say("%s: %zu comparisons, %d of them done before, about %s", tool_string(s->grid, "title"),
           json_array_size(s->groups), n_done, tool_duration(seconds_left(s), text));
  for (size_t i = 0; i < json_array_size(s->groups); i++)
    tool_say("  %s", tool_string(json_array_get(s->groups, i), "title"));
  return write_suite(s);
}

static ronde_status report_study(const study *s) {
  static const char *const files[] = {"report.html", "report.md"};
  ronde_status status = RONDE_OK;
  char path[4500];
  for (int i = 0; i < 2 && !status; i++) {
    snprintf(path, sizeof path, "%s/%s", s->out, files[i]);
    status = report_write(&s->out, 1, path);
  }
  if (status || !s->call->json) return status;
  snprintf(path, sizeof path, "%s/suite.json", s->out);
  json_t *suite = json_load_file(path, 0, NULL);
  char *text = json_dumps(suite, JSON_INDENT(2));
  if (text) tool_print_json(text);
  free(text);
  json_decref(suite);
  return RONDE_OK;
}

ronde_status tool_bench_study(const tool_call *call) {
  study s = {.call = call,
             .name = strchr(call->verb, ' ') + 1,
             .out = ronde_config_get(call->config, "out"),
             .data = json_object(),
             .groups = json_array(),
             .missing = json_array()};
  s.size = strcmp(ronde_config_get(call->config, "quick"), "on") == 0 ? "quick" : "full";
  ronde_status status = RONDE_OK;
  if (!*s.out)
    status = tool_fail(
        RONDE_E_USAGE,
        "--out is missing: the folder that keeps the measurements, and from which a suite that was broken off goes on");
  else if (mkdir(s.out, 0777) && errno != EEXIST)
    status = tool_fail(RONDE_E_WRITE, "%s: cannot make the folder: %s", s.out, strerror(errno));
  tool_signals_watch();
  if (!status) status = read_grid(&s);
  if (!status) status = plan_study(&s);
  if (!status) status = run_groups(&s);
  if (!status) status = report_study(&s);
  if (status == RONDE_E_CANCELLED) tool_fail(status, "interrupted: the same command goes on from here");
  json_decref(s.grid);
  json_decref(s.data);
  json_decref(s.groups);
  json_decref(s.missing);
  return status;
}

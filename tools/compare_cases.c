/* The cases of a comparison: the command of each, and which of them are worth a run. Before the first one is measured, a
 * dry run of each tells what is impossible, what is the same run twice, and whether all are the same work. */
#include "compare.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- options of some strategies ---- */

/* Where strategies are compared: whether the case that is set goes without the option, which another case has. */
static bool is_for_others(const tool_call *call, const char *option) {
  const tool_axis *axis = tool_axis_of(call, "strategy");
  if (strcmp(option, "workers") == 0 && strcmp(ronde_config_get(call->config, option), "1") == 0) return false;
  if (ronde_config_understands(call->config, ronde_config_get(call->config, "strategy"), option)) return false;
  if (!axis) return call->scaling.batch && ronde_config_understands(call->config, call->scaling.strategy, option);
  for (int i = 0; i < axis->n_values; i++)
    if (ronde_config_understands(call->config, axis->values[i], option)) return true;
  return false;
}

/* ---- names and commands ---- */

/* Whether the case that is set is one worker's: what weak and strong scaling begin with, by any strategy. */
static bool is_one_worker(const tool_call *call) { return strcmp(ronde_config_get(call->config, "workers"), "1") == 0; }
static bool is_weak(const tool_call *call) { return strcmp(ronde_config_get(call->config, "scaling"), "weak") == 0; }

/* --scaling: the batch of a case of so many workers, and its strategy. */
static ronde_status set_scaling(const tool_call *call) {
  char batch[32];
  int64_t n = is_weak(call) ? strtoll(ronde_config_get(call->config, "workers"), NULL, 10) : 1;
  snprintf(batch, sizeof batch, "%lld", (long long)(call->scaling.batch * n));
  ronde_status status = ronde_config_set(call->config, "batch", batch);
  if (status || (tool_axis_of(call, "strategy") && !is_one_worker(call))) return status;
  return ronde_config_set(call->config, "strategy", is_one_worker(call) ? "single" : call->scaling.strategy);
}

/* The last axis changes fastest. */
static ronde_status set_case(const tool_call *call, int index) {
  for (int a = call->n_axes - 1; a >= 0; a--) {
    const tool_axis *axis = &call->axes[a];
    ronde_status status = ronde_config_set(call->config, axis->name, axis->values[index % axis->n_values]);
    if (status) return status;
    index /= axis->n_values;
  }
  return call->scaling.batch ? set_scaling(call) : RONDE_OK;
}

/* Of the case that is set: its values of the axes that it goes by. */
static void find_values(const tool_call *call, tool_case *one) {
  int index = one->index;
  for (int a = call->n_axes - 1; a >= 0; a--) {
    const tool_axis *axis = &call->axes[a];
    one->values[a] = is_for_others(call, axis->name) ? NULL : axis->values[index % axis->n_values];
    index /= axis->n_values;
  }
}

/* By all axes, or by those that the case goes by. */
static void case_name(const tool_call *call, const tool_case *one, bool all, char *name, size_t bytes) {
  name[0] = '\0';
  for (int a = 0; a < call->n_axes; a++) {
    const char *option = call->axes[a].name;
    size_t used = strlen(name);
    if (all || one->values[a])
      snprintf(name + used, bytes - used, "%s%s=%s", used ? "," : "", option, ronde_config_get(call->config, option));
  }
}

/* What the command of a case says for itself. */
static bool is_ours(const char *option) {
  return strcmp(option, "out") == 0 || strcmp(option, "save-last") == 0 || strcmp(option, "dry-run") == 0;
}

json_t *tool_train_command(const tool_call *call, const char *folder) {
  json_t *command = json_pack("[s, s]", "ronde", "train");
  ronde_option option;
  for (int i = 0; ronde_config_option("train", i, &option); i++) {
    const char *value = ronde_config_get(call->config, option.name);
    bool is_default = option.default_text ? strcmp(value, option.default_text) == 0 : !*value;
    if (is_default || is_ours(option.name) || is_for_others(call, option.name)) continue;
    if (folder || !option.needs_out) /* a dry run writes nothing */
      json_array_append_new(command, json_sprintf("--%s=%s", option.name, value));
  }
  json_array_append_new(command, folder ? json_sprintf("--out=%s", folder) : json_string("--dry-run"));
  if (folder) json_array_append_new(command, json_string("--save-last=off")); /* nobody goes on with it */
  json_array_append_new(command, json_string("--json"));
  json_array_append_new(command, json_string("--quiet"));
  return command;
}

json_t *tool_peer_command(const tool_call *call, const tool_case *one, const char *folder) {
  enum { OURS = 2, BEHIND = 3 }; /* `ronde train`; --dry-run --json --quiet */
  const char *peers = ronde_config_get(call->config, "peers-dir");
  char self[4400] = "ronde";
  json_t *words = tool_train_command(call, NULL), *command;
  tool_self_path(self, sizeof self);
  command = json_pack("[o, o, o, o, o, s, s]",
                      json_sprintf("%s/%.*s/bin/python", peers, (int)strcspn(one->peer, "-"), one->peer),
                      json_sprintf("%s/scripts/cluster.py", peers), json_sprintf("--system=%s", one->peer),
                      json_sprintf("--ronde=%s", self), json_sprintf("--out=%s", folder), "--", "train");
  for (size_t i = OURS; i + BEHIND < json_array_size(words); i++) json_array_append(command, json_array_get(words, i));
  json_decref(words);
  return command;
}

ronde_status tool_case_command(const tool_call *call, const tool_case *one, const char *folder, json_t **command_out) {
  ronde_status status = set_case(call, one->index);
  if (!status && one->peer) {
    *command_out = tool_peer_command(call, one, folder);
    return RONDE_OK;
  }
  if (!status) *command_out = tool_train_command(call, folder);
  return status;
}

/* ---- processes ---- */

/* What a process prints, until it closes its end; each request that comes meanwhile goes on to it. */
static char *read_output(int fd, pid_t child) {
  enum { LOOK_MS = 100 };
  size_t used = 0, size = 0;
  char *text = NULL;
  int n_passed_on = 0;
  for (;;) {
    struct pollfd file = {.fd = fd, .events = POLLIN};
    int ready = poll(&file, 1, LOOK_MS);
    for (; n_passed_on < tool_signal_requests(); n_passed_on++) kill(child, tool_signal());
    if (ready <= 0) continue;
    if (size - used < 4096) {
      char *larger = realloc(text, size += 65536);
      if (!larger) break;
      text = larger;
    }
    ssize_t got = read(fd, text + used, size - used - 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    used += (size_t)got;
  }
  if (text) text[used] = 0;
  return text;
}

/* In the child: becomes the run, which ends well where this process is killed. */
static void become_run(char **words, FILE *errors, const int ends[2], pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  dup2(ends[1], STDOUT_FILENO);
  if (errors) dup2(fileno(errors), STDERR_FILENO);
  close(ends[0]);
  close(ends[1]);
  execv(strchr(words[0], '/') ? words[0] : "/proc/self/exe", words);
  _exit(1);
}

ronde_status tool_case_run(const json_t *command, FILE *errors, json_t **said_out) {
  enum { MAX_WORDS = 256 };
  char *words[MAX_WORDS];
  size_t n = json_array_size(command);
  if (n >= MAX_WORDS) return tool_fail(RONDE_E_USAGE, "more than %d options", MAX_WORDS);
  for (size_t i = 0; i < n; i++) words[i] = (char *)json_string_value(json_array_get(command, i));
  words[n] = NULL;
  int ends[2];
  if (pipe(ends)) return tool_fail(RONDE_E_INTERNAL, "cannot make a pipe: %s", strerror(errno));
  pid_t parent = getpid(), child = fork();
  if (child == 0) become_run(words, errors, ends, parent);
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return tool_fail(RONDE_E_MEMORY, "cannot start a process: %s", strerror(errno));
  }
  char *text = read_output(ends[0], child);
  json_t *said = text ? json_loads(text, 0, NULL) : NULL;
  free(text);
  close(ends[0]);
  int state;
  while (waitpid(child, &state, 0) < 0 && errno == EINTR) {
  }
  ronde_status status = WIFEXITED(state) ? tool_status_of_exit(WEXITSTATUS(state)) : RONDE_E_INTERNAL;
  if (status == RONDE_OK && !said) status = tool_fail(RONDE_E_INTERNAL, "a run left no record");
  if (status) json_decref(said);
  else *said_out = said;
  return status;
}

/* The error that a process ended with, from all that it said. */
static void read_error(FILE *errors, ronde_status status, char *text, size_t bytes) {
  static const char prefix[] = "ronde: error: ";
  char line[2048];
  snprintf(text, bytes, "%s", ronde_status_text(status));
  rewind(errors);
  while (fgets(line, sizeof line, errors)) {
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, prefix, sizeof prefix - 1) == 0) snprintf(text, bytes, "%s", line + sizeof prefix - 1);
  }
}

ronde_status tool_case_try(const json_t *command, json_t **said_out, char *why, size_t bytes) {
  FILE *errors = tmpfile();
  if (!errors) return tool_fail(RONDE_E_WRITE, "compare: cannot make a temporary file: %s", strerror(errno));
  ronde_status status = tool_signal() ? RONDE_E_CANCELLED : tool_case_run(command, errors, said_out);
  if (status) read_error(errors, status, why, bytes);
  fclose(errors);
  return tool_signal() ? RONDE_E_CANCELLED : status;
}

/* ---- which cases are run ---- */

static void leave_out(tool_cases *cases, const char *name, json_t *reason) {
  json_array_append_new(cases->left_out, json_pack("{s:s, s:o}", "name", name, "reason", reason));
}

/* Two commands may mean the same run: what is automatic in one is said in the other. */
static bool is_same_run(const json_t *plan, const json_t *other) {
  static const char *const measured[] = {"estimated_s", "estimated_from_steps"};
  const json_t *plans[2] = {plan, other};
  json_t *resolved[2];
  for (int p = 0; p < 2; p++) {
    resolved[p] = json_deep_copy(plans[p]);
    for (size_t i = 0; i < sizeof measured / sizeof measured[0]; i++) json_object_del(resolved[p], measured[i]);
    json_object_set(json_object_get(resolved[p], "config"), "strategy", json_object_get(plans[p], "strategy"));
  }
  bool is_same = json_equal(resolved[0], resolved[1]);
  json_decref(resolved[0]);
  json_decref(resolved[1]);
  return is_same;
}

/* The case that is the same run as one, of those before it. */
static const tool_case *find_same(const tool_cases *cases, const tool_case *one) {
  for (int i = 0; i < cases->n; i++) {
    const tool_case *before = &cases->at[i];
    if (json_equal(before->command, one->command)) return before;
    if (one->plan && before->plan && is_same_run(one->plan, before->plan)) return before;
  }
  return NULL;
}

/* name: by all axes. Whether the case is left out, and said to be. */
static bool is_repeated(tool_cases *cases, const tool_case *one, const char *name) {
  const tool_case *same = find_same(cases, one);
  if (same) leave_out(cases, name, json_sprintf("the same run as %s", same->name));
  return same;
}

/* What a resumed run would do is in its checkpoint: its cases meet in the first round. */
static ronde_status plan_case(tool_cases *cases, tool_case *one, const char *name) {
  char why[2048];
  ronde_status status = tool_case_try(one->command, &one->plan, why, sizeof why);
  if (status == RONDE_E_USAGE) leave_out(cases, name, json_string(why));
  else if (status && status != RONDE_E_CANCELLED) tool_fail(status, "%s: its training failed: %s", name, why);
  return status;
}

/* Adds the case of an index, or leaves it out. */
static ronde_status add_case(tool_cases *cases, const tool_call *call, int index) {
  tool_case *one = &cases->at[cases->n];
  char name[sizeof one->name];
  *one = (tool_case){.index = index};
  ronde_status status = tool_case_command(call, one, NULL, &one->command);
  if (status) return status;
  find_values(call, one);
  case_name(call, one, true, name, sizeof name);
  case_name(call, one, false, one->name, sizeof one->name);
  bool is_left_out = call->scaling.batch && is_one_worker(call) && cases->n > 0; /* the first one is all of them */
  if (!is_left_out) is_left_out = is_repeated(cases, one, name);
  if (!is_left_out && !*ronde_config_get(call->config, "resume")) {
    status = plan_case(cases, one, one->name);
    is_left_out = status || is_repeated(cases, one, name);
  }
  if (is_left_out) tool_case_end(one);
  else cases->n++;
  return status == RONDE_E_USAGE ? RONDE_OK : status;
}

/* A comparison needs two: with none left the first reason is that of the call, with one the others are said. */
static ronde_status check_left(const tool_cases *cases) {
  const json_t *one, *first = json_array_get(cases->left_out, 0);
  size_t i;
  if (first && cases->n == 0)
    return tool_fail(RONDE_E_USAGE, "%s: its training is refused: %s", tool_string(first, "name"),
                     tool_string(first, "reason"));
  json_array_foreach(cases->left_out, i, one) {
    if (first && cases->n == 1)
      return tool_fail(RONDE_E_USAGE, "nothing is left to compare %s with: %s: %s", cases->at[0].name,
                       tool_string(one, "name"), tool_string(one, "reason"));
    tool_say("left out: %s: %s", tool_string(one, "name"), tool_string(one, "reason"));
  }
  return RONDE_OK;
}

ronde_status tool_cases_find(const tool_call *call, tool_cases *cases) {
  int n = 1;
  for (int a = 0; a < call->n_axes; a++) n *= call->axes[a].n_values;
  *cases = (tool_cases){.at = calloc((size_t)n + TOOL_MAX_PEERS, sizeof *cases->at), .left_out = json_array()};
  cases->axes = json_object();
  for (int a = 0; a < call->n_axes; a++) json_object_set_new(cases->axes, call->axes[a].name, json_true());
  if (!cases->at || !cases->left_out || !cases->axes)
    return tool_fail(RONDE_E_MEMORY, "compare: no memory for %d cases", n);
  for (int i = 0; i < n; i++) {
    ronde_status status = add_case(cases, call, i);
    if (status) return status;
  }
  return check_left(cases);
}

void tool_case_end(tool_case *one) {
  json_decref(one->command);
  json_decref(one->plan);
  json_decref(one->run);
  json_decref(one->audit);
}

void tool_cases_end(tool_cases *cases) {
  for (int i = 0; i < cases->n; i++) tool_case_end(&cases->at[i]);
  free(cases->at);
  json_decref(cases->left_out);
  json_decref(cases->axes);
}

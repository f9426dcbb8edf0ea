/* ronde compare: the same training in several cases, in alternated rounds, each run a process of its own so that its
 * peak memory is its own. Cases whose work differs are not ranked. */
#include "compare.h"

#include <errno.h>
#include <ftw.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- cases ---- */

/* The case of an index: the last axis changes fastest. */
static void case_name(const tool_call *call, int index, char *name, size_t bytes) {
  name[0] = '\0';
  for (int a = 0, rest = index; a < call->n_axes; a++) {
    int behind = 1;
    for (int b = a + 1; b < call->n_axes; b++) behind *= call->axes[b].n_values;
    size_t used = strlen(name);
    snprintf(name + used, bytes - used, "%s%s=%s", used ? "," : "", call->axes[a].name,
             call->axes[a].values[rest / behind]);
    rest %= behind;
  }
}

static ronde_status set_case(const tool_call *call, int index) {
  for (int a = call->n_axes - 1; a >= 0; a--) {
    const tool_axis *axis = &call->axes[a];
    ronde_status status = ronde_config_set(call->config, axis->name, axis->values[index % axis->n_values]);
    if (status) return status;
    index /= axis->n_values;
  }
  return RONDE_OK;
}

/* ---- options of some strategies ---- */

static const struct {
  const char *option, *strategies;
} of_some[] = {{"workers", "allreduce,ps-sync,ps-async"},
               {"transport", "allreduce,ps-sync,ps-async"},
               {"bucket-mb", "allreduce,ps-sync,ps-async"},
               {"overlap", "allreduce,ps-sync,ps-async"},
               {"collective", "allreduce"},
               {"wire", "allreduce"},
               {"timeout", "allreduce,ps-sync,ps-async"},
               {"grace", "allreduce,ps-sync,ps-async"},
               {"servers", "ps-sync,ps-async"},
               {"placement", "ps-sync,ps-async"},
               {"backup", "ps-sync"},
               {"sentinel", "allreduce,ps-sync"},
               {"lr-divide-workers", "ps-async"}};

static bool is_among(const char *list, const char *name) {
  size_t n = strlen(name);
  for (const char *at = strstr(list, name); at; at = strstr(at + 1, name))
    if ((at == list || at[-1] == ',') && (at[n] == ',' || !at[n])) return true;
  return false;
}

/* Where strategies are compared: whether this case goes without the option, which another case has. */
static bool is_for_others(const tool_call *call, const char *option) {
  const tool_axis *axis = NULL;
  const char *strategies = NULL;
  for (int a = 0; a < call->n_axes; a++)
    if (strcmp(call->axes[a].name, "strategy") == 0) axis = &call->axes[a];
  for (size_t i = 0; i < sizeof of_some / sizeof of_some[0]; i++)
    if (strcmp(of_some[i].option, option) == 0) strategies = of_some[i].strategies;
  if (!axis || !strategies || is_among(strategies, ronde_config_get(call->config, "strategy"))) return false;
  for (int i = 0; i < axis->n_values; i++)
    if (is_among(strategies, axis->values[i])) return true;
  return false;
}

/* `ronde train` with all options that are not at their defaults. Those of the environment are among them, so the
 * command is the whole of it. */
static json_t *command_of(const tool_call *call, const char *folder) {
  json_t *command = json_pack("[s, s]", "ronde", "train");
  ronde_option option;
  for (int i = 0; ronde_config_option("train", i, &option); i++) {
    const char *value = ronde_config_get(call->config, option.name);
    bool is_default = option.default_text ? strcmp(value, option.default_text) == 0 : !*value;
    if (is_default || strcmp(option.name, "out") == 0 || is_for_others(call, option.name)) continue;
    json_array_append_new(command, json_sprintf("--%s=%s", option.name, value));
  }
  json_array_append_new(command, json_sprintf("--out=%s", folder));
  json_array_append_new(command, json_string("--json"));
  json_array_append_new(command, json_string("--quiet"));
  return command;
}

static void forget_environment(void) {
  ronde_option option;
  for (int i = 0; ronde_config_option("compare", i, &option); i++) {
    char variable[80];
    if (strcmp(option.name, "data") == 0) continue; /* RONDE_DATA is the folder of data sets */
    snprintf(variable, sizeof variable, "RONDE_%s", option.name);
    for (char *p = variable; *p; p++) *p = *p == '-' ? '_' : (char)(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p);
    unsetenv(variable);
  }
}

/* ---- one run ---- */

/* What a run prints, until it closes its end; each request that comes meanwhile goes on to it. */
static char *read_all(int fd, pid_t child) {
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
static void become_run(char **words, const int ends[2], pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  dup2(ends[1], STDOUT_FILENO);
  close(ends[0]);
  close(ends[1]);
  execv("/proc/self/exe", words);
  _exit(1);
}

/* The run's record, or NULL and why. */
static ronde_status run_process(const json_t *command, json_t **run_out) {
  enum { MAX_WORDS = 256 };
  char *words[MAX_WORDS];
  size_t n = json_array_size(command);
  if (n >= MAX_WORDS) return tool_fail(RONDE_E_USAGE, "compare: more than %d options", MAX_WORDS);
  for (size_t i = 0; i < n; i++) words[i] = (char *)json_string_value(json_array_get(command, i));
  words[n] = NULL;
  int ends[2];
  if (pipe(ends)) return tool_fail(RONDE_E_INTERNAL, "compare: cannot make a pipe: %s", strerror(errno));
  pid_t parent = getpid(), child = fork();
  if (child == 0) become_run(words, ends, parent);
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return tool_fail(RONDE_E_MEMORY, "compare: cannot start a process: %s", strerror(errno));
  }
  char *text = read_all(ends[0], child);
  json_t *run = text ? json_loads(text, 0, NULL) : NULL;
  free(text);
  close(ends[0]);
  int state;
  while (waitpid(child, &state, 0) < 0 && errno == EINTR) {
  }
  ronde_status status = WIFEXITED(state) ? tool_status_of_exit(WEXITSTATUS(state)) : RONDE_E_INTERNAL;
  if (status == RONDE_OK && !run) status = tool_fail(RONDE_E_INTERNAL, "compare: a run left no record");
  if (status) json_decref(run);
  else *run_out = run;
  return status;
}

/* Seconds of each step but the first, which meets cold caches. */
static ronde_status read_steps(const char *folder, tool_samples *samples) {
  char path[4500], line[1024];
  snprintf(path, sizeof path, "%s/steps.jsonl", folder);
  FILE *file = fopen(path, "r");
  if (!file) return tool_fail(RONDE_E_INPUT, "%s: cannot read: %s", path, strerror(errno));
  ronde_status status = RONDE_OK;
  for (int i = 0; !status && fgets(line, sizeof line, file); i++) {
    json_t *step = json_loads(line, 0, NULL);
    if (i > 0) status = tool_sample(samples, tool_number(step, "wall_s"));
    json_decref(step);
  }
  fclose(file);
  return status;
}

/* ---- all runs ---- */

typedef struct comparison {
  const tool_call *call;
  tool_case *cases;
  int n_cases, rounds;
  char folder[4000];
  bool is_temporary;
} comparison;

static int remove_one(const char *path, const struct stat *info, int flag, struct FTW *place) {
  (void)info, (void)flag, (void)place;
  return remove(path);
}

/* Whatever a run left in its folder, which is ours. */
static void remove_run(const char *folder) { nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS); }

static ronde_status run_case(comparison *c, int index, int round) {
  tool_case *one = &c->cases[index];
  char folder[4400];
  snprintf(folder, sizeof folder, "%s/%s-%d", c->folder, one->name, round + 1);
  ronde_status status = set_case(c->call, index);
  if (status) return status;
  json_t *command = command_of(c->call, folder), *run = NULL;
  status = run_process(command, &run);
  int64_t before = one->steps.n;
  if (!status) status = read_steps(folder, &one->steps);
  if (!status) status = tool_case_add(one, command, run, before);
  if (c->is_temporary) remove_run(folder);
  json_decref(command);
  json_decref(run);
  if (!status) tool_say("round %d/%d  %s  %.3f ms a step", round + 1, c->rounds, one->name, tool_case_round_ms(one));
  if (status == RONDE_OK || status == RONDE_E_CANCELLED) return status;
  /* What cannot work in one round will not in the next; a run that broke off may. */
  if (status == RONDE_E_USAGE || status == RONDE_E_INPUT || status == RONDE_E_WRITE || round == 0)
    return tool_fail(status, "%s: its training failed: %s", one->name, ronde_status_text(status));
  one->failures++;
  return RONDE_OK;
}

/* Each round begins with another case, so that none is always the first. */
static ronde_status run_all(comparison *c) {
  for (int round = 0; round < c->rounds; round++) {
    for (int i = 0; i < c->n_cases; i++) {
      ronde_status status = tool_signal() ? RONDE_E_CANCELLED : run_case(c, (round + i) % c->n_cases, round);
      if (status) return status;
    }
    /* That cases differ shows in the first round. */
    json_t *differences = tool_differences(c->cases, c->n_cases);
    bool differ = json_array_size(differences) > 0;
    json_decref(differences);
    if (differ) break;
  }
  return RONDE_OK;
}

static ronde_status make_folder(comparison *c) {
  const char *out = ronde_config_get(c->call->config, "out"), *temporary = getenv("TMPDIR");
  c->is_temporary = !*out;
  if (*out) {
    snprintf(c->folder, sizeof c->folder, "%s", out);
    return tool_folder_make(out);
  }
  snprintf(c->folder, sizeof c->folder, "%s/ronde-compare-XXXXXX", temporary && *temporary ? temporary : "/tmp");
  return mkdtemp(c->folder) ? RONDE_OK
                            : tool_fail(RONDE_E_WRITE, "%s: cannot make a folder: %s", c->folder, strerror(errno));
}

static ronde_status report(const comparison *c) {
  json_t *differences = tool_differences(c->cases, c->n_cases), *bench;
  ronde_status status = tool_bench_json(c->call, c->cases, c->n_cases, differences, &bench);
  if (!status && !c->is_temporary) status = tool_bench_write(c->folder, bench);
  if (!status && c->call->json) {
    char *text = json_dumps(bench, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    tool_print_json(text ? text : "");
    free(text);
  } else if (!status) {
    tool_bench_print(bench);
  }
  if (!status && json_array_size(differences) > 0)
    status = tool_fail(RONDE_E_DIFFERENCE, "not ranked, as the cases are not the same work: %s",
                       tool_string(json_array_get(differences, 0), "text"));
  json_decref(bench);
  json_decref(differences);
  return status;
}

static ronde_status check_options(const tool_call *call) {
  static const char *const none[] = {"save", "dry-run"};
  for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
    const char *value = ronde_config_get(call->config, none[i]);
    if (*value && strcmp(value, "off") != 0)
      return tool_fail(RONDE_E_USAGE, "--%s can have no effect: compare only measures", none[i]);
  }
  if (call->n_axes == 0)
    return tool_fail(RONDE_E_USAGE,
                     "what to compare is missing: an option with a list of values, such as --exec graph,eager");
  return RONDE_OK;
}

ronde_status tool_compare(const tool_call *call) {
  comparison c = {.call = call, .n_cases = 1, .rounds = atoi(ronde_config_get(call->config, "rounds"))};
  ronde_status status = check_options(call);
  if (status) return status;
  for (int a = 0; a < call->n_axes; a++) c.n_cases *= call->axes[a].n_values;
  if (!(c.cases = calloc((size_t)c.n_cases, sizeof *c.cases))) return tool_fail(RONDE_E_MEMORY, "compare: no memory");
  for (int i = 0; i < c.n_cases; i++) case_name(call, i, c.cases[i].name, sizeof c.cases[i].name);
  forget_environment();
  tool_signals_watch();
  status = make_folder(&c);
  if (!status) {
    status = run_all(&c);
    if (!status) status = report(&c);
    if (c.is_temporary) rmdir(c.folder);
  }
  for (int i = 0; i < c.n_cases; i++) tool_case_end(&c.cases[i]);
  free(c.cases);
  if (status == RONDE_E_CANCELLED) tool_fail(status, "interrupted: the comparison was broken off");
  return status;
}

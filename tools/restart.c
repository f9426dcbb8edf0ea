/* Starting a run again after a loss. */
#include "restart.h"

#include "handover.h"
#include "limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *value_of(const tool_call *call, const char *name) {
  const char *value = ronde_config_get(call->config, name);
  return value ? value : "";
}

/* It begins with the newest state in --out, or with none, and so do all that follow. */
static bool is_from_out(const tool_call *call) {
  const char *resume = value_of(call, "resume");
  return !*resume || !strcmp(resume, "auto") || !strcmp(resume, value_of(call, "out"));
}

bool tool_restart_is_wanted(const tool_call *call) { return ronde_config_restarts(call->config) && is_from_out(call); }

ronde_status tool_restart_check(const tool_call *call) {
  const char *resume = value_of(call, "resume");
  if (strcmp(value_of(call, "on-loss"), "restart") || is_from_out(call)) return RONDE_OK;
  return tool_fail(
      RONDE_E_USAGE,
      "--on-loss restart: a restart would begin anew before --out has a checkpoint, not go on from --resume "
      "%s: resume without it once, or use --resume auto",
      resume);
}

/* ---- who is left ---- */

static bool is_away(const tool_launched *l, const int *host_of, const tool_hosts *hosts, int host) {
  bool away = false;
  (void)hosts;
  for (int r = 0; r < l->n_ranks; r++) away |= host_of[r] == host && l->ranks[r].away;
  return away;
}

/* Nothing could be started there; mpirun has lost its daemon there, or it was silent as the ranks started, when no rank can know
 * of another; the others went on without a rank whose end that has not reported; or none of its ranks has come to an end, and
 * nobody has seen that host speak for a process that has gone. */
static bool is_host_lost(const tool_launched *l, const int *host_of, const tool_hosts *hosts, int host) {
  bool any = false, all = true, away = is_away(l, host_of, hosts, host);
  if (*l->failed_host) return !strcmp(l->failed_host, hosts->at[host].name);
  if (away || l->n_silent) return away;
  for (int r = 0; r < l->n_ranks; r++) {
    const tool_rank *rank = &l->ranks[r];
    if (host_of[r] != host) continue;
    any = true;
    if (rank->gone && !rank->reported) return true;
    if (rank->begun && *l->lost_host && !l->killed_signal && !strcmp(rank->host, l->lost_host)) return true;
    all &= !rank->ended && !rank->gone;
  }
  return any && all && !strstr(l->first_error, RONDE_LOST_PROCESS);
}

static void append_name(char *text, size_t size, const char *name) {
  size_t used = strlen(text);
  snprintf(text + used, size - used, "%s%s", used ? ", " : "", name);
}

/* Takes lost hosts out; the number of ranks that were on the others. Hosts that had no rank stay. */
typedef bool lost_fn(const tool_launched *l, const int *host_of, const tool_hosts *hosts, int host);
static int leave_out(const tool_launched *l, lost_fn *is_lost, tool_hosts *hosts, char lost[512], char left[512]) {
  int *counts = calloc((size_t)hosts->n, sizeof *counts), *host_of = calloc((size_t)l->n_ranks, sizeof *host_of);
  int n_ranks = 0, n_left = 0, slots = 0;
  bool known = counts && host_of && tool_hosts_place(hosts, l->n_ranks, counts, host_of);
  for (int i = 0; i < hosts->n; i++) {
    bool gone = known && is_lost(l, host_of, hosts, i);
    append_name(gone ? lost : left, 512, hosts->at[i].name);
    if (gone) continue;
    n_ranks += known ? counts[i] : 0;
    slots += hosts->at[i].slots ? hosts->at[i].slots : 1;
    hosts->at[n_left++] = hosts->at[i];
  }
  hosts->n = n_left;
  if (hosts->slots) hosts->slots = slots;
  free(counts), free(host_of);
  return known ? n_ranks : l->n_ranks;
}

static int most_restarts(const tool_call *call) { return (int)strtol(value_of(call, "max-restarts"), NULL, 10); }

int tool_restart_guess(const tool_launched *l, tool_hosts *hosts) {
  char lost[512] = "", left[512] = "";
  bool open = l->noted->n < most_restarts(l->call);
  int n = hosts->n ? leave_out(l, is_away, hosts, lost, left) : l->n_ranks;
  return open && n > ronde_config_server_ranks(l->call->config) ? n : 0;
}

/* With --elastic those that are away may come back. How many ranks there are to be then, and the hosts' names in left. */
static int wait_for_hosts(const tool_launched *l, tool_hosts *hosts, int n_servers, const char *lost, char left[512]) {
  double limit_s = TOOL_AWAY_TIMES * l->timeout_s, until_s = tool_now_s() + limit_s;
  int n_ranks = 0;
  tool_say("no host is left for a worker (lost: %s): waiting up to %.0f s for one that answers", lost, limit_s);
  while (n_ranks <= n_servers && tool_join_await(l->joins, until_s) && !tool_join_take(l->joins, hosts, left))
    n_ranks = tool_hosts_ranks(hosts, n_servers);
  return n_ranks;
}

/* ---- noting ---- */

static const char *cause_of(const tool_launched *l) {
  static const char prefix[] = "ronde: error: ";
  const char *line = *l->first_error ? l->first_error : "a rank was lost";
  return strncmp(line, prefix, sizeof prefix - 1) ? line : line + sizeof prefix - 1;
}

/* The last step that all who are left had ended; where the run before had gone on from, of what it was restarted for. */
static void note_steps(tool_restarts *restarts, const tool_launched *l, json_t *loss) {
  const tool_rank *least = NULL;
  for (int i = 0; i < l->n_ranks; i++)
    if (l->ranks[i].told && (!least || l->ranks[i].step < least->step)) least = &l->ranks[i];
  if (least) json_object_set_new(loss, "step", json_integer(least->step));
  json_t *before = json_array_get(restarts->list, json_array_size(restarts->list) - 1);
  if (least && before) json_object_set_new(before, "resumed_step", json_integer(least->resumed_step));
}

/* A variable of the environment that is longer than 128 KB keeps the system from starting a process, so the oldest go. */
static void write_list(tool_restarts *restarts) {
  enum { MOST_BYTES = 32 << 10 };
  free(restarts->text);
  while ((restarts->text = json_dumps(restarts->list, JSON_COMPACT)) && strlen(restarts->text) > MOST_BYTES) {
    free(restarts->text);
    json_array_remove(restarts->list, 0);
  }
}

/* What is lost, or which hosts join; left_out, hosts: NULL where none could be. */
static void note_start(const tool_launched *l, int n_ranks, const char *joined, const char *lost,
                       const char *left_out) {
  char at[32];
  time_t now = time(NULL);
  struct tm utc;
  tool_restarts *restarts = l->noted;
  gmtime_r(&now, &utc);
  strftime(at, sizeof at, "%Y-%m-%dT%H:%M:%SZ", &utc);
  if (!restarts->list) restarts->list = json_array();
  json_t *loss = json_pack("{s:i, s:s, s:s?, s:s?, s:s?, s:b, s:i, s:i}", "number", ++restarts->n_noted, "at", at,
                           "joined", joined, "lost", lost, "hosts_left_out", left_out, "trained", l->trained,
                           "ranks_before", l->n_ranks, "ranks", n_ranks);
  note_steps(restarts, l, loss);
  json_array_append_new(restarts->list, loss);
  write_list(restarts);
}

bool tool_restart_prepare(tool_launched *l, int *n_ranks) {
  const tool_call *call = l->call;
  tool_restarts *restarts = l->noted;
  char lost[512] = "", left[512] = "";
  int most = most_restarts(call), n_servers = ronde_config_server_ranks(call->config);
  bool fails_at_first = !restarts->list && *l->failed_host; /* a host's name may be misspelt */
  if (!tool_restart_is_wanted(call) || tool_signal() || fails_at_first || l->unended) return false;
  if (restarts->n >= most) {
    tool_fail(RONDE_E_LOST, "not restarted: --max-restarts %d is reached (%s)", most, cause_of(l));
    return false;
  }
  int n = l->hosts.n ? leave_out(l, is_host_lost, &l->hosts, lost, left) : l->n_ranks;
  bool waits = n <= n_servers && l->joins;
  if (waits) n = wait_for_hosts(l, &l->hosts, n_servers, lost, left);
  if (n <= n_servers) {
    tool_fail(RONDE_E_LOST, "not restarted: no host is left for a worker (lost: %s)", lost);
    return false;
  }
  if (waits) *lost = 0; /* any of them may be back */
  restarts->n++;
  note_start(l, n, NULL, cause_of(l), lost);
  tool_error_overcome();
  tool_say("restart %d of at most %d, with %d rank%s%s%s%s%s%s: from the newest state in --out", restarts->n, most, n,
           n > 1 ? "s" : "", *left ? " on " : "", left, *lost ? " (left out: " : "", lost, *lost ? ")" : "");
  *n_ranks = n;
  return true;
}

void tool_restart_join(const tool_launched *l, const tool_launched *next) {
  note_start(l, next->n_ranks, next->joiners, NULL, NULL);
  tool_say("%s joins: goes on with %d ranks, from the state that was saved %.1f s ago", next->joiners, next->n_ranks,
           tool_now_s() - l->asked_s);
}

bool tool_restart_without_joiners(tool_launched *l, ronde_status ended, int *n_ranks) {
  bool failed = ended != RONDE_OK && ended != RONDE_E_CANCELLED && ended != RONDE_E_LOST;
  if (!*l->joiners || !failed || l->trained || tool_signal() || l->unended) return false;
  tool_join_refuse(l->joins, &l->hosts, l->joiners);
  *n_ranks = tool_hosts_ranks(&l->hosts, ronde_config_server_ranks(l->call->config));
  note_start(l, *n_ranks, NULL, cause_of(l), l->joiners);
  tool_error_overcome();
  tool_say("warning: %s does not join after all: started again with %d ranks, from the state that was saved",
           l->joiners, *n_ranks);
  return true;
}

void tool_restart_stay(const tool_launched *l) {
  note_start(l, l->n_ranks, NULL, "the start with hosts that were to join", NULL);
  tool_say("started again with %d ranks, from the state that was saved for those who were to join", l->n_ranks);
}

/* ---- the command ---- */

static bool is_of_one_start(const char *name) {
  static const char *const names[] = {"drill", "overwrite", "resume", "workers", "hosts", "hostfile"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(name, names[i])) return true;
  return false;
}

static bool add_option(char **words, int *n, const char *name, const char *value) {
  size_t size = strlen(name) + strlen(value) + 4;
  char *word = malloc(size);
  if (!word) return false;
  snprintf(word, size, "--%s=%s", name, value);
  words[(*n)++] = word;
  return true;
}

static bool add_flag(char **words, int *n, bool on, const char *flag) {
  if (!on) return true;
  words[*n] = strdup(flag);
  return words[(*n)++] != NULL;
}

ronde_status tool_restart_words(const tool_call *call, int n_workers, char ***words_out) {
  enum { MORE = 8 };
  ronde_option option;
  int n = 0, n_options = 0;
  char workers[16];
  while (ronde_config_option(call->verb, n_options, &option)) n_options++;
  char **words = calloc((size_t)(n_options + MORE), sizeof *words);
  snprintf(workers, sizeof workers, "%d", n_workers);
  bool complete = words && (words[n++] = strdup(call->argv[0])) && (words[n++] = strdup(call->verb));
  for (int i = 0; complete && ronde_config_option(call->verb, i, &option); i++) {
    if (is_of_one_start(option.name)) unsetenv(option.variable);
    else if (ronde_config_is_given(call->config, option.name))
      complete = add_option(words, &n, option.name, value_of(call, option.name));
  }
  complete = complete && add_option(words, &n, "resume", "auto") && add_option(words, &n, "workers", workers) &&
             add_flag(words, &n, call->quiet, "--quiet") && add_flag(words, &n, call->json, "--json") &&
             add_flag(words, &n, call->verbose, "--verbose");
  if (complete) {
    *words_out = words;
    return RONDE_OK;
  }
  tool_rank_words_free(words);
  return tool_fail(RONDE_E_MEMORY, "no memory for the command of the ranks");
}

void tool_restarts_free(tool_restarts *restarts) {
  json_decref(restarts->list);
  free(restarts->text);
}

/* Who may join: the file is read again whenever it has changed, and hosts in it that have no rank are asked again and again,
 * each by a process, so that the launcher waits for none. So a host that was lost comes back once it answers. */
#include "join.h"

#include "launch.h"
#include "reach.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ASK_S = 2, AGAIN_S = 20, LOOK_MS = 100 }; /* how often; and behind a start with them that has failed */

static const char *value_of(const tool_call *call, const char *name) {
  const char *value = ronde_config_get(call->config, name);
  return value ? value : "";
}

ronde_status tool_join_check(const tool_call *call) {
  if (!*value_of(call, "hostfile"))
    return tool_fail(RONDE_E_USAGE, "--elastic: a host joins by a line in --hostfile FILE, and none is given");
  if (ronde_config_is_given(call->config, "workers"))
    return tool_fail(RONDE_E_USAGE, "--elastic: leave out --workers: how many there are is for --hostfile to say");
  return RONDE_OK;
}

void tool_join_begin(tool_joins *joins, const char *path) {
  *joins = (tool_joins){.path = path, .next_s = tool_now_s() + ASK_S};
}

void tool_join_follow(tool_joins *joins, const tool_hosts *present, const struct tool_rank *ranks, int n_ranks) {
  joins->present = present;
  joins->ranks = ranks;
  joins->n_ranks = n_ranks;
  joins->next_s = tool_now_s() + ASK_S; /* a start that failed may have done so by a host that is left out now */
}

void tool_join_put_off(tool_joins *joins) { joins->next_s = tool_now_s() + AGAIN_S; }

/* -1: it is not there. */
static int find_host(const tool_hosts *hosts, const char *name) {
  for (int i = 0; i < hosts->n; i++)
    if (!strcmp(hosts->at[i].name, name)) return i;
  return -1;
}

/* How many ranks a host of the run has, and how many of them the others go on without. */
static void count_ranks(const tool_joins *j, int host, int *n_out, int *n_lost_out) {
  int *counts = calloc((size_t)j->present->n, sizeof *counts),
      *host_of = calloc((size_t)j->n_ranks + 1, sizeof *host_of);
  *n_out = *n_lost_out = 0;
  if (j->ranks && counts && host_of && tool_hosts_place(j->present, j->n_ranks, counts, host_of))
    for (int r = 0; r < j->n_ranks; r++) {
      *n_out += host_of[r] == host;
      *n_lost_out += host_of[r] == host && j->ranks[r].gone && !j->ranks[r].ended;
    }
  free(counts), free(host_of);
}

/* Whether it could bring a rank. */
static bool is_lacking(const tool_joins *j, const char *name) {
  int n, n_lost, host = find_host(j->present, name), listed = find_host(&j->listed, name);
  if (listed >= 0 && j->refused[listed]) return false;
  if (host < 0) return true;
  count_ranks(j, host, &n, &n_lost);
  return n_lost > 0;
}

/* Nobody is asked then. */
static void forget_listed(tool_joins *j) {
  tool_hosts_free(&j->listed);
  free(j->asking), free(j->answers), free(j->refused);
  j->asking = NULL;
  j->answers = j->refused = NULL;
}

/* Whether it has changed. A file that makes no sense may be one that is being written: what it held before counts until it has
 * changed again. */
static bool read_again(tool_joins *j) {
  struct stat info;
  tool_hosts hosts;
  if (stat(j->path, &info)) return false;
  bool same_time = info.st_mtim.tv_sec == j->changed.tv_sec && info.st_mtim.tv_nsec == j->changed.tv_nsec;
  if (same_time && info.st_size == j->bytes) return false;
  j->changed = info.st_mtim;
  j->bytes = info.st_size;
  if (tool_hosts_read(j->path, &hosts)) {
    tool_error_overcome();
    return false;
  }
  forget_listed(j);
  j->listed = hosts;
  j->asking = calloc((size_t)hosts.n, sizeof *j->asking);
  j->answers = calloc((size_t)hosts.n, sizeof *j->answers);
  j->refused = calloc((size_t)hosts.n, sizeof *j->refused);
  if (!j->asking || !j->answers || !j->refused) forget_listed(j);
  return true;
}

static void ask_absent(tool_joins *j) {
  for (int i = 0; i < j->listed.n; i++) {
    const char *name = j->listed.at[i].name;
    j->answers[i] = false;
    if (!is_lacking(j, name)) continue;
    j->asking[i] = tool_host_ask(name);
    j->n_asking += j->asking[i] != 0;
  }
}

static void note_answers(tool_joins *j) {
  for (int i = 0; i < j->listed.n; i++) {
    int code;
    if (!j->asking[i] || !tool_host_asked(j->asking[i], &code)) continue;
    j->answers[i] = code == 0 && is_lacking(j, j->listed.at[i].name);
    j->asking[i] = 0;
    j->n_asking--;
  }
}

bool tool_join_look(tool_joins *j) {
  if (j->n_asking == 0) {
    if (!read_again(j) && tool_now_s() < j->next_s) return false;
    ask_absent(j);
    j->next_s = tool_now_s() + ASK_S;
  }
  note_answers(j);
  bool any = false;
  for (int i = 0; i < j->listed.n; i++) any |= j->answers[i];
  return any && j->n_asking == 0;
}

bool tool_join_await(tool_joins *j, double until_s) {
  j->ranks = NULL;
  while (tool_now_s() < until_s && !tool_signal()) {
    if (tool_join_look(j)) return true;
    nanosleep(&(struct timespec){0, LOOK_MS * 1000000l}, NULL);
  }
  return false;
}

ronde_status tool_join_take(tool_joins *j, tool_hosts *hosts, char names_out[512]) {
  tool_host *all = calloc((size_t)(hosts->n + j->listed.n), sizeof *all);
  int n = 0, n_ranks, n_lost;
  if (!all) return tool_fail(RONDE_E_MEMORY, "no memory for the hosts");
  for (int i = 0; i < hosts->n; i++) {
    int listed = find_host(&j->listed, hosts->at[i].name);
    count_ranks(j, i, &n_ranks, &n_lost);
    if (n_lost == 0 || n_lost < n_ranks || (listed >= 0 && j->answers[listed])) all[n++] = hosts->at[i];
  }
  names_out[0] = 0;
  for (int i = 0; i < j->listed.n; i++) {
    if (!j->answers[i]) continue;
    size_t used = strlen(names_out);
    snprintf(names_out + used, 512 - used, "%s%s", used ? ", " : "", j->listed.at[i].name);
    if (find_host(hosts, j->listed.at[i].name) < 0) all[n++] = j->listed.at[i];
    j->answers[i] = false;
  }
  free(hosts->at);
  *hosts = (tool_hosts){.at = all, .n = n};
  tool_hosts_count_slots(hosts);
  return RONDE_OK;
}

void tool_join_refuse(tool_joins *j, tool_hosts *hosts, const char *names) {
  int n = 0;
  for (int i = 0; i < j->listed.n; i++) j->refused[i] |= tool_is_listed(names, j->listed.at[i].name);
  for (int i = 0; i < hosts->n; i++)
    if (!tool_is_listed(names, hosts->at[i].name)) hosts->at[n++] = hosts->at[i];
  hosts->n = n;
  tool_hosts_count_slots(hosts);
}

void tool_join_end(tool_joins *j) {
  for (int i = 0; i < j->listed.n; i++)
    if (j->asking && j->asking[i]) tool_host_ask_end(j->asking[i]);
  forget_listed(j);
}

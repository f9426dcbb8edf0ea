/* Who may join: the file is read again whenever it has changed, and hosts in it that have no rank are asked again and again,
 * each by a process, so that the launcher waits for none. So a host that was lost comes back once it answers. */
#include "join.h"

#include "reach.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ASK_S = 2 }; /* how often */

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

void tool_join_begin(tool_joins *joins, const char *path, const tool_hosts *present) {
  *joins = (tool_joins){.path = path, .present = present, .next_s = tool_now_s() + ASK_S};
}

static bool has_host(const tool_hosts *hosts, const char *name) {
  for (int i = 0; i < hosts->n; i++)
    if (!strcmp(hosts->at[i].name, name)) return true;
  return false;
}

/* Nobody is asked then. */
static void forget_listed(tool_joins *j) {
  tool_hosts_free(&j->listed);
  free(j->asking), free(j->answers);
  j->asking = NULL;
  j->answers = NULL;
}

/* A file that makes no sense may be one that is being written: what it held before counts until it has changed again. */
static void read_again(tool_joins *j) {
  struct stat info;
  tool_hosts hosts;
  if (stat(j->path, &info)) return;
  if (info.st_mtim.tv_sec == j->changed.tv_sec && info.st_mtim.tv_nsec == j->changed.tv_nsec) return;
  j->changed = info.st_mtim;
  if (tool_hosts_read(j->path, &hosts)) {
    tool_error_overcome();
    return;
  }
  forget_listed(j);
  j->listed = hosts;
  j->asking = calloc((size_t)hosts.n, sizeof *j->asking);
  j->answers = calloc((size_t)hosts.n, sizeof *j->answers);
  if (!j->asking || !j->answers) forget_listed(j);
}

static void ask_absent(tool_joins *j) {
  for (int i = 0; i < j->listed.n; i++) {
    const char *name = j->listed.at[i].name;
    j->answers[i] = false;
    if (has_host(j->present, name)) continue;
    pid_t child = fork();
    if (child == 0) {
      signal(SIGINT, SIG_DFL), signal(SIGTERM, SIG_DFL);
      _exit(tool_host_answers(name) ? 0 : 1);
    }
    if (child < 0) continue;
    j->asking[i] = child;
    j->n_asking++;
  }
}

static void note_answers(tool_joins *j) {
  for (int i = 0; i < j->listed.n; i++) {
    int state;
    if (!j->asking[i] || waitpid(j->asking[i], &state, WNOHANG) == 0) continue;
    j->answers[i] = WIFEXITED(state) && WEXITSTATUS(state) == 0;
    j->asking[i] = 0;
    j->n_asking--;
  }
}

bool tool_join_look(tool_joins *j) {
  if (j->n_asking == 0) {
    if (tool_now_s() < j->next_s) return false;
    read_again(j);
    ask_absent(j);
    j->next_s = tool_now_s() + ASK_S;
  }
  note_answers(j);
  bool any = false;
  for (int i = 0; i < j->listed.n; i++) any |= j->answers[i];
  return any && j->n_asking == 0;
}

ronde_status tool_join_take(tool_joins *j, tool_hosts *hosts, char names_out[512]) {
  tool_host *all = calloc((size_t)(hosts->n + j->listed.n), sizeof *all);
  int n = hosts->n;
  if (!all) return tool_fail(RONDE_E_MEMORY, "no memory for the hosts");
  memcpy(all, hosts->at, (size_t)hosts->n * sizeof *all);
  names_out[0] = 0;
  for (int i = 0; i < j->listed.n; i++) {
    if (!j->answers[i] || has_host(hosts, j->listed.at[i].name)) continue;
    size_t used = strlen(names_out);
    snprintf(names_out + used, 512 - used, "%s%s", used ? ", " : "", j->listed.at[i].name);
    all[n++] = j->listed.at[i];
    j->answers[i] = false;
  }
  free(hosts->at);
  *hosts = (tool_hosts){.at = all, .n = n};
  tool_hosts_count_slots(hosts);
  return RONDE_OK;
}

void tool_join_end(tool_joins *j) {
  for (int i = 0; i < j->listed.n; i++)
    if (j->asking && j->asking[i]) kill(j->asking[i], SIGKILL), waitpid(j->asking[i], NULL, 0);
  forget_listed(j);
}

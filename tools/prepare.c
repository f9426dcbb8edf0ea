/* The start that is prepared while another is under way: mpirun is started on all hosts, and MPI in all ranks. Rank 0 then waits for
 * a word of ours, in front of looking for the state. So those that train stop for saving and reading the state alone when hosts
 * join, and one that cannot join after all keeps nobody from training; and after a loss it is ready when the others have saved. */
#include "handover.h"
#include "launch.h"
#include "restart.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ronde_status copy_hosts(const tool_hosts *from, tool_hosts *to) {
  tool_host *at = from->n ? malloc((size_t)from->n * sizeof *at) : NULL;
  if (from->n && !at) return tool_fail(RONDE_E_MEMORY, "no memory for the hosts");
  if (at) memcpy(at, from->at, (size_t)from->n * sizeof *at);
  *to = *from;
  to->at = at;
  return RONDE_OK;
}

static ronde_status prepare(const tool_launched *l, tool_launched *next, bool joins) {
  int n_servers = ronde_config_server_ranks(l->call->config);
  ronde_status status = copy_hosts(&l->hosts, &next->hosts);
  if (status == RONDE_OK && joins) status = tool_join_take(l->joins, &next->hosts, next->joiners);
  if (status != RONDE_OK) return status;
  next->n_ranks = joins ? tool_hosts_ranks(&next->hosts, n_servers) : tool_restart_guess(l, &next->hosts);
  if (next->n_ranks == 0) return RONDE_E_LOST;
  next->joins = NULL;
  next->waits = true;
  status = tool_restart_words(l->call, next->n_ranks - n_servers, &next->words);
  return status == RONDE_OK ? tool_launch_begin(next) : status;
}

/* False: there is none, which is said; the run goes on. */
static bool begin(tool_launched *l, bool joins) {
  tool_launched *next = tool_launch_fresh(l);
  ronde_status status = next ? prepare(l, next, joins) : tool_fail(RONDE_E_MEMORY, "no memory for another start");
  if (status == RONDE_OK) {
    l->next = next;
    return true;
  }
  tool_error_overcome();
  if (next) tool_launch_end(next);
  return false;
}

void tool_prepare_joining(tool_launched *l) {
  if (!begin(l, true)) tool_join_put_off(l->joins);
}

void tool_prepare_restart(tool_launched *l) { begin(l, false); }

static void say_why_not(const tool_launched *l, tool_launched *next) {
  const char *not_started = tool_why_not_started(next);
  char why[1024];
  if (!tool_unsaid_error(next, why, sizeof why)) {
    if (not_started) snprintf(why, sizeof why, "%s", not_started);
    else if (*next->lost_daemon) snprintf(why, sizeof why, "host %s was lost", next->lost_daemon);
    else snprintf(why, sizeof why, "the start with it has failed");
  }
  if (!tool_signal()) tool_say("warning: %s does not join: %s", next->joiners, why);
  tool_join_put_off(l->joins);
}

void tool_prepare_fail(tool_launched *l) {
  if (*l->next->joiners) say_why_not(l, l->next);
  tool_launch_end(l->next);
  l->next = NULL;
}

bool tool_prepare_fits(const tool_launched *l, int n_ranks) {
  const tool_launched *next = l->next;
  bool fits = next && next->n_ranks == n_ranks && next->hosts.n == l->hosts.n;
  for (int i = 0; fits && i < l->hosts.n; i++)
    fits = !strcmp(next->hosts.at[i].name, l->hosts.at[i].name) && next->hosts.at[i].slots == l->hosts.at[i].slots;
  return fits;
}

void tool_prepare_let_begin(tool_launched *l) {
  tool_launched *next = l->next;
  double now = tool_now_s();
  char *line = tool_begin_write(next->key, next->noted->text ? next->noted->text : "[]");
  dprintf(next->begin, "%s\n", line ? line : ""); /* if it has ended, that will be seen */
  free(line);
  close(next->begin);
  next->begin = -1;
  if (next->joined) { /* what it has waited does not count */
    next->begin_s += now - next->joined_s;
    next->joined_s = now;
  }
  tool_say_unsaid(next);
}

void tool_prepare_end(tool_launched *l) {
  if (!l->next) return;
  tool_watch_abandon(l->next);
  tool_launch_end(l->next);
  l->next = NULL;
}

/* The start that is prepared for hosts that join: mpirun is started on all hosts, and MPI in all ranks, while the run is under way.
 * Rank 0 then waits for a word of ours, in front of looking for the state. So the others stop for saving and reading the state
 * alone, and a host that cannot join after all keeps nobody from training. */
#include "handover.h"
#include "launch.h"
#include "restart.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ronde_status copy_hosts(const tool_hosts *from, tool_hosts *to) {
  tool_host *at = malloc((size_t)from->n * sizeof *at);
  if (!at) return tool_fail(RONDE_E_MEMORY, "no memory for the hosts");
  memcpy(at, from->at, (size_t)from->n * sizeof *at);
  *to = *from;
  to->at = at;
  return RONDE_OK;
}

static ronde_status prepare(const tool_launched *l, tool_launched *next) {
  int n_servers = ronde_config_server_ranks(l->call->config);
  char **words = NULL;
  ronde_status status = copy_hosts(&l->hosts, &next->hosts);
  if (status == RONDE_OK) status = tool_join_take(l->joins, &next->hosts, next->joiners);
  if (status != RONDE_OK) return status;
  next->n_ranks = tool_hosts_ranks(&next->hosts, n_servers);
  next->joins = NULL;
  next->waits = true;
  status = tool_restart_words(l->call, next->n_ranks - n_servers, &words);
  if (status == RONDE_OK) status = tool_launch_begin(next, words);
  tool_rank_words_free(words);
  return status;
}

void tool_prepare_begin(tool_launched *l) {
  tool_launched *next = tool_launch_fresh(l);
  ronde_status status = next ? prepare(l, next) : tool_fail(RONDE_E_MEMORY, "no memory for who joins");
  if (status == RONDE_OK) {
    l->next = next;
    return;
  }
  tool_error_overcome(); /* the run goes on */
  tool_join_put_off(l->joins);
  if (next) tool_launch_end(next);
}

void tool_prepare_fail(tool_launched *l) {
  tool_launched *next = l->next;
  const char *not_started = tool_why_not_started(next);
  char why[1024];
  if (!tool_unsaid_error(next, why, sizeof why)) {
    if (not_started) snprintf(why, sizeof why, "%s", not_started);
    else if (*next->lost_daemon) snprintf(why, sizeof why, "host %s was lost", next->lost_daemon);
    else snprintf(why, sizeof why, "the start with it has failed");
  }
  if (!tool_signal()) tool_say("warning: %s does not join: %s", next->joiners, why);
  tool_join_put_off(l->joins);
  tool_launch_end(next);
  l->next = NULL;
}

/* It waits for nothing else, and takes all of it at once. */
static void tell(tool_launched *next, const char *line) {
  struct {
    const char *text;
    size_t n;
  } parts[] = {{line, line ? strlen(line) : 0}, {"\n", 1}};
  for (int i = 0; i < 2; i++)
    for (size_t done = 0; done < parts[i].n;) {
      ssize_t n = write(next->begin, parts[i].text + done, parts[i].n - done);
      if (n < 0 && errno != EINTR) return; /* it has ended, as will be seen */
      done += n > 0 ? (size_t)n : 0;
    }
}

void tool_prepare_let_begin(tool_launched *l) {
  tool_launched *next = l->next;
  double now = tool_now_s();
  tool_restart_join(l, next);
  char *line = tool_begin_write(next->key, next->noted->text ? next->noted->text : "[]");
  tell(next, line);
  free(line);
  close(next->begin);
  next->begin = -1;
  next->begin_s += now - next->joined_s;
  next->joined_s = now;
  tool_say_unsaid(next);
}

tool_launched *tool_prepare_take(tool_launched *l) {
  tool_launched *next = l->next;
  if (!next || next->waits) return NULL;
  next->joins = l->joins;
  l->next = NULL;
  return next;
}

void tool_prepare_end(tool_launched *l) {
  if (!l->next) return;
  tool_watch_abandon(l->next);
  tool_launch_end(l->next);
  l->next = NULL;
}

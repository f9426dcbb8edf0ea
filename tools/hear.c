/* What comes from mpirun: lines of the ranks, which go through, marks, which tell how the ranks stand, and what mpirun says
 * itself, which is kept. */
#include "launch.h"
#include "reach.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- processes ---- */

/* Of one that is not our child and has been waited for by its parent, which only a newer system (Linux 6.15) tells: the
 * signal that ended it, 0: none did, -1: not known. */
static int signal_of(int end) {
  struct {
    uint64_t mask, cgroup;
    uint32_t ids[11];
    int32_t status;
  } info = {.mask = 1 << 3};
  _Static_assert(sizeof info == 64, "as the system has it");
  if (end < 0 || ioctl(end, _IOWR(0xff, 11, info), &info) || !(info.mask & 1 << 3)) return -1;
  return WIFSIGNALED(info.status) ? WTERMSIG(info.status) : 0;
}

static tool_rank *rank_of(tool_launched *l, int rank) {
  return rank >= 0 && rank < l->n_ranks ? &l->ranks[rank] : NULL;
}

/* ---- what mpirun says ---- */

void tool_add_line(char *text, size_t size, const char *line) {
  size_t used = strlen(text);
  snprintf(text + used, size - used, "%s\n", line);
}

static bool begins(const char *text, const char *const *starts, int n) {
  bool any = false;
  for (int i = 0; i < n; i++) any |= strncmp(text, starts[i], strlen(starts[i])) == 0;
  return any;
}

/* Once no rank is left mpirun ends all daemons, each of which then says that it has failed. */
static bool any_rank_runs(const tool_launched *l) {
  bool any = false;
  for (int i = 0; i < l->n_ranks; i++) any |= !l->ranks[i].ended && !l->ranks[i].gone;
  return any;
}

static void note_lost_daemon(tool_launched *l, const char host[TOOL_MARK_NAME]) {
  memcpy(l->lost_daemon, host, sizeof l->lost_daemon);
  for (int i = 0; i < l->n_ranks; i++) l->ranks[i].away |= !strcmp(l->ranks[i].listed, host);
}

void tool_note_silent(tool_launched *l, int daemon) {
  l->n_silent++;
  note_lost_daemon(l, l->daemon_hosts[daemon]);
}

static void note_daemon(tool_launched *l, int number, const char *state) {
  static const char *const lost[] = {"COMMUNICATION FAILURE", "HEARTBEAT FAILED", "FAILED TO START"};
  if (l->stage != TOOL_RUNS || l->n_silent || !any_rank_runs(l)) return;
  if (number >= 1 && number < l->n_daemons && begins(state, lost, 3)) note_lost_daemon(l, l->daemon_hosts[number]);
}

static void note_no_program(tool_launched *l, const tool_rank *rank) {
  char self[4096];
  if (!*rank->listed || !tool_self_path(self, sizeof self)) return;
  snprintf(l->failed_host, sizeof l->failed_host, "%s", rank->listed);
  snprintf(l->failed_why, sizeof l->failed_why, TOOL_NO_PROGRAM, rank->host, self);
}

static void note_rank(tool_launched *l, int number, const char *state) {
  static const char signalled[] = "ABORTED BY SIGNAL";
  static const char *const gone[] = {
      signalled,     "EXITED WITH NON-ZERO STATUS", "TERMINATED WITHOUT SYNC", "FAILED TO START", "FAILED TO LAUNCH",
      "CALLED ABORT"};
  tool_rank *rank = rank_of(l, number);
  if (!rank || !begins(state, gone, 6)) return;
  rank->gone = true;
  rank->reported |= l->stage == TOOL_RUNS; /* mpirun takes them all for ended once it is told to end */
  if (!rank->begun && !l->ended_early && l->stage == TOOL_RUNS) l->ended_early = number + 1;
  if (begins(state, gone + 3, 2) && !*l->failed_why) note_no_program(l, rank);
  if (!begins(state, gone, 1) || rank->ended || l->killed_signal) return;
  l->killed_rank = number;
  l->killed_signal = signal_of(rank->end);
  if (l->killed_signal == 0) l->killed_signal = -1;
  snprintf(l->lost_host, sizeof l->lost_host, "%s", rank->host);
}

/* "ACTIVATE PROC [[JOB,1],RANK] STATE ...": what has become of a process; of job 0 are the daemons. True for all lines of
 * that kind. */
static bool note_state(tool_launched *l, const char *line) {
  const char *at = strstr(line, " ACTIVATE ");
  char state[64];
  int job, number;
  if (!at) return false;
  if (sscanf(at, " ACTIVATE PROC [[%*d,%d],%d] STATE %63[^\n]", &job, &number, state) != 3) return true;
  if (job == 0) note_daemon(l, number, state);
  else note_rank(l, number, state);
  return true;
}

/* "Node:   b": what stands behind such a name. */
static bool read_field(const char *line, const char *name, char *value, size_t size) {
  line += strspn(line, " ");
  if (strncmp(line, name, strlen(name)) != 0) return false;
  line += strlen(name);
  snprintf(value, size, "%s", line + strspn(line, " "));
  return true;
}

/* In its words on a program that it could not start, in whatever order. */
static void note_block(tool_launched *l, const char *line) {
  char value[256];
  if (read_field(line, "Node:", value, sizeof value)) snprintf(l->block_host, sizeof l->block_host, "%.199s", value);
  if (read_field(line, "Executable:", value, sizeof value))
    snprintf(l->block_what, sizeof l->block_what, "there is no program %s there that can be run", value);
  if (read_field(line, "Working directory:", value, sizeof value))
    snprintf(l->block_what, sizeof l->block_what, "there is no folder %s there", value);
  if (read_field(line, "Error:", value, sizeof value) || read_field(line, "Error name:", value, sizeof value))
    snprintf(l->block_what, sizeof l->block_what, "the program cannot be started there: %s", value);
}

/* `from`: as that host calls itself. What was to go through such a connection is lost, and waited for without end; where there are
 * several networks, the ranks may join by another one. A rank that cannot connect at once ends, so that others do not reach it
 * either, which may be heard first. */
static void note_apart(tool_launched *l, const char *from, const char *to, bool at_once) {
  bool known = l->apart_s > 0 ? !at_once || l->apart_at_once : *l->failed_why != 0;
  if (l->joined || known) return;
  if (l->apart_s == 0) l->apart_s = tool_now_s();
  l->apart_at_once = at_once;
  snprintf(l->failed_host, sizeof l->failed_host, "%s", from);
  for (int i = 0; i < l->n_ranks; i++)
    if (!strcmp(l->ranks[i].host, from)) memcpy(l->failed_host, l->ranks[i].listed, sizeof l->failed_host);
  snprintf(l->failed_why, sizeof l->failed_why,
           "host %s does not reach %s, where a rank listens: a firewall or the network between them is in the way "
           "(--iface chooses the network)",
           l->failed_host, to);
}

/* Open MPI's two ways of telling that a rank cannot connect to another: at once, or later in a block. */
static void note_connect(tool_launched *l, const char *line) {
  char value[256], from[64], to[64];
  const char *at = strstr(line, "] from ");
  if (at && sscanf(at, "] from %63s to: %*s Unable to connect to the peer %63s on port", from, to) == 2)
    note_apart(l, from, to, true);
  if (read_field(line, "Local host:", value, sizeof value)) snprintf(l->local, sizeof l->local, "%.63s", value);
  if (read_field(line, "Message:", value, sizeof value) && sscanf(value, "connect() to %63[^: ]", to) == 1)
    note_apart(l, l->local, to, false);
}

const char *tool_why_not_started(tool_launched *l) {
  if (!*l->failed_host && *l->block_host && *l->block_what) {
    snprintf(l->failed_host, sizeof l->failed_host, "%s", l->block_host);
    snprintf(l->failed_why, sizeof l->failed_why, "host %s: %s", l->block_host, l->block_what);
  }
  if (!*l->failed_why && l->ended_early) {
    const char *host = l->ranks[l->ended_early - 1].host;
    snprintf(l->failed_why, sizeof l->failed_why, "rank %d%s%s has ended before it could begin", l->ended_early - 1,
             *host ? " on host " : "", host);
  }
  return *l->failed_why ? l->failed_why : NULL;
}

/* Of its ssh, which on a busy host may be quicker to make itself a process group than mpirun is to make it one. */
static bool is_idle_warning(const char *line) { return strstr(line, "plm:rsh: Warning: setpgid(") != NULL; }

static void note_mpirun(tool_launched *l, const char *line) {
  if (note_state(l, line) || is_idle_warning(line)) return;
  tool_add_line(l->said, sizeof l->said, line);
  if (l->n_begun < l->n_ranks) note_block(l, line);
  note_connect(l, line);
  char host[200];
  int rank, number;
  const char *at = strstr(line, "process rank ");
  if (at && sscanf(at, "process rank %d with PID %*d on node %199s exited on signal %d", &rank, host, &number) == 3) {
    l->killed_rank = rank;
    l->killed_signal = number;
    snprintf(l->lost_host, sizeof l->lost_host, "%s", host);
  }
  at = strstr(line, "Remote daemon: ");
  if (at && sscanf(at, "Remote daemon: %*s on node %199s", host) == 1)
    snprintf(l->lost_host, sizeof l->lost_host, "%s", host);
}

/* ---- marks ---- */

static void note_begin(tool_launched *l, const tool_mark *mark) {
  char own[64] = "";
  tool_rank *rank = rank_of(l, mark->number);
  if (!rank || rank->begun) return;
  gethostname(own, sizeof own - 1);
  rank->begun = true;
  rank->pid = strcmp(mark->name, own) ? 0 : (pid_t)mark->a;
  rank->end = tool_process_open(rank->pid);
  snprintf(rank->host, sizeof rank->host, "%.63s", mark->name);
  l->n_begun++;
}

/* A rank that was cut off, or hears that another has gone (4), knows less than one that names a cause. */
static void note_end(tool_launched *l, const tool_mark *mark) {
  tool_rank *rank = rank_of(l, mark->number);
  int code = (int)mark->a;
  if (!rank || rank->ended) return;
  rank->ended = true;
  rank->code = code;
  l->n_ended++;
  bool is_told = l->restarts && l->error_seen;                         /* that all ends by a loss: it may be rank 0's */
  if (l->goes_on && mark->number > 0 && code == 4 && !is_told) return; /* its own loss, or what rank 0 will say too */
  bool better = l->code <= 0 || (l->code == 4 && code != 4 && code != 0);
  if (l->code < 0 || (code != 0 && better)) l->code = code;
}

static void note_joined(tool_launched *l) {
  l->joined = true;
  l->joined_s = tool_now_s();
  if (l->apart_s > 0) *l->failed_host = *l->failed_why = 0;
  l->apart_s = 0;
  tool_session_note_joined(&l->session);
}

static void note_lost(tool_launched *l, const tool_mark *mark) {
  tool_rank *rank = rank_of(l, mark->number);
  if (!rank) return;
  rank->told = true;
  rank->resumed_step = mark->a;
  rank->step = mark->b;
}

static void note_without(tool_launched *l, const tool_mark *mark) {
  tool_rank *rank = rank_of(l, mark->number);
  if (rank) rank->gone = true;
}

static void note_asked(tool_launched *l, const tool_mark *mark) {
  if (mark->number < l->n_daemons) memcpy(l->daemon_hosts[mark->number], mark->name, sizeof mark->name);
}

/* At the start, the reason why it fails; later, the host's daemon has ended. */
static void note_unreached(tool_launched *l, const tool_mark *mark) {
  tool_add_line(l->said_there, sizeof l->said_there, mark->text);
  if (l->stage != TOOL_RUNS || l->n_silent || !any_rank_runs(l) || *l->failed_host) return;
  if (l->n_begun == l->n_ranks) { /* a request may have ended ssh, or the shell there, and not the daemon */
    if (!tool_signal()) note_lost_daemon(l, mark->name);
    return;
  }
  memcpy(l->failed_host, mark->name, sizeof mark->name);
  snprintf(l->failed_why, sizeof l->failed_why, "%s", mark->text);
}

/* Daemons tell what becomes of their ranks too. */
static void note_said(tool_launched *l, const tool_mark *mark) {
  char line[TOOL_MARK_NAME + sizeof mark->text + 4];
  if (note_state(l, mark->text)) return;
  snprintf(line, sizeof line, "%s: %s", mark->name, mark->text);
  tool_add_line(l->said_there, sizeof l->said_there, line);
}

static void take_mark(tool_launched *l, const tool_mark *mark) {
  switch (mark->kind) {
  case TOOL_MARK_BEGIN: note_begin(l, mark); break;
  case TOOL_MARK_JOINED: note_joined(l); break;
  case TOOL_MARK_READY: l->ready = true; break;
  case TOOL_MARK_TRAINS: l->trained = true; break;
  case TOOL_MARK_LOST: note_lost(l, mark); break;
  case TOOL_MARK_WITHOUT: note_without(l, mark); break;
  case TOOL_MARK_END: note_end(l, mark); break;
  case TOOL_MARK_ASKED: note_asked(l, mark); break;
  case TOOL_MARK_SAID: note_said(l, mark); break;
  case TOOL_MARK_UNREACHED: note_unreached(l, mark); break;
  case TOOL_N_MARKS: break;
  }
}

static void note_mark(tool_launched *l, const char *text) {
  tool_mark mark;
  tool_verdict verdict = tool_mark_read(l->key, text, &mark);
  if (verdict == TOOL_MARK_GOOD) {
    take_mark(l, &mark);
  } else if (!l->refused[verdict]) {
    char shown[TOOL_SHOWN];
    l->refused[verdict] = true;
    tool_say("a message that claims to be of a rank of this run was refused: %s; it changes nothing: '%s'",
             tool_verdict_text(verdict), tool_shown(text, shown));
  }
}

/* ---- lines ---- */

static bool is_rule(const char *line) { return strspn(line, "-") >= 60; }

static void keep_unsaid(tool_launched *l, int to, const char *line) {
  size_t used = l->unsaid ? strlen(l->unsaid) : 0, size = used + strlen(line) + 3;
  char *longer = realloc(l->unsaid, size);
  if (!longer) return;
  l->unsaid = longer;
  snprintf(longer + used, size - used, "%c%s\n", to == STDOUT_FILENO ? '1' : '2', line);
}

/* Inside its blocks mpirun names no source; ranks print none of its rules. */
static void take_rank_line(tool_launched *l, tool_stream *s, const char *line) {
  const char *mark = strstr(line, TOOL_MARK);
  if (mark) {
    note_mark(l, mark + strlen(TOOL_MARK));
  } else if (is_rule(line)) {
    l->in_block = !l->in_block;
  } else if (s->to == STDERR_FILENO &&
             (l->in_block || line[0] == '[' || strncmp(line, TOOL_MPIRUN ": ", sizeof TOOL_MPIRUN) == 0)) {
    note_mpirun(l, line);
  } else if (l->joining || l->waits) {
    keep_unsaid(l, s->to, line);
  } else {
    bool is_error = strncmp(line, "ronde: error: ", 14) == 0, again = is_error && strcmp(line, l->last_error) == 0;
    if (is_error) snprintf(l->last_error, sizeof l->last_error, "%s", line);
    if (is_error && l->error_seen && !again) tool_add_line(l->held, sizeof l->held, line);
    else if (!again) dprintf(s->to, "%s\n", line);
    if (is_error && !l->error_seen) snprintf(l->first_error, sizeof l->first_error, "%s", line);
    l->error_seen |= is_error;
  }
}

bool tool_unsaid_error(const tool_launched *l, char *text, size_t size) {
  static const char start[] = "2ronde: error: ";
  const char *at = l->unsaid;
  while (at && *at && strncmp(at, start, sizeof start - 1) != 0) {
    at += strcspn(at, "\n");
    at += *at == '\n';
  }
  if (!at || !*at) return false;
  at += sizeof start - 1;
  snprintf(text, size, "%.*s", (int)strcspn(at, "\n"), at);
  return true;
}

void tool_say_unsaid(tool_launched *l) {
  char *kept = l->unsaid;
  l->joining = l->waits = false;
  l->unsaid = NULL;
  for (char *at = kept, *newline; at && (newline = strchr(at, '\n')); at = newline + 1) {
    *newline = 0;
    take_rank_line(l, &(tool_stream){.to = *at == '1' ? STDOUT_FILENO : STDERR_FILENO}, at + 1);
  }
  free(kept);
}

bool tool_hear(tool_launched *l, tool_stream *s) {
  ssize_t got = read(s->from, s->line + s->n, sizeof s->line - 1 - s->n);
  if (got < 0 && errno == EINTR) return true;
  if (got > 0) s->n += (size_t)got;
  s->line[s->n] = 0;
  char *begin = s->line, *newline;
  while ((newline = strchr(begin, '\n'))) {
    *newline = 0;
    take_rank_line(l, s, begin);
    begin = newline + 1;
  }
  s->n -= (size_t)(begin - s->line);
  memmove(s->line, begin, s->n + 1);
  if (s->n == sizeof s->line - 1 || (got <= 0 && s->n)) {
    take_rank_line(l, s, s->line);
    s->n = 0;
  }
  return got > 0;
}

/* Watching over mpirun, and over what it has started. The ranks' own lines go through; what mpirun itself says is kept,
 * and shown only where nothing else explains the end. Nothing is waited for without a limit: what does not end by itself
 * is ended by mpirun, and what mpirun does not end is killed. */
#include "launch.h"
#include "limits.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_MS = 100, CLOSING_MS = 5, SHOWN_LINES = 3 };

/* ---- processes ---- */

static int open_process(pid_t pid) {
#ifdef SYS_pidfd_open
  return pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0u) : -1;
#else
  (void)pid;
  return -1;
#endif
}

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

/* ---- what comes from mpirun ---- */

static tool_rank *rank_of(tool_launched *l, int rank) {
  return rank >= 0 && rank < l->n_ranks ? &l->ranks[rank] : NULL;
}

static void note_begin(tool_launched *l, const char *words) {
  int number, pid;
  char host[64], own[64] = "";
  tool_rank *rank = sscanf(words, "%d %d %63s", &number, &pid, host) == 3 ? rank_of(l, number) : NULL;
  if (!rank || rank->begun) return;
  gethostname(own, sizeof own - 1);
  *rank = (tool_rank){.begun = true, .gone = rank->gone, .pid = strcmp(host, own) ? 0 : pid};
  rank->end = open_process(rank->pid);
  memcpy(rank->host, host, sizeof host);
  l->n_begun++;
}

/* A rank that was cut off, or hears that another has gone (4), knows less than one that names a cause. */
static void note_end(tool_launched *l, const char *words) {
  int number, code;
  tool_rank *rank = sscanf(words, "%d %d", &number, &code) == 2 ? rank_of(l, number) : NULL;
  if (!rank || rank->ended) return;
  rank->ended = true;
  rank->code = code;
  l->n_ended++;
  if (l->goes_on && number > 0 && code == 4) return; /* of its own loss, or of what rank 0 will say too */
  bool better = l->code <= 0 || (l->code == 4 && code != 4 && code != 0);
  if (l->code < 0 || (code != 0 && better)) l->code = code;
}

static void note_lost(tool_launched *l, const char *words) {
  int number;
  long long resumed, step;
  tool_rank *rank = sscanf(words, "%d %lld %lld", &number, &resumed, &step) == 3 ? rank_of(l, number) : NULL;
  if (!rank) return;
  rank->told = true;
  rank->resumed_step = resumed;
  rank->step = step;
}

static void note_without(tool_launched *l, const char *words) {
  tool_rank *rank = rank_of(l, (int)strtol(words, NULL, 10));
  if (rank) rank->gone = true;
}

static void note_mark(tool_launched *l, const char *mark) {
  size_t begin = sizeof TOOL_MARK_BEGIN - 1, lost = sizeof TOOL_MARK_LOST - 1, end = sizeof TOOL_MARK_END - 1;
  size_t without = sizeof TOOL_MARK_WITHOUT - 1;
  if (!strncmp(mark, TOOL_MARK_LOST, lost)) note_lost(l, mark + lost);
  else if (!strncmp(mark, TOOL_MARK_WITHOUT, without)) note_without(l, mark + without);
  else if (!strncmp(mark, TOOL_MARK_BEGIN, begin)) note_begin(l, mark + begin);
  else if (!strncmp(mark, TOOL_MARK_END, end)) note_end(l, mark + end);
  else if (!strcmp(mark, TOOL_MARK_JOINED)) l->joined = true;
}

static void add_line(char *text, size_t size, const char *line) {
  size_t used = strlen(text);
  snprintf(text + used, size - used, "%s\n", line);
}

/* "ACTIVATE PROC [[JOB,1],RANK] STATE ...": what has become of a process. True for all lines of that kind. */
static bool note_state(tool_launched *l, const char *line) {
  static const char signalled[] = "ABORTED BY SIGNAL", exited[] = "EXITED WITH NON-ZERO STATUS",
                    silent[] = "TERMINATED WITHOUT SYNC";
  const char *at = strstr(line, " ACTIVATE ");
  char state[64];
  int number;
  if (!at) return false;
  if (sscanf(at, " ACTIVATE PROC [[%*d,%*d],%d] STATE %63[^\n]", &number, state) != 2) return true;
  tool_rank *rank = rank_of(l, number);
  bool killed = strncmp(state, signalled, sizeof signalled - 1) == 0;
  if (!rank || (!killed && strncmp(state, exited, sizeof exited - 1) && strncmp(state, silent, sizeof silent - 1)))
    return true;
  rank->gone = true;
  if (!killed || rank->ended || l->killed_signal) return true;
  l->killed_rank = number;
  l->killed_signal = signal_of(rank->end);
  if (l->killed_signal == 0) l->killed_signal = -1;
  snprintf(l->lost_host, sizeof l->lost_host, "%s", rank->host);
  return true;
}

static void note_mpirun(tool_launched *l, const char *line) {
  if (note_state(l, line)) return;
  add_line(l->said, sizeof l->said, line);
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

static bool is_rule(const char *line) { return strspn(line, "-") >= 60; }

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
  } else {
    bool is_error = strncmp(line, "ronde: error: ", 14) == 0, again = is_error && strcmp(line, l->last_error) == 0;
    if (is_error) snprintf(l->last_error, sizeof l->last_error, "%s", line);
    if (is_error && l->error_seen && !again) add_line(l->held, sizeof l->held, line);
    else if (!again) dprintf(s->to, "%s\n", line);
    if (is_error && !l->error_seen) snprintf(l->first_error, sizeof l->first_error, "%s", line);
    l->error_seen |= is_error;
  }
}

/* False at the end of the stream. */
static bool take_output(tool_launched *l, tool_stream *s) {
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

/* Takes what is there, or comes within LOOK_MS; false: nothing came. */
static bool take_some(tool_launched *l) {
  struct pollfd files[2];
  bool any = false, all_closed = true;
  for (int i = 0; i < 2; i++) {
    files[i] = (struct pollfd){.fd = l->streams[i].from, .events = POLLIN};
    all_closed &= files[i].fd < 0;
  }
  if (poll(files, 2, all_closed ? CLOSING_MS : LOOK_MS) <= 0) return false;
  for (int i = 0; i < 2; i++) {
    if (files[i].fd < 0 || !files[i].revents) continue;
    any = true;
    if (take_output(l, &l->streams[i])) continue;
    close(files[i].fd);
    l->streams[i].from = -1;
  }
  return any;
}

/* ---- limits ---- */

/* The earliest end counts, with the reason for it. */
static void set_end(tool_launched *l, double after_s, tool_reason reason) {
  double end = tool_now_s() + after_s;
  if (l->stage != TOOL_RUNS || (l->end_by_s > 0 && end >= l->end_by_s)) return;
  l->end_by_s = end;
  l->reason = reason;
}

/* By a rank's word, and not because it was asked to end. */
static bool has_failed(const tool_launched *l) { return l->code > 0 && l->code < 128; }

/* Those that are left have come to their end without the others. */
static bool is_over(const tool_launched *l) { return l->goes_on && l->ranks[0].ended && !has_failed(l); }

/* All that are left have ended, and mpirun alone may not know it. */
static bool are_all_over(const tool_launched *l) {
  bool all = is_over(l);
  for (int i = 0; i < l->n_ranks; i++) all &= l->ranks[i].ended || l->ranks[i].gone;
  return all;
}

/* What the others have, once one has ended otherwise than well: of a run that is to go on, the time to save. Ranks that
 * have not joined yet have nothing to save, and wait for the one that is gone. */
static double last_words_s(const tool_launched *l) {
  if (!l->restarts) return TOOL_LAST_WORDS_S;
  return l->joined ? l->grace_s : TOOL_AT_ONCE_S;
}

/* A state (R, S, T, ...) and the signals that wait for being taken, of mpirun. */
static bool read_state(pid_t pid, char *state_out, unsigned long long *pending_out) {
  char path[64], line[256];
  snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
  FILE *file = fopen(path, "r");
  *state_out = 0;
  *pending_out = 0;
  while (file && fgets(line, sizeof line, file)) {
    unsigned long long pending;
    sscanf(line, "State: %c", state_out);
    if (sscanf(line, "SigPnd: %llx", &pending) == 1 || sscanf(line, "ShdPnd: %llx", &pending) == 1)
      *pending_out |= pending;
  }
  if (file) fclose(file);
  return *state_out != 0;
}

static unsigned long long bit_of(int signal_number) { return 1ull << (signal_number - 1); }

/* It leaves SIGTERM and SIGINT to us (launch.c): one that was sent to it alone is one of ours. */
static void look_at_mpirun(tool_launched *l) {
  char state;
  unsigned long long pending;
  if (!read_state(l->mpirun, &state, &pending)) return;
  if (!tool_signal() && (pending & (bit_of(SIGTERM) | bit_of(SIGINT))))
    raise(pending & bit_of(SIGTERM) ? SIGTERM : SIGINT);
  bool stopped = state == 'T' || state == 't';
  if (stopped && l->stopped_s == 0) l->stopped_s = tool_now_s();
  if (!stopped) l->stopped_s = 0;
  if (stopped && tool_now_s() - l->stopped_s > l->timeout_s) set_end(l, 0, TOOL_BY_STOP);
}

/* A rank of this host that has gone without a word: mpirun, which should have noticed, may hang. */
static void look_at_ranks(tool_launched *l) {
  if (tool_now_s() - l->looked_s < TOOL_LOOK_S) return;
  l->looked_s = tool_now_s();
  for (int i = 0; i < l->n_ranks; i++) {
    const tool_rank *rank = &l->ranks[i];
    char state;
    unsigned long long pending;
    if (rank->ended || (l->goes_on && l->joined && i > 0)) continue;
    if (rank->gone) set_end(l, last_words_s(l), TOOL_BY_FAILURE);
    if (rank->pid == 0) continue;
    if (!read_state(rank->pid, &state, &pending) || state == 'Z') set_end(l, last_words_s(l), TOOL_BY_FAILURE);
  }
}

/* Each request goes on to every rank, by mpirun. The first one leaves them the time to save; where not all have begun
 * there is nothing to be saved. */
static void pass_requests_on(tool_launched *l) {
  int n = tool_signal_requests();
  if (n == l->n_passed_on) return;
  l->n_passed_on = n;
  if (n == 1) l->asked_s = tool_now_s();
  kill(l->mpirun, tool_signal() == SIGTERM ? SIGUSR2 : SIGUSR1);
  if (l->stopped_s > 0) kill(l->mpirun, SIGCONT);
  set_end(l, l->n_begun < l->n_ranks ? 0 : n > 1 ? TOOL_AT_ONCE_S : l->grace_s + TOOL_GRACE_MARGIN_S, TOOL_BY_REQUEST);
}

/* Whether the error that was printed names each rank that has not ended: such a one may have been killed before it could
 * say how it did. */
static bool are_named(const tool_launched *l) {
  for (int i = 0; i < l->n_ranks; i++) {
    char name[24];
    int length = snprintf(name, sizeof name, "rank %d", i);
    bool named = l->ranks[i].ended;
    for (const char *at = l->first_error; !named && (at = strstr(at, name)); at++)
      named = !isdigit((unsigned char)at[length]);
    if (!named) return false;
  }
  return true;
}

/* All that live have ended because of those that do not, and have said so. */
static bool is_explained(const tool_launched *l) { return l->code == 4 && l->error_seen && are_named(l); }

/* SIGHUP is the signal by which mpirun ends its job that is left to it. */
static void next_stage(tool_launched *l) {
  if (l->stage == TOOL_RUNS) {
    l->stage = TOOL_ABORTED;
    l->end_by_s = tool_now_s() + (is_explained(l) || is_over(l) ? TOOL_NAMED_ABORT_MS * 1e-3 : TOOL_ABORT_S);
    kill(l->mpirun, SIGHUP);
    kill(l->mpirun, SIGCONT);
  } else {
    l->stage = TOOL_KILLED;
    l->end_by_s = 0;
    kill(l->mpirun, SIGKILL);
  }
}

static void oversee_mpirun(tool_launched *l) {
  look_at_mpirun(l);
  look_at_ranks(l);
  pass_requests_on(l);
  if (has_failed(l)) set_end(l, is_explained(l) ? TOOL_NAMED_MS * 1e-3 : last_words_s(l), TOOL_BY_FAILURE);
  else if (is_over(l) && l->n_ended < l->n_ranks)
    set_end(l, are_all_over(l) ? TOOL_NAMED_MS * 1e-3 : TOOL_LAST_WORDS_S, TOOL_BY_FAILURE);
  else if (l->n_ended > 0) set_end(l, TOOL_END_TIMES * l->timeout_s, TOOL_BY_FAILURE);
  if (l->n_begun < l->n_ranks && tool_now_s() - l->begin_s > TOOL_START_TIMES * l->timeout_s)
    set_end(l, 0, TOOL_BY_START);
  if (l->end_by_s > 0 && tool_now_s() > l->end_by_s) next_stage(l);
}

/* ---- what mpirun leaves behind ---- */

static bool read_proc_file(pid_t pid, const char *name, char *text, size_t size, size_t *n_out) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
  FILE *file = fopen(path, "r");
  *n_out = file ? fread(text, 1, size - 1, file) : 0;
  text[*n_out] = 0;
  if (file) fclose(file);
  return *n_out > 0;
}

static pid_t parent_of(pid_t pid) {
  char text[512];
  size_t n;
  int parent = -1;
  if (!read_proc_file(pid, "stat", text, sizeof text, &n)) return -1;
  const char *behind = strrchr(text, ')'); /* the name may hold anything */
  return behind && sscanf(behind, ") %*c %d", &parent) == 1 ? parent : -1;
}

/* Whoever started this process may have left it children of another kind. */
static bool is_launched(pid_t pid) {
  static char text[1 << 17];
  size_t n;
  if (!read_proc_file(pid, "environ", text, sizeof text, &n)) return false;
  for (const char *at = text; at < text + n; at += strlen(at) + 1)
    if (!strncmp(at, TOOL_LAUNCHED "=", sizeof TOOL_LAUNCHED)) return true;
  return false;
}

/* Children of this process that came with mpirun: local ranks, ssh. With a signal: sends it to them. */
static int orphans(int signal_number) {
  int n = 0;
  DIR *folder = opendir("/proc");
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;
    if (pid <= 0 || parent_of(pid) != getpid() || !is_launched(pid)) continue;
    n++;
    if (signal_number) kill(pid, signal_number);
  }
  if (folder) closedir(folder);
  while (waitpid(-1, NULL, WNOHANG) > 0) {
  }
  return n;
}

static void pause_a_little(void) { nanosleep(&(struct timespec){0, LOOK_MS * 1000000l}, NULL); }

/* Ranks whose mpirun was killed may still be saving: they have been asked to end by the system (hooks.c). */
static void end_orphans(const tool_launched *l, bool may_save) {
  double end = tool_now_s() + (may_save ? l->grace_s + TOOL_GRACE_MARGIN_S : 0);
  while (orphans(0) > 0 && tool_now_s() < end && tool_signal_requests() < 2) pause_a_little();
  end = tool_now_s() + TOOL_ABORT_S;
  while (orphans(SIGKILL) > 0 && tool_now_s() < end) pause_a_little();
}

/* ---- the end ---- */

static void append_words(char *text, size_t size, const char *what, const char *more) {
  size_t used = strlen(text);
  snprintf(text + used, size - used, "%s%s", used ? what : "", more);
}

/* "rank 1 on host b, rank 3 on host d": those that have begun but not ended; or, where some have not begun, these. NULL
 * is any host. */
static const char *name_missing(const tool_launched *l, const char *host, char text[512]) {
  bool not_begun = l->n_begun < l->n_ranks && !host;
  text[0] = 0;
  for (int i = 0; i < l->n_ranks; i++) {
    const tool_rank *rank = &l->ranks[i];
    char one[96];
    if (rank->ended || (not_begun && rank->begun) || (host && strcmp(rank->host, host))) continue;
    if (strlen(text) > 400) {
      append_words(text, 512, " ", "and others");
      break;
    }
    snprintf(one, sizeof one, rank->begun && !host ? "rank %d on host %s" : "rank %d", i, rank->host);
    append_words(text, 512, ", ", one);
  }
  return text;
}

/* What mpirun said goes to a file where the run has a folder, and its first lines to the terminal where nobody said
 * anything better. A run that was refused may have named the folder of another. */
static void tell_said(tool_launched *l) {
  char path[4200];
  FILE *file = NULL;
  bool refused = l->code == ronde_status_exit_code(RONDE_E_USAGE) || l->code == ronde_status_exit_code(RONDE_E_INPUT);
  /* Of a loss the first to notice knows most: the others lose each other in turn. */
  if (l->code == 4) add_line(l->said, sizeof l->said, l->held);
  else fputs(l->held, stderr);
  if (!*l->said) return;
  snprintf(path, sizeof path, "%s/mpirun.log", l->out ? l->out : "");
  if (l->out && !refused && (file = fopen(path, "w"))) {
    fputs(l->said, file);
    fclose(file);
  }
  if (l->error_seen || *l->lost_host || l->stage != TOOL_RUNS || is_over(l)) return;
  const char *at = l->said;
  for (int n = 0; *at && n < SHOWN_LINES; at += strcspn(at, "\n") + (at[strcspn(at, "\n")] != 0)) {
    int length = (int)strcspn(at, "\n");
    if (length > 0) fprintf(stderr, "%.*s\n", length, at), n++;
  }
  if (file) fprintf(stderr, "(the full output of mpirun: %s)\n", path);
}

/* A request that not all ranks could follow. */
static ronde_status conclude_interrupted(const tool_launched *l) {
  char missing[512];
  name_missing(l, NULL, missing);
  if (l->n_begun < l->n_ranks) return tool_fail(RONDE_E_CANCELLED, "interrupted before all ranks had started");
  if (tool_signal_requests() > 1)
    return tool_fail(RONDE_E_CANCELLED, "interrupted twice: ended at once, without saving the state: %s", missing);
  if (l->stage == TOOL_RUNS && tool_now_s() - l->asked_s < l->grace_s)
    return tool_fail(RONDE_E_CANCELLED, "interrupted: ended without saving the state: %s", missing);
  return tool_fail(RONDE_E_CANCELLED, "interrupted: not ended within --grace %.0f s, so its state is not saved: %s",
                   l->grace_s, missing);
}

/* What did not end by itself, and why it was ended. */
static ronde_status conclude_by_force(const tool_launched *l) {
  char missing[512];
  name_missing(l, NULL, missing);
  if (l->reason == TOOL_BY_START)
    return tool_fail(RONDE_E_LOST, "only %d of %d ranks have started within %.0f s (%d times --timeout); missing: %s",
                     l->n_begun, l->n_ranks, TOOL_START_TIMES * l->timeout_s, TOOL_START_TIMES, missing);
  if (l->reason == TOOL_BY_FAILURE && is_explained(l)) {
    tool_error_shown();
    return RONDE_E_LOST;
  }
  if (l->reason == TOOL_BY_STOP)
    return tool_fail(RONDE_E_LOST, "mpirun was lost: it was stopped for more than --timeout %.0f s", l->timeout_s);
  return tool_fail(l->code > 0 ? tool_status_of_exit(l->code) : RONDE_E_LOST, "did not end in time and was killed: %s",
                   *missing ? missing : "mpirun");
}

static ronde_status conclude_launch(tool_launched *l, int mpirun_state) {
  char missing[512];
  bool all_ended = l->n_ended == l->n_ranks;
  tell_said(l);
  if (is_over(l)) {
    if (l->code && l->error_seen) tool_error_shown();
    return l->code ? tool_status_of_exit(l->code) : RONDE_OK;
  }
  bool by_us = l->stage != TOOL_RUNS && (!all_ended || l->reason == TOOL_BY_START || l->reason == TOOL_BY_STOP);
  if (tool_signal() && !all_ended && !has_failed(l) && (by_us || !l->killed_signal)) return conclude_interrupted(l);
  bool is_known = l->killed_signal && (is_explained(l) || l->reason == TOOL_BY_FAILURE);
  if (by_us && !is_known) return conclude_by_force(l);
  if (l->killed_signal < 0)
    return tool_fail(RONDE_E_LOST, "rank %d on host %s was lost: killed by a signal", l->killed_rank, l->lost_host);
  if (l->killed_signal > 0)
    return tool_fail(RONDE_E_LOST, "rank %d on host %s was lost: killed by signal %d (%s)", l->killed_rank,
                     l->lost_host, l->killed_signal, strsignal(l->killed_signal));
  if (*l->lost_host && !all_ended)
    return tool_fail(RONDE_E_LOST, "host %s was lost, and with it: %s", l->lost_host,
                     name_missing(l, l->lost_host, missing));
  if (WIFSIGNALED(mpirun_state) && l->stage == TOOL_RUNS && !all_ended)
    return tool_fail(RONDE_E_LOST, "mpirun was lost: killed by signal %d (%s), and with it: %s", WTERMSIG(mpirun_state),
                     strsignal(WTERMSIG(mpirun_state)), name_missing(l, NULL, missing));
  int code = l->code > 0 ? l->code : (mpirun_state && l->stage == TOOL_RUNS) || !all_ended ? 4 : 0;
  if (code == 0) return RONDE_OK;
  if (l->error_seen) tool_error_shown();
  if (tool_signal() && (code == 130 || code == 143)) return RONDE_E_CANCELLED;
  if (l->error_seen && (code != 4 || are_named(l))) return tool_status_of_exit(code);
  if (all_ended) return tool_fail(tool_status_of_exit(code), "%s", ronde_status_text(tool_status_of_exit(code)));
  if (l->n_begun == 0)
    return tool_fail(
        RONDE_E_LOST,
        "no rank has started, and what mpirun said of it is above: `ronde doctor` with the same hosts asks "
        "each of them");
  return tool_fail(RONDE_E_LOST, "did not finish: %s", name_missing(l, NULL, missing));
}

ronde_status tool_watch(tool_launched *l) {
  int state = 0;
  bool gone = false, any;
  l->begin_s = tool_now_s();
  do {
    any = take_some(l);
    if (!gone) oversee_mpirun(l);
    if (!gone) gone = waitpid(l->mpirun, &state, WNOHANG) == l->mpirun;
  } while (!gone || any);
  for (int i = 0; i < 2; i++)
    if (l->streams[i].from >= 0) close(l->streams[i].from);
  end_orphans(l, l->stage == TOOL_RUNS && WIFSIGNALED(state));
  return conclude_launch(l, state);
}

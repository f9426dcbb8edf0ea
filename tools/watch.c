/* Watching over mpirun, and over what it has started. The ranks' own lines go through; what mpirun itself says is kept,
 * and shown only where nothing else explains the end. Nothing is waited for without a limit: what does not end by itself
 * is ended by mpirun, and what mpirun does not end is killed. */
#include "launch.h"
#include "limits.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_MS = 100, CLOSING_MS = 5, SHOWN_LINES = 3 };

bool tool_watch_take(tool_launched *l) {
  struct pollfd files[4];
  tool_stream *streams[4] = {&l->streams[0], &l->streams[1]};
  int n = 2;
  for (int i = 0; l->next && i < 2; i++) streams[n++] = &l->next->streams[i];
  for (int i = 0; i < n; i++) files[i] = (struct pollfd){.fd = streams[i]->from, .events = POLLIN};
  bool all_closed = files[0].fd < 0 && files[1].fd < 0, any = false;
  if (poll(files, (nfds_t)n, all_closed ? CLOSING_MS : LOOK_MS) <= 0) return false;
  for (int i = 0; i < n; i++) {
    if (files[i].fd < 0 || !files[i].revents) continue;
    any |= i < 2;
    if (tool_hear(i < 2 ? l : l->next, streams[i])) continue;
    close(files[i].fd);
    streams[i]->from = -1;
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

/* All have ended, have gone, or were on a host that is lost: nobody saves, and nobody tells how it ended. */
static bool is_nobody_left(const tool_launched *l) {
  bool nobody = true;
  for (int i = 0; i < l->n_ranks; i++) {
    const tool_rank *rank = &l->ranks[i];
    nobody &= rank->ended || rank->gone || rank->away;
  }
  return nobody;
}

/* What the others have, once one has ended otherwise than well: of a run that is to go on, the time to save. Ranks that
 * have not joined yet, or have not begun, have nothing to save, and wait for the one that is gone. */
static double last_words_s(const tool_launched *l) {
  if (!l->restarts) return TOOL_LAST_WORDS_S;
  return l->joined && !l->waits && !is_nobody_left(l) ? l->grace_s : TOOL_AT_ONCE_S;
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

/* Once all have joined, the others tell that one is stopped; before that nobody can. */
static void note_stop(tool_launched *l, tool_rank *rank, bool stopped) {
  if (l->stage != TOOL_RUNS) return;
  if (!stopped || l->joined) rank->stopped_s = 0;
  else if (rank->stopped_s == 0) rank->stopped_s = tool_now_s();
  else if (tool_now_s() - rank->stopped_s > l->timeout_s) set_end(l, 0, TOOL_BY_RANK_STOP);
}

/* A rank of this host that has gone without a word: mpirun, which should have noticed, may hang. */
static void look_at_ranks(tool_launched *l) {
  if (tool_now_s() - l->looked_s < TOOL_LOOK_S) return;
  l->looked_s = tool_now_s();
  for (int i = 0; i < l->n_ranks; i++) {
    tool_rank *rank = &l->ranks[i];
    char state;
    unsigned long long pending;
    if (rank->ended || (l->goes_on && l->joined && i > 0)) continue;
    if (rank->gone) set_end(l, rank->begun ? last_words_s(l) : TOOL_AT_ONCE_S, TOOL_BY_FAILURE);
    if (rank->pid == 0) continue;
    bool seen = read_state(rank->pid, &state, &pending);
    if (!seen || state == 'Z') set_end(l, last_words_s(l), TOOL_BY_FAILURE);
    note_stop(l, rank, seen && (state == 'T' || state == 't'));
  }
  if (*l->lost_daemon && (!(l->goes_on && l->joined) || is_nobody_left(l)))
    set_end(l, last_words_s(l), TOOL_BY_FAILURE);
  bool apart = l->apart_s > 0;
  if (apart && tool_now_s() - l->apart_s > TOOL_APART_S) set_end(l, 0, TOOL_BY_FAILURE);
  if (*l->failed_host && !l->joined && !apart) set_end(l, TOOL_LAST_WORDS_S, TOOL_BY_FAILURE);
}

/* Each request goes on to every rank, by mpirun. The first one leaves them the time to save; before all have joined there
 * is nothing to be saved. */
static void pass_requests_on(tool_launched *l) {
  int n = tool_signal_requests();
  if (n == l->n_passed_on) return;
  l->n_passed_on = n;
  if (n == 1) l->asked_s = tool_now_s();
  if (n > 1 || !l->joining) kill(l->mpirun, tool_signal() == SIGTERM ? SIGUSR2 : SIGUSR1);
  if (l->stopped_s > 0) kill(l->mpirun, SIGCONT);
  bool at_once = n > 1 || !l->joined;
  set_end(l,
          l->n_begun < l->n_ranks ? 0
          : at_once               ? TOOL_AT_ONCE_S
                                  : l->grace_s + TOOL_GRACE_MARGIN_S,
          TOOL_BY_REQUEST);
}

/* Whether the error that was printed names each rank that has not ended: such a one may have been killed before it could
 * say how it did. by_others: it is not enough that who says it is such a one, and those need not be named that are known to
 * have gone, or were left out before. */
static bool are_named(const tool_launched *l, bool by_others) {
  int speaker = 0;
  sscanf(l->first_error, "ronde: error: rank %*d:%n", &speaker);
  for (int i = 0; i < l->n_ranks; i++) {
    char name[24];
    int length = snprintf(name, sizeof name, "rank %d", i);
    bool named = l->ranks[i].ended || (by_others && l->ranks[i].gone);
    for (const char *at = l->first_error + (by_others ? speaker : 0); !named && (at = strstr(at, name)); at++)
      named = !isdigit((unsigned char)at[length]);
    if (!named) return false;
  }
  return true;
}

/* All that live have ended because of those that do not, and have said so. */
static bool is_explained(const tool_launched *l) { return l->code == 4 && l->error_seen && are_named(l, true); }

/* SIGHUP is the signal by which mpirun ends its job that is left to it. */
static void next_stage(tool_launched *l) {
  if (l->stage == TOOL_RUNS) {
    bool is_known = l->abandoned || l->n_silent || l->apart_s > 0 || is_explained(l) || is_over(l) || is_nobody_left(l);
    l->stage = TOOL_ABORTED;
    l->end_by_s = tool_now_s() + (is_known ? TOOL_NAMED_ABORT_MS * 1e-3 : TOOL_ABORT_S);
    kill(l->mpirun, SIGHUP);
    kill(l->mpirun, SIGCONT);
  } else {
    l->stage = TOOL_KILLED;
    l->end_by_s = 0;
    kill(l->mpirun, SIGKILL);
  }
}

bool tool_watch_is_apart(const tool_launched *l) {
  return l->apart_s > 0 && l->reason == TOOL_BY_FAILURE && !l->killed_signal && !l->error_seen && !*l->lost_daemon;
}

bool tool_watch_is_steady(const tool_launched *l) {
  return l->joined && l->stage == TOOL_RUNS && l->end_by_s == 0 && !l->ranks[0].gone && !tool_signal();
}

void tool_watch_look(tool_launched *l) {
  look_at_mpirun(l);
  look_at_ranks(l);
  tool_silent_look(l);
  if (l->n_silent) set_end(l, 0, TOOL_BY_FAILURE);
  pass_requests_on(l);
  if (has_failed(l)) set_end(l, is_explained(l) ? TOOL_NAMED_MS * 1e-3 : last_words_s(l), TOOL_BY_FAILURE);
  else if (is_over(l) && l->n_ended < l->n_ranks)
    set_end(l, are_all_over(l) ? TOOL_NAMED_MS * 1e-3 : TOOL_LAST_WORDS_S, TOOL_BY_FAILURE);
  else if (l->n_ended > 0) set_end(l, TOOL_END_TIMES * l->timeout_s, TOOL_BY_FAILURE);
  if (l->n_begun < l->n_ranks && tool_now_s() - l->begin_s > TOOL_START_TIMES * l->timeout_s)
    set_end(l, 0, TOOL_BY_START);
  if (l->end_by_s > 0 && tool_now_s() > l->end_by_s) next_stage(l);
}

/* Whoever looks for orphans may have taken how it ended. */
bool tool_watch_has_gone(const tool_launched *l, int *state_out) {
  pid_t pid = waitpid(l->mpirun, state_out, WNOHANG);
  return pid == l->mpirun || (pid < 0 && errno == ECHILD);
}

/* ---- the end ---- */

/* Whoever goes on there must know it. */
static ronde_status tell_unended(const tool_launched *l, ronde_status status) {
  static const char what[] = "process %d was killed and is still there, in a call of the system: it holds %s";
  const char *held = l->out ? l->out : "its memory";
  if (!l->unended) return status;
  if (status) return tool_fail(status, what, (int)l->unended, held);
  tool_say(what, (int)l->unended, held);
  return status;
}

static void append_words(char *text, size_t size, const char *what, const char *more) {
  size_t used = strlen(text);
  snprintf(text + used, size - used, "%s%s", used ? what : "", more);
}

/* "rank 1 on host b, rank 3 on host d": those that have begun but not ended; or, where some have not begun, these. The host
 * by either name; NULL is any. */
static const char *name_missing(const tool_launched *l, const char *host, char text[512]) {
  bool not_begun = l->n_begun < l->n_ranks && !host;
  text[0] = 0;
  for (int i = 0; i < l->n_ranks; i++) {
    const tool_rank *rank = &l->ranks[i];
    char one[96];
    if (rank->ended || (not_begun && rank->begun) || (host && strcmp(rank->host, host) && strcmp(rank->listed, host)))
      continue;
    if (strlen(text) > 400) {
      append_words(text, 512, " ", "and others");
      break;
    }
    snprintf(one, sizeof one, *rank->host && !host ? "rank %d on host %s" : "rank %d", i, rank->host);
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
  if (l->code == 4) tool_add_line(l->said, sizeof l->said, l->held);
  else fputs(l->held, stderr);
  if (!*l->said && !*l->said_there) return;
  snprintf(path, sizeof path, "%s/mpirun.log", l->out ? l->out : "");
  if (l->out && !refused) mkdir(l->out, 0777); /* a start that failed has made no folder yet */
  if (l->out && !refused && (file = fopen(path, "w"))) {
    fputs(l->said_there, file), fputs(l->said, file);
    fclose(file);
  }
  if (l->error_seen || *l->lost_host || *l->lost_daemon || l->stage != TOOL_RUNS || is_over(l) ||
      tool_why_not_started(l))
    return;
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
  if (!l->joined) return tool_fail(RONDE_E_CANCELLED, "interrupted before all ranks had joined");
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
  if (l->reason == TOOL_BY_RANK_STOP)
    for (int i = 0; i < l->n_ranks; i++)
      if (l->ranks[i].stopped_s > 0)
        return tool_fail(RONDE_E_LOST, "rank %d on host %s was lost: it was stopped for more than --timeout %.0f s", i,
                         l->ranks[i].host, l->timeout_s);
  if (l->reason == TOOL_BY_STOP)
    return tool_fail(RONDE_E_LOST, "mpirun was lost: it was stopped for more than --timeout %.0f s", l->timeout_s);
  return tool_fail(l->code > 0 ? tool_status_of_exit(l->code) : RONDE_E_LOST, "did not end in time and was killed: %s",
                   *missing ? missing : "mpirun");
}

/* Of several hosts that did not answer while the ranks started. */
static ronde_status conclude_silence(const tool_launched *l) {
  char hosts[512] = "", ranks[512] = "", one[24];
  for (int i = 0; i < l->n_daemons; i++)
    if (l->asks[i].silent) append_words(hosts, sizeof hosts, ", ", l->daemon_hosts[i]);
  for (int i = 0; i < l->n_ranks; i++) {
    snprintf(one, sizeof one, "rank %d", i);
    if (l->ranks[i].away) append_words(ranks, sizeof ranks, ", ", one);
  }
  return tool_fail(RONDE_E_LOST, "hosts %s were lost, or Open MPI's daemons there, and with them: %s", hosts, ranks);
}

/* What the launcher itself has seen to be lost; RONDE_OK: nothing. */
static ronde_status conclude_loss(const tool_launched *l, int mpirun_state, bool daemon_lost) {
  char missing[512];
  bool all_ended = l->n_ended == l->n_ranks;
  if (daemon_lost && l->n_silent > 1) return conclude_silence(l);
  if (daemon_lost)
    return tool_fail(RONDE_E_LOST, "host %s was lost, or Open MPI's daemon there, and with it: %s", l->lost_daemon,
                     name_missing(l, l->lost_daemon, missing));
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
  return RONDE_OK;
}

static ronde_status conclude_launch(tool_launched *l, int mpirun_state) {
  char missing[512];
  bool all_ended = l->n_ended == l->n_ranks;
  if (l->joining && (all_ended || is_over(l)) && l->code == 128 + SIGINT && !tool_signal()) return RONDE_E_CANCELLED;
  tool_say_unsaid(l);
  tell_said(l);
  if (is_over(l)) {
    if (l->code && l->error_seen) tool_error_shown();
    return l->code ? tool_status_of_exit(l->code) : RONDE_OK;
  }
  bool by_us = l->stage != TOOL_RUNS && (!all_ended || l->reason == TOOL_BY_START || l->reason == TOOL_BY_STOP);
  bool may_not_start =
      l->n_begun < l->n_ranks && !l->error_seen && !l->killed_signal && l->reason != TOOL_BY_START && !l->n_silent;
  const char *not_started = may_not_start || tool_watch_is_apart(l) ? tool_why_not_started(l) : NULL;
  if (tool_signal() && !all_ended && !has_failed(l) && (by_us || !l->killed_signal)) return conclude_interrupted(l);
  if (not_started) return tool_fail(RONDE_E_LOST, "%s", not_started);
  bool daemon_lost = *l->lost_daemon && !all_ended && (!l->error_seen || l->n_silent) && l->reason == TOOL_BY_FAILURE;
  bool is_known = daemon_lost || (l->killed_signal && (is_explained(l) || l->reason == TOOL_BY_FAILURE));
  if (by_us && !is_known) return conclude_by_force(l);
  ronde_status lost = conclude_loss(l, mpirun_state, daemon_lost);
  if (lost) return lost;
  int code = l->code > 0 ? l->code : (mpirun_state && l->stage == TOOL_RUNS) || !all_ended ? 4 : 0;
  if (code == 0) return RONDE_OK;
  if (l->error_seen) tool_error_shown();
  if (tool_signal() && (code == 130 || code == 143)) return RONDE_E_CANCELLED;
  if (l->error_seen && (code != 4 || are_named(l, false))) return tool_status_of_exit(code);
  if (all_ended) return tool_fail(tool_status_of_exit(code), "%s", ronde_status_text(tool_status_of_exit(code)));
  if (l->n_begun == 0)
    return tool_fail(
        RONDE_E_LOST,
        "no rank has started, and what mpirun said of it is above: `ronde doctor` with the same hosts asks "
        "each of them");
  return tool_fail(RONDE_E_LOST, "did not finish: %s", name_missing(l, NULL, missing));
}

bool tool_watch_have_saved(const tool_launched *l) {
  return l->joining && (l->n_ended == l->n_ranks || are_all_over(l)) && l->code == 128 + SIGINT && !tool_signal();
}

/* Rank 0, if it is lost, has gone for certain: it holds --out. */
bool tool_watch_is_settled(const tool_launched *l) {
  const tool_rank *first = &l->ranks[0];
  bool is_free = first->ended || (first->gone && first->reported) || first->away;
  return l->restarts && l->stage == TOOL_RUNS && is_free && is_explained(l) && !tool_signal();
}

void tool_watch_ask(tool_launched *l) {
  l->joining = true;
  l->asked_s = tool_now_s();
  kill(l->mpirun, SIGUSR1);
  set_end(l, l->grace_s + TOOL_GRACE_MARGIN_S, TOOL_BY_REQUEST);
}

ronde_status tool_watch_conclude(tool_launched *l, int mpirun_state) {
  l->concluded = true;
  return tell_unended(l, conclude_launch(l, mpirun_state));
}

void tool_watch_abandon(tool_launched *l) {
  int state;
  bool gone = false, any;
  l->end_by_s = 0;
  l->abandoned = true;
  set_end(l, 0, TOOL_BY_REQUEST);
  do {
    any = tool_watch_take(l);
    if (!gone) tool_watch_look(l);
    if (!gone) gone = tool_watch_has_gone(l, &state);
  } while (!gone || any);
  tool_silent_end(l);
  tool_orphans_kill(l);
}

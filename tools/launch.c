/* Training by several processes: starts mpirun on this very command and watches over it. The ranks' own lines go
 * through; what mpirun itself says is kept, and shown only where nothing else explains the end. Each rank ends with a
 * mark, so that "all came to their end" is known and not inferred from mpirun's exit code. */
#include "handover.h"
#include "hosts.h"
#include "session.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MARK "\x1eronde-end "
#define MPIRUN "mpirun.openmpi"
#define LAUNCHED "RONDE_LAUNCHED"
enum { END_S = 10 };

typedef struct stream {
  int from, to;
  char line[8192];
  size_t n;
} stream;

typedef struct launch {
  pid_t mpirun;
  int n_ranks, n_ended;
  int code;         /* of the rank that knows best why it ended; -1: none has ended yet */
  bool in_block;    /* inside of what mpirun says */
  char said[16384]; /* by mpirun */
  bool error_seen;
  char last_error[2048]; /* what every rank meets by itself is said once */
  int killed_rank, killed_signal;
  char killed_host[256];
} launch;

/* ---- the ranks' side ---- */

static const char *rank_mark(void) {
  static const char *const marks[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
  const char *rank = NULL;
  for (size_t i = 0; i < sizeof marks / sizeof *marks && !rank; i++) rank = getenv(marks[i]);
  return rank ? rank : "0";
}

bool tool_is_launched(void) {
  static const char *const marks[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"};
  for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
    if (getenv(marks[i])) return true;
  return false;
}

bool tool_is_ours(void) { return getenv(LAUNCHED) && tool_is_launched(); }

bool tool_is_follower(void) { return tool_is_launched() && strcmp(rank_mark(), "0") != 0; }

void tool_mark_end(int code) {
  if (!tool_is_ours()) return;
  fflush(stdout);
  fprintf(stderr, MARK "%s %d\n", rank_mark(), code);
  fflush(stderr);
}

/* ---- what comes from mpirun ---- */

/* A rank that was cut off, or hears that another has gone (4), knows less than one that names a cause. */
static void note_end(launch *l, const char *mark) {
  int rank, code;
  if (sscanf(mark, "%d %d", &rank, &code) != 2) return;
  l->n_ended++;
  bool better = l->code <= 0 || (l->code == 4 && code != 4 && code != 0);
  if (l->code < 0 || (code != 0 && better)) l->code = code;
}

static void note_mpirun(launch *l, const char *line) {
  size_t used = strlen(l->said);
  snprintf(l->said + used, sizeof l->said - used, "%s\n", line);
  char host[200];
  int rank, number;
  const char *at = strstr(line, "process rank ");
  if (at && sscanf(at, "process rank %d with PID %*d on node %199s exited on signal %d", &rank, host, &number) == 3) {
    l->killed_rank = rank;
    l->killed_signal = number;
    snprintf(l->killed_host, sizeof l->killed_host, "%s", host);
  }
  at = strstr(line, "ORTE has lost communication with a remote daemon");
  if (at) l->killed_signal = -1;
}

static bool is_rule(const char *line) { return strspn(line, "-") >= 60; }

/* Inside its blocks mpirun names no source; ranks print none of its rules. */
static void take_line(launch *l, stream *s, const char *line) {
  const char *mark = strstr(line, MARK);
  if (mark) {
    note_end(l, mark + strlen(MARK));
  } else if (is_rule(line)) {
    l->in_block = !l->in_block;
  } else if (s->to == STDERR_FILENO &&
             (l->in_block || line[0] == '[' || strncmp(line, MPIRUN ": ", sizeof MPIRUN) == 0)) {
    note_mpirun(l, line);
  } else {
    bool is_error = strncmp(line, "ronde: error: ", 14) == 0, again = is_error && strcmp(line, l->last_error) == 0;
    if (is_error) snprintf(l->last_error, sizeof l->last_error, "%s", line);
    l->error_seen |= is_error;
    if (!again) dprintf(s->to, "%s\n", line);
  }
}

/* False at the end of the stream. */
static bool take(launch *l, stream *s) {
  ssize_t got = read(s->from, s->line + s->n, sizeof s->line - 1 - s->n);
  if (got < 0 && errno == EINTR) return true;
  if (got > 0) s->n += (size_t)got;
  s->line[s->n] = 0;
  char *begin = s->line, *newline;
  while ((newline = strchr(begin, '\n'))) {
    *newline = 0;
    take_line(l, s, begin);
    begin = newline + 1;
  }
  s->n -= (size_t)(begin - s->line);
  memmove(s->line, begin, s->n + 1);
  if (s->n == sizeof s->line - 1 || (got <= 0 && s->n)) {
    take_line(l, s, s->line);
    s->n = 0;
  }
  return got > 0;
}

/* ---- starting ---- */

enum { MPIRUN_WORDS = 32 }; /* more than start adds to the command */

typedef struct arguments {
  const char **list; /* [n], then NULL */
  int n;
} arguments;

static void add(arguments *a, const char *word) { a->list[a->n++] = word; }

/* As mpirun wants them: "a:2,b:1", each with the ranks that it is to have, so that nothing is left to mpirun but to go
 * round them; hosts without one are not asked. */
static char *with_ranks(const tool_hosts *hosts, int n_ranks) {
  size_t size = (size_t)hosts->n * (TOOL_HOST_BYTES + 12), used = 0;
  int *counts = calloc((size_t)hosts->n, sizeof *counts);
  char *text = counts ? malloc(size) : NULL;
  if (text) tool_hosts_place(hosts, n_ranks, counts);
  for (int i = 0; text && i < hosts->n; i++)
    if (counts[i])
      used += (size_t)snprintf(text + used, size - used, "%s%s:%d", used ? "," : "", hosts->at[i].name, counts[i]);
  free(counts);
  return text;
}

bool tool_self_path(char *buffer, size_t size) {
  ssize_t n = readlink("/proc/self/exe", buffer, size - 1);
  buffer[n > 0 ? n : 0] = 0;
  return n > 0;
}

/* In the child: becomes mpirun, in a process group of its own, so that a Ctrl-C reaches it by our hand only; and ends
 * where this process is killed. */
static void become_mpirun(arguments *a, const tool_session *session, const int out[2], const int err[2], pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  dup2(out[1], STDOUT_FILENO);
  dup2(err[1], STDERR_FILENO);
  for (int i = 0; i < 2; i++) close(out[i]), close(err[i]);
  setenv(LAUNCHED, "1", 1);
  tool_session_enter(session);
  if (geteuid() == 0) {
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
  }
  /* ssh may ask nothing, and not wait for long; another program in its place would not know these words. */
  if (!getenv("OMPI_MCA_plm_rsh_agent")) setenv("OMPI_MCA_plm_rsh_args", "-o BatchMode=yes -o ConnectTimeout=10", 0);
  execvp(a->list[0], (char **)a->list);
  dprintf(STDERR_FILENO, "ronde: error: --transport mpi: cannot start %s: %s\n", a->list[0], strerror(errno));
  _exit(1);
}

static void add_iface(arguments *a, const char *iface, bool hosts) {
  static const char *const names[] = {"btl_tcp_if_", "oob_tcp_if_"};
  static char keys[2][32];
  if (!iface && !hosts) return;
  for (int i = 0; i < 2; i++) {
    snprintf(keys[i], sizeof keys[i], "%s%s", names[i], iface ? "include" : "exclude");
    add(a, "--mca");
    add(a, keys[i]);
    add(a, iface ? iface : "lo,docker0,virbr0");
  }
}

/* Ranks that only serve parameters. */
static int n_serving(const ronde_config *config) {
  const char *strategy = ronde_config_get(config, "strategy");
  if (!strategy) return 0; /* the verb has none: a measurement */
  bool serves = !strncmp(strategy, "ps-", 3);
  bool apart = !strcmp(ronde_config_get(config, "placement"), "dedicated");
  return serves && apart ? (int)strtol(ronde_config_get(config, "servers"), NULL, 10) : 0;
}

/* As many workers as were asked for, or as the hosts have places. */
static ronde_status count_ranks(launch *l, const tool_call *call, const tool_hosts *hosts) {
  l->n_ranks = (int)strtol(ronde_config_get(call->config, "workers"), NULL, 10);
  int n_servers = n_serving(call->config);
  if (hosts->n && !ronde_config_is_given(call->config, "workers"))
    l->n_ranks = hosts->slots ? hosts->slots - n_servers : hosts->n;
  l->n_ranks += n_servers;
  if (hosts->slots && (l->n_ranks > hosts->slots || l->n_ranks <= n_servers))
    return tool_fail(RONDE_E_USAGE, "--workers: %d slots on %d host%s for %d ranks", hosts->slots, hosts->n,
                     hosts->n > 1 ? "s" : "", l->n_ranks);
  return RONDE_OK;
}

static ronde_status start_mpirun(launch *l, arguments *a, const tool_session *session, stream streams[2]) {
  int out[2], err[2];
  if (pipe2(out, O_CLOEXEC)) return tool_fail(RONDE_E_INTERNAL, "cannot start mpirun: %s", strerror(errno));
  if (pipe2(err, O_CLOEXEC)) {
    close(out[0]), close(out[1]);
    return tool_fail(RONDE_E_INTERNAL, "cannot start mpirun: %s", strerror(errno));
  }
  pid_t parent = getpid();
  l->mpirun = fork();
  if (l->mpirun == 0) become_mpirun(a, session, out, err, parent);
  close(out[1]), close(err[1]);
  if (l->mpirun < 0) return tool_fail(RONDE_E_INTERNAL, "cannot start mpirun: %s", strerror(errno));
  streams[0] = (stream){.from = out[0], .to = STDOUT_FILENO};
  streams[1] = (stream){.from = err[0], .to = STDERR_FILENO};
  return RONDE_OK;
}

/* words: of the ranks' command. */
static ronde_status start(launch *l, const tool_call *call, char **words, const tool_hosts *hosts,
                          const tool_session *session, stream streams[2]) {
  const char *iface = ronde_config_get(call->config, "iface");
  char ranks[16], self[4096], *places = hosts->n ? with_ranks(hosts, l->n_ranks) : NULL;
  size_t n_words = 0;
  while (words[n_words]) n_words++;
  for (int i = 0; tool_rank_variable(i); i++) n_words += 2;
  arguments a = {.list = calloc(n_words + MPIRUN_WORDS + 1, sizeof *a.list)};
  if (!a.list || (hosts->n && !places)) {
    free(a.list), free(places);
    return tool_fail(RONDE_E_MEMORY, "no memory for mpirun's command");
  }
  snprintf(ranks, sizeof ranks, "%d", l->n_ranks);
  add(&a, MPIRUN);
  add(&a, "-np"), add(&a, ranks);
  if (places) add(&a, "--host"), add(&a, places), add(&a, "--map-by"), add(&a, "node");
  else add(&a, "--oversubscribe");
  add(&a, "--bind-to"), add(&a, "none");
  add_iface(&a, iface && *iface ? iface : NULL, hosts->n > 0);
  add(&a, "-x"), add(&a, LAUNCHED);
  for (int i = 0; tool_rank_variable(i); i++)
    if (getenv(tool_rank_variable(i))) add(&a, "-x"), add(&a, tool_rank_variable(i));
  add(&a, tool_self_path(self, sizeof self) ? self : call->argv[0]);
  for (int i = 1; words[i]; i++) add(&a, words[i]);
  ronde_status status = start_mpirun(l, &a, session, streams);
  free(a.list), free(places);
  return status;
}

/* ---- watching ---- */

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* A signal of ours goes to every rank, which ends its run well; who has not ended END_S later is ended by mpirun. */
static void pass_signals_on(launch *l, double *asked_s) {
  if (!tool_signal()) return;
  if (*asked_s == 0) {
    kill(l->mpirun, tool_signal() == SIGTERM ? SIGUSR2 : SIGUSR1);
    *asked_s = now_s();
  } else if (now_s() - *asked_s > END_S) {
    kill(l->mpirun, SIGTERM);
    *asked_s = now_s();
  }
}

static int watch(launch *l, stream streams[2]) {
  struct pollfd files[2] = {{streams[0].from, POLLIN, 0}, {streams[1].from, POLLIN, 0}};
  double asked_s = 0;
  for (int n_open = 2; n_open > 0;) {
    pass_signals_on(l, &asked_s);
    if (poll(files, 2, 100) <= 0) continue;
    for (int i = 0; i < 2; i++)
      if (files[i].fd >= 0 && files[i].revents && !take(l, &streams[i])) {
        close(files[i].fd);
        files[i].fd = -1;
        n_open--;
      }
  }
  int status = 0;
  while (waitpid(l->mpirun, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static ronde_status status_of_code(int code) {
  for (int s = 0; s <= RONDE_E_CANCELLED; s++)
    if (ronde_status_exit_code((ronde_status)s) == code) return (ronde_status)s;
  return RONDE_E_INTERNAL;
}

static ronde_status conclude(const launch *l, int mpirun_code) {
  if (l->killed_signal > 0)
    return tool_fail(RONDE_E_LOST, "rank %d on host %s was lost: killed by signal %d (%s)", l->killed_rank,
                     l->killed_host, l->killed_signal, strsignal(l->killed_signal));
  bool all_ended = l->n_ended == l->n_ranks;
  int code = l->code > 0 ? l->code : mpirun_code || !all_ended ? 4 : 0;
  if (code == 0) return RONDE_OK;
  if (l->error_seen) tool_error_shown();
  if (tool_signal() && (code == 130 || code == 143)) return RONDE_E_CANCELLED;
  if (l->error_seen) return status_of_code(code);
  if (*l->said) fputs(l->said, stderr);
  if (all_ended) return tool_fail(status_of_code(code), "%s", ronde_status_text(status_of_code(code)));
  return tool_fail(RONDE_E_LOST, "mpirun ended with code %d, and %d of %d ranks did not come to their end", mpirun_code,
                   l->n_ranks - l->n_ended, l->n_ranks);
}

static bool is_given(const tool_call *call, const char *option) {
  const char *value = ronde_config_get(call->config, option);
  return value && *value;
}

bool tool_must_launch(const tool_call *call) {
  bool mpi = strcmp(ronde_config_get(call->config, "transport"), "mpi") == 0;
  return (mpi || is_given(call, "hosts") || is_given(call, "hostfile")) && !tool_is_launched();
}

ronde_status tool_launch(const tool_call *call) {
  launch l = {.code = -1};
  stream streams[2];
  tool_hosts hosts;
  char **words = NULL;
  tool_signals_start();
  ronde_status status = tool_hosts_get(call, &hosts);
  if (status == RONDE_OK) status = count_ranks(&l, call, &hosts);
  if (status == RONDE_OK) status = tool_rank_words(call, &words);
  tool_session session = {.lock = -1};
  if (status == RONDE_OK) tool_session_begin(&session);
  if (status == RONDE_OK) status = start(&l, call, words, &hosts, &session, streams);
  tool_rank_words_free(words);
  tool_hosts_free(&hosts);
  int code = status ? 0 : watch(&l, streams);
  tool_session_end(&session);
  return status ? status : conclude(&l, code);
}

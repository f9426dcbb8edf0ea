/* This program in the place of ssh: mpirun starts it for each host, with the host's name and what is to be run there. It
 * starts ssh, or what the user has chosen instead, and tells the launcher what came of that, so that a host on which nothing
 * could be started is named, with the reason. */
#include "launch.h"
#include "limits.h"
#include "reach.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_WORDS = 512, LOOK_MS = 100, NOT_STARTED = 125 };
#define NO_PROGRAM "123" /* the code of the shell on a host where this program is not at its place */

typedef struct session {
  const char *host;
  int daemon;     /* Open MPI's number of it */
  pid_t child;    /* ssh, */
  int end;        /* a descriptor that knows when it ends, */
  int said;       /* and what it and the host say */
  pid_t launcher; /* 0: there is none */
  int launcher_end;
  double left_s; /* once the launcher is gone, this is how long ranks may save their state */
  char line[512], last[512];
  size_t n;
} session;

bool tool_is_agent(int argc, char **argv) { return argc > 3 && strcmp(argv[1], TOOL_AGENT_WORD) == 0; }

static void tell(const session *s, tool_mark_kind kind, const char *text) {
  tool_mark mark = {.kind = kind, .number = s->daemon};
  snprintf(mark.name, sizeof mark.name, "%s", s->host);
  snprintf(mark.text, sizeof mark.text, "%s", text);
  if (!tool_mark_send(&mark) && *text) fprintf(stderr, "%s: %s\n", s->host, text);
}

/* "-mca ess_base_vpid 2", as one word or three. */
static int daemon_of(int argc, char **argv) {
  static const char name[] = "ess_base_vpid";
  for (int i = 3; i < argc; i++) {
    const char *at = strstr(argv[i], name);
    if (!at) continue;
    at += sizeof name - 1;
    if (!*at && i + 1 < argc) at = argv[i + 1];
    at += strspn(at, " \"");
    return (int)strtol(at, NULL, 10);
  }
  return 0;
}

/* ---- ssh ---- */

static const char *base_name(const char *path) { return strrchr(path, '/') ? strrchr(path, '/') + 1 : path; }

static const char *agent_text(void) {
  const char *agent = getenv(TOOL_AGENT);
  return agent && *agent ? agent : TOOL_SSH;
}

/* As Open MPI does it: words apart by blanks, no quotes. The number of words in the list then. */
static int add_words(char **list, int n, char *text) {
  char *rest = NULL;
  for (char *word = strtok_r(text, " ", &rest); word && n < MOST_WORDS; word = strtok_r(NULL, " ", &rest))
    list[n++] = word;
  return n;
}

/* ' as '\'': what stands between such marks no shell changes. */
static size_t add_quoted(char *text, size_t n, const char *word) {
  for (; *word; word++) {
    if (*word == '\'') memcpy(text + n, "'\\'", 3), n += 3;
    text[n++] = *word;
  }
  return n;
}

/* The words of what is to be run there, as one for any shell there. The daemon among them is started by this program, which
 * has to be at the same place on each host: where it is not, nothing is started. NULL: no memory. */
static char *daemon_command(char **words) {
  static const char shell[] = "sh -c 'test -x \"$1\" || exit " NO_PROGRAM "; " TOOL_DAEMON "=\"$1 " TOOL_DAEMON_WORD
                              "\"; export " TOOL_DAEMON "; exec sh -c \"$0\"' '";
  char self[4096];
  size_t n = sizeof shell - 1, bytes = n + 4 * sizeof self + 8;
  for (int i = 0; words[i]; i++) bytes += 4 * strlen(words[i]) + 1;
  char *text = malloc(bytes);
  if (!text || !tool_self_path(self, sizeof self)) {
    free(text);
    return NULL;
  }
  memcpy(text, shell, n);
  for (int i = 0; words[i]; i++) {
    if (i) text[n++] = ' ';
    n = add_quoted(text, n, words[i]);
  }
  memcpy(text + n, "' '", 3);
  n = add_quoted(text, n + 3, self);
  memcpy(text + n, "'", 2);
  return text;
}

bool tool_is_daemon(int argc, char **argv) { return argc > 2 && strcmp(argv[1], TOOL_DAEMON_WORD) == 0; }

int tool_daemon(char **argv) {
  tool_leave_signals();
  execvp(argv[2], argv + 2);
  int code = errno == ENOENT ? 127 : 126; /* as a shell has it */
  fprintf(stderr, "%s: %s\n", argv[2], strerror(errno));
  return code;
}

/* The first of several, apart by colons, that can be started. */
static void become_agent(char **argv) {
  static char *list[MOST_WORDS + 1];
  char *command = daemon_command(argv + 3);
  const char *given = getenv(TOOL_AGENT_ARGS);
  char *agents = strdup(agent_text()), *rest = NULL;
  for (char *one = agents ? strtok_r(agents, ":", &rest) : NULL; one; one = strtok_r(NULL, ":", &rest)) {
    char *more = strdup(given ? given : "");
    int n = add_words(list, 0, one);
    if (n == 0 || !more || !command) continue;
    if (!strcmp(base_name(list[0]), "ssh") && n < MOST_WORDS) list[n++] = (char *)"-x";
    n = add_words(list, n, more);
    if (n < MOST_WORDS - 1) list[n++] = argv[2], list[n++] = command;
    list[n] = NULL;
    execvp(list[0], list);
    fprintf(stderr, "%s cannot be started here: %s\n", list[0], strerror(errno));
  }
  _exit(NOT_STARTED);
}

static bool start(session *s, char **argv) {
  int out[2];
  if (pipe(out)) return false;
  pid_t own = getpid();
  s->child = fork();
  if (s->child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != own) _exit(1);
    dup2(out[1], STDOUT_FILENO);
    dup2(out[1], STDERR_FILENO);
    close(out[0]), close(out[1]);
    become_agent(argv);
  }
  close(out[1]);
  s->said = out[0];
  s->end = s->child > 0 ? tool_process_open(s->child) : -1;
  return s->child > 0;
}

/* ---- what it says ---- */

static void take_line(session *s) {
  s->line[s->n] = 0;
  s->line[strcspn(s->line, "\r")] = 0;
  s->n = 0;
  if (!s->line[strspn(s->line, " -")]) return;
  snprintf(s->last, sizeof s->last, "%s", s->line);
  tell(s, TOOL_MARK_SAID, s->line);
}

/* False: nothing more comes. */
static bool take_output(session *s) {
  char data[512];
  ssize_t got = read(s->said, data, sizeof data);
  if (got < 0 && errno == EINTR) return true;
  for (ssize_t i = 0; i < got; i++) {
    if (data[i] == '\n') take_line(s);
    else if (s->n < sizeof s->line - 1) s->line[s->n++] = data[i];
  }
  return got > 0;
}

static bool launcher_is_gone(const session *s) {
  struct pollfd file = {.fd = s->launcher_end, .events = POLLIN};
  if (s->launcher <= 0) return false;
  return s->launcher_end >= 0 ? poll(&file, 1, 0) > 0 : kill(s->launcher, 0) && errno == ESRCH;
}

/* Until it has ended; what it leaves open does not count. */
static int follow(session *s) {
  int state = 0;
  double kill_at_s = 0;
  while (waitpid(s->child, &state, WNOHANG) == 0) {
    bool alone = launcher_is_gone(s), seen = s->end >= 0 && s->launcher_end >= 0 && !alone;
    struct pollfd files[] = {{.fd = s->said, .events = POLLIN},
                             {.fd = s->end, .events = POLLIN},
                             {.fd = alone ? -1 : s->launcher_end, .events = POLLIN}};
    if (alone && kill_at_s == 0) kill_at_s = tool_now_s() + s->left_s;
    if (alone && tool_now_s() > kill_at_s) kill(s->child, SIGKILL);
    if (poll(files, 3, seen ? -1 : LOOK_MS) > 0 && files[0].revents && !take_output(s)) {
      close(s->said);
      s->said = -1;
    }
  }
  struct pollfd rest = {.fd = s->said, .events = POLLIN};
  while (s->said >= 0 && poll(&rest, 1, 0) > 0 && take_output(s)) {
  }
  if (s->n) take_line(s);
  return state;
}

/* ---- what came of it ---- */

static int tell_end(const session *s, int state) {
  char text[1400], agent[64], self[4096];
  int code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
  const char *last = *s->last ? s->last : "nothing was said";
  snprintf(agent, sizeof agent, "%.*s", (int)strcspn(agent_text(), " :"), agent_text());
  bool is_ssh = !strcmp(base_name(agent), "ssh");
  if (code == 0) return 0;
  if (WIFSIGNALED(state))
    snprintf(text, sizeof text, "host %s: %s to it was killed by signal %d (%s)", s->host, base_name(agent),
             WTERMSIG(state), strsignal(WTERMSIG(state)));
  else if (is_ssh && code == 255)
    snprintf(text, sizeof text, "host %s cannot be reached by ssh without a password: %s", s->host, last);
  else if (code == atoi(NO_PROGRAM) && tool_self_path(self, sizeof self))
    snprintf(text, sizeof text, TOOL_NO_PROGRAM, s->host, self);
  else if (code == 126 || code == 127)
    snprintf(text, sizeof text, "host %s: Open MPI's daemon cannot be run there (is openmpi-bin missing?): %s", s->host,
             last);
  else if (code > 128 && code <= 128 + SIGRTMAX)
    snprintf(text, sizeof text, "host %s: Open MPI's daemon there was killed by signal %d (%s)", s->host, code - 128,
             strsignal(code - 128));
  else
    snprintf(text, sizeof text, "host %s: Open MPI's daemon was not started there (code %d): %s", s->host, code, last);
  tell(s, TOOL_MARK_UNREACHED, text);
  return code;
}

/* mpirun takes any other code for a daemon that has failed to start, and ends those of all hosts, with their ranks. That one is
 * lost it hears from its connection, which it survives. */
static int code_for_mpirun(int code) {
  const char *folder = getenv("TMPDIR");
  char path[512];
  snprintf(path, sizeof path, "%s/" TOOL_JOINED_NAME, folder ? folder : "");
  return access(path, F_OK) ? code : 0;
}

int tool_agent(int argc, char **argv) {
  const char *watched = getenv(TOOL_AGENT_WATCH);
  session s = {.host = argv[2], .daemon = daemon_of(argc, argv), .said = -1, .end = -1, .launcher_end = -1};
  int launcher = 0;
  if (watched && sscanf(watched, "%d %lf", &launcher, &s.left_s) == 2) s.launcher = launcher;
  tool_leave_signals();
  s.launcher_end = tool_process_open(s.launcher);
  tell(&s, TOOL_MARK_ASKED, "");
  if (start(&s, argv)) return code_for_mpirun(tell_end(&s, follow(&s)));
  tell(&s, TOOL_MARK_UNREACHED, "no process can be started here for ssh");
  return 1;
}

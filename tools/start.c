/* Starting mpirun on this very command. Each rank marks its begin and its end, so that "all came to their end" is known and not
 * inferred from mpirun's exit code. */
#include "handover.h"
#include "hosts.h"
#include "launch.h"
#include "reach.h"
#include "restart.h"
#include "session.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

enum { MPIRUN_WORDS = 32 }; /* more than start adds to the command */

typedef struct arguments {
  const char **list; /* [n], then NULL */
  int n;
} arguments;

static void add_word(arguments *a, const char *word) { a->list[a->n++] = word; }

/* As mpirun wants them: "a:2,b:1", each with the ranks that it is to have, so that nothing is left to mpirun but to go
 * round them; hosts without one are not asked. */
static char *with_ranks(const tool_hosts *hosts, int n_ranks) {
  size_t size = (size_t)hosts->n * (TOOL_HOST_BYTES + 12), used = 0;
  int *counts = calloc((size_t)hosts->n, sizeof *counts);
  char *text = counts ? malloc(size) : NULL;
  if (text) tool_hosts_place(hosts, n_ranks, counts, NULL);
  for (int i = 0; text && i < hosts->n; i++)
    if (counts[i])
      used += (size_t)snprintf(text + used, size - used, "%s%s:%d", used ? "," : "", hosts->at[i].name, counts[i]);
  free(counts);
  return text;
}

/* Something that Open MPI would ask, and this program would not find in the environment. */
static bool is_agent_elsewhere(void) {
  static const char *const variables[] = {"OMPI_MCA_pls_rsh_agent", "OMPI_MCA_orte_rsh_agent", "SGE_ROOT",
                                          "LOADL_STEP_ID"};
  const char *home = getenv("HOME");
  char paths[2][512] = {"/etc/openmpi/openmpi-mca-params.conf"}, line[512];
  bool found = false;
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) found |= getenv(variables[i]) != NULL;
  snprintf(paths[1], sizeof paths[1], "%s/.openmpi/mca-params.conf", home ? home : "");
  for (int i = 0; i < 2; i++) {
    FILE *file = fopen(paths[i], "re");
    while (file && fgets(line, sizeof line, file))
      found |= line[strspn(line, " \t")] != '#' && strstr(line, "rsh_agent") != NULL;
    if (file) fclose(file);
  }
  return found;
}

/* mpirun starts this program for each host, and this program ssh (agent.c), or what the user has put in its place. */
static void take_place_of_ssh(const tool_launched *l, pid_t launcher) {
  const char *agent = getenv("OMPI_MCA_plm_rsh_agent"), *words = tool_agent_words();
  char self[4096], own[4200], watched[64];
  if (!tool_self_path(self, sizeof self) || strpbrk(self, " :") || (!agent && is_agent_elsewhere())) {
    if (*words) setenv("OMPI_MCA_plm_rsh_args", words, 1);
    return;
  }
  /* Where this program is missing, Open MPI's daemon needs another one that it can find, or ends without a word. */
  snprintf(own, sizeof own, "%s " TOOL_AGENT_WORD " : sh", self);
  snprintf(watched, sizeof watched, "%d %.3f", (int)launcher, l->grace_s);
  setenv(TOOL_AGENT, agent ? agent : TOOL_SSH, 1);
  setenv(TOOL_AGENT_ARGS, words, 1);
  setenv(TOOL_AGENT_WATCH, watched, 1);
  setenv("OMPI_MCA_plm_rsh_agent", own, 1);
  unsetenv("OMPI_MCA_plm_rsh_args");
  setenv("OMPI_MCA_orte_launch_agent", "$" TOOL_DAEMON " orted", 0);
}

void tool_leave_signals(void) {
  sigset_t left;
  sigemptyset(&left);
  sigaddset(&left, SIGTERM);
  sigaddset(&left, SIGINT);
  sigprocmask(SIG_BLOCK, &left, NULL);
}

/* In the child: becomes mpirun, in a process group of its own, so that a Ctrl-C reaches it by our hand only. The signals that
 * it leaves pending we find there (watch.c). Its ranks save and end where this process is killed. */
static void become_mpirun(const tool_launched *l, arguments *a, int in, const int out[2], const int err[2],
                          pid_t parent) {
  setpgid(0, 0);
  tool_leave_signals();
  prctl(PR_SET_PDEATHSIG, SIGUSR2);
  if (getppid() != parent) _exit(1);
  if (in >= 0) dup2(in, STDIN_FILENO);
  dup2(out[1], STDOUT_FILENO);
  dup2(err[1], STDERR_FILENO);
  for (int i = 0; i < 2; i++) close(out[i]), close(err[i]);
  setenv(TOOL_LAUNCHED, l->key, 1);
  if (l->noted->text) setenv(TOOL_RESTARTS, l->noted->text, 1); /* in the launcher each value would be kept for ever */
  if (l->waits) setenv(TOOL_PREPARED, "1", 1);
  tool_session_enter(&l->session);
  if (geteuid() == 0) {
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
  }
  take_place_of_ssh(l, parent);
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
    add_word(a, "--mca");
    add_word(a, keys[i]);
    add_word(a, iface ? iface : "lo,docker0,virbr0");
  }
}

static void close_both(const int pair[2]) { close(pair[0]), close(pair[1]); }

static ronde_status fail_start(void) { return tool_fail(RONDE_E_INTERNAL, "cannot start mpirun: %s", strerror(errno)); }

static ronde_status start_mpirun(tool_launched *l, arguments *a) {
  int in[2] = {-1, -1}, out[2], err[2];
  if (l->waits && pipe2(in, O_CLOEXEC)) return fail_start();
  l->begin = in[1];
  if (pipe2(out, O_CLOEXEC)) {
    if (l->waits) close(in[0]);
    return fail_start();
  }
  if (pipe2(err, O_CLOEXEC)) {
    if (l->waits) close(in[0]);
    close_both(out);
    return fail_start();
  }
  pid_t parent = getpid();
  l->mpirun = fork();
  if (l->mpirun == 0) become_mpirun(l, a, in[0], out, err, parent);
  close(out[1]), close(err[1]);
  if (l->waits) close(in[0]);
  l->streams[0] = (tool_stream){.from = out[0], .to = STDOUT_FILENO};
  l->streams[1] = (tool_stream){.from = err[0], .to = STDERR_FILENO};
  return l->mpirun < 0 ? fail_start() : RONDE_OK;
}

static ronde_status start_ranks(tool_launched *l) {
  const tool_call *call = l->call;
  const tool_hosts *hosts = &l->hosts;
  const char *iface = ronde_config_get(call->config, "iface");
  char ranks[16], self[4096], *places = hosts->n ? with_ranks(hosts, l->n_ranks) : NULL;
  size_t n_words = 0;
  while (l->words[n_words]) n_words++;
  for (int i = 0; ronde_config_variable(i); i++) n_words += 2;
  arguments a = {.list = calloc(n_words + MPIRUN_WORDS + 1, sizeof *a.list)};
  if (!a.list || (hosts->n && !places)) {
    free(a.list), free(places);
    return tool_fail(RONDE_E_MEMORY, "no memory for mpirun's command");
  }
  snprintf(ranks, sizeof ranks, "%d", l->n_ranks);
  add_word(&a, TOOL_MPIRUN);
  add_word(&a, "-np"), add_word(&a, ranks);
  if (places) {
    add_word(&a, "--host"), add_word(&a, places), add_word(&a, "--map-by"), add_word(&a, "node");
    /* mpirun would ask, and report, "a" for "a.example.org". */
    add_word(&a, "--mca"), add_word(&a, "orte_keep_fqdn_hostnames"), add_word(&a, "1");
  } else {
    add_word(&a, "--oversubscribe");
  }
  add_word(&a, "--bind-to"), add_word(&a, "none");
  /* Ranks miss each other by themselves, within 0.1 s, and end with their words said and their state written. mpirun would
   * be deaf for a second, and then kill them; but it says at once which process has ended. */
  add_word(&a, "--enable-recovery");
  add_word(&a, "--mca"), add_word(&a, "state_base_verbose"), add_word(&a, "1");
  add_iface(&a, iface && *iface ? iface : NULL, hosts->n > 0);
  add_word(&a, "-x"), add_word(&a, TOOL_LAUNCHED);
  if (tool_is_compared()) add_word(&a, "-x"), add_word(&a, TOOL_COMPARED);
  if (l->noted->text) add_word(&a, "-x"), add_word(&a, TOOL_RESTARTS);
  if (l->waits) add_word(&a, "-x"), add_word(&a, TOOL_PREPARED);
  for (int i = 0; ronde_config_variable(i); i++)
    if (getenv(ronde_config_variable(i))) add_word(&a, "-x"), add_word(&a, ronde_config_variable(i));
  add_word(&a, tool_self_path(self, sizeof self) ? self : call->argv[0]);
  for (int i = 1; l->words[i]; i++) add_word(&a, l->words[i]);
  ronde_status status = start_mpirun(l, &a);
  free(a.list), free(places);
  return status;
}

/* Where they are to be, until they say it themselves. */
static void place_ranks(tool_launched *l) {
  const tool_hosts *hosts = &l->hosts;
  int *counts = calloc((size_t)hosts->n + 1, sizeof *counts), *host_of = calloc((size_t)l->n_ranks, sizeof *host_of);
  if (hosts->n && counts && host_of && tool_hosts_place(hosts, l->n_ranks, counts, host_of))
    for (int i = 0; i < l->n_ranks; i++) {
      const char *name = hosts->at[host_of[i]].name;
      snprintf(l->ranks[i].host, sizeof l->ranks[i].host, "%.63s", name);
      snprintf(l->ranks[i].listed, sizeof l->ranks[i].listed, "%s", name);
    }
  free(counts), free(host_of);
}

/* Nobody can guess it, and only those whom mpirun starts get it. */
static bool make_key(char key[TOOL_KEY_DIGITS + 1]) {
  unsigned char bytes[TOOL_KEY_DIGITS / 2];
  if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) return false;
  for (size_t i = 0; i < sizeof bytes; i++) snprintf(key + 2 * i, 3, "%02x", bytes[i]);
  return true;
}

tool_launched *tool_launch_fresh(const tool_launched *of) {
  tool_launched *l = malloc(sizeof *l);
  if (!l) return NULL;
  *l = (tool_launched){.call = of->call,
                       .grace_s = of->grace_s,
                       .timeout_s = of->timeout_s,
                       .trains = of->trains,
                       .goes_on = of->goes_on,
                       .restarts = of->restarts,
                       .out = of->out,
                       .joins = of->joins,
                       .noted = of->noted,
                       .session = {.lock = -1},
                       .streams = {{.from = -1}, {.from = -1}},
                       .begin = -1,
                       .code = -1};
  return l;
}

ronde_status tool_launch_begin(tool_launched *l) {
  l->ranks = calloc((size_t)l->n_ranks, sizeof *l->ranks);
  l->n_daemons = l->hosts.n + 1;
  l->daemon_hosts = calloc((size_t)l->n_daemons, sizeof *l->daemon_hosts);
  l->asks = calloc((size_t)l->n_daemons, sizeof *l->asks);
  if (!l->ranks || !l->daemon_hosts || !l->asks) return tool_fail(RONDE_E_MEMORY, "no memory for %d ranks", l->n_ranks);
  for (int i = 0; i < l->n_ranks; i++) l->ranks[i].end = -1;
  if (!make_key(l->key)) return tool_fail(RONDE_E_INTERNAL, "the system has no random numbers");
  place_ranks(l);
  tool_session_begin(&l->session);
  l->begin_s = tool_now_s();
  return start_ranks(l);
}

void tool_launch_end(tool_launched *l) {
  for (int i = 0; l->ranks && i < l->n_ranks; i++)
    if (l->ranks[i].end >= 0) close(l->ranks[i].end);
  for (int i = 0; i < 2; i++)
    if (l->streams[i].from >= 0) close(l->streams[i].from);
  if (l->begin >= 0) close(l->begin);
  tool_session_end(&l->session);
  tool_hosts_free(&l->hosts);
  tool_rank_words_free(l->words);
  free(l->ranks), free(l->daemon_hosts), free(l->asks), free(l->unsaid);
  free(l);
}

/* Hosts, by ssh or what takes its place. */
#include "reach.h"

#include "limits.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct reach {
  const char *host;
  FILE *said;
  char last[512]; /* line */
} reach;

/* ssh may ask nothing, and not wait for long; another program would not know these words. */
const char *tool_agent_words(void) {
  const char *words = getenv("OMPI_MCA_plm_rsh_args");
  if (words) return words;
  return getenv("OMPI_MCA_plm_rsh_agent") ? "" : "-o BatchMode=yes -o ConnectTimeout=10";
}

/* The command there, as mpirun would start it, and its code. The words reach the shell here as arguments, never as its
 * text, and of several agents, apart by colons, the first counts. It ends with this process. */
static FILE *ask_host(const char *host, const char *command) {
  const char *agent = getenv("OMPI_MCA_plm_rsh_agent");
  char limit[16];
  int out[2];
  if (pipe(out)) return NULL;
  pid_t own = getpid(), child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* timeout(1) hands it on */
    if (getppid() != own) _exit(127);
    dup2(out[1], STDOUT_FILENO);
    dup2(out[1], STDERR_FILENO);
    close(out[0]), close(out[1]);
    snprintf(limit, sizeof limit, "%d", TOOL_REACH_S);
    execlp("timeout", "timeout", limit, "sh", "-c",
           "agent=${1%%:*} words=$2 host=$3 command=$4; $agent $words \"$host\" \"$command\"; echo $?", "sh",
           agent ? agent : "ssh", tool_agent_words(), host, command, (char *)NULL);
    _exit(127);
  }
  close(out[1]);
  return child < 0 ? (close(out[0]), NULL) : fdopen(out[0], "r");
}

/* The code of `ronde version` there, in `last` what was said before; -1: nothing came back in time. */
static int read_answer(reach *r) {
  char line[512], before[512] = "", code[512] = "";
  while (r->said && fgets(line, sizeof line, r->said)) {
    line[strcspn(line, "\r\n")] = 0;
    memcpy(before, code, sizeof before);
    memcpy(code, line, sizeof code);
  }
  if (r->said) fclose(r->said);
  char *end;
  long value = strtol(code, &end, 10);
  bool is_code = end != code && !*end;
  memcpy(r->last, is_code ? before : code, sizeof r->last);
  return is_code ? (int)value : -1;
}

static int n_unreached(reach *hosts, int n) {
  int missing = 0;
  for (int i = 0; i < n; i++) {
    int code = read_answer(&hosts[i]);
    if (code == 0) continue;
    missing++;
    if (code == 126 || code == 127) tool_fail(RONDE_E_LOST, TOOL_NO_PROGRAM, hosts[i].host, hosts[i].last);
    else if (code < 0) tool_fail(RONDE_E_LOST, "host %s does not answer within %d s", hosts[i].host, TOOL_REACH_S);
    else
      tool_fail(RONDE_E_LOST, "host %s cannot be reached by ssh without a password: %s", hosts[i].host, hosts[i].last);
  }
  while (waitpid(-1, NULL, WNOHANG) > 0) {
  }
  return missing;
}

void tool_ask_host(const char *host, const char *command) {
  reach one = {.host = host, .said = ask_host(host, command)};
  int code = read_answer(&one);
  if (code) tool_say("host %s: `%s` has failed: %s", host, command, one.last);
  while (waitpid(-1, NULL, WNOHANG) > 0) {
  }
}

static void make_question(char command[4110]) {
  char self[4096];
  snprintf(command, 4110, "%s version", tool_self_path(self, sizeof self) ? self : "ronde");
}

pid_t tool_host_ask(const char *host) {
  char command[4110];
  pid_t own = getpid(), child = fork();
  if (child) return child > 0 ? child : 0;
  signal(SIGINT, SIG_DFL), signal(SIGTERM, SIG_DFL);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != own) _exit(1);
  make_question(command);
  int code = read_answer(&(reach){.host = host, .said = ask_host(host, command)});
  while (wait(NULL) > 0) continue; /* what asked would be left to the launcher, which does not know it */
  _exit(code & 0xff);
}

bool tool_host_asked(pid_t asking, int *code_out) {
  int state;
  pid_t ended = waitpid(asking, &state, WNOHANG);
  if (ended == 0) return false;
  *code_out = ended > 0 && WIFEXITED(state) ? WEXITSTATUS(state) : 255; /* < 0: the end of a run took it along */
  return true;
}

void tool_host_ask_end(pid_t asking) {
  kill(asking, SIGKILL);
  waitpid(asking, NULL, 0);
}

ronde_status tool_reach_hosts(const tool_hosts *hosts) {
  reach *all = calloc((size_t)hosts->n + 1, sizeof *all);
  char command[4110];
  if (!all) return tool_fail(RONDE_E_MEMORY, "no memory");
  make_question(command);
  for (int i = 0; i < hosts->n; i++)
    all[i] = (reach){.host = hosts->at[i].name, .said = ask_host(hosts->at[i].name, command)};
  int missing = n_unreached(all, hosts->n);
  free(all);
  return missing ? tool_fail(RONDE_E_LOST, "%d of %d hosts cannot take part", missing, hosts->n) : RONDE_OK;
}

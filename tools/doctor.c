/* ronde doctor: first whether the hosts are reached and have this program, then what the ranks there find. */
#include "hosts.h"
#include "limits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- reaching ---- */

typedef struct reach {
  const char *host;
  FILE *said;
  char last[512]; /* line */
} reach;

/* `ronde version` there, as mpirun would start it. The words reach the shell as arguments, never as its text. */
static FILE *ask_host(const char *host) {
  const char *agent = getenv("OMPI_MCA_plm_rsh_agent");
  char self[4096], limit[16];
  int out[2];
  if (pipe(out)) return NULL;
  pid_t child = fork();
  if (child == 0) {
    dup2(out[1], STDOUT_FILENO);
    dup2(out[1], STDERR_FILENO);
    close(out[0]), close(out[1]);
    snprintf(limit, sizeof limit, "%d", TOOL_REACH_S);
    if (!tool_self_path(self, sizeof self)) _exit(127);
    execlp("timeout", "timeout", limit, "sh", "-c",
           "agent=$1 host=$2 self=$3; $agent \"$host\" \"$self version\"; echo $?", "sh",
           agent ? agent : "ssh -o BatchMode=yes -o ConnectTimeout=10", host, self, (char *)NULL);
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
    if (code == 126 || code == 127)
      tool_fail(RONDE_E_LOST, "host %s was reached, but ronde cannot be run there by the path used here: %s",
                hosts[i].host, hosts[i].last);
    else if (code < 0) tool_fail(RONDE_E_LOST, "host %s does not answer within %d s", hosts[i].host, TOOL_REACH_S);
    else
      tool_fail(RONDE_E_LOST, "host %s cannot be reached by ssh without a password: %s", hosts[i].host, hosts[i].last);
  }
  while (waitpid(-1, NULL, WNOHANG) > 0) {
  }
  return missing;
}

static ronde_status reach_hosts(const tool_hosts *hosts) {
  reach *all = calloc((size_t)hosts->n + 1, sizeof *all);
  if (!all) return tool_fail(RONDE_E_MEMORY, "no memory");
  for (int i = 0; i < hosts->n; i++) all[i] = (reach){.host = hosts->at[i].name, .said = ask_host(hosts->at[i].name)};
  int missing = n_unreached(all, hosts->n);
  free(all);
  return missing ? tool_fail(RONDE_E_LOST, "%d of %d hosts cannot take part", missing, hosts->n) : RONDE_OK;
}

/* ---- the result ---- */

static void print_doctor(const json_t *doctor) {
  static const tool_column of_ranks[] = {
      {"rank", TOOL_CELL_NUMBER, "rank", 0, 1},       {"host", TOOL_CELL_TEXT, "host", 0, 1},
      {"kernels", TOOL_CELL_TEXT, "kernels", 0, 1},   {"cores", TOOL_CELL_NUMBER, "cores", 0, 1},
      {"threads", TOOL_CELL_NUMBER, "threads", 0, 1}, {"memory", TOOL_CELL_BYTES, "memory_bytes", 0, 1},
      {"load", TOOL_CELL_NUMBER, "load", 1, 1},       {"clock ahead s", TOOL_CELL_NUMBER, "clock_ahead_s", 3, 1},
  };
  static const tool_column of_links[] = {
      {"from rank", TOOL_CELL_NUMBER, "from", 0, 1},
      {"to rank", TOOL_CELL_NUMBER, "to", 0, 1},
      {"latency us", TOOL_CELL_NUMBER, "latency_s", 1, 1e6},
      {"there MB/s", TOOL_CELL_NUMBER, "to_bytes_per_s", 1, 1e-6},
      {"back MB/s", TOOL_CELL_NUMBER, "from_bytes_per_s", 1, 1e-6},
  };
  const json_t *links = json_object_get(doctor, "links"), *advice = json_object_get(doctor, "advice"), *one;
  size_t i;
  tool_table(json_object_get(doctor, "ranks"), of_ranks, sizeof of_ranks / sizeof of_ranks[0]);
  if (json_array_size(links)) {
    printf("\n");
    tool_table(links, of_links, sizeof of_links / sizeof of_links[0]);
  }
  printf("\n");
  json_array_foreach(advice, i, one) printf("%s: %s\n", tool_string(one, "level"), tool_string(one, "text"));
  if (!json_array_size(advice)) printf("nothing to change\n");
}

ronde_status tool_doctor(const tool_call *call) {
  if (tool_must_launch(call)) {
    tool_hosts hosts;
    ronde_status reached = tool_hosts_get(call, &hosts);
    if (reached == RONDE_OK) reached = reach_hosts(&hosts);
    tool_hosts_free(&hosts);
    return reached ? reached : tool_launch(call);
  }
  char *text = NULL;
  tool_signals_start(0);
  ronde_status status = ronde_doctor(call->config, &text);
  ronde_status shown = text ? tool_print_result(call, text, print_doctor) : RONDE_OK;
  if (status == RONDE_E_DIFFERENCE) tool_fail(status, "these hosts cannot train together as they are");
  return status ? status : shown;
}

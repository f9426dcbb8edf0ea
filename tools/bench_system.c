/* A system of `bench step` as a living process: it is told by lines of text what to do, and answers in JSON. */
#include "bench_step.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- lines ---- */

/* Ronde itself says what is wrong, and its exit code is ours; of others the reason stands on stderr. */
static ronde_status fail_gone(tool_system *system, const char *what) {
  int state = 0;
  if (tool_signal()) return RONDE_E_CANCELLED;
  if (system->peer) return tool_fail(RONDE_E_INTERNAL, "%s: %s; its own message above says why", system->name, what);
  fclose(system->to);
  system->to = NULL;
  while (waitpid(system->pid, &state, 0) < 0 && errno == EINTR) {
  }
  system->pid = 0;
  ronde_status status = WIFEXITED(state) ? tool_status_of_exit(WEXITSTATUS(state)) : RONDE_OK;
  if (!status) return tool_fail(RONDE_E_INTERNAL, "%s: %s", system->name, what);
  tool_error_shown();
  return status;
}

/* The next line, a JSON object. */
static ronde_status hear_system(tool_system *system, json_t **answer_out) {
  char *line = NULL;
  size_t capacity = 0;
  ssize_t length = getline(&line, &capacity, system->from);
  json_t *answer = length > 0 ? json_loads(line, 0, NULL) : NULL;
  free(line);
  if (!answer) return fail_gone(system, length > 0 ? "its answer is not JSON" : "it ended without an answer");
  *answer_out = answer;
  return RONDE_OK;
}

/* seconds_out [n]; NULL: nobody asks. */
static ronde_status go_system(tool_system *system, int64_t n, double *seconds_out, double *loss_out) {
  json_t *answer;
  if (fprintf(system->to, "go %lld\n", (long long)n) < 0 || fflush(system->to))
    return fail_gone(system, "it does not read its input");
  ronde_status status = hear_system(system, &answer);
  if (status) return status;
  *loss_out = tool_number(answer, "loss");
  system->peak_rss_bytes = tool_number(answer, "peak_rss_bytes");
  const json_t *seconds = json_object_get(answer, "seconds");
  if ((int64_t)json_array_size(seconds) != n || !isfinite(*loss_out))
    status = tool_fail(RONDE_E_NUMERIC, "%s: it was asked for %lld steps, but answered with %zu times and the loss %g",
                       system->name, (long long)n, json_array_size(seconds), *loss_out);
  for (int64_t i = 0; i < n && seconds_out && !status; i++)
    seconds_out[i] = json_number_value(json_array_get(seconds, (size_t)i));
  json_decref(answer);
  return status;
}

ronde_status tool_system_go(tool_system *system, int64_t n, double *seconds_out) {
  double loss;
  return go_system(system, n, seconds_out, &loss);
}

/* ---- processes ---- */

/* In the child: only async-signal-safe calls, between fork and exec. */
static void become_system(char **words, const int *to, const int *from) {
  dup2(to[0], STDIN_FILENO);
  dup2(from[1], STDOUT_FILENO);
  execvp(words[0], words);
  _exit(127);
}

static ronde_status start_process(tool_system *system) {
  enum { MAX_WORDS = 64 };
  char *words[MAX_WORDS + 1] = {NULL};
  int to[2], from[2];
  size_t n = json_array_size(system->command);
  for (size_t i = 0; i < n && i < MAX_WORDS; i++)
    words[i] = (char *)json_string_value(json_array_get(system->command, i));
  /* A system that held another's input open would keep it from ending. */
  if (pipe2(to, O_CLOEXEC))
    return tool_fail(RONDE_E_INTERNAL, "%s: cannot make a pipe: %s", system->name, strerror(errno));
  if (pipe2(from, O_CLOEXEC)) {
    close(to[0]);
    close(to[1]);
    return tool_fail(RONDE_E_INTERNAL, "%s: cannot make a pipe: %s", system->name, strerror(errno));
  }
  system->pid = fork();
  if (system->pid == 0) become_system(words, to, from);
  close(to[0]);
  close(from[1]);
  system->to = fdopen(to[1], "w");
  system->from = fdopen(from[0], "r");
  if (system->pid < 0 || !system->to || !system->from)
    return tool_fail(RONDE_E_MEMORY, "%s: cannot start a process: %s", system->name, strerror(errno));
  return RONDE_OK;
}

static ronde_status start_system(tool_system *system, bool *absent_out) {
  double begin = tool_now_s();
  ronde_status status = start_process(system);
  if (!status) status = hear_system(system, &system->about);
  const char *absent = tool_string(system->about, "absent");
  *absent_out = !status && *absent;
  if (*absent_out) tool_say("%s is left out: %s", system->name, absent);
  if (status || *absent_out) return status;
  status = go_system(system, 1, NULL, &system->losses[0]);
  system->setup_s = tool_now_s() - begin;
  return status ? status : go_system(system, 1, NULL, &system->losses[1]);
}

ronde_status tool_system_start(tool_system *system, bool *absent_out) {
  ronde_status status = start_system(system, absent_out);
  if (status || *absent_out) tool_system_end(system);
  return status;
}

/* The end of its input ends it; one that does not hear is ended. */
void tool_system_end(tool_system *system) {
  if (system->to) fclose(system->to);
  if (system->from) fclose(system->from);
  for (int i = 0; system->pid > 0; i++) {
    pid_t ended = waitpid(system->pid, NULL, i < 500 ? WNOHANG : 0);
    if (ended == system->pid || (ended < 0 && errno != EINTR)) break;
    if (i == 499) kill(system->pid, SIGKILL);
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  }
  json_decref(system->command);
  json_decref(system->about);
  *system = (tool_system){0};
}

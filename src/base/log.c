/* Log lines: one sink for the process, one line at a time, and groups of ranks that log a common error once. */
#include "base/base.h"
#include "base/log_group.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;
static ronde_log_fn log_fn;
static void *log_user;
static __thread int log_rank = -1;
static __thread ronde__log_group *log_group;
static __thread bool log_demoted, log_muted;

void ronde_log_set(ronde_log_fn fn, void *user) {
  pthread_mutex_lock(&log_mutex);
  log_fn = fn;
  log_user = user;
  pthread_mutex_unlock(&log_mutex);
}

void ronde__log_set_rank(int rank) { log_rank = rank; }
void ronde__log_set_group(ronde__log_group *group) { log_group = group; }
ronde__log_group *ronde__log_get_group(void) { return log_group; }

void ronde__log_group_clear(ronde__log_group *group) {
  for (int i = 0; i < group->n_said; i++) free(group->said[i]);
  *group = (ronde__log_group){0};
}

/* The mutex is held. A line for which there is no more room is not remembered and may be logged again. */
static bool was_said(const char *text) {
  for (int i = 0; i < log_group->n_said; i++)
    if (strcmp(log_group->said[i], text) == 0) return true;
  char *copy = log_group->n_said < (int)RONDE__COUNT(log_group->said) ? ronde__strdup(text) : NULL;
  if (copy) log_group->said[log_group->n_said++] = copy;
  return false;
}
void ronde__log_demote(bool on) { log_demoted = on; }
bool ronde__log_mute(bool on) {
  bool before = log_muted;
  log_muted = on;
  return before;
}

/* A line that is too long (by a path of thousands of bytes) loses its middle, because the reason stands at its end. */
static void write_line(char *line, size_t room, const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  size_t n = (size_t)vsnprintf(line, room, format, args);
  char *whole = n >= room ? malloc(n + 1) : NULL;
  if (whole) {
    static const char ellipsis[] = " ... ";
    size_t tail = room / 2, head = room - tail - sizeof ellipsis;
    vsnprintf(whole, n + 1, format, again);
    memcpy(line + head, ellipsis, sizeof ellipsis);
    memcpy(line + head + sizeof ellipsis - 1, whole + n - tail, tail + 1);
    free(whole);
  }
  va_end(again);
}

static void log_line(ronde_log_level level, const char *format, va_list args) {
  char line[1024];
  int used = 0;
  if (level == RONDE_LOG_ERROR && log_rank >= 0) used = snprintf(line, sizeof line, "rank %d: ", log_rank);
  write_line(line + used, sizeof line - (size_t)used, format, args);
  pthread_mutex_lock(&log_mutex);
  bool again = level == RONDE_LOG_ERROR && log_group && was_said(line + used);
  if (log_fn && !again && !log_muted) log_fn(log_user, level, line);
  pthread_mutex_unlock(&log_mutex);
}

void ronde__log(ronde_log_level level, const char *format, ...) {
  va_list args;
  va_start(args, format);
  log_line(level, format, args);
  va_end(args);
}

ronde_status ronde__fail(ronde_status status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  log_line(log_demoted ? RONDE_LOG_WARNING : RONDE_LOG_ERROR, format, args);
  va_end(args);
  return status;
}

static const struct {
  const char *text;
  int exit_code;
} statuses[] = {
#define RONDE_X(name, text, code) {text, code},
    RONDE_STATUS_LIST(RONDE_X)
#undef RONDE_X
};

const char *ronde_status_text(ronde_status status) {
  return (size_t)status < RONDE__COUNT(statuses) ? statuses[status].text : "unknown status";
}

int ronde_status_exit_code(ronde_status status) {
  return (size_t)status < RONDE__COUNT(statuses) ? statuses[status].exit_code : 1;
}

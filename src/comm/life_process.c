/* Looks at processes by /proc, and at their end by pidfds. */
#include "comm/life_process.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FIELDS_TO_START = 20 }; /* from the state on, in /proc/PID/stat */

/* False: there is none. */
static bool read_stat(pid_t pid, char *state_out, uint64_t *started_out) {
  char path[48], text[1024];
  unsigned long long started = 0;
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  FILE *file = fopen(path, "re");
  size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
  if (file) fclose(file);
  text[n] = 0;
  const char *at = strrchr(text, ')'); /* the name may hold anything */
  if (!at || sscanf(at, ") %c", state_out) != 1) return false;
  for (int i = 0; i < FIELDS_TO_START && at; i++) at = strchr(at + 1, ' ');
  if (!at || sscanf(at, " %llu", &started) != 1) return false;
  *started_out = started;
  return true;
}

ronde__process ronde__process_own(void) {
  ronde__process own = {.pid = getpid()};
  char state;
  struct stat space;
  if (!read_stat(own.pid, &state, &own.started)) own.started = 0;
  if (stat("/proc/self/ns/pid", &space) == 0) own.space = space.st_ino;
  return own;
}

ronde__process_state ronde__process_look(ronde__process process) {
  char state;
  uint64_t started;
  if (!read_stat(process.pid, &state, &started) || started != process.started) return RONDE__PROCESS_GONE;
  if (state == 'Z' || state == 'X') return RONDE__PROCESS_GONE;
  return state == 'T' || state == 't' ? RONDE__PROCESS_STOPPED : RONDE__PROCESS_RUNS;
}

int ronde__process_open(ronde__process process) {
  if (process.started == 0 || ronde__process_look(process) == RONDE__PROCESS_GONE) return -1;
#ifdef SYS_pidfd_open
  int fd = (int)syscall(SYS_pidfd_open, process.pid, 0u);
  /* The number may have got another owner in between. */
  if (fd >= 0 && ronde__process_look(process) != RONDE__PROCESS_GONE) return fd;
  if (fd >= 0) close(fd);
#endif
  return -1;
}

bool ronde__process_ended(ronde__process process) {
  bool visible = process.started != 0 && process.space != 0 && process.space == ronde__process_own().space;
  return visible && ronde__process_look(process) == RONDE__PROCESS_GONE;
}

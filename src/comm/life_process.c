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

static uint64_t namespace_of(const char *path) {
  struct stat file;
  return stat(path, &file) == 0 ? file.st_ino : 0;
}

ronde__process ronde__process_own(void) {
  ronde__process own = {.pid = getpid()};
  char state;
  if (!read_stat(own.pid, &state, &own.started)) own.started = 0;
  own.space = namespace_of("/proc/self/ns/pid");
  own.clock = namespace_of("/proc/self/ns/time");
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
  ronde__process own = ronde__process_own();
  bool visible = process.started && process.space && process.space == own.space && process.clock == own.clock;
  return visible && ronde__process_look(process) == RONDE__PROCESS_GONE;
}

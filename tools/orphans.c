/* What mpirun leaves behind on this host comes to the launcher: ranks, what was started in the place of ssh. */
#include "launch.h"
#include "limits.h"

#include <ctype.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_MS = 100 };

static bool read_proc_file(pid_t pid, const char *name, char *text, size_t size, size_t *n_out) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
  FILE *file = fopen(path, "r");
  *n_out = file ? fread(text, 1, size - 1, file) : 0;
  text[*n_out] = 0;
  if (file) fclose(file);
  return *n_out > 0;
}

static pid_t parent_of(pid_t pid) {
  char text[512];
  size_t n;
  int parent = -1;
  if (!read_proc_file(pid, "stat", text, sizeof text, &n)) return -1;
  const char *behind = strrchr(text, ')'); /* the name may hold anything */
  return behind && sscanf(behind, ") %*c %d", &parent) == 1 ? parent : -1;
}

/* Not any more, of one that is about to end; its files may still be held, by another thread or by what closes them. */
static bool has_memory(pid_t pid) {
  char text[128];
  size_t n;
  return !read_proc_file(pid, "statm", text, sizeof text, &n) || strtol(text, NULL, 10) > 0;
}

/* Whoever started this process may have left it children of another kind, and another start may be under way. */
static bool is_launched(const tool_launched *l, pid_t pid) {
  static char text[1 << 17];
  size_t n;
  if (!read_proc_file(pid, "environ", text, sizeof text, &n)) return !has_memory(pid);
  for (const char *at = text; at < text + n; at += strlen(at) + 1)
    if (!strncmp(at, TOOL_LAUNCHED "=", sizeof TOOL_LAUNCHED)) return !strcmp(at + sizeof TOOL_LAUNCHED, l->key);
  return false;
}

/* A child of this process that came with mpirun: a local rank, ssh; 0: there is none. With a signal: sends it to all. */
static pid_t orphan(const tool_launched *l, int signal_number) {
  pid_t one = 0;
  while (waitpid(-1, NULL, WNOHANG) > 0) continue;
  DIR *folder = opendir("/proc");
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;
    if (pid <= 0 || parent_of(pid) != getpid() || !is_launched(l, pid)) continue;
    one = pid;
    if (signal_number) kill(pid, signal_number);
  }
  if (folder) closedir(folder);
  return one;
}

static void pause_a_little(void) { nanosleep(&(struct timespec){0, LOOK_MS * 1000000l}, NULL); }

void tool_orphans_await(const tool_launched *l, int signal_number) {
  double end = tool_now_s() + l->grace_s + TOOL_GRACE_MARGIN_S;
  bool said = false;
  while (orphan(l, 0) && tool_now_s() < end && tool_signal_requests() < 2) {
    if (!said)
      tool_say("warning: mpirun was lost: killed by signal %d (%s): waiting for its ranks to save and end",
               signal_number, strsignal(signal_number));
    said = true;
    pause_a_little();
  }
}

void tool_orphans_kill(tool_launched *l) {
  bool followed = l->next && !l->next->waits;
  double begin = tool_now_s(), limit = followed ? 0 : l->grace_s > TOOL_ABORT_S ? l->grace_s : TOOL_ABORT_S;
  int n_requests = tool_signal_requests();
  bool said = false;
  for (; (l->unended = orphan(l, SIGKILL)) && tool_now_s() - begin < limit; pause_a_little()) {
    if (tool_signal_requests() > n_requests) break;
    if (said || tool_now_s() - begin < TOOL_AT_ONCE_S) continue;
    tool_say("process %d was killed and does not end: it is in a call of the system, and waited for up to %.0f s",
             (int)l->unended, limit);
    said = true;
  }
}

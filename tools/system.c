/* What the verbs need of the system: the clock, and folders that are taken away whole. */
#include "common.h"

#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* So long that a tenth of a core is several ticks of the system's clock; the load of the last minute would also count what
 * has ended by now, such as the measurement in front of this one. */
#define WATCH_MS 300

void tool_warn_of_load(void) {
  ronde_host_look look;
  ronde_host_look_now(&look);
  nanosleep(&(struct timespec){0, WATCH_MS * 1000000l}, NULL);
  ronde_host_load load = ronde_host_load_since(&look);
  if (load.is_busy)
    tool_say("warning: this host is busy: other programs use %.1f of its %d cores", load.others, load.cores);
}

double tool_now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

bool tool_self_path(char *buffer, size_t size) {
  ssize_t n = readlink("/proc/self/exe", buffer, size - 1);
  buffer[n > 0 ? n : 0] = 0;
  return n > 0;
}

int tool_process_open(int pid) {
#ifdef SYS_pidfd_open
  return pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0u) : -1;
#else
  (void)pid;
  return -1;
#endif
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *place) {
  (void)info, (void)kind, (void)place;
  remove(path);
  return 0;
}

void tool_folder_remove(const char *path) {
  enum { MOST_OPEN = 16 };
  nftw(path, remove_entry, MOST_OPEN, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

void tool_environment_forget(void) {
  ronde_option option;
  for (int i = 0; ronde_config_option("compare", i, &option); i++) {
    if (*option.variable) unsetenv(option.variable);
  }
}

json_t *tool_words_json(char **words) {
  json_t *list = json_array();
  for (; *words; words++) json_array_append_new(list, json_string(*words));
  return list;
}

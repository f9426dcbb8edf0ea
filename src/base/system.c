#include "base/base.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static uint64_t clock_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t ronde__now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

uint64_t ronde__cpu_ns(void) { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

/* Not ru_maxrss: a process inherits that from the one that started it. */
int64_t ronde__peak_rss_bytes(void) {
  long long kib = -1;
  char line[256];
  FILE *file = fopen("/proc/self/status", "re");
  if (file) {
    while (fgets(line, sizeof line, file) && sscanf(line, "VmHWM: %lld kB", &kib) != 1) continue;
    fclose(file);
  }
  if (kib < 0) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    kib = usage.ru_maxrss;
  }
  return (int64_t)kib * 1024;
}

/* Of the first thread: the calling one may be pinned. */
static int cores_of_affinity(void) {
  /* A fixed cpu_set_t ends at 1024 cores; the call fails until the set is as large as the kernel's. */
  for (int n = 1024; n <= 1 << 20; n *= 2) {
    cpu_set_t *set = CPU_ALLOC(n);
    if (!set) break;
    int found = sched_getaffinity(getpid(), CPU_ALLOC_SIZE(n), set) == 0 ? CPU_COUNT_S(CPU_ALLOC_SIZE(n), set) : 0;
    CPU_FREE(set);
    if (found > 0) return found;
  }
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (int)online : 1;
}

/* Reads up to two integers of a small file; the word "max" reads as -1. How many were read. */
static int read_numbers(const char *folder, const char *name, long long out[2]) {
  char path[4096], text[128] = "";
  if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path) return 0;
  FILE *file = fopen(path, "re");
  if (!file) return 0;
  size_t length = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[length] = 0;
  if (!strncmp(text, "max", 3)) {
    out[0] = -1;
    return 1 + (sscanf(text + 3, "%lld", &out[1]) == 1);
  }
  int n = sscanf(text, "%lld %lld", &out[0], &out[1]);
  return n > 0 ? n : 0;
}

/* The cores that one control group grants, rounded up; 0: no limit. */
static int quota_of_group(const char *folder) {
  long long v[2], period[2];
  bool known = read_numbers(folder, "cpu.max", v) == 2;
  if (!known && read_numbers(folder, "cpu.cfs_quota_us", v) == 1 &&
      read_numbers(folder, "cpu.cfs_period_us", period) == 1) {
    v[1] = period[0];
    known = true;
  }
  if (!known || v[0] <= 0 || v[1] <= 0) return 0;
  return (int)ronde__min(ronde__ceil_div(v[0], v[1]), 1 << 20);
}

/* The smallest quota of a group and those above it, below `root`. */
static int quota_of_path(const char *root, const char *mount, const char *group) {
  char folder[4096];
  int length = snprintf(folder, sizeof folder, "%s%s%s", root, mount, group);
  if (length < 0 || (size_t)length >= sizeof folder) return 0;
  size_t top = strlen(root) + strlen(mount);
  int quota = 0;
  for (;;) {
    int found = quota_of_group(folder);
    if (found > 0 && (quota == 0 || found < quota)) quota = found;
    char *slash = strrchr(folder + top, '/');
    if (!slash) return quota;
    *slash = 0;
  }
}

static bool has_word(const char *list, const char *word) {
  size_t n = strlen(word);
  for (const char *p = list; (p = strstr(p, word)); p += n)
    if ((p == list || p[-1] == ',') && (p[n] == 0 || p[n] == ',')) return true;
  return false;
}

int ronde__cores_quota(const char *cgroup_file, const char *cgroup_root) {
  FILE *file = fopen(cgroup_file, "re");
  if (!file) return 0;
  char line[4096];
  int quota = 0;
  while (fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    char *controllers = strchr(line, ':'); /* ID:CONTROLLERS:GROUP; version 2 has no controllers here */
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) continue;
    *controllers++ = 0;
    *group++ = 0;
    bool v2 = *controllers == 0;
    if (!v2 && !has_word(controllers, "cpu")) continue;
    int found = quota_of_path(cgroup_root, v2 ? "" : "/cpu", group);
    if (found > 0 && (quota == 0 || found < quota)) quota = found;
  }
  fclose(file);
  return quota;
}

int ronde__cores(void) {
  int cores = cores_of_affinity();
  int quota = ronde__cores_quota("/proc/self/cgroup", "/sys/fs/cgroup");
  if (quota > 0 && quota < cores) cores = quota;
  return cores > 0 ? cores : 1;
}

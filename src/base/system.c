/* The system that the process runs on: clocks, memory, cores, and who else works on them. */
#include "base/base.h"
#include <ronde/measure.h>

#include <math.h>
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

uint64_t ronde__thread_cpu_ns(void) { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }

uint64_t ronde__cpu_ns(void) { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

/* "VmRSS", "VmData" and so on of this process, in bytes; 0: unknown. */
static int64_t status_bytes(const char *field) {
  long long kib = 0;
  char line[256];
  size_t n = strlen(field);
  FILE *file = fopen("/proc/self/status", "re");
  while (file && fgets(line, sizeof line, file))
    if (!strncmp(line, field, n) && line[n] == ':' && sscanf(line + n + 1, "%lld kB", &kib) == 1) break;
  if (file) fclose(file);
  return (int64_t)kib * 1024;
}

/* Not ru_maxrss: a process inherits that from the one that started it. */
int64_t ronde__peak_rss_bytes(void) {
  int64_t bytes = status_bytes("VmHWM");
  struct rusage usage;
  if (bytes == 0 && getrusage(RUSAGE_SELF, &usage) == 0) bytes = (int64_t)usage.ru_maxrss * 1024;
  return bytes;
}

static int64_t process_limit(int resource) {
  struct rlimit limit;
  bool known = getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return known ? (int64_t)ronde__min((uint64_t)limit.rlim_cur, INT64_MAX) : 0;
}

void ronde__room_find(ronde__room *room_out) {
  int64_t host = ronde__host_memory_bytes();
  uint64_t group;
  int64_t quota = ronde__memory_quota("/proc/self/cgroup", "/sys/fs/cgroup", &group);
  *room_out = (ronde__room){
      .limit = {[RONDE__ROOM_ADDRESSES] = process_limit(RLIMIT_AS),
                [RONDE__ROOM_DATA] = process_limit(RLIMIT_DATA),
                [RONDE__ROOM_GROUP] = quota,
                [RONDE__ROOM_HOST] = host > 0 ? host : 0},
      .used = {[RONDE__ROOM_ADDRESSES] = status_bytes("VmSize"), [RONDE__ROOM_DATA] = status_bytes("VmData")},
      .stack = process_limit(RLIMIT_STACK),
      .group = group};
  room_out->used[RONDE__ROOM_GROUP] = room_out->used[RONDE__ROOM_HOST] = status_bytes("VmRSS");
}

int64_t ronde__host_memory_bytes(void) {
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? (int64_t)pages * page : -1;
}

/* The affinity of the first thread, because the calling one may be pinned. NULL where the system does not say; the
 * caller frees it. */
static cpu_set_t *thread_affinity(int *n_out) {
  /* A fixed cpu_set_t ends at 1024 cores; the call fails until the set is as large as the kernel's. */
  for (int n = 1024; n <= 1 << 20; n *= 2) {
    cpu_set_t *set = CPU_ALLOC(n);
    if (!set) break;
    *n_out = n;
    if (sched_getaffinity(getpid(), CPU_ALLOC_SIZE(n), set) == 0) return set;
    CPU_FREE(set);
  }
  return NULL;
}

static int cores_of_affinity(void) {
  int n;
  cpu_set_t *set = thread_affinity(&n);
  int found = set ? CPU_COUNT_S(CPU_ALLOC_SIZE(n), set) : 0;
  CPU_FREE(set);
  if (found > 0) return found;
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (int)online : 1;
}

/* Reads up to two integers of a small file and returns how many there were. The word "max" reads as -1. */
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
static int64_t cores_of_group(const char *folder) {
  long long v[2], period[2];
  bool known = read_numbers(folder, "cpu.max", v) == 2;
  if (!known && read_numbers(folder, "cpu.cfs_quota_us", v) == 1 &&
      read_numbers(folder, "cpu.cfs_period_us", period) == 1) {
    v[1] = period[0];
    known = true;
  }
  if (!known || v[0] <= 0 || v[1] <= 0) return 0;
  return ronde__min(ronde__ceil_div(v[0], v[1]), 1 << 20);
}

/* The bytes that one control group grants; 0: no limit. */
static int64_t memory_of_group(const char *folder) {
  long long v[2];
  bool known = read_numbers(folder, "memory.max", v) || read_numbers(folder, "memory.limit_in_bytes", v);
  return known && v[0] > 0 ? v[0] : 0;
}

/* What control groups limit, by the name of its controller. */
typedef struct quota_kind {
  const char *controller;
  int64_t (*of_group)(const char *folder); /* 0: no limit */
} quota_kind;

/* Source: Fowler, Noll & Vo, FNV-1a. */
static uint64_t hash_of(const char *text) {
  uint64_t hash = 14695981039346656037u;
  for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 1099511628211u;
  return hash;
}

/* The smallest quota of a group and those above it, below `root`; *group_out: whose it is, where it is smaller than
 * `quota`. Returns the smaller one. */
static int64_t quota_of_path(const quota_kind *kind, const char *root, const char *mount, const char *group,
                             int64_t quota, uint64_t *group_out) {
  char folder[4096];
  int length = snprintf(folder, sizeof folder, "%s%s%s", root, mount, group);
  if (length < 0 || (size_t)length >= sizeof folder) return quota;
  size_t top = strlen(root) + strlen(mount);
  for (;;) {
    int64_t found = kind->of_group(folder);
    if (found > 0 && (quota == 0 || found < quota)) {
      quota = found;
      *group_out = hash_of(folder);
    }
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

static int64_t find_quota(const quota_kind *kind, const char *cgroup_file, const char *cgroup_root,
                          uint64_t *group_out) {
  FILE *file = fopen(cgroup_file, "re");
  if (!file) return 0;
  char line[4096], mount[32];
  int64_t quota = 0;
  snprintf(mount, sizeof mount, "/%s", kind->controller);
  while (fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    char *controllers = strchr(line, ':'); /* ID:CONTROLLERS:GROUP; version 2 has no controllers here */
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) continue;
    *controllers++ = 0;
    *group++ = 0;
    bool v2 = *controllers == 0;
    if (!v2 && !has_word(controllers, kind->controller)) continue;
    quota = quota_of_path(kind, cgroup_root, v2 ? "" : mount, group, quota, group_out);
  }
  fclose(file);
  return quota;
}

int ronde__cores_quota(const char *cgroup_file, const char *cgroup_root) {
  uint64_t whose;
  return (int)find_quota(&(quota_kind){"cpu", cores_of_group}, cgroup_file, cgroup_root, &whose);
}

int64_t ronde__memory_quota(const char *cgroup_file, const char *cgroup_root, uint64_t *group_out) {
  *group_out = 0;
  return find_quota(&(quota_kind){"memory", memory_of_group}, cgroup_file, cgroup_root, group_out);
}

int ronde__cores(void) {
  int cores = cores_of_affinity();
  int quota = ronde__cores_quota("/proc/self/cgroup", "/sys/fs/cgroup");
  if (quota > 0 && quota < cores) cores = quota;
  return cores > 0 ? cores : 1;
}

/* ---- other work on this host ---- */

double ronde__busy_s(const char *stat_file) {
  int n = 0, n_read = 0;
  double ticks = 0;
  char line[512];
  FILE *file = fopen(stat_file, "re");
  cpu_set_t *set = file ? thread_affinity(&n) : NULL;
  while (set && fgets(line, sizeof line, file)) {
    int cpu;
    double t[8]; /* user, nice, system, idle, iowait, irq, softirq, steal */
    if (sscanf(line, "cpu%d %lf %lf %lf %lf %lf %lf %lf %lf", &cpu, &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6],
               &t[7]) != 9)
      continue;
    if (cpu < 0 || cpu >= n || !CPU_ISSET_S(cpu, CPU_ALLOC_SIZE(n), set)) continue;
    ticks += t[0] + t[1] + t[2] + t[5] + t[6] + t[7];
    n_read++;
  }
  CPU_FREE(set);
  if (file) fclose(file);
  return n_read ? ticks / (double)sysconf(_SC_CLK_TCK) : NAN;
}

static double used_s(int who) {
  struct rusage usage;
  if (getrusage(who, &usage)) return 0;
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

int64_t ronde_peak_rss_bytes(void) { return ronde__peak_rss_bytes(); }

void ronde_host_look_now(ronde_host_look *look_out) {
  *look_out = (ronde_host_look){.at_s = 1e-9 * (double)ronde__now_ns(),
                                .busy_s = ronde__busy_s("/proc/stat"),
                                .own_s = used_s(RUSAGE_SELF) + used_s(RUSAGE_CHILDREN)};
}

bool ronde__host_is_busy(double others, int cores, bool is_load) {
  /* A load still counts what has ended, and what only waited for a disk. */
  return others > (is_load ? 0.5 : 0.1) * cores;
}

double ronde__load(void) {
  double load;
  return getloadavg(&load, 1) == 1 ? load : 0;
}

ronde_host_load ronde_host_load_since(const ronde_host_look *look) {
  ronde_host_look now;
  ronde_host_look_now(&now);
  bool is_load = !look || !(now.busy_s - look->busy_s >= 0) || now.at_s <= look->at_s;
  double others =
      is_load ? ronde__load() : (now.busy_s - look->busy_s - (now.own_s - look->own_s)) / (now.at_s - look->at_s);
  int cores = is_load ? ronde__cores() : cores_of_affinity();
  others = fmax(others, 0);
  return (ronde_host_load){cores, others, ronde__host_is_busy(others, cores, is_load)};
}

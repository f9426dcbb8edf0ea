/* Clocks, memory, cores, quotas and other work on the host. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include <ronde/measure.h>

static char root[] = "/tmp/ronde-system-XXXXXX";

static char *path_of(const char *name) {
  char *path = ronde__format("%s%s", root, name);
  assert_non_null(path);
  return path;
}

static void folder(const char *name) {
  char *path = path_of(name);
  assert_int_equal(mkdir(path, 0700), 0);
  free(path);
}

static void file(const char *name, const char *text) {
  char *path = path_of(name);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  assert_true(fputs(text, f) >= 0);
  assert_int_equal(fclose(f), 0);
  free(path);
}

static int quota(void) {
  char *groups = path_of("/cgroup");
  int cores = ronde__cores_quota(groups, root);
  free(groups);
  return cores;
}

static int make_tree(void **state) {
  if (!mkdtemp(root)) return -1;
  folder("/a");
  folder("/a/b");
  folder("/cpu");
  folder("/cpu/job");
  folder("/memory");
  folder("/memory/job");
  return 0;
}

static int remove_tree(void **state) {
  static const char *const names[] = {"/a/b/cpu.max",
                                      "/a/cpu.max",
                                      "/a/memory.max",
                                      "/a/b/memory.max",
                                      "/memory/job/memory.limit_in_bytes",
                                      "/memory/job",
                                      "/memory",
                                      "/cpu/job/cpu.cfs_quota_us",
                                      "/cpu/job/cpu.cfs_period_us",
                                      "/cgroup",
                                      "/a/b",
                                      "/a",
                                      "/cpu/job",
                                      "/cpu",
                                      ""};
  int left = 0;
  for (size_t i = 0; i < RONDE__COUNT(names); i++) {
    char *path = path_of(names[i]);
    left = remove(path);
    free(path);
  }
  return left;
}

static void quota_of_version_2_takes_the_smallest_above(void **state) {
  file("/cgroup", "0::/a/b\n");
  assert_int_equal(quota(), 0);
  file("/a/b/cpu.max", "max 100000\n");
  assert_int_equal(quota(), 0);
  file("/a/cpu.max", "250000 100000\n");
  assert_int_equal(quota(), 3);
  file("/a/b/cpu.max", "50000 100000\n");
  assert_int_equal(quota(), 1);
  file("/a/b/cpu.max", "900000 100000\n");
  assert_int_equal(quota(), 3);
  file("/a/cpu.max", "nonsense\n");
  assert_int_equal(quota(), 9);
}

static void quota_of_version_1_is_of_the_cpu_controller(void **state) {
  file("/cpu/job/cpu.cfs_quota_us", "-1\n");
  file("/cpu/job/cpu.cfs_period_us", "100000\n");
  file("/cgroup", "4:cpu,cpuacct:/job\n");
  assert_int_equal(quota(), 0);
  file("/cpu/job/cpu.cfs_quota_us", "400000\n");
  assert_int_equal(quota(), 4);
  file("/cgroup", "4:cpuset:/job\n");
  assert_int_equal(quota(), 0);
  assert_int_equal(ronde__cores_quota("/nonexistent/file", root), 0);
}

static uint64_t memory_group;

static int64_t memory(void) {
  char *groups = path_of("/cgroup");
  int64_t bytes = ronde__memory_quota(groups, root, &memory_group);
  free(groups);
  return bytes;
}

static void memory_of_groups_is_the_smallest_above(void **state) {
  file("/cgroup", "0::/a/b\n");
  assert_int_equal(memory(), 0);
  file("/a/b/memory.max", "max\n");
  assert_int_equal(memory(), 0);
  file("/a/memory.max", "3000000000\n");
  assert_int_equal(memory(), 3000000000);
  uint64_t above = memory_group;
  file("/a/b/memory.max", "1000\n");
  assert_int_equal(memory(), 1000);
  assert_true(memory_group != above);
  file("/a/b/memory.max", "4000000000\n");
  assert_int_equal(memory(), 3000000000);
  assert_true(memory_group == above); /* whose limit it is counts, not who is limited */
  file("/cgroup", "4:cpu:/a\n7:memory:/job\n");
  assert_int_equal(memory(), 0);
  file("/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
  assert_true(memory() > INT64_MAX / 2);
  file("/memory/job/memory.limit_in_bytes", "536870912\n");
  assert_int_equal(memory(), 512 << 20);
}

static void the_room_of_this_process_is_known(void **state) {
  struct rlimit before, small;
  ronde__room room, limited;
  ronde__room_find(&room);
  assert_true(room.used[RONDE__ROOM_ADDRESSES] > room.used[RONDE__ROOM_HOST] && room.used[RONDE__ROOM_HOST] > 100000);
  assert_true(room.used[RONDE__ROOM_DATA] > 0 && room.limit[RONDE__ROOM_HOST] == ronde__host_memory_bytes());
  assert_int_equal(getrlimit(RLIMIT_DATA, &before), 0);
  small = (struct rlimit){(rlim_t)1 << 40, before.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_DATA, &small), 0);
  ronde__room_find(&limited);
  assert_int_equal(setrlimit(RLIMIT_DATA, &before), 0);
  assert_int_equal(limited.limit[RONDE__ROOM_DATA], (int64_t)1 << 40);
  assert_int_equal(limited.limit[RONDE__ROOM_ADDRESSES], room.limit[RONDE__ROOM_ADDRESSES]);
}

static void bytes_have_units(void **state) {
  static const struct {
    const char *text;
    int64_t bytes; /* 0: refused */
  } cases[] = {{"1", 1},  {"64K", 65536}, {"1.5G", 3LL << 29}, {"2T", 2LL << 40}, {"0", 0},
               {"", 0},   {"-1", 0},      {"1e3", 0},          {"K", 0},          {"1KB", 0},
               {"1k", 0}, {"1.2.3", 0},   {"90000000T", 0},    {" 1", 0},         {"1 G", 0}};
  for (size_t i = 0; i < RONDE__COUNT(cases); i++) {
    int64_t bytes = 0;
    bool good = ronde__bytes_parse(cases[i].text, &bytes);
    if (good != (cases[i].bytes > 0) || bytes != cases[i].bytes)
      fail_msg("'%s': %lld", cases[i].text, (long long)bytes);
  }
}

static void cores_follow_the_affinity(void **state) {
  cpu_set_t all, one;
  assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
  assert_in_range(ronde__cores(), 1, CPU_COUNT(&all));
  int cpu = 0;
  while (!CPU_ISSET(cpu, &all)) cpu++;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
  assert_int_equal(ronde__cores(), 1);
  assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

static void figures_of_the_process_grow(void **state) {
  uint64_t now = ronde__now_ns(), cpu = ronde__cpu_ns();
  enum { BYTES = 64 << 20 };
  char *p = malloc(BYTES);
  assert_non_null(p);
  for (size_t i = 0; i < BYTES; i += 64) *(volatile char *)(p + i) = 1;
  assert_true(ronde__now_ns() > now);
  assert_true(ronde__cpu_ns() > cpu);
  assert_true(ronde__peak_rss_bytes() >= BYTES);
  free(p);
}

static void memory_is_zeroed_and_aligned(void **state) {
  static const size_t sizes[] = {0, 1, 5000, 3 << 20};
  for (size_t i = 0; i < RONDE__COUNT(sizes); i++) {
    unsigned char *p = ronde__alloc(sizes[i]), *pages = ronde__pages_map(sizes[i]);
    assert_non_null(p);
    assert_non_null(pages);
    assert_int_equal((uintptr_t)p % 64, 0);
    assert_int_equal((uintptr_t)pages % (sizes[i] >= 2 << 20 ? 2 << 20 : 4096), 0);
    for (size_t k = 0; k < sizes[i]; k++) assert_true(p[k] == 0 && pages[k] == 0);
    if (sizes[i]) p[sizes[i] - 1] = pages[sizes[i] - 1] = 1;
    ronde__free(p);
    ronde__pages_unmap(pages, sizes[i]);
  }
}

static void shares_cover_everything_once(void **state) {
  for (int64_t n = 0; n < 20; n++)
    for (int64_t p = 1; p < 8; p++) {
      assert_int_equal(ronde__shard_begin(n, 0, p), 0);
      assert_int_equal(ronde__shard_begin(n, p, p), n);
      for (int64_t r = 0; r < p; r++)
        assert_int_equal(ronde__shard_begin(n, r + 1, p) - ronde__shard_begin(n, r, p), n / p + (r < n % p));
    }
}

/* Idle time and waiting for disks do not count; time that a hypervisor gave to others does. Only the cores of this
 * process are looked at. */
static void work_on_the_cores_of_this_process(void **state) {
  cpu_set_t all, one;
  assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
    if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
  assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
  char *text = ronde__format("cpu  9 9 9 9 9 9 9 9 9 9\n");
  for (int i = 0; i < CPU_SETSIZE; i++) {
    char *longer = ronde__format("%scpu%d %d 20 30 5000 6000 70 80 90 0 0\n", text, i, CPU_ISSET(i, &one) ? 10 : 7777);
    free(text);
    text = longer;
  }
  file("/stat", text);
  free(text);
  char *path = path_of("/stat"), *missing = path_of("/none");
  double busy = ronde__busy_s(path);
  assert_true(isnan(ronde__busy_s(missing)));
  assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
  assert_float_equal(busy * (double)sysconf(_SC_CLK_TCK), 10 + 20 + 30 + 70 + 80 + 90, 1e-6);
  assert_int_equal(remove(path), 0);
  free(path);
  free(missing);
}

static void a_host_is_busy_by_what_others_do(void **state) {
  assert_true(ronde__host_is_busy(1.1, 2, true) && !ronde__host_is_busy(0.9, 2, true));
  assert_true(ronde__host_is_busy(0.3, 2, false) && !ronde__host_is_busy(0.1, 2, false));
  ronde_host_load before = ronde_host_load_since(NULL);
  assert_true(before.others >= 0 && before.cores == ronde__cores());
  /* Nobody else worked, and this process did: its own work is no one else's. */
  ronde_host_look look;
  ronde_host_look_now(&look);
  assert_true(look.own_s > 0 && look.at_s > 0);
  look.at_s -= 10;
  look.own_s -= 15;
  look.busy_s -= 10;
  if (!isnan(look.busy_s)) assert_true(ronde_host_load_since(&look).others < 1);
  look.busy_s -= 1e6;
  if (!isnan(look.busy_s)) assert_true(ronde_host_load_since(&look).is_busy);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(quota_of_version_2_takes_the_smallest_above),
      cmocka_unit_test(quota_of_version_1_is_of_the_cpu_controller),
      cmocka_unit_test(memory_of_groups_is_the_smallest_above),
      cmocka_unit_test(the_room_of_this_process_is_known),
      cmocka_unit_test(bytes_have_units),
      cmocka_unit_test(cores_follow_the_affinity),
      cmocka_unit_test(figures_of_the_process_grow),
      cmocka_unit_test(work_on_the_cores_of_this_process),
      cmocka_unit_test(a_host_is_busy_by_what_others_do),
      cmocka_unit_test(memory_is_zeroed_and_aligned),
      cmocka_unit_test(shares_cover_everything_once),
  };
  return cmocka_run_group_tests(tests, make_tree, remove_tree);
}

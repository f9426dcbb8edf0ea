/* Energy, from counters that a test writes: sums, wraps, pauses that are too long, and counters that vanish. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "prof/energy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A folder of the form of /sys/class/powercap: zones 0 and 1 are packages, zone 2 is the platform. */
static char folder[64];
#define RANGE "262143328850"

static void put(int zone, const char *name, const char *value) {
  char path[160];
  snprintf(path, sizeof path, "%s/intel-rapl:%d/%s", folder, zone, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fprintf(file, "%s\n", value);
  fclose(file);
}

static int setup(void **state) {
  static const char *const names[] = {"package-0", "package-1", "psys"};
  strcpy(folder, "/tmp/ronde-energy-XXXXXX");
  if (!mkdtemp(folder)) return 1;
  for (int zone = 0; zone < 3; zone++) {
    char path[160];
    snprintf(path, sizeof path, "%s/intel-rapl:%d", folder, zone);
    if (mkdir(path, 0777)) return 1;
    put(zone, "name", names[zone]);
    put(zone, "max_energy_range_uj", RANGE);
    put(zone, "energy_uj", "1000000");
  }
  return 0;
}

static int teardown(void **state) {
  static const char *const names[] = {"name", "max_energy_range_uj", "energy_uj"};
  char path[160];
  for (int zone = 0; zone < 3; zone++) {
    for (size_t i = 0; i < RONDE__COUNT(names); i++) {
      snprintf(path, sizeof path, "%s/intel-rapl:%d/%s", folder, zone, names[i]);
      unlink(path);
    }
    snprintf(path, sizeof path, "%s/intel-rapl:%d", folder, zone);
    rmdir(path);
  }
  return rmdir(folder);
}

static void assert_not_measured(const ronde__energy *energy) {
  const char *source;
  assert_true(isnan(ronde__energy_joules(energy, &source)));
  assert_string_equal(source, "not measured");
}

static void test_packages_are_added_up(void **state) {
  ronde__energy energy;
  const char *source;
  ronde__energy_begin(&energy, folder);
  assert_int_equal(energy.n_packages, 2);
  put(0, "energy_uj", "3500000");
  put(2, "energy_uj", "9000000");
  ronde__energy_update(&energy);
  put(1, "energy_uj", "1250000");
  ronde__energy_update(&energy);
  assert_float_equal(ronde__energy_joules(&energy, &source), 2.75, 1e-9);
  assert_string_equal(source, "RAPL: all CPU packages of the machine");
}

static void test_a_counter_may_wrap_once(void **state) {
  ronde__energy energy;
  const char *source;
  put(0, "energy_uj", "262142328850");
  ronde__energy_begin(&energy, folder);
  put(0, "energy_uj", "500000");
  ronde__energy_update(&energy);
  assert_float_equal(ronde__energy_joules(&energy, &source), 1.5, 1e-9);
}

static void test_a_long_pause_is_not_measured(void **state) {
  ronde__energy energy;
  ronde__energy_begin(&energy, folder);
  energy.last_ns -= 300 * (uint64_t)1000000000; /* 262 kJ last 262 s at 1 kW */
  ronde__energy_update(&energy);
  assert_not_measured(&energy);
}

static void test_lost_and_missing_counters_are_not_measured(void **state) {
  ronde__energy energy;
  ronde__energy_begin(&energy, folder);
  put(1, "energy_uj", "garbage");
  ronde__energy_update(&energy);
  assert_not_measured(&energy);
  ronde__energy_begin(&energy, folder); /* one package of two would pass for the whole */
  assert_not_measured(&energy);
  ronde__energy_begin(&energy, "/nonexistent");
  ronde__energy_update(&energy);
  assert_not_measured(&energy);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(test_packages_are_added_up),
      CASE(test_a_counter_may_wrap_once),
      CASE(test_a_long_pause_is_not_measured),
      CASE(test_lost_and_missing_counters_are_not_measured),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

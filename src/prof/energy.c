/* Energy of the processor packages, by the counters of the powercap interface (RAPL), which wrap. Source: the Linux kernel's
 * documentation, power/powercap. */
#include "prof/energy.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* No package draws more: between two reads closer than range / this, a counter wraps at most once. */
#define MAX_WATTS 1000.0

static bool read_number(const char *folder, int package, const char *name, uint64_t *value_out) {
  char path[512];
  snprintf(path, sizeof path, "%s/intel-rapl:%d/%s", folder, package, name);
  FILE *file = fopen(path, "re");
  if (!file) return false;
  bool ok = fscanf(file, "%" SCNu64, value_out) == 1;
  fclose(file);
  return ok;
}

/* Top-level zones are packages, but also the platform ("psys"), which would count them twice. */
static bool is_package(const char *folder, int package) {
  char path[512], name[64] = "";
  snprintf(path, sizeof path, "%s/intel-rapl:%d/name", folder, package);
  FILE *file = fopen(path, "re");
  if (!file) return false;
  bool ok = fscanf(file, "%63s", name) == 1 && strncmp(name, "package", 7) == 0;
  fclose(file);
  return ok;
}

void ronde__energy_begin(ronde__energy *energy, const char *folder) {
  *energy = (ronde__energy){.folder = folder ? folder : "/sys/class/powercap", .last_ns = ronde__now_ns()};
  for (int i = 0; i < RONDE__ENERGY_MAX_PACKAGES; i++) {
    if (!is_package(energy->folder, i)) continue;
    int at = energy->n_packages;
    if (!read_number(energy->folder, i, "energy_uj", &energy->last_uj[at]) ||
        !read_number(energy->folder, i, "max_energy_range_uj", &energy->range_uj[at]) || energy->range_uj[at] == 0) {
      energy->n_packages = 0; /* a sum over some of the packages would pass for the whole */
      return;
    }
    energy->package[energy->n_packages++] = i;
  }
}

void ronde__energy_update(ronde__energy *energy) {
  uint64_t now = ronde__now_ns();
  double pause_s = (double)(now - energy->last_ns) * 1e-9;
  energy->last_ns = now;
  for (int i = 0; i < energy->n_packages; i++) {
    uint64_t uj, range = energy->range_uj[i], last = energy->last_uj[i];
    if (pause_s * MAX_WATTS * 1e6 > (double)range ||
        !read_number(energy->folder, energy->package[i], "energy_uj", &uj) || uj > range) {
      energy->n_packages = 0;
      return;
    }
    energy->joules += (double)(uj >= last ? uj - last : uj + (range - last)) * 1e-6;
    energy->last_uj[i] = uj;
  }
}

double ronde__energy_joules(const ronde__energy *energy, const char **source_out) {
  *source_out = energy->n_packages ? "RAPL: all CPU packages of the machine" : "not measured";
  return energy->n_packages ? energy->joules : NAN;
}

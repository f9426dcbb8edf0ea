/* Energy of the machine's CPU packages, from the powercap interface (RAPL), where this process may read it. */
#ifndef RONDE_ENERGY_H
#define RONDE_ENERGY_H

#include "base/base.h"

enum { RONDE__ENERGY_MAX_PACKAGES = 64 };

/* Plain data, owns nothing. The counters wrap (after minutes to hours), so that a run reads them now and then. */
typedef struct ronde__energy {
  int n_packages; /* 0: not measured */
  uint64_t last_uj[RONDE__ENERGY_MAX_PACKAGES], range_uj[RONDE__ENERGY_MAX_PACKAGES];
  int package[RONDE__ENERGY_MAX_PACKAGES]; /* number in the folder's names */
  uint64_t last_ns;
  double joules;
  const char *folder; /* borrowed */
} ronde__energy;

/* Starts counting. folder NULL: the system's; else one of the same form, for tests (must outlive the energy). */
void ronde__energy_begin(ronde__energy *energy, const char *folder);
/* Adds what was used since the last call. After a pause so long that a counter may have wrapped more than once, or
 * where a counter can no longer be read, the whole is not measured any more. Costs some microseconds a package. */
void ronde__energy_update(ronde__energy *energy);
/* Joules up to the last update; NAN: not measured. source_out: static text, "not measured" then. */
double ronde__energy_joules(const ronde__energy *energy, const char **source_out);

#endif

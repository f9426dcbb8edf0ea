/* Trainings by several processes, and on hosts that are network namespaces. */
#include "mpi_testing.h"

#include <stdlib.h>

#include "suites.h"

const char *why_no_mpi(void) {
#ifndef RONDE_HAVE_MPI
  return "this build has no MPI";
#else
  return system("command -v mpirun.openmpi >/dev/null 2>&1") ? "there is no mpirun.openmpi" : NULL;
#endif
}

/* Open MPI frees little of what it has, and what a rank then says of leaks fills `said` and takes the place of its code. */
void need_mpi(void) {
  setenv("LSAN_OPTIONS", "detect_leaks=0", 1);
  if (!why_no_mpi()) return;
  print_message("SKIP: %s\n", why_no_mpi());
  skip();
}

int run_on_hosts(const char *prepare, const char *options) {
  const char *script = RONDE_SOURCE_DIR "/tests/hosts.sh";
  need_mpi();
  if (geteuid() != 0 || run("%s with 1 -- 'unshare --uts --mount true'", script)) {
    print_message("SKIP: no right to make network namespaces\n");
    skip();
  }
  char command[10000];
  snprintf(command, sizeof command,
           "%s && OMPI_MCA_plm_rsh_agent=\"$AWAY %s agent\" OMPI_MCA_plm_rsh_no_tree_spawn=1 timeout 250 " RONDE
           " train --model lenet5 %s --batch 50 --threads 1 %s %s --iface 10.91.7.0/24 %s",
           prepare, script, strstr(options, "--data") ? "" : SMALL_DATA, strstr(options, "--verbose") ? "" : "--quiet",
           strstr(options, "--host") ? "" : "--hosts ronde1,ronde2,ronde3", options);
  setenv("COMMAND", command, 1);
  return run("%s with 3 -- 'eval \"$COMMAND\"'", script);
}

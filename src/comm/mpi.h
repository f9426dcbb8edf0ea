/* Ranks as processes of an MPI job. */
#ifndef RONDE_MPI_H
#define RONDE_MPI_H

#include "comm/transport.h"

/* Whether this process was started by an MPI launcher (mpirun, srun), or has initialised MPI itself. */
bool ronde__mpi_launched(void);
typedef struct ronde__mpi_options {
  uint64_t
      timeout_ns; /* a process of which nothing is heard for so long is lost; the transport's limits follow from it */
  uint64_t
      lost_after_ns; /* and so is one that has gone, or whose host is silent for so long (life.h); 0: not watched */
  const char *iface; /* between hosts; NULL or "": any */
  /* From a thread of the transport: a call of MPI does not come back, which has been logged, and this rank cannot go on.
   * NULL: nothing. */
  void (*stuck)(void *user);
  void *user;
} ronde__mpi_options;

/* This process's rank of MPI_COMM_WORLD. MPI is initialised where the caller has not done so (then with
 * MPI_THREAD_MULTIPLE, else that level must have been asked for) and finalised at exit; after an error of a transport
 * that takes 2 s at most, whatever the other ranks do. One transport at a time. Blocks until all ranks have called, or
 * RONDE_E_LOST after RONDE__START_TIMES timeout_ns. RONDE_E_USAGE where the build has no MPI. */
ronde_status ronde__transport_mpi(const ronde__mpi_options *options, ronde__transport **transport_out);

#endif

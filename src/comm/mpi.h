/* Ranks as processes of an MPI job. */
#ifndef RONDE_MPI_H
#define RONDE_MPI_H

#include "comm/transport.h"

/* Whether this process was started by an MPI launcher (mpirun, srun), or has initialised MPI itself. */
bool ronde__mpi_launched(void);
/* This process's rank of MPI_COMM_WORLD. MPI is initialised where the caller has not done so (then with
 * MPI_THREAD_MULTIPLE, else that level must have been asked for) and finalised at exit; after an error of a transport
 * that takes 2 s at most, whatever the other ranks do. One transport at a time. Blocks until all ranks have called, or
 * RONDE_E_LOST after RONDE__START_TIMES lost_after_ns. The limits of the transport follow from it too, see
 * ronde__transport_limit. RONDE_E_USAGE where the build has no MPI. */
ronde_status ronde__transport_mpi(uint64_t lost_after_ns, ronde__transport **transport_out);

#endif

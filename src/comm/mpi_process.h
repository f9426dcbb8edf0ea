/* MPI in this process: initialised once, for one transport at a time (mpi.h). */
#ifndef RONDE_MPI_PROCESS_H
#define RONDE_MPI_PROCESS_H

#include "base/base.h"

/* Initialises MPI where that has not been done, and takes it; RONDE_E_USAGE: a transport of this process has it. */
ronde_status ronde__mpi_claim(void);
void ronde__mpi_release(void);
/* Whether the processes of a host may read each other's memory: not where the user has told Open MPI so
 * (OMPI_MCA_btl_vader_single_copy_mechanism=none). Once MPI is initialised. */
bool ronde__mpi_single_copy(void);
/* From now on other ranks may be gone: what waits for all of them is left out, or given little time. */
void ronde__mpi_note_failure(void);
/* Makes a call on a thread of its own: false where it has not come back in time. */
bool ronde__mpi_within(uint64_t limit_ns, ronde_status (*call)(void *arg), void *arg, ronde_status *status_out);
bool ronde__mpi_has_failed(void);

#endif

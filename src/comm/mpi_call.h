/* Calls of Open MPI, one at a time whichever of this process's threads makes them. With several at once, a peer that dies can hold
 * two of them for ever: one that sends to it has the lock of the connection, and waits until the other one is through
 * with the connection's end, which waits for that lock (opal/mca/btl/tcp, 4.1). None of our calls waits for a peer, so none
 * takes long; one that does not come back all the same is noticed by a thread that calls no MPI. */
#ifndef RONDE_MPI_CALL_H
#define RONDE_MPI_CALL_H

#include "base/base.h"

void ronde__mpi_enter(void);
void ronde__mpi_leave(void);
#define RONDE__IN_MPI(call) \
  do {                      \
    ronde__mpi_enter();     \
    call;                   \
    ronde__mpi_leave();     \
  } while (0)

/* By one thread: so much time of this process has passed since it last asked. For how long the call that is under way has
 * been seen. */
uint64_t ronde__mpi_called_for_ns(uint64_t passed_ns);

#endif

/* Which ranks of a communicator share a host, and what those of this one share. */
#ifndef RONDE_MPI_HOSTS_H
#define RONDE_MPI_HOSTS_H

#include <mpi.h>

#include "comm/host.h"

enum { RONDE__HOST_NAME = 64 };

typedef struct ronde__mpi_hosts {
  int n;                           /* hosts */
  int *host_of;                    /* [ranks], numbered in the order of their first ranks */
  int *places;                     /* [ranks]: among those of this host; -1 elsewhere, and this rank's own */
  int place;                       /* this rank's own */
  char (*names)[RONDE__HOST_NAME]; /* [ranks]: of their hosts */
  ronde__host *near;               /* NULL: between the ranks of this host, too, MPI carries everything */
  int n_busy;                      /* ranks that were counted as computing on this one's cores */
} ronde__mpi_hosts;

/* Blocks until all ranks have called; `comm` returns its errors. Released also after an error. */
ronde_status ronde__mpi_hosts_find(MPI_Comm comm, ronde__mpi_hosts *hosts);
/* Zero-initialised is taken. */
void ronde__mpi_hosts_release(ronde__mpi_hosts *hosts);

#endif

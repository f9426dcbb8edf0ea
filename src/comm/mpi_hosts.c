/* Finds the hosts by splitting the communicator, and makes the memory that the ranks of this one share. */
#ifdef RONDE_HAVE_MPI

#include "comm/mpi_hosts.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "comm/mpi_process.h"

/* All ranks of the host, or none, copy from each other. */
static ronde__host *join(MPI_Comm host, int place, int n) {
  ronde__host_offer offer = {0};
  if (place == 0) offer = ronde__host_make(n);
  MPI_Bcast(&offer, sizeof offer, MPI_BYTE, 0, host);
  ronde__host *near = ronde__host_join(offer, place, n);
  int joined = near != NULL, all = 0;
  MPI_Allreduce(&joined, &all, 1, MPI_INT, MPI_LAND, host);
  if (place == 0) ronde__host_withdraw(offer);
  int reaches = all && ronde__host_reaches_all(near);
  MPI_Allreduce(&reaches, &all, 1, MPI_INT, MPI_LAND, host);
  if (all) return near;
  ronde__host_destroy(near);
  return NULL;
}

/* A launcher may have bound each rank to cores of its own. */
static ronde_status count_busy(MPI_Comm host, int place, int n, int *n_busy_out) {
  cpu_set_t own, *all;
  RONDE__ALLOC(all, (size_t)n * sizeof *all, "transport mpi");
  if (sched_getaffinity(0, sizeof own, &own)) memset(&own, 0xff, sizeof own);
  MPI_Allgather(&own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, host);
  *n_busy_out = 0;
  for (int i = 0; i < n; i++) {
    cpu_set_t both;
    CPU_AND(&both, &own, &all[i]);
    *n_busy_out += i != place && CPU_COUNT(&both) > 0;
  }
  ronde__free(all);
  return RONDE_OK;
}

static ronde_status number(MPI_Comm comm, MPI_Comm host, ronde__mpi_hosts *hosts) {
  int rank, size, first;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  RONDE__ALLOC(hosts->host_of, (size_t)size * sizeof *hosts->host_of, "transport mpi");
  RONDE__ALLOC(hosts->places, (size_t)size * sizeof *hosts->places, "transport mpi");
  RONDE__ALLOC(hosts->names, (size_t)size * sizeof *hosts->names, "transport mpi");
  gethostname(hosts->names[rank], RONDE__HOST_NAME - 1);
  MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, hosts->names, RONDE__HOST_NAME, MPI_BYTE, comm);
  first = rank;
  MPI_Bcast(&first, 1, MPI_INT, 0, host);
  MPI_Allgather(&first, 1, MPI_INT, hosts->host_of, 1, MPI_INT, comm);
  for (int r = 0; r < size; r++)
    hosts->host_of[r] = hosts->host_of[r] == r ? hosts->n++ : hosts->host_of[hosts->host_of[r]];
  for (int r = 0, n = 0; r < size; r++) {
    bool near = hosts->host_of[r] == hosts->host_of[rank];
    hosts->places[r] = near && r != rank ? n : -1;
    n += near;
  }
  return RONDE_OK;
}

ronde_status ronde__mpi_hosts_find(MPI_Comm comm, ronde__mpi_hosts *hosts) {
  MPI_Comm host;
  int place, n;
  if (MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host) != MPI_SUCCESS)
    return ronde__fail(RONDE_E_LOST, "transport mpi: cannot find out which ranks share a host");
  MPI_Comm_rank(host, &place);
  MPI_Comm_size(host, &n);
  hosts->place = place;
  ronde_status status = number(comm, host, hosts);
  if (status == RONDE_OK) status = count_busy(host, place, n, &hosts->n_busy);
  if (status == RONDE_OK && n > 1 && ronde__mpi_single_copy()) hosts->near = join(host, place, n);
  MPI_Comm_free(&host);
  ronde__busy_add(hosts->n_busy);
  return status;
}

void ronde__mpi_hosts_release(ronde__mpi_hosts *hosts) {
  ronde__busy_add(-hosts->n_busy);
  ronde__host_destroy(hosts->near);
  ronde__free(hosts->host_of);
  ronde__free(hosts->places);
  ronde__free(hosts->names);
}

#endif

/* Signs of life between processes: each rank tells all others every now and then that it is there, by a thread that no
 * computation and no slow disk delays. */
#ifndef RONDE_MPI_BEAT_H
#define RONDE_MPI_BEAT_H

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/wait.h"

typedef struct ronde__mpi_beat {
  MPI_Comm comm;
  int tag, word; /* of a sign of life, which the owner's listener receives */
  uint64_t every_ns;
  void (*listen)(void *user); /* takes what has come, and tells what is to be told; called from the thread */
  void *user;
  int rank, size;
  MPI_Request *under_way;      /* [size] */
  _Atomic bool *heard;         /* [size]: since the last look */
  _Atomic bool *gone;          /* [size]: told nothing any more */
  _Atomic uint64_t *silent_ns; /* [size]: time of this process in which nothing was heard */
  _Atomic bool ends;
  ronde__event event;
  pthread_t thread;
  bool runs;
} ronde__mpi_beat;

/* Starts the thread; comm, tag, word, every_ns, listen and user are set, the rest is zero. RONDE_E_MEMORY. */
ronde_status ronde__mpi_beat_start(ronde__mpi_beat *beat);
/* It looks and listens at once. From any thread, once it was started; does not call MPI. */
void ronde__mpi_beat_wake(ronde__mpi_beat *beat);
/* Ends it; also where it was not started. What was not delivered is left to MPI. */
void ronde__mpi_beat_stop(ronde__mpi_beat *beat);
/* Behind that, once nobody wakes it or asks it any more. */
void ronde__mpi_beat_free(ronde__mpi_beat *beat);

/* Something has come from that rank. */
static inline void ronde__mpi_beat_heard(ronde__mpi_beat *beat, int rank) {
  if (!atomic_load_explicit(&beat->heard[rank], memory_order_relaxed))
    atomic_store_explicit(&beat->heard[rank], true, memory_order_relaxed);
}
static inline uint64_t ronde__mpi_beat_silent_ns(const ronde__mpi_beat *beat, int rank) {
  return atomic_load_explicit(&beat->silent_ns[rank], memory_order_relaxed);
}

#endif

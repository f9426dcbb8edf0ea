#include "comm/mpi_process.h"

#include "comm/mpi.h"

#ifndef RONDE_HAVE_MPI

bool ronde__mpi_launched(void) { return false; }

#else

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FINALIZE_S = 2 };

static struct {
  pthread_mutex_t lock;
  bool present;        /* a transport */
  bool no_single_copy; /* by the user's will */
  _Atomic bool failed;
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool ronde__mpi_launched(void) {
  static const char *const marks[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"};
  int initialized = 0;
  MPI_Initialized(&initialized);
  for (size_t i = 0; i < sizeof marks / sizeof *marks && !initialized; i++) initialized = getenv(marks[i]) != NULL;
  return initialized;
}

static void *finalize_here(void *unused) {
  MPI_Finalize();
  return NULL;
}

/* MPI_Finalize waits for all ranks, dead ones too: after an error no longer than FINALIZE_S. */
static void finalize(void) {
  int finalized = 0;
  pthread_t thread;
  MPI_Finalized(&finalized);
  if (finalized) return;
  if (!atomic_load(&process.failed)) {
    MPI_Finalize();
  } else if (!pthread_create(&thread, NULL, finalize_here, NULL)) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += FINALIZE_S;
    pthread_timedjoin_np(thread, NULL, &until);
  }
}

static const char single_copy[] = "OMPI_MCA_btl_vader_single_copy_mechanism";

/* What was found best for the transport as it is used here; the user's own settings go first. */
static void set_defaults(void) {
  setenv("OMPI_MCA_pml", "ob1", 0); /* one path, the one that is tested and measured */
  setenv("OMPI_MCA_btl", "self,vader,tcp", 0);
  setenv(single_copy, "none", 0); /* the others need rights that containers take away, or fail */
  /* System V segments go with their last process, however it ends; files in /dev/shm would be left by one that is killed.
   * What mpirun found best for its daemons says nothing of that. */
  setenv("OMPI_MCA_shmem_sysv_priority", "90", 0);
  unsetenv("OMPI_MCA_shmem_RUNTIME_QUERY_hint");
  setenv("OMPI_MCA_coll_libnbc_iallreduce_algorithm", "1", 0); /* a ring */
  setenv("OMPI_MCA_mpi_warn_on_fork", "0", 0);
}

static ronde_status initialize(void) {
  int initialized = 0, level = 0;
  const char *mechanism = getenv(single_copy);
  MPI_Initialized(&initialized);
  if (initialized) {
    MPI_Query_thread(&level);
  } else {
    process.no_single_copy = mechanism && !strcmp(mechanism, "none");
    set_defaults();
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS)
      return ronde__fail(RONDE_E_LOST, "transport mpi: MPI_Init_thread failed");
    atexit(finalize);
  }
  return level == MPI_THREAD_MULTIPLE
             ? RONDE_OK
             : ronde__fail(RONDE_E_USAGE, "transport mpi: MPI was initialised without MPI_THREAD_MULTIPLE");
}

ronde_status ronde__mpi_claim(void) {
  pthread_mutex_lock(&process.lock);
  ronde_status status =
      process.present ? ronde__fail(RONDE_E_USAGE, "transport mpi: another job of this process uses it") : initialize();
  process.present |= status == RONDE_OK;
  pthread_mutex_unlock(&process.lock);
  return status;
}

void ronde__mpi_release(void) {
  pthread_mutex_lock(&process.lock);
  process.present = false;
  pthread_mutex_unlock(&process.lock);
}

bool ronde__mpi_single_copy(void) { return !process.no_single_copy; }

void ronde__mpi_note_failure(void) { atomic_store(&process.failed, true); }
bool ronde__mpi_has_failed(void) { return atomic_load(&process.failed); }

#endif

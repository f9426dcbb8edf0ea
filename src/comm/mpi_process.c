/* Starts and ends MPI in this process, with Ronde's defaults for Open MPI where the user has set none. */
#include "comm/mpi_process.h"

#include "base/limits.h"
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

typedef struct errand {
  ronde_status (*call)(void *arg);
  void *arg;
  ronde_status status;
} errand;

static void *run_errand(void *arg) {
  errand *e = arg;
  e->status = e->call(e->arg);
  return NULL;
}

/* A call that does not come back keeps its errand. */
bool ronde__mpi_within(uint64_t limit_ns, ronde_status (*call)(void *arg), void *arg, ronde_status *status_out) {
  pthread_t thread;
  struct timespec until;
  errand *e = ronde__alloc(sizeof *e);
  if (e) *e = (errand){.call = call, .arg = arg};
  if (!e || pthread_create(&thread, NULL, run_errand, e)) {
    ronde__free(e);
    *status_out = ronde__fail(RONDE_E_MEMORY, "transport mpi: cannot start a thread");
    return true;
  }
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += (time_t)(limit_ns / 1000000000u);
  until.tv_nsec += (long)(limit_ns % 1000000000u);
  if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
  if (pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until)) return false;
  *status_out = e->status;
  ronde__free(e);
  return true;
}

static ronde_status finalize_here(void *unused) {
  MPI_Finalize();
  return RONDE_OK;
}

/* MPI_Finalize waits for all ranks, dead ones too. */
static void finalize(void) {
  int finalized = 0;
  ronde_status status;
  MPI_Finalized(&finalized);
  if (finalized) return;
  if (!atomic_load(&process.failed)) MPI_Finalize();
  else ronde__mpi_within(RONDE__FINALIZE_S * 1000000000ull, finalize_here, NULL, &status);
}

static const char single_copy[] = "OMPI_MCA_btl_vader_single_copy_mechanism";

/* Ranks of one host need no sockets, and nobody is to find one open. */
static bool all_on_this_host(void) {
  const char *here = getenv("OMPI_COMM_WORLD_LOCAL_SIZE"), *all = getenv("OMPI_COMM_WORLD_SIZE");
  return here && all && !strcmp(here, all);
}

/* What was found best for the transport as it is used here; the user's own settings go first. */
static void set_defaults(void) {
  setenv("OMPI_MCA_pml", "ob1", 0); /* one path, the one that is tested and measured */
  setenv("OMPI_MCA_btl", all_on_this_host() ? "self,vader" : "self,vader,tcp", 0);
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
      process.present ? ronde__fail(RONDE_E_USAGE, "transport mpi: another job of this process is using MPI already")
                      : initialize();
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

/* Signs of life: a short message to every rank, as soon as the one before it is delivered. Time in which this process
 * itself was stopped is nobody's silence. */
#ifdef RONDE_HAVE_MPI

#include "comm/mpi_beat.h"

#include "comm/mpi_call.h"

static void beat_tell(ronde__mpi_beat *b) {
  for (int r = 0; r < b->size; r++) {
    int done = 1;
    if (r == b->rank || atomic_load(&b->gone[r])) continue;
    if (b->under_way[r] != MPI_REQUEST_NULL) RONDE__IN_MPI(MPI_Test(&b->under_way[r], &done, MPI_STATUS_IGNORE));
    if (done) RONDE__IN_MPI(MPI_Isend(&b->word, 1, MPI_INT, r, b->tag, b->comm, &b->under_way[r]));
  }
}

static void count_silence(ronde__mpi_beat *b, uint64_t ns) {
  for (int r = 0; r < b->size; r++) {
    bool heard = atomic_exchange(&b->heard[r], false);
    atomic_store(&b->silent_ns[r], heard || r == b->rank ? 0 : atomic_load(&b->silent_ns[r]) + ns);
  }
}

static void *beat(void *arg) {
  ronde__mpi_beat *b = arg;
  uint64_t last = ronde__now_ns();
  ronde__busy_add(1); /* its sleep takes it off */
  while (!atomic_load(&b->ends)) {
    uint32_t seen = ronde__event_count(&b->event);
    beat_tell(b);
    if (!atomic_load(&b->ends)) ronde__event_sleep(&b->event, seen, ronde__now_ns() + b->every_ns);
    b->listen(b->user);
    uint64_t now = ronde__now_ns();
    count_silence(b, ronde__min(now - last, 2 * b->every_ns));
    last = now;
  }
  ronde__busy_add(-1);
  return NULL;
}

ronde_status ronde__mpi_beat_start(ronde__mpi_beat *b) {
  MPI_Comm_rank(b->comm, &b->rank);
  MPI_Comm_size(b->comm, &b->size);
  size_t n = (size_t)b->size;
  RONDE__ALLOC(b->under_way, n * sizeof *b->under_way, "transport mpi");
  for (size_t i = 0; i < n; i++) b->under_way[i] = MPI_REQUEST_NULL;
  RONDE__ALLOC(b->heard, n * sizeof *b->heard, "transport mpi");
  RONDE__ALLOC(b->gone, n * sizeof *b->gone, "transport mpi");
  RONDE__ALLOC(b->silent_ns, n * sizeof *b->silent_ns, "transport mpi");
  if (n == 1) return RONDE_OK;
  b->runs = pthread_create(&b->thread, NULL, beat, b) == 0;
  return b->runs ? RONDE_OK : ronde__fail(RONDE_E_MEMORY, "transport mpi: cannot start a thread");
}

void ronde__mpi_beat_wake(ronde__mpi_beat *b) { ronde__event_signal(&b->event); }

void ronde__mpi_beat_stop(ronde__mpi_beat *b) {
  if (b->runs) {
    atomic_store(&b->ends, true);
    ronde__event_signal(&b->event);
    pthread_join(b->thread, NULL);
    b->runs = false;
  }
  for (int r = 0; b->under_way && r < b->size; r++)
    if (b->under_way[r] != MPI_REQUEST_NULL) RONDE__IN_MPI(MPI_Request_free(&b->under_way[r]));
}

void ronde__mpi_beat_free(ronde__mpi_beat *b) {
  ronde__free(b->under_way);
  ronde__free(b->heard);
  ronde__free(b->gone);
  ronde__free(b->silent_ns);
  *b = (ronde__mpi_beat){.rank = 0};
}

#endif

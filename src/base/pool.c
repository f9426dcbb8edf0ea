/* The thread pool: the caller and n_threads - 1 workers run one function at a time, fork and join. */
#include "base/pool.h"

#include <pthread.h>
#include <string.h>

#include "base/wait.h"

typedef struct pool_worker {
  ronde__pool *pool;
  int index;
  pthread_t thread;
} pool_worker;

struct ronde__pool {
  int n_threads, n_started; /* n_started: beside the caller */
  ronde__pool_fn fn;
  void *arg;
  bool stop;
  ronde__event go;
  /* Written by every worker when it ends and read by the caller, so they have cache lines of their own. */
  _Alignas(64) _Atomic int n_running;
  ronde__event done;
  _Alignas(64) pool_worker workers[];
};

static void *pool_worker_main(void *arg) {
  pool_worker *self = arg;
  ronde__pool *pool = self->pool;
  /* Each run signals once and waits for all workers, so a worker sees every count, from 0. */
  for (uint32_t seen = 0;; seen++) {
    while (ronde__event_count(&pool->go) == seen) ronde__event_wait(&pool->go, seen, 0);
    if (pool->stop) return NULL;
    pool->fn(pool->arg, self->index, pool->n_threads);
    if (atomic_fetch_sub(&pool->n_running, 1) == 1) ronde__event_signal(&pool->done);
  }
}

ronde_status ronde__pool_create(int n_threads, ronde__pool **pool_out) {
  if (n_threads < 1) return ronde__fail(RONDE_E_INTERNAL, "thread pool: %d threads", n_threads);
  ronde__pool *pool;
  RONDE__ALLOC(pool, sizeof *pool + sizeof(pool_worker) * (size_t)(n_threads - 1), "thread pool");
  pool->n_threads = n_threads;
  for (int i = 0; i < n_threads - 1; i++) {
    pool->workers[i] = (pool_worker){.pool = pool, .index = i + 1};
    int error = pthread_create(&pool->workers[i].thread, NULL, pool_worker_main, &pool->workers[i]);
    if (error) {
      ronde__pool_destroy(pool);
      return ronde__fail(RONDE_E_MEMORY, "thread pool: cannot start thread %d of %d: %s", i + 2, n_threads,
                         strerror(error));
    }
    pool->n_started++;
    ronde__busy_add(1);
  }
  *pool_out = pool;
  return RONDE_OK;
}

void ronde__pool_destroy(ronde__pool *pool) {
  if (!pool) return;
  pool->stop = true;
  ronde__event_signal(&pool->go);
  for (int i = 0; i < pool->n_started; i++) pthread_join(pool->workers[i].thread, NULL);
  ronde__busy_add(-pool->n_started);
  ronde__free(pool);
}

int ronde__pool_threads(const ronde__pool *pool) { return pool ? pool->n_threads : 1; }

void ronde__pool_run(ronde__pool *pool, ronde__pool_fn fn, void *arg) {
  if (!pool || pool->n_threads == 1) {
    fn(arg, 0, 1);
    return;
  }
  pool->fn = fn;
  pool->arg = arg;
  atomic_store(&pool->n_running, pool->n_started);
  ronde__event_signal(&pool->go);
  fn(arg, 0, pool->n_threads);
  for (;;) {
    uint32_t seen = ronde__event_count(&pool->done);
    if (atomic_load(&pool->n_running) == 0) return;
    ronde__event_wait(&pool->done, seen, 0);
  }
}

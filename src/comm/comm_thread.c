#include "comm/collective.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/wait.h"

typedef struct job {
  ronde__comm_job run;
  void *arg;
} job;

struct ronde__comm_thread {
  int rank;
  pthread_t thread;
  pthread_mutex_t lock; /* guards what follows, to the events */
  job *jobs;            /* [capacity], n_queued from `first` on, round the end */
  size_t capacity, first, n_queued;
  uint64_t n_submitted, n_done; /* n_done: skipped ones among them */
  uint64_t held;                /* no job behind so many is begun */
  bool running, stop, is_alone; /* is_alone: without the thread */
  ronde_status status;
  ronde__event submitted, finished;
};

/* Runs the first job unless one is running; false: there was none to run. Called with the lock held, which is given
 * up meanwhile. */
static bool run_one(ronde__comm_thread *self) {
  if (self->running || self->n_queued == 0 || self->n_done >= self->held) return false;
  job next = self->jobs[self->first];
  self->first = (self->first + 1) % self->capacity;
  self->n_queued--;
  if (self->status != RONDE_OK) {
    self->n_done++;
    return true;
  }
  self->running = true;
  pthread_mutex_unlock(&self->lock);
  ronde_status status = next.run(next.arg);
  pthread_mutex_lock(&self->lock);
  self->running = false;
  self->n_done++;
  if (self->status == RONDE_OK) self->status = status;
  return true;
}

static void *comm_main(void *arg) {
  ronde__comm_thread *self = arg;
  ronde__log_set_rank(self->rank);
  pthread_mutex_lock(&self->lock);
  while (!self->stop) {
    uint32_t seen = ronde__event_count(&self->submitted);
    bool ran = run_one(self);
    pthread_mutex_unlock(&self->lock);
    if (ran) ronde__event_signal(&self->finished);
    else ronde__event_sleep(&self->submitted, seen, 0);
    pthread_mutex_lock(&self->lock);
  }
  pthread_mutex_unlock(&self->lock);
  return NULL;
}

ronde_status ronde__comm_thread_create(int rank, bool alone, ronde__comm_thread **thread_out) {
  ronde__comm_thread *self;
  RONDE__ALLOC(self, sizeof *self, "communication thread");
  self->rank = rank;
  self->held = UINT64_MAX;
  self->is_alone = alone;
  pthread_mutex_init(&self->lock, NULL);
  if (!alone) ronde__busy_add(1);
  int error = alone ? 0 : pthread_create(&self->thread, NULL, comm_main, self);
  if (error) {
    ronde__busy_add(-1);
    pthread_mutex_destroy(&self->lock);
    ronde__free(self);
    return ronde__fail(RONDE_E_MEMORY, "cannot start a communication thread: %s", strerror(error));
  }
  *thread_out = self;
  return RONDE_OK;
}

void ronde__comm_thread_destroy(ronde__comm_thread *self) {
  if (!self) return;
  pthread_mutex_lock(&self->lock);
  self->stop = true;
  pthread_mutex_unlock(&self->lock);
  ronde__event_signal(&self->submitted);
  if (!self->is_alone) {
    pthread_join(self->thread, NULL);
    ronde__busy_add(-1);
  }
  pthread_mutex_destroy(&self->lock);
  free(self->jobs);
  ronde__free(self);
}

static bool grow(ronde__comm_thread *self) {
  size_t capacity = self->capacity ? 2 * self->capacity : 16;
  job *jobs = malloc(capacity * sizeof *jobs);
  if (!jobs) return false;
  for (size_t i = 0; i < self->n_queued; i++) jobs[i] = self->jobs[(self->first + i) % self->capacity];
  free(self->jobs);
  self->jobs = jobs;
  self->capacity = capacity;
  self->first = 0;
  return true;
}

ronde_status ronde__comm_thread_submit(ronde__comm_thread *self, ronde__comm_job run, void *arg) {
  pthread_mutex_lock(&self->lock);
  ronde_status status = self->status;
  bool full = self->n_queued == self->capacity, stuck = status == RONDE_OK && full && !grow(self);
  if (status == RONDE_OK && !stuck) {
    self->jobs[(self->first + self->n_queued++) % self->capacity] = (job){run, arg};
    self->n_submitted++;
  }
  pthread_mutex_unlock(&self->lock);
  if (stuck) return ronde__fail(RONDE_E_MEMORY, "communication thread: no memory for another job");
  if (status == RONDE_OK) ronde__event_signal(&self->submitted);
  return status;
}

uint64_t ronde__comm_thread_hold(ronde__comm_thread *self, uint64_t n_more) {
  pthread_mutex_lock(&self->lock);
  uint64_t held = self->held = self->n_done + self->running + n_more;
  pthread_mutex_unlock(&self->lock);
  return held;
}

void ronde__comm_thread_go_on(ronde__comm_thread *self) {
  pthread_mutex_lock(&self->lock);
  self->held = UINT64_MAX;
  pthread_mutex_unlock(&self->lock);
  ronde__event_signal(&self->submitted);
}

uint64_t ronde__comm_thread_submitted(ronde__comm_thread *self) {
  pthread_mutex_lock(&self->lock);
  uint64_t n = self->n_submitted;
  pthread_mutex_unlock(&self->lock);
  return n;
}

ronde_status ronde__comm_thread_drain(ronde__comm_thread *self) {
  return ronde__comm_thread_reach(self, ronde__comm_thread_submitted(self));
}

ronde_status ronde__comm_thread_reach(ronde__comm_thread *self, uint64_t n_jobs) {
  pthread_mutex_lock(&self->lock);
  while (self->n_done < n_jobs) {
    uint32_t seen = ronde__event_count(&self->finished);
    if (run_one(self)) continue;
    pthread_mutex_unlock(&self->lock);
    if (ronde__may_spin()) ronde__event_wait(&self->finished, seen, 0);
    else ronde__event_sleep(&self->finished, seen, 0);
    pthread_mutex_lock(&self->lock);
  }
  ronde_status status = self->status;
  pthread_mutex_unlock(&self->lock);
  return status;
}

/* The communication thread of a rank: a queue of jobs, and what runs them beside the rank. */
#include "comm/collective.h"

#include <stdlib.h>
#include <string.h>

typedef struct job {
  ronde__comm_job run;
  void *arg;
} job;

struct ronde__comm_thread {
  ronde__time *time;
  int rank;
  ronde__task task;
  ronde__guard guard; /* of what follows, to the events */
  job *jobs;          /* [capacity], n_queued from `first` on, round the end */
  size_t capacity, first, n_queued;
  uint64_t n_submitted, n_done; /* n_done: skipped ones among them */
  uint64_t held;                /* no job behind so many is begun */
  bool running, stop, is_alone; /* is_alone: without the thread */
  ronde_status status;
  ronde__event submitted, finished;
};

/* Runs the first job unless one is running; false: there was none to run. Called inside the guard, which is given
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
  ronde__guard_leave(&self->guard);
  ronde_status status = next.run(next.arg);
  ronde__guard_enter(&self->guard);
  self->running = false;
  self->n_done++;
  if (self->status == RONDE_OK) self->status = status;
  return true;
}

static void comm_main(void *arg) {
  ronde__comm_thread *self = arg;
  ronde__log_set_rank(self->rank);
  ronde__guard_enter(&self->guard);
  while (!self->stop) {
    uint32_t seen = ronde__event_count(&self->submitted);
    bool ran = run_one(self);
    ronde__guard_leave(&self->guard);
    if (ran) ronde__time_signal(self->time, &self->finished);
    else ronde__time_wait(self->time, &self->submitted, seen, RONDE__WAIT_LONG, 0);
    ronde__guard_enter(&self->guard);
  }
  ronde__guard_leave(&self->guard);
}

ronde_status ronde__comm_thread_create(ronde__time *time, int rank, bool alone, ronde__comm_thread **thread_out) {
  ronde__comm_thread *self;
  RONDE__ALLOC(self, sizeof *self, "communication thread");
  self->time = time;
  self->rank = rank;
  self->held = UINT64_MAX;
  self->is_alone = alone;
  ronde__guard_init(&self->guard);
  self->task = (ronde__task){.name = "communication", .run = comm_main, .arg = self, .computes = true};
  int error = alone ? 0 : ronde__task_start(time, &self->task);
  if (error) {
    ronde__guard_destroy(&self->guard);
    ronde__free(self);
    return ronde__fail(RONDE_E_MEMORY, "cannot start a communication thread: %s", strerror(error));
  }
  *thread_out = self;
  return RONDE_OK;
}

void ronde__comm_thread_destroy(ronde__comm_thread *self) {
  if (!self) return;
  ronde__guard_enter(&self->guard);
  self->stop = true;
  ronde__guard_leave(&self->guard);
  ronde__time_signal(self->time, &self->submitted);
  if (!self->is_alone) ronde__task_join(self->time, &self->task);
  ronde__guard_destroy(&self->guard);
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
  ronde__guard_enter(&self->guard);
  ronde_status status = self->status;
  bool full = self->n_queued == self->capacity, stuck = status == RONDE_OK && full && !grow(self);
  if (status == RONDE_OK && !stuck) {
    self->jobs[(self->first + self->n_queued++) % self->capacity] = (job){run, arg};
    self->n_submitted++;
  }
  ronde__guard_leave(&self->guard);
  if (stuck) return ronde__fail(RONDE_E_MEMORY, "communication thread: no memory to queue another job");
  if (status == RONDE_OK) ronde__time_signal(self->time, &self->submitted);
  return status;
}

uint64_t ronde__comm_thread_hold(ronde__comm_thread *self, uint64_t n_more) {
  ronde__guard_enter(&self->guard);
  uint64_t held = self->held = self->n_done + self->running + n_more;
  ronde__guard_leave(&self->guard);
  return held;
}

void ronde__comm_thread_go_on(ronde__comm_thread *self) {
  ronde__guard_enter(&self->guard);
  self->held = UINT64_MAX;
  ronde__guard_leave(&self->guard);
  ronde__time_signal(self->time, &self->submitted);
}

void ronde__comm_thread_halt(ronde__comm_thread *self) {
  ronde__guard_enter(&self->guard);
  self->held = 0;
  while (self->running) ronde__guard_wait(&self->guard, self->time, &self->finished, RONDE__WAIT_LONG, 0);
  ronde__guard_leave(&self->guard);
}

uint64_t ronde__comm_thread_submitted(ronde__comm_thread *self) {
  ronde__guard_enter(&self->guard);
  uint64_t n = self->n_submitted;
  ronde__guard_leave(&self->guard);
  return n;
}

uint64_t ronde__comm_thread_done(ronde__comm_thread *self) {
  ronde__guard_enter(&self->guard);
  uint64_t n = self->status == RONDE_OK ? self->n_done : 0;
  ronde__guard_leave(&self->guard);
  return n;
}

ronde_status ronde__comm_thread_drain(ronde__comm_thread *self) {
  return ronde__comm_thread_reach(self, ronde__comm_thread_submitted(self));
}

ronde_status ronde__comm_thread_reach(ronde__comm_thread *self, uint64_t n_jobs) {
  ronde__guard_enter(&self->guard);
  while (self->n_done < n_jobs) {
    uint32_t seen = ronde__event_count(&self->finished);
    if (run_one(self)) continue;
    ronde__guard_leave(&self->guard);
    ronde__time_wait(self->time, &self->finished, seen, ronde__may_spin() ? RONDE__WAIT_BRIEF : RONDE__WAIT_LONG, 0);
    ronde__guard_enter(&self->guard);
  }
  ronde_status status = self->status;
  ronde__guard_leave(&self->guard);
  return status;
}

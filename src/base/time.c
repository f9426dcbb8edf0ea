/* The machine's time: its monotonic clock, and threads. */
#include "base/time.h"

#include <time.h>

void ronde__time_sleep(ronde__time *time, uint64_t ns) {
  if (time) {
    time->ops->sleep(time, ns);
    return;
  }
  struct timespec left = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
  while (nanosleep(&left, &left)) {
  }
}

bool ronde__time_wait(ronde__time *time, ronde__event *event, uint32_t seen, ronde__wait_kind kind,
                      uint64_t deadline_ns) {
  if (time) return time->ops->wait(time, event, seen, deadline_ns);
  switch (kind) {
  case RONDE__WAIT_BRIEF: return ronde__event_wait(event, seen, deadline_ns);
  case RONDE__WAIT_LONG: return ronde__event_sleep(event, seen, deadline_ns);
  default: return ronde__event_block(event, seen, deadline_ns);
  }
}

static void *time_task_main(void *arg) {
  const ronde__task *task = arg;
  task->run(task->arg);
  return NULL;
}

int ronde__task_start(ronde__time *time, ronde__task *task) {
  if (time) return time->ops->start(time, task);
  if (task->computes) ronde__busy_add(1);
  int error = pthread_create(&task->thread, NULL, time_task_main, task);
  if (error && task->computes) ronde__busy_add(-1);
  return error;
}

void ronde__task_join(ronde__time *time, ronde__task *task) {
  if (time) {
    time->ops->join(time, task);
    return;
  }
  pthread_join(task->thread, NULL);
  if (task->computes) ronde__busy_add(-1);
}

void ronde__guard_init(ronde__guard *guard) { pthread_mutex_init(&guard->mutex, NULL); }
void ronde__guard_destroy(ronde__guard *guard) { pthread_mutex_destroy(&guard->mutex); }

bool ronde__guard_wait(ronde__guard *guard, ronde__time *time, ronde__event *event, ronde__wait_kind kind,
                       uint64_t deadline_ns) {
  uint32_t seen = ronde__event_count(event);
  ronde__guard_leave(guard);
  bool in_time = ronde__time_wait(time, event, seen, kind, deadline_ns);
  ronde__guard_enter(guard);
  return in_time;
}

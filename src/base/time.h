/* The time of a rank: its clock, how it sleeps, what runs beside it, and how these wait for each other. A transport gives
 * each of its ranks one. What belongs to a rank reads clocks, sleeps, waits and starts threads through it alone, so that
 * the same code runs by the machine's clock and in virtual time, where time is a number (comm/sim.h).
 * NULL is the machine's: the monotonic clock, and threads. */
#ifndef RONDE_TIME_H
#define RONDE_TIME_H

#include <pthread.h>

#include "base/wait.h"

typedef struct ronde__time ronde__time;
typedef struct ronde__task ronde__task;

/* How a waiter spends its time; it makes a difference only by the machine's time. */
typedef enum ronde__wait_kind {
  RONDE__WAIT_BRIEF, /* ronde__event_wait: spins shortly where a core is free for it */
  RONDE__WAIT_LONG,  /* ronde__event_sleep: sleeps at once, and does not count as computing meanwhile */
  RONDE__WAIT_ASIDE  /* ronde__event_block: sleeps at once, and is counted as before */
} ronde__wait_kind;

typedef struct ronde__time_ops {
  uint64_t (*now_ns)(ronde__time *time);
  void (*sleep)(ronde__time *time, uint64_t ns);
  void (*signal)(ronde__time *time, ronde__event *event);
  bool (*wait)(ronde__time *time, ronde__event *event, uint32_t seen, uint64_t deadline_ns);
  int (*start)(ronde__time *time, ronde__task *task);
  void (*join)(ronde__time *time, ronde__task *task);
} ronde__time_ops;

/* The common head of all times but the machine's. */
struct ronde__time {
  const ronde__time_ops *ops;
};

/* Something that runs beside a rank. It stays where it is from start to join. */
struct ronde__task {
  const char *name; /* "loader"; "" for the rank itself. Borrowed */
  void (*run)(void *arg);
  void *arg;
  bool computes; /* it counts as a thread that computes: ronde__busy_add */
  pthread_t thread;
  void *impl;
};

static inline uint64_t ronde__time_now(ronde__time *time) { return time ? time->ops->now_ns(time) : ronde__now_ns(); }
static inline bool ronde__time_is_virtual(const ronde__time *time) { return time != NULL; }
void ronde__time_sleep(ronde__time *time, uint64_t ns);

/* Events between a rank and its tasks, and among these; wait.h says how they are used. */
static inline void ronde__time_signal(ronde__time *time, ronde__event *event) {
  if (time) time->ops->signal(time, event);
  else ronde__event_signal(event);
}
/* False when the clock has passed deadline_ns (0: never). */
bool ronde__time_wait(ronde__time *time, ronde__event *event, uint32_t seen, ronde__wait_kind kind,
                      uint64_t deadline_ns);

/* Starts what name, run, arg and computes say. 0, or an errno: then nothing runs. */
int ronde__task_start(ronde__time *time, ronde__task *task);
/* Blocks until it has returned. */
void ronde__task_join(ronde__time *time, ronde__task *task);

/* A lock on what tasks share, for a few instructions: nobody waits or sleeps inside it, except in ronde__guard_wait,
 * which releases it meanwhile. */
typedef struct ronde__guard {
  pthread_mutex_t mutex;
} ronde__guard;

void ronde__guard_init(ronde__guard *guard);
void ronde__guard_destroy(ronde__guard *guard);
static inline void ronde__guard_enter(ronde__guard *guard) { pthread_mutex_lock(&guard->mutex); }
static inline void ronde__guard_leave(ronde__guard *guard) { pthread_mutex_unlock(&guard->mutex); }
/* For a loop around a condition that changes inside the guard, where the event is signalled afterwards. False when the
 * clock has passed deadline_ns (0: never). */
bool ronde__guard_wait(ronde__guard *guard, ronde__time *time, ronde__event *event, ronde__wait_kind kind,
                       uint64_t deadline_ns);

#endif

/* Virtual time: the tasks of all ranks, of which one runs at a time until it waits, and a clock that is a number and goes
 * on when all of them wait. Whoever is due first goes on; of several that are due at the same time the seed decides. Each
 * task is a thread, and hands a baton to the next, so that nothing here needs a lock, and sanitizers see plain threads. */
#ifndef RONDE_VIRTUAL_H
#define RONDE_VIRTUAL_H

#include "base/rng.h"
#include "base/time.h"

/* 0 means "never" to some: no clock says it. */
#define RONDE__VIRTUAL_BEGIN_NS 1000000000u

typedef struct ronde__virtual ronde__virtual;

/* What a rank knows of it: the rank's time. */
typedef struct ronde__virtual_rank {
  ronde__time head;
  ronde__virtual *virtual;
  struct ronde__virtual_task *tasks; /* of the rank */
  int rank;
  /* Set before it starts: none of its tasks runs from stops_ns (0: never) until goes_on_ns. UINT64_MAX: it never goes on,
   * which is for the owner of the time to see to. */
  uint64_t stops_ns, goes_on_ns;
} ronde__virtual_rank;

/* A task, as seen by the code that says what it waits for. */
typedef struct ronde__virtual_task {
  struct ronde__virtual_task *next, *next_of_rank; /* of the same virtual time; and of the same rank */
  ronde__virtual_rank *rank;
  ronde__task *task; /* NULL: the rank that began it */
  int number;
  pthread_t thread;
  /* Why it waits, all NULL while it does not: for an event, for a task to end, or for what `subject` means to the owner
   * of the time; until limit_ns at most (0: for ever), which is no reason to let time go on. */
  bool waits;
  const ronde__event *event;
  const struct ronde__virtual_task *joined;
  const void *subject;
  uint64_t limit_ns;
  uint64_t due_ns, draw; /* when it goes on, while it is in the heap */
  int place;             /* in the heap; -1: it is not there */
  bool ended;
  struct ronde__virtual_task *joiner;
  ronde__event baton;
  _Atomic bool turn;
} ronde__virtual_task;

struct ronde__virtual {
  uint64_t now_ns, soonest_limit_ns;
  ronde__rng draws;
  ronde__virtual_task *tasks, *current, **heap; /* [n_due], room for all tasks */
  ronde__virtual_task *joined; /* kept: whoever handed them the baton may still be about to let go of it */
  int n_due, n_tasks, capacity, n_made;
  uint64_t n_events, digest;
  /* Called when nobody is due: says so, and makes somebody due who can go on. */
  void (*stuck)(ronde__virtual *virtual, void *user);
  void *user;
};

/* The caller becomes the task of ranks[0]. ranks [n] belong to the caller. RONDE_E_MEMORY. */
ronde_status ronde__virtual_begin(ronde__virtual *virtual, uint64_t seed, ronde__virtual_rank *ranks, int n);
/* By the same caller, when all other tasks have been joined. */
void ronde__virtual_end(ronde__virtual *virtual);

/* The task continues at due_ns, or earlier if an earlier time was set before. */
void ronde__virtual_wake(ronde__virtual_task *task, uint64_t due_ns);
/* The running task waits until it is woken, for `subject`; false: past limit_ns (0: there is none). */
bool ronde__virtual_wait(ronde__virtual *virtual, const void *subject, uint64_t limit_ns);
/* Adds what happened to the digest of all events. */
void ronde__virtual_note(ronde__virtual *virtual, uint64_t what, uint64_t value);

#endif

/* Waiting inside the process: an event that misses no wake-up. The waiter spins briefly where a core is free for it,
 * then sleeps. The thread pool and the transports wait with it; a rank and what runs beside it do so through the
 * rank's time (time.h). */
#ifndef RONDE_WAIT_H
#define RONDE_WAIT_H

#include <stdatomic.h>

#include "base/base.h"

/* Zero-initialised, it is ready. The waiter reads the count, checks its condition, then waits for the count to move on:
 *   for (;;) { uint32_t seen = ronde__event_count(e); if (condition) break; ronde__event_wait(e, seen, deadline); }
 * Whoever makes the condition true signals afterwards. */
typedef struct ronde__event {
  _Atomic uint32_t count, n_sleepers;
  _Atomic uint32_t spin_ns; /* how long spinning seems worth it here; 0: not known yet */
  bool shared;              /* between processes; set before it is used */
} ronde__event;

static inline uint32_t ronde__event_count(ronde__event *event) {
  return atomic_load_explicit(&event->count, memory_order_acquire);
}
void ronde__event_signal(ronde__event *event);
/* Returns true when the count is no longer `seen`, false when ronde__now_ns() has passed deadline_ns (0: never). */
bool ronde__event_wait(ronde__event *event, uint32_t seen, uint64_t deadline_ns);
/* The same for long waits: it never spins, and the thread does not count as computing meanwhile. */
bool ronde__event_sleep(ronde__event *event, uint32_t seen, uint64_t deadline_ns);
/* The same for threads that are not counted as computing: never spins. */
bool ronde__event_block(ronde__event *event, uint32_t seen, uint64_t deadline_ns);

/* A time limit that runs only while the process runs. A process that was stopped (Ctrl-Z, a debugger, a paused
 * virtual machine) continues where it was. Call it at least every nap_ns: the time between two calls counts as twice
 * that at most. */
typedef struct ronde__patience {
  uint64_t left_ns, nap_ns, asked_ns;
} ronde__patience;

ronde__patience ronde__patience_of(uint64_t limit_ns, uint64_t now_ns);
/* False once the limit is reached. */
bool ronde__patience_left(ronde__patience *patience, uint64_t now_ns);

/* Counts the threads of the process that compute (the first is counted already). Nobody spins while there are more
 * of them than cores, because the spinner would hold the core that the awaited thread needs. */
void ronde__busy_add(int n_threads);
bool ronde__may_spin(void);

static inline void ronde__pause(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

#endif

/* Events on futexes: a waiter spins for about as long as would have sufficed lately, then sleeps. */
#include "base/wait.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A wake-up through the kernel costs 5 to 50 us. Spinning much longer than that cannot pay. */
#define SPIN_MAX_NS 100000u
#define SPIN_MIN_NS 2000u
#define PAUSES_PER_CLOCK 32
#define MAX_NAP_NS 1000000000u

static _Atomic int n_busy = 1;
static _Atomic int n_cores; /* 0: not asked yet */

static int wait_cores(void) {
  int n = atomic_load_explicit(&n_cores, memory_order_relaxed);
  if (n > 0) return n;
  n = ronde__cores();
  atomic_store_explicit(&n_cores, n, memory_order_relaxed);
  return n;
}

/* Asks for the cores before the threads exist, because later they may be pinned. */
void ronde__busy_add(int n_threads) {
  wait_cores();
  atomic_fetch_add_explicit(&n_busy, n_threads, memory_order_relaxed);
}

bool ronde__may_spin(void) { return atomic_load_explicit(&n_busy, memory_order_relaxed) <= wait_cores(); }

static long wait_futex(ronde__event *event, int op, uint32_t value, const struct timespec *timeout) {
  int flag = event->shared ? 0 : FUTEX_PRIVATE_FLAG;
  return syscall(SYS_futex, (uint32_t *)&event->count, op | flag, value, timeout, NULL, 0);
}

void ronde__event_signal(ronde__event *event) {
  atomic_fetch_add(&event->count, 1);
  if (atomic_load(&event->n_sleepers)) wait_futex(event, FUTEX_WAKE, INT_MAX, NULL);
}

/* Returns true when the count moved on within limit_ns of begin_ns. It yields in between: on a busy machine the
 * awaited thread may be queued on this very core, and without yielding a hand-over was 40 times slower. */
static bool wait_spin(ronde__event *event, uint32_t seen, uint64_t begin_ns, uint32_t limit_ns) {
  do {
    for (int i = 0; i < PAUSES_PER_CLOCK; i++) {
      if (ronde__event_count(event) != seen) return true;
      ronde__pause();
    }
    sched_yield();
  } while (ronde__now_ns() - begin_ns < limit_ns && ronde__may_spin());
  return ronde__event_count(event) != seen;
}

bool ronde__event_block(ronde__event *event, uint32_t seen, uint64_t deadline_ns) {
  bool in_time = true;
  atomic_fetch_add(&event->n_sleepers, 1);
  while (in_time && atomic_load(&event->count) == seen) {
    struct timespec left, *timeout = NULL;
    if (deadline_ns) {
      uint64_t now = ronde__now_ns(), ns = deadline_ns > now ? deadline_ns - now : 0;
      left = (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
      timeout = &left;
    }
    in_time = wait_futex(event, FUTEX_WAIT, seen, timeout) == 0 || errno != ETIMEDOUT;
  }
  atomic_fetch_sub(&event->n_sleepers, 1);
  return in_time || atomic_load(&event->count) != seen;
}

bool ronde__event_wait(ronde__event *event, uint32_t seen, uint64_t deadline_ns) {
  if (ronde__event_count(event) != seen) return true;
  if (!ronde__may_spin()) return ronde__event_block(event, seen, deadline_ns);
  uint32_t budget = atomic_load_explicit(&event->spin_ns, memory_order_relaxed);
  if (budget == 0) budget = SPIN_MAX_NS;
  uint64_t begin = ronde__now_ns();
  bool in_time = wait_spin(event, seen, begin, budget) || ronde__event_block(event, seen, deadline_ns);
  /* Spin as long as would have sufficed; after waits that no spin can bridge, spin less and less. */
  uint32_t next = ronde__now_ns() - begin <= SPIN_MAX_NS ? SPIN_MAX_NS : budget / 2;
  atomic_store_explicit(&event->spin_ns, next > SPIN_MIN_NS ? next : SPIN_MIN_NS, memory_order_relaxed);
  return in_time;
}

bool ronde__event_sleep(ronde__event *event, uint32_t seen, uint64_t deadline_ns) {
  ronde__busy_add(-1);
  bool in_time = ronde__event_block(event, seen, deadline_ns);
  ronde__busy_add(1);
  return in_time;
}

ronde__patience ronde__patience_of(uint64_t limit_ns, uint64_t now_ns) {
  return (ronde__patience){limit_ns, ronde__min(limit_ns / 16, MAX_NAP_NS), now_ns};
}

bool ronde__patience_left(ronde__patience *patience, uint64_t now_ns) {
  uint64_t spent = ronde__min(now_ns - patience->asked_ns, 2 * patience->nap_ns);
  patience->asked_ns = now_ns;
  patience->left_ns -= ronde__min(spent, patience->left_ns);
  return patience->left_ns > 0;
}

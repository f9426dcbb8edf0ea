/* The thread pool and its waiting: every thread runs once a call, and no wake-up is missed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/pool.h"
#include "base/wait.h"

typedef struct tally {
  int calls[16];
  int n_threads[16];
  pthread_t thread[16];
} tally;

static void count_run(void *arg, int thread, int n_threads) {
  tally *t = arg;
  t->calls[thread]++;
  t->n_threads[thread] = n_threads;
  t->thread[thread] = pthread_self();
}

static void every_thread_runs_once_a_call(void **state) {
  static const int sizes[] = {1, 2, 3, 7};
  for (size_t i = 0; i < RONDE__COUNT(sizes); i++) {
    int n = sizes[i];
    ronde__pool *pool;
    assert_int_equal(ronde__pool_create(n, &pool), RONDE_OK);
    assert_int_equal(ronde__pool_threads(pool), n);
    tally t;
    memset(&t, 0, sizeof t);
    for (int run = 1; run <= 500; run++) {
      ronde__pool_run(pool, count_run, &t);
      for (int thread = 0; thread < 16; thread++) assert_int_equal(t.calls[thread], thread < n ? run : 0);
    }
    assert_true(pthread_equal(t.thread[0], pthread_self()));
    for (int thread = 0; thread < n; thread++) assert_int_equal(t.n_threads[thread], n);
    for (int thread = 1; thread < n; thread++) assert_false(pthread_equal(t.thread[thread], t.thread[thread - 1]));
    ronde__pool_destroy(pool);
  }
}

static void workers_wake_from_sleep(void **state) {
  ronde__pool *pool;
  assert_int_equal(ronde__pool_create(2, &pool), RONDE_OK);
  tally t;
  memset(&t, 0, sizeof t);
  for (int run = 1; run <= 5; run++) {
    nanosleep(&(struct timespec){0, 3000000}, NULL);
    ronde__pool_run(pool, count_run, &t);
    assert_int_equal(t.calls[1], run);
  }
  ronde__pool_destroy(pool);
}

static void no_pool_runs_on_the_caller(void **state) {
  tally t;
  memset(&t, 0, sizeof t);
  ronde__pool_run(NULL, count_run, &t);
  assert_int_equal(t.calls[0], 1);
  assert_int_equal(t.n_threads[0], 1);
  assert_int_equal(ronde__pool_threads(NULL), 1);
  ronde__pool_destroy(NULL);
}

static void impossible_sizes_are_refused(void **state) {
  ronde__pool *pool = (ronde__pool *)&pool;
  assert_int_equal(ronde__pool_create(0, &pool), RONDE_E_INTERNAL);
  assert_ptr_equal(pool, &pool);
}

static void a_deadline_ends_a_wait(void **state) {
  ronde__event event = {0};
  uint64_t begin = ronde__now_ns();
  assert_false(ronde__event_wait(&event, 0, begin + 2000000));
  assert_true(ronde__now_ns() - begin >= 2000000);
  begin = ronde__now_ns();
  assert_false(ronde__event_sleep(&event, 0, begin + 2000000));
  assert_true(ronde__now_ns() - begin >= 2000000);
  ronde__event_signal(&event);
  assert_true(ronde__event_wait(&event, 0, begin));
  assert_true(ronde__event_sleep(&event, 0, begin));
  assert_int_equal(ronde__event_count(&event), 1);
}

/* As if the process were stopped for a minute between two calls, several times. */
static void patience_outlasts_a_stop(void **state) {
  const uint64_t limit = 1600000000;
  ronde__patience patience = ronde__patience_of(limit, ronde__now_ns());
  for (int stops = 1; stops < 8; stops++) {
    patience.asked_ns -= 60000000000;
    assert_true(ronde__patience_left(&patience, ronde__now_ns()));
    assert_int_equal(patience.left_ns, limit - (uint64_t)stops * limit / 8);
  }
  patience.asked_ns -= 60000000000;
  assert_false(ronde__patience_left(&patience, ronde__now_ns()));
  assert_false(ronde__patience_left(&patience, ronde__now_ns()));
  patience = ronde__patience_of(UINT64_MAX, ronde__now_ns());
  assert_true(patience.nap_ns <= 1000000000);
  patience = ronde__patience_of(0, ronde__now_ns());
  assert_false(ronde__patience_left(&patience, ronde__now_ns()));
}

/* Two threads hand a number back and forth: a missed wake-up hangs the test. */
typedef struct relay {
  ronde__event event;
  _Atomic int turn;
} relay;

enum { RELAY_TURNS = 20000 };

static void play(relay *r, int parity) {
  for (int next = parity; next < RELAY_TURNS; next += 2) {
    for (;;) {
      uint32_t seen = ronde__event_count(&r->event);
      if (atomic_load(&r->turn) == next) break;
      ronde__event_wait(&r->event, seen, 0);
    }
    atomic_store(&r->turn, next + 1);
    ronde__event_signal(&r->event);
  }
}

static void *play_odd(void *arg) {
  play(arg, 1);
  return NULL;
}

static void relay_with(int n_more_busy) {
  relay r = {0};
  pthread_t thread;
  ronde__busy_add(n_more_busy);
  assert_int_equal(pthread_create(&thread, NULL, play_odd, &r), 0);
  play(&r, 0);
  pthread_join(thread, NULL);
  ronde__busy_add(-n_more_busy);
  assert_int_equal(r.turn, RELAY_TURNS);
}

static void no_wake_up_is_missed(void **state) {
  relay_with(0);
  ronde__busy_add(1 << 20);
  assert_false(ronde__may_spin());
  ronde__busy_add(-(1 << 20));
  relay_with(1 << 20);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_thread_runs_once_a_call), cmocka_unit_test(workers_wake_from_sleep),
      cmocka_unit_test(no_pool_runs_on_the_caller),    cmocka_unit_test(impossible_sizes_are_refused),
      cmocka_unit_test(a_deadline_ends_a_wait),        cmocka_unit_test(patience_outlasts_a_stop),
      cmocka_unit_test(no_wake_up_is_missed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The communication thread: jobs run in order, one at a time, held back and skipped as they should be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "comm/collective.h"

/* The order in which jobs ran; a job may fail or take long. */
typedef struct diary {
  int entries[1000];
  int n;
  _Atomic int n_running;
  bool overlapped;
} diary;

typedef struct task {
  diary *diary;
  int number;
  long sleep_ns;
  ronde_status status;
} task;

static ronde_status write_down(void *arg) {
  task *t = arg;
  if (atomic_fetch_add(&t->diary->n_running, 1) > 0) t->diary->overlapped = true;
  if (t->sleep_ns) nanosleep(&(struct timespec){0, t->sleep_ns}, NULL);
  t->diary->entries[t->diary->n++] = t->number;
  atomic_fetch_sub(&t->diary->n_running, 1);
  return t->status;
}

static bool alone;

static ronde__comm_thread *make(void) {
  ronde__comm_thread *thread;
  assert_int_equal(ronde__comm_thread_create(NULL, 3, alone, &thread), RONDE_OK);
  return thread;
}

static void jobs_run_in_order_one_at_a_time(void **state) {
  static diary diary;
  static task tasks[1000];
  memset(&diary, 0, sizeof diary);
  ronde__comm_thread *thread = make();
  assert_int_equal(ronde__comm_thread_drain(thread), RONDE_OK);
  int submitted = 0;
  /* Drains in between, so that jobs run on both threads and the queue's ends move round. */
  for (int part = 1; submitted < 1000; part++) {
    for (int i = 0; i < part * 7 && submitted < 1000; i++, submitted++) {
      tasks[submitted] = (task){&diary, submitted, submitted % 100 == 50 ? 500000 : 0, RONDE_OK};
      assert_int_equal(ronde__comm_thread_submit(thread, write_down, &tasks[submitted]), RONDE_OK);
    }
    assert_int_equal(ronde__comm_thread_drain(thread), RONDE_OK);
    assert_int_equal(diary.n, submitted);
  }
  for (int i = 0; i < 1000; i++) assert_int_equal(diary.entries[i], i);
  assert_false(diary.overlapped);
  ronde__comm_thread_destroy(thread);
}

static void after_an_error_the_others_are_skipped(void **state) {
  static diary diary;
  memset(&diary, 0, sizeof diary);
  task good = {&diary, 1, 0, RONDE_OK};
  task first = {&diary, 2, 2000000, RONDE_E_LOST}, second = {&diary, 3, 0, RONDE_E_NUMERIC};
  ronde__comm_thread *thread = make();
  assert_int_equal(ronde__comm_thread_submit(thread, write_down, &good), RONDE_OK);
  assert_int_equal(ronde__comm_thread_submit(thread, write_down, &first), RONDE_OK);
  ronde_status submitted = ronde__comm_thread_submit(thread, write_down, &second);
  assert_true(submitted == RONDE_OK || submitted == RONDE_E_LOST);
  assert_int_equal(ronde__comm_thread_drain(thread), RONDE_E_LOST);
  assert_int_equal(ronde__comm_thread_submit(thread, write_down, &good), RONDE_E_LOST);
  assert_int_equal(ronde__comm_thread_drain(thread), RONDE_E_LOST);
  assert_int_equal(diary.n, 2);
  ronde__comm_thread_destroy(thread);
}

static void destroy_skips_what_has_not_begun(void **state) {
  static diary diary;
  static task tasks[50];
  for (int repeat = 0; repeat < 3; repeat++) {
    memset(&diary, 0, sizeof diary);
    ronde__comm_thread *thread = make();
    for (int i = 0; i < 50; i++) {
      tasks[i] = (task){&diary, i, 50000000, RONDE_OK};
      assert_int_equal(ronde__comm_thread_submit(thread, write_down, &tasks[i]), RONDE_OK);
    }
    ronde__comm_thread_destroy(thread);
    assert_int_equal(diary.n_running, 0);
    assert_true(diary.n < 50);
  }
  ronde__comm_thread_destroy(NULL);
}

static void what_is_held_waits(void **state) {
  static diary diary;
  static task tasks[20];
  memset(&diary, 0, sizeof diary);
  ronde__comm_thread *thread = make();
  task first = {&diary, -1, 0, RONDE_OK};
  assert_int_equal(ronde__comm_thread_submit(thread, write_down, &first), RONDE_OK);
  assert_int_equal(ronde__comm_thread_drain(thread), RONDE_OK);
  assert_int_equal(ronde__comm_thread_hold(thread, 5), 6);
  for (int i = 0; i < 20; i++) {
    tasks[i] = (task){&diary, i, 0, RONDE_OK};
    assert_int_equal(ronde__comm_thread_submit(thread, write_down, &tasks[i]), RONDE_OK);
  }
  assert_int_equal(ronde__comm_thread_reach(thread, 6), RONDE_OK);
  nanosleep(&(struct timespec){0, 2000000}, NULL);
  assert_int_equal(diary.n, 6);
  for (int i = 5; i < 20; i++) tasks[i].number = 24 - i;
  ronde__comm_thread_go_on(thread);
  assert_int_equal(ronde__comm_thread_drain(thread), RONDE_OK);
  assert_int_equal(diary.n, 21);
  for (int i = 0; i < 5; i++) assert_int_equal(diary.entries[1 + i], i);
  for (int i = 5; i < 20; i++) assert_int_equal(diary.entries[1 + i], 24 - i);
  assert_int_equal(ronde__comm_thread_hold(thread, 0), 21);
  assert_int_equal(ronde__comm_thread_submit(thread, write_down, &first), RONDE_OK);
  ronde__comm_thread_destroy(thread);
  assert_int_equal(diary.n, 21);
}

static char last_line[256];
static void keep_line(void *user, ronde_log_level level, const char *line) {
  snprintf(last_line, sizeof last_line, "%s", line);
}

typedef struct place {
  pthread_t thread;
  _Atomic bool ran;
} place;

static ronde_status complain(void *arg) {
  place *p = arg;
  p->thread = pthread_self();
  ronde_status status = ronde__fail(RONDE_E_LOST, "a line");
  atomic_store(&p->ran, true);
  return status;
}

static void jobs_run_in_the_background_under_the_ranks_name(void **state) {
  place place = {0};
  ronde_log_set(keep_line, NULL);
  ronde__comm_thread *thread = make();
  assert_int_equal(ronde__comm_thread_submit(thread, complain, &place), RONDE_OK);
  for (int ms = 0; ms < 20000 && !atomic_load(&place.ran); ms++) nanosleep(&(struct timespec){0, 1000000}, NULL);
  assert_true(atomic_load(&place.ran));
  assert_false(pthread_equal(place.thread, pthread_self()));
  assert_int_equal(ronde__comm_thread_drain(thread), RONDE_E_LOST);
  ronde__comm_thread_destroy(thread);
  ronde_log_set(NULL, NULL);
  assert_string_equal(last_line, "rank 3: a line");
}

int main(void) {
  const struct CMUnitTest both[] = {
      cmocka_unit_test(jobs_run_in_order_one_at_a_time),
      cmocka_unit_test(after_an_error_the_others_are_skipped),
      cmocka_unit_test(destroy_skips_what_has_not_begun),
      cmocka_unit_test(what_is_held_waits),
  };
  const struct CMUnitTest threaded[] = {cmocka_unit_test(jobs_run_in_the_background_under_the_ranks_name)};
  int n_failed = cmocka_run_group_tests(both, NULL, NULL) + cmocka_run_group_tests(threaded, NULL, NULL);
  alone = true;
  return n_failed + cmocka_run_group_tests_name("alone", both, NULL, NULL);
}

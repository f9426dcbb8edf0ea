/* The lock on a folder: one holder at a time, who is named in errors; released however the holder ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/folder_testing.h"
#include "io/lock.h"

/* In another process, which holds the lock until it is killed. */
static pid_t hold_elsewhere(void) {
  int ends[2];
  char word;
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    ronde__lock *lock;
    if (ronde__lock_take(folder, "x", &lock) != RONDE_OK) _exit(1);
    if (write(ends[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  assert_int_equal(read(ends[0], &word, 1), 1);
  close(ends[0]);
  close(ends[1]);
  return child;
}

static void kill_and_wait(pid_t child) {
  assert_int_equal(kill(child, SIGKILL), 0);
  assert_int_equal(waitpid(child, NULL, 0), child);
}

static void check_held_by(pid_t pid) {
  ronde__lock *lock = NULL;
  char host[256] = "", holder[400];
  gethostname(host, sizeof host - 1);
  snprintf(holder, sizeof holder, "--out x: another run is writing to this folder (process %ld on host %s)", (long)pid,
           host);
  n_lines = 0;
  assert_int_equal(ronde__lock_take(folder, "--out x", &lock), RONDE_E_USAGE);
  assert_int_equal(n_lines, 1);
  assert_ptr_equal(strstr(last_line, holder), last_line);
  assert_null(lock);
}

static void one_process_holds_it_and_is_named(void **state) {
  ronde__lock *lock;
  pid_t child = hold_elsewhere();
  check_held_by(child);
  check_held_by(child); /* being refused takes nothing from the holder */
  kill_and_wait(child);
  assert_int_equal(access(in_folder(".lock"), F_OK), 0);
  assert_int_equal(ronde__lock_take(folder, "x", &lock), RONDE_OK);
  ronde__lock_give(lock);
  assert_int_equal(access(in_folder(".lock"), F_OK), -1);
}

/* As two ranks are, or two trainings in one program. */
static void threads_of_one_process_are_kept_apart(void **state) {
  ronde__lock *lock;
  assert_int_equal(ronde__lock_take(folder, "x", &lock), RONDE_OK);
  check_held_by(getpid());
  ronde__lock_give(lock);
  assert_int_equal(ronde__lock_take(folder, "x", &lock), RONDE_OK);
  ronde__lock_give(lock);
  ronde__lock_give(NULL);
}

/* Its file may hold anything: it is the lock that counts. */
static void what_stands_in_the_file_is_not_trusted(void **state) {
  static const char *const texts[] = {"", "x", "12", "99999999999999999999999 host", "1 \033[31mred\n"};
  for (size_t i = 0; i < RONDE__COUNT(texts); i++) {
    ronde__lock *lock, *other;
    FILE *file;
    assert_int_equal(ronde__lock_take(folder, "x", &lock), RONDE_OK);
    assert_non_null(file = fopen(in_folder(".lock"), "w"));
    fputs(texts[i], file);
    fclose(file);
    assert_int_equal(ronde__lock_take(folder, "--out x", &other), RONDE_E_USAGE);
    assert_ptr_equal(strstr(last_line, "--out x: another run is writing to this folder"), last_line);
    assert_null(strchr(last_line, '\033'));
    ronde__lock_give(lock);
  }
}

static void a_folder_that_cannot_be_written_is_named(void **state) {
  ronde__lock *lock;
  assert_int_equal(ronde__lock_take(in_folder("none"), "x", &lock), RONDE_E_WRITE);
  assert_non_null(strstr(last_line, "none/.lock: cannot write: No such file"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(one_process_holds_it_and_is_named),
      TEST(threads_of_one_process_are_kept_apart),
      TEST(what_stands_in_the_file_is_not_trusted),
      TEST(a_folder_that_cannot_be_written_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What Ronde asks of mpirun, seen by a stand-in that repeats its words; and what is left when something is killed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>

#include "mpi_testing.h"
#include "sanitized.h"

#define STAND_IN "PATH=$PWD/bin:$PATH timeout 60 " RONDE

static void make_stand_in(void) {
  assert_int_equal(run("mkdir -p bin && printf '#!/bin/sh\\necho \"$@\"\\n' > bin/mpirun.openmpi && "
                       "chmod +x bin/mpirun.openmpi"),
                   0);
}

static void check_asks(const char *options, const char *ranks) {
  run(STAND_IN " train " SMALL " %s", options);
  check_says(ranks);
}

static void check_refuses(const char *options, const char *why) {
  check_run(2, run(STAND_IN " train " SMALL " %s", options));
  check_says(why);
}

static void workers_go_round_the_hosts(void **state) {
  make_stand_in();
  check_asks("--hosts a,b,c", "-np 3 --host a:1,b:1,c:1 --map-by node ");
  check_asks("--hosts a,b --workers 1", "-np 1 --host a:1 --map-by node ");
  check_asks("--hosts a,b --workers 2", "-np 2 --host a:1,b:1 --map-by node ");
  check_asks("--hosts a,b --workers 3", "-np 3 --host a:2,b:1 --map-by node ");
  check_asks("--hosts a,b --workers 4", "-np 4 --host a:2,b:2 --map-by node ");
  check_asks("--hosts a,b,c,d,e --workers 2", "-np 2 --host a:1,b:1 --map-by node ");
  check_asks("--hosts a,b,c --workers 7", "-np 7 --host a:3,b:2,c:2 --map-by node ");
  check_asks("--hosts a", "-np 1 --host a:1 --map-by node ");
  check_asks("--hosts a --workers 3", "-np 3 --host a:3 --map-by node ");
  check_asks("--hosts a --workers 1", "-np 1 --host a:1 --map-by node ");
  check_asks("--transport mpi --workers 1", "-np 1 --oversubscribe ");
  check_asks("--transport mpi --workers 4", "-np 4 --oversubscribe ");
}

static void slots_are_never_exceeded(void **state) {
  make_stand_in();
  check_asks("--hosts a:4,b:2,c", "-np 7 --host a:4,b:2,c:1 --map-by node ");
  check_asks("--hosts a:4,b:2,c --workers 1", "-np 1 --host a:1 --map-by node ");
  check_asks("--hosts a:4,b:1 --workers 2", "-np 2 --host a:1,b:1 --map-by node ");
  check_asks("--hosts a:4,b:1 --workers 4", "-np 4 --host a:3,b:1 --map-by node ");
  check_asks("--hosts a:1,b:3 --workers 3", "-np 3 --host a:1,b:2 --map-by node ");
  check_asks("--hosts a,a,b --workers 2", "-np 2 --host a:1,b:1 --map-by node ");
  check_asks("--hosts a:2,b:1,a:1", "-np 4 --host a:3,b:1 --map-by node ");
  check_refuses("--hosts a:2,b:1 --workers 4", "--workers: only 3 slots on 2 hosts for 4 ranks");
}

static void servers_are_ranks_too(void **state) {
  make_stand_in();
#define SERVERS " --strategy ps-sync --placement dedicated --servers "
  check_asks("--hosts a,b,c" SERVERS "2", "-np 5 --host a:2,b:2,c:1 --map-by node ");
  check_asks("--hosts a,b,c --workers 1" SERVERS "1", "-np 2 --host a:1,b:1 --map-by node ");
  check_asks("--hosts a:2,b:2" SERVERS "1", "-np 4 --host a:2,b:2 --map-by node ");
  check_asks("--hosts a:2,b:2 --workers 1" SERVERS "1", "-np 2 --host a:1,b:1 --map-by node ");
  check_refuses("--hosts a:1" SERVERS "1", "--hosts: 1 slots on 1 host leave none for a worker, besides 1 for servers");
#undef SERVERS
}

/* The environment says it as the command line does. */
static void other_verbs_place_alike(void **state) {
  make_stand_in();
  run("RONDE_WORKERS=1 " STAND_IN " train " SMALL " --hosts a,b");
  check_says("-np 1 --host a:1 ");
  run(STAND_IN " bench collectives --hosts a,b --workers 3");
  check_says("-np 3 --host a:2,b:1 ");
  run(STAND_IN " bench collectives --hosts a,b");
  check_says("-np 2 --host a:1,b:1 ");
}

static void a_command_may_have_many_words(void **state) {
  char words[3000] = "";
  for (int i = 0; i < 100; i++) strcat(words, " --lr 0.01 --seed 3");
  make_stand_in();
  check_asks(words, "");
  run(STAND_IN " train " SMALL " --transport mpi --workers 2 %s --log-every 7", words);
  check_says("--seed 3 --log-every 7\n");
  need_mpi();
  check_run(0, run("timeout 100 " RONDE " train " SMALL " --transport mpi --workers 2 --steps 2 %s", words));
}

static void one_worker_that_was_asked_for_is_one(void **state) {
  need_mpi();
  check_run(2, run(MPIRUN "-np 2 " RONDE " train " SMALL " --workers 1"));
  check_says("ronde: error: --workers 1, but MPI has started 2 processes");
  check_run(2, run(MPIRUN "-np 2 " RONDE " bench collectives --workers 1"));
  check_says("--workers 1, but MPI has started 2 processes");
}

/* ---- what is left ---- */

static void pause_s(double s) {
  struct timespec length = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};
  nanosleep(&length, NULL);
}

static int n_entries(const char *name) {
  int n = 0;
  DIR *at = opendir(name);
  assert_non_null(at);
  for (struct dirent *entry; (entry = readdir(at));) n += entry->d_name[0] != '.';
  closedir(at);
  return n;
}

/* Until steps are made; its temporary files go to "tmp". */
static pid_t start_long_run(const char *name) {
  char out[4200], steps[4300], temporary[4200];
  snprintf(out, sizeof out, "%s/%s", folder, name);
  snprintf(steps, sizeof steps, "%s/steps.jsonl", out);
  snprintf(temporary, sizeof temporary, "%s/tmp", folder);
  mkdir(temporary, 0700);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    setenv("TMPDIR", temporary, 1);
    if (!freopen("/dev/null", "w", stderr)) _exit(126);
    execl(RONDE, "ronde", "train", "--model", "lenet5", "--data", "synthetic:1x28x28:10:600", "--batch", "50",
          "--threads", "1", "--quiet", "--workers", "2", "--transport", "mpi", "--epochs", "100000", "--out", out,
          NULL);
    _exit(127);
  }
  for (int i = 0; i < 600 && access(steps, R_OK); i++) pause_s(0.1);
  return child;
}

#define RANKS "$(pgrep -f '^/[^ ]*ronde train .*--out %s/%s')"
#define LAUNCHES "$(pgrep -f '^mpirun.openmpi .*--out %s/%s')"

static void end_of(pid_t child) {
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
}

static void memory_goes_with_the_ranks(void **state) {
  need_mpi();
  pid_t child = start_long_run("m");
  check_run(0, run("for p in " RANKS "; do grep -h ' /dev/shm/' /proc/$p/maps; done; true", folder, "m"));
  assert_string_equal(said, ""); /* of files that a killed one would leave */
  assert_int_equal(n_entries("tmp"), 1);
  check_run(0, run("for p in " RANKS "; do readlink /proc/$p/fd/* | grep 'tmp/ronde-mpi-[0-9]*-......$'; done; true",
                   folder, "m"));
  assert_string_equal(said, ""); /* the lock is mpirun's, not theirs */
  assert_int_equal(run("kill -9 " RANKS, folder, "m"), 0);
  end_of(child);
  assert_int_equal(n_entries("tmp"), 0);
}

/* Neither Ronde's nor MPI's. */
static void ranks_of_one_host_open_no_port(void **state) {
  need_mpi();
  pid_t child = start_long_run("p");
  int code =
      run("for p in " RANKS "; do ls /proc/$p/fd >/dev/null && ss -Hlntup | grep \"pid=$p,\"; done; true", folder, "p");
  kill(child, SIGTERM);
  end_of(child);
  check_run(0, code);
  assert_string_equal(said, "");
}

static void a_killed_mpirun_leaves_nothing(void **state) {
  need_mpi();
  pid_t child = start_long_run("k");
  assert_int_equal(run("kill -9 " LAUNCHES " " RANKS, folder, "k", folder, "k"), 0);
  end_of(child);
  assert_int_equal(n_entries("tmp"), 0);
}

/* Kilobytes that the launcher has as it starts the n-th time: a line each. */
static long memory_at_start(int n) {
  assert_int_equal(run("sed -n %dp memory", n), 0);
  return strtol(said, NULL, 10);
}

/* A variable of more than 128 KB keeps processes from starting: of so many only the newest are told. And what they are told
 * does not stay behind: 32 KB for each start. */
static void many_restarts_fit_into_the_environment(void **state) {
  enum { RESTARTS = 80 };
  assert_int_equal(
      run("mkdir -p ends && cat >ends/mpirun.openmpi <<'END'\n#!/bin/sh\nprintf '%%s' \"$RONDE_RESTARTS\" >last\n"
          "sed -n 's/^VmData:[^0-9]*//p' /proc/$PPID/status >>memory\n"
          "printf 'ronde: error: rank 0 %%01900d\\n' 7 >&2; exit 4\nEND\nchmod +x ends/mpirun.openmpi"),
      0);
  check_run(4, run("PATH=$PWD/ends:$PATH timeout 60 " RONDE " train " SMALL
                   " --transport mpi --workers 1 --out many --on-loss restart --max-restarts %d 2>many.err",
                   RESTARTS));
  assert_int_equal(run("tail -n 1 many.err"), 0);
  check_says("not restarted: --max-restarts 80 is reached");
  if (!SANITIZED && memory_at_start(RESTARTS) > memory_at_start(20) + 800) /* it keeps what is freed */
    fail_msg("%ld KB at the 20th start, %ld KB at the last", memory_at_start(20), memory_at_start(RESTARTS));
  json_t *list = json_load_file("last", 0, NULL);
  size_t n = json_array_size(list);
  assert_true(n > 0 && n < RESTARTS);
  for (size_t i = 0; i < n; i++)
    assert_int_equal(json_integer_value(json_object_get(json_array_get(list, i), "number")), RESTARTS - n + 1 + i);
  json_decref(list);
}

/* Nobody is left to tidy up: the next launch does. */
static void the_next_launch_sweeps_what_a_killed_one_left(void **state) {
  need_mpi();
  pid_t child = start_long_run("s"), other = start_long_run("t");
  assert_int_equal(n_entries("tmp"), 2);
  kill(child, SIGKILL);
  assert_int_equal(run("kill -9 " LAUNCHES " " RANKS, folder, "s", folder, "s"), 0);
  end_of(child);
  for (int i = 0; i < 100 && run("test -z \"" RANKS "\"", folder, "s"); i++) pause_s(0.1);
  assert_int_equal(n_entries("tmp"), 2);
  check_run(0,
            run("TMPDIR=%s/tmp timeout 100 " RONDE " train " SMALL " --transport mpi --workers 2 --steps 2", folder));
  assert_int_equal(n_entries("tmp"), 1); /* the other one still runs */
  assert_int_equal(run("test -n \"" RANKS "\"", folder, "t"), 0);
  kill(other, SIGTERM);
  end_of(other);
  assert_int_equal(n_entries("tmp"), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(workers_go_round_the_hosts),
      cmocka_unit_test(slots_are_never_exceeded),
      cmocka_unit_test(servers_are_ranks_too),
      cmocka_unit_test(other_verbs_place_alike),
      cmocka_unit_test(a_command_may_have_many_words),
      cmocka_unit_test(one_worker_that_was_asked_for_is_one),
      cmocka_unit_test(memory_goes_with_the_ranks),
      cmocka_unit_test(ranks_of_one_host_open_no_port),
      cmocka_unit_test(a_killed_mpirun_leaves_nothing),
      cmocka_unit_test(the_next_launch_sweeps_what_a_killed_one_left),
      cmocka_unit_test(many_restarts_fit_into_the_environment),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

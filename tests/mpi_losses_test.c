/* Every way in which a training by several processes can end before its time: signals, to one process or to all, and
 * ranks, mpirun, launchers and hosts that are lost or stopped. Nothing is left running, and whoever asked has the state. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <ronde/measure.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <time.h>

#include "mpi_testing.h"
#include "sanitized.h"

/* For tests that wait for other limits than others do, and run nothing else. */
static void need_mpi_and_time(void) {
  need_mpi();
  leave_out_if(SANITIZED, "it waits for another limit, in code that other losses run");
}

static void pause_s(double s) {
  struct timespec left = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};
  while (nanosleep(&left, &left)) {
  }
}

/* Processes whose command names this test's folder. */
static int n_running(void) {
  assert_true(run("pgrep -c -f -- '--out[ =]%s/' || true", folder) == 0);
  return (int)strtol(said, NULL, 10);
}

static void check_no_orphans(void) {
  for (int i = 0; i < 150 && n_running() > 0; i++) pause_s(0.1);
  if (n_running() > 0) {
    run("pgrep -a -f -- '--out[ =]%s/'", folder);
    fail_msg("still running:\n%s", said);
  }
}

#define LONG_RUN                                                                                   \
  "--model lenet5 --data synthetic:1x28x28:10:600 --batch 50 --threads 1 --quiet --epochs 100000 " \
  "--workers 3 --transport mpi "

/* Starts `ronde train` with these options in the background, its messages going to NAME.err; in front stands what the
 * shell is to do before. */
static pid_t start(const char *name, const char *front, const char *options) {
  char command[4096];
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    snprintf(command, sizeof command, "%s exec " RONDE " train " LONG_RUN "%s --out %s/%s 2>%s.err", front, options,
             folder, name, name);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
  }
  return child;
}

/* The same, until it has trained for a while. */
static pid_t start_long_run(const char *name, const char *options) {
  char steps[4300];
  pid_t child = start(name, "", options);
  snprintf(steps, sizeof steps, "%s/%s/steps.jsonl", folder, name);
  for (int i = 0; i < 600 && access(steps, R_OK); i++) pause_s(0.1);
  pause_s(0.5);
  return child;
}

/* Its exit code; the test ends where it does not. */
static int end_of(pid_t child) {
  int status;
  pid_t ended = 0;
  for (int i = 0; i < 2400 && ended == 0; i++, pause_s(0.1)) ended = waitpid(child, &status, WNOHANG);
  if (ended == 0) kill(child, SIGKILL);
  if (ended == 0) fail_msg("it has not ended");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The process of a run whose command matches: "mpirun", or "ronde train". */
#define THE(command, name) "pgrep -%s -f '^[^ ]*" command "[^ ]* .*--out %s/" name "'"

static void check_interrupted(const char *name, int expected, pid_t child) {
  int code = end_of(child);
  char path[64];
  run("cat %s.err", name);
  check_run(expected, code);
  json_t *json = left_by(name, "run.json");
  assert_string_equal(json_string_value(json_object_get(json, "status")), "interrupted");
  snprintf(path, sizeof path, "%s", name);
  int64_t steps = json_integer_value(json_object_get(json_object_get(json, "totals"), "steps"));
  assert_int_equal(run("test -f %s/checkpoints/step-%lld.safetensors", path, (long long)steps), 0);
  json_decref(json);
  check_no_orphans();
}

static void check_last_line(const char *name, const char *text) {
  assert_int_equal(run("tail -1 %s.err", name), 0);
  check_says(text);
}

static void a_killed_rank_ends_the_run_and_is_named(void **state) {
  need_mpi();
  pid_t child = start_long_run("k", "");
  assert_int_equal(run("kill -9 $(" THE("ronde train", "k") ")", "n", folder), 0);
  assert_int_equal(end_of(child), 4);
  check_last_line("k", "ronde: error: rank 2 on host ");
  check_says("was lost: killed by "); /* an older system does not tell by which signal */
  check_no_orphans();
}

/* Seconds from now on until the run says its first error; `limit` where it does not. */
static double said_after(const char *name, double limit) {
  for (double s = 0; s < limit; s += 0.02, pause_s(0.02))
    if (run("grep -q 'ronde: error: ' %s.err", name) == 0) return s;
  return limit;
}

/* By the survivors themselves, whatever mpirun does; and while rank 0, which waits for nobody, computes for long. */
static void a_killed_rank_is_noticed_within_a_second(void **state) {
  need_mpi_and_time();
  static const char *const options[] = {"", "--drill slow:0:3000"};
  for (int i = 0; i < 2; i++) {
    const char *name = i ? "n1" : "n0";
    pid_t child = start_long_run(name, options[i]);
    assert_int_equal(run("kill -9 $(pgrep -n -f '^[^ ]*ronde train .*--out %s/%s')", folder, name), 0);
    assert_true(said_after(name, 5) < 1);
    assert_int_equal(end_of(child), 4);
    assert_int_equal(run("cat %s.err", name), 0);
    check_says("rank 2 on host "); /* unless a message was under way, which fails first, also since when and at what */
    check_no_orphans();
  }
}

/* Also not for ever; and one that is asked to end does so. */
static void restarts_have_an_end(void **state) {
#define RANK_OF_AGAIN "pgrep -n -f '^[^ ]*ronde train .*--out[ =]%s/again"
  need_mpi();
  pid_t child = start_long_run("again", "--on-loss restart --max-restarts 1 --checkpoint-every 20");
  check_run(0, run("kill -9 $(" RANK_OF_AGAIN "')", folder));
  for (int i = 0; i < 600 && run(RANK_OF_AGAIN ".* --resume=auto'", folder); i++) pause_s(0.1);
  pause_s(1);
  check_run(0, run("kill -9 $(" RANK_OF_AGAIN ".* --resume=auto')", folder));
  assert_int_equal(end_of(child), 4);
  check_last_line("again", "ronde: error: not restarted: --max-restarts 1 is reached (");
  assert_int_equal(run("test -f again/run.json"), 0);
  check_no_orphans();
  child = start_long_run("asked", "--on-loss restart");
  kill(child, SIGTERM);
  check_interrupted("asked", 143, child);
#undef RANK_OF_AGAIN
}

/* Killed in whatever it does, and no state is read again: the others make every step, with equal weights. */
static void two_of_three_make_the_next_step(void **state) {
  need_mpi();
  pid_t child = start_long_run("two", "--on-loss continue --steps 1200 --sentinel 100");
  assert_int_equal(run("kill -9 $(pgrep -n -f '^[^ ]*ronde train .*--out[ =]%s/two')", folder), 0);
  check_run(0, end_of(child));
  json_t *json = left_by("two", "run.json");
  const json_t *lost = json_object_get(json, "lost_workers"), *one = json_array_get(lost, 0);
  assert_int_equal(json_array_size(lost), 1);
  int64_t seen = json_integer_value(json_object_get(one, "step")),
          behind = json_integer_value(json_object_get(one, "behind_step"));
  if (behind < seen - 1 || behind >= 1200) fail_msg("last seen at step %d, gone on behind %d", (int)seen, (int)behind);
  assert_int_equal(json_integer_value(json_object_get(json_object_get(json, "totals"), "steps")), 1200);
  assert_int_equal(json_array_size(json_object_get(json, "restarts")), 0);
  assert_string_equal(json_string_value(json_object_get(json, "status")), "completed");
  json_decref(json);
  check_no_orphans();
}

/* On the two hosts that are left; that the run has ended well is said by its exit code. */
static void a_run_goes_on_without_a_lost_host(void **state) {
  char options[100]; /* of a run that outlasts the loss by seconds */
  snprintf(options, sizeof options, "--epochs %d --checkpoint-every 50 --on-loss restart --out without",
           SANITIZED ? 100 : 400);
  check_run(0, run_on_hosts(ONCE_IT_TRAINS("without", "ip link set ronde3v down"), options));
  json_t *json = left_by("without", "run.json");
  const json_t *one = json_array_get(json_object_get(json, "restarts"), 0);
  assert_string_equal(json_string_value(json_object_get(one, "hosts_left_out")), "ronde3");
  assert_int_equal(json_integer_value(json_object_get(json_object_get(json, "world"), "workers")), 2);
  assert_true(json_integer_value(json_object_get(json_object_get(json, "resumed_from"), "step")) > 0);
  assert_string_equal(json_string_value(json_object_get(json, "status")), "completed");
  json_decref(json);
}

static void an_interrupt_ends_all_ranks_well(void **state) {
  need_mpi();
  static const int signals[] = {SIGINT, SIGTERM};
  for (int i = 0; i < (SANITIZED ? 1 : 2); i++) {
    pid_t child = start_long_run(i ? "i1" : "i0", "");
    kill(child, signals[i]);
    check_interrupted(i ? "i1" : "i0", 128 + signals[i], child);
    assert_int_equal(run("cat i%d.err", i), 0);
    char line[200];
    int step = 0;
    assert_int_equal(sscanf(said, "ronde: error: interrupted after step %d:%n", &step, &(int){0}), 1);
    snprintf(line, sizeof line, "ronde: error: interrupted after step %d: ronde train --resume ", step);
    assert_int_equal(strncmp(said, line, strlen(line)), 0);
    assert_non_null(strstr(said, " goes on\n"));
  }
}

/* A step takes longer than what mpirun leaves a process between asking and killing. */
static void a_long_step_is_waited_for(void **state) {
  need_mpi_and_time();
  pid_t child = start_long_run("long", "--drill slow:1:14000");
  kill(child, SIGTERM);
  check_interrupted("long", 143, child);
}

static void grace_has_an_end(void **state) {
  need_mpi_and_time();
  pid_t child = start_long_run("grace", "--grace 2 --drill slow:1:60000");
  kill(child, SIGTERM);
  assert_int_equal(end_of(child), 143);
  check_last_line(
      "grace", "ronde: error: interrupted: not ended within --grace 2 s, so its state is not saved: rank 0 on host ");
  check_no_orphans();
}

static void a_second_request_ends_at_once(void **state) {
  need_mpi();
  pid_t child = start_long_run("twice", "--drill slow:1:60000");
  kill(child, SIGINT);
  pause_s(1); /* those that come closer together may be one */
  kill(child, SIGINT);
  assert_int_equal(end_of(child), 130);
  check_last_line("twice", "ronde: error: interrupted twice: ");
  check_no_orphans();
}

/* What a control group, a batch system or a process group of a terminal sends. */
static void a_signal_to_all_processes_is_one_request(void **state) {
  need_mpi();
  static const char *const names[] = {"TERM", "INT"};
  for (int i = 0; i < (SANITIZED ? 1 : 2); i++) {
    pid_t child = start_long_run(i ? "all1" : "all0", "--drill slow:1:3000");
    assert_int_equal(run("kill -%s $(pgrep -f -- '^[^ ]*(mpirun|ronde train).*--out %s/all%d')", names[i], folder, i),
                     0);
    check_interrupted(i ? "all1" : "all0", i ? 130 : 143, child);
  }
}

/* Open MPI's daemons among them, and what has taken the place of ssh; the step under way takes longer than they would wait. The
 * launching side is the network that this shell is in. */
static void a_signal_to_all_hosts_is_one_request(void **state) {
  check_run(143, run_on_hosts(ONCE_IT_TRAINS("hosts",
                                             "kill $(for i in 1 2 3; do ip netns pids ronde$i; done; "
                                             "pgrep --ns $$ --nslist net '^(mpirun|ronde)')"),
                              "--drill slow:1:3000 --epochs 100000 --out hosts"));
  check_says("ronde: error: interrupted after step ");
  assert_int_equal(run("ls hosts/checkpoints/step-*"), 0);
}

static void a_signal_to_mpirun_is_one_to_all(void **state) {
  need_mpi();
  pid_t child = start_long_run("m", "");
  assert_int_equal(run("kill $(" THE("mpirun", "m") ")", "o", folder), 0);
  check_interrupted("m", 143, child);
}

static void nothing_outlives_a_killed_launcher(void **state) {
  need_mpi();
  pid_t child = start_long_run("l", "");
  kill(child, SIGKILL);
  assert_int_equal(end_of(child), 128 + SIGKILL);
  check_no_orphans();
}

static void a_killed_mpirun_is_named(void **state) {
  need_mpi();
  pid_t child = start_long_run("mk", "");
  assert_int_equal(run("kill -9 $(" THE("mpirun", "mk") ")", "o", folder), 0);
  assert_int_equal(end_of(child), 4);
  check_last_line("mk", "ronde: error: mpirun was lost: killed by signal 9 (Killed), and with it: rank 0 on host ");
  check_no_orphans();
}

static void a_stopped_mpirun_is_not_waited_for(void **state) {
  need_mpi_and_time();
  pid_t child = start_long_run("ms", "--timeout 2");
  assert_int_equal(run("kill -STOP $(" THE("mpirun", "ms") ")", "o", folder), 0);
  assert_int_equal(end_of(child), 4);
  check_last_line("ms", "ronde: error: mpirun was lost: it was stopped for more than --timeout 2 s");
  check_no_orphans();
}

/* By those that wait for it, who are not named themselves; then it is ended. */
static void a_stopped_rank_is_named(void **state) {
  need_mpi();
  static const char *const names[] = {"s0", "s1", "s2"},
                           *const strategies[] = {
                               "--timeout 3", "--timeout 3 --strategy ps-async --on-loss stop",
                               "--timeout 3 --strategy downpour --n-push 9 --n-fetch 9 --on-loss stop"};
  for (int i = 0; i < (SANITIZED ? 1 : 3); i++) {
    pid_t child = start_long_run(names[i], strategies[i]);
    assert_int_equal(run("kill -STOP $(pgrep -n -f '^[^ ]*ronde train .*--out %s/s%d')", folder, i), 0);
    assert_int_equal(end_of(child), 4);
    assert_int_equal(run("tail -1 s%d.err", i), 0);
    check_says("nothing heard from rank 2 on host ");
    if (strstr(said, "from rank 0") || strstr(said, "from rank 1")) fail_msg("the living are blamed:\n%s", said);
    check_no_orphans();
  }
}

static void a_late_rank_is_waited_for(void **state) {
  need_mpi_and_time();
  check_run(0, run("timeout 100 " RONDE " train " SMALL " --workers 2 --transport mpi --timeout 2 --steps 1 "
                   "--drill slow:1:6000"));
}

/* The first weights alone take 8 s, and the last of the hosts waits for who waits for them. --timeout limits the start, too, which takes
 * long on a busy machine. In the queue, which is Linux's own and holds 7 s of weights, signs of life go in front. */
static void a_slow_link_is_waited_for(void **state) {
  leave_out_if(SANITIZED, "a slow link: it is the same code");
#define ADD "ip netns exec ronde$i tc qdisc add dev eth0 "
  check_run(0, run_on_hosts("for i in 1 2 3; do " ADD "root handle 1: tbf rate 1600kbit burst 32kb limit 2mb && " ADD
                            "parent 1:1 pfifo_fast || exit 9; done",
                            "--model mnist-small --timeout 5 --steps 1 --collective ring --out slow"));
#undef ADD
}

/* This program with SAYS="begin RANK PID 0 HOST" in its environment says that such a rank has begun; "end RANK CODE 0 HOST",
 * how it has ended. */
#define SELF RONDE_BINARY_DIR "/mpi_losses_test"

static int say(const char *words) {
  char seal[RONDE_SEAL_DIGITS + 1];
  const char *key = getenv("RONDE_LAUNCHED");
  if (!key || !ronde_seal(key, words, seal)) return 1;
  fprintf(stderr, "\x1eronde-3 %s %s\n", seal, words);
  return 0;
}

/* Puts a script in the place of mpirun. */
static const char *instead_of_mpirun(const char *script) {
  static char front[600];
  check_run(0, run("mkdir -p bin && cat >bin/mpirun.openmpi <<'END'\n#!/bin/sh\n%s\nEND\nchmod +x bin/mpirun.openmpi",
                   script));
  snprintf(front, sizeof front, "REAL=$(command -v mpirun.openmpi); PATH=%s/bin:$PATH; export PATH REAL;", folder);
  return front;
}

/* mpirun, but the ranks for which that holds do something else. */
static const char *with_ranks_that(const char *are, const char *do_what) {
  char script[1000];
  snprintf(script, sizeof script,
           "for word; do\n"
           "  [ \"$word\" = \"" RONDE
           "\" ] && set -- \"$@\" sh -c '\n"
           "    [ %s ] || exec \"$0\" \"$@\"\n"
           "    %s'\n"
           "  set -- \"$@\" \"$word\"; shift\n"
           "done\n"
           "exec \"$REAL\" \"$@\"",
           are, do_what);
  return instead_of_mpirun(script);
}

static const char *with_rank_1_that(const char *does) { return with_ranks_that("$OMPI_COMM_WORLD_RANK = 1", does); }

/* As where ssh never answers. */
static void ranks_that_do_not_start_are_not_waited_for(void **state) {
  need_mpi_and_time();
  const char *front = instead_of_mpirun("exec sleep 1000");
  pid_t child = start("never", front, "--timeout 1");
  assert_int_equal(end_of(child), 4);
  check_last_line("never",
                  "ronde: error: only 0 of 3 ranks have started within 5 s (5 times --timeout); missing: rank 0, ");
  child = start("never2", front, "");
  pause_s(1);
  kill(child, SIGINT);
  assert_int_equal(end_of(child), 130);
  check_no_orphans();
}

/* mpirun itself hangs where it may not write what it shares with the ranks. */
static void a_limit_of_files_is_named(void **state) {
  need_mpi();
  check_run(6, run("ulimit -f 1000; timeout 60 " RONDE " train " SMALL " --workers 2 --transport mpi"));
  check_says("ronde: error: ulimit -f");
}

/* Ranks that are gone, of a mpirun that does not notice. */
static void a_mpirun_that_hangs_is_not_waited_for(void **state) {
  need_mpi_and_time();
  const char *front = instead_of_mpirun("sh -c 'SAYS=\"begin 0 $$ 0 $(hostname)\" " SELF "; true'; exec sleep 1000");
  pid_t child = start("hangs", front, "--workers 1");
  assert_int_equal(end_of(child), 4);
  check_last_line("hangs", "ronde: error: did not end in time and was killed: rank 0 on host ");
  check_no_orphans();
}

/* The others end because of it, and before it: by its error it is named, but not lost. */
static void a_rank_that_fails_has_time_to_end(void **state) {
  need_mpi();
  const char *front = instead_of_mpirun("say() { SAYS=\"$* $(hostname)\" " SELF
                                        "; }\n"
                                        "say begin 0 $$ 0; say begin 1 $$ 0; say joined 0 0 0\n"
                                        "echo 'ronde: error: rank 0: steps.jsonl: cannot write: disk full' >&2\n"
                                        "say end 1 4 0; sleep 2; say end 0 6 0; exit 6");
  pid_t child = start("slow_end", front, "--workers 2");
  assert_int_equal(end_of(child), 6);
  check_last_line("slow_end", "ronde: error: rank 0: steps.jsonl: cannot write: disk full");
  check_no_orphans();
}

/* A process that mpirun leaves behind, in whose way out somebody stands: here who traces it, elsewhere a disk. */
static pid_t hold_what_is_left(const char *name, const char *options, pid_t *launcher_out) {
  const char *front = instead_of_mpirun(
      "sleep 1000 & echo $! >left\n"
      "until [ -e held ]; do sleep 0.05; done; exit 1");
  char command[2000];
  snprintf(command, sizeof command,
           "%s exec " RONDE
           " train --model lenet5 --data synthetic:1x28x28:10:600 --workers 1 "
           "--transport mpi %s --out %s/%s 2>%s.err",
           front, options, folder, name, name);
  check_run(0, run("rm -f left held"));
  *launcher_out = fork();
  if (*launcher_out == 0) execl("/bin/sh", "sh", "-c", command, (char *)NULL);
  for (int i = 0; i < 200 && run("test -s left"); i++) pause_s(0.05);
  check_run(0, run("cat left"));
  pid_t left = (pid_t)strtol(said, NULL, 10);
  assert_true(left > 0);
  bool held = ptrace(PTRACE_SEIZE, left, 0, PTRACE_O_TRACEEXIT) == 0;
  check_run(0, run("touch held"));
  if (held) return left;
  end_of(*launcher_out);
  print_message("SKIP: no right to trace a process\n");
  skip();
  return 0;
}

static void let_go(pid_t left) {
  assert_int_equal(waitpid(left, NULL, __WALL), left);
  assert_int_equal(ptrace(PTRACE_DETACH, left, 0, 0), 0);
}

static void a_killed_process_that_does_not_end_is_waited_for(void **state) {
  need_mpi_and_time();
  pid_t launcher, left = hold_what_is_left("held", "--grace 60", &launcher);
  for (int i = 0; i < 200 && run("grep 'process %d was killed and does not end' held.err", (int)left); i++)
    pause_s(0.1);
  check_run(0, run("grep 'does not end' held.err"));
  pause_s(8); /* as long as mpirun is waited for */
  assert_int_equal(waitpid(launcher, NULL, WNOHANG), 0);
  let_go(left);
  assert_int_equal(end_of(launcher), 4);
  check_run(1, run("grep 'still there' held.err"));
  left = hold_what_is_left("held2", "--grace 1 --on-loss restart", &launcher);
  assert_int_equal(end_of(launcher), 4);
  check_last_line("held2", "ronde: error: process ");
  check_says(" was killed and is still there, in a call of the system: it holds ");
  let_go(left);
}

/* Rank 1 is stopped after its first word, where all wait for it to join them. */
static void a_rank_stopped_as_mpi_starts_is_named(void **state) {
  need_mpi_and_time();
  const char *front = with_rank_1_that("SAYS=\"begin 1 $$ 0 here\" " SELF "; kill -STOP $$");
  pid_t child = start("init", front, "--timeout 2");
  assert_int_equal(end_of(child), 4);
  assert_int_equal(run("cat init.err"), 0);
  check_says("ronde: error: transport mpi: not all ranks have joined within 20 s");
  check_last_line("init", "ronde: error: did not end in time and was killed: rank 1 on host here");
  check_no_orphans();
}

/* The real one, on this host: the launcher sees it before the other ranks can know. And nothing is to be saved yet. */
static void a_rank_stopped_before_all_have_joined(void **state) {
  need_mpi_and_time();
  const char *front = with_rank_1_that("SAYS=\"begin 1 $$ 0 $(hostname)\" " SELF "; kill -STOP $$");
  pid_t child = start("joins", front, "--timeout 2");
  assert_int_equal(end_of(child), 4);
  assert_int_equal(run("tail -1 joins.err"), 0);
  check_says("ronde: error: rank 1 on host ");
  check_says(" was lost: it was stopped for more than --timeout 2 s"); /* of the 20 that all have to join */
  check_no_orphans();
  child = start("joins2", front, "");
  for (int i = 0; i < 100 && run("pgrep -f '^[^ ]*ronde train .*--out %s/joins2'", folder); i++) pause_s(0.05);
  pause_s(1);
  kill(child, SIGINT);
  assert_int_equal(end_of(child), 130); /* long before the 600 s of --grace */
  check_last_line("joins2", "ronde: error: interrupted before all ranks had ");
  check_no_orphans();
}

/* What a launcher leaves that does not kill; long before the 300 s that ranks have to begin. */
static void a_rank_that_ends_before_it_begins_is_named(void **state) {
  need_mpi_and_time();
  const char *front = with_rank_1_that("exit 3");
  pid_t child = start("before", front, "");
  assert_int_equal(end_of(child), 4);
  check_last_line("before", "ronde: error: rank 1 has ended before it could begin");
  check_no_orphans();
}

/* Ranks find out first, and mpirun only much later. */
static void a_cable_that_is_out_is_noticed(void **state) {
  check_run(4, run_on_hosts(ONCE_IT_TRAINS("cable", "ip link set ronde3v down"), "--epochs 100000 --out cable"));
  check_says("nothing heard from rank 2 on host ronde3 (last seen ");
}

/* Behind it Linux asks for a neighbour's address anew, and once a second. */
static void a_cable_that_is_out_for_a_moment_is_no_loss(void **state) {
  leave_out_if(SANITIZED, "ranks are slow to speak there");
  check_run(
      0, run_on_hosts(
             ONCE_IT_TRAINS("moment", "ip link set ronde3v down; sleep 0.3; ip link set ronde3v up; touch moment/cut"),
             "--drill slow:0:20 --epochs 20 --out moment"));
  assert_int_equal(run("test -f moment/cut"), 0);
}

/* Before its rank has begun, or before it has joined, when no rank watches over another. What takes the place of ssh needs the
 * cable, as ssh does. */
static int run_with_a_cable_out_at_the_start(const char *are, const char *host_does, const char *options) {
  char prepare[700];
  leave_out_if(SANITIZED, "it waits for another limit, in code that other losses run");
  check_run(0, run("printf '#!/bin/sh\nip link show \"$3\"v | grep -q LOWER_UP || exit 255\nexec \"$@\"\n' >reach && "
                   "chmod +x reach"));
  snprintf(prepare, sizeof prepare, "%s true", with_ranks_that(are, host_does));
  setenv("AWAY", "./reach", 1);
  int code = run_on_hosts(prepare, options);
  unsetenv("AWAY");
  return code;
}

static void a_cable_that_is_out_at_the_start_is_noticed(void **state) {
  static const char second[] = "$(hostname) = ronde2", both[] = "$(hostname) != ronde1";
  static const char cut[] = "ip link set eth0 down; exec \"$0\" \"$@\"";
  check_run(4, run_with_a_cable_out_at_the_start(
                   second, "SAYS=\"begin 1 $$ 0 ronde2\" " SELF "; sleep 1; ip link set eth0 down; sleep 1000",
                   "--timeout 4 --out joined"));
  check_says("ronde: error: host ronde2 was lost, or Open MPI's daemon there, and with it: rank 1");
  check_run(0, run_with_a_cable_out_at_the_start(second, cut, "--timeout 4 --steps 4 --on-loss restart --out began"));
  check_restart("began", "ronde2", 2);
  check_run(0, run_with_a_cable_out_at_the_start(both, cut, "--timeout 4 --steps 4 --on-loss restart --out both"));
  check_says("hosts ronde2, ronde3 were lost, or Open MPI's daemons there, and with them: rank 1, rank 2");
  check_restart("both", "ronde2, ronde3", 1);
}

static void a_host_without_power_is_named(void **state) {
  check_run(4, run_on_hosts(ONCE_IT_TRAINS("power", "kill -9 $(ip netns pids ronde3)"), "--epochs 100000 --out power"));
  check_says("ronde3");
  const char *last = strstr(said, "ronde: error: ");
  for (const char *next; last && (next = strstr(last + 1, "ronde: error: "));) last = next;
  if (!last || !strstr(last, "ronde3")) fail_msg("the last line does not name the host:\n%s", said);
  if (strstr(said, "ORTE") || strstr(said, "-----")) fail_msg("Open MPI's own lines:\n%s", said);
}

/* The one rank that writes holds the folder. */
static void another_run_does_not_write_beside_it(void **state) {
  need_mpi();
  pid_t child = start_long_run("o1", "");
  check_run(2, run("timeout 100 " RONDE " train " SMALL " --workers 2 --transport mpi --overwrite --out o1"));
  check_says("ronde: error: --out o1: another run is writing to this folder (process ");
  check_run(2, run("timeout 100 " RONDE " train " SMALL " --overwrite --out o1"));
  kill(child, SIGTERM);
  assert_int_equal(end_of(child), 143);
  check_run(0, run("timeout 100 " RONDE " train " SMALL " --overwrite --out o1"));
  check_no_orphans();
}

int main(void) {
  if (getenv("SAYS")) return say(getenv("SAYS"));
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(another_run_does_not_write_beside_it),
      cmocka_unit_test(a_killed_rank_ends_the_run_and_is_named),
      cmocka_unit_test(a_killed_rank_is_noticed_within_a_second),
      cmocka_unit_test(two_of_three_make_the_next_step),
      cmocka_unit_test(an_interrupt_ends_all_ranks_well),
      cmocka_unit_test(a_long_step_is_waited_for),
      cmocka_unit_test(grace_has_an_end),
      cmocka_unit_test(a_second_request_ends_at_once),
      cmocka_unit_test(a_signal_to_all_processes_is_one_request),
      cmocka_unit_test(a_signal_to_all_hosts_is_one_request),
      cmocka_unit_test(a_signal_to_mpirun_is_one_to_all),
      cmocka_unit_test(nothing_outlives_a_killed_launcher),
      cmocka_unit_test(a_killed_mpirun_is_named),
      cmocka_unit_test(a_stopped_mpirun_is_not_waited_for),
      cmocka_unit_test(a_stopped_rank_is_named),
      cmocka_unit_test(a_late_rank_is_waited_for),
      cmocka_unit_test(a_slow_link_is_waited_for),
      cmocka_unit_test(ranks_that_do_not_start_are_not_waited_for),
      cmocka_unit_test(a_limit_of_files_is_named),
      cmocka_unit_test(a_mpirun_that_hangs_is_not_waited_for),
      cmocka_unit_test(a_rank_that_fails_has_time_to_end),
      cmocka_unit_test(a_killed_process_that_does_not_end_is_waited_for),
      cmocka_unit_test(a_rank_stopped_as_mpi_starts_is_named),
      cmocka_unit_test(a_rank_stopped_before_all_have_joined),
      cmocka_unit_test(a_rank_that_ends_before_it_begins_is_named),
      cmocka_unit_test(a_cable_that_is_out_is_noticed),
      cmocka_unit_test(a_cable_that_is_out_for_a_moment_is_no_loss),
      cmocka_unit_test(a_cable_that_is_out_at_the_start_is_noticed),
      cmocka_unit_test(a_host_without_power_is_named),
      cmocka_unit_test(a_run_goes_on_without_a_lost_host),
      cmocka_unit_test(restarts_have_an_end),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

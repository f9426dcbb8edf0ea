/* Runs that cannot start: each names the host and the reason in one line, whatever Open MPI says of it goes to the run's folder,
 * and nothing is left running. Scripts stand in for ssh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#include "mpi_testing.h"

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void pause_s(double s) {
  struct timespec left = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};
  while (nanosleep(&left, &left)) {
  }
}

/* bin/ssh, the first in PATH. */
static void make_ssh(const char *script) {
  check_run(0, run("mkdir -p bin && cat >bin/ssh <<'END'\n#!/bin/sh\n%s\nEND\nchmod +x bin/ssh", script));
}

#define WITH_SSH "PATH=$PWD/bin:$PATH timeout 60 "

/* One error line, which says this; and Open MPI's lines are nowhere else than in the run's folder. */
static void check_one_line(const char *text) {
  const char *line = strstr(said, "ronde: error: ");
  if (!line || strncmp(line + strlen("ronde: error: "), text, strlen(text)) != 0 ||
      strstr(line + 1, "ronde: error: ") || strstr(said, "ORTE") || strstr(said, "----"))
    fail_msg("expected the one line '%s' in:\n%s", text, said);
}

static void a_host_that_cannot_be_started_is_named(void **state) {
  static const struct {
    const char *script, *says;
  } cases[] = {
      {"echo \"ssh: connect to host $6 port 22: Connection refused\" >&2; exit 255",
       "host near cannot be reached by ssh without a password: ssh: connect to host near port 22: Connection refused"},
      {"echo 'sh: 1: orted: not found' >&2; exit 127",
       "host near: Open MPI's daemon cannot be run there (is openmpi-bin missing?): sh: 1: orted: not found"},
      {"exit 137", "host near: Open MPI's daemon there was killed by signal 9 (Killed)"},
      {"kill -9 $$", "host near: ssh to it was killed by signal 9 (Killed)"},
      {"echo 'no room' >&2; echo ------ >&2; exit 1",
       "host near: Open MPI's daemon was not started there (code 1): no room"},
  };
  need_mpi();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    make_ssh(cases[i].script);
    check_run(4, run(WITH_SSH RONDE " train " SMALL " --hosts near --out out%zu", i));
    check_one_line(cases[i].says);
    check_run(0, run("grep -q 'unable to reliably start' out%zu/mpirun.log", i));
  }
}

/* What the user has put in the place of ssh is asked as ssh is, and gets none of ssh's words. */
static void another_agent_is_named_too(void **state) {
  need_mpi();
  check_run(0, run("printf '#!/bin/sh\\necho \"no $2 here: $1\"; exit 9\\n' >reach && chmod +x reach"));
  check_run(
      4, run("OMPI_MCA_plm_rsh_agent=\"$PWD/none : $PWD/reach -q\" timeout 60 " RONDE " train " SMALL " --hosts near"));
  check_one_line("host near: Open MPI's daemon was not started there (code 9): no near here: -q");
  check_run(4, run("OMPI_MCA_plm_rsh_agent=\"$PWD/none\" timeout 60 " RONDE " train " SMALL " --hosts near"));
  check_says("/none cannot be started here: No such file or directory");
}

/* On one of three hosts there is nothing at the path of this program. */
static void a_host_without_the_program_is_named(void **state) {
  need_mpi();
  check_run(0, run("printf '[ $3 != ronde2 ] || mount -t tmpfs none " RONDE_BINARY_DIR "\\nexec \"$@\"\\n' >hide.sh"));
  setenv("AWAY", "unshare --mount sh hide.sh", 1);
  int code = run_on_hosts("true", "--steps 2");
  unsetenv("AWAY");
  check_run(4, code);
  check_one_line("host ronde2 was reached, but ronde cannot be run there by the path used here: " RONDE);
}

#define HANGS "exec sleep 987.125"

static void check_nothing_hangs(double limit_s) {
  double begin = now_s();
  while (run("pgrep -f '^sleep 987.125'") == 0 && now_s() - begin < limit_s) pause_s(0.05);
  assert_int_not_equal(run("pgrep -a -f '^sleep 987.125'"), 0);
}

static pid_t start(const char *options) {
  char command[4096];
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    snprintf(command, sizeof command,
             "PATH=$PWD/bin:$PATH; exec " RONDE " train " SMALL " --hosts near,far %s 2>hangs.err", options);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
  }
  return child;
}

static void wait_for_ssh(void) {
  for (int i = 0; i < 200 && run("pgrep -f '^sleep 987.125'"); i++) pause_s(0.05);
  assert_int_equal(run("pgrep -f '^sleep 987.125'"), 0);
}

static int end_of(pid_t child, double limit_s) {
  int status;
  double begin = now_s();
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (now_s() - begin > limit_s) kill(child, SIGKILL);
    pause_s(0.02);
  }
  assert_true(now_s() - begin < limit_s);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void an_ssh_that_never_answers(void **state) {
  need_mpi();
  make_ssh(HANGS);
  pid_t child = start("--timeout 1"); /* it is left for 5 s */
  assert_int_equal(end_of(child, 20), 4);
  assert_int_equal(run("cat hangs.err"), 0);
  check_one_line(
      "only 0 of 2 ranks have started within 5 s (5 times --timeout); missing: rank 0 on host near, rank 1 on "
      "host far");
  check_nothing_hangs(0);
  child = start("");
  wait_for_ssh();
  kill(child, SIGINT);
  assert_int_equal(end_of(child, 15), 130);
  check_nothing_hangs(0);
  /* Nobody is left but what was put in the place of ssh. */
  child = start("--grace 1");
  wait_for_ssh();
  kill(child, SIGKILL);
  end_of(child, 5);
  check_nothing_hangs(10);
}

/* As in a container that does not allow a system call. */
static void forbid(int call) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) _exit(126);
}

static void processors_need_not_be_chosen(void **state) {
  need_mpi();
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    forbid(SYS_sched_setaffinity);
    execl("/bin/sh", "sh", "-c", "exec timeout 60 " RONDE " train " SMALL " --workers 2 --transport mpi --steps 2",
          (char *)NULL);
    _exit(127);
  }
  assert_int_equal(end_of(child, 60), 0);
}

/* By whoever reaches mpirun's connections; the run itself is not touched by it, and ends well. */
static void forged_marks_are_refused(void **state) {
  need_mpi();
  check_run(0, run("mkdir -p forge && cat >forge/mpirun.openmpi <<'END'\n#!/bin/sh\n"
                   "case \"$*\" in *\"$RONDE_LAUNCHED\"*) echo 'the key is on the command line' ;; esac\n"
                   "printf '\\036ronde-3 %%032d end 0 7 0 -\\n' 0 >&2\n"
                   "printf '\\036ronde-begin 1 99 elsewhere\\n' >&2\n"
                   "printf '\\036ronde-3 0123\\n' >&2\n"
                   "exec \"$REAL\" \"$@\"\nEND\nchmod +x forge/mpirun.openmpi"));
  check_run(0, run("REAL=$(command -v mpirun.openmpi); export REAL; PATH=$PWD/forge:$PATH timeout 60 " RONDE
                   " train --model lenet5 --data synthetic:1x28x28:10:600 --batch 50 --threads 1 --workers 2 "
                   "--transport mpi --steps 2"));
  check_says("was refused: it has not this launch's key, or was changed on its way; it changes nothing");
  check_says("was refused: it is of another version of Ronde; it changes nothing");
  check_says("was refused: it is cut off; it changes nothing");
  if (strstr(said, "the key is on")) fail_msg("%s", said);
}

/* What mpirun says is told where nobody knows better, but for what is of no consequence. */
static void idle_warnings_of_mpirun_are_not_told(void **state) {
  need_mpi();
  check_run(0, run("mkdir -p warn && cat >warn/mpirun.openmpi <<'END'\n#!/bin/sh\n"
                   "echo '[a:1] plm:rsh: Warning: setpgid(2,2) failed in parent with errno=Permission denied(13)' >&2\n"
                   "echo '[a:1] another warning' >&2\n"
                   "exec \"$REAL\" \"$@\"\nEND\nchmod +x warn/mpirun.openmpi"));
  check_run(0, run("REAL=$(command -v mpirun.openmpi); export REAL; PATH=$PWD/warn:$PATH timeout 60 " RONDE
                   " train --model lenet5 --data synthetic:1x28x28:10:600 --batch 50 --threads 1 --workers 2 "
                   "--transport mpi --steps 2"));
  check_says("[a:1] another warning");
  if (strstr(said, "setpgid")) fail_msg("%s", said);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_host_that_cannot_be_started_is_named), cmocka_unit_test(another_agent_is_named_too),
      cmocka_unit_test(a_host_without_the_program_is_named),    cmocka_unit_test(an_ssh_that_never_answers),
      cmocka_unit_test(processors_need_not_be_chosen),          cmocka_unit_test(forged_marks_are_refused),
      cmocka_unit_test(idle_warnings_of_mpirun_are_not_told),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

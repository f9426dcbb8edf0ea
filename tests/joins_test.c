/* Hosts that join a training while it is under way, and those that come back after a loss. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ronde/measure.h>

#include "mpi_testing.h"
#include "sanitized.h"

#define HOSTS RONDE_SOURCE_DIR "/tests/hosts.sh"

/* One that is added to the file, while the run is under way: no step is lost, and the third worker has the weights of the others. */
static void a_host_joins(void **state) {
  check_run(0, run_on_hosts("printf 'ronde1\\nronde2\\n' >hosts && " ONCE_IT_TRAINS("joins", "echo ronde3 >>hosts"),
                            "--epochs 200 --hostfile hosts --elastic --on-loss restart --sentinel 100 --drill slow:0:5 "
                            "--out joins"));
  json_t *json = left_by("joins", "run.json");
  const json_t *one = json_array_get(json_object_get(json, "restarts"), 0);
  assert_string_equal(json_string_value(json_object_get(one, "joined")), "ronde3");
  assert_int_equal(json_integer_value(json_object_get(one, "ranks_before")), 2);
  assert_int_equal(json_integer_value(json_object_get(one, "ranks")), 3);
  assert_true(json_integer_value(json_object_get(one, "resumed_step")) > 0);
  assert_int_equal(json_integer_value(json_object_get(one, "steps_lost")), 0);
  assert_int_equal(json_integer_value(json_object_get(json_object_get(json, "world"), "workers")), 3);
  assert_string_equal(json_string_value(json_object_get(json, "status")), "completed");
  json_decref(json);
  assert_null(strstr(said, "interrupted"));
}

/* In front of what starts Open MPI's daemon on ronde3, and does nothing where the host is only asked. */
#define JOINS_AFTER(does)                                   \
  "printf 'case \"$*\" in *\"agent ronde3 \"*orted*) " does \
  ";; esac\\nexec \"$@\"\\n' >joins.sh && printf 'ronde1\\nronde2\\n' >hosts"
#define LATE "echo >>late; sleep 2"
#define ONCE_IT_IS_LATE "n=0; until [ -s late ] || [ $((n+=1)) -gt 300 ]; do sleep 0.1; done; "

static int run_with_a_joiner(const char *joins, const char *prepare, const char *options) {
  check_run(0, run("%s", joins));
  setenv("AWAY", "unshare --mount sh joins.sh", 1);
  int code = run_on_hosts(prepare, options);
  unsetenv("AWAY");
  return code;
}

#define ELASTIC "--hostfile hosts --elastic --on-loss restart --sentinel 100 --drill slow:0:5 "

static void a_start_that_fails_keeps_nobody_from_training(void **state) {
  need_mpi();
  check_run(0,
            run_with_a_joiner(JOINS_AFTER("echo no room here; exit 9"), ONCE_IT_TRAINS("unable", "echo ronde3 >>hosts"),
                              ELASTIC "--verbose --epochs 200 --out unable"));
  check_says(
      "warning: ronde3 does not join: host ronde3: Open MPI's daemon was not started there (code 9): no room here");
  json_t *json = left_by("unable", "run.json");
  assert_int_equal(json_array_size(json_object_get(json, "restarts")), 0);
  assert_string_equal(json_string_value(json_object_get(json, "status")), "completed");
  json_decref(json);
  check_run(0, run("test $(wc -l <unable/steps.jsonl) = 2400"));
}

/* It has no data, which is found when they have been opened: after the others have ended for it. */
static void a_host_without_the_data_is_left_out_again(void **state) {
  need_mpi();
  check_run(0, run("mkdir data && cd data && { printf '\\0\\0\\10\\3\\0\\0\\0\\144\\0\\0\\0\\34\\0\\0\\0\\34'; "
                   "head -c 78400 /dev/urandom; } >train-images-idx3-ubyte && "
                   "{ printf '\\0\\0\\10\\1\\0\\0\\0\\144'; yes 0123456789 | tr -d '\\n' | tr 0-9 '\\000-\\011' | head "
                   "-c 100; } "
                   ">train-labels-idx1-ubyte"));
  check_run(0, run_with_a_joiner(JOINS_AFTER("mount -t tmpfs none data"), ONCE_IT_TRAINS("bare", "echo ronde3 >>hosts"),
                                 ELASTIC "--verbose --data mnist:data --epochs 800 --out bare"));
  check_says("warning: ronde3 does not join after all: started again with 2 ranks");
  json_t *json = left_by("bare", "run.json"), *restarts = json_object_get(json, "restarts");
  assert_int_equal(json_array_size(restarts), 2);
  assert_string_equal(json_string_value(json_object_get(json_array_get(restarts, 0), "joined")), "ronde3");
  assert_string_equal(json_string_value(json_object_get(json_array_get(restarts, 1), "hosts_left_out")), "ronde3");
  for (size_t i = 0; i < 2; i++) {
    const json_t *one = json_array_get(restarts, i), *lost = json_object_get(one, "steps_lost");
    assert_true(json_is_boolean(json_object_get(one, "trained")));
    assert_true(json_is_true(json_object_get(one, "trained")) == (i == 0));
    assert_true(json_is_integer(lost) && json_integer_value(lost) == 0);
  }
  assert_string_equal(json_string_value(json_object_get(json, "status")), "completed");
  json_decref(json);
  check_run(0, run("test $(wc -l <bare/steps.jsonl) = 1600"));
}

/* As soon as the run OUT notes steps again. */
#define ONCE_MORE_STEPS(out) \
  "lines=$(wc -l <" out "/steps.jsonl); " AWAIT("[ $(wc -l <" out "/steps.jsonl) -gt $lines ]")

/* What was prepared ends with the run that it was to follow; the host joins the one behind it, which trains until it has. */
static void a_loss_while_a_host_is_about_to_join(void **state) {
  need_mpi();
  check_run(130,
            run_with_a_joiner(
                JOINS_AFTER(LATE),
                ONCE_IT_TRAINS(
                    "about", "echo ronde3 >>hosts; " ONCE_IT_IS_LATE
                             "kill -9 $(ip netns pids ronde2); " AWAIT("grep -q 'ronde3 joins' log")
                                 ONCE_MORE_STEPS("about") "kill -INT $(pgrep -o -f '^[^ ]*ronde train.*--out about$')"),
                ELASTIC "--verbose --epochs 100000 --out about >log 2>&1"));
  json_t *json = left_by("about", "run.json"), *restarts = json_object_get(json, "restarts");
  assert_true(json_array_size(restarts) >= 2);
  assert_string_equal(json_string_value(json_object_get(json_array_get(restarts, 0), "hosts_left_out")), "ronde2");
  assert_non_null(json_string_value(json_object_get(json_array_get(restarts, 1), "joined")));
  json_decref(json);
}

/* The start that is prepared for a loss cannot begin on a host, and the one that is made behind it can. */
static void a_prepared_restart_that_fails_is_made_anew(void **state) {
  need_mpi();
  check_run(0,
            run_with_a_joiner(JOINS_AFTER("echo >>times; [ $(wc -l <times) != 2 ] || exit 9"), "true",
                              "--epochs 40 --on-loss restart --sentinel 100 --drill kill:1@100,slow:0:5 --out anew"));
  check_restart("anew", "", 3);
  check_run(0, run("test $(wc -l <times) = 3 && test $(wc -l <anew/steps.jsonl) = 480"));
}

static void ctrl_c_while_a_host_is_about_to_join(void **state) {
  need_mpi();
  check_run(130,
            run_with_a_joiner(JOINS_AFTER(LATE),
                              ONCE_IT_TRAINS("asked", "echo ronde3 >>hosts; " ONCE_IT_IS_LATE
                                                      "kill -INT $(pgrep -o -f '^[^ ]*ronde train.*--out asked$')"),
                              ELASTIC "--verbose --epochs 200 --out asked"));
  check_says("ronde train --resume asked goes on");
  assert_null(strstr(said, "does not join"));
  json_t *json = left_by("asked", "run.json");
  assert_int_equal(json_array_size(json_object_get(json, "restarts")), 0);
  json_decref(json);
}

/* The others go on at once, and start again with it once its host answers: no step is lost by either. */
static void a_lost_worker_comes_back(void **state) {
  check_run(0, run_on_hosts("printf 'ronde1\\nronde2\\nronde3\\n' >hosts",
                            "--epochs 200 --hostfile hosts --elastic --on-loss continue --sentinel 100 "
                            "--drill kill:2@100,slow:0:5 --out back"));
  json_t *json = left_by("back", "run.json");
  const json_t *one = json_array_get(json_object_get(json, "restarts"), 0);
  assert_int_equal(json_array_size(json_object_get(json, "restarts")), 1);
  assert_string_equal(json_string_value(json_object_get(one, "joined")), "ronde3");
  assert_int_equal(json_integer_value(json_object_get(one, "ranks")), 3);
  assert_int_equal(json_integer_value(json_object_get(one, "steps_lost")), 0);
  /* It made 99; its host may answer before the others have made another. */
  assert_true(json_integer_value(json_object_get(one, "resumed_step")) >= 99);
  assert_string_equal(json_string_value(json_object_get(json, "status")), "completed");
  json_decref(json);
  check_run(0, run("test $(wc -l <back/steps.jsonl) = 2400"));
}

/* It is asked every 2 s, as long as the run takes: one question may just have ended. */
static void a_host_that_never_answers_costs_no_processes(void **state) {
  check_run(0, run_on_hosts("printf 'ronde1\\nronde2\\n' >hosts && " ONCE_IT_TRAINS(
                                "asks",
                                "echo ronde9 >>hosts; sleep 7; ps -o stat= --ppid $(pgrep -o -f '^[^ ]*ronde "
                                "train.*--out asks$') >children"),
                            ELASTIC "--epochs 200 --out asks"));
  check_run(0, run("test $(wc -l <children) -gt 0 && test $(grep -c Z children) -lt 2"));
}

/* With all that ran on it, Open MPI's daemon too: mpirun would end the others two seconds later. */
static void the_others_outlive_a_lost_host(void **state) {
  check_run(0, run_on_hosts(ONCE_IT_TRAINS("outlive", "kill -9 $(ip netns pids ronde3)"),
                            "--epochs 100 --drill slow:0:5 --on-loss continue --out outlive"));
  json_t *json = left_by("outlive", "run.json");
  assert_int_equal(json_array_size(json_object_get(json, "lost_workers")), 1);
  assert_int_equal(json_array_size(json_object_get(json, "restarts")), 0);
  json_decref(json);
}

/* As soon as those that are left train again: their command says so. */
#define ONCE_IT_TRAINS_AGAIN(out, host, does)                                                                       \
  "again() { for p in $(ip netns pids " host                                                                        \
  "); do grep -q -- --resume=auto /proc/$p/cmdline && return; done; false; }; " AWAIT("again") ONCE_MORE_STEPS(out) \
      does

/* One worker alone does what it can of what several were asked for; and a host whose only process is killed is not lost. */
static void one_worker_is_left_and_is_lost(void **state) {
  check_run(
      0,
      run_on_hosts(
          "printf 'ronde1\\nronde2\\n' >hosts && " ONCE_IT_TRAINS(
              "alone", "kill -9 $(ip netns pids ronde2); " ONCE_IT_TRAINS_AGAIN(
                           "alone", "ronde1",
                           "for p in $(ip netns pids ronde1); do grep -qx ronde /proc/$p/comm && "
                           "kill -9 $p; done")),
          "--epochs 400 --hostfile hosts --on-loss restart --sentinel 100 --timeout 30 --drill slow:0:5 --out alone"));
  json_t *json = left_by("alone", "run.json"), *restarts = json_object_get(json, "restarts");
  assert_int_equal(json_array_size(restarts), 2);
  assert_string_equal(json_string_value(json_object_get(json_array_get(restarts, 0), "hosts_left_out")), "ronde2");
  assert_string_equal(json_string_value(json_object_get(json_array_get(restarts, 1), "hosts_left_out")), "");
  assert_int_equal(json_integer_value(json_object_get(json_array_get(restarts, 1), "ranks")), 1);
  assert_string_equal(json_string_value(json_object_get(json, "status")), "completed");
  json_decref(json);
}

/* Nobody is left then, and it is asked until it answers. */
static void the_only_host_comes_back(void **state) {
  check_run(0, run_on_hosts("echo ronde1 >hosts && " ONCE_IT_TRAINS("only", "kill -9 $(ip netns pids ronde1)"),
                            "--epochs 100 --hostfile hosts --elastic --on-loss restart --checkpoint-every 20 "
                            "--drill slow:0:5 --out only"));
  json_t *json = left_by("only", "run.json"), *restarts = json_object_get(json, "restarts");
  assert_int_equal(json_array_size(restarts), 1);
  assert_int_equal(json_integer_value(json_object_get(json_array_get(restarts, 0), "ranks")), 1);
  assert_string_equal(json_string_value(json_object_get(json, "status")), "completed");
  json_decref(json);
}

/* Whoever names the hosts need not call them as they call themselves. */
static void a_lost_host_is_known_by_other_names(void **state) {
  static const char *const names[] = {"10.91.7.1", "ronde1.test"};
  char options[200], lost[100];
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    snprintf(options, sizeof options, "--epochs 400 --hosts %s --on-loss restart --drill slow:0:5 --out named%zu",
             names[i], i);
    snprintf(lost, sizeof lost, "host %s was lost, or Open MPI's daemon there, and with it: rank 0", names[i]);
    check_run(4, run_on_hosts(i ? ONCE_IT_TRAINS("named1", "kill -9 $(ip netns pids ronde1)")
                                : ONCE_IT_TRAINS("named0", "kill -9 $(ip netns pids ronde1)"),
                              options));
    check_says(lost);
    snprintf(lost, sizeof lost, "no host is left for a worker (lost: %s)", names[i]);
    check_says(lost);
  }
}

/* The others without the rank that is lost: steps.jsonl lacks the steps of a second at most. */
#define ONCE_IT_GOES_ON(out)                               \
  "n=$(wc -l <" out "/steps.jsonl); until [ $(wc -l <" out \
  "/steps.jsonl) -gt $((n + 250)) ] "                      \
  "|| ! sleep 0.1; do :; done; "
#define KILL_THERE(host) "for p in $(ip netns pids " host "); do grep -qx ronde /proc/$p/comm && kill -9 $p; done; "
#define GO_ON_AND_RESTART \
  "--epochs 200 --on-loss continue --checkpoint-every 20 --sentinel 100 --timeout 20 --drill slow:0:5 --out "

/* A start with it would fail, and it would have to be left out by another one. */
static void a_host_without_which_they_went_on_stays_out(void **state) {
  check_run(
      0, run_on_hosts(ONCE_IT_TRAINS("out", "ip link set ronde3v down; " ONCE_IT_GOES_ON("out") KILL_THERE("ronde1")),
                      GO_ON_AND_RESTART "out"));
  check_restart("out", "ronde3", 2);
}

/* Of the two that are cut off one after the other only rank 0 is named at the end: nobody waits for the first one to save. */
static void rank_0_is_cut_off_after_another(void **state) {
  check_run(0, run_on_hosts(ONCE_IT_TRAINS(
                                "cut", "ip link set ronde3v down; " ONCE_IT_GOES_ON("cut") "ip link set ronde1v down"),
                            GO_ON_AND_RESTART "cut"));
  check_restart("cut", "ronde1, ronde3", 1);
}

static void a_host_whose_process_was_killed_stays_in(void **state) {
  check_run(0, run_on_hosts(ONCE_IT_TRAINS("in", KILL_THERE("ronde3") ONCE_IT_GOES_ON("in") KILL_THERE("ronde1")),
                            GO_ON_AND_RESTART "in"));
  check_restart("in", "", 3);
}

/* What happens for an hour, for some seconds, or in full for two minutes: scripts/churn.py. */
static void a_run_survives_churn(void **state) {
  need_mpi();
  leave_out_if(SANITIZED, "its many starts take long, in code that other losses run");
  if (geteuid() != 0 || run("python3 --version") || run("%s with 1 -- 'unshare --uts --mount true'", HOSTS)) {
    print_message("SKIP: no python3, or no right to make network namespaces\n");
    skip();
  }
  const char *length = IN_FULL ? "--epochs 200 --gap 0.5,8"
                               : "--hosts 3 --epochs 40 --data synthetic:1x28x28:10:600 --events kill,join --gap 1,3 "
                                 "--quiet-after 5";
  check_run(0, run("TMPDIR=%s timeout 400 python3 -B " RONDE_SOURCE_DIR "/scripts/churn.py --build $(dirname " RONDE
                   ") --on-loss continue --seed 4 %s",
                   folder, length));
  check_says("all holds");
}

static void joins_that_cannot_be_are_refused(void **state) {
  need_mpi();
  check_run(2, run(RONDE " train " SMALL " --workers 2 --transport mpi --on-loss restart --out none --elastic"));
  check_says("--elastic: a host joins by a line in --hostfile FILE");
  check_run(0, run("echo localhost >hosts"));
  check_run(2, run(RONDE " train " SMALL " --hostfile hosts --workers 2 --on-loss restart --out none --elastic"));
  check_says("--elastic: leave out --workers");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_host_joins),
      cmocka_unit_test(a_start_that_fails_keeps_nobody_from_training),
      cmocka_unit_test(a_host_without_the_data_is_left_out_again),
      cmocka_unit_test(a_loss_while_a_host_is_about_to_join),
      cmocka_unit_test(a_prepared_restart_that_fails_is_made_anew),
      cmocka_unit_test(ctrl_c_while_a_host_is_about_to_join),
      cmocka_unit_test(a_lost_worker_comes_back),
      cmocka_unit_test(a_host_that_never_answers_costs_no_processes),
      cmocka_unit_test(the_others_outlive_a_lost_host),
      cmocka_unit_test(one_worker_is_left_and_is_lost),
      cmocka_unit_test(the_only_host_comes_back),
      cmocka_unit_test(a_lost_host_is_known_by_other_names),
      cmocka_unit_test(a_host_without_which_they_went_on_stays_out),
      cmocka_unit_test(rank_0_is_cut_off_after_another),
      cmocka_unit_test(a_host_whose_process_was_killed_stays_in),
      cmocka_unit_test(a_run_survives_churn),
      cmocka_unit_test(joins_that_cannot_be_are_refused),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

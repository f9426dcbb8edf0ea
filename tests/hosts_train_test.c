/* `ronde train` on hosts that are network namespaces: the bits of threads, ranks where they were asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include "mpi_testing.h"

static void hosts_need_a_launcher_and_options_an_effect(void **state) {
  check_run(2, run(RONDE " train " SMALL " --iface eth0"));
  check_says("--iface can have no effect");
  need_mpi();
  check_run(2, run(RONDE " train " SMALL " --workers 2 --transport mpi --trace"));
  check_says("ronde: error: --trace can have no effect");
}

static void several_hosts_train_as_one(void **state) {
  check_run(0, run_on_hosts("true", "--collective ring --out h"));
  check_run(0, run("timeout 100 " RONDE " train " SMALL " --workers 3 --collective ring --out t3"));
  json_t *hosts = record("h"), *threads = record("t3");
  assert_string_equal(string_at(hosts, "result", "weights_sha256"), string_at(threads, "result", "weights_sha256"));
  for (int i = 0; i < 3; i++) {
    char name[24];
    snprintf(name, sizeof name, "ronde%d", i + 1);
    json_t *row = json_array_get(json_object_get(hosts, "workers"), (size_t)i);
    assert_string_equal(json_string_value(json_object_get(row, "host")), name);
  }
  json_decref(hosts);
  /* Between hosts shards go round the same ring. */
  check_run(0, run_on_hosts("true", "--strategy sharded --out hs"));
  hosts = record("hs");
  assert_string_equal(string_at(hosts, "communication", "collective"), "ring");
  assert_string_equal(string_at(hosts, "result", "weights_sha256"), string_at(threads, "result", "weights_sha256"));
  json_decref(hosts);
  json_decref(threads);
}

static void check_hosts(const char *name, const char *expected) {
  json_t *json = record(name), *row;
  char hosts[256] = "";
  size_t i;
  json_array_foreach(json_object_get(json, "workers"), i, row) {
    strcat(hosts, i ? " " : "");
    strcat(hosts, json_string_value(json_object_get(row, "host")));
  }
  assert_string_equal(hosts, expected);
  json_decref(json);
}

static void workers_are_where_they_were_asked_for(void **state) {
  check_run(0, run_on_hosts("true", "--workers 1 --out p1"));
  check_hosts("p1", "ronde1");
  check_run(0, run_on_hosts("true", "--workers 4 --out p4"));
  check_hosts("p4", "ronde1 ronde2 ronde3 ronde1");
  check_run(0, run_on_hosts("true", "--hosts ronde1:1,ronde2:3 --out ps"));
  check_hosts("ps", "ronde1 ronde2 ronde2 ronde2");
}

/* What the launcher read is what counts, whatever the hosts have in their own environments. */
static void variables_are_the_launchers(void **state) {
  check_run(0, run_on_hosts("export RONDE_LR=0.05 RONDE_ISA=sse2 AWAY='env -u RONDE_ISA RONDE_LR=0.5 RONDE_SEED=9'",
                            "--collective ring --out env"));
  check_run(
      0, run("RONDE_ISA=sse2 timeout 100 " RONDE " train " SMALL " --workers 3 --collective ring --lr 0.05 --out t4"));
  check_same_state("env", "t4");
}

/* The same command, again and again, while the launcher's own disk has nothing. */
static void hosts_with_disks_of_their_own_go_on_together(void **state) {
  need_mpi();
  check_run(0, run("mkdir -p disks/disk disks/ronde1 disks/ronde2 disks/ronde3"));
  char prepare[4200], options[4400];
  snprintf(prepare, sizeof prepare, "export RONDE_DISKS=%s/disks", folder);
  for (int steps = 4; steps <= 12; steps += 4) {
    snprintf(
        options, sizeof options,
        "--collective ring --momentum 0.9 --checkpoint-every 1000 --resume auto --out %s/disks/disk/run --steps %d",
        folder, steps);
    check_run(0, run_on_hosts(prepare, options));
  }
  check_run(0, run("ls disks/ronde1/run/run.json"));
  /* What mpirun happens to say of a busy machine is the launcher's to keep. */
  check_run(1, run("find disks/disk disks/ronde2 disks/ronde3 -type f ! -name mpirun.log | grep ."));
  check_run(
      0, run("timeout 100 " RONDE " train " SMALL " --workers 3 --collective ring --momentum 0.9 --steps 12 --out t5"));
  check_same_state("disks/ronde1/run", "t5");
}

/* The parameters of each step need 100 ms to the third host. */
static void a_slow_link_makes_its_host_late(void **state) {
#define SHAPED "root tbf rate 20mbit burst 32kb limit 2mb"
  const char *prepare = "tc qdisc add dev ronde3v " SHAPED " && ip netns exec ronde3 tc qdisc add dev eth0 " SHAPED;
#undef SHAPED
  check_run(0, run_on_hosts(prepare, "--strategy ps-sync --out link"));
  json_t *json = record("link"), *row = json_array_get(json_object_get(json, "workers"), 2);
  json_t *late = json_object_get(row, "late");
  assert_true(json_integer_value(json_object_get(late, "steps")) > 6);
  assert_string_equal(json_string_value(json_object_get(late, "cause")), "exchange");
  json_decref(json);
}

#define NOT_REACHED                                                                                           \
  "host ronde3 does not reach 10.91.7.1, where a rank listens: a firewall or the network between them is in " \
  "the way (--iface chooses the network)"

static void a_host_that_another_does_not_reach(void **state) {
  check_run(4, run_on_hosts("ip -n ronde3 route add unreachable 10.91.7.1", "--verbose --out apart"));
  check_says("warning: " NOT_REACHED ": started once more");
  check_says("ronde: error: " NOT_REACHED);
}

/* ronde3 has a wrong address of ronde1 until Open MPI's daemon is started there for the second time, and gives up soon. */
static void a_host_that_is_reached_later(void **state) {
  need_mpi();
  check_run(
      0,
      run("printf 'case \"$*\" in *\"agent ronde3 \"*orted*) echo >>starts; [ $(wc -l <starts) != 2 ] || ip -n ronde3 "
          "neigh del 10.91.7.1 dev eth0;; esac\nexec \"$@\"\n' >agent.sh"));
  setenv("AWAY", "sh agent.sh", 1);
  int code = run_on_hosts(
      "ip -n ronde3 neigh add 10.91.7.1 lladdr 02:00:00:00:00:01 dev eth0 nud permanent && ip netns exec "
      "ronde3 sh -c 'echo 1 >/proc/sys/net/ipv4/tcp_syn_retries'",
      "--verbose --out later");
  unsetenv("AWAY");
  check_run(0, code);
  check_says("warning: " NOT_REACHED ": started once more");
  check_hosts("later", "ronde1 ronde2 ronde3");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hosts_need_a_launcher_and_options_an_effect),  cmocka_unit_test(several_hosts_train_as_one),
      cmocka_unit_test(workers_are_where_they_were_asked_for),        cmocka_unit_test(variables_are_the_launchers),
      cmocka_unit_test(hosts_with_disks_of_their_own_go_on_together), cmocka_unit_test(a_slow_link_makes_its_host_late),
      cmocka_unit_test(a_host_that_another_does_not_reach),           cmocka_unit_test(a_host_that_is_reached_later),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

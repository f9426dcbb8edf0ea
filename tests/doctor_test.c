/* `ronde doctor`: this machine, several processes, hosts that cannot be used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdbool.h>
#include <unistd.h>

#include "command_testing.h"
#include "sanitized.h"

#define AS_ROOT "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
#define HOSTS RONDE_SOURCE_DIR "/tests/hosts.sh"

static void need_mpi(void) {
#ifdef RONDE_HAVE_MPI
  if (run("command -v mpirun.openmpi") == 0) return;
  print_message("SKIP: there is no mpirun.openmpi\n");
#else
  print_message("SKIP: this build has no MPI\n");
#endif
  skip();
}

/* What was printed as JSON. */
static json_t *doctor(int ranks) {
  json_error_t error;
  json_t *json = json_loads(said, 0, &error);
  if (!json) fail_msg("%s in:\n%s", error.text, said);
  assert_int_equal(json_array_size(json_object_get(json, "ranks")), ranks);
  assert_int_equal(json_array_size(json_object_get(json, "links")), ranks * (ranks - 1) / 2);
  return json;
}

static double number(const json_t *json, const char *list, size_t i, const char *field) {
  const json_t *value = json_object_get(json_array_get(json_object_get(json, list), i), field);
  if (!json_is_number(value)) fail_msg("no %s of %s %zu in:\n%s", field, list, i, said);
  return json_number_value(value);
}

static void this_machine_is_looked_at(void **state) {
  check_run(0, run("timeout 60 " RONDE " doctor --json --data synthetic:1x8x8:3:30"));
  json_t *json = doctor(1), *data = json_object_get(json_array_get(json_object_get(json, "ranks"), 0), "data");
  assert_true(number(json, "ranks", 0, "cores") >= 1);
  assert_true(number(json, "ranks", 0, "memory_bytes") > 1e6);
  assert_int_equal(json_integer_value(json_object_get(data, "train_examples")), 30);
  json_decref(json);
  check_run(0, run("timeout 60 " RONDE " doctor --threads 1024"));
  check_says("threads of 1 worker: give --threads ");
  check_run(7, run("timeout 60 " RONDE " doctor --data npy:none"));
  check_says("none/train_x.npy: not found");
  check_says("cannot read --data npy:none");
}

static void options_without_effect_are_refused(void **state) {
  check_run(2, run(RONDE " doctor --workers 2"));
  check_says("--workers");
  check_run(2, run(RONDE " doctor --iface eth0"));
  check_says("--iface");
}

static void links_between_processes_are_measured(void **state) {
  need_mpi();
  check_run(0, run("timeout 100 " RONDE " doctor --transport mpi --workers 3 --json"));
  json_t *json = doctor(3);
  for (size_t i = 0; i < 3; i++) {
    assert_true(number(json, "links", i, "latency_s") > 0 && number(json, "links", i, "latency_s") < 10);
    assert_true(number(json, "links", i, "to_bytes_per_s") > 1e4);
    assert_true(number(json, "links", i, "from_bytes_per_s") > 1e4);
    /* One machine has one clock. */
    double ahead = number(json, "ranks", i, "clock_ahead_s");
    assert_true(ahead < 1 && ahead > -1);
  }
  json_decref(json);
}

static void ranks_that_differ_are_named(void **state) {
  need_mpi();
  check_run(7, run(AS_ROOT "timeout 60 mpirun.openmpi --oversubscribe -np 1 " RONDE
                           " doctor : -np 1 env RONDE_ISA=sse2 " RONDE " doctor"));
  check_says("computes with sse2 (");
  check_says("set RONDE_ISA on all");
  check_run(7, run(AS_ROOT "timeout 60 mpirun.openmpi --oversubscribe -np 1 " RONDE
                           " doctor --data synthetic:1x8x8:3:30 : -np 1 " RONDE " doctor --data synthetic:1x8x8:3:31"));
  check_says("has training data (31 examples");
}

static void hosts_that_do_not_answer_are_named(void **state) {
  need_mpi();
  check_run(4, run("OMPI_MCA_plm_rsh_agent='sh -c \"echo $0: no route; exit 255\"' timeout 60 " RONDE
                   " doctor --hosts near,far"));
  check_says("host far cannot be reached by ssh without a password");
  check_says("2 of 2 hosts cannot take part");
}

static void write_file(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  assert_int_equal(fclose(file), 0);
}

/* Whatever is wrong in it is named before any host is asked. */
static void host_files_are_read(void **state) {
  static const struct {
    const char *text, *says;
    int code;
  } files[] = {
      {"near\n# far\n\nnear2:2\n", "2 of 2 hosts cannot take part", 4},
      {"near slots=2\nfar\nnear\n", "2 of 2 hosts cannot take part", 4},
      {"near\nfar slots=0\n", ".hosts, line 2: slots must be a number from 1 to 1024: '0'", 3},
      {"near slot=2\n", ".hosts, line 1: unknown word: only slots=N may follow a host: 'slot=2'", 3},
      {"near slots=2 max=3\n", ".hosts, line 1: unknown word: 'max=3'", 3},
      {"# none\n", ".hosts: it names no host", 3},
      {"near\n-oProxyCommand=touch\n", ".hosts, line 2: not a host's name: '-oProxyCommand=touch'", 3},
  };
  need_mpi();
  char path[] = "/tmp/ronde-XXXXXX.hosts";
  int file = mkstemps(path, 6);
  assert_true(file >= 0);
  close(file);
  const char *agent = "OMPI_MCA_plm_rsh_agent='sh -c \"echo $0: no route; exit 255\"' timeout 60 ";
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    write_file(path, files[i].text);
    check_run(files[i].code, run("%s" RONDE " doctor --hostfile %s", agent, path));
    check_says(files[i].says);
  }
  check_run(2, run(RONDE " doctor --hostfile %s --hosts a", path));
  check_says("--hosts and --hostfile: give only one of the two");
  check_run(2, run(RONDE " doctor --hosts 'a;b'"));
  check_says("--hosts: not a host's name: 'a;b'");
  write_file(path, "near slots=2\nfar\n");
  check_run(2, run(RONDE " bench collectives --workers 4 --hostfile %s", path));
  check_says("--workers: only 3 slots on 2 hosts for 4 ranks");
  unlink(path);
  check_run(3, run(RONDE " doctor --hostfile %s", path));
  check_says("No such file");
}

static void hosts_of_a_network_are_measured(void **state) {
  need_mpi();
  if (geteuid() != 0 || run(HOSTS " with 1 -- 'unshare --uts true'")) {
    print_message("SKIP: no right to make network namespaces\n");
    skip();
  }
  char path[] = "/tmp/ronde-XXXXXX";
  int file = mkstemp(path);
  assert_true(file >= 0 && write(file, "ronde1 slots=1\nronde2:1\n", 24) == 24 && close(file) == 0);
  setenv("OMPI_MCA_plm_rsh_agent", HOSTS " agent", 1);
  int code =
      run(HOSTS " with 2 200mbit -- 'timeout 100 " RONDE " doctor --hostfile %s --iface 10.91.7.0/24 --json'", path);
  unsetenv("OMPI_MCA_plm_rsh_agent");
  unlink(path);
  check_run(0, code);
  json_t *json = doctor(2);
  for (size_t i = 0; i < 2; i++) {
    char name[16];
    snprintf(name, sizeof name, "ronde%d", (int)i + 1);
    const json_t *rank = json_array_get(json_object_get(json, "ranks"), i);
    assert_string_equal(json_string_value(json_object_get(rank, "host")), name);
  }
  /* 25 MB/s, and what the shaper lets through at once. */
  assert_true(number(json, "links", 0, "to_bytes_per_s") < 60e6);
  assert_true(number(json, "links", 0, "from_bytes_per_s") < 60e6);
  json_decref(json);
}

/* Each goes through twenty runs of `train` and kills their ranks, which other suites do under sanitizers. */
static void leave_out_sanitized(void) {
  if (!SANITIZED) return;
  print_message("SKIP: a minute of drills under a sanitizer\n");
  skip();
}

/* Rows of `ronde doctor --drill --json`, of which so many were survived. */
static void check_drills(size_t n_survived) {
  json_error_t error;
  const char *begin = strchr(said, '{');
  json_t *json = begin ? json_loads(begin, JSON_DISABLE_EOF_CHECK, &error) : NULL;
  if (!json) fail_msg("no JSON in:\n%s", said);
  assert_string_equal(json_string_value(json_object_get(json, "schema")), "ronde.drills.v1");
  const json_t *drills = json_object_get(json, "drills"), *row;
  size_t i, n = 0;
  assert_int_equal(json_array_size(drills), 9);
  json_array_foreach(drills, i, row) n += json_is_true(json_object_get(row, "survived"));
  if (n != n_survived) fail_msg("%zu faults survived, not %zu:\n%s", n, n_survived, said);
  row = json_array_get(drills, 0);
  assert_string_equal(json_string_value(json_object_get(row, "how")), "restarted");
  const json_t *lost = json_object_get(row, "steps_lost");
  if (!json_is_integer(lost) || json_integer_value(lost) != 0)
    fail_msg("steps were lost, or it is not known:\n%s", said);
  json_decref(json);
}

static void faults_are_rehearsed(void **state) {
  check_run(2, run(RONDE " doctor --drill --data synthetic:1x8x8:3:30"));
  check_says("--data can have no effect with --drill");
  check_run(2, run(RONDE " doctor --drill --transport threads"));
  check_says("--transport threads: drills end single processes");
  need_mpi();
  check_run(2, run("timeout 60 " RONDE " doctor --drill --workers 1"));
  check_says("--drill needs two workers");
  leave_out_sanitized();
  char path[] = "/tmp/ronde-XXXXXX";
  assert_non_null(mkdtemp(path));
  check_run(0, run("TMPDIR=%s timeout 200 " RONDE " doctor --drill --json", path));
  check_drills(9);
  check_run(0, run("rm -rf %s/ronde-mpi-*; rmdir %s", path, path)); /* nothing else is left */
}

/* No run can be gone on with. */
static void what_is_not_survived_is_said(void **state) {
  need_mpi();
  leave_out_sanitized();
  char path[] = "/tmp/ronde-XXXXXX", front[200];
  assert_non_null(mkdtemp(path));
  check_run(0, run("cat >%s/mpirun.openmpi <<'END' && chmod +x %s/mpirun.openmpi\n"
                   "#!/bin/sh\ncase \"$*\" in *--resume=auto*) exit 1 ;; esac\n"
                   "exec \"$REAL\" \"$@\"\nEND",
                   path, path));
  snprintf(front, sizeof front, "REAL=$(command -v mpirun.openmpi); PATH=%s:$PATH; export PATH REAL;", path);
  int code = run("%s timeout 200 " RONDE " doctor --drill", front);
  char *table = strdup(said);
  run("rm -r %s", path);
  assert_int_equal(code, 7);
  if (!strstr(table, "faults were not survived here")) fail_msg("%s", table);
  free(table);
}

static void faults_are_rehearsed_on_hosts(void **state) {
  need_mpi();
  leave_out_sanitized();
  if (geteuid() != 0 || run(HOSTS " with 1 -- 'unshare --uts true'")) {
    print_message("SKIP: no right to make network namespaces\n");
    skip();
  }
  setenv("OMPI_MCA_plm_rsh_agent", HOSTS " agent", 1);
  int code =
      run(HOSTS " with 2 -- 'timeout 300 " RONDE " doctor --drill --hosts ronde1,ronde2 --iface 10.91.7.0/24 --json'");
  unsetenv("OMPI_MCA_plm_rsh_agent");
  check_run(0, code);
  check_drills(9);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(this_machine_is_looked_at),
      cmocka_unit_test(options_without_effect_are_refused),
      cmocka_unit_test(links_between_processes_are_measured),
      cmocka_unit_test(ranks_that_differ_are_named),
      cmocka_unit_test(hosts_that_do_not_answer_are_named),
      cmocka_unit_test(host_files_are_read),
      cmocka_unit_test(hosts_of_a_network_are_measured),
      cmocka_unit_test(faults_are_rehearsed),
      cmocka_unit_test(what_is_not_survived_is_said),
      cmocka_unit_test(faults_are_rehearsed_on_hosts),
  };
  setenv("LSAN_OPTIONS", "detect_leaks=0", 1); /* Open MPI keeps what it has to the end */
  return cmocka_run_group_tests(tests, NULL, NULL);
}

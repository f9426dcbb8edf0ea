/* `ronde train` by several processes: the same bits as threads, on one host or several. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include "mpi_testing.h"

static json_t *record(const char *name) { return left_by(name, "run.json"); }

static const char *string_at(const json_t *json, const char *object, const char *key) {
  const char *text = json_string_value(json_object_get(json_object_get(json, object), key));
  assert_non_null(text);
  return text;
}

static void processes_come_to_the_bits_of_threads(void **state) {
  need_mpi();
  for (int workers = 2; workers <= 3; workers++) {
    check_run(0, run("timeout 100 " RONDE " train " SMALL " --workers %d --collective ring --out t", workers));
    check_run(0, run("timeout 100 " RONDE " train " SMALL " --workers %d --collective ring --overlap on "
                     "--transport mpi --out m",
                     workers));
    assert_string_equal(said, "");
    json_t *threads = record("t"), *mpi = record("m");
    assert_string_equal(string_at(mpi, "world", "transport"), "mpi");
    assert_string_equal(string_at(mpi, "result", "weights_sha256"), string_at(threads, "result", "weights_sha256"));
    json_t *test = json_object_get(json_object_get(mpi, "result"), "test_loss");
    assert_true(json_equal(test, json_object_get(json_object_get(threads, "result"), "test_loss")));
    /* What the ranks told of themselves has arrived. */
    json_t *bytes = json_object_get(json_object_get(mpi, "communication"), "bytes_sent");
    assert_true(json_equal(bytes, json_object_get(json_object_get(threads, "communication"), "bytes_sent")));
    json_t *rows = json_object_get(mpi, "workers"), *ops = json_object_get(mpi, "ops");
    assert_int_equal(json_array_size(rows), workers);
    for (int i = 0; i < workers; i++) {
      json_t *row = json_array_get(rows, (size_t)i);
      assert_true(json_integer_value(json_object_get(row, "peak_rss_bytes")) > 1000000);
      assert_int_equal(json_integer_value(json_object_get(row, "rank")), i);
    }
    int64_t calls = 0, expected = 12 * workers; /* steps of every rank */
    for (size_t i = 0; i < json_array_size(ops); i++)
      if (!strcmp(json_string_value(json_object_get(json_array_get(ops, i), "op")), "cross_entropy"))
        calls += json_integer_value(json_object_get(json_array_get(ops, i), "calls"));
    assert_int_equal(calls, 2 * expected); /* forward and backward */
    json_decref(threads);
    json_decref(mpi);
  }
}

static void gradients_travel_in_half_the_bytes(void **state) {
  need_mpi();
  check_run(0, run("timeout 100 " RONDE " train " SMALL " --workers 3 --collective ring --out w32"));
  check_run(0, run("timeout 100 " RONDE " train " SMALL " --workers 3 --wire bf16 --overlap on --out w16"));
  check_run(0, run("timeout 100 " RONDE " train " SMALL " --workers 3 --wire bf16 --transport mpi --out m16"));
  json_t *whole = record("w32"), *half = record("w16"), *mpi = record("m16");
  assert_string_equal(string_at(mpi, "result", "weights_sha256"), string_at(half, "result", "weights_sha256"));
  assert_string_not_equal(string_at(whole, "result", "weights_sha256"), string_at(half, "result", "weights_sha256"));
  assert_string_equal(string_at(half, "config", "wire"), "bf16");
  double bytes[2];
  for (int i = 0; i < 2; i++)
    bytes[i] = json_number_value(json_object_get(json_object_get(i ? half : whole, "communication"), "bytes_sent"));
  assert_true(bytes[1] < 0.6 * bytes[0]); /* the first weights and the final figures travel whole */
  double loss[2];
  for (int i = 0; i < 2; i++)
    loss[i] = json_number_value(json_object_get(json_object_get(i ? half : whole, "result"), "test_loss"));
  assert_true(loss[1] < 1.01 * loss[0] && loss[1] > 0.99 * loss[0]);
  json_decref(whole);
  json_decref(half);
  json_decref(mpi);
}

static const char *choice(const json_t *run) {
  json_t *choices = json_object_get(run, "choices");
  for (size_t i = 0; i < json_array_size(choices); i++)
    if (!strcmp(json_string_value(json_object_get(json_array_get(choices, i), "choice")), "collective"))
      return json_string_value(json_object_get(json_array_get(choices, i), "value"));
  return NULL;
}

static void what_was_timed_is_named_and_gives_the_same_bits(void **state) {
  need_mpi();
  check_run(0, run("timeout 100 " RONDE " train " SMALL " --workers 3 --transport mpi --checkpoint-every 0 --out a"));
  json_t *timed = record("a");
  assert_non_null(choice(timed));
  check_run(0, run("timeout 100 " RONDE " train " SMALL " --workers 3 --collective %s --out n", choice(timed)));
  json_t *named = record("n");
  assert_string_equal(choice(named), choice(timed));
  assert_string_equal(string_at(named, "result", "weights_sha256"), string_at(timed, "result", "weights_sha256"));
  json_decref(timed);
  json_decref(named);
  check_run(0, run("timeout 100 " RONDE " train " SMALL " --workers 2 --transport mpi --collective mpi --out o"));
  json_t *own = record("o");
  assert_string_equal(choice(own), "mpi");
  json_decref(own);
  check_run(2, run(RONDE " train " SMALL " --workers 2 --collective mpi"));
  check_says("ronde: error: --collective mpi: only transport mpi has it");
}

static void servers_come_to_the_bits_of_threads(void **state) {
  need_mpi();
  static const char *const kinds[] = {"--workers 3 --servers 3", "--workers 2 --servers 1 --placement dedicated"};
  for (int i = 0; i < 2; i++) {
    check_run(0, run("timeout 100 " RONDE " train " SMALL " --strategy ps-sync %s --out ts%d", kinds[i], i));
    check_run(
        0, run("timeout 100 " RONDE " train " SMALL " --strategy ps-sync %s --transport mpi --out ms%d", kinds[i], i));
    char threads_name[8], mpi_name[8];
    snprintf(threads_name, sizeof threads_name, "ts%d", i);
    snprintf(mpi_name, sizeof mpi_name, "ms%d", i);
    json_t *threads = record(threads_name), *mpi = record(mpi_name), *rows = json_object_get(mpi, "workers");
    assert_string_equal(string_at(mpi, "result", "weights_sha256"), string_at(threads, "result", "weights_sha256"));
    json_t *bytes = json_object_get(json_object_get(mpi, "communication"), "bytes_sent");
    assert_true(json_equal(bytes, json_object_get(json_object_get(threads, "communication"), "bytes_sent")));
    json_t *last = json_array_get(rows, json_array_size(rows) - 1);
    assert_string_equal(json_string_value(json_object_get(last, "role")), "server");
    assert_true(json_number_value(json_object_get(last, "update_s")) > 0);
    json_decref(threads);
    json_decref(mpi);
  }
}

/* NULL, or what does not hold of a run whose rank 1 was late by 60 ms in each of 12 steps. */
static const char *wrong_culprit(json_t *run, const char *cause) {
  const double delay = 12 * 0.060;
  json_t *rows = json_object_get(run, "workers"), *late[2];
  double waited[2], waits[2];
  for (size_t i = 0; i < 2; i++) {
    late[i] = json_object_get(json_array_get(rows, i), "late");
    waited[i] = json_number_value(json_object_get(late[i], "waited_s"));
    waits[i] = json_number_value(json_object_get(json_array_get(rows, i), "wait_s"));
  }
  if (json_integer_value(json_object_get(late[1], "steps")) <= 6) return "it was the last";
  if (strcmp(json_string_value(json_object_get(late[1], "cause")), cause)) return "the cause";
  if (waited[1] < 0.5 * delay || waited[0] > 0.5 * waited[1]) return "rank 0 waited for rank 1";
  return waits[0] < 0.5 * delay || waits[1] > 0.5 * waits[0] ? "rank 0's wait_s" : NULL;
}

/* Other processes may take the cores away at any time: one of some attempts is enough. */
static void check_culprit(const char *cause, const char *command) {
  const char *wrong = "";
  for (int i = 0; i < 5 && wrong; i++) {
    check_run(0, run("%s", command));
    json_t *json = record("late");
    wrong = wrong_culprit(json, cause);
    json_decref(json);
  }
  if (wrong) fail_msg("never: %s (%s)", wrong, command);
}

static void the_late_process_is_named_with_its_cause(void **state) {
  need_mpi();
#define TWO "timeout 100 " RONDE " train " SMALL " --out late --workers 2 --transport mpi "
  check_culprit("compute", TWO "--drill slow:1:60");
  check_culprit("compute", TWO "--drill slow:1:60 --strategy ps-sync");
  check_culprit("load", TWO "--drill load:1:60");
#undef TWO
#define ONE RONDE " train " SMALL " --out late --drill slow:1:60"
  if (run(OTHER_CLOCK "true")) print_message("a part was skipped: no right to another clock\n");
  else check_culprit("compute", MPIRUN "-np 1 " OTHER_CLOCK ONE " : -np 1 " ONE);
#undef ONE
}

static void backup_workers_are_not_waited_for(void **state) {
  need_mpi();
  check_run(0, run("timeout 100 " RONDE " train " SMALL " --strategy ps-sync --workers 3 --servers 2 --backup 1 "
                   "--epochs 2 --drill slow:1:20 --transport mpi --out mk"));
  json_t *mpi = record("mk"), *totals = json_object_get(mpi, "totals"), *rows = json_object_get(mpi, "workers");
  int64_t left_out = json_integer_value(json_object_get(totals, "left_out_examples")), n_parts = 0;
  assert_int_equal(json_integer_value(json_object_get(totals, "examples")) + left_out, 1200);
  for (size_t i = 0; i < 3; i++) {
    const json_t *row = json_array_get(rows, i);
    n_parts += json_integer_value(json_object_get(row, "dropped_parts"));
    n_parts += json_integer_value(json_object_get(row, "missed_parts"));
  }
  assert_int_equal(n_parts, 24); /* one in each step */
  json_decref(mpi);
}

static void statistics_are_shared_between_processes(void **state) {
  need_mpi();
  const char *options =
      "--model resnet18 --data synthetic:3x16x16:10:32 --batch 32 --sync-bn --workers 2 --threads 1 --quiet";
  check_run(0, run("timeout 100 " RONDE " train %s --out tb", options));
  check_run(0, run("timeout 100 " RONDE " train %s --transport mpi --out mb", options));
  json_t *threads = record("tb"), *mpi = record("mb");
  assert_string_equal(string_at(mpi, "result", "state_sha256"), string_at(threads, "result", "state_sha256"));
  json_decref(threads);
  json_decref(mpi);
}

static void it_runs_under_a_users_own_mpirun(void **state) {
  need_mpi();
  const char *mpirun = MPIRUN "-np 2 " RONDE " train " SMALL;
  check_run(0, run("%s --out u", mpirun));
  json_t *json = record("u");
  assert_int_equal(json_integer_value(json_object_get(json_object_get(json, "world"), "workers")), 2);
  json_decref(json);
  check_run(2, run("%s --workers 3", mpirun));
  check_says("ronde: error: --workers 3, but MPI has started 2 processes");
}

/* Two ranks, each with words of its own: in front of the command, and behind it. */
static void check_refused(const char *before, const char *behind, const char *reason) {
  check_run(2, run(MPIRUN "-np 1 " RONDE " train " SMALL " : -np 1 %s " RONDE " train " SMALL " %s", before, behind));
  check_says(reason);
}

static void ranks_that_do_not_fit_together_are_refused(void **state) {
  need_mpi();
  check_refused("", "--lr 0.5", "has --lr 0.5, rank 0 on host ");
  check_refused("", "--data synthetic:1x28x28:10:650", "has other training data (650 examples ");
  check_refused("", "--seed 2 --data synthetic:1x28x28:10:600", "has other training data (600 examples ");
  check_refused("env RONDE_ISA=sse2", "", "computes with sse2 (");
}

static void what_every_rank_meets_is_said_once(void **state) {
  need_mpi();
  check_run(3, run("timeout 60 " RONDE " train --model lenet5 --data npy:none --workers 3 --transport mpi"));
  assert_string_equal(said, "ronde: error: none/train_x.npy: not found\n");
}

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
    char name[16];
    snprintf(name, sizeof name, "ronde%d", i + 1);
    json_t *row = json_array_get(json_object_get(hosts, "workers"), (size_t)i);
    assert_string_equal(json_string_value(json_object_get(row, "host")), name);
  }
  json_decref(hosts);
  json_decref(threads);
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(processes_come_to_the_bits_of_threads),
      cmocka_unit_test(gradients_travel_in_half_the_bytes),
      cmocka_unit_test(what_was_timed_is_named_and_gives_the_same_bits),
      cmocka_unit_test(servers_come_to_the_bits_of_threads),
      cmocka_unit_test(the_late_process_is_named_with_its_cause),
      cmocka_unit_test(backup_workers_are_not_waited_for),
      cmocka_unit_test(statistics_are_shared_between_processes),
      cmocka_unit_test(it_runs_under_a_users_own_mpirun),
      cmocka_unit_test(ranks_that_do_not_fit_together_are_refused),
      cmocka_unit_test(what_every_rank_meets_is_said_once),
      cmocka_unit_test(hosts_need_a_launcher_and_options_an_effect),
      cmocka_unit_test(several_hosts_train_as_one),
      cmocka_unit_test(a_slow_link_makes_its_host_late),
  };
  setenv("LSAN_OPTIONS", "detect_leaks=0", 1); /* Open MPI keeps what it has to the end */
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

/* `ronde train` by several processes: the same bits as threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include "mpi_testing.h"
#include "sanitized.h"

static void processes_come_to_the_bits_of_threads(void **state) {
  need_mpi();
  for (int workers = IN_PART ? 3 : 2; workers <= 3; workers++) {
    check_run(0,
              run("timeout 100 " RONDE " train " SMALL " --workers %d --collective ring --overwrite --out t", workers));
    check_run(0, run("timeout 100 " RONDE " train " SMALL " --workers %d --collective ring --overlap on "
                     "--transport mpi --overwrite --out m",
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

static void check_same_choice_and_bits(const char *one_name, const char *other_name) {
  json_t *one = record(one_name), *other = record(other_name);
  assert_non_null(choice(one));
  assert_string_equal(choice(one), choice(other));
  assert_string_equal(string_at(one, "result", "weights_sha256"), string_at(other, "result", "weights_sha256"));
  json_decref(one);
  json_decref(other);
}

/* With more ranks than two every other order of sums would show. Small buckets: each algorithm is the best of some. */
static void the_same_command_makes_the_same_choice_and_bits(void **state) {
  need_mpi();
  static const char *const options[] = {"--steps 3", "--steps 3 --bucket-mb 0.004"};
  for (int i = IN_PART; i < 2; i++)
    for (int workers = IN_PART ? 3 : 2; workers <= (IN_PART ? 3 : 4); workers++) {
      const char *command = "rm -rf same1; timeout 100 " RONDE " train " SMALL " %s --workers %d --out %s %s";
      run("rm -rf same0");
      check_run(0, run(command, options[i], workers, "same0", ""));
      for (int again = 0; again < (IN_PART ? 1 : 2); again++) {
        check_run(0, run(command, options[i], workers, "same1", "--transport mpi"));
        check_same_choice_and_bits("same0", "same1");
      }
    }
}

static void what_was_chosen_can_be_chosen_again(void **state) {
  need_mpi();
  const char *three = "timeout 100 " RONDE " train " SMALL " --workers 3 --transport mpi --steps 3";
  check_run(0, run("%s --collective tree --out a", three));
  check_run(0, run("%s --choices a/run.json --out n", three));
  check_same_choice_and_bits("a", "n");
  /* Rank 0 reads the file, the others need have none. */
  const char *rank = RONDE " train " SMALL " --steps 3 --out r";
  check_run(0, run(MPIRUN "-np 1 %s --choices a/run.json : -np 2 %s", rank, rank));
  check_same_choice_and_bits("a", "r");
  check_run(3, run("%s --choices none.json", three));
  check_says("ronde: error: --choices none.json: ");
}

static void mpi_has_an_all_reduce_of_its_own(void **state) {
  need_mpi();
  check_run(0, run("timeout 100 " RONDE " train " SMALL " --workers 2 --transport mpi --collective mpi --out o"));
  json_t *own = record("o");
  assert_string_equal(choice(own), "mpi");
  json_decref(own);
  check_run(2, run(RONDE " train " SMALL " --workers 2 --collective mpi"));
  check_says("ronde: error: --collective mpi: only --transport mpi has this collective");
}

static void servers_come_to_the_bits_of_threads(void **state) {
  need_mpi();
  static const char *const kinds[] = {"--workers 3 --servers 3", "--workers 2 --servers 1 --placement dedicated"};
  for (int i = 0; i < 2; i++) {
    check_run(0, run("timeout 100 " RONDE " train " SMALL " --strategy ps-sync %s --out ts%d", kinds[i], i));
    check_run(
        0, run("timeout 100 " RONDE " train " SMALL " --strategy ps-sync %s --transport mpi --out ms%d", kinds[i], i));
    char threads_name[16], mpi_name[16];
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

static void rows_of_tables_on_servers_come_to_the_bits_of_threads(void **state) {
  need_mpi();
  check_run(0, run("for i in 1 2 3 4 5 6 7 8 9; do echo the quick brown fox jumps over a lazy dog; done > book.txt"));
  json_t *runs[2];
  for (int mpi = 0; mpi < 2; mpi++) {
    check_run(
        0, run("rm -rf table; timeout 100 " RONDE " train --model gpt-tiny --data text:book.txt --window 8 --batch 2 "
               "--steps 3 --threads 1 --eval-every 0 --quiet --strategy ps-sync --workers 3 --servers 2 "
               "--transport %s --out table",
               mpi ? "mpi" : "threads"));
    runs[mpi] = record("table");
  }
  json_t *communication[] = {json_object_get(runs[0], "communication"), json_object_get(runs[1], "communication")};
  assert_string_equal(string_at(runs[1], "result", "weights_sha256"), string_at(runs[0], "result", "weights_sha256"));
  assert_true(
      json_equal(json_object_get(communication[1], "bytes_sent"), json_object_get(communication[0], "bytes_sent")));
  assert_true(json_number_value(json_object_get(communication[1], "table_rows_exchanged")) > 0);
  assert_true(json_number_value(json_object_get(communication[1], "table_rows_exchanged")) < 0.5);
  json_decref(runs[0]);
  json_decref(runs[1]);
}

/* Overlapped or not, and where a run goes on whose outer momentum rank 0 alone reads. */
static void local_steps_come_to_the_bits_of_threads(void **state) {
  need_mpi();
  static const char *const how[] = {"--sync-every 3", "--sync-every 2 --outer-momentum 0.5 --sync-overlap",
                                    "--sync-every 2 --outer-momentum 0.5 --checkpoint-every 2",
                                    "--sync-every 2 --sync-overlap --wire bf16"};
  for (int i = IN_PART; i < 4; i++) {
    json_t *runs[2];
    for (int mpi = 0; mpi < 2; mpi++) {
      const char *transport = mpi ? "mpi" : "threads", *steps = i == 2 && mpi ? "2" : "4";
      check_run(0,
                run("rm -rf local; timeout 100 " RONDE " train " SMALL " --strategy localsgd --workers 3 %s --steps %s "
                    "--momentum 0.5 --transport %s --out local",
                    how[i], steps, transport));
      if (i == 2 && mpi) check_run(0, run("timeout 100 " RONDE " train --resume local --steps 4"));
      runs[mpi] = record("local");
      json_t *done = json_object_get(json_object_get(runs[mpi], "communication"), "synchronisations");
      assert_int_equal(json_integer_value(json_object_get(done, "count")), i == 2 && mpi ? 1 : 2);
    }
    assert_string_equal(string_at(runs[0], "result", "weights_sha256"), string_at(runs[1], "result", "weights_sha256"));
    assert_string_equal(string_at(runs[0], "result", "state_sha256"), string_at(runs[1], "result", "state_sha256"));
    json_decref(runs[0]);
    json_decref(runs[1]);
  }
}

static void a_master_and_its_replicas_run_as_processes(void **state) {
  need_mpi();
  for (int workers = IN_PART ? 3 : 2; workers <= (IN_PART ? 3 : 4); workers++) {
    const char *command = "timeout 100 " RONDE " train " SMALL " --strategy dataparallel --workers %d --overwrite %s";
    check_run(0, run(command, workers, "--out td"));
    check_run(0, run(command, workers, "--transport mpi --out md"));
    json_t *threads = record("td"), *mpi = record("md");
    assert_string_equal(string_at(mpi, "result", "weights_sha256"), string_at(threads, "result", "weights_sha256"));
    json_t *moved[] = {json_object_get(threads, "communication"), json_object_get(mpi, "communication")};
    assert_true(json_equal(json_object_get(moved[0], "bytes_sent"), json_object_get(moved[1], "bytes_sent")));
    for (int i = 0; i < 2; i++) moved[i] = json_object_get(json_object_get(moved[i], "dataparallel"), "reduce");
    assert_true(json_integer_value(json_object_get(moved[0], "bytes")) > 0);
    assert_true(json_equal(json_object_get(moved[0], "bytes"), json_object_get(moved[1], "bytes")));
    json_decref(threads);
    json_decref(mpi);
  }
}

/* One worker has nobody to wait for, so its bits are those of threads; several make each step's update once, and go on
 * from where they met. */
static void bounded_workers_run_as_processes(void **state) {
  need_mpi();
  static const char *const how[] = {"", "--transport mpi"}, *const names[] = {"tbound", "mbound"};
  json_t *runs[2];
  for (int i = 0; i < 2; i++) {
    check_run(0, run("timeout 100 " RONDE " train " SMALL " --strategy ps-ssp --staleness 0 --workers 1 --servers 2 "
                     "--placement dedicated %s --out %s",
                     how[i], names[i]));
    runs[i] = record(names[i]);
  }
  assert_string_equal(string_at(runs[0], "result", "weights_sha256"), string_at(runs[1], "result", "weights_sha256"));
  check_run(0, run("timeout 100 " RONDE " train " SMALL " --strategy ps-ssp --staleness 1 --workers 3 --servers 2 "
                   "--transport mpi --steps 4 --checkpoint-every 2 --out sbound"));
  check_run(0, run("timeout 100 " RONDE " train --resume sbound --steps 6"));
  json_t *run = record("sbound");
  assert_string_equal(string_at(run, "world", "strategy"), "ps-ssp");
  assert_string_equal(string_at(run, "world", "transport"), "mpi");
  assert_int_equal(json_integer_value(json_object_get(json_object_get(run, "resumed_from"), "step")), 4);
  assert_int_equal(json_integer_value(json_object_get(json_object_get(run, "totals"), "steps")), 2);
  json_decref(run);
  json_decref(runs[0]);
  json_decref(runs[1]);
}

/* The bits do not depend on the number of workers either, nor on where the servers are. */
static void sandblaster_runs_as_processes(void **state) {
  need_mpi();
  static const char *const how[] = {"--workers 3", "--workers 2 --servers 2 --transport mpi",
                                    "--workers 1 --servers 2 --placement dedicated --transport mpi"};
  static const char *const names[] = {"tsand", "msand", "dsand"};
  json_t *runs[3];
  for (int i = 0; i < 3; i++) {
    check_run(0, run("timeout 100 " RONDE " train " SMALL " --strategy sandblaster --portion 5 --steps 6 "
                     "--lbfgs-iterations 4 --checkpoint-every 3 %s --out %s",
                     how[i], names[i]));
    runs[i] = record(names[i]);
    assert_string_equal(string_at(runs[i], "result", "weights_sha256"), string_at(runs[0], "result", "weights_sha256"));
  }
  check_run(0, run("timeout 100 " RONDE " train --resume msand --steps 8 --workers 3"));
  json_t *rest = record("msand");
  assert_string_equal(string_at(rest, "world", "transport"), "mpi");
  assert_int_equal(json_integer_value(json_object_get(json_object_get(rest, "resumed_from"), "step")), 6);
  json_decref(rest);
  for (int i = 0; i < 3; i++) json_decref(runs[i]);
}

/* The same: of one worker, and of several with a warm start. */
static void downpour_runs_as_processes(void **state) {
  need_mpi();
  static const char *const how[] = {"", "--transport mpi"}, *const names[] = {"tpour", "mpour"};
  json_t *runs[2];
  for (int i = 0; i < 2; i++) {
    check_run(0, run("timeout 100 " RONDE " train " SMALL " --strategy downpour --n-push 2 --n-fetch 3 --workers 1 "
                     "--servers 2 --placement dedicated %s --out %s",
                     how[i], names[i]));
    runs[i] = record(names[i]);
  }
  assert_string_equal(string_at(runs[0], "result", "weights_sha256"), string_at(runs[1], "result", "weights_sha256"));
  check_run(0, run("timeout 100 " RONDE " train " SMALL " --strategy downpour --n-push 3 --n-fetch 2 --warm-start 2 "
                   "--workers 3 --servers 2 --transport mpi --steps 4 --checkpoint-every 2 --out spour"));
  check_run(0, run("timeout 100 " RONDE " train --resume spour --steps 6"));
  json_t *run = record("spour");
  assert_string_equal(string_at(run, "world", "strategy"), "downpour");
  assert_string_equal(string_at(run, "world", "transport"), "mpi");
  assert_int_equal(json_integer_value(json_object_get(json_object_get(run, "resumed_from"), "step")), 4);
  json_decref(run);
  json_decref(runs[0]);
  json_decref(runs[1]);
}

/* NULL, or what does not hold of a run whose rank 1 was late by 200 ms in each of 12 steps. */
static const char *wrong_culprit(json_t *run, const char *cause) {
  const double delay = 12 * 0.2;
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
#define TWO "timeout 100 " RONDE " train " SMALL " --out late --overwrite --workers 2 --transport mpi "
  check_culprit("compute", TWO "--drill slow:1:200");
  check_culprit("compute", TWO "--drill slow:1:200 --strategy ps-sync");
  check_culprit("load", TWO "--drill load:1:200");
#undef TWO
#define ONE RONDE " train " SMALL " --out late --overwrite --drill slow:1:200"
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
  check_refused("", "--lr 0.5", "has --lr 0.5, but rank 0 on host ");
  check_refused("", "--data synthetic:1x28x28:10:650", "has training data (650 examples ");
  check_refused("", "--seed 2 --data synthetic:1x28x28:10:600", "has training data (600 examples ");
  check_refused("env RONDE_ISA=sse2", "", "computes with sse2 (");
}

static void test_sets_are_compared_too(void **state) {
  need_mpi();
  for (int i = 0; i < 2; i++) check_run(0, run(RONDE " data convert synthetic:1x28x28:10:64 -o set%d", i));
  check_run(
      0, run("printf '\\7\\0\\0\\0\\0\\0\\0\\0\\6' | dd of=set1/test_y.npy bs=1 seek=128 conv=notrunc status=none && "
             "! cmp -s set0/test_y.npy set1/test_y.npy"));
#define SET "--model lenet5 --batch 16 --threads 1 --quiet --data npy:set"
  check_run(2, run(MPIRUN "-np 1 " RONDE " train " SET "0 : -np 1 " RONDE " train " SET "1"));
#undef SET
  check_says("has test data (");
}

/* Rank 0 writes; that nobody is waited for who thinks otherwise shows in that both ends come at once. */
static void what_rank_0_does_for_all_needs_no_other_to_ask(void **state) {
  need_mpi();
  check_refused("", "--out lost", "has --out, but rank 0 on host ");
  check_refused("", "--save lost", "has --save, but rank 0 on host ");
  check_refused("", "--resume lost", "has --resume, but rank 0 on host ");
  check_run(0, run(MPIRUN "-np 1 " RONDE " train " SMALL " --out found : -np 1 " RONDE " train " SMALL));
  check_run(0, run("ls found/best.safetensors && ! ls lost*"));
}

static void what_every_rank_meets_is_said_once(void **state) {
  need_mpi();
  check_run(3, run("timeout 60 " RONDE " train --model lenet5 --data npy:none --workers 3 --transport mpi"));
  assert_string_equal(said, "ronde: error: none/train_x.npy: not found\n");
}

/* Processes read each other's gradients as threads do. What each held of the optimizer's state is whole in a checkpoint,
 * and others go on from it. */
static void shards_come_to_the_bits_of_threads(void **state) {
  need_mpi();
  static const char *const kinds[] = {"--workers 2 --overlap off", "--workers 3 --overlap on"};
  const char *command =
      "timeout 100 " RONDE " train " SMALL " --strategy sharded --optimizer adam --steps 4 %s %s --out %s%d";
  for (int i = 0; i < 2; i++) {
    char names[2][16];
    json_t *runs[2];
    for (int mpi = 0; mpi < 2; mpi++) {
      snprintf(names[mpi], sizeof names[mpi], "%s%d", mpi ? "msh" : "tsh", i);
      check_run(0, run(command, kinds[i], mpi ? "--transport mpi" : "", mpi ? "msh" : "tsh", i));
      runs[mpi] = record(names[mpi]);
    }
    assert_string_equal(string_at(runs[0], "result", "weights_sha256"), string_at(runs[1], "result", "weights_sha256"));
    assert_string_equal(string_at(runs[0], "result", "state_sha256"), string_at(runs[1], "result", "state_sha256"));
    json_decref(runs[0]);
    json_decref(runs[1]);
  }
  check_run(0, run("timeout 100 " RONDE " train --resume msh0 --steps 6"));
  check_run(0, run("timeout 100 " RONDE " train --resume tsh0 --steps 6"));
  json_t *mpi = record("msh0"), *threads = record("tsh0");
  assert_string_equal(string_at(mpi, "world", "transport"), "mpi");
  assert_string_equal(string_at(mpi, "result", "weights_sha256"), string_at(threads, "result", "weights_sha256"));
  json_decref(mpi);
  json_decref(threads);
}

/* Of a resumed run rank 0 alone has the file, and the others get their parts of it. */
static void stages_come_to_the_bits_of_one_process(void **state) {
  need_mpi();
  const char *command = "timeout 100 " RONDE
                        " train --model resnet18-cifar --data synthetic:3x16x16:4:64 --quiet "
                        "--threads 1 --momentum 0.9 --lr 0.05 --steps %d %s --overwrite --out %s";
#define STAGES "--transport mpi --strategy pipeline --batch 16 --micro-batches 4 "
  check_run(0, run(command, 6, "--batch 4 --accumulate 4", "one"));
  check_run(0, run(command, 6, STAGES "--workers 3 --trace", "three"));
  check_run(0, run(command, 3, STAGES "--stages 2 --workers 2", "part"));
  check_run(0, run("timeout 100 " RONDE " train --resume part --stages 4 --workers 4 --steps 6"));
  json_t *one = record("one"), *three = record("three"), *part = record("part");
  assert_string_equal(string_at(three, "world", "transport"), "mpi");
  assert_string_equal(string_at(three, "result", "state_sha256"), string_at(one, "result", "state_sha256"));
  assert_string_equal(string_at(part, "result", "state_sha256"), string_at(one, "result", "state_sha256"));
  check_run(0, run("cmp one/last.safetensors three/last.safetensors && cmp one/best.safetensors three/best.safetensors "
                   "&& cmp one/last.safetensors part/last.safetensors"));
  json_t *communication = json_object_get(three, "communication");
  assert_true(json_number_value(json_object_get(communication, "bubble_s")) > 0);
  json_decref(one), json_decref(three), json_decref(part);
  check_run(0, run(command, 6, "--strategy allreduce --workers 2 --batch 16", "all"));
  check_run(0, run(command, 6, STAGES "--stages 2 --workers 4 --batch 16 --micro-batches 1", "replicas"));
  json_t *all = record("all"), *replicas = record("replicas");
  assert_string_equal(string_at(all, "result", "state_sha256"), string_at(replicas, "result", "state_sha256"));
  json_decref(all), json_decref(replicas);
#undef STAGES
}

/* The last batch is short, and its last window has labels that are ignored. */
static void a_character_model_comes_to_the_bits_of_threads(void **state) {
  need_mpi();
  static const char *const strategies[] = {"allreduce --collective ring", "ps-sync --servers 2",
                                           "pipeline --micro-batches 2", "sharded"};
  check_run(0, run("seq -s ' ' 500 > numbers.txt"));
  for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i += IN_PART ? 2 : 1) {
    const char *command = "timeout 100 " RONDE
                          " train --model gpt-tiny --data text:numbers.txt --window 24 "
                          "--batch 14 --dropout 0 --lr 0.1 --epochs 1 --threads 1 --quiet --workers 3 --strategy %s "
                          "--transport %s --overwrite --out %s";
    check_run(0, run(command, strategies[i], "threads", "t"));
    check_run(0, run(command, strategies[i], "mpi", "m"));
    json_t *threads = record("t"), *mpi = record("m");
    assert_string_equal(string_at(mpi, "world", "transport"), "mpi");
    assert_string_equal(string_at(mpi, "result", "weights_sha256"), string_at(threads, "result", "weights_sha256"));
    json_decref(threads);
    json_decref(mpi);
  }
}

/* Over 2, 3, 4 and 7 processes, by each scheme; of a resumed run rank 0 alone has the file. */
static void split_layers_come_to_the_bits_of_threads(void **state) {
  need_mpi();
  const char *command = "timeout 100 " RONDE
                        " train --model lenet5 --data synthetic:1x28x28:10:45 --quiet --threads 1 "
                        "--optimizer adam --lr 0.01 --batch 11 --strategy hybrid --hybrid-layers fc1,fc2 --epochs %d "
                        "--hybrid-scheme %c --overwrite --workers %d %s --out %s";
  for (int workers = IN_PART ? 4 : 2; workers <= (IN_PART ? 4 : 7); workers += workers < 4 ? 1 : 3) {
    char scheme = workers == 2 ? 'a' : workers == 3 ? 'b' : 'c';
    check_run(0, run(command, 2, scheme, workers, "", "threads"));
    check_run(0, run(command, 2, scheme, workers, "--transport mpi", "processes"));
    check_run(0, run(command, 1, scheme, workers, "--transport mpi", "part"));
    check_run(0, run("timeout 100 " RONDE " train --resume part --epochs 2"));
    json_t *threads = record("threads"), *processes = record("processes"), *part = record("part");
    assert_string_equal(string_at(processes, "world", "transport"), "mpi");
    assert_string_equal(string_at(threads, "result", "state_sha256"), string_at(processes, "result", "state_sha256"));
    assert_string_equal(string_at(threads, "result", "state_sha256"), string_at(part, "result", "state_sha256"));
    check_run(0, run("cmp threads/last.safetensors processes/last.safetensors"));
    json_decref(threads), json_decref(processes), json_decref(part);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(processes_come_to_the_bits_of_threads),
      cmocka_unit_test(gradients_travel_in_half_the_bytes),
      cmocka_unit_test(the_same_command_makes_the_same_choice_and_bits),
      cmocka_unit_test(what_was_chosen_can_be_chosen_again),
      cmocka_unit_test(mpi_has_an_all_reduce_of_its_own),
      cmocka_unit_test(servers_come_to_the_bits_of_threads),
      cmocka_unit_test(rows_of_tables_on_servers_come_to_the_bits_of_threads),
      cmocka_unit_test(a_master_and_its_replicas_run_as_processes),
      cmocka_unit_test(bounded_workers_run_as_processes),
      cmocka_unit_test(downpour_runs_as_processes),
      cmocka_unit_test(sandblaster_runs_as_processes),
      cmocka_unit_test(local_steps_come_to_the_bits_of_threads),
      cmocka_unit_test(the_late_process_is_named_with_its_cause),
      cmocka_unit_test(backup_workers_are_not_waited_for),
      cmocka_unit_test(statistics_are_shared_between_processes),
      cmocka_unit_test(it_runs_under_a_users_own_mpirun),
      cmocka_unit_test(ranks_that_do_not_fit_together_are_refused),
      cmocka_unit_test(test_sets_are_compared_too),
      cmocka_unit_test(what_rank_0_does_for_all_needs_no_other_to_ask),
      cmocka_unit_test(what_every_rank_meets_is_said_once),
      cmocka_unit_test(shards_come_to_the_bits_of_threads),
      cmocka_unit_test(stages_come_to_the_bits_of_one_process),
      cmocka_unit_test(a_character_model_comes_to_the_bits_of_threads),
      cmocka_unit_test(split_layers_come_to_the_bits_of_threads),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

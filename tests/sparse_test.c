/* Exchanges that leave out rows of tables which no worker has met in a step: of two workers the bits are those of an
 * exchange of all rows, whatever the optimizer and however the buckets are cut; of more the sums are in another order,
 * alike on all of them. And what is not sent is counted. */
#include "sparse_testing.h"

/* Batches that leave workers without an example, and whose rows differ from step to step. */
static void of_two_workers_there_is_one_order(void **state) {
  static const char *const cuts[] = {"overlap=on bucket-mb=0.001", "overlap=off", "overlap=on bucket-mb=0.015"};
  for (size_t u = 0; u < RONDE__COUNT(updates); ++u)
    for (size_t c = 0; c < RONDE__COUNT(cuts); ++c) {
      char options[256];
      snprintf(options, sizeof options, "workers=2 epochs=2 batch=%d %s %s", c == 1 ? 8 : 3, updates[u], cuts[c]);
      check_same_bits(options, "sparse-gradients=on", "sparse-gradients=off");
    }
  check_same_bits("workers=2 epochs=2 batch=1 lr=0.3", "sparse-gradients=on", "sparse-gradients=off");
  check_same_bits("workers=2 epochs=2 batch=5 lr=0.3 threads=3", "sparse-gradients=on", "sparse-gradients=off");
}

/* One worker keeps no gradients, or keeps them; a strategy that tracks no rows has all of them. */
static void one_worker_has_the_bits_of_all_rows(void **state) {
  for (size_t u = 0; u < RONDE__COUNT(updates); ++u) {
    char options[256];
    snprintf(options, sizeof options, "workers=1 epochs=2 batch=5 %s", updates[u]);
    check_same_bits(options, "strategy=single", "strategy=dataparallel");
    check_same_bits(options, "strategy=single", "strategy=allreduce");
    check_same_bits(options, "exec=eager", "exec=graph");
    check_same_bits(options, "threads=3", "threads=1");
  }
}

static const int worlds[] = {2, 3, 4, 7};

static void a_step_of_many_is_a_step_of_one(void **state) {
  static const int batches[] = {14, 5, 1};
  for (size_t p = 0; p < PROBLEMS; ++p)
    for (size_t b = 0; b < RONDE__COUNT(batches); ++b) {
      observed fresh = train("threads=1 steps=1 lr=0 batch=%d %s", batches[b], problems[p]);
      observed one = train("threads=1 steps=1 lr=0.5 batch=%d %s", batches[b], problems[p]);
      for (size_t w = 0; w < RONDE__COUNT(worlds); ++w) {
        observed many =
            train("threads=1 steps=1 lr=0.5 batch=%d overlap=on workers=%d %s", batches[b], worlds[w], problems[p]);
        assert_int_equal(many.examples, batches[b]);
        assert_true(replicas_equal(&many));
        check_close(problems[p], &many, &one, &fresh);
        free(many.weights);
      }
      free(fresh.weights), free(one.weights);
    }
}

/* The order of sums is the packed vector's: the same however the work is done, and in virtual time. */
static void how_work_is_done_changes_no_bit(void **state) {
  for (size_t p = 0; p < PROBLEMS; ++p)
    for (int workers = 2; workers <= 4; ++workers) {
      char options[256];
      snprintf(options, sizeof options, "steps=3 lr=0.1 momentum=0.5 batch=6 bucket-mb=0.01 workers=%d %s", workers,
               problems[p]);
      check_same_bits(options, "overlap=on", "overlap=off");
      check_same_bits(options, "overlap=on", "exec=eager");
      observed threads = train("threads=1 %s overlap=on", options);
      observe_on = make_virtual;
      for (uint64_t seed = 1; seed <= 3; ++seed) {
        virtual_links = (ronde__sim_options){.link = links_by_lot, .user = &seed, .seed = seed};
        observed simulated = train("threads=1 %s overlap=on", options);
        assert_true(replicas_equal(&simulated) && bits_equal(&simulated, &threads));
        free(simulated.weights);
      }
      observe_on = ronde__transport_threads;
      free(threads.weights);
    }
}

/* ---- what is sent ---- */

/* A ring of p sends p - 1 of each vector twice. The ranks' bits go round once. */
static void check_savings(int p, int64_t batch) {
  char options[128];
  snprintf(options, sizeof options, "workers=%d steps=1 batch=%d collective=ring bucket-mb=1", p, (int)batch);
  uint64_t on = bytes_sent(options, "sparse-gradients=on"), off = bytes_sent(options, "sparse-gradients=off");
  int64_t left_out = TOKENS - rows_met(0, batch), words = (TOKENS + 63) / 64;
  int64_t saved = 2 * (p - 1) * TABLES * left_out * WIDTH * (int64_t)sizeof(float);
  int64_t spent = p * (p - 1) * TABLES * words * (int64_t)sizeof(uint64_t);
  if (2 * rows_met(0, batch) > TOKENS) saved = 0;
  if ((int64_t)(off - on) != saved - spent)
    fail_msg("%d workers, batch %d: %lld bytes saved, not %lld", p, (int)batch, (long long)(off - on),
             (long long)(saved - spent));
}

static void rows_that_nobody_has_met_are_not_sent(void **state) {
  for (size_t w = 0; w < RONDE__COUNT(worlds); ++w) {
    check_savings(worlds[w], 14);
    check_savings(worlds[w], 1);
  }
}

static void a_table_of_which_most_is_met_is_sent_whole(void **state) {
  ronde_source source = token_source(200);
  json_t *run;
  assert_int_equal(train_on("threads=1 workers=2 steps=1 batch=4", source, two_tables, &run), RONDE_OK);
  double part = real_at(run, "communication.table_rows_exchanged");
  assert_true(part > 0 && part < 0.05);
  json_decref(run);
  assert_int_equal(train_on("threads=1 workers=2 steps=1 batch=200", source, two_tables, &run), RONDE_OK);
  assert_true(real_at(run, "communication.table_rows_exchanged") == 1);
  json_decref(run);
  assert_int_equal(train_on("threads=1 workers=2 steps=1 batch=4 sparse-gradients=off", source, two_tables, &run),
                   RONDE_OK);
  assert_true(json_is_null(json_at(run, "communication.table_rows_exchanged")));
  json_decref(run);
}

/* ---- faults ---- */

/* A NaN stands in a row that was met, and no later step finds it. */
static void a_broken_step_leaves_nothing_behind(void **state) {
  static const char options[] = "workers=3 steps=8 batch=6 lr=0.1 momentum=0.9 skip-bad-steps=1 drill=corrupt:1@4";
  observed a = train("threads=1 %s overlap=on", options), b = train("threads=1 %s overlap=off", options);
  observed whole = train("threads=1 steps=8 batch=6 lr=0.1 momentum=0.9 workers=3"),
           fresh = train("threads=1 steps=1 batch=6 lr=0");
  assert_int_equal(a.n_steps, 8);
  assert_true(replicas_equal(&a) && bits_equal(&a, &b));
  for (size_t i = 0; i < a.n_weights; ++i) assert_true(isfinite(a.weights[i]));
  assert_true(update_difference(&a, &whole, &fresh) > 1e-3); /* the step was left out */
  free(a.weights), free(b.weights), free(whole.weights), free(fresh.weights);
}

/* All rows are exchanged, as ever. */
static void who_needs_all_rows_gets_them(void **state) {
  observed fresh = train("threads=1 steps=1 lr=0 batch=6"), one = train("threads=1 steps=1 lr=0.5 batch=6");
  observed wire = train("threads=1 steps=1 lr=0.5 batch=6 workers=3 wire=bf16");
  assert_true(replicas_equal(&wire));
  assert_true(update_difference(&wire, &one, &fresh) < 0.02);
  observed alone = train("threads=1 steps=2 batch=6 optimizer=lbfgs"),
           many = train("threads=1 steps=2 batch=6 optimizer=lbfgs workers=3");
  assert_true(replicas_equal(&many) && loss_difference(&many, &alone) < 1e-4);
  free(fresh.weights), free(one.weights), free(wire.weights), free(alone.weights), free(many.weights);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(of_two_workers_there_is_one_order),
      cmocka_unit_test(one_worker_has_the_bits_of_all_rows),
      cmocka_unit_test(a_step_of_many_is_a_step_of_one),
      cmocka_unit_test(how_work_is_done_changes_no_bit),
      cmocka_unit_test(rows_that_nobody_has_met_are_not_sent),
      cmocka_unit_test(a_table_of_which_most_is_met_is_sent_whole),
      cmocka_unit_test(a_broken_step_leaves_nothing_behind),
      cmocka_unit_test(who_needs_all_rows_gets_them),
  };
  return cmocka_run_group_tests(tests, write_pairs, remove_folder);
}

/* Parameter servers that exchange only the rows of tables that were met, or changed: weights are bit by bit those of an
 * exchange of all rows, and what is not sent is counted. */
#include "sparse_testing.h"

static const char *const ways[] = {
    "workers=2 servers=2 batch=3 bucket-mb=0.001",
    "workers=3 servers=1 placement=dedicated batch=8 overlap=off",
    "workers=4 servers=3 batch=5 bucket-mb=0.015",
    "workers=1 servers=2 placement=dedicated batch=4 bucket-mb=0.01",
};

/* Batches that leave workers without an example, and tables that are cut within a row. */
static void steps_have_the_bits_of_all_rows(void **state) {
  for (size_t u = 0; u < RONDE__COUNT(updates); ++u)
    for (size_t c = 0; c < RONDE__COUNT(ways); ++c) {
      char options[256];
      snprintf(options, sizeof options, "strategy=ps-sync epochs=2 %s %s", ways[c], updates[u]);
      check_same_bits(options, "sparse-gradients=on", "sparse-gradients=off");
    }
  check_same_bits("strategy=ps-sync workers=2 epochs=2 batch=5 lr=0.3 threads=3", "sparse-gradients=on",
                  "sparse-gradients=off");
  check_same_bits("strategy=ps-sync workers=2 epochs=2 batch=5 lr=0.3 exec=eager", "sparse-gradients=on",
                  "sparse-gradients=off");
  check_same_bits("strategy=ps-sync workers=3 epochs=2 batch=5 lr=0.01 optimizer=rmsprop eps=0.01",
                  "sparse-gradients=on", "sparse-gradients=off");
}

static void a_step_of_many_is_a_step_of_one(void **state) {
  for (size_t p = 0; p < PROBLEMS; ++p) {
    observed fresh = train("threads=1 steps=1 lr=0 batch=7 %s", problems[p]);
    observed one = train("threads=1 steps=1 lr=0.5 batch=7 %s", problems[p]);
    for (int workers = 1; workers <= 4; ++workers) {
      observed many = train("threads=1 steps=1 lr=0.5 batch=7 strategy=ps-sync workers=%d servers=%d %s", workers,
                            (workers + 1) / 2, problems[p]);
      assert_int_equal(many.examples, 7);
      assert_true(replicas_equal(&many));
      check_close(problems[p], &many, &one, &fresh);
      free(many.weights);
    }
    free(fresh.weights), free(one.weights);
  }
}

/* Where one of two workers has no examples there is one order of updates. What a replica of downpour changes by itself comes back from the servers,
 * whether it was pushed before the fetch or not. */
static void alone_an_asynchronous_worker_has_the_bits_of_all_rows(void **state) {
  static const char *const kinds[] = {
      "strategy=ps-async lr=0.3",
      "strategy=ps-async lr=0.3 momentum=0.9",
      "strategy=ps-async lr=0.01 optimizer=adam",
      "strategy=ps-ssp lr=0.3 weight-decay=0.01",
      "strategy=downpour lr=0.05",
      "strategy=downpour lr=0.05 n-push=2 n-fetch=4",
      "strategy=downpour lr=0.05 n-push=3 n-fetch=2",
      "strategy=downpour lr=0.05 n-push=1 n-fetch=3",
      "strategy=downpour lr=0.05 n-push=4 n-fetch=1",
  };
  for (size_t k = 0; k < RONDE__COUNT(kinds); ++k)
    for (int fine = 0; fine < 2; ++fine) {
      char options[256];
      snprintf(options, sizeof options, "%s epochs=1 batch=1 workers=2 servers=2 %s", kinds[k],
               fine ? "bucket-mb=0.001" : "overlap=off");
      check_same_bits(options, "sparse-gradients=on", "sparse-gradients=off");
    }
}

/* Of several, each has been sent other rows after each of its steps; where they meet all have all. */
static void asynchronous_replicas_meet_with_the_same_bits(void **state) {
  static const char *const kinds[] = {
      "strategy=ps-async lr=0.1",
      "strategy=ps-async lr=0.01 optimizer=adam",
      "strategy=ps-ssp staleness=1 lr=0.1 momentum=0.5",
      "strategy=ps-sync backup=1 lr=0.1",
      "strategy=ps-sync backup=1 lr=0.01 optimizer=adam clip=0.5",
      "strategy=downpour lr=0.05 n-push=2 n-fetch=3",
      "strategy=downpour lr=0.05 n-push=2 n-fetch=2 warm-start=3",
  };
  for (size_t k = 0; k < RONDE__COUNT(kinds); ++k)
    for (int simulated = 0; simulated < 2; ++simulated) {
      uint64_t seed = 1 + k;
      virtual_links = (ronde__sim_options){.link = links_by_lot, .user = &seed, .seed = seed};
      observe_on = simulated ? make_virtual : ronde__transport_threads;
      observed o = train("threads=1 epochs=2 batch=6 workers=3 servers=2 bucket-mb=0.01 %s", kinds[k]);
      observe_on = ronde__transport_threads;
      for (size_t i = 0; i < o.n_weights; ++i) assert_true(isfinite(o.weights[i]));
      if (!replicas_equal(&o)) fail_msg("%s: replicas differ", kinds[k]);
      free(o.weights);
    }
}

static void in_virtual_time_bits_are_those_of_threads(void **state) {
  for (size_t p = 0; p < PROBLEMS; ++p) {
    char options[256];
    snprintf(options, sizeof options,
             "threads=1 strategy=ps-sync steps=3 lr=0.1 momentum=0.5 batch=6 bucket-mb=0.01 workers=3 servers=2 %s",
             problems[p]);
    observed threads = train("%s", options);
    observe_on = make_virtual;
    for (uint64_t seed = 1; seed <= 2; ++seed) {
      virtual_links = (ronde__sim_options){.link = links_by_lot, .user = &seed, .seed = seed};
      observed simulated = train("%s", options);
      assert_true(replicas_equal(&simulated) && bits_equal(&simulated, &threads));
      free(simulated.weights);
    }
    observe_on = ronde__transport_threads;
    free(threads.weights);
  }
}

/* ---- what is sent ---- */

static int64_t sent_of(int64_t met) { return 2 * met > TOKENS ? TOKENS : met; }

/* Each worker pushes its own rows, and pulls everybody's. The bits go there and back; the plan names the tables. */
static void check_savings(int p, int64_t batch, bool simulated) {
  char options[160];
  int64_t words = (TOKENS + 63) / 64, left_out = p * (TOKENS - sent_of(rows_met(0, batch)));
  for (int w = 0; w < p; ++w)
    left_out += TOKENS - sent_of(rows_met(ronde__shard_begin(batch, w, p), ronde__shard_begin(batch, w + 1, p)));
  snprintf(options, sizeof options,
           "strategy=ps-sync servers=1 placement=dedicated workers=%d steps=1 batch=%d bucket-mb=1", p, (int)batch);
  observe_on = simulated ? make_virtual : ronde__transport_threads;
  uint64_t on = bytes_sent(options, "sparse-gradients=on"), off = bytes_sent(options, "sparse-gradients=off");
  observe_on = ronde__transport_threads;
  int64_t saved = TABLES * left_out * WIDTH * (int64_t)sizeof(float);
  int64_t spent = 2 * p * TABLES * words * (int64_t)sizeof(uint64_t) + TABLES * 5 * (int64_t)sizeof(int64_t);
  if ((int64_t)(off - on) != saved - spent)
    fail_msg("%d workers, batch %d: %lld bytes saved, not %lld", p, (int)batch, (long long)(off - on),
             (long long)(saved - spent));
}

static void rows_that_were_not_met_are_not_sent(void **state) {
  for (int p = 2; p <= 4; ++p)
    for (int simulated = 0; simulated < 2; ++simulated) {
      check_savings(p, 14, simulated);
      check_savings(p, 1, simulated);
    }
}

static double part_exchanged(const char *options) {
  ronde_source source = token_source(200);
  char all[256];
  json_t *run;
  snprintf(all, sizeof all, "threads=1 workers=2 strategy=ps-sync %s", options);
  assert_int_equal(train_on(all, source, two_tables, &run), RONDE_OK);
  double part = json_is_null(json_at(run, "communication.table_rows_exchanged"))
                    ? -1
                    : real_at(run, "communication.table_rows_exchanged");
  json_decref(run);
  return part;
}

/* A pull has what the servers may have changed: with old state more than was met, with decay everything. */
static void a_pull_has_what_has_moved(void **state) {
  double plain = part_exchanged("steps=4 batch=4"), state_of_old = part_exchanged("steps=4 batch=4 momentum=0.9");
  double decay = part_exchanged("steps=4 batch=4 weight-decay=0.1");
  assert_true(plain > 0 && plain < 0.05);
  assert_true(state_of_old > plain && state_of_old < 0.1);
  assert_true(decay > 0.5 && decay < 0.55);
  assert_true(part_exchanged("steps=1 batch=200") == 1);
  assert_true(part_exchanged("steps=1 batch=4 sparse-gradients=off") == -1);
}

/* ---- faults and files ---- */

static void a_broken_step_leaves_nothing_behind(void **state) {
  static const char options[] =
      "strategy=ps-sync servers=2 workers=3 steps=8 batch=6 lr=0.1 momentum=0.9 skip-bad-steps=1 drill=corrupt:1@4";
  check_same_bits(options, "sparse-gradients=on", "sparse-gradients=off");
  check_same_bits(options, "overlap=on", "overlap=off");
}

/* Nobody knows any more which rows have old state. */
static void a_run_that_goes_on_has_the_bits_of_one(void **state) {
  static const char *const kinds[] = {"lr=0.1", "lr=0.1 momentum=0.9", "lr=0.01 optimizer=adam"};
  for (size_t k = 0; k < RONDE__COUNT(kinds); ++k)
    for (int sparse = 0; sparse < 2; ++sparse) {
      char options[256], part[64];
      snprintf(options, sizeof options, "threads=1 strategy=ps-sync workers=3 servers=2 batch=6 %s", kinds[k]);
      snprintf(part, sizeof part, "part%zu.%d", k, sparse);
      observed whole = train("%s steps=7", options);
      observed begun = train("%s steps=3 out=%s sparse-gradients=%s", options, part, sparse ? "on" : "off");
      observed rest = train("threads=1 steps=7 resume=%s", part);
      assert_true(replicas_equal(&rest));
      assert_int_equal(rest.n_weights, whole.n_weights);
      assert_memory_equal(rest.weights, whole.weights, whole.n_weights * sizeof *whole.weights);
      free(whole.weights), free(begun.weights), free(rest.weights);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(steps_have_the_bits_of_all_rows),
      cmocka_unit_test(a_step_of_many_is_a_step_of_one),
      cmocka_unit_test(alone_an_asynchronous_worker_has_the_bits_of_all_rows),
      cmocka_unit_test(asynchronous_replicas_meet_with_the_same_bits),
      cmocka_unit_test(in_virtual_time_bits_are_those_of_threads),
      cmocka_unit_test(rows_that_were_not_met_are_not_sent),
      cmocka_unit_test(a_pull_has_what_has_moved),
      cmocka_unit_test(a_broken_step_leaves_nothing_behind),
      cmocka_unit_test(a_run_that_goes_on_has_the_bits_of_one),
  };
  return cmocka_run_group_tests(tests, write_pairs, remove_folder);
}

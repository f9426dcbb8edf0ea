/* Sandblaster L-BFGS: the steps are those of one worker, and the bits follow from the cut into portions alone, whoever
 * computes them, how often, and wherever the vectors lie. */
#include "resume_testing.h"
#include "sanitized.h"

#include "comm/sim.h"
#include "strategy/sandblaster.h"

/* Of sums of f32 in another order, after some iterations: as in lbfgs_train_test. */
#define TOLERANCE 1e-3

#define SANDBLASTER "strategy=sandblaster threads=1 shuffle=off "
#define ONE "optimizer=lbfgs strategy=single threads=1 shuffle=off "

enum { N_TRAIN = 29 };

static ronde__sandblaster_counts counts; /* of the last run, */
static int64_t n_portions[OBSERVED_RANKS], n_examples[OBSERVED_RANKS];

static void see_counts(ronde__run *run) {
  const ronde__job *job = run->job;
  json_t *told = json_object(), *portion;
  size_t i;
  if (job->strategy->record)
    job->strategy->record(run->ranks[0].strategy_state, run->ranks[0].strategy_facts, job->roles.n_ranks, told);
  json_t *own = json_object_get(told, "sandblaster");
  counts = (ronde__sandblaster_counts){json_integer_value(json_object_get(own, "given_twice")),
                                       json_integer_value(json_object_get(own, "forgotten")),
                                       json_integer_value(json_object_get(own, "questions"))};
  json_array_foreach(json_object_get(own, "portions"), i, portion) n_portions[i] = json_integer_value(portion);
  for (int r = 0; r < job->roles.n_workers; r++) n_examples[r] = run->ranks[r].now.own.examples;
  json_decref(told);
}

static observed run_of(ronde_model_fn model, const char *format, ...) __attribute__((format(printf, 2, 3)));

static observed run_of(ronde_model_fn model, const char *format, ...) {
  char options[512];
  va_list args;
  va_start(args, format);
  vsnprintf(options, sizeof options, format, args);
  va_end(args);
  ronde_source source = small_source(N_TRAIN, 0);
  observe_also = see_counts;
  observed o = observe(options, &source, model, NULL);
  observe_also = NULL;
  if (o.status != RONDE_OK) fail_msg("%s: status %d", options, o.status);
  return o;
}

/* ---- the steps of one worker ----------------------------------------------------------------------------------------- */

static void check_alike(const char *what, const observed *a, const observed *b, const observed *fresh) {
  assert_int_equal(a->n_steps, b->n_steps);
  for (int64_t i = 0; i < a->n_steps; i++)
    if (!(fabs(a->loss[i] - b->loss[i]) <= TOLERANCE * fabs(b->loss[i])))
      fail_msg("%s: the loss of step %d is %.9g, not %.9g", what, (int)i + 1, a->loss[i], b->loss[i]);
  double difference = update_difference(a, b, fresh);
  if (!(difference <= TOLERANCE)) fail_msg("%s: updates differ by %g", what, difference);
}

/* A portion of a seventh is of a worker alone; one of 5 examples does not divide batches; 7 workers have less than one
 * each of the short last batch. */
static const char *const cases[] = {"batch=29 portion=5 epochs=3 lbfgs-iterations=4",
                                    "batch=13 portion=2 epochs=2 lbfgs-iterations=2",
                                    "batch=5 accumulate=6 portion=3 epochs=3 lbfgs-iterations=4 lbfgs-history=2"};

static ronde_model_fn const models[] = {small_model, dead_taps_model};

static void without_portion(const char *how, char out[256]) {
  const char *at = strstr(how, "portion=");
  snprintf(out, 256, "%.*s%s", (int)(at - how), how, strchr(at, ' '));
}

static void test_any_number_of_workers_makes_the_steps_of_one(void **state) {
  static const int worlds[] = {1, 2, 3, 7};
  for (size_t m = 0; m < RONDE__COUNT(models); m++)
    for (size_t c = 0; c < RONDE__COUNT(cases); c++) {
      char how[256];
      without_portion(cases[c], how);
      observed fresh = run_of(models[m], ONE "batch=29 lbfgs-tolerance-grad=1e9");
      observed one = run_of(models[m], ONE "%s", how), first = {0};
      assert_true(one.loss[one.n_steps - 1] < one.loss[0]);
      for (size_t w = 0; w < RONDE__COUNT(worlds); w++) {
        if (IN_PART && worlds[w] > 1 && worlds[w] != 3) continue;
        observed many = run_of(models[m], SANDBLASTER "%s workers=%d", cases[c], worlds[w]);
        assert_true(replicas_equal(&many));
        check_alike(cases[c], &many, &one, &fresh);
        if (w == 0) first = many;
        else assert_true(bits_equal(&many, &first));
        if (w) free(many.weights);
      }
      free(first.weights);
      free(fresh.weights);
      free(one.weights);
    }
}

/* The cut that nobody has asked for depends on the number of workers, and with it the rounding alone. */
static void test_portions_are_a_quarter_of_a_share(void **state) {
  observed fresh = run_of(small_model, ONE "batch=29 lbfgs-tolerance-grad=1e9");
  observed one = run_of(small_model, ONE "batch=29 epochs=3 lbfgs-iterations=4");
  for (int workers = 1; workers <= 3; workers++) {
    observed many = run_of(small_model, SANDBLASTER "batch=29 epochs=3 lbfgs-iterations=4 workers=%d", workers);
    observed same = run_of(small_model, SANDBLASTER "batch=29 epochs=3 lbfgs-iterations=4 workers=1 portion=%d",
                           (29 + 4 * workers - 1) / (4 * workers));
    check_alike("quarters", &many, &one, &fresh);
    assert_true(bits_equal(&many, &same));
    free(many.weights);
    free(same.weights);
  }
  free(fresh.weights);
  free(one.weights);
}

/* Where the vectors lie, and more servers than the network has pieces. */
static void test_servers_and_their_place_change_no_bit(void **state) {
  static const char *const places[] = {"workers=2 servers=2",
                                       "workers=3 servers=2",
                                       "workers=5 servers=5",
                                       "workers=1 servers=1 placement=dedicated",
                                       "workers=3 servers=2 placement=dedicated",
                                       "workers=2 servers=9 placement=dedicated",
                                       "workers=3 servers=3 exec=eager"};
  for (size_t m = 0; m < (IN_PART ? 1 : RONDE__COUNT(models)); m++) {
    observed one = run_of(models[m], SANDBLASTER "%s workers=1", cases[0]);
    for (size_t p = 0; p < RONDE__COUNT(places); p++) {
      observed other = run_of(models[m], SANDBLASTER "%s %s", cases[0], places[p]);
      if (!bits_equal(&one, &other)) fail_msg("%s: other bits", places[p]);
      free(other.weights);
    }
    free(one.weights);
  }
}

/* The pieces of dot products do not depend on the servers; each element is of one. */
static void test_shards_are_whole_pieces(void **state) {
  static const size_t lengths[] = {1, 16, 17, 4096, 4097, 1000003};
  for (size_t i = 0; i < RONDE__COUNT(lengths); i++)
    for (int k = 1; k <= 40; k++) {
      size_t at = 0;
      for (int s = 0; s < k; s++) {
        ronde__range shard = ronde__sandblaster_shard(lengths[i], s, k);
        assert_int_equal(shard.begin, at);
        at += shard.n;
        assert_true(at == lengths[i] || at % ronde__sandblaster_piece(lengths[i]) == 0);
      }
      assert_int_equal(at, lengths[i]);
    }
}

static int64_t sum(const int64_t *x, int n) {
  int64_t all = 0;
  for (int i = 0; i < n; i++) all += x[i];
  return all;
}

/* 3 portions for 7 workers; the examples of a step are each counted once. */
static void test_workers_without_an_example(void **state) {
  observed one = run_of(small_model, SANDBLASTER "batch=3 portion=1 steps=4 lbfgs-iterations=3 workers=1");
  observed many = run_of(small_model, SANDBLASTER "batch=3 portion=1 steps=4 lbfgs-iterations=3 workers=7");
  assert_true(bits_equal(&one, &many));
  assert_int_equal(sum(n_examples, 7), 4 * 3);
  free(one.weights);
  free(many.weights);
}

/* ---- portions given twice -------------------------------------------------------------------------------------------- */

static observed simulate(const char *options, uint64_t seed) {
  virtual_links = (ronde__sim_options){.seed = seed};
  observe_on = make_virtual;
  observed o = run_of(small_model, SANDBLASTER "%s", options);
  observe_on = ronde__transport_threads;
  return o;
}

/* In virtual time, where nothing takes any but what is planted. A worker that sleeps in each portion answers to few, and
 * others to those that it has in hand; nobody waits for it. */
static void test_a_straggler_changes_no_bit(void **state) {
  static const char how[] = "batch=29 portion=2 epochs=3 lbfgs-iterations=4 workers=3 servers=2";
  char slow[256];
  snprintf(slow, sizeof slow, "%s drill=slow:1:20", how);
  observed one = run_of(small_model, SANDBLASTER "batch=29 portion=2 epochs=3 lbfgs-iterations=4 workers=1");
  int64_t n_alone = n_portions[0];
  assert_int_equal(counts.given_twice, 0);
  for (uint64_t seed = 1; seed <= (IN_PART ? 2 : 10); seed++) {
    observed late = simulate(slow, seed);
    assert_true(bits_equal(&one, &late));
    assert_true(counts.given_twice > 0 && counts.forgotten == counts.given_twice);
    assert_int_equal(sum(n_portions, 3), n_alone + counts.given_twice);
    assert_true(n_portions[1] * 10 < n_alone);
    assert_int_equal(sum(n_examples, 3), 29);
    free(late.weights);
  }
  observed real = run_of(small_model, SANDBLASTER "%s", slow);
  assert_true(bits_equal(&one, &real) && counts.given_twice > 0);
  free(real.weights);
  free(one.weights);
}

/* The window: a server has no more places for what came early. A straggler must not be able to hold up a batch of many
 * more portions. */
static void test_many_portions_go_past_a_straggler(void **state) {
  static const char how[] = "batch=29 portion=1 epochs=1 lbfgs-iterations=2 workers=2";
  char slow[256];
  snprintf(slow, sizeof slow, "%s drill=slow:0:1000", how);
  observed one = simulate(how, 1), late = simulate(slow, 1);
  assert_true(bits_equal(&one, &late));
  assert_true(n_portions[0] <= 4 && n_portions[1] >= 2 * 25);
  free(one.weights);
  free(late.weights);
}

/* ---- checkpoints ----------------------------------------------------------------------------------------------------- */

#define SAVED SET "model=mnist-small batch=18 epochs=3 threads=1 lbfgs-iterations=2 lbfgs-history=5 "

static json_t *completed(const char *format, ...) __attribute__((format(printf, 1, 2)));

static json_t *completed(const char *format, ...) {
  char options[512];
  va_list args;
  va_start(args, format);
  vsnprintf(options, sizeof options, format, args);
  va_end(args);
  json_t *run;
  test_log_start(&lines);
  if (train(options, 0, &run) != RONDE_OK) fail_msg("%s: %s", options, lines.error);
  return run;
}

static void check_same(json_t *a, json_t *b) {
  assert_string_equal(text_at(a, "result.weights_sha256"), text_at(b, "result.weights_sha256"));
  assert_string_equal(text_at(a, "result.state_sha256"), text_at(b, "result.state_sha256"));
}

/* The history is full, half full, and empty; servers and workers are others than before. */
static void test_a_resumed_run_has_the_bits_of_a_whole_one(void **state) {
  json_t *whole = completed(SAVED "strategy=sandblaster portion=4 workers=3");
  for (int stop = 1; stop <= 7; stop += 2) {
    char options[512], again[512];
    json_t *rest;
    in(options, SAVED "strategy=sandblaster portion=4 workers=2 servers=2 overwrite=on out=%s/part", folder);
    in(again, "model=mnist-small resume=%s/part workers=3 servers=1", folder);
    assert_int_equal(train(options, stop, NULL), RONDE_E_CANCELLED);
    assert_int_equal(train(again, 0, &rest), RONDE_OK);
    assert_int_equal((int)real_at(rest, "resumed_from.step"), stop);
    check_same(rest, whole);
    json_decref(rest);
  }
  json_decref(whole);
}

/* From one strategy to another, and back: the history goes with it, as the first loss behind it shows. */
static void test_strategies_share_their_history(void **state) {
  static const char *const ways[] = {"optimizer=lbfgs workers=2", "strategy=sandblaster workers=2 portion=9"};
  json_t *whole = completed(SAVED "optimizer=lbfgs steps=8");
  for (int i = 0; i < 2; i++) {
    json_t *first = completed(SAVED "%s steps=4 overwrite=on out=%s/other", ways[i], folder);
    char options[512];
    json_t *rest;
    in(options, "model=mnist-small resume=%s/other steps=8 %s", folder,
       i ? "strategy=allreduce" : "strategy=sandblaster portion=5");
    assert_int_equal(train(options, 0, &rest), RONDE_OK);
    assert_string_equal(text_at(rest, "world.strategy"), i ? "allreduce" : "sandblaster");
    assert_float_equal(real_at(rest, "result.train_loss"), real_at(whole, "result.train_loss"),
                       1e-2 * real_at(whole, "result.train_loss"));
    json_decref(first);
    json_decref(rest);
  }
  json_decref(whole);
}

static void test_the_record_tells_of_portions(void **state) {
  json_t *run = completed(SAVED "strategy=sandblaster portion=4 workers=2 servers=2 placement=dedicated");
  assert_int_equal((int)real_at(run, "communication.sandblaster.portion"), 4);
  assert_true(real_at(run, "communication.sandblaster.portions.0") > 0);
  assert_true(real_at(run, "communication.sandblaster.questions") > 0);
  assert_int_equal((int)real_at(run, "world.servers"), 2);
  assert_string_equal(text_at(run, "workers.4.role"), "coordinator");
  assert_int_equal((int)real_at(run, "workers.4.rank"), 4);
  json_decref(run);
}

/* ---- what breaks ----------------------------------------------------------------------------------------------------- */

static void test_broken_steps_are_named_and_left_out(void **state) {
  for (int workers = 1; workers <= 3; workers++) {
    char options[512];
    json_t *run;
    ronde_source source = small_source(24, 0);
    source.read = small_nan_read;
    in(options, SANDBLASTER "batch=8 workers=%d lbfgs-iterations=2", workers);
    assert_int_equal(train_on(options, source, small_model, &run), RONDE_E_NUMERIC);
    assert_int_equal(lines.n_errors, 1);
    assert_non_null(strstr(lines.error, "step 2: the loss of rank"));
    json_decref(run);
    in(options, SANDBLASTER "batch=8 workers=%d lbfgs-iterations=2 skip-bad-steps=1", workers);
    assert_int_equal(train_on(options, source, small_model, &run), RONDE_OK);
    assert_int_equal((int)real_at(run, "totals.skipped_steps"), 1);
    json_decref(run);
  }
}

/* A worker that fails is named, in whichever portion. */
static void test_a_failing_worker_ends_the_run(void **state) {
  char options[512];
  for (int rank = 0; rank < 3; rank++) {
    in(options, SAVED "strategy=sandblaster workers=3 portion=2 drill=oom:%d@4", rank);
    char says[64];
    snprintf(says, sizeof says, "rank %d: step 4: no memory for ", rank);
    test_log_start(&lines);
    check_failed(&lines, train(options, 0, NULL), RONDE_E_MEMORY, says, "");
  }
}

static void test_a_drifting_replica_is_found(void **state) {
  char options[512];
  in(options, SAVED "strategy=sandblaster workers=3 sentinel=1 drill=drift:1:3");
  test_log_start(&lines);
  assert_int_equal(train(options, 0, NULL), RONDE_E_DIFFERENCE);
  assert_non_null(strstr(lines.error, "rank 1"));
}

/* ---- what is refused ------------------------------------------------------------------------------------------------- */

static void test_what_has_no_effect_is_refused(void **state) {
  static const struct {
    const char *options, *says;
  } bad[] = {
      {SAVED "strategy=sandblaster optimizer=sgd", "the servers of --strategy sandblaster update by lbfgs"},
      {SAVED "strategy=sandblaster servers=3 workers=2", "--placement dedicated"},
      {SAVED "strategy=sandblaster workers=2 clip=1", "--clip"},
      {SAVED "strategy=sandblaster workers=2 momentum=0.9", "--momentum"},
      {SAVED "strategy=sandblaster workers=2 overlap=on", "--overlap"},
      {SAVED "strategy=sandblaster workers=2 bucket-mb=1", "--bucket-mb"},
      {SAVED "strategy=sandblaster workers=2 shard=whole", "every batch is read whole"},
      {SAVED "strategy=sandblaster workers=2 sync-bn=on", "--sync-bn"},
      {SAVED "strategy=sandblaster workers=2 collective=ring", "--collective"},
      {SAVED "strategy=sandblaster transport=self", "--transport self cannot reach a server of L-BFGS"},
      {SAVED "optimizer=lbfgs workers=2 portion=3", "--portion"},
      {SET "strategy=sandblaster batch=8 model=resnet18-cifar", "its running statistics"},
  };
  for (size_t i = 0; i < RONDE__COUNT(bad); i++) {
    char options[512];
    in(options, "%s", bad[i].options);
    test_log_start(&lines);
    check_failed(&lines, train(options, 0, NULL), RONDE_E_USAGE, bad[i].says, "");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_any_number_of_workers_makes_the_steps_of_one),
      cmocka_unit_test(test_portions_are_a_quarter_of_a_share),
      cmocka_unit_test(test_servers_and_their_place_change_no_bit),
      cmocka_unit_test(test_shards_are_whole_pieces),
      cmocka_unit_test(test_workers_without_an_example),
      cmocka_unit_test(test_a_straggler_changes_no_bit),
      cmocka_unit_test(test_many_portions_go_past_a_straggler),
      cmocka_unit_test(test_a_resumed_run_has_the_bits_of_a_whole_one),
      cmocka_unit_test(test_strategies_share_their_history),
      cmocka_unit_test(test_the_record_tells_of_portions),
      cmocka_unit_test(test_broken_steps_are_named_and_left_out),
      cmocka_unit_test(test_a_failing_worker_ends_the_run),
      cmocka_unit_test(test_a_drifting_replica_is_found),
      cmocka_unit_test(test_what_has_no_effect_is_refused),
  };
  return cmocka_run_group_tests(tests, make_folder_with_log, remove_folder);
}

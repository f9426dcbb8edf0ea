/* What belongs to the state of a run is the strategy's to say: what it gathers for a checkpoint and adds to it, and what
 * may go on from one. */
#include "strategy/strategy.h"
#include "resume_testing.h"

enum { EPOCH_STEPS = 7 }; /* of SET by batches of 8 */

static json_t *run_of(const char *format, ...) __attribute__((format(printf, 1, 2)));

static json_t *run_of(const char *format, ...) {
  char more[384], options[512];
  va_list args;
  va_start(args, format);
  vsnprintf(more, sizeof more, format, args);
  va_end(args);
  in(options, SET "batch=8 threads=1 %s", more);
  json_t *run;
  assert_int_equal(train(options, 0, &run), RONDE_OK);
  return run;
}

/* ---- asynchronous runs --------------------------------------------------------------------------------------------- */

#define ASYNC "strategy=ps-async "

static double noted(const char *run, int step, const char *name) {
  char path[512];
  in(path, "%s/%s/checkpoints/step-%d.safetensors", folder, run, step);
  ronde__resume *resume;
  assert_int_equal(ronde__resume_open(path, &resume), RONDE_OK);
  double value = json_number_value(json_object_get(json_object_get(resume->json, "place"), name));
  ronde__resume_close(resume);
  return value;
}

/* One worker has nobody to be late for, so its run has the same bits each time. */
static void check_one_worker(const char *how, int step, const char *every) {
  json_t *whole = run_of("%s epochs=3 servers=2 placement=dedicated", how);
  json_t *first = run_of("%s epochs=2 servers=1 out=%s/run overwrite=on keep=100 %s", how, folder, every);
  json_t *rest = run_of("%s epochs=3 servers=2 placement=dedicated resume=%s/run/checkpoints/step-%d.safetensors", how,
                        folder, step);
  assert_int_equal(real_at(rest, "resumed_from.step"), step);
  assert_string_equal(text_at(rest, "result.weights_sha256"), text_at(whole, "result.weights_sha256"));
  assert_string_equal(text_at(rest, "result.state_sha256"), text_at(whole, "result.state_sha256"));
  assert_true(fabs(real_at(rest, "result.train_loss") - real_at(whole, "result.train_loss")) < 1e-12);
  json_decref(whole);
  json_decref(first);
  json_decref(rest);
}

/* At the end of an epoch, and in the middle of one. */
static void test_a_resumed_asynchronous_worker_has_the_bits_of_a_whole_run(void **state) {
  static const char *const ways[] = {ASYNC "momentum=0.9", ASYNC "optimizer=adam", "strategy=downpour"};
  for (size_t i = 0; i < RONDE__COUNT(ways); ++i) {
    check_one_worker(ways[i], EPOCH_STEPS, "");
    check_one_worker(ways[i], 5, "checkpoint-every=5");
  }
}

/* A meeting is a push and a fetch of its own: a run that meets as the whole one does has its bits. */
static void test_what_was_not_pushed_yet_is_in_a_checkpoint(void **state) {
  static const char *const ways[] = {"n-push=2 n-fetch=3", "n-push=100 n-fetch=100", "n-push=100", "n-fetch=100"};
  for (size_t i = 0; i < RONDE__COUNT(ways); ++i) {
    char how[512];
    in(how, "strategy=downpour checkpoint-every=5 %s out=%s", ways[i], folder);
    json_t *whole = run_of("%s/whole epochs=3 overwrite=on", how);
    json_t *first = run_of("%s/run epochs=1 keep=100 overwrite=on", how);
    json_t *rest = run_of("%s/rest epochs=3 overwrite=on resume=%s/run/checkpoints/step-5.safetensors", how, folder);
    assert_string_equal(text_at(rest, "result.weights_sha256"), text_at(whole, "result.weights_sha256"));
    assert_string_equal(text_at(rest, "result.state_sha256"), text_at(whole, "result.state_sha256"));
    assert_int_equal(noted("run", 5, "optimizer_updates"), i == 0 ? 3 : i == 3 ? 5 : 1);
    json_decref(whole);
    json_decref(first);
    json_decref(rest);
  }
}

/* Whatever was slow: where they meet, each has made its steps, and each of these was an update. */
static void test_asynchronous_workers_meet_for_a_checkpoint(void **state) {
  json_t *run = run_of(ASYNC
                       "optimizer=adam epochs=2 workers=3 servers=2 keep=100 checkpoint-every=5 out=%s/run "
                       "drill=slow:1:3",
                       folder);
  json_decref(run);
  assert_int_equal(noted("run", 5, "optimizer_updates"), 3 * 5);
  assert_int_equal(noted("run", 10, "optimizer_updates"), 3 * 10);
  assert_int_equal(noted("run", 2 * EPOCH_STEPS, "optimizer_updates"), 3 * 2 * EPOCH_STEPS);
  json_t *rest = run_of("epochs=3 resume=%s/run/checkpoints/step-10.safetensors", folder);
  assert_string_equal(text_at(rest, "world.strategy"), "ps-async");
  assert_int_equal(real_at(rest, "world.workers"), 3);
  assert_int_equal(real_at(rest, "totals.steps"), 3 * EPOCH_STEPS - 10);
  assert_int_equal(real_at(rest, "totals.examples"), 2 * 53 - 3 * 8);
  assert_true(isfinite(real_at(rest, "result.test_accuracy")));
  json_decref(rest);
}

/* An end that one of them finds, wherever the others are: nothing is saved that is no state of the run. */
static void check_interrupted(const char *strategy, const char *name) {
  char options[512];
  in(options, SET "batch=8 threads=1 epochs=9 workers=3 checkpoint-every=5 keep=100 resume=auto %s out=%s/%s", strategy,
     folder, name);
  for (int at = 3; at <= 9; at += 2) {
    json_t *run;
    assert_int_equal(train(options, at, &run), RONDE_E_CANCELLED);
    json_decref(run);
    char **paths;
    int n;
    char path[512];
    in(path, "%s/%s", folder, name);
    assert_int_equal(ronde__checkpoint_list(path, &paths, &n), RONDE_OK);
    for (int i = 0; i < n; ++i) {
      assert_int_equal(strtol(strstr(paths[i], "step-") + 5, NULL, 10) % 5, 0);
      free(paths[i]);
    }
    ronde__free(paths);
  }
}

/* Also where workers are held until others catch up. */
static void test_an_interrupted_asynchronous_run_goes_on_where_it_met(void **state) {
  check_interrupted("strategy=ps-async", "free");
  check_interrupted("strategy=ps-ssp staleness=0", "bounded");
  check_interrupted("strategy=downpour n-push=4 n-fetch=3", "downpour");
  check_interrupted("strategy=downpour warm-start=2 servers=2", "warm");
  check_interrupted("strategy=localsgd sync-every=2", "local");
  check_interrupted("strategy=localsgd sync-every=3 sync-overlap=on", "overlapped");
}

/* A run that is measured writes nothing that was not asked for. */
static void test_nothing_is_saved_that_was_not_asked_for(void **state) {
  char path[512];
  bool any;
  json_decref(run_of(ASYNC "epochs=2 workers=2 save-last=off out=%s/run", folder));
  in(path, "%s/run", folder);
  assert_int_equal(ronde__checkpoint_any(path, &any), RONDE_OK);
  assert_false(any);
}

static void check_refused(const char *options, const char *a, const char *b) {
  check_failed(&lines, train(options, 0, NULL), RONDE_E_USAGE, a, b);
}

static void test_what_only_its_strategy_can_go_on_with_is_refused(void **state) {
  char options[512];
  json_decref(run_of(ASYNC "epochs=1 workers=2 out=%s/run", folder));
  in(options, "epochs=2 resume=%s/run workers=3", folder);
  check_refused(options, "--workers 3 cannot resume", "its own updates");
  in(options, "epochs=2 resume=%s/run strategy=allreduce", folder);
  check_refused(options, "--strategy allreduce cannot resume", "its own updates");
  json_decref(run_of("strategy=ps-ssp staleness=1 epochs=1 workers=2 servers=2 out=%s/bounded", folder));
  in(options, "epochs=2 resume=%s/bounded strategy=allreduce", folder);
  check_refused(options, "--strategy allreduce cannot resume", "a run of ps-ssp");
  json_decref(run_of("strategy=downpour n-push=3 epochs=1 workers=2 servers=2 out=%s/downpour", folder));
  in(options, "epochs=2 resume=%s/downpour workers=3", folder);
  check_refused(options, "--workers 3 cannot resume", "its own updates");
  in(options, "epochs=2 resume=%s/downpour strategy=allreduce", folder);
  check_refused(options, "--strategy allreduce cannot resume", "a run of downpour");
  json_t *rest = run_of("epochs=2 n-push=2 n-fetch=4 servers=1 placement=dedicated resume=%s/downpour", folder);
  assert_string_equal(text_at(rest, "world.strategy"), "downpour");
  assert_string_equal(text_at(rest, "config.optimizer"), "adagrad");
  json_decref(rest);
  json_decref(run_of("epochs=1 workers=2 out=%s/other", folder));
  in(options, "epochs=2 resume=%s/other strategy=ps-async", folder);
  check_refused(options, "--strategy ps-async cannot resume", "a run of allreduce");
  in(options, SET "batch=8 " ASYNC "workers=2 checkpoint-every=10s out=%s/new", folder);
  check_refused(options, "--checkpoint-every 10s", "so give a number of steps");
}

/* ---- local SGD ----------------------------------------------------------------------------------------------------- */

#define LOCAL "strategy=localsgd workers=3 sync-every=3 "

/* Every worker's state is one at a checkpoint, in the middle of an epoch as at its end. A run with the same meetings has
 * the same bits. */
static void check_local_resume(const char *how, int step) {
  json_t *whole = run_of(LOCAL "%s epochs=3 checkpoint-every=5 keep=100 overwrite=on out=%s/whole", how, folder);
  json_t *rest =
      run_of("epochs=3 overwrite=on out=%s/rest resume=%s/whole/checkpoints/step-%d.safetensors", folder, folder, step);
  assert_int_equal(real_at(rest, "resumed_from.step"), step);
  assert_string_equal(text_at(rest, "world.strategy"), "localsgd");
  assert_string_equal(text_at(rest, "result.weights_sha256"), text_at(whole, "result.weights_sha256"));
  assert_string_equal(text_at(rest, "result.state_sha256"), text_at(whole, "result.state_sha256"));
  assert_true(fabs(real_at(rest, "result.train_loss") - real_at(whole, "result.train_loss")) < 1e-12);
  assert_true(real_at(rest, "result.test_loss") == real_at(whole, "result.test_loss"));
  json_decref(whole);
  json_decref(rest);
}

static void test_a_resumed_local_run_has_the_bits_of_a_whole_one(void **state) {
  static const char *const how[] = {"momentum=0.9",
                                    "optimizer=adam",
                                    "outer-lr=0.7 outer-momentum=0.6",
                                    "momentum=0.9 sync-overlap=on",
                                    "sync-overlap=on outer-momentum=0.6",
                                    "optimizer=adam local-after=9",
                                    "outer-momentum=0.6 momentum=0.9 wire=bf16",
                                    "sync-overlap=on wire=bf16"};
  for (size_t i = 0; i < RONDE__COUNT(how); ++i)
    for (int step = 5; step <= 15; step += 5) check_local_resume(how[i], step);
}

/* Without --checkpoint-every the workers meet at the end of an epoch. */
static void test_more_epochs_of_a_local_run(void **state) {
  json_t *whole = run_of(LOCAL "outer-momentum=0.6 sync-overlap=on optimizer=adam epochs=3");
  json_decref(run_of(LOCAL "outer-momentum=0.6 sync-overlap=on optimizer=adam epochs=2 out=%s/run", folder));
  json_t *rest = run_of("epochs=3 resume=%s/run", folder);
  assert_string_equal(text_at(rest, "result.weights_sha256"), text_at(whole, "result.weights_sha256"));
  assert_string_equal(text_at(rest, "result.state_sha256"), text_at(whole, "result.state_sha256"));
  json_decref(whole);
  json_decref(rest);
}

/* Weights, the mean of the optimizers' states, and the outer momentum are one state, whoever goes on with it. What one
 * worker goes on with is the same in all strategies that equal one. */
static void test_others_go_on_with_a_local_run_and_it_with_theirs(void **state) {
  json_decref(run_of(LOCAL "outer-momentum=0.6 optimizer=adam epochs=1 out=%s/run", folder));
  json_t *single = run_of(
      "epochs=2 workers=1 strategy=single out=%s/single resume=%s/run/checkpoints/step-7.safetensors", folder, folder);
  json_t *local = run_of(
      "epochs=2 workers=1 outer-momentum=0 out=%s/alone resume=%s/run/checkpoints/step-7.safetensors", folder, folder);
  assert_string_equal(text_at(local, "world.strategy"), "localsgd");
  assert_string_equal(text_at(local, "result.state_sha256"), text_at(single, "result.state_sha256"));
  json_decref(local);
  json_decref(single);
  static const char *const others[] = {"workers=2 strategy=allreduce", "wire=bf16", "workers=3 strategy=ps-sync",
                                       "workers=2", "sync-every=1 outer-momentum=0.1"};
  for (size_t i = 0; i < RONDE__COUNT(others); ++i) {
    json_t *other = run_of("epochs=2 %s overwrite=on out=%s/other resume=%s/run/checkpoints/step-7.safetensors",
                           others[i], folder, folder);
    assert_int_equal(real_at(other, "totals.steps"), EPOCH_STEPS);
    json_decref(other);
  }
  json_decref(run_of("workers=2 optimizer=adam epochs=1 out=%s/all", folder));
  json_t *outer = run_of("epochs=2 strategy=localsgd sync-every=3 outer-momentum=0.6 resume=%s/all", folder);
  assert_string_equal(text_at(outer, "world.strategy"), "localsgd");
  json_decref(outer);
}

/* ---- what a strategy adds ------------------------------------------------------------------------------------------ */

enum { PLANTED_WORKERS = 2 };

static struct planted {
  ronde__worker *worker;
  void *state;
} planted_ranks[PLANTED_WORKERS];
static float first_seen; /* of rank 1's array, when it is created */
static int64_t noted_then;

static ronde_status planted_create(ronde__worker *worker, const ronde__strategy_settings *settings, void **state_out) {
  RONDE_TRY(real->create(worker, settings, state_out));
  planted_ranks[worker->transport->rank] = (struct planted){worker, *state_out};
  if (worker->transport->rank == 1) first_seen = worker->arrays[0].values[0];
  if (worker->transport->rank == 0 && worker->note)
    noted_then = json_integer_value(json_object_get(worker->note, "steps"));
  return RONDE_OK;
}

/* Each counts its steps in what it keeps. */
static ronde_status planted_step(void *state, const ronde__step *step, ronde__step_result *result_out) {
  ronde__worker *worker = planted_ranks[planted_ranks[1].state == state].worker;
  for (size_t i = 0; i < ronde__net_n_trained(worker->net); ++i) worker->arrays[0].values[i] += 1;
  return real->step(state, step, result_out);
}

static json_t *planted_note(const void *state) {
  return json_pack("{s:i}", "steps", (int)planted_ranks[0].worker->arrays[0].values[0]);
}

static void plant(ronde__job *job) {
  static const char *const arrays[] = {"steps_made", NULL};
  ronde__strategy *planted = plant_strategy(job, planted_create, planted_step);
  planted->arrays = arrays;
  planted->note = planted_note;
}

static void test_a_strategy_gets_back_what_it_adds(void **state) {
  char options[512];
  ronde_source source = small_source(40, 0);
  noted_then = -1;
  in(options, "threads=1 batch=8 workers=%d optimizer=adam steps=3 out=%s/run", PLANTED_WORKERS, folder);
  observed o = observe(options, &source, small_model, plant);
  assert_int_equal(o.status, RONDE_OK);
  assert_int_equal((int)first_seen, 0);
  assert_int_equal(noted_then, -1);
  free(o.weights);
  in(options, "threads=1 batch=8 steps=5 resume=%s/run", folder);
  o = observe(options, &source, small_model, plant);
  assert_int_equal(o.status, RONDE_OK);
  assert_int_equal((int)first_seen, 3);
  assert_int_equal(noted_then, 3);
  free(o.weights);
}

/* ---- what a strategy declares -------------------------------------------------------------------------------------- */

#define RONDE_STRATEGY(name) extern const ronde__strategy ronde__strategy_##name;
#include "strategy/strategies.inc"
#undef RONDE_STRATEGY

static const ronde__strategy *const strategies[] = {
#define RONDE_STRATEGY(name) &ronde__strategy_##name,
#include "strategy/strategies.inc"
#undef RONDE_STRATEGY
};

/* Those that say that a step of theirs is one worker's: a new row is covered by being there. */
static void test_who_says_so_equals_one_worker(void **state) {
  ronde_source source = small_source(14, 0);
  int n_equal = 0;
  observed fresh = observe("threads=1 steps=1 lr=0 batch=14", &source, small_model, NULL);
  for (size_t i = 0; i < RONDE__COUNT(strategies); ++i) {
    char options[512];
    bool is_lbfgs = strategies[i]->optimizer && !strcmp(strategies[i]->optimizer, "lbfgs");
    const char *how = is_lbfgs ? "optimizer=lbfgs lbfgs-iterations=2" : "";
    if (!strategies[i]->equals_one || strategies[i]->max_workers == 1) continue;
    in(options, "threads=1 steps=1 lr=0.5 batch=14 %s", how);
    observed one = observe(options, &source, small_model, NULL);
    in(options, "threads=1 steps=1 lr=0.5 batch=14 workers=3 %s strategy=%s", how, strategies[i]->name);
    observed o = observe(options, &source, small_model, NULL);
    assert_int_equal(o.status, RONDE_OK);
    assert_true(update_difference(&o, &one, &fresh) < (is_lbfgs ? 1e-3 : 1e-5)); /* line searches magnify rounding */
    free(one.weights);
    free(o.weights);
    n_equal++;
  }
  assert_true(n_equal >= 2);
  free(fresh.weights);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder_with_log, remove_folder)
  const struct CMUnitTest tests[] = {TEST(test_a_resumed_asynchronous_worker_has_the_bits_of_a_whole_run),
                                     TEST(test_what_was_not_pushed_yet_is_in_a_checkpoint),
                                     TEST(test_asynchronous_workers_meet_for_a_checkpoint),
                                     TEST(test_an_interrupted_asynchronous_run_goes_on_where_it_met),
                                     TEST(test_nothing_is_saved_that_was_not_asked_for),
                                     TEST(test_what_only_its_strategy_can_go_on_with_is_refused),
                                     TEST(test_a_resumed_local_run_has_the_bits_of_a_whole_one),
                                     TEST(test_more_epochs_of_a_local_run),
                                     TEST(test_others_go_on_with_a_local_run_and_it_with_theirs),
                                     TEST(test_a_strategy_gets_back_what_it_adds),
                                     TEST(test_who_says_so_equals_one_worker)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

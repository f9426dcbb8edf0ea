/* What belongs to the state of a run is the strategy's to say: what it gathers for a checkpoint and adds to it, and what
 * may go on from one. */
#include "strategy/strategy.h"
#include "resume_testing.h"

enum { EPOCH_STEPS = 7 }; /* of SET by batches of 8 */

static const char *const optimizers[] = {"momentum=0.9", "optimizer=adam"};

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

/* One worker has nobody to be late for, so its run has the same bits each time. */
static void check_one_worker(const char *optimizer, int step, const char *every) {
  json_t *whole = run_of(ASYNC "%s epochs=3 servers=2 placement=dedicated", optimizer);
  json_t *first = run_of(ASYNC "%s epochs=2 servers=1 out=%s/run overwrite=on keep=100 %s", optimizer, folder, every);
  json_t *rest = run_of(ASYNC "%s epochs=3 servers=2 placement=dedicated resume=%s/run/checkpoints/step-%d.safetensors",
                        optimizer, folder, step);
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
  for (size_t i = 0; i < RONDE__COUNT(optimizers); ++i) {
    check_one_worker(optimizers[i], EPOCH_STEPS, "");
    check_one_worker(optimizers[i], 5, "checkpoint-every=5");
  }
}

static double noted(const char *run, int step, const char *name) {
  char path[512];
  in(path, "%s/%s/checkpoints/step-%d.safetensors", folder, run, step);
  ronde__resume *resume;
  assert_int_equal(ronde__resume_open(path, &resume), RONDE_OK);
  double value = json_number_value(json_object_get(json_object_get(resume->json, "place"), name));
  ronde__resume_close(resume);
  return value;
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
  json_decref(run_of("epochs=1 workers=2 out=%s/other", folder));
  in(options, "epochs=2 resume=%s/other strategy=ps-async", folder);
  check_refused(options, "--strategy ps-async cannot resume", "a run of allreduce");
  in(options, SET "batch=8 " ASYNC "workers=2 checkpoint-every=10s out=%s/new", folder);
  check_refused(options, "--checkpoint-every 10s", "so give a number of steps");
}

/* ---- what a strategy adds ------------------------------------------------------------------------------------------ */

enum { PLANTED_WORKERS = 2 };

static const ronde__strategy *real;
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
  static ronde__strategy planted;
  real = job->strategy;
  planted = *real;
  planted.create = planted_create;
  planted.step = planted_step;
  planted.arrays = arrays;
  planted.note = planted_note;
  job->strategy = &planted;
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
  observed one = observe("threads=1 steps=1 lr=0.5 batch=14", &source, small_model, NULL);
  for (size_t i = 0; i < RONDE__COUNT(strategies); ++i) {
    char options[512];
    if (!strategies[i]->equals_one || strategies[i]->max_workers == 1) continue;
    in(options, "threads=1 steps=1 lr=0.5 batch=14 workers=3 strategy=%s", strategies[i]->name);
    observed o = observe(options, &source, small_model, NULL);
    assert_int_equal(o.status, RONDE_OK);
    assert_true(update_difference(&o, &one, &fresh) < 1e-5);
    free(o.weights);
    n_equal++;
  }
  assert_true(n_equal >= 2);
  free(fresh.weights);
  free(one.weights);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
  const struct CMUnitTest tests[] = {TEST(test_a_resumed_asynchronous_worker_has_the_bits_of_a_whole_run),
                                     TEST(test_asynchronous_workers_meet_for_a_checkpoint),
                                     TEST(test_an_interrupted_asynchronous_run_goes_on_where_it_met),
                                     TEST(test_nothing_is_saved_that_was_not_asked_for),
                                     TEST(test_what_only_its_strategy_can_go_on_with_is_refused),
                                     TEST(test_a_strategy_gets_back_what_it_adds),
                                     TEST(test_who_says_so_equals_one_worker)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

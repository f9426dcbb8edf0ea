/* Whole runs with --optimizer lbfgs: N workers make the line searches of one, a checkpoint holds all that they go on
 * from, and numbers that break are named. What the steps themselves must be, lbfgs_test.c and golden_lbfgs_test.c say. */
#include "resume_testing.h"
#include "sanitized.h"

/* Of sums of f32 in another order, after some iterations. */
#define TOLERANCE 1e-3

#define LBFGS "optimizer=lbfgs threads=1 shuffle=off "

static observed observe_lbfgs(ronde_model_fn model, const char *format, ...) __attribute__((format(printf, 2, 3)));

static observed observe_lbfgs(ronde_model_fn model, const char *format, ...) {
  char more[384], options[512];
  va_list args;
  va_start(args, format);
  vsnprintf(more, sizeof more, format, args);
  va_end(args);
  in(options, LBFGS "%s", more);
  ronde_source source = small_source(29, 0);
  observed o = observe(options, &source, model, NULL);
  if (o.status != RONDE_OK) fail_msg("%s: status %d", options, o.status);
  return o;
}

static void check_alike(const char *what, const observed *a, const observed *b, const observed *fresh) {
  assert_int_equal(a->n_steps, b->n_steps);
  for (int64_t i = 0; i < a->n_steps; i++)
    if (!(fabs(a->loss[i] - b->loss[i]) <= TOLERANCE * fabs(b->loss[i])))
      fail_msg("%s: the loss of step %d is %.9g, not %.9g", what, (int)i + 1, a->loss[i], b->loss[i]);
  double difference = update_difference(a, b, fresh);
  if (!(difference <= TOLERANCE)) fail_msg("%s: updates differ by %g", what, difference);
}

/* The whole set as the batch, batches with a short last one, and one in several passes; taps that meet only padding. */
static void test_any_number_of_workers_makes_the_steps_of_one(void **state) {
  static const char *const cases[] = {"batch=29 epochs=3 lbfgs-iterations=4", "batch=13 epochs=2 lbfgs-iterations=2",
                                      "batch=5 accumulate=6 epochs=3 lbfgs-iterations=4 lbfgs-history=2"};
  static const int worlds[] = {2, 3, 4, 7};
  ronde_model_fn const models[] = {small_model, dead_taps_model};
  for (size_t m = 0; m < RONDE__COUNT(models); m++)
    for (size_t c = 0; c < RONDE__COUNT(cases); c++) {
      observed fresh = observe_lbfgs(models[m], "batch=29 lbfgs-tolerance-grad=1e9");
      observed one = observe_lbfgs(models[m], "%s", cases[c]);
      assert_true(one.loss[one.n_steps - 1] < one.loss[0]);
      for (size_t w = 0; w < RONDE__COUNT(worlds); w++)
        for (int overlap = 0; overlap < 2; overlap++) {
          if (IN_PART && worlds[w] != 3) continue;
          observed many = observe_lbfgs(models[m], "%s workers=%d overlap=%s bucket-mb=0.001", cases[c], worlds[w],
                                        overlap ? "on" : "off");
          assert_true(replicas_equal(&many));
          check_alike(cases[c], &many, &one, &fresh);
          free(many.weights);
        }
      free(fresh.weights);
      free(one.weights);
    }
}

/* One batch of all, or all of them in several passes: the same function. */
static void test_a_step_of_several_batches_is_one_of_their_sum(void **state) {
  observed fresh = observe_lbfgs(small_model, "batch=29 lbfgs-tolerance-grad=1e9");
  observed whole = observe_lbfgs(small_model, "batch=29 epochs=3 lbfgs-iterations=4");
  observed parts = observe_lbfgs(small_model, "batch=8 accumulate=4 epochs=3 lbfgs-iterations=4");
  observed eager = observe_lbfgs(small_model, "batch=29 epochs=3 lbfgs-iterations=4 exec=eager");
  check_alike("accumulate", &parts, &whole, &fresh);
  assert_true(bits_equal(&eager, &whole));
  free(fresh.weights);
  free(whole.weights);
  free(parts.weights);
  free(eager.weights);
}

static json_t *run_of(const char *format, ...) __attribute__((format(printf, 1, 2)));

static json_t *run_of(const char *format, ...) {
  char more[384], options[512];
  va_list args;
  va_start(args, format);
  vsnprintf(more, sizeof more, format, args);
  va_end(args);
  in(options, SET LBFGS "%s", more);
  json_t *run;
  assert_int_equal(train(options, 0, &run), RONDE_OK);
  return run;
}

/* The ring of pairs is full, half full, and empty; batches change, and there are statistics and dropout. */
static void test_a_resumed_run_has_the_bits_of_a_whole_one(void **state) {
  for (int workers = IN_PART ? 3 : 1; workers <= 3; workers += 2)
    for (int stop = 1; stop <= 7; stop += IN_PART ? 4 : 2) {
      const char *how = "batch=18 epochs=3 lbfgs-iterations=2 lbfgs-history=5";
      char options[512], again[512];
      json_t *whole = run_of("%s workers=%d", how, workers), *rest;
      in(options, SET LBFGS "%s workers=%d overwrite=on out=%s/part", how, workers, folder);
      in(again, "resume=%s/part", folder);
      assert_int_equal(train(options, stop, NULL), RONDE_E_CANCELLED);
      assert_int_equal(train(again, 0, &rest), RONDE_OK);
      assert_int_equal((int)real_at(rest, "resumed_from.step"), stop);
      assert_string_equal(text_at(rest, "result.weights_sha256"), text_at(whole, "result.weights_sha256"));
      assert_string_equal(text_at(rest, "result.state_sha256"), text_at(whole, "result.state_sha256"));
      json_decref(whole);
      json_decref(rest);
    }
}

/* The history is the same on all ranks, so another number of workers goes on with it. */
static void test_a_run_goes_on_with_another_number_of_workers(void **state) {
  char options[512];
  json_t *run;
  json_decref(run_of("batch=53 steps=2 lbfgs-iterations=4 out=%s/world", folder));
  in(options, "resume=%s/world steps=4 workers=2", folder);
  assert_int_equal(train(options, 0, &run), RONDE_OK);
  assert_string_equal(text_at(run, "world.strategy"), "allreduce");
  assert_int_equal((int)real_at(run, "totals.steps"), 2);
  json_decref(run);
}

static void test_steps_say_how_often_they_evaluate(void **state) {
  char path[512];
  json_t *step;
  size_t i;
  json_decref(run_of("batch=53 steps=3 lbfgs-iterations=4 out=%s/count", folder));
  in(path, "%s/count", folder);
  json_t *steps = steps_file(path);
  assert_int_equal(json_array_size(steps), 3);
  json_array_foreach(steps, i, step) {
    assert_in_range(json_integer_value(json_object_get(step, "evaluations")), 2, 6);
    assert_true(json_number_value(json_object_get(step, "lr")) == 1); /* not the default of others */
  }
  json_decref(steps);
}

/* ---- numbers that break ---------------------------------------------------------------------------------------------- */

static void test_broken_steps_are_named_and_left_out(void **state) {
  for (int workers = 1; workers <= 2; workers++) {
    char options[512];
    json_t *run;
    ronde_source source = small_source(24, 0);
    source.read = small_nan_read;
    in(options, LBFGS "batch=8 workers=%d lbfgs-iterations=2", workers);
    assert_int_equal(train_on(options, source, small_model, &run), RONDE_E_NUMERIC);
    assert_int_equal(lines.n_errors, 1);
    assert_non_null(strstr(lines.error, "step 2: the loss of rank"));
    json_decref(run);
    in(options, LBFGS "batch=8 workers=%d lbfgs-iterations=2 skip-bad-steps=1", workers);
    assert_int_equal(train_on(options, source, small_model, &run), RONDE_OK);
    assert_int_equal((int)real_at(run, "totals.skipped_steps"), 1);
    json_decref(run);
  }
}

/* So far that weights overflow: the line search comes back. */
static void test_a_first_step_length_that_is_far_too_long(void **state) {
  observed o = observe_lbfgs(dead_taps_model, "batch=29 epochs=2 lr=1e9 lbfgs-evaluations=300");
  assert_int_equal(o.n_steps, 2);
  assert_true(isfinite(o.loss[1]) && o.loss[1] < o.loss[0]);
  free(o.weights);
}

/* ---- what is refused ------------------------------------------------------------------------------------------------- */

static void test_what_has_no_effect_is_refused(void **state) {
  static const char *const options[] = {
      "momentum=0.9",    "betas=0.8,0.9",       "eps=1e-3",    "lr-schedule=cosine", "warmup=3",
      "clip=1",          "weight-decay=0.1",    "nesterov=on", "strategy=ps-sync",   "strategy=ps-async",
      "strategy=ps-ssp", "lr-scale-workers=on", "lr=0"};
  for (size_t i = 0; i < RONDE__COUNT(options); i++) {
    char text[512];
    test_log_start(&lines);
    in(text, SET LBFGS "batch=8 workers=2 %s", options[i]);
    if (train(text, 0, NULL) != RONDE_E_USAGE) fail_msg("%s is taken", options[i]);
    assert_int_equal(lines.n_errors, 1);
  }
  static const char *const own[] = {"lbfgs-history=3", "lbfgs-iterations=3", "lbfgs-evaluations=3",
                                    "lbfgs-tolerance-grad=1", "lbfgs-tolerance-change=1"};
  for (size_t i = 0; i < RONDE__COUNT(own); i++) {
    char text[512];
    in(text, SET "batch=8 %s", own[i]);
    if (train(text, 0, NULL) != RONDE_E_USAGE) fail_msg("%s is taken without lbfgs", own[i]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_any_number_of_workers_makes_the_steps_of_one),
      cmocka_unit_test(test_a_step_of_several_batches_is_one_of_their_sum),
      cmocka_unit_test(test_a_resumed_run_has_the_bits_of_a_whole_one),
      cmocka_unit_test(test_a_run_goes_on_with_another_number_of_workers),
      cmocka_unit_test(test_steps_say_how_often_they_evaluate),
      cmocka_unit_test(test_broken_steps_are_named_and_left_out),
      cmocka_unit_test(test_a_first_step_length_that_is_far_too_long),
      cmocka_unit_test(test_what_has_no_effect_is_refused),
  };
  return cmocka_run_group_tests(tests, make_folder_with_log, remove_folder);
}

/* `ronde bench batches`: what it searches and counts, what it concludes of counts that are planted, where it refuses to, and
 * that it goes on where it was broken off. */
#include "command_testing.h"

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <unistd.h>

#define SMALL                                                                                        \
  RONDE                                                                                              \
  " bench batches --model mlp:32 --data synthetic:1x4x4:2:600 --train-examples 160 --batch 8,16,32 " \
  "--threads 1 --rounds 3 --steps 400 "
#define BATCHES SMALL "--lr 0.000001,0.05,1e9 --target-accuracy 0.8 --out out"
enum { N_BATCHES = 3, N_SEEDS = 3, FIRST_SEED = 4 /* behind the three of the search */ };

static const int batches[N_BATCHES] = {8, 16, 32};
static char folder[64];

static json_t *load(const char *name) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  json_t *json = json_load_file(path, 0, NULL);
  if (!json) fail_msg("no %s", path);
  return json;
}

static int make_result(void **state) {
  snprintf(folder, sizeof folder, "/tmp/ronde-batches-XXXXXX");
  if (!mkdtemp(folder)) return 1;
  int code = run("cd %s && " BATCHES, folder);
  if (code) print_message("%s\n", said);
  return code;
}

static int remove_result(void **state) { return run("rm -rf %s", folder); }

static const char *text(const json_t *object, const char *key) {
  const char *value = json_string_value(json_object_get(object, key));
  return value ? value : "";
}
static double number(const json_t *object, const char *key) { return json_number_value(json_object_get(object, key)); }
static const json_t *one_of(const json_t *bench, size_t i) {
  return json_array_get(json_object_get(bench, "cases"), i);
}

/* ---- what it searches and counts ---- */

/* A line between the tests around the target, from what the training itself recorded. */
static double steps_of(int batch, int seed) {
  char name[128];
  snprintf(name, sizeof name, "out/batch=%d,lr=0.05,seed=%d/run.json", batch, seed);
  json_t *run = load(name), *row;
  double before = NAN, at = 0, steps = 0, found = NAN;
  size_t i;
  json_array_foreach(json_object_get(run, "epochs"), i, row) {
    double accuracy = number(row, "test_accuracy");
    steps += number(row, "steps");
    if (accuracy >= 0.8) {
      found = isnan(before) ? steps : at + (steps - at) * (0.8 - before) / (accuracy - before);
      break;
    }
    before = accuracy;
    at = steps;
  }
  json_decref(run);
  return found;
}

static void the_best_rate_is_found_and_measured_with_other_seeds(void **state) {
  json_t *bench = load("out/bench.json");
  assert_string_equal(text(bench, "verb"), "bench batches");
  assert_string_equal(text(bench, "schema"), "ronde.bench.v1");
  assert_true(json_is_false(json_object_get(bench, "ranked")));
  for (int b = 0; b < N_BATCHES; b++) {
    const json_t *one = one_of(bench, (size_t)b), *samples, *search = json_object_get(one, "search"), *trial;
    int n_reached = 0;
    size_t i;
    assert_int_equal(number(one, "batch"), batches[b]);
    assert_true(number(one, "lr") == 0.05);
    assert_true(json_is_false(json_object_get(one, "is_at_edge")));
    json_array_foreach((json_t *)search, i, trial) {
      n_reached += strcmp(text(trial, "ended"), "reached") == 0;
      assert_true(number(trial, "seed") < FIRST_SEED);
    }
    assert_int_equal(json_array_size(search), 5); /* the grid, and the best with two more seeds */
    assert_int_equal(n_reached, 3);
    samples = json_object_get(json_object_get(one, "steps_to_target"), "samples");
    assert_int_equal(json_array_size(samples), N_SEEDS);
    for (int k = 0; k < N_SEEDS; k++) {
      double expected = steps_of(batches[b], FIRST_SEED + k),
             is = json_number_value(json_array_get(samples, (size_t)k));
      assert_true(fabs(is - expected) < 1e-9 * expected);
    }
    assert_true(json_is_object(json_object_get(one, "audit")));
    assert_true(json_array_size(json_object_get(one, "command")) > 5);
  }
  json_decref(bench);
}

/* ---- what it concludes ---- */

/* Makes the trainings of a batch with the seeds that count reach the target after these steps; 0: never. */
static void plant(int batch, const double steps[N_SEEDS]) {
  for (int k = 0; k < N_SEEDS; k++) {
    char name[256];
    snprintf(name, sizeof name, "out/batch=%d,lr=0.05,seed=%d/run.json", batch, FIRST_SEED + k);
    json_t *run = load(name);
    /* tests at 2/3 and 4/3 of the steps: the target is in the middle between their accuracies */
    json_object_set_new(
        run, "epochs",
        json_pack("[{s:f, s:f, s:i}, {s:f, s:f, s:i}]", "steps", steps[k] * 2 / 3, "test_accuracy", 0.7, "examples",
                  160, "steps", steps[k] * 2 / 3, "test_accuracy", steps[k] ? 0.9 : 0.75, "examples", 160));
    snprintf(name, sizeof name, "%s/out/batch=%d,lr=0.05,seed=%d/run.json", folder, batch, FIRST_SEED + k);
    assert_int_equal(json_dump_file(run, name, JSON_REAL_PRECISION(17)), 0);
    json_decref(run);
  }
}

static json_t *concluded(const double steps[N_BATCHES][N_SEEDS]) {
  for (int b = 0; b < N_BATCHES; b++) plant(batches[b], steps[b]);
  check_run(0, run("cd %s && " BATCHES, folder));
  return load("out/bench.json");
}

static void check_batch(const json_t *regimes, const char *field, int batch) {
  const json_t *value = json_object_get(regimes, field);
  if (batch) assert_int_equal(json_integer_value(value), batch);
  else assert_true(json_is_null(value));
}

static void check_regimes(const double steps[N_BATCHES][N_SEEDS], const int expected[4], const char *says) {
  static const char *const fields[] = {"perfect_to", "perfect_ended_by", "gains_to", "gain_stopped_by"};
  json_t *bench = concluded(steps);
  const json_t *regimes = json_object_get(bench, "regimes");
  for (int i = 0; i < 4; i++) check_batch(regimes, fields[i], expected[i]);
  if (!strstr(text(regimes, "text"), says)) fail_msg("'%s' is not in '%s'", says, text(regimes, "text"));
  json_decref(bench);
}

static void regimes_are_what_the_counts_say(void **state) {
  /* half the steps, then no fewer */
  check_regimes((const double[N_BATCHES][N_SEEDS]){{800, 808, 792}, {400, 404, 396}, {396, 400, 392}},
                (const int[]){16, 32, 16, 32},
                "Perfect scaling ends between batch 16 and 32. Gain by larger batches stops between batch 16 and 32.");
  /* half the steps twice */
  check_regimes((const double[N_BATCHES][N_SEEDS]){{800, 808, 792}, {400, 404, 396}, {200, 202, 198}},
                (const int[]){32, 0, 32, 0}, "Perfect scaling holds up to batch 32, the largest that counts.");
  /* less than half, but fewer */
  check_regimes((const double[N_BATCHES][N_SEEDS]){{800, 808, 792}, {560, 565, 555}, {392, 396, 388}},
                (const int[]){8, 16, 32, 0}, "Perfect scaling ends between batch 8 and 16.");
  /* seeds that differ by more than the regimes */
  check_regimes((const double[N_BATCHES][N_SEEDS]){{800, 400, 1600}, {400, 900, 200}, {300, 500, 100}},
                (const int[]){8, 0, 8, 0}, "by which one it ends cannot be told");
}

static void what_one_seed_did_not_reach_is_open(void **state) {
  check_regimes((const double[N_BATCHES][N_SEEDS]){{800, 808, 792}, {400, 404, 396}, {200, 0, 198}},
                (const int[]){16, 0, 16, 0}, "Batch 32 is open: only 2 of 3 seeds reached the target");
  check_regimes((const double[N_BATCHES][N_SEEDS]){{800, 0, 792}, {400, 404, 396}, {200, 202, 198}},
                (const int[]){0, 0, 0, 0}, "Nothing can be concluded: batch 8 and above are open");
}

static void numbers_stand_in_the_report(void **state) {
  json_t *bench = concluded((const double[N_BATCHES][N_SEEDS]){{800, 808, 792}, {400, 404, 396}, {396, 400, 392}});
  check_run(0, run("cd %s && " RONDE " report out -o out.html && " RONDE " report out -o out.md", folder));
  for (int b = 0; b < N_BATCHES; b++) {
    double median = number(json_object_get(one_of(bench, (size_t)b), "steps_to_target"), "median");
    check_run(0, run("cd %s && grep -q '>%.1f<' out.html && grep -q '| %.1f |' out.md", folder, median, median));
  }
  check_run(
      0, run("cd %s && grep -q 'data-chart=\"batches\"' out.html && grep -q 'data-chart=\"rates\"' out.html", folder));
  check_run(0, run("cd %s && grep -q 'Perfect scaling ends between batch 16 and 32' out.html", folder));
  json_decref(bench);
}

/* ---- where nothing can be concluded ---- */

static void check_open(const char *options, const char *says) {
  check_run(0, run("cd %s && rm -rf other && " SMALL "--out other %s", folder, options));
  check_says("Nothing can be concluded: batch 8 and above are open: ");
  check_says(says);
}

static void it_refuses_to_conclude(void **state) {
  check_open("--lr 0.05,1e8,1e9 --target-accuracy 0.8", "the best learning rate, 0.05, is at the edge of the grid");
  check_open("--lr 0.000001,0.000002,0.000003 --target-accuracy 0.8",
             "no learning rate of the grid reached the target");
  check_open("--lr 0.000001,0.05,1e9 --target-accuracy 0.2", "reached the target by their first test");
  check_open("--lr 0.000001,0.05,1e9 --target-accuracy 0.8 --rounds 1", "--rounds 3 or more");
  /* broken numbers are an outcome of a rate, not an end of the search */
  check_open("--lr 0.000001,0.05,1e9 --target-accuracy 0.8 --drill corrupt:0@2", "no learning rate of the grid");
  json_t *bench = load("other/bench.json"), *trial;
  size_t i;
  json_array_foreach(json_object_get(one_of(bench, 0), "search"), i, trial) {
    assert_string_equal(text(trial, "ended"), "diverged");
  }
  json_decref(bench);
}

/* ---- going on ---- */

static int made(const char *more) {
  check_run(0, run("cd %s && " BATCHES " %s", folder, more));
  json_t *bench = load("out/bench.json");
  int n = (int)number(bench, "made");
  json_decref(bench);
  return n;
}

static void it_goes_on_where_it_was_broken_off(void **state) {
  enum { N_ALL = N_BATCHES * (5 + N_SEEDS) };
  assert_int_equal(made(""), 0);
  check_run(0,
            run("cd %s/out && rm -r bench.json batch=16,lr=0.05,seed=4 && echo '{' >batch=32,lr=0.05,seed=5/run.json",
                folder));
  assert_int_equal(made(""), 2);
  assert_int_equal(made("--overwrite"), N_ALL);
}

static void what_cannot_be_is_refused(void **state) {
  static const struct {
    const char *options, *says;
  } cases[] = {
      {"--lr 0.01,0.1,1 --target-accuracy 0.8", "--out is missing"},
      {"--lr 0.01,0.1,1 --out x", "--target-accuracy is missing"},
      {"--lr 0.01,0.1 --target-accuracy 0.8 --out x", "a grid of three ascending learning rates"},
      {"--lr 0.1,0.01,1 --target-accuracy 0.8 --out x", "ascending"},
      {"--lr 0.01,0.1,1 --seed 1,2 --target-accuracy 0.8 --out x", "--seed: only --batch and --lr"},
      {"--lr 0.01,0.1,1 --lr-schedule cosine --target-accuracy 0.8 --out x", "--lr-schedule cannot be combined"},
      {"--lr 0.01,0.1,1 --val-split 0.5 --target-accuracy 0.8 --out x", "--train-examples and --val-split"},
      {"--lr 0.01,0.1,1 --steps 0 --target-accuracy 0.8 --out x", "--steps is missing"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    check_run(2, run("cd %s && " SMALL "%s", folder, cases[i].options));
    check_says(cases[i].says);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_best_rate_is_found_and_measured_with_other_seeds),
      cmocka_unit_test(regimes_are_what_the_counts_say),
      cmocka_unit_test(what_one_seed_did_not_reach_is_open),
      cmocka_unit_test(numbers_stand_in_the_report),
      cmocka_unit_test(it_refuses_to_conclude),
      cmocka_unit_test(it_goes_on_where_it_was_broken_off),
      cmocka_unit_test(what_cannot_be_is_refused),
  };
  return cmocka_run_group_tests(tests, make_result, remove_result);
}

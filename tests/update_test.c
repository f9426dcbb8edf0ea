/* Where and when parameters are updated: fused into backward, or apart from it. */
#include "sanitized.h"
#include "train_testing.h"

typedef struct problem {
  const char *name, *options;
  ronde_model_fn model; /* NULL: options name a built-in one, and its data */
} problem;

static const problem problems[] = {
    {"small", "", small_model},
    {"lenet5", "model=lenet5 data=synthetic:1x28x28:10:60", NULL},
    {"resnet18", "model=resnet18 data=synthetic:3x32x32:4:36", NULL},
};

static observed train(const problem *p, const char *optimizer, const char *way, void (*tamper)(ronde__job *)) {
  char options[256];
  snprintf(options, sizeof options, "%s steps=%d batch=13 threads=1 %s %s", p->options, p == &problems[2] ? 2 : 6,
           optimizer, way);
  ronde_source source = small_source(33, 0);
  observed o = observe(options, p->model ? &source : NULL, p->model, tamper);
  if (o.status != RONDE_OK) fail_msg("%s: status %d", options, o.status);
  return o;
}

static void update_apart(ronde__job *job) {
  assert_true(job->fused_update);
  job->fused_update = false;
}

static void expect_apart(ronde__job *job) { assert_false(job->fused_update); }

/* To the last bit, with short last batches and over several epochs. */
static void test_a_fused_update_is_the_same_update(void **state) {
  static const char *const optimizers[] = {
      "optimizer=sgd lr=0.1",
      "optimizer=sgd lr=0.1 momentum=0.9 weight-decay=0.01",
      "optimizer=sgd lr=0.1 momentum=0.9 nesterov=on",
      "optimizer=adam lr=0.01 weight-decay=0.01",
      "optimizer=adamw lr=0.01 weight-decay=0.1",
      "optimizer=adagrad lr=0.01 weight-decay=0.01",
      "optimizer=rmsprop lr=0.001 momentum=0.9",
  };
  static const char *const ways[] = {"", "threads=3", "strategy=allreduce", "strategy=allreduce transport=threads"};
  for (size_t p = 0; p < RONDE__COUNT(problems) - SANITIZED; ++p) /* the large one does the same */
    for (size_t i = p == 2; i < RONDE__COUNT(optimizers); i += p == 2 ? 3 : 1) {
      observed apart = train(&problems[p], optimizers[i], "", update_apart);
      for (size_t w = 0; w < (p == 2 ? 2 : RONDE__COUNT(ways)); ++w) {
        observed fused = train(&problems[p], optimizers[i], ways[w], NULL);
        if (!bits_equal(&apart, &fused)) fail_msg("%s: %s %s: other bits", problems[p].name, optimizers[i], ways[w]);
        free(fused.weights);
      }
      free(apart.weights);
    }
}

static void test_gradients_that_are_needed_whole_are_kept(void **state) {
  static const char *const needs[] = {"clip=1", "accumulate=2", "workers=2"};
  for (size_t i = 0; i < RONDE__COUNT(needs); ++i) free(train(&problems[0], "lr=0.1", needs[i], expect_apart).weights);
}

static void test_the_record_says_how(void **state) {
  ronde_source source = small_source(16, 0);
  ronde_hooks hooks = {.model = small_model, .source = &source};
  for (int fused = 0; fused < 2; ++fused) {
    json_t *run = job_run("train", fused ? "steps=2 batch=8" : "steps=2 batch=8 clip=1", &hooks), *row;
    bool found = false;
    size_t i;
    json_array_foreach(json_at(run, "choices"), i, row) {
      if (strcmp(text_at(row, "choice"), "update")) continue;
      found = true;
      assert_string_equal(text_at(row, "value"), fused ? "fused" : "apart");
    }
    assert_true(found);
    json_decref(run);
  }
}

/* ---- broken numbers ---------------------------------------------------------------------------------------------- */

static float huge;

/* The loss stays finite, but the sum of fc1's gradients does not. */
static ronde_status huge_read(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                              float *targets) {
  memset(x, 0, (size_t)(n * SMALL_PIXELS) * sizeof *x);
  for (int64_t i = 0; i < n; ++i) x[i * SMALL_PIXELS] = huge, labels[i] = i % SMALL_CLASSES;
  return RONDE_OK;
}

static ronde_tensor *two_layers(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  return ronde_linear(ronde_linear(ronde_flatten(x), "fc1", 7, false), "fc2", classes, false);
}

/* The weights of fc1 and fc2 before and after the step. */
static float fc[2][2][7 * SMALL_PIXELS];
static ronde__step_result seen;

static void look(ronde__net *net, float out[2][7 * SMALL_PIXELS]) {
  for (int p = 0; p < 2; ++p) ronde__net_get(net, p, out[p]);
}

static ronde_status watched_step(void *state, const ronde__step *step, ronde__step_result *result_out) {
  ronde__worker *worker = state;
  ronde__step unscaled = *step;
  unscaled.examples = 1;
  look(worker->net, fc[0]);
  RONDE_TRY(ronde__worker_step(worker, &unscaled, result_out));
  look(worker->net, fc[1]);
  seen = *result_out;
  return RONDE_OK;
}

static ronde__strategy watched;

static void watch(ronde__job *job) {
  watched = *job->strategy;
  watched.step = watched_step;
  job->strategy = &watched;
}

static void watch_apart(ronde__job *job) {
  watch(job);
  update_apart(job);
}

static void check_broken(void (*tamper)(ronde__job *), int broken_param, bool fc2_changes) {
  ronde_source source = small_source(40, 0);
  source.read = huge_read;
  observed o = observe("steps=1 batch=40 lr=0.1 shuffle=off", &source, two_layers, tamper);
  assert_int_equal(o.status, RONDE_E_NUMERIC);
  assert_int_equal(seen.broken_rank, 0);
  assert_int_equal(seen.broken_param, broken_param);
  assert_memory_equal(fc[0][0], fc[1][0], sizeof fc[0][0]);
  assert_int_equal(memcmp(fc[0][1], fc[1][1], sizeof fc[0][1]) != 0, fc2_changes);
}

/* What is promised: after a broken loss nothing has changed; after a broken gradient nothing that backward met from
 * there on, and, where updates stand apart, nothing at all. */
static void test_broken_numbers_change_no_more_than_promised(void **state) {
  huge = 5e37f;
  check_broken(watch, 0, true);
  check_broken(watch_apart, 0, false);
  huge = NAN;
  check_broken(watch, -1, false);
  check_broken(watch_apart, -1, false);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_fused_update_is_the_same_update),
      cmocka_unit_test(test_gradients_that_are_needed_whole_are_kept),
      cmocka_unit_test(test_the_record_says_how),
      cmocka_unit_test(test_broken_numbers_change_no_more_than_promised),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

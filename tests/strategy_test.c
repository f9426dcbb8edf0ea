/* Strategies as parts of whole runs: N workers do what one does, to the last bit where the order of sums is the same
 * and to a stated tolerance where it is not. */
#include "train_testing.h"
#include "sanitized.h"
#include "io/sha256.h"

/* Of sums of f32 in another order, against the largest element of the update. */
#define UPDATE_TOLERANCE 1e-5
#define LOSS_TOLERANCE 2e-6

static const int worlds[] = {1, 2, 3, 4, 7};

typedef struct problem {
  const char *name, *options;
  ronde_model_fn model; /* NULL: options name a built-in one, and its data */
  bool values;
} problem;

static const problem problems[] = {
    {"small", "", small_model, false},
    {"regression", "", small_regression, true},
    {"lenet5", "model=lenet5 data=synthetic:1x28x28:10:60", NULL, false},
    {"mnist-small", "model=mnist-small padding=valid data=synthetic:3x12x12:4:60", NULL, false},
    {"dead taps", "", dead_taps_model, false},
};

static observed train(const problem *p, int64_t n_train, void (*tamper)(ronde__job *), const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* n_train: of a problem with a source of its own. */
static observed train(const problem *p, int64_t n_train, void (*tamper)(ronde__job *), const char *format, ...) {
  char more[256], options[512];
  va_list args;
  va_start(args, format);
  vsnprintf(more, sizeof more, format, args);
  va_end(args);
  snprintf(options, sizeof options, "%s threads=1 %s", p->options, more);
  ronde_source source = p->values ? small_values(n_train, 0) : small_source(n_train, 0);
  observed o = observe(options, p->model ? &source : NULL, p->model, tamper);
  if (o.status != RONDE_OK) fail_msg("%s %s: status %d", p->name, options, o.status);
  return o;
}

static double loss_difference(const observed *a, const observed *b) {
  double largest = 0;
  assert_int_equal(a->n_steps, b->n_steps);
  for (int64_t i = 0; i < a->n_steps; ++i) largest = fmax(largest, fabs(a->loss[i] - b->loss[i]) / fabs(b->loss[i]));
  return largest;
}

static void check_close(const char *name, const observed *a, const observed *b, const observed *fresh, double factor) {
  double update = update_difference(a, b, fresh), loss = loss_difference(a, b);
  if (update > factor * UPDATE_TOLERANCE || loss > factor * LOSS_TOLERANCE)
    fail_msg("%s: updates differ by %g, losses by %g", name, update, loss);
}

/* ---- one step ---------------------------------------------------------------------------------------------------- */

/* Batches that the workers do not divide, and that leave some of them without an example. */
static void test_a_step_of_many_is_a_step_of_one(void **state) {
  static const int batches[] = {14, 5, 1};
  for (size_t p = 0; p < RONDE__COUNT(problems); ++p)
    for (size_t b = 0; b < RONDE__COUNT(batches); ++b) {
      observed fresh = train(&problems[p], 14, NULL, "steps=1 lr=0 batch=%d", batches[b]);
      observed one = train(&problems[p], 14, NULL, "steps=1 lr=0.5 batch=%d", batches[b]);
      for (size_t w = 0; w < RONDE__COUNT(worlds); ++w) {
        if (IN_PART && worlds[w] != 3) continue;
        observed many =
            train(&problems[p], 14, NULL, "steps=1 lr=0.5 batch=%d strategy=allreduce overlap=on workers=%d",
                  batches[b], worlds[w]);
        assert_int_equal(many.examples, batches[b]);
        assert_true(replicas_equal(&many));
        check_close(problems[p].name, &many, &one, &fresh, 1);
        free(many.weights);
      }
      free(fresh.weights);
      free(one.weights);
    }
}

/* Two epochs of 17 = 2 x 7 + 3. */
static void test_short_last_batches(void **state) {
  observed fresh = train(&problems[0], 17, NULL, "steps=1 lr=0 batch=7");
  observed one = train(&problems[0], 17, NULL, "epochs=2 lr=0.1 momentum=0.9 batch=7");
  assert_int_equal(one.n_steps, 6);
  assert_int_equal(one.examples, 34);
  for (size_t w = 1; w < RONDE__COUNT(worlds); ++w) {
    observed many =
        train(&problems[0], 17, NULL, "epochs=2 lr=0.1 momentum=0.9 batch=7 overlap=on workers=%d", worlds[w]);
    assert_int_equal(many.examples, 34);
    assert_true(replicas_equal(&many));
    check_close("short last batch", &many, &one, &fresh, 3);
    free(many.weights);
  }
  free(fresh.weights);
  free(one.weights);
}

/* ---- planted bugs ------------------------------------------------------------------------------------------------ */

/* Of rank 1, written before the first step. */
static ronde__worker *bad_worker;
static void *bad_state;

static ronde_status create_with_a_bad_rank(ronde__worker *worker, const ronde__strategy_settings *settings,
                                           void **state_out) {
  RONDE_TRY(ronde__strategy_find("allreduce", &(ronde__strategy_settings){0})->create(worker, settings, state_out));
  if (worker->transport->rank == 1) bad_worker = worker, bad_state = *state_out;
  return RONDE_OK;
}

/* Its gradient is half of what it should be: the loss is scaled by 1 / examples. */
static ronde_status step_with_a_weak_rank(void *state, const ronde__step *step, ronde__step_result *result_out) {
  ronde__step own = *step;
  if (state == bad_state) own.examples *= 2;
  return ronde__strategy_find("allreduce", &(ronde__strategy_settings){0})->step(state, &own, result_out);
}

/* It ends its step with one bit of one weight changed. */
static ronde_status step_with_a_straying_rank(void *state, const ronde__step *step, ronde__step_result *result_out) {
  RONDE_TRY(ronde__strategy_find("allreduce", &(ronde__strategy_settings){0})->step(state, step, result_out));
  float *w = ronde__net_values(bad_worker->net);
  if (state == bad_state) w[0] = nextafterf(w[0], 1);
  return RONDE_OK;
}

static ronde__strategy planted;

static void plant(ronde__job *job, ronde_status (*step)(void *, const ronde__step *, ronde__step_result *)) {
  planted = *ronde__strategy_find("allreduce", &(ronde__strategy_settings){0});
  planted.create = create_with_a_bad_rank;
  planted.step = step;
  job->strategy = &planted;
}

static void plant_weak(ronde__job *job) { plant(job, step_with_a_weak_rank); }
static void plant_straying(ronde__job *job) { plant(job, step_with_a_straying_rank); }

static void test_planted_bugs_are_seen(void **state) {
  observed fresh = train(&problems[0], 14, NULL, "steps=1 lr=0 batch=14");
  observed one = train(&problems[0], 14, NULL, "steps=1 lr=0.5 batch=14");
  observed weak = train(&problems[0], 14, plant_weak, "steps=1 lr=0.5 batch=14 workers=7 overlap=on");
  assert_true(update_difference(&weak, &one, &fresh) > 100 * UPDATE_TOLERANCE);
  observed straying = train(&problems[0], 14, plant_straying, "steps=1 lr=0.5 batch=14 workers=3 sentinel=0");
  assert_false(replicas_equal(&straying));
  free(fresh.weights);
  free(one.weights);
  free(weak.weights);
  free(straying.weights);
}

/* ---- bits -------------------------------------------------------------------------------------------------------- */

/* Equal on every rank, and from run to run. */
static void check_same_bits(const problem *p, const char *options, const char *other) {
  observed a = train(p, 33, NULL, "%s", options), b = train(p, 33, NULL, "%s", other);
  assert_true(replicas_equal(&a) && replicas_equal(&b));
  if (!bits_equal(&a, &b)) fail_msg("%s: %s | %s: not the same bits", p->name, options, other);
  free(a.weights);
  free(b.weights);
}

static void test_two_runs_have_the_same_bits(void **state) {
  for (size_t p = 0; p < RONDE__COUNT(problems); ++p)
    for (size_t w = 0; w < RONDE__COUNT(worlds); ++w) {
      char options[128];
      if (IN_PART && worlds[w] != 3) continue;
      snprintf(options, sizeof options, "steps=5 lr=0.1 momentum=0.5 batch=13 workers=%d%s", worlds[w],
               w > 0 ? " overlap=on" : "");
      check_same_bits(&problems[p], options, options);
    }
}

static void test_how_work_is_done_changes_no_bit(void **state) {
  static const char *const pairs[][2] = {
      {"workers=4 bucket-mb=0.001 overlap=on", "workers=4 bucket-mb=0.001 overlap=off"},
      {"workers=4 overlap=on", "workers=4 overlap=off"},
      {"workers=4 threads=1 overlap=on", "workers=4 threads=1"},
      {"workers=2 overlap=on", "workers=2 bucket-mb=0.001 overlap=off"}, /* of two there is one order */
      {"workers=3 shard=static", "workers=3 shard=whole"},
      {"workers=7 shard=static", "workers=7 shard=whole"},
      {"workers=1", "workers=1 transport=threads"},
      {"workers=1", "workers=1 strategy=allreduce"},
      {"workers=2", "workers=2 log-every=1 drill=load:1"},
      {"workers=2 threads=1", "workers=2 threads=3"},
  };
  for (size_t p = 0; p < (IN_PART ? 1 : RONDE__COUNT(problems)); ++p)
    for (size_t i = 0; i < RONDE__COUNT(pairs); ++i) {
      char a[128], b[128];
      snprintf(a, sizeof a, "steps=4 lr=0.1 batch=13 %s", pairs[i][0]);
      snprintf(b, sizeof b, "steps=4 lr=0.1 batch=13 %s", pairs[i][1]);
      check_same_bits(&problems[p], a, b);
    }
}

static void test_threads_of_a_rank_change_no_bit(void **state) {
  static const int batches[] = {1, 7, 33};
  for (size_t p = 0; p < RONDE__COUNT(problems); ++p)
    for (size_t b = 0; b < RONDE__COUNT(batches); ++b)
      for (int threads = IN_PART ? 3 : 2; threads <= 3; ++threads) {
        char one[128], many[128];
        snprintf(one, sizeof one, "steps=3 optimizer=adam batch=%d clip=1 threads=1", batches[b]);
        snprintf(many, sizeof many, "steps=3 optimizer=adam batch=%d clip=1 threads=%d", batches[b], threads);
        check_same_bits(&problems[p], one, many);
      }
}

static void test_size_of_buckets_changes_rounding_only(void **state) {
  observed fresh = train(&problems[0], 14, NULL, "steps=1 lr=0 batch=14");
  observed one = train(&problems[0], 14, NULL, "steps=1 lr=0.5 batch=14 workers=4 bucket-mb=4096");
  observed many = train(&problems[0], 14, NULL, "steps=1 lr=0.5 batch=14 workers=4 bucket-mb=0.001");
  check_close("buckets", &many, &one, &fresh, 1);
  free(fresh.weights);
  free(one.weights);
  free(many.weights);
}

static void test_seed_decides(void **state) {
  observed a = train(&problems[0], 20, NULL, "steps=2 batch=8");
  observed b = train(&problems[0], 20, NULL, "steps=2 batch=8 seed=2");
  assert_string_not_equal(a.sha256[0], b.sha256[0]);
  free(a.weights);
  free(b.weights);
}

/* ---- accumulation ------------------------------------------------------------------------------------------------ */

/* An epoch of 9 batches of 8: groups of 4, 4 and 1, as of batches of 32, 32 and 8. */
static void test_accumulation_is_a_larger_batch(void **state) {
  for (size_t p = 0; p < 2; ++p) {
    observed fresh = train(&problems[p], 72, NULL, "steps=1 lr=0 batch=32");
    observed large = train(&problems[p], 72, NULL, "epochs=2 lr=0.1 batch=32");
    for (size_t w = 0; w < RONDE__COUNT(worlds); ++w) {
      observed parts = train(&problems[p], 72, NULL, "epochs=2 lr=0.1 batch=8 accumulate=4 workers=%d", worlds[w]);
      assert_int_equal(parts.n_steps, 6);
      assert_int_equal(parts.examples, 144);
      assert_true(replicas_equal(&parts));
      check_close("accumulation", &parts, &large, &fresh, 3);
      free(parts.weights);
    }
    free(fresh.weights);
    free(large.weights);
  }
}

/* 9 = 8 + 1 examples in one group: of seven workers, six have none in its last batch. */
static void test_accumulation_with_workers_without_an_example(void **state) {
  observed fresh = train(&problems[0], 9, NULL, "steps=1 lr=0 batch=9");
  observed large = train(&problems[0], 9, NULL, "steps=2 lr=0.1 batch=9");
  observed parts = train(&problems[0], 9, NULL, "steps=2 lr=0.1 batch=8 accumulate=2 workers=7");
  check_close("accumulation", &parts, &large, &fresh, 2);
  free(fresh.weights);
  free(large.weights);
  free(parts.weights);
}

/* ---- which examples ---------------------------------------------------------------------------------------------- */

static void check_amount(const char *options, int64_t steps, int64_t epochs, int64_t examples) {
  observed o = train(&problems[0], 20, NULL, "batch=8 %s", options);
  if (o.n_steps != steps || o.n_epochs != epochs || o.examples != examples)
    fail_msg("%s: %lld steps, %lld epochs, %lld examples", options, (long long)o.n_steps, (long long)o.n_epochs,
             (long long)o.examples);
  free(o.weights);
}

static void test_amount_of_work(void **state) {
  check_amount("", 3, 1, 20);
  check_amount("epochs=3 workers=3", 9, 3, 60);
  check_amount("drop-last=on epochs=2", 4, 2, 32);
  check_amount("repeat=2", 5, 1, 40);
  check_amount("repeat=2 drop-last=on workers=2", 5, 1, 40);
  check_amount("val-split=0.25", 2, 1, 15);
  check_amount("val-split=0.25 drop-last=on epochs=2 workers=2", 2, 2, 16);
  check_amount("steps=7", 7, 3, 48);
  check_amount("steps=1 epochs=5", 1, 1, 8);
  check_amount("accumulate=2 epochs=2", 4, 2, 40);
  check_amount("accumulate=2 drop-last=on", 1, 1, 16);
}

static void test_local_batch_is_times_the_workers(void **state) {
  observed a = train(&problems[0], 20, NULL, "epochs=2 batch=6 workers=3");
  observed b = train(&problems[0], 20, NULL, "epochs=2 local-batch=2 workers=3");
  assert_true(bits_equal(&a, &b));
  free(a.weights);
  free(b.weights);
}

/* Without --shuffle the first batch is the first examples of the file, and every epoch is the same. */
static void test_order_without_shuffle(void **state) {
  observed all = train(&problems[0], 32, NULL, "batch=8 shuffle=off lr=0 epochs=2");
  observed first = train(&problems[0], 8, NULL, "batch=8 shuffle=off lr=0");
  assert_true(all.loss[0] == first.loss[0]);
  for (int i = 0; i < 4; ++i) assert_true(all.loss[i] == all.loss[i + 4]);
  observed shuffled = train(&problems[0], 32, NULL, "batch=8 lr=0 epochs=2");
  assert_false(shuffled.loss[0] == all.loss[0]);
  assert_false(shuffled.loss[0] == shuffled.loss[4]);
  assert_true(fabs(shuffled.train_loss - all.train_loss) < 1e-6); /* the same examples, once each */
  free(all.weights);
  free(first.weights);
  free(shuffled.weights);
}

/* Examples that are kept out are tested on: by however many workers, with the same result. */
static void test_validation_split(void **state) {
  observed one = train(&problems[0], 40, NULL, "batch=8 val-split=0.25 lr=0.1");
  assert_int_equal(one.examples, 30);
  assert_true(isfinite(one.test_loss));
  observed three = train(&problems[0], 40, NULL, "batch=8 val-split=0.25 lr=0.1 workers=3");
  assert_true(fabs(one.test_loss - three.test_loss) < 1e-5);
  observed none = train(&problems[0], 40, NULL, "batch=8 lr=0.1");
  assert_true(isnan(none.test_loss));
  free(one.weights);
  free(three.weights);
  free(none.weights);
}

/* ---- optimizers, schedules, clipping ----------------------------------------------------------------------------- */

/* eps keeps Adam's first step, of the size of lr whatever the gradient, from magnifying rounding. */
static void test_every_optimizer_on_many_workers(void **state) {
  static const char *const optimizers[] = {
      "optimizer=sgd weight-decay=0.01",
      "optimizer=sgd momentum=0.9",
      "optimizer=sgd momentum=0.9 nesterov=on weight-decay=0.01",
      "optimizer=adam eps=0.001",
      "optimizer=adam eps=0.001 betas=0.5,0.9 weight-decay=0.1",
      "optimizer=adamw eps=0.001",
      "optimizer=adagrad eps=0.001",
      "optimizer=rmsprop eps=0.001 alpha=0.9",
  };
  observed fresh = train(&problems[0], 21, NULL, "steps=1 lr=0 batch=7");
  char hashes[RONDE__COUNT(optimizers)][RONDE__SHA256_HEX];
  for (size_t i = 0; i < RONDE__COUNT(optimizers); ++i) {
    observed one = train(&problems[0], 21, NULL, "epochs=2 lr=0.02 batch=7 %s", optimizers[i]);
    observed many = train(&problems[0], 21, NULL, "epochs=2 lr=0.02 batch=7 workers=4 %s", optimizers[i]);
    assert_true(replicas_equal(&many));
    check_close(optimizers[i], &many, &one, &fresh, 3);
    memcpy(hashes[i], one.sha256[0], sizeof hashes[i]);
    for (size_t j = 0; j < i; ++j) assert_string_not_equal(hashes[i], hashes[j]);
    free(one.weights);
    free(many.weights);
  }
  free(fresh.weights);
}

/* 5 steps an epoch, 4 epochs. */
static double scheduled(const char *name, int step) {
  double lr = 0.1, epoch = (step - 1) / 5 + 1, warm = fmin(1, step / 4.);
  if (!strcmp(name, "warmup=4")) return lr * warm;
  if (!strcmp(name, "lr-schedule=step lr-step=2 lr-gamma=0.5")) return epoch <= 2 ? lr : lr / 2;
  if (!strcmp(name, "lr-schedule=cosine")) return lr * (1 + cos(M_PI * (step - 1) / 20)) / 2;
  if (!strcmp(name, "lr-schedule=cosine warmup=4"))
    return step <= 4 ? lr * warm : lr * (1 + cos(M_PI * (step - 5) / 16)) / 2;
  return lr;
}

static void test_schedules_reach_the_steps(void **state) {
  static const char *const schedules[] = {"lr-schedule=constant", "warmup=4", "lr-schedule=step lr-step=2 lr-gamma=0.5",
                                          "lr-schedule=cosine", "lr-schedule=cosine warmup=4"};
  for (size_t i = 0; i < RONDE__COUNT(schedules); ++i) {
    observed o = train(&problems[0], 20, NULL, "batch=4 lr=0.1 epochs=4 workers=2 %s", schedules[i]);
    assert_int_equal(o.n_steps, 20);
    for (int step = 1; step <= 20; ++step)
      if (fabs(o.lr[step - 1] - scheduled(schedules[i], step)) > 1e-12)
        fail_msg("%s: step %d has %.15g", schedules[i], step, o.lr[step - 1]);
    free(o.weights);
  }
  observed scaled = train(&problems[0], 20, NULL, "batch=4 lr=0.1 workers=3 lr-scale-workers=on");
  assert_true(fabs(scaled.lr[0] - 0.3) < 1e-12);
  free(scaled.weights);
}

static double update_norm(const observed *o, const observed *fresh) {
  double sum = 0;
  for (size_t i = 0; i < o->n_weights; ++i) sum += pow((double)o->weights[i] - fresh->weights[i], 2);
  return sqrt(sum);
}

static void test_clipping(void **state) {
  observed fresh = train(&problems[0], 14, NULL, "steps=1 lr=0 batch=14");
  observed free_step = train(&problems[0], 14, NULL, "steps=1 lr=1 batch=14");
  double norm = update_norm(&free_step, &fresh);
  for (size_t w = 0; w < RONDE__COUNT(worlds); ++w) {
    observed clipped = train(&problems[0], 14, NULL, "steps=1 lr=1 batch=14 workers=%d clip=%.9g", worlds[w], norm / 4);
    assert_true(fabs(update_norm(&clipped, &fresh) / norm - 0.25) < 1e-4);
    assert_true(replicas_equal(&clipped));
    observed loose = train(&problems[0], 14, NULL, "steps=1 lr=1 batch=14 workers=%d clip=%.9g", worlds[w], norm * 4);
    check_close("clip beyond the norm", &loose, &free_step, &fresh, 1);
    free(clipped.weights);
    free(loose.weights);
  }
  free(fresh.weights);
  free(free_step.weights);
}

/* The network learns: what all of this is for. */
static void test_loss_falls(void **state) {
  observed o = train(&problems[0], 60, NULL, "batch=10 epochs=10 lr=0.01 optimizer=adam workers=2");
  assert_true(o.loss[o.n_steps - 1] < 0.5 * o.loss[0]);
  free(o.weights);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_step_of_many_is_a_step_of_one),
      cmocka_unit_test(test_short_last_batches),
      cmocka_unit_test(test_planted_bugs_are_seen),
      cmocka_unit_test(test_two_runs_have_the_same_bits),
      cmocka_unit_test(test_how_work_is_done_changes_no_bit),
      cmocka_unit_test(test_threads_of_a_rank_change_no_bit),
      cmocka_unit_test(test_size_of_buckets_changes_rounding_only),
      cmocka_unit_test(test_seed_decides),
      cmocka_unit_test(test_accumulation_is_a_larger_batch),
      cmocka_unit_test(test_accumulation_with_workers_without_an_example),
      cmocka_unit_test(test_amount_of_work),
      cmocka_unit_test(test_local_batch_is_times_the_workers),
      cmocka_unit_test(test_order_without_shuffle),
      cmocka_unit_test(test_validation_split),
      cmocka_unit_test(test_every_optimizer_on_many_workers),
      cmocka_unit_test(test_schedules_reach_the_steps),
      cmocka_unit_test(test_clipping),
      cmocka_unit_test(test_loss_falls),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

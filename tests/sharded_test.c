/* Shards of the update: what one worker does, by however many, on one host or several, with overlap and without; the
 * optimizer's state in parts, which a checkpoint brings together. */
#include "resume_testing.h"
#include "sanitized.h"

#define UPDATE_TOLERANCE 1e-5

static const int worlds[] = {1, 2, 3, 4, 7};

/* Ways of the same exchange: within a host by pairs, between hosts by rings; behind backward or beside it. */
static const struct way {
  const char *options;
  bool hosts; /* each rank is on one of its own */
} ways[] = {{"overlap=off", false}, {"overlap=on", false}, {"overlap=off", true}, {"overlap=on", true}};

static const int apart[OBSERVED_RANKS] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};

static ronde_status make_hosts(int n_ranks, ronde__transport **transports_out) {
  RONDE_TRY(ronde__transport_threads(n_ranks, transports_out));
  for (int r = 0; r < n_ranks; ++r) transports_out[r]->host_of = apart;
  return RONDE_OK;
}

static observed run_of(ronde_model_fn model, const struct way *way, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* 21 examples. way NULL: the strategy is in the options. */
static observed run_of(ronde_model_fn model, const struct way *way, const char *format, ...) {
  char more[256], options[512];
  ronde_source source = small_source(21, 0);
  va_list args;
  va_start(args, format);
  vsnprintf(more, sizeof more, format, args);
  va_end(args);
  in(options, "threads=1 %s %s %s", way ? "strategy=sharded bucket-mb=0.002" : "", way ? way->options : "", more);
  if (way && strstr(more, "workers=1")) in(options, "threads=1 strategy=sharded %s", more);
  observe_on = way && way->hosts ? make_hosts : ronde__transport_threads;
  observed o = observe(options, &source, model, NULL);
  observe_on = ronde__transport_threads;
  if (o.status != RONDE_OK) fail_msg("%s: status %d", options, o.status);
  assert_true(replicas_equal(&o));
  return o;
}

static void check_close(const char *name, const observed *a, const observed *b, const observed *fresh, double factor) {
  double update = update_difference(a, b, fresh);
  if (update > factor * UPDATE_TOLERANCE) fail_msg("%s: updates differ by %g", name, update);
}

/* ---- one worker's step --------------------------------------------------------------------------------------------- */

/* Batches that the workers do not divide, and that leave some of them without an example. */
static void check_steps(ronde_model_fn model, int batch) {
  observed fresh = run_of(model, NULL, "steps=1 lr=0 batch=%d", batch);
  observed one = run_of(model, NULL, "steps=2 lr=0.2 batch=%d", batch);
  for (size_t w = 0; w < RONDE__COUNT(worlds); ++w)
    for (size_t i = 0; i < RONDE__COUNT(ways); ++i) {
      if (IN_PART && worlds[w] != 3) continue;
      observed many = run_of(model, &ways[i], "steps=2 lr=0.2 batch=%d workers=%d", batch, worlds[w]);
      assert_int_equal(many.examples, one.examples);
      check_close(ways[i].options, &many, &one, &fresh, 2);
      free(many.weights);
    }
  free(fresh.weights);
  free(one.weights);
}

static void test_a_step_of_many_is_a_step_of_one(void **state) {
  static const int batches[] = {5, 1, 14};
  for (size_t b = 0; b < (IN_PART ? 2 : RONDE__COUNT(batches)); ++b) {
    check_steps(small_model, batches[b]);
    check_steps(dead_taps_model, batches[b]);
  }
}

/* eps keeps Adam's first step from magnifying rounding. Decay moves what is dead, by its owner alone. */
static const char *const optimizers[] = {
    "optimizer=sgd weight-decay=0.01",
    "optimizer=sgd momentum=0.9",
    "optimizer=sgd momentum=0.9 nesterov=on weight-decay=0.01",
    "optimizer=adam eps=0.001",
    "optimizer=adam eps=0.001 weight-decay=0.1",
    "optimizer=adamw eps=0.001",
    "optimizer=adagrad eps=0.001",
    "optimizer=sgd momentum=0.9 weight-decay=0.01 clip=0.05",
    "optimizer=sgd momentum=0.9 accumulate=2",
};

static void test_every_optimizer_clipping_and_accumulation(void **state) {
  for (size_t k = 0; k < RONDE__COUNT(optimizers); ++k) {
    observed fresh = run_of(dead_taps_model, NULL, "steps=1 lr=0 batch=7");
    observed one = run_of(dead_taps_model, NULL, "epochs=2 lr=0.02 batch=7 %s", optimizers[k]);
    for (int workers = IN_PART ? 3 : 2; workers <= 3; ++workers)
      for (size_t i = 0; i < RONDE__COUNT(ways); ++i) {
        if (IN_PART && i != k % RONDE__COUNT(ways)) continue;
        observed many =
            run_of(dead_taps_model, &ways[i], "epochs=2 lr=0.02 batch=7 workers=%d %s", workers, optimizers[k]);
        check_close(optimizers[k], &many, &one, &fresh, 3);
        free(many.weights);
      }
    free(fresh.weights);
    free(one.weights);
  }
}

static ronde_tensor *frozen_model(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  ronde_tensor *y = dead_taps_model(graph, x, classes, user);
  graph->params[0].frozen = true;
  return y;
}

static void test_frozen_parameters_eager_and_normalisation(void **state) {
  static const struct {
    ronde_model_fn model;
    const char *options;
  } cases[] = {{frozen_model, "momentum=0.9 weight-decay=0.01"},
               {dead_taps_model, "momentum=0.9 exec=eager"},
               {norm_model, "momentum=0.5 sync-bn=on"}};
  for (size_t c = 0; c < RONDE__COUNT(cases); ++c) {
    const char *one_options = c == 2 ? "momentum=0.5" : cases[c].options;
    observed fresh = run_of(cases[c].model, NULL, "steps=1 lr=0 batch=7");
    observed one = run_of(cases[c].model, NULL, "steps=3 lr=0.02 batch=7 %s", one_options);
    for (size_t i = 0; i < RONDE__COUNT(ways); ++i) {
      observed many = run_of(cases[c].model, &ways[i], "steps=3 lr=0.02 batch=7 workers=3 %s", cases[c].options);
      check_close(cases[c].options, &many, &one, &fresh, 3);
      free(many.weights);
    }
    free(fresh.weights);
    free(one.weights);
  }
}

/* ---- bits ---------------------------------------------------------------------------------------------------------- */

/* Two numbers have one order of sums, so that the update is an all-reduce's to the last bit; more have an order of their
 * own, whenever and wherever they run. */
static void test_bits(void **state) {
  static const char *const options[] = {"momentum=0.9 weight-decay=0.01", "optimizer=adam accumulate=2", "lr=0.1"};
  for (size_t k = 0; k < (IN_PART ? 1 : RONDE__COUNT(options)); ++k) {
    observed whole = run_of(dead_taps_model, NULL, "epochs=2 batch=7 workers=2 strategy=allreduce %s", options[k]);
    for (size_t i = 0; i < RONDE__COUNT(ways); ++i) {
      observed two = run_of(dead_taps_model, &ways[i], "epochs=2 batch=7 workers=2 %s", options[k]);
      assert_true(bits_equal(&two, &whole));
      free(two.weights);
    }
    free(whole.weights);
    for (int hosts = 0; hosts < 2; ++hosts) {
      observed off = run_of(dead_taps_model, &ways[2 * hosts], "epochs=2 batch=7 workers=4 %s", options[k]);
      observed ring =
          run_of(dead_taps_model, NULL,
                 "epochs=2 batch=7 workers=4 strategy=allreduce collective=ring bucket-mb=0.002 %s", options[k]);
      if (hosts) assert_true(bits_equal(&off, &ring)); /* there its sums go round the same ring */
      free(ring.weights);
      for (int again = 0; again < 2; ++again) {
        observed on = run_of(dead_taps_model, &ways[2 * hosts + 1], "epochs=2 batch=7 workers=4 %s", options[k]);
        assert_true(bits_equal(&off, &on));
        free(on.weights);
      }
      free(off.weights);
    }
  }
}

static void test_threads_of_a_rank_change_no_bit(void **state) {
  observed one = run_of(dead_taps_model, &ways[0], "epochs=2 batch=7 workers=2 optimizer=adam");
  observed many = run_of(dead_taps_model, &ways[0], "epochs=2 batch=7 workers=2 optimizer=adam threads=3");
  assert_true(bits_equal(&one, &many));
  free(one.weights);
  free(many.weights);
}

/* ---- memory -------------------------------------------------------------------------------------------------------- */

static size_t held[OBSERVED_RANKS], whole_elems;

static void look(ronde__run *run) {
  whole_elems = ronde__net_n_trained(run->ranks[0].net);
  for (int r = 0; r < run->n_ranks; ++r) held[r] = ronde__optim_elems(run->ranks[r].optim);
}

static void test_each_rank_holds_its_part_of_the_state(void **state) {
  observe_also = look;
  for (int workers = 2; workers <= 7; workers += IN_PART ? 5 : 1)
    for (size_t i = 0; i < RONDE__COUNT(ways); i += 3) {
      size_t sum = 0;
      observed o = run_of(small_model, &ways[i], "steps=1 batch=7 optimizer=adam workers=%d", workers);
      for (int r = 0; r < workers; ++r) {
        sum += held[r];
        assert_true(held[r] * (size_t)workers <= whole_elems + 64 * (size_t)workers);
      }
      assert_int_equal(sum, whole_elems);
      free(o.weights);
    }
  observe_also = NULL;
}

static void test_a_dry_run_shows_it(void **state) {
  int64_t optimizer[2], total[2];
  for (int i = 0; i < 2; ++i) {
    char options[512];
    in(options,
       "model=lenet5 data=synthetic:1x28x28:10:60 batch=12 optimizer=adam workers=4 threads=1 strategy=%s dry-run=on",
       i ? "sharded" : "allreduce");
    json_t *plan = job_run("train", options, NULL);
    optimizer[i] = (int64_t)real_at(plan, "memory_bytes.optimizer");
    total[i] = (int64_t)real_at(plan, "memory_bytes.total");
    json_decref(plan);
  }
  assert_true(llabs(4 * optimizer[1] - optimizer[0]) < 4096);
  assert_int_equal(total[0] - total[1], 3 * optimizer[0]);
}

static void test_a_record_shows_it(void **state) {
  json_t *whole = job_run("train", "model=lenet5 data=synthetic:1x28x28:10:60 batch=12 optimizer=adam", NULL);
  json_t *run = job_run("train",
                        "model=lenet5 data=synthetic:1x28x28:10:60 batch=12 optimizer=adam workers=3 threads=1 "
                        "strategy=sharded",
                        NULL);
  double sum = 0;
  for (int r = 0; r < 3; ++r) {
    char path[64];
    snprintf(path, sizeof path, "workers.%d.optimizer_bytes", r);
    double bytes = real_at(run, path);
    assert_true(bytes > 0 && 3 * bytes < real_at(whole, "workers.0.optimizer_bytes") + 4096);
    sum += bytes;
  }
  assert_true(sum == real_at(whole, "workers.0.optimizer_bytes"));
  json_decref(whole);
  json_decref(run);
}

/* ---- broken numbers ------------------------------------------------------------------------------------------------ */

/* Without a shuffle: the last one of batch 2, which is rank 2's of three. */
static ronde_status nan_read(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                             float *targets) {
  RONDE_TRY(small_read(NULL, split, ids, n, x, labels, targets));
  for (int64_t i = 0; i < n; ++i)
    if (ids[i] == 13) x[i * SMALL_PIXELS] = NAN;
  return RONDE_OK;
}

static observed run_broken(const struct way *way, const char *more) {
  char options[512];
  ronde_source source = small_source(21, 0);
  source.read = nan_read;
  in(options, "threads=1 bucket-mb=0.002 batch=7 shuffle=off epochs=2 momentum=0.9 weight-decay=0.01 %s %s",
     way ? way->options : "", more);
  observe_on = way && way->hosts ? make_hosts : ronde__transport_threads;
  test_log_start(&lines);
  observed o = observe(options, &source, dead_taps_model, NULL);
  observe_on = ronde__transport_threads;
  return o;
}

/* The steps behind a broken one are those of an all-reduce that left it out too: it has changed no weight, and nothing
 * of it is left in the gradients. */
static void test_nothing_is_updated_by_a_broken_step(void **state) {
  observed whole = run_broken(NULL, "workers=2 skip-bad-steps=2");
  assert_int_equal(whole.status, RONDE_OK);
  for (size_t i = 0; i < RONDE__COUNT(ways); ++i) {
    observed named = run_broken(&ways[i], "strategy=sharded workers=3");
    assert_int_equal(named.status, RONDE_E_NUMERIC);
    assert_non_null(strstr(lines.error, "step 2: the "));
    assert_non_null(strstr(lines.error, "rank 2"));
    observed skipped = run_broken(&ways[i], "strategy=sharded workers=2 skip-bad-steps=2");
    assert_int_equal(skipped.status, RONDE_OK);
    assert_string_equal(skipped.sha256[0], whole.sha256[0]);
    assert_true(replicas_equal(&skipped));
    free(skipped.weights);
  }
  free(whole.weights);
}

/* ---- checkpoints --------------------------------------------------------------------------------------------------- */

static json_t *saved_run(const char *format, ...) __attribute__((format(printf, 1, 2)));

static json_t *saved_run(const char *format, ...) {
  char more[384], options[512];
  va_list args;
  va_start(args, format);
  vsnprintf(more, sizeof more, format, args);
  va_end(args);
  in(options, SET "batch=8 threads=1 %s", more);
  json_t *run;
  ronde_status status = train(options, 0, &run);
  if (status != RONDE_OK) fail_msg("%s: status %d", options, status);
  return run;
}

static void check_state(const json_t *a, const json_t *b) {
  assert_string_equal(text_at((json_t *)a, "result.weights_sha256"), text_at((json_t *)b, "result.weights_sha256"));
  assert_string_equal(text_at((json_t *)a, "result.state_sha256"), text_at((json_t *)b, "result.state_sha256"));
}

/* A checkpoint in the middle of an epoch, and each way on from it: by the same workers the same bits. */
static void test_a_resumed_run_has_the_bits_of_a_whole_one(void **state) {
  static const char *const kinds[] = {"momentum=0.9 weight-decay=0.01", "optimizer=adam", "optimizer=adagrad"};
  for (size_t k = 0; k < (IN_PART ? 1 : RONDE__COUNT(kinds)); ++k)
    for (int workers = 2; workers <= 3; ++workers)
      for (int on = 0; on < 2; ++on) {
        const char *overlap = on ? "on" : "off";
        json_t *whole = saved_run("strategy=sharded workers=%d %s epochs=2 overlap=%s", workers, kinds[k], overlap);
        json_decref(saved_run(
            "strategy=sharded workers=%d %s epochs=1 overlap=%s checkpoint-every=3 keep=9 overwrite=on out=%s/run",
            workers, kinds[k], overlap, folder));
        json_t *rest = saved_run("epochs=2 resume=%s/run/checkpoints/step-3.safetensors", folder);
        assert_int_equal(real_at(rest, "resumed_from.step"), 3);
        assert_string_equal(text_at(rest, "world.strategy"), "sharded");
        check_state(whole, rest);
        json_decref(whole);
        json_decref(rest);
      }
}

/* One worker's clock decides, and all meet: in the middle of an epoch, at the same step. */
static void test_a_clock_says_when_to_save(void **state) {
  json_t *whole = saved_run("strategy=sharded workers=3 momentum=0.9 steps=9");
  json_decref(
      saved_run("strategy=sharded workers=3 momentum=0.9 steps=9 checkpoint-every=1s keep=9 drill=slow:2:300 "
                "out=%s/run",
                folder));
  int n_saved = 0;
  for (int step = 1; step < 9; ++step) {
    char path[256];
    snprintf(path, sizeof path, "%s/run/checkpoints/step-%d.safetensors", folder, step);
    if (access(path, F_OK)) continue;
    json_t *rest = saved_run("steps=9 resume=%s", path);
    check_state(whole, rest);
    json_decref(rest);
    ++n_saved;
  }
  assert_in_range(n_saved, 1, 4);
  json_decref(whole);
}

/* The state is the same whoever has gathered it: with two workers to the bit. */
static void test_checkpoints_are_those_of_other_strategies(void **state) {
  static const char *const pairs[][2] = {{"strategy=sharded", "strategy=allreduce"},
                                         {"strategy=allreduce", "strategy=sharded"}};
  json_t *whole = saved_run("strategy=allreduce workers=2 optimizer=adam epochs=2");
  for (size_t i = 0; i < RONDE__COUNT(pairs); ++i) {
    json_decref(saved_run("%s workers=2 optimizer=adam epochs=1 overwrite=on out=%s/run", pairs[i][0], folder));
    json_t *rest = saved_run("%s epochs=2 resume=%s/run", pairs[i][1], folder);
    check_state(whole, rest);
    json_decref(rest);
  }
  json_decref(whole);
}

/* Most of its weights only ever meet padding; decay and momentum move them, and each has one owner. */
static void test_the_state_of_dead_weights_goes_on(void **state) {
  const char *options =
      "model=resnet18-cifar data=synthetic:1x3x3:4:12 batch=4 threads=1 momentum=0.9 weight-decay=0.1";
  char all[512];
  json_t *whole, *rest;
  in(all, "%s workers=2 strategy=allreduce steps=4", options);
  assert_int_equal(train(all, 0, &whole), RONDE_OK);
  in(all, "%s workers=2 strategy=sharded steps=2 out=%s/run", options, folder);
  assert_int_equal(train(all, 0, &rest), RONDE_OK);
  json_decref(rest);
  in(all, "model=resnet18-cifar strategy=sharded steps=4 resume=%s/run", folder);
  assert_int_equal(train(all, 0, &rest), RONDE_OK);
  check_state(whole, rest);
  json_decref(whole);
  json_decref(rest);
}

/* Another number of workers sums in another order; so does one worker. */
static void test_other_workers_go_on(void **state) {
  static const char *const how[] = {"workers=3", "workers=7", "workers=1 strategy=single",
                                    "workers=3 strategy=ps-sync"};
  json_decref(saved_run("model=mnist-small strategy=sharded workers=2 momentum=0.9 epochs=1 out=%s/run", folder));
  json_t *whole = saved_run("model=mnist-small workers=2 strategy=sharded momentum=0.9 epochs=2");
  for (size_t i = 0; i < RONDE__COUNT(how); ++i) {
    char options[512];
    json_t *run;
    in(options, "model=mnist-small epochs=2 %s resume=%s/run/checkpoints/step-7.safetensors", how[i], folder);
    assert_int_equal(train(options, 0, &run), RONDE_OK);
    double loss = real_at(run, "result.train_loss"), expected = real_at(whole, "result.train_loss");
    assert_true(fabs(loss - expected) < 1e-5 * expected);
    json_decref(run);
  }
  json_decref(whole);
}

static void test_what_it_does_not_know_is_refused(void **state) {
  static const char *const refused[][2] = {
      {"wire=bf16", "--wire"}, {"collective=ring", "--collective"}, {"servers=2", "--servers"}};
  for (size_t i = 0; i < RONDE__COUNT(refused); ++i) {
    char options[512];
    in(options, SET "batch=8 strategy=sharded workers=2 %s", refused[i][0]);
    check_failed(&lines, train(options, 0, NULL), RONDE_E_USAGE, refused[i][1], "");
  }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder_with_log, remove_folder)
  const struct CMUnitTest tests[] = {TEST(test_a_step_of_many_is_a_step_of_one),
                                     TEST(test_every_optimizer_clipping_and_accumulation),
                                     TEST(test_frozen_parameters_eager_and_normalisation),
                                     TEST(test_bits),
                                     TEST(test_threads_of_a_rank_change_no_bit),
                                     TEST(test_each_rank_holds_its_part_of_the_state),
                                     TEST(test_a_dry_run_shows_it),
                                     TEST(test_a_record_shows_it),
                                     TEST(test_nothing_is_updated_by_a_broken_step),
                                     TEST(test_a_resumed_run_has_the_bits_of_a_whole_one),
                                     TEST(test_a_clock_says_when_to_save),
                                     TEST(test_checkpoints_are_those_of_other_strategies),
                                     TEST(test_the_state_of_dead_weights_goes_on),
                                     TEST(test_other_workers_go_on),
                                     TEST(test_what_it_does_not_know_is_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* One master and its replicas: whole runs that are those of one worker, or of per-replica statistics, whatever the
 * world, transport and executor; what breaks has a name; and the cost of each move stands apart. */
#include "comm/sim.h"
#include "resume_testing.h"
#include "sanitized.h"

/* Of sums of f32 in another order, against the largest element of the update. */
#define UPDATE_TOLERANCE 1e-5
#define LOSS_TOLERANCE 2e-6
#define STRATEGY "strategy=dataparallel "

static const int worlds[] = {1, 2, 3, 4, 7};

typedef struct problem {
  const char *name, *options;
  ronde_model_fn model; /* NULL: options name a built-in one, and its data */
  bool values;
} problem;

static ronde_tensor *dropping(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  x = ronde_relu(ronde_linear(ronde_dropout(ronde_flatten(x), 0.25f), "fc1", 30, true));
  return ronde_linear(ronde_dropout(x, 0.5f), "fc2", classes, true);
}

static const problem problems[] = {
    {"small", "", small_model, false},
    {"regression", "", small_regression, true},
    {"dead taps", "", dead_taps_model, false},
    {"dropout, smoothed", "label-smoothing=0.1", dropping, false},
    {"lenet5", "model=lenet5 data=synthetic:1x28x28:10:60", NULL, false},
    {"mnist-small", "model=mnist-small padding=valid data=synthetic:3x12x12:4:60", NULL, false},
};
static const problem normed = {"normed", "", norm_model, false};

#define run_of_problem(p, ...) \
  observe_small(&(small_problem){(p)->name, (p)->options, (p)->model, (p)->values, 17, 0}, __VA_ARGS__)

static void check_close(const char *name, const observed *a, const observed *b, const observed *fresh, double factor) {
  double update = update_difference(a, b, fresh), loss = 0;
  assert_int_equal(a->n_steps, b->n_steps);
  for (int64_t i = 0; i < a->n_steps; ++i) loss = fmax(loss, fabs(a->loss[i] - b->loss[i]) / fabs(b->loss[i]));
  if (update > factor * UPDATE_TOLERANCE || loss > factor * LOSS_TOLERANCE)
    fail_msg("%s: updates differ by %g, losses by %g", name, update, loss);
}

/* ---- one worker's results ---------------------------------------------------------------------------------------- */

/* Batches that the workers do not divide, and that leave some of them without an example. */
static void a_step_of_many_is_a_step_of_one(void **state) {
  static const int batches[] = {14, 5, 1};
  for (size_t p = 0; p < RONDE__COUNT(problems); ++p)
    for (size_t b = 0; b < RONDE__COUNT(batches); ++b) {
      observed fresh = run_of_problem(&problems[p], "steps=1 lr=0 batch=%d", batches[b]);
      observed one = run_of_problem(&problems[p], "steps=1 lr=0.5 batch=%d", batches[b]);
      for (size_t w = 0; w < RONDE__COUNT(worlds); ++w) {
        if (IN_PART && worlds[w] != 3) continue;
        observed many =
            run_of_problem(&problems[p], STRATEGY "steps=1 lr=0.5 batch=%d workers=%d", batches[b], worlds[w]);
        assert_int_equal(many.examples, batches[b]);
        assert_true(replicas_equal(&many));
        check_close(problems[p].name, &many, &one, &fresh, 1);
        free(many.weights);
      }
      free(fresh.weights);
      free(one.weights);
    }
}

/* Two epochs of 17 = 2 x 7 + 3, whose last batch leaves workers without an example. */
static void check_epochs(const char *how) {
  for (size_t p = 0; p < 4; ++p) {
    observed fresh = run_of_problem(&problems[p], "steps=1 lr=0 batch=7");
    observed one = run_of_problem(&problems[p], "epochs=2 lr=0.1 batch=7 %s", how);
    for (size_t w = 0; w < RONDE__COUNT(worlds); ++w) {
      if (IN_PART && worlds[w] != 3) continue;
      observed many = run_of_problem(&problems[p], STRATEGY "epochs=2 lr=0.1 batch=7 workers=%d %s", worlds[w], how);
      assert_int_equal(many.examples, 34);
      assert_true(replicas_equal(&many));
      check_close(how, &many, &one, &fresh, 4);
      free(many.weights);
    }
    free(fresh.weights);
    free(one.weights);
  }
}

static void whole_epochs_are_those_of_one(void **state) {
  check_epochs("momentum=0.9");
  check_epochs("clip=0.05");
  check_epochs("accumulate=2");
  check_epochs("optimizer=adam eps=0.001 accumulate=3 clip=0.5");
}

static void eager_passes_have_the_bits_of_plans(void **state) {
  for (size_t p = 0; p < 4; ++p)
    for (int workers = 2; workers <= 7; workers += 5) {
      observed planned = run_of_problem(&problems[p], STRATEGY "epochs=2 lr=0.1 batch=7 workers=%d", workers);
      observed eager = run_of_problem(&problems[p], STRATEGY "epochs=2 lr=0.1 batch=7 workers=%d exec=eager", workers);
      if (!bits_equal(&planned, &eager)) fail_msg("%s: eager passes have other bits", problems[p].name);
      free(planned.weights);
      free(eager.weights);
    }
}

/* Of two, there is one order of sums. */
static void replicas_have_the_statistics_of_their_parts(void **state) {
  for (size_t w = 0; w < RONDE__COUNT(worlds); ++w)
    for (int accumulate = 1; accumulate <= 2; ++accumulate) {
      char options[128];
      snprintf(options, sizeof options, "lr=0.1 batch=8 epochs=2 drop-last=on workers=%d accumulate=%d", worlds[w],
               accumulate);
      observed fresh = run_of_problem(&normed, "steps=1 lr=0 batch=8");
      observed all = run_of_problem(&normed, "strategy=allreduce %s", options);
      observed master = run_of_problem(&normed, STRATEGY "%s", options);
      check_close(options, &master, &all, &fresh, 4);
      assert_true(master.n_buffers > 0 && master.n_buffers == all.n_buffers);
      for (size_t i = 0; i < all.n_buffers; ++i)
        assert_true(fabs((double)master.buffers[i] - all.buffers[i]) <= 1e-6 * fmax(1, fabs((double)all.buffers[i])));
      if (worlds[w] == 2) {
        assert_true(bits_equal(&master, &all));
        assert_memory_equal(master.buffers, all.buffers, all.n_buffers * sizeof *all.buffers);
      }
      free(fresh.weights);
      free(all.weights);
      free(master.weights);
    }
}

/* ---- bits, in whatever order things happen ----------------------------------------------------------------------- */

static observed on_sim(const problem *p, const char *options, uint64_t seed) {
  virtual_links = (ronde__sim_options){.within = {10e-6, 1e-9}, .seed = seed};
  observe_on = make_virtual;
  observed o = run_of_problem(p, "%s", options);
  observe_on = ronde__transport_threads;
  return o;
}

static void runs_repeat_on_threads_and_in_virtual_time(void **state) {
  for (size_t p = 0; p < 4; ++p)
    for (size_t w = 1; w < RONDE__COUNT(worlds); ++w) {
      char options[128];
      if (IN_PART && worlds[w] != 3) continue;
      snprintf(options, sizeof options, STRATEGY "lr=0.1 momentum=0.5 epochs=2 batch=6 workers=%d accumulate=%d",
               worlds[w], worlds[w] == 3 ? 2 : 1);
      observed a = run_of_problem(&problems[p], "%s", options), b = run_of_problem(&problems[p], "%s", options);
      assert_true(bits_equal(&a, &b));
      for (uint64_t seed = 1; seed <= (IN_PART ? 1 : 5); ++seed) {
        observed sim = on_sim(&problems[p], options, seed);
        assert_true(bits_equal(&a, &sim) && replicas_equal(&sim));
        free(sim.weights);
      }
      free(a.weights);
      free(b.weights);
    }
}

static void threads_of_a_rank_change_no_bit(void **state) {
  for (size_t p = 0; p < 4; ++p) {
    observed one = run_of_problem(&problems[p], STRATEGY "lr=0.1 epochs=2 batch=7 workers=3");
    observed two = run_of_problem(&problems[p], STRATEGY "lr=0.1 epochs=2 batch=7 workers=3 threads=2");
    assert_true(bits_equal(&one, &two));
    free(one.weights);
    free(two.weights);
  }
}

/* ---- the cost ---------------------------------------------------------------------------------------------------- */

enum { STEPS = 4, SLOW_MS = 20, BATCH = 6, MS = 1000000 };

static uint64_t phases[OBSERVED_RANKS][RONDE__N_PHASES];
static uint64_t moved_ns[OBSERVED_RANKS]; /* the rows of phase exchange */
static json_t *told;
static ronde__straggler_row late[2];
static size_t trained_bytes;

static void look(ronde__run *run) {
  const ronde__rank *first = &run->ranks[0];
  memset(moved_ns, 0, sizeof moved_ns);
  for (int r = 0; r < run->n_ranks; ++r) {
    int n_ops;
    ronde__prof_totals(run->ranks[r].prof, phases[r]);
    const ronde__prof_op *ops = ronde__prof_ops(run->ranks[r].prof, &n_ops);
    for (int i = 0; i < n_ops; ++i)
      if (ops[i].phase == RONDE__PHASE_EXCHANGE) moved_ns[r] += ops[i].ns;
  }
  for (int r = 0; r < 2; ++r) late[r] = ronde__straggler_row_of(first->straggler, r);
  trained_bytes = ronde__net_n_trained(first->net) * sizeof(float);
  told = json_object();
  run->job->strategy->record(first->strategy_state, NULL, 0, told);
}

static double told_of(const char *name, const char *what) {
  return json_number_value(json_object_get(json_object_get(json_object_get(told, "dataparallel"), name), what));
}

static void check_bytes(const char *move, double bytes) {
  if (told_of(move, "bytes") != bytes) fail_msg("%s: %g bytes, not %g", move, told_of(move, "bytes"), bytes);
}

/* In virtual time nothing takes any but links and a planted delay: the master waits for that in front of the outputs,
 * and what it moves takes what latency and bandwidth say. */
static void moves_stand_apart_in_the_ledger(void **state) {
  virtual_links = (ronde__sim_options){.within = {10e-6, 1e-9}, .seed = 1};
  observe_on = make_virtual;
  observe_also = look;
  observed o = run_of_problem(&problems[0], STRATEGY "steps=%d batch=%d drop-last=on workers=2 drill=slow:1:%d", STEPS,
                              BATCH, SLOW_MS);
  observe_on = ronde__transport_threads;
  observe_also = NULL;
  static const char *const moves[] = {"scatter", "replicate", "gather", "scatter_gradient", "reduce"};
  double seconds = 0;
  for (size_t i = 0; i < RONDE__COUNT(moves); ++i) {
    double s = told_of(moves[i], "seconds"), link = told_of(moves[i], "bytes") * 1e-9;
    if (s > STEPS * 100e-6 + 4 * link || (s < link && i != 2)) /* outputs travel behind their head, while it waits */
      fail_msg("%s: %g s for %g s of link", moves[i], s, link);
    seconds += s;
  }
  check_bytes("scatter", STEPS * BATCH / 2 * SMALL_PIXELS * sizeof(float));
  check_bytes("gather", STEPS * BATCH / 2 * SMALL_CLASSES * sizeof(float));
  check_bytes("scatter_gradient", STEPS * BATCH / 2 * SMALL_CLASSES * sizeof(float));
  check_bytes("replicate", (STEPS + 2.) * (double)trained_bytes); /* and at the end of each epoch */
  check_bytes("reduce", STEPS * (double)trained_bytes);
  uint64_t slow_ns = (uint64_t)STEPS * SLOW_MS * MS;
  assert_true(fabs(seconds - (double)moved_ns[0] * 1e-9) < 1e-9);
  assert_true(moved_ns[0] <= phases[0][RONDE__PHASE_EXCHANGE] && phases[0][RONDE__PHASE_EXCHANGE] < slow_ns / 10);
  assert_true(phases[1][RONDE__PHASE_FORWARD] == slow_ns && phases[0][RONDE__PHASE_FORWARD] == 0);
  assert_true(phases[0][RONDE__PHASE_WAIT] >= slow_ns && phases[0][RONDE__PHASE_WAIT] < slow_ns + slow_ns / 10);
  assert_true(phases[1][RONDE__PHASE_WAIT] < slow_ns / 10);
  assert_true(late[1].steps == STEPS && late[0].steps == 0);
  assert_int_equal(ronde__straggler_row_cause(&late[1]), RONDE__STRAGGLER_COMPUTE);
  json_decref(told);
  free(o.weights);
}

/* Only the master loads, and the others wait for it. */
static void one_loads_for_all(void **state) {
  virtual_links = (ronde__sim_options){.within = {10e-6, 1e-9}, .seed = 1};
  observe_on = make_virtual;
  observe_also = look;
  observed o =
      run_of_problem(&problems[0], STRATEGY "steps=%d batch=%d workers=3 drill=load:%d", STEPS, BATCH, SLOW_MS);
  observe_on = ronde__transport_threads;
  observe_also = NULL;
  uint64_t slow_ns = (uint64_t)STEPS * SLOW_MS * MS;
  assert_true(phases[0][RONDE__PHASE_LOAD] > slow_ns - slow_ns / 10);
  for (int r = 1; r < 3; ++r) {
    assert_true(phases[r][RONDE__PHASE_LOAD] == 0);
    assert_true(phases[r][RONDE__PHASE_WAIT] > slow_ns - slow_ns / 10);
  }
  json_decref(told);
  free(o.weights);
}

/* ---- what breaks -------------------------------------------------------------------------------------------------- */

static ronde_source source_of(ronde_status (*read)(void *, ronde_split, const int64_t *, int64_t, float *, int64_t *,
                                                   float *)) {
  ronde_source source = small_source(40, 8);
  source.read = read;
  return source;
}

static void broken_numbers_have_a_name(void **state) {
  for (int workers = 1; workers <= 7; workers += 3) {
    char options[256], says[64];
    json_t *run;
    int rank = 0;
    while (ronde__shard_begin(8, rank + 1, workers) <= 13 % 8) rank++;
    snprintf(options, sizeof options, STRATEGY "batch=8 shuffle=off epochs=1 threads=1 workers=%d", workers);
    assert_int_equal(train_on(options, source_of(small_nan_read), norm_model, &run), RONDE_E_NUMERIC);
    snprintf(says, sizeof says, "step 2: the loss of rank %d is NaN or Inf", rank);
    if (!strstr(lines.error, says)) fail_msg("%s: %s", options, lines.error);
    assert_int_equal(lines.n_errors, 1);
    json_decref(run);
    rank = 0;
    while (ronde__shard_begin(8, rank + 1, workers) <= 7) rank++;
    assert_int_equal(train_on(options, source_of(small_huge_read), saturating_model, &run), RONDE_E_NUMERIC);
    snprintf(says, sizeof says, "step 1: the gradient of fc1.weight on rank %d", rank);
    if (!strstr(lines.error, says)) fail_msg("%s: %s", options, lines.error);
    json_decref(run);
  }
}

/* What they change is nothing: not even what batch normalisation keeps, which two workers of allreduce have too. */
static void bad_steps_are_left_out(void **state) {
  json_t *runs[2];
  static const char *const strategies[] = {"allreduce", "dataparallel"};
  for (int i = 0; i < 2; ++i) {
    char options[256];
    snprintf(options, sizeof options, "strategy=%s batch=8 shuffle=off epochs=2 skip-bad-steps=2 threads=1 workers=2",
             strategies[i]);
    assert_int_equal(train_on(options, source_of(small_nan_read), norm_model, &runs[i]), RONDE_OK);
    assert_int_equal((int)real_at(runs[i], "totals.skipped_steps"), 2);
    assert_int_equal(lines.n_warnings, 2);
  }
  assert_string_equal(text_at(runs[0], "result.state_sha256"), text_at(runs[1], "result.state_sha256"));
  json_decref(runs[0]);
  json_decref(runs[1]);
}

/* A replica's network is defined anew in each pass, but its loss is the master's to know. */
static ronde_tensor *changing_its_loss(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  ronde_pass pass = ronde_graph_pass(graph);
  ronde_tensor *a = ronde_linear(ronde_flatten(x), "fc1", classes, true);
  ronde_tensor *b = ronde_linear(ronde_flatten(x), "fc2", classes + 1, true);
  bool other = pass.eager && pass.training && pass.step == 2;
  ronde_graph_set_loss(graph, ronde_cross_entropy(other ? b : a, ronde_target(graph)));
  return a;
}

static void a_loss_that_changes_is_refused(void **state) {
  ronde_source source = small_source(24, 0);
  ronde_hooks hooks = {.model = changing_its_loss, .source = &source};
  ronde_config *config = config_make("train", STRATEGY "batch=8 threads=1 workers=2 exec=eager");
  test_log_start(&lines);
  ronde_status status = ronde_train(config, &hooks, NULL);
  ronde_config_destroy(config);
  check_failed(&lines, status, RONDE_E_USAGE, "the loss of this pass", "the same in every pass");
}

/* ---- checkpoints and options -------------------------------------------------------------------------------------- */

#define COMMON "batch=8 threads=1 optimizer=adam lr=0.01 "

/* Its own bits, and the state that others go on from, which is rank 0's alone. */
static void checkpoints_go_on_here_and_elsewhere(void **state) {
  json_t *whole = small_job(norm_model, COMMON STRATEGY "workers=3 steps=8 out=%s/whole", folder);
  json_decref(small_job(norm_model, COMMON STRATEGY "workers=3 steps=4 out=%s/part checkpoint-every=2 keep=9", folder));
  json_t *rest = small_job(norm_model, "resume=%s/part steps=8", folder);
  assert_string_equal(text_at(rest, "world.strategy"), "dataparallel");
  assert_string_equal(text_at(rest, "result.state_sha256"), text_at(whole, "result.state_sha256"));
  json_decref(rest);
  static const char *const others[] = {"strategy=dataparallel workers=2", "strategy=single workers=1",
                                       "strategy=allreduce workers=3", "strategy=ps-sync workers=2 servers=2"};
  for (size_t i = 0; i < RONDE__COUNT(others); ++i) {
    rest = small_job(norm_model, "%s steps=8 resume=%s/part/checkpoints/step-2.safetensors out=%s/other%zu", others[i],
                     folder, folder, i);
    assert_int_equal((int)real_at(rest, "resumed_from.step"), 2);
    assert_true(isfinite(real_at(rest, "result.test_loss")));
    json_decref(rest);
  }
  json_decref(whole);
}

/* Bits of two workers are allreduce's, optimizer and all: so are those of a run that changes its strategy halfway. */
static void a_run_may_change_its_strategy_halfway(void **state) {
  static const char *const names[] = {"allreduce", "dataparallel"};
  json_t *whole = small_job(norm_model, COMMON "strategy=allreduce shard=whole workers=2 steps=8 out=%s/whole", folder);
  for (int i = 0; i < 2; ++i) {
    json_decref(small_job(norm_model, COMMON "strategy=%s %sworkers=2 steps=4 out=%s/%d", names[i],
                          i ? "" : "shard=whole ", folder, i));
    json_t *rest = small_job(norm_model, "strategy=%s resume=%s/%d steps=8", names[1 - i], folder, i);
    assert_string_equal(text_at(rest, "result.state_sha256"), text_at(whole, "result.state_sha256"));
    json_decref(rest);
  }
  json_decref(whole);
}

static void check_refused(const char *option, const char *says) {
  char options[256];
  snprintf(options, sizeof options, "model=lenet5 data=synthetic:1x28x28:10:40 batch=8 workers=2 " STRATEGY "%s",
           option);
  ronde_config *config = config_make("train", options);
  test_log_start(&lines);
  ronde_status status = ronde_train(config, NULL, NULL);
  ronde_config_destroy(config);
  check_failed(&lines, status, RONDE_E_USAGE, says, "");
}

static void options_without_an_effect_are_refused(void **state) {
  check_refused("bucket-mb=1", "--bucket-mb can have no effect");
  check_refused("overlap=on", "--overlap can have no effect");
  check_refused("wire=bf16", "--wire can have no effect");
  check_refused("collective=ring", "--collective can have no effect");
  check_refused("sync-bn=on", "--sync-bn can have no effect");
  check_refused("sentinel=3", "--sentinel can have no effect");
  check_refused("servers=2", "--servers can have no effect");
  check_refused("drill=load:1:5", "rank 0 loads for all");
  check_refused("shard=whole", "--shard can have no effect");
}

/* The master has the optimizer's state, the batch, its outputs, and the gradients of a replica: once. */
static void its_memory_is_shown(void **state) {
  static const char *const names[] = {"allreduce", "dataparallel"};
  json_t *plans[2];
  for (int i = 0; i < 2; ++i) {
    char options[256];
    snprintf(options, sizeof options,
             "model=lenet5 data=synthetic:1x28x28:10:80 batch=40 workers=4 threads=1 optimizer=adam dry-run=on "
             "strategy=%s",
             names[i]);
    plans[i] = job_run("train", options, NULL);
  }
  double optimizer = real_at(plans[1], "memory_bytes.optimizer"),
         gradients = real_at(plans[1], "memory_bytes.gradients");
  double more = 40 * (28 * 28 + 10) * sizeof(float) + gradients - 3 * optimizer;
  double arenas = 4 * (real_at(plans[1], "memory_bytes.arena") - real_at(plans[0], "memory_bytes.arena"));
  assert_true(real_at(plans[1], "memory_bytes.total") - real_at(plans[0], "memory_bytes.total") == more + arenas);
  json_decref(plans[0]);
  json_decref(plans[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder_with_log, remove_folder)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_step_of_many_is_a_step_of_one),
      TEST(whole_epochs_are_those_of_one),
      TEST(eager_passes_have_the_bits_of_plans),
      TEST(replicas_have_the_statistics_of_their_parts),
      TEST(runs_repeat_on_threads_and_in_virtual_time),
      TEST(threads_of_a_rank_change_no_bit),
      TEST(moves_stand_apart_in_the_ledger),
      TEST(one_loads_for_all),
      TEST(broken_numbers_have_a_name),
      TEST(bad_steps_are_left_out),
      TEST(a_loss_that_changes_is_refused),
      TEST(checkpoints_go_on_here_and_elsewhere),
      TEST(a_run_may_change_its_strategy_halfway),
      TEST(options_without_an_effect_are_refused),
      TEST(its_memory_is_shown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

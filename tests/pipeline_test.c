/* Networks in stages: whole runs that are those of one worker, wherever they are cut, with the micro-batches as that
 * one's batches; their files, which are of the whole; what breaks has a name; and what cannot be is refused. */
#include "comm/sim.h"
#include "resume_testing.h"
#include "sanitized.h"

#include <string.h>

/* Of sums of f32 in another order, against the largest element of the update. */
#define UPDATE_TOLERANCE 1e-5
#define LOSS_TOLERANCE 2e-6
#define STRATEGY "strategy=pipeline "

typedef struct problem {
  const char *name, *options;
  ronde_model_fn model; /* NULL: options name a built-in one, and its data */
  bool values, normed;  /* normed: it looks across the batch */
  int most_stages;
} problem;

static ronde_tensor *dropping(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  x = ronde_relu(ronde_linear(ronde_dropout(ronde_flatten(x), 0.25f), "fc1", 30, true));
  x = ronde_relu(ronde_linear(ronde_dropout(x, 0.5f), "fc2", 20, true));
  return ronde_linear(ronde_dropout(x, 0.5f), "fc3", classes, true);
}

/* Two layers of one weight, with others in front and behind. */
static ronde_tensor *sharing(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  ronde_graph_share(graph, "fc");
  x = ronde_tanh(ronde_linear(ronde_flatten(x), "first", 8, true));
  x = ronde_tanh(ronde_linear(x, "fc", 8, true));
  x = ronde_tanh(ronde_linear(x, "fc", 8, true));
  return ronde_linear(x, "last", classes, true);
}

/* What a layer computes is read by all behind it, so it crosses every cut. */
static ronde_tensor *skipping(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  ronde_conv2d_options conv = {.out_channels = 6, .kernel = {3, 3}, .padding = {1, 1}, .no_bias = true};
  ronde_tensor *first = ronde_relu(ronde_batch_norm2d(ronde_conv2d(x, "conv1", &conv), "bn1", NULL));
  x = ronde_relu(ronde_batch_norm2d(ronde_conv2d(first, "conv2", &conv), "bn2", NULL));
  x = ronde_relu(ronde_add(ronde_batch_norm2d(ronde_conv2d(x, "conv3", &conv), "bn3", NULL), first));
  return ronde_linear(ronde_flatten(x), "fc", classes, true);
}

static const problem problems[] = {
    {"small", "", small_model, false, false, 2},
    {"regression", "", small_regression, true, false, 2},
    {"dead taps", "", dead_taps_model, false, false, 3},
    {"dropout, smoothed", "label-smoothing=0.1", dropping, false, false, 3},
    {"shared", "", sharing, false, false, 3},
    {"shortcuts", "", skipping, false, true, 4},
    {"lenet5", "model=lenet5 data=synthetic:1x28x28:10:48", NULL, false, false, 4},
    {"mnist-small", "model=mnist-small padding=valid data=synthetic:3x12x12:4:48", NULL, false, false, 3},
    {"mlp", "model=mlp:40,30,20 data=synthetic:1x8x8:4:48", NULL, false, false, 4},
    {"resnet18-cifar", "model=resnet18-cifar data=synthetic:3x16x16:4:24", NULL, false, true, 4},
};

/* The last one does nothing between threads that the others do not. */
enum { N_PROBLEMS = RONDE__COUNT(problems) - THREADS_ONLY };

#define run_of(p, ...) \
  observe_small(&(small_problem){(p)->name, (p)->options, (p)->model, (p)->values, 24, 7}, __VA_ARGS__)

static void check_same(const problem *p, const char *what, observed *a, observed *b) {
  if (!bits_equal(a, b)) fail_msg("%s: %s: other bits, losses %.9g and %.9g", p->name, what, a->loss[0], b->loss[0]);
  assert_true(a->test_loss == b->test_loss || isnan(a->test_loss));
  assert_int_equal(a->n_weights, b->n_weights);
  assert_memory_equal(a->weights, b->weights, (a->n_weights + a->n_buffers) * sizeof *a->weights);
}

static void check_close(const problem *p, const char *what, const observed *a, const observed *b, const observed *fresh,
                        double factor) {
  double update = update_difference(a, b, fresh), loss = 0;
  assert_int_equal(a->n_steps, b->n_steps);
  for (int64_t i = 0; i < a->n_steps; ++i) loss = fmax(loss, fabs(a->loss[i] - b->loss[i]) / fabs(b->loss[i]));
  if (update > factor * UPDATE_TOLERANCE || loss > factor * LOSS_TOLERANCE)
    fail_msg("%s: %s: updates differ by %g, losses by %g", p->name, what, update, loss);
}

/* ---- one worker's bits -------------------------------------------------------------------------------------------- */

/* Micro-batches are one worker's batches, of which four make an update: also where the network looks across them. */
static void check_stages(const problem *p, const char *how) {
  observed one = run_of(p, "epochs=2 lr=0.05 batch=3 accumulate=4 %s", how);
  for (int stages = IN_PART ? p->most_stages : 1; stages <= p->most_stages; ++stages) {
    observed many = run_of(p, STRATEGY "epochs=2 lr=0.05 batch=12 micro-batches=4 workers=%d %s", stages, how);
    check_same(p, how, &many, &one);
    free(many.weights);
  }
  free(one.weights);
}

static void stages_have_the_bits_of_one_worker(void **state) {
  for (size_t i = 0; i < N_PROBLEMS; ++i) check_stages(&problems[i], "momentum=0.9");
}

static void the_same_in_virtual_time(void **state) {
  leave_out_if(SANITIZED, "stages in virtual time: on threads they have the same code");
  observe_on = make_virtual;
  for (size_t i = 0; i < N_PROBLEMS; ++i) check_stages(&problems[i], "optimizer=adam eps=0.001");
  observe_on = ronde__transport_threads;
}

/* Planted: the lowest bit of a weight of the second stage flips once. */
static void flip(ronde__job *job) {
  job->drills[RONDE__DRILL_DRIFT] = (ronde__drill){.on = true, .rank = 1, .step = 2};
}

static void what_one_stage_does_wrong_is_seen(void **state) {
  ronde_source source = small_source(24, 7);
  static const char options[] = STRATEGY "epochs=2 batch=12 micro-batches=4 workers=2 threads=1";
  observed right = observe(options, &source, small_model, NULL), wrong = observe(options, &source, small_model, flip);
  assert_int_equal(wrong.status, RONDE_OK);
  assert_false(bits_equal(&right, &wrong));
  free(right.weights), free(wrong.weights);
}

/* What was foreseen before there were ranks is what they hold: activations of as many micro-batches as stages lie behind. */
static void check_memory(ronde__run *run) {
  const ronde__job *job = run->job;
  for (int s = 0; s < job->n_stages; ++s) {
    const ronde__stage_size *size = &job->stages[s].size;
    ronde__net_memory memory = ronde__net_memory_use(run->ranks[s].net);
    assert_int_equal(memory.arena, size->arena_bytes * (size_t)(job->n_stages - s));
    assert_true(memory.parameters >= size->parameters * sizeof(float));
    assert_true(memory.gradients >= size->trained * sizeof(float) && size->trained > 0);
  }
}

static void no_more_activations_are_alive_than_stages_lie_behind(void **state) {
  observe_also = check_memory;
  for (size_t i = 0; i < N_PROBLEMS; ++i) {
    observed o = run_of(&problems[i], STRATEGY "epochs=1 batch=12 micro-batches=6 workers=%d", problems[i].most_stages);
    free(o.weights);
  }
  observe_also = NULL;
}

/* Several batches go through without a pause between them; layers in front need no gradient. */
static void batches_follow_one_another(void **state) {
  for (size_t i = 0; i < N_PROBLEMS; ++i) {
    const problem *p = &problems[i];
    observed one = run_of(p, "epochs=2 lr=0.05 batch=2 accumulate=6");
    for (int micro = IN_PART ? 2 : 1; micro <= (IN_PART ? 2 : 3); ++micro) {
      observed many = run_of(p, STRATEGY "epochs=2 lr=0.05 batch=%d micro-batches=%d accumulate=%d workers=%d",
                             2 * micro, micro, 6 / micro, p->most_stages);
      check_same(p, "accumulated", &many, &one);
      free(many.weights);
    }
    free(one.weights);
  }
}

static void frozen_stages_need_no_gradient(void **state) {
  const problem *p = &problems[6];
  static const char *const frozen[] = {"conv1", "conv1,conv2,fc1", "fc2", "conv2,fc1,fc2,fc3"};
  for (size_t i = 0; i < RONDE__COUNT(frozen); ++i) {
    char how[64];
    snprintf(how, sizeof how, "freeze=%s", frozen[i]);
    check_stages(p, how);
  }
}

/* The norm is the whole gradient's, summed stage by stage. */
static void stages_are_clipped_together(void **state) {
  for (size_t i = 0; i < 4; ++i) {
    const problem *p = &problems[i];
    observed fresh = run_of(p, "steps=1 lr=0 batch=12"), free_one = run_of(p, "epochs=2 lr=0.1 batch=12");
    observed one = run_of(p, "epochs=2 lr=0.1 batch=12 clip=0.05");
    assert_true(update_difference(&free_one, &one, &fresh) > 1e-2); /* it does something */
    for (int stages = 2; stages <= p->most_stages; ++stages) {
      observed many = run_of(p, STRATEGY "epochs=2 lr=0.1 batch=12 micro-batches=4 clip=0.05 workers=%d", stages);
      check_close(p, "clipped", &many, &one, &fresh, 4);
      free(many.weights);
    }
    free(fresh.weights), free(free_one.weights), free(one.weights);
  }
}

/* Micro-batches that do not divide a batch, short last batches among them: 24 = 2 x 11 + 2. */
static void uneven_micro_batches_make_the_same_step(void **state) {
  for (size_t i = 0; i < N_PROBLEMS; ++i) {
    const problem *p = &problems[i];
    if (p->normed) continue;
    observed fresh = run_of(p, "steps=1 lr=0 batch=11"), one = run_of(p, "epochs=2 lr=0.1 batch=11");
    for (int micro = IN_PART ? 4 : 1; micro <= (IN_PART ? 4 : 11); micro += 3) {
      observed many = run_of(p, STRATEGY "epochs=2 lr=0.1 batch=11 micro-batches=%d workers=2", micro);
      check_close(p, "uneven", &many, &one, &fresh, 4);
      free(many.weights);
    }
    free(fresh.weights), free(one.weights);
  }
}

/* ---- replicas ----------------------------------------------------------------------------------------------------- */

/* Of a short last batch a replica may have no example: 24 = 3 x 7 + 3 for 4 replicas. */
static void replicas_of_stages_make_the_same_step(void **state) {
  for (size_t i = 0; i < N_PROBLEMS; ++i) {
    const problem *p = &problems[i];
    if (p->normed) continue;
    observed fresh = run_of(p, "steps=1 lr=0 batch=7"), one = run_of(p, "epochs=2 lr=0.1 batch=7");
    for (int replicas = IN_PART ? 4 : 2; replicas <= 4; ++replicas) {
      observed many =
          run_of(p, STRATEGY "epochs=2 lr=0.1 batch=7 stages=2 workers=%d sentinel=1 micro-batches=1", 2 * replicas);
      check_close(p, "replicas", &many, &one, &fresh, 4);
      free(many.weights);
    }
    free(fresh.weights), free(one.weights);
  }
}

/* Of two there is one order of sums; statistics are a micro-batch's, and the first replica's are kept. */
static void two_replicas_have_the_bits_of_two_workers(void **state) {
  for (size_t i = 0; i < N_PROBLEMS; ++i) {
    const problem *p = &problems[i];
    observed all = run_of(p, "strategy=allreduce epochs=2 lr=0.05 batch=12 workers=2");
    observed many = run_of(p, STRATEGY "epochs=2 lr=0.05 batch=12 stages=2 workers=4 micro-batches=1");
    check_same(p, "two replicas", &many, &all);
    free(all.weights), free(many.weights);
  }
}

static void drift(ronde__job *job) {
  job->drills[RONDE__DRILL_DRIFT] = (ronde__drill){.on = true, .rank = 3, .step = 2};
}

/* Ranks 1 and 3 have the second stage. */
static void a_stage_that_differs_is_named(void **state) {
  ronde_source source = small_source(24, 0);
  test_log_start(&lines);
  observed o = observe(STRATEGY "stages=2 workers=4 batch=8 sentinel=1 threads=1", &source, small_model, drift);
  assert_int_equal(o.status, RONDE_E_DIFFERENCE);
  assert_non_null(strstr(lines.error, "of rank 3 differs from that of rank 1"));
}

/* ---- what breaks -------------------------------------------------------------------------------------------------- */

/* The loss is known to the last stage, which is where NaN shows first; a gradient to the stage of its parameter. */
static void broken_numbers_have_a_name(void **state) {
  ronde_source source = small_source(40, 8);
  json_t *run;
  source.read = small_nan_read;
  static const char options[] = STRATEGY "batch=8 micro-batches=4 shuffle=off epochs=1 threads=1 workers=2";
  assert_int_equal(train_on(options, source, skipping, &run), RONDE_E_NUMERIC);
  assert_non_null(strstr(lines.error, "step 2: the loss of rank 1 is NaN or Inf"));
  assert_int_equal(lines.n_errors, 1);
  assert_non_null(json_at(run, "result.weights_sha256"));
  json_decref(run);
  source.read = small_huge_read;
  assert_int_equal(train_on(options, source, saturating_model, &run), RONDE_E_NUMERIC);
  assert_non_null(strstr(lines.error, "step 1: the gradient of fc1.weight on rank 0"));
  json_decref(run);
  assert_int_equal(train_on(STRATEGY "batch=8 epochs=1 threads=1 workers=2 drill=corrupt:1@3", small_source(40, 8),
                            small_model, &run),
                   RONDE_E_NUMERIC);
  assert_non_null(strstr(lines.error, "step 3: the gradient of fc2."));
  assert_non_null(strstr(lines.error, "on rank 1"));
  json_decref(run);
}

/* What they change is nothing, running statistics included. */
static void bad_steps_are_left_out(void **state) {
  json_t *runs[2];
  ronde_source source = small_source(40, 8);
  static const char *const how[] = {"batch=2 accumulate=4", STRATEGY "batch=8 micro-batches=4 workers=3"};
  source.read = small_nan_read;
  for (int i = 0; i < 2; ++i) {
    char options[256];
    snprintf(options, sizeof options, "%s shuffle=off epochs=2 skip-bad-steps=2 threads=1", how[i]);
    assert_int_equal(train_on(options, source, skipping, &runs[i]), RONDE_OK);
    assert_int_equal((int)real_at(runs[i], "totals.skipped_steps"), 2);
  }
  assert_string_equal(text_at(runs[0], "result.state_sha256"), text_at(runs[1], "result.state_sha256"));
  json_decref(runs[0]), json_decref(runs[1]);
}

/* ---- files -------------------------------------------------------------------------------------------------------- */

static void check_same_file(const char *a, const char *b) {
  char path_a[256], path_b[256];
  snprintf(path_a, sizeof path_a, "%s/%s", folder, a);
  snprintf(path_b, sizeof path_b, "%s/%s", folder, b);
  test_bytes one = read_all(path_a), other = read_all(path_b);
  if (one.n != other.n || memcmp(one.data, other.data, one.n)) fail_msg("%s differs from %s", a, b);
  free(one.data), free(other.data);
}

#define ONE "batch=2 accumulate=4 optimizer=adam lr=0.01 threads=1 "
#define STAGES STRATEGY "batch=8 micro-batches=4 optimizer=adam lr=0.01 threads=1 "

static void files_are_those_of_one_worker(void **state) {
  json_t *one = small_job(skipping, ONE "epochs=3 out=%s/one save=%s/one.safetensors", folder, folder);
  json_t *many = small_job(skipping, STAGES "workers=3 epochs=3 out=%s/many save=%s/many.safetensors", folder, folder);
  static const char *const same[] = {"result.weights_sha256", "result.state_sha256", "result.test_loss",
                                     "result.best.epoch", "model.parameters"};
  for (size_t i = 0; i < RONDE__COUNT(same); ++i)
    if (!json_equal(json_at(one, same[i]), json_at(many, same[i]))) fail_msg("another %s", same[i]);
  check_same_file("one/best.safetensors", "many/best.safetensors");
  check_same_file("one/last.safetensors", "many/last.safetensors");
  check_same_file("one.safetensors", "many.safetensors");
  assert_true(real_at(many, "communication.bubble_s") > 0);
  assert_true(json_is_null(json_at(one, "communication.bubble_s")));
  json_decref(one), json_decref(many);
}

/* Each half of a run by other workers: the bits are those of a run by one. */
static void a_run_goes_on_with_other_stages(void **state) {
  static const char *const first[] = {"stages=3", "workers=2", "workers=1", "workers=4 stages=4 "};
  static const char *const then[] = {"workers=2", "workers=4", "workers=3", "workers=1"};
  json_t *whole = small_job(skipping, STAGES "workers=1 steps=8 out=%s/whole", folder);
  for (size_t i = 0; i < RONDE__COUNT(first); ++i) {
    json_decref(small_job(skipping, STAGES "%s steps=5 checkpoint-every=2 keep=9 out=%s/part%zu", first[i], folder, i));
    json_t *rest = small_job(skipping, "%s steps=8 resume=%s/part%zu", then[i], folder, i);
    assert_string_equal(text_at(rest, "result.state_sha256"), text_at(whole, "result.state_sha256"));
    assert_int_equal((int)real_at(rest, "resumed_from.step"), 5);
    json_decref(rest);
    rest = small_job(skipping, "%s steps=8 resume=%s/part%zu/checkpoints/step-4.safetensors out=%s/early%zu", then[i],
                     folder, i, folder, i);
    assert_string_equal(text_at(rest, "result.state_sha256"), text_at(whole, "result.state_sha256"));
    json_decref(rest);
  }
  json_decref(whole);
}

/* Saved at once by all stages, and by another number of them to the bits of a run that was never stopped. */
static void an_interrupted_run_is_whole(void **state) {
  char options[512];
  json_t *whole, *part;
  in(options, SET STAGES "workers=3 epochs=2 out=%s/whole", folder);
  assert_int_equal(train(options, 0, &whole), RONDE_OK);
  in(options, SET STAGES "workers=3 epochs=2 out=%s/part", folder);
  assert_int_equal(train(options, 5, &part), RONDE_E_CANCELLED);
  assert_non_null(text_at(part, "result.state_sha256"));
  assert_int_equal((int)real_at(part, "totals.steps"), 5);
  json_decref(part);
  in(options, "resume=%s/part workers=2 stages=2", folder);
  assert_int_equal(train(options, 0, &part), RONDE_OK);
  assert_string_equal(text_at(part, "result.state_sha256"), text_at(whole, "result.state_sha256"));
  json_decref(part), json_decref(whole);
}

/* A network in memory is whole too. */
static void what_was_trained_in_stages_answers(void **state) {
  static const char *const how[] = {ONE "epochs=2", STAGES "epochs=2 workers=3"};
  ronde_source source = small_source(40, 8);
  float x[SMALL_PIXELS], y[2][SMALL_CLASSES];
  for (int i = 0; i < SMALL_PIXELS; ++i) x[i] = small_noise(3, i);
  for (int i = 0; i < 2; ++i) {
    ronde_config *config = config_make("train", how[i]);
    ronde_predictor *p;
    ronde_hooks hooks = {.model = skipping, .source = &source};
    assert_int_equal(ronde_train_predictor(config, &hooks, &p, NULL), RONDE_OK);
    assert_int_equal(ronde_predictor_run(p, 1, x, y[i]), RONDE_OK);
    ronde_predictor_destroy(p);
    ronde_config_destroy(config);
  }
  assert_memory_equal(y[0], y[1], sizeof y[0]);
}

/* Those that equal one worker go on with it, and it with theirs. */
static void strategies_go_on_with_each_other(void **state) {
  static const char *const others[] = {"strategy=single workers=1", "strategy=allreduce workers=2",
                                       "strategy=sharded workers=3", "strategy=ps-sync workers=2"};
  json_decref(small_job(skipping, STAGES "workers=3 steps=4 out=%s/stages", folder));
  for (size_t i = 0; i < RONDE__COUNT(others); ++i) {
    json_t *rest = small_job(skipping, "%s steps=8 resume=%s/stages/checkpoints/step-4.safetensors out=%s/to%zu",
                             others[i], folder, folder, i);
    assert_true(isfinite(real_at(rest, "result.test_loss")));
    json_decref(rest);
    rest = small_job(
        skipping, STRATEGY "workers=4 stages=2 steps=12 resume=%s/to%zu/checkpoints/step-8.safetensors out=%s/from%zu",
        folder, i, folder, i);
    assert_int_equal((int)real_at(rest, "resumed_from.step"), 8);
    assert_string_equal(text_at(rest, "world.strategy"), "pipeline");
    json_decref(rest);
  }
}

/* ---- options ------------------------------------------------------------------------------------------------------ */

static void stages_alone_say_how_many_workers(void **state) {
  json_t *run = small_job(skipping, STAGES "stages=3 steps=2");
  assert_int_equal((int)real_at(run, "world.workers"), 3);
  json_decref(run);
  run = small_job(skipping, STRATEGY "batch=8 workers=2 threads=1 steps=2");
  assert_int_equal((int)real_at(run, "config.stages"), 2);
  assert_int_equal((int)real_at(run, "config.micro-batches"), 8);
  json_decref(run);
}

static void a_plan_has_the_stages(void **state) {
  json_t *plan = small_job(skipping, STAGES "stages=3 dry-run=on"), *stages = json_at(plan, "stages"), *stage;
  size_t i;
  double parameters = 0, share = 0;
  assert_int_equal(json_array_size(stages), 3);
  json_array_foreach(stages, i, stage) {
    parameters += real_at(stage, "parameters");
    share += real_at(stage, "share");
    assert_true(real_at(stage, "memory_bytes.total") > 0 && real_at(stage, "executed_flops_per_example") > 0);
    assert_int_equal((int)real_at(stage, "micro_batches_under_way"), 3 - (int)i);
    assert_true(real_at(stage, "sent_bytes_per_example") > 0 && real_at(stage, "predicted_s") > 0);
  }
  assert_string_equal(text_at(plan, "stages.0.first"), "conv1");
  assert_true(fabs(share - 1) < 1e-9);
  assert_true(parameters >= real_at(plan, "parameters"));
  json_decref(plan);
}

/* Forward and backward of each micro-batch, in the row of its stage. */
static void each_stage_has_its_row_in_the_trace(void **state) {
  char path[256];
  int n_passes[3][2] = {{0}};
  size_t i;
  json_decref(small_job(skipping, STAGES "stages=3 micro-batches=4 steps=2 trace=on out=%s/traced", folder));
  snprintf(path, sizeof path, "%s/traced/trace.json", folder);
  json_t *trace = json_load_file(path, 0, NULL), *event;
  assert_non_null(trace);
  json_array_foreach(json_object_get(trace, "traceEvents"), i, event) {
    const char *name = json_string_value(json_object_get(event, "name"));
    int stage = (int)json_integer_value(json_object_get(event, "pid"));
    if (json_integer_value(json_object_get(event, "tid")) != 0 || strcmp(text_at(event, "ph"), "X")) continue;
    assert_in_range(stage, 0, 2);
    n_passes[stage][0] += !strcmp(name, "forward");
    n_passes[stage][1] += !strcmp(name, "backward");
  }
  for (int s = 0; s < 3; ++s) assert_true(n_passes[s][0] >= 8 && n_passes[s][1] >= 8);
  json_decref(trace);
}

/* What one worker took, by which the stages are cut: half of the network's time is said to be its last layer's. */
static void recorded_costs_decide_where_it_is_cut(void **state) {
  char path[256], options[512];
  static const char model[] = "model=mlp:40,40,40 data=synthetic:1x8x8:4:48 threads=1 steps=3 ";
  snprintf(path, sizeof path, "%s/spans.json", folder);
  snprintf(options, sizeof options, "%s batch=4 record-spans=%s", model, path);
  json_decref(job_run("train", options, NULL));
  json_t *spans = json_load_file(path, 0, NULL), *row;
  size_t i;
  assert_non_null(spans);
  json_object_set_new(spans, "forward_ns", json_integer(8000));
  json_object_set_new(spans, "backward_ns", json_integer(16000));
  json_object_set_new(spans, "update_ns", json_integer(0));
  json_array_foreach(json_object_get(spans, "parameters"), i, row) {
    json_int_t layer = (json_int_t)i / 2; /* weight and bias */
    json_object_set_new(row, "needed_ns", json_integer(layer * 1000));
    json_int_t done = layer == 3 ? 10000 : 10000 + (3 - layer) * 2000;
    json_object_set_new(row, "ready_ns", json_integer(done - 1900)); /* the gradient of its input takes the rest */
    json_object_set_new(row, "done_ns", json_integer(done));
  }
  assert_int_equal(json_dump_file(spans, path, 0), 0);
  json_decref(spans);
  snprintf(options, sizeof options, "%s batch=16 micro-batches=4 strategy=pipeline stages=2 stage-costs=%s dry-run=on",
           model, path);
  json_t *plan = job_run("train", options, NULL);
  assert_string_equal(text_at(plan, "predicted_from"), "spans");
  assert_string_equal(text_at(plan, "stages.1.first"), "fc4");
  /* 4 micro-batches of 9000 and 15000 ns, messages on top: the second stage waits once for the first */
  double step = real_at(plan, "predicted_step_s"), computed = 4 * 15e-6 + 9e-6;
  assert_true(step >= computed && step < 1.1 * computed);
  json_decref(plan);
  snprintf(options, sizeof options, "%s batch=16 micro-batches=4 strategy=pipeline stages=2 out=%s/foreseen", model,
           folder);
  json_t *run = job_run("train", options, NULL);
  assert_string_equal(text_at(run, "communication.predicted_from"), "model");
  assert_true(real_at(run, "communication.predicted_step_s") > 0 && real_at(run, "communication.step_s") > 0);
  assert_true(real_at(run, "workers.0.needed_bytes") > 0);
  json_decref(run);
}

static void check_refused(const char *option, const char *says) {
  char options[256];
  json_t *run;
  snprintf(options, sizeof options, STRATEGY "batch=8 %s", option);
  assert_int_equal(train_on(options, small_source(24, 7), small_model, &run), RONDE_E_USAGE);
  if (!strstr(lines.error, says)) fail_msg("%s: '%s' has no '%s'", option, lines.error, says);
  json_decref(run);
}

static void what_cannot_be_is_refused(void **state) {
  check_refused("workers=9", "fewer layers");
  check_refused("stages=2 workers=3", "cannot be replicas of 2 stages");
  check_refused("stages=2 micro-batches=9", "a replica has only 8 examples");
  check_refused("stages=2 workers=4 micro-batches=5", "a replica has only 4 examples");
  check_refused("stages=1 workers=1 stage-costs=spans.json", "the network is not cut");
  check_refused("stages=2 exec=eager", "needs --exec graph");
  check_refused("stages=2 servers=2", "it applies to --strategy ps-sync");
  check_refused("stages=2 sync-bn=on", "it applies to --strategy");
  check_refused("stages=2 sentinel=5", "the same part of the network");
  check_refused("stages=2 shard=whole", "the same part of the network");
  check_refused("stages=2 optimizer=lbfgs", "its steps need several gradients");
}

/* One stage's clock decides, and all meet. */
static void a_clock_says_when_to_save(void **state) {
  json_t *whole = small_job(skipping, STAGES "workers=2 steps=8");
  json_decref(
      small_job(skipping, STAGES "workers=2 steps=8 checkpoint-every=1s keep=9 drill=slow:1:300 out=%s/timed", folder));
  int n_saved = 0;
  for (int step = 1; step < 8; ++step) {
    char path[256];
    snprintf(path, sizeof path, "%s/timed/checkpoints/step-%d.safetensors", folder, step);
    if (access(path, F_OK)) continue;
    json_t *rest = small_job(skipping, "steps=8 resume=%s", path);
    assert_true(json_equal(json_at(whole, "result.state_sha256"), json_at(rest, "result.state_sha256")));
    json_decref(rest);
    ++n_saved;
  }
  assert_in_range(n_saved, 1, 4);
  json_decref(whole);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder_with_log, remove_folder)
  const struct CMUnitTest tests[] = {TEST(stages_have_the_bits_of_one_worker),
                                     TEST(the_same_in_virtual_time),
                                     TEST(what_one_stage_does_wrong_is_seen),
                                     TEST(no_more_activations_are_alive_than_stages_lie_behind),
                                     TEST(batches_follow_one_another),
                                     TEST(frozen_stages_need_no_gradient),
                                     TEST(stages_are_clipped_together),
                                     TEST(a_clock_says_when_to_save),
                                     TEST(uneven_micro_batches_make_the_same_step),
                                     TEST(replicas_of_stages_make_the_same_step),
                                     TEST(two_replicas_have_the_bits_of_two_workers),
                                     TEST(a_stage_that_differs_is_named),
                                     TEST(broken_numbers_have_a_name),
                                     TEST(bad_steps_are_left_out),
                                     TEST(files_are_those_of_one_worker),
                                     TEST(a_run_goes_on_with_other_stages),
                                     TEST(an_interrupted_run_is_whole),
                                     TEST(what_was_trained_in_stages_answers),
                                     TEST(strategies_go_on_with_each_other),
                                     TEST(stages_alone_say_how_many_workers),
                                     TEST(a_plan_has_the_stages),
                                     TEST(each_stage_has_its_row_in_the_trace),
                                     TEST(recorded_costs_decide_where_it_is_cut),
                                     TEST(what_cannot_be_is_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

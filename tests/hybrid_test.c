/* Layers split over ranks by output feature: whole runs that equal one worker's, whatever the world, the last batch, the
 * optimizer, and who has examples; dropout that is the function it was; the bytes that travel; files, which are of the
 * whole; what breaks has a name; and what cannot be is refused. */
#include "comm/sim.h"
#include "resume_testing.h"
#include "sanitized.h"
#include "strategy/hybrid.h"

#include <string.h>

/* Of sums of f32 in another order, against the largest element of the update. */
#define UPDATE_TOLERANCE 1e-5
#define LOSS_TOLERANCE 2e-6
#define STRATEGY "strategy=hybrid "

typedef struct problem {
  const char *name, *options;
  const char *layers;   /* that are split */
  ronde_model_fn model; /* NULL: options name a built-in one, and its data */
  bool values;
  bool large; /* a few steps are enough */
} problem;

static ronde_tensor *dropping(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  x = ronde_relu(ronde_linear(ronde_dropout(ronde_flatten(x), 0.25f), "fc1", 150, true));
  x = ronde_relu(ronde_linear(ronde_dropout(x, 0.5f), "fc2", 200, true));
  return ronde_linear(ronde_dropout(x, 0.5f), "fc3", classes, true);
}

static ronde_tensor *saturating(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  x = ronde_tanh(ronde_linear(ronde_flatten(x), "fc1", 150, true));
  x = ronde_tanh(ronde_linear(x, "fc2", 200, true));
  return ronde_linear(x, "fc3", classes, true);
}

/* Functions of their own kernel and of a padding that is not zero; two split layers read one value, and a sum reads what
 * both give; the first reads a convolution. */
static ronde_tensor *branching(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  ronde_conv2d_options conv = {.out_channels = 40, .kernel = {3, 3}, .padding = {1, 1}};
  x = ronde_flatten(ronde_relu(ronde_conv2d(x, "conv1", &conv)));
  ronde_tensor *a = ronde_sigmoid(ronde_linear(x, "fc1", 70, true)), *b = ronde_silu(ronde_linear(x, "fc2", 70, false));
  x = ronde_tanh(ronde_linear(ronde_dropout(ronde_add(a, b), 0.2f), "fc3", 90, true));
  return ronde_linear(x, "fc4", classes, true);
}

static const problem problems[] = {
    {"small", "", "fc1,fc2", small_model, false, false},
    {"regression", "", "fc1,fc2", small_regression, true, false},
    {"dropout", "label-smoothing=0.1", "fc1,fc2,fc3", dropping, false, false},
    {"dropout, two of three", "", "fc1,fc2", dropping, false, false},
    {"dropout, the middle", "", "fc2", dropping, false, false},
    {"branches", "", "fc1,fc3", branching, false, false},
    {"branches, all", "", "fc1,fc2,fc3,fc4", branching, false, false},
    {"lenet5", "model=lenet5 data=synthetic:1x28x28:10:24", "fc1,fc2", NULL, false, false},
    {"mnist-small", "model=mnist-small padding=valid data=synthetic:3x12x12:4:24", "fc1,fc2", NULL, false, false},
    {"mnist-large", "model=mnist-large data=synthetic:1x28x28:10:24", "fc1,fc2", NULL, false, true},
    {"mlp", "model=mlp:140,96,80 data=synthetic:1x8x8:4:24", "fc1,fc2,fc3,fc4", NULL, false, false},
    {"alexnet", "model=alexnet data=synthetic:3x64x64:10:24", "classifier.1,classifier.4,classifier.6", NULL, false,
     true},
};
enum { N_PROBLEMS = sizeof problems / sizeof *problems };

#define run_of(p, ...) \
  observe_small(&(small_problem){(p)->name, (p)->options, (p)->model, (p)->values, 24, 7}, __VA_ARGS__)

/* How many weights differ by more than a share of the greatest update. */
static size_t count_apart(const observed *a, const observed *b, const observed *fresh, double tolerance) {
  size_t n = 0;
  double update = 0;
  for (size_t i = 0; i < b->n_weights; ++i) update = fmax(update, fabs((double)b->weights[i] - fresh->weights[i]));
  for (size_t i = 0; i < b->n_weights; ++i) n += fabs((double)a->weights[i] - b->weights[i]) > tolerance * update;
  return n;
}

/* Of many thousand ReLUs one may read a number so close to zero that other rounding changes its sign, and all weights before
 * it then learn another example: few weights, and little. */
static bool is_a_kink(const problem *p, const observed *a, const observed *b, const observed *fresh, double factor) {
  return p->large && update_difference(a, b, fresh) <= 1e-3 &&
         count_apart(a, b, fresh, factor * UPDATE_TOLERANCE) <= a->n_weights / 1000;
}

static void check_close(const problem *p, const char *what, const observed *a, const observed *b, const observed *fresh,
                        double factor) {
  double update = update_difference(a, b, fresh), loss = 0;
  assert_int_equal(a->n_steps, b->n_steps);
  for (int64_t i = 0; i < a->n_steps; ++i) loss = fmax(loss, fabs(a->loss[i] - b->loss[i]) / fabs(b->loss[i]));
  bool close = update <= factor * UPDATE_TOLERANCE || is_a_kink(p, a, b, fresh, factor);
  if (!close || !(loss <= factor * LOSS_TOLERANCE))
    fail_msg("%s: %s, %d workers: updates differ by %g, losses by %g", p->name, what, a->world, update, loss);
}

/* ---- one worker's step -------------------------------------------------------------------------------------------- */

static const int worlds[] = {2, 3, 4, 7};

/* By each of these schemes; large ones in one world only, without scheme B, whose bits are A's. */
static void check_schemes(const problem *p, const char *how, const char *schemes) {
  const char *steps = p->large ? "steps=2" : "epochs=2";
  observed fresh = run_of(p, "steps=1 lr=0 batch=11 eval-every=0"), one = run_of(p, "%s batch=11 %s", steps, how);
  assert_true(update_difference(&fresh, &one, &fresh) > 0.99); /* it does something */
  for (size_t w = 0; w < RONDE__COUNT(worlds); ++w) {
    if ((IN_PART || p->large) && worlds[w] != 3) continue;
    for (const char *s = schemes; *s; ++s) {
      if (p->large && *s == 'b') continue;
      observed many = run_of(p, STRATEGY "hybrid-scheme=%c hybrid-layers=%s %s batch=11 workers=%d %s", *s, p->layers,
                             steps, worlds[w], how);
      check_close(p, how, &many, &one, &fresh, 4);
      assert_true(replicas_equal(&many));
      free(many.weights);
    }
  }
  free(fresh.weights), free(one.weights);
}

static void check_worlds(const problem *p, const char *how) { check_schemes(p, how, "c"); }

/* Of the short last batch, 24 = 2 x 11 + 2, most workers have no example; and of a layer some have no output. */
static void a_step_is_that_of_one_worker(void **state) {
  static const char *const one_each[] = {"a", "b", "c"};
  for (size_t i = 0; i < N_PROBLEMS; ++i)
    if (!SANITIZED || !problems[i].large)
      check_schemes(&problems[i], "lr=0.05 momentum=0.9 weight-decay=0.01", IN_PART ? one_each[i % 3] : "abc");
}

static void the_same_in_virtual_time(void **state) {
  leave_out_if(SANITIZED, "split layers in virtual time: on threads they have the same code");
  observe_on = make_virtual;
  for (size_t i = 0; i < N_PROBLEMS; ++i)
    if (!problems[i].large) check_schemes(&problems[i], "lr=0.01 optimizer=adam eps=0.001", "bc");
  observe_on = ronde__transport_threads;
}

static void every_optimizer_updates_its_part(void **state) {
  static const char *const how[] = {"lr=0.05 momentum=0.9 nesterov=on", "optimizer=adamw lr=0.01 eps=0.001",
                                    "optimizer=adagrad lr=0.01 eps=0.01", "optimizer=rmsprop lr=0.002 eps=0.01"};
  for (size_t i = 0; i < RONDE__COUNT(how); ++i)
    if (!IN_PART || i == 1) check_worlds(&problems[2], how[i]);
}

static void norms_and_sums_are_of_the_whole(void **state) {
  static const char *const how[] = {"lr=0.1 clip=0.05", "lr=0.1 accumulate=2", "lr=0.1 accumulate=3 clip=0.05",
                                    "lr=0.1 skip-bad-steps=1"};
  for (size_t h = 0; h < RONDE__COUNT(how); ++h)
    for (size_t i = 0; i < 8; ++i)
      if (!IN_PART || i == h) check_schemes(&problems[i], how[h], i % 2 ? "a" : "c");
}

static void some_of_it_may_be_frozen(void **state) {
  static const char *const how[] = {"lr=0.1 freeze=fc1", "lr=0.1 freeze=conv1,conv2,fc1", "lr=0.1 freeze=fc2.weight"};
  for (size_t h = IN_PART; h < RONDE__COUNT(how); h += 1 + IN_PART) check_worlds(&problems[7], how[h]);
}

#define THREE STRATEGY "hybrid-layers=%s epochs=2 batch=11 workers=3 momentum=0.9 hybrid-scheme=%c"

/* Where nothing needs the gradients of a step at once, they are used up within backward: to the same bits. Those of scheme B
 * are A's, whose examples are in the same order. */
static void twice_the_same_bits_and_fused_or_not(void **state) {
  for (size_t i = 0; i < N_PROBLEMS; ++i) {
    const problem *p = &problems[i];
    if (p->large || (IN_PART && i % 6)) continue;
    observed whole = run_of(p, THREE, p->layers, 'a'), one_by_one = run_of(p, THREE, p->layers, 'b');
    observed first = run_of(p, THREE, p->layers, 'c'), again = run_of(p, THREE, p->layers, 'c');
    observed kept = run_of(p, THREE " skip-bad-steps=1", p->layers, i % 2 ? 'c' : 'a');
    assert_true(bits_equal(&whole, &one_by_one));
    assert_true(bits_equal(&first, &again));
    assert_true(bits_equal(i % 2 ? &first : &whole, &kept));
    free(whole.weights), free(one_by_one.weights), free(first.weights), free(again.weights), free(kept.weights);
  }
}

/* Planted: the lowest bit of the first weight of fc2, which is rank 0's, flips once. */
static void flip(ronde__job *job, int rank) {
  job->drills[RONDE__DRILL_DRIFT] = (ronde__drill){.on = true, .rank = rank, .step = 2};
}
static void flip_own(ronde__job *job) { flip(job, 0); }
static void flip_foreign(ronde__job *job) { flip(job, 1); }

/* In the part that a rank owns it is everybody's from then on; in another's part nobody reads it, and the owner's comes
 * when ranks meet, but the sentinel sees it before. */
static void what_one_rank_does_wrong_is_seen(void **state) {
  ronde_source source = small_source(24, 7);
  static const char options[] = STRATEGY "hybrid-layers=fc1,fc2 epochs=2 batch=12 workers=2 threads=1";
  observed right = observe(options, &source, dropping, NULL), own = observe(options, &source, dropping, flip_own);
  observed foreign = observe(options, &source, dropping, flip_foreign);
  assert_int_equal(own.status, RONDE_OK);
  assert_false(bits_equal(&right, &own));
  assert_true(replicas_equal(&own));
  assert_true(bits_equal(&right, &foreign) && replicas_equal(&foreign));
  free(right.weights), free(own.weights), free(foreign.weights);
  test_log_start(&lines);
  observed named = observe(STRATEGY "hybrid-layers=fc1,fc2 batch=12 workers=3 threads=1 sentinel=1", &source, dropping,
                           flip_foreign);
  assert_int_equal(named.status, RONDE_E_DIFFERENCE);
  assert_non_null(strstr(lines.error, "of rank 1 differs from that of most"));
}

/* ---- what travels ------------------------------------------------------------------------------------------------- */

static uint64_t sent, between[2];
static void look_at_bytes(ronde__run *run) {
  sent = run->ranks[0].transport->bytes_sent;
  memcpy(between, run->ranks[0].peers.bytes, sizeof between);
}

/* By one of two ranks with 42 examples each. */
static uint64_t bytes_of_steps(const char *strategy, int steps) {
  const problem p = {"alexnet", "model=alexnet data=synthetic:3x64x64:10:168", NULL, NULL, false, true};
  observe_also = look_at_bytes;
  observed o = run_of(&p, "%s workers=2 batch=84 eval-every=0 steps=%d", strategy, steps);
  observe_also = NULL;
  free(o.weights);
  return sent;
}

/* fc1 reads 256 values of an example where the map is 1x1 and 9216 of a pooled one; a rank gathers the other's and
 * returns their gradients, then halves of 4096 features of 84 examples for fc2, and of 42 for fc3, both ways. */
static void big_layers_stay_at_home(void **state) {
  if (SANITIZED) return;
  static const char chosen[] = STRATEGY "hybrid-layers=classifier.1,classifier.4", all_reduce[] = "strategy=allreduce";
  uint64_t first = bytes_of_steps(chosen, 1), hybrid = bytes_of_steps(chosen, 2) - first;
  uint64_t way = 4 * (42 * 9216 + 84 * 2048 + 42 * 2048);
  assert_int_equal(between[0], 2 * way); /* two steps */
  assert_int_equal(between[1], 2 * way);
  assert_int_equal(bytes_of_steps(STRATEGY, 1), first); /* that is what the model chooses */
  uint64_t all = bytes_of_steps(all_reduce, 2) - bytes_of_steps(all_reduce, 1);
  print_message("alexnet, 42 examples on each of 2 ranks: %.1f MB a step, all-reduce %.1f MB\n", (double)hybrid * 1e-6,
                (double)all * 1e-6);
  assert_in_range(all, 200000000, 230000000);
  assert_in_range(hybrid, 10000000, 16000000);
}

/* ---- the choice --------------------------------------------------------------------------------------------------- */

static void a_network_without_big_layers_is_all_reduced(void **state) {
  const problem p = {"resnet18", "model=resnet18-cifar data=synthetic:3x16x16:10:24", NULL, NULL, false, true};
  test_log_start(&lines);
  observed hybrid = run_of(&p, STRATEGY "steps=2 batch=12 workers=2");
  assert_non_null(strstr(lines.warning, "--strategy hybrid changes nothing"));
  observed all = run_of(&p, "strategy=allreduce steps=2 batch=12 workers=2");
  assert_true(bits_equal(&hybrid, &all));
  free(hybrid.weights), free(all.weights);
}

/* What the model says of every subset: the choice is the least of them, or none. */
static void the_choice_is_the_cheapest(void **state) {
  static const int batches[] = {2, 8, 84, 512, 4096};
  int hosts[] = {0, 1, 2, 3};
  for (size_t b = 0; b < RONDE__COUNT(batches); ++b)
    for (int n = 2; n <= 4; ++n)
      for (int apart = 0; apart < 2; ++apart) {
        const ronde__model *model = ronde__model_find("alexnet");
        ronde_graph *graph;
        ronde__model_options options = {0};
        assert_int_equal(ronde__model_graph(model, &options, &(ronde__shape){3, {3, 64, 64}}, 0, 10, &graph), RONDE_OK);
        ronde__ranks ranks = {n, apart ? hosts : NULL};
        bool chosen[64] = {false}, other[64];
        int layers[8], n_layers = 0;
        double least = INFINITY, cost, none = 0;
        for (int i = 0; i < graph->n_nodes; ++i)
          if (graph->nodes[i].kind == RONDE__OP_LINEAR && graph->nodes[i].attr.out_channels >= 64 * n)
            layers[n_layers++] = i;
        for (int set = 0; set < 1 << n_layers; ++set) {
          memset(other, 0, sizeof other);
          for (int l = 0; l < n_layers; ++l) other[layers[l]] = set >> l & 1;
          assert_int_equal(ronde__hybrid_seconds(graph, &ranks, batches[b], other, &cost), RONDE_OK);
          if (set == 0) none = cost;
          least = fmin(least, cost);
        }
        assert_int_equal(ronde__hybrid_choose(graph, &ranks, batches[b], chosen), RONDE_OK);
        assert_int_equal(ronde__hybrid_seconds(graph, &ranks, batches[b], chosen, &cost), RONDE_OK);
        assert_true(cost == least || cost == none);
        if (batches[b] == 84) assert_true(cost < none / 10);
        ronde_graph_destroy(graph);
      }
}

/* ---- what breaks -------------------------------------------------------------------------------------------------- */

/* NaN goes from the rank of its example to the gradients of all: the loss that was first is named. */
static void broken_numbers_have_a_name(void **state) {
  ronde_source source = small_source(40, 8);
  json_t *run;
  source.read = small_nan_read;
  static const char options[] = STRATEGY "hybrid-layers=fc1,fc2 batch=8 shuffle=off epochs=1 threads=1 workers=2 %s";
  char with[256];
  snprintf(with, sizeof with, options, "");
  assert_int_equal(train_on(with, source, saturating, &run), RONDE_E_NUMERIC);
  assert_non_null(strstr(lines.error, "step 2: the loss of rank 1 is NaN or Inf"));
  assert_int_equal(lines.n_errors, 1);
  json_decref(run);
  snprintf(with, sizeof with, options, "drill=corrupt:1@3");
  assert_int_equal(train_on(with, small_source(40, 8), saturating, &run), RONDE_E_NUMERIC);
  assert_non_null(strstr(lines.error, "step 3: the gradient of fc3."));
  assert_non_null(strstr(lines.error, "on rank 1"));
  json_decref(run);
  snprintf(with, sizeof with, options, "skip-bad-steps=2");
  assert_int_equal(train_on(with, source, saturating, &run), RONDE_OK);
  assert_int_equal((int)real_at(run, "totals.skipped_steps"), 1);
  json_decref(run);
}

/* ---- files -------------------------------------------------------------------------------------------------------- */

#define HYBRID STRATEGY "hybrid-layers=fc1,fc2,fc3 batch=8 optimizer=adam lr=0.01 threads=1 "

/* Stopped within an epoch, in the same world, a run goes on to the bits of one that was not. */
static void a_run_goes_on_with_its_own_bits(void **state) {
  for (int workers = 2 + IN_PART; workers <= 4 - IN_PART; ++workers) {
    json_t *whole = small_job(dropping, HYBRID "workers=%d steps=8 out=%s/whole%d", workers, folder, workers);
    json_decref(small_job(dropping, HYBRID "workers=%d steps=3 out=%s/part%d", workers, folder, workers));
    json_t *rest = small_job(dropping, "steps=8 resume=%s/part%d", folder, workers);
    assert_string_equal(text_at(rest, "result.state_sha256"), text_at(whole, "result.state_sha256"));
    assert_int_equal((int)real_at(rest, "resumed_from.step"), 3);
    json_decref(rest), json_decref(whole);
  }
}

static void check_results(json_t *a, json_t *b) {
  double x = real_at(a, "result.test_loss"), y = real_at(b, "result.test_loss");
  if (!(fabs(x - y) <= 1e-4 * fabs(y))) fail_msg("test losses %.9g and %.9g", x, y);
}

/* Files hold the whole, so any strategy that equals one worker goes on with it, and this one with theirs; the optimizer's
 * state comes along, without which the results would be others. */
static void strategies_go_on_with_each_other(void **state) {
  static const char *const others[] = {"strategy=single workers=1",
                                       "strategy=allreduce workers=2",
                                       "strategy=sharded workers=3",
                                       "strategy=ps-sync workers=2",
                                       "strategy=hybrid workers=4 hybrid-layers=fc2",
                                       "strategy=pipeline workers=2 micro-batches=1 stages=2"};
  json_t *whole = small_job(dropping, "batch=8 optimizer=adam lr=0.01 threads=1 steps=12 out=%s/one", folder);
  json_decref(small_job(dropping, HYBRID "workers=3 steps=4 out=%s/parts", folder));
  for (size_t i = IN_PART; i < RONDE__COUNT(others); i += 1 + IN_PART) {
    json_decref(small_job(dropping, "%s steps=8 resume=%s/parts/checkpoints/step-4.safetensors out=%s/to%zu", others[i],
                          folder, folder, i));
    json_t *rest = small_job(dropping,
                             STRATEGY
                             "hybrid-layers=fc1,fc3 workers=2 steps=12 "
                             "resume=%s/to%zu/checkpoints/step-8.safetensors out=%s/from%zu",
                             folder, i, folder, i);
    assert_int_equal((int)real_at(rest, "resumed_from.step"), 8);
    assert_string_equal(text_at(rest, "world.strategy"), "hybrid");
    check_results(rest, whole);
    json_decref(rest);
  }
  json_decref(whole);
}

static void an_interrupted_run_is_whole(void **state) {
  char options[512];
  json_t *whole, *part;
#define NORMED SET STRATEGY "hybrid-layers=fc1 batch=8 optimizer=adam lr=0.01 threads=1 workers=3 epochs=2 "
  in(options, NORMED "out=%s/all", folder);
  assert_int_equal(train(options, 0, &whole), RONDE_OK);
  in(options, NORMED "out=%s/some", folder);
  assert_int_equal(train(options, 5, &part), RONDE_E_CANCELLED);
  json_decref(part);
  in(options, "resume=%s/some", folder);
  assert_int_equal(train(options, 0, &part), RONDE_OK);
  assert_string_equal(text_at(part, "result.state_sha256"), text_at(whole, "result.state_sha256"));
  json_decref(part), json_decref(whole);
}

static void the_record_says_what_travels(void **state) {
  json_t *run = small_job(dropping, HYBRID "workers=2 steps=5 out=%s/record", folder);
  json_t *names = json_at(run, "communication.split_parameters");
  assert_int_equal(json_array_size(names), 6);
  /* Of 4 examples a rank: forward 36 values of each, which are data; of all 8 examples half of fc1's 5 blocks of 32 and of
   * fc2's 7, and 4 examples of a part of fc3's block, which is rank 0's alone. */
  double own_blocks = 4 * 8 * (32 * 5 / 2. + 32 * 7 / 2.), fc3 = 4 * 4 * 16 / 2.;
  double inputs = 4 * 4 * 36.;
  double forward = real_at(run, "communication.gathered_bytes_per_step");
  double backward = real_at(run, "communication.scattered_bytes_per_step");
  if (forward != inputs + own_blocks + fc3 || backward != own_blocks + fc3)
    fail_msg("%g bytes forward and %g backward", forward, backward);
  json_decref(run);
}

/* ---- options ------------------------------------------------------------------------------------------------------ */

static void what_cannot_be_is_refused(void **state) {
  static const struct {
    const char *options, *why;
  } cases[] = {
      {"hybrid-layers=fc9", "--hybrid-layers: the network has no layer fc9"},
      {"hybrid-layers=conv1", "conv1 is no linear layer"},
      {"exec=eager", "--strategy hybrid needs --exec graph"},
      {"record-spans=spans.json", "--record-spans"},
  };
  ronde_source source = small_source(24, 0);
  for (size_t i = 0; i < RONDE__COUNT(cases); ++i) {
    char options[256];
    json_t *run;
    snprintf(options, sizeof options, STRATEGY "workers=2 batch=8 threads=1 %s", cases[i].options);
    assert_int_equal(train_on(options, source, branching, &run), RONDE_E_USAGE);
    if (!strstr(lines.error, cases[i].why)) fail_msg("%s: %s", cases[i].options, lines.error);
    json_decref(run);
  }
}

static ronde_tensor *sharing(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  ronde_graph_share(graph, "fc");
  x = ronde_tanh(ronde_linear(ronde_flatten(x), "first", 80, true));
  x = ronde_tanh(ronde_linear(x, "fc", 80, true));
  x = ronde_tanh(ronde_linear(x, "fc", 80, true));
  return ronde_linear(x, "last", classes, true);
}

static void shared_weights_stay_whole(void **state) {
  const problem p = {"shared", "", "first,last", sharing, false, false};
  json_t *run;
  check_worlds(&p, "lr=0.1");
  assert_int_equal(
      train_on(STRATEGY "hybrid-layers=fc workers=2 batch=8 threads=1", small_source(24, 0), sharing, &run),
      RONDE_E_USAGE);
  assert_non_null(strstr(lines.error, "fc shares its weight with another layer"));
  json_decref(run);
}

/* A linear layer over the last of several dimensions has more rows than there are examples. */
static ronde_tensor *over_rows(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  x = ronde_tanh(ronde_linear(x, "rows", 80, true));
  return ronde_linear(ronde_flatten(x), "last", classes, true);
}

static void layers_over_sequences_stay_whole(void **state) {
  const problem p = {"rows", "", "last", over_rows, false, false};
  json_t *run;
  check_worlds(&p, "lr=0.1");
  assert_int_equal(
      train_on(STRATEGY "hybrid-layers=rows workers=2 batch=8 threads=1", small_source(24, 0), over_rows, &run),
      RONDE_E_USAGE);
  assert_non_null(strstr(lines.error, "rows reads a sequence"));
  json_decref(run);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, make_folder_with_log, remove_folder)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_step_is_that_of_one_worker),
      TEST(the_same_in_virtual_time),
      TEST(every_optimizer_updates_its_part),
      TEST(norms_and_sums_are_of_the_whole),
      TEST(some_of_it_may_be_frozen),
      TEST(twice_the_same_bits_and_fused_or_not),
      TEST(what_one_rank_does_wrong_is_seen),
      TEST(big_layers_stay_at_home),
      TEST(a_network_without_big_layers_is_all_reduced),
      TEST(the_choice_is_the_cheapest),
      TEST(broken_numbers_have_a_name),
      TEST(a_run_goes_on_with_its_own_bits),
      TEST(strategies_go_on_with_each_other),
      TEST(an_interrupted_run_is_whole),
      TEST(the_record_says_what_travels),
      TEST(what_cannot_be_is_refused),
      TEST(shared_weights_stay_whole),
      TEST(layers_over_sequences_stay_whole),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

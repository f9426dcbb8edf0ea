/* Batch normalisation on several workers. With --sync-bn N workers do what one does on the whole batch, running
 * statistics included; without it, what an oracle does that normalises each worker's examples by themselves. */
#include "sanitized.h"
#include "train_testing.h"
#include "io/sha256.h"
#include "state/weights.h"

/* Of sums of f32 in another order, against the norm of the update. In a deep network one of some 100,000 ReLUs may have
 * its input so close to 0 that rounding decides its gradient. */
#define TOLERANCE 5e-5
#define DEEP_TOLERANCE 1e-3

static const int worlds[] = {2, 3, 4, 7}, deep_worlds[] = {3};

enum { SIDE = 8, PIXELS = 3 * SIDE * SIDE, CLASSES = 5 };

static ronde_status read_images(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                                float *targets) {
  for (int64_t i = 0; i < n; ++i) {
    for (int p = 0; p < PIXELS; ++p) x[i * PIXELS + p] = 2 * small_noise(ids[i], p) + (float)(ids[i] % CLASSES) / 4;
    labels[i] = ids[i] % CLASSES;
  }
  return RONDE_OK;
}

static ronde_source images(int64_t n) {
  return (ronde_source){.name = "images",
                        .rank = 3,
                        .dims = {3, SIDE, SIDE},
                        .classes = CLASSES,
                        .n_examples = {n, 0},
                        .read = read_images};
}

/* Two normalisations, one of which executes the function behind it, the other in a branch; one over 1x1 maps: of the batch alone. */
static ronde_tensor *small_normed(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  ronde_conv2d_options o = {.out_channels = 20, .kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .no_bias = true};
  x = ronde_silu(ronde_batch_norm2d(ronde_conv2d(x, "conv1", &o), "bn1", NULL));
  o.stride[0] = o.stride[1] = 1;
  x = ronde_add(ronde_batch_norm2d(ronde_conv2d(x, "conv2", &o), "bn2", NULL), x);
  x = ronde_batch_norm2d(ronde_adaptive_avg_pool2d(ronde_relu(x), 1, 1), "bn3", NULL);
  return ronde_linear(ronde_flatten(x), "fc", classes, true);
}

static const char *const deep[] = {"resnet18", "resnet18-cifar"};

/* model NULL: small_normed. */
static observed train(const char *model, int64_t n, void (*tamper)(ronde__job *), const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static observed train(const char *model, int64_t n, void (*tamper)(ronde__job *), const char *format, ...) {
  char more[256], options[512];
  va_list args;
  va_start(args, format);
  vsnprintf(more, sizeof more, format, args);
  va_end(args);
  snprintf(options, sizeof options, "threads=1 shuffle=off %s%s %s", model ? "model=" : "", model ? model : "", more);
  ronde_source source = images(n);
  observed o = observe(options, &source, model ? NULL : small_normed, tamper);
  if (o.status != RONDE_OK) fail_msg("%s: status %d", options, o.status);
  return o;
}

/* The norm of two states' difference, against that of the change since the fresh one. */
static double difference(const float *a, const float *b, const float *fresh, size_t n) {
  double squares = 0, change = 0;
  for (size_t i = 0; i < n; ++i) {
    squares += pow((double)a[i] - b[i], 2);
    change += pow((double)b[i] - fresh[i], 2);
  }
  assert_true(change > 0);
  return sqrt(squares / change);
}

static void check_close(const char *what, const observed *a, const observed *b, const observed *fresh,
                        double tolerance) {
  double weights = difference(a->weights, b->weights, fresh->weights, b->n_weights);
  double buffers = difference(a->buffers, b->buffers, fresh->buffers, b->n_buffers), loss = 0;
  assert_int_equal(a->n_steps, b->n_steps);
  for (int64_t i = 0; i < a->n_steps; ++i) loss = fmax(loss, fabs(a->loss[i] - b->loss[i]) / fabs(b->loss[i]));
  if (weights > tolerance || buffers > TOLERANCE || loss > TOLERANCE)
    fail_msg("%s, %d workers: weights differ by %g, running statistics by %g, losses by %g", what, a->world, weights,
             buffers, loss);
}

/* ---- each rank's state after each step, before the ranks share their running statistics at the epoch's end -------- */

enum { WATCHED_STEPS = 8 };

typedef struct watched {
  ronde__worker *worker;
  void *state;
  int n_steps;
  char sha256[WATCHED_STEPS][RONDE__SHA256_HEX];
} watched;

static watched ranks[OBSERVED_RANKS];
static bool local_statistics; /* the planted bug: those of all workers are due */
static ronde__strategy watching;

static ronde_status create_watched(ronde__worker *worker, const ronde__strategy_settings *settings, void **state_out) {
  if (local_statistics) worker->partials = NULL;
  RONDE_TRY(ronde__strategy_find("allreduce", &(ronde__strategy_settings){0})->create(worker, settings, state_out));
  ranks[worker->transport->rank] = (watched){.worker = worker, .state = *state_out};
  return RONDE_OK;
}

static ronde_status step_watched(void *state, const ronde__step *step, ronde__step_result *result_out) {
  const ronde__strategy *allreduce = ronde__strategy_find("allreduce", &(ronde__strategy_settings){0});
  RONDE_TRY(allreduce->step(state, step, result_out));
  RONDE_TRY(allreduce->settle(state));
  watched *w = ranks;
  while (w->state != state) ++w;
  assert_true(w->n_steps < WATCHED_STEPS);
  return ronde__state_sha256(w->worker->net, NULL, w->sha256[w->n_steps++]);
}

static void watch(ronde__job *job) {
  watching = *ronde__strategy_find("allreduce", &(ronde__strategy_settings){0});
  watching.create = create_watched;
  watching.step = step_watched;
  job->strategy = &watching;
}

static bool same_state_after_every_step(const observed *o) {
  for (int r = 1; r < o->world; ++r)
    for (int i = 0; i < ranks[0].n_steps; ++i)
      if (strcmp(ranks[r].sha256[i], ranks[0].sha256[i])) return false;
  return ranks[0].n_steps > 0;
}

/* ---- with --sync-bn ---------------------------------------------------------------------------------------------- */

static void check_synchronised(const char *model, int64_t n, const char *options, const char *reference,
                               double tolerance) {
  observed fresh = train(model, n, NULL, "%s lr=0 steps=1 momentum=0", reference);
  memset(fresh.buffers, 0, fresh.n_buffers * sizeof *fresh.buffers);
  observed one = train(model, n, NULL, "%s", reference);
  size_t n_worlds = model ? RONDE__COUNT(deep_worlds) : RONDE__COUNT(worlds);
  for (size_t w = 0; w < n_worlds; ++w) {
    int workers = (model ? deep_worlds : worlds)[w];
    observed many = train(model, n, model ? NULL : watch, "%s workers=%d sync-bn=on", options, workers);
    assert_true(model ? replicas_equal(&many) : same_state_after_every_step(&many));
    check_close(model ? model : options, &many, &one, &fresh, tolerance);
    free(many.weights);
  }
  free(fresh.weights);
  free(one.weights);
}

/* Short last batches of 3 and 2, which leave some of seven workers without an example; groups of batches. */
static void test_a_step_of_many_is_a_step_of_one(void **state) {
  static const char *const steps[] = {"batch=14 steps=1 lr=0.5", "batch=7 epochs=2 lr=0.1 momentum=0.9",
                                      "batch=5 epochs=2 lr=0.02 optimizer=adam eps=0.1",
                                      "batch=7 epochs=2 lr=0.1 bucket-mb=0.001",
                                      "batch=7 epochs=2 lr=0.1 bucket-mb=0.001 overlap=off"};
  static const char *const references[] = {"batch=14 steps=1 lr=0.5", "batch=7 epochs=2 lr=0.1 momentum=0.9",
                                           "batch=5 epochs=2 lr=0.02 optimizer=adam eps=0.1", "batch=7 epochs=2 lr=0.1",
                                           "batch=7 epochs=2 lr=0.1"};
  for (size_t i = 0; i < RONDE__COUNT(steps); ++i) check_synchronised(NULL, 17, steps[i], references[i], TOLERANCE);
}

static void test_accumulation(void **state) {
  static const char options[] = "batch=5 accumulate=2 epochs=2 lr=0.1";
  check_synchronised(NULL, 18, options, options, TOLERANCE);
}

static void test_a_deep_step_of_many_is_a_step_of_one(void **state) {
  leave_out_if(SANITIZED, "deep networks do nothing that small ones do not");
  static const char options[] = "batch=14 steps=1 lr=0.05";
  for (size_t i = 0; i < RONDE__COUNT(deep); ++i) check_synchronised(deep[i], 14, options, options, DEEP_TOLERANCE);
}

/* From run to run, whatever is exchanged beside it. */
static void test_bits(void **state) {
  static const char *const more[] = {"", "", "overlap=off", "threads=2"};
  for (size_t w = 0; w < RONDE__COUNT(worlds); ++w) {
    watched first = {0};
    observed unwatched =
        train(NULL, 33, NULL, "batch=13 epochs=2 lr=0.1 bucket-mb=0.001 workers=%d sync-bn=on", worlds[w]);
    for (size_t i = 0; i < RONDE__COUNT(more); ++i) {
      observed o = train(NULL, 33, watch, "batch=13 epochs=2 lr=0.1 bucket-mb=0.001 workers=%d sync-bn=on %s",
                         worlds[w], more[i]);
      assert_true(same_state_after_every_step(&o));
      if (i == 0) first = ranks[0];
      assert_memory_equal(first.sha256, ranks[0].sha256, sizeof first.sha256);
      assert_memory_equal(unwatched.weights, o.weights, o.n_weights * sizeof *o.weights);
      free(o.weights);
    }
    free(unwatched.weights);
  }
}

/* ---- planted bug ------------------------------------------------------------------------------------------------- */

static void test_local_statistics_are_seen(void **state) {
  observed fresh = train(NULL, 14, NULL, "batch=14 steps=1 lr=0");
  observed one = train(NULL, 14, NULL, "batch=14 steps=1 lr=0.5");
  local_statistics = true;
  observed many = train(NULL, 14, watch, "batch=14 steps=1 lr=0.5 workers=2 sync-bn=on");
  assert_true(difference(many.weights, one.weights, fresh.weights, one.n_weights) > 1000 * TOLERANCE);
  assert_false(same_state_after_every_step(&many));
  local_statistics = false;
  free(fresh.weights);
  free(one.weights);
  free(many.weights);
}

/* ---- without --sync-bn ------------------------------------------------------------------------------------------- */

static ronde_graph *graph_of(const char *model) {
  ronde_graph *graph;
  assert_int_equal(ronde_graph_create(&graph), RONDE_OK);
  ronde_tensor *x = ronde_input(graph, "x", 3, (int64_t[]){3, SIDE, SIDE});
  ronde_graph_set_output(graph, model ? ronde__model_find(model)->build(graph, x, CLASSES, &(ronde__model_options){0})
                                      : small_normed(graph, x, CLASSES, NULL));
  assert_int_equal(ronde__graph_finish(graph), RONDE_OK);
  return graph;
}

/* The first `n` examples in parts, each by itself on a fresh net: weights after one update by the sum of their
 * gradients, and the running statistics of the first part. As observed, for comparing. */
static observed oracle(const char *model, int64_t n, int parts, double lr) {
  ronde_source source = images(n);
  ronde_graph *graph = graph_of(model);
  ronde__net_options options = {.training = true};
  assert_int_equal(ronde__kernels_get(&options.compute.kernels), RONDE_OK);
  assert_int_equal(ronde__gemm_default(options.compute.kernels, &options.compute.gemm), RONDE_OK);
  observed o = {.world = parts, .n_steps = 1};
  o.n_weights = (size_t)ronde_graph_parameters(graph);
  for (int i = 0; i < graph->n_buffers; ++i)
    if (!graph->buffers[i].is_counter) o.n_buffers += (size_t)ronde__shape_elems(&graph->buffers[i].shape);
  o.weights = calloc(o.n_weights + o.n_buffers, sizeof *o.weights);
  o.buffers = o.weights + o.n_weights;
  double *sum = calloc(o.n_weights, sizeof *sum);
  float *gradient = malloc(o.n_weights * sizeof *gradient), *x = malloc((size_t)(n * PIXELS) * sizeof *x);
  int64_t *ids = malloc((size_t)n * 2 * sizeof *ids), *labels = ids + n;
  for (int64_t i = 0; i < n; ++i) ids[i] = i;
  source.read(NULL, RONDE_SPLIT_TRAIN, ids, n, x, labels, NULL);
  for (int r = 0; r < parts; ++r) {
    ronde__net *net;
    ronde__net_result result;
    int64_t begin = ronde__shard_begin(n, r, parts), end = ronde__shard_begin(n, r + 1, parts);
    assert_int_equal(ronde__net_create(graph, &options, &net), RONDE_OK);
    assert_int_equal(ronde__net_init(net, 1), RONDE_OK);
    ronde__net_batch batch = {.n = end - begin, .x = x + begin * PIXELS, .labels = labels + begin, .training = true};
    assert_int_equal(ronde__net_forward(net, &batch, 1 / (float)n, NULL, &result), RONDE_OK);
    assert_int_equal(ronde__net_backward(net, false, NULL), RONDE_OK);
    o.loss[0] += result.loss_sum / (double)n;
    size_t at = 0, buffer_at = 0;
    for (int p = 0; p < graph->n_params; ++p) {
      size_t elems = (size_t)ronde__shape_elems(&graph->params[p].shape);
      ronde__net_get_gradient(net, p, gradient);
      ronde__net_get(net, p, o.weights + at);
      for (size_t i = 0; i < elems; ++i) sum[at + i] += (double)gradient[i];
      at += elems;
    }
    for (int b = 0; b < graph->n_buffers && r == 0; ++b) {
      if (graph->buffers[b].is_counter) continue;
      ronde__net_get_buffer(net, b, o.buffers + buffer_at);
      buffer_at += (size_t)ronde__shape_elems(&graph->buffers[b].shape);
    }
    ronde__net_destroy(net);
  }
  for (size_t i = 0; i < o.n_weights; ++i) o.weights[i] = (float)((double)o.weights[i] - lr * sum[i]);
  free(sum), free(gradient), free(x), free(ids);
  ronde_graph_destroy(graph);
  return o;
}

static void check_local(const char *model, double lr, size_t n_worlds) {
  observed fresh = oracle(model, 16, 1, 0);
  memset(fresh.buffers, 0, fresh.n_buffers * sizeof *fresh.buffers);
  for (size_t w = 0; w < n_worlds; ++w) {
    observed many = train(model, 16, NULL, "batch=16 steps=1 lr=%g workers=%d", lr, worlds[w]);
    observed expected = oracle(model, 16, worlds[w], lr);
    assert_true(replicas_equal(&many));
    check_close(model ? model : "small", &many, &expected, &fresh, TOLERANCE);
    free(many.weights);
    free(expected.weights);
  }
  free(fresh.weights);
}

static void test_without_it_statistics_are_local(void **state) {
  check_local(NULL, 0.5, RONDE__COUNT(worlds));
  for (size_t i = 0; i < RONDE__COUNT(deep) && !SANITIZED; ++i) check_local(deep[i], 0.05, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_step_of_many_is_a_step_of_one),
      cmocka_unit_test(test_accumulation),
      cmocka_unit_test(test_a_deep_step_of_many_is_a_step_of_one),
      cmocka_unit_test(test_bits),
      cmocka_unit_test(test_local_statistics_are_seen),
      cmocka_unit_test(test_without_it_statistics_are_local),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

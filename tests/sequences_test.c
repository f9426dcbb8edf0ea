/* Sequences in whole runs: the mean over all labels of a step, whatever the split between workers, and for every strategy
 * that is equal to one worker. Labels of the examples differ in number, from one to all. */
#include "train_testing.h"
#include "sanitized.h"

/* Of sums of f32 in another order, against the largest element of the update; and of losses. */
#define UPDATE_TOLERANCE 3e-5
#define LOSS_TOLERANCE 2e-6

enum { STEPS = 9, TOKENS = 12 };

static int64_t length_of(int64_t id) { return id == 3 ? 1 : 1 + id * 5 % STEPS; }

/* Padding is token 0; what is to be told is the next token but one. */
static ronde_status read_tokens(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                                float *targets) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t t = 0; t < STEPS; ++t) {
      bool inside = t < length_of(ids[i]);
      int32_t token = inside ? (int32_t)(1 + (ids[i] * 7 + t * t) % (TOKENS - 1)) : 0;
      memcpy(x + i * STEPS + t, &token, sizeof token);
      labels[i * STEPS + t] = inside ? (ids[i] * 7 + (t + 2) * (t + 2)) % TOKENS : RONDE_IGNORED;
    }
  return RONDE_OK;
}

static ronde_source token_source(int64_t n_train, int64_t n_test) {
  return (ronde_source){.name = "tokens",
                        .rank = 1,
                        .dims = {STEPS},
                        .classes = TOKENS,
                        .label_elems = STEPS,
                        .vocabulary = TOKENS,
                        .n_examples = {n_train, n_test},
                        .read = read_tokens};
}

/* Attention over the tokens that are there, as an encoder has it. */
static ronde_tensor *encoder(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  ronde_attention_options options = {.heads = 2, .lengths = ronde_lengths(x, 0)};
  ronde_tensor *y = ronde_embedding(x, "embedding", 8, 0.5f);
  ronde_tensor *q = ronde_linear(y, "query", 8, true), *kv = ronde_rms_norm(y, "norm", 0);
  y = ronde_add(y, ronde_attention(q, kv, kv, &options));
  y = ronde_add(y, ronde_self_attention(ronde_linear(y, "qkv", 24, false), &options));
  return ronde_linear(ronde_tanh(ronde_linear(y, "fc1", 16, true)), "fc2", classes, true);
}

/* Recurrent layers in both directions over the tokens that are there. */
static ronde_tensor *recurrent(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  ronde_recurrent_options options = {.hidden = 6, .layers = 2, .both_directions = true, .lengths = ronde_lengths(x, 0)};
  ronde_tensor *y = ronde_lstm(ronde_embedding(x, "embedding", 8, 0.5f), "lstm", &options, NULL, NULL);
  options.hidden = 12, options.both_directions = false;
  y = ronde_add(y, ronde_gru(y, "gru", &options, NULL));
  return ronde_linear(ronde_concat_along((const ronde_tensor *[]){y, ronde_tanh(y)}, 2, 1), "fc", classes, true);
}

static observed train(ronde_model_fn model, int64_t n_train, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static const char *built_in = "gpt-tiny";

/* model NULL: the built-in one. */
static observed train(ronde_model_fn model, int64_t n_train, const char *format, ...) {
  char more[256], options[512];
  va_list args;
  va_start(args, format);
  vsnprintf(more, sizeof more, format, args);
  va_end(args);
  if (model) snprintf(options, sizeof options, "threads=1 %s", more);
  else snprintf(options, sizeof options, "model=%s dropout=0 threads=1 %s", built_in, more);
  ronde_source source = token_source(n_train, 0);
  observed o = observe(options, &source, model, NULL);
  if (o.status != RONDE_OK) fail_msg("%s: status %d", options, o.status);
  return o;
}

/* ---- the mean ---- */

/* By the losses of single examples, each a mean over its own labels. */
static double mean_of(const double *losses, int64_t first, int64_t n) {
  double sum = 0, labels = 0;
  for (int64_t id = first; id < first + n; ++id) {
    sum += losses[id] * (double)length_of(id);
    labels += (double)length_of(id);
  }
  return sum / labels;
}

static void check_losses(const double *singles, const char *options, int64_t per_step) {
  observed o = train(encoder, 14, "lr=0 shuffle=off epochs=1 %s", options);
  for (int64_t k = 0; k < o.n_steps; ++k) {
    double wanted = mean_of(singles, k * per_step, ronde__min(per_step, 14 - k * per_step));
    if (!(fabs(o.loss[k] - wanted) < 1e-6 * wanted)) fail_msg("%s: %g instead of %g", options, o.loss[k], wanted);
  }
  assert_int_equal(o.n_steps, ronde__ceil_div(14, per_step));
  free(o.weights);
}

static void the_loss_is_the_mean_over_the_labels_of_a_step(void **state) {
  observed singles = train(encoder, 14, "lr=0 shuffle=off epochs=1 batch=1");
  check_losses(singles.loss, "batch=14", 14);
  check_losses(singles.loss, "batch=5", 5);
  check_losses(singles.loss, "batch=2 accumulate=3", 6);
  check_losses(singles.loss, "batch=5 workers=3", 5);
  check_losses(singles.loss, "batch=4 workers=7", 4);
  check_losses(singles.loss, "batch=5 exec=eager", 5);
  free(singles.weights);
}

static void a_test_is_the_mean_over_its_labels(void **state) {
  ronde_source source = token_source(14, 14);
  observed singles = train(encoder, 14, "lr=0 shuffle=off epochs=1 batch=1");
  for (int workers = 1; workers <= 3; ++workers) {
    char options[128];
    snprintf(options, sizeof options, "threads=1 lr=0 shuffle=off epochs=1 batch=4 workers=%d", workers);
    observed o = observe(options, &source, encoder, NULL);
    assert_int_equal(o.status, RONDE_OK);
    double wanted = mean_of(singles.loss, 0, 14);
    assert_true(fabs(o.test_loss - wanted) < 1e-6 * wanted);
    free(o.weights);
  }
  free(singles.weights);
}

/* ---- many workers ---- */

static void check_close(const char *name, const observed *a, const observed *b, const observed *fresh) {
  double update = update_difference(a, b, fresh), loss = 0;
  assert_int_equal(a->n_steps, b->n_steps);
  for (int64_t i = 0; i < a->n_steps; ++i) loss = fmax(loss, fabs(a->loss[i] - b->loss[i]) / fabs(b->loss[i]));
  if (!(update <= UPDATE_TOLERANCE && loss <= LOSS_TOLERANCE))
    fail_msg("%s: updates differ by %g, losses by %g", name, update, loss);
}

/* Batches that the workers do not divide, and that leave some of them without an example. */
static void check_worlds(ronde_model_fn model, const char *strategy, const int *worlds, int n_worlds) {
  static const int batches[] = {5, 1, 14};
  for (size_t b = 0; b < (IN_PART ? 2 : RONDE__COUNT(batches)); ++b) {
    observed fresh = train(model, 14, "steps=1 lr=0 batch=%d", batches[b]);
    observed one = train(model, 14, "steps=1 lr=0.5 batch=%d", batches[b]);
    for (int w = 0; w < (IN_PART ? 1 : n_worlds); ++w) {
      char name[128];
      snprintf(name, sizeof name, "%s of %d, batch %d", strategy, worlds[w], batches[b]);
      observed many = train(model, 14, "steps=1 lr=0.5 batch=%d workers=%d %s", batches[b], worlds[w], strategy);
      assert_int_equal(many.examples, batches[b]);
      check_close(name, &many, &one, &fresh);
      free(many.weights);
    }
    free(fresh.weights);
    free(one.weights);
  }
}

static const int worlds[] = {3, 2, 4, 7};

static void a_step_of_many_is_a_step_of_one(void **state) {
  check_worlds(encoder, "strategy=allreduce overlap=on", worlds, RONDE__COUNT(worlds));
  check_worlds(encoder, "strategy=ps-sync servers=2", worlds, RONDE__COUNT(worlds));
  check_worlds(encoder, "strategy=sharded", worlds, RONDE__COUNT(worlds));
  check_worlds(encoder, "strategy=dataparallel", worlds, RONDE__COUNT(worlds));
}

static void recurrent_layers_too(void **state) {
  check_worlds(recurrent, "strategy=allreduce", worlds, RONDE__COUNT(worlds));
  check_worlds(recurrent, "strategy=sharded", worlds, 2);
  check_worlds(recurrent, "strategy=ps-sync servers=2", worlds, 2);
  check_worlds(recurrent, "strategy=dataparallel", worlds, 1);
  observed planned = train(recurrent, 14, "epochs=1 lr=0.1 batch=5"),
           eager = train(recurrent, 14, "epochs=1 lr=0.1 batch=5 exec=eager");
  assert_true(bits_equal(&planned, &eager));
  free(planned.weights), free(eager.weights);
  planned = train(recurrent, 12, "epochs=2 lr=0.1 batch=2 accumulate=3");
  observed staged =
      train(recurrent, 12, "epochs=2 lr=0.1 batch=6 strategy=pipeline stages=3 workers=3 micro-batches=3");
  assert_true(bits_equal(&planned, &staged));
  free(planned.weights), free(staged.weights);
}

/* The order is one worker's, whatever the number of workers. */
static void batches_of_similar_length_too(void **state) {
  static const char options[] = "epochs=2 batch=3 bucket-by-length=on";
  observed fresh = train(recurrent, 29, "%s lr=0", options), one = train(recurrent, 29, "%s lr=0.1", options),
           drawn = train(recurrent, 29, "epochs=2 batch=3 lr=0.1");
  assert_true(one.examples == 58 && one.loss[0] != drawn.loss[0]);
  for (int workers = IN_PART ? 3 : 2; workers <= (IN_PART ? 3 : 4); ++workers) {
    observed many = train(recurrent, 29, "%s lr=0.1 workers=%d", options, workers);
    assert_int_equal(many.examples, 58);
    check_close("batches of similar length", &many, &one, &fresh);
    free(many.weights);
  }
  free(fresh.weights), free(one.weights), free(drawn.weights);
}

static void the_transformer_too(void **state) {
  check_worlds(NULL, "strategy=allreduce", worlds, RONDE__COUNT(worlds));
  check_worlds(NULL, "strategy=sharded", worlds, 1);
  check_worlds(NULL, "strategy=dataparallel", worlds, 2);
}

/* Masked tokens, of which each example has other numbers. */
static void bert_too(void **state) {
  built_in = "bert-tiny mask=0.4";
  check_worlds(NULL, "strategy=allreduce", worlds, RONDE__COUNT(worlds));
  check_worlds(NULL, "strategy=sharded", worlds, 2);
  check_worlds(NULL, "strategy=ps-sync servers=2", worlds, 1);
  check_worlds(NULL, "strategy=dataparallel", worlds, 2);
  observed planned = train(NULL, 14, "epochs=2 lr=0.1 batch=5"),
           eager = train(NULL, 14, "epochs=2 lr=0.1 batch=5 exec=eager"),
           unmasked = train(NULL, 14, "epochs=2 lr=0.1 batch=5 mask=0");
  assert_true(bits_equal(&planned, &eager));
  assert_true(planned.loss[0] != unmasked.loss[0]);
  free(planned.weights), free(eager.weights), free(unmasked.weights);
  built_in = "gpt-tiny";
}

/* Of micro-batches each has labels of its own, but the weight is the step's: the bits are those of one worker. */
static void stages_have_the_bits_of_one_worker(void **state) {
  observed one = train(NULL, 14, "epochs=2 lr=0.1 batch=2 accumulate=3");
  for (int stages = 2; stages <= 4; ++stages) {
    observed many = train(NULL, 14, "epochs=2 lr=0.1 batch=6 strategy=pipeline stages=%d workers=%d micro-batches=3",
                          stages, stages);
    if (stages == 2) assert_int_equal(many.n_steps, one.n_steps);
    for (int64_t k = 0; k < 2; ++k) assert_true(many.loss[k] == one.loss[k]);
    free(many.weights);
  }
  observed whole = train(NULL, 12, "epochs=2 lr=0.1 batch=2 accumulate=3");
  observed staged = train(NULL, 12, "epochs=2 lr=0.1 batch=6 strategy=pipeline stages=3 workers=3 micro-batches=3");
  assert_true(bits_equal(&staged, &whole));
  free(one.weights), free(whole.weights), free(staged.weights);
}

static void eager_passes_have_the_bits_of_the_plan(void **state) {
  observed planned = train(NULL, 14, "epochs=1 lr=0.1 batch=5"),
           eager = train(NULL, 14, "epochs=1 lr=0.1 batch=5 exec=eager");
  assert_true(bits_equal(&planned, &eager));
  free(planned.weights), free(eager.weights);
}

/* Tokens come to a predictor as numbers; each one's outputs do not depend on those behind it. */
static void a_predictor_takes_tokens(void **state) {
  ronde_source source = token_source(14, 0);
  ronde_hooks hooks = {.source = &source};
  ronde_config *config = config_make("train", "model=gpt-tiny dropout=0 threads=1 steps=1 batch=7");
  ronde_predictor *predictor;
  float x[2][STEPS] = {{1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 2, 3, 4, 11, 0, 0, 3, 3}}, y[2][STEPS][TOKENS];
  assert_int_equal(ronde_train_predictor(config, &hooks, &predictor, NULL), RONDE_OK);
  assert_int_equal(ronde_predictor_outputs(predictor), STEPS * TOKENS);
  assert_int_equal(ronde_predictor_run(predictor, 2, x[0], y[0][0]), RONDE_OK);
  assert_memory_equal(y[0], y[1], 4 * sizeof y[0][0]);
  assert_memory_not_equal(y[0][4], y[1][4], sizeof y[0][4]);
  x[1][3] = TOKENS;
  assert_int_equal(ronde_predictor_run(predictor, 2, x[0], y[0][0]), RONDE_E_INPUT);
  x[1][3] = 0.5f;
  assert_int_equal(ronde_predictor_run(predictor, 2, x[0], y[0][0]), RONDE_E_INPUT);
  ronde_predictor_destroy(predictor);
  ronde_config_destroy(config);
}

/* ---- convolution along a sequence ---- */

static void a_convolution_of_a_sequence_is_one_of_a_row(void **state) {
  enum { N = 3, C = 4, T = 10, O = 6, K = 3, OUT = 4 };
  const int64_t dims[] = {C, T};
  ronde_graph *graph;
  ronde__net *net;
  const ronde__kernels *kernels;
  int n_params;
  float x[N][C][T], w[O * C / 2 * K], b[O], y[N][O][OUT], wanted[N][O][OUT] = {0};
  assert_int_equal(ronde__kernels_get(&kernels), RONDE_OK);
  assert_int_equal(ronde_graph_create(&graph), RONDE_OK);
  ronde_tensor *out = ronde_conv1d(
      ronde_input(graph, "x", 2, dims), "conv",
      &(ronde_conv1d_options){.out_channels = O, .kernel = K, .stride = 2, .padding = 1, .dilation = 2, .groups = 2});
  ronde_graph_set_output(graph, out);
  ronde_graph_set_loss(graph, ronde_mse_loss(out, ronde_target(graph)));
  assert_int_equal(ronde__graph_finish(graph), RONDE_OK);
  ronde__net_options options = {.compute = {.kernels = kernels}};
  assert_int_equal(ronde__net_create(graph, &options, &net), RONDE_OK);
  const ronde__net_param *params = ronde__net_params(net, &n_params);
  assert_string_equal(params[0].name, "conv.weight");
  assert_true(ronde__shape_equal(&params[0].shape, &(ronde__shape){3, {O, C / 2, K}}));
  for (int i = 0; i < N * C * T; ++i) x[i / (C * T)][i / T % C][i % T] = small_noise(1, i);
  for (int i = 0; i < O * C / 2 * K; ++i) w[i] = small_noise(2, i);
  for (int i = 0; i < O; ++i) b[i] = small_noise(3, i);
  ronde__net_set(net, 0, w);
  ronde__net_set(net, 1, b);
  assert_int_equal(ronde__net_predict(net, N, x[0][0], y[0][0]), RONDE_OK);
  for (int n = 0; n < N; ++n)
    for (int o = 0; o < O; ++o)
      for (int t = 0; t < OUT; ++t) {
        wanted[n][o][t] = b[o];
        for (int c = 0; c < C / 2; ++c)
          for (int k = 0; k < K; ++k) {
            int at = 2 * t - 1 + 2 * k;
            if (at >= 0 && at < T) wanted[n][o][t] += w[(o * C / 2 + c) * K + k] * x[n][o / (O / 2) * (C / 2) + c][at];
          }
        assert_true(fabsf(y[n][o][t] - wanted[n][o][t]) < 1e-5f);
      }
  ronde__net_destroy(net);
  ronde_graph_destroy(graph);
}

/* ---- planted bugs ---- */

static ronde_status weigh_by_hand(void *state, const ronde__step *step, ronde__step_result *result_out) {
  ronde__step own = *step;
  own.label_weight = 1.f / STEPS; /* as if every label counted */
  return ronde__strategy_find("allreduce", &(ronde__strategy_settings){0})->step(state, &own, result_out);
}

static ronde__strategy planted;

static void plant(ronde__job *job) {
  planted = *ronde__strategy_find("allreduce", &(ronde__strategy_settings){0});
  planted.step = weigh_by_hand;
  job->strategy = &planted;
}

static void a_wrong_weight_is_seen(void **state) {
  ronde_source source = token_source(14, 0);
  observed fresh = train(encoder, 14, "steps=1 lr=0 batch=14"), one = train(encoder, 14, "steps=1 lr=0.5 batch=14");
  observed bad = observe("threads=1 steps=1 lr=0.5 batch=14 workers=2", &source, encoder, plant);
  assert_int_equal(bad.status, RONDE_OK);
  assert_true(update_difference(&bad, &one, &fresh) > 100 * UPDATE_TOLERANCE);
  assert_true(fabs(bad.loss[0] / one.loss[0] - 1) > 100 * LOSS_TOLERANCE);
  free(fresh.weights), free(one.weights), free(bad.weights);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_loss_is_the_mean_over_the_labels_of_a_step),
      cmocka_unit_test(a_test_is_the_mean_over_its_labels),
      cmocka_unit_test(a_step_of_many_is_a_step_of_one),
      cmocka_unit_test(recurrent_layers_too),
      cmocka_unit_test(batches_of_similar_length_too),
      cmocka_unit_test(the_transformer_too),
      cmocka_unit_test(bert_too),
      cmocka_unit_test(stages_have_the_bits_of_one_worker),
      cmocka_unit_test(eager_passes_have_the_bits_of_the_plan),
      cmocka_unit_test(a_predictor_takes_tokens),
      cmocka_unit_test(a_convolution_of_a_sequence_is_one_of_a_row),
      cmocka_unit_test(a_wrong_weight_is_seen),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

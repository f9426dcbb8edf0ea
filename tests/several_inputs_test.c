/* Networks of several inputs in whole runs: values and tokens side by side in an example, for every way of sharing out a
 * step, from a caller's data to a predictor. */
#include "train_testing.h"

#include "lib/folder.h"

/* Of sums of f32 in another order, against the largest element of the update; and of losses. */
#define UPDATE_TOLERANCE 3e-5
#define LOSS_TOLERANCE 2e-6

enum { VALUES = 5, STEPS = 6, TOKENS = 9, GAINS = 4, ROW = VALUES + STEPS + GAINS, CLASSES = 4 };

static void put_token(float *at, int64_t token) {
  int32_t as_stored = (int32_t)token;
  memcpy(at, &as_stored, sizeof as_stored);
}

static ronde_status read_rows(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                              float *targets) {
  for (int64_t i = 0; i < n; ++i) {
    float *row = x + i * ROW;
    int64_t id = ids[i] + 100 * (int64_t)split;
    for (int64_t k = 0; k < VALUES; ++k) row[k] = (float)((id * 7 + k * k) % 11) / 5 - 1;
    for (int64_t t = 0; t < STEPS; ++t)
      put_token(row + VALUES + t, t <= id % STEPS ? 1 + (id * 3 + t) % (TOKENS - 1) : 0);
    for (int64_t k = 0; k < GAINS; ++k) row[VALUES + STEPS + k] = (float)(1 + (id + k) % 3) / 2;
    labels[i] = (id * 5 + 1) % CLASSES;
  }
  return RONDE_OK;
}

static const ronde_source_input more[] = {{.name = "words", .rank = 1, .dims = {STEPS}, .vocabulary = TOKENS},
                                          {.name = "gains", .rank = 2, .dims = {2, 2}}};

static ronde_source source_of(int64_t n_train, int64_t n_test) {
  return (ronde_source){.name = "rows",
                        .rank = 1,
                        .dims = {VALUES},
                        .n_more = 2,
                        .more = more,
                        .classes = CLASSES,
                        .n_examples = {n_train, n_test},
                        .read = read_rows};
}

/* The tokens are read in the middle, the gains at the end: by later stages. */
static ronde_tensor *network(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  ronde_tensor *words = ronde_graph_input(graph, "words");
  ronde_attention_options options = {.heads = 2, .lengths = ronde_lengths(words, 0)};
  ronde_tensor *y = ronde_tanh(ronde_linear(x, "fc1", 12, true));
  y = ronde_tanh(ronde_linear(y, "fc2", 8, true));
  ronde_tensor *w = ronde_embedding(words, "embedding", 8, 0.5f);
  y = ronde_attention(ronde_reshape(y, 2, (int64_t[]){1, 8}), w, w, &options);
  y = ronde_multiply(ronde_linear(ronde_flatten(y), "fc3", GAINS, true),
                     ronde_flatten(ronde_graph_input(graph, "gains")));
  return ronde_linear(y, "fc4", classes, true);
}

static observed train(const char *format, ...) __attribute__((format(printf, 1, 2)));

static observed train(const char *format, ...) {
  char given[256], options[320];
  va_list args;
  va_start(args, format);
  vsnprintf(given, sizeof given, format, args);
  va_end(args);
  snprintf(options, sizeof options, "threads=1 %s", given);
  ronde_source source = source_of(14, 6);
  observed o = observe(options, &source, network, NULL);
  if (o.status != RONDE_OK) fail_msg("%s: status %d", options, o.status);
  return o;
}

static void check_strategy(const char *strategy) {
  static const int worlds[] = {2, 3, 7}, batches[] = {14, 5, 1};
  for (size_t b = 0; b < RONDE__COUNT(batches); ++b) {
    observed fresh = train("steps=1 lr=0 batch=%d", batches[b]), one = train("steps=1 lr=0.5 batch=%d", batches[b]);
    for (size_t w = 0; w < RONDE__COUNT(worlds); ++w) {
      observed many = train("steps=1 lr=0.5 batch=%d workers=%d %s", batches[b], worlds[w], strategy);
      double update = update_difference(&many, &one, &fresh), loss = fabs(many.loss[0] / one.loss[0] - 1);
      if (!(update <= UPDATE_TOLERANCE && loss <= LOSS_TOLERANCE))
        fail_msg("%s of %d, batch %d: updates differ by %g, losses by %g", strategy, worlds[w], batches[b], update,
                 loss);
      free(many.weights);
    }
    free(fresh.weights), free(one.weights);
  }
}

static void a_step_of_many_is_a_step_of_one(void **state) {
  check_strategy("strategy=allreduce");
  check_strategy("strategy=ps-sync servers=2");
  check_strategy("strategy=sharded");
  check_strategy("strategy=dataparallel");
  check_strategy("strategy=hybrid");
}

static void stages_and_eager_passes_have_the_bits_of_one_worker(void **state) {
  observed whole = train("epochs=2 lr=0.1 batch=2 accumulate=7");
  for (int stages = 2; stages <= 4; ++stages) {
    observed staged =
        train("epochs=2 lr=0.1 batch=14 strategy=pipeline stages=%d workers=%d micro-batches=7", stages, stages);
    assert_true(bits_equal(&staged, &whole));
    free(staged.weights);
  }
  free(whole.weights);
  observed planned = train("epochs=2 lr=0.1 batch=5"), eager = train("epochs=2 lr=0.1 batch=5 exec=eager");
  assert_true(bits_equal(&planned, &eager));
  assert_true(planned.test_loss == eager.test_loss);
  free(planned.weights), free(eager.weights);
}

/* Each input matters: what is read of it is not that of another example, or of another input. */
static void every_input_is_read(void **state) {
  ronde_source source = source_of(14, 0);
  ronde_hooks hooks = {.source = &source, .model = network};
  char *options = ronde__format("threads=1 steps=20 batch=7 lr=0.2 save=%s/w", folder);
  ronde_config *config = config_make("train", options);
  ronde_predictor *trained, *loaded;
  float x[3][ROW], y[3][CLASSES], alone[CLASSES], again[3][CLASSES];
  int64_t labels[3], dims[RONDE_MAX_RANK];
  int rank;
  assert_int_equal(ronde_train_predictor(config, &hooks, &trained, NULL), RONDE_OK);
  ronde_config_destroy(config);
  free(options);
  assert_int_equal(read_rows(NULL, RONDE_SPLIT_TRAIN, (int64_t[]){3, 4, 5}, 3, x[0], labels, NULL), RONDE_OK);
  for (int i = 0; i < 3; ++i)
    for (int t = VALUES; t < VALUES + STEPS; ++t) {
      int32_t token;
      memcpy(&token, &x[i][t], sizeof token);
      x[i][t] = (float)token;
    }
  assert_int_equal(ronde_predictor_run(trained, 3, x[0], y[0]), RONDE_OK);
  for (int i = 0; i < 3; ++i) {
    assert_int_equal(ronde_predictor_run(trained, 1, x[i], alone), RONDE_OK);
    for (int k = 0; k < CLASSES; ++k) assert_true(fabsf(alone[k] - y[i][k]) < 1e-5f);
  }
  for (int k = 0; k < ROW; k += k == VALUES ? STEPS : 1) { /* of the tokens the first */
    float before = x[1][k];
    x[1][k] = k == VALUES ? (float)((int)before % (TOKENS - 1) + 1) : before + 1;
    assert_int_equal(ronde_predictor_run(trained, 1, x[1], alone), RONDE_OK);
    assert_memory_not_equal(alone, y[1], sizeof alone);
    x[1][k] = before;
  }
  assert_string_equal(ronde_predictor_input(trained, 0, NULL, NULL), "input");
  assert_string_equal(ronde_predictor_input(trained, 2, &rank, dims), "gains");
  assert_true(rank == 2 && dims[0] == 2 && dims[1] == 2);
  assert_null(ronde_predictor_input(trained, 3, NULL, NULL));

  /* A file of weights says which inputs there are. */
  options = ronde__format("init=%s/w threads=1", folder);
  config = config_make("predict", options);
  assert_int_equal(ronde_predictor_create(config, &(ronde_hooks){.model = network}, &loaded), RONDE_OK);
  assert_int_equal(ronde_predictor_run(loaded, 3, x[0], again[0]), RONDE_OK);
  assert_memory_equal(again, y, sizeof y);
  x[2][VALUES + 1] = TOKENS;
  test_log_start(&lines);
  assert_int_equal(ronde_predictor_run(loaded, 3, x[0], again[0]), RONDE_E_INPUT);
  assert_non_null(strstr(lines.error, "element 36 is 9, not the number of a token, 0 to 8"));
  ronde_config_destroy(config);
  free(options);
  ronde_predictor_destroy(trained);
  ronde_predictor_destroy(loaded);
}

static ronde_tensor *asks_for_another(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  return ronde_linear(ronde_graph_input(graph, "mask"), "fc", classes, true);
}

static ronde_status spoilt(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                           float *targets) {
  RONDE_TRY(read_rows(user, split, ids, n, x, labels, targets));
  for (int64_t i = 0; i < n; ++i)
    if (ids[i] == 9) put_token(x + i * ROW + VALUES + 2, TOKENS);
  return RONDE_OK;
}

static void check_refused(const ronde_source *source, ronde_model_fn model, ronde_status status, const char *words) {
  test_log_start(&lines);
  ronde_config *config = config_make("train", "threads=1 steps=2 batch=7");
  assert_int_equal(ronde_train(config, &(ronde_hooks){.source = source, .model = model}, NULL), status);
  if (!strstr(lines.error, words)) fail_msg("\"%s\" is not in \"%s\"", words, lines.error);
  ronde_config_destroy(config);
}

static void what_makes_no_sense_is_refused(void **state) {
  ronde_source good = source_of(14, 0), bad = good;
  check_refused(&good, asks_for_another, RONDE_E_USAGE, "the network reads an input mask, and the data have none");
  bad.read = spoilt;
  check_refused(&bad, network, RONDE_E_INPUT, "token 9 of example 9 is not within the 9 of the vocabulary");
  const ronde_source_input wrong[] = {{.name = "a b", .rank = 1, .dims = {2}},
                                      {.name = "input", .rank = 1, .dims = {2}},
                                      {.name = "a", .rank = 0},
                                      {.name = "a", .rank = 2, .dims = {2, 0}},
                                      {.name = "a", .rank = 1, .dims = {2}, .vocabulary = -1}};
  static const char *const words[] = {"an input's name has", "has an input input already", "its rank must lie in 1..6",
                                      "its dims must be positive", "a vocabulary is too large"};
  for (size_t i = 0; i < RONDE__COUNT(wrong); ++i) {
    bad = good, bad.more = &wrong[i], bad.n_more = 1;
    check_refused(&bad, network, RONDE_E_USAGE, words[i]);
  }
  bad = good, bad.n_more = RONDE_MAX_INPUTS;
  check_refused(&bad, network, RONDE_E_USAGE, "it has too many inputs");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_step_of_many_is_a_step_of_one),
      cmocka_unit_test(stages_and_eager_passes_have_the_bits_of_one_worker),
      cmocka_unit_test(every_input_is_read),
      cmocka_unit_test(what_makes_no_sense_is_refused),
  };
  return cmocka_run_group_tests(tests, make_folder_with_cache, remove_folder);
}

/* Translation in whole jobs: networks learn to turn words around, are evaluated, and translate; their steps are those of one
 * worker, however they are shared out. */
#include "train_testing.h"

#include "base/rng.h"
#include "lib/folder.h"

/* Of sums of f32 in another order, against the largest element of the update; and of losses. */
#define UPDATE_TOLERANCE 3e-5
#define LOSS_TOLERANCE 2e-6

enum { PAIRS = 1000, LETTERS = 4, MOST = 3 };

/* A word of up to three letters, and the same in capitals the other way round: only who attends to the source from its end
 * on can tell. */
static void write_pairs(void) {
  char *text = malloc(PAIRS * (2 * MOST + 2)), *at = text;
  ronde__rng rng = ronde__rng_make(5, RONDE__STREAM_SYNTHETIC);
  for (int i = 0; i < PAIRS; i++) {
    int n = 1 + (int)ronde__rng_below(&rng, MOST);
    for (int k = 0; k < n; k++) at[k] = (char)('a' + ronde__rng_below(&rng, LETTERS));
    at[n] = '\t';
    for (int k = 0; k < n; k++) at[n + 1 + k] = (char)(at[n - 1 - k] - 'a' + 'A');
    at[2 * n + 1] = '\n';
    at += 2 * n + 2;
  }
  test_write(folder, "pairs.tsv", text, (size_t)(at - text));
  free(text);
}

static int write_once(void **state) {
  make_folder_with_cache(state);
  write_pairs();
  return 0;
}

/* The options have the folder at %s, twice at most. */
static ronde_status run_job(const char *verb, char **json_out, const char *format) {
  char *options = ronde__format(format, folder, folder);
  test_log_start(&lines);
  ronde_status status = job_try(verb, options, NULL, json_out);
  free(options);
  return status;
}

static void collect(void *user, int64_t token) {
  char *at = user;
  at[strlen(at)] = (char)token;
}

/* Also the probability of the translation. */
static double check_translation(const char *prompt, const char *search, const char *wanted) {
  char *options = ronde__format("init=%s/w threads=1 prompt=%s %s", folder, prompt, search), *text, heard[32] = "";
  ronde_config *config = config_make("predict", options);
  const ronde_hooks hooks = {.token = collect, .user = heard};
  assert_int_equal(ronde_predict(config, &hooks, &text), RONDE_OK);
  json_t *json = json_of(text);
  assert_string_equal(text_at(json, "prompt"), prompt);
  assert_string_equal(text_at(json, "text"), wanted);
  assert_int_equal(json_array_size(json_object_get(json, "tokens")), strlen(wanted));
  assert_true(heard[0] == '\t' && !strcmp(heard + 1, wanted));
  assert_true(json_is_true(json_object_get(json, "complete")));
  double log_p = real_at(json, "log_probability"), n = (double)strlen(wanted) + 1;
  assert_true(fabs(real_at(json, "score") - log_p / pow((5 + n) / 6, strstr(search, "penalty=1") ? 1 : 0.6)) < 1e-9);
  json_decref(json);
  ronde_config_destroy(config);
  free(options);
  return log_p;
}

static void check_refused(const char *format, ronde_status status, const char *words) {
  char *text;
  assert_int_equal(run_job("predict", &text, format), status);
  if (!strstr(lines.error, words)) fail_msg("\"%s\" is not in \"%s\"", words, lines.error);
}

/* The training has the folder at %s, twice. */
static void check_learning(const char *training) {
  char *text;
  assert_int_equal(run_job("train", &text, training), RONDE_OK);
  free(text);
  assert_int_equal(run_job("eval", &text, "init=%s/w data=pairs:%s/pairs.tsv threads=1"), RONDE_OK);
  json_t *json = json_of(text);
  double perplexity = real_at(json, "perplexity");
  assert_int_equal((int)real_at(json, "examples"), PAIRS / 10);
  assert_true(fabs(log(perplexity) - real_at(json, "loss")) < 1e-9);
  /* Whoever does not read the source has to guess among four letters at most places. */
  if (!(perplexity < 1.2)) fail_msg("a perplexity of %g", perplexity);
  json_decref(json);
  static const char *const words[][2] = {{"abc", "CBA"}, {"da", "AD"}, {"b", "B"}};
  for (size_t i = 0; i < RONDE__COUNT(words); i++) {
    double greedy = check_translation(words[i][0], "", words[i][1]);
    assert_true(check_translation(words[i][0], "beam=1", words[i][1]) == greedy);
    double found = check_translation(words[i][0], "beam=5 length-penalty=1", words[i][1]);
    assert_true(greedy < 0 && fabs(found / greedy - 1) < 1e-3);
  }
}

static void gnmt_learns_to_turn_words_around(void **state) {
  check_learning(
      "model=gnmt-tiny data=pairs:%s/pairs.tsv window=6 batch=16 optimizer=adam lr=0.005 epochs=40 dropout=0 "
      "threads=1 save=%s/w");
}

static void a_transformer_learns_to_turn_words_around(void **state) {
  check_learning(
      "model=transformer-tiny data=pairs:%s/pairs.tsv window=6 batch=32 optimizer=adam lr=0.002 epochs=12 "
      "dropout=0 threads=1 save=%s/w");
  check_refused("init=%s/w threads=1", RONDE_E_USAGE, "--prompt TEXT says which");
  check_refused("init=%s/w threads=1 prompt=abcdef", RONDE_E_USAGE, "--prompt has 6 bytes");
  check_refused("init=%s/w threads=1 prompt=a\tb", RONDE_E_USAGE, "byte 2 is 9, which no text");
  check_refused("init=%s/w threads=1 prompt=a temperature=0.5", RONDE_E_USAGE, "--temperature can have no effect");
  check_refused("init=%s/w threads=1 prompt=a length-penalty=1", RONDE_E_USAGE,
                "--length-penalty can have no effect: one");
}

/* ---- BLEU ---- */

/* Of twenty pairs two are for testing, and what should be told of these is not what was learned. */
static const char *const tested[][2] = {{"abc", "CBD"}, {"da", "ADDA"}};

static int n_in_both(const char *a, const char *b) {
  int n = 0;
  for (char c = 'A'; c <= 'Z'; c++) {
    int in_a = 0, in_b = 0;
    for (const char *at = a; *at; at++) in_a += *at == c;
    for (const char *at = b; *at; at++) in_b += *at == c;
    n += in_a < in_b ? in_a : in_b;
  }
  return n;
}

static void write_few(void) {
  char text[256] = "";
  for (int i = 0; i < 20; i++) {
    bool is_test = i % 10 == 9;
    sprintf(text + strlen(text), "%s\t%s\n", is_test ? tested[i / 10][0] : "a", is_test ? tested[i / 10][1] : "A");
  }
  test_write(folder, "few.tsv", text, strlen(text));
}

static json_t *bleu_of(const char *format) {
  char *text;
  assert_int_equal(run_job("eval", &text, format), RONDE_OK);
  json_t *json = json_of(text), *bleu = json_incref(json_object_get(json, "bleu"));
  assert_non_null(bleu);
  assert_true(fabs(log(real_at(json, "perplexity")) - real_at(json, "loss")) < 1e-9);
  json_decref(json);
  return bleu;
}

/* The examples of --split test, not those of training; each as predict translates it; and the same by many. */
static void translations_are_counted(void **state) {
  static const char *const told[] = {"CBA", "AD"};
  int n = 0, n_wanted = 0, n_found = 0;
  write_few();
  for (int i = 0; i < 2; i++) {
    check_translation(tested[i][0], "", told[i]);
    n += (int)strlen(told[i]);
    n_wanted += (int)strlen(tested[i][1]);
    n_found += n_in_both(told[i], tested[i][1]);
  }
  json_t *bleu = bleu_of("init=%s/w data=pairs:%s/few.tsv threads=1 bleu=char");
  assert_true(real_at(bleu, "translation_tokens") == n && real_at(bleu, "reference_tokens") == n_wanted);
  double precision = json_number_value(json_array_get(json_object_get(bleu, "precisions"), 0));
  assert_true(fabs(precision - 100. * n_found / n) < 1e-9);
  assert_true(fabs(real_at(bleu, "brevity_penalty") - exp(1 - (double)n_wanted / n)) < 1e-9);
  assert_true(real_at(bleu, "score") == 0); /* there is no match of four */
  assert_true(real_at(bleu, "exact") == 0);
  json_decref(bleu);
  /* Of all test pairs, in batches whose translations end at different lengths. */
  json_t *one = bleu_of("init=%s/w data=pairs:%s/pairs.tsv threads=1 bleu=char");
  json_t *three = bleu_of("init=%s/w data=pairs:%s/pairs.tsv threads=1 bleu=char workers=3 batch=20");
  json_t *wide = bleu_of("init=%s/w data=pairs:%s/pairs.tsv threads=1 bleu=char beam=3 batch=20");
  assert_true(json_equal(one, three));
  assert_true(real_at(wide, "beam") == 3);
  precision = json_number_value(json_array_get(json_object_get(wide, "precisions"), 0));
  if (!(precision > 95)) fail_msg("of the letters %g %% are right", precision);
  if (!(real_at(wide, "exact") > 0.9)) fail_msg("of the words %g are right", real_at(wide, "exact"));
  json_decref(one), json_decref(three), json_decref(wide);
}

static void check_eval_refused(const char *format, const char *words) {
  char *text;
  assert_int_equal(run_job("eval", &text, format), RONDE_E_USAGE);
  if (!strstr(lines.error, words)) fail_msg("\"%s\" is not in \"%s\"", words, lines.error);
}

static void searches_without_effect_are_refused(void **state) {
  char *text;
  check_eval_refused("init=%s/w data=pairs:%s/pairs.tsv threads=1 beam=2", "--beam can have no effect");
  check_eval_refused("init=%s/w data=pairs:%s/pairs.tsv threads=1 bleu=13a length-penalty=1",
                     "--length-penalty can have no effect: one");
  assert_int_equal(run_job("train", &text,
                           "model=gpt-tiny data=text:%s/pairs.tsv window=8 batch=2 steps=1 dropout=0 threads=1 "
                           "save=%s/gpt"),
                   RONDE_OK);
  free(text);
  check_eval_refused("init=%s/gpt data=text:%s/pairs.tsv threads=1 bleu=char",
                     "--bleu can have no effect: only networks");
  check_refused("init=%s/gpt threads=1 prompt=a beam=2", RONDE_E_USAGE, "--beam can have no effect: only networks");
}

/* ---- many workers ---- */

static const char *network;

static observed train(const char *format, ...) __attribute__((format(printf, 1, 2)));

static observed train(const char *format, ...) {
  char given[256];
  va_list args;
  va_start(args, format);
  vsnprintf(given, sizeof given, format, args);
  va_end(args);
  char *options =
      ronde__format("threads=1 model=%s dropout=0 data=pairs:%s/pairs.tsv window=6 %s", network, folder, given);
  observed o = observe(options, NULL, NULL, NULL);
  if (o.status != RONDE_OK) fail_msg("%s: status %d", options, o.status);
  free(options);
  return o;
}

static void check_strategy(const char *strategy, int workers) {
  static const int batches[] = {9, 2};
  for (size_t b = 0; b < RONDE__COUNT(batches); b++) {
    observed fresh = train("steps=1 lr=0 batch=%d", batches[b]), one = train("steps=1 lr=0.5 batch=%d", batches[b]);
    observed many = train("steps=1 lr=0.5 batch=%d workers=%d %s", batches[b], workers, strategy);
    double update = update_difference(&many, &one, &fresh), loss = fabs(many.loss[0] / one.loss[0] - 1);
    if (!(update <= UPDATE_TOLERANCE && loss <= LOSS_TOLERANCE))
      fail_msg("%s, %s of %d, batch %d: updates differ by %g, losses by %g", network, strategy, workers, batches[b],
               update, loss);
    free(fresh.weights), free(one.weights), free(many.weights);
  }
}

static void a_step_of_many_is_a_step_of_one(void **state) {
  network = *state;
  check_strategy("strategy=allreduce", 3);
  check_strategy("strategy=ps-sync servers=2", 3);
  check_strategy("strategy=sharded", 3);
  check_strategy("strategy=dataparallel", 3);
  check_strategy("strategy=hybrid", 2);
  check_strategy("strategy=pipeline stages=2 micro-batches=1", 4);
}

static void stages_and_eager_passes_have_the_bits_of_one_worker(void **state) {
  network = *state;
  observed one = train("steps=2 lr=0.1 batch=2 accumulate=3");
  for (int stages = 2; stages <= 4; stages++) {
    observed many =
        train("steps=2 lr=0.1 batch=6 strategy=pipeline stages=%d workers=%d micro-batches=3", stages, stages);
    assert_true(bits_equal(&many, &one));
    free(many.weights);
  }
  free(one.weights);
  observed planned = train("steps=3 lr=0.1 batch=5"), eager = train("steps=3 lr=0.1 batch=5 exec=eager");
  assert_true(bits_equal(&planned, &eager));
  free(planned.weights), free(eager.weights);
}

/* The published one looks up both languages in a single matrix. */
static void a_tied_transformer_trains(void **state) {
  char *text;
  assert_int_equal(run_job("train", &text,
                           "model=transformer data=pairs:%s/pairs.tsv window=6 batch=2 steps=2 lr=0.01 dropout=0 "
                           "threads=1"),
                   RONDE_OK);
  json_t *json = json_of(text);
  json_decref(json);
}

static void other_data_are_refused(void **state) {
  char *text;
  assert_int_equal(run_job("train", &text, "model=transformer-tiny data=text:%s/pairs.tsv batch=2 steps=1 threads=1"),
                   RONDE_E_USAGE);
  assert_non_null(strstr(lines.error, "transformer-tiny translates: it takes pairs:FILE"));
  assert_int_equal(run_job("train", &text, "model=gpt-tiny data=pairs:%s/pairs.tsv batch=2 steps=1 threads=1"),
                   RONDE_E_USAGE);
  assert_non_null(strstr(lines.error, "gpt-tiny takes one input, but the data have several"));
}

int main(void) {
  static char transformer[] = "transformer-tiny", gnmt[] = "gnmt-tiny";
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_transformer_learns_to_turn_words_around),
      cmocka_unit_test(translations_are_counted),
      cmocka_unit_test(searches_without_effect_are_refused),
      cmocka_unit_test(gnmt_learns_to_turn_words_around),
      cmocka_unit_test_prestate(a_step_of_many_is_a_step_of_one, transformer),
      cmocka_unit_test_prestate(a_step_of_many_is_a_step_of_one, gnmt),
      cmocka_unit_test_prestate(stages_and_eager_passes_have_the_bits_of_one_worker, transformer),
      cmocka_unit_test_prestate(stages_and_eager_passes_have_the_bits_of_one_worker, gnmt),
      cmocka_unit_test(a_tied_transformer_trains),
      cmocka_unit_test(other_data_are_refused),
  };
  return cmocka_run_group_tests(tests, write_once, remove_folder);
}

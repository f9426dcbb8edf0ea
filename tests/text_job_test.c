/* Texts in whole jobs: a character model learns what only attention can tell, is evaluated, and continues a text; and one of
 * tokens of a vocabulary. */
#include "train_testing.h"

#include "base/rng.h"
#include "lib/folder.h"
#include "sanitized.h"

/* What it has learned: numbers, for which no sanitizer is needed. */
#define HAS_LEARNED (!IN_PART)

enum { WORD = 7, LINE = 2 * WORD + 2, LINES = 2000, LETTERS = 16, WINDOW = 32 };

/* Each line is a word of random letters, and the word again. So of 16 bytes 7 are worth 4 bits each and 9 are worth none,
 * 1.75 bits a byte; whoever cannot look back by 8 places pays for both words, 3.5 bits a byte. */
static void write_text(void) {
  char *text = malloc(LINES * LINE + 1);
  ronde__rng rng = ronde__rng_make(5, RONDE__STREAM_SYNTHETIC);
  for (int i = 0; i < LINES; i++) {
    char *line = text + i * LINE;
    for (int k = 0; k < WORD; k++) line[k] = line[WORD + 1 + k] = (char)('a' + ronde__rng_below(&rng, LETTERS));
    line[WORD] = ' ', line[LINE - 1] = '\n';
  }
  test_write(folder, "text.txt", text, LINES * LINE);
  free(text);
}

/* The same words at %s. */
static ronde_status run_in_folder(const char *verb, const ronde_hooks *hooks, char **json_out, const char *format) {
  char *options = ronde__format(format, folder, folder);
  ronde_status status = job_try(verb, options, hooks, json_out);
  free(options);
  return status;
}

static ronde_status continue_text(const char *prompt, const char *options, const ronde_hooks *hooks,
                                  json_t **json_out) {
  char *given = ronde__format("init=%s/w threads=1 %s", folder, options), *text = NULL;
  ronde_config *config = config_make("predict", given);
  if (prompt) assert_int_equal(ronde_config_set(config, "prompt", prompt), RONDE_OK);
  test_log_start(&lines);
  ronde_status status = ronde_predict(config, hooks, &text);
  *json_out = text ? json_of(text) : NULL;
  ronde_config_destroy(config);
  free(given);
  return status;
}

static void check_text(const char *prompt, const char *options, const char *wanted) {
  json_t *json;
  assert_int_equal(continue_text(prompt, options, NULL, &json), RONDE_OK);
  if (HAS_LEARNED) assert_string_equal(text_at(json, "text"), wanted);
  assert_string_equal(text_at(json, "prompt"), prompt);
  assert_int_equal(json_array_size(json_object_get(json, "tokens")), strlen(wanted));
  json_decref(json);
}

static void check_refused(const char *prompt, const char *options, ronde_status status, const char *words) {
  json_t *json;
  assert_int_equal(continue_text(prompt, options, NULL, &json), status);
  if (!strstr(lines.error, words)) fail_msg("\"%s\" is not in \"%s\"", words, lines.error);
}

static void collect(void *user, int64_t token) {
  char *at = user;
  at[strlen(at)] = (char)token;
}

static int train_once(void **state) {
  char *text;
  make_folder_with_cache(state);
  write_text();
#define LEARN(amount)                                                                       \
  "model=gpt-tiny data=text:%s/text.txt window=32 batch=16 optimizer=adam lr=0.002 " amount \
  " dropout=0 threads=1 save=%s/w"
  assert_int_equal(run_in_folder("train", NULL, &text, HAS_LEARNED ? LEARN("epochs=6") : LEARN("steps=20")), RONDE_OK);
#undef LEARN
  free(text);
  return 0;
}

static void attention_is_what_tells_the_second_word(void **state) {
  char *text;
  assert_int_equal(run_in_folder("eval", NULL, &text, "init=%s/w data=text:%s/text.txt threads=1"), RONDE_OK);
  json_t *json = json_of(text);
  double bits = real_at(json, "bits_per_byte");
  assert_true(fabs(bits - real_at(json, "loss") / log(2)) < 1e-9);
  assert_true(fabs(log(real_at(json, "perplexity")) - real_at(json, "loss")) < 1e-9);
  if (HAS_LEARNED && !(bits > 1.7 && bits < 2.3)) fail_msg("%g bits a byte", bits);
  json_decref(json);
}

static double bits_per_byte(const char *options) {
  char *text;
  assert_int_equal(run_in_folder("eval", NULL, &text, options), RONDE_OK);
  json_t *json = json_of(text);
  double bits = real_at(json, "bits_per_byte");
  json_decref(json);
  return bits;
}

static void overlapping_windows_are_evaluated(void **state) {
#define EVAL "init=%s/w data=text:%s/text.txt threads=1"
  double apart = bits_per_byte(EVAL), overlapping = bits_per_byte(EVAL " stride=16");
  assert_true(bits_per_byte(EVAL " stride=32") == apart);
  bool is_near = fabs(overlapping - apart) < 0.1 && overlapping != apart; /* a line tells nothing of the next one */
  if (HAS_LEARNED && !is_near) fail_msg("%g bits a byte, %g apart", overlapping, apart);
  char *text;
  assert_int_equal(run_in_folder("eval", NULL, &text, EVAL " stride=33"), RONDE_E_USAGE);
#undef EVAL
  assert_int_equal(run_in_folder("eval", NULL, &text, "init=%s/w data=synthetic:32:256:8 stride=8"), RONDE_E_USAGE);
  assert_non_null(strstr(lines.error, "--stride can have no effect: only windows of text:FILE overlap"));
}

static void the_likeliest_text_is_the_word_again(void **state) {
  check_text("abcdefg abc", "tokens=5 temperature=0", "defg\n");
  check_text("hhabkof ", "tokens=8 temperature=0", "hhabkof\n");
}

/* The window is full from the first token on: each one drops the oldest. */
static void what_has_left_the_window_is_forgotten(void **state) {
  const char *const prompts[] = {"hijklmn hijklmn\nabcdefg abcdefg\n", "zzz hijklmn hijklmn\nabcdefg abcdefg\n",
                                 "abcdefg abcdefg\nhijklmn hijklmn\nabcdefg abcdefg\n"};
  json_t *all[3];
  for (int i = 0; i < 3; i++) {
    assert_int_equal(strlen(prompts[0]), WINDOW);
    assert_int_equal(continue_text(prompts[i], "tokens=40 seed=3", NULL, &all[i]), RONDE_OK);
    assert_string_equal(text_at(all[i], "text"), text_at(all[0], "text"));
  }
  for (int i = 0; i < 3; i++) json_decref(all[i]);
}

static void draws_are_a_function_of_the_seed(void **state) {
  json_t *a, *b, *c;
  char heard[64] = "";
  const ronde_hooks hooks = {.token = collect, .user = heard};
  assert_int_equal(continue_text("abc", "tokens=40 seed=3", &hooks, &a), RONDE_OK);
  assert_int_equal(continue_text("abc", "tokens=40 seed=3", NULL, &b), RONDE_OK);
  assert_int_equal(continue_text("abc", "tokens=40 seed=4", NULL, &c), RONDE_OK);
  assert_true(json_equal(a, b));
  assert_false(json_equal(a, c));
  assert_string_equal(heard, text_at(a, "text"));
  json_decref(a), json_decref(b), json_decref(c);
  /* As hot as this, all tokens are as likely; among the likeliest one none of that shows. */
  assert_int_equal(continue_text("abcdefg ", "tokens=200 temperature=1000", NULL, &a), RONDE_OK);
  int n_letters = 0;
  for (const char *at = text_at(a, "text"); *at; at++) n_letters += *at >= 'a' && *at < 'a' + LETTERS;
  assert_true(n_letters < 60);
  json_decref(a);
  check_text("abcdefg abc", "tokens=5 temperature=1000 top-k=1", "defg\n");
}

static void what_cannot_go_on_is_refused(void **state) {
  check_refused(NULL, "tokens=5", RONDE_E_USAGE, "--prompt TEXT says how it begins");
  check_refused("abc", "input=x.png", RONDE_E_USAGE, "give --prompt TEXT in place of x.png");
  check_refused("abc", "top=3", RONDE_E_USAGE, "--top can have no effect");
}

/* A network that looks ahead would be asked for what it already saw. */
static ronde_tensor *looks_ahead(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  ronde_recurrent_options both = {.hidden = 4, .both_directions = true};
  return ronde_linear(ronde_gru(ronde_embedding(x, "embedding", 4, 1), "gru", &both, NULL), "fc", classes, true);
}

static void a_network_that_looks_ahead_is_refused(void **state) {
  const ronde_hooks hooks = {.model = looks_ahead};
  char *text;
  assert_int_equal(
      run_in_folder("train", &hooks, &text, "data=text:%s/text.txt window=32 steps=1 threads=1 save=%s/ahead"),
      RONDE_OK);
  free(text);
  test_log_start(&lines);
  assert_int_equal(run_in_folder("predict", &hooks, &text, "init=%s/ahead threads=1 prompt=abc"), RONDE_E_USAGE);
  assert_non_null(strstr(lines.error, "depends on the tokens behind it"));
}

/* ---- a vocabulary ---- */

static void heard_bytes(void *user, const char *bytes, int64_t n) { strncat(user, bytes, (size_t)n); }

static json_t *tokenize(const char *options, ronde_status wanted) {
  char *given = ronde__format(options, folder, folder), *text = NULL;
  ronde_config *config = config_make("data", given);
  test_log_start(&lines);
  assert_int_equal(ronde_data_tokenize(config, &text), wanted);
  ronde_config_destroy(config);
  free(given);
  return text ? json_of(text) : NULL;
}

/* What a model of tokens says of a token, and of a byte; a text goes on with the weights alone. */
static void tokens_are_told_in_place_of_bytes(void **state) {
  char *text, heard[512] = "";
  const ronde_hooks hooks = {.text = heard_bytes, .user = heard};
  json_t *learned = tokenize("data=%s/text.txt output=%s/v.txt vocabulary=400", RONDE_OK);
  assert_true(real_at(learned, "vocabulary") == 400 && real_at(learned, "bytes") == LINES * LINE * 9 / 10);
  assert_true(real_at(learned, "bytes_per_token") > 1.2);
  json_decref(learned);
  char *train = ronde__format(
      "model=gpt-tiny data=text:%%s/text.txt tokenizer=%s/v.txt window=16 batch=16 "
      "optimizer=adam lr=0.002 steps=50 dropout=0 threads=1 out=%%s/run",
      folder);
  assert_int_equal(run_in_folder("train", NULL, &text, train), RONDE_OK);
  free(train);
  free(text);
  char *vocabulary = ronde__format("%s/v.txt", folder);
  unlink(vocabulary); /* the checkpoint has it, and the weights */
  free(vocabulary);
  assert_int_equal(run_in_folder("train", NULL, &text, "resume=%s/run steps=60 threads=1 save=%s/tokens"), RONDE_OK);
  free(text);
  assert_int_equal(run_in_folder("eval", NULL, &text, "init=%s/tokens data=text:%s/text.txt threads=1"), RONDE_OK);
  json_t *json = json_of(text);
  double bits = real_at(json, "bits_per_token"), bytes = bits / real_at(json, "bits_per_byte");
  assert_true(fabs(bits - real_at(json, "loss") / log(2)) < 1e-9);
  assert_true(bytes > 1.2 && bytes < 3);
  /* Whoever has learned nothing pays 6.4 bits a byte. */
  if (!(real_at(json, "bits_per_byte") < 5)) fail_msg("%g bits a byte", real_at(json, "bits_per_byte"));
  json_decref(json);
  char *given = ronde__format("init=%s/tokens threads=1 tokens=30 prompt=abc", folder);
  ronde_config *config = config_make("predict", given);
  assert_int_equal(ronde_predict(config, &hooks, &text), RONDE_OK);
  json = json_of(text);
  assert_string_equal(heard, text_at(json, "text"));
  assert_int_equal(json_array_size(json_object_get(json, "tokens")), 30);
  assert_true(strlen(heard) > 30);
  json_decref(json);
  ronde_config_destroy(config);
  free(given);
}

static void vocabularies_without_effect_are_refused(void **state) {
  char *text;
  tokenize("data=%s/text.txt", RONDE_E_USAGE);
  assert_non_null(strstr(lines.error, "--output VOCAB"));
  tokenize("data=%s/text.txt output=%s/v.txt window=8", RONDE_E_USAGE);
  assert_non_null(strstr(lines.error, "--window can have no effect"));
  tokenize("data=%s/none.txt output=%s/v.txt", RONDE_E_INPUT);
  assert_int_equal(
      run_in_folder("train", NULL, &text, "model=mlp:4 data=synthetic:1x4x4:3:8 tokenizer=%s/v.txt steps=1 threads=1"),
      RONDE_E_USAGE);
  assert_non_null(strstr(lines.error, "--tokenizer can have no effect: only text:FILE takes a vocabulary"));
}

static void a_network_of_images_takes_no_prompt(void **state) {
  char *text;
  assert_int_equal(run_in_folder("train", NULL, &text,
                                 "model=mlp:4 data=synthetic:1x4x4:3:8 steps=1 batch=4 threads=1 save=%s/images"),
                   RONDE_OK);
  free(text);
  test_log_start(&lines);
  assert_int_equal(run_in_folder("predict", NULL, &text, "init=%s/images prompt=abc"), RONDE_E_USAGE);
  assert_non_null(strstr(lines.error, "--prompt can have no effect: the network does not read tokens"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(attention_is_what_tells_the_second_word),
      cmocka_unit_test(overlapping_windows_are_evaluated),
      cmocka_unit_test(the_likeliest_text_is_the_word_again),
      cmocka_unit_test(what_has_left_the_window_is_forgotten),
      cmocka_unit_test(draws_are_a_function_of_the_seed),
      cmocka_unit_test(what_cannot_go_on_is_refused),
      cmocka_unit_test(a_network_that_looks_ahead_is_refused),
      cmocka_unit_test(tokens_are_told_in_place_of_bytes),
      cmocka_unit_test(vocabularies_without_effect_are_refused),
      cmocka_unit_test(a_network_of_images_takes_no_prompt),
  };
  return cmocka_run_group_tests(tests, train_once, remove_folder);
}

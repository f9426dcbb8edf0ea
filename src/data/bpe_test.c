/* Vocabularies of byte pairs against PyPI's tokenizers (tests/golden/bpe_golden.py), files of them, and data sets of their
 * tokens. */
#include "data/testing.h"

#include "data/bpe.h"
#include "data/data.h"

#include <jansson.h>

static test_log lines;

static ronde_status read_text(const char *text, size_t n, ronde__bpe **bpe_out) {
  ronde__stream *stream;
  test_log_start(&lines);
  assert_int_equal(ronde__stream_open_memory("v.txt", text, n, &stream), RONDE_OK);
  ronde_status status = ronde__bpe_read(stream, bpe_out);
  ronde__stream_close(stream);
  return status;
}

/* What is written is read as the same, and by it every text comes back. */
static void check_round_trip(const ronde__bpe *bpe, const char *text, int64_t n) {
  ronde__bpe *again;
  char *file = ronde__bpe_text(bpe), *back = malloc((size_t)n + 1);
  int32_t *tokens = malloc(2 * ((size_t)n + 1) * sizeof *tokens), *others = tokens + n + 1;
  assert_int_equal(read_text(file, strlen(file), &again), RONDE_OK);
  char *file_again = ronde__bpe_text(again);
  assert_string_equal(file, file_again);
  int64_t n_tokens = ronde__bpe_encode(bpe, text, n, tokens), at = 0;
  assert_int_equal(ronde__bpe_encode(again, text, n, others), n_tokens);
  assert_memory_equal(tokens, others, (size_t)n_tokens * sizeof *tokens);
  for (int64_t i = 0, length; i < n_tokens; ++i, at += length) {
    const char *bytes = ronde__bpe_token(bpe, tokens[i], &length);
    assert_true(length <= n - at);
    memcpy(back + at, bytes, (size_t)length);
  }
  assert_int_equal(at, n);
  assert_memory_equal(back, text, (size_t)n);
  ronde__bpe_destroy(again);
  free(file), free(file_again), free(back), free(tokens);
}

/* ---- against tokenizers ---- */

static void check_merges(const ronde__bpe *bpe, const json_t *merges) {
  char *text = ronde__bpe_text(bpe), *at = strchr(text, '\n') + 1;
  const json_t *wanted;
  size_t i;
  json_array_foreach(merges, i, wanted) {
    char *end = strchr(at, '\n');
    if (!end) fail_msg("there is no merge %d", (int)i);
    *end = '\0';
    assert_string_equal(at, json_string_value(wanted));
    at = end + 1;
  }
  assert_int_equal(*at, '\0');
  free(text);
}

static void check_encoded(const ronde__bpe *bpe, const json_t *encoded) {
  const json_t *text = json_object_get(encoded, "text"), *wanted = json_object_get(encoded, "tokens");
  int64_t n = (int64_t)json_string_length(text);
  int32_t *tokens = malloc(((size_t)n + 1) * sizeof *tokens);
  int64_t n_tokens = ronde__bpe_encode(bpe, json_string_value(text), n, tokens);
  assert_int_equal(n_tokens, json_array_size(wanted));
  for (int64_t i = 0; i < n_tokens; ++i)
    assert_int_equal(tokens[i], json_integer_value(json_array_get(wanted, (size_t)i)));
  check_round_trip(bpe, json_string_value(text), n);
  free(tokens);
}

static void vocabularies_are_those_of_tokenizers(void **state) {
  json_error_t error;
  json_t *json = json_load_file(RONDE_SOURCE_DIR "/tests/golden/bpe.json", 0, &error), *c, *encoded;
  if (!json) fail_msg("bpe.json:%d: %s", error.line, error.text);
  size_t i, k;
  json_array_foreach(json_object_get(json, "cases"), i, c) {
    const json_t *text = json_object_get(c, "text");
    ronde__bpe *bpe;
    assert_int_equal(ronde__bpe_learn(json_string_value(text), (int64_t)json_string_length(text),
                                      json_integer_value(json_object_get(c, "size")), &bpe),
                     RONDE_OK);
    assert_int_equal(ronde__bpe_size(bpe), json_integer_value(json_object_get(c, "vocabulary")));
    check_merges(bpe, json_object_get(c, "merges"));
    json_array_foreach(json_object_get(c, "encoded"), k, encoded) { check_encoded(bpe, encoded); }
    ronde__bpe_destroy(bpe);
  }
  assert_true(i == 3);
  json_decref(json);
}

/* All bytes, and words that are longer than one may be. */
static void any_bytes_come_back(void **state) {
  enum { N = 4096 };
  char text[N];
  ronde__bpe *bpe;
  for (int i = 0; i < N; ++i) text[i] = i < 2048 ? (char)(i * 7 % 256) : "ab"[i % 2];
  assert_int_equal(ronde__bpe_learn(text, N, 2000, &bpe), RONDE_OK);
  assert_true(ronde__bpe_size(bpe) > 262); /* "ab" is doubled until it is a word of 256 */
  check_round_trip(bpe, text, N);
  int64_t n;
  for (int64_t i = 0; i < ronde__bpe_size(bpe); ++i) {
    ronde__bpe_token(bpe, i, &n);
    assert_true(n > 0 && n <= RONDE__BPE_WORD);
  }
  ronde__bpe_destroy(bpe);
}

/* ---- files ---- */

static void files_of_others_are_read(void **state) {
  static const char *const windows = "#version: 0.2\r\na b\r\n\xC4\xA0 ab\r\n", *const bare = "a b\n\xC4\xA0 ab";
  for (int i = 0; i < 2; ++i) {
    ronde__bpe *bpe;
    const char *text = i ? bare : windows;
    int32_t tokens[4];
    assert_int_equal(read_text(text, strlen(text), &bpe), RONDE_OK);
    assert_int_equal(ronde__bpe_size(bpe), 258);
    assert_int_equal(ronde__bpe_encode(bpe, " ab", 3, tokens), 1);
    assert_int_equal(tokens[0], 257);
    ronde__bpe_destroy(bpe);
  }
}

static void files_that_are_none_are_refused(void **state) {
  char *lines_of_a = malloc(4096);
  memset(lines_of_a, 'a', 4096);
  static const struct {
    const char *text;
    size_t n;
    const char *words;
  } bad[] = {
      {"ab\n", 3, "line 1: two tokens are needed"},
      {"a b\na b c\n", 10, "line 2: two tokens are needed"},
      {"a \n", 3, "line 1: two tokens are needed"},
      {" a\n", 3, "line 1: two tokens are needed"},
      {"a b\na b\n", 8, "line 2: these two tokens were merged before"},
      {"a b\nabc d\n", 10, "line 2: a token is neither a byte nor made by a merge above"},
      {"a b\n\nab\xC3 d\n", 11, "line 3: a character stands for no byte"},
      {"a \xE6\x9D\xB1\n", 6, "line 1: a character stands for no byte"},
      {"a b\0\n", 5, "line 1: a character stands for no byte"},
      {"a \xC5\x84\n", 5, "line 1: a character stands for no byte"},
      {"#version: 0.2\n#version: 0.2\n", 28, "line 2: a token is neither"},
  };
  ronde__bpe *bpe;
  for (size_t i = 0; i < RONDE__COUNT(bad); ++i)
    check_failed(&lines, read_text(bad[i].text, bad[i].n, &bpe), RONDE_E_INPUT, "v.txt", bad[i].words);
  check_failed(&lines, read_text(lines_of_a, 4096, &bpe), RONDE_E_INPUT, "v.txt", "line 1: it is longer");
  lines_of_a[700] = ' ';
  check_failed(&lines, read_text(lines_of_a, 1001, &bpe), RONDE_E_INPUT, "v.txt", "line 1: a token is neither");
  free(lines_of_a);
  /* Each line doubles a token. */
  char doubled[2048], *at = doubled;
  for (int n = 1; n <= 256; n *= 2) {
    memset(at, 'a', (size_t)(2 * n + 1));
    at[n] = ' ';
    at[2 * n + 1] = '\n';
    at += 2 * n + 2;
  }
  check_failed(&lines, read_text(doubled, (size_t)(at - doubled), &bpe), RONDE_E_INPUT, "v.txt",
               "line 9: the token that it makes is longer");
}

/* ---- data sets ---- */

static void check_windows(const ronde__data *data) {
  const ronde_source *s = &data->source;
  const int64_t ids[] = {0, 1};
  int32_t tokens[4];
  int64_t labels[4];
  assert_true(s->rank == 1 && s->dims[0] == 2 && s->vocabulary == 258 && s->classes == 258 && s->label_elems == 2);
  assert_int_equal(s->n_examples[RONDE_SPLIT_TRAIN], 3);
  assert_int_equal(s->n_examples[RONDE_SPLIT_TEST], 0);
  assert_int_equal(ronde__data_read(data, RONDE_SPLIT_TRAIN, ids, 2, (float *)(void *)tokens, labels, NULL), RONDE_OK);
  assert_true(tokens[0] == 256 && tokens[1] == 257 && tokens[2] == 257 && tokens[3] == 257);
  assert_true(labels[0] == 257 && labels[1] == 257 && labels[2] == 257 && labels[3] == 'c' - '!');
}

static void a_text_is_cut_by_its_vocabulary(void **state) {
  static const char *const text = "ab ab ab abcxy"; /* of which y is for testing */
  char *folder = test_folder_create(), *spec = ronde__format("text:%s/t.txt", folder),
       *vocabulary = ronde__format("%s/v.txt", folder);
  setenv("RONDE_CACHE_DIR", folder, 1);
  test_write(folder, "t.txt", text, strlen(text));
  test_write(folder, "v.txt", "a b\n\xC4\xA0 ab\n", 10);
  ronde__data_options options = {.spec = spec, .window = 2, .tokenizer = vocabulary};
  for (int cache = 0; cache < 3; ++cache) { /* not, made, found */
    ronde__data *data;
    options.cache = cache > 0;
    assert_int_equal(ronde__data_open(&options, &data), RONDE_OK);
    check_windows(data);
    ronde__data_close(data);
  }
  /* Another vocabulary of the same name is another set. */
  test_write(folder, "v.txt", "a b\n", 4);
  ronde__data *data;
  assert_int_equal(ronde__data_open(&options, &data), RONDE_OK);
  assert_int_equal(data->source.vocabulary, 257);
  ronde__data_close(data);
  test_write(folder, "v.txt", "a b\na\n", 6);
  test_log_start(&lines);
  check_failed(&lines, ronde__data_open(&options, &data), RONDE_E_INPUT, "v.txt: line 2", "two tokens are needed");
  free(spec), free(vocabulary);
  test_folder_destroy(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(vocabularies_are_those_of_tokenizers),
      cmocka_unit_test(any_bytes_come_back),
      cmocka_unit_test(files_of_others_are_read),
      cmocka_unit_test(files_that_are_none_are_refused),
      cmocka_unit_test(a_text_is_cut_by_its_vocabulary),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

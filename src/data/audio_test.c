/* audio:DIR: what an example of a recording holds, where its files are looked for, and what is refused. */
#include "data/wav_testing.h"

#include "data/audio.h"
#include "lib/folder.h"

#include <math.h>
#include <sys/stat.h>

#ifndef RONDE_HAVE_AUDIO

static void it_says_what_it_lacks(void **state) {
  ronde__data *data;
  ronde__data_options options = {.spec = "audio:/nowhere", .cache = true};
  test_log_start(&lines);
  check_failed(&lines, ronde__data_open(&options, &data), RONDE_E_USAGE, "/nowhere", "libsndfile1-dev");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(it_says_what_it_lacks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

enum { BANDS = 80 };

static char *spec;

static int make_data(void **state) {
  make_folder_with_cache(state);
  spec = ronde__format("audio:%s", folder);
  return 0;
}

static int remove_data(void **state) {
  free(spec);
  return remove_folder(state);
}

static void write_tone(const char *name, size_t samples, int hz) {
  test_write_bytes(folder, name, test_wav_tones(samples, &hz, 1));
}

static void write_text(const char *name, const char *text) { test_write(folder, name, text, strlen(text)); }

static void make_below(const char *name) {
  char *path = ronde__format("%s/%s", folder, name);
  assert_int_equal(mkdir(path, 0777), 0);
  free(path);
}

static ronde_status open_audio(int64_t frames, bool cache, ronde__data **data_out) {
  ronde__data_options options = {.spec = spec, .frames = frames, .cache = cache, .normalize = true};
  test_log_start(&lines);
  return ronde__data_open(&options, data_out);
}

/* labels: as text of classes, '.' for what is ignored. */
static void check_example(const ronde__data *data, ronde_split split, int64_t id, int64_t frames, const char *text) {
  int64_t t = data->source.dims[2], s = data->source.label_elems, labels[64];
  float *row = malloc((size_t)(BANDS * t + 1) * sizeof *row);
  double sum = 0, squares = 0;
  char shown[256] = "";
  assert_int_equal(ronde__data_read(data, split, &id, 1, row, labels, NULL), RONDE_OK);
  for (int64_t i = 0; i < BANDS * t; ++i) {
    if (i % t >= frames) assert_true(row[i] == 0);
    sum += (double)row[i], squares += (double)row[i] * (double)row[i];
  }
  assert_true(row[BANDS * t] == (float)frames);
  assert_true(fabs(sum / (double)(BANDS * frames)) < 1e-4 && fabs(squares / (double)(BANDS * frames) - 1) < 1e-3);
  for (int64_t i = 0; i < s; ++i) strcat(shown, labels[i] < 0 ? "." : ronde__data_class_name(data, labels[i]));
  assert_string_equal(shown, text);
  free(row);
}

static void check_both(const ronde__data *data) {
  static const char *const names[] = {"<blank>", " ", "a", "b", "z", "é"};
  const ronde_source *s = &data->source;
  assert_true(s->rank == 3 && s->dims[0] == 1 && s->dims[1] == BANDS && s->dims[2] == 21);
  assert_true(s->classes == 6 && s->label_elems == 4 && s->vocabulary == 0 && s->n_more == 1);
  assert_string_equal(s->more[0].name, "lengths");
  assert_true(s->more[0].rank == 1 && s->more[0].dims[0] == 1 && s->more[0].vocabulary == 0);
  assert_true(s->n_examples[RONDE_SPLIT_TRAIN] == 2 && s->n_examples[RONDE_SPLIT_TEST] == 1);
  for (int64_t k = 0; k < 6; ++k) assert_string_equal(ronde__data_class_name(data, k), names[k]);
  check_example(data, RONDE_SPLIT_TRAIN, 0, 11, "b a.");
  check_example(data, RONDE_SPLIT_TRAIN, 1, 21, "ab z");
  check_example(data, RONDE_SPLIT_TEST, 0, 6, "éa..");
}

static void write_both(void) {
  make_below("train");
  make_below("test");
  write_tone("train/one.wav", 1600, 440);
  write_tone("train/two", 3200, 880);
  write_tone("test/three.wav", 800, 660);
  write_text("train/transcripts.txt", "one\tb  a \ntwo\tab z\r\n");
  write_text("test/transcripts.txt", "three.wav\téa\n");
}

static void an_example_is_features_a_length_and_characters(void **state) {
  ronde__data *data;
  write_both();
  for (int cache = 0; cache < 3; ++cache) { /* decoded, written to the cache, and read from it */
    assert_int_equal(open_audio(0, cache > 0, &data), RONDE_OK);
    assert_int_equal(lines.n_warnings, 0);
    check_both(data);
    ronde__data_close(data);
  }
}

static void long_recordings_are_left_out(void **state) {
  ronde__data *data;
  write_both();
  for (int cache = 0; cache < 2; ++cache) {
    assert_int_equal(open_audio(12, cache, &data), RONDE_OK);
    assert_non_null(strstr(lines.warning, "1 recordings of more than --frames 12 are left out"));
    assert_true(data->source.dims[2] == 12 && data->source.label_elems == 3 && data->n_skipped == 1);
    assert_int_equal(data->source.n_examples[RONDE_SPLIT_TRAIN], 1);
    check_example(data, RONDE_SPLIT_TRAIN, 0, 11, "b a");
    ronde__data_close(data);
  }
  check_failed(&lines, open_audio(5, true, &data), RONDE_E_INPUT, "no recording has at most", "--frames 5");
}

/* Those of other data, by name: as a network knows its characters. */
static void characters_can_be_renumbered(void **state) {
  static const int64_t label_of[] = {0, 5, 4, 3, 2, 1};
  static const char *const names[] = {"<blank>", "é", "z", "b", "a", " "};
  ronde__data *data;
  write_both();
  assert_int_equal(open_audio(0, true, &data), RONDE_OK);
  assert_int_equal(ronde__data_relabel(data, label_of, names, 6, 6), RONDE_OK);
  check_example(data, RONDE_SPLIT_TRAIN, 0, 11, "b a.");
  ronde__data_close(data);
}

/* Behind the length, in the numbers of the labels. */
static void the_text_can_be_an_input(void **state) {
  static const int64_t label_of[] = {0, 5, 4, 3, 2, 1};
  static const char *const names[] = {"<blank>", "é", "z", "b", "a", " "};
  static const int32_t wanted[2][4] = {{3, 5, 4, 0}, {4, 3, 5, 2}};
  ronde__data *data;
  write_both();
  assert_int_equal(open_audio(0, true, &data), RONDE_OK);
  assert_int_equal(ronde__data_relabel(data, label_of, names, 6, 6), RONDE_OK);
  ronde__data_tell_text(data);
  const ronde_source *s = &data->source;
  assert_true(s->n_more == 2 && s->more[1].rank == 1 && s->more[1].dims[0] == 4 && s->more[1].vocabulary == 6);
  assert_string_equal(s->more[1].name, "text");
  int64_t row = BANDS * 21 + 1 + 4, ids[] = {0, 1}, labels[8];
  float *x = malloc((size_t)(2 * row) * sizeof *x);
  assert_int_equal(ronde__data_read(data, RONDE_SPLIT_TRAIN, ids, 2, x, labels, NULL), RONDE_OK);
  for (int i = 0; i < 2; ++i) {
    assert_memory_equal(x + (i + 1) * row - 4, wanted[i], sizeof wanted[i]);
    assert_true(x[(i + 1) * row - 5] == (i ? 21 : 11));
  }
  free(x);
  ronde__data_close(data);
}

static void a_folder_without_splits_is_for_training(void **state) {
  ronde__data *data;
  write_tone("a.wav", 1600, 440);
  write_text("transcripts.txt", "a\tx\n");
  assert_int_equal(open_audio(0, true, &data), RONDE_OK);
  assert_true(data->source.n_examples[RONDE_SPLIT_TRAIN] == 1 && data->source.n_examples[RONDE_SPLIT_TEST] == 0);
  ronde__data_close(data);
}

static void check_refused(const char *a, const char *b) {
  ronde__data *data;
  check_failed(&lines, open_audio(0, true, &data), RONDE_E_INPUT, a, b);
}

static void what_is_missing_or_damaged_is_named(void **state) {
  ronde__data *data;
  check_refused("transcripts.txt: not found", "/train");
  write_tone("a.wav", 1600, 440);
  write_text("transcripts.txt", "a\tx\nb\ty\n");
  check_refused("transcripts.txt", "there is no");
  write_text("transcripts.txt", "");
  check_refused("transcripts.txt", "there are no transcripts");
  write_text("transcripts.txt", "a\t  \n");
  check_refused("transcripts.txt: line 1", "the text is empty");
  write_text("transcripts.txt", "a x\n");
  check_refused("transcripts.txt: line 1", "one TAB");
  write_text("transcripts.txt", "a\tx\nb\ty\n");
  write_text("b.wav", "no sound");
  check_refused("b.wav", "not a WAV file");
  write_tone("b.wav", 0, 440);
  check_refused("b.wav", "it has no samples");
  write_tone("b.wav", 1600, 440);
  ronde__data_options options = {
      .spec = spec, .cache = true, .normalization = &(ronde__normalization){1, {.5f}, {.5f}}};
  test_log_start(&lines);
  check_failed(&lines, ronde__data_open(&options, &data), RONDE_E_USAGE, "--normalize can have no effect",
               "recordings");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_data, remove_data)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(an_example_is_features_a_length_and_characters),
      TEST(long_recordings_are_left_out),
      TEST(characters_can_be_renumbered),
      TEST(the_text_can_be_an_input),
      TEST(a_folder_without_splits_is_for_training),
      TEST(what_is_missing_or_damaged_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif

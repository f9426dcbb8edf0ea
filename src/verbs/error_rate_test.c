/* Word and character error rates beside jiwer's (tests/golden/make_golden_error_rates.py), and what is told of logits. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "verbs/error_rate.h"
#include "verbs/transcribe.h"

static double rate(int64_t errors, int64_t n) { return (double)errors / (double)n; }

static void check_rates(const ronde__error_counts *counts, const json_t *wanted) {
  double wer = rate(counts->word_errors, counts->words), cer = rate(counts->character_errors, counts->characters);
  double wanted_wer = json_number_value(json_object_get(wanted, "wer")),
         wanted_cer = json_number_value(json_object_get(wanted, "cer"));
  if (!(fabs(wer - wanted_wer) < 1e-12 && fabs(cer - wanted_cer) < 1e-12))
    fail_msg("%s: %g and %g instead of %g and %g", json_string_value(json_object_get(wanted, "told")), wer, cer,
             wanted_wer, wanted_cer);
}

static void rates_are_jiwers(void **state) {
  json_t *golden = json_load_file(RONDE_SOURCE_DIR "/tests/golden/error-rates.json", 0, NULL);
  const json_t *cases = json_object_get(golden, "cases"), *of;
  ronde__error_counts all = {0};
  size_t i;
  assert_int_equal(json_array_size(cases), 12);
  json_array_foreach(cases, i, of) {
    ronde__error_counts own = {0};
    assert_int_equal(ronde__error_counts_add(&own, json_string_value(json_object_get(of, "reference")),
                                             json_string_value(json_object_get(of, "told"))),
                     RONDE_OK);
    check_rates(&own, of);
    ronde__error_counts_join(&all, &own);
  }
  check_rates(&all, json_object_get(golden, "all"));
  json_decref(golden);
}

enum { FRAMES = 9, STEPS = 5, CLASSES = 3 };

/* Five steps of nine frames, with the likeliest class of each. */
static int64_t told_of(const int *best, float frames, int64_t *labels) {
  const ronde__steps_of of = {FRAMES, STEPS, CLASSES};
  float logits[STEPS * CLASSES] = {0};
  for (int t = 0; t < STEPS; ++t) logits[t * CLASSES + best[t]] = 1;
  return ronde__ctc_greedy(&of, frames, logits, labels);
}

static void neighbours_are_one_and_blanks_none(void **state) {
  int64_t labels[STEPS];
  assert_int_equal(told_of((int[]){1, 1, 0, 1, 2}, 9, labels), 3);
  assert_true(labels[0] == 1 && labels[1] == 1 && labels[2] == 2);
  assert_int_equal(told_of((int[]){0, 0, 0, 0, 0}, 9, labels), 0);
  assert_int_equal(told_of((int[]){1, 2, 2, 2, 1}, 9, labels), 3);
}

/* Two frames are a step; the last of an odd number too. */
static void steps_behind_the_end_are_not_told(void **state) {
  static const int best[] = {1, 2, 1, 2, 1};
  int64_t labels[STEPS];
  for (int frames = 0; frames <= FRAMES; ++frames)
    assert_int_equal(told_of(best, (float)frames, labels), (frames + 1) / 2);
  assert_int_equal(told_of(best, 1e9f, labels), STEPS);
}

static const char *name_of(const void *user, int64_t k) {
  static const char *const names[] = {"<blank>", "a", "é"};
  return k < 3 ? names[k] : NULL;
}

static void labels_are_spelt(void **state) {
  const ronde__alphabet alphabet = {name_of, NULL};
  const int64_t labels[] = {1, 2, 7, 1};
  char text[40];
  assert_in_range(ronde__alphabet_bytes(&alphabet, 4), 6, sizeof text);
  ronde__alphabet_text(&alphabet, labels, 4, text);
  assert_string_equal(text, "aéa");
  ronde__alphabet_text(&alphabet, labels, 0, text);
  assert_string_equal(text, "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rates_are_jiwers),
      cmocka_unit_test(neighbours_are_one_and_blanks_none),
      cmocka_unit_test(steps_behind_the_end_are_not_told),
      cmocka_unit_test(labels_are_spelt),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

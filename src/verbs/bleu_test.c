/* BLEU against sacrebleu's, of the corpora of tests/golden/bleu_golden.py. */
#include "data/testing.h"

#include "verbs/bleu.h"

#include <math.h>

enum { MOST_PAIRS = 64, MOST_BYTES = 1024 };

typedef struct text {
  char bytes[MOST_BYTES];
  int64_t n;
} text;

/* Blanks and all but printable ASCII are %XX; "-" is nothing. */
static void unescape(const char *from, text *out) {
  out->n = 0;
  if (!strcmp(from, "-")) return;
  for (; *from; from++) {
    unsigned byte = (unsigned char)*from;
    if (*from == '%') {
      assert_int_equal(sscanf(from + 1, "%2x", &byte), 1);
      from += 2;
    }
    out->bytes[out->n++] = (char)byte;
  }
}

static void check_near(const char *what, double is, double wanted) {
  if (!(fabs(is - wanted) <= 1e-9 * (1 + fabs(wanted)))) fail_msg("%s: %.12g, not %.12g", what, is, wanted);
}

/* Halves are counted apart and joined, as ranks do. */
static void check_corpus(const char *line, const text *pairs, int n) {
  char tokens[8];
  double score, precision[RONDE__BLEU_ORDERS], brevity;
  long long n_told, n_wanted;
  ronde__bleu sums[2] = {{0}, {0}};
  assert_int_equal(sscanf(line, "corpus %7s %lf %lf %lf %lf %lf %lf %lld %lld", tokens, &score, &precision[0],
                          &precision[1], &precision[2], &precision[3], &brevity, &n_told, &n_wanted),
                   9);
  for (int i = 0; i < n; i++) {
    const text *told = &pairs[2 * i], *wanted = told + 1;
    assert_int_equal(
        ronde__bleu_add(&sums[i % 2], strcmp(tokens, "char") ? RONDE__BLEU_13A : RONDE__BLEU_CHAR,
                        (ronde__bleu_text){told->bytes, told->n}, (ronde__bleu_text){wanted->bytes, wanted->n}),
        RONDE_OK);
  }
  ronde__bleu_join(&sums[0], &sums[1]);
  if (sums[0].n_told != n_told || sums[0].n_wanted != n_wanted)
    fail_msg("%lld and %lld tokens: %s", (long long)sums[0].n_told, (long long)sums[0].n_wanted, line);
  for (int k = 0; k < RONDE__BLEU_ORDERS; k++) check_near(line, ronde__bleu_precision(&sums[0], k), precision[k]);
  check_near(line, ronde__bleu_brevity(&sums[0]), brevity);
  check_near(line, ronde__bleu_score(&sums[0]), score);
}

static void corpora_have_sacrebleus_score(void **state) {
  FILE *file = fopen(RONDE_SOURCE_DIR "/tests/golden/bleu.golden", "r");
  text *pairs = malloc(2 * MOST_PAIRS * sizeof *pairs);
  char line[2 * MOST_BYTES], told[MOST_BYTES], wanted[MOST_BYTES];
  int n = 0, n_corpora = 0;
  bool complete = false;
  assert_non_null(file);
  while (fgets(line, sizeof line, file)) {
    if (sscanf(line, "pair %1023s %1023s", told, wanted) == 2) {
      if (complete) n = 0;
      complete = false;
      assert_true(n < MOST_PAIRS);
      unescape(told, &pairs[2 * n]);
      unescape(wanted, &pairs[2 * n++ + 1]);
    } else if (!strncmp(line, "corpus", 6)) {
      check_corpus(line, pairs, n);
      complete = true;
      n_corpora++;
    }
  }
  assert_true(n_corpora >= 20);
  free(pairs);
  fclose(file);
}

/* Byte for byte, whatever tokens are compared: blanks count too. One of four, and one of two. */
static void what_is_the_reference_is_exact(void **state) {
  static const struct {
    const char *told, *wanted;
  } all[] = {{"a cat", "a cat"}, {"acat", "a cat"}, {"a cat", "a"}, {"", "a"}, {"", ""}, {"b", "a"}};
  ronde__bleu first = {0}, others = {0};
  for (size_t i = 0; i < RONDE__COUNT(all); i++) {
    ronde__bleu_text told = {all[i].told, (int64_t)strlen(all[i].told)},
                     wanted = {all[i].wanted, (int64_t)strlen(all[i].wanted)};
    assert_int_equal(ronde__bleu_add(i < 4 ? &first : &others, RONDE__BLEU_CHAR, told, wanted), RONDE_OK);
  }
  assert_true(ronde__bleu_exact(&first) == 0.25 && ronde__bleu_exact(&others) == 0.5);
  ronde__bleu_join(&first, &others);
  assert_true(ronde__bleu_exact(&first) == 2. / 6);
  assert_true(ronde__bleu_exact(&(ronde__bleu){0}) == 0);
}

/* Of a text that is as long as a text may be. */
static void a_long_text_is_counted(void **state) {
  enum { BYTES = 65535 };
  char *a = malloc(BYTES);
  ronde__bleu sums = {0};
  for (int i = 0; i < BYTES; i++) a[i] = i % 2 ? '.' : '-';
  assert_int_equal(ronde__bleu_add(&sums, RONDE__BLEU_13A, (ronde__bleu_text){a, BYTES}, (ronde__bleu_text){a, BYTES}),
                   RONDE_OK);
  assert_true(sums.n_told == BYTES && sums.matched[3] == BYTES - 3);
  assert_true(fabs(ronde__bleu_score(&sums) - 100) < 1e-9);
  free(a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(corpora_have_sacrebleus_score),
      cmocka_unit_test(what_is_the_reference_is_exact),
      cmocka_unit_test(a_long_text_is_counted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

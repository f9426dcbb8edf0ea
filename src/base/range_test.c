/* The gaps between ranges, against marking every element. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/base.h"
#include "base/rng.h"

enum { LENGTH = 40, MAX_RANGES = 8 };

/* Ascending, apart from each other or touching, in [0, LENGTH). */
static int make_ranges(ronde__rng *rng, ronde__range *ranges) {
  size_t at = ronde__rng_below(rng, 5);
  int n = 0;
  for (; n < MAX_RANGES; n++) {
    size_t length = 1 + ronde__rng_below(rng, 6);
    if (at + length > LENGTH) break;
    ranges[n] = (ronde__range){at, length};
    at += length + ronde__rng_below(rng, 5);
  }
  return n;
}

static void gaps_are_what_no_range_covers(void **unused) {
  (void)unused;
  ronde__rng rng = ronde__rng_make(17, RONDE__STREAM_SAMPLES);
  for (int round = 0; round < 2000; round++) {
    ronde__range ranges[MAX_RANGES], gap;
    int n = make_ranges(&rng, ranges);
    size_t begin = ronde__rng_below(&rng, LENGTH), end = begin + ronde__rng_below(&rng, LENGTH - begin + 1);
    char expected[LENGTH] = {0}, found[LENGTH] = {0};
    memset(expected + begin, 1, end - begin);
    for (int i = 0; i < n; i++) memset(expected + ranges[i].begin, 0, ranges[i].n);
    size_t last_end = begin;
    for (ronde__gaps gaps = ronde__gaps_of(ranges, n, begin, end); ronde__gaps_next(&gaps, &gap);) {
      assert_true(gap.n > 0 && gap.begin >= last_end && gap.begin + gap.n <= end);
      memset(found + gap.begin, 1, gap.n);
      last_end = gap.begin + gap.n;
    }
    assert_memory_equal(found, expected, LENGTH);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(gaps_are_what_no_range_covers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

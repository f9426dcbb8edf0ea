/* Sets of rows against arrays of flags, with sizes on both sides of a word. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rows.h"
#include "base/rng.h"

#include <string.h>

enum { MOST = 200 };
static const int64_t sizes[] = {1, 63, 64, 65, 128, 130, MOST};

/* Which rows: a lot of `each` in 256; 0: none, 256: all. */
static void draw(ronde__row_set *rows, bool *flags, ronde__rng *rng, int each) {
  ronde__row_set_clear(rows);
  for (int64_t r = 0; r < rows->n; r++)
    if ((flags[r] = 256 * ronde__rng_uniform(rng) < (float)each)) ronde__row_set_add(rows, r);
}

static void check(const ronde__row_set *rows, const bool *flags) {
  int64_t n = 0;
  for (int64_t r = 0; r < rows->n; r++) {
    assert_int_equal(ronde__row_set_has(rows, r), flags[r]);
    n += flags[r];
    for (int64_t end = r + 1; end <= rows->n; end += 1 + end % 7) {
      int64_t next = r + 1;
      while (next < end && flags[next] == flags[r]) next++;
      assert_int_equal(ronde__row_set_run(rows, r, end), next);
    }
  }
  assert_int_equal(ronde__row_set_count(rows), n);
}

static void sets_are_what_was_added(void **state) {
  static const int each[] = {0, 3, 128, 250, 256};
  ronde__rng rng = ronde__rng_make(5, 0);
  for (size_t s = 0; s < RONDE__COUNT(sizes); s++)
    for (size_t a = 0; a < RONDE__COUNT(each); a++)
      for (size_t b = 0; b < RONDE__COUNT(each); b++) {
        uint64_t bits[2][(MOST + 63) / 64];
        bool flags[2][MOST];
        ronde__row_set rows = {bits[0], sizes[s], 3}, others = {bits[1], sizes[s], 3};
        draw(&rows, flags[0], &rng, each[a]);
        draw(&others, flags[1], &rng, each[b]);
        check(&rows, flags[0]);
        ronde__row_set_unite(&rows, others.bits);
        for (int64_t r = 0; r < sizes[s]; r++) flags[0][r] |= flags[1][r];
        check(&rows, flags[0]);
        ronde__row_set_add_all(&rows);
        memset(flags[0], true, sizeof flags[0]);
        check(&rows, flags[0]);
        ronde__row_set_clear(&rows);
        memset(flags[0], false, sizeof flags[0]);
        check(&rows, flags[0]);
      }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(sets_are_what_was_added)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

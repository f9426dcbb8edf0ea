/* Sets of rows, a word of 64 at a time. */
#include "base/rows.h"

#include <string.h>

ronde_status ronde__row_set_make(int64_t n, int64_t elems, ronde__row_set *rows_out) {
  *rows_out = (ronde__row_set){.n = n, .elems = elems};
  RONDE__ALLOC(rows_out->bits, ronde__row_set_bytes(rows_out), "rows of a table");
  return RONDE_OK;
}

void ronde__row_set_clear(ronde__row_set *rows) { memset(rows->bits, 0, ronde__row_set_bytes(rows)); }

void ronde__row_set_add_all(ronde__row_set *rows) {
  for (int64_t w = 0; w < rows->n / 64; w++) rows->bits[w] = UINT64_MAX;
  if (rows->n % 64) rows->bits[rows->n / 64] = ((uint64_t)1 << rows->n % 64) - 1;
}

void ronde__row_set_unite(ronde__row_set *rows, const uint64_t *bits) {
  for (int64_t w = 0; w < ronde__row_set_words(rows->n); w++) rows->bits[w] |= bits[w];
}

int64_t ronde__row_set_count(const ronde__row_set *rows) {
  int64_t n = 0;
  for (int64_t w = 0; w < ronde__row_set_words(rows->n); w++) n += __builtin_popcountll(rows->bits[w]);
  return n;
}

int64_t ronde__row_set_add_most(ronde__row_set *rows) {
  int64_t n = ronde__row_set_count(rows);
  if (!ronde__row_set_is_most(rows, n)) return n;
  ronde__row_set_add_all(rows);
  return rows->n;
}

int64_t ronde__row_set_run(const ronde__row_set *rows, int64_t row, int64_t end) {
  bool met = ronde__row_set_has(rows, row);
  for (int64_t w = row / 64; w * 64 < end; w++) {
    uint64_t others = met ? ~rows->bits[w] : rows->bits[w];
    if (w == row / 64) others &= UINT64_MAX << row % 64;
    if (others) return ronde__min(end, w * 64 + __builtin_ctzll(others));
  }
  return end;
}

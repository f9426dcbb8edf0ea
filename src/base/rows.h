/* Which rows of a table were met: those of a gradient that is zero elsewhere. */
#ifndef RONDE_ROWS_H
#define RONDE_ROWS_H

#include "base/base.h"

typedef struct ronde__row_set {
  uint64_t *bits; /* [ronde__row_set_words(n)]: bit r of them is row r */
  int64_t n;
  int64_t elems; /* of a row */
} ronde__row_set;

static inline int64_t ronde__row_set_words(int64_t n) { return ronde__ceil_div(n, 64); }
static inline size_t ronde__row_set_bytes(const ronde__row_set *rows) {
  return (size_t)ronde__row_set_words(rows->n) * sizeof *rows->bits;
}
static inline bool ronde__row_set_has(const ronde__row_set *rows, int64_t row) {
  return rows->bits[row / 64] >> row % 64 & 1;
}
static inline void ronde__row_set_add(ronde__row_set *rows, int64_t row) {
  rows->bits[row / 64] |= (uint64_t)1 << row % 64;
}

/* An empty one; its bits are the caller's, to be freed. */
ronde_status ronde__row_set_make(int64_t n, int64_t elems, ronde__row_set *rows_out);
void ronde__row_set_clear(ronde__row_set *rows);
void ronde__row_set_add_all(ronde__row_set *rows);
/* Whether `count` are more than half of them: then leaving out the others is not worth it. */
static inline bool ronde__row_set_is_most(const ronde__row_set *rows, int64_t count) { return 2 * count > rows->n; }
/* All, where it has most of them. Returns how many it has. */
int64_t ronde__row_set_add_most(ronde__row_set *rows);
/* Those of `bits`, of as many rows. */
void ronde__row_set_unite(ronde__row_set *rows, const uint64_t *bits);
int64_t ronde__row_set_count(const ronde__row_set *rows);
/* The end of the run of rows from `row` on that are all met, or all not; at most `end`. row < end. */
int64_t ronde__row_set_run(const ronde__row_set *rows, int64_t row, int64_t end);

#endif

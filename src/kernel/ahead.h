/* What products bring into cache beside their work, for those that follow. */
#ifndef RONDE_AHEAD_H
#define RONDE_AHEAD_H

#include <stdbool.h>
#include <stdint.h>

/* Memory that is wanted soon: n ranges, each of `rows` rows (0: one) of `bytes` (whole lines), which begin `apart` bytes from
 * one another. Products bring it into the second cache beside their work, a line at a time, so that they wait for none of it;
 * what they leave behind is left to those that follow. */
enum { RONDE__AHEAD_RANGES = 16, RONDE__AHEAD_LINE = 64 };
typedef struct ronde__ahead {
  const void *at[RONDE__AHEAD_RANGES];
  int n;
  int64_t bytes, rows, apart;
  int range;         /* how far it is: this range, */
  int64_t row, line; /* this row, and bytes of it */
} ronde__ahead;

/* The whole lines of so many bytes. */
static inline int64_t ronde__ahead_lines(int64_t bytes) { return bytes / RONDE__AHEAD_LINE * RONDE__AHEAD_LINE; }
static inline bool ronde__ahead_is_done(const ronde__ahead *ahead) { return ahead->range == ahead->n; }
static inline bool ronde__ahead_has_begun(const ronde__ahead *ahead) {
  return ahead->range || ahead->row || ahead->line;
}

/* How many lines have not been taken, but for those of a row that is under way. */
static inline int64_t ronde__ahead_left(const ronde__ahead *ahead) {
  const int64_t rows = ahead->rows > 1 ? ahead->rows : 1;
  return ((ahead->n - ahead->range) * rows - ahead->row) * (ahead->bytes / RONDE__AHEAD_LINE);
}

/* Rows of fewer bytes are gone through side by side, a line of each. */
enum { RONDE__AHEAD_SHORT_ROW = 16 * RONDE__AHEAD_LINE };

/* Takes the next lines, at most `lines` of them, evenly apart. NULL: nothing is left. */
static inline const char *ronde__ahead_take(ronde__ahead *ahead, int64_t lines, int64_t *apart_out) {
  if (!ahead || ronde__ahead_is_done(ahead)) return NULL;
  const int64_t rows = ahead->rows > 1 ? ahead->rows : 1;
  const char *first = (const char *)ahead->at[ahead->range] + ahead->row * ahead->apart + ahead->line;
  if (rows > 1 && ahead->bytes <= RONDE__AHEAD_SHORT_ROW) {
    const int64_t left = rows - ahead->row;
    *apart_out = ahead->apart;
    ahead->row += lines < left ? lines : left;
    if (ahead->row == rows) ahead->row = 0, ahead->line += RONDE__AHEAD_LINE;
    if (ahead->line == ahead->bytes) ahead->line = 0, ahead->range++;
  } else {
    const int64_t left = ahead->bytes - ahead->line;
    *apart_out = RONDE__AHEAD_LINE;
    ahead->line += lines * RONDE__AHEAD_LINE < left ? lines * RONDE__AHEAD_LINE : left;
    if (ahead->line == ahead->bytes) ahead->line = 0, ahead->row++;
    if (ahead->row == rows) ahead->row = 0, ahead->range++;
  }
  return first;
}

#endif

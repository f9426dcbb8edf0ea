/* Pairs of texts, one a line: a source, a TAB, a target, in UTF-8. Both are bytes; TAB and the line's end, which no text
 * holds, are tokens too: a TAB begins a target, and the line's end closes source and target. Token 0 is padding. */
#ifndef RONDE_PAIRS_H
#define RONDE_PAIRS_H

#include "data/stream.h"

enum { RONDE__PAIRS_PADDING = 0, RONDE__PAIRS_BEGIN = '\t', RONDE__PAIRS_END = '\n' };

/* Reads a stream's pairs whose texts are shorter than `window` bytes. */
typedef struct ronde__pairs ronde__pairs;
ronde_status ronde__pairs_open(ronde__stream *stream, int64_t window, ronde__pairs **pairs_out);
void ronde__pairs_close(ronde__pairs *pairs); /* NULL is taken */

/* A pair; valid until the next call. Texts end with a 0. */
typedef struct ronde__pair_of_texts {
  const char *source, *target;
  int64_t line; /* from 1 */
} ronde__pair_of_texts;
/* The next one; false: there is none. Errors: RONDE_E_INPUT with the line. */
ronde_status ronde__pairs_next(ronde__pairs *pairs, ronde__pair_of_texts *pair_out, bool *any_out);
/* How many were left out so far because a text is too long. */
int64_t ronde__pairs_n_long(const ronde__pairs *pairs);

#endif

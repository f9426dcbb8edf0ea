/* A search for a likely sequence of tokens that goes on with several hypotheses at a time, all of the same length. In each
 * step, of all ways to continue one of them by a token, the 2 `width` likeliest are looked at. One that ends is complete if it
 * is among the first `width`; the first `width` that do not end go on. The search is over when `width` have been completed,
 * when the hypotheses are as long as they may be, or when none of them can still be better than the best complete one. With
 * width 1 it takes the likeliest token at each place, of equally likely ones the first, until that is the end.
 * The best one has the highest score, log P / ((5 + n) / 6)^A with the n tokens that it tells, the end among them. One that
 * does not end within `most` tokens counts only where none is complete.
 * Cost of a step: a pass over the vocabulary for each hypothesis; memory: 2 width most numbers.
 * Source: Wu et al., "Google's neural machine translation system", 2016, equation 14, without its penalty of coverage, which
 * needs the weights of one attention. */
#ifndef RONDE_BEAM_H
#define RONDE_BEAM_H

#include "base/base.h"

typedef struct ronde__beam_options {
  int64_t width, vocabulary, most;
  int64_t end;           /* the token that completes a hypothesis, and is not part of it */
  double length_penalty; /* A, not negative */
} ronde__beam_options;

typedef struct ronde__beam ronde__beam;
ronde_status ronde__beam_create(const ronde__beam_options *options, ronde__beam **beam_out);
void ronde__beam_destroy(ronde__beam *beam); /* NULL is taken */

/* A search from its beginning, with one hypothesis without tokens. */
void ronde__beam_begin(ronde__beam *beam);
/* How many hypotheses go on, the likeliest first; 0: the search is over. */
int64_t ronde__beam_n(const ronde__beam *beam);
/* Of what length, and the tokens [length] of one of them. */
int64_t ronde__beam_length(const ronde__beam *beam);
const int32_t *ronde__beam_tokens(const ronde__beam *beam, int64_t i);
/* logits of the token behind each hypothesis: [n][vocabulary], rows `stride` apart. false: one is NaN or Inf, and nothing was
 * done. */
bool ronde__beam_step(ronde__beam *beam, const float *logits, int64_t stride);

/* The best one so far; where none is complete, the likeliest of those that go on, or went on to the last token. Valid until
 * the next step. */
typedef struct ronde__hypothesis {
  const int32_t *tokens; /* [n] */
  int64_t n;
  bool is_complete;
  double log_p, score; /* of the tokens, and of the end where it is complete */
} ronde__hypothesis;
ronde__hypothesis ronde__beam_best(const ronde__beam *beam);

#endif

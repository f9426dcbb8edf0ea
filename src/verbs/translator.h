/* Translations of sources by a network that tells each token of a target from the source and the tokens in front of it. All
 * hypotheses of all sources (beam.h) are rows of one batch; each token costs a pass over the windows of all rows. */
#ifndef RONDE_TRANSLATOR_H
#define RONDE_TRANSLATOR_H

#include "job/job.h"
#include "verbs/beam.h"

/* Whether the job's network reads two windows of bytes, as pairs:FILE has them, and tells a byte at each place: `outputs`. */
bool ronde__translates(const ronde__job *job, int64_t outputs);

typedef struct ronde__translator_options {
  const ronde__job *job; /* its --beam and --length-penalty */
  int64_t n_sources;     /* at a time, at most */
  int64_t most;          /* tokens of a translation */
  /* y [n][W][V], the network's output for rows [n][2][W]. */
  ronde_status (*run)(void *user, int64_t n, const int32_t *rows, float *y_out);
  /* Each token of a translation as soon as it is certain: at once, or with several hypotheses at the end. May be NULL. */
  void (*tell)(void *user, int64_t source, int32_t token);
  bool (*cancel)(void *user); /* asked in front of each pass; may be NULL */
  void *user;
} ronde__translator_options;

typedef struct ronde__translator ronde__translator;
ronde_status ronde__translator_create(const ronde__translator_options *options, ronde__translator **translator_out);
void ronde__translator_destroy(ronde__translator *translator); /* NULL is taken */
/* n sources: rows [n][2][W], as pairs:FILE has them, of which the second half is not read. Errors: RONDE_E_CANCELLED,
 * RONDE_E_NUMERIC, those of `run`. */
ronde_status ronde__translator_run(ronde__translator *translator, int64_t n, const int32_t *rows);
/* The translation of one of them, until the next run. */
ronde__hypothesis ronde__translator_result(const ronde__translator *translator, int64_t source);

#endif

/* How much of what was said a network gets wrong: word error rate and character error rate. */
#ifndef RONDE_ERROR_RATE_H
#define RONDE_ERROR_RATE_H

#include "setup/setup.h"

#include <jansson.h>

typedef struct ronde__error_counts {
  int64_t words, word_errors;           /* of the references; insertions, deletions and replacements */
  int64_t characters, character_errors; /* code points, blanks between words too */
} ronde__error_counts;

/* Adds a text that was told in place of a reference. Words are what blanks part; blanks at the ends do not count. Errors:
 * RONDE_E_MEMORY. */
ronde_status ronde__error_counts_add(ronde__error_counts *counts, const char *reference, const char *told);

/* ---- of examples that are evaluated, by one rank ---- */

typedef struct ronde__listener ronde__listener;
ronde_status ronde__listener_create(const ronde__job *job, const ronde_graph *graph, ronde__listener **listener_out);
void ronde__listener_destroy(ronde__listener *listener);          /* NULL is taken */
int64_t ronde__listener_outputs(const ronde__listener *listener); /* of the network, an example */
/* n examples: inputs, what the network told of them, and their labels. user: the listener. */
ronde_status ronde__listener_hear(void *user, int64_t n, const float *x, const float *outputs, const int64_t *labels);
const ronde__error_counts *ronde__listener_counts(const ronde__listener *listener);

/* Adds what others have heard. */
void ronde__error_counts_join(ronde__error_counts *counts, const ronde__error_counts *others);
/* Adds wer, cer, words and characters to a result. */
void ronde__error_rates_tell(const ronde__error_counts *counts, json_t *result);

#endif

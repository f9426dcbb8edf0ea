/* Recordings that a network transcribes. */
#ifndef RONDE_TRANSCRIBE_H
#define RONDE_TRANSCRIBE_H

#include "setup/setup.h"

/* Whether the job's network takes recordings and their lengths, and tells classes by CTC. */
bool ronde__transcribes(const ronde__job *job);
/* ronde_predict of such a job: the text of each WAV file in --input. json_out NULL: only the hook is told. */
ronde_status ronde__transcribe(ronde__job *job, char **json_out);

/* ---- what eval does too ---- */

/* What a network makes of an example: logits [steps][classes] of frames, each step of as many. */
typedef struct ronde__steps_of {
  int64_t frames, steps, classes;
} ronde__steps_of;

/* The likeliest class of each step within the example's frames, of equal neighbours one, without blanks: labels_out
 * [steps], of which so many are set. */
int64_t ronde__ctc_greedy(const ronde__steps_of *of, float frames, const float *logits, int64_t *labels_out);

/* What the classes are called; 0 is the blank. A class without a name is left out of texts. */
typedef struct ronde__alphabet {
  const char *(*name)(const void *user, int64_t k);
  const void *user;
} ronde__alphabet;

/* Room for a text of so many labels, with the 0 behind it. */
size_t ronde__alphabet_bytes(const ronde__alphabet *alphabet, int64_t n);
void ronde__alphabet_text(const ronde__alphabet *alphabet, const int64_t *labels, int64_t n, char *text);

#endif

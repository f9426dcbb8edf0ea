/* Which examples a job tests on, and what a file of weights says of those that its run kept out of training. */
#ifndef RONDE_SPLIT_H
#define RONDE_SPLIT_H

#include "job/job.h"

#define RONDE__META_SPLIT "ronde.split" /* of a weights' file: which training examples its run kept out, as JSON */
/* What a training job tests on: what it keeps out, else the data's test split. */
typedef struct ronde__tests {
  const char *name; /* "test", or "validation" (kept out, or a folder's val/); NULL: there are none */
  ronde_split split;
  const int64_t *ids; /* [n] of the split; NULL: all of it */
  int64_t n;
} ronde__tests;
ronde__tests ronde__job_tests(const ronde__job *job);
/* The job's split for a file; NULL where it keeps nothing out. To be freed. */
char *ronde__split_text(const ronde__job *job);
/* RONDE_E_INPUT where the file's makes no sense. */
ronde_status ronde__split_read(const ronde__safetensors *file, const char *path, ronde__split_note *note_out);
/* Whether these are the data that it was made of. */
bool ronde__split_fits(const ronde__split_note *note, const ronde__data *data);
/* A sampler of the data's training examples; by_class sets the options' labels. */
ronde_status ronde__split_sampler(const ronde__data *data, bool by_class, ronde__sampler_options *options,
                                  ronde__sampler **sampler_out);
/* One that keeps out what the run did, and hands out the rest in file order. */
ronde_status ronde__split_again(const ronde__split_note *note, const ronde__data *data, ronde__sampler **sampler_out);

#endif

/* What the tests of checkpoints share: runs in a folder of the test's own, stopped and looked into. */
#ifndef RESUME_TESTING_H
#define RESUME_TESTING_H

#include "lib/folder.h"
#include "train_testing.h"

#include "state/checkpoint.h"

int64_t draw(int64_t from, int64_t to);

/* ---- runs -------------------------------------------------------------------------------------------------------- */

#define SET "data=synthetic:1x10x10:4:53 "

/* Everything that has a state or chance of its own. */
ronde_tensor *norm_model(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user);

typedef struct stop {
  int64_t n_asked, at; /* at: the step that is the last; 0: none */
} stop;

bool stop_cancel(void *user);

/* Trains with norm_model, or the built-in one that the options name; stopped after `at` steps of this process. */
ronde_status train(const char *options, int64_t at, json_t **run_out);

/* printf into out. */
void in(char out[512], const char *format, ...);

/* The last line of each step counts. */
json_t *losses_of(const char *run);

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* Two checkpoints for sure, one of a stop and one of the end; those on the way depend on how busy the host is. */
void make_run(const char *more);

/* The i-th newest checkpoint of the run. */
char *newest(int i_wanted);

test_bytes read_all(const char *path);

void write_all(const char *path, const uint8_t *data, size_t n);

#endif

/* What the tests of training share: small data, networks of their own, runs whose ranks can be looked into, the files
 * that a run leaves. */
#ifndef TRAIN_TESTING_H
#define TRAIN_TESTING_H

#include "comm/sim.h"
#include "data/testing.h"

#include <jansson.h>
#include <math.h>

#include "train/run.h"
#include "setup/setup.h"

/* ---- a small problem --------------------------------------------------------------------------------------------- */

enum { SMALL_SIDE = 6, SMALL_PIXELS = SMALL_SIDE * SMALL_SIDE, SMALL_CLASSES = 3, SMALL_VALUES = 2 };

float small_noise(int64_t id, int64_t i);

/* Images of which each differs, with a bright row that tells the class; as values, two sums of pixels. */
ronde_status small_read(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                        float *targets);

/* The same, but for a NaN in example 13. */
ronde_status small_nan_read(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                            float *targets);
ronde_source small_source(int64_t n_train, int64_t n_test);
/* The same, but for an infinity in example 7 of the training set. */
ronde_status small_huge_read(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                             float *targets);
/* Whose tanh of an infinite sum is finite, and so is the loss; the gradient of its weight is not. */
ronde_tensor *saturating_model(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user);
/* Trains, which may fail: *run_out is run.json, NULL where there is none; `lines` of lib/folder.h has what was said. */
ronde_status train_on(const char *options, ronde_source source, ronde_model_fn model, json_t **run_out);

ronde_source small_values(int64_t n_train, int64_t n_test);

ronde_tensor *small_model(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user);

/* Of conv2's taps four meet more than padding, of conv3's and conv4's one. */
ronde_tensor *dead_taps_model(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user);

ronde_tensor *small_regression(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user);

/* ---- options and files ------------------------------------------------------------------------------------------- */

/* Options as "batch=8 shuffle=off". */
ronde_config *config_make(const char *verb, const char *options);

json_t *json_of(char *text);

/* A whole job by the public API, which may fail: *json_out, to be freed, is what it reports, NULL where there is nothing. */
ronde_status job_try(const char *verb, const char *options, const ronde_hooks *hooks, char **json_out);

/* The same, which must succeed. */
json_t *job_run(const char *verb, const char *options, const ronde_hooks *hooks);

/* Trains `model` on small_source(40, 8) so. */
json_t *small_job(ronde_model_fn model, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "result.test_loss", "epochs.0.steps": NULL where there is no such field. */
json_t *json_at(json_t *json, const char *path);

double real_at(json_t *json, const char *path);

const char *text_at(json_t *json, const char *path);

json_t *json_file(const char *folder, const char *name);

bool file_exists(const char *folder, const char *name);

/* The lines of steps.jsonl, each parsed, in a JSON array. */
json_t *steps_file(const char *folder);

/* ---- runs whose ranks can be looked into-------------------------------------------------------------------------- */

enum { OBSERVED_STEPS = 512, OBSERVED_RANKS = 12 };

typedef struct observed {
  ronde_status status;
  int world;
  int64_t n_steps, n_epochs, examples;
  double loss[OBSERVED_STEPS], lr[OBSERVED_STEPS], train_loss, test_loss;
  char sha256[OBSERVED_RANKS][RONDE__SHA256_HEX]; /* weights of each rank; of all, where they have stages */
  float *weights; /* [n_weights] of rank 0, or of its replica's stages, logical order; free() */
  float *buffers; /* [n_buffers] behind them: running statistics of rank 0 */
  size_t n_weights, n_buffers;
} observed;

/* Looks at the ranks of a run that has succeeded, before they go. */
extern void (*observe_also)(ronde__run *run);

/* Makes the transports of all ranks. */
extern ronde_status (*observe_on)(int n_ranks, ronde__transport **transports_out);

/* Trains, as ronde_train does but for its files, and looks at the ranks before they go. tamper (may be NULL) changes
 * the job before it starts. */
observed observe(const char *options, const ronde_source *source, ronde_model_fn model,
                 void (*tamper)(ronde__job *job));

/* The strategy of the job before a test has planted its own functions, which call it. */
extern const ronde__strategy *real;

/* For a tamper function: the job's strategy, but with these functions; NULL: its own. The test may change more of it. */
ronde__strategy *plant_strategy(ronde__job *job,
                                ronde_status (*create)(ronde__worker *worker, const ronde__strategy_settings *settings,
                                                       void **state_out),
                                ronde_status (*step)(void *state, const ronde__step *step,
                                                     ronde__step_result *result_out));

/* Ranks in virtual time over these links, for observe_on. */
extern ronde__sim_options virtual_links;
ronde_status make_virtual(int n_ranks, ronde__transport **transports_out);
/* Decides what a lost rank leads to, asked for on_loss, as in a job that is simulated from the start. */
void set_up_virtual_losses(ronde__job *job, int on_loss);
/* Links of which each has a latency up to 0.1 ms and a rate of its own, drawn from a seed (user: uint64_t). */
ronde__link_class links_by_lot(const void *user, int from, int to);

/* A problem of few examples: a network that the options name, with their data, or a model on small ones. */
typedef struct small_problem {
  const char *name, *options;
  ronde_model_fn model; /* NULL: options name a built-in one, and its data */
  bool values;
  int n_train, n_test;
} small_problem;
/* Trains it, with further options. */
observed observe_small(const small_problem *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

bool replicas_equal(const observed *o);

bool bits_equal(const observed *a, const observed *b);

/* The largest difference of two runs' weights, against the largest change since the fresh weights. */
double update_difference(const observed *a, const observed *b, const observed *fresh);

#endif

/* Checkpoints: the whole state of a run after an update, so that a run that goes on from one ends with the same bits as
 * one that was never stopped.
 *
 * One is a safetensors file, checkpoints/step-N.safetensors in the run's folder, whole or absent. It holds
 *   tensors   parameters, and buffers of rank 0, by their names in the state_dict and in logical order, so that any
 *             number of workers and any layout can read them; the optimizer's state as ronde.STATE.PARAMETER; checksums
 *   notes     what a file of weights says of itself, so that --init, eval, predict and export take it; and
 *             ronde.checkpoint, JSON: {schema, place{}, data{}, given{}, config{}, choices{}, world{}, and
 *             strategy{}, the strategy's own}
 * Random state needs no saving: order, augmentation and dropout are functions of seed and progress.
 *
 * What a strategy keeps beside the optimizer's state is more such tensors, which rank 0 has gathered, and its note.
 *
 * Room: where the state does not fit in one place, N becomes a folder step-N/ of such files, one a
 * rank, with a manifest.json of their checksums that is renamed into place last, and which alone makes the
 * checkpoint exist. */
#ifndef RONDE_CHECKPOINT_H
#define RONDE_CHECKPOINT_H

#include "job/evaluate.h"
#include "record/record.h"
#include "state/weights.h"
#include <jansson.h>
#include <math.h>

#define RONDE__CHECKPOINT_SCHEMA "ronde.checkpoint.v1"
#define RONDE__CHECKPOINT_NOTE RONDE__RESERVED "checkpoint"
#define RONDE__CHECKPOINT_FOLDER "checkpoints"
/* Weights alone, in a run's folder. */
#define RONDE__BEST_NAME "best.safetensors"
#define RONDE__LAST_NAME "last.safetensors"

/* Sums over the steps of an epoch, of all ranks. */
typedef struct ronde__sums {
  int64_t steps, examples, n_correct;
  double loss_sum;
} ronde__sums;

/* The best test so far. */
typedef struct ronde__best {
  double value; /* ronde__score_value; -Inf: there was none */
  int64_t epoch, step;
  ronde__score score;
} ronde__best;

/* How far a run has come: all that is not weights or optimizer. */
typedef struct ronde__progress {
  int64_t step;     /* updates done, */
  int64_t skipped;  /* and of these left out: see --skip-bad-steps */
  bool closed;      /* the epoch's end after this step is done: tested and reported */
  ronde__sums sums; /* of the epoch of this step */
  ronde__best best;
  ronde__plateau plateau; /* its tests that brought nothing */
} ronde__progress;

/* Of a run that has not begun. */
static inline ronde__progress ronde__progress_none(void) {
  return (ronde__progress){.best.value = -INFINITY, .plateau.best = -INFINITY};
}

/* Whether training is over there, the last test included: the steps are made, --target-accuracy is reached, or
 * --patience is at its end. */
bool ronde__progress_is_over(const ronde__progress *progress, const ronde__job *job);
/* Whether so many tests brought nothing that --patience ends it. */
bool ronde__progress_gave_up(const ronde__progress *progress, const ronde__job *job);
/* The epoch of the next step; or that of the last one, whose end was not reached, or is all that is left to do. */
int64_t ronde__progress_epoch(const ronde__progress *progress, const ronde__job *job);

/* What a checkpoint is of, beside the progress. arrays: the optimizer's, then the strategy's (strategy.h). */
typedef struct ronde__state {
  ronde__net *net;
  ronde__optim *optim;
  ronde__state_array *arrays; /* [n_arrays] */
  int n_arrays;
  const void *strategy_state; /* for its note */
  ronde__parts *parts;        /* of a network that ranks have in parts; NULL: it is the net's */
} ronde__state;

/* ---- writing: checkpoint.c ---------------------------------------------------------------------------------------
 * Rank 0's. A save copies the state (the only part that the training waits for) and is written by a thread of its own,
 * with the lowest priority; one at a time. */
typedef struct ronde__saver ronde__saver;

/* job and what state points at must outlive it. Makes the folder; RONDE_E_WRITE where it cannot be written. With parts
 * nothing is copied: saves are by ronde__saver_now alone, while the others serve. */
ronde_status ronde__saver_create(const ronde__job *job, ronde__time *time, const ronde__state *state,
                                 ronde__saver **saver_out);
/* Waits for the save under way. NULL: nothing. */
void ronde__saver_destroy(ronde__saver *saver);
/* Whether a save is due after this step by --checkpoint-every, and none is under way. */
bool ronde__saver_due(ronde__saver *saver, int64_t step);
/* Begins a save. An error is that of an earlier one. */
ronde_status ronde__saver_begin(ronde__saver *saver, const ronde__progress *progress);
/* Saves on the calling thread, unless this progress is saved already. hurried: an older state that is being written is given
 * up for it; else it is waited for. */
ronde_status ronde__saver_now(ronde__saver *saver, const ronde__progress *progress, bool hurried);

/* What was written so far. */
ronde__record_checkpoints ronde__saver_written(ronde__saver *saver);

/* ---- reading: resume.c ------------------------------------------------------------------------------------------ */

/* A checkpoint that verified. */
typedef struct ronde__resume {
  char *path, *folder; /* the file; the run's folder, NULL for a file by itself */
  ronde__safetensors *file;
  void *header; /* of a file that rank 0 has: `file` is this, without the data of tensors. NULL: it is here */
  json_t *json; /* of its note */
  ronde__progress progress;
} ronde__resume;

/* FOLDER/checkpoints/step-N.safetensors, newest first; to be freed, with each text. None is no error. */
ronde_status ronde__checkpoint_list(const char *folder, char ***paths_out, int *n_out);
ronde_status ronde__checkpoint_any(const char *folder, bool *any_out);
/* The newest checkpoint of a run's folder that verifies, older ones with a warning; or that file, which may be one of
 * weights alone. Its note is not read. */
ronde_status ronde__checkpoint_open(const char *path, ronde__resume **resume_out);
/* The same, to go on from. */
ronde_status ronde__resume_open(const char *path, ronde__resume **resume_out);
/* For fuzzing and tests: the same on memory, which is borrowed, without checksums; `name` stands for the path. */
ronde_status ronde__resume_parse(const char *name, const void *data, size_t bytes, ronde__resume **resume_out);
/* The one that rank 0 has opened: takes over header, also where it fails. folder: "" for none. */
ronde_status ronde__resume_follow(const char *path, const char *folder, void *header, size_t header_bytes,
                                  uint64_t file_bytes, ronde__resume **resume_out);
/* The one that --resume of a training names; NULL where there is none: it starts anew. */
ronde_status ronde__resume_find(const ronde_config *config, ronde__resume **resume_out);
void ronde__resume_close(ronde__resume *resume); /* NULL is taken */
/* Options that the user left open are the run's, but for what cannot be, or can have no effect, with another number of
 * workers or strategy. n_ranks: that MPI has started; 0: nobody has counted them yet. RONDE_E_USAGE, naming both, where
 * the user gave another model. */
ronde_status ronde__resume_options(const ronde__resume *resume, ronde_config *config, int n_ranks);
/* The collective that --collective auto had chosen in the run, where it was one of the same workers and strategy; else
 * NULL. */
const char *ronde__resume_collective(const ronde__resume *resume, int n_workers, const char *strategy);
/* Once options and data are resolved: RONDE_E_USAGE names an option that may not change, and both values; RONDE_E_INPUT
 * other data. */
ronde_status ronde__resume_check(const ronde__resume *resume, const ronde__job *job);
/* Weights, buffers and arrays of one rank; where rank 0 has the file, only what the header tells. */
ronde_status ronde__resume_load(const ronde__resume *resume, const ronde__state *state);
/* What the strategy noted, or NULL. */
const json_t *ronde__resume_note(const ronde__resume *resume);

/* weights_export.c: the weights of a file alone, as ronde__weights_save writes them. The counts may be NULL. */
ronde_status ronde__weights_export(const ronde__safetensors *file, const char *path, int *n_tensors_out,
                                   int64_t *elems_out);

#endif

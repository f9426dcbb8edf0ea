/* The record of a run: run.json (schema ronde.run.v1) and steps.jsonl. The trainer fills plain structs, which become
 * JSON here. A text that is NULL or "", a count < 0 and a NAN mean 'not measured' and are written as null. Times are
 * in seconds unless named otherwise. */
#ifndef RONDE_RECORD_H
#define RONDE_RECORD_H

#include "prof/energy.h"
#include "prof/prof.h"
#include "strategy/strategy.h"
#include <jansson.h>

typedef struct ronde__record_model {
  const char *name, *padding;
  const char *new_head; /* the output layer that was not taken from --init */
  int64_t parameters, trained_parameters;
  int64_t forward_flops_per_example, train_flops_per_example, executed_flops_per_example;
  const char *init_file; /* that --init stood for */
  const char *sha256;    /* of the file that --model named */
} ronde__record_model;

typedef struct ronde__record_data {
  const char *name, *sha256;
  int64_t train_examples, test_examples;
  int rank; /* of one example */
  int64_t dims[RONDE_MAX_RANK];
  int64_t classes; /* 0: the targets are values; written as null */
  int64_t skipped_images;
  const char *tested_on;       /* "test", "validation", NULL: nothing */
  int64_t validation_examples; /* kept out of the training examples, or a folder's val/ */
} ronde__record_data;

typedef struct ronde__record_world {
  int workers, servers, threads_per_worker;
  const char *transport, *strategy;
  bool
      simulated; /* times are of a simulated cluster; this process's own memory, CPU time and energy say nothing of it */
  bool replayed; /* and computation was not executed: there are no losses and weights */
} ronde__record_world;

/* A choice that affects rounding: "gemm", "xsmm"; --choices takes it back (choices.c). */
typedef struct ronde__record_choice {
  const char *choice, *value, *reason; /* reason: may be NULL */
  json_t *candidates;                  /* what was measured, the caller's; NULL: nothing */
} ronde__record_choice;

/* Times are the means over the workers. phase_s holds every phase of the ledger; wall_s is the time without
 * RONDE__PHASE_EVAL and RONDE__PHASE_CHECKPOINT, so that the others add up to it. An epoch that was broken off has a
 * row too. */
typedef struct ronde__record_epoch {
  int64_t epoch, steps, examples;
  double wall_s, cpu_s; /* cpu_s: of the whole process, all workers */
  double phase_s[RONDE__N_PHASES];
  double train_loss, train_accuracy, test_loss, test_accuracy;
  double lr;                 /* of the last step */
  int64_t left_out_examples; /* of parts of its steps that came too late: see --backup */
} ronde__record_epoch;

/* The whole training of one worker; wall_s as in an epoch. */
typedef struct ronde__record_worker {
  int rank;
  const char *role; /* "worker", "server", ... */
  int64_t examples;
  double wall_s, phase_s[RONDE__N_PHASES];
  int64_t peak_rss_bytes;              /* < 0 where workers share a process */
  int64_t needed_bytes;                /* memory, as foreseen in front of the run; < 0 of members that are no workers */
  int64_t optimizer_bytes;             /* of the state that it holds; < 0 where others do */
  const char *host;                    /* NULL: this one */
  const ronde__straggler_row *late;    /* NULL: nobody waits for it */
  int64_t dropped_parts, missed_parts; /* that it made too late, and not at all */
} ronde__record_worker;

typedef struct ronde__record_communication {
  int64_t bytes_sent, bytes_received, messages; /* of all workers */
  json_t *of_strategy; /* what the strategy adds, in place of nulls; owned by the record once set */
} ronde__record_communication;

/* The best test, and when --target-accuracy was reached: after how many seconds of training (as the epochs' wall_s), and
 * since the first step, tests included. */
typedef struct ronde__record_best {
  int64_t epoch, step; /* epoch 0: there was no test */
  double test_loss, test_accuracy;
  const char *file; /* within --out; NULL: not kept */
} ronde__record_best;

typedef struct ronde__record_target {
  double accuracy; /* 0: none was asked for */
  bool reached;
  int64_t epoch, step;
  double train_s, wall_s;
} ronde__record_target;

/* --patience. */
typedef struct ronde__record_early_stop {
  int64_t patience; /* 0: none was asked for */
  bool stopped;
  int64_t epoch, step;
} ronde__record_early_stop;

/* Where a resumed run started. */
typedef struct ronde__record_resumed {
  const char *file; /* NULL: it did not */
  int64_t step;
} ronde__record_resumed;

/* Checkpoints that were written. */
typedef struct ronde__record_checkpoints {
  int64_t written, last_step, bytes; /* bytes: of the state, once */
  double copy_s, write_s;            /* of all: what training waited for; what the writer took beside it */
} ronde__record_checkpoints;

/* A worker that was lost. */
typedef struct ronde__record_loss {
  int rank;
  const char *host;
  int64_t step;        /* the last that it was known to have begun; 0: none */
  int64_t behind_step; /* behind which the others went on; -1: each of them at its own */
  double after_s;      /* from the run's first step to the loss, */
  double ago_s;        /* and since then; NAN: in virtual time */
} ronde__record_loss;

/* A run. Begin clears it and notes the time. Then fill in what is known; texts are borrowed until _end. */
typedef struct ronde__record {
  ronde_status status; /* OK: completed, E_CANCELLED: interrupted, else failed */
  const char *isa;
  ronde__record_model model;
  ronde__record_data data;
  json_t *config; /* ronde__config_json's; owned by the record once set */
  const ronde__record_choice *choices;
  int n_choices;
  ronde__record_world world;
  double setup_s;              /* until the first step */
  ronde__record_epoch *epochs; /* [n_epochs], by ronde__record_add_epoch */
  int n_epochs;
  const ronde__record_worker *workers;
  int n_workers;
  ronde__prof_op *ops; /* [n_ops], by ronde__record_add_ops */
  int n_ops;
  ronde__record_communication communication;
  ronde__record_resumed resumed;
  const char *restarts;             /* a JSON array; NULL: there were none */
  const ronde__record_loss *losses; /* [n_losses]: without whom the others have gone on */
  int n_losses;
  ronde__record_checkpoints checkpoints;
  double wall_s, cpu_s; /* of the run, set-up and evaluation included */
  int64_t peak_rss_bytes;
  int64_t skipped_steps; /* among the steps: their updates were left out */
  ronde__energy energy;  /* begun by ronde__record_begin; the trainer updates it at times (once an epoch, and about once
                           a minute) */
  const char *weights_sha256, *state_sha256;
  ronde__record_best best;
  ronde__record_target target;
  ronde__record_early_stop early_stop;
  char started_at[32]; /* ISO 8601, UTC */
} ronde__record;

void ronde__record_begin(ronde__record *record);
void ronde__record_end(ronde__record *record);
ronde_status ronde__record_add_epoch(ronde__record *record, const ronde__record_epoch *epoch);
/* Adds a worker's per-op table: rows of equal op, phase and implementation are summed over the workers. The names are
 * copied by reference: the worker's prof must outlive the record. */
ronde_status ronde__record_add_ops(ronde__record *record, const ronde__prof_op *ops, int n_ops);
/* run.json as text, owned by the caller (free). Totals (steps, examples, rate) are sums of the epochs' rows, the
 * result's losses and accuracy are those of the last row. The rate is examples over the epochs' wall_s. */
ronde_status ronde__record_json(const ronde__record *record, char **json_out);
/* The text as FOLDER/run.json, whole or absent. */
ronde_status ronde__record_write(const char *folder, const char *json);

/* ---- epochs.csv: a row an epoch, by RFC 4180 (epochs.c) --------------------------------------------------------- */

/* Of FOLDER/epochs.csv, the rows of epochs before `first` stay; with first 1 there will be no file. RONDE_E_WRITE. */
ronde_status ronde__epochs_cut(const char *folder, int64_t first);
/* Adds a row, to a file that this begins where there is none. last_step: of the run's. RONDE_E_WRITE. */
ronde_status ronde__epochs_add(const char *folder, const ronde__record_epoch *epoch, int64_t last_step);

/* ---- steps.jsonl: one line a step ------------------------------------------------------------------------------
 * One thread writes. The first error is logged once and kept: later calls return it. */
typedef struct ronde__steps ronde__steps;

typedef struct ronde__steps_line {
  int64_t step, epoch, examples;
  double loss, lr, wall_s;         /* wall_s: of this step */
  const ronde__rank_set *left_out; /* ranks whose parts came too late; NULL: not written */
  int n_evaluations;               /* gradients of these examples; 0: not written */
} ronde__steps_line;

/* Makes the folder where it is missing and starts FOLDER/steps.jsonl anew; with kept > 0 it goes on behind the lines of
 * steps 1 to kept, each of which stands there once, and what is too many is cut off at once. Removes run.json and
 * trace.json of an older run there, which would not belong to these steps. To be called before training: RONDE_E_WRITE
 * where the folder cannot be written. */
ronde_status ronde__steps_open(const char *folder, int64_t kept, ronde__steps **steps_out);
/* Buffered; goes to the file about once a second. */
ronde_status ronde__steps_add(ronde__steps *steps, const ronde__steps_line *line);
/* To the file now: the end of the process loses nothing of what was added before. */
ronde_status ronde__steps_flush(ronde__steps *steps);
/* Writes what is left and closes; frees in any case. NULL: nothing. */
ronde_status ronde__steps_close(ronde__steps *steps);

#endif

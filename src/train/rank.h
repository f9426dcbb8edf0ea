/* One rank's training: set-up, steps, evaluation at the end of each epoch. The same code on every rank; rank 0 also
 * reports. */
#ifndef RONDE_RANK_H
#define RONDE_RANK_H

#include "base/disk.h"
#include "prof/trace.h"
#include "strategy/neighbours.h"
#include "strategy/strategy.h"
#include "state/checkpoint.h"

/* What all ranks learn from each other at the end of an epoch. */
typedef struct ronde__epoch_result {
  uint64_t ns[RONDE__N_PHASES];
  ronde__score score;      /* of its share of the test examples */
  int64_t examples;        /* that it trained on */
  int64_t dropped, missed; /* steps whose part it made too late, or not at all */
  ronde__sums sums;        /* asynchronous: of its own steps */
  int64_t end;             /* asynchronous: the status that its steps ended with */
  int64_t here;            /* false: the worker is lost, and the rest is zeros */
} ronde__epoch_result;

typedef struct ronde__epoch {
  int64_t epoch, steps, examples; /* done here */
  int64_t left_out;               /* examples of these steps that came too late: see ronde__step_result */
  int64_t last_step;              /* of the run's */
  ronde__sums sums;               /* of the whole epoch, with what was done before a resume */
  double lr;
  bool has_score;
  ronde__score score;                 /* over all ranks */
  bool is_best;                       /* the best score so far */
  bool reached;                       /* what --target-accuracy asks for */
  bool gave_up;                       /* --patience is at its end */
  const ronde__epoch_result *results; /* [workers] */
} ronde__epoch;

/* What has been done of an epoch, behind a step: to be returned to where a step, or the epoch's end, is made again. */
typedef struct ronde__tally {
  int64_t step;
  ronde__epoch epoch;
  ronde__epoch_result own;             /* of this rank: examples, dropped, missed */
  uint64_t before_ns[RONDE__N_PHASES]; /* the ledger when the epoch began here */
} ronde__tally;

/* The workers that make steps together, where those that are left after a loss go on (regroup.c). */
typedef struct ronde__world {
  int number; /* from 1; 0: the workers are the run's, whatever happens */
  int n;
  int *members;   /* [workers]: n of them, ascending; the first is rank 0 */
  int *host_of;   /* [workers]: of the members */
  bool *awaited;  /* [workers]: all members but this one */
  int64_t *since; /* [workers]: of those that are lost, behind which step the others went on */
  int64_t step;   /* behind which it was made */
  int64_t
      whole; /* between two worlds: the step whose whole state the rank has, whatever the strategy still has; -1: none */
  ronde__view view;
} ronde__world;

typedef struct ronde__step_report {
  int64_t step, epoch, examples;
  double loss, lr;
  uint64_t ns;                     /* of this step */
  const ronde__rank_set *left_out; /* see ronde__step_result, */
  int n_evaluations;               /* both */
} ronde__step_report;

/* Rank 0's ears; each may be NULL on the other ranks. An error ends the run. */
typedef struct ronde__reporter {
  void *user;
  ronde_status (*step)(void *user, const ronde__step_report *report);
  ronde_status (*epoch)(void *user, const ronde__epoch *epoch);
  ronde_status (*saving)(void *user); /* a checkpoint is about to be written: what was told so far must outlive it */
  bool (*cancel)(void *user);
} ronde__reporter;

/* What a rank tells of itself at the end. */
typedef struct ronde__rank_facts {
  char host[64];
  int64_t peak_rss_bytes;  /* of its process; -1: ranks share one */
  int64_t optimizer_bytes; /* of the state that its worker holds; -1: members that are no workers do */
  uint64_t cpu_ns;         /* of its process; 0 where another rank tells it */
  uint64_t bytes_sent, bytes_received, messages;
  int64_t n_ops;
  uint64_t service_ns[RONDE__MAX_BESIDE][RONDE__N_PHASES]; /* of what it does besides; zeros: nothing */
} ronde__rank_facts;

/* What a forward pass changes besides its results, as it was behind a step: running statistics. */
typedef struct ronde__kept {
  int64_t step;
  float *buffers;
  int64_t *counts;
} ronde__kept;

typedef struct ronde__rank {
  const ronde__job *job;
  ronde__transport *group;     /* all ranks */
  ronde__transport *transport; /* the workers among them; the group's on a rank that only serves */
  ronde__view workers;
  int stage, replica;                /* of the network, and of the whole of it */
  ronde__transport *replicas;        /* the workers that have the same stage: all, where it is not cut */
  ronde__view same_stage;            /* else this, */
  int *same_ranks;                   /* of these */
  ronde__neighbour_ranks neighbours; /* in the replica */
  ronde__peer_ranks peers;           /* where layers are split */
  ronde__world world;
  const ronde__reporter *reporter; /* rank 0 */
  int64_t max_steps;               /* 0: as the job says; else stop there (--dry-run) */
  ronde__pool *pool;
  ronde__prof *prof;
  ronde_graph *graph;
  ronde__net *net;
  ronde__optim *optim;
  ronde__state state;
  ronde__loader *loader;
  ronde__epoch_ids ids;      /* of this epoch's examples, where their labels must be counted */
  ronde__recorder *recorder; /* rank 0, with --record-spans */
  ronde__worker worker;
  ronde__strategy_settings settings;
  char collective_reason[96];
  ronde__straggler *straggler; /* rank 0 of workers that all wait for the last, else NULL */
  void *strategy_state;
  ronde__service services[RONDE__MAX_BESIDE];             /* of this rank, */
  ronde__comm_thread *service_threads[RONDE__MAX_BESIDE]; /* where it is a worker too */
  ronde__epoch_result *results, *heard;                   /* [workers]; heard: in the order of those that meet */
  int n_there, place; /* workers that were at the last meeting, and how many of them come before this one */
  int share,
      n_shares; /* of the batches of this epoch, which part is this worker's: of those that were there before it */
  ronde__tally now, then; /* then: before the last step, or before the epoch began */
  int64_t reported_step;  /* the last that was told */
  uint64_t late_ns;       /* by which the present step begins later */
  double *partials;       /* of the worker */
  ronde__progress progress;
  /* Where the run could go on from after a loss: behind the last step whose state the strategy may recover, before its
   * epoch's end (where workers regroup, behind that), and behind the one before that. */
  ronde__progress behind[2];
  /* In front of the last step, and of an earlier one, where steps may be left out, or given up when a rank is lost. */
  ronde__kept kept[2];
  ronde__saver *saver;      /* rank 0, where there is an --out; else NULL */
  ronde__rank_facts *facts; /* [ranks], once gathered; else NULL */
  void *strategy_facts;     /* the same of the strategy's */
  ronde__prof_op *ops;      /* rank 0, once gathered: the rows of all ranks, [n_ops] */
  void *op_rows;            /* their texts */
  int n_ops;
  ronde__clock_reading *clocks; /* rank 0, where processes are traced: [workers][2], against its own; else NULL */
  ronde__disk *disk;            /* rank 0, where --drill plants faults of it; else NULL */
  int64_t drilled_step;         /* the present one; 0 once its faults have struck */
  bool traced;                  /* and their trace is written */
  bool met;                     /* asynchronous: in this epoch, and found that it is over */
  bool agreed;                  /* it ended by what all ranks know: nobody waits for it */
} ronde__rank;

/* rank_setup.c: everything up to the first step, */
ronde_status ronde__rank_set_up(ronde__rank *rank);
/* rank_state.c: of it, what belongs to the state, and where the run goes on from a checkpoint, that state: each worker reads it, or gets it from rank 0
 * where they are processes; servers get theirs from rank 0 anyway; */
ronde_status ronde__rank_list_state(ronde__rank *rank);
ronde_status ronde__rank_take_state(ronde__rank *rank);
void ronde__rank_drop_state(ronde__rank *rank);
/* A rank is lost, and the run is to start again (--on-loss restart; continue, where nobody can go on without that rank): tells the hooks how far this rank has come, and saves
 * the newest state that it has whole, unless another on the host of --out does so. Errors are logged: an older checkpoint
 * is gone on from. */
void ronde__rank_recover(ronde__rank *rank);
/* Running statistics in front of a step, and back to these; or to those behind a step, where one was begun since. */
void ronde__rank_keep_buffers(ronde__rank *rank);
void ronde__rank_restore_buffers(ronde__rank *rank);
void ronde__rank_return_to(ronde__rank *rank, int64_t step);
/* How far the run had come behind a step; NULL: that is not known any more. */
const ronde__progress *ronde__rank_progress_behind(const ronde__rank *rank, int64_t step);
/* world.c, of strategies that regroup: the first world, of all workers, and one of those that go on behind a step; */
ronde_status ronde__rank_found_world(ronde__rank *rank);
void ronde__rank_make_world(ronde__rank *rank, const ronde__rank_set *members, int64_t step);
/* the workers that make steps together, and of a place among them, its rank among all workers; */
ronde__transport *ronde__rank_world(ronde__rank *rank);
int ronde__rank_at(const ronde__rank *rank, int place);
/* whether that status comes of the loss of a member, so that this rank has to ask what the others do; */
bool ronde__rank_is_halted(ronde__rank *rank, ronde_status status);
/* regroup.c: and asks, as do all that are left: ended_out, where all of them have come to the same end (`ends`). Else they are a new
 * world, and `progress` says from where they go on. */
ronde_status ronde__rank_regroup(ronde__rank *rank, bool ends, bool *ended_out);
void ronde__rank_drop_world(ronde__rank *rank);
/* Where workers hold shards of the optimizer's state: room for the whole arrays, on rank 0 while a checkpoint is taken, and on all that are
 * left after a loss; else nothing. */
ronde_status ronde__rank_make_whole(ronde__rank *rank);
void ronde__rank_drop_whole(ronde__rank *rank);
bool ronde__rank_is_sharded(ronde__rank *rank);
/* The strategy has been created, and the optimizer has given the whole ones back. */
void ronde__rank_forget_whole(ronde__rank *rank);
/* rank_stage.c: a rank's part of the job's network and of its examples, with its transport known; */
ronde_status ronde__rank_find_stage(ronde__rank *rank);
ronde__stage ronde__rank_stage(ronde__rank *rank);
/* whether it reads examples, or their numbers alone; whether the loss is here; */
bool ronde__rank_reads(const ronde__rank *rank);
bool ronde__rank_judges(const ronde__rank *rank);
/* with the net: how it tells rank 0 its part of the state. */
ronde_status ronde__rank_make_parts(ronde__rank *rank);
/* Rank 0 reads the state of all and does something with it, while the others serve; all call together. take returns
 * before anything is asked where the state is whole. */
ronde_status ronde__rank_tell_parts(ronde__rank *rank, ronde_status (*take)(void *user), void *user);
/* The first parameter, by its index in the graph, that has NaN or Inf; -1: none. All workers call together. */
ronde_status ronde__rank_broken_parameter(const ronde__rank *rank, int *param_out);
/* all of a rank that only serves, */
ronde_status ronde__rank_serve(ronde__rank *rank);
/* and the end. */
void ronde__rank_tear_down(ronde__rank *rank);
/* The steps. A cancellation or broken numbers end all ranks alike (`agreed`); after an error of one rank alone its
 * transport must be aborted. */
ronde_status ronde__rank_train(ronde__rank *rank);
/* After an end that all agree on: nobody pushes or serves any more. */
ronde_status ronde__rank_finish(ronde__rank *rank);
/* meet.c: the workers that are left tell each other their results; all call together. Who is not `here` afterwards, for
 * all alike, is lost, and the others go on. */
ronde_status ronde__rank_meet(ronde__rank *rank);
/* From `here` of the results: how many there are, and this one's place among them. */
void ronde__rank_count_there(ronde__rank *rank);
/* Rank 0 gets an item of `bytes` of each rank that is left, in its place in data, zeros of the others; and tells all
 * that are left something. */
ronde_status ronde__rank_hear_all(ronde__transport *transport, uint32_t tag, void *data, size_t bytes);
ronde_status ronde__rank_tell_all(ronde__transport *transport, uint32_t tag, void *data, size_t bytes);
/* Running statistics are rank 0's, or its replica's: what is evaluated is what is saved. */
ronde_status ronde__rank_share_buffers(ronde__rank *rank);
/* Whether a worker was missing at the last meeting. */
bool ronde__rank_has_lost(const ronde__rank *rank);
/* rank_setup.c: where workers are lost, those that are left share whole batches from this epoch on. */
ronde_status ronde__rank_share_out(ronde__rank *rank, int64_t epoch);
/* The same, from the batch behind `progress` on. */
ronde_status ronde__rank_cut_anew(ronde__rank *rank);
/* What the ranks report at the end, to rank 0 (gather.c); collective, after an end that all agree on. */
ronde_status ronde__rank_gather(ronde__rank *rank);

/* trace.c: where ranks are processes and --trace is given, else nothing; workers call together. In front of the first
 * step, and behind ronde__rank_gather: rank 0 writes the trace of all. */
ronde_status ronde__rank_begin_trace(ronde__rank *rank);
ronde_status ronde__rank_end_trace(ronde__rank *rank);

/* A row of the per-op table on its way. */
typedef struct ronde__gather_row {
  char op[64], implementation[64];
  int64_t phase, calls;
  uint64_t ns;
  double flops;
} ronde__gather_row;
/* rows [ops of the ledger]. */
void ronde__gather_pack(const ronde__prof *prof, ronde__gather_row *rows);
/* What a rank tells of its trace in front of its ops and spans. */
typedef struct ronde__trace_head {
  char host[64];
  int64_t n_spans, n_dropped, n_ops;
  uint64_t first_ns; /* when its first span begins; UINT64_MAX: it has none */
} ronde__trace_head;
enum { RONDE__MAX_OPS = 65536 };
/* What came from other processes, looked at before it is used: RONDE_E_INTERNAL names the rank. ops_out [n] borrows the
 * texts of rows. */
ronde_status ronde__gather_check_facts(const ronde__rank_facts *facts, int n_ranks);
ronde_status ronde__gather_read(const ronde__gather_row *rows, int64_t n, int rank, ronde__prof_op *ops_out);
ronde_status ronde__trace_check_head(const ronde__trace_head *head, int rank);
ronde_status ronde__trace_check_spans(const ronde__trace_head *head, const ronde__span *spans, int n, int rank);

/* sentinel.c: whether all ranks hold the same weights; they call together. RONDE_E_DIFFERENCE on each of them,
 * `agreed`; rank 0 names the first tensor that differs, and the rank. */
ronde_status ronde__sentinel_check(ronde__rank *rank, int64_t step);

/* drill.c: the faults that --drill plants in this step, in front of it; */
void ronde__rank_drill(ronde__rank *rank, int64_t step);
/* and behind it: the lowest bit of a weight flips. */
void ronde__rank_drift(ronde__rank *rank);

#endif

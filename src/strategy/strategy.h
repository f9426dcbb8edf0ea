/* A strategy: how several ranks make one training step. It owns the step, is told by the network when a parameter is
 * about to be needed and when a gradient is ready, and waits only through the transport. One file each; strategies.inc
 * lists them. */
#ifndef RONDE_STRATEGY_H
#define RONDE_STRATEGY_H

#include "comm/collective.h"
#include "config/config.h"
#include "data/data.h"
#include "graph/graph.h"
#include "optim/optim.h"
#include "strategy/peers.h"
#include "strategy/recorder.h"
#include "strategy/straggler.h"
#include "strategy/roles.h"

/* A set of workers. */
enum { RONDE__SET_RANKS = 1024 };
typedef struct ronde__rank_set {
  uint64_t bits[RONDE__SET_RANKS / 64];
} ronde__rank_set;

static inline void ronde__rank_set_add(ronde__rank_set *set, int rank) {
  set->bits[rank / 64] |= (uint64_t)1 << rank % 64;
}
static inline bool ronde__rank_set_has(const ronde__rank_set *set, int rank) {
  return set->bits[rank / 64] >> rank % 64 & 1;
}

/* A flat array over the parameters that train, packed as they are, which belongs to the state of a run. */
typedef struct ronde__state_array {
  const char *name; /* in a checkpoint: ronde.NAME.PARAMETER */
  float *values;    /* [trained] */
} ronde__state_array;

/* Where a rank's examples come from, and who judges its outputs, if not its own loader and loss: a strategy's, which
 * owns it. outputs and loss as in ronde__net_hooks. */
typedef struct ronde__master {
  ronde_status (*next_batch)(void *user, ronde__batch *batch_out); /* valid until the next call; in phase load */
  ronde_status (*loss)(void *user, int64_t n, ronde__net_result *result_out);
  float *outputs;
  void *user;
} ronde__master;

/* What a rank works with, whatever the strategy; lives as long as the run. */
typedef struct ronde__worker {
  ronde__transport *transport; /* of the workers: rank and size */
  /* Those of them that have the same part of the network: all, unless it is cut into stages. */
  ronde__transport *replicas;
  int stage, n_stages; /* 0 of 1: it is whole */
  const ronde__kernels *kernels;
  ronde__pool *pool;
  ronde__prof *prof;
  ronde__net *net;
  ronde__optim *optim;
  ronde__loader *loader; /* NULL on ranks for which rank 0 loads */
  uint64_t seed;         /* of dropout */
  int64_t batch;         /* examples of a global batch, */
  int share, n_shares;   /* and which part of it, of how many, is this worker's */
  const int *members;    /* [transport->size]: which worker of the run each is, where some may be lost; else NULL */
  double clip;           /* 0: off */
  /* Set by a strategy: the parameter is about to be read by a forward pass, which an error ends. NULL: no interest. */
  ronde_status (*param_needed)(void *user, int param);
  void *needed_user;
  const ronde__master *master; /* set by a strategy; NULL: it loads and judges for itself */
  /* Faults that --drill plants: what happens in front of each forward pass, NULL: nothing; and whether this step's
   * gradients become NaN, which are kept then. */
  ronde_status (*before_forward)(void *arg);
  void *before_forward_arg;
  bool corrupts;
  ronde__recorder *recorder; /* --record-spans; NULL: nothing is recorded */
  int update_slot;           /* of the optimizer, in the ledger */
  bool fused_update; /* the net's gradients are transient: each parameter is updated as soon as backward has its own */
  const ronde__peer_ranks *peers; /* where layers of the net are split over the workers; NULL: none is */
  bool fuses_split; /* the gradients of these are transient, whatever the others' are: each is updated at once */
  double *
      partials; /* [size][1 + partial_elems of the net]: what the ranks contribute to a synchronised op; NULL: there is none */
  /* When this rank last knew that all had come, by its own clock; and its ledger at the meeting of the last step. It is
   * the same moment for all, but for what a short message takes to go round: times that are counted from there can be
   * compared, whatever the ranks' clocks say and however they drift. */
  uint64_t met_ns, met_phases_ns[RONDE__N_PHASES];
  ronde__straggler *straggler; /* rank 0, where all wait for the last: who was late; else NULL */
  /* The optimizer's, for gather_state of a strategy that shards it: of rank 0, whole. */
  const ronde__state_array *optim_arrays;
  /* Those that the strategy declares, in its order: zeros, or a checkpoint's; and the note of that, or NULL. */
  const ronde__state_array *arrays;
  const json_t *note;
} ronde__worker;

/* How the user wants ranks to exchange; a strategy reads what it knows. Before the ranks are known there are options
 * alone, and these may be NULL for the defaults. */
typedef struct ronde__strategy_settings {
  const ronde__options *options;      /* of the run: a strategy reads its own */
  ronde__transport *group;            /* all ranks, */
  const ronde__roles *roles;          /* and what each is */
  const ronde__allreduce *collective; /* NULL: one rank alone, or servers take its place */
  int64_t bucket_bytes;
  bool wire_bf16; /* what workers sum travels as bfloat16 */
  bool overlap;
} ronde__strategy_settings;

/* One update: the gradients of n_batches global batches of `examples` examples in all. */
typedef struct ronde__step {
  int64_t step, examples;
  int64_t own_examples; /* of this rank */
  int n_batches;
  float label_weight; /* of each label, where examples have several (graph.h) */
  int n_averaged; /* workers whose weights are averaged: each gradient counts so many times; 0: gradients are summed */
  double lr;
  bool cancel; /* this rank wants to stop: heard by all, in this step */
  bool save;   /* this rank wants a checkpoint behind the step: the same, of a strategy that agrees_to_save */
} ronde__step;

/* Equal on all ranks. */
typedef struct ronde__step_result {
  double loss_sum; /* over the step's examples, before the update */
  int64_t n_correct;
  bool cancelled, saves;
  /* The first rank whose loss or gradients are not finite, or -1. Then no rank has updated; only where updates are
   * fused and a gradient, not the loss, is broken, those parameters have that backward had met before: the weights are
   * no step's, and must not be kept. */
  int broken_rank;
  int broken_param; /* its parameter, or -1: the loss */
  /* With backup workers: whose parts came too late for the step, and how many of its examples they were. Loss and
   * update are of the others. NULL: a step is everybody's. Valid until the next step. */
  const ronde__rank_set *left_out;
  int64_t n_left_out;
  bool missed;       /* this rank is one of them, and has not even made its part: the step had ended before */
  int n_evaluations; /* gradients of the step's examples, where a step may compute several; else 0 */
  bool passing;      /* a step of this worker alone, behind which it has no state that it could recover to */
  /* Where the step itself hands out its examples: how many were this rank's, in place of the step's own_examples. */
  bool hands_out;
  int64_t n_own;
} ronde__step_result;

/* A network that is to be cut into stages, */
typedef struct ronde__cut_request {
  const ronde_graph *graph;
  const ronde__net_options *options;
  int64_t n, n_micro; /* examples of a micro-batch, and how many of these a step has */
  int n_stages, n_replicas;
  int n_states;              /* arrays of the optimizer */
  const ronde__spans *spans; /* of one worker: what layers take; NULL: a model says it */
  /* Whether the memory of a rank suffices for stage `stage` of these nodes; a part of what fits fits too. NULL: always. */
  bool (*fits)(void *user, int stage, int begin, int end);
  void *user;
} ronde__cut_request;

/* and where, arrays of the caller's. */
typedef struct ronde__cut {
  int *nodes;      /* [n_stages + 1]: the first of each, then the number of nodes */
  double *seconds; /* [n_stages]: that each computes in a step */
  double step_s;   /* from the end of a step to the end of the next */
  double bubble_s; /* that a stage waits in it, the mean over the stages */
  bool fits;       /* false: no cut does, and this is the best of the others */
} ronde__cut;

typedef struct ronde__strategy {
  const char *name;
  /* If several rows have the same name, the first one whose variant the settings ask for is taken. NULL: always. */
  bool (*is_meant)(const ronde__strategy_settings *settings);
  /* Of the options that only some strategies understand, those of this one; ends with NULL. */
  const char *const *options;
  /* Refuses settings that are impossible with so many workers. NULL: there are none. */
  ronde_status (*check)(const ronde__strategy_settings *settings, int n_workers);

  /* What holds of it. */
  int min_workers, max_workers; /* max 0: any */
  bool fuses_alone;             /* with one worker, its step is ronde__worker_step */
  bool all_reduces;             /* by the settings' collective */
  bool rereads;                 /* a step takes its batches from the loader more than once */
  bool asynchronous;            /* a step is this rank's alone, and so is its result: of its own_examples */
  bool goes_on;                 /* without workers that are lost, unless a rank is that it cannot do without */
  bool regroups;                /* after a loss, by `recover`: is created anew among the workers that are left */
  bool waits_for_all;           /* a step is everybody's */
  bool equals_one;              /* but for rounding, a step is one worker's on the whole batch */
  const char *optimizer;        /* the only one that its updates are made by, and then the default. NULL: any */
  bool needs_values;            /* losses or outputs decide what a step does: it cannot be replayed (--sim-spans) */
  bool rank_0_loads;            /* for all: the others have no loader, and its own has whole batches */
  bool each_loads_all;          /* every worker has whole batches */
  /* Why batch normalisation cannot be part of the network. NULL: it can. */
  const char *no_batch_norm;
  /* All workers must meet while a checkpoint is written: the option that makes it so, for messages. NULL: rank 0 alone
   * can write one after any step. */
  const char *meets_to_save;
  bool
      agrees_to_save; /* meeting workers hear in a step that one of them wants a checkpoint behind it, so that a clock may say so */
  /* Why a run must not go on from a checkpoint with another number of workers, or under another strategy. NULL: it may.
   * Both strategies are asked. */
  const char *keeps_workers, *keeps_strategy;

  /* Into how many stages the network is cut, which divides the workers: rank i has stage i % stages of replica
   * i / stages, and rank 0 the first. RONDE_E_USAGE where it cannot be. NULL: each worker has all of it. */
  ronde_status (*n_stages)(const ronde__strategy_settings *settings, int n_workers, int *n_out);
  /* With it: how many micro-batches a replica's batch of at most n examples is; where the stages begin, RONDE_E_USAGE
   * where there cannot be so many; and what a stage of so many trained elements has beside its parameters, gradients,
   * optimizer and passes, in bytes. */
  ronde_status (*n_micro)(const ronde__strategy_settings *settings, int n_stages, int64_t n, int64_t *n_out);
  ronde_status (*cut)(const ronde__cut_request *request, ronde__cut *cut_out);
  size_t (*stage_bytes)(const ronde__strategy_settings *settings, int n_replicas, size_t trained);
  /* Which linear layers are split over several workers by output feature, where they share batches of so many examples:
   * split_out [nodes]; and in which turns these go through them. NULL: none, ever. */
  ronde_status (*split)(const ronde__strategy_settings *settings, const ronde_graph *graph, const ronde__ranks *ranks,
                        int64_t batch, bool *split_out, ronde__turn_scheme *turns_out);
  /* How many workers there are where the user says nothing of them. NULL: one. */
  int (*usual_workers)(const ronde__strategy_settings *settings);
  /* Who takes part besides the workers: how many ranks there are behind theirs, and what each is, there or beside a
   * worker. NULL: nobody. */
  int (*extra_ranks)(const ronde__strategy_settings *settings);
  ronde_status (*place)(const ronde__strategy_settings *settings, ronde__roles *roles);
  /* After how many steps what it does repeats, or 0: its first steps differ from those behind. NULL: after each. */
  int64_t (*period)(const ronde__strategy_settings *settings);
  /* Examples of a forward pass at most. NULL: a worker's part of the batch. */
  int64_t (*pass_examples)(const ronde__strategy_settings *settings, int64_t batch, int n_workers);
  /* How many workers' gradients make a step. NULL: all. */
  int (*n_counted)(const ronde__strategy_settings *settings, int n_workers);
  /* Memory of all ranks together beside parameters, gradients and activations of each worker, given the bytes of all
   * gradients and of the optimizer's state for them. NULL: each worker has that state. */
  size_t (*more_bytes)(const ronde__strategy_settings *settings, size_t gradients, size_t optimizer);

  /* The same of what rank 0 alone holds for others, known once it has been created. NULL: nothing. */
  size_t (*master_bytes)(const void *state);

  /* Makes replicas equal (weights of rank 0), unless each step does, and sets up what the steps need. The settings must outlive it. */
  ronde_status (*create)(ronde__worker *worker, const ronde__strategy_settings *settings, void **state_out);
  ronde_status (*step)(void *state, const ronde__step *step, ronde__step_result *result_out);
  void (*destroy)(void *state);
  /* Afterwards the net's parameters are those behind the last step, which may return before. NULL: they always are.
   * All ranks call it behind the same step, or, asynchronous, where they meet. */
  ronde_status (*settle)(void *state);
  /* After an error of a step or between two, by this worker alone: makes parameters, optimizer and arrays those behind the
   * newest step of which it has all, so that they can be saved although others are lost; where it regroups, with nothing under way. That step, which has ended here
   * (not `passing`), the last such one or the one before it; -1: it has none. No step follows but of another state, for
   * which the worker may have another transport (`regroups`). NULL: it never has. */
  int64_t (*recover)(void *state);
  /* Where it regroups, and each worker has a part alone of what belongs to the state. Behind recover the oldest step counts
   * of all that are left: go_back makes the state the one behind that, which is recover's or the one before it. Then they
   * call together, in their new world, whose ranks are workers `members` of the run: the whole of the optimizer's state comes
   * into the worker's optim_arrays. It may be called once more, in another world. NULL: each has the whole, and the newest
   * step counts. */
  void (*go_back)(void *state, int64_t step);
  ronde_status (*hand_over)(void *state, ronde__transport *world, const int *members);
  /* What a worker holds for that alone, given the bytes of all gradients and of the optimizer's state. NULL: nothing. */
  size_t (*recovery_bytes)(const ronde__strategy_settings *settings, size_t gradients, size_t optimizer);
  /* When all ranks have met between two steps, behind settle: makes replicas equal. NULL: they are, once settled. */
  ronde_status (*refresh)(void *state);
  /* With several workers `create` leaves the worker's optimizer the state of a shard alone (ronde__optim_keep), as the last that
   * it does. The whole arrays are there in front of it, on rank 0 while a checkpoint is taken, where gather_state fills them,
   * and on all in hand_over. */
  bool shards_optimizer;
  /* The names of arrays that belong to a run's state beside the optimizer's; ends with NULL. NULL: there are none. */
  const char *const *arrays;
  /* Between two steps, for a checkpoint: brings the optimizer's state and these arrays into those of rank 0's worker.
   * Where workers meet to save all call together, else rank 0 alone. NULL: they are there. */
  ronde_status (*gather_state)(void *state);
  /* Rank 0, behind it: what else belongs to the state, as JSON. NULL: nothing. */
  json_t *(*note)(const void *state);
  /* After the last step, if all ranks end alike: nobody will be waited for. NULL: nothing to do. */
  ronde_status (*finish)(void *state);
  /* What a rank tells rank 0 of itself at the end: facts_bytes, zeros before. state: NULL on a rank without a worker;
   * services [RONDE__MAX_BESIDE]: of the rank. */
  size_t facts_bytes;
  void (*facts)(const void *state, const ronde__service *services, void *facts_out);
  /* The fields that record() may add, which are null where it does not, and with other strategies; ends with NULL. NULL:
   * there are none. */
  const char *const *records;
  /* Rank 0: what it adds to `communication` in run.json, from the facts of all ranks; n_ranks 0: they could not meet.
   * NULL: nothing. */
  void (*record)(const void *state, const void *facts, int n_ranks, json_t *communication);
} ronde__strategy;

/* Options of several strategies: what needs all workers in one step or one state of all of them, */
#define RONDE__OPTIONS_OF_STEPS "sync-bn", "skip-bad-steps", "clip", "sentinel"
/* buckets, and servers. */
#define RONDE__OPTIONS_OF_BUCKETS "bucket-mb", "overlap"
#define RONDE__OPTIONS_OF_SERVERS "servers", "placement"
/* --optimizer lbfgs, a variant of its own of each strategy that has it: lbfgs_steps.h. */
#define RONDE__OPTIONS_OF_LBFGS \
  "lbfgs-history", "lbfgs-iterations", "lbfgs-evaluations", "lbfgs-tolerance-grad", "lbfgs-tolerance-change"

/* Passes that stage `stage` has under way at once, of a step of so many batches in so many micro-batches each. */
static inline int ronde__stage_passes(int n_stages, int stage, int64_t n_micro, int64_t n_batches) {
  return (int)ronde__min(n_stages - stage, n_micro * n_batches);
}
/* Whether batches are read whole, by one rank for all or by each. */
static inline bool ronde__strategy_reads_whole(const ronde__strategy *s) {
  return s->rank_0_loads || s->each_loads_all;
}
/* Whether the option is one of the strategy's, or no matter of strategies at all. */
bool ronde__strategy_understands(const ronde__strategy *strategy, const char *option);
/* The names of those whose option it is: "ps-sync, ps-async". */
void ronde__strategy_names(const char *option, char *text_out, size_t bytes);

/* The i-th row of the table, from 0; NULL past the end. */
const ronde__strategy *ronde__strategy_at(int i);
/* NULL: unknown. */
const ronde__strategy *ronde__strategy_find(const char *name, const ronde__strategy_settings *settings);
/* Where the user names none. */
const ronde__strategy *ronde__strategy_default(int n_workers, const ronde__strategy_settings *settings);

/* ---- shared by strategies (worker.c) -------------------------------------------------------------------------------
 */

/* What one rank found in its part of the batch. */
typedef struct ronde__local_result {
  double loss_sum;
  int64_t n_correct;
  uint64_t ready_ns;                            /* from when the ranks last met until its last gradient was ready */
  uint64_t spent_ns[RONDE__N_STRAGGLER_CAUSES]; /* the same from the last step's meeting, by what it did but wait */
  int32_t cancel, save;
  int32_t broken;  /* 0: all is finite; 1: the loss is not; 2 + i: the gradient of parameter i */
  int32_t n_begun; /* all-reduce: buckets whose turn can no longer be changed */
} ronde__local_result;

/* Loads the step's batches and runs forward and backward of this rank's part: gradients of the step's mean loss in the
 * net (zeros where the rank has no example), and what was found in own_out. The listener is told of each gradient that
 * is final, last layers first, with own_out complete but for what later gradients may show; the ledger is then in phase
 * backward. Where updates are fused, they are done within, and nobody listens. */
ronde_status ronde__worker_gradients(ronde__worker *worker, const ronde__step *step, ronde__gradient_listener listener,
                                     ronde__local_result *own_out);
/* The same of examples that somebody else has loaded. */
ronde_status ronde__worker_gradients_on(ronde__worker *worker, const ronde__step *step, const ronde__net_batch *batch,
                                        ronde__local_result *own_out);
/* The results [n] of all ranks, in the order of ranks, as the step's result. */
ronde__step_result ronde__local_results_join(const ronde__local_result *results, int n);
/* Of an exchange between two times, which the ledger has closed: what the rank waited in it for the last of n to be
 * ready becomes phase wait. met_ns: when they had last met. */
void ronde__local_results_waited(const ronde__local_result *results, int n, ronde__prof *prof, uint64_t met_ns,
                                 uint64_t begin_ns, uint64_t end_ns);
/* All ranks have met, just now: in front of the first step. */
void ronde__worker_start(ronde__worker *worker);
/* All ranks have met at met_ns within the exchange, where this one has learnt everybody's result: accounts for the
 * waiting, and for who was late. */
void ronde__worker_met(ronde__worker *worker, const ronde__local_result *results, uint64_t begin_ns, uint64_t met_ns);
/* Clips and updates all parameters from the net's gradients, in phase update; the phase is other afterwards. */
void ronde__worker_update(ronde__worker *worker, double lr);
/* The same, where the gradient whose norm is clipped is not this rank's alone: sum_squares is of all of it. */
void ronde__worker_update_part(ronde__worker *worker, double lr, double sum_squares);
/* For a strategy with passes of its own: looks at a gradient of the step that is final, and writes it down where it is
 * the first that is broken; and when the rank was ready. */
void ronde__worker_look(ronde__worker *worker, const ronde__gradient *g, ronde__local_result *own);
void ronde__worker_ready(const ronde__worker *worker, ronde__local_result *own);
/* A stretch of an update that was begun, in phase update; the phase is exchange afterwards. */
void ronde__worker_update_range(ronde__worker *worker, ronde__range stretch);
/* The gradients of the step of a rank that is alone, without an update. */
ronde_status ronde__worker_evaluate(ronde__worker *worker, const ronde__step *step, ronde__step_result *result_out);
/* The whole step of a rank that is alone; and the same on a batch of the caller's instead of the loader's. */
ronde_status ronde__worker_step(ronde__worker *worker, const ronde__step *step, ronde__step_result *result_out);
ronde_status ronde__worker_step_on(ronde__worker *worker, const ronde__net_batch *batch, double lr,
                                   ronde__step_result *result_out);

#endif

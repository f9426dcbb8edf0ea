/* What a job is once its options are resolved, shared by its ranks: its network, optimizer, data and world. */
#ifndef RONDE_JOB_H
#define RONDE_JOB_H

#include "comm/mpi.h"
#include "comm/sim_net.h"
#include "config/config.h"
#include "io/safetensors.h"
#include "models/models.h"
#include "onnx/onnx.h"
#include "strategy/strategy.h"

/* What a file of weights calls its classes, in the order of its outputs. */
typedef struct ronde__class_names {
  char **name; /* [n], owned */
  int64_t n;   /* 0: it does not name them */
} ronde__class_names;

/* What --val-split kept out of the training examples, as a file of weights says it. */
typedef struct ronde__split_note {
  double fraction;
  uint64_t seed;
  bool by_class;                 /* each class kept its share */
  int64_t n_train, n_validation; /* n_validation 0: nothing was kept out; n_train: before it was */
  char data_sha256[65];          /* "": not known */
} ronde__split_note;

/* Inputs beside the first one. */
typedef struct ronde__more_inputs {
  int n;
  struct {
    char name[RONDE__INPUT_NAME_BYTES];
    ronde__shape shape;
    int64_t vocabulary; /* 0: it is values */
  } at[RONDE_MAX_INPUTS - 1];
} ronde__more_inputs;

/* Of --choices; "": open. */
typedef struct ronde__choices {
  char strategy[32], collective[32];
} ronde__choices;

/* Faults that --drill plants; setup/drill.c has the syntax and the check of each, train/drill.c what it does. */
typedef enum ronde__drill_kind {
  RONDE__DRILL_LOAD,
  RONDE__DRILL_SLOW,
  RONDE__DRILL_DRIFT,
  RONDE__DRILL_CORRUPT,
  RONDE__DRILL_OOM,
  RONDE__DRILL_KILL,
  RONDE__DRILL_STOP,
  RONDE__DRILL_SLOW_DISK,
  RONDE__DRILL_DISK_FULL,
  RONDE__N_DRILLS
} ronde__drill_kind;

typedef struct ronde__drill {
  bool on;
  int rank;     /* of a worker; -1: every one, or none in particular */
  int64_t step; /* at which, or from which on; 0: all */
  uint64_t ns;  /* how long; 0: no end */
} ronde__drill;

/* Of a network that is cut into stages. */
typedef struct ronde__job_stage {
  int begin, end; /* nodes */
  double seconds; /* that it is taken to compute in a step */
  ronde__stage_size size;
} ronde__job_stage;

/* What a rank needs, in bytes, known before any of it is allocated (memory.c). */
typedef struct ronde__rank_memory {
  int64_t parameters, gradients, optimizer;
  int64_t activations; /* of all passes that are under way at once */
  int64_t loader;      /* batches that are read ahead, and those of tests */
  int64_t exchange;    /* what its strategy has beside these */
  int64_t checkpoint;  /* the copy of the state that is written while training goes on, or after a loss */
} ronde__rank_memory;

/* Read-only after set-up. */
typedef struct ronde__job {
  ronde_config *config; /* own copy, automatic values resolved */
  ronde_config *given;  /* train: as it was before, with what --resume brings */
  const ronde__options *options;
  ronde_hooks hooks;         /* all NULL where none were given */
  const ronde__model *model; /* NULL: hooks.model */
  const char *model_name;
  ronde__onnx *file;       /* that --model names, or NULL; */
  ronde__model file_model; /* `model` then */
  ronde__data *data;
  ronde__sampler *sampler; /* train, and eval of a part of the training examples */
  bool splits_by_class;    /* --val-split: each class keeps its share */
  ronde__shape shape;      /* of one example; where it has several inputs, of the first one */
  int64_t classes;
  int64_t vocabulary;      /* the input is tokens, numbers below it; 0: it is values */
  ronde__more_inputs more; /* inputs beside it */
  int64_t targets;         /* values an example, where there are no classes and the network is built in; else 0 */
  int64_t resize[2];       /* of --resize; 0: none */
  ronde__compute compute;
  const ronde__strategy *strategy; /* NULL with --strategy measured, and nothing else is resolved: measure.h of train */
  const char *strategy_reason;     /* why it, where neither the user nor `auto` named it; else NULL, */
  json_t *strategy_costs;          /* and what was measured, owned; NULL: not known here */
  ronde__choices choices;
  const ronde__allreduce *collective; /* NULL: auto */
  const char *collective_reason;      /* who named it */
  ronde__transport *mpi;              /* of this process's rank; NULL: all ranks are in this process */
  ronde__roles roles;                 /* the ranks, and what each is */
  int n_stages,
      n_replicas;        /* of the network, and of the whole of it: their product are the workers; 1: it is not cut */
  int64_t micro_batches; /* that a replica's batch is */
  bool keeps_turned;     /* as in ronde__net_options: where it helps, and memory suffices */
  ronde__job_stage *stages;   /* [n_stages], owned; NULL: 1 */
  bool *split;                /* [nodes], owned: linear layers that are split over the workers; NULL: none is */
  ronde__turn_scheme turns;   /* in which the examples go through them */
  bool fuses_split;           /* their gradients are used up as soon as they are there */
  double step_s, bubble_s;    /* of its steps, as foreseen; with stages */
  ronde__spans *stage_costs;  /* by which it was cut and foreseen; NULL: by a model */
  ronde__rank_memory *memory; /* train: that each rank needs [ranks], owned */
  ronde__room *rooms;         /* what the system lets each process have; with MPI [ranks], owned */
  int threads;                /* of each worker */
  ronde__sim_net *sim;        /* of a simulated run, else NULL */
  int *sim_host_of;           /* [ranks], with it */
  ronde__spans *spans;        /* that it replays; NULL: computation is executed */
  bool records_order;         /* of asynchronous pushes: for a test that replays them */
  int64_t batch, local_batch; /* global, and the largest that a rank has at once */
  int64_t batches_per_epoch, steps_per_epoch, steps; /* steps: updates in all */
  ronde__schedule schedule;
  ronde__optim_options optim;
  char *best_path;   /* where the weights of the best test go, or NULL */
  bool fused_update; /* each parameter is updated as soon as its gradient is there: nothing needs the gradients whole */
  bool *may_lose;    /* train: [ranks], owned: whose loss does not end the run. NULL: everybody's does */
  bool regroups;     /* with it: no step can be made without them, but those that are left make a world of their own */
  ronde__drill drills[RONDE__N_DRILLS];
  ronde__safetensors *init;          /* --init, or NULL */
  char *init_path;                   /* the file that was taken for it, or NULL */
  char *new_head;                    /* the output layer that is not taken from it, or NULL */
  struct ronde__resume *resume;      /* --resume, or NULL: checkpoint.h */
  const ronde__safetensors *weights; /* of --resume or --init, or NULL; */
  const char *weights_path;          /* its name, */
  ronde__class_names class_names;    /* and those of its classes */
  ronde__split_note kept_out;        /* of their run; */
  bool other_classes;                /* the data's are not these: the output layer is new */
  bool by_index;                     /* only one of weights and data has names for its classes */
  int64_t checkpoint_steps;          /* between two checkpoints; 0: see checkpoint_ns */
  uint64_t checkpoint_ns;            /* 0: none but at an interruption */
} ronde__job;

/* What --timeout says. */
static inline uint64_t ronde__lost_after_ns(const ronde_config *config) {
  return (uint64_t)ronde__config_options(config)->timeout * 1000000000u;
}
/* What the transport of ranks that are processes is to know of the options, which it borrows. */
static inline ronde__mpi_options ronde__mpi_options_of(const ronde_config *config) {
  const ronde__options *o = ronde__config_options(config);
  return (ronde__mpi_options){
      .timeout_ns = ronde__lost_after_ns(config), .lost_after_ns = (uint64_t)(o->lost_after * 1e9), .iface = o->iface};
}
/* Whether the fault is planted on this worker. */
static inline bool ronde__job_drills(const ronde__job *job, ronde__drill_kind kind, int rank) {
  const ronde__drill *drill = &job->drills[kind];
  return drill->on && (drill->rank < 0 || drill->rank == rank);
}
/* The data as the user named them, or a caller's source by its name. */
static inline const char *ronde__job_data_name(const ronde__job *job) {
  return job->options->data ? job->options->data : job->data->source.name;
}

/* network.c: the graph of the job's model for its input and classes, checked against the data's targets where there are
 * data. */
ronde_status ronde__job_graph(const ronde__job *job, ronde_graph **graph_out);
/* A job that has what defines the network and says how it is executed, and nothing else, so that it may outlive the other:
 * for ronde__job_graph and ronde__job_net_options. */
ronde_status ronde__job_copy_network(const ronde__job *job, ronde__job **copy_out);
void ronde__job_destroy_network(ronde__job *copy); /* NULL is taken */
/* Of what works on the flat arrays: none where nothing is executed. */
const ronde__kernels *ronde__job_flat_kernels(const ronde__job *job);
/* How long the update of an element takes in a replayed run; 0: it is executed, or takes no time. */
double ronde__job_element_ns(const ronde__job *job);
/* How the job wants a net of that graph executed; the job must outlive it. */
ronde__net_options ronde__job_net_options(const ronde__job *job, ronde__pool *pool, ronde__prof *prof, bool training);
/* Of the job's stage s: passes that are under way at once. */
static inline int ronde__job_passes(const ronde__job *job, int s) {
  return ronde__stage_passes(job->n_stages, s, job->micro_batches, job->options->accumulate);
}
/* Whether the stage has the loss; whether it reads examples, or their numbers alone. */
bool ronde__job_stage_judges(const ronde__job *job, const ronde_graph *graph, int stage);
bool ronde__job_stage_reads(const ronde__job *job, const ronde_graph *graph, int stage);
/* How the batches of a rank are loaded that reads, or counts them alone; without time and place. */
ronde__loader_options ronde__job_loader(const ronde__job *job, bool reads, int replica);
/* memory.c: what a worker needs for a network, or a stage of one, of that size, with so many passes under way, without
 * what the strategy of a whole network adds; reads: examples, not their numbers alone. */
ronde__rank_memory ronde__stage_memory(const ronde__job *job, const ronde__stage_size *size, int n_passes, bool reads);
/* Of each rank, memory_out [ranks], for a job whose batches and stages are known. */
ronde_status ronde__job_memory(const ronde__job *job, const ronde_graph *graph, ronde__rank_memory *memory_out);
int64_t ronde__rank_memory_sum(const ronde__rank_memory *memory);
/* What a process takes in the course of a run for code, generated kernels, buffers of MPI, threads and records: 12 to 18
 * MB where it was measured, as the peak of `train --model mlp:16`, or of a ResNet, beyond what is known of it. */
enum { RONDE__PROGRAM_BYTES = 13 << 20 };
/* A rank's share of what its process takes beside the network; and all that a rank needs. */
int64_t ronde__memory_of_program(const ronde__job *job, int rank);
int64_t ronde__memory_needed(const ronde__job *job, int rank);
/* The job's optimizer for the parameters of a net, which must outlive it. */
ronde_status ronde__job_optim(const ronde__job *job, const ronde__net *net, ronde__optim **optim_out);
/* The file's network as a model: by its name, with its classes. */
ronde__model ronde__file_model(const ronde__onnx *file, const char *name);
/* Gives a file's open dimensions the sizes of the job's inputs, which are its inputs of the same names, else in their order. */
ronde_status ronde__file_bind(ronde__onnx *file, const ronde__shape *shape, const ronde__more_inputs *more);
/* The graph of a file's network by itself, with the loss for classes. */
ronde_status ronde__file_graph(const ronde__onnx *file, ronde_graph **graph_out);
/* The inputs beside the first one: of the data; of a built-in model; and as text (more_inputs.c), for a file of weights:
 * NAME:DIMS:VOCABULARY, with commas between them. false: that is none. */
void ronde__more_inputs_of_data(const ronde_source *source, ronde__more_inputs *more_out);
ronde__more_inputs ronde__model_more(const ronde__model *model);
ronde__more_inputs ronde__file_more(const ronde__onnx *file);
void ronde__more_inputs_text(const ronde__more_inputs *more, char *text, size_t bytes);
bool ronde__more_inputs_parse(const char *text, ronde__more_inputs *more_out);
/* The usual input of a built-in model. */
ronde__shape ronde__model_shape(const ronde__model *model);
/* The graph of a built-in model by itself. */
ronde_status ronde__model_graph(const ronde__model *model, const ronde__model_options *options,
                                const ronde__shape *shape, int64_t vocabulary, int64_t classes,
                                ronde_graph **graph_out);
/* Elements of the parameters that are not frozen. */
int64_t ronde__graph_trained_parameters(const ronde_graph *graph);
/* Multiply-adds x 2 of one example's forward and backward pass, padding taps counted; of what is frozen, no gradients.
 */
int64_t ronde__graph_train_flops(const ronde_graph *graph);
/* The word of --activation where the job's model has a choice, else NULL. */
const char *ronde__job_activation(const ronde__job *job);
/* train: the word of --loss where the targets are values, else NULL. */
const char *ronde__job_loss(const ronde__job *job);
/* "same" or "valid" where the job's model has it, else NULL. */
const char *ronde__job_padding(const ronde__job *job);

#endif

/* What a job is once its options are resolved, shared by its ranks: its network, optimizer, data and world. */
#ifndef RONDE_JOB_H
#define RONDE_JOB_H

#include "config/config.h"
#include "io/safetensors.h"
#include "models/models.h"
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

/* Of --choices; "": open. */
typedef struct ronde__choices {
  char strategy[32], collective[32];
} ronde__choices;

/* Read-only after set-up. */
typedef struct ronde__job {
  ronde_config *config; /* own copy, automatic values resolved */
  ronde_config *given;  /* train: as it was before, with what --resume brings */
  const ronde__options *options;
  ronde_hooks hooks;         /* all NULL where none were given */
  const ronde__model *model; /* NULL: hooks.model */
  const char *model_name;
  ronde__data *data;
  ronde__sampler *sampler; /* train, and eval of a part of the training examples */
  bool splits_by_class;    /* --val-split: each class keeps its share */
  ronde__shape shape;      /* of one example */
  int64_t classes;
  int64_t resize[2]; /* of --resize; 0: none */
  const ronde__kernels *kernels;
  ronde__gemm_impl gemm;
  const ronde__strategy *strategy; /* NULL with --strategy measured, and nothing else is resolved: measure.h of train */
  const char *strategy_reason;     /* why it, where neither the user nor `auto` named it; else NULL, */
  json_t *strategy_costs;          /* and what was measured, owned; NULL: not known here */
  ronde__choices choices;
  const ronde__allreduce *collective;                /* NULL: auto */
  const char *collective_reason;                     /* who named it */
  ronde__transport *mpi;                             /* of this process's rank; NULL: all ranks are in this process */
  ronde__roles roles;                                /* the ranks, and what each is */
  int threads;                                       /* of each worker */
  bool records_order;                                /* of asynchronous pushes: for a test that replays them */
  int64_t batch, local_batch;                        /* global, and the largest of a rank */
  int64_t batches_per_epoch, steps_per_epoch, steps; /* steps: updates in all */
  ronde__schedule schedule;
  ronde__optim_options optim;
  char *best_path;   /* where the weights of the best test go, or NULL */
  bool fused_update; /* each parameter is updated as soon as its gradient is there: nothing needs the gradients whole */
  uint64_t drill_load_ns, drill_slow_ns;
  int drill_load_rank;     /* -1: all */
  int drill_slow_rank;     /* -1: none */
  int64_t drill_slow_step; /* the first that is slow */
  int drill_drift_rank;
  int64_t drill_drift_step;          /* 0: none */
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
/* The data as the user named them, or a caller's source by its name. */
static inline const char *ronde__job_data_name(const ronde__job *job) {
  return job->options->data ? job->options->data : job->data->source.name;
}

/* network.c: the graph of the job's model for its input and classes, checked against the data's targets where there are
 * data. */
ronde_status ronde__job_graph(const ronde__job *job, ronde_graph **graph_out);
/* How the job wants a net of that graph executed; the job must outlive it. */
ronde__net_options ronde__job_net_options(const ronde__job *job, ronde__pool *pool, ronde__prof *prof, bool training);
/* The job's optimizer for the parameters of a net, which must outlive it. */
ronde_status ronde__job_optim(const ronde__job *job, const ronde__net *net, ronde__optim **optim_out);
/* The graph of a built-in model by itself. */
ronde_status ronde__model_graph(const ronde__model *model, const ronde__model_options *options,
                                const ronde__shape *shape, int64_t classes, ronde_graph **graph_out);
/* Elements of the parameters that are not frozen. */
int64_t ronde__graph_trained_parameters(const ronde_graph *graph);
/* Multiply-adds x 2 of one example's forward and backward pass, padding taps counted; of what is frozen, no gradients.
 */
int64_t ronde__graph_train_flops(const ronde_graph *graph);
/* "same" or "valid" where the job's model has it, else NULL. */
const char *ronde__job_padding(const ronde__job *job);

#endif

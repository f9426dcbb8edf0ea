/* What a job is once its options are resolved, shared by its ranks; and the pieces that jobs are made of. */
#ifndef RONDE_JOB_H
#define RONDE_JOB_H

#include "io/safetensors.h"
#include "io/sha256.h"
#include "models/models.h"
#include "strategy/strategy.h"
#include "train/config.h"
#include "train/record.h"

/* Indices into the choices of options.inc. */
enum { RONDE__TRANSPORT_AUTO, RONDE__TRANSPORT_SELF, RONDE__TRANSPORT_THREADS, RONDE__TRANSPORT_MPI };
enum { RONDE__OPTIMIZER_SGD, RONDE__OPTIMIZER_ADAM, RONDE__OPTIMIZER_ADAMW, RONDE__OPTIMIZER_ADAGRAD };
enum { RONDE__STRATEGY_AUTO };
enum {
  RONDE__COLLECTIVE_AUTO,
  RONDE__COLLECTIVE_RING,
  RONDE__COLLECTIVE_HALVING_DOUBLING,
  RONDE__COLLECTIVE_TREE,
  RONDE__COLLECTIVE_HIERARCHICAL,
  RONDE__COLLECTIVE_MPI
};
enum { RONDE__WIRE_F32, RONDE__WIRE_BF16 };
enum { RONDE__OVERLAP_AUTO, RONDE__OVERLAP_ON, RONDE__OVERLAP_OFF };
enum { RONDE__PLACEMENT_COLOCATED, RONDE__PLACEMENT_DEDICATED };
enum { RONDE__SHARD_STATIC, RONDE__SHARD_WHOLE };
enum { RONDE__AUGMENT_OFF, RONDE__AUGMENT_CROP, RONDE__AUGMENT_FLIP, RONDE__AUGMENT_CROP_FLIP };
enum { RONDE__PADDING_SAME, RONDE__PADDING_VALID };
enum { RONDE__EXEC_GRAPH, RONDE__EXEC_EAGER };

/* Read-only after set-up. */
typedef struct ronde__job {
  ronde_config *config; /* own copy, automatic values resolved */
  ronde_config *given;  /* train: as it was before, with what --resume brings */
  const ronde__options *options;
  ronde_hooks hooks;         /* all NULL where none were given */
  const ronde__model *model; /* NULL: hooks.model */
  const char *model_name;
  ronde__data *data;
  ronde__sampler *sampler; /* train only */
  ronde__shape shape;      /* of one example */
  int64_t classes;
  int64_t resize[2]; /* of --resize; 0: none */
  const ronde__kernels *kernels;
  ronde__gemm_impl gemm;
  const ronde__strategy *strategy;
  const ronde__allreduce *collective; /* NULL: auto */
  ronde__transport *mpi;              /* of this process's rank; NULL: all ranks are in this process */
  int world, threads;                 /* world: workers */
  int n_servers;                      /* of parameters; 0: the strategy has none */
  bool records_order;                 /* of asynchronous pushes: for a test that replays them */
  bool dedicated;             /* servers are ranks behind the workers'; else they live beside the first workers */
  int *worker_ranks;          /* [world] */
  int64_t batch, local_batch; /* global, and the largest of a rank */
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
  int64_t drill_drift_step;     /* 0: none */
  ronde__safetensors *init;     /* --init, or NULL */
  char *new_head;               /* the output layer that is not taken from it, or NULL */
  struct ronde__resume *resume; /* --resume, or NULL: checkpoint.h */
  int64_t checkpoint_steps;     /* between two checkpoints; 0: see checkpoint_ns */
  uint64_t checkpoint_ns;       /* 0: none but at an interruption */
} ronde__job;

/* setup.c: resolves and checks everything that can be checked before any rank starts. */
ronde_status ronde__job_create(const ronde_config *config, const ronde_hooks *hooks, ronde__job **job_out);
void ronde__job_destroy(ronde__job *job);

/* version.c: the version, and the commit that it was built from. */
const char *ronde__build(void);

/* agree.c: where each rank is a process of its own, all call it before they train. RONDE_E_USAGE, said in the same words
 * by all, where one is another build, or has other kernels, options or data than rank 0. */
ronde_status ronde__job_agree(const ronde__job *job);
/* Whether this process is one of several that MPI has started; where it is not, options that need them are refused. */
ronde_status ronde__joins_mpi(const ronde_config *config, bool *joins_out);
/* What --timeout says. */
static inline uint64_t ronde__lost_after_ns(const ronde_config *config) {
  return (uint64_t)ronde__config_options(config)->timeout * 1000000000u;
}
/* Two cards' options, as JSON texts: the first one, by name, that differs, and both values; false where none does. */
bool ronde__options_differ(const char *one, const char *first, char name[32], char own[64], char theirs[64]);

static inline int ronde__job_ranks(const ronde__job *job) { return job->world + (job->dedicated ? job->n_servers : 0); }
static inline int ronde__job_first_server(const ronde__job *job) { return job->dedicated ? job->world : 0; }

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

/* weights.c */
#define RONDE__META_CLASS_NAMES "ronde.classes" /* of a weights' file: the names of the classes, as a JSON list */
/* Missing, extra and differently shaped tensors are errors: to be found once, before ranks start. other_classes_out
 * (may be NULL): an output layer that differs in its number of classes alone is none, and the file's number is given
 * there (else 0). */
ronde_status ronde__weights_check(const ronde_graph *graph, const ronde__safetensors *file, const char *path,
                                  int64_t *other_classes_out);
/* The name of the output layer: a linear layer whose output is the network's; NULL where there is none. */
const char *ronde__graph_head(const ronde_graph *graph);
/* Every parameter and buffer of a net from a file that was checked against its graph, but for a new output layer. */
void ronde__weights_load(ronde__net *net, const ronde__safetensors *file);
/* Writes parameters and buffers; the file also says what they are of: model, shape, classes, padding and normalisation
 * of the job. */
ronde_status ronde__weights_save(ronde__net *net, const char *path, const ronde__job *job);
/* What a file of weights says of itself. */
typedef struct ronde__weights_notes {
  ronde__file_meta meta[10]; /* [n], and room for one more */
  int n;
  char *class_names; /* to be freed */
  char shape[96], classes[24], mean[64], deviation[64];
} ronde__weights_notes;
/* The texts lie in notes and in the job: notes must not be moved. */
void ronde__weights_describe(const ronde__job *job, ronde__weights_notes *notes);
/* "same" or "valid" where the job's model has it, else NULL. */
const char *ronde__job_padding(const ronde__job *job);
/* SHA-256 of the parameters, names ascending bytewise, logical row-major f32, little endian; and with the f32 buffers
 * among them. */
ronde_status ronde__weights_sha256(ronde__net *net, char hex_out[RONDE__SHA256_HEX]);
ronde_status ronde__state_sha256(ronde__net *net, char hex_out[RONDE__SHA256_HEX]);

/* evaluate.c */
typedef struct ronde__score {
  double loss_sum;
  int64_t n_correct, n;
} ronde__score;

/* What is better is larger: the accuracy, or without classes the negative mean loss. NaN where a loss is not finite. */
double ronde__score_value(const ronde__score *score, bool has_classes);

typedef struct ronde__evaluation {
  const ronde__data *data;
  ronde_split split;
  const int64_t *ids; /* [n] of the split; NULL: 0..n-1 */
  int64_t n;
  int rank, world;            /* whose share of them */
  int64_t chunk;              /* examples at a time, at most */
  bool (*cancel)(void *user); /* asked in front of each chunk; may be NULL */
  void *user;
} ronde__evaluation;

/* RONDE_E_CANCELLED where cancel said so. */
ronde_status ronde__evaluate(ronde__net *net, const ronde__evaluation *what, ronde__score *score_out);

#endif

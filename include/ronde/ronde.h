/* Ronde: training of neural networks in C on CPU clusters. The only public header.
 *
 * Reading order: statuses and log, the graph (define a network), the configuration (one typed table of
 * options, the same as on the command line), then the jobs: train, eval, predict, init.
 *
 * Rules that hold everywhere:
 * - a function returns a ronde_status, 0 is success; outputs (last, ending in _out) are set only on success;
 * - an error is logged once, in one line, by who found it, through the log callback; callers only hand it on;
 * - shapes are logical and row-major in PyTorch's order (images NCHW); the batch dimension is implicit and first;
 * - the library installs no signal handlers, prints nothing and never ends the process;
 * - distinct objects may be used from distinct threads at once; one object from one thread at a time. */
#ifndef RONDE_RONDE_H
#define RONDE_RONDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RONDE_API __attribute__((visibility("default")))

/* ---- status and log ------------------------------------------------------------------------------------------ */

/* X(enum name, text, exit code of the command line) */
#define RONDE_STATUS_LIST(X)                                   \
  X(OK, "success", 0)                                          \
  X(E_INTERNAL, "internal error", 1)                           \
  X(E_USAGE, "wrong or impossible option, network or call", 2) \
  X(E_INPUT, "bad or missing input", 3)                        \
  X(E_LOST, "a worker or a link was lost", 4)                  \
  X(E_NUMERIC, "the numbers broke (NaN or Inf)", 5)            \
  X(E_WRITE, "cannot write", 6)                                \
  X(E_MEMORY, "out of memory", 6)                              \
  X(E_DIFFERENCE, "a check found a difference", 7)             \
  X(E_CANCELLED, "cancelled", 130)

typedef enum ronde_status {
#define RONDE_X(name, text, code) RONDE_##name,
  RONDE_STATUS_LIST(RONDE_X)
#undef RONDE_X
} ronde_status;

/* The text of a status; never NULL. */
RONDE_API const char *ronde_status_text(ronde_status status);
/* The exit code that the command line ends with for a status (0 to 7, 130). */
RONDE_API int ronde_status_exit_code(ronde_status status);

typedef enum ronde_log_level { RONDE_LOG_ERROR, RONDE_LOG_WARNING, RONDE_LOG_INFO, RONDE_LOG_DEBUG } ronde_log_level;

/* Gets one line without its newline; valid during the call only. May be called from any thread, one at a time. */
typedef void (*ronde_log_fn)(void *user, ronde_log_level level, const char *line);

/* Sets the sink of all log lines of the process (NULL: none, the default). Not while a job runs. */
RONDE_API void ronde_log_set(ronde_log_fn fn, void *user);

/* "0.1.0" */
RONDE_API const char *ronde_version(void);
/* What this build and this machine offer, as a JSON object owned by the caller (free): version, git, features{},
 * isa, isas[], gemm[]. */
RONDE_API ronde_status ronde_version_json(char **json_out);

/* ---- graph: define a network --------------------------------------------------------------------------------- */

/* A network under construction. Every op call returns a new tensor owned by the graph. A call that fails logs both
 * layers and shapes, returns NULL and marks the graph; given NULL, a call returns NULL: so a model function needs no
 * checks, and ronde_graph_status tells at the end. Parameter names are NAME.weight and NAME.bias. */
typedef struct ronde_graph ronde_graph;
typedef struct ronde_tensor ronde_tensor;

#define RONDE_MAX_RANK 6

RONDE_API ronde_status ronde_graph_create(ronde_graph **graph_out);
RONDE_API void ronde_graph_destroy(ronde_graph *graph);
/* The first error met while building. */
RONDE_API ronde_status ronde_graph_status(const ronde_graph *graph);

/* An input of dims [rank] per example (the batch comes in front). */
RONDE_API ronde_tensor *ronde_input(ronde_graph *graph, const char *name, int rank, const int64_t *dims);
/* The target of the loss: class labels for the cross entropy, or values of the prediction's shape for the squared
 * error. */
RONDE_API ronde_tensor *ronde_target(ronde_graph *graph);

typedef struct ronde_conv2d_options {
  int64_t out_channels; /* required */
  int kernel[2];        /* required: height, width */
  int stride[2];        /* 0 means 1 */
  int padding[2];       /* zeros on each side */
  int groups;           /* 0 means 1; they divide the channels on both sides, and each convolves its own */
  bool no_bias;
  bool kaiming_normal; /* weights from N(0, 2 / (out_channels KH KW)), as torchvision's ResNets; else PyTorch's default
                        */
} ronde_conv2d_options;

/* x [C,H,W] -> [out_channels, (H + 2 padding - kernel) / stride + 1, ...]. Weight
 * [out_channels,C / groups,KH,KW]. */
RONDE_API ronde_tensor *ronde_conv2d(const ronde_tensor *x, const char *name, const ronde_conv2d_options *options);
/* x [F] -> [out_features]. Weight [out_features,F]. */
RONDE_API ronde_tensor *ronde_linear(const ronde_tensor *x, const char *name, int64_t out_features, bool bias);

typedef struct ronde_pool2d_options {
  int kernel[2];        /* required */
  int stride[2];        /* 0 means the kernel */
  int padding[2];       /* at most half the kernel */
  bool exclude_padding; /* average only: divide by the values inside (PyTorch's count_include_pad=False) */
} ronde_pool2d_options;

RONDE_API ronde_tensor *ronde_max_pool2d(const ronde_tensor *x, const ronde_pool2d_options *options);
RONDE_API ronde_tensor *ronde_avg_pool2d(const ronde_tensor *x, const ronde_pool2d_options *options);
/* x [C,H,W] -> [C,out_h,out_w]: output i averages the inputs from floor(i H / out_h) to ceil((i + 1) H / out_h). */
RONDE_API ronde_tensor *ronde_adaptive_avg_pool2d(const ronde_tensor *x, int out_h, int out_w);

typedef struct ronde_batch_norm2d_options {
  float eps;      /* 0 means 1e-5 */
  float momentum; /* of the running statistics; 0 means 0.1 */
} ronde_batch_norm2d_options;

/* x [C,H,W] normalised over batch and pixels, times weight [C] plus bias [C]; PyTorch's definition: in training by the
 * batch's own statistics, which running_mean and running_var follow (the latter unbiased), else by these. options may
 * be NULL. */
RONDE_API ronde_tensor *ronde_batch_norm2d(const ronde_tensor *x, const char *name,
                                           const ronde_batch_norm2d_options *options);
/* In training, zeros with this probability, the rest divided by 1 - probability: a function of (seed, step, layer,
 * example, element). */
RONDE_API ronde_tensor *ronde_dropout(const ronde_tensor *x, float probability);
RONDE_API ronde_tensor *ronde_relu(const ronde_tensor *x);
RONDE_API ronde_tensor *ronde_tanh(const ronde_tensor *x);
RONDE_API ronde_tensor *ronde_sigmoid(const ronde_tensor *x);
/* x [C,H,W] -> [C*H*W] */
RONDE_API ronde_tensor *ronde_flatten(const ronde_tensor *x);
/* a + b, of equal shapes. */
RONDE_API ronde_tensor *ronde_add(const ronde_tensor *a, const ronde_tensor *b);
/* inputs [n], 2 to 4 of them, [C_i,H,W] or [F_i] -> [sum of C_i,H,W] or [sum of F_i]: in this order (PyTorch's cat on
 * dim 1). */
RONDE_API ronde_tensor *ronde_concat(const ronde_tensor *const *inputs, int n);
/* logits [K] and class labels -> the batch's mean of -log softmax(logits)[label]. */
RONDE_API ronde_tensor *ronde_cross_entropy(const ronde_tensor *logits, const ronde_tensor *target);
/* Mean over the batch and all elements of (prediction - target)^2. */
RONDE_API ronde_tensor *ronde_mse_loss(const ronde_tensor *prediction, const ronde_tensor *target);

/* Logical dims of a tensor, without the batch; returns the rank (0 for a loss, or where x is NULL). */
RONDE_API int ronde_tensor_dims(const ronde_tensor *x, int64_t dims_out[RONDE_MAX_RANK]);

/* What prediction returns, and what training minimises. A graph without a loss gets the cross entropy of its output. */
RONDE_API void ronde_graph_set_output(ronde_graph *graph, const ronde_tensor *output);
RONDE_API void ronde_graph_set_loss(ronde_graph *graph, const ronde_tensor *loss);

/* Trainable parameters, and floating-point operations of one forward pass of one example (2 x multiply-adds of
 * convolutions and linear layers, padding taps counted). */
RONDE_API int64_t ronde_graph_parameters(const ronde_graph *graph);
RONDE_API int64_t ronde_graph_forward_flops(const ronde_graph *graph);

/* What a model function is called for. */
typedef struct ronde_pass {
  bool eager;    /* false: the calls are only recorded, and say which parameters the network has */
  bool training; /* of eager passes; false: evaluation or prediction */
  int64_t step;  /* of training, from 1; else 0 */
  int64_t batch; /* examples of the pass; 0 where it is recorded */
} ronde_pass;
RONDE_API ronde_pass ronde_graph_pass(const ronde_graph *graph);
/* In an eager pass: copies the values of x to values_out [batch][dims], owned by the caller. A loss has none before the
 * pass has ended. Errors: RONDE_E_USAGE where the graph is only recorded. */
RONDE_API ronde_status ronde_tensor_values(const ronde_tensor *x, float *values_out);

/* Builds a network on x and hands back its output; `classes` as the run has them. Called at set-up to record the graph,
 * possibly from several threads at once, and must build the same one each time. With --exec eager it is called again
 * for every batch, and each call inside executes at once: then it may build another graph each time, of parameters that
 * were recorded; one that a step does not use gets a gradient of zero in it. */
typedef ronde_tensor *(*ronde_model_fn)(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user);

/* ---- configuration: one typed table of options ---------------------------------------------------------------- */

/* The options of one job, by their command-line names ("batch", "lr", ...), each checked when it is set. */
typedef struct ronde_config ronde_config;

/* verb: "train", "eval", "predict", "init", "data", "export", "doctor", "bench collectives", "bench step", "bench
 * kernels", or "compare" (the options of train, and its own). Values start at their defaults. */
RONDE_API ronde_status ronde_config_create(const char *verb, ronde_config **config_out);
RONDE_API void ronde_config_destroy(ronde_config *config);
/* Sets an option from text, as on the command line; on/off options take "on" and "off". An unknown name is an error
 * that names the nearest one. */
RONDE_API ronde_status ronde_config_set(ronde_config *config, const char *name, const char *value);
/* Sets every option whose RONDE_... variable (RONDE_BATCH, RONDE_LR_SCHEDULE) is in the environment and which was not
 * set yet. */
RONDE_API ronde_status ronde_config_set_environment(ronde_config *config);
/* Of train, with --resume: options that were not set become those of the run that it goes on with, as ronde_train takes
 * them, so that a launcher knows workers, transport and hosts. Without --resume, or where no checkpoint can be read here,
 * nothing changes: ronde_train, on the host of rank 0, says what is wrong. Reads the checkpoint once. Errors:
 * RONDE_E_USAGE where the config contradicts it. */
RONDE_API ronde_status ronde_config_resume(ronde_config *config);
/* Whether one of the calls above has set the option; else it has its default. */
RONDE_API bool ronde_config_is_given(const ronde_config *config, const char *name);
/* Of train: ranks that a run needs beside its workers, since they only serve parameters. */
RONDE_API int ronde_config_server_ranks(const ronde_config *config);
/* Of train: whether a strategy (a value of --strategy; auto: what these workers and hosts make of it) understands an
 * option. true for those that are no matter of strategies. */
RONDE_API bool ronde_config_understands(const ronde_config *config, const char *strategy, const char *option);
/* The present value as text; owned by the config until its next change. NULL for an unknown name. */
RONDE_API const char *ronde_config_get(const ronde_config *config, const char *name);

typedef struct ronde_option {
  const char *name, *value_name; /* "batch", "N"; value_name NULL: a bare on/off flag */
  const char *default_text, *help, *group;
} ronde_option;
/* The i-th option of a verb in the table's order; false past the end. All text is static. */
RONDE_API bool ronde_config_option(const char *verb, int i, ronde_option *option_out);

/* ---- jobs ---------------------------------------------------------------------------------------------------- */

typedef enum ronde_split { RONDE_SPLIT_TRAIN, RONDE_SPLIT_TEST } ronde_split;

/* Examples from the caller instead of --data. Must outlive the job. */
typedef struct ronde_source {
  const char *name;
  int rank;                     /* of one example */
  int64_t dims[RONDE_MAX_RANK]; /* dims of one example */
  int64_t classes;              /* of the labels; 0: the targets are values */
  int64_t target_elems;         /* values per example where classes is 0 */
  int64_t n_examples[2];        /* by ronde_split; test may be 0 */
  /* Fills x [n][dims] f32 and labels [n] (targets [n][target_elems] where classes is 0) for the examples `ids` [n] of a
   * split. Called from the loaders' threads, several at once. Any status but RONDE_OK ends the job with it. */
  ronde_status (*read)(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                       float *targets);
  void *user;
} ronde_source;

typedef struct ronde_progress {
  int64_t step, steps; /* done, in all */
  int64_t epoch;       /* the present one, from 1 */
  double loss;         /* the step's mean loss before its update; at an epoch's end the mean over the epoch */
  double lr;
  double examples_per_s;
  double elapsed_s, left_s;
  bool epoch_end; /* a call of its own after each epoch: the next two are set; accuracy < 0: no test data, or no classes
                   */
  double test_loss, test_accuracy;
  const char
      *tested_on; /* at an epoch's end: "test", or "validation" (--val-split, a folder's val/); NULL: no test data */
} ronde_progress;

/* The likeliest classes of one example, the likeliest first; valid during the call that tells it. */
typedef struct ronde_prediction {
  const char *file; /* that holds the example, */
  int64_t index;    /* and which of the file's it is, from 0 */
  int n;            /* classes told: --top, or all that there are */
  const int64_t *classes;
  const double *probabilities;
  const char *const *names; /* [n], each NULL where the weights do not name their classes */
} ronde_prediction;

/* Callbacks of a job; each may be NULL. Called from rank 0's thread. */
typedef struct ronde_hooks {
  ronde_model_fn model;       /* instead of --model */
  const ronde_source *source; /* instead of --data */
  void (*progress)(void *user, const ronde_progress *progress);
  void (*prediction)(void *user, const ronde_prediction *prediction); /* predict: each example, as it is known */
  bool (*cancel)(void *user); /* asked once a step or batch: true ends the job, RONDE_E_CANCELLED, outputs written */
  void *user;                 /* handed to all of the above */
} ronde_hooks;

/* Each job blocks until all its ranks have ended and writes what its options name (--out, --save). On success json_out
 * (may be NULL) receives a JSON text owned by the caller (free); train also sets it where a run was broken off. */

/* Trains; the text is run.json ("ronde.run.v1"); of a run that is gone on with and complete, the one that it has. With
 * --dry-run: the plan instead. RONDE_E_USAGE where --out holds another run (--resume, --overwrite), or one writes there. */
RONDE_API ronde_status ronde_train(const ronde_config *config, const ronde_hooks *hooks, char **json_out);
/* Loss and accuracy of the weights --init on --data: on its test examples, or those that --split names. Where there are
 * classes, also: each one's precision, recall and F1, which is taken for which, the calibration of the probabilities, and
 * the most confident mistakes, by file where each example has one; --csv writes them as tables. */
RONDE_API ronde_status ronde_eval(const ronde_config *config, const ronde_hooks *hooks, char **json_out);
/* Classes with probabilities of each example in --input: images and npy files, named by file, folder or pattern, one a
 * line. With json_out NULL only the hook is told, and memory does not grow with the examples. */
RONDE_API ronde_status ronde_predict(const ronde_config *config, const ronde_hooks *hooks, char **json_out);

/* ---- predictors: a trained network in memory ----
 * Answers again and again, from any number of threads at once. Parameters are held once; each call that runs at the same
 * time as others has working memory of its own, kept for the next one. */
typedef struct ronde_predictor ronde_predictor;

/* From a configuration of "predict": --init names the weights, --threads the threads of a call (0: all cores; take 1 where
 * several threads of yours call); --shape and
 * --classes where the file does not say them; --normalize as the command line has it. hooks: NULL, or a model function.
 * RONDE_E_INPUT where the weights do not fit. Destroy it when no call runs; NULL is taken. */
RONDE_API ronde_status ronde_predictor_create(const ronde_config *config, const ronde_hooks *hooks,
                                              ronde_predictor **predictor_out);
/* Trains, and hands out the trained network without a file: what --save would write, also where the run was cancelled.
 * NULL where it failed, and in all processes but rank 0's. Otherwise as ronde_train. */
RONDE_API ronde_status ronde_train_predictor(const ronde_config *config, const ronde_hooks *hooks,
                                             ronde_predictor **predictor_out, char **json_out);
RONDE_API void ronde_predictor_destroy(ronde_predictor *predictor);
/* y [n][outputs] is the network's output, before any softmax, for x [n][shape], row-major f32: pixels between 0 and 1, or
 * what npy files of the training data hold; it is normalised here as the training data were. Blocks; the first call with
 * another n plans the network for it. */
RONDE_API ronde_status ronde_predictor_run(ronde_predictor *predictor, int64_t n, const float *x, float *y_out);
/* Of one example: the rank, and the dimensions. */
RONDE_API int ronde_predictor_shape(const ronde_predictor *predictor, int64_t dims_out[RONDE_MAX_RANK]);
RONDE_API int64_t ronde_predictor_outputs(const ronde_predictor *predictor);
/* NULL where the classes have no names. */
RONDE_API const char *ronde_predictor_class(const ronde_predictor *predictor, int64_t k);
/* Parameters and buffers by the names of the safetensors file; the i-th, NULL past the end. rank_out and dims_out may be
 * NULL. */
RONDE_API const char *ronde_predictor_tensor(const ronde_predictor *predictor, int i, int *rank_out,
                                             int64_t dims_out[RONDE_MAX_RANK]);
/* The values of one, row-major; n is their number. _set waits until no call runs. RONDE_E_USAGE where there is no such
 * tensor, or n is another number. */
RONDE_API ronde_status ronde_predictor_get(ronde_predictor *predictor, const char *name, float *values_out, int64_t n);
RONDE_API ronde_status ronde_predictor_set(ronde_predictor *predictor, const char *name, const float *values,
                                           int64_t n);

/* Writes freshly initialised weights to --output. */
RONDE_API ronde_status ronde_init(const ronde_config *config, const ronde_hooks *hooks, char **json_out);
/* The models that are built in, each with parameters and FLOPs; name NULL: all, in brief; else that one with its
 * tensors. */
RONDE_API ronde_status ronde_models(const char *name, char **json_out);

/* ---- statistics ------------------------------------------------------------------------------------------------ */

/* Of measurements: the median, the median absolute deviation from it, and the interval in which the median lies by 95 %
 * (bootstrap; the same samples give the same interval). */
typedef struct ronde_statistics {
  double median, mad, low, high;
} ronde_statistics;
/* Of samples [n]. RONDE_E_USAGE where n < 1, RONDE_E_NUMERIC where one is NaN or Inf. */
RONDE_API ronde_status ronde_statistics_of(const double *samples, int64_t n, ronde_statistics *statistics_out);
/* Of the rounds [n] of a measurement, one figure of each: samples within a round do not tell how rounds differ. The
 * interval is Student's t on the logarithms (on the values, where one is not above 0), honest from two rounds on, and
 * holds the median; low and high are NAN with one round. Errors as above. */
RONDE_API ronde_status ronde_statistics_of_rounds(const double *rounds, int64_t n, ronde_statistics *statistics_out);

/* ---- other work on this host ------------------------------------------------------------------------------------- */

/* CPU seconds up to a moment: of the cores that this process may use, whoever worked on them (NAN where the system
 * does not tell), and of this process and its ended children. */
typedef struct ronde_host_look {
  double at_s, busy_s, own_s;
} ronde_host_look;
RONDE_API void ronde_host_look_now(ronde_host_look *look_out);

typedef struct ronde_host_load {
  int cores;     /* that this process may use */
  double others; /* cores that others kept busy, on average */
  bool is_busy;  /* too much for a measurement to count */
} ronde_host_load;
/* Since the look. NULL: the load of the last minute, which is all that the system tells of what was before. */
RONDE_API ronde_host_load ronde_host_load_since(const ronde_host_look *look);

/* ---- measurements ---------------------------------------------------------------------------------------------- */

/* Times collectives by size between --workers; the text is bench.json ("ronde.bench.v1") with, for each case, samples
 * of the seconds that a call took. config: of "bench collectives"; of hooks, cancel. Blocks until all ranks have ended;
 * under MPI json_out is set on rank 0 only. RONDE_E_DIFFERENCE where a result was wrong. */
RONDE_API ronde_status ronde_bench_collectives(const ronde_config *config, const ronde_hooks *hooks, char **json_out);

/* The training step of a built-in network by itself: forward, loss, backward, update on one batch of random examples in
 * memory. Weights and examples are functions of --seed; the rate is fixed and small, dropout is off. */
typedef struct ronde_stepper ronde_stepper;

/* config: of "bench step" or "bench kernels". */
RONDE_API ronde_status ronde_stepper_create(const ronde_config *config, ronde_stepper **stepper_out);
RONDE_API void ronde_stepper_destroy(ronde_stepper *stepper);
/* Makes n steps: their wall times seconds_out [n], and the batch's mean loss before the last of these updates. */
RONDE_API ronde_status ronde_stepper_run(ronde_stepper *stepper, int64_t n, double *seconds_out, double *loss_out);
/* The work, as a JSON object owned by the caller (free): model, shape, batch, parameters, FLOPs, optimizer, ... */
RONDE_API ronde_status ronde_stepper_describe(const ronde_stepper *stepper, char **json_out);
/* Writes the present parameters, inputs ("ronde.x") and labels ("ronde.labels") as a safetensors file: another system
 * that starts from it has the same work. */
RONDE_API ronde_status ronde_stepper_save(const ronde_stepper *stepper, const char *path);
/* The largest resident memory of this process so far. */
RONDE_API int64_t ronde_peak_rss_bytes(void);
/* The speed of each layer's kernels in --rounds rounds of steps beside the arithmetic and memory peaks of this machine,
 * measured by the way. config: of "bench kernels"; of hooks, cancel. The text is bench.json ("ronde.bench.v1"). */
RONDE_API ronde_status ronde_bench_kernels(const ronde_config *config, const ronde_hooks *hooks, char **json_out);

/* What a training between --hosts would meet; the text ("ronde.doctor.v1") has each rank's host, build, cores, memory
 * and data, the links of each pair (about a tenth of a second a pair), and what to change. config: of "doctor". Blocks;
 * under MPI json_out is set on rank 0 only. RONDE_E_DIFFERENCE, and json_out set too, where they cannot train together.
 */
RONDE_API ronde_status ronde_doctor(const ronde_config *config, char **json_out);

/* ---- checkpoints ---------------------------------------------------------------------------------------------- */

/* A path is a checkpoint, a file of weights, or a run's folder, of which the newest checkpoint that is whole is meant.
 * (Of --init it is the best weights: best.safetensors, else last.safetensors, else that checkpoint.) */

/* What is in it: tensors, and of a checkpoint the place in the training, options, data. */
RONDE_API ronde_status ronde_ckpt_info(const char *path, char **json_out);
/* Reads all of it; of a folder, all of its checkpoints. json_out is set in any case. RONDE_E_DIFFERENCE where a checksum
 * differs, RONDE_E_INPUT where a file cannot be read at all. */
RONDE_API ronde_status ronde_ckpt_verify(const char *path, char **json_out);
/* Compares tensor by tensor, bit by bit. RONDE_E_DIFFERENCE, and json_out set too, where they differ. */
RONDE_API ronde_status ronde_ckpt_diff(const char *a, const char *b, char **json_out);
/* Writes parameters and buffers alone of --init to --output. config: of "export". */
RONDE_API ronde_status ronde_export(const ronde_config *config, char **json_out);

/* ---- data sets ------------------------------------------------------------------------------------------------ */

/* Callbacks of a download; each may be NULL. */
typedef struct ronde_data_hooks {
  void (*progress)(void *user, const char *file, int64_t done, int64_t total); /* bytes */
  bool (*cancel)(void *user); /* asked now and then: true ends it, RONDE_E_CANCELLED; the next try goes on from there */
  void *user;
} ronde_data_hooks;

/* The sets that have a name, where their files are found, what ronde_data_get would download. */
RONDE_API ronde_status ronde_data_list(char **json_out);
/* What is in --data: examples, shape, classes, hash. config: of "data", here and below. */
RONDE_API ronde_status ronde_data_info(const ronde_config *config, char **json_out);
/* Downloads the files of --data, each checked by its SHA-256, whole or absent, to --output or where they will be found;
 * those that are there already are left alone. A download that was broken off goes on where it ended. */
RONDE_API ronde_status ronde_data_get(const ronde_config *config, const ronde_data_hooks *hooks, char **json_out);
/* Writes --data as npy files (train_x.npy, train_y.npy, test_x.npy, test_y.npy) to the folder --output. */
RONDE_API ronde_status ronde_data_convert(const ronde_config *config, char **json_out);

#ifdef __cplusplus
}
#endif
#endif

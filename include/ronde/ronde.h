/* Ronde: training of neural networks in C on CPU clusters.
 *
 * In reading order: statuses and the log; the graph, to define a network; the configuration, one typed table of options
 * that are the same as on the command line; the jobs: train, eval, predict, init; then checkpoints and data sets. What
 * only measurements need is in measure.h.
 *
 * Rules that hold everywhere:
 * - A function that can fail returns a ronde_status, 0 on success. Outputs come last, end in _out, and are set only on
 *   success unless a comment says otherwise.
 * - An error is logged once, in one line, through the log callback, before the function that found it returns.
 * - Shapes are logical and row-major, in PyTorch's order (images are NCHW). The batch dimension comes first and is left
 *   out of the dims of a tensor. Elements are float, labels int64_t.
 * - Strings and arrays that are passed in are copied unless a comment says otherwise. JSON texts that come out are owned
 *   by the caller, who frees them with free().
 * - The library installs no signal handlers, prints nothing and never ends the process.
 * - Different objects may be used by different threads at the same time, one object by one thread at a time. */
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

/* Receives one line, without its newline, that is valid during the call only. Called from any thread, but never from two
 * at once. */
typedef void (*ronde_log_fn)(void *user, ronde_log_level level, const char *line);

/* Sets who receives all log lines of the process. NULL, the default: nobody. Must not be called while a job runs. */
RONDE_API void ronde_log_set(ronde_log_fn fn, void *user);

/* "0.1.0" */
RONDE_API const char *ronde_version(void);
/* What this build and this machine offer, as a JSON object: version, git, features{}, isa, isas[], gemm[],
 * bf16, bf16s[]. */
RONDE_API ronde_status ronde_version_json(char **json_out);

/* ---- graph: define a network --------------------------------------------------------------------------------- */

/* A network under construction. Each call below that adds an op returns a new tensor, owned by the graph. A call that
 * fails logs the layers and shapes involved, returns NULL and marks the graph; a call that is given NULL returns NULL.
 * So a model function needs no checks: ronde_graph_status tells at the end. A layer called NAME has the parameters
 * NAME.weight and NAME.bias. */
typedef struct ronde_graph ronde_graph;
typedef struct ronde_tensor ronde_tensor;

#define RONDE_MAX_RANK 6

RONDE_API ronde_status ronde_graph_create(ronde_graph **graph_out);
RONDE_API void ronde_graph_destroy(ronde_graph *graph);
/* Layers of this name share their parameters (tied weights): a layer call that is given the name again takes the
 * parameters of the call before it, whose shapes must be equal, and adds those that it alone has. Their gradient is the
 * sum over all these calls. Without this, a name that is used twice is an error. Layers that keep statistics of the
 * data (batch_norm2d) cannot be shared. */
RONDE_API void ronde_graph_share(ronde_graph *graph, const char *layer);
/* The first error met while building. */
RONDE_API ronde_status ronde_graph_status(const ronde_graph *graph);

/* An input of dims [rank] per example (the batch comes in front): 1 to 4 of them, for example [F], [T,F] or [C,H,W]. */
RONDE_API ronde_tensor *ronde_input(ronde_graph *graph, const char *name, int rank, const int64_t *dims);
/* The target of the loss: one class label per example for the cross entropy, or values of the prediction's shape for the
 * squared error. */
RONDE_API ronde_tensor *ronde_target(ronde_graph *graph);

typedef struct ronde_conv2d_options {
  int64_t out_channels; /* required */
  int kernel[2];        /* required: height, width */
  int stride[2];        /* 0 means 1 */
  int padding[2];       /* zeros on each side */
  int groups; /* 0 means 1; input and output channels are split into so many groups, each with its own weights */
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
/* x [C,H,W] -> [C,out_h,out_w]: output i averages the inputs from floor(i H / out_h) to ceil((i + 1) H / out_h).
 * 1 x 1 is global average pooling. */
RONDE_API ronde_tensor *ronde_adaptive_avg_pool2d(const ronde_tensor *x, int out_h, int out_w);

/* x [C,H,W] -> [C,H factor_h,W factor_w]: each pixel becomes factor_h x factor_w pixels like it (nearest neighbour). */
RONDE_API ronde_tensor *ronde_upsample2d(const ronde_tensor *x, int factor_h, int factor_w);

typedef struct ronde_batch_norm2d_options {
  float eps;      /* 0 means 1e-5 */
  float momentum; /* weight of the batch's statistics in the running ones; 0 means 0.1 */
} ronde_batch_norm2d_options;

/* Normalises x [C,H,W] over batch and pixels, then multiplies by weight [C] and adds bias [C], as PyTorch defines it:
 * training uses the statistics of the batch and moves running_mean and running_var (unbiased) towards them; evaluation
 * and prediction use the running ones. options may be NULL. */
RONDE_API ronde_tensor *ronde_batch_norm2d(const ronde_tensor *x, const char *name,
                                           const ronde_batch_norm2d_options *options);
/* In training, sets elements to zero with this probability and divides the others by 1 - probability. Which ones depends
 * only on seed, step, layer, example and element. Otherwise x as it is. */
RONDE_API ronde_tensor *ronde_dropout(const ronde_tensor *x, float probability);
RONDE_API ronde_tensor *ronde_relu(const ronde_tensor *x);
RONDE_API ronde_tensor *ronde_tanh(const ronde_tensor *x);
RONDE_API ronde_tensor *ronde_sigmoid(const ronde_tensor *x);
/* x P(x), P(x) the chance that a standard normal variable is below x; by_tanh: P as (1 + tanh(sqrt(2 / pi) (x + 0.044715
 * x^3))) / 2 (PyTorch's approximate="tanh"). */
RONDE_API ronde_tensor *ronde_gelu(const ronde_tensor *x, bool by_tanh);
/* x sigmoid(x), also called swish. */
RONDE_API ronde_tensor *ronde_silu(const ronde_tensor *x);
/* x (x + 3) / 6; 0 below -3, x above 3. */
RONDE_API ronde_tensor *ronde_hard_swish(const ronde_tensor *x);
/* slope x + offset, cut off at 0 and 1: 1/6 and 0.5 in PyTorch, 0.2 and 0.5 in Keras and by default in ONNX. */
RONDE_API ronde_tensor *ronde_hard_sigmoid(const ronde_tensor *x, float slope, float offset);
/* slope x where x is below 0, else x. */
RONDE_API ronde_tensor *ronde_leaky_relu(const ronde_tensor *x, float slope);
/* alpha (exp(x) - 1) where x is below 0, else x. */
RONDE_API ronde_tensor *ronde_elu(const ronde_tensor *x, float alpha);
/* x, but at least lower and at most upper; 0 and 6 make ReLU6. Either bound may be infinite. Where x has reached a bound,
 * the gradient is 0. */
RONDE_API ronde_tensor *ronde_clip(const ronde_tensor *x, float lower, float upper);
/* x [C,H,W] -> [C*H*W] */
RONDE_API ronde_tensor *ronde_flatten(const ronde_tensor *x);
/* a + b, of equal shapes. */
RONDE_API ronde_tensor *ronde_add(const ronde_tensor *a, const ronde_tensor *b);
/* a - b and a b, element by element, of equal shapes. */
RONDE_API ronde_tensor *ronde_subtract(const ronde_tensor *a, const ronde_tensor *b);
RONDE_API ronde_tensor *ronde_multiply(const ronde_tensor *a, const ronde_tensor *b);
/* Cuts x along its first dimension into n pieces (2 to 4) of these sizes, which must add up to that dimension (PyTorch's
 * split on dim 1). Sets pieces_out [n], to NULLs if the call failed. */
RONDE_API void ronde_cut(const ronde_tensor *x, int n, const int64_t *sizes, ronde_tensor **pieces_out);
/* exp(x) / sum of exp(x) over dimension `dim` of an example; below 0 it is counted from the last one. */
RONDE_API ronde_tensor *ronde_softmax(const ronde_tensor *x, int dim);

typedef struct ronde_layer_norm_options {
  int dims;  /* how many, from the last on, are normalised together; 0 means 1 */
  float eps; /* 0 means 1e-5 */
} ronde_layer_norm_options;

/* (x - mean) / sqrt(variance + eps) * weight + bias, with mean and variance over the last dimensions of each example.
 * weight and bias have the shape of these dimensions. options may be NULL. */
RONDE_API ronde_tensor *ronde_layer_norm(const ronde_tensor *x, const char *name,
                                         const ronde_layer_norm_options *options);
/* An LSTM over a sequence x [T,F], as PyTorch's LSTM of one layer: parameters weight_ih_l0 [4 hidden,F], weight_hh_l0
 * [4 hidden,hidden], bias_ih_l0 and bias_hh_l0 [4 hidden]. Returns the hidden states [T,hidden]; hidden_out and cell_out
 * (each may be NULL) receive the last hidden state and the last cell state [hidden]. hidden_0 and cell_0 [hidden] are the
 * initial states; both NULL: zeros. */
RONDE_API ronde_tensor *ronde_lstm(const ronde_tensor *x, const char *name, int64_t hidden, bool bias,
                                   const ronde_tensor *hidden_0, const ronde_tensor *cell_0, ronde_tensor **hidden_out,
                                   ronde_tensor **cell_out);
/* Joins inputs [n], 2 to 4 of them, along the first dimension and in this order (PyTorch's cat on dim 1): [C_i,H,W] ->
 * [sum of C_i,H,W]. The other dimensions must be equal. */
RONDE_API ronde_tensor *ronde_concat(const ronde_tensor *const *inputs, int n);
/* logits [K] and class labels -> the mean of -log softmax(logits)[label] over the batch. */
RONDE_API ronde_tensor *ronde_cross_entropy(const ronde_tensor *logits, const ronde_tensor *target);
/* Mean over the batch and all elements of (prediction - target)^2. */
RONDE_API ronde_tensor *ronde_mse_loss(const ronde_tensor *prediction, const ronde_tensor *target);
/* Mean over the batch and all elements of |prediction - target|. */
RONDE_API ronde_tensor *ronde_l1_loss(const ronde_tensor *prediction, const ronde_tensor *target);
/* The same of the Huber loss: half the square of an error up to delta > 0, and linear beyond, as PyTorch's HuberLoss. */
RONDE_API ronde_tensor *ronde_huber_loss(const ronde_tensor *prediction, const ronde_tensor *target, float delta);
/* Mean over the batch and all elements of the binary cross entropy between the sigmoid of a logit and its target, a label
 * from 0 to 1, as PyTorch's BCEWithLogitsLoss: for several labels an example. */
RONDE_API ronde_tensor *ronde_bce_loss(const ronde_tensor *logits, const ronde_tensor *target);

/* The dims of a tensor, without the batch. Returns the rank: 0 for a loss, and if x is NULL. */
RONDE_API int ronde_tensor_dims(const ronde_tensor *x, int64_t dims_out[RONDE_MAX_RANK]);

/* What prediction returns, and what training minimises. A graph for which no loss is set minimises the cross entropy of
 * its output. */
RONDE_API void ronde_graph_set_output(ronde_graph *graph, const ronde_tensor *output);
RONDE_API void ronde_graph_set_loss(ronde_graph *graph, const ronde_tensor *loss);

/* The number of trainable parameters, and the floating-point operations of a forward pass of one example: two for each
 * multiply-add of convolutions and linear layers, also where one factor is padding. */
RONDE_API int64_t ronde_graph_parameters(const ronde_graph *graph);
RONDE_API int64_t ronde_graph_forward_flops(const ronde_graph *graph);

/* What a model function is called for. */
typedef struct ronde_pass {
  bool eager;    /* false: the calls are only recorded, to learn which parameters the network has */
  bool training; /* of eager passes; false: evaluation or prediction */
  int64_t step;  /* of training, from 1; 0 otherwise */
  int64_t batch; /* examples of the pass; 0 while recording */
} ronde_pass;
RONDE_API ronde_pass ronde_graph_pass(const ronde_graph *graph);
/* In an eager pass: copies the values of x to values_out [batch][dims] f32, owned by the caller. A loss has no value before
 * the pass has ended. Errors: RONDE_E_USAGE while recording. */
RONDE_API ronde_status ronde_tensor_values(const ronde_tensor *x, float *values_out);

/* Builds a network on x and returns its output. classes: those of --classes, else of the data; 0 where the targets are
 * values. Called at set-up to record the graph, possibly by several threads at once, and must build the same graph each
 * time. With the option exec set to eager it is called again for every batch, and each call inside it is executed at
 * once. Then it may build another graph each time, from parameters that were recorded; a parameter that a step does not
 * use has a gradient of zero in that step. */
typedef ronde_tensor *(*ronde_model_fn)(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user);

/* ---- configuration: one typed table of options ---------------------------------------------------------------- */

/* The options of one job, by their names on the command line ("batch", "lr", ...). Each is checked when it is set. */
typedef struct ronde_config ronde_config;

/* verb: "train", "eval", "predict", "init", "data", "export", "doctor", "bench collectives", "bench step", "bench
 * kernels", or "compare" (the options of train, and its own). Values start at their defaults. */
RONDE_API ronde_status ronde_config_create(const char *verb, ronde_config **config_out);
RONDE_API void ronde_config_destroy(ronde_config *config);
/* Sets an option from text, as on the command line; flags take "on" and "off". Errors: RONDE_E_USAGE, with a line that
 * says what the option takes or, if there is none of this name, which one is nearest. */
RONDE_API ronde_status ronde_config_set(ronde_config *config, const char *name, const char *value);
/* Sets every option that was not set yet and has a variable in the environment (RONDE_BATCH, RONDE_LR_SCHEDULE). */
RONDE_API ronde_status ronde_config_set_environment(ronde_config *config);
/* Whether one of the calls above has set the option. Otherwise it has its default. */
RONDE_API bool ronde_config_is_given(const ronde_config *config, const char *name);
/* The present value as text; owned by the config until its next change. NULL for an unknown name. */
RONDE_API const char *ronde_config_get(const ronde_config *config, const char *name);

typedef struct ronde_option {
  const char *name, *value_name; /* "batch", "N"; value_name NULL: a bare on/off flag */
  const char *default_text, *help, *group;
  char variable[48]; /* of the environment that sets it: "RONDE_BATCH"; "": none does */
  bool needs_out;    /* without effect in a run that writes nothing to --out */
} ronde_option;
/* The i-th option of a verb, from 0, in the order of the table; false past the end. All text but the variable is
 * static. */
RONDE_API bool ronde_config_option(const char *verb, int i, ronde_option *option_out);

/* ---- jobs ---------------------------------------------------------------------------------------------------- */

typedef enum ronde_split { RONDE_SPLIT_TRAIN, RONDE_SPLIT_TEST } ronde_split;

/* Examples from the caller instead of those of --data. Must stay valid until the job has returned. */
typedef struct ronde_source {
  const char *name;
  int rank;                     /* of one example */
  int64_t dims[RONDE_MAX_RANK]; /* dims of one example */
  int64_t classes;              /* of the labels; 0: the targets are values */
  int64_t target_elems;         /* values per example where classes is 0 */
  int64_t n_examples[2];        /* by ronde_split; test may be 0 */
  /* Fills x [n][dims] and labels [n] for the examples ids [n] of a split; where classes is 0, targets [n][target_elems]
   * in place of labels. All buffers are the library's. Called by the loaders' threads, several at once. Any status but
   * RONDE_OK ends the job with that status. */
  ronde_status (*read)(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                       float *targets);
  void *user;
} ronde_source;

typedef struct ronde_progress {
  int64_t step, steps; /* done, in all */
  int64_t epoch;       /* the present one, from 1 */
  double loss;         /* the mean loss of the step, before its update; at the end of an epoch, of the epoch */
  double lr;
  double examples_per_s;
  double elapsed_s, left_s;
  bool epoch_end;        /* each epoch ends with a call of its own, in which the next four are set */
  double train_accuracy; /* from 0 to 1; below 0: there are no classes, or no step was made */
  double test_loss;
  double test_accuracy;  /* from 0 to 1; below 0: there is no test data, or there are no classes */
  const char *tested_on; /* "test", or "validation" (--val-split, or val/ of a folder); NULL: there is no test data */
} ronde_progress;

/* The likeliest classes of one example, the likeliest first, or its values; valid during the call of the hook. */
typedef struct ronde_prediction {
  const char *file; /* that holds the example */
  int64_t index;    /* of the example in the file, from 0 */
  int n;            /* classes that are reported: --top, or all if there are fewer */
  const int64_t *classes;
  const double *probabilities;
  const char *const *names; /* [n], each NULL where the weights do not name their classes */
  int n_values;             /* of networks that tell values; then n is 0 */
  const float *values;      /* [n_values]; of --loss bce the probability of each label */
} ronde_prediction;

/* Callbacks of a job. Each may be NULL. progress and cancel are called by the thread of rank 0. */
typedef struct ronde_hooks {
  ronde_model_fn model;       /* instead of --model */
  const ronde_source *source; /* instead of --data */
  void (*progress)(void *user, const ronde_progress *progress);
  void (*prediction)(void *user, const ronde_prediction *prediction); /* predict: once per example */
  /* Asked once a step or batch. true ends the job with RONDE_E_CANCELLED, after its outputs are written. */
  bool (*cancel)(void *user);
  void *user; /* passed to the callbacks above; a source has its own */
} ronde_hooks;

/* A job blocks until all its ranks have ended, and writes the files that its options name (--out, --save). hooks may be
 * NULL. json_out may be NULL; on success it receives a JSON text, which train also sets for a run that was interrupted. */

/* Trains. The text is run.json ("ronde.run.v1"), described in docs/record.md, or with --dry-run the plan. To resume a run
 * that is complete changes nothing and returns its run.json. Errors: RONDE_E_USAGE if --out holds another run and neither
 * --resume nor --overwrite is given, or if another process writes there. */
RONDE_API ronde_status ronde_train(const ronde_config *config, const ronde_hooks *hooks, char **json_out);
/* Loss and accuracy of the weights --init on --data: on its test examples, or those that --split names. Where there are
 * classes, also: each one's precision, recall and F1, which is taken for which, the calibration of the probabilities, and
 * the most confident mistakes, by file where each example has one; --csv writes them as tables. Where a built-in network
 * tells values: mean absolute error, root mean square error and R2, over all and for each; of --loss bce the accuracy of
 * the labels. */
RONDE_API ronde_status ronde_eval(const ronde_config *config, const ronde_hooks *hooks, char **json_out);
/* Classes with probabilities of each example in --input: images and npy files, named by file, folder or pattern, one a
 * line. If json_out is NULL, only the hook gets the results, and memory does not grow with the examples. */
RONDE_API ronde_status ronde_predict(const ronde_config *config, const ronde_hooks *hooks, char **json_out);

/* ---- predictors: a trained network in memory ----
 * Makes predictions for any number of calls, from any number of threads at once. All calls share the parameters; calls
 * that run at the same time each have working memory of their own, which is kept for later calls. */
typedef struct ronde_predictor ronde_predictor;

/* config: of "predict". --init names the weights and --threads sets the threads of each call (0: all cores; use 1 if
 * several of your threads call at once). --shape and --classes are needed only if the file does not say them, and
 * --normalize works as on the command line. hooks: NULL, or hooks with a model function. With --exec eager it is called in
 * every run, by the thread that runs; what hooks->user points to must then outlive the predictor. Errors: RONDE_E_INPUT if the
 * weights do not fit the network. Destroy a predictor only while no call runs; ronde_predictor_destroy takes NULL. */
RONDE_API ronde_status ronde_predictor_create(const ronde_config *config, const ronde_hooks *hooks,
                                              ronde_predictor **predictor_out);
/* Trains as ronde_train does, and returns the trained network in memory: the weights that --save would write, also if the
 * run was cancelled. *predictor_out is NULL if the training failed, and in every process but that of rank 0. */
RONDE_API ronde_status ronde_train_predictor(const ronde_config *config, const ronde_hooks *hooks,
                                             ronde_predictor **predictor_out, char **json_out);
RONDE_API void ronde_predictor_destroy(ronde_predictor *predictor);
/* y [n][outputs] is the network's output, before any softmax, for x [n][shape], row-major f32: pixels between 0 and 1, or
 * what npy files of the training data hold; it is normalised here as the training data were. Blocks; the first call with a
 * new n also plans the network for that many examples. */
RONDE_API ronde_status ronde_predictor_run(ronde_predictor *predictor, int64_t n, const float *x, float *y_out);
/* Returns the rank of an input example and sets its dimensions. */
RONDE_API int ronde_predictor_shape(const ronde_predictor *predictor, int64_t dims_out[RONDE_MAX_RANK]);
/* The number of values in the output of one example. */
RONDE_API int64_t ronde_predictor_outputs(const ronde_predictor *predictor);
/* The name of class k; NULL if the classes have no names. Owned by the predictor. */
RONDE_API const char *ronde_predictor_class(const ronde_predictor *predictor, int64_t k);
/* The name of the i-th parameter or buffer, as in the safetensors file, and its shape; NULL past the end. rank_out and
 * dims_out may be NULL. */
RONDE_API const char *ronde_predictor_tensor(const ronde_predictor *predictor, int i, int *rank_out,
                                             int64_t dims_out[RONDE_MAX_RANK]);
/* Reads (_get) or replaces (_set) the n values of the tensor `name`, row-major. _set waits until no prediction runs.
 * Errors: RONDE_E_USAGE if there is no such tensor, or if n is not its number of elements. */
RONDE_API ronde_status ronde_predictor_get(ronde_predictor *predictor, const char *name, float *values_out, int64_t n);
RONDE_API ronde_status ronde_predictor_set(ronde_predictor *predictor, const char *name, const float *values,
                                           int64_t n);

/* Writes freshly initialised weights to --output. */
RONDE_API ronde_status ronde_init(const ronde_config *config, const ronde_hooks *hooks, char **json_out);
/* The networks that are built in, with their parameters and FLOPs. name NULL: all of them; otherwise this one, with its
 * tensors; it may be that of an ONNX file. */
RONDE_API ronde_status ronde_models(const char *name, char **json_out);

/* ---- checkpoints ---------------------------------------------------------------------------------------------- */

/* In the three calls below a path is a checkpoint, a file of weights, or the folder of a run, which stands for its newest
 * undamaged checkpoint. (With the option --init a folder stands for the best weights in it: best.safetensors, else
 * last.safetensors, else that checkpoint.) */

/* What a file holds: its tensors and, of a checkpoint, how far the training had come, its options and its data. */
RONDE_API ronde_status ronde_ckpt_info(const char *path, char **json_out);
/* Reads a file, or all checkpoints of a folder, and compares their checksums. Errors: RONDE_E_DIFFERENCE if a checksum
 * differs, RONDE_E_INPUT if a file cannot be read. json_out is set in these cases too. */
RONDE_API ronde_status ronde_ckpt_verify(const char *path, char **json_out);
/* Compares two files tensor by tensor, bit by bit. Errors: RONDE_E_DIFFERENCE, with json_out set, if they differ. */
RONDE_API ronde_status ronde_ckpt_diff(const char *a, const char *b, char **json_out);
/* Writes the parameters and buffers of --init, and nothing else, to --output; with --format onnx the whole network, as an
 * ONNX file. config: of "export". */
RONDE_API ronde_status ronde_export(const ronde_config *config, char **json_out);

/* ---- data sets ------------------------------------------------------------------------------------------------ */

/* Callbacks of a download. Each may be NULL. Called by the thread that downloads. */
typedef struct ronde_data_hooks {
  void (*progress)(void *user, const char *file, int64_t done, int64_t total); /* bytes */
  /* Called regularly. true ends the download with RONDE_E_CANCELLED; the next download continues from there. */
  bool (*cancel)(void *user);
  void *user;
} ronde_data_hooks;

/* The data sets that Ronde knows by name: where their files were found, and how much ronde_data_get would download. */
RONDE_API ronde_status ronde_data_list(char **json_out);
/* What --data holds: examples, shape, classes, hash. config: of "data", here and below. */
RONDE_API ronde_status ronde_data_info(const ronde_config *config, char **json_out);
/* Downloads the files of --data to --output or, without it, to where they will be found. Each file is checked by its
 * SHA-256 and is either complete or absent; files that are there already are left alone. A download that was interrupted
 * continues where it ended. Blocks. hooks may be NULL. */
RONDE_API ronde_status ronde_data_get(const ronde_config *config, const ronde_data_hooks *hooks, char **json_out);
/* Writes --data as npy files (train_x.npy, train_y.npy, test_x.npy, test_y.npy) to the folder --output. */
RONDE_API ronde_status ronde_data_convert(const ronde_config *config, char **json_out);

#ifdef __cplusplus
}
#endif
#endif

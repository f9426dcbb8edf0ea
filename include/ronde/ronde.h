/* Ronde: training of neural networks in C on CPU clusters.
 *
 * This header includes two others: status.h has statuses and the log, graph.h defines networks. Here follow, in reading
 * order, the configuration, one typed table of options that are the same as on the command line; the jobs: train, eval,
 * predict, init; predictors; checkpoints and data sets. What only measurements need is in measure.h.
 *
 * Rules that hold everywhere:
 * - A function that can fail returns a ronde_status, 0 on success. Outputs come last, end in _out, and are set only on
 *   success unless a comment says otherwise.
 * - An error is logged once, in one line, through the log callback, before the function that found it returns.
 * - Shapes are logical and row-major, in PyTorch's order (images are NCHW). The batch dimension comes first and is left
 *   out of the dims of a tensor. Elements are float, but tokens int32_t; labels are int64_t.
 * - Strings and arrays that are passed in are copied unless a comment says otherwise. JSON texts that come out are owned
 *   by the caller, who frees them with free().
 * - The library installs no signal handlers, prints nothing and never ends the process.
 * - Different objects may be used by different threads at the same time, one object by one thread at a time. */
#ifndef RONDE_RONDE_H
#define RONDE_RONDE_H

#include <ronde/graph.h>
#include <ronde/status.h>

#ifdef __cplusplus
extern "C" {
#endif

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

/* A label that counts nowhere: of a place in a sequence that is to be ignored. */
#define RONDE_IGNORED (-1)

/* An input beside the first one. */
typedef struct ronde_source_input {
  const char *name; /* by which ronde_graph_input finds it; not "input", which the first one is called */
  int rank;
  int64_t dims[RONDE_MAX_RANK];
  int64_t vocabulary; /* above 0: it is tokens, int32_t numbers below it; 0: values */
} ronde_source_input;

/* Examples from the caller instead of those of --data. Must stay valid until the job has returned. */

typedef struct ronde_source {
  const char *name;
  int rank;                       /* of one example */
  int64_t dims[RONDE_MAX_RANK];   /* dims of one example */
  int64_t classes;                /* of the labels; 0: the targets are values */
  int64_t target_elems;           /* values per example where classes is 0 */
  int64_t label_elems;            /* labels per example: the steps of a sequence; 0 means 1 */
  int64_t vocabulary;             /* above 0: the input is tokens, numbers below it, and its part of x is int32_t */
  int n_more;                     /* of networks with several inputs: those beside the first one, which the fields above
                                   describe */
  const ronde_source_input *more; /* [n_more] */
  int64_t n_examples[2];          /* by ronde_split; test may be 0 */
  /* Fills x [n][dims; behind them, side by side, the elements of `more`] and labels [n][label_elems] for the examples ids [n] of a split; where classes is 0, targets [n][target_elems]
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
  const char *const
      *value_names; /* [n_values], of the columns of a csv file that they stand in; NULL: they have none */
  const char *text; /* of networks that transcribe, what is said; then n and n_values are 0; else NULL */
} ronde_prediction;

/* Callbacks of a job. Each may be NULL. progress and cancel are called by the thread of rank 0. */
typedef struct ronde_hooks {
  ronde_model_fn model;       /* instead of --model */
  const ronde_source *source; /* instead of --data */
  void (*progress)(void *user, const ronde_progress *progress);
  void (*prediction)(void *user, const ronde_prediction *prediction); /* predict: once per example */
  void (*token)(void *user, int64_t token); /* predict of a text: each token behind the prompt, as it is chosen, */
  void (*text)(void *user, const char *bytes, int64_t n); /* then its n bytes; n may be 0, and no 0 follows */
  /* Asked once a step or batch. true ends the job with RONDE_E_CANCELLED, after its outputs are written. */
  bool (*cancel)(void *user);
  /* With ranks that are processes, once: all of them have joined, and from here on one that is lost is noticed. */
  void (*joined)(void *user);
  /* train with --on-loss restart, once, from the thread of a rank of this process that ends because another was lost: the
   * step that the run went on from, 0: it began anew, and the last one that has ended on this rank. */
  void (*lost)(void *user, int64_t resumed_step, int64_t step);
  /* train, from the thread of rank 0: the workers go on without this one, which is lost. May be told again. */
  void (*left_out)(void *user, int rank);
  /* With ranks that are processes, from a thread of its own: a call of MPI does not come back, which has been logged, and
   * whoever called the job will not get it back either. The process should end, so that the other ranks miss it. */
  void (*stuck)(void *user);
  const char
      *restarts; /* train: what becomes `restarts` in run.json, a JSON array, told by who has restarted the run */
  /* train with ranks that are processes, once, from the thread of rank 0, when all have joined and before --out is looked into:
   * until it returns another run may write there. restarts_out: what `restarts` is to be, valid until the job returns. Any
   * status but RONDE_OK ends the job with it. All ranks have it, or none. */
  ronde_status (*await)(void *user, const char **restarts_out);
  void *user; /* passed to the callbacks above; a source has its own */
} ronde_hooks;

/* A job blocks until all its ranks have ended, and writes the files that its options name (--out, --save). hooks may be
 * NULL. json_out may be NULL; on success it receives a JSON text, which train also sets for a run that was interrupted. */

/* Trains. The text is run.json ("ronde.run.v1"), described in docs/record.md, or with --dry-run the plan. To resume a run
 * that is complete changes nothing and returns its run.json. Errors: RONDE_E_USAGE if --out holds another run and neither
 * --resume nor --overwrite is given, or if another process writes there. */
RONDE_API ronde_status ronde_train(const ronde_config *config, const ronde_hooks *hooks, char **json_out);
/* Loss and accuracy of the weights --init on --data (where none is named, on that of their run): on its test examples, or
 * those that --split names. Where there are classes, also: each one's precision, recall and F1, which is taken for which,
 * the calibration of the probabilities, and the most confident mistakes, by file where each example has one; --csv writes
 * them as tables. Where a built-in network tells values: mean absolute error, root mean square error and R2, over all and
 * for each; of --loss bce the accuracy of the labels. Of sequences of tokens: perplexity, and bits; with --bleu also the
 * BLEU of the examples' translations (bleu), and how many of them are the target byte for byte. Where a network
 * transcribes: word and character error rate of its likeliest classes. */
RONDE_API ronde_status ronde_eval(const ronde_config *config, const ronde_hooks *hooks, char **json_out);
/* Classes with probabilities of each example in --input: images and npy files, named by file, folder or pattern, one a
 * line. If json_out is NULL, only the hook gets the results, and memory does not grow with the examples.
 * Of a network that tells the next token of a text: --tokens tokens behind --prompt, one by one. It sees as many of the last
 * ones as its input has; what it tells at a place must not depend on those behind it. JSON: prompt, text, tokens[].
 * Of a network that translates: the translation of --prompt, until it tells the end, as --beam finds it; the hook is told the
 * token in front of it too, a TAB, and with a beam of several the tokens when all are known. JSON: the same, and complete (whether
 * it told the end), log_probability, score (log_probability by --length-penalty).
 * Of a network that transcribes: the text of each WAV file in --input, by the prediction hook. */
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
/* y [n][outputs] is the network's output, before any softmax, for x [n][shape], row-major f32 (of several inputs each
 * example has theirs side by side, in the order of the data): pixels between 0 and 1, or
 * what npy files of the training data hold, which of tokens is their numbers; it is normalised here as the training data were. Blocks; the first call with a
 * new n also plans the network for that many examples. */
RONDE_API ronde_status ronde_predictor_run(ronde_predictor *predictor, int64_t n, const float *x, float *y_out);
/* Returns the rank of an input example and sets its dimensions; where there are several inputs, of the first one. */
RONDE_API int ronde_predictor_shape(const ronde_predictor *predictor, int64_t dims_out[RONDE_MAX_RANK]);
/* The same of input i, from 0; the name of the input, NULL past the end. rank_out and dims_out may be NULL. */
RONDE_API const char *ronde_predictor_input(const ronde_predictor *predictor, int i, int *rank_out,
                                            int64_t dims_out[RONDE_MAX_RANK]);
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
/* Learns a byte-pair vocabulary of --vocabulary tokens from what text:FILE trains on, the first nine tenths of --data (FILE or text:FILE),
 * and writes it to --output, for --tokenizer. Blocks; cost: for each token, a pass over the distinct words. JSON: file, vocabulary,
 * bytes, tokens, bytes_per_token. */
RONDE_API ronde_status ronde_data_tokenize(const ronde_config *config, char **json_out);
/* Writes --data as npy files (train_x.npy, train_y.npy, test_x.npy, test_y.npy) to the folder --output. */
RONDE_API ronde_status ronde_data_convert(const ronde_config *config, char **json_out);

#ifdef __cplusplus
}
#endif
#endif

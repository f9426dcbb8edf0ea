/* Data sets and loaders. A data set is a ronde_source plus facts about it; every built-in one reads from a decoded
 * cache that all ranks of a host share. A loader belongs to one rank and prefetches on a thread of its own. */
#ifndef RONDE_DATA_H
#define RONDE_DATA_H

#include "base/time.h"
#include "data/masking.h"
#include "kernel/kernel.h"
#include "tensor/tensor.h"

/* The order of dimensions of images in npy files, of rank 4. auto: NCHW, but a shape that looks like NHWC is refused. */
typedef enum ronde__image_layout { RONDE__IMAGE_AUTO, RONDE__IMAGE_NCHW, RONDE__IMAGE_NHWC } ronde__image_layout;

typedef struct ronde__data_options {
  const char *spec; /* NAME or NAME:DIR */
  bool cache;       /* off: each rank decodes the files anew in every epoch, into memory of its own */
  bool normalize;   /* with the set's usual mean and deviation, where it has them */
  bool standardize; /* with `normalize`, of tables: with mean and deviation of each column over the training rows */
  uint64_t seed;    /* of synthetic data */
  int64_t window;   /* text: tokens of an example; pairs: bytes of each text of it */
  int64_t stride;   /* text: from the begin of a window to the next one's, at most `window`; 0: the window */
  const char *tokenizer; /* text: the file of its vocabulary (bpe.h), */
  const char *merges;    /* or what that holds; both NULL: tokens are bytes */
  int64_t frames;        /* audio: of a recording at most; 0: as many as the longest has */
  int64_t classes;       /* 0: the set's largest label + 1; else that many, and a label beyond them is an error, but
                                 not where classes have names: the caller compares these */
  int64_t resize[2];     /* height and width that every image is brought to; 0: as stored */
  ronde__image_layout layout; /* npy */
  bool skip_bad_images;       /* folder: leave out images that cannot be read, instead of an error */
  bool prefers_val;           /* folder: of DIR/test and DIR/val the latter is the test split */
  bool any_split;             /* folder: no warning where there are no test examples */
  const struct ronde__normalization *normalization; /* instead of the usual; NULL, or channels 0: none */
  const struct ronde__columns_options *columns;     /* csv; else NULL */
  bool crop, flip; /* loaders change training images at random, drawn by the seed: see transform.h */
} ronde__data_options;

/* Of a spec, which may be NULL: whether it is npy:DIR, arrays in one of several orders; csv:FILE, columns with names; or
 * folder:DIR, files of images; or text:FILE or pairs:FILE, which --window is for; or audio:DIR, recordings. */
bool ronde__data_is_of_arrays(const char *spec);
bool ronde__data_is_of_columns(const char *spec);
bool ronde__data_is_of_images(const char *spec);
bool ronde__data_has_window(const char *spec);
bool ronde__data_is_of_recordings(const char *spec);

/* Whether it is text:FILE, which a vocabulary is for. */
bool ronde__data_is_of_text(const char *spec);

#define RONDE__INPUT_NAME_BYTES 64 /* of an input beside the first, with the 0 behind it */
#define RONDE__NORMALIZED_MAX 512  /* channels, or columns, that may have a mean and a deviation of their own */

/* y = (x - mean) / deviation by channel, for pixels x in 0..1, or what is stored as f32. */
typedef struct ronde__normalization {
  int channels; /* 0: none is applied; 1: the same for all */
  float mean[RONDE__NORMALIZED_MAX], deviation[RONDE__NORMALIZED_MAX];
} ronde__normalization;

/* A set that is open. `source` reads decoded, normalised examples; with cache off its first read of a split decodes
 * that split, which is then kept until the set is closed (evaluation needs it; loaders decode for themselves). */
typedef struct ronde__data {
  ronde_source source;
  ronde__normalization normalization; /* that read applies */
  int64_t n_beyond_unit;              /* target values outside of 0..1 */
  bool is_one_hot;                    /* each example's targets are one 1 and zeros */
  int64_t n_skipped;                  /* images, pairs of texts or recordings that were left out */
  bool test_is_val;                   /* the test split is a folder's val/: these are validation examples */
  bool has_other_val;                 /* the folder has a val/ beside the test/ that is the test split */
  bool augments;                      /* loaders read training examples as an epoch sees them */
  ronde__masking masking;             /* that is applied to what is read; by read as in epoch 0 */
  int32_t *counted[2];  /* of examples with several labels, how many each has that count [n]; NULL: all of them */
  char sha256[65];      /* of the decoded train images as stored, NCHW, then int64 labels, file order; "": unknown */
  char test_sha256[65]; /* the same of the test images; "": also where there are none */
  void *impl;
} ronde__data;

/* Errors: RONDE_E_INPUT with file and offset, RONDE_E_USAGE for an unknown NAME. */
ronde_status ronde__data_open(const ronde__data_options *options, ronde__data **data_out);
/* The same around a caller's source, which is copied; what it points to must outlive the set. */
ronde_status ronde__data_wrap(const ronde_source *source, ronde__data **data_out);
void ronde__data_close(ronde__data *data);
/* From now on a share of the tokens is hidden and to be told, in place of the labels that are stored; of these only those that
 * are ignored matter, whose places are left alone. token 0: the number behind the vocabulary. The classes become the
 * vocabulary, which is at least `classes`. Call it before anything is read. Errors: RONDE_E_USAGE where not every token has
 * a label. */
ronde_status ronde__data_mask(ronde__data *data, double share, int64_t token, int64_t classes, uint64_t seed);
/* Of recordings: from now on the labels of an example are an input too, `text`, tokens of as many numbers as there are classes, 0 behind
 * the last one. Call it before anything is read, but behind ronde__data_relabel. Other data are left as they are. */
void ronde__data_tell_text(ronde__data *data);
/* Reads from the source and checks the labels: RONDE_E_INPUT where one is not within the classes. Where a caller's
 * function fails, the line is logged here. */
ronde_status ronde__data_read(const ronde__data *data, ronde_split split, const int64_t *ids, int64_t n, float *x,
                              int64_t *labels, float *targets);

/* Of an example's row: of all its inputs. */
int64_t ronde__source_elems(const ronde_source *source);
/* Labels of an example; 0: it has targets. */
static inline int64_t ronde__source_labels(const ronde_source *source) {
  return source->classes > 0 ? ronde__max(1, source->label_elems) : 0;
}
/* Whether examples are classified, so that there is an accuracy; of sequences only the loss is told. */
static inline bool ronde__source_classifies(const ronde_source *source) {
  return source->classes > 0 && source->label_elems == 0;
}
/* What a label of these examples counts for (graph.h): as many as they are, divided by their labels that count. ids NULL:
 * 0..n-1. */
float ronde__data_label_weight(const ronde__data *data, ronde_split split, const int64_t *ids, int64_t n);

/* Of one example as it is read: inputs, and labels or targets. */
int64_t ronde__data_example_bytes(const ronde__data *data);

/* A split as it is stored; of sets that were opened with a cache and not resized on the way. */
typedef struct ronde__stored {
  bool f32;              /* else u8 */
  const void *x;         /* [n][dims]; NULL: there are no examples */
  bool are_tokens;       /* int32, else u8, in place of f32 */
  const int64_t *labels; /* [n][label_elems] */
  const float *targets;  /* [n][target_elems] of the source, where it has these in place of labels */
} ronde__stored;
ronde__stored ronde__data_stored(const ronde__data *data, ronde_split split);
/* The labels of all training examples as they are stored: labels_out [n]. A caller's source is read whole for them. */
ronde_status ronde__data_labels(const ronde__data *data, int64_t *labels_out);
/* The name of a class, NULL where it has none; and how many have one. */
const char *ronde__data_class_name(const ronde__data *data, int64_t label);
int64_t ronde__data_class_names(const ronde__data *data);
/* What the tokens of a text are (bpe.h), owned by the set; NULL: bytes, or there is no text. */
const struct ronde__bpe *ronde__data_vocabulary(const ronde__data *data);
/* What the columns of a csv file are, for a file of weights (columns.h), to be freed; NULL where the data are no such. */
char *ronde__data_columns(const ronde__data *data);
/* Whether the classes are what a csv file has as integers. */
bool ronde__data_has_integer_classes(const ronde__data *data);
/* The file that holds an example, and nothing else; NULL where there is none, or where images were left out. */
const char *ronde__data_example_file(const ronde__data *data, ronde_split split, int64_t id);
/* Renumbers the classes: from now on label k of the set is label_of[k] (one for each class that has a name) among
 * `classes`, of which the first n_names have `names`. Call it before anything is read. What is stored, and its hash,
 * does not change. All arguments are copied. */
ronde_status ronde__data_relabel(ronde__data *data, const int64_t *label_of, const char *const *names, int64_t n_names,
                                 int64_t classes);

/* ---- which examples, in which order ----------------------------------------------------------------------------
 * The list of global batches is a function of these fields and of nothing else. A step takes
 * the next `batch` of the epoch's ids; the last one of an epoch is short, or dropped. */
typedef struct ronde__sampler_options {
  int64_t n_train;  /* examples in the set */
  int64_t repeat;   /* the set concatenated with itself */
  double val_split; /* this fraction (rounded down) of the set, drawn by the seed, is kept out for validation */
  int64_t n_drawn;  /* train on so many, drawn by the seed; 0: on all but the validation examples; not both */
  int64_t batch;    /* global */
  bool shuffle, drop_last;
  uint64_t seed;
  const int64_t
      *labels; /* [n_train], only read by create: each class keeps its share on both sides; NULL: not looked at */
  /* [n_train], must outlive the sampler: shuffled batches are of examples of similar length, and contiguous parts of one
   * have nearly equal lengths; NULL: they are drawn from all */
  const int32_t *lengths;
} ronde__sampler_options;

typedef struct ronde__sampler ronde__sampler; /* immutable, shared by ranks and threads */
ronde_status ronde__sampler_create(const ronde__sampler_options *options, ronde__sampler **sampler_out);
void ronde__sampler_destroy(ronde__sampler *sampler);
int64_t ronde__sampler_epoch_examples(const ronde__sampler *sampler); /* after val_split, repeat, drop_last */
int64_t ronde__sampler_epoch_batches(const ronde__sampler *sampler);
int64_t ronde__sampler_batch(const ronde__sampler *sampler);
/* The ids that are held out, ascending; owned by the sampler. */
const int64_t *ronde__sampler_validation(const ronde__sampler *sampler, int64_t *n_out);
/* The order of an epoch (from 1): ids [epoch_examples], owned by the caller. Errors: RONDE_E_MEMORY. */
ronde_status ronde__sampler_epoch(const ronde__sampler *sampler, int64_t epoch, int64_t *ids_out);

/* ronde__data_label_weight of n batches of an epoch (from 1), the first of which is `index`. ids: memory for an epoch's, and of which epoch
 * they are, 0 at first; made where they are needed. */
typedef struct ronde__epoch_ids {
  int64_t *ids, epoch;
} ronde__epoch_ids;
ronde_status ronde__sampler_label_weight(const ronde__sampler *sampler, const ronde__data *data, int64_t epoch,
                                         int64_t index, int64_t n, ronde__epoch_ids *ids, float *weight_out);

/* ---- loader ------------------------------------------------------------------------------------------------------ */

typedef struct ronde__batch {
  int64_t epoch, index;  /* from 1; index within the epoch, from 0 */
  int64_t global_n;      /* examples of the global batch */
  int64_t n;             /* of this rank; may be 0 */
  const float *x;        /* [n][ronde__source_elems], ROWS */
  const int64_t *labels; /* [n][label_elems], where the source has classes */
  const float *targets;  /* [n][target_elems], where it has not */
} ronde__batch;

typedef struct ronde__loader_options {
  ronde__data *data;
  const ronde__sampler *sampler;
  int rank, world;
  bool whole;                       /* read every global batch whole and use the own part of it */
  int prefetch;                     /* batches ahead; 0: read when asked */
  int keep;                         /* batches that can be had again; 0 is taken for 1 */
  ronde__time *time;                /* of the rank */
  int64_t first_epoch, first_index; /* where to start; epoch 0 is taken for 1 */
  uint64_t delay_ns;                /* sleep this long before each batch */
  bool sizes_alone;                 /* read nothing: batches are their sizes */
} ronde__loader_options;

/* A data set opened with cache off is decoded by the loader's rank at the start of each epoch: see ronde__data_open. */
typedef struct ronde__loader ronde__loader;
ronde_status ronde__loader_create(const ronde__loader_options *options, ronde__loader **loader_out);
void ronde__loader_destroy(ronde__loader *loader);
/* What it will allocate, but for the examples that it decodes into memory of its own where the set has no cache. */
int64_t ronde__loader_bytes(const ronde__loader_options *options);
/* The next batch of this rank: its shard of the global batch, which is contiguous (ronde__shard_begin). Blocks until
 * it is read; valid until `keep` others have been taken. Continues into the next epoch, without end. */
ronde_status ronde__loader_next(ronde__loader *loader, ronde__batch *batch_out);
/* The last n batches that were taken come once more, in their order: n of at most `keep`, none of them skipped. */
void ronde__loader_again(ronde__loader *loader, int n);
/* Skips the next batch. It is not read, unless reading has begun. Does not block. */
ronde_status ronde__loader_skip(ronde__loader *loader);

/* ---- single inputs, for predict ---------------------------------------------------------------------------------- */

/* Whether this build reads PNG, and JPEG. */
bool ronde__image_supported(void);
bool ronde__jpeg_supported(void);
/* Resizes n planes of f32: replaces *x, which was allocated by ronde__alloc. */
ronde_status ronde__planes_resize(int64_t n, const int64_t from[2], const int64_t to[2], float **x);
struct ronde__scaling;

/* The inputs of a npy file, read some at a time: images, shape C, H, W (a 3-d array is N, H, W with one channel), or of a
 * 2-d array the rows of a table, shape F. The whole file is measured when it is opened. Errors: RONDE_E_INPUT. */
typedef struct ronde__npy_inputs ronde__npy_inputs;
ronde_status ronde__npy_inputs_open(const char *path, ronde__image_layout layout, int64_t *n_out,
                                    ronde__shape *shape_out, ronde__npy_inputs **inputs_out);
/* What is stored for a 1: 255 of uint8, 1 of floats. */
float ronde__npy_inputs_unit(const ronde__npy_inputs *inputs);
/* The next n of them, which must be there, scaled (normalization.h), as f32 [n][shape]. */
ronde_status ronde__npy_inputs_next(ronde__npy_inputs *inputs, int64_t n, const struct ronde__scaling *scaling,
                                    float *x);
void ronde__npy_inputs_close(ronde__npy_inputs *inputs); /* NULL is taken */

#endif

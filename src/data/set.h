/* The interface between file formats and the cache: a set is found and measured first (scan), then its examples are
 * decoded (fill) into memory of the measured size. */
#ifndef RONDE_SET_H
#define RONDE_SET_H

#include "data/data.h"
#include "data/stream.h"

/* Only 64-bit fields: written to the cache as it stands. Arrays of two are by ronde_split. */
typedef struct ronde__facts {
  int64_t dims[3];      /* C, H, W; of a row of a table: its columns, 1, 1 */
  int64_t is_table;     /* examples are vectors */
  int64_t target_elems; /* values that belong to an example, in place of a label; 0: it has a label */
  int64_t label_elems;  /* labels of an example, which may be RONDE_IGNORED; 0: one, which may not */
  int64_t f32;          /* elements are f32, else u8; of tokens int32, else u8 */
  int64_t mels;         /* recordings: rows of [mels][frames], and the number of frames that are there; 0: none */
  int64_t are_tokens;   /* elements are numbers of a vocabulary; then examples are vectors too */
  int64_t n[2];
  int64_t n_skipped;       /* of both splits: images that cannot be read, or texts or recordings that are too long */
  int64_t largest_label;   /* of both splits; set once they are decoded */
  int64_t largest_token;   /* the same of inputs that are tokens */
  int64_t n_beyond_unit;   /* targets outside of 0..1; counted in the same way */
  int64_t n_one_hot;       /* examples of several targets, of which one is 1 and the others are 0; in the same way */
  int64_t label_offset[2]; /* where labels begin in their file, and the bytes of each: to say where a wrong one is */
  int64_t label_bytes[2];
  int64_t note_bytes; /* csv: of what is known of the columns, as text with a 0 behind it; else 0 */
} ronde__facts;

static inline int64_t ronde__facts_elems(const ronde__facts *facts) {
  return facts->dims[0] * facts->dims[1] * facts->dims[2];
}

/* Labels of an example, or 0 where it has target values. */
static inline int64_t ronde__facts_labels(const ronde__facts *facts) {
  return facts->target_elems ? 0 : ronde__max(1, facts->label_elems);
}

typedef struct ronde__set ronde__set;

typedef struct ronde__set_kind {
  /* Facts from headers, every claim checked against what the files hold. */
  ronde_status (*scan)(const ronde__set *set, ronde__facts *facts_out);
  /* Decodes one split: x [n][C][H][W] u8, f32 or int32, and labels [n][label_elems], or where the facts have these targets
   * [n][target_elems]; the other is NULL. Refuses files that are no longer as scanned. */
  ronde_status (*fill)(const ronde__set *set, const ronde__facts *facts, ronde_split split, void *x, int64_t *labels,
                       float *targets);
} ronde__set_kind;

extern const ronde__set_kind ronde__idx_kind, ronde__npy_kind, ronde__csv_kind, ronde__cifar10_kind,
    ronde__cifar100_kind, ronde__folder_kind, ronde__synthetic_kind, ronde__text_kind, ronde__pairs_kind,
    ronde__audio_kind;

/* Paths, in the order in which they are read. */
typedef struct ronde__files {
  char **path;    /* [n] */
  int64_t *label; /* [n], or NULL where the files have theirs inside */
  int64_t n;
} ronde__files;

/* Takes over path; NULL: there was no memory for it. */
ronde_status ronde__files_add(ronde__files *files, char *path, int64_t label);
void ronde__files_release(ronde__files *files);

struct ronde__set {
  const ronde__set_kind *kind;
  char *name;
  char *x_path[2], *y_path[2]; /* NULL: the split is absent, generated, or in files */
  ronde__files files[2];       /* of kinds whose files hold images with their labels */
  int64_t classes;             /* 0: as the labels say */
  int64_t class_limit;         /* 0: none; labels from here on are wrong, unless the user gives a number of classes */
  ronde__normalization normalization;
  ronde__image_layout layout; /* npy only */
  /* csv only: what the columns are; scan finds out what of it is open */
  struct ronde__columns *columns;
  /* folder only */
  char *other_val;  /* DIR/val, where DIR/test is there too and is the test split; else NULL */
  bool test_is_val; /* the test split is DIR/val */
  ronde__files class_names;
  int64_t resize[2];      /* height and width of all images; 0: as they are */
  bool skip_bad;          /* leave out images that cannot be read */
  struct ronde__bpe *bpe; /* text: what its tokens are, owned; NULL: bytes */
  int64_t
      window; /* text: tokens of an example; pairs: of a source, and of a target, with its end; audio: frames at most, 0: as
                         the longest has */
  int64_t stride; /* text: tokens from the begin of a window to the next one's, 1..window */
  /* synthetic only */
  uint64_t seed;
  int64_t dims[3], n[2];
};

#define RONDE__LABEL_MAX 999999 /* no set has more classes than --classes takes */

/* How far apart the windows of a text begin. Others are left alone. */
ronde_status ronde__text_take_stride(const ronde__data_options *options, ronde__set *set);
/* Reads the vocabulary that the options have for a text; its tokens are the classes. Others are left alone. */
ronde_status ronde__text_take_vocabulary(const ronde__data_options *options, ronde__set *set);
/* The bytes of a text file that the train split is made of, to be freed by ronde__free. */
ronde_status ronde__text_train_bytes(const char *path, char **bytes_out, int64_t *n_out);

/* ---- formats, over any stream ---------------------------------------------------------------------------------- */

typedef struct ronde__idx {
  int rank;
  int64_t dim[3];
} ronde__idx;

/* The header of a u8 IDX file of this rank (1 or 3), checked against what the stream holds. */
ronde_status ronde__idx_scan(ronde__stream *stream, int rank, ronde__idx *idx_out);
/* The bytes behind the header, which must be the one that was scanned. */
ronde_status ronde__idx_read(ronde__stream *stream, const ronde__idx *idx, uint8_t *to);
int64_t ronde__idx_data_offset(const ronde__idx *idx);

typedef struct ronde__npy {
  char type; /* 'f', 'i', 'u' */
  int item_bytes;
  int rank;
  int64_t dim[RONDE_MAX_RANK];
  int64_t n_items, data_offset;
} ronde__npy;

/* The header of a little-endian C-order npy file, checked against what the stream holds. */
ronde_status ronde__npy_scan(ronde__stream *stream, ronde__npy *npy_out);
/* Goes to the first item of a file that must be as scanned. */
ronde_status ronde__npy_begin(ronde__stream *stream, const ronde__npy *npy);
/* The next n items, of which the first is item `first`, f32 or u8, as they are; f32 that are NaN or Inf are refused. */
ronde_status ronde__npy_take(ronde__stream *stream, const ronde__npy *npy, int64_t first, int64_t n, void *to);
/* The same of f32 or f64 items as f32; those that are NaN or Inf, or become so, are refused. */
ronde_status ronde__npy_take_f32(ronde__stream *stream, const ronde__npy *npy, int64_t first, int64_t n, float *to);
/* All of them, and nothing may follow. */
ronde_status ronde__npy_read_f32(ronde__stream *stream, const ronde__npy *npy, float *to);
/* Integer items as labels in 0..RONDE__LABEL_MAX. */
ronde_status ronde__npy_read_labels(ronde__stream *stream, const ronde__npy *npy, int64_t *labels);
/* The same of sequences, where -1 and -100 (PyTorch's ignore_index) become RONDE_IGNORED. */
ronde_status ronde__npy_read_sequences(ronde__stream *stream, const ronde__npy *npy, int64_t *labels);
/* Integer items as tokens in 0..RONDE__LABEL_MAX. */
ronde_status ronde__npy_read_tokens(ronde__stream *stream, const ronde__npy *npy, int32_t *tokens);

/* A CIFAR file is a row of records: a label of 1 byte (CIFAR-100: 2, of which the second, the fine one, counts), then
 * 3x32x32 pixels. How many records the stream holds, which must be whole ones. */
ronde_status ronde__cifar_scan(ronde__stream *stream, int label_bytes, int64_t *n_out);
/* n records, all that the stream holds; labels from 0 to classes - 1. */
ronde_status ronde__cifar_read(ronde__stream *stream, int label_bytes, int classes, int64_t n, uint8_t *x,
                               int64_t *labels);

/* The class folders and image files below DIR. */
ronde_status ronde__folder_find(const char *dir, ronde__set *set);
/* Where DIR has both test/ and val/: uses val/ from now on. */
ronde_status ronde__folder_take_val(ronde__set *set);

/* The pixels of an image, from memory; errors are said. */
ronde_status ronde__image_decode(const char *name, const void *data, size_t bytes, int channels, int64_t *h_out,
                                 int64_t *w_out, uint8_t **pixels_out);

#endif

/* What the columns of a table in comma-separated text are: which are inputs, as numbers or as categories, and which is
 * the target. Found out from a training file, kept with the weights, found again by name in other files. */
#ifndef RONDE_COLUMNS_H
#define RONDE_COLUMNS_H

#include "data/csv.h"

enum {
  RONDE__CATEGORIES_MAX = 256,   /* of a column */
  RONDE__CATEGORY_BYTES = 256,   /* of a category's or class's name */
  RONDE__CSV_CLASSES_MAX = 1000, /* of a target */
  RONDE__CSV_WIDTH_MAX = 1 << 20 /* inputs of a row */
};

/* An input: a number, or categories as one of n, in their order (ronde__category_order). */
typedef struct ronde__column {
  char *name;
  char **category;      /* [n_categories] */
  int64_t n_categories; /* 0: it is a number */
} ronde__column;

typedef struct ronde__columns {
  char *wanted;            /* --target, or NULL: as the weights say */
  char *ignored;           /* names that are not looked at, comma-separated, or NULL */
  bool are_values;         /* the user says that the target is values */
  bool has_inputs;         /* the inputs are known, */
  bool has_targets;        /* and so is what the target is */
  const char *source;      /* whose they are, for messages: a file of weights; else NULL */
  ronde__column *input;    /* [n_inputs], in the order of the network's */
  int64_t n_inputs, width; /* width: values of a row */
  char **target;           /* [n_targets] */
  int64_t n_targets;
  bool are_classes;  /* the target is the names of classes, */
  char **class_name; /* [n_classes], in their order, those of the data at hand */
  int64_t n_classes;
} ronde__columns;

/* What is known of the columns before a file is looked at. */
typedef struct ronde__columns_options {
  const char *target;  /* names of columns, comma-separated, or NULL */
  const char *ignored; /* the same of columns that are not looked at */
  bool are_values;     /* numbers of the target are values, not classes */
  const char *known;   /* what ronde__columns_text has said of the training data, or NULL */
  const char *source;  /* which file says so; borrowed */
  bool renames;        /* `target` only says what the known target is called here */
} ronde__columns_options;

/* RONDE_E_INPUT where what is known makes no sense. */
ronde_status ronde__columns_create(const ronde__columns_options *options, ronde__columns **columns_out);
void ronde__columns_destroy(ronde__columns *columns); /* NULL is taken */

/* columns_json.c: all that is known as text, to be freed; NULL: no memory. with_classes: their names too. */
char *ronde__columns_text(const ronde__columns *columns, bool with_classes);
/* Takes what such a text says. */
ronde_status ronde__columns_take(ronde__columns *columns, const char *text, const char *source);
/* Forgets it again. */
void ronde__columns_clear(ronde__columns *columns);
/* Whether the bytes are UTF-8, as a text that is kept must be. */
bool ronde__is_utf8(const char *text);

/* Whether the classes are integers; false: there are none. */
bool ronde__columns_have_integers(const ronde__columns *columns);
/* Integers by value, then texts by their bytes. */
int ronde__category_order(const void *a, const void *b); /* const char ** */

/* Reads the training file whole: what is open becomes known, and so are the classes. *n_out: its rows. */
ronde_status ronde__columns_infer(ronde__columns *columns, ronde__stream *stream, int64_t *n_out);

/* ---- rows of a file whose columns are known ---- */

typedef struct ronde__rows ronde__rows;

/* Finds the columns by name in the first line. with_target: it must be there; else it is not looked at. tells: logs a line
 * about columns that are not used. Stream and columns must outlive the rows. */
ronde_status ronde__rows_open(const ronde__columns *columns, ronde__stream *stream, bool with_target, bool tells,
                              ronde__rows **rows_out);
void ronde__rows_close(ronde__rows *rows); /* NULL is taken */
/* One row: x [width]; label where the target is a class, else targets [n_targets]; NULL: not wanted. With no x the row is
 * only counted. *any_out false: there is none left. */
ronde_status ronde__rows_next(ronde__rows *rows, float *x, int64_t *label, float *targets, bool *any_out);

#endif

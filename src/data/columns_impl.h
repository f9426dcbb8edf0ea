/* What the files about columns share: the meaning of a field, and the rows of a file that is open. */
#ifndef RONDE_COLUMNS_IMPL_H
#define RONDE_COLUMNS_IMPL_H

#include "data/columns.h"

/* csv_value.c */
/* BEYOND: a number that no f32 holds. */
typedef enum ronde__meaning {
  RONDE__FIELD_MISSING,
  RONDE__FIELD_INTEGER,
  RONDE__FIELD_NUMBER,
  RONDE__FIELD_BEYOND,
  RONDE__FIELD_TEXT
} ronde__meaning;

/* *value_out: of a number. */
ronde__meaning ronde__csv_meaning(const ronde__csv_field *field, float *value_out);
/* An integer of at most 18 digits. */
bool ronde__csv_is_integer(const char *text);

/* What a column of a file is used for. */
typedef struct ronde__place {
  enum { RONDE__PLACE_UNUSED, RONDE__PLACE_IGNORED, RONDE__PLACE_INPUT, RONDE__PLACE_TARGET } use;
  int64_t index; /* of the input, or target */
  int64_t at;    /* of an input: its first value in a row */
} ronde__place;

struct ronde__rows {
  const ronde__columns *columns;
  ronde__stream *stream;
  ronde__csv *csv;
  char **name;         /* [n] */
  ronde__place *place; /* [n] */
  int64_t n;
  bool with_target;
};

/* RONDE_E_INPUT: file, line, column i and its name, then the reason. */
ronde_status ronde__rows_fail(const ronde__rows *rows, const ronde__csv_field *field, int64_t i, const char *format,
                              ...) __attribute__((format(printf, 4, 5)));
ronde_status ronde__rows_fail_missing(const ronde__rows *rows, const ronde__csv_field *field, int64_t i);
/* The next record, of as many fields as there are columns; *n_out 0: there is none. */
ronde_status ronde__rows_record(ronde__rows *rows, const ronde__csv_field **fields_out, int64_t *n_out);
static inline const char *ronde__rows_file(const ronde__rows *rows) { return ronde__stream_name(rows->stream); }

#endif

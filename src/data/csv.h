/* Records of comma-separated text, one after the other, in memory that is bounded by the longest record. */
#ifndef RONDE_CSV_H
#define RONDE_CSV_H

#include "data/stream.h"

enum {
  RONDE__CSV_FIELD_MAX = 1 << 20,  /* bytes of a field, */
  RONDE__CSV_RECORD_MAX = 1 << 24, /* of all fields of a record, */
  RONDE__CSV_FIELDS_MAX = 1 << 16  /* and how many these may be */
};

typedef struct ronde__csv_field {
  const char *text; /* [n], and a 0 behind it; none within */
  size_t n;
  int64_t line; /* where it begins, from 1 */
  bool quoted;
} ronde__csv_field;

typedef struct ronde__csv ronde__csv;

/* Reads from the stream's start; the stream must outlive the reader. */
ronde_status ronde__csv_open(ronde__stream *stream, ronde__csv **csv_out);
void ronde__csv_close(ronde__csv *csv); /* NULL is taken */
/* The next record, valid until the next call; *n_out 0: the file has ended. RONDE_E_INPUT names file, line and column.
 * Blanks around a field are no part of it, unless they are in quotes. Empty lines may end the file, no more. */
ronde_status ronde__csv_next(ronde__csv *csv, const ronde__csv_field **fields_out, int64_t *n_out);

#endif

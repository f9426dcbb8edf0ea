/* A set of comma-separated files: one, or train.csv and test.csv of a folder. Each is read in two passes, one for its rows
 * and, of training, what its columns are, and one for the values. */
#include "data/columns.h"
#include "data/set.h"

#include <stdlib.h>
#include <string.h>

/* Reads a file whose columns are known to its end, to count its rows. */
static ronde_status count_rows(const ronde__columns *columns, ronde__stream *stream, int64_t *n_out) {
  ronde__rows *rows;
  bool any = true;
  int64_t n = 0;
  RONDE_TRY(ronde__rows_open(columns, stream, true, true, &rows));
  ronde_status status = RONDE_OK;
  while (status == RONDE_OK && any) {
    status = ronde__rows_next(rows, NULL, NULL, NULL, &any);
    n += status == RONDE_OK && any;
  }
  ronde__rows_close(rows);
  *n_out = n;
  return status;
}

static ronde_status csv_scan_split(const ronde__set *set, int split, int64_t *n_out) {
  ronde__stream *stream;
  RONDE_TRY(ronde__stream_open(set->x_path[split], &stream));
  ronde_status status = split == RONDE_SPLIT_TRAIN ? ronde__columns_infer(set->columns, stream, n_out)
                                                   : count_rows(set->columns, stream, n_out);
  ronde__stream_close(stream);
  return status;
}

static ronde_status csv_scan(const ronde__set *set, ronde__facts *facts_out) {
  ronde__facts facts = {.is_table = 1, .f32 = 1, .dims = {0, 1, 1}};
  for (int split = 0; split < 2; ++split)
    if (set->x_path[split]) RONDE_TRY(csv_scan_split(set, split, &facts.n[split]));
  facts.dims[0] = set->columns->width;
  facts.target_elems = set->columns->are_classes ? 0 : set->columns->n_targets;
  char *note = ronde__columns_text(set->columns, true);
  if (!note) return ronde__fail(RONDE_E_MEMORY, "%s: no memory for its columns", set->name);
  facts.note_bytes = (int64_t)strlen(note) + 1;
  free(note);
  *facts_out = facts;
  return RONDE_OK;
}

static ronde_status csv_fill_rows(ronde__rows *rows, const ronde__facts *facts, int64_t n, const char *path, float *x,
                                  int64_t *labels, float *targets) {
  bool any = true;
  for (int64_t i = 0; i < n && any; ++i)
    RONDE_TRY(ronde__rows_next(rows, x + i * facts->dims[0], labels ? labels + i : NULL,
                               targets ? targets + i * facts->target_elems : NULL, &any));
  bool is_short = !any;
  if (any) RONDE_TRY(ronde__rows_next(rows, NULL, NULL, NULL, &any));
  return is_short || any ? ronde__fail(RONDE_E_INPUT, "%s: the file changed while it was in use", path) : RONDE_OK;
}

static ronde_status csv_fill(const ronde__set *set, const ronde__facts *facts, ronde_split split, void *x,
                             int64_t *labels, float *targets) {
  ronde__stream *stream;
  ronde__rows *rows = NULL;
  RONDE_TRY(ronde__stream_open(set->x_path[split], &stream));
  ronde_status status = ronde__rows_open(set->columns, stream, true, false, &rows);
  if (status == RONDE_OK) status = csv_fill_rows(rows, facts, facts->n[split], set->x_path[split], x, labels, targets);
  ronde__rows_close(rows);
  ronde__stream_close(stream);
  return status;
}

const ronde__set_kind ronde__csv_kind = {csv_scan, csv_fill};

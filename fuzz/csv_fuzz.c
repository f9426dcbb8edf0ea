/* Comma-separated tables: the first line of the input says what is asked for, the rest is the file. What is accepted can
 * be read whole, and what is kept of its columns says the same again. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/columns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds) {
  if (!holds) abort();
}

static void read_again(const ronde__columns *columns, ronde__stream *stream, int64_t n) {
  ronde__rows *rows;
  bool any = true;
  int64_t n_read = 0, label = 0;
  float *x = calloc((size_t)columns->width, sizeof *x), *targets = calloc((size_t)columns->n_targets, sizeof *targets);
  require(x && targets && ronde__rows_open(columns, stream, true, false, &rows) == RONDE_OK);
  while (any) {
    bool are_classes = columns->are_classes;
    require(ronde__rows_next(rows, x, are_classes ? &label : NULL, are_classes ? NULL : targets, &any) == RONDE_OK);
    n_read += any;
    for (int64_t i = 0; i < columns->width; ++i) require(isfinite(x[i]));
    for (int64_t i = 0; i < columns->n_targets; ++i) require(isfinite(targets[i]));
    require(label >= 0 && (!any || !are_classes || label < columns->n_classes));
  }
  require(n_read == n);
  ronde__rows_close(rows);
  free(x);
  free(targets);
}

static void keep(const ronde__columns *columns) {
  ronde__columns *kept = NULL;
  char *text = ronde__columns_text(columns, true);
  require(text && ronde__columns_create(&(ronde__columns_options){.known = text, .source = "kept"}, &kept) == RONDE_OK);
  require(kept->width == columns->width && kept->n_classes == columns->n_classes);
  ronde__columns_destroy(kept);
  free(text);
}

/* Also as what is kept of columns. */
static void take(const char *text) {
  ronde__columns *columns;
  if (ronde__columns_create(&(ronde__columns_options){.known = text, .source = "fuzz"}, &columns) != RONDE_OK) return;
  keep(columns);
  ronde__columns_destroy(columns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = malloc(size + 1), *end;
  require(text != NULL);
  if (size) memcpy(text, data, size);
  text[size] = '\0';
  take(text);
  end = memchr(text, '\n', size);
  if (end && end > text) {
    *end = '\0';
    ronde__columns *columns;
    ronde__stream *stream;
    int64_t n;
    ronde__columns_options options = {.target = text + (*text == '='), .are_values = *text == '='};
    require(ronde__columns_create(&options, &columns) == RONDE_OK);
    if (ronde__stream_open_memory("input", end + 1, size - (size_t)(end + 1 - text), &stream) == RONDE_OK) {
      if (ronde__columns_infer(columns, stream, &n) == RONDE_OK) {
        read_again(columns, stream, n);
        keep(columns);
      }
      ronde__stream_close(stream);
    }
    ronde__columns_destroy(columns);
  }
  free(text);
  return 0;
}

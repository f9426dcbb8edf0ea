/* Recorded spans as a file: JSON of the schema ronde.spans.v1. */
#ifndef RONDE_SPANS_FILE_H
#define RONDE_SPANS_FILE_H

#include "graph/spans.h"
#include "base/base.h"

/* Whole or not at all. RONDE_E_WRITE. */
ronde_status ronde__spans_write(const ronde__spans *spans, const char *path);
/* RONDE_E_INPUT names the file, and what of it is not as it should be. */
ronde_status ronde__spans_read(const char *path, ronde__spans **spans_out);
/* The same of a text; name: for errors. */
ronde_status ronde__spans_parse(const char *name, const char *text, size_t bytes, ronde__spans **spans_out);

#endif

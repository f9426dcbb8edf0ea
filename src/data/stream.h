/* The bytes of a file or of memory, decompressed where they begin like gzip. Every parser of data files reads from a
 * stream, so that fuzzers and tests can pass it bytes without a file. */
#ifndef RONDE_STREAM_H
#define RONDE_STREAM_H

#include "base/base.h"

typedef struct ronde__stream ronde__stream;

/* Errors of all: RONDE_E_INPUT, one line with the name, the offset and the reason. */
ronde_status ronde__stream_open(const char *path, ronde__stream **stream_out);
/* name: for error lines; data must outlive the stream. */
ronde_status ronde__stream_open_memory(const char *name, const void *data, size_t bytes, ronde__stream **stream_out);
void ronde__stream_close(ronde__stream *stream);

const char *ronde__stream_name(const ronde__stream *stream);
/* Of the next byte, decompressed. */
int64_t ronde__stream_offset(const ronde__stream *stream);
/* Measures how many bytes there are, decompressed, and leaves the stream at its start. gzip is decompressed to its
 * end, checksums included, instead of believing a claimed length, but no further than `limit` bytes, so that too
 * long a file is refused at the first byte too many. */
ronde_status ronde__stream_measure(ronde__stream *stream, int64_t limit, int64_t *bytes_out);
ronde_status ronde__stream_rewind(ronde__stream *stream);
/* Exactly `bytes`; an error where fewer are left. */
ronde_status ronde__stream_read(ronde__stream *stream, void *to, int64_t bytes);
/* Up to `bytes`; fewer only at the end. */
ronde_status ronde__stream_some(ronde__stream *stream, void *to, int64_t bytes, int64_t *got_out);
/* An error where anything is left. */
ronde_status ronde__stream_end(ronde__stream *stream);

/* A whole file of at most `limit` bytes, which is the limit for `what`; owned by the caller (ronde__free). */
ronde_status ronde__stream_load(const char *path, int64_t limit, const char *what, uint8_t **data_out,
                                size_t *bytes_out);

/* The checksum of gzip, and of PNG's chunks. */
uint32_t ronde__crc32(const void *data, size_t bytes);

#endif

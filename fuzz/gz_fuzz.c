/* Streams of gzip or plain bytes: the measured length is what can be read, in pieces of any size. The first byte of the input
 * says how large they are. */
#include <stdlib.h>

#include "data/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ronde__stream *stream;
  int64_t bytes;
  uint8_t to[256];
  if (size == 0 || ronde__stream_open_memory("input", data + 1, size - 1, &stream) != RONDE_OK) return 0;
  if (ronde__stream_measure(stream, INT64_MAX, &bytes) == RONDE_OK) {
    int64_t most = data[0] + 1, limited;
    if (ronde__stream_measure(stream, most, &limited) != RONDE_OK) abort();
    if (limited != bytes && (limited != most || bytes < most)) abort();
    for (int64_t at = 0; at < bytes; at += most)
      if (ronde__stream_read(stream, to, ronde__min(most, bytes - at)) != RONDE_OK) abort();
    if (ronde__stream_offset(stream) != bytes || ronde__stream_end(stream) != RONDE_OK) abort();
    if (ronde__stream_read(stream, to, 1) == RONDE_OK) abort();
  }
  ronde__stream_close(stream);
  return 0;
}

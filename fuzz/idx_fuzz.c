/* IDX images and labels, plain or gzip: what is accepted must be readable whole. */
#include <stdlib.h>

#include "data/set.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse(const uint8_t *data, size_t size, int rank) {
  ronde__stream *stream;
  ronde__idx idx;
  if (ronde__stream_open_memory("input", data, size, &stream) != RONDE_OK) return;
  if (ronde__idx_scan(stream, rank, &idx) == RONDE_OK) {
    size_t bytes = 1;
    for (int d = 0; d < rank; ++d) bytes *= (size_t)idx.dim[d];
    uint8_t *to = malloc(bytes);
    if (to && ronde__idx_read(stream, &idx, to) != RONDE_OK) abort();
    free(to);
  }
  ronde__stream_close(stream);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  parse(data, size, 3);
  parse(data, size, 1);
  return 0;
}

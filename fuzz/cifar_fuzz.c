/* CIFAR-10 and CIFAR-100 files, plain or gzip: what is accepted must be readable whole. */
#include <stdlib.h>

#include "data/set.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse(const uint8_t *data, size_t size, int label_bytes, int classes) {
  ronde__stream *stream;
  int64_t n;
  if (ronde__stream_open_memory("input", data, size, &stream) != RONDE_OK) return;
  if (ronde__cifar_scan(stream, label_bytes, &n) == RONDE_OK) {
    uint8_t *x = malloc((size_t)n * 3072);
    int64_t *labels = malloc((size_t)n * sizeof *labels);
    ronde_status status = x && labels ? ronde__cifar_read(stream, label_bytes, classes, n, x, labels) : RONDE_E_INPUT;
    if (status != RONDE_OK && classes == 256) abort(); /* no label is wrong then */
    for (int64_t i = 0; i < n && status == RONDE_OK; ++i)
      if (labels[i] < 0 || labels[i] >= classes) abort();
    free(x);
    free(labels);
  }
  ronde__stream_close(stream);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  parse(data, size, 1, 10);
  parse(data, size, 1, 256);
  parse(data, size, 2, 100);
  return 0;
}

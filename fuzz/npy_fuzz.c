/* npy files: what is accepted must be readable whole, but for values that are no labels or not finite. */
#include <math.h>
#include <stdlib.h>

#include "data/set.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static ronde_status read_bytes(ronde__stream *stream, const ronde__npy *npy, void *to) {
  ronde_status status = ronde__npy_begin(stream, npy);
  if (status == RONDE_OK) status = ronde__npy_take(stream, npy, 0, npy->n_items, to);
  return status == RONDE_OK ? ronde__stream_end(stream) : status;
}

static void read_array(ronde__stream *stream, const ronde__npy *npy) {
  bool is_float = npy->type == 'f';
  size_t item_bytes = is_float ? (size_t)npy->item_bytes : sizeof(int64_t);
  void *to = malloc((size_t)npy->n_items * item_bytes);
  if (!to) return;
  if (is_float && npy->item_bytes >= 4 && ronde__npy_read_f32(stream, npy, to) == RONDE_OK) {
    const float *values = to;
    for (int64_t i = 0; i < npy->n_items; ++i)
      if (!isfinite(values[i])) abort();
  }
  if (!is_float) {
    if (npy->item_bytes == 1 && npy->type == 'u' && read_bytes(stream, npy, to) != RONDE_OK) abort();
    int64_t *labels = to;
    if (ronde__npy_read_labels(stream, npy, labels) == RONDE_OK)
      for (int64_t i = 0; i < npy->n_items; ++i)
        if (labels[i] < 0 || labels[i] > RONDE__LABEL_MAX) abort();
  }
  free(to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ronde__stream *stream;
  ronde__npy npy;
  if (ronde__stream_open_memory("input", data, size, &stream) != RONDE_OK) return 0;
  if (ronde__npy_scan(stream, &npy) == RONDE_OK) read_array(stream, &npy);
  ronde__stream_close(stream);
  return 0;
}

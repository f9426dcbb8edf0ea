/* WAV files: header and samples. */
#include <math.h>
#include <stdlib.h>

#include "data/sound.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds) {
  if (!holds) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  int64_t length = 0, n = 0;
  float *samples;
  bool measured = ronde__sound_length("input", data, size, &length) == RONDE_OK;
  if (!measured || length > 1 << 20) return 0; /* a byte may stand for many samples of another rate */
  if (ronde__sound_read("input", data, size, &n, &samples) != RONDE_OK) return 0;
  require(n == length && n > 0);
  for (int64_t i = 0; i < n; ++i) require(isfinite(samples[i]));
  ronde__free(samples);
  return 0;
}

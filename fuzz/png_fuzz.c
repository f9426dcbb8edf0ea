/* PNG images, as grey and as colour. */
#include "data/set.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint8_t sum; /* so that every pixel is read */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  for (int channels = 1; channels <= 3; channels += 2) {
    int64_t h, w;
    uint8_t *pixels;
    if (ronde__image_decode("input", data, size, channels, &h, &w, &pixels) != RONDE_OK) continue;
    for (int64_t i = 0; i < channels * h * w; ++i) sum = (uint8_t)(sum + pixels[i]);
    ronde__free(pixels);
  }
  return 0;
}

/* JPEG images, as grey and as colour; what the header promises is what is decoded. */
#include <stdlib.h>

#include "data/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint8_t sum; /* so that every pixel is read */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char reason[RONDE__REASON_BYTES];
  ronde__image head, image;
  if (ronde__image_head(data, size, &head, reason) != RONDE_OK) return 0;
  if (head.height * head.width > 1 << 20) return 0; /* large ones only take longer */
  for (int channels = 1; channels <= 3; channels += 2) {
    uint8_t *pixels;
    if (ronde__image_planes(data, size, channels, &image, &pixels, reason) != RONDE_OK) continue;
    if (image.height != head.height || image.width != head.width || image.colour != head.colour) abort();
    for (int64_t i = 0; i < channels * image.height * image.width; ++i) sum = (uint8_t)(sum + pixels[i]);
    ronde__free(pixels);
  }
  return 0;
}

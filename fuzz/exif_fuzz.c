/* EXIF data, as cameras put them in front of a picture: whatever they hold, there is an orientation. */
#include <stdlib.h>

#include "data/exif.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  int orientation = ronde__exif_orientation(data, size);
  if (orientation < 1 || orientation > 8) abort();
  return 0;
}

/* PNG images, through libpng's simplified interface. */
#include "data/set.h"

#include <stdlib.h>
#include <string.h>
#ifdef RONDE_HAVE_PNG
#include <png.h>
#endif

#ifdef RONDE_HAVE_PNG

#define SIDE_MAX 32768
/* What deflate can expand a byte to at most; a pixel has at least one bit. */
#define PIXELS_PER_BYTE_MAX (1032 * 8)

static ronde_status check_size(const char *name, const png_image *image, size_t bytes) {
  int64_t pixels = (int64_t)image->width * image->height;
  if (image->width > SIDE_MAX || image->height > SIDE_MAX)
    return ronde__fail(RONDE_E_INPUT, "%s: offset 16: an image of %ux%u pixels; at most %d a side are read", name,
                       image->height, image->width, SIDE_MAX);
  if (pixels > (int64_t)bytes * PIXELS_PER_BYTE_MAX)
    return ronde__fail(RONDE_E_INPUT, "%s: offset 16: the header claims %ux%u pixels, more than %zu bytes can hold",
                       name, image->height, image->width, bytes);
  return RONDE_OK;
}

static ronde_status decode_pixels(const char *name, png_image *image, int channels, uint8_t **pixels_out) {
  int64_t plane = (int64_t)image->width * image->height;
  uint8_t *interleaved, *planes;
  RONDE__ALLOC(interleaved, (size_t)(plane * channels), name);
  const png_color black = {0, 0, 0};
  if (!png_image_finish_read(image, &black, interleaved, 0, NULL)) {
    ronde__free(interleaved);
    return ronde__fail(RONDE_E_INPUT, "%s: not a whole PNG: %s", name, image->message);
  }
  if (channels == 1) {
    *pixels_out = interleaved;
    return RONDE_OK;
  }
  planes = ronde__alloc((size_t)(plane * channels));
  for (int64_t i = 0; planes && i < plane; ++i)
    for (int c = 0; c < channels; ++c) planes[c * plane + i] = interleaved[i * channels + c];
  ronde__free(interleaved);
  if (!planes) return ronde__fail(RONDE_E_MEMORY, "%s: no memory for the image", name);
  *pixels_out = planes;
  return RONDE_OK;
}

bool ronde__image_supported(void) { return true; }

ronde_status ronde__image_decode(const char *name, const void *data, size_t bytes, int channels, int64_t *h_out,
                                 int64_t *w_out, uint8_t **pixels_out) {
  if (channels != 1 && channels != 3)
    return ronde__fail(RONDE_E_USAGE, "%s: an image has 1 or 3 channels, but %d are needed", name, channels);
  png_image image = {.version = PNG_IMAGE_VERSION};
  if (!png_image_begin_read_from_memory(&image, data, bytes))
    return ronde__fail(RONDE_E_INPUT, "%s: offset 0: not a PNG: %s", name, image.message);
  image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  ronde_status status = check_size(name, &image, bytes);
  if (status == RONDE_OK) status = decode_pixels(name, &image, channels, pixels_out);
  if (status == RONDE_OK) {
    *h_out = image.height;
    *w_out = image.width;
  }
  png_image_free(&image);
  return status;
}

#else

bool ronde__image_supported(void) { return false; }

ronde_status ronde__image_decode(const char *name, const void *data, size_t bytes, int channels, int64_t *h_out,
                                 int64_t *w_out, uint8_t **pixels_out) {
  return ronde__fail(RONDE_E_USAGE, "%s: this build reads no PNG", name);
}

#endif

ronde_status ronde__image_read(const char *path, int channels, int64_t *h_out, int64_t *w_out, uint8_t **pixels_out) {
  ronde__stream *stream;
  RONDE_TRY(ronde__stream_open(path, &stream));
  int64_t bytes;
  uint8_t *data = NULL;
  ronde_status status = ronde__stream_measure(stream, &bytes);
  if (status == RONDE_OK && !(data = ronde__alloc((size_t)bytes)))
    status = ronde__fail(RONDE_E_MEMORY, "%s: no memory for %lld bytes", path, (long long)bytes);
  if (status == RONDE_OK) status = ronde__stream_read(stream, data, bytes);
  if (status == RONDE_OK) status = ronde__image_decode(path, data, (size_t)bytes, channels, h_out, w_out, pixels_out);
  ronde__free(data);
  ronde__stream_close(stream);
  return status;
}

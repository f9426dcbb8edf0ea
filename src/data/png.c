/* PNG images, by libpng's simplified interface. Source: W3C, "Portable network graphics (PNG) specification". */
#include "data/data.h"
#include "data/exif.h"
#include "data/image.h"
#include "data/stream.h"

#ifdef RONDE_HAVE_PNG

#include <png.h>
#include <string.h>

/* What deflate can expand a byte to at most; a pixel has at least one bit. */
#define PIXELS_PER_BYTE_MAX (1032 * 8)
#define SIDES_OFFSET 16 /* of width and height in the file */

bool ronde__image_supported(void) { return true; }

static ronde_status png_read_pixels(png_image *image, int channels, uint8_t **interleaved_out,
                                    char reason[RONDE__REASON_BYTES]) {
  const png_color black = {0, 0, 0};
  image->format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  image->flags |= PNG_IMAGE_FLAG_16BIT_sRGB; /* 16 bits have the same scale as 8, unless the file says otherwise */
  uint8_t *pixels = ronde__alloc((size_t)image->height * image->width * (size_t)channels);
  if (!pixels) return ronde__image_fail(RONDE_E_MEMORY, reason, "no memory for the image");
  if (!png_image_finish_read(image, &black, pixels, 0, NULL)) {
    ronde__free(pixels);
    return ronde__image_fail(RONDE_E_INPUT, reason, "an incomplete or damaged PNG: %s", image->message);
  }
  *interleaved_out = pixels;
  return RONDE_OK;
}

static uint32_t png_be32(const uint8_t *at) {
  return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* A chunk: length, type, data, CRC of the latter two. libpng's simplified interface neither reports eXIf nor limits
 * what it allocates for a chunk. Returns false where the file ends before its pixels or within a chunk. */
static bool png_read_chunks(const uint8_t *data, size_t bytes, int *orientation_out) {
  enum { SIGNATURE = 8, AROUND = 12 };
  bool behind_pixels = false;
  *orientation_out = 1;
  for (size_t at = SIGNATURE; bytes - at >= AROUND;) {
    uint32_t n = png_be32(data + at);
    const uint8_t *type = data + at + 4;
    behind_pixels |= !memcmp(type, "IDAT", 4);
    if (n > bytes - at - AROUND) return behind_pixels;
    if (!memcmp(type, "IEND", 4)) return true;
    if (!memcmp(type, "eXIf", 4) && png_be32(type + 4 + n) == ronde__crc32(type, (size_t)n + 4))
      *orientation_out = ronde__exif_orientation(type + 4, n);
    at += AROUND + n;
  }
  return behind_pixels;
}

ronde_status ronde__png_read(const void *data, size_t bytes, int channels, ronde__image *image_out,
                             uint8_t **interleaved_out, char reason[RONDE__REASON_BYTES]) {
  png_image image = {.version = PNG_IMAGE_VERSION};
  int orientation;
  if (!png_read_chunks(data, bytes, &orientation))
    return ronde__image_fail(RONDE_E_INPUT, reason, "an incomplete PNG: the file ends within a chunk");
  if (!png_image_begin_read_from_memory(&image, data, bytes))
    return ronde__image_fail(RONDE_E_INPUT, reason, "offset 0: not a PNG: %s", image.message);
  int64_t pixels = (int64_t)image.width * image.height;
  ronde_status status = ronde__image_check_sides(image.height, image.width, SIDES_OFFSET, reason);
  if (status == RONDE_OK && pixels > (int64_t)bytes * PIXELS_PER_BYTE_MAX)
    status = ronde__image_fail(RONDE_E_INPUT, reason,
                               "offset %d: the header claims %ux%u pixels, more than %zu bytes can hold", SIDES_OFFSET,
                               image.height, image.width, bytes);
  *image_out = (ronde__image){image.height, image.width, (image.format & PNG_FORMAT_FLAG_COLOR) != 0, orientation};
  if (status == RONDE_OK && channels) status = png_read_pixels(&image, channels, interleaved_out, reason);
  png_image_free(&image);
  return status;
}

#else

bool ronde__image_supported(void) { return false; }

ronde_status ronde__png_read(const void *data, size_t bytes, int channels, ronde__image *image_out,
                             uint8_t **interleaved_out, char reason[RONDE__REASON_BYTES]) {
  return ronde__image_fail(RONDE_E_USAGE, reason, "this build cannot read PNG (no libpng)");
}

#endif

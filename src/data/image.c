/* Images of any format: recognised by their first bytes, decoded, turned upright, spread into planes. */
#include "data/image.h"

#include "data/set.h"

#include <string.h>
#include <strings.h>

#define FILE_BYTES_MAX (256 << 20)

/* ---- formats ----------------------------------------------------------------------------------------------------- */

static ronde__image_fn image_find_format(const uint8_t *data, size_t bytes) {
  static const struct {
    const char *begin;
    size_t n;
    ronde__image_fn read;
  } formats[] = {{"\x89PNG\r\n\x1a\n", 8, ronde__png_read}, {"\xff\xd8\xff", 3, ronde__jpeg_read}};
  for (size_t i = 0; i < RONDE__COUNT(formats); ++i)
    if (bytes >= formats[i].n && !memcmp(data, formats[i].begin, formats[i].n)) return formats[i].read;
  return NULL;
}

/* ---- orientation ------------------------------------------------------------------------------------------------- */

static bool lies_on_its_side(const ronde__image *image) { return image->orientation >= 5; }

/* From the sides in the file to those that are shown. */
static void turn_sides(ronde__image *image) {
  if (!lies_on_its_side(image)) return;
  int64_t height = image->height;
  image->height = image->width;
  image->width = height;
}

/* Where the shown pixel (y, x) of an upright image lies in the file: first + y * down + x * right, in pixels. */
typedef struct image_walk {
  int64_t first, down, right;
} image_walk;

/* Source: Exif 2.32, 4.6.4, Orientation: where row 0 and column 0 of what is stored are seen. */
static image_walk image_walk_of(const ronde__image *image) {
  int o = image->orientation;
  int64_t h = image->height, w = image->width; /* as shown */
  bool turned = lies_on_its_side(image);
  int64_t row = turned ? h : w; /* pixels of a row in the file */
  bool from_below = o == 3 || o == 4 || o == 7 || o == 8, from_right = o == 2 || o == 3 || o == 6 || o == 7;
  int64_t down = turned ? 1 : row, right = turned ? row : 1;
  image_walk walk = {0, down, right};
  if (from_below) walk.first += (h - 1) * down, walk.down = -down;
  if (from_right) walk.first += (w - 1) * right, walk.right = -right;
  return walk;
}

/* To planes, upright. */
static void image_spread(const ronde__image *image, int channels, const uint8_t *interleaved, uint8_t *planes) {
  image_walk walk = image_walk_of(image);
  int64_t plane = image->height * image->width, i = 0;
  for (int64_t y = 0; y < image->height; ++y)
    for (int64_t x = 0; x < image->width; ++x, ++i) {
      const uint8_t *pixel = interleaved + (walk.first + y * walk.down + x * walk.right) * channels;
      for (int c = 0; c < channels; ++c) planes[c * plane + i] = pixel[c];
    }
}

/* ---- any image --------------------------------------------------------------------------------------------------- */

ronde_status ronde__image_head(const void *data, size_t bytes, ronde__image *image_out,
                               char reason[RONDE__REASON_BYTES]) {
  ronde__image_fn read = image_find_format(data, bytes);
  if (!read) return ronde__image_fail(RONDE_E_INPUT, reason, "offset 0: not a PNG or JPEG image");
  RONDE_TRY(read(data, bytes, 0, image_out, NULL, reason));
  turn_sides(image_out);
  return RONDE_OK;
}

ronde_status ronde__image_planes(const void *data, size_t bytes, int channels, ronde__image *image_out,
                                 uint8_t **planes_out, char reason[RONDE__REASON_BYTES]) {
  if (channels != 1 && channels != 3)
    return ronde__image_fail(RONDE_E_USAGE, reason, "an image has 1 or 3 channels, but %d are needed", channels);
  ronde__image_fn read = image_find_format(data, bytes);
  if (!read) return ronde__image_fail(RONDE_E_INPUT, reason, "offset 0: not a PNG or JPEG image");
  uint8_t *interleaved;
  RONDE_TRY(read(data, bytes, channels, image_out, &interleaved, reason));
  turn_sides(image_out);
  if (channels == 1 && image_out->orientation == 1) {
    *planes_out = interleaved;
    return RONDE_OK;
  }
  uint8_t *planes = ronde__alloc((size_t)(image_out->height * image_out->width * channels));
  if (planes) image_spread(image_out, channels, interleaved, planes);
  ronde__free(interleaved);
  if (!planes) return ronde__image_fail(RONDE_E_MEMORY, reason, "no memory for the image");
  *planes_out = planes;
  return RONDE_OK;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

ronde_status ronde__image_load(const char *path, uint8_t **data_out, size_t *bytes_out) {
  return ronde__stream_load(path, FILE_BYTES_MAX, "an image", data_out, bytes_out);
}

ronde_status ronde__image_decode(const char *name, const void *data, size_t bytes, int channels, int64_t *h_out,
                                 int64_t *w_out, uint8_t **pixels_out) {
  char reason[RONDE__REASON_BYTES];
  ronde__image image;
  ronde_status status = ronde__image_planes(data, bytes, channels, &image, pixels_out, reason);
  if (status != RONDE_OK) return ronde__fail(status, "%s: %s", name, reason);
  *h_out = image.height;
  *w_out = image.width;
  return RONDE_OK;
}

bool ronde__image_name(const char *name) {
  static const char *const ends[] = {".png", ".jpg", ".jpeg"};
  size_t n = strlen(name);
  for (size_t i = 0; i < RONDE__COUNT(ends); ++i)
    if (n > strlen(ends[i]) && !strcasecmp(name + n - strlen(ends[i]), ends[i])) return true;
  return false;
}

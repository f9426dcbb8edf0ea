/* Images as files have them: recognised by their first bytes, measured before anything is allocated. Nothing here logs:
 * a picture that cannot be read may be one to skip, so the caller gets the reason. */
#ifndef RONDE_IMAGE_H
#define RONDE_IMAGE_H

#include "base/base.h"

#define RONDE__REASON_BYTES 240

typedef struct ronde__image {
  int64_t height, width; /* upright: as it is shown */
  bool colour;
  int orientation; /* EXIF's, 1 to 8, of the picture in the file */
} ronde__image;

/* What the header says. Errors: RONDE_E_INPUT, RONDE_E_USAGE for a format that this build lacks. */
ronde_status ronde__image_head(const void *data, size_t bytes, ronde__image *image_out,
                               char reason[RONDE__REASON_BYTES]);
/* The pixels, turned upright, as u8 [channels][h][w], owned by the caller (ronde__free). channels: 1 grey, 3 colour, whatever the file
 * has; transparent pixels lie on black. Errors also: RONDE_E_USAGE for other channels, RONDE_E_MEMORY. */
ronde_status ronde__image_planes(const void *data, size_t bytes, int channels, ronde__image *image_out,
                                 uint8_t **planes_out, char reason[RONDE__REASON_BYTES]);
/* Whether a file is a picture by its name: .png, .jpg, .jpeg, in any case. */
bool ronde__image_name(const char *name);
/* A whole file of at most 256 MiB, owned by the caller (ronde__free). This one logs. */
ronde_status ronde__image_load(const char *path, uint8_t **data_out, size_t *bytes_out);

/* ---- the formats (png.c, jpeg.c) and what they share (image_limits.c) ------------------------------------------- */

/* Reads the header, and where channels is not 0 the pixels, interleaved; sides and pixels are as they are stored. */
typedef ronde_status (*ronde__image_fn)(const void *data, size_t bytes, int channels, ronde__image *image_out,
                                        uint8_t **interleaved_out, char reason[RONDE__REASON_BYTES]);
ronde_status ronde__png_read(const void *data, size_t bytes, int channels, ronde__image *image_out,
                             uint8_t **interleaved_out, char reason[RONDE__REASON_BYTES]);
ronde_status ronde__jpeg_read(const void *data, size_t bytes, int channels, ronde__image *image_out,
                              uint8_t **interleaved_out, char reason[RONDE__REASON_BYTES]);

/* Refuses sides beyond what is read. offset: where the header says so; < 0: not known. */
ronde_status ronde__image_check_sides(int64_t height, int64_t width, int offset, char reason[RONDE__REASON_BYTES]);
/* Writes the reason and returns the status. */
ronde_status ronde__image_fail(ronde_status status, char reason[RONDE__REASON_BYTES], const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif

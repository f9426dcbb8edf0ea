/* JPEG images, by libjpeg. Source: ITU-T T.81; Adobe Technical Note 5116 (the inverted CMYK). */
#include "data/data.h"
#include "data/exif.h"
#include "data/image.h"

#ifdef RONDE_HAVE_JPEG

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#define SCANS_MAX 500 /* of a progressive image: each costs a pass over all of it, and may be a few bytes long */

bool ronde__jpeg_supported(void) { return true; }

/* libjpeg leaves through error_exit, which must not return. */
typedef struct jpeg_reader {
  struct jpeg_error_mgr errors;
  struct jpeg_progress_mgr progress;
  jmp_buf failed;
  ronde_status status;
  char *reason;
  struct jpeg_decompress_struct c;
  uint8_t *pixels, *inks; /* inks: a row of CMYK */
} jpeg_reader;

static void jpeg_error_exit(j_common_ptr common) {
  jpeg_reader *r = (jpeg_reader *)common->err;
  char text[JMSG_LENGTH_MAX];
  bool no_memory = common->err->msg_code == JERR_OUT_OF_MEMORY;
  common->err->format_message(common, text);
  r->status = ronde__image_fail(no_memory ? RONDE_E_MEMORY : RONDE_E_INPUT, r->reason,
                                "an incomplete or damaged JPEG: %s", text);
  longjmp(r->failed, 1);
}

/* Where data is damaged libjpeg continues with grey pixels; here that is an error. */
static void jpeg_emit_message(j_common_ptr common, int level) {
  int code = common->err->msg_code;
  bool damage = code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
                code == JWRN_MUST_RESYNC || code == JWRN_BOGUS_PROGRESSION || code == JWRN_NOT_SEQUENTIAL;
  if (level < 0 && damage) jpeg_error_exit(common);
}

static void jpeg_output_message(j_common_ptr common) {}

static void jpeg_count_scans(j_common_ptr common) {
  jpeg_reader *r = (jpeg_reader *)common->err;
  if (r->c.input_scan_number <= SCANS_MAX) return;
  r->status = ronde__image_fail(RONDE_E_INPUT, r->reason, "a JPEG with more than %d scans, the most that are supported",
                                SCANS_MAX);
  longjmp(r->failed, 1);
}

static bool has_inks(const jpeg_reader *r) {
  return r->c.jpeg_color_space == JCS_CMYK || r->c.jpeg_color_space == JCS_YCCK;
}

static ronde_status jpeg_check_kind(jpeg_reader *r) {
  RONDE_TRY(ronde__image_check_sides(r->c.image_height, r->c.image_width, -1, r->reason));
  if (r->c.jpeg_color_space == JCS_UNKNOWN)
    return ronde__image_fail(RONDE_E_INPUT, r->reason, "a JPEG of %d components, whose colour space is unknown",
                             r->c.num_components);
  if (has_inks(r) && !r->c.saw_Adobe_marker)
    return ronde__image_fail(
        RONDE_E_INPUT, r->reason,
        "a CMYK JPEG without Adobe's marker, so it is unknown whether its inks are inverted; convert it to RGB");
  return RONDE_OK;
}

static int jpeg_orientation(const jpeg_reader *r) {
  enum { NAME = 6 };
  for (jpeg_saved_marker_ptr marker = r->c.marker_list; marker; marker = marker->next)
    if (marker->data_length >= NAME && !memcmp(marker->data, "Exif\0", NAME))
      return ronde__exif_orientation(marker->data + NAME, marker->data_length - NAME);
  return 1;
}

/* Adobe stores inks inverted: 255 is no ink. Colour profiles are not applied. Grey is made as libjpeg makes it of
 * RGB (ITU-R BT.601). */
static void jpeg_take_inks(const uint8_t *inks, int64_t n, int channels, uint8_t *to) {
  for (int64_t i = 0; i < n; ++i, inks += 4, to += channels) {
    unsigned rgb[3];
    for (int c = 0; c < 3; ++c) rgb[c] = (inks[c] * inks[3] + 127u) / 255u;
    if (channels == 1) to[0] = (uint8_t)((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 32768u) >> 16);
    else
      for (int c = 0; c < 3; ++c) to[c] = (uint8_t)rgb[c];
  }
}

/* After setjmp. */
static ronde_status jpeg_read_image(jpeg_reader *r, const void *data, size_t bytes, int channels,
                                    ronde__image *image_out) {
  jpeg_create_decompress(&r->c);
  r->c.progress = &r->progress;
  jpeg_mem_src(&r->c, data, (unsigned long)bytes);
  jpeg_save_markers(&r->c, JPEG_APP0 + 1, 0xffff);
  jpeg_read_header(&r->c, TRUE);
  RONDE_TRY(jpeg_check_kind(r));
  *image_out =
      (ronde__image){r->c.image_height, r->c.image_width, r->c.jpeg_color_space != JCS_GRAYSCALE, jpeg_orientation(r)};
  if (!channels) return RONDE_OK;
  r->c.out_color_space = has_inks(r) ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_start_decompress(&r->c);
  size_t row_bytes = (size_t)r->c.output_width * (size_t)channels;
  r->pixels = ronde__alloc(row_bytes * r->c.output_height);
  if (has_inks(r)) r->inks = ronde__alloc((size_t)r->c.output_width * 4);
  if (!r->pixels || (has_inks(r) && !r->inks))
    return ronde__image_fail(RONDE_E_MEMORY, r->reason, "no memory for the image");
  while (r->c.output_scanline < r->c.output_height) {
    uint8_t *to = r->pixels + row_bytes * r->c.output_scanline;
    JSAMPROW row = r->inks ? r->inks : to;
    jpeg_read_scanlines(&r->c, &row, 1);
    if (r->inks) jpeg_take_inks(r->inks, r->c.output_width, channels, to);
  }
  jpeg_finish_decompress(&r->c);
  return RONDE_OK;
}

ronde_status ronde__jpeg_read(const void *data, size_t bytes, int channels, ronde__image *image_out,
                              uint8_t **interleaved_out, char reason[RONDE__REASON_BYTES]) {
  jpeg_reader *r = ronde__alloc(sizeof *r); /* not on the stack, where longjmp would leave locals undefined */
  if (!r) return ronde__image_fail(RONDE_E_MEMORY, reason, "no memory for the image");
  r->reason = reason;
  r->c.err = jpeg_std_error(&r->errors);
  r->errors.error_exit = jpeg_error_exit;
  r->errors.emit_message = jpeg_emit_message;
  r->errors.output_message = jpeg_output_message;
  r->progress.progress_monitor = jpeg_count_scans;
  if (setjmp(r->failed) == 0) r->status = jpeg_read_image(r, data, bytes, channels, image_out);
  jpeg_destroy_decompress(&r->c);
  ronde__free(r->inks);
  ronde_status status = r->status;
  if (status == RONDE_OK && channels) *interleaved_out = r->pixels;
  else ronde__free(r->pixels);
  ronde__free(r);
  return status;
}

#else

bool ronde__jpeg_supported(void) { return false; }

ronde_status ronde__jpeg_read(const void *data, size_t bytes, int channels, ronde__image *image_out,
                              uint8_t **interleaved_out, char reason[RONDE__REASON_BYTES]) {
  return ronde__image_fail(RONDE_E_USAGE, reason, "this build cannot read JPEG (no libjpeg)");
}

#endif

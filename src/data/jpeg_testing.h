/* JPEG files for tests; where this build has no libjpeg, test_jpeg is not there. */
#ifndef RONDE_JPEG_TESTING_H
#define RONDE_JPEG_TESTING_H

#include "data/testing.h"

#ifdef RONDE_HAVE_JPEG
#include <jpeglib.h>

enum { TEST_JPEG_PLAIN, TEST_JPEG_PROGRESSIVE, TEST_JPEG_YCCK, TEST_JPEG_UNMARKED };

/* channels 1 grey, 3 colour, 4 CMYK (in either form, or without the marker that says its sense); interleaved. Quality 100, colours not subsampled. */
static inline test_bytes test_jpeg(int64_t h, int64_t w, int channels, int form, const uint8_t *pixels) {
  struct jpeg_compress_struct c;
  struct jpeg_error_mgr errors;
  unsigned char *data = NULL;
  unsigned long bytes = 0;
  c.err = jpeg_std_error(&errors);
  jpeg_create_compress(&c);
  jpeg_mem_dest(&c, &data, &bytes);
  c.image_width = (JDIMENSION)w;
  c.image_height = (JDIMENSION)h;
  c.input_components = channels;
  c.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&c);
  if (form == TEST_JPEG_YCCK) jpeg_set_colorspace(&c, JCS_YCCK);
  jpeg_set_quality(&c, 100, TRUE);
  for (int i = 0; i < c.num_components; ++i) c.comp_info[i].h_samp_factor = c.comp_info[i].v_samp_factor = 1;
  if (form == TEST_JPEG_UNMARKED) c.write_Adobe_marker = FALSE;
  if (form == TEST_JPEG_PROGRESSIVE) jpeg_simple_progression(&c);
  jpeg_start_compress(&c, TRUE);
  while (c.next_scanline < c.image_height) {
    JSAMPROW row = (JSAMPROW)(uintptr_t)(pixels + (size_t)c.next_scanline * (size_t)w * (size_t)channels);
    jpeg_write_scanlines(&c, &row, 1);
  }
  jpeg_finish_compress(&c);
  jpeg_destroy_compress(&c);
  test_bytes b = test_bytes_make(data, bytes);
  free(data);
  return b;
}
#endif

#endif

/* The orientation in a block of EXIF data, which is a TIFF file: byte order, then entries of 12 bytes: tag, type, count,
 * value. Source: Exif 2.32 (CIPA DC-008), 4.5 and 4.6; TIFF 6.0, section 2. */
#include "data/exif.h"

#include <string.h>

#define TAG_ORIENTATION 0x0112
#define TYPE_SHORT 3

typedef struct exif_tiff {
  const uint8_t *data;
  bool big_endian;
} exif_tiff;

/* A number of n bytes, 4 at most. The caller has checked that they are there. */
static uint32_t exif_number(const exif_tiff *t, size_t at, int n) {
  uint32_t value = 0;
  for (int i = 0; i < n; ++i) value = value << 8 | t->data[at + (size_t)(t->big_endian ? i : n - 1 - i)];
  return value;
}

int ronde__exif_orientation(const void *data, size_t bytes) {
  enum { HEAD = 8, ENTRY = 12, UPRIGHT = 1 };
  exif_tiff t = {.data = data};
  if (bytes < HEAD) return UPRIGHT;
  t.big_endian = t.data[0] == 'M';
  if (memcmp(data, t.big_endian ? "MM" : "II", 2) || exif_number(&t, 2, 2) != 42) return UPRIGHT;
  size_t at = exif_number(&t, 4, 4);
  if (at < HEAD || at > bytes - 2) return UPRIGHT;
  uint32_t n = exif_number(&t, at, 2);
  at += 2;
  for (uint32_t i = 0; i < n && bytes - at >= ENTRY; ++i, at += ENTRY) {
    if (exif_number(&t, at, 2) != TAG_ORIENTATION) continue;
    uint32_t value = exif_number(&t, at + 8, 2);
    bool sound =
        exif_number(&t, at + 2, 2) == TYPE_SHORT && exif_number(&t, at + 4, 4) == 1 && value >= 1 && value <= 8;
    return sound ? (int)value : UPRIGHT;
  }
  return UPRIGHT;
}

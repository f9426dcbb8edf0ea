/* What every image format has in common: the largest image that is read, and how a format says why it refuses one. */
#include "data/image.h"

#include <stdarg.h>
#include <stdio.h>

#define SIDE_MAX 32768
#define PIXELS_MAX (64 << 20)

ronde_status ronde__image_fail(ronde_status status, char reason[RONDE__REASON_BYTES], const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(reason, RONDE__REASON_BYTES, format, arguments);
  va_end(arguments);
  return status;
}

ronde_status ronde__image_check_sides(int64_t height, int64_t width, int offset, char reason[RONDE__REASON_BYTES]) {
  char where[24] = "";
  if (offset >= 0) snprintf(where, sizeof where, "offset %d: ", offset);
  if (height > SIDE_MAX || width > SIDE_MAX)
    return ronde__image_fail(RONDE_E_INPUT, reason, "%san image of %lldx%lld pixels; at most %d a side are supported",
                             where, (long long)height, (long long)width, SIDE_MAX);
  if (height * width > PIXELS_MAX)
    return ronde__image_fail(RONDE_E_INPUT, reason, "%san image of %lldx%lld pixels; at most %d are supported", where,
                             (long long)height, (long long)width, PIXELS_MAX);
  return RONDE_OK;
}

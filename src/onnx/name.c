/* Which names mean ONNX files. */
#include "onnx/onnx.h"

#include <string.h>

bool ronde__onnx_named(const char *name) {
  static const char end[] = ".onnx";
  size_t n = strlen(name);
  return n >= sizeof end && !strcmp(name + n - (sizeof end - 1), end);
}

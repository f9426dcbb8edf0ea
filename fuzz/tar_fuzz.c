/* Tar archives, plain or gzip: every member is gone through. */
#include <stdlib.h>
#include <string.h>

#include "data/tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ronde__stream *stream;
  ronde__tar_member member;
  bool end = false;
  if (ronde__stream_open_memory("input", data, size, &stream) != RONDE_OK) return 0;
  while (ronde__tar_next(stream, &member, &end) == RONDE_OK && !end) {
    if (member.bytes < 0 || strnlen(member.name, sizeof member.name) == sizeof member.name) abort();
    if (ronde__tar_skip(stream, &member) != RONDE_OK) break;
  }
  ronde__stream_close(stream);
  return 0;
}

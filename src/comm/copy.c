/* Copying past the caches, by streaming stores where the machine has them. */
#include "comm/copy.h"

#include <stdint.h>
#include <string.h>

/* The sanitizers see through memcpy, but not through these stores. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include <emmintrin.h>

#define LINE 64
#define MIN_BYTES 4096

void ronde__copy_past_cache(void *to, const void *from, size_t bytes) {
  char *out = to;
  const char *in = from;
  if (bytes < MIN_BYTES) {
    memcpy(to, from, bytes);
    return;
  }
  size_t head = (LINE - (uintptr_t)out % LINE) % LINE, lines = (bytes - head) / LINE;
  memcpy(out, in, head);
  out += head;
  in += head;
  for (size_t i = 0; i < lines; i++, out += LINE, in += LINE) {
    __m128i v[LINE / 16];
    for (int k = 0; k < LINE / 16; k++) v[k] = _mm_loadu_si128((const __m128i *)in + k);
    for (int k = 0; k < LINE / 16; k++) _mm_stream_si128((__m128i *)out + k, v[k]);
  }
  memcpy(out, in, bytes - head - lines * LINE);
  _mm_sfence();
}
#else
void ronde__copy_past_cache(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }
#endif

/* WAV files, byte by byte. */
#include "data/wav_testing.h"

#include <math.h>

static void put_le(uint8_t *at, int bytes, uint32_t value) {
  for (int i = 0; i < bytes; ++i) at[i] = (uint8_t)(value >> 8 * i);
}

test_bytes test_wav_make(const test_wav *head, const void *payload, size_t bytes) {
  uint8_t front[44] = "RIFF....WAVEfmt ";
  uint32_t frame = (uint32_t)head->channels * head->bits / 8;
  put_le(front + 4, 4, (uint32_t)(36 + bytes));
  put_le(front + 16, 4, 16);
  put_le(front + 20, 2, head->format);
  put_le(front + 22, 2, head->channels);
  put_le(front + 24, 4, head->rate);
  put_le(front + 28, 4, head->rate * frame);
  put_le(front + 32, 2, frame);
  put_le(front + 34, 2, head->bits);
  memcpy(front + 36, "data", 4);
  put_le(front + 40, 4, (uint32_t)bytes);
  return test_bytes_join(test_bytes_make(front, sizeof front), test_bytes_make(payload, bytes));
}

test_bytes test_wav_tones(size_t n, const int *hz, size_t n_hz) {
  const test_wav head = {1, 1, 16, 16000};
  uint8_t *payload = malloc(2 * n);
  for (size_t i = 0; i < n; ++i) {
    double tone = sin(2 * M_PI * hz[i / 2000 % n_hz] * (double)i / 16000);
    put_le(payload + 2 * i, 2, (uint16_t)(int16_t)lrint(8000 * tone));
  }
  test_bytes wav = test_wav_make(&head, payload, 2 * n);
  free(payload);
  return wav;
}

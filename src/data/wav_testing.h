/* WAV files that tests write byte by byte, so that they may lie. */
#ifndef RONDE_WAV_TESTING_H
#define RONDE_WAV_TESTING_H

#include "data/testing.h"

typedef struct test_wav {
  uint16_t format, channels, bits; /* format 1: integers, 3: floats, 7: mu-law */
  uint32_t rate;
} test_wav;

/* The payload as given, whatever the header says of it. */
test_bytes test_wav_make(const test_wav *head, const void *payload, size_t bytes);
/* A tone of one channel, 16 bits, of so many samples at 16 kHz; hz of each 2,000 samples in turn. */
test_bytes test_wav_tones(size_t n, const int *hz, size_t n_hz);

#endif

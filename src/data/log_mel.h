/* Log-mel features of sound: the logarithm of the power in bands that the ear keeps apart, every 10 ms. */
#ifndef RONDE_LOG_MEL_H
#define RONDE_LOG_MEL_H

#include "data/sound.h"

enum {
  RONDE__MEL_BANDS = 80,
  RONDE__MEL_WINDOW = RONDE__SOUND_RATE / 40, /* 25 ms */
  RONDE__MEL_HOP = RONDE__SOUND_RATE / 100    /* 10 ms */
};

/* Of so many samples: a frame in the middle of each window, the first one around sample 0. */
static inline int64_t ronde__mel_frames(int64_t n_samples) { return 1 + n_samples / RONDE__MEL_HOP; }

/* Tables, and room for one thread. */
typedef struct ronde__log_mel ronde__log_mel;
ronde_status ronde__log_mel_create(ronde__log_mel **mel_out);
void ronde__log_mel_destroy(ronde__log_mel *mel); /* NULL is taken */
/* x [RONDE__MEL_BANDS][stride], of which each band's first ronde__mel_frames are written. */
void ronde__log_mel_run(ronde__log_mel *mel, const float *samples, int64_t n, int64_t stride, float *x);
/* Brings what was written to mean 0 and deviation 1 over all bands and frames, so that loudness does not count; where all are
 * the same, to 0. */
void ronde__log_mel_normalize(int64_t frames, int64_t stride, float *x);

#endif

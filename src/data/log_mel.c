/* Log-mel features as librosa and torchaudio define them: Hann windows of 25 ms every 10 ms, centred, with
 * zeros around the recording; the power of their Fourier transforms of 512 points; 80 triangular bands from 0 to 8 kHz on
 * Slaney's mel scale, each of area 1; ln(power + 1e-6). The transforms are kissfft's.
 * Source: Slaney, "Auditory toolbox", 1998: the scale is linear up to 1 kHz, 15 mels, and logarithmic beyond. */
#include "data/log_mel.h"

#include <math.h>

#define FLOOR_POWER 1e-6

void ronde__log_mel_normalize(int64_t frames, int64_t stride, float *x) {
  double sum = 0, squares = 0, n = (double)(frames * RONDE__MEL_BANDS);
  for (int64_t b = 0; b < RONDE__MEL_BANDS; ++b)
    for (int64_t t = 0; t < frames; ++t) sum += (double)x[b * stride + t];
  double mean = sum / n;
  for (int64_t b = 0; b < RONDE__MEL_BANDS; ++b)
    for (int64_t t = 0; t < frames; ++t) squares += pow((double)x[b * stride + t] - mean, 2);
  double deviation = sqrt(squares / n);
  for (int64_t b = 0; b < RONDE__MEL_BANDS; ++b)
    for (int64_t t = 0; t < frames; ++t) {
      float *at = &x[b * stride + t];
      *at = deviation > 1e-6 ? (float)(((double)*at - mean) / deviation) : 0;
    }
}

#ifdef RONDE_HAVE_AUDIO

#include <kiss_fftr.h>

enum { POINTS = 512, BINS = POINTS / 2 + 1 };

struct ronde__log_mel {
  kiss_fftr_cfg transform;
  float window[RONDE__MEL_WINDOW];
  float weight[RONDE__MEL_BANDS][BINS];
  int begin[RONDE__MEL_BANDS], end[RONDE__MEL_BANDS]; /* bins whose weight is not 0 */
  float samples[POINTS], power[BINS];
  kiss_fft_cpx spectrum[BINS];
};

static const double mel_of_1khz = 15, hz_of_mel = 200.0 / 3, mels_of_a_ratio = 27 / 1.8562979903656263; /* ln 6.4 */

static double mel_of(double hz) { return hz < 1000 ? hz / hz_of_mel : mel_of_1khz + log(hz / 1000) * mels_of_a_ratio; }

static double hz_of(double mel) {
  return mel < mel_of_1khz ? mel * hz_of_mel : 1000 * exp((mel - mel_of_1khz) / mels_of_a_ratio);
}

/* Band b rises from edge b to b + 1 and falls to b + 2; edges are evenly spaced in mels. */
static void make_band(ronde__log_mel *mel, int b) {
  double step = mel_of(RONDE__SOUND_RATE / 2.0) / (RONDE__MEL_BANDS + 1);
  double from = hz_of(b * step), middle = hz_of((b + 1) * step), to = hz_of((b + 2) * step);
  mel->begin[b] = BINS;
  for (int k = 0; k < BINS; ++k) {
    double hz = (double)k * RONDE__SOUND_RATE / POINTS;
    double height = fmin((hz - from) / (middle - from), (to - hz) / (to - middle));
    if (height <= 0) continue;
    mel->weight[b][k] = (float)(height * 2 / (to - from));
    mel->begin[b] = (int)ronde__min(mel->begin[b], k);
    mel->end[b] = k + 1;
  }
}

ronde_status ronde__log_mel_create(ronde__log_mel **mel_out) {
  ronde__log_mel *mel;
  RONDE__ALLOC(mel, sizeof *mel, "log-mel features");
  for (int i = 0; i < RONDE__MEL_WINDOW; ++i)
    mel->window[i] = (float)(0.5 - 0.5 * cos(2 * M_PI * i / RONDE__MEL_WINDOW));
  for (int b = 0; b < RONDE__MEL_BANDS; ++b) make_band(mel, b);
  mel->transform = kiss_fftr_alloc(POINTS, 0, NULL, NULL);
  if (!mel->transform) {
    ronde__free(mel);
    return ronde__fail(RONDE_E_MEMORY, "log-mel features: no memory for a Fourier transform");
  }
  *mel_out = mel;
  return RONDE_OK;
}

void ronde__log_mel_destroy(ronde__log_mel *mel) {
  if (mel) kiss_fftr_free(mel->transform);
  ronde__free(mel);
}

/* Of the window around a sample: where in the transform it lies does not change the power. */
static void find_power(ronde__log_mel *mel, const float *samples, int64_t n, int64_t middle) {
  int64_t first = middle - RONDE__MEL_WINDOW / 2;
  for (int i = 0; i < RONDE__MEL_WINDOW; ++i) {
    int64_t at = first + i;
    mel->samples[i] = at >= 0 && at < n ? mel->window[i] * samples[at] : 0;
  }
  kiss_fftr(mel->transform, mel->samples, mel->spectrum);
  for (int k = 0; k < BINS; ++k)
    mel->power[k] = mel->spectrum[k].r * mel->spectrum[k].r + mel->spectrum[k].i * mel->spectrum[k].i;
}

void ronde__log_mel_run(ronde__log_mel *mel, const float *samples, int64_t n, int64_t stride, float *x) {
  int64_t frames = ronde__mel_frames(n);
  for (int64_t t = 0; t < frames; ++t) {
    find_power(mel, samples, n, t * RONDE__MEL_HOP);
    for (int b = 0; b < RONDE__MEL_BANDS; ++b) {
      double sum = 0;
      for (int k = mel->begin[b]; k < mel->end[b]; ++k) sum += (double)mel->weight[b][k] * (double)mel->power[k];
      x[b * stride + t] = (float)log(sum + FLOOR_POWER);
    }
  }
}

#else

ronde_status ronde__log_mel_create(ronde__log_mel **mel_out) {
  return ronde__fail(RONDE_E_USAGE, "this build makes no log-mel features: it lacks kissfft (Debian: libkissfft-dev)");
}

void ronde__log_mel_destroy(ronde__log_mel *mel) {}

void ronde__log_mel_run(ronde__log_mel *mel, const float *samples, int64_t n, int64_t stride, float *x) {}

#endif

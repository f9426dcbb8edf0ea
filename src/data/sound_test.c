/* WAV files: what samples they give, and which are refused, by name; log-mel features beside librosa's. */
#include "data/wav_testing.h"

#include "data/log_mel.h"

#include <jansson.h>
#include <math.h>

static test_log lines;

#ifndef RONDE_HAVE_AUDIO

static void it_says_what_it_lacks(void **state) {
  int64_t n;
  float *samples;
  assert_false(ronde__sound_supported());
  test_log_start(&lines);
  check_failed(&lines, ronde__sound_read("a.wav", "", 0, &n, &samples), RONDE_E_USAGE, "a.wav", "libsndfile1-dev");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(it_says_what_it_lacks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

static ronde_status read_bytes(test_bytes wav, int64_t *n_out, float **samples_out) {
  test_log_start(&lines);
  return ronde__sound_read("a.wav", wav.data, wav.n, n_out, samples_out);
}

/* Two frames of two channels: 0.5 and 0, then -1 and 0.5. */
static void check_form(int format, int bits, const void *payload, size_t bytes) {
  const test_wav head = {(uint16_t)format, 2, (uint16_t)bits, 16000};
  test_bytes wav = test_wav_make(&head, payload, bytes);
  int64_t n = 0, length = 0;
  float *samples;
  assert_int_equal(read_bytes(wav, &n, &samples), RONDE_OK);
  assert_int_equal(ronde__sound_length("a.wav", wav.data, wav.n, &length), RONDE_OK);
  assert_true(n == 2 && length == 2);
  assert_true(samples[0] == 0.25f && samples[1] == -0.25f);
  ronde__free(samples);
  free(wav.data);
}

static void every_form_gives_the_same_samples(void **state) {
  const uint8_t of24[] = {0, 0, 0x40, 0, 0, 0, 0, 0, 0x80, 0, 0, 0x40};
  const int16_t of16[] = {0x4000, 0, -0x8000, 0x4000};
  const int32_t of32[] = {0x40000000, 0, INT32_MIN, 0x40000000};
  const float floats[] = {0.5f, 0, -1, 0.5f};
  const double doubles[] = {0.5, 0, -1, 0.5};
  check_form(1, 16, of16, sizeof of16);
  check_form(1, 24, of24, sizeof of24);
  check_form(1, 32, of32, sizeof of32);
  check_form(3, 32, floats, sizeof floats);
  check_form(3, 64, doubles, sizeof doubles);
}

/* libsndfile would stumble over what this claims, and takes minutes over fuzz/corpus/sound/list. */
static void what_stands_behind_the_samples_is_not_read(void **state) {
  static const char claims[] = "RIFF@\0\2\0WAVELISTRI\0W#";
  const int16_t of16[] = {0x4000, 0, -0x8000, 0x4000};
  const test_wav head = {1, 2, 16, 16000};
  test_bytes wav = test_wav_make(&head, of16, sizeof of16);
  size_t n = wav.n;
  int64_t length;
  wav.data = realloc(wav.data, wav.n += 136);
  memset(wav.data + n, 0xff, 136);
  memcpy(wav.data + n, claims, sizeof claims - 1);
  assert_int_equal(ronde__sound_length("a.wav", wav.data, wav.n, &length), RONDE_OK);
  assert_int_equal(length, 2);
  free(wav.data);
}

/* A tone keeps its pitch and its size, whatever the rate; its ends are left out. */
static void other_rates_are_resampled(void **state) {
  static const uint32_t rates[] = {8000, 11025, 22050, 44100, 48000};
  for (size_t r = 0; r < RONDE__COUNT(rates); ++r) {
    const test_wav head = {3, 1, 32, rates[r]};
    size_t n_own = rates[r] / 10 + 1;
    float *own = malloc(n_own * sizeof *own), *samples;
    for (size_t i = 0; i < n_own; ++i) own[i] = (float)(0.5 * sin(2 * M_PI * 440 * (double)i / rates[r]));
    test_bytes wav = test_wav_make(&head, own, n_own * sizeof *own);
    int64_t n;
    assert_int_equal(read_bytes(wav, &n, &samples), RONDE_OK);
    assert_int_equal(n, ronde__ceil_div((int64_t)n_own * 16000, rates[r]));
    for (int64_t i = 200; i < n - 200; ++i) {
      double wanted = 0.5 * sin(2 * M_PI * 440 * (double)i / 16000);
      if (!(fabs(samples[i] - wanted) < 2e-3)) fail_msg("%u: sample %lld is %g", rates[r], (long long)i, samples[i]);
    }
    ronde__free(samples);
    free(wav.data);
    free(own);
  }
}

static void check_refused(test_bytes wav, const char *words) {
  int64_t n;
  float *samples;
  check_failed(&lines, read_bytes(wav, &n, &samples), RONDE_E_INPUT, "a.wav", words);
  free(wav.data);
}

static test_bytes cut(test_bytes wav, size_t n) {
  wav.n = n;
  return wav;
}

static test_bytes put32(test_bytes wav, size_t at, uint32_t value) {
  memcpy(wav.data + at, &value, sizeof value);
  return wav;
}

static void what_is_no_sound_is_refused(void **state) {
  static const int a[] = {440};
  static const uint8_t bytes[68] = {0};
  const float broken[] = {0, NAN, 0}, infinite[] = {0, 0, INFINITY};
  const test_wav plain = {1, 1, 8, 16000}, law = {7, 1, 8, 8000}, crowd = {1, 17, 16, 16000}, slow = {1, 1, 16, 999},
                 fast = {1, 1, 16, 384001}, floats = {3, 1, 32, 16000};
  check_refused(test_bytes_make("", 0), "not a WAV file");
  check_refused(test_bytes_make("OggS\0\2", 6), "not a WAV file");
  check_refused(cut(test_wav_tones(100, a, 1), 11), "not a WAV file");
  check_refused(cut(test_wav_tones(100, a, 1), 30), "offset 16: 16 bytes are claimed, but 10 are there");
  check_refused(cut(test_wav_tones(100, a, 1), 40), "offset 40: the file ends before its samples");
  check_refused(cut(test_wav_tones(100, a, 1), 143), "offset 40: 200 bytes of samples are claimed, but 99 are there");
  check_refused(put32(test_wav_tones(100, a, 1), 40, 0xffffffff), "4294967295 bytes of samples are claimed");
  check_refused(put32(test_wav_tones(100, a, 1), 16, 0xfffffff0), "offset 16: 4294967280 bytes are claimed");
  check_refused(test_wav_tones(0, a, 1), "it has no samples");
  check_refused(test_wav_make(&plain, bytes, 68), "neither PCM of 16, 24 or 32 bits nor floats");
  check_refused(test_wav_make(&law, bytes, 68), "neither PCM of 16, 24 or 32 bits nor floats");
  check_refused(test_wav_make(&crowd, bytes, 68), "17 channels");
  check_refused(test_wav_make(&slow, bytes, 68), "999 samples a second");
  check_refused(test_wav_make(&fast, bytes, 68), "384001 samples a second");
  check_refused(test_wav_make(&floats, broken, sizeof broken), "sample 1 is NaN or Inf");
  check_refused(test_wav_make(&floats, infinite, sizeof infinite), "sample 2 is NaN or Inf");
  const float loud[] = {0, 0.5f, -3e38f};
  check_refused(test_wav_make(&floats, loud, sizeof loud), "sample 2 is -3e+38, where full scale is 1");
}

/* An hour of silence at 1,000 samples a second. */
static void an_hour_is_too_long(void **state) {
  const test_wav slow = {1, 1, 16, 1000};
  size_t bytes = 3600 * 1000 * 2;
  uint8_t *silence = calloc(bytes, 1);
  check_refused(test_wav_make(&slow, silence, bytes), "it lasts an hour or longer");
  free(silence);
}

/* ---- features ---- */

static uint32_t hash32(uint32_t stream, uint32_t i) {
  uint32_t h = i * 2654435761u + stream * 2246822519u + 374761393u;
  h = (h ^ h >> 16) * 0x85ebca6bu;
  h = (h ^ h >> 13) * 0xc2b2ae35u;
  return h ^ h >> 16;
}

/* As tests/golden/make_golden_log_mel.py makes them. */
static float signal_at(const char *name, int64_t i) {
  double t = (double)i;
  if (!strcmp(name, "noise"))
    return ldexpf((float)((int32_t)(hash32(3000, (uint32_t)i) >> 8) - (1 << 23)) / (1 << 23), -(int)(i / 100));
  return strcmp(name, "sweep") ? 0.25f : (float)(0.5 * sin(0.1 * t + 0.001 * t * t));
}

static void check_features(const json_t *of) {
  const char *name = json_string_value(json_object_get(of, "name"));
  int64_t n = json_integer_value(json_object_get(of, "samples")), frames = ronde__mel_frames(n), stride = frames + 2;
  const json_t *wanted = json_object_get(of, "features");
  float *samples = malloc((size_t)n * sizeof *samples), *x = calloc((size_t)(80 * stride), sizeof *x);
  ronde__log_mel *mel;
  double worst = 0;
  for (int64_t i = 0; i < n; ++i) samples[i] = signal_at(name, i);
  assert_int_equal(ronde__log_mel_create(&mel), RONDE_OK);
  ronde__log_mel_run(mel, samples, n, stride, x);
  assert_int_equal(frames, json_integer_value(json_object_get(of, "frames")));
  assert_int_equal(json_array_size(wanted), 80 * frames);
  for (int64_t i = 0; i < 80 * frames; ++i)
    worst = fmax(
        worst, fabs((double)x[i / frames * stride + i % frames] - json_real_value(json_array_get(wanted, (size_t)i))));
  if (!(worst < 1e-4)) fail_msg("%s: features differ by %g", name, worst);
  for (int64_t i = 0; i < 80 * stride; ++i)
    if (i % stride >= frames) assert_true(x[i] == 0);
  ronde__log_mel_destroy(mel);
  free(samples);
  free(x);
}

static void features_are_librosas(void **state) {
  json_t *golden = json_load_file(RONDE_SOURCE_DIR "/tests/golden/log-mel.json", 0, NULL);
  const json_t *cases = json_object_get(golden, "cases"), *of;
  size_t i;
  assert_int_equal(json_array_size(cases), 3);
  json_array_foreach(cases, i, of) check_features(of);
  json_decref(golden);
}

static void normalized_features_have_mean_0_and_deviation_1(void **state) {
  enum { FRAMES = 3, STRIDE = 4 };
  float x[80 * STRIDE];
  double sum = 0, squares = 0;
  for (int i = 0; i < 80 * STRIDE; ++i) x[i] = i % STRIDE < FRAMES ? (float)(i % 7 - 20) : 77;
  ronde__log_mel_normalize(FRAMES, STRIDE, x);
  for (int i = 0; i < 80 * STRIDE; ++i) {
    if (i % STRIDE >= FRAMES) assert_true(x[i] == 77);
    else sum += (double)x[i], squares += (double)x[i] * (double)x[i];
  }
  assert_true(fabs(sum) < 1e-4 && fabs(squares / (80 * FRAMES) - 1) < 1e-5);
  for (int i = 0; i < 80 * STRIDE; ++i) x[i] = -13.8f;
  ronde__log_mel_normalize(FRAMES, STRIDE, x);
  assert_true(x[0] == 0 && x[STRIDE + 2] == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_form_gives_the_same_samples),
      cmocka_unit_test(what_stands_behind_the_samples_is_not_read),
      cmocka_unit_test(other_rates_are_resampled),
      cmocka_unit_test(what_is_no_sound_is_refused),
      cmocka_unit_test(an_hour_is_too_long),
      cmocka_unit_test(features_are_librosas),
      cmocka_unit_test(normalized_features_have_mean_0_and_deviation_1),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif

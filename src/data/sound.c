/* WAV files by libsndfile, brought to one rate by libsamplerate. libsndfile takes what there is of a file that was cut off, so
 * the chunks are walked here first; and it is given none behind the samples, as it can take minutes over what those claim.
 * Source: Microsoft and IBM, "Multimedia programming interface and data specifications 1.0", 1991: a chunk is four letters, a
 * length and so many bytes, padded to an even number. */
#include "data/sound.h"

#include "data/stream.h"

#define FILE_BYTES_MAX (256 << 20)

ronde_status ronde__sound_load(const char *path, uint8_t **data_out, size_t *bytes_out) {
  return ronde__stream_load(path, FILE_BYTES_MAX, "a recording", data_out, bytes_out);
}

#ifdef RONDE_HAVE_AUDIO

#include <math.h>
#include <samplerate.h>
#include <sndfile.h>
#include <string.h>

enum {
  FRONT_BYTES = 12,
  HEAD_BYTES = 8,
  CHANNELS_MAX = 16,
  RATE_MIN = 1000,
  RATE_MAX = 384000,
  SECONDS_MAX = 3600,
  AT_ONCE = 4096
};

bool ronde__sound_supported(void) { return true; }

/* ---- the bytes, as a file ---- */

typedef struct sound_bytes {
  const uint8_t *data;
  sf_count_t n, at;
} sound_bytes;

static sf_count_t bytes_length(void *user) { return ((const sound_bytes *)user)->n; }
static sf_count_t bytes_tell(void *user) { return ((const sound_bytes *)user)->at; }

static sf_count_t bytes_seek(sf_count_t offset, int whence, void *user) {
  sound_bytes *b = user;
  sf_count_t at = offset + (whence == SEEK_SET ? 0 : whence == SEEK_CUR ? b->at : b->n);
  if (at < 0 || at > b->n) return -1;
  return b->at = at;
}

static sf_count_t bytes_read(void *to, sf_count_t n, void *user) {
  sound_bytes *b = user;
  sf_count_t taken = ronde__max(0, ronde__min(n, b->n - b->at));
  memcpy(to, b->data + b->at, (size_t)taken);
  b->at += taken;
  return taken;
}

/* ---- the header ---- */

static uint32_t sound_le32(const uint8_t *at) {
  return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* That all chunks up to the samples, and these, lie within the file; where the samples end. */
static ronde_status check_chunks(const char *name, const uint8_t *data, size_t bytes, size_t *end_out) {
  if (bytes < FRONT_BYTES || memcmp(data, "RIFF", 4) != 0 || memcmp(data + 8, "WAVE", 4) != 0)
    return ronde__fail(RONDE_E_INPUT, "%s: offset 0: not a WAV file", name);
  for (size_t at = FRONT_BYTES; bytes - at >= HEAD_BYTES;) {
    size_t n = sound_le32(data + at + 4), left = bytes - at - HEAD_BYTES;
    bool are_samples = !memcmp(data + at, "data", 4);
    if (n > left)
      return ronde__fail(RONDE_E_INPUT, "%s: offset %zu: %zu bytes%s are claimed, but %zu are there", name, at + 4, n,
                         are_samples ? " of samples" : "", left);
    at += HEAD_BYTES + n;
    if (are_samples) return *end_out = at, RONDE_OK;
    at += n % 2 && at < bytes;
  }
  return ronde__fail(RONDE_E_INPUT, "%s: offset %zu: the file ends before its samples", name, bytes);
}

static bool is_plain(int format) {
  int container = format & SF_FORMAT_TYPEMASK, of = format & SF_FORMAT_SUBMASK;
  return (container == SF_FORMAT_WAV || container == SF_FORMAT_WAVEX) &&
         (of == SF_FORMAT_PCM_16 || of == SF_FORMAT_PCM_24 || of == SF_FORMAT_PCM_32 || of == SF_FORMAT_FLOAT ||
          of == SF_FORMAT_DOUBLE);
}

static ronde_status check_info(const char *name, const SF_INFO *info) {
  if (!is_plain(info->format))
    return ronde__fail(RONDE_E_INPUT, "%s: its samples are neither PCM of 16, 24 or 32 bits nor floats", name);
  if (info->channels < 1 || info->channels > CHANNELS_MAX)
    return ronde__fail(RONDE_E_INPUT, "%s: it has %d channels, not 1 to %d", name, info->channels, CHANNELS_MAX);
  if (info->samplerate < RATE_MIN || info->samplerate > RATE_MAX)
    return ronde__fail(RONDE_E_INPUT, "%s: it has %d samples a second, not %d to %d", name, info->samplerate, RATE_MIN,
                       RATE_MAX);
  if (info->frames / info->samplerate >= SECONDS_MAX)
    return ronde__fail(RONDE_E_INPUT, "%s: it lasts an hour or longer", name);
  return info->frames > 0 ? RONDE_OK : ronde__fail(RONDE_E_INPUT, "%s: it has no samples", name);
}

/* file: of libsndfile, over *b. */
static ronde_status sound_open(const char *name, const void *data, size_t bytes, sound_bytes *b, SNDFILE **file_out,
                               SF_INFO *info_out) {
  SF_VIRTUAL_IO io = {.get_filelen = bytes_length, .seek = bytes_seek, .read = bytes_read, .tell = bytes_tell};
  SF_INFO info = {0};
  size_t end = 0;
  RONDE_TRY(check_chunks(name, data, bytes, &end));
  *b = (sound_bytes){data, (sf_count_t)end, 0};
  SNDFILE *file = sf_open_virtual(&io, SFM_READ, &info, b);
  if (!file) return ronde__fail(RONDE_E_INPUT, "%s: a damaged WAV file: %s", name, sf_strerror(NULL));
  ronde_status status = check_info(name, &info);
  if (status != RONDE_OK) {
    sf_close(file);
    return status;
  }
  *file_out = file;
  *info_out = info;
  return RONDE_OK;
}

static int64_t resampled_length(const SF_INFO *info) {
  return ronde__ceil_div((int64_t)info->frames * RONDE__SOUND_RATE, info->samplerate);
}

ronde_status ronde__sound_length(const char *name, const void *data, size_t bytes, int64_t *n_out) {
  sound_bytes b;
  SNDFILE *file;
  SF_INFO info;
  RONDE_TRY(sound_open(name, data, bytes, &b, &file, &info));
  sf_close(file);
  *n_out = resampled_length(&info);
  return RONDE_OK;
}

/* ---- the samples ---- */

#define LOUDEST 1e6f /* times full scale; far beyond what is sound, and its square is finite */

/* room [AT_ONCE][channels] */
static ronde_status read_mono(const char *name, SNDFILE *file, const SF_INFO *info, float *room, float *mono) {
  for (int64_t at = 0; at < info->frames;) {
    int64_t n = sf_readf_float(file, room, ronde__min(AT_ONCE, info->frames - at));
    if (n <= 0)
      return ronde__fail(RONDE_E_INPUT, "%s: sample %lld of %lld cannot be read", name, (long long)at,
                         (long long)info->frames);
    for (int64_t i = 0; i < n; ++i) {
      float sum = 0;
      for (int c = 0; c < info->channels; ++c) sum += room[i * info->channels + c];
      mono[at + i] = sum / (float)info->channels;
      if (!isfinite(mono[at + i]))
        return ronde__fail(RONDE_E_INPUT, "%s: sample %lld is NaN or Inf", name, (long long)(at + i));
      if (fabsf(mono[at + i]) > LOUDEST)
        return ronde__fail(RONDE_E_INPUT, "%s: sample %lld is %g, where full scale is 1", name, (long long)(at + i),
                           (double)mono[at + i]);
    }
    at += n;
  }
  return RONDE_OK;
}

/* Replaces *x [info->frames] by n samples at the common rate. */
static ronde_status sound_resample(const char *name, const SF_INFO *info, int64_t n, float **x) {
  if (info->samplerate == RONDE__SOUND_RATE) return RONDE_OK;
  float *resampled = ronde__alloc((size_t)n * sizeof *resampled);
  if (!resampled) return ronde__fail(RONDE_E_MEMORY, "%s: no memory for %lld samples", name, (long long)n);
  SRC_DATA job = {.data_in = *x,
                  .data_out = resampled,
                  .input_frames = (long)info->frames,
                  .output_frames = (long)n,
                  .src_ratio = (double)RONDE__SOUND_RATE / info->samplerate};
  int error = src_simple(&job, SRC_SINC_MEDIUM_QUALITY, 1);
  if (error) {
    ronde__free(resampled);
    return ronde__fail(RONDE_E_INPUT, "%s: it cannot be resampled: %s", name, src_strerror(error));
  }
  ronde__free(*x);
  *x = resampled;
  return RONDE_OK;
}

ronde_status ronde__sound_read(const char *name, const void *data, size_t bytes, int64_t *n_out, float **samples_out) {
  sound_bytes b;
  SNDFILE *file;
  SF_INFO info;
  RONDE_TRY(sound_open(name, data, bytes, &b, &file, &info));
  float *mono = ronde__alloc((size_t)info.frames * sizeof *mono);
  float *room = ronde__alloc((size_t)AT_ONCE * (size_t)info.channels * sizeof *room);
  ronde_status status =
      mono && room ? RONDE_OK
                   : ronde__fail(RONDE_E_MEMORY, "%s: no memory for %lld samples", name, (long long)info.frames);
  if (status == RONDE_OK) status = read_mono(name, file, &info, room, mono);
  sf_close(file);
  ronde__free(room);
  if (status == RONDE_OK) status = sound_resample(name, &info, resampled_length(&info), &mono);
  if (status != RONDE_OK) {
    ronde__free(mono);
    return status;
  }
  *n_out = resampled_length(&info);
  *samples_out = mono;
  return RONDE_OK;
}

#else

static ronde_status sound_unsupported(const char *name) {
  return ronde__fail(
      RONDE_E_USAGE,
      "%s: this build cannot read WAV files: it needs libsndfile, libsamplerate and kissfft (Debian: libsndfile1-dev, "
      "libsamplerate0-dev and libkissfft-dev)",
      name);
}

bool ronde__sound_supported(void) { return false; }

ronde_status ronde__sound_length(const char *name, const void *data, size_t bytes, int64_t *n_out) {
  return sound_unsupported(name);
}

ronde_status ronde__sound_read(const char *name, const void *data, size_t bytes, int64_t *n_out, float **samples_out) {
  return sound_unsupported(name);
}

#endif

/* Recordings with what is said in them: DIR/train and DIR/test, or DIR alone for training, each with a transcripts.txt whose lines
 * are NAME, a TAB and the text, and with the WAV files NAME or NAME.wav. An example is the log-mel features of a recording,
 * [80][T], normalised by itself, with zeros behind its end, and behind these its number of frames. Labels are the text's
 * characters, numbered in the order of their code points from 1 on; 0 is the blank of CTC; behind them RONDE_IGNORED.
 * Legend: T frames of the longest recording, S characters of the longest text. */
#include "data/audio.h"
#include "data/pairs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES_MAX = 1 << 14 };

/* ---- texts ---- */

/* The next code point of a text in UTF-8, and its bytes. */
static uint32_t next_point(const char **at, int *bytes_out) {
  const unsigned char *p = (const unsigned char *)*at;
  int n = p[0] < 0x80 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
  uint32_t point = n == 1 ? p[0] : p[0] & (0xffu >> (n + 1));
  for (int i = 1; i < n; ++i) point = point << 6 | (p[i] & 0x3fu);
  *at += n;
  *bytes_out = n;
  return point;
}

/* Blanks at the ends go, and several become one. */
static void trim_text(char *text) {
  char *to = text;
  for (const char *at = text; *at; ++at)
    if (*at != ' ' || (to > text && to[-1] != ' ')) *to++ = *at;
  if (to > text && to[-1] == ' ') --to;
  *to = '\0';
}

/* ---- a file of transcripts ---- */

typedef struct transcripts {
  ronde__stream *stream;
  ronde__pairs *pairs;
  const char *path;
  char text[LINE_BYTES_MAX];
} transcripts;

static void transcripts_close(transcripts *t) {
  if (!t) return;
  ronde__pairs_close(t->pairs);
  ronde__stream_close(t->stream);
  ronde__free(t);
}

static ronde_status transcripts_open(const char *path, transcripts **t_out) {
  transcripts *t;
  RONDE__ALLOC(t, sizeof *t, path);
  t->path = path;
  ronde_status status = ronde__stream_open(path, &t->stream);
  if (status == RONDE_OK) status = ronde__pairs_open(t->stream, LINE_BYTES_MAX, &t->pairs);
  if (status == RONDE_OK) *t_out = t;
  else transcripts_close(t);
  return status;
}

/* The next one's name, and t->text; NULL: there is none. */
static ronde_status transcripts_next(transcripts *t, const char **name_out) {
  ronde__pair_of_texts pair;
  bool any;
  RONDE_TRY(ronde__pairs_next(t->pairs, &pair, &any));
  if (ronde__pairs_n_long(t->pairs))
    return ronde__fail(RONDE_E_INPUT, "%s: a name or a text has %d bytes or more", t->path, LINE_BYTES_MAX);
  *name_out = NULL;
  if (!any) return RONDE_OK;
  memcpy(t->text, pair.target, strlen(pair.target) + 1);
  trim_text(t->text);
  if (!t->text[0]) return ronde__fail(RONDE_E_INPUT, "%s: line %lld: the text is empty", t->path, (long long)pair.line);
  *name_out = pair.source;
  return RONDE_OK;
}

/* ---- finding ---- */

/* Characters that were met, in order. */
typedef struct alphabet {
  uint32_t *point; /* [n] */
  int64_t n, room;
} alphabet;

/* Where the code point is, or belongs. */
static int64_t alphabet_place(const alphabet *a, uint32_t point) {
  int64_t begin = 0, end = a->n;
  while (begin < end) {
    int64_t middle = (begin + end) / 2;
    if (a->point[middle] < point) begin = middle + 1;
    else end = middle;
  }
  return begin;
}

static ronde_status alphabet_add(alphabet *a, uint32_t point) {
  int64_t at = alphabet_place(a, point);
  if (at < a->n && a->point[at] == point) return RONDE_OK;
  if (a->n == a->room) {
    int64_t room = ronde__max(64, 2 * a->room);
    uint32_t *points = realloc(a->point, (size_t)room * sizeof *points);
    if (!points) return ronde__fail(RONDE_E_MEMORY, "audio: no memory for %lld characters", (long long)room);
    a->point = points;
    a->room = room;
  }
  memmove(a->point + at + 1, a->point + at, (size_t)(a->n++ - at) * sizeof *a->point);
  a->point[at] = point;
  return RONDE_OK;
}

static ronde_status alphabet_add_text(alphabet *a, const char *text) {
  int bytes;
  while (*text) RONDE_TRY(alphabet_add(a, next_point(&text, &bytes)));
  return RONDE_OK;
}

/* The same in UTF-8. */
static void point_text(uint32_t point, char text[5]) {
  static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
  int n = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
  for (int i = n - 1; i > 0; --i, point >>= 6) text[i] = (char)(0x80 | (point & 0x3f));
  text[0] = (char)(lead[n == 1 ? 0 : n] | point);
  text[n] = '\0';
}

static ronde_status name_classes(const alphabet *a, ronde__set *set) {
  RONDE_TRY(ronde__files_add(&set->class_names, ronde__strdup(RONDE__BLANK_NAME), 0));
  for (int64_t i = 0; i < a->n; ++i) {
    char text[5];
    point_text(a->point[i], text);
    RONDE_TRY(ronde__files_add(&set->class_names, ronde__strdup(text), 0));
  }
  set->classes = set->class_names.n;
  return RONDE_OK;
}

/* DIR/NAME, or DIR/NAME.wav. */
static ronde_status add_recording(const char *dir, const char *name, ronde__files *to) {
  char *path = ronde__format("%s/%s", dir, name);
  if (path && access(path, F_OK)) {
    free(path);
    path = ronde__format("%s/%s.wav", dir, name);
  }
  if (path && access(path, F_OK)) {
    free(path);
    return ronde__fail(RONDE_E_INPUT, "%s/transcripts.txt: there is no %s/%s, nor with .wav", dir, dir,
                       RONDE__SHOWN(name));
  }
  return ronde__files_add(to, path, 0);
}

/* One split's recordings and characters. */
static ronde_status find_recordings(const char *dir, ronde_split split, ronde__set *set, alphabet *characters) {
  transcripts *t;
  const char *name;
  RONDE_TRY(transcripts_open(set->y_path[split], &t));
  ronde_status status = RONDE_OK;
  while (status == RONDE_OK && (status = transcripts_next(t, &name)) == RONDE_OK && name) {
    status = add_recording(dir, name, &set->files[split]);
    if (status == RONDE_OK) status = alphabet_add_text(characters, t->text);
  }
  transcripts_close(t);
  if (status == RONDE_OK && set->files[split].n == 0)
    status = ronde__fail(RONDE_E_INPUT, "%s: there are no transcripts", set->y_path[split]);
  return status;
}

/* Whether the folder has transcripts, which are then the split's. */
static ronde_status find_transcripts(const char *dir, ronde_split split, ronde__set *set, bool *found_out) {
  char *path = ronde__format("%s/transcripts.txt", dir);
  if (!path) return ronde__fail(RONDE_E_MEMORY, "%s: no memory", dir);
  if (!(*found_out = !access(path, F_OK))) return free(path), RONDE_OK;
  set->y_path[split] = path;
  return RONDE_OK;
}

static ronde_status find_in(const char *dir, const char *train, const char *test, ronde__set *set,
                            alphabet *characters) {
  bool has_train, has_test, has_own = false;
  RONDE_TRY(find_transcripts(train, RONDE_SPLIT_TRAIN, set, &has_train));
  RONDE_TRY(find_transcripts(test, RONDE_SPLIT_TEST, set, &has_test));
  if (!has_train && !has_test) RONDE_TRY(find_transcripts(dir, RONDE_SPLIT_TRAIN, set, &has_own));
  if (!has_train && !has_test && !has_own)
    return ronde__fail(RONDE_E_INPUT, "%s/transcripts.txt: not found, nor in %s or %s", dir, train, test);
  if (has_train || has_own) RONDE_TRY(find_recordings(has_train ? train : dir, RONDE_SPLIT_TRAIN, set, characters));
  if (has_test) RONDE_TRY(find_recordings(test, RONDE_SPLIT_TEST, set, characters));
  return name_classes(characters, set);
}

ronde_status ronde__audio_find(const char *dir, ronde__set *set) {
  set->kind = &ronde__audio_kind;
  if (ronde__is_empty(dir)) return ronde__fail(RONDE_E_USAGE, "data set audio: no folder is given: write audio:DIR");
  if (!ronde__sound_supported()) return ronde__sound_length(dir, NULL, 0, NULL); /* says what it lacks */
  char *train = ronde__format("%s/train", dir), *test = ronde__format("%s/test", dir);
  alphabet characters = {0};
  ronde_status status =
      train && test ? find_in(dir, train, test, set, &characters) : ronde__fail(RONDE_E_MEMORY, "%s: no memory", dir);
  free(train);
  free(test);
  free(characters.point);
  return status;
}

/* ---- measuring ---- */

static int64_t count_characters(const char *text) {
  int64_t n = 0;
  for (int bytes; *text; ++n) next_point(&text, &bytes);
  return n;
}

static ronde_status measure_frames(const char *path, int64_t *frames_out) {
  uint8_t *data;
  size_t bytes;
  int64_t n;
  RONDE_TRY(ronde__sound_load(path, &data, &bytes));
  ronde_status status = ronde__sound_length(path, data, bytes, &n);
  ronde__free(data);
  if (status == RONDE_OK) *frames_out = ronde__mel_frames(n);
  return status;
}

static ronde_status audio_changed(const char *path) {
  return ronde__fail(RONDE_E_INPUT, "%s: the file changed while it was in use", path);
}

typedef struct survey {
  int64_t frames, characters; /* of the longest */
  ronde__facts facts;
} survey;

static ronde_status survey_split(const ronde__set *set, int split, transcripts *t, survey *s) {
  const ronde__files *files = &set->files[split];
  const char *name;
  for (int64_t i = 0; i < files->n; ++i) {
    int64_t frames;
    RONDE_TRY(transcripts_next(t, &name));
    if (!name) return audio_changed(t->path);
    RONDE_TRY(measure_frames(files->path[i], &frames));
    bool fits = set->window == 0 || frames <= set->window;
    s->facts.n_skipped += !fits;
    s->facts.n[split] += fits;
    s->frames = ronde__max(s->frames, fits ? frames : 0);
    s->characters = ronde__max(s->characters, fits ? count_characters(t->text) : 0);
  }
  return RONDE_OK;
}

static ronde_status audio_scan(const ronde__set *set, ronde__facts *facts_out) {
  survey s = {.facts = {.is_table = 1, .f32 = 1, .mels = RONDE__MEL_BANDS}};
  for (int split = 0; split < 2; ++split) {
    transcripts *t;
    if (!set->y_path[split]) continue;
    RONDE_TRY(transcripts_open(set->y_path[split], &t));
    ronde_status status = survey_split(set, split, t, &s);
    transcripts_close(t);
    RONDE_TRY(status);
  }
  if (s.facts.n[0] + s.facts.n[1] == 0)
    return ronde__fail(RONDE_E_INPUT, "audio: no recording has at most --frames %lld", (long long)set->window);
  int64_t frames = set->window ? set->window : s.frames;
  s.facts.dims[0] = RONDE__MEL_BANDS * frames + 1;
  s.facts.dims[1] = s.facts.dims[2] = 1;
  s.facts.label_elems = s.characters;
  s.facts.label_bytes[0] = s.facts.label_bytes[1] = 1;
  *facts_out = s.facts;
  return RONDE_OK;
}

/* ---- decoding ---- */

ronde_status ronde__audio_features(ronde__log_mel *mel, const char *path, int64_t stride, float *x,
                                   int64_t *frames_out) {
  uint8_t *data;
  size_t bytes;
  int64_t n;
  float *samples;
  RONDE_TRY(ronde__sound_load(path, &data, &bytes));
  ronde_status status = ronde__sound_read(path, data, bytes, &n, &samples);
  ronde__free(data);
  RONDE_TRY(status);
  *frames_out = ronde__mel_frames(n);
  if (*frames_out <= stride) {
    ronde__log_mel_run(mel, samples, n, stride, x);
    ronde__log_mel_normalize(*frames_out, stride, x);
  }
  ronde__free(samples);
  return RONDE_OK;
}

/* labels [label_elems] */
static ronde_status write_labels(const ronde__set *set, const char *text, int64_t most, int64_t *labels) {
  for (int64_t s = 0; s < most; ++s) labels[s] = RONDE_IGNORED;
  for (int64_t s = 0; *text; ++s) {
    char character[5] = "";
    const char *at = text;
    int bytes;
    next_point(&text, &bytes);
    memcpy(character, at, (size_t)bytes);
    int64_t k = 1;
    while (k < set->class_names.n && strcmp(set->class_names.path[k], character) != 0) ++k;
    if (s == most || k == set->class_names.n) return audio_changed(set->name);
    labels[s] = k;
  }
  return RONDE_OK;
}

static ronde_status fill_split(const ronde__set *set, const ronde__facts *facts, ronde_split split, transcripts *t,
                               ronde__log_mel *mel, float *x, int64_t *labels) {
  int64_t elems = facts->dims[0], stride = (elems - 1) / RONDE__MEL_BANDS, n = 0;
  const ronde__files *files = &set->files[split];
  for (int64_t i = 0; i < files->n; ++i) {
    const char *name;
    int64_t frames;
    RONDE_TRY(transcripts_next(t, &name));
    if (!name) return audio_changed(t->path);
    if (n == facts->n[split]) {
      RONDE_TRY(measure_frames(files->path[i], &frames));
      if (frames <= stride) return audio_changed(files->path[i]);
      continue;
    }
    float *row = x + n * elems;
    memset(row, 0, (size_t)elems * sizeof *row);
    RONDE_TRY(ronde__audio_features(mel, files->path[i], stride, row, &frames));
    if (frames > stride && !set->window) return audio_changed(files->path[i]);
    if (frames > stride) continue;
    row[elems - 1] = (float)frames;
    RONDE_TRY(write_labels(set, t->text, facts->label_elems, labels + n++ * facts->label_elems));
  }
  return n == facts->n[split] ? RONDE_OK : audio_changed(t->path);
}

static ronde_status audio_fill(const ronde__set *set, const ronde__facts *facts, ronde_split split, void *x,
                               int64_t *labels, float *targets) {
  transcripts *t = NULL;
  ronde__log_mel *mel = NULL;
  ronde_status status = transcripts_open(set->y_path[split], &t);
  if (status == RONDE_OK) status = ronde__log_mel_create(&mel);
  if (status == RONDE_OK) status = fill_split(set, facts, split, t, mel, x, labels);
  ronde__log_mel_destroy(mel);
  transcripts_close(t);
  return status;
}

const ronde__set_kind ronde__audio_kind = {audio_scan, audio_fill};

/* Recordings that a network transcribes, greedily: the likeliest class of each step, of equal neighbours one, without blanks.
 * Source: Graves et al., "Connectionist temporal classification: labelling unsegmented sequence data with recurrent neural
 * networks", 2006, section 3.2, best path decoding. */
#include "verbs/transcribe.h"

#include "base/json.h"
#include "data/audio.h"
#include "job/normalize.h"
#include "state/predictor.h"
#include "verbs/paths.h"

#include <math.h>
#include <string.h>

/* ---- from logits to texts ---- */

int64_t ronde__ctc_greedy(const ronde__steps_of *of, float frames, const float *logits, int64_t *labels_out) {
  int64_t a_step = ronde__ceil_div(of->frames, of->steps), n = 0, before = 0;
  int64_t there = ronde__max(0, ronde__min(of->frames, llrintf(frames)));
  for (int64_t t = 0; t < ronde__ceil_div(there, a_step); t++) {
    const float *of_step = logits + t * of->classes;
    int64_t best = 0;
    for (int64_t k = 1; k < of->classes; k++)
      if (of_step[k] > of_step[best]) best = k;
    if (best && best != before) labels_out[n++] = best;
    before = best;
  }
  return n;
}

size_t ronde__alphabet_bytes(const ronde__alphabet *alphabet, int64_t n) {
  size_t longest = 1;
  const char *name;
  for (int64_t k = 0; (name = alphabet->name(alphabet->user, k)); k++)
    if (strlen(name) > longest) longest = strlen(name);
  return (size_t)n * longest + 1;
}

void ronde__alphabet_text(const ronde__alphabet *alphabet, const int64_t *labels, int64_t n, char *text) {
  for (int64_t i = 0; i < n; i++) {
    const char *name = alphabet->name(alphabet->user, labels[i]);
    size_t length = name ? strlen(name) : 0;
    if (length) memcpy(text, name, length);
    text += length;
  }
  *text = '\0';
}

/* ---- set-up ---- */

bool ronde__transcribes(const ronde__job *job) {
  const ronde__shape one = {1, {1}};
  return job->more.n == 1 && !strcmp(job->more.at[0].name, RONDE__LENGTHS_INPUT) && job->more.at[0].vocabulary == 0 &&
         ronde__shape_equal(&job->more.at[0].shape, &one) && job->shape.rank == 3 && job->vocabulary == 0;
}

typedef struct transcription {
  ronde__job *job;
  ronde_predictor *predictor;
  ronde__log_mel *mel;
  ronde__paths paths;
  ronde__alphabet alphabet;
  ronde__steps_of steps;
  float *x, *y; /* [bands][frames] and their number, [steps][classes] */
  int64_t *labels;
  char *text;
  json_t *examples; /* NULL: nobody wants the whole as JSON */
} transcription;

static const char *name_of_output(const void *user, int64_t k) { return ronde_predictor_class(user, k); }

static bool is_recording(const void *user, const char *name) { return ronde__path_has_end(name, ".wav"); }

static ronde_status check_options(const ronde__job *job) {
  RONDE_TRY(ronde__config_settle(job->config, RONDE__NEED_CLASSES, false));
  RONDE_TRY(ronde__config_settle(job->config, RONDE__NEED_ARRAYS, false));
  return ronde__config_settle(job->config, RONDE__NEED_IMAGE_FILES, false);
}

/* Features of so many bands go in, and texts come out. */
static ronde_status check_network(transcription *x) {
  const ronde__shape *shape = &x->job->shape;
  int64_t outputs = ronde_predictor_outputs(x->predictor), classes = x->job->classes;
  if (shape->dim[0] != 1 || shape->dim[1] != RONDE__MEL_BANDS)
    return ronde__fail(RONDE_E_USAGE, "%s: it does not read recordings of %d bands, as audio:DIR has them",
                       x->job->init_path, RONDE__MEL_BANDS);
  if (classes < 1 || outputs % classes || !ronde_predictor_class(x->predictor, 0))
    return ronde__fail(RONDE_E_USAGE, "%s: it does not say which characters its classes are", x->job->init_path);
  x->steps = (ronde__steps_of){shape->dim[2], outputs / classes, classes};
  return RONDE_OK;
}

static ronde_status transcription_open(transcription *x) {
  ronde__job *job = x->job;
  ronde__normalization none;
  const ronde__paths_wanted wanted = {is_recording, NULL, ".wav"};
  RONDE_TRY(check_options(job));
  RONDE_TRY(ronde__paths_find(job->options->input ? job->options->input : "", &wanted, &x->paths));
  if (x->paths.n == 0) return ronde__fail(RONDE_E_USAGE, "a WAV file to transcribe is needed: --input FILE");
  RONDE_TRY(ronde__normalize_input(job, &none));
  RONDE_TRY(ronde__class_names_read(job->init, job->init_path, &job->class_names));
  RONDE_TRY(ronde__predictor_create(job, NULL, NULL, &none, &x->predictor));
  RONDE_TRY(check_network(x));
  RONDE_TRY(ronde__log_mel_create(&x->mel));
  x->alphabet = (ronde__alphabet){name_of_output, x->predictor};
  size_t elems = (size_t)(RONDE__MEL_BANDS * x->steps.frames + 1);
  RONDE__ALLOC(x->x, elems * sizeof *x->x, "transcription");
  RONDE__ALLOC(x->y, (size_t)(x->steps.steps * x->steps.classes) * sizeof *x->y, "transcription");
  RONDE__ALLOC(x->labels, (size_t)x->steps.steps * sizeof *x->labels, "transcription");
  RONDE__ALLOC(x->text, ronde__alphabet_bytes(&x->alphabet, x->steps.steps), "transcription");
  return RONDE_OK;
}

static void transcription_close(transcription *x) {
  ronde_predictor_destroy(x->predictor);
  ronde__log_mel_destroy(x->mel);
  ronde__paths_release(&x->paths);
  ronde__free(x->x);
  ronde__free(x->y);
  ronde__free(x->labels);
  ronde__free(x->text);
  json_decref(x->examples);
}

/* ---- file by file ---- */

static ronde_status read_recording(transcription *x, const char *path) {
  int64_t elems = RONDE__MEL_BANDS * x->steps.frames, frames;
  memset(x->x, 0, (size_t)(elems + 1) * sizeof *x->x);
  RONDE_TRY(ronde__audio_features(x->mel, path, x->steps.frames, x->x, &frames));
  if (frames > x->steps.frames)
    return ronde__fail(RONDE_E_INPUT, "%s: it has %lld frames of 10 ms, and %s reads at most %lld", path,
                       (long long)frames, x->job->init_path, (long long)x->steps.frames);
  x->x[elems] = (float)frames;
  return RONDE_OK;
}

static ronde_status transcribe_file(transcription *x, const char *path) {
  const ronde_hooks *hooks = &x->job->hooks;
  RONDE_TRY(read_recording(x, path));
  RONDE_TRY(ronde_predictor_run(x->predictor, 1, x->x, x->y));
  for (int64_t i = 0; i < x->steps.steps * x->steps.classes; i++)
    if (!isfinite(x->y[i])) return ronde__fail(RONDE_E_NUMERIC, "%s: the network's output is NaN or Inf", path);
  int64_t n = ronde__ctc_greedy(&x->steps, x->x[RONDE__MEL_BANDS * x->steps.frames], x->y, x->labels);
  ronde__alphabet_text(&x->alphabet, x->labels, n, x->text);
  const ronde_prediction told = {.file = path, .text = x->text};
  if (hooks->prediction) hooks->prediction(hooks->user, &told);
  if (x->examples)
    json_array_append_new(x->examples, json_pack("{s:o, s:i, s:o}", "file", ronde__json_text(path), "index", 0, "text",
                                                 ronde__json_text(x->text)));
  return RONDE_OK;
}

static ronde_status transcribe_all(transcription *x) {
  const ronde_hooks *hooks = &x->job->hooks;
  for (int64_t i = 0; i < x->paths.n; i++) {
    if (hooks->cancel && hooks->cancel(hooks->user)) return RONDE_E_CANCELLED;
    RONDE_TRY(transcribe_file(x, x->paths.at[i]));
  }
  return RONDE_OK;
}

ronde_status ronde__transcribe(ronde__job *job, char **json_out) {
  transcription x = {.job = job, .examples = json_out ? json_array() : NULL};
  ronde_status status = transcription_open(&x);
  if (status == RONDE_OK) status = transcribe_all(&x);
  if (status == RONDE_OK && json_out)
    status = ronde__json_give(
        json_pack("{s:o, s:O}", "input", ronde__json_text(job->options->input), "examples", x.examples), "result",
        json_out);
  transcription_close(&x);
  return status;
}

/* --normalize: mean and deviation of the pixels, by the user, by the weights' file, or as usual for the data set. */
#include "job/normalize.h"

#include <stdlib.h>
#include <string.h>

static bool is_auto(const char *text) { return !strcmp(text, "auto") || !strcmp(text, "on"); }

/* ---- what the weights were trained with ---- */

typedef enum told { TOLD_NOTHING, TOLD_NONE, TOLD_VALUES } told;

static ronde_status read_file(const ronde__job *job, told *told_out, ronde__normalization *out) {
  const char *mean = ronde__safetensors_meta(job->weights, "normalize_mean");
  const char *deviation = ronde__safetensors_meta(job->weights, "normalize_std");
  const char *word = ronde__safetensors_meta(job->weights, RONDE__META_NORMALIZE);
  *told_out = word && !strcmp(word, "off") ? TOLD_NONE : TOLD_NOTHING;
  if (!mean || !deviation) return RONDE_OK;
  if (!ronde__normalization_parse_lists(mean, deviation, out))
    return ronde__fail(RONDE_E_INPUT,
                       "%s: normalize_mean %s and normalize_std %s are not valid; give --normalize to replace them",
                       job->weights_path, mean, deviation);
  *told_out = TOLD_VALUES;
  return RONDE_OK;
}

static void warn_of_other(const ronde__job *job, const ronde__normalization *wanted) {
  ronde__normalization trained = {0};
  char a[RONDE__NORMALIZATION_TEXT], b[RONDE__NORMALIZATION_TEXT];
  told told = TOLD_NOTHING;
  if (!job->weights || read_file(job, &told, &trained) != RONDE_OK || told == TOLD_NOTHING) return;
  ronde__normalization_text(wanted, a);
  ronde__normalization_text(&trained, b);
  if (strcmp(a, b) != 0)
    ronde__log(RONDE_LOG_WARNING, "--normalize %s: the weights were trained with --normalize %s", a, b);
}

/* ---- the choice ---- */

/* Training on what is usual for its data is what `on` asks for. */
static bool follows_weights(const ronde__job *job) {
  if (job->config->verb == RONDE__VERB_TRAIN) return strcmp(job->options->normalize, "on") != 0;
  return job->config->verb == RONDE__VERB_EVAL || job->config->verb == RONDE__VERB_PREDICT;
}

/* Training on other data than the weights have seen would otherwise normalise by these. */
static void tell_followed(const ronde__job *job, const ronde__normalization *followed) {
  char text[RONDE__NORMALIZATION_TEXT];
  if (job->config->verb != RONDE__VERB_TRAIN || job->resume) return;
  ronde__normalization_text(followed, text);
  ronde__log(RONDE_LOG_INFO, "the inputs are normalised as those of %s were: --normalize %s", job->weights_path,
             RONDE__SHOWN(text));
}

ronde_status ronde__normalize_choose(const ronde__job *job, bool *usual_out, ronde__normalization *out) {
  const char *text = job->options->normalize;
  bool follows = follows_weights(job);
  told told = TOLD_NOTHING;
  *usual_out = false;
  *out = (ronde__normalization){0};
  if (!is_auto(text)) {
    if (strcmp(text, "off") != 0) ronde__normalization_parse(text, out);
    if (follows) warn_of_other(job, out);
    return RONDE_OK;
  }
  if (follows && job->weights) RONDE_TRY(read_file(job, &told, out));
  *usual_out = told == TOLD_NOTHING;
  if (!*usual_out) tell_followed(job, out);
  return RONDE_OK;
}

ronde_status ronde__normalize_settle(ronde__job *job, const ronde__normalization *applied) {
  char text[RONDE__NORMALIZATION_TEXT];
  if (applied->channels == 0 && !strcmp(job->options->normalize, "on"))
    return ronde__fail(
        RONDE_E_USAGE,
        "--normalize on can have no effect: %s has no usual mean and deviation (--normalize imagenet, or "
        "MEAN;STD such as 0.5;0.25)",
        job->data            ? job->data->source.name
        : job->options->init ? job->options->init
                             : "the input");
  ronde__normalization_text(applied, text);
  char *copy = ronde__strdup(text);
  if (!copy) return ronde__fail(RONDE_E_MEMORY, "--normalize: no memory");
  free(job->config->options.normalize);
  job->config->options.normalize = copy;
  return RONDE_OK;
}

ronde_status ronde__normalize_input(ronde__job *job, ronde__normalization *out) {
  bool usual, follows = strcmp(job->options->normalize, "auto") == 0;
  int64_t channels = ronde__normalization_channels(&job->shape);
  RONDE_TRY(ronde__normalize_choose(job, &usual, out));
  bool is_row =
      job->shape.rank < 3 && out->channels == ronde__shape_elems(&job->shape); /* whose columns are channels */
  if (out->channels > 1 && out->channels != channels && !is_row)
    return ronde__fail(follows ? RONDE_E_INPUT : RONDE_E_USAGE,
                       "%s: mean and deviation of %d channels do not fit images of %lld channels",
                       follows ? job->init_path : "--normalize", out->channels, (long long)channels);
  return ronde__normalize_settle(job, out);
}

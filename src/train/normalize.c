/* --normalize: mean and deviation of the pixels, by the user, by the weights' file, or as usual for the data set. */
#include "train/normalize.h"

#include "train/option.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- text ---- */

/* Comma-separated values in [text, end); how many, or 0 where it is no such list. */
static int parse_values(const char *text, const char *end, float values[RONDE__NORMALIZED_MAX]) {
  locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0), before = uselocale(c);
  int n = 0;
  for (bool more = true; more && n < RONDE__NORMALIZED_MAX; n++) {
    char *stop;
    values[n] = strtof(text, &stop);
    more = stop < end && *stop == ',';
    if (stop == text || !isfinite(values[n]) || (!more && stop != end)) {
      n = 0;
      break;
    }
    text = stop + more;
  }
  uselocale(before);
  if (c) freelocale(c);
  return text == end ? n : 0;
}

static bool are_positive(const float *values, int n) {
  for (int i = 0; i < n; i++)
    if (!(values[i] > 0)) return false;
  return true;
}

/* One value for several stands for each of them. */
static void spread(float *values, int from, int to) {
  for (int i = from; i < to; i++) values[i] = values[0];
}

/* "0.5;0.25", "0.5,0.4,0.5;0.2" */
static bool parse_pair(const char *text, ronde__normalization *out) {
  const char *semicolon = strchr(text, ';');
  if (!semicolon) return false;
  int n = parse_values(text, semicolon, out->mean);
  int n_deviations = parse_values(semicolon + 1, text + strlen(text), out->deviation);
  bool fits = n == n_deviations || n == 1 || n_deviations == 1;
  if (n == 0 || n_deviations == 0 || !fits || !are_positive(out->deviation, n_deviations)) return false;
  out->channels = n > n_deviations ? n : n_deviations;
  spread(out->mean, n, out->channels);
  spread(out->deviation, n_deviations, out->channels);
  return true;
}

/* Of the user's words the one that names values. Those of the torchvision weights. */
static bool parse(const char *text, ronde__normalization *out) {
  static const ronde__normalization imagenet = {3, {.485f, .456f, .406f}, {.229f, .224f, .225f}};
  if (strcmp(text, "imagenet") != 0) return parse_pair(text, out);
  *out = imagenet;
  return true;
}

static bool is_auto(const char *text) { return !strcmp(text, "auto") || !strcmp(text, "on"); }

bool ronde__normalize_is_good(const char *text) {
  ronde__normalization normalization;
  return is_auto(text) || !strcmp(text, "off") || parse(text, &normalization);
}

/* The fewest that read back as the same value; the C locale is in use. */
static int digits_of(float value) {
  char text[32];
  int digits = 1;
  for (; digits < 9; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtof(text, NULL) == value) break;
  }
  return digits;
}

void ronde__normalize_list(const float *values, int n, char *text, size_t bytes) {
  locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0), before = uselocale(c);
  size_t used = 0;
  *text = 0;
  for (int i = 0; i < n && used < bytes; i++)
    used += (size_t)snprintf(text + used, bytes - used, "%s%.*g", i ? "," : "", digits_of(values[i]), values[i]);
  uselocale(before);
  if (c) freelocale(c);
}

/* "MEAN;STD", or "off" */
static void text_of(const ronde__normalization *normalization, char text[2 * RONDE__NORMALIZE_TEXT]) {
  char mean[RONDE__NORMALIZE_TEXT], deviation[RONDE__NORMALIZE_TEXT];
  ronde__normalize_list(normalization->mean, normalization->channels, mean, sizeof mean);
  ronde__normalize_list(normalization->deviation, normalization->channels, deviation, sizeof deviation);
  snprintf(text, 2 * RONDE__NORMALIZE_TEXT, "%s;%s", mean, deviation);
  if (normalization->channels == 0) snprintf(text, 2 * RONDE__NORMALIZE_TEXT, "off");
}

/* ---- what the weights were trained with ---- */

typedef enum told { TOLD_NOTHING, TOLD_NONE, TOLD_VALUES } told;

static ronde_status read_file(const ronde__job *job, told *told_out, ronde__normalization *out) {
  const char *mean = ronde__safetensors_meta(job->init, "normalize_mean");
  const char *deviation = ronde__safetensors_meta(job->init, "normalize_std");
  const char *word = ronde__safetensors_meta(job->init, RONDE__META_NORMALIZE);
  *told_out = word && !strcmp(word, "off") ? TOLD_NONE : TOLD_NOTHING;
  if (!mean || !deviation) return RONDE_OK;
  int n = parse_values(mean, mean + strlen(mean), out->mean);
  bool good = n > 0 && parse_values(deviation, deviation + strlen(deviation), out->deviation) == n &&
              are_positive(out->deviation, n);
  if (!good)
    return ronde__fail(RONDE_E_INPUT,
                       "%s: normalize_mean %s and normalize_std %s are no normalisation (--normalize says another)",
                       job->init_path, mean, deviation);
  out->channels = n;
  *told_out = TOLD_VALUES;
  return RONDE_OK;
}

static void warn_of_other(const ronde__job *job, const ronde__normalization *wanted) {
  ronde__normalization trained = {0};
  char a[2 * RONDE__NORMALIZE_TEXT], b[2 * RONDE__NORMALIZE_TEXT];
  told told = TOLD_NOTHING;
  if (!job->init || read_file(job, &told, &trained) != RONDE_OK || told == TOLD_NOTHING) return;
  text_of(wanted, a);
  text_of(&trained, b);
  if (strcmp(a, b) != 0)
    ronde__log(RONDE_LOG_WARNING, "--normalize %s: the weights were trained with --normalize %s", a, b);
}

/* ---- the choice ---- */

ronde_status ronde__normalize_choose(const ronde__job *job, bool *usual_out, ronde__normalization *out) {
  const char *text = job->options->normalize;
  bool follows = job->config->verb == RONDE__VERB_EVAL || job->config->verb == RONDE__VERB_PREDICT;
  told told = TOLD_NOTHING;
  *usual_out = false;
  *out = (ronde__normalization){0};
  if (!is_auto(text)) {
    if (strcmp(text, "off") != 0) parse(text, out);
    if (follows) warn_of_other(job, out);
    return RONDE_OK;
  }
  if (follows && job->init) RONDE_TRY(read_file(job, &told, out));
  *usual_out = told == TOLD_NOTHING;
  return RONDE_OK;
}

ronde_status ronde__normalize_settle(ronde__job *job, const ronde__normalization *applied) {
  char text[2 * RONDE__NORMALIZE_TEXT];
  if (applied->channels == 0 && !strcmp(job->options->normalize, "on"))
    return ronde__fail(
        RONDE_E_USAGE,
        "--normalize on can have no effect: %s has no usual mean and deviation (--normalize imagenet, or "
        "MEAN;STD such as 0.5;0.25)",
        job->data            ? job->data->source.name
        : job->options->init ? job->options->init
                             : "the input");
  text_of(applied, text);
  char *copy = ronde__strdup(text);
  if (!copy) return ronde__fail(RONDE_E_MEMORY, "--normalize: no memory");
  free(job->config->options.normalize);
  job->config->options.normalize = copy;
  return RONDE_OK;
}

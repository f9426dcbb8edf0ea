/* Mean and deviation of pixels, from text and to text. Numbers have a decimal point in every locale. */
#include "data/normalization.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parses comma-separated values in [text, end). Returns how many, or 0 where it is no such list. */
static int normalization_parse_values(const char *text, const char *end, float values[RONDE__NORMALIZED_MAX]) {
  locale_t before = uselocale(ronde__c_locale());
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
  return text == end ? n : 0;
}

static bool are_positive(const float *values, int n) {
  for (int i = 0; i < n; i++)
    if (!(values[i] > 0)) return false;
  return true;
}

/* One value for several stands for each of them. */
static void normalization_spread(float *values, int from, int to) {
  for (int i = from; i < to; i++) values[i] = values[0];
}

/* "0.5;0.25", "0.5,0.4,0.5;0.2" */
static bool normalization_parse_pair(const char *text, ronde__normalization *out) {
  const char *semicolon = strchr(text, ';');
  if (!semicolon) return false;
  int n = normalization_parse_values(text, semicolon, out->mean);
  int n_deviations = normalization_parse_values(semicolon + 1, text + strlen(text), out->deviation);
  bool fits = n == n_deviations || n == 1 || n_deviations == 1;
  if (n == 0 || n_deviations == 0 || !fits || !are_positive(out->deviation, n_deviations)) return false;
  out->channels = n > n_deviations ? n : n_deviations;
  normalization_spread(out->mean, n, out->channels);
  normalization_spread(out->deviation, n_deviations, out->channels);
  return true;
}

bool ronde__normalization_parse(const char *text, ronde__normalization *out) {
  /* Of the torchvision weights. */
  static const ronde__normalization imagenet = {3, {.485f, .456f, .406f}, {.229f, .224f, .225f}};
  if (strcmp(text, "imagenet") != 0) return normalization_parse_pair(text, out);
  *out = imagenet;
  return true;
}

bool ronde__normalization_parse_lists(const char *mean, const char *deviation, ronde__normalization *out) {
  out->channels = normalization_parse_values(mean, mean + strlen(mean), out->mean);
  int n_deviations = normalization_parse_values(deviation, deviation + strlen(deviation), out->deviation);
  return out->channels > 0 && n_deviations == out->channels && are_positive(out->deviation, n_deviations);
}

/* The fewest digits that read back as the same value. The C locale is in use. */
static int digits_of(float value) {
  char text[32];
  int digits = 1;
  for (; digits < 9; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtof(text, NULL) == value) break;
  }
  return digits;
}

void ronde__normalization_list(const float *values, int n, char *text, size_t bytes) {
  locale_t before = uselocale(ronde__c_locale());
  size_t used = 0;
  *text = 0;
  for (int i = 0; i < n && used < bytes; i++)
    used += (size_t)snprintf(text + used, bytes - used, "%s%.*g", i ? "," : "", digits_of(values[i]), values[i]);
  uselocale(before);
}

void ronde__normalization_text(const ronde__normalization *normalization, char text[RONDE__NORMALIZATION_TEXT]) {
  char mean[RONDE__NORMALIZATION_LIST], deviation[RONDE__NORMALIZATION_LIST];
  ronde__normalization_list(normalization->mean, normalization->channels, mean, sizeof mean);
  ronde__normalization_list(normalization->deviation, normalization->channels, deviation, sizeof deviation);
  snprintf(text, RONDE__NORMALIZATION_TEXT, "%s;%s", mean, deviation);
  if (normalization->channels == 0) snprintf(text, RONDE__NORMALIZATION_TEXT, "off");
}

ronde__scaling ronde__scaling_of(const ronde__normalization *by, float unit) {
  ronde__scaling s = {.n = 1, .factor[0] = 1 / unit};
  for (int c = 0; c < by->channels; c++) {
    s.factor[c] = 1 / (unit * by->deviation[c]);
    s.shift[c] = -by->mean[c] / by->deviation[c];
    s.n = c + 1;
  }
  s.changes = by->channels > 0 || unit != 1;
  return s;
}

void ronde__scaling_u8(const ronde__scaling *s, const ronde__kernels *kernels, int64_t elems, const uint8_t *from,
                       float *to) {
  int64_t n = elems / s->n;
  for (int c = 0; c < s->n; c++) kernels->from_u8(from + c * n, s->factor[c], s->shift[c], to + c * n, n);
}

void ronde__scaling_f32(const ronde__scaling *s, int64_t elems, const float *from, float *to) {
  int64_t n = elems / s->n;
  for (int c = 0; c < s->n; c++, from += n, to += n)
    for (int64_t i = 0; i < n; i++) to[i] = from[i] * s->factor[c] + s->shift[c];
}

/* Texts to fields and back, one function a kind of option, whatever the locale. */
#include "config/option.h"

#include "data/normalization.h"
#include "base/json.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what options.inc names ---- */

bool ronde__normalize_is_good(const char *text) {
  ronde__normalization normalization;
  bool is_word = !strcmp(text, "auto") || !strcmp(text, "on") || !strcmp(text, "off");
  return is_word || ronde__normalization_parse(text, &normalization);
}

bool ronde__bytes_are_good(const char *text) {
  int64_t bytes;
  return ronde__bytes_parse(text, &bytes);
}

/* ---- text to value --------------------------------------------------------------------------------------------- */

/* Digits only, read as decimal: "010" is ten. */
static bool parse_int(const char *text, int64_t *value_out) {
  const char *digits = text + (*text == '-' || *text == '+');
  if (!*digits || digits[strspn(digits, "0123456789")]) return false;
  errno = 0;
  *value_out = strtoll(text, NULL, 10);
  return errno == 0;
}

/* Of [text, end): decimal, with an optional exponent; no hexadecimal, NaN, Inf, spaces, or number too large for a
 * double. */
static bool parse_real(const char *text, const char *end, double *value_out) {
  if (end == text || text + strspn(text, "+-.0123456789eE") != end) return false;
  char *stop;
  *value_out = strtod_l(text, &stop, ronde__c_locale());
  return stop == end && isfinite(*value_out);
}

static bool parse_pair(const char *text, double pair_out[2]) {
  const char *comma = strchr(text, ',');
  if (!comma || !parse_real(text, comma, &pair_out[0]) || !parse_real(comma + 1, text + strlen(text), &pair_out[1]))
    return false;
  return pair_out[0] >= 0 && pair_out[0] < 1 && pair_out[1] >= 0 && pair_out[1] < 1;
}

int ronde__choice_index(const char *choices, const char *text) {
  size_t n = strlen(text);
  for (int i = 0;; i++) {
    size_t length = strcspn(choices, "|");
    if (length == n && memcmp(choices, text, n) == 0) return i;
    if (!choices[length]) return -1;
    choices += length + 1;
  }
}

/* "a|b|c" as "a, b or c" */
static void list_choices(const char *choices, char *text_out, size_t bytes) {
  size_t used = 0;
  while (used + 1 < bytes) {
    size_t length = strcspn(choices, "|");
    used += (size_t)snprintf(text_out + used, bytes - used, "%.*s", (int)length, choices);
    if (!choices[length] || used + 1 >= bytes) return;
    choices += length + 1;
    used += (size_t)snprintf(text_out + used, bytes - used, "%s", strchr(choices, '|') ? ", " : " or ");
  }
}

/* label: how the user gave it, "--batch" or "RONDE_BATCH". */
static ronde_status set_number(const ronde__option *o, void *field, const char *value, const char *label) {
  if (o->kind == RONDE__OPTION_KIND_INT) {
    int64_t parsed;
    if (!parse_int(value, &parsed) || parsed < o->int_min || parsed > o->int_max) {
      return ronde__fail(RONDE_E_USAGE, "%s: '%s' is not a whole number from %" PRId64 " to %" PRId64, label,
                         RONDE__SHOWN(value), o->int_min, o->int_max);
    }
    *(int64_t *)field = parsed;
    return RONDE_OK;
  }
  double parsed;
  if (o->kind == RONDE__OPTION_KIND_AUTO && strcmp(value, "auto") == 0) {
    parsed = -1;
  } else if (!parse_real(value, value + strlen(value), &parsed) || parsed < o->real_min || parsed > o->real_max) {
    return ronde__fail(RONDE_E_USAGE, "%s: '%s' is not a number from %g to %g%s", label, RONDE__SHOWN(value),
                       o->real_min, o->real_max, o->kind == RONDE__OPTION_KIND_AUTO ? ", nor auto" : "");
  }
  *(double *)field = parsed;
  return RONDE_OK;
}

static ronde_status fail_choice(const char *choices, const char *value, const char *label) {
  char list[256];
  list_choices(choices, list, sizeof list);
  return ronde__fail(RONDE_E_USAGE, "%s: '%s' is not %s", label, RONDE__SHOWN(value), list);
}

static ronde_status set_text(const ronde__option *o, char **field, const char *value, const char *label) {
  if (!*value) return ronde__fail(RONDE_E_USAGE, "%s: needs a value", label);
  if (o->is_good && !o->is_good(value)) return fail_choice(o->value, value, label);
  char *copy = ronde__strdup(value);
  if (!copy) return ronde__fail(RONDE_E_MEMORY, "%s: no memory", label);
  free(*field);
  *field = copy;
  return RONDE_OK;
}

static ronde_status set_choice(const ronde__option *o, void *field, const char *value, const char *label) {
  const char *choices = o->kind == RONDE__OPTION_KIND_BOOL ? "on|off" : o->value;
  int index = ronde__choice_index(choices, value);
  if (index < 0) return fail_choice(choices, value, label);
  if (o->kind == RONDE__OPTION_KIND_BOOL) {
    *(bool *)field = index == 0;
  } else {
    *(int *)field = index;
  }
  return RONDE_OK;
}

ronde_status ronde__option_set(const ronde__option *o, ronde__options *options, const char *value, const char *label) {
  void *field = (char *)options + o->offset;
  switch (o->kind) {
  case RONDE__OPTION_KIND_BOOL:
  case RONDE__OPTION_KIND_ENUM: return set_choice(o, field, value, label);
  case RONDE__OPTION_KIND_INT:
  case RONDE__OPTION_KIND_REAL:
  case RONDE__OPTION_KIND_AUTO: return set_number(o, field, value, label);
  case RONDE__OPTION_KIND_TEXT: return set_text(o, field, value, label);
  case RONDE__OPTION_KIND_PAIR: {
    double pair[2];
    if (!parse_pair(value, pair)) {
      return ronde__fail(RONDE_E_USAGE, "%s: '%s' is not two numbers %s from 0 to below 1", label, RONDE__SHOWN(value),
                         o->value);
    }
    memcpy(field, pair, sizeof pair);
  }
  }
  return RONDE_OK;
}

/* ---- value to text and JSON ------------------------------------------------------------------------------------ */

/* As short as reads back to the same value; the C locale is in use. */
static char *real_text(double value) {
  char *text = ronde__format("%.15g", value);
  if (!text || strtod(text, NULL) == value) return text;
  free(text);
  return ronde__format("%.17g", value);
}

char *ronde__option_text(const ronde__option *o, const ronde__options *options) {
  const void *field = (const char *)options + o->offset;
  const double *real = field;
  locale_t before = uselocale(ronde__c_locale());
  char *text = NULL;
  switch (o->kind) {
  case RONDE__OPTION_KIND_BOOL: text = ronde__strdup(*(const bool *)field ? "on" : "off"); break;
  case RONDE__OPTION_KIND_INT: text = ronde__format("%" PRId64, *(const int64_t *)field); break;
  case RONDE__OPTION_KIND_AUTO:
  case RONDE__OPTION_KIND_REAL:
    text = o->kind == RONDE__OPTION_KIND_AUTO && *real < 0 ? ronde__strdup("auto") : real_text(*real);
    break;
  case RONDE__OPTION_KIND_TEXT: text = ronde__strdup(*(char *const *)field ? *(char *const *)field : ""); break;
  case RONDE__OPTION_KIND_PAIR: {
    char *first = real_text(real[0]), *second = real_text(real[1]);
    text = first && second ? ronde__format("%s,%s", first, second) : NULL;
    free(first);
    free(second);
    break;
  }
  case RONDE__OPTION_KIND_ENUM: {
    const char *choice = o->value;
    for (int i = 0; i < *(const int *)field; i++) choice = strchr(choice, '|') + 1;
    text = ronde__format("%.*s", (int)strcspn(choice, "|"), choice);
  }
  }
  uselocale(before);
  return text;
}

json_t *ronde__option_json(const ronde__option *o, const ronde__options *options) {
  const void *field = (const char *)options + o->offset;
  const double *real = field;
  switch (o->kind) {
  case RONDE__OPTION_KIND_BOOL: return json_boolean(*(const bool *)field);
  case RONDE__OPTION_KIND_INT: return json_integer(*(const int64_t *)field);
  case RONDE__OPTION_KIND_REAL: return json_real(*real);
  case RONDE__OPTION_KIND_AUTO: return *real < 0 ? json_string("auto") : json_real(*real);
  case RONDE__OPTION_KIND_PAIR: return json_pack("[f, f]", real[0], real[1]);
  case RONDE__OPTION_KIND_TEXT:
    if (!*(char *const *)field) return json_null();
    break;
  case RONDE__OPTION_KIND_ENUM: break;
  }
  char *text = ronde__option_text(o, options);
  json_t *json = text ? ronde__json_text(text) : NULL;
  free(text);
  return json;
}

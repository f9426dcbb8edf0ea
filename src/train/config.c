#include "train/config.h"

#include "train/machine.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum kind { KIND_BOOL, KIND_INT, KIND_REAL, KIND_AUTO, KIND_TEXT, KIND_ENUM, KIND_PAIR } kind;

typedef struct option {
  const char *name;
  kind kind;
  int verbs;
  size_t offset;     /* of the field in ronde__options */
  const char *deflt; /* as text; NULL: none */
  int64_t int_min, int_max;
  double real_min, real_max;
  const char *value; /* name of the value; of an ENUM its choices; NULL: a bare flag */
  const char *group, *help;
} option;

#define AT(field) offsetof(ronde__options, field)
static const option table[] = {
#define RONDE_OPTION_BOOL(field, flag, verbs, deflt, group, help) \
  {flag, KIND_BOOL, verbs, AT(field), (deflt) ? "on" : "off", 0, 0, 0, 0, NULL, group, help},
#define RONDE_OPTION_INT(field, flag, verbs, deflt, min, max, value, group, help) \
  {flag, KIND_INT, verbs, AT(field), #deflt, min, max, 0, 0, value, group, help},
#define RONDE_OPTION_REAL(field, flag, verbs, deflt, min, max, value, group, help) \
  {flag, KIND_REAL, verbs, AT(field), #deflt, 0, 0, min, max, value, group, help},
#define RONDE_OPTION_AUTO(field, flag, verbs, min, max, value, group, help) \
  {flag, KIND_AUTO, verbs, AT(field), "auto", 0, 0, min, max, value, group, help},
#define RONDE_OPTION_TEXT(field, flag, verbs, deflt, value, group, help) \
  {flag, KIND_TEXT, verbs, AT(field), deflt, 0, 0, 0, 0, value, group, help},
#define RONDE_OPTION_ENUM(field, flag, verbs, deflt, choices, group, help) \
  {flag, KIND_ENUM, verbs, AT(field), deflt, 0, 0, 0, 0, choices, group, help},
#define RONDE_OPTION_PAIR(field, flag, verbs, deflt, value, group, help) \
  {flag, KIND_PAIR, verbs, AT(field), deflt, 0, 0, 0, 0, value, group, help},
#include "train/options.inc"
};
#undef AT

enum { N_OPTIONS = RONDE__COUNT(table) };
_Static_assert(N_OPTIONS <= RONDE__MAX_OPTIONS, "each option has a bit and a text in a configuration");

static const struct {
  const char *name;
  int verb;
} verbs[] = {{"train", RONDE__VERB_TRAIN},
             {"eval", RONDE__VERB_EVAL},
             {"predict", RONDE__VERB_PREDICT},
             {"init", RONDE__VERB_INIT},
             {"data", RONDE__VERB_DATA},
             {"export", RONDE__VERB_EXPORT},
             {"doctor", RONDE__VERB_DOCTOR},
             {"bench collectives", RONDE__VERB_BENCH_COLLECTIVES},
             {"compare", RONDE__VERB_COMPARE | RONDE__VERB_TRAIN},
             {"bench step", RONDE__VERB_BENCH_STEP},
             {"bench kernels", RONDE__VERB_BENCH_KERNELS}};

static int verb_of(const char *name) {
  for (size_t i = 0; i < RONDE__COUNT(verbs); i++) {
    if (strcmp(verbs[i].name, name) == 0) return verbs[i].verb;
  }
  return 0;
}

static const char *verb_name(int verb) {
  size_t i = 0;
  while (verbs[i].verb != verb) i++;
  return verbs[i].name;
}

static const option *find(const char *name) {
  for (int i = 0; i < N_OPTIONS; i++) {
    if (strcmp(table[i].name, name) == 0) return &table[i];
  }
  return NULL;
}

static bool bit(const uint64_t *mask, const option *o) { return mask[(o - table) / 64] >> ((o - table) % 64) & 1; }
static void set_bit(uint64_t *mask, const option *o) { mask[(o - table) / 64] |= (uint64_t)1 << ((o - table) % 64); }
static void clear_bit(uint64_t *mask, const option *o) {
  mask[(o - table) / 64] &= ~((uint64_t)1 << ((o - table) % 64));
}

/* ---- text to value --------------------------------------------------------------------------------------------- */

static locale_t c_locale;
static void make_c_locale(void) { c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

/* An embedder's locale may write numbers with a comma. */
static locale_t numbers_locale(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_c_locale);
  return c_locale;
}

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
  *value_out = strtod_l(text, &stop, numbers_locale());
  return stop == end && isfinite(*value_out);
}

static bool parse_pair(const char *text, double pair_out[2]) {
  const char *comma = strchr(text, ',');
  if (!comma || !parse_real(text, comma, &pair_out[0]) || !parse_real(comma + 1, text + strlen(text), &pair_out[1]))
    return false;
  return pair_out[0] >= 0 && pair_out[0] < 1 && pair_out[1] >= 0 && pair_out[1] < 1;
}

/* Index of text among "a|b|c", or -1. */
static int choice_index(const char *choices, const char *text) {
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
static ronde_status set_number(const option *o, void *field, const char *value, const char *label) {
  if (o->kind == KIND_INT) {
    int64_t parsed;
    if (!parse_int(value, &parsed) || parsed < o->int_min || parsed > o->int_max) {
      return ronde__fail(RONDE_E_USAGE, "%s: '%s' is not a whole number from %" PRId64 " to %" PRId64, label, value,
                         o->int_min, o->int_max);
    }
    *(int64_t *)field = parsed;
    return RONDE_OK;
  }
  double parsed;
  if (o->kind == KIND_AUTO && strcmp(value, "auto") == 0) {
    parsed = -1;
  } else if (!parse_real(value, value + strlen(value), &parsed) || parsed < o->real_min || parsed > o->real_max) {
    return ronde__fail(RONDE_E_USAGE, "%s: '%s' is not a number from %g to %g%s", label, value, o->real_min,
                       o->real_max, o->kind == KIND_AUTO ? ", nor auto" : "");
  }
  *(double *)field = parsed;
  return RONDE_OK;
}

static ronde_status set_text(char **field, const char *value, const char *label) {
  if (!*value) return ronde__fail(RONDE_E_USAGE, "%s: needs a value", label);
  char *copy = ronde__strdup(value);
  if (!copy) return ronde__fail(RONDE_E_MEMORY, "%s: no memory", label);
  free(*field);
  *field = copy;
  return RONDE_OK;
}

static ronde_status set_choice(const option *o, void *field, const char *value, const char *label) {
  const char *choices = o->kind == KIND_BOOL ? "on|off" : o->value;
  int index = choice_index(choices, value);
  if (index < 0) {
    char list[256];
    list_choices(choices, list, sizeof list);
    return ronde__fail(RONDE_E_USAGE, "%s: '%s' is not %s", label, value, list);
  }
  if (o->kind == KIND_BOOL) {
    *(bool *)field = index == 0;
  } else {
    *(int *)field = index;
  }
  return RONDE_OK;
}

static ronde_status set_value(const option *o, ronde__options *options, const char *value, const char *label) {
  void *field = (char *)options + o->offset;
  switch (o->kind) {
    case KIND_BOOL:
    case KIND_ENUM: return set_choice(o, field, value, label);
    case KIND_INT:
    case KIND_REAL:
    case KIND_AUTO: return set_number(o, field, value, label);
    case KIND_TEXT: return set_text(field, value, label);
    case KIND_PAIR: {
      double pair[2];
      if (!parse_pair(value, pair)) {
        return ronde__fail(RONDE_E_USAGE, "%s: '%s' is not two numbers %s from 0 to below 1", label, value, o->value);
      }
      memcpy(field, pair, sizeof pair);
    }
  }
  return RONDE_OK;
}

/* ---- value to text and JSON
 * ------------------------------------------------------------------------------------------ */

/* As short as reads back to the same value; the C locale is in use. */
static char *real_text(double value) {
  char *text = ronde__format("%.15g", value);
  if (!text || strtod(text, NULL) == value) return text;
  free(text);
  return ronde__format("%.17g", value);
}

static char *value_text(const option *o, const ronde__options *options) {
  const void *field = (const char *)options + o->offset;
  const double *real = field;
  locale_t before = uselocale(numbers_locale());
  char *text = NULL;
  switch (o->kind) {
    case KIND_BOOL: text = ronde__strdup(*(const bool *)field ? "on" : "off"); break;
    case KIND_INT: text = ronde__format("%" PRId64, *(const int64_t *)field); break;
    case KIND_AUTO:
    case KIND_REAL:
      text = o->kind == KIND_AUTO && *real < 0 ? ronde__strdup("auto") : real_text(*real);
      break;
    case KIND_TEXT: text = ronde__strdup(*(char *const *)field ? *(char *const *)field : ""); break;
    case KIND_PAIR: {
      char *first = real_text(real[0]), *second = real_text(real[1]);
      text = first && second ? ronde__format("%s,%s", first, second) : NULL;
      free(first);
      free(second);
      break;
    }
    case KIND_ENUM: {
      const char *choice = o->value;
      for (int i = 0; i < *(const int *)field; i++) choice = strchr(choice, '|') + 1;
      text = ronde__format("%.*s", (int)strcspn(choice, "|"), choice);
    }
  }
  uselocale(before);
  return text;
}

static json_t *value_json(const option *o, const ronde__options *options) {
  const void *field = (const char *)options + o->offset;
  const double *real = field;
  switch (o->kind) {
    case KIND_BOOL: return json_boolean(*(const bool *)field);
    case KIND_INT: return json_integer(*(const int64_t *)field);
    case KIND_REAL: return json_real(*real);
    case KIND_AUTO: return *real < 0 ? json_string("auto") : json_real(*real);
    case KIND_PAIR: return json_pack("[f, f]", real[0], real[1]);
    case KIND_TEXT:
      if (!*(char *const *)field) return json_null();
      break;
    case KIND_ENUM: break;
  }
  char *text = value_text(o, options);
  json_t *json = text ? ronde__json_text(text) : NULL;
  free(text);
  return json;
}

/* ---- the public table
 * ------------------------------------------------------------------------------------------------ */

ronde_status ronde_config_create(const char *verb, ronde_config **config_out) {
  int known = verb ? verb_of(verb) : 0;
  if (!known)
    return ronde__fail(RONDE_E_USAGE, "no verb '%s': train, eval, predict, init, data, export, compare, "
                       "bench collectives, bench step or bench kernels",
                       verb ? verb : "");
  ronde_config *config;
  RONDE__ALLOC(config, sizeof *config, "configuration");
  config->verb = known;
  for (int i = 0; i < N_OPTIONS; i++) {
    ronde_status status =
        table[i].deflt ? set_value(&table[i], &config->options, table[i].deflt, table[i].name) : RONDE_OK;
    if (status) {
      ronde_config_destroy(config);
      return status;
    }
  }
  *config_out = config;
  return RONDE_OK;
}

void ronde_config_destroy(ronde_config *config) {
  if (!config) return;
  for (int i = 0; i < N_OPTIONS; i++) {
    if (table[i].kind == KIND_TEXT) free(*(char **)((char *)&config->options + table[i].offset));
  }
  for (int i = 0; i < RONDE__MAX_OPTIONS; i++) free(config->texts[i]);
  ronde__free(config);
}

ronde_status ronde__config_copy(const ronde_config *config, ronde_config **config_out) {
  ronde_config *copy;
  RONDE__ALLOC(copy, sizeof *copy, "configuration");
  *copy = *config;
  memset(copy->texts, 0, sizeof copy->texts);
  bool complete = true;
  for (int i = 0; i < N_OPTIONS; i++) {
    if (table[i].kind != KIND_TEXT) continue;
    char **text = (char **)((char *)&copy->options + table[i].offset);
    if (!*text) continue;
    *text = ronde__strdup(*text);
    complete = complete && *text;
  }
  if (!complete) {
    ronde_config_destroy(copy);
    return ronde__fail(RONDE_E_MEMORY, "configuration: no memory");
  }
  *config_out = copy;
  return RONDE_OK;
}

/* Source: Wagner & Fischer, "The string-to-string correction problem", 1974. */
int ronde__edit_distance(const char *a, const char *b) {
  enum { LONGEST = 63 };
  int row[LONGEST + 1], n = (int)strnlen(b, LONGEST);
  for (int j = 0; j <= n; j++) row[j] = j;
  for (int i = 0; a[i] && i < LONGEST; i++) {
    int diagonal = row[0];
    row[0] = i + 1;
    for (int j = 0; j < n; j++) {
      int replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = (int)ronde__min(replaced, 1 + ronde__min(row[j], diagonal));
    }
  }
  return row[n];
}

static ronde_status fail_unknown(int verb, const char *name) {
  const option *elsewhere = find(name), *nearest = NULL;
  if (elsewhere) {
    char list[128] = "";
    for (size_t i = 0; i < RONDE__COUNT(verbs); i++) {
      if (!(elsewhere->verbs & verbs[i].verb)) continue;
      size_t used = strlen(list);
      snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", verbs[i].name);
    }
    return ronde__fail(RONDE_E_USAGE, "--%s is not an option of %s, but of %s", name, verb_name(verb), list);
  }
  int least = 0;
  for (int i = 0; i < N_OPTIONS; i++) {
    if (!(table[i].verbs & verb)) continue;
    int distance = ronde__edit_distance(name, table[i].name);
    if (nearest && distance >= least) continue;
    nearest = &table[i];
    least = distance;
  }
  return ronde__fail(RONDE_E_USAGE, "unknown option --%s; the nearest is --%s", name, nearest->name);
}

ronde_status ronde_config_set(ronde_config *config, const char *name, const char *value) {
  const option *o = find(name);
  if (!o || !(o->verbs & config->verb)) return fail_unknown(config->verb, name);
  char label[80];
  snprintf(label, sizeof label, "--%s", name);
  RONDE_TRY(set_value(o, &config->options, value, label));
  set_bit(config->set_mask, o);
  clear_bit(config->environment_mask, o);
  return RONDE_OK;
}

static void variable_name(const option *o, char *name_out, size_t bytes) {
  snprintf(name_out, bytes, "RONDE_%s", o->name);
  for (char *p = name_out; *p; p++) *p = *p == '-' ? '_' : (char)toupper((unsigned char)*p);
}

ronde_status ronde_config_set_environment(ronde_config *config) {
  for (int i = 0; i < N_OPTIONS; i++) {
    const option *o = &table[i];
    /* RONDE_DATA names the folder where data sets lie. */
    if (!(o->verbs & config->verb) || bit(config->set_mask, o) || strcmp(o->name, "data") == 0) continue;
    char variable[80];
    variable_name(o, variable, sizeof variable);
    const char *value = getenv(variable);
    if (!value || !*value) continue;
    RONDE_TRY(set_value(o, &config->options, value, variable));
    set_bit(config->set_mask, o);
    set_bit(config->environment_mask, o);
  }
  return RONDE_OK;
}

const char *ronde_config_get(const ronde_config *config, const char *name) {
  const option *o = find(name);
  if (!o || !(o->verbs & config->verb)) return NULL;
  /* The texts are a cache, no part of the configuration's value. */
  ronde_config *cache = (ronde_config *)config;
  char **kept = &cache->texts[o - table], *text = value_text(o, &config->options);
  if (*kept && text && strcmp(*kept, text) == 0) {
    free(text);
  } else {
    free(*kept);
    *kept = text;
  }
  return *kept;
}

bool ronde_config_option(const char *verb, int i, ronde_option *option_out) {
  int known = verb ? verb_of(verb) : 0;
  for (int at = 0; known && at < N_OPTIONS; at++) {
    const option *o = &table[at];
    if (!(o->verbs & known) || i-- > 0) continue;
    *option_out = (ronde_option){o->name, o->value, o->deflt, o->help, o->group};
    return true;
  }
  return false;
}

/* ---- for the jobs
 * ---------------------------------------------------------------------------------------------------- */

const ronde__options *ronde__config_options(const ronde_config *config) { return &config->options; }

static bool is_neutral(const option *o, const ronde__options *options) {
  if (o->kind == KIND_TEXT) return false;
  char *text = value_text(o, options);
  bool neutral = text && (strcmp(text, o->deflt) == 0 || strcmp(text, "0") == 0 || strcmp(text, "off") == 0);
  free(text);
  return neutral;
}

bool ronde__config_is_set(const ronde_config *config, const char *flag) {
  const option *o = find(flag);
  return o && bit(config->set_mask, o) && !is_neutral(o, &config->options);
}

ronde_status ronde__config_no_effect(const ronde_config *config, const char *flag, const char *why) {
  if (!ronde__config_is_set(config, flag)) return RONDE_OK;
  const option *o = find(flag);
  char variable[80];
  variable_name(o, variable, sizeof variable);
  if (bit(config->environment_mask, o)) return ronde__fail(RONDE_E_USAGE, "%s can have no effect: %s", variable, why);
  return ronde__fail(RONDE_E_USAGE, "--%s can have no effect: %s", flag, why);
}

json_t *ronde__config_json(const ronde_config *config) {
  json_t *json = json_object();
  for (int i = 0; json && i < N_OPTIONS; i++) {
    if (!(table[i].verbs & config->verb)) continue;
    if (json_object_set_new(json, table[i].name, value_json(&table[i], &config->options))) {
      json_decref(json);
      return NULL;
    }
  }
  return json;
}

json_t *ronde__config_given(const ronde_config *config) {
  json_t *json = json_object();
  for (int i = 0; json && i < N_OPTIONS; i++) {
    if (!(table[i].verbs & config->verb) || !bit(config->set_mask, &table[i])) continue;
    char *text = value_text(&table[i], &config->options);
    json_t *value = text ? ronde__json_text(text) : NULL;
    free(text);
    if (!value || json_object_set_new(json, table[i].name, value)) {
      json_decref(json);
      return NULL;
    }
  }
  return json;
}

ronde_status ronde__config_take(ronde_config *config, const json_t *given,
                                bool (*leave)(void *user, const char *name), void *user) {
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)given, name, value) {
    const option *o = find(name);
    if (!o || !(o->verbs & config->verb) || bit(config->set_mask, o) || leave(user, name) || !json_is_string(value))
      continue;
    RONDE_TRY(ronde_config_set(config, name, json_string_value(value)));
  }
  return RONDE_OK;
}

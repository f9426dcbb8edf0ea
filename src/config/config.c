/* A configuration: options by name, from text or the environment, which of them were set, and their JSON. */
#include "config/option.h"

#include "base/json.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AT(field) offsetof(ronde__options, field)
static const ronde__option table[] = {
#define RONDE_OPTION_BOOL(field, flag, verbs, deflt, group, help) \
  {flag, RONDE__OPTION_KIND_BOOL, verbs, AT(field), (deflt) ? "on" : "off", 0, 0, 0, 0, NULL, group, help, NULL},
#define RONDE_OPTION_INT(field, flag, verbs, deflt, min, max, value, group, help) \
  {flag, RONDE__OPTION_KIND_INT, verbs, AT(field), #deflt, min, max, 0, 0, value, group, help, NULL},
#define RONDE_OPTION_REAL(field, flag, verbs, deflt, min, max, value, group, help) \
  {flag, RONDE__OPTION_KIND_REAL, verbs, AT(field), #deflt, 0, 0, min, max, value, group, help, NULL},
#define RONDE_OPTION_AUTO(field, flag, verbs, min, max, value, group, help) \
  {flag, RONDE__OPTION_KIND_AUTO, verbs, AT(field), "auto", 0, 0, min, max, value, group, help, NULL},
#define RONDE_OPTION_TEXT(field, flag, verbs, deflt, value, group, help) \
  {flag, RONDE__OPTION_KIND_TEXT, verbs, AT(field), deflt, 0, 0, 0, 0, value, group, help, NULL},
#define RONDE_OPTION_CHECKED(field, flag, verbs, deflt, is_good, value, group, help) \
  {flag, RONDE__OPTION_KIND_TEXT, verbs, AT(field), deflt, 0, 0, 0, 0, value, group, help, is_good},
#define RONDE_OPTION_ENUM(field, flag, verbs, deflt, choices, group, help) \
  {flag, RONDE__OPTION_KIND_ENUM, verbs, AT(field), deflt, 0, 0, 0, 0, choices, group, help, NULL},
#define RONDE_OPTION_PAIR(field, flag, verbs, deflt, value, group, help) \
  {flag, RONDE__OPTION_KIND_PAIR, verbs, AT(field), deflt, 0, 0, 0, 0, value, group, help, NULL},
#include "config/options.inc"
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

/* Of the verb; NULL: it has none of that name. */
static const ronde__option *find(int verb, const char *name) {
  for (int i = 0; i < N_OPTIONS; i++) {
    if ((table[i].verbs & verb) && strcmp(table[i].name, name) == 0) return &table[i];
  }
  return NULL;
}

static bool bit(const uint64_t *mask, const ronde__option *o) {
  return mask[(o - table) / 64] >> ((o - table) % 64) & 1;
}
static void set_bit(uint64_t *mask, const ronde__option *o) {
  mask[(o - table) / 64] |= (uint64_t)1 << ((o - table) % 64);
}
static void clear_bit(uint64_t *mask, const ronde__option *o) {
  mask[(o - table) / 64] &= ~((uint64_t)1 << ((o - table) % 64));
}

/* ---- the public table ------------------------------------------------------------------------------------------ */

ronde_status ronde_config_create(const char *verb, ronde_config **config_out) {
  int known = verb ? verb_of(verb) : 0;
  if (!known)
    return ronde__fail(RONDE_E_USAGE,
                       "no verb '%s': train, eval, predict, init, data, export, compare, "
                       "bench collectives, bench step or bench kernels",
                       verb ? verb : "");
  ronde_config *config;
  RONDE__ALLOC(config, sizeof *config, "configuration");
  config->verb = known;
  for (int i = 0; i < N_OPTIONS; i++) {
    ronde_status status =
        table[i].deflt ? ronde__option_set(&table[i], &config->options, table[i].deflt, table[i].name) : RONDE_OK;
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
    if (table[i].kind == RONDE__OPTION_KIND_TEXT) free(*(char **)((char *)&config->options + table[i].offset));
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
    if (table[i].kind != RONDE__OPTION_KIND_TEXT) continue;
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

/* Of the options of these verbs the nearest to a name, if it is near. */
static const ronde__option *find_near(int verb, const char *name) {
  const ronde__option *nearest = NULL;
  int least = 0;
  for (int i = 0; i < N_OPTIONS; i++) {
    if (!(table[i].verbs & verb)) continue;
    int distance = ronde__edit_distance(name, table[i].name);
    if (!ronde__is_near(table[i].name, distance) || (nearest && distance >= least)) continue;
    nearest = &table[i];
    least = distance;
  }
  return nearest;
}

/* What may be meant by a name that no option has: the same in another spelling, the name that it has elsewhere, or what
 * is near. *is_alias_out: the second. */
static const ronde__option *find_meant(int verb, const char *name, bool *is_alias_out) {
  char spelt[80];
  ronde__option_spell(name, spelt, sizeof spelt);
  const ronde__option *same = find(verb, spelt);
  const char *alias = ronde__option_alias(spelt);
  const ronde__option *other = alias ? find(verb, alias) : NULL;
  *is_alias_out = !same && other;
  return same ? same : other ? other : find_near(verb, spelt);
}

static ronde_status fail_unknown(int verb, const char *name) {
  char list[128] = "", spelt[80];
  for (size_t i = 0; i < RONDE__COUNT(verbs); i++) {
    if (!find(verbs[i].verb, name)) continue;
    size_t used = strlen(list);
    snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", verbs[i].name);
  }
  if (*list)
    return ronde__fail(RONDE_E_USAGE, "--%s is not an option of %s, but of %s", RONDE__SHOWN(name), verb_name(verb),
                       list);
  ronde__option_spell(name, spelt, sizeof spelt);
  const char *absent = ronde__option_absent(spelt);
  if (absent) return ronde__fail(RONDE_E_USAGE, "unknown option --%s: %s", RONDE__SHOWN(name), absent);
  bool is_alias, negated = strncmp(spelt, "no-", 3) == 0;
  const ronde__option *meant = find_meant(verb, spelt + (negated ? 3 : 0), &is_alias);
  if (!meant)
    return ronde__fail(RONDE_E_USAGE, "unknown option --%s; `ronde %s --help` lists them", RONDE__SHOWN(name),
                       verb_name(verb));
  return ronde__fail(RONDE_E_USAGE, "unknown option --%s; %s --%s%s", RONDE__SHOWN(name),
                     is_alias ? "here it is" : "the nearest is", negated && !meant->value ? "no-" : "", meant->name);
}

ronde_status ronde_config_set(ronde_config *config, const char *name, const char *value) {
  const ronde__option *o = find(config->verb, name);
  if (!o) return fail_unknown(config->verb, name);
  char label[80];
  snprintf(label, sizeof label, "--%s", name);
  RONDE_TRY(ronde__option_set(o, &config->options, value, label));
  set_bit(config->set_mask, o);
  clear_bit(config->environment_mask, o);
  return RONDE_OK;
}

bool ronde_config_is_given(const ronde_config *config, const char *name) {
  const ronde__option *o = find(config->verb, name);
  return o && bit(config->set_mask, o);
}

static void variable_name(const ronde__option *o, char *name_out, size_t bytes) {
  snprintf(name_out, bytes, "RONDE_%s", o->name);
  for (char *p = name_out; *p; p++) *p = *p == '-' ? '_' : (char)toupper((unsigned char)*p);
}

/* Variables that are read elsewhere. */
static const char *const other_variables[] = {"RONDE_DATA", "RONDE_CACHE_DIR", "RONDE_ISA", "RONDE_GEMM",
                                              "RONDE_LAUNCHED"};

/* What looks like a misspelt variable is said: it would change nothing, and nobody would notice. */
static void warn_of_misspelt(const char *variable) {
  enum { ANY = -1 };
  char name[80], spelt[80], meant_variable[80];
  size_t length = strcspn(variable, "=");
  if (length >= sizeof name) return;
  snprintf(name, sizeof name, "%.*s", (int)length, variable);
  for (size_t i = 0; i < RONDE__COUNT(other_variables); i++)
    if (strcmp(name, other_variables[i]) == 0) return;
  ronde__option_spell(name + strlen("RONDE_"), spelt, sizeof spelt);
  if (find(ANY, spelt)) return;
  bool is_alias;
  const ronde__option *meant = find_meant(ANY, spelt, &is_alias);
  if (!meant || strcmp(meant->name, "data") == 0) return; /* RONDE_DATA is no --data */
  variable_name(meant, meant_variable, sizeof meant_variable);
  ronde__log(RONDE_LOG_WARNING, "%s in the environment is not read; %s %s", RONDE__SHOWN(name),
             is_alias ? "here it is" : "the nearest is", meant_variable);
}

ronde_status ronde_config_set_environment(ronde_config *config) {
  for (int i = 0; i < N_OPTIONS; i++) {
    const ronde__option *o = &table[i];
    /* RONDE_DATA names the folder where data sets lie. */
    if (!(o->verbs & config->verb) || bit(config->set_mask, o) || strcmp(o->name, "data") == 0) continue;
    char variable[80];
    variable_name(o, variable, sizeof variable);
    const char *value = getenv(variable);
    if (!value || !*value) continue;
    RONDE_TRY(ronde__option_set(o, &config->options, value, variable));
    set_bit(config->set_mask, o);
    set_bit(config->environment_mask, o);
  }
  for (char **at = environ; at && *at; at++)
    if (strncmp(*at, "RONDE_", 6) == 0) warn_of_misspelt(*at);
  return RONDE_OK;
}

const char *ronde_config_get(const ronde_config *config, const char *name) {
  const ronde__option *o = find(config->verb, name);
  if (!o) return NULL;
  /* The texts are a cache, no part of the configuration's value. */
  ronde_config *cache = (ronde_config *)config;
  char **kept = &cache->texts[o - table], *text = ronde__option_text(o, &config->options);
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
    const ronde__option *o = &table[at];
    if (!(o->verbs & known) || i-- > 0) continue;
    *option_out = (ronde_option){o->name, o->value, o->deflt, o->help, o->group};
    return true;
  }
  return false;
}

/* ---- for the jobs ---------------------------------------------------------------------------------------------- */

const ronde__options *ronde__config_options(const ronde_config *config) { return &config->options; }

static bool is_neutral(const ronde__option *o, const ronde__options *options) {
  if (o->kind == RONDE__OPTION_KIND_TEXT) return false;
  char *text = ronde__option_text(o, options);
  bool neutral = text && (strcmp(text, o->deflt) == 0 || strcmp(text, "0") == 0 || strcmp(text, "off") == 0);
  free(text);
  return neutral;
}

bool ronde__config_is_set(const ronde_config *config, const char *flag) {
  const ronde__option *o = find(config->verb, flag);
  return o && bit(config->set_mask, o) && !is_neutral(o, &config->options);
}

ronde_status ronde__config_no_effect(const ronde_config *config, const char *flag, const char *why) {
  if (!ronde__config_is_set(config, flag)) return RONDE_OK;
  const ronde__option *o = find(config->verb, flag);
  char variable[80];
  variable_name(o, variable, sizeof variable);
  if (bit(config->environment_mask, o)) return ronde__fail(RONDE_E_USAGE, "%s can have no effect: %s", variable, why);
  return ronde__fail(RONDE_E_USAGE, "--%s can have no effect: %s", flag, why);
}

json_t *ronde__config_json(const ronde_config *config) {
  json_t *json = json_object();
  for (int i = 0; json && i < N_OPTIONS; i++) {
    if (!(table[i].verbs & config->verb)) continue;
    if (json_object_set_new(json, table[i].name, ronde__option_json(&table[i], &config->options))) {
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
    char *text = ronde__option_text(&table[i], &config->options);
    json_t *value = text ? ronde__json_text(text) : NULL;
    free(text);
    if (!value || json_object_set_new(json, table[i].name, value)) {
      json_decref(json);
      return NULL;
    }
  }
  return json;
}

ronde_status ronde__config_take(ronde_config *config, const json_t *given, bool (*leave)(void *user, const char *name),
                                void *user) {
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)given, name, value) {
    const ronde__option *o = find(config->verb, name);
    if (!o || bit(config->set_mask, o) || leave(user, name) || !json_is_string(value)) continue;
    RONDE_TRY(ronde_config_set(config, name, json_string_value(value)));
  }
  return RONDE_OK;
}

ronde_status ronde__config_resize(const ronde__options *options, int64_t resize_out[2]) {
  const char *text = options->resize;
  long long h, w;
  int used = 0;
  resize_out[0] = resize_out[1] = 0;
  if (!text) return RONDE_OK;
  if (sscanf(text, "%lldx%lld%n", &h, &w, &used) != 2 || text[used] || h < 1 || w < 1 || h > 16384 || w > 16384)
    return ronde__fail(RONDE_E_USAGE, "--resize %s: not HxW, such as 32x32, of at most 16384 each", RONDE__SHOWN(text));
  resize_out[0] = h;
  resize_out[1] = w;
  return RONDE_OK;
}

/* A configuration: options by name, from text or the environment, which of them were set, and their JSON. */
#include "config/option.h"

#include "base/json.h"

#include <ronde/measure.h>

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORD(id, word) "|" word
#define RONDE_CHOICES(set, words) static const char set##_WORDS[] = words;
#include "config/choices.inc"

/* The columns of options.inc. */
#define DEFAULT(text) .deflt = text
#define DEFAULT_OF(verbs, text) .other = {verbs, text}
#define VALUE(name) .value = name
#define CHOICES(set) .value = set##_WORDS + 1
#define WHOLE(min, max) .int_min = min, .int_max = max
#define WITHIN(min, max) .real_min = min, .real_max = max
#define CHECK(function) .is_good = function
#define WITH(flag, choices) .with = {flag, choices}
#define NO_VARIABLE .no_variable = true
#define HELP(text) .help = text
#define RONDE_OPTION(type, field, flag, of, in, then, where, what, ...) \
  {.name = flag,                                                        \
   .kind = RONDE__OPTION_KIND_##type,                                   \
   .verbs = of,                                                         \
   .offset = offsetof(ronde__options, field),                           \
   .group = in,                                                         \
   .resumed = RONDE__RESUMED_##then,                                    \
   .ranks = RONDE__RANKS_##where,                                       \
   .needs = what,                                                       \
   __VA_ARGS__},
static const ronde__option table[] = {
#include "config/options.inc"
};
#undef DEFAULT
#undef DEFAULT_OF
#undef VALUE
#undef CHOICES
#undef WHOLE
#undef WITHIN
#undef CHECK
#undef WITH
#undef NO_VARIABLE
#undef HELP

enum { N_OPTIONS = RONDE__COUNT(table) };
_Static_assert(N_OPTIONS <= RONDE__MAX_OPTIONS, "each option has a bit and a text in a configuration");
_Static_assert(RONDE__N_NEEDS <= 64, "each need has a bit in an option");

static const struct {
  const char *shown, *why;
} needs[] = {
#define RONDE_NEED(id, option, reason) {option, reason},
#include "config/needs.inc"
};

static const struct {
  const char *name;
  int verb;
} verbs[] = {
#define RONDE_VERB(id, name, also) {name, RONDE__VERB_##id | (also)},
#include "config/verbs.inc"
};

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

static ronde_status fail_verb(const char *name) {
  char list[256] = "";
  for (size_t i = 0; i < RONDE__COUNT(verbs); i++) {
    size_t used = strlen(list);
    const char *between = i == 0 ? "" : i + 1 < RONDE__COUNT(verbs) ? ", " : " or ";
    snprintf(list + used, sizeof list - used, "%s%s", between, verbs[i].name);
  }
  return ronde__fail(RONDE_E_USAGE, "unknown verb '%s': expected %s", RONDE__SHOWN(name), list);
}

const ronde__option *ronde__option_at(int verb, int i) {
  for (int at = 0; at < N_OPTIONS; at++)
    if ((table[at].verbs & verb) && i-- == 0) return &table[at];
  return NULL;
}

const ronde__option *ronde__option_find(int verb, const char *name) {
  for (int i = 0; i < N_OPTIONS; i++) {
    if ((table[i].verbs & verb) && strcmp(table[i].name, name) == 0) return &table[i];
  }
  return NULL;
}

const char *ronde__option_default(const ronde__option *o, int verb) {
  return o->other.verbs & verb ? o->other.deflt : o->deflt;
}

void ronde__option_variable(const ronde__option *o, char name_out[RONDE__VARIABLE_BYTES]) {
  snprintf(name_out, RONDE__VARIABLE_BYTES, "RONDE_%s", o->name);
  for (char *p = name_out; *p; p++) *p = *p == '-' ? '_' : (char)toupper((unsigned char)*p);
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
  if (!known) return fail_verb(verb ? verb : "");
  ronde_config *config;
  RONDE__ALLOC(config, sizeof *config, "configuration");
  config->verb = known;
  for (int i = 0; i < N_OPTIONS; i++) {
    const char *deflt = ronde__option_default(&table[i], known);
    ronde_status status = deflt ? ronde__option_set(&table[i], &config->options, deflt, table[i].name) : RONDE_OK;
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

/* Of the names that options have elsewhere the nearest one, if it is near and nearer than `least`. */
static const ronde__option *find_near_alias(int verb, const char *name, int least) {
  const ronde__option *nearest = NULL;
  const char *theirs;
  for (size_t i = 0; (theirs = ronde__option_alias_at(i)); i++) {
    const ronde__option *ours = ronde__option_find(verb, ronde__option_alias(theirs));
    int distance = ronde__edit_distance(name, theirs);
    if (!ours || !ronde__is_near(theirs, distance) || distance >= least) continue;
    nearest = ours;
    least = distance;
  }
  return nearest;
}

/* What may be meant by a name that no option has: the same in another spelling, the name that it has elsewhere, or what
 * is near one of these. *is_alias_out: the second. */
static const ronde__option *find_meant(int verb, const char *name, bool *is_alias_out) {
  char spelt[80];
  ronde__option_spell(name, spelt, sizeof spelt);
  const ronde__option *same = ronde__option_find(verb, spelt);
  const char *alias = ronde__option_alias(spelt);
  const ronde__option *other = alias ? ronde__option_find(verb, alias) : NULL;
  *is_alias_out = !same && other;
  if (same || other) return same ? same : other;
  const ronde__option *near = find_near(verb, spelt);
  const ronde__option *near_alias =
      find_near_alias(verb, spelt, near ? ronde__edit_distance(spelt, near->name) : INT_MAX);
  return near_alias ? near_alias : near;
}

static ronde_status fail_unknown(int verb, const char *name) {
  char list[128] = "", spelt[80];
  for (size_t i = 0; i < RONDE__COUNT(verbs); i++) {
    if (!ronde__option_find(verbs[i].verb, name)) continue;
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
  const ronde__option *o = ronde__option_find(config->verb, name);
  if (!o) return fail_unknown(config->verb, name);
  char label[80];
  snprintf(label, sizeof label, "--%s", name);
  RONDE_TRY(ronde__option_set(o, &config->options, value, label));
  set_bit(config->set_mask, o);
  clear_bit(config->environment_mask, o);
  return RONDE_OK;
}

ronde_status ronde__config_unset(ronde_config *config, const char *flag) {
  const ronde__option *o = ronde__option_find(config->verb, flag);
  RONDE_TRY(ronde__option_set(o, &config->options, ronde__option_default(o, config->verb), flag));
  clear_bit(config->set_mask, o);
  clear_bit(config->environment_mask, o);
  return RONDE_OK;
}

ronde_status ronde__config_name_strategy(ronde_config *config, const char *name) {
  RONDE_TRY(ronde__config_unset(config, "allow-stale"));
  return name ? ronde_config_set(config, "strategy", name) : ronde__config_unset(config, "strategy");
}

bool ronde_config_is_given(const ronde_config *config, const char *name) {
  const ronde__option *o = ronde__option_find(config->verb, name);
  return o && bit(config->set_mask, o);
}

/* Where data and their cache lie, which kernels compute. */
static const char *const other_variables[] = {"RONDE_DATA", "RONDE_CACHE_DIR", "RONDE_ISA", "RONDE_GEMM"};

const char *ronde_config_variable(int i) {
  return i >= 0 && (size_t)i < RONDE__COUNT(other_variables) ? other_variables[i] : NULL;
}

/* What looks like a misspelt variable is said: it would change nothing, and nobody would notice. */
static void warn_of_misspelt(const char *variable) {
  enum { ANY = -1 };
  char name[80], spelt[80], meant_variable[RONDE__VARIABLE_BYTES];
  size_t length = strcspn(variable, "=");
  if (length >= sizeof name) return;
  snprintf(name, sizeof name, "%.*s", (int)length, variable);
  for (size_t i = 0; i < RONDE__COUNT(other_variables); i++)
    if (strcmp(name, other_variables[i]) == 0) return;
  ronde__option_spell(name + strlen("RONDE_"), spelt, sizeof spelt);
  if (ronde__option_find(ANY, spelt)) return;
  bool is_alias;
  const ronde__option *meant = find_meant(ANY, spelt, &is_alias);
  if (!meant || meant->no_variable) return;
  ronde__option_variable(meant, meant_variable);
  ronde__log(RONDE_LOG_WARNING, "the environment variable %s is ignored; %s %s", RONDE__SHOWN(name),
             is_alias ? "here it is" : "the nearest is", meant_variable);
}

ronde_status ronde_config_set_environment(ronde_config *config) {
  for (int i = 0; i < N_OPTIONS; i++) {
    const ronde__option *o = &table[i];
    if (!(o->verbs & config->verb) || bit(config->set_mask, o) || o->no_variable) continue;
    char variable[RONDE__VARIABLE_BYTES];
    ronde__option_variable(o, variable);
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
  const ronde__option *o = ronde__option_find(config->verb, name);
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
  const ronde__option *o = ronde__option_at(known, i);
  if (!o) return false;
  *option_out = (ronde_option){.name = o->name,
                               .value_name = o->value,
                               .default_text = ronde__option_default(o, known),
                               .help = o->help,
                               .group = o->group,
                               .needs_out = ronde__option_needs(o, RONDE__NEED_OUT)};
  if (!o->no_variable) ronde__option_variable(o, option_out->variable);
  return true;
}

/* ---- for the jobs ---------------------------------------------------------------------------------------------- */

const ronde__options *ronde__config_options(const ronde_config *config) { return &config->options; }

static bool is_neutral(const ronde__option *o, const ronde_config *config) {
  if (o->kind == RONDE__OPTION_KIND_TEXT) return false;
  char *text = ronde__option_text(o, &config->options);
  const char *deflt = ronde__option_default(o, config->verb);
  bool neutral = text && (strcmp(text, deflt) == 0 || strcmp(text, "0") == 0 || strcmp(text, "off") == 0);
  free(text);
  return neutral;
}

bool ronde__config_is_set(const ronde_config *config, const char *flag) {
  const ronde__option *o = ronde__option_find(config->verb, flag);
  return o && bit(config->set_mask, o) && !is_neutral(o, config);
}

void ronde_config_allow_idle(ronde_config *config) { config->allows_idle = true; }

ronde_status ronde__config_no_effect(const ronde_config *config, const char *flag, const char *why) {
  if (config->allows_idle || !ronde__config_is_set(config, flag)) return RONDE_OK;
  const ronde__option *o = ronde__option_find(config->verb, flag);
  char variable[RONDE__VARIABLE_BYTES];
  ronde__option_variable(o, variable);
  if (bit(config->environment_mask, o)) return ronde__fail(RONDE_E_USAGE, "%s can have no effect: %s", variable, why);
  return ronde__fail(RONDE_E_USAGE, "--%s can have no effect: %s", flag, why);
}

ronde_status ronde__config_settle(const ronde_config *config, ronde__need need, bool is_met) {
  const ronde__option *o;
  const char *shown = needs[need].shown, *value = shown ? ronde_config_get(config, shown) : NULL;
  char why[256];
  if (is_met) return RONDE_OK;
  if (value && *value) snprintf(why, sizeof why, "%s (--%s %s)", needs[need].why, shown, RONDE__SHOWN(value));
  else snprintf(why, sizeof why, "%s", needs[need].why);
  for (int i = 0; (o = ronde__option_at(config->verb, i)); i++)
    if (ronde__option_needs(o, need)) RONDE_TRY(ronde__config_no_effect(config, o->name, why));
  return RONDE_OK;
}

/* "a|b|c" as "a, b and c" */
static void list_words(const char *words, char *text_out, size_t bytes) {
  size_t used = 0;
  for (; *words && used < bytes; words += strcspn(words, "|"), words += *words == '|') {
    size_t length = strcspn(words, "|");
    const char *between = used == 0 ? "" : words[length] ? ", " : " and ";
    used += (size_t)snprintf(text_out + used, bytes - used, "%s%.*s", between, (int)length, words);
  }
}

ronde_status ronde__config_settle_others(const ronde_config *config) {
  const ronde__option *o;
  char list[64], why[128];
  for (int i = 0; (o = ronde__option_at(config->verb, i)); i++) {
    const char *value = o->with.option ? ronde_config_get(config, o->with.option) : NULL;
    if (!value || ronde__choice_index(o->with.words, value) >= 0) continue;
    list_words(o->with.words, list, sizeof list);
    snprintf(why, sizeof why, "it applies to --%s %s, and this is %s", o->with.option, list, value);
    RONDE_TRY(ronde__config_no_effect(config, o->name, why));
  }
  return RONDE_OK;
}

/* Of the verb, or only what all ranks share. */
static json_t *values_of(const ronde_config *config, bool shared) {
  json_t *json = json_object();
  const ronde__option *o;
  for (int i = 0; json && (o = ronde__option_at(config->verb, i)); i++) {
    if (shared && o->ranks != RONDE__RANKS_SAME) continue;
    if (json_object_set_new(json, o->name, ronde__option_json(o, &config->options))) {
      json_decref(json);
      return NULL;
    }
  }
  return json;
}

json_t *ronde__config_json(const ronde_config *config) { return values_of(config, false); }
json_t *ronde__config_common(const ronde_config *config) { return values_of(config, true); }

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

ronde_status ronde__config_take(ronde_config *config, const json_t *given,
                                bool (*leave)(void *user, const ronde__option *option), void *user) {
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)given, name, value) {
    const ronde__option *o = ronde__option_find(config->verb, name);
    if (!o || bit(config->set_mask, o) || leave(user, o) || !json_is_string(value)) continue;
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
    return ronde__fail(RONDE_E_USAGE, "--resize %s: expected HxW, such as 32x32, with at most 16384 each",
                       RONDE__SHOWN(text));
  resize_out[0] = h;
  resize_out[1] = w;
  return RONDE_OK;
}

/* The typed option table: options.inc makes the parser, --help, the RONDE_... environment, the record in run.json, and
 * what is refused without an effect, taken over by --resume, and alike on all ranks. */
#ifndef RONDE_CONFIG_H
#define RONDE_CONFIG_H

#include "base/base.h"
#include <jansson.h>

/* One bit each; a configuration's verb is its own and those whose options it takes too. */
enum {
#define RONDE_VERB(id, name, also) RONDE__VERB_BIT_##id,
#include "config/verbs.inc"
};
enum {
#define RONDE_VERB(id, name, also) RONDE__VERB_##id = 1 << RONDE__VERB_BIT_##id,
#include "config/verbs.inc"
};

/* What an ENUM option is. */
#define WORD(id, word) RONDE__##id,
#define RONDE_CHOICES(set, words) enum { words };
#include "config/choices.inc"

/* What an option may need to have an effect. */
typedef enum ronde__need {
#define RONDE_NEED(id, shown, why) RONDE__NEED_##id,
#include "config/needs.inc"
  RONDE__N_NEEDS
} ronde__need;

/* The values, typed. Text is owned by the config; an option that was not given and has no default is NULL. */
typedef struct ronde__options {
#define RONDE__FIELD_BOOL(field) bool field;
#define RONDE__FIELD_INT(field) int64_t field;
#define RONDE__FIELD_REAL(field) double field;
#define RONDE__FIELD_AUTO(field) double field; /* < 0: not resolved yet */
#define RONDE__FIELD_TEXT(field) char *field;
#define RONDE__FIELD_ENUM(field) int field; /* of its choices */
#define RONDE__FIELD_PAIR(field) double field[2];
#define RONDE_OPTION(kind, field, ...) RONDE__FIELD_##kind(field)
#include "config/options.inc"
} ronde__options;

#define RONDE__MAX_OPTIONS 256

struct ronde_config {
  int verb;
  ronde__options options;
  uint64_t set_mask[RONDE__MAX_OPTIONS /
                    64]; /* bit i: option i of the table was set by the user (command line or environment) */
  uint64_t environment_mask[RONDE__MAX_OPTIONS / 64]; /* by the environment: errors then name the variable */
  bool allows_idle;                                   /* options that can have no effect are not refused */
  char *texts[RONDE__MAX_OPTIONS];                    /* that ronde_config_get has handed out */
};

/* A copy of a const config, in whose `options` a job resolves automatic values. */
ronde_status ronde__config_copy(const ronde_config *config, ronde_config **config_out);
const ronde__options *ronde__config_options(const ronde_config *config);
/* Whether the user set the option `flag` to something else than its neutral value (0, off, or its default): what can have
 * an effect. Whether he set it at all, be it to its default, is ronde_config_is_given. */
bool ronde__config_is_set(const ronde_config *config, const char *flag);
/* RONDE_E_USAGE, one line: the option can have no effect here, because `why`. Nothing where it is not set. */
ronde_status ronde__config_no_effect(const ronde_config *config, const char *flag, const char *why);
/* As if the option `flag` had not been given: its default. */
ronde_status ronde__config_unset(ronde_config *config, const char *flag);
/* In the place of --strategy measured and what belongs to it; NULL: none is named. */
ronde_status ronde__config_name_strategy(ronde_config *config, const char *name);
/* Tells whether a need of options (needs.inc) is met. If not, every option that was set and has this need is refused. */
ronde_status ronde__config_settle(const ronde_config *config, ronde__need need, bool is_met);
/* Refuses options that were set but have an effect only with other values of another option; call it when values are
 * final. */
ronde_status ronde__config_settle_others(const ronde_config *config);
/* Every option of the verb, resolved, by name: for run.json. */
json_t *ronde__config_json(const ronde_config *config);
/* Those of these options that must be equal on all ranks that are processes. */
json_t *ronde__config_common(const ronde_config *config);
/* The options that the user set, by name, as text; what ronde__config_take reads. */
json_t *ronde__config_given(const ronde_config *config);
/* Sets each option that was not set from such texts, unless `leave` says so; options of another version are left. */
struct ronde__option;
ronde_status ronde__config_take(ronde_config *config, const json_t *given,
                                bool (*leave)(void *user, const struct ronde__option *option), void *user);
/* Height and width of --resize; zeros where it is not given. */
ronde_status ronde__config_resize(const ronde__options *options, int64_t resize_out[2]);

#endif

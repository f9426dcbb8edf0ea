/* The typed option table: options.inc makes the parser, --help, the RONDE_... environment and the record in
 * run.json. */
#ifndef RONDE_CONFIG_H
#define RONDE_CONFIG_H

#include "base/base.h"
#include <jansson.h>

enum {
  RONDE__VERB_TRAIN = 1,
  RONDE__VERB_EVAL = 2,
  RONDE__VERB_PREDICT = 4,
  RONDE__VERB_INIT = 8,
  RONDE__VERB_DATA = 16,
  RONDE__VERB_COMPARE = 32,
  RONDE__VERB_EXPORT = 64,
  RONDE__VERB_BENCH_COLLECTIVES = 128,
  RONDE__VERB_BENCH_STEP = 256,
  RONDE__VERB_BENCH_KERNELS = 512,
  RONDE__VERB_DOCTOR = 1024
};

/* The values, typed. Text is owned by the config; an option that was not given and has no default is NULL. */
typedef struct ronde__options {
#define RONDE_OPTION_BOOL(field, flag, verbs, deflt, group, help) bool field;
#define RONDE_OPTION_INT(field, flag, verbs, deflt, min, max, value, group, help) int64_t field;
#define RONDE_OPTION_REAL(field, flag, verbs, deflt, min, max, value, group, help) double field;
#define RONDE_OPTION_AUTO(field, flag, verbs, min, max, value, group, help) double field; /* < 0: not resolved yet */
#define RONDE_OPTION_TEXT(field, flag, verbs, deflt, value, group, help) char *field;
#define RONDE_OPTION_CHECKED(field, flag, verbs, deflt, is_good, value, group, help) char *field;
#define RONDE_OPTION_ENUM(field, flag, verbs, deflt, choices, group, help) int field; /* index into choices */
#define RONDE_OPTION_PAIR(field, flag, verbs, deflt, value, group, help) double field[2];
#include "config/options.inc"
} ronde__options;

#define RONDE__MAX_OPTIONS 256

struct ronde_config {
  int verb;
  ronde__options options;
  uint64_t set_mask[RONDE__MAX_OPTIONS /
                    64]; /* bit i: option i of the table was set by the user (command line or environment) */
  uint64_t environment_mask[RONDE__MAX_OPTIONS / 64]; /* by the environment: errors then name the variable */
  char *texts[RONDE__MAX_OPTIONS];                    /* that ronde_config_get has handed out */
};

/* A copy to resolve automatic values in (in its `options`), where a job was lent a const config. */
ronde_status ronde__config_copy(const ronde_config *config, ronde_config **config_out);
const ronde__options *ronde__config_options(const ronde_config *config);
/* Whether the user set the option `flag` to something else than its neutral value (0, off, or its default). */
bool ronde__config_is_set(const ronde_config *config, const char *flag);
/* RONDE_E_USAGE, one line: the option can have no effect here, because `why`. Nothing where it is not set. */
ronde_status ronde__config_no_effect(const ronde_config *config, const char *flag, const char *why);
/* Every option of the verb, resolved, by name: for run.json. */
json_t *ronde__config_json(const ronde_config *config);
/* The options that the user set, by name, as text; what ronde__config_take reads. */
json_t *ronde__config_given(const ronde_config *config);
/* Sets each option that was not set from such texts, unless `leave` says so; options of another version are left. */
ronde_status ronde__config_take(ronde_config *config, const json_t *given, bool (*leave)(void *user, const char *name),
                                void *user);
/* Height and width of --resize; zeros where it is not given. */
ronde_status ronde__config_resize(const ronde__options *options, int64_t resize_out[2]);

#endif

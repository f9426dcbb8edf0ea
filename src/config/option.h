/* One option of a verb, as options.inc has it: from text to a field of ronde__options, and back. */
#ifndef RONDE_OPTION_H
#define RONDE_OPTION_H

#include "config/config.h"

typedef enum ronde__option_kind {
  RONDE__OPTION_KIND_BOOL,
  RONDE__OPTION_KIND_INT,
  RONDE__OPTION_KIND_REAL,
  RONDE__OPTION_KIND_AUTO,
  RONDE__OPTION_KIND_TEXT,
  RONDE__OPTION_KIND_ENUM,
  RONDE__OPTION_KIND_PAIR
} ronde__option_kind;

typedef struct ronde__option {
  const char *name;
  ronde__option_kind kind;
  int verbs;
  size_t offset;     /* of the field in ronde__options */
  const char *deflt; /* as text; NULL: none */
  int64_t int_min, int_max;
  double real_min, real_max;
  const char *value; /* name of the value; of an ENUM its choices; NULL: a bare flag */
  const char *group, *help;
  bool (*is_good)(const char *text); /* of a TEXT that is not any text; else NULL */
} ronde__option;

/* The functions that options.inc names. */
bool ronde__normalize_is_good(const char *text);

/* RONDE_E_USAGE names `label` (the option, or a variable of the environment), the value and what it may be. */
ronde_status ronde__option_set(const ronde__option *option, ronde__options *options, const char *value,
                               const char *label);
/* As ronde__option_set reads it, and to be freed; NULL: no memory. An embedder's locale changes nothing. */
char *ronde__option_text(const ronde__option *option, const ronde__options *options);
/* A name as options are spelt: in lower case, with dashes. */
void ronde__option_spell(const char *name, char *out, size_t bytes);
/* The option that other systems call so; why there is none, where they have one that Ronde has not. NULL: not known.
 * name: as ronde__option_spell writes it. */
const char *ronde__option_alias(const char *name);
const char *ronde__option_absent(const char *name);
const char *ronde__option_alias_at(size_t i); /* the i-th name of theirs; NULL past the end */
json_t *ronde__option_json(const ronde__option *option, const ronde__options *options);

#endif

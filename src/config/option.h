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

/* How --resume goes about an option, and how ranks do that are processes: see options.inc. */
typedef enum ronde__resumed {
  RONDE__RESUMED_NONE,
  RONDE__RESUMED_FIXED,
  RONDE__RESUMED_KEPT,
  RONDE__RESUMED_ONCE
} ronde__resumed;
typedef enum ronde__on_ranks {
  RONDE__RANKS_NONE,
  RONDE__RANKS_SAME,
  RONDE__RANKS_OWN,
  RONDE__RANKS_LED
} ronde__on_ranks;

#define RONDE__NEEDS(need) (UINT64_C(1) << (need))

typedef struct ronde__option {
  const char *name;
  ronde__option_kind kind;
  int verbs;
  size_t offset; /* of the field in ronde__options */
  const char *group, *help;
  ronde__resumed resumed;
  ronde__on_ranks ranks;
  uint64_t needs; /* bits of ronde__need */
  struct {
    const char *option, *words; /* "a|b" of an ENUM */
  } with;                       /* has an effect only where the other option is one of the words; NULL: always */
  const char *deflt;            /* as text; NULL: none */
  struct {
    int verbs;
    const char *deflt;
  } other; /* verbs that have another default */
  int64_t int_min, int_max;
  double real_min, real_max;
  const char *value;                 /* name of the value; of an ENUM its choices; NULL: a bare flag */
  bool (*is_good)(const char *text); /* of a TEXT that must have a certain form; else NULL */
  bool no_variable;                  /* not read from the environment */
} ronde__option;

/* The option of a verb; NULL: it has none of that name, or not so many. */
const ronde__option *ronde__option_find(int verb, const char *name);
const ronde__option *ronde__option_at(int verb, int i);
/* As text; NULL: none. */
const char *ronde__option_default(const ronde__option *option, int verb);
static inline bool ronde__option_needs(const ronde__option *option, ronde__need need) {
  return option->needs & RONDE__NEEDS(need);
}
/* Index of text among "a|b|c", or -1. */
int ronde__choice_index(const char *choices, const char *text);
/* The variable of the environment that sets it: RONDE_NAME. */
enum { RONDE__VARIABLE_BYTES = 48 };
void ronde__option_variable(const ronde__option *option, char name_out[RONDE__VARIABLE_BYTES]);

/* The functions that options.inc names. */
bool ronde__normalize_is_good(const char *text);
bool ronde__bytes_are_good(const char *text);

/* RONDE_E_USAGE names `label` (the option, or a variable of the environment), the value and what it may be. */
ronde_status ronde__option_set(const ronde__option *option, ronde__options *options, const char *value,
                               const char *label);
/* As ronde__option_set reads it, and to be freed; NULL: no memory. An embedder's locale changes nothing. */
char *ronde__option_text(const ronde__option *option, const ronde__options *options);
/* A name as options are spelt: in lower case, with dashes. */
void ronde__option_spell(const char *name, char *out, size_t bytes);
/* ronde__option_alias: the option that other systems call by this name. ronde__option_absent: why Ronde has no such
 * option. NULL: the name is unknown. name: as ronde__option_spell writes it. */
const char *ronde__option_alias(const char *name);
const char *ronde__option_absent(const char *name);
const char *ronde__option_alias_at(size_t i); /* the i-th name of theirs; NULL past the end */
json_t *ronde__option_json(const ronde__option *option, const ronde__options *options);

#endif

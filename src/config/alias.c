/* The names that options have in other systems, so that an error can suggest Ronde's name. */
#include "config/option.h"

#include <ctype.h>
#include <string.h>

static const struct {
  const char *theirs, *ours;
} aliases[] = {
#define RONDE_ALIAS(theirs, ours) {theirs, ours},
#define RONDE_ABSENT(theirs, why)
#include "config/aliases.inc"
};

static const struct {
  const char *theirs, *why;
} absent[] = {
#define RONDE_ALIAS(theirs, ours)
#define RONDE_ABSENT(theirs, why) {theirs, why},
#include "config/aliases.inc"
};

void ronde__option_spell(const char *name, char *out, size_t bytes) {
  size_t n = 0;
  for (; name[n] && n + 1 < bytes; n++) out[n] = name[n] == '_' ? '-' : (char)tolower((unsigned char)name[n]);
  out[n] = '\0';
}

const char *ronde__option_alias(const char *name) {
  for (size_t i = 0; i < RONDE__COUNT(aliases); i++)
    if (strcmp(aliases[i].theirs, name) == 0) return aliases[i].ours;
  return NULL;
}

const char *ronde__option_absent(const char *name) {
  for (size_t i = 0; i < RONDE__COUNT(absent); i++)
    if (strcmp(absent[i].theirs, name) == 0) return absent[i].why;
  return NULL;
}

const char *ronde__option_alias_at(size_t i) { return i < RONDE__COUNT(aliases) ? aliases[i].theirs : NULL; }

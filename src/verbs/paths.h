/* Files that a user names: by file, folder or pattern. */
#ifndef RONDE_PATHS_H
#define RONDE_PATHS_H

#include "base/base.h"

typedef struct ronde__paths {
  char **at; /* [n] */
  int64_t n, room;
} ronde__paths;

/* Which files of a folder are meant, and their ends in words (".png or .npy"). */
typedef struct ronde__paths_wanted {
  bool (*is)(const void *user, const char *name);
  const void *user;
  const char *ends;
} ronde__paths_wanted;

/* spec: files, folders and patterns, one a line. A folder stands for all wanted files below it, in bytewise order. Empty where
 * nothing is named. Errors: RONDE_E_INPUT where a folder or a pattern has none. */
ronde_status ronde__paths_find(const char *spec, const ronde__paths_wanted *wanted, ronde__paths *paths_out);
void ronde__paths_release(ronde__paths *paths);
/* Whether a name ends like that, in any case. */
bool ronde__path_has_end(const char *name, const char *end);

#endif

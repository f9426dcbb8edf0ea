/* Data sets that can be downloaded. */
#ifndef RONDE_REMOTE_H
#define RONDE_REMOTE_H

#include "base/base.h"
#include <jansson.h>

enum { RONDE__REMOTE_FILES = 4 };

typedef struct ronde__remote_file {
  const char *name;
  int64_t bytes;
  const char *sha256;
} ronde__remote_file;

typedef struct ronde__remote {
  const char *name, *about;
  const char *url;                               /* of the folder */
  ronde__remote_file files[RONDE__REMOTE_FILES]; /* up to the first without a name */
  const char *const *members; /* the one file is an archive, of which these are kept; NULL-terminated. NULL: none */
} ronde__remote;

/* NULL past the end. */
const ronde__remote *ronde__remote_at(int i);
/* Into the folder dir, which is made. from: NULL for the usual place. files: an array to which each file is added. */
ronde_status ronde__remote_get(const ronde__remote *remote, const char *from, const char *dir,
                               const ronde_data_hooks *hooks, json_t *files);

#endif

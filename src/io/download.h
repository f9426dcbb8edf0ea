/* Downloads a file, checked, whole or absent. It grows as PATH.part, which is kept where the transfer breaks off, so
 * that the next try continues from there. */
#ifndef RONDE_DOWNLOAD_H
#define RONDE_DOWNLOAD_H

#include "base/base.h"

typedef struct ronde__download {
  const char *url; /* http:// or https:// */
  const char *path;
  int64_t bytes;                                             /* of the whole file */
  const char *sha256;                                        /* 64 hex digits */
  void (*progress)(void *user, int64_t done, int64_t total); /* may be NULL */
  bool (*cancel)(void *user);                                /* may be NULL */
  void *user;
} ronde__download;

/* Whether this build can download. */
bool ronde__download_supported(void);
/* Errors: RONDE_E_INPUT (the server's answer, a cut connection, a wrong checksum), RONDE_E_WRITE, RONDE_E_CANCELLED,
 * RONDE_E_USAGE without libcurl. */
ronde_status ronde__download_run(const ronde__download *what);
/* *same_out: whether there is a file at path with this many bytes and this hash. */
ronde_status ronde__download_check(const char *path, int64_t bytes, const char *sha256, bool *same_out);

#endif

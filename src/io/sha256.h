/* SHA-256 in pieces. */
#ifndef RONDE_SHA256_H
#define RONDE_SHA256_H

#include "base/base.h"

#define RONDE__SHA256_HEX 65 /* 64 digits and the closing zero */

typedef struct ronde__sha256 {
  void *context;
  bool broken; /* a piece was refused; final tells */
} ronde__sha256;

ronde_status ronde__sha256_init(ronde__sha256 *sha);
void ronde__sha256_update(ronde__sha256 *sha, const void *data, size_t bytes);
/* Fills hex with lower-case digits and releases sha, also where it fails. hex NULL: only releases. */
ronde_status ronde__sha256_final(ronde__sha256 *sha, char hex[RONDE__SHA256_HEX]);

#endif

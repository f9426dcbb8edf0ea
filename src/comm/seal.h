/* The seal on what processes of a job tell each other outside of MPI: only who has the job's key can have made it, and a
 * byte that was changed on the way breaks it. */
#ifndef RONDE_SEAL_H
#define RONDE_SEAL_H

#include "base/base.h"

enum { RONDE__SEAL_BYTES = 16 };

/* The first bytes of HMAC-SHA-256; false where libcrypto fails. */
bool ronde__seal(const void *key, size_t key_bytes, const void *data, size_t bytes,
                 uint8_t seal_out[RONDE__SEAL_BYTES]);
/* Whether it is the seal on these data; takes as long whatever is wrong. */
bool ronde__seal_holds(const void *key, size_t key_bytes, const void *data, size_t bytes,
                       const uint8_t seal[RONDE__SEAL_BYTES]);

#endif

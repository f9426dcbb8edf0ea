/* SHA-256 by libcrypto. */
#include "io/sha256.h"

#include <openssl/evp.h>
#include <stdio.h>

ronde_status ronde__sha256_init(ronde__sha256 *sha) {
  EVP_MD_CTX *context = EVP_MD_CTX_new();
  if (!context) return ronde__fail(RONDE_E_MEMORY, "SHA-256: no memory for its state");
  if (!EVP_DigestInit_ex(context, EVP_sha256(), NULL)) {
    EVP_MD_CTX_free(context);
    return ronde__fail(RONDE_E_INTERNAL, "SHA-256: libcrypto cannot start a digest");
  }
  *sha = (ronde__sha256){.context = context};
  return RONDE_OK;
}

void ronde__sha256_update(ronde__sha256 *sha, const void *data, size_t bytes) {
  if (bytes > 0 && !EVP_DigestUpdate(sha->context, data, bytes)) sha->broken = true;
}

ronde_status ronde__sha256_final(ronde__sha256 *sha, char hex[RONDE__SHA256_HEX]) {
  unsigned char digest[32];
  bool done = !sha->broken && EVP_DigestFinal_ex(sha->context, digest, NULL);
  EVP_MD_CTX_free(sha->context);
  sha->context = NULL;
  if (!hex) return RONDE_OK;
  if (!done) return ronde__fail(RONDE_E_INTERNAL, "SHA-256: libcrypto cannot continue the digest");
  for (size_t i = 0; i < sizeof digest; ++i) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
  return RONDE_OK;
}

/* Seals by HMAC-SHA-256 (RFC 2104), and the public form of them for a launcher's lines of text. */
#include "comm/seal.h"

#include <ronde/measure.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

_Static_assert(RONDE_SEAL_DIGITS == 2 * RONDE__SEAL_BYTES, "two digits a byte");

bool ronde__seal(const void *key, size_t key_bytes, const void *data, size_t bytes,
                 uint8_t seal_out[RONDE__SEAL_BYTES]) {
  uint8_t whole[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  if (!HMAC(EVP_sha256(), key, (int)key_bytes, data, bytes, whole, &length) || length < RONDE__SEAL_BYTES) return false;
  memcpy(seal_out, whole, RONDE__SEAL_BYTES);
  return true;
}

bool ronde__seal_holds(const void *key, size_t key_bytes, const void *data, size_t bytes,
                       const uint8_t seal[RONDE__SEAL_BYTES]) {
  uint8_t own[RONDE__SEAL_BYTES];
  return ronde__seal(key, key_bytes, data, bytes, own) && !CRYPTO_memcmp(own, seal, sizeof own);
}

bool ronde_seal(const char *key, const char *text, char seal_out[RONDE_SEAL_DIGITS + 1]) {
  static const char digits[] = "0123456789abcdef";
  uint8_t seal[RONDE__SEAL_BYTES];
  if (!ronde__seal(key, strlen(key), text, strlen(text), seal)) return false;
  for (int i = 0; i < RONDE__SEAL_BYTES; i++) {
    seal_out[2 * i] = digits[seal[i] >> 4];
    seal_out[2 * i + 1] = digits[seal[i] & 15];
  }
  seal_out[RONDE_SEAL_DIGITS] = 0;
  return true;
}

bool ronde_seal_holds(const char *key, const char *text, const char *seal) {
  char own[RONDE_SEAL_DIGITS + 1];
  return strlen(seal) == RONDE_SEAL_DIGITS && ronde_seal(key, text, own) &&
         !CRYPTO_memcmp(own, seal, RONDE_SEAL_DIGITS);
}

/* What comes to the sockets of signs of life. The first byte says whether the rest is signed as by the job, so that what
 * stands behind the key is reached too. What is accepted can be written again. */
#include "comm/life_wire.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t key[RONDE__LIFE_KEY] = "the key of this job, 32 bytes..";

static void check(const uint8_t *data, size_t size) {
  enum { RANKS = 5 };
  ronde__life_message m, again;
  uint8_t written[RONDE__LIFE_BYTES];
  if (ronde__life_read(data, size, key, RANKS, &m) != RONDE__LIFE_GOOD) return;
  bool sound = m.sender >= 0 && m.sender < RANKS && m.n >= 0 && m.n <= RONDE__LIFE_WORDS;
  for (int i = 0; i < m.n && sound; i++) sound = m.words[i].rank >= 0 && m.words[i].rank < RANKS;
  size_t n = sound ? ronde__life_write(&m, key, written) : 0;
  if (n != size || memcmp(written, data, n) || ronde__life_read(written, n, key, RANKS, &again) != RONDE__LIFE_GOOD)
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  uint8_t message[2 * RONDE__LIFE_BYTES], mac[EVP_MAX_MD_SIZE];
  unsigned length;
  if (size < 1 || size - 1 > sizeof message - RONDE__LIFE_MAC) return 0;
  memcpy(message, data + 1, size - 1);
  if (data[0] % 2 == 0) {
    check(message, size - 1);
    return 0;
  }
  HMAC(EVP_sha256(), key, RONDE__LIFE_KEY, message, size - 1, mac, &length);
  memcpy(message + size - 1, mac, RONDE__LIFE_MAC);
  check(message, size - 1 + RONDE__LIFE_MAC);
  return 0;
}

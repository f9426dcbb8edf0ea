/* Checksums by xxHash: XXH3, 64 bits. */
#include "io/checksum.h"

#include <xxhash.h>

static XXH3_state_t *checksum_state(ronde__checksum_state *state) { return (XXH3_state_t *)state; }

uint64_t ronde__checksum(const void *data, size_t bytes) { return XXH3_64bits(data, bytes); }

ronde__checksum_state *ronde__checksum_create(void) { return (ronde__checksum_state *)XXH3_createState(); }
void ronde__checksum_destroy(ronde__checksum_state *state) { XXH3_freeState(checksum_state(state)); }
void ronde__checksum_begin(ronde__checksum_state *state) { XXH3_64bits_reset(checksum_state(state)); }
void ronde__checksum_add(ronde__checksum_state *state, const void *data, size_t bytes) {
  XXH3_64bits_update(checksum_state(state), data, bytes);
}
uint64_t ronde__checksum_end(const ronde__checksum_state *state) {
  return XXH3_64bits_digest((const XXH3_state_t *)state);
}

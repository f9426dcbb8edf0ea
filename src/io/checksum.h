/* Checksums that find damage and drift, not forgery: XXH3, 64 bits. */
#ifndef RONDE_CHECKSUM_H
#define RONDE_CHECKSUM_H

#include "base/base.h"

uint64_t ronde__checksum(const void *data, size_t bytes);

/* The same in pieces: created once, begun for each sum. */
typedef struct ronde__checksum_state ronde__checksum_state;
ronde__checksum_state *ronde__checksum_create(void);        /* NULL: no memory */
void ronde__checksum_destroy(ronde__checksum_state *state); /* NULL is taken */
void ronde__checksum_begin(ronde__checksum_state *state);
void ronde__checksum_add(ronde__checksum_state *state, const void *data, size_t bytes);
uint64_t ronde__checksum_end(const ronde__checksum_state *state);

#endif

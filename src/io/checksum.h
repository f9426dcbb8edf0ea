/* Checksums that find damage and drift, not forgery: XXH3, 64 bits. */
#ifndef RONDE_CHECKSUM_H
#define RONDE_CHECKSUM_H

#include "base/base.h"

uint64_t ronde__checksum(const void *data, size_t bytes);

#endif

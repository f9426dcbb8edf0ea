/* Counter-based random numbers: every value is a function of (seed, stream, index) and of nothing else, so it does
 * not depend on the caller, the order of calls or the number of ranks.
 * Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011 (Philox4x32-10). */
#ifndef RONDE_RNG_H
#define RONDE_RNG_H

#include <stdint.h>

/* Streams keep the uses apart; the low 32 bits are free for an epoch, a parameter, a layer. */
#define RONDE__STREAM_INIT (1ull << 32)
#define RONDE__STREAM_SHUFFLE (2ull << 32)
#define RONDE__STREAM_VALIDATION (3ull << 32)
#define RONDE__STREAM_SYNTHETIC (4ull << 32)
#define RONDE__STREAM_DROPOUT (5ull << 32)
#define RONDE__STREAM_SAMPLES (6ull << 32)
#define RONDE__STREAM_VIRTUAL (7ull << 32)
#define RONDE__STREAM_LINKS (8ull << 32)
#define RONDE__STREAM_STRAGGLERS (9ull << 32) /* | rank */
#define RONDE__STREAM_TOKENS (10ull << 32)
#define RONDE__STREAM_MASKS (11ull << 32)   /* | epoch */
#define RONDE__STREAM_LENGTHS (12ull << 32) /* | epoch */

void ronde__philox(uint64_t seed, uint64_t stream, uint64_t index, uint32_t out[4]);

typedef struct ronde__rng {
  uint64_t seed, stream, index;
  uint32_t block[4];
  int n_left;
} ronde__rng;

ronde__rng ronde__rng_make(uint64_t seed, uint64_t stream);
uint32_t ronde__rng_u32(ronde__rng *rng);
void ronde__rng_skip(ronde__rng *rng, uint64_t n_u32);  /* in constant time */
uint64_t ronde__rng_below(ronde__rng *rng, uint64_t n); /* uniform in [0, n), unbiased */
float ronde__rng_uniform(ronde__rng *rng);              /* [0, 1), 24 bits */
float ronde__rng_normal(ronde__rng *rng);               /* mean 0, variance 1 (Box-Muller) */
/* Fills ids [n] with a permutation of 0..n-1 (Fisher-Yates). */
void ronde__rng_permutation(ronde__rng *rng, int64_t *ids, int64_t n);

#endif

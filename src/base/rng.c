/* Random numbers by counter: each is a function of seed, stream and index.
 * Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011 (Philox4x32-10). */
#include "base/rng.h"

#include <math.h>

#define PHILOX_ROUNDS 10

void ronde__philox(uint64_t seed, uint64_t stream, uint64_t index, uint32_t out[4]) {
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32), c2 = (uint32_t)stream, c3 = (uint32_t)(stream >> 32);
  for (int round = 0; round < PHILOX_ROUNDS; round++) {
    uint64_t p0 = (uint64_t)c0 * 0xd2511f53u, p1 = (uint64_t)c2 * 0xcd9e8d57u;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c1 = (uint32_t)p1;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c3 = (uint32_t)p0;
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

ronde__rng ronde__rng_make(uint64_t seed, uint64_t stream) { return (ronde__rng){.seed = seed, .stream = stream}; }

uint32_t ronde__rng_u32(ronde__rng *rng) {
  if (rng->n_left == 0) {
    ronde__philox(rng->seed, rng->stream, rng->index++, rng->block);
    rng->n_left = 4;
  }
  return rng->block[4 - rng->n_left--];
}

void ronde__rng_skip(ronde__rng *rng, uint64_t n_u32) {
  uint64_t to = rng->index * 4 - (uint64_t)rng->n_left + n_u32;
  rng->index = to / 4;
  rng->n_left = 0;
  for (uint64_t i = 0; i < to % 4; i++) ronde__rng_u32(rng);
}

static uint64_t rng_u64(ronde__rng *rng) {
  uint64_t low = ronde__rng_u32(rng);
  return low | (uint64_t)ronde__rng_u32(rng) << 32;
}

/* Source: Lemire, "Fast random integer generation in an interval", TOMACS 2019. */
uint64_t ronde__rng_below(ronde__rng *rng, uint64_t n) {
  if (n == 0) return 0;
  if (n <= UINT32_MAX) {
    uint32_t bound = (uint32_t)n, reject = -bound % bound;
    uint64_t product;
    do product = (uint64_t)ronde__rng_u32(rng) * bound;
    while ((uint32_t)product < reject);
    return product >> 32;
  }
  uint64_t reject = -n % n;
  unsigned __int128 product;
  do product = (unsigned __int128)rng_u64(rng) * n;
  while ((uint64_t)product < reject);
  return (uint64_t)(product >> 64);
}

float ronde__rng_uniform(ronde__rng *rng) { return (float)(ronde__rng_u32(rng) >> 8) * 0x1p-24f; }

float ronde__rng_normal(ronde__rng *rng) {
  /* (0, 1]: the logarithm must stay finite. */
  double u = ((double)ronde__rng_u32(rng) + 1.0) * 0x1p-32;
  double angle = (double)ronde__rng_u32(rng) * (0x1p-32 * 2.0 * M_PI);
  return (float)(sqrt(-2.0 * log(u)) * cos(angle));
}

void ronde__rng_permutation(ronde__rng *rng, int64_t *ids, int64_t n) {
  for (int64_t i = 0; i < n; i++) ids[i] = i;
  for (int64_t i = n - 1; i > 0; i--) {
    int64_t j = (int64_t)ronde__rng_below(rng, (uint64_t)i + 1), id = ids[i];
    ids[i] = ids[j];
    ids[j] = id;
  }
}

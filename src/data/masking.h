/* Tokens that are hidden from a network, which is to tell them: between the store and a batch. */
#ifndef RONDE_MASKING_H
#define RONDE_MASKING_H

#include <stdint.h>

typedef struct ronde__masking {
  double share;    /* of an example's tokens that are to be told; 0: labels are as they are stored */
  int32_t token;   /* stands for a hidden one */
  int64_t n_drawn; /* random ones are below it */
  uint64_t seed;
} ronde__masking;

/* How many of n tokens are to be told: the share of them, rounded, but at least one where there are any. */
int64_t ronde__masking_count(const ronde__masking *masking, int64_t n);
/* Changes an example of n tokens x and labels: of the places whose label counts, as many as above are drawn. There the label
 * becomes the token, of which 8 in 10 are hidden, 1 in 10 becomes a random one, and the others stay; elsewhere
 * it is ignored. A function of (seed, epoch, id); epoch 0 does not depend on the seed, for tests. */
void ronde__masking_apply(const ronde__masking *masking, int64_t epoch, int64_t id, int64_t n, int32_t *x,
                          int64_t *labels);

#endif

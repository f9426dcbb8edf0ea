/* Memory that is taken and given back all the time in about the same sizes. What was given back is kept for the next
 * taker, and neighbours are joined. For one thread at a time. */
#ifndef RONDE_BLOCKS_H
#define RONDE_BLOCKS_H

#include "base/base.h"

typedef struct ronde__blocks ronde__blocks;

ronde_status ronde__blocks_create(ronde__blocks **blocks_out);
/* Gives everything back to the system, including what is still taken. */
void ronde__blocks_destroy(ronde__blocks *blocks);
/* 64-byte aligned, not zeroed. NULL where the system has no more; the caller logs it. */
void *ronde__blocks_take(ronde__blocks *blocks, size_t bytes);
void ronde__blocks_give(ronde__blocks *blocks, void *p); /* NULL: nothing */
/* Bytes obtained from the system. */
size_t ronde__blocks_mapped(const ronde__blocks *blocks);

#endif

/* Part of the sampler: which examples of an epoch share a batch, by their lengths. */
#ifndef RONDE_BY_LENGTH_H
#define RONDE_BY_LENGTH_H

#include "base/base.h"

/* Orders ids [n], which are shuffled, into batches of similar length; the last one may be short. lengths: of each id. A function of its
 * arguments alone. */
ronde_status ronde__order_by_length(const int32_t *lengths, int64_t batch, uint64_t seed, int64_t epoch, int64_t *ids,
                                    int64_t n);

#endif

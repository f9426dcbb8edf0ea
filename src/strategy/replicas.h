/* Replicas of a stage: the sum of their gradients, in buckets, from the last layer to the first, each as soon as it is
 * final; what is updated behind it. */
#ifndef RONDE_REPLICAS_H
#define RONDE_REPLICAS_H

#include "strategy/strategy.h"

typedef struct ronde__replicas ronde__replicas;

/* Of at least two; tag: the first of as many as there are buckets. All then have the weights of the first one. */
ronde_status ronde__replicas_create(ronde__worker *worker, const ronde__strategy_settings *settings, uint32_t tag,
                                    ronde__replicas **replicas_out);
void ronde__replicas_destroy(ronde__replicas *replicas); /* NULL is taken */
/* What it takes at most beside the gradients, in bytes, of so many. */
size_t ronde__replicas_bytes(const ronde__options *options, size_t trained);
const ronde__allreduce *ronde__replicas_collective(const ronde__replicas *replicas);

/* From within the backward pass that makes a gradient final. */
void ronde__replicas_final(ronde__replicas *replicas, const ronde__gradient *gradient);
/* Behind it: all are final, where nothing has been told too. Without a thread for it, they are summed here. */
ronde_status ronde__replicas_all_final(ronde__replicas *replicas);
/* Ends the step: waits for the sums. update: of each bucket as it comes, in an update that was begun. */
ronde_status ronde__replicas_end(ronde__replicas *replicas, bool update);

#endif

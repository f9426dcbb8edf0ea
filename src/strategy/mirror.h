/* Shards of an optimizer's state that survive their ranks: each rank has the shard of the rank before it too, as it was behind
 * the last update (the mirror), and what its own update has changed, as it was in front of that. A rank tells the one behind
 * it its shard after each update, before it meets the others in the next step. So those that are left after a loss are at
 * most one update apart, each of them can go back to the older one, and together they have every shard of it, unless two
 * neighbours are lost at once. */
#ifndef RONDE_MIRROR_H
#define RONDE_MIRROR_H

#include "strategy/shard.h"
#include "strategy/strategy.h"

typedef struct ronde__mirror ronde__mirror;

/* In front of ronde__optim_keep, whose state is whole, with the parameters of all there. own, cut and the worker must outlive
 * it. RONDE_E_MEMORY. */
ronde_status ronde__mirror_create(const ronde__worker *worker, const ronde__buckets *cut, bool with_dead,
                                  const ronde__shard *own, ronde__mirror **mirror_out);
void ronde__mirror_destroy(ronde__mirror *mirror); /* NULL is taken */

/* In front of a step's update; */
void ronde__mirror_begin(ronde__mirror *mirror, int64_t step);
/* behind the update of this rank's shard, by all: the mirrors are those of that step, on return. */
ronde_status ronde__mirror_exchange(ronde__mirror *mirror, uint32_t tag);
/* Whether that has been done of this step's update. */
bool ronde__mirror_has(const ronde__mirror *mirror, int64_t step);

/* Parameters, shard and mirror become those behind this step: the last that has updated, or the one before it. */
void ronde__mirror_go_back(ronde__mirror *mirror, int64_t step);
/* Behind that, by all that are left, who are workers `members` [world->size] of the run: arrays get the whole state, and the parameters what is dead of
 * them. RONDE_E_LOST: a shard is lost with its mirror. */
ronde_status ronde__mirror_hand_over(const ronde__mirror *mirror, ronde__transport *world, const int *members,
                                     const ronde__state_array *arrays);
/* Of a worker, given the bytes of all gradients and of the optimizer's state for them. */
size_t ronde__mirror_bytes(size_t gradients, size_t optimizer, int n_workers);

#endif

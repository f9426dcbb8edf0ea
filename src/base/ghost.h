/* Memory without content, for runs in which only time counts: addresses that may be read and written like others, behind
 * which all such blocks share a few pages. So a thousand replicas of a network take the memory of one. What is written
 * there is lost sooner or later; kernels and messages leave it out (kernel.h, comm/sim.h). */
#ifndef RONDE_GHOST_H
#define RONDE_GHOST_H

#include <stdbool.h>
#include <stddef.h>

/* A block of so many bytes, aligned to a page; NULL where there are no addresses for it (more than 64 GiB).
 * ronde__free and ronde__pages_unmap take it; addresses are never used up. */
void *ronde__ghost_map(size_t bytes);
bool ronde__is_ghost(const void *p);

#endif

/* A disk that is slow or full, as --drill rehearses it: faults of the files of a run. Whoever writes one asks here first. */
#ifndef RONDE_DISK_H
#define RONDE_DISK_H

#include <stdatomic.h>

#include "base/time.h"

typedef struct ronde__disk {
  ronde__time *time; /* by which a write is late */
  uint64_t delay_ns; /* of each write */
  atomic_bool full;  /* set by who has it, at any time: writes fail from now on */
} ronde__disk;

/* All writes of this process are to this disk from now on, until NULL is given: rehearsals in one process take turns. */
void ronde__disk_set(ronde__disk *disk);
/* In front of a write or a sync: waits as long as the disk takes. True, with errno ENOSPC, where it is full. */
bool ronde__disk_fails(void);

#endif

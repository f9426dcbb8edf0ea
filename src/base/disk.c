/* Planted faults of the disk: one for the process, as a run has one rank that writes. */
#include "base/disk.h"

#include <errno.h>

static _Atomic(ronde__disk *) present;

void ronde__disk_set(ronde__disk *disk) { atomic_store(&present, disk); }

bool ronde__disk_fails(void) {
  ronde__disk *disk = atomic_load_explicit(&present, memory_order_acquire);
  if (!disk) return false;
  if (disk->delay_ns) ronde__time_sleep(disk->time, disk->delay_ns);
  if (!atomic_load(&disk->full)) return false;
  errno = ENOSPC;
  return true;
}

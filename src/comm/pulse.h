/* What a rank leaves for the others in memory that the ranks of its host share: read also when it has gone. */
#ifndef RONDE_PULSE_H
#define RONDE_PULSE_H

#include <stdatomic.h>

#include "base/base.h"

/* Zero-initialised is ready. */
typedef struct ronde__pulse {
  _Atomic uint64_t doing;  /* of ronde__transport_note */
  _Atomic bool left;       /* it has ended, and said why */
  _Atomic int64_t claimed; /* of the host's first rank: the largest number that one of them has claimed (transport.h) */
} ronde__pulse;

#endif

/* Measures the link between two ranks. */
#ifndef RONDE_PROBE_H
#define RONDE_PROBE_H

#include "comm/transport.h"
#include "prof/trace.h"

typedef struct ronde__link {
  double latency_s;                        /* of a short message, one way: half of the median round trip */
  double to_bytes_per_s, from_bytes_per_s; /* of long messages to the peer, and from it: the best of some */
  /* How far the peer's clock is ahead of this rank's, by the fastest round trip, and half the time of that trip.
   * Source: Cristian, "Probabilistic clock synchronization", 1989. */
  double clock_ahead_s, clock_error_s;
} ronde__link;

/* Both ranks call, each with the other as peer, one of them with `leads`: its link_out is set, the other's is zero. Blocks for about a tenth of a second, or as long as some megabytes take. Errors: those of the transport. */
ronde_status ronde__probe_link(ronde__transport *transport, int peer, bool leads, ronde__link *link_out);

/* The clocks alone, in some milliseconds: the leading rank gets the reading of the peer's clock against its own; the
 * other's is zero. */
ronde_status ronde__probe_clock(ronde__transport *transport, int peer, bool leads, ronde__clock_reading *reading_out);

#endif

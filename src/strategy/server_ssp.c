/* Update on arrival within a bound: a worker that leads the slowest by more than --staleness steps is answered once the
 * slowest has caught up. Each server counts by itself; a worker goes on when all have answered, so that the bound holds
 * for each of them. Source: Ho et al., "More effective distributed ML via a stale synchronous parallel parameter server",
 * NIPS 2013. */
#include "strategy/server_impl.h"

/* Where the run is about to end nobody is waited for. */
static bool leads_by_too_much(const ronde__server *s, int w) {
  int64_t slowest = s->done[w];
  for (int v = 0; v < s->n_workers; v++)
    if (s->clients[v] != RONDE__CLIENT_GONE) slowest = ronde__min(slowest, s->done[v]);
  return !s->stop && s->done[w] - slowest > s->o.settings->options->staleness;
}

ronde_status ronde__server_within_bound(ronde__server *s) {
  s->holds = leads_by_too_much;
  return ronde__server_on_arrival(s);
}

/* Messages in virtual time that wait for their other side. */
#include "comm/sim_queue.h"

#include <stdlib.h>

void ronde__sim_transfer_free(ronde__sim_transfer *t) {
  free(t->kept);
  free(t);
}

void ronde__sim_queue_append(ronde__sim_queue *q, ronde__sim_transfer *t) {
  if (!q->first) q->end = &q->first;
  t->next = NULL;
  t->is_queued = true;
  *q->end = t;
  q->end = &t->next;
}

static ronde__sim_transfer *take(ronde__sim_queue *q, ronde__sim_transfer **link) {
  ronde__sim_transfer *t = *link;
  *link = t->next;
  if (q->end == &t->next) q->end = link;
  t->is_queued = false;
  return t;
}

ronde__sim_transfer *ronde__sim_queue_take(ronde__sim_queue *q, uint32_t tag) {
  for (ronde__sim_transfer **link = &q->first; *link; link = &(*link)->next)
    if ((*link)->tag == tag) return take(q, link);
  return NULL;
}

void ronde__sim_queue_remove(ronde__sim_queue *q, const ronde__sim_transfer *gone) {
  for (ronde__sim_transfer **link = &q->first; *link; link = &(*link)->next)
    if (*link == gone) {
      take(q, link);
      return;
    }
}

void ronde__sim_queue_free(ronde__sim_queue *q) {
  while (q->first) ronde__sim_transfer_free(take(q, &q->first));
}

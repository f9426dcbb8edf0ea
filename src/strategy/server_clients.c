/* Workers that a parameter server serves apart: what is awaited of each, and what each is sent. */
#include "strategy/server_impl.h"

#include "base/ghost.h"

#include <stdlib.h>
#include <string.h>

bool ronde__client_is_done(const ronde__server *s, int w) {
  for (int i = 0; i < RONDE__CLIENT_REQUESTS(s); i++)
    if (ronde__client_requests(s, w)[i].impl) return false;
  return true;
}

ronde_status ronde__client_listen(ronde__server *s, int w) {
  ronde__transport *group = s->group;
  s->clients[w] = RONDE__CLIENT_LISTENING;
  return group->ops->irecv(group, w, RONDE__PS_TAG(RONDE__PS_HEAD), &s->heads[w], sizeof s->heads[w],
                           ronde__client_requests(s, w));
}

ronde_status ronde__client_receive(ronde__server *s, int w) {
  ronde__transport *group = s->group;
  ronde__request *requests = ronde__client_requests(s, w);
  s->clients[w] = RONDE__CLIENT_PUSHING;
  for (int b = 0; b < s->n_buckets; b++)
    if (ronde__server_length(s, b))
      RONDE_TRY(group->ops->irecv(group, w, RONDE__PS_TAG((uint32_t)(RONDE__PS_PUSH + b)),
                                  ronde__client_slot(s, w) + s->begin[b], ronde__server_length(s, b) * sizeof(float),
                                  &requests[b]));
  return group->ops->irecv(group, w, RONDE__PS_TAG(RONDE__PS_RESULT), &s->results[w], sizeof s->results[w],
                           &requests[s->n_buckets]);
}

ronde_status ronde__client_send_values(ronde__server *s, int w) {
  ronde__transport *group = s->group;
  ronde__request *requests = ronde__client_requests(s, w);
  float *copy = ronde__client_slot(s, w);
  if (s->n && !ronde__is_ghost(copy)) memcpy(copy, s->values, s->n * sizeof *s->values);
  for (int b = s->n_buckets - 1; b >= 0; b--)
    if (ronde__server_length(s, b))
      RONDE_TRY(group->ops->isend(group, w, RONDE__PS_TAG((uint32_t)(RONDE__PS_PULL + b)), copy + s->begin[b],
                                  ronde__server_length(s, b) * sizeof(float), &requests[b]));
  return RONDE_OK;
}

ronde_status ronde__clients_create(ronde__server *s) {
  RONDE__ALLOC(s->clients, (size_t)s->n_workers * sizeof *s->clients, "parameter server");
  for (int w = 0; w < s->n_workers; w++) RONDE_TRY(ronde__client_listen(s, w));
  return RONDE_OK;
}

ronde_status ronde__server_note_order(ronde__server *s, int w) {
  if (!s->o.records_order) return RONDE_OK;
  if (s->n_order == s->order_capacity) {
    int64_t capacity = 2 * s->order_capacity + 64;
    ronde__ps_update *larger = realloc(s->order, (size_t)capacity * sizeof *larger);
    if (!larger) return ronde__fail(RONDE_E_MEMORY, "parameter server: no memory for the order of pushes");
    s->order = larger;
    s->order_capacity = capacity;
  }
  s->order[s->n_order++] = (ronde__ps_update){w, s->heads[w].step, s->heads[w].kind};
  return RONDE_OK;
}

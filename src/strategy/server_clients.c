/* Workers that a parameter server serves apart: what is awaited of each, and what each is sent. */
#include "strategy/server_rows.h"

#include "base/ghost.h"

#include <stdlib.h>
#include <string.h>

static ronde__request *requests_of_rows(const ronde__server *s, int w) {
  return ronde__client_requests(s, w) + s->n_buckets + 2;
}

static ronde_status receive_bucket(ronde__server *s, int w, int b) {
  size_t n = ronde__server_pushed_length(s, w, b);
  if (n == 0) return RONDE_OK;
  return s->group->ops->irecv(s->group, w, RONDE__PS_TAG((uint32_t)(RONDE__PS_PUSH + b)),
                              ronde__client_slot(s, w) + s->begin[b], n * sizeof(float),
                              &ronde__client_requests(s, w)[b]);
}

/* Buckets with tables are received once it is known which rows they have. */
static ronde_status learn_rows(ronde__server *s, int w) {
  for (int t = 0; t < s->n_tables; t++) {
    if (requests_of_rows(s, w)[t].impl || ronde__server_rows_is_known(s, w, t)) continue;
    ronde__server_rows_learn(s, w, t);
    for (int b = 0; b < s->n_buckets; b++)
      if (ronde__server_rows_has(s, b, t) && ronde__server_rows_ready(s, w, b)) RONDE_TRY(receive_bucket(s, w, b));
  }
  return RONDE_OK;
}

ronde_status ronde__client_advance(ronde__server *s, int w, bool *done_out) {
  bool pushes = s->clients[w] == RONDE__CLIENT_PUSHING;
  *done_out = false;
  if (pushes) RONDE_TRY(learn_rows(s, w));
  for (int i = 0; i < RONDE__CLIENT_REQUESTS(s); i++)
    if (ronde__client_requests(s, w)[i].impl) return RONDE_OK;
  for (int b = 0; b < s->n_buckets && pushes; b++) ronde__server_rows_spread(s, w, b);
  *done_out = true;
  return RONDE_OK;
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
  RONDE_TRY(ronde__server_rows_receive(s, w, requests_of_rows(s, w)));
  for (int b = 0; b < s->n_buckets; b++)
    if (!ronde__server_rows_in(s, b)) RONDE_TRY(receive_bucket(s, w, b));
  return group->ops->irecv(group, w, RONDE__PS_TAG(RONDE__PS_RESULT), &s->results[w], sizeof s->results[w],
                           &requests[s->n_buckets]);
}

ronde_status ronde__client_send_values(ronde__server *s, int w) {
  ronde__transport *group = s->group;
  ronde__request *requests = ronde__client_requests(s, w);
  RONDE_TRY(ronde__server_rows_tell(s, w, requests_of_rows(s, w)));
  for (int b = s->n_buckets - 1; b >= 0; b--) {
    float *copy = ronde__client_slot(s, w) + s->begin[b];
    size_t n = ronde__server_length(s, b);
    if (ronde__server_rows_in(s, b)) n = ronde__server_rows_gather(s, w, w, b);
    else if (n && !ronde__is_ghost(copy)) memcpy(copy, s->values + s->begin[b], n * sizeof *copy);
    if (n)
      RONDE_TRY(group->ops->isend(group, w, RONDE__PS_TAG((uint32_t)(RONDE__PS_PULL + b)), copy, n * sizeof *copy,
                                  &requests[b]));
  }
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

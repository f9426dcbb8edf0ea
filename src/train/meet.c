/* Where workers meet in the course of a run. If all must be there to the end, this is an all-gather. If those that are
 * left go on without one that is lost, rank 0, which must be there, hears each of them and tells all what it has heard:
 * so they agree on who was there, whoever is lost meanwhile. */
#include "train/rank.h"

#include <inttypes.h>
#include <string.h>

/* Two messages of a meeting between the same two ranks. */
enum { UP, DOWN };

static bool goes_on(const ronde__rank *r) { return r->job->may_lose != NULL; }

ronde_status ronde__rank_hear_all(ronde__transport *transport, uint32_t tag, void *data, size_t bytes) {
  const ronde__transport_ops *ops = transport->ops;
  int n = transport->size;
  if (transport->rank != 0)
    return ronde__transport_send(transport, 0, RONDE__WIRE_TAG(tag, UP), (char *)data + (size_t)transport->rank * bytes,
                                 bytes);
  ronde__request *requests;
  RONDE__ALLOC(requests, (size_t)n * sizeof *requests, "meeting");
  ronde_status status = RONDE_OK;
  for (int i = 1; i < n && status == RONDE_OK; i++)
    status = ops->irecv(transport, i, RONDE__WIRE_TAG(tag, UP), (char *)data + (size_t)i * bytes, bytes, &requests[i]);
  if (status == RONDE_OK) status = ops->wait(transport, requests, n, transport->timeout_ns);
  ops->cancel(transport, requests, n);
  ronde__free(requests);
  for (int i = 1; i < n; i++)
    if (ronde__transport_lost(transport, i)) memset((char *)data + (size_t)i * bytes, 0, bytes);
  return status;
}

ronde_status ronde__rank_tell_all(ronde__transport *transport, uint32_t tag, void *data, size_t bytes) {
  const ronde__transport_ops *ops = transport->ops;
  int n = transport->size;
  if (transport->rank != 0) return ronde__transport_receive(transport, 0, RONDE__WIRE_TAG(tag, DOWN), data, bytes);
  ronde__request *requests;
  RONDE__ALLOC(requests, (size_t)n * sizeof *requests, "meeting");
  ronde_status status = RONDE_OK;
  for (int i = 1; i < n && status == RONDE_OK; i++)
    status = ops->isend(transport, i, RONDE__WIRE_TAG(tag, DOWN), data, bytes, &requests[i]);
  if (status == RONDE_OK) status = ops->wait(transport, requests, n, transport->timeout_ns);
  ops->cancel(transport, requests, n);
  ronde__free(requests);
  return status;
}

/* Results of those that meet, in their order, as those of all workers. */
static void take_heard(ronde__rank *r, int n) {
  memset(r->results, 0, (size_t)r->job->roles.n_workers * sizeof *r->results);
  for (int i = 0; i < n; i++) r->results[ronde__rank_at(r, i)] = r->heard[i];
}

ronde_status ronde__rank_meet(ronde__rank *r) {
  int n = r->job->roles.n_workers;
  size_t bytes = sizeof *r->results;
  ronde__transport *world = ronde__rank_world(r);
  r->results[r->transport->rank].here = true;
  if (!goes_on(r)) RONDE_TRY(ronde__allgather(r->transport, RONDE__TAG_EPOCH, r->results, bytes));
  else {
    memset(r->heard, 0, (size_t)n * bytes);
    r->heard[world->rank] = r->results[r->transport->rank];
    RONDE_TRY(ronde__rank_hear_all(world, RONDE__TAG_EPOCH, r->heard, bytes));
    RONDE_TRY(ronde__rank_tell_all(world, RONDE__TAG_EPOCH, r->heard, (size_t)world->size * bytes));
    take_heard(r, world->size);
  }
  ronde__rank_count_there(r);
  return RONDE_OK;
}

void ronde__rank_count_there(ronde__rank *r) {
  const ronde_hooks *hooks = &r->job->hooks;
  int n_before = r->n_there, n = r->job->roles.n_workers;
  r->n_there = r->place = 0;
  for (int i = 0; i < n; i++) {
    r->n_there += r->results[i].here;
    r->place += r->results[i].here && i < r->transport->rank;
  }
  for (int i = 0; i < n && r->n_there < n_before && r->transport->rank == 0; i++)
    if (!r->results[i].here && hooks->left_out) hooks->left_out(hooks->user, i);
}

ronde_status ronde__rank_share_buffers(ronde__rank *r) {
  size_t n_elems;
  float *values = ronde__net_buffer_values(r->net, &n_elems);
  if (!n_elems) return RONDE_OK;
  return goes_on(r) ? ronde__rank_tell_all(ronde__rank_world(r), RONDE__TAG_EPOCH, values, n_elems * sizeof *values)
                    : ronde__broadcast_tree(r->replicas, RONDE__TAG_EPOCH, 0, values, n_elems * sizeof *values);
}

bool ronde__rank_has_lost(const ronde__rank *r) { return goes_on(r) && r->n_there < r->job->roles.n_workers; }

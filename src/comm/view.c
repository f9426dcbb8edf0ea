/* Some ranks of a transport as a transport of their own: each call goes to the inner one, with its rank numbers, and with
 * the number of its world in the tag. */
#include "comm/collective.h"

static ronde__transport *inner_of(ronde__transport *t, int peer, int *peer_out) {
  const ronde__view *view = (const ronde__view *)t;
  *peer_out = view->ranks[peer];
  return view->inner;
}

static uint32_t tag_of(const ronde__transport *t, uint32_t tag) {
  int world = ((const ronde__view *)t)->world;
  return world ? RONDE__WORLD_TAG(world, tag) : tag;
}

static ronde_status view_isend(ronde__transport *t, int peer, uint32_t tag, const void *data, size_t bytes,
                               ronde__request *request_out) {
  ronde__transport *inner = inner_of(t, peer, &peer);
  tag = tag_of(t, tag);
  return inner->ops->isend(inner, peer, tag, data, bytes, request_out);
}

static ronde_status view_irecv(ronde__transport *t, int peer, uint32_t tag, void *data, size_t bytes,
                               ronde__request *request_out) {
  ronde__transport *inner = inner_of(t, peer, &peer);
  tag = tag_of(t, tag);
  return inner->ops->irecv(inner, peer, tag, data, bytes, request_out);
}

static ronde_status view_irecv_add(ronde__transport *t, int peer, uint32_t tag, ronde__add add, const float *x,
                                   float *sum, size_t n, ronde__request *request_out) {
  ronde__transport *inner = inner_of(t, peer, &peer);
  tag = tag_of(t, tag);
  return inner->ops->irecv_add(inner, peer, tag, add, x, sum, n, request_out);
}

static ronde__transport *within(ronde__transport *t) { return ((ronde__view *)t)->inner; }

static ronde_status view_test(ronde__transport *t, ronde__request *request, bool *done_out) {
  return within(t)->ops->test(within(t), request, done_out);
}

static ronde_status view_wait(ronde__transport *t, ronde__request *requests, int n, uint64_t timeout_ns) {
  return within(t)->ops->wait(within(t), requests, n, timeout_ns);
}

static ronde_status view_wait_some(ronde__transport *t, ronde__request *requests, int n, uint64_t timeout_ns) {
  return within(t)->ops->wait_some(within(t), requests, n, timeout_ns);
}

static void view_cancel(ronde__transport *t, ronde__request *requests, int n) {
  within(t)->ops->cancel(within(t), requests, n);
}

static bool view_lost(ronde__transport *t, int peer, ronde__loss *loss_out) {
  ronde__transport *inner = inner_of(t, peer, &peer);
  return inner->ops->lost(inner, peer, loss_out);
}

static void view_abort(ronde__transport *t) { within(t)->ops->abort(within(t)); }

static void view_destroy(ronde__transport *t) {}

static const ronde__transport_ops view_ops = {
    .name = "view",
    .isend = view_isend,
    .irecv = view_irecv,
    .irecv_add = view_irecv_add,
    .test = view_test,
    .wait = view_wait,
    .wait_some = view_wait_some,
    .cancel = view_cancel,
    .lost = view_lost,
    .abort = view_abort,
    .destroy = view_destroy,
};

ronde__transport *ronde__view_make(ronde__view *view, ronde__transport *inner, const int *ranks, int n) {
  /* Its own counters stay zero: another thread may be counting in the inner one's right now. */
  *view = (ronde__view){.ops = view_ops, .inner = inner, .ranks = ranks};
  if (!inner->ops->irecv_add) view->ops.irecv_add = NULL;
  if (!inner->ops->lost) view->ops.lost = NULL;
  view->head.ops = &view->ops;
  view->head.time = inner->time;
  view->head.rank = inner->rank;
  view->head.size = n;
  view->head.piece_bytes = inner->piece_bytes;
  view->head.process_each = inner->process_each;
  view->head.timeout_ns = inner->timeout_ns;
  for (int i = 0; i < n; i++)
    if (ranks[i] == inner->rank) view->head.rank = i;
  return &view->head;
}

ronde__transport *ronde__view_make_world(ronde__view *view, ronde__transport *inner, const int *ranks, int n, int world,
                                         int *host_of) {
  ronde__view_make(view, inner, ranks, n);
  view->world = world;
  for (int i = 0; i < n; i++) host_of[i] = inner->host_of ? inner->host_of[ranks[i]] : 0;
  if (inner->host_of) view->head.host_of = host_of;
  return &view->head;
}

#include "comm/collective.h"

/* Long enough to hide a message's latency. */
#define MIN_PIECE ((int64_t)(32 << 10) / (int64_t)sizeof(float))
#define MAX_PIECE ((int64_t)RONDE__PIECE_BYTES / (int64_t)sizeof(float))

/* A vector on its way, in pieces; the present and the next are under way. */
typedef struct flow {
  float *x;
  int64_t n, piece, n_pieces;
  ronde__request requests[2];
} flow;

/* Both ends of a message come to the same: in two pieces, within the bounds. */
static int64_t piece_of_length(int64_t n, int64_t most) {
  return ronde__min(n, ronde__min(ronde__max(ronde__ceil_div(n, 2), MIN_PIECE), most));
}

static flow flow_of(const ronde__transport *transport, const float *x, int64_t n) {
  int64_t most = ronde__min((int64_t)(transport->piece_bytes / sizeof(float)), MAX_PIECE);
  flow f = {.x = (float *)x, .n = n, .piece = piece_of_length(n, most)};
  if (n > 0) f.n_pieces = ronde__ceil_div(n, f.piece);
  return f;
}

size_t ronde__exchange_scratch(int64_t n_in) { return 2 * (size_t)piece_of_length(n_in, MAX_PIECE); }

static int64_t length_of(const flow *f, int64_t j) { return ronde__min(f->n - j * f->piece, f->piece); }

static float *landing(const ronde__exchange *e, const flow *in, int64_t j) {
  return e->scratch ? e->scratch + j % 2 * in->piece : in->x + j * in->piece;
}

static bool adds_itself(const ronde__exchange *e) { return e->scratch && e->transport->ops->irecv_add; }

static ronde_status post_receive(const ronde__exchange *e, flow *in, int64_t j) {
  if (adds_itself(e))
    return e->transport->ops->irecv_add(e->transport, e->from, e->wire_tag, e->kernels->add, in->x + j * in->piece,
                                        (size_t)length_of(in, j), &in->requests[j % 2]);
  return e->transport->ops->irecv(e->transport, e->from, e->wire_tag, landing(e, in, j),
                                  sizeof(float) * (size_t)length_of(in, j), &in->requests[j % 2]);
}

static ronde_status post_send(const ronde__exchange *e, flow *out, int64_t j) {
  return e->transport->ops->isend(e->transport, e->to, e->wire_tag, out->x + j * out->piece,
                                  sizeof(float) * (size_t)length_of(out, j), &out->requests[j % 2]);
}

static ronde_status wait(const ronde__exchange *e, ronde__request *requests, int n) {
  return e->transport->ops->wait(e->transport, requests, n, e->transport->timeout_ns);
}

static ronde_status run(const ronde__exchange *e, flow *out, flow *in) {
  if (in->n_pieces > 0) RONDE_TRY(post_receive(e, in, 0));
  for (int64_t j = 0; j < ronde__max(out->n_pieces, in->n_pieces); j++) {
    if (j + 1 < in->n_pieces) RONDE_TRY(post_receive(e, in, j + 1));
    if (j < out->n_pieces) {
      RONDE_TRY(wait(e, &out->requests[j % 2], 1));
      RONDE_TRY(post_send(e, out, j));
    }
    if (j < in->n_pieces) {
      RONDE_TRY(wait(e, &in->requests[j % 2], 1));
      float *x = in->x + j * in->piece;
      if (e->scratch && !adds_itself(e)) e->kernels->add(x, landing(e, in, j), x, length_of(in, j));
    }
  }
  return wait(e, out->requests, 2);
}

ronde_status ronde__exchange_run(const ronde__exchange *e) {
  flow out = flow_of(e->transport, e->out, e->to < 0 ? 0 : e->n_out);
  flow in = flow_of(e->transport, e->in, e->from < 0 ? 0 : e->n_in);
  ronde_status status = run(e, &out, &in);
  if (status != RONDE_OK) {
    e->transport->ops->cancel(e->transport, in.requests, 2);
    e->transport->ops->cancel(e->transport, out.requests, 2);
  }
  return status;
}

/* The pipelined exchange that all collectives are made of: a vector goes out and one comes in, piece by piece, so
 * that one piece is summed while the next is on its way. */
#include "comm/collective.h"

/* Long enough to hide a message's latency. */
#define MIN_PIECE ((int64_t)(32 << 10) / (int64_t)sizeof(float))
#define MAX_PIECE ((int64_t)RONDE__PIECE_BYTES / (int64_t)sizeof(float))
#define MAX_DEPTH 8

/* A vector on its way, in pieces, of which `depth` are under way at a time. Transports between hosts want short
 * pieces; then as many are under way as two long ones hold, so that the link stays busy while its rank computes. */
typedef struct flow {
  float *x;
  int64_t n, piece, n_pieces, depth, n_posted;
  ronde__request requests[MAX_DEPTH];
} flow;

/* The length of a piece: half of the vector, within the bounds. Both ends of a message come to the same length. */
static int64_t piece_of_length(int64_t n, int64_t most) {
  return ronde__min(n, ronde__min(ronde__max(ronde__ceil_div(n, 2), MIN_PIECE), most));
}

static flow flow_of(const ronde__transport *transport, const float *x, int64_t n) {
  int64_t most = ronde__min((int64_t)(transport->piece_bytes / sizeof(float)), MAX_PIECE);
  flow f = {.x = (float *)x, .n = n, .piece = piece_of_length(n, most)};
  f.depth = ronde__min(2 * MAX_PIECE / most, MAX_DEPTH);
  if (n > 0) f.n_pieces = ronde__ceil_div(n, f.piece);
  return f;
}

size_t ronde__exchange_scratch(int64_t n_in) { return 2 * (size_t)piece_of_length(n_in, MAX_PIECE); }

static int64_t flow_piece_length(const flow *f, int64_t j) { return ronde__min(f->n - j * f->piece, f->piece); }

static float *flow_landing(const ronde__exchange *e, const flow *in, int64_t j) {
  return e->scratch ? e->scratch + j % in->depth * in->piece : in->x + j * in->piece;
}

static bool adds_itself(const ronde__exchange *e) { return e->scratch && e->transport->ops->irecv_add; }

static ronde_status flow_receive(const ronde__exchange *e, flow *in, int64_t j) {
  if (adds_itself(e))
    return e->transport->ops->irecv_add(e->transport, e->from, e->wire_tag, e->kernels->add, in->x + j * in->piece,
                                        in->x + j * in->piece, (size_t)flow_piece_length(in, j),
                                        &in->requests[j % in->depth]);
  return e->transport->ops->irecv(e->transport, e->from, e->wire_tag, flow_landing(e, in, j),
                                  sizeof(float) * (size_t)flow_piece_length(in, j), &in->requests[j % in->depth]);
}

static ronde_status flow_wait(const ronde__exchange *e, ronde__request *requests, int64_t n) {
  return e->transport->ops->wait(e->transport, requests, (int)n, e->transport->timeout_ns);
}

static ronde_status flow_send(const ronde__exchange *e, flow *out, int64_t j) {
  ronde__request *request = &out->requests[j % out->depth];
  RONDE_TRY(flow_wait(e, request, 1));
  return e->transport->ops->isend(e->transport, e->to, e->wire_tag, out->x + j * out->piece,
                                  sizeof(float) * (size_t)flow_piece_length(out, j), request);
}

static ronde_status flow_run(const ronde__exchange *e, flow *out, flow *in) {
  for (int64_t j = 0; j < ronde__max(out->n_pieces, in->n_pieces); j++) {
    for (; in->n_posted < ronde__min(in->n_pieces, j + in->depth); in->n_posted++)
      RONDE_TRY(flow_receive(e, in, in->n_posted));
    for (; out->n_posted < ronde__min(out->n_pieces, j + out->depth); out->n_posted++)
      RONDE_TRY(flow_send(e, out, out->n_posted));
    if (j >= in->n_pieces) continue;
    RONDE_TRY(flow_wait(e, &in->requests[j % in->depth], 1));
    float *x = in->x + j * in->piece;
    if (e->scratch && !adds_itself(e)) e->kernels->add(x, flow_landing(e, in, j), x, flow_piece_length(in, j));
  }
  return flow_wait(e, out->requests, out->depth);
}

ronde_status ronde__exchange_run(const ronde__exchange *e) {
  flow out = flow_of(e->transport, e->out, e->to < 0 ? 0 : e->n_out);
  flow in = flow_of(e->transport, e->in, e->from < 0 ? 0 : e->n_in);
  ronde_status status = flow_run(e, &out, &in);
  if (status != RONDE_OK) {
    e->transport->ops->cancel(e->transport, in.requests, (int)in.depth);
    e->transport->ops->cancel(e->transport, out.requests, (int)out.depth);
  }
  return status;
}

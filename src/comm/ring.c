/* Ring all-reduce: each rank's segment travels once round the ring and is summed on the way, then once more and is
 * copied.
 * Source: Patarasuk & Yuan, "Bandwidth optimal all-reduce algorithms", JPDC 2009. The segments go in pieces, so that
 * a rank sums one while the next is coming: cost as in collective.h, plus one piece a step. */
#include "comm/collective.h"

/* Long enough to hide a message's latency; two fit the second-level cache. Larger ones cost less, but leave less to
 * overlap. */
#define MIN_PIECE ((int64_t)(64 << 10) / (int64_t)sizeof(float))
#define MAX_PIECE ((int64_t)(256 << 10) / (int64_t)sizeof(float))

enum { PART_REDUCE, PART_GATHER };

typedef struct ring {
  ronde__transport *transport;
  const ronde__kernels *kernels;
  uint32_t tag;
  float *x, *scratch; /* scratch [2][piece] */
  int64_t n, piece;
  /* The present and the next piece. */
  ronde__request receives[2], sends[2];
} ring;

/* The longest segment in two pieces, within the bounds. */
static int64_t piece_for(int64_t n, int p) {
  int64_t segment = ronde__ceil_div(n, p), half = ronde__ceil_div(segment, 2);
  return ronde__min(segment, ronde__min(ronde__max(half, MIN_PIECE), MAX_PIECE));
}

size_t ronde__allreduce_ring_scratch(size_t n, int p) { return p == 1 ? 0 : 2 * (size_t)piece_for((int64_t)n, p); }

/* A run of x that is cut into pieces. */
typedef struct segment {
  float *x;
  int64_t n, n_pieces;
} segment;

static segment segment_of(const ring *ring, int index) {
  int p = ring->transport->size, r = (index % p + p) % p;
  int64_t begin = ronde__share_begin(ring->n, r, p), end = ronde__share_begin(ring->n, r + 1, p);
  return (segment){ring->x + begin, end - begin, ronde__ceil_div(end - begin, ring->piece)};
}

static float *piece_of(const ring *ring, const segment *segment, int64_t j, int64_t *n_out) {
  *n_out = ronde__min(segment->n - j * ring->piece, ring->piece);
  return segment->x + j * ring->piece;
}

static float *scratch_of(const ring *ring, int64_t j) { return ring->scratch + j % 2 * ring->piece; }

static ronde_status post_receive(ring *ring, const segment *in, int64_t j, int part) {
  ronde__transport *transport = ring->transport;
  int previous = (transport->rank + transport->size - 1) % transport->size;
  int64_t n;
  float *x = piece_of(ring, in, j, &n), *to = part == PART_REDUCE ? scratch_of(ring, j) : x;
  return transport->ops->irecv(transport, previous, RONDE__WIRE_TAG(ring->tag, part), to, sizeof *to * (size_t)n,
                               &ring->receives[j % 2]);
}

static ronde_status post_send(ring *ring, const segment *out, int64_t j, int part) {
  ronde__transport *transport = ring->transport;
  int next = (transport->rank + 1) % transport->size;
  int64_t n;
  const float *x = piece_of(ring, out, j, &n);
  return transport->ops->isend(transport, next, RONDE__WIRE_TAG(ring->tag, part), x, sizeof *x * (size_t)n,
                               &ring->sends[j % 2]);
}

static ronde_status wait(ring *ring, ronde__request *requests, int n) {
  return ring->transport->ops->wait(ring->transport, requests, n, ring->transport->timeout_ns);
}

/* Every rank posts the receive of a piece before it waits for anything of that piece: no cycle of waits. */
static ronde_status step(ring *ring, const segment *out, const segment *in, int part) {
  if (in->n_pieces > 0) RONDE_TRY(post_receive(ring, in, 0, part));
  for (int64_t j = 0; j < ronde__max(out->n_pieces, in->n_pieces); j++) {
    if (j + 1 < in->n_pieces) RONDE_TRY(post_receive(ring, in, j + 1, part));
    if (j < out->n_pieces) {
      RONDE_TRY(wait(ring, &ring->sends[j % 2], 1));
      RONDE_TRY(post_send(ring, out, j, part));
    }
    if (j < in->n_pieces) {
      RONDE_TRY(wait(ring, &ring->receives[j % 2], 1));
      int64_t n;
      float *x = piece_of(ring, in, j, &n);
      if (part == PART_REDUCE) ring->kernels->add(x, scratch_of(ring, j), x, n);
    }
  }
  return wait(ring, ring->sends, 2);
}

static ronde_status rounds(ring *ring) {
  int p = ring->transport->size, rank = ring->transport->rank;
  for (int part = PART_REDUCE; part <= PART_GATHER; part++)
    for (int k = 0; k < p - 1; k++) {
      int first = part == PART_REDUCE ? rank : rank + 1;
      segment out = segment_of(ring, first - k), in = segment_of(ring, first - k - 1);
      RONDE_TRY(step(ring, &out, &in, part));
    }
  return RONDE_OK;
}

ronde_status ronde__allreduce_ring(ronde__transport *transport, const ronde__kernels *kernels, uint32_t tag, float *x,
                                   size_t n, float *scratch) {
  if (transport->size == 1 || n == 0) return RONDE_OK;
  ring ring = {.transport = transport, .kernels = kernels, .tag = tag, .x = x, .scratch = scratch, .n = (int64_t)n};
  ring.piece = piece_for((int64_t)n, transport->size);
  ronde_status status = rounds(&ring);
  if (status != RONDE_OK) {
    transport->ops->cancel(transport, ring.receives, 2);
    transport->ops->cancel(transport, ring.sends, 2);
  }
  return status;
}

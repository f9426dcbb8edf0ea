/* Latency, bandwidth and clock offset of the link between two ranks: one leads, the other answers.
 * Source: Cristian, "Probabilistic clock synchronization", Distributed Computing 1989 (the offset). */
#include "comm/probe.h"

#include "comm/collective.h"

#include <stdlib.h>
#include <string.h>

/* A message is long when it takes LONG_NS or is the longest: a shorter one may fit into buffers on the way. REPEATS of one
 * length must: one alone may have been held up by something else, while buffers emptied for those behind it. */
enum { WARM_UPS = 20, ROUNDS = 101, FIRST_ELEMS = 64 << 10, LAST_ELEMS = 4 << 20, REPEATS = 3 };
#define LONG_NS 30000000u

static ronde_status send_word(ronde__transport *t, int peer, uint64_t word) {
  ronde__request request;
  RONDE_TRY(t->ops->isend(t, peer, RONDE__WIRE_TAG(RONDE__TAG_PROBE_WORD, 0), &word, sizeof word, &request));
  return t->ops->wait(t, &request, 1, t->timeout_ns);
}

static ronde_status receive_word(ronde__transport *t, int peer, uint64_t *word_out) {
  ronde__request request;
  RONDE_TRY(t->ops->irecv(t, peer, RONDE__WIRE_TAG(RONDE__TAG_PROBE_WORD, 0), word_out, sizeof *word_out, &request));
  return t->ops->wait(t, &request, 1, t->timeout_ns);
}

static int by_size(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* The fastest round trip is used for the clocks: half of its time bounds the error. */
static ronde_status lead_round_trips(ronde__transport *t, int peer, uint64_t trips[ROUNDS],
                                     ronde__clock_reading *reading) {
  uint64_t fastest = UINT64_MAX;
  for (int i = 0; i < WARM_UPS + ROUNDS; i++) {
    uint64_t begin = ronde__time_now(t->time), theirs;
    RONDE_TRY(send_word(t, peer, 0));
    RONDE_TRY(receive_word(t, peer, &theirs));
    uint64_t end = ronde__time_now(t->time), trip = end - begin;
    if (i < WARM_UPS) continue;
    trips[i - WARM_UPS] = trip;
    if (trip >= fastest) continue;
    fastest = trip;
    *reading = (ronde__clock_reading){theirs, (int64_t)(theirs - (begin + trip / 2)), (trip + 1) / 2};
  }
  return RONDE_OK;
}

static ronde_status lead_latency(ronde__transport *t, int peer, ronde__link *link) {
  uint64_t trips[ROUNDS];
  ronde__clock_reading reading = {0};
  RONDE_TRY(lead_round_trips(t, peer, trips, &reading));
  qsort(trips, ROUNDS, sizeof *trips, by_size);
  link->latency_s = 0.5e-9 * (double)trips[ROUNDS / 2];
  link->clock_ahead_s = 1e-9 * (double)reading.ahead_ns;
  link->clock_error_s = 1e-9 * (double)reading.error_ns;
  return RONDE_OK;
}

static ronde_status answer_round_trips(ronde__transport *t, int peer) {
  for (int i = 0; i < WARM_UPS + ROUNDS; i++) {
    uint64_t word;
    RONDE_TRY(receive_word(t, peer, &word));
    RONDE_TRY(send_word(t, peer, ronde__time_now(t->time)));
  }
  return RONDE_OK;
}

/* n elements one way. */
static ronde_status probe_move(ronde__transport *t, int to, int from, float *x, uint64_t n) {
  ronde__exchange e = {.transport = t,
                       .wire_tag = RONDE__WIRE_TAG(RONDE__TAG_PROBE_DATA, 0),
                       .to = to,
                       .from = from,
                       .out = x,
                       .in = x,
                       .n_out = to < 0 ? 0 : (int64_t)n,
                       .n_in = from < 0 ? 0 : (int64_t)n};
  return ronde__exchange_run(&e);
}

/* The length goes first, 0 at the end. The receiver confirms when all has arrived. Sets the rate of the fastest. */
static ronde_status lead_transfers(ronde__transport *t, int peer, float *x, bool outwards, double *bytes_per_s_out) {
  uint64_t word, n = FIRST_ELEMS, fastest = UINT64_MAX;
  for (int n_long = 0; n_long < REPEATS;) {
    uint64_t begin = ronde__time_now(t->time);
    RONDE_TRY(send_word(t, peer, n));
    RONDE_TRY(probe_move(t, outwards ? peer : -1, outwards ? -1 : peer, x, n));
    if (outwards) RONDE_TRY(receive_word(t, peer, &word));
    uint64_t took = ronde__time_now(t->time) - begin;
    if (took < LONG_NS && n < LAST_ELEMS) {
      n *= 4;
      n_long = 0;
      fastest = UINT64_MAX;
      continue;
    }
    n_long++;
    if (took < fastest) fastest = took;
  }
  *bytes_per_s_out = 1e9 * (double)(n * sizeof *x) / (double)fastest;
  return send_word(t, peer, 0);
}

static ronde_status answer_transfers(ronde__transport *t, int peer, float *x, bool outwards) {
  for (;;) {
    uint64_t n;
    RONDE_TRY(receive_word(t, peer, &n));
    if (n == 0 || n > LAST_ELEMS)
      return n ? ronde__fail(RONDE_E_INTERNAL, "the peer asked for a message longer than a probe may be") : RONDE_OK;
    RONDE_TRY(probe_move(t, outwards ? -1 : peer, outwards ? peer : -1, x, n));
    if (outwards) RONDE_TRY(send_word(t, peer, 1));
  }
}

ronde_status ronde__probe_link(ronde__transport *transport, int peer, bool leads, ronde__link *link_out) {
  *link_out = (ronde__link){0};
  float *x;
  RONDE__ALLOC(x, LAST_ELEMS * sizeof *x, "link");
  ronde_status status = leads ? lead_latency(transport, peer, link_out) : answer_round_trips(transport, peer);
  for (int outwards = 1; outwards >= 0 && status == RONDE_OK; outwards--) {
    double *rate = outwards ? &link_out->to_bytes_per_s : &link_out->from_bytes_per_s;
    status =
        leads ? lead_transfers(transport, peer, x, outwards, rate) : answer_transfers(transport, peer, x, outwards);
  }
  ronde__free(x);
  return status;
}

ronde_status ronde__probe_clock(ronde__transport *transport, int peer, bool leads, ronde__clock_reading *reading_out) {
  uint64_t trips[ROUNDS];
  *reading_out = (ronde__clock_reading){0};
  return leads ? lead_round_trips(transport, peer, trips, reading_out) : answer_round_trips(transport, peer);
}
